"""Where test rows live: each engine keeps them in its own way, and every test of the engine suite runs on each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import pyarrow as pa
import pytest

from lapwing.catalog.table import Table
from lapwing.engines.duckdb import DuckDBEngine
from lapwing.engines.engine import Engine
from lapwing.engines.frames import frame_source
from lapwing.engines.source import Source, SparkFrame
from lapwing.engines.spark import SparkEngine

SALT = 2015

Rows = Sequence[tuple[Table, pa.Table]]
"""Declared tables and their rows. The columns have the Arrow types of ARROW_TYPES, or others that an engine stores."""


class Host(Protocol):
    """A place with rows, and the engine that reads them there."""

    name: str

    def sources(self, rows: Rows) -> list[tuple[Table, Source]]:
        """The tables, stored; public ones stay frames."""
        ...

    def engine(self, rows: Rows, *, salt: int = SALT) -> Engine:
        """An engine on new tables with these rows."""
        ...


class DuckDBHost:
    """Rows in memory."""

    name = "duckdb"

    def sources(self, rows: Rows) -> list[tuple[Table, Source]]:
        return [(table, frame_source(data)) for table, data in rows]

    def engine(self, rows: Rows, *, salt: int = SALT) -> Engine:
        return DuckDBEngine([(table, frame_source(data)) for table, data in rows], salt=salt)


class SparkHost:
    """Rows as DataFrames of one session."""

    name = "spark"

    def __init__(self, session: Any) -> None:
        self.session = session

    def sources(self, rows: Rows) -> list[tuple[Table, Source]]:
        return [
            (table, frame_source(data) if table.public else SparkFrame(self.session.createDataFrame(data)))
            for table, data in rows
        ]

    def engine(self, rows: Rows, *, salt: int = SALT) -> Engine:
        return SparkEngine(self.sources(rows), salt=salt)


HOSTS: dict[str, Callable[[pytest.FixtureRequest], Host]] = {
    "duckdb": lambda _: DuckDBHost(),
    "spark": lambda request: SparkHost(request.getfixturevalue("spark")),
}
"""How each is made; a server is started by its fixture when a test first needs it."""
