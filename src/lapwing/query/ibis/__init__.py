"""Ibis expressions, read node by node into the same question."""

from lapwing.query.ibis.reader import read_ibis, unbound

__all__ = ["read_ibis", "unbound"]
