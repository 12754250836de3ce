"""PostgreSQL: tables and views of a database, read where they are, by a role that may SELECT and nothing else.

A query is one statement. Declared tables are named by WITH, since no view may be created:

    WITH "visits" AS NOT MATERIALIZED (SELECT <each column in its declared type>, <unit> FROM "clinic"."visits"),
         "lw_keys_0" AS (SELECT ... FROM UNNEST($1::bigint[]) ...)         public values, which travel beside the text
    SELECT ...

Public tables travel with each question that needs them. What leaves the server are the cells of a question, one row a
group, as whole numbers: dates and times too, since not every client has all of them.

Guarantee:  what can fail does so before the charge, or on no row at all. `prepare` has the server parse the statement;
            it does not plan it, since the planner looks at the rows' statistics.
What a version is: the table, its columns and their types, the text of a view, and the declared `version`. Changed rows
            are not noticed: to change them, declare another version (docs/warehouse.md).
Checked by: tests/engines/test_postgres.py, and the suite of all engines
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import lru_cache
from itertools import count
from typing import Any

import pyarrow as pa
from sqlglot import exp

from lapwing.engines.dialect import ARROW_TYPES, Dialect, EngineQuery, identifier
from lapwing.engines.engine import Engine, Fetch, Origin, StoredTypes
from lapwing.engines.frames import frame_source
from lapwing.engines.postgres_casts import SQL_TYPES
from lapwing.engines.postgres_columns import check_units, relation_of, select_rows
from lapwing.engines.postgres_dialect import C, postgres_dialect
from lapwing.engines.postgres_session import Connections, ReadTransaction
from lapwing.engines.public import public_rows
from lapwing.engines.source import Frame, LocalSource, PostgresTable, Source, fingerprint, origin_of
from lapwing.engines.time_limit import time_limit
from lapwing.errors import Bug, Misconfigured
from lapwing.expressions.refusal import hide_errors
from lapwing.expressions.table import Field, Table
from lapwing.expressions.types import Type
from lapwing.postgres import load_driver

NAME = "PostgreSQL"

_LONGEST_NAME = 63  # bytes; PostgreSQL cuts longer ones
_MOST_PUBLIC = 1_000_000  # values of a public table
_REMEMBERED = 1024
_COLLATIONS = ("pg_c_utf8", "C.utf8", "C.UTF-8", "en_US.utf8")
"""By which letters beyond ASCII are changed, the best first: letter by letter."""

_ARROW = {
    (20, 21, 23): pa.int64(),
    (1700,): pa.decimal128(38, 0),
    (700, 701): pa.float64(),
    (16,): pa.bool_(),
    (25, 705, 1043): pa.string(),
}
_DATE, _TIMESTAMP = 1082, 1114
"""By PostgreSQL's numbers of types, which never change."""
_DAYS, _MICROSECONDS = ":days", ":microseconds"
"""Behind the name of a column that is a date or a time."""


