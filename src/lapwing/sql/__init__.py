"""From SQL or Ibis to a question, node by node from allow lists."""

from lapwing.sql.split import read_sql

__all__ = ["read_sql"]
