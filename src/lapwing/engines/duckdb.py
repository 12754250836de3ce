"""DuckDB: the embedded default.

After loading, the connection is locked: only declared files can be read, and no extension loaded or setting changed.
Parquet and DuckDB files are read in place; CSV files, frames and small Parquet files are loaded once. A value that
cannot be read as its declared type is NULL.
What does not fit into memory goes to files in a private folder (temp_folder.py).
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa
from sqlglot import exp

from lapwing.engines.connection import IS_FIRST, LOCK, connect, run
from lapwing.engines.csv_rows import csv_schema, read_csv_rows
from lapwing.engines.dialect import Dialect, EngineQuery, identifier, quote
from lapwing.engines.duckdb_dialect import DUCKDB, cast_to
from lapwing.engines.engine import Engine, Fetch, Origin, StoredColumn, StoredTypes, check_unit_types, stored_column
from lapwing.engines.interrupt import interruptible
from lapwing.engines.source import (
    COMPRESSED,
    Csv,
    DuckDBTable,
    Frame,
    LocalSource,
    Parquet,
    Source,
    check_file,
    check_names,
    fingerprint,
    origin_of,
    pattern_of,
)
from lapwing.engines.temp_folder import TempFolder
from lapwing.errors import Bug, Misconfigured
from lapwing.expressions.refusal import hide_errors
from lapwing.expressions.table import UNIT_ID, Field, Table
from lapwing.expressions.to_sqlglot import STORED
from lapwing.expressions.types import Type

NAME = "DuckDB"

_SQL_TYPES = {kind: stored.value for kind, stored in STORED.items()}
_EXACT = {
    Type.INTEGER: {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"},
    Type.REAL: {"DOUBLE", "FLOAT"},
    Type.TEXT: {"VARCHAR"},
    Type.BOOLEAN: {"BOOLEAN"},
    Type.DATE: {"DATE"},
    Type.TIMESTAMP: {"TIMESTAMP"},
}
"""Stored types whose values all belong to the declared type."""

_WIDE = ("DECIMAL", "HUGEINT", "UBIGINT", "UHUGEINT")
_ZONED = {"TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"}
_TIMES = {"TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", *_ZONED}
_CALENDAR = {"DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS"}
_AS_TEXT = {"UUID"}
"""Other supported stored types; their casts are safe on every value, for dates within the supported years."""

_OF_PLACE = "Check the path, the format and the permissions."
_OF_VALUES = "A stored value is too large for its type, such as a time in milliseconds. Correct it in the file."

SMALL = 1 << 22
"""The largest Parquet file, in bytes, that is loaded."""

_AT_A_TIME = 122_880
"""The rows DuckDB gives to a thread at once. If no table has more, a second thread would be idle."""


def hide_progress(connection: duckdb.DuckDBPyConnection) -> None:
    """Turns off the bar that DuckDB shows in interactive Python, which would reveal the number of rows and groups. In a
    notebook without ipywidgets it is off already, and DuckDB refuses to set it."""
    if run(connection, "SELECT current_setting('enable_progress_bar')") != [(False,)]:
        run(connection, "SET enable_progress_bar = false")


class DuckDBEngine:
    """Tables in files and frames. The salt is secret: it decides which groups of a unit count. `memory`, for example
    "4GB", is what it may use before it writes to disk; 80% of the machine's memory by default."""

    def __init__(self, tables: Sequence[tuple[Table, LocalSource]], *, salt: int, memory: str | None = None) -> None:
        self._salt = f"{salt:x}"
        self._sources = {table.name: source for table, source in tables}
        self._loaded = self._origins()
        self._kept = {table.name for table, source in tables if _is_kept(table, source)}
        folder = TempFolder()
        self._remove_folder = weakref.finalize(self, folder.remove)
        settings = {
            "temp_directory": str(folder.path),
            "preserve_insertion_order": "false",
            **({} if memory is None else {"memory_limit": memory}),
        }
        self._connection = connect(**settings)
        with hide_errors(duckdb.Error, lambda error: _cannot_be_opened([table.name for table, _ in tables], error)):
            interruptible(lambda: self._load(tables), self._connection.interrupt)
        if self._origins() != self._loaded:  # a version identifies the rows that were loaded
            self.close()
            raise Misconfigured("the data changed while being opened. Open them again when the write has finished.")

    @property
    def dialect(self) -> Dialect:
        return DUCKDB

    def prepare(self, query: exp.Select | EngineQuery) -> EngineQuery:
        prepared = query if isinstance(query, EngineQuery) else DUCKDB.write(query, salt=self._salt, copy=False)
        statements = self._connection.extract_statements(prepared.text)
        if len(statements) != 1:
            raise Bug("a query was written as several")
        return replace(prepared, parsed=statements[0])

    def fetch(self, query: EngineQuery) -> pa.Table:
        with self._connection.cursor() as cursor:
            for name, values in query.tables.items():
                cursor.register(name, values)
            return interruptible(lambda: as_table(cursor, query.text, query.parsed), cursor.interrupt)

    def snapshot(self) -> AbstractContextManager[Fetch]:
        """Files and frames do not change, or are noticed to have changed."""
        return nullcontext(self.fetch)

    def origin(self, table: Table) -> Origin:
        return replace(self._loaded[table.name], fingerprint=fingerprint(self._sources[table.name]))

    def check(self, table: Table) -> None:
        if table.name in self._kept:  # it was read when it was loaded
            return
        columns = ", ".join(f"BIT_XOR(HASH({identifier(field.name)}))" for field in table.fields)
        text = f"SELECT {columns} FROM {identifier(table.name)}"
        damaged = f"the data of `{table.name}` are damaged: some values cannot be read. Recreate the file."
        with hide_errors(duckdb.Error, lambda _: damaged):
            interruptible(lambda: run(self._connection, text), self._connection.interrupt)

    def close(self) -> None:
        self._connection.close()
        self._remove_folder()

    def _origins(self) -> dict[str, Origin]:
        return {name: origin_of(source) for name, source in self._sources.items()}

    def _load(self, tables: Sequence[tuple[Table, LocalSource]]) -> None:
        hide_progress(self._connection)
        paths = [path for _, source in tables if isinstance(source, Parquet) for path in source.files]
        allowed = [pattern_of(path, self._connection) for path in paths] + [str(path.resolve()) for path in paths]
        if allowed:
            run(self._connection, f"SET allowed_paths = [{', '.join(map(quote, allowed))}]")
        relations = [_relation(self._connection, number, source) for number, (_, source) in enumerate(tables)]
        stored = [_describe(self._connection, relation) for relation in relations]
        units = [(t, own.get(t.unit.lower())) for (t, _), own in zip(tables, stored, strict=True) if t.unit is not None]
        as_integer = check_unit_types(
            [(table, unit.type) for table, unit in units if unit], text="VARCHAR", integers=_EXACT[Type.INTEGER]
        )
        for (table, source), relation, columns in zip(tables, relations, stored, strict=True):
            self._declare(table, source, relation, columns, as_integer=as_integer)
        if all(table.name in self._kept and self._count(table) <= _AT_A_TIME for table, _ in tables):
            run(self._connection, "SET threads = 1")
        for statement in LOCK:
            run(self._connection, statement)

    def _declare(
        self, table: Table, source: LocalSource, relation: str, stored: Mapping[str, StoredColumn], *, as_integer: bool
    ) -> None:
        columns = ", ".join(_read(field, stored, table, source) for field in table.fields)
        if table.unit is not None:
            stored_unit = stored[table.unit.lower()]
            if isinstance(source, DuckDBTable) and stored_unit.type == "VARCHAR":
                _check_collation(self._connection, relation, stored_unit.name)
            unit = identifier(stored_unit.name)
            unit = f"CAST({unit} AS BIGINT)" if as_integer and stored_unit.type != "BIGINT" else unit
            columns += f", {unit} AS {identifier(UNIT_ID)}"
        name = identifier(table.name)
        kind = "TABLE" if table.name in self._kept else "VIEW"
        _create(self._connection, f"{kind} {name}", columns, relation, source)
        check_keys(self._connection, name, table)

    def _count(self, table: Table) -> int:
        return int(run(self._connection, f"SELECT COUNT(*) FROM {identifier(table.name)}")[0][0])


