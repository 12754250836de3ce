"""Queries that run again, planned once: for small tables, planning takes longer than reading.

Guarantee:  a query that is run again gives what it gave. This is only for tables in memory, which do not change once
            loaded, so a plan that was right stays right. A query is planned after its charge and never before, since
            planning looks at what the engine knows of the rows.
Checked by: tests/engines/test_statements.py
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

REMEMBERED = 64


class Statements:
    """One cursor that keeps plans; while one thread has it, others go without."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._cursor = connection.cursor()
        self._names: dict[str, str | None] = {}
        """The statement of each query that was run; None if it ran once."""
        self._lock = threading.Lock()

    @contextmanager
    def entered(self, text: str) -> Iterator[tuple[duckdb.DuckDBPyConnection, str]]:
        """A cursor, and what to run on it for this query."""
        if not self._lock.acquire(blocking=False):
            with self._connection.cursor() as cursor:
                yield cursor, text
            return
        try:
            if len(self._names) >= REMEMBERED and text not in self._names:
                self._forget()
            known = self._names.get(text)
            if known is not None:
                yield self._cursor, f"EXECUTE {known}"
            elif text not in self._names:
                yield self._cursor, text
                self._names[text] = None
            else:
                name = f"lw_{sum(name is not None for name in self._names.values())}"
                yield self._cursor, f"PREPARE {name} AS {text}; EXECUTE {name}"
                self._names[text] = name
        except BaseException:
            self._forget()
            raise
        finally:
            self._lock.release()

    def close(self) -> None:
        self._cursor.close()

    def _forget(self) -> None:
        self._names.clear()
        self._cursor.close()
        self._cursor = self._connection.cursor()
