"""SQL, read node by node into a question."""

from lapwing.query.sql.reader import read_sql

__all__ = ["read_sql"]