def _cannot_be_opened(names: Iterable[str], error: Exception) -> str:
    advice = _OF_VALUES if isinstance(error, duckdb.ConversionException) else _OF_PLACE
    return f"the data of {', '.join(f'`{name}`' for name in names)} cannot be opened. {advice}"


def as_table(connection: duckdb.DuckDBPyConnection, text: str, parsed: Any = None) -> pa.Table:
    """The rows of a query. For few rows the reader takes half as long as DuckDB's own way to a table; since 2.0, which
    warns of it, no longer. There the text is not parsed again if `parsed` is the statement of this very text."""
    if IS_FIRST:
        reader: Any = connection.execute(text).to_arrow_reader()
        return reader.read_all()
    return connection.sql(parsed if parsed is not None and parsed.query == text else text).to_arrow_table()


def _is_kept(table: Table, source: LocalSource) -> bool:
    """True if it is loaded once for all questions. Reopening a small Parquet file takes longer than a question."""
    if isinstance(source, Parquet):
        for path in source.files:
            check_file(path)
        return table.public or sum(path.stat().st_size for path in source.files) <= SMALL
    return table.public or isinstance(source, Csv | Frame)


def store(connection: duckdb.DuckDBPyConnection, name: str, table: Table, source: LocalSource) -> None:
    relation = _relation(connection, 0, source)
    stored = _describe(connection, relation)
    columns = ", ".join(_read(field, stored, table, source) for field in table.fields)
    _create(connection, f"TABLE {name}", columns, relation, source)


