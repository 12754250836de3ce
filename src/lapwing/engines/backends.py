"""Which engine reads a source. Each is a module with the functions of `Backend`; it is imported when a source needs it.

All private tables of a curator are in one place: an answer reads one state of them, and no row leaves its place to meet
another. Public tables may be anywhere: they are read once, when the curator is opened, and go to where the private rows
are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lapwing.engines.engine import Engine, StoredTypes
from lapwing.engines.source import Frame, LocalSource, PostgresTable, Source, SparkFrame, SparkTable
from lapwing.errors import Misconfigured
from lapwing.expressions.table import Table


class Backend(Protocol):
    """What a module with an engine has."""

    NAME: str
    """The engine, as people write it."""

    def stored_types(self, source: Source, *, guess: bool = False) -> StoredTypes:
        """The columns of a source and their types, without unsupported ones; in a CSV file all text, unless `guess` is
        set. Reads no row."""
        ...

    def open_engine(self, tables: Sequence[tuple[Table, Source]], *, salt: int, memory: str | None) -> Engine:
        """The engine on these tables. The sources of public ones are `LocalSource`."""
        ...

    def read_public_rows(self, source: Source) -> Frame:
        """All rows of a public table, with a fingerprint."""
        ...


def backend_of(source: Source) -> Backend:
    match source:
        case PostgresTable():
            from lapwing.engines import postgres

            return postgres
        case SparkTable() | SparkFrame():
            from lapwing.engines import spark

            return spark
        case _:
            from lapwing.engines import duckdb

            return duckdb


def stored_types(source: Source, *, guess: bool = False) -> StoredTypes:
    return backend_of(source).stored_types(source, guess=guess)


def local_source(source: Source) -> LocalSource:
    """The source of a public table: where it is, if this process reads it, or else all its rows."""
    return source if isinstance(source, LocalSource) else backend_of(source).read_public_rows(source)


def open_engine(tables: Sequence[tuple[Table, Source]], *, salt: int, memory: str | None = None) -> Engine:
    """The engine that reads all these tables; the salt is secret."""
    backends = {backend_of(source).NAME: backend_of(source) for table, source in tables if not table.public}
    if len(backends) > 1:
        raise Misconfigured(
            f"the private tables are in different places: {', '.join(sorted(backends))}. "
            "Bring them together, or open a curator for each place on one ledger."
        )
    (backend,) = backends.values() or [backend_of(tables[0][1])]
    return backend.open_engine(tables, salt=salt, memory=memory)
