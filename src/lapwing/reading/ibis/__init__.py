"""Ibis expressions, read node by node into the same question."""

from lapwing.reading.ibis.reader import read_ibis, unbound_table

__all__ = ["read_ibis", "unbound_table"]
