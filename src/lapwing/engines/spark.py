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
import logging
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
from lapwing.engines.engine import Engine, Fetch, Origin, StoredColumns, StoredTypes, check_unit_types
from lapwing.engines.frames import digest_of_rows
from lapwing.engines.interrupt import interruptible
from lapwing.engines.public import public_rows
from lapwing.engines.source import Frame, LocalSource, Source, SparkFrame, SparkTable, check_names
from lapwing.engines.spark_dialect import SPARK
from lapwing.engines.spark_session import Sessions, load_pyspark, open_sessions, silent
from lapwing.engines.time_limit import time_limit
from lapwing.errors import Bug, Misconfigured
from lapwing.expressions.operators.base import try_cast
from lapwing.expressions.refusal import nearest
from lapwing.expressions.table import UNIT_ID, Field, Table
from lapwing.expressions.to_sqlglot import STORED
from lapwing.expressions.types import Type

NAME = "Spark"

_LOG = logging.getLogger("lapwing.engine")

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

_BY_CHANCE = "not deterministic"
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
        with self._quietly(), self._sessions.fresh() as session:
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
        with self._quietly(), self._sessions.fresh() as session:
            self._make_views(session)
            _add_tables(self._sessions, session, prepared.tables)
            session.sql(prepared.text).schema  # noqa: B018 (a server resolves it when asked)
        return prepared

    def _written(self, query: exp.Select) -> EngineQuery:
        used = {node.name for node in query.find_all(exp.Table)}
        limit = time_limit(table for table, _ in self._tables if table.name in used)
        return replace(SPARK.write(query, salt=self._salt, copy=False), seconds=limit)

    def fetch(self, query: EngineQuery) -> pa.Table:
        """The rows of a query."""
        with self.snapshot() as fetch:
            return fetch(query)

    @contextmanager
    def snapshot(self) -> Iterator[Fetch]:
        """Every table is looked up once: one plan and one list of files for all queries inside."""
        with self._quietly(), self._sessions.fresh() as session:
            self._make_views(session)
            yield lambda query: _run(self._sessions, session, query)

    def origin(self, table: Table) -> Origin:
        """Where the rows are; the fingerprint tells of columns, not of rows."""
        source = next(source for known, source in self._tables if known.name == table.name)
        if isinstance(source, LocalSource):
            return Origin(self._marks[table.name], None, table.name)
        with self._quietly(), self._sessions.fresh() as session:
            columns = _stored(self._read(session, source))
        return _origin(source, table, columns)

    def check(self, table: Table) -> None:
        """Reads every value once, so that a damaged file fails for the steward and not for a question."""
        columns = ", ".join(_quoted(field.name) for field in table.fields)
        text = f"SELECT BIT_XOR(XXHASH64({columns})) AS v FROM {_quoted(table.name)}"
        try:
            self.fetch(EngineQuery(text, {}, seconds=time_limit([table])))
            return
        except Exception as error:  # noqa: BLE001 (any message could hold data)
            _LOG.debug("reading failed: %s", type(error).__name__)
        raise Misconfigured(f"the data of `{table.name}` are damaged: some values cannot be read. Recreate the files.")

    def close(self) -> None:
        """Every session ended with its answer. Spark itself stays for the next curator of this process."""

    @contextmanager
    def _quietly(self) -> Iterator[None]:
        """Nothing is logged by Spark's Python, and the caller's active session stays active."""
        with silent(), self._sessions.active_kept():
            yield

    def _declared(self, session: Any) -> dict[str, list[str]]:
        """The columns of every view, by table."""
        private = [(table, _stored(self._read(session, source))) for table, source in self._tables if not table.public]
        as_integer = _check_units(private)
        shown = {}
        for table, stored in private:
            columns = [_column(field, stored, table) for field in table.fields]
            if table.unit is not None:
                column, kind = stored[table.unit.lower()]
                unit = f"CAST({_quoted(column)} AS BIGINT)" if as_integer and kind != "bigint" else _quoted(column)
                columns.append(f"{unit} AS {_quoted(UNIT_ID)}")
            shown[table.name] = columns
        return shown

    def _make_views(self, session: Any) -> None:
        for table, source in self._tables:
            if table.name in self._public:
                data = self._sessions.moved(self._public[table.name], session)
            else:
                data = self._read(session, source).selectExpr(*self._columns[table.name])
            data.createOrReplaceTempView(_quoted(table.name))

    def _read(self, session: Any, source: Source) -> Any:
        return _look_up(self._sessions, session, source)


def open_engine(tables: Sequence[tuple[Table, Source]], *, salt: int, memory: str | None) -> Engine:
    """The engine on tables of one Spark."""
    if memory is not None:
        raise Misconfigured("`memory` is DuckDB's. Spark has settings of its own: spark.executor.memory.")
    return SparkEngine(tables, salt=salt)


