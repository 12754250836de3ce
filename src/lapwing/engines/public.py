"""Public tables: their rows belong to no unit, so types, values, bounds and keys may be read from them.

Guarantee:  nothing here reads a private row. A key of a public table is proved on the rows that the engine keeps, which
            do not change while it runs, by joining them with themselves (`is_key` in engines/duckdb.py); so a private
            row has at most one match (sql/joins.py).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from fractions import Fraction
from types import MappingProxyType
from typing import TypeVar

import duckdb
import pyarrow as pa

from lapwing.engines.connection import connect, run
from lapwing.engines.dialect import identifier
from lapwing.engines.duckdb import as_table, check_keys, is_key, store, stored_types
from lapwing.engines.interrupt import interruptible
from lapwing.engines.source import LocalSource
from lapwing.errors import Misconfigured
from lapwing.expressions.refusal import hide_errors, nearest
from lapwing.expressions.table import Field, Table
from lapwing.expressions.types import Interval, Type, Value, type_of

_T = TypeVar("_T")

MOST_VALUES = 1_000
"""A column with more distinct values has no list of them."""
MOST_ROWS = 10_000
"""The rows of a larger table are not listed as keys."""

_ROWS = "lw_public"


def read_public(
    name: str, source: LocalSource, key: Sequence[str] = (), types: Mapping[str, Type] = MappingProxyType({})
) -> Table:
    """The stored table, with the values, bounds and keys of its rows. Its version is a hash of its content. `types` are
    those of columns that are read as other types than they are stored as; what does not cast is NULL."""
    stored = stored_types(source)
    declared = {_column(column, name, stored, "types"): kind for column, kind in types.items()}
    zones = {column: "UTC" for column in stored.zoned if declared.get(column) in (None, Type.TIMESTAMP)}
    fields = (Field(column, declared.get(column, kind), zone=zones.get(column)) for column, kind in stored.items())
    plain = Table(name, tuple(fields), None, public=True)
    names = tuple(_column(column, name, stored, "key") for column in key)
    table = _with_engine(name, lambda connection: _read_rows(connection, plain, source, names))
    if names and names not in table.keys:
        raise Misconfigured(
            f"two rows of `{name}` have the same {', '.join(names)}. Remove one, or declare another key."
        )
    return table


def public_rows(table: Table, source: LocalSource) -> pa.Table:
    """The rows of a public table in its declared types, for an engine elsewhere; its keys are proved on them."""

    def read(connection: duckdb.DuckDBPyConnection) -> pa.Table:
        store(connection, _ROWS, table, source)
        check_keys(connection, _ROWS, table)
        return as_table(connection, f"SELECT * FROM {_ROWS}")

    return _with_engine(table.name, read)


def _with_engine(name: str, work: Callable[[duckdb.DuckDBPyConnection], _T]) -> _T:
    """The result of work in an empty engine."""
    message = f"the data of `{name}` cannot be opened. Check the path, the format and the permissions."
    with connect() as connection, hide_errors(duckdb.Error, lambda _: message):
        return interruptible(lambda: work(connection), connection.interrupt)


def _read_rows(
    connection: duckdb.DuckDBPyConnection, plain: Table, source: LocalSource, names: tuple[str, ...]
) -> Table:
    store(connection, _ROWS, plain, source)
    fields = tuple(replace(f, bounds=_bounds(connection, f), values=_values(connection, f)) for f in plain.fields)
    tried = dict.fromkeys([*([names] if names else []), *((field.name,) for field in fields)])
    keys = tuple(key for key in tried if is_key(connection, _ROWS, [plain.field(column) for column in key]))
    version, rows = _version(connection, plain), _listed(connection, plain)
    return Table(plain.name, fields, None, version=version, public=True, keys=keys, rows=rows)


def _listed(connection: duckdb.DuckDBPyConnection, plain: Table) -> dict[str, tuple[Value, ...]] | None:
    """The columns that can be keys, row by row; None if there are many rows."""
    if run(connection, f"SELECT COUNT(*) FROM {_ROWS}")[0][0] > MOST_ROWS:
        return None
    columns = [field for field in plain.fields if field.type is not Type.REAL]
    values = {f: tuple(v for (v,) in run(connection, f"SELECT {identifier(f.name)} FROM {_ROWS}")) for f in columns}
    return {field.name: found for field, found in values.items() if _fit(found, field.type)}


def _column(column: str, table: str, stored: Iterable[str], parameter: str) -> str:
    for name in stored:
        if name.lower() == column.lower():
            return name
    advice = nearest(column, stored)
    raise Misconfigured(f"`{parameter}` names `{column}`, but `{table}` has no such column. {advice}")


def _bounds(connection: duckdb.DuckDBPyConnection, field: Field) -> Interval | None:
    if not field.type.is_number:
        return None
    column = identifier(field.name)
    finite = f"WHERE ISFINITE(CAST({column} AS DOUBLE))"
    (row,) = run(connection, f"SELECT MIN({column}), MAX({column}) FROM {_ROWS} {finite}")
    return None if row[0] is None else Interval(Fraction(row[0]), Fraction(row[1]))


def _values(connection: duckdb.DuckDBPyConnection, field: Field) -> tuple[Value, ...]:
    """The distinct values in order, NULL last; none if there are many, or if one cannot be a key."""
    if field.type is Type.REAL:
        return ()
    column = identifier(field.name)
    query = f"SELECT DISTINCT {column} FROM {_ROWS} ORDER BY 1 NULLS LAST LIMIT {MOST_VALUES + 1}"
    values = tuple(value for (value,) in run(connection, query))
    return values if len(values) <= MOST_VALUES and _fit(values, field.type) else ()


def _fit(values: tuple[Value, ...], kind: Type) -> bool:
    """Whether all of them can be keys."""
    keys = [value for value in values if value is not None]
    known = all(isinstance(key, bool | int | str | date) and type_of(key) is kind for key in keys)
    return known and not any(isinstance(key, str) and "\0" in key for key in keys)


def _version(connection: duckdb.DuckDBPyConnection, table: Table) -> str:
    columns = ", ".join(identifier(field.name) for field in table.fields)
    (row,) = run(connection, f"SELECT COUNT(*), SUM(CAST(HASH({columns}) AS HUGEINT)) FROM {_ROWS}")
    schema = [(field.name, field.type.value) for field in table.fields]
    return hashlib.sha256(repr((schema, row)).encode()).hexdigest()[:12]
