"""What Lapwing requires of an engine. Its tables are declared when it is created, and do not change afterwards.

Only curator/private_data.py runs queries on an engine. Everything that can fail without rows fails in `prepare`, which
is called before the charge; `fetch` is called after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from sqlglot import exp

from lapwing.engines.dialect import Dialect, EngineQuery
from lapwing.errors import Misconfigured
from lapwing.expressions.table import Table
from lapwing.expressions.types import Type


class StoredTypes(dict[str, Type]):
    """The type of each column of a source."""

    zoned: frozenset[str] = frozenset()
    """Columns with a time zone: their timestamps are read in UTC."""

    def __init__(self, types: Mapping[str, Type], zoned: Iterable[str]) -> None:
        super().__init__(types)
        self.zoned = frozenset(zoned)
        if not types:
            raise Misconfigured(
                "the data have no column of a supported type: numbers, text, booleans, dates, timestamps."
            )


Fetch = Callable[[EngineQuery], pa.Table]
"""The rows of a query."""

StoredColumns = dict[str, tuple[str, str]]
"""Stored columns by lower-case name: the name, and the engine's own type without parameters."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the rows of a table are, and their fingerprint, as the ledger records them."""

    fingerprint: bytes
    place: str | None
    """None for rows in memory."""
    part: str = ""
    """Which table in that file."""


class Engine(Protocol):
    """Runs cells queries on declared tables. It never sees an analyst's text."""

    @property
    def dialect(self) -> Dialect: ...

    @property
    def checks_limits(self) -> bool:
        """Whether answers say how much limits cut, unless it is turned off: one more pass over the rows."""
        ...

    def prepare(self, query: exp.Select | EngineQuery) -> EngineQuery:
        """The query as the engine runs it, written already or not, checked as far as possible without a row."""
        ...

    def fetch(self, query: EngineQuery) -> pa.Table:
        """The rows: integers as int64 or decimal128(38, 0), other values as in ARROW_TYPES. Ctrl-C stops it."""
        ...

    def snapshot(self) -> AbstractContextManager[Fetch]:
        """Inside, `fetch` for several queries that all see one state of the rows: those of one answer."""
        ...

    def check(self, table: Table) -> None:
        """Reads every value once; raises Misconfigured if one cannot be read."""
        ...

    def origin(self, table: Table) -> Origin:
        """Where the rows of a declared table are, and their current fingerprint."""
        ...

    def close(self) -> None: ...
