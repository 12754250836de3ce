"""Spark 4.0: DataFrames of the caller, tables of a catalog, and Parquet files where Spark reaches them.

Each answer has a session of its own (spark_session.py), in which every declared table is a view: its columns in their
declared types, a value that cannot be read as its type is NULL. The view of a table is made once for an answer, so all
its queries read one list of files. Nothing is written: views are temporary, and public values go along as tables in
memory. Rows stay in Spark; integer cells come back.

What a version is: a DataFrame or a table of a cluster cannot be hashed as a file is. Its fingerprint is its place and
its columns with their types. A changed column pauses; changed rows are the steward's to declare, by a new `version`.
Checked by: tests/engines/test_spark.py
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import count
from typing import Any

import pyarrow as pa
from sqlglot import exp

from lapwing.engines.dialect import Dialect, EngineQuery
from lapwing.engines.engine import Engine, Fetch, Origin, StoredColumn, StoredTypes, check_unit_types, stored_column
from lapwing.engines.frames import digest_of_rows
from lapwing.engines.interrupt import interruptible
from lapwing.engines.public import public_rows
from lapwing.engines.source import Frame, LocalSource, Source, SparkFrame, SparkTable, check_names
from lapwing.engines.spark_dialect import SPARK
from lapwing.engines.spark_session import Sessions, load_pyspark, open_sessions
from lapwing.engines.time_limit import time_limit
from lapwing.errors import Bug, Misconfigured
from lapwing.expressions.operators.base import try_cast
from lapwing.expressions.refusal import hide_errors
from lapwing.expressions.table import UNIT_ID, Field, Table
from lapwing.expressions.to_sqlglot import STORED
from lapwing.expressions.types import Type

NAME = "Spark"

_TYPES = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), Type.INTEGER),
    **dict.fromkeys(("float", "double", "decimal"), Type.REAL),
    "string": Type.TEXT,
    "boolean": Type.BOOLEAN,
    "date": Type.DATE,
    **dict.fromkeys(("timestamp", "timestamp_ntz"), Type.TIMESTAMP),
}
"""The type that each stored type is read as. Others are not supported, nor is text with a collation, under which
different texts can be one."""

_WITNESS = ".lapwing"
_NO_WITNESS = f"{{{','.join(f'*[!{c}]{_WITNESS[i + 1 :]}' for i, c in enumerate(_WITNESS))}}}"
"""A glob of all names but those of witnesses (curator/settings.py), which are no data."""
_PATIENCE = 0.5  # seconds between two cancellations of a query that is late
_TAGS = count(1)


class SparkEngine:
    """Tables that Spark reads. The salt is secret: it decides which groups of a unit count."""

    def __init__(self, tables: Sequence[tuple[Table, Source]], *, salt: int) -> None:
        self._salt = f"{salt:x}"
        self._tables = list(tables)
        self._sessions = _sessions_of([source for _, source in tables])
        with self._sessions.fresh() as session:
            rows = {table: public_rows(table, source) for table, source in tables if isinstance(source, LocalSource)}
            self._marks = {table.name: digest_of_rows(data) for table, data in rows.items()}
            self._public = {table.name: self._sessions.rows(data) for table, data in rows.items()}
            self._columns = self._declared(session)

    @property
    def dialect(self) -> Dialect:
        return SPARK

    def prepare(self, query: exp.Select | EngineQuery) -> EngineQuery:
        """The query as Spark runs it. Spark has resolved every name and type in it, and read no row."""
        prepared = query if isinstance(query, EngineQuery) else self._written(query)
        with self._sessions.fresh() as session:
            self._make_views(session)
            _add_tables(self._sessions, session, prepared.tables)
            session.sql(prepared.text).schema  # noqa: B018 (a server resolves it when asked)
        return prepared

    def _written(self, query: exp.Select) -> EngineQuery:
        used = {node.name for node in query.find_all(exp.Table)}
        limit = time_limit(table for table, _ in self._tables if table.name in used)
        return replace(SPARK.write(query, salt=self._salt, copy=False), seconds=limit)

    def fetch(self, query: EngineQuery) -> pa.Table:
        with self.snapshot() as fetch:
            return fetch(query)

    @contextmanager
    def snapshot(self) -> Iterator[Fetch]:
        """Every table is looked up once: one plan and one list of files for all queries inside."""
        with self._sessions.fresh() as session:
            self._make_views(session)
            yield lambda query: _run(self._sessions, session, query)

    def origin(self, table: Table) -> Origin:
        """Where the rows are; the fingerprint tells of columns, not of rows."""
        source = next(source for known, source in self._tables if known.name == table.name)
        if isinstance(source, LocalSource):
            return Origin(self._marks[table.name], None, table.name)
        with self._sessions.fresh() as session:
            columns = _stored(_look_up(self._sessions, session, source))
        return _origin(source, table, columns)

    def check(self, table: Table) -> None:
        columns = ", ".join(_quoted(field.name) for field in table.fields)
        text = f"SELECT BIT_XOR(XXHASH64({columns})) AS v FROM {_quoted(table.name)}"
        damaged = f"the data of `{table.name}` are damaged: some values cannot be read. Recreate the files."
        with hide_errors(Exception, lambda _: damaged):
            self.fetch(EngineQuery(text, {}, seconds=time_limit([table])))

    def close(self) -> None:
        """Every session ended with its answer. Spark itself stays for the next curator of this process."""

    def _declared(self, session: Any) -> dict[str, list[str]]:
        sources = [(table, source) for table, source in self._tables if not table.public]
        private = [(table, _stored(_look_up(self._sessions, session, source))) for table, source in sources]
        as_integer = _check_units(private)
        shown = {}
        for table, stored in private:
            columns = [_column(field, stored, table) for field in table.fields]
            if table.unit is not None:
                unit = stored[table.unit.lower()]
                cast = as_integer and unit.type != "bigint"
                text = f"CAST({_quoted(unit.name)} AS BIGINT)" if cast else _quoted(unit.name)
                columns.append(f"{text} AS {_quoted(UNIT_ID)}")
            shown[table.name] = columns
        return shown

    def _make_views(self, session: Any) -> None:
        for table, source in self._tables:
            if table.name in self._public:
                data = self._sessions.moved(self._public[table.name], session)
            else:
                data = _look_up(self._sessions, session, source).selectExpr(*self._columns[table.name])
            data.createOrReplaceTempView(_quoted(table.name))


def open_engine(tables: Sequence[tuple[Table, Source]], *, salt: int, memory: str | None) -> Engine:
    if memory is not None:
        raise Misconfigured("`memory` is DuckDB's. Spark has settings of its own: spark.executor.memory.")
    return SparkEngine(tables, salt=salt)


def stored_types(source: Source, *, guess: bool = False) -> StoredTypes:  # noqa: ARG001 (no file is text)
    sessions = _sessions_of([source])
    with sessions.fresh() as session:
        stored = _stored(_look_up(sessions, session, source))
    types = {column.name: _TYPES[column.type] for column in stored.values() if column.type in _TYPES}
    return StoredTypes(types, (column.name for column in stored.values() if column.type == "timestamp"))


def read_public_rows(source: Source) -> Frame:
    sessions = _sessions_of([source])
    with sessions.fresh() as session:
        data = _look_up(sessions, session, source)
        columns = [_quoted(column.name) for column in _stored(data).values() if column.type in _TYPES]
        rows = data.selectExpr(*columns).toArrow()
    return Frame(rows, mark=digest_of_rows(rows))


def _sessions_of(sources: Sequence[Source]) -> Sessions:
    """The one Spark of all private sources."""
    frames = [source.data for source in sources if isinstance(source, SparkFrame)]
    addresses = {source.address for source in sources if isinstance(source, SparkTable)}
    homes = {_home(data) for data in frames}
    if len(homes) + len(addresses) != 1:
        raise Misconfigured("the private tables are on different Sparks. Bring them together on one of them.")
    if addresses:
        return open_sessions(addresses.pop())
    load_pyspark()
    return Sessions(frames[0].sparkSession)


def _home(data: Any) -> str:
    session = data.sparkSession
    return str(session.client.host if ".connect." in type(session).__module__ else session.sparkContext.applicationId)


def _look_up(sessions: Sessions, session: Any, source: Source) -> Any:
    """The rows of a source in this session, as they are stored."""
    if not isinstance(source, SparkFrame | SparkTable):
        raise Bug(f"{type(source).__name__} is not Spark's")
    place = f"`{source.table}`" if isinstance(source, SparkTable) else "the DataFrame"

    def unreadable(error: Exception) -> str:
        return f"Spark cannot open {place} ({type(error).__name__}). Check the name, the path and the permissions."

    with hide_errors(Exception, unreadable):
        if isinstance(source, SparkFrame):
            rows = sessions.moved(source.data, session)
        elif "/" in source.table:
            rows = session.read.option("pathGlobFilter", _NO_WITNESS).parquet(source.table)
        else:
            rows = session.table(source.table)
        rows.schema  # noqa: B018 (a server looks it up when asked)
        is_fixed = sessions.is_connect or rows._jdf.queryExecution().analyzed().deterministic()
    if not is_fixed:
        raise Misconfigured(
            f"{place} has columns that are not functions of the row, such as rand(), uuid() or "
            "monotonically_increasing_id(): without one person, other people's rows would change. Write it to a table, "
            "and open that."
        )
    return rows


def _stored(data: Any) -> dict[str, StoredColumn]:
    fields = data.schema.fields
    check_names(field.name for field in fields)
    kinds = [(field.name, str(field.dataType.simpleString())) for field in fields]
    # A type is named without its parameters, but with a collation.
    bare = [(name, kind if kind.startswith("string ") else kind.split("(")[0]) for name, kind in kinds]
    return {name.lower(): StoredColumn(name, kind) for name, kind in bare}


def _column(field: Field, stored: Mapping[str, StoredColumn], table: Table) -> str:
    """One declared column, cast if it is stored as another type; NULL if the cast fails."""
    found = stored_column(field, table, stored)
    column, kind = _quoted(found.name), found.type
    if kind not in _TYPES:
        raise Misconfigured(f"`{field.name}` is stored as {kind.split('<')[0]}, which is not supported. Leave it out.")
    if kind == "decimal":
        column = f"CAST({column} AS DOUBLE)" if field.type is not Type.TEXT else column
    elif kind == "timestamp":
        field.check_stored_zone()
        column = f"CAST({column} AS TIMESTAMP_NTZ)"  # in UTC, the time zone of the session
    cast = try_cast(exp.Var(this=column), STORED[field.type], _TYPES[kind])
    return f"{SPARK.write(cast).text} AS {_quoted(field.name)}"


def _check_units(tables: Sequence[tuple[Table, Mapping[str, StoredColumn]]]) -> bool:
    """Whether units must be cast to BIGINT to be compared across tables; refuses units without a common type."""
    owned = [(table, stored[table.unit.lower()].type) for table, stored in tables if table.unit is not None]
    for table, kind in owned:
        if kind not in _TYPES:
            raise Misconfigured(
                f"the unit `{table.unit}` is stored as {kind}. "
                "Store it as plain text or as an integer, with one spelling per unit."
            )
    return check_unit_types(owned, text="string", integers=[k for k, kind in _TYPES.items() if kind is Type.INTEGER])


def _origin(source: Source, table: Table, columns: Mapping[str, StoredColumn]) -> Origin:
    place, part = (str(source.address), source.table) if isinstance(source, SparkTable) else (None, table.name)
    seen = [place or "", part, *(text for column in columns.values() for text in (column.name, column.type))]
    return Origin(hashlib.sha256("\0".join(seen).encode()).digest(), place, part)


def _run(sessions: Sessions, session: Any, query: EngineQuery) -> pa.Table:
    """The rows of a query. Ctrl-C stops it on the cluster too: it runs under a tag of its own."""
    tag = f"lapwing-{os.getpid()}-{next(_TAGS)}"

    def work() -> pa.Table:
        _add_tables(sessions, session, query.tables)
        over = threading.Event()
        threading.Thread(target=_cancel_late, args=(sessions, session, tag, over, query.seconds), daemon=True).start()
        try:
            with sessions.tagged(session, tag):
                return _narrowed(session.sql(query.text).toArrow())
        finally:
            over.set()

    return interruptible(work, lambda: sessions.cancel(session, tag))


def _cancel_late(sessions: Sessions, session: Any, tag: str, over: threading.Event, seconds: int) -> None:
    """Again and again until it is over: one query is several jobs, and Spark cancels only those that run."""
    wait = float(seconds)
    while not over.wait(wait):
        with suppress(Exception):
            sessions.cancel(session, tag)
        wait = _PATIENCE


def _add_tables(sessions: Sessions, session: Any, tables: Mapping[str, pa.Table]) -> None:
    for name, values in tables.items():
        sessions.rows(values, session).createOrReplaceTempView(_quoted(name))


def _narrowed(rows: pa.Table) -> pa.Table:
    """Integers of 8 to 32 bits as those of 64."""
    return rows.cast(pa.schema([(f.name, pa.int64() if pa.types.is_integer(f.type) else f.type) for f in rows.schema]))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