class PostgresEngine:
    """Tables of one database. The salt is secret: it decides which groups of a unit count."""

    def __init__(self, tables: Sequence[tuple[Table, Source]], *, salt: int) -> None:
        self._salt = f"{salt:x}"
        private = [(table, source) for table, source in tables if isinstance(source, PostgresTable)]
        self._private = [table for table, _ in private]
        self._sources = {table.name: source for table, source in private}
        self._local = {table.name: source for table, source in tables if isinstance(source, LocalSource)}
        self._public = {table.name: _shipped(table, self._local[table.name]) for table, _ in tables if table.public}
        self._loaded = {name: origin_of(source) for name, source in self._local.items()}
        addresses = {source.address.name: source.address for source in self._sources.values()}
        if len(addresses) != 1 or len(self._sources) + len(self._public) != len(tables):
            raise Misconfigured(
                f"the private tables are in different databases: {', '.join(sorted(addresses))}. An answer reads one "
                "state of them, so they must be in one database."
            )
        _check_names(tables)
        self._sessions = Connections(*addresses.values())
        weakref.finalize(self, self._sessions.close)
        self._parsed: dict[str, None] = {}
        try:
            self._texts, self._dialect = self._open(private)
        except BaseException:
            self._sessions.close()
            raise

    @property
    def dialect(self) -> Dialect:
        return self._dialect

    def prepare(self, query: exp.Select | EngineQuery) -> EngineQuery:
        """The query as the server runs it, which has parsed it."""
        if isinstance(query, EngineQuery):
            if query.text not in self._parsed:
                with self._sessions.begin() as session:
                    self._parse(session, query.text)
            return query
        used = {node.name for node in query.find_all(exp.Table)}
        written = self._dialect.write(query, salt=self._salt, copy=False)
        tables = {**written.tables, **{name: rows for name, rows in self._public.items() if name in used}}
        declared = {name: text for name, text in self._texts.items() if name in used}
        names = [f"{identifier(name)} AS NOT MATERIALIZED ({text})" for name, text in declared.items()]
        names += _beside(tables)
        head = f"WITH {', '.join(names)} " if names else ""
        with self._sessions.begin() as session:
            columns = session.parse(head + written.text)
            text = head + _as_integers(written.text, columns)
            if text not in self._parsed:
                self._parse(session, text)
        limit = time_limit(table for table in self._private if table.name in used)
        return EngineQuery(text, dict(sorted(tables.items())), seconds=limit)

    def fetch(self, query: EngineQuery) -> pa.Table:
        with self.snapshot() as fetch:
            return fetch(query)

    @contextmanager
    def snapshot(self) -> Iterator[Fetch]:
        """One transaction, which sees one state of all tables."""
        with self._sessions.begin() as session:
            yield lambda query: _fetched(session, query)

    def origin(self, table: Table) -> Origin:
        if table.name in self._local:
            return replace(self._loaded[table.name], fingerprint=fingerprint(self._local[table.name]))
        source = self._sources[table.name]
        with self._sessions.begin() as session:
            mark = relation_of(session, source).fingerprint
        return Origin(mark, source.address.name, f"{source.schema}.{source.table}")

    def check(self, table: Table) -> None:
        """Reads no rows: PostgreSQL checked every value when it was written, and no column's text fails on any."""

    def close(self) -> None:
        self._sessions.close()

    def _open(self, private: Sequence[tuple[Table, PostgresTable]]) -> tuple[dict[str, str], Dialect]:
        with self._sessions.begin() as session:
            relations = [(table, source, relation_of(session, source)) for table, source in private]
            check_units([(table, relation) for table, _, relation in relations])
            texts = {table.name: select_rows(table, source, relation) for table, source, relation in relations}
            collation = _collation(session)
        for table, source, _ in relations:
            self._check_granted(table, source, texts[table.name])
        return texts, postgres_dialect(collation)

    def _check_granted(self, table: Table, source: PostgresTable, text: str) -> None:
        """Reads the columns of no row, which needs the right to read them."""
        schema = identifier(source.schema)
        advice = (
            f"Have the owner run: GRANT USAGE ON SCHEMA {schema} TO ...; "
            f"GRANT SELECT ON {schema}.{identifier(source.table)} TO ...;"
        )

        def denied(error: Exception) -> str:
            return f"the data of `{table.name}` cannot be read by this user ({type(error).__name__}). {advice}"

        with hide_errors(load_driver().Error, denied), self._sessions.begin() as session:
            session.rows(f"{text} LIMIT 0")

    def _parse(self, session: ReadTransaction, text: str) -> None:
        session.parse(text)
        if len(self._parsed) >= _REMEMBERED:
            self._parsed.clear()
        self._parsed[text] = None


def open_engine(tables: Sequence[tuple[Table, Source]], *, salt: int, memory: str | None) -> Engine:
    if memory is not None:
        raise Misconfigured(
            "`memory` is for files; the server has its own. Remove it, and have its owner set work_mem for the role."
        )
    return PostgresEngine(tables, salt=salt)


def stored_types(source: Source, *, guess: bool = False) -> StoredTypes:  # noqa: ARG001
    """The columns of a table that are of supported types. Nothing is guessed: they have types."""
    place = _table(source)
    with _transaction(place) as session:
        columns = relation_of(session, place).columns.values()
    kinds = {column.name: column.kind for column in columns}
    zoned = (column.name for column in columns if column.type == "timestamptz")
    types = StoredTypes({name: kind for name, kind in kinds.items() if kind is not None}, zoned)
    types.left_out = {column.name: column.type for column in columns if column.kind is None}
    return types


def read_public_rows(source: Source) -> Frame:
    place = _table(source)
    types = stored_types(place)
    fields = tuple(Field(name, kind) for name, kind in types.items())
    table = Table(place.table, fields, None, public=True)
    denied = f"`{place.schema}.{place.table}` cannot be read by this user. Have its owner GRANT SELECT."
    with hide_errors(load_driver().Error, lambda _: denied), _transaction(place) as session:
        text = select_rows(table, place, relation_of(session, place))
        rows = _fetched(session, EngineQuery(_as_integers(text, session.parse(text)), {}))
    utc = pa.timestamp("us", "UTC")
    return frame_source(rows.cast(pa.schema([(f.name, utc if f.name in types.zoned else f.type) for f in rows.schema])))