def _create(
    connection: duckdb.DuckDBPyConnection, target: str, columns: str, relation: str, source: LocalSource
) -> None:
    """Creates a table or view. A CSV file is added block by block, so that the whole file is never in memory."""
    run(connection, f"CREATE {target} AS SELECT {columns} FROM {relation}")
    if isinstance(source, Csv):
        for rows in read_csv_rows(source):
            connection.register(relation, rows)
            run(connection, f"INSERT INTO {target.split(' ', 1)[1]} SELECT {columns} FROM {relation}")
        connection.unregister(relation)


def is_key(connection: duckdb.DuckDBPyConnection, table: str, fields: Sequence[Field]) -> bool:
    """True if no two rows of a loaded table are equal in these columns, by the `=` of joins. A join compares each
    column in the type it is loaded as, or integers as float64, where joins.py checks that this makes no two of them
    equal. A row with NULL has no match in any join."""
    same = " AND ".join(f"a.{column} = b.{column}" for column in (identifier(field.name) for field in fields))
    pairs = f"SELECT 1 FROM {table} AS a JOIN {table} AS b ON {same} AND a.rowid <> b.rowid LIMIT 1"
    return not run(connection, pairs)


def check_keys(connection: duckdb.DuckDBPyConnection, relation: str, table: Table) -> None:
    """Refuses a loaded table in which a declared key is none."""
    for key in table.keys:
        if not is_key(connection, relation, [table.field(name) for name in key]):
            raise Misconfigured(f"two rows of `{table.name}` have the same {', '.join(key)}. Load it again.")


def _describe(connection: duckdb.DuckDBPyConnection, relation: str) -> dict[str, StoredColumn]:
    rows = run(connection, f"DESCRIBE SELECT * FROM {relation}")
    return {str(name).lower(): StoredColumn(str(name), str(kind)) for name, kind, *_ in rows}


def _check_collation(connection: duckdb.DuckDBPyConnection, relation: str, name: str) -> None:
    """Refuses units stored with a collation, which the engine refuses to compare with another one: 'Ann' and 'ann'
    could be one unit in this table and two in the next, so rows of one could match rows of both."""
    message = (
        f"the unit `{name}` is stored with a collation, under which different texts can be one unit. "
        "Store it as plain VARCHAR, with one spelling per unit."
    )
    with hide_errors(duckdb.BinderException, lambda _: message):
        for other in ("NOCASE", "NOACCENT"):
            run(connection, f"EXPLAIN SELECT 1 FROM {relation} WHERE {identifier(name)} = ('' COLLATE {other})")


