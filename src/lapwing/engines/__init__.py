"""Where the rows are: one protocol, one engine a file."""

__all__: list[str] = []