def _table(source: Source) -> PostgresTable:
    if not isinstance(source, PostgresTable):
        raise Bug("a file is not PostgreSQL's")
    return source


@contextmanager
def _transaction(source: PostgresTable) -> Iterator[ReadTransaction]:
    """One, on a connection of its own."""
    with closing(Connections(source.address)) as sessions, sessions.begin() as session:
        yield session


def _collation(session: ReadTransaction) -> str | None:
    text = "SELECT collname::text FROM pg_collation WHERE collencoding IN (-1, pg_char_to_encoding('UTF8'))"
    names = {row[0] for row in session.rows(text)}
    return next((identifier(name) for name in _COLLATIONS if name in names), None)


def _shipped(table: Table, source: LocalSource) -> pa.Table:
    rows = public_rows(table, source)
    if rows.num_rows * rows.num_columns > _MOST_PUBLIC:
        raise Misconfigured(
            f"the public table `{table.name}` has more than {_MOST_PUBLIC:,} values, too many to send to the server "
            "with a question. Keep the columns and rows that questions need."
        )
    return rows


def _check_names(tables: Sequence[tuple[Table, Source]]) -> None:
    names = [name for table, _ in tables for name in (table.name, *(field.name for field in table.fields))]
    long = next((name for name in names if len(name.encode()) > _LONGEST_NAME), None)
    if long is not None:
        raise Misconfigured(
            f"`{long}` is longer than {_LONGEST_NAME} bytes, which PostgreSQL cuts. Use a shorter name."
        )


def _beside(tables: Mapping[str, pa.Table]) -> Iterator[str]:
    """The tables that travel beside the text, column by column, as arrays."""
    numbers, types = count(1), {arrow: kind for kind, arrow in ARROW_TYPES.items()}
    for name, rows in sorted(tables.items()):
        kinds = [types[arrow] for arrow in rows.schema.types]
        arrays = ", ".join(f"${next(numbers)}::{SQL_TYPES[kind]}[]" for kind in kinds)
        columns = [identifier(column) for column in rows.schema.names]
        shown = ", ".join(
            f"({column} {C}) AS {column}" if kind is Type.TEXT else column
            for column, kind in zip(columns, kinds, strict=True)
        )
        yield f"{identifier(name)} AS (SELECT {shown} FROM UNNEST({arrays}) AS lw_sent({', '.join(columns)}))"


def _as_integers(text: str, columns: Sequence[tuple[str, int]]) -> str:
    """The query with dates and times as numbers since 1970; those without an end are NULL."""
    if not any(kind in (_DATE, _TIMESTAMP) for _, kind in columns):
        return text
    shown = []
    for name, kind in columns:
        column = identifier(name)
        if kind == _DATE:
            column = f"CASE WHEN ISFINITE({column}) THEN {column} - DATE '1970-01-01' END AS {identifier(name + _DAYS)}"
        elif kind == _TIMESTAMP:
            number = f"CAST(EXTRACT(EPOCH FROM {column}) * 1000000 AS BIGINT)"
            column = f"CASE WHEN ISFINITE({column}) THEN {number} END AS {identifier(name + _MICROSECONDS)}"
        shown.append(column)
    return f"SELECT {', '.join(shown)} FROM ({text}) AS lw_out"


def _fetched(session: ReadTransaction, query: EngineQuery) -> pa.Table:
    sent = [column.to_pylist() for _, rows in sorted(query.tables.items()) for column in rows.columns]
    cursor = session.run(query.text, sent, seconds=query.seconds)
    described = [(column.name, column.type_code) for column in cursor.description]
    rows = cursor.fetchall()
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(described)
    arrays = {}
    for (name, kind), values in zip(described, columns, strict=True):
        plain, read = _reader(name, kind)
        arrays[plain] = read(values)
    return pa.table(arrays)


@lru_cache(maxsize=256)
def _reader(name: str, kind: int) -> tuple[str, Callable[[Sequence[Any]], pa.Array]]:
    """The name of a column in the answer, and how its values are read."""
    if name.endswith(_DAYS):
        return name.removesuffix(_DAYS), lambda values: pa.array(values, pa.int32()).cast(pa.date32())
    if name.endswith(_MICROSECONDS):
        return name.removesuffix(_MICROSECONDS), lambda values: pa.array(values, pa.int64()).cast(pa.timestamp("us"))
    arrow = next((arrow for kinds, arrow in _ARROW.items() if kind in kinds), None)
    if arrow is None:
        raise Bug(f"the server gave a column of type {kind}")
    return name, lambda values: pa.array(values, arrow)