def open_engine(tables: Sequence[tuple[Table, Source]], *, salt: int, memory: str | None) -> Engine:
    return DuckDBEngine([(table, local(source)) for table, source in tables], salt=salt, memory=memory)


def local(source: Source) -> LocalSource:
    """The source, if this engine reads it."""
    if not isinstance(source, LocalSource):
        raise Bug("the rows of a server are not DuckDB's")
    return source


def read_public_rows(source: Source) -> Frame:
    raise Bug(f"{type(source).__name__} is read in place")


def stored_types(source: Source, *, guess: bool = False) -> StoredTypes:
    """Columns of other types (times of day, intervals, lists, ...) are left out: their casts are not safe on every
    value."""
    unsupported = "a column of the frame has an unsupported type. Convert it or drop it."
    message = unsupported if isinstance(source, Frame) else f"the data cannot be opened. {_OF_PLACE}"
    with connect() as connection, hide_errors(duckdb.Error, lambda _: message):
        stored = {
            column.name: column.type
            for column in _describe(connection, _relation(connection, 0, local(source))).values()
        }
        unread: list[str] = []
        if guess and isinstance(source, Csv):
            with suppress(duckdb.Error):  # a file on which the guess fails is all text
                pattern = pattern_of(source.path, connection)
                guessed = _describe(connection, _guessing(source, pattern))
                kept = dict(zip(stored, (column.type for column in guessed.values()), strict=False))
                unread = _unread_dates(connection, _guessing(source, pattern, texts=True), kept)
                stored |= {name: kind for name, kind in kept.items() if name not in unread}
    kinds = {name: _type_of(kind) for name, kind in stored.items()}
    zoned = (name for name, kind in stored.items() if kind in _ZONED)
    types = StoredTypes({name: kind for name, kind in kinds.items() if kind is not None}, zoned)
    types.left_out = {name: stored[name] for name, kind in kinds.items() if kind is None}
    types.unread_dates = unread
    return types


def _unread_dates(connection: duckdb.DuckDBPyConnection, texts: str, guessed: Mapping[str, str]) -> list[str]:
    """Columns guessed as dates or times of which no cast reads any of the first rows, such as 31.12.2024."""
    dated = [name for name, kind in guessed.items() if _type_of(kind) in (Type.DATE, Type.TIMESTAMP)]
    if not dated:
        return []
    counts = ", ".join(f"COUNT(TRY_CAST({identifier(name)} AS {guessed[name]}))" for name in dated)
    (row,) = run(connection, f"SELECT {counts} FROM (SELECT * FROM {texts} LIMIT 2048)")
    return [name for name, count in zip(dated, row, strict=True) if count == 0]


def _guessing(source: Csv, pattern: str, *, texts: bool = False) -> str:
    """DuckDB's reader, which guesses types from the first rows, or reads `texts`; to it, all encodings of one byte are
    the same."""
    facts = {"delim": source.delimiter, "quote": source.quote, "decimal_separator": source.decimal}
    encoding = "utf-8" if source.encoding == "utf-8" else "latin-1"
    facts |= {"encoding": encoding, "compression": COMPRESSED.get(source.path.suffix.lower(), "none")}
    said = ", ".join(f"{name} = {quote(fact)}" for name, fact in facts.items())
    nulls = ", ".join(map(quote, ("", *source.null)))
    loose = "null_padding = true, ignore_errors = true, strict_mode = false, hive_partitioning = false"
    loose += ", all_varchar = true" if texts else ""
    return f"read_csv({quote(pattern)}, header = true, {said}, nullstr = [{nulls}], {loose})"


def _type_of(stored: str) -> Type | None:
    """The type a stored column is read as; None if it is not supported."""
    for kind, names in _EXACT.items():
        if stored in names:
            return kind
    if stored.startswith(_WIDE):
        return Type.REAL
    if stored in _TIMES:
        return Type.TIMESTAMP
    return Type.TEXT if stored in _AS_TEXT or stored.startswith("ENUM") else None


