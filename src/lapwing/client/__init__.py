"""Asks a `lapwing serve` from another machine: the ways to ask of a curator, and the same answers."""

from __future__ import annotations

from lapwing.client.connection import Connection, connect

__all__ = ["Connection", "connect"]
