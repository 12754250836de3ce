"""Queries that run again, planned once: for small tables, planning takes longer than reading.

Guarantee:  a query that is run again gives what it gave. This is only for tables in memory, which do not change once
            loaded, so a plan that was right stays right. A query is planned after its charge and never before, since
            planning looks at what the engine knows of the rows.
General:    queries that differ only in constants share the plan of one general query, which has parameters in their
            places. A parameter has the type of its constant, and is planned before it has a value. The engine plans a
            condition on a scan anew for every value of a parameter in it, so each stands in a sub-query of its own.
            Where the engine cannot plan the general query, each is planned by itself.
Checked by: tests/engines/test_statements.py
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import duckdb

from lapwing.engines.connection import run

REMEMBERED = 64

Ready = Callable[[], str]
"""What to run: a query, or a statement that is prepared when this is called."""


class Statements:
    """One cursor that keeps plans; while one thread has it, others go without."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._cursor = connection.cursor()
        self._names: dict[str, str | None] = {}
        """The statement of each query that was run; None if it ran once, and nothing if it has no plan of its own."""
        self._lock = threading.Lock()

    @contextmanager
    def entered(
        self, text: str, general: str = "", arguments: str = ""
    ) -> Iterator[tuple[duckdb.DuckDBPyConnection, Ready]]:
        """A cursor, and what to run on it. `general` is the same query for these arguments."""
        if not self._lock.acquire(blocking=False):
            with self._connection.cursor() as cursor:
                yield cursor, lambda: text
            return
        try:
            planned = general or text
            if len(self._names) >= REMEMBERED and planned not in self._names:
                self._forget()
            if planned not in self._names:
                yield self._cursor, lambda: text
                self._names[planned] = None
            else:
                yield self._cursor, partial(self._again, planned, text, arguments)
        except BaseException:
            self._forget()
            raise
        finally:
            self._lock.release()

    def _again(self, planned: str, text: str, arguments: str) -> str:
        name = self._names[planned]
        if name is None:
            name = f"lw_{sum(bool(name) for name in self._names.values())}"
            try:
                run(self._cursor, f"PREPARE {name} AS {planned}")
            except duckdb.InterruptException:
                raise
            except duckdb.Error:
                if planned == text:
                    raise
                name = ""
            self._names[planned] = name
        return f"EXECUTE {name}{arguments}" if name else text

    def close(self) -> None:
        self._cursor.close()

    def _forget(self) -> None:
        self._names.clear()
        self._cursor.close()
        self._cursor = self._connection.cursor()
