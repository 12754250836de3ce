"""Where the rows are: the engine protocol, DuckDB, the sources it reads, and its temporary files."""

__all__: list[str] = []