def stored_types(source: Source, *, guess: bool = False) -> StoredTypes:  # noqa: ARG001 (no file is text)
    """The columns of a source and their types; those of unsupported types are left out."""
    sessions = _sessions_of([source])
    with silent(), sessions.active_kept(), sessions.fresh() as session:
        stored = _stored(_look_up(sessions, session, source))
    types = {name: _TYPES[kind] for name, kind in stored.values() if kind in _TYPES}
    return StoredTypes(types, (name for name, kind in stored.values() if kind == "timestamp"))


def read_public_rows(source: Source) -> Frame:
    """All rows of a public table, with a fingerprint."""
    sessions = _sessions_of([source])
    with silent(), sessions.active_kept(), sessions.fresh() as session:
        data = _look_up(sessions, session, source)
        columns = [_quoted(name) for name, kind in _stored(data).values() if kind in _TYPES]
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
    failed = None
    try:
        match source:
            case SparkFrame(data=data):
                found = sessions.moved(data, session)
            case SparkTable(table=name) if "/" in name:
                found = session.read.option("pathGlobFilter", _NO_WITNESS).parquet(name)
            case SparkTable(table=name):
                found = session.table(name)
            case _:
                raise Bug(f"{type(source).__name__} is not Spark's")
        found.schema  # noqa: B018 (a server looks it up when asked)
        if sessions.is_connect or found._jdf.queryExecution().analyzed().deterministic():
            return found
        failed = _BY_CHANCE
    except Bug:
        raise
    except Exception as error:  # noqa: BLE001 (Spark's messages quote paths and settings)
        failed = type(error).__name__
    place = f"`{source.table}`" if isinstance(source, SparkTable) else "the DataFrame"
    if failed == _BY_CHANCE:
        raise Misconfigured(
            f"{place} has columns that are not functions of the row, such as rand(), uuid() or "
            "monotonically_increasing_id(): without one person, other people's rows would change. Write it to a table, "
            "and open that."
        )
    raise Misconfigured(f"Spark cannot open {place} ({failed}). Check the name, the path and the permissions.")


def _stored(data: Any) -> StoredColumns:
    """The stored columns, by lower-case name."""
    fields = data.schema.fields
    check_names(field.name for field in fields)
    return {field.name.lower(): (field.name, _kind(field.dataType)) for field in fields}


def _kind(kind: Any) -> str:
    """Spark's name of a type, without parameters but a collation."""
    name = str(kind.simpleString())
    return name if name.startswith("string ") else name.split("(")[0]


def _column(field: Field, stored: StoredColumns, table: Table) -> str:
    """One declared column, cast if it is stored as another type; NULL if the cast fails."""
    found = stored.get(field.name.lower())
    if found is None:
        advice = nearest(field.name, (known for known, _ in stored.values()))
        raise Misconfigured(f"the data of `{table.name}` have no column `{field.name}`. {advice}")
    name, kind = found
    if kind not in _TYPES:
        raise Misconfigured(f"`{field.name}` is stored as {kind.split('<')[0]}, which is not supported. Leave it out.")
    column = _quoted(name)
    if kind == "decimal":
        column = f"CAST({column} AS DOUBLE)" if field.type is not Type.TEXT else column
    elif kind == "timestamp":
        field.check_stored_zone()
        column = f"CAST({column} AS TIMESTAMP_NTZ)"  # in UTC, the time zone of the session
    cast = try_cast(exp.Var(this=column), STORED[field.type], _TYPES[kind])
    return f"{SPARK.write(cast).text} AS {_quoted(field.name)}"


def _check_units(tables: Sequence[tuple[Table, StoredColumns]]) -> bool:
    """Whether units must be cast to BIGINT to be compared across tables; refuses units without a common type."""
    owned = [(table, stored[table.unit.lower()][1]) for table, stored in tables if table.unit is not None]
    for table, kind in owned:
        if kind not in _TYPES:
            raise Misconfigured(
                f"the unit `{table.unit}` is stored as {kind}. "
                "Store it as plain text or as an integer, with one spelling per unit."
            )
    return check_unit_types(owned, text="string", integers=[k for k, kind in _TYPES.items() if kind is Type.INTEGER])


def _origin(source: Source, table: Table, columns: StoredColumns) -> Origin:
    place, part = (str(source.address), source.table) if isinstance(source, SparkTable) else (None, table.name)
    seen = [place or "", part, *(text for pair in columns.values() for text in pair)]
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
    kinds = [pa.int64() if pa.types.is_integer(kind) else kind for kind in rows.schema.types]
    return rows.cast(pa.schema(list(zip(rows.schema.names, kinds, strict=True))))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