def _relation(connection: duckdb.DuckDBPyConnection, number: int, source: LocalSource) -> str:
    match source:
        case Parquet(files=files):
            patterns = [quote(pattern_of(path, connection)) for path in files]
            if len({(state.st_dev, state.st_ino) for state in (path.stat() for path in files)}) < len(files):
                # where rows are units, each row of the file would be two of them
                raise Misconfigured("a file of one table is named twice, or linked to another. Name each file once.")
            check_names(_parquet_names(connection, patterns[0]))
            end = "hive_partitioning = false)"
            described = {tuple(_describe(connection, f"read_parquet({own}, {end}").values()) for own in patterns[1:]}
            relation = f"read_parquet([{', '.join(patterns)}], {end}"
            if described - {tuple(_describe(connection, relation).values())}:
                raise Misconfigured("the files of one table have different columns or types. Write them all alike.")
            return relation
        case Csv():  # only the columns; rows are added block by block
            connection.register(f"lw_lines_{number}", csv_schema(source).empty_table())
            return f"lw_lines_{number}"
        case DuckDBTable(path=path, table=name):
            check_file(path)
            attached = f"{quote(str(path.resolve()))} AS source{number} (READ_ONLY, TYPE duckdb)"
            run(connection, f"ATTACH {attached}")
            return f"source{number}.{identifier(name)}"
        case Frame(data=data):
            connection.register(f"lw_frame_{number}", data)
            return f"lw_frame_{number}"


def _parquet_names(connection: duckdb.DuckDBPyConnection, pattern: str) -> list[str]:
    """The column names as in the file: the engine renames those that differ only by case. The schema lists each node
    before its children; the columns are the children of the first."""
    query = f"SELECT name, coalesce(num_children, 0) FROM parquet_schema({pattern})"
    names, inside = [], 0
    for name, children in run(connection, query)[1:]:
        if inside == 0:
            names.append(str(name))
        inside += children - (inside > 0)
    return names


def _read(field: Field, stored: Mapping[str, StoredColumn], table: Table, source: LocalSource) -> str:
    """One declared column, cast if it is stored as another type; NULL if the cast fails. Messages have no stored name
    of a CSV file: the first line of one without a header is a row."""
    found = stored_column(field, table, stored, hide=isinstance(source, Csv))
    column, kind, name = identifier(found.name), found.type, identifier(field.name)
    if isinstance(source, Csv) and source.decimal == "," and field.type.is_number:  # with a comma, 1.5 is no number
        column = f"TRANSLATE({column}, ',.', '.,')"
    if kind in _EXACT[field.type]:
        return f"{_exact(column, kind, field.type)} AS {name}"
    if _type_of(kind) is None:
        raise Misconfigured(f"`{field.name}` is stored as {kind.split('(')[0]}, which is not supported. Leave it out.")
    if kind in _ZONED:  # a cast would go through the time zone of the process
        field.check_stored_zone()
        column, kind = f"MAKE_TIMESTAMP(EPOCH_US(CAST({column} AS TIMESTAMPTZ)))", "TIMESTAMP"
    # Casting the infinity of milliseconds to DATE fails while the engine plans the query, by its statistics on the
    # largest value, even if such rows are filtered out.
    castable = f"CAST({column} AS TIMESTAMP)" if kind == "TIMESTAMP_MS" else column
    cast = cast_to(castable, _type_of(kind), _SQL_TYPES[field.type])
    if kind in _CALENDAR:  # beyond the years 1 to 9999 even TRY_CAST fails
        first, after = (f"CAST('{day}' AS {kind})" for day in ("0001-01-01", "10000-01-01"))
        cast = f"CASE WHEN {column} >= {first} AND {column} < {after} THEN {cast} END"
    return f"{cast} AS {name}"


def _exact(column: str, stored: str, kind: Type) -> str:
    """The same value in the engine's type. Text is compared byte by byte, whatever collation the column is stored with:
    of values that are equal under a collation the engine returns any, which need not be a declared value."""
    if kind is Type.TEXT:
        return f'{column} COLLATE "C"'
    return column if stored == _SQL_TYPES[kind] else f"CAST({column} AS {_SQL_TYPES[kind]})"
