"""SQL, read node by node into a question."""

from lapwing.reading.sql.reader import read_sql

__all__ = ["read_sql"]
