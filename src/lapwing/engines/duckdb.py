"""DuckDB: the embedded default.

After loading, the connection is locked: no file but the declared ones can be reached, no extension, no setting changed.
Parquet and DuckDB files are read in place; CSV files and frames are loaded once. A value that does not read as its
declared type is NULL.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import duckdb
import pyarrow as pa
from sqlglot import exp

from lapwing.engines.source import Csv, DuckDBTable, Frame, Parquet, Source
from lapwing.errors import Misconfigured
from lapwing.query.catalog import Field, Table
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
        except duckdb.Error as error:
            _LOG.debug("loading failed", exc_info=error)
            names = ", ".join(f"`{table.name}`" for table, _ in tables)
            raise Misconfigured(f"the data of {names} cannot be opened. Check path, format and rights.") from None

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
        columns = ", ".join(_read(field, stored, table) for field in table.fields)
        kind = "TABLE" if isinstance(source, Csv | Frame) else "VIEW"
        self._connection.execute(f"CREATE {kind} {_identifier(table.name)} AS SELECT {columns} FROM {relation}")


def stored_types(source: Source, *, guess: bool = False) -> dict[str, Type]:
    """The columns of a source and the types they are stored as; of a CSV all text, unless types shall be guessed."""
    with duckdb.connect(":memory:", config={"python_enable_replacements": "false"}) as connection:
        try:
            relation = _stored(connection, 0, source)
            if guess and isinstance(source, Csv):
                relation = f"read_csv({_quoted(str(source.path.resolve()))}, header = true)"
            described = connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
        except duckdb.Error:
            raise Misconfigured("the data cannot be opened. Check path, format and rights.") from None
    return {str(row[0]): _type_of(str(row[1])) for row in described}


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
            return f"read_csv({_quoted(str(path.resolve()))}, all_varchar = true, header = true)"
        case DuckDBTable(path=path, table=name):
            connection.execute(f"ATTACH {_quoted(str(path.resolve()))} AS source{number} (READ_ONLY)")
            return f"source{number}.{_identifier(name)}"
        case Frame(data=data):
            connection.register(f"lw_frame_{number}", data)
            return f"lw_frame_{number}"


def _read(field: Field, stored: dict[str, Any], table: Table) -> str:
    """One declared column, cast if it is stored as another type; what does not cast is NULL."""
    row = stored.get(field.name.lower())
    if row is None:
        known = nearest(field.name, (str(found[0]) for found in stored.values()))
        raise Misconfigured(f"the data of `{table.name}` have no column `{field.name}`. {known}")
    column, name = _identifier(str(row[0])), _identifier(field.name)
    if str(row[1]) in _AS_IT_IS[field.type]:
        return f"{column} AS {name}"
    return f"TRY_CAST({column} AS {_SQL_TYPES[field.type]}) AS {name}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
