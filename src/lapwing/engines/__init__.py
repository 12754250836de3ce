"""Where the rows are: DuckDB, the sources it reads, and the files it spills to."""

__all__: list[str] = []
