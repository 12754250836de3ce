"""Where test rows live: each engine keeps them in its own way, and every test of the engine suite runs on each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pytest

from lapwing.engines.dialect import Dialect
from lapwing.engines.duckdb import DuckDBEngine
from lapwing.engines.engine import Engine
from lapwing.engines.frames import frame_source
from lapwing.engines.postgres import PostgresEngine
from lapwing.engines.source import Source, SparkFrame, read_source
from lapwing.engines.spark import SparkEngine
from lapwing.expressions.table import Table
from support.members import functions_in, values_in

if TYPE_CHECKING:
    from support.postgres import PostgresServer

SALT = 2015
COLLATION = '"C.utf8"'

Rows = Sequence[tuple[Table, pa.Table]]
"""Declared tables and their rows. The columns have the Arrow types of ARROW_TYPES, or others that an engine stores."""


class Host(Protocol):
    """A place with rows, and the engine that reads them there."""

    name: str
    quick: int
    """How many random questions a sweep asks in `make test`."""
    questions: int
    """How many in `make test-all`, which asks ten times as many others too."""

    def sources(self, rows: Rows) -> list[tuple[Table, Source]]:
        """The tables, stored; public ones stay frames."""
        ...

    def engine(self, rows: Rows, *, salt: int = SALT) -> Engine:
        """An engine on new tables with these rows."""
        ...

    def log(self) -> str:
        """What the engine wrote to its logs and folders, if it has any."""
        ...

    def close(self) -> None: ...


class DuckDBHost:
    """Rows in memory."""

    name = "duckdb"
    quick, questions = 20, 100

    def sources(self, rows: Rows) -> list[tuple[Table, Source]]:
        return [(table, frame_source(data)) for table, data in rows]

    def engine(self, rows: Rows, *, salt: int = SALT) -> Engine:
        return DuckDBEngine([(table, frame_source(data)) for table, data in rows], salt=salt)

    def log(self) -> str:
        return ""

    def close(self) -> None:
        """Nothing stays."""


class PostgresHost:
    """A database of its own; Lapwing connects as a role that may SELECT and nothing else."""

    name = "postgres"
    quick, questions = 20, 300

    def __init__(self, server: PostgresServer) -> None:
        self._server, self._names, self.password = server, count(1), server.password
        self.database, self.user = server.new_database(), f"reader_{next(_READERS)}"
        self._owner = server.connect(self.database)
        for statement in (
            f"CREATE ROLE {self.user} LOGIN PASSWORD '{server.password}'",
            f"REVOKE ALL ON DATABASE {self.database} FROM PUBLIC",
            f"GRANT CONNECT ON DATABASE {self.database} TO {self.user}",
            "REVOKE ALL ON SCHEMA public FROM PUBLIC",
            f"GRANT USAGE ON SCHEMA public TO {self.user}",
        ):
            self.run(statement)

    @property
    def url(self) -> str:
        return self._server.url(self.database, self.user)

    def run(self, statement: str, *values: Any) -> Any:
        """As the owner of the database."""
        return self._owner.execute(statement, values or None)

    def store(self, data: pa.Table) -> str:
        """A new table with these rows, which the role may read."""
        name = f"t{next(self._names)}"
        columns = ", ".join(f'"{field.name}" {_SQL_TYPES[field.type]}' for field in data.schema)
        self.run(f"CREATE TABLE {name} ({columns})")
        self.run(f"GRANT SELECT ON {name} TO {self.user}")
        with self._owner.cursor().copy(f"COPY {name} FROM STDIN") as copy:
            for row in zip(*(column.to_pylist() for column in data.columns), strict=True):
                copy.write_row(row)
        return name

    def sources(self, rows: Rows) -> list[tuple[Table, Source]]:
        return [
            (table, frame_source(data) if table.public else read_source(self.url, self.store(data)))
            for table, data in rows
        ]

    def engine(self, rows: Rows, *, salt: int = SALT) -> Engine:
        return PostgresEngine(self.sources(rows), salt=salt)

    def log(self) -> str:
        return self._server.log()

    def close(self) -> None:
        self._owner.close()


class SparkHost:
    """Rows as DataFrames of one session. Spark interprets queries here: to compile one takes longer than a dozen rows.

    test_spark.py asks compiled ones."""

    name = "spark"
    quick, questions = 6, 50

    def __init__(self, session: Any) -> None:
        self._folder: Path = session.folder
        self.session = session.newSession()
        for name, value in _INTERPRETED.items():
            self.session.conf.set(name, value)

    def sources(self, rows: Rows) -> list[tuple[Table, Source]]:
        return [
            (table, frame_source(data) if table.public else SparkFrame(self.session.createDataFrame(data)))
            for table, data in rows
        ]

    def engine(self, rows: Rows, *, salt: int = SALT) -> Engine:
        return SparkEngine(self.sources(rows), salt=salt)

    def log(self) -> str:
        """Everything that the driver and the executors of this Spark have written."""
        files = [path for path in self._folder.rglob("*") if path.is_file() and not path.is_symlink()]
        logs = [path for path in files if path.suffix == ".log" or path.name in ("stdout", "stderr")]
        return "".join(path.read_text(encoding="utf-8", errors="replace") for path in logs)

    def close(self) -> None:
        """The session is stopped by its fixture."""


_INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}
_READERS = count(1)
_SQL_TYPES = {
    pa.int64(): "bigint",
    pa.timestamp("us", "UTC"): "timestamptz",
    pa.int32(): "integer",
    pa.int16(): "smallint",
    pa.int8(): "smallint",
    pa.float64(): "double precision",
    pa.float32(): "real",
    pa.string(): "text",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp",
    pa.null(): "text",
}


HOSTS: dict[str, Callable[[pytest.FixtureRequest], Host]] = {
    "duckdb": lambda _: DuckDBHost(),
    "postgres": lambda request: PostgresHost(request.getfixturevalue("postgres")),
    "spark": lambda request: SparkHost(request.getfixturevalue("spark")),
}
"""How each is made; a server is started by its fixture when a test first needs it."""


def dialects() -> dict[str, Dialect]:
    """Every dialect, found by looking: a value of a module of engines, or what a function there makes."""
    made = {one.name: one for one in values_in(Dialect, "lapwing.engines").values()}
    makers = (one for one in functions_in("lapwing.engines") if one.__annotations__.get("return") == "Dialect")
    return made | {one.name: one for one in (make(COLLATION) for make in makers)}
