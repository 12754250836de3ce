"""The command line: parse, call, print."""

__all__: list[str] = []
