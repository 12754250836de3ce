"""Where the rows are: the protocol of an engine, DuckDB, the sources it reads, and the files it spills to."""

__all__: list[str] = []
