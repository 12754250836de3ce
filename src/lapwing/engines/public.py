"""Public tables: their rows belong to no unit, so types, values, bounds and keys may be read from them.

Guarantee:  nothing here reads a private row. A key of a public table is proved on the rows that the engine keeps, which
            do not change while it runs, by joining them with themselves (`is_key` in engines/duckdb.py); so a private
            row has at most one match (sql/joins.py).
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from fractions import Fraction
from types import MappingProxyType
from typing import TypeVar

import duckdb
import pyarrow as pa

from lapwing.engines.connection import as_table, connect, run
from lapwing.engines.dialect import identifier
from lapwing.engines.duckdb import is_key, store, stored_types
from lapwing.engines.interrupt import interruptible
from lapwing.engines.source import LocalSource
from lapwing.errors import Misconfigured
from lapwing.expressions.refusal import nearest
from lapwing.expressions.table import Field, Table
from lapwing.expressions.types import Interval, Type, Value, type_of

_T = TypeVar("_T")
_LOG = logging.getLogger("lapwing.engine")

MOST_VALUES = 1_000
"""A column with more distinct values has no list of them."""
MOST_ROWS = 10_000
"""The rows of a larger table are not listed as keys."""

_ROWS = "lw_public"


def read_public(
    name: str, source: LocalSource, key: Sequence[str] = (), types: Mapping[str, Type] = MappingProxyType({})
) -> Table:
    """The stored table, with the values, bounds and keys of its rows. Its version is a hash of its content.

    `types` are those of columns that are read as other types than they are stored as; what does not cast is NULL.
    """
    found = stored_types(source)
    stored = Table(name, tuple(Field(column, kind) for column, kind in found.items()), None, public=True)
    declared = {_known(column, stored, "types"): kind for column, kind in types.items()}
    zones = {column: "UTC" for column in found.zoned if declared.get(column) in (None, Type.TIMESTAMP)}
    fields = (Field(f.name, declared.get(f.name, f.type), zone=zones.get(f.name)) for f in stored.fields)
    plain = replace(stored, fields=tuple(fields))
    names = tuple(_known(column, plain, "key") for column in key)
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
        for key in table.keys:
            if not is_key(connection, _ROWS, [table.field(name) for name in key]):
                raise Misconfigured(f"two rows of `{table.name}` have the same {', '.join(key)}. Load it again.")
        return as_table(connection, f"SELECT * FROM {_ROWS}")

    return _with_engine(table.name, read)


def _with_engine(name: str, work: Callable[[duckdb.DuckDBPyConnection], _T]) -> _T:
    """The result of work in an empty engine. The error is raised outside `except`: the engine's message may quote
    values."""
    results: list[_T] = []
    with connect() as connection:
        try:
            results.append(interruptible(lambda: work(connection), connection.interrupt))
        except duckdb.Error as error:
            _LOG.debug("reading a public table failed: %s", type(error).__name__)
    if not results:
        raise Misconfigured(f"the data of `{name}` cannot be opened. Check the path, the format and the permissions.")
    return results[0]


def _read_rows(
    connection: duckdb.DuckDBPyConnection, plain: Table, source: LocalSource, names: tuple[str, ...]
) -> Table:
    store(connection, _ROWS, plain, source)
    fields = tuple(_field(connection, field) for field in plain.fields)
    tried = dict.fromkeys([*([names] if names else []), *((field.name,) for field in fields)])
    keys = tuple(key for key in tried if is_key(connection, _ROWS, [plain.field(column) for column in key]))
    version, rows = _version(connection, plain), _listed(connection, plain)
    return Table(plain.name, fields, None, version=version, public=True, keys=keys, rows=rows)


def _listed(connection: duckdb.DuckDBPyConnection, plain: Table) -> dict[str, tuple[Value, ...]] | None:
    """The columns that can be keys, row by row; None if there are many rows."""
    count = connection.execute(f"SELECT COUNT(*) FROM {_ROWS}").fetchone()
    if count is None or count[0] > MOST_ROWS:
        return None
    columns = [field for field in plain.fields if field.type is not Type.REAL]
    found = {f.name: connection.execute(f"SELECT {identifier(f.name)} FROM {_ROWS}").fetchall() for f in columns}
    values = {name: tuple(value for (value,) in rows) for name, rows in found.items()}
    return {f.name: values[f.name] for f in columns if all(v is None or _fits(v, f.type) for v in values[f.name])}


def _known(column: str, table: Table, what: str) -> str:
    for field in table.fields:
        if field.name.lower() == column.lower():
            return field.name
    known = nearest(column, (field.name for field in table.fields))
    raise Misconfigured(f"`{what}` names `{column}`, but `{table.name}` has no such column. {known}")


def _field(connection: duckdb.DuckDBPyConnection, field: Field) -> Field:
    return replace(field, bounds=_bounds(connection, field), values=_values(connection, field))


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
    found = tuple(row[0] for row in run(connection, query))
    fits = all(value is None or _fits(value, field.type) for value in found)
    return found if fits and len(found) <= MOST_VALUES else ()


def _fits(value: Value, kind: Type) -> bool:
    known = isinstance(value, bool | int | str | date)
    return known and type_of(value) is kind and not (isinstance(value, str) and "\0" in value)


def _version(connection: duckdb.DuckDBPyConnection, table: Table) -> str:
    columns = ", ".join(identifier(field.name) for field in table.fields)
    (row,) = run(connection, f"SELECT COUNT(*), SUM(CAST(HASH({columns}) AS HUGEINT)) FROM {_ROWS}")
    schema = [(field.name, field.type.value) for field in table.fields]
    return hashlib.sha256(repr((schema, row)).encode()).hexdigest()[:12]
