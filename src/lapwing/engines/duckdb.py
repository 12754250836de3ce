"""DuckDB: the embedded default.

After loading, the connection is locked: no file but the declared ones can be reached, no extension, no setting changed.
Parquet and DuckDB files are read in place; CSV files and frames are loaded once. A value that does not read as its
declared type is NULL.
"""

from __future__ import annotations

import csv
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from sqlglot import exp

from lapwing.engines.source import Csv, DuckDBTable, Frame, Parquet, Source
from lapwing.errors import Misconfigured
from lapwing.query.catalog import UNIT_ID, Field, Table
from lapwing.query.types import Type
from lapwing.query.verdict import nearest

_LOG = logging.getLogger("lapwing.engine")

_SQL_TYPES = {
    Type.INTEGER: "BIGINT",
    Type.REAL: "DOUBLE",
    Type.TEXT: "VARCHAR",
    Type.BOOLEAN: "BOOLEAN",
    Type.DATE: "DATE",
    Type.TIMESTAMP: "TIMESTAMP",
}
_AS_IT_IS = {
    Type.INTEGER: {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"},
    Type.REAL: {"DOUBLE", "FLOAT"},
    Type.TEXT: {"VARCHAR"},
    Type.BOOLEAN: {"BOOLEAN"},
    Type.DATE: {"DATE"},
    Type.TIMESTAMP: {"TIMESTAMP"},
}
"""Stored types that need no cast."""

_LONGEST_HEADER = 1 << 20  # bytes

_LOCK = (
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)


class DuckDBEngine:
    """Runs the cells query of a plan. It never sees an analyst's text."""

    def __init__(self, tables: Sequence[tuple[Table, Source]], *, salt: int) -> None:
        self._salt = salt
        self._connection = duckdb.connect(":memory:", config={"python_enable_replacements": "false"})
        try:
            self._load(tables)
            return
        except duckdb.Error as error:
            _LOG.debug("loading failed: %s", type(error).__name__)
        names = ", ".join(f"`{table.name}`" for table, _ in tables)
        raise Misconfigured(f"the data of {names} cannot be opened. Check path, format and rights.")

    def cells(self, query: exp.Select) -> pa.Table:
        """The rows of a cells query."""
        return self._connection.cursor().sql(query.sql(dialect="duckdb", copy=False)).to_arrow_table()

    def keyed_hash(self, columns: list[exp.Expression]) -> exp.Expression:
        """A 64-bit hash of the columns and the secret salt."""
        salt = exp.Literal.string(f"{self._salt:x}")
        return exp.Anonymous(this="hash", expressions=[*columns, salt])

    def close(self) -> None:
        self._connection.close()

    def _load(self, tables: Sequence[tuple[Table, Source]]) -> None:
        paths = [str(source.path.resolve()) for _, source in tables if isinstance(source, Parquet)]
        if paths:
            self._connection.execute(f"SET allowed_paths = [{', '.join(map(_quoted, paths))}]")
        for number, (table, source) in enumerate(tables):
            self._declare(table, source, _stored(self._connection, number, source))
        for statement in _LOCK:
            self._connection.execute(statement)

    def _declare(self, table: Table, source: Source, relation: str) -> None:
        stored = {
            str(row[0]).lower(): row
            for row in self._connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
        }
        columns = ", ".join(_read(field, stored, table, hide=isinstance(source, Csv)) for field in table.fields)
        if table.unit is not None:
            columns += f", {_identifier(str(stored[table.unit.lower()][0]))} AS {_identifier(UNIT_ID)}"
        kind = "TABLE" if isinstance(source, Csv | Frame) else "VIEW"
        self._connection.execute(f"CREATE {kind} {_identifier(table.name)} AS SELECT {columns} FROM {relation}")


def stored_types(source: Source, *, guess: bool = False) -> dict[str, Type]:
    """The columns of a source and the types they are stored as; of a CSV all text, unless types shall be guessed."""
    described: list[Any] | None = None
    with duckdb.connect(":memory:", config={"python_enable_replacements": "false"}) as connection:
        try:
            described = connection.execute(f"DESCRIBE SELECT * FROM {_stored(connection, 0, source)}").fetchall()
            if guess and isinstance(source, Csv):
                guessed = f"read_csv({_quoted(str(source.path.resolve()))}, header = true)"
                types = {row[0]: row[1] for row in connection.execute(f"DESCRIBE SELECT * FROM {guessed}").fetchall()}
                described = [(row[0], types.get(row[0], row[1])) for row in described]
        except duckdb.Error as error:
            _LOG.debug("reading the schema failed: %s", type(error).__name__)
    if described is None:
        raise Misconfigured("the data cannot be opened. Check path, format and rights.")
    return {str(row[0]): _type_of(str(row[1])) for row in described}


def _csv(path: Path) -> str:
    """A CSV file read by fixed rules, all columns as text.

    Nothing is inferred from the rows: the first line names the columns, fields are separated by a comma (a tab in .tsv
    files) and quoted by double quotes. A row that does not fit concerns only itself: missing fields are NULL, a row
    with too many fields or with bytes that are not UTF-8 is dropped.
    """
    names: list[str] | None
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    try:
        with path.open("rb") as file:
            first = file.readline(_LONGEST_HEADER).decode("utf-8-sig")
        names = next(csv.reader([first], delimiter=delimiter), [])
    except OSError:
        names = None
    except (UnicodeDecodeError, csv.Error):
        names = []
    if names is None:
        raise Misconfigured(f"`{path.name}` cannot be opened. Check path and rights.")
    if not names or len({name.lower() for name in names}) != len(names) or not all(names):
        raise Misconfigured(f"`{path.name}`: the first line must name every column, each once, separated by commas.")
    columns = ", ".join(f"{_quoted(name)}: 'VARCHAR'" for name in names)
    return (
        f"read_csv({_quoted(str(path.resolve()))}, auto_detect = false, header = true, delim = {_quoted(delimiter)}, "
        f"quote = '\"', escape = '\"', columns = {{{columns}}}, null_padding = true, ignore_errors = true)"
    )


def _type_of(stored: str) -> Type:
    for kind, names in _AS_IT_IS.items():
        if stored in names:
            return kind
    if stored.startswith(("DECIMAL", "HUGEINT", "UBIGINT", "UHUGEINT")):
        return Type.REAL
    return Type.TIMESTAMP if stored.startswith("TIMESTAMP") else Type.TEXT


def _stored(connection: duckdb.DuckDBPyConnection, number: int, source: Source) -> str:
    """The rows as they are stored, as something to select from."""
    match source:
        case Parquet(path=path):
            return f"read_parquet({_quoted(str(path.resolve()))})"
        case Csv(path=path):
            return _csv(path)
        case DuckDBTable(path=path, table=name):
            connection.execute(f"ATTACH {_quoted(str(path.resolve()))} AS source{number} (READ_ONLY)")
            return f"source{number}.{_identifier(name)}"
        case Frame(data=data):
            connection.register(f"lw_frame_{number}", data)
            return f"lw_frame_{number}"


def _read(field: Field, stored: dict[str, Any], table: Table, *, hide: bool) -> str:
    """One declared column, cast if it is stored as another type; what does not cast is NULL.

    `hide` keeps the names that were found out of messages: the first line of a CSV without a header is a row.
    """
    row = stored.get(field.name.lower())
    if row is None:
        advice = (
            "Correct the declaration." if hide else nearest(field.name, (str(found[0]) for found in stored.values()))
        )
        raise Misconfigured(f"the data of `{table.name}` have no column `{field.name}`. {advice}")
    column, name = _identifier(str(row[0])), _identifier(field.name)
    if str(row[1]) in _AS_IT_IS[field.type]:
        return f"{column} AS {name}"
    return f"TRY_CAST({column} AS {_SQL_TYPES[field.type]}) AS {name}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
