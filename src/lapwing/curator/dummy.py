"""Made-up rows of the same schema, to try questions on: a function of the catalog, so they say nothing about the data.

Guarantee:  the rows of the dummy are the same, byte for byte, whatever the private rows are. Asking it is free.
Proof:      `dummy_rows` reads the catalog and nothing else: no engine, no ledger, no randomness. What it picks follows
            from SHA-256 of the names of table and column and the number of the row. The catalog holds what the steward
            declared and what public tables contain; no private row enters it (expressions/table.py).
A dummy has a ledger of its own in memory with the same budget, so that prices and refusals are those of the real one.
Every answer says that its rows are made up: their tables are marked, and the mark is a note of every plan.
Checked by: tests/curator/test_dummy.py
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date, datetime, timedelta
from fractions import Fraction
from hashlib import sha256
from typing import Any

import pyarrow as pa

from lapwing.engines.dialect import ARROW_TYPES
from lapwing.engines.duckdb import DuckDBEngine
from lapwing.engines.source import Frame
from lapwing.expressions.table import Catalog, Field, Table
from lapwing.expressions.types import Interval, Type, Value

ROWS = 100
"""Of each table; of a public table fewer, if its keys have fewer values."""
_ROWS_OF_A_UNIT = 2
_FIRST_DAY, _FIRST_TIME = date(2024, 1, 1), datetime.fromisoformat("2024-01-01 00:00:00")
_DAYS, _WHOLE, _STEPS, _TEXTS = 365, 100, 1000, 10

Pools = Mapping[str, tuple[Value, ...]]
"""The values of public keys, by the name of their column in small letters: a private column of that name joins them."""


def dummy_catalog(catalog: Catalog) -> Catalog:
    """The same declarations, with every table marked as made up."""
    return Catalog(tuple(replace(table, dummy=True) for table in catalog.tables))


def dummy_engine(catalog: Catalog) -> DuckDBEngine:
    return DuckDBEngine([(table, Frame(rows)) for table, rows in dummy_rows(catalog).items()], salt=0)


def dummy_rows(catalog: Catalog) -> dict[Table, pa.Table]:
    public = [table for table in catalog.tables if table.public]
    keys = {table.field(key[0]) for table in public for key in table.keys if len(key) == 1}
    pools = {field.name.lower(): field.values for field in keys if field.values}
    return {table: _rows(table, pools) for table in catalog.tables}


def _rows(table: Table, pools: Pools) -> pa.Table:
    made = list(_unique(table) if table.public else _private(table, pools))
    columns = zip(*made, strict=True) if made else [()] * len(table.fields)
    pairs = zip(table.fields, columns, strict=True)
    return pa.table(
        {field.name: pa.array(list(map(_stored, cells)), ARROW_TYPES[field.type]) for field, cells in pairs}
    )


def _private(table: Table, pools: Pools) -> Iterator[tuple[Value, ...]]:
    each = min(_ROWS_OF_A_UNIT, table.rows_per_unit or _ROWS_OF_A_UNIT)
    for row in range(ROWS):
        yield tuple(
            _count(field, row // each)
            if field.name == table.unit
            else _pick(field, pools.get(field.name.lower(), ()), _number(table, field, row))
            for field in table.fields
        )


def _unique(table: Table) -> Iterator[tuple[Value, ...]]:
    """Rows of a public table, none of which shares a key with one before; columns of a key count through its values."""
    seen: set[tuple[Any, ...]] = set()
    alone = {name for key in table.keys for name in key if len(key) == 1}
    for row in range(ROWS):
        cells = {}
        for field in table.fields:
            place = row if field.name in alone else _number(table, field, row)
            cells[field.name] = _count(field, place) if field.name in alone else _pick(field, (), place)
        keys = [(key, *(cells[name] for name in key)) for key in table.keys]
        if not seen.intersection(keys) and all(value is not None for key in keys for value in key):
            seen.update(keys)
            yield tuple(cells.values())


def _number(table: Table, field: Field, row: int) -> int:
    """A number that looks random and is always the same."""
    return int.from_bytes(sha256(repr((table.name, field.name, row)).encode()).digest()[:8])


def _pick(field: Field, pool: tuple[Value, ...], number: int) -> Value:
    """One of the declared values, or a value within the bounds or the edges."""
    values = field.values or pool
    if values:
        return values[number % len(values)]
    ends = field.bounds or _between(field)
    match field.type:
        case Type.INTEGER if ends is not None:
            return int(ends.low) + number % max(1, int(ends.high) - int(ends.low) + 1)
        case Type.INTEGER:
            return number % _WHOLE
        case Type.REAL if ends is not None:
            return ends.low + (ends.high - ends.low) * Fraction(number % (_STEPS + 1), _STEPS)
        case Type.REAL:
            return Fraction(number % _STEPS, 10)
        case Type.DATE | Type.TIMESTAMP:
            return _day(field, number)
        case Type.BOOLEAN:
            return bool(number % 2)
        case Type.TEXT:
            return f"{field.name} {number % _TEXTS}"


def _between(field: Field) -> Interval | None:
    first, last = (field.edges[0], field.edges[-1]) if field.edges else (None, None)
    numbers = isinstance(first, int | Fraction) and isinstance(last, int | Fraction)
    return Interval(Fraction(first), Fraction(last)) if numbers else None  # type: ignore[arg-type]


def _day(field: Field, number: int) -> date:
    first = _FIRST_DAY if field.type is Type.DATE else _FIRST_TIME
    first, last = (field.edges[0], field.edges[-1]) if field.edges else (first, None)  # type: ignore[assignment]
    first, last = (field.span.low, field.span.high) if field.span else (first, last)
    days = (last - first).days if isinstance(last, date) else _DAYS
    moved = first + timedelta(days=number % max(1, days))
    return moved if field.type is Type.DATE else moved + timedelta(minutes=number % 1440)


def _count(field: Field, place: int) -> Value:
    """The value at a place: another one at every place, as far as there are values."""
    if field.values:
        return field.values[place % len(field.values)]
    low = field.bounds.low if field.bounds is not None else Fraction(1)
    match field.type:
        case Type.INTEGER:
            return int(low) + place
        case Type.REAL:
            return low + place
        case Type.DATE:
            return _FIRST_DAY + timedelta(days=place)
        case Type.TIMESTAMP:
            return _FIRST_TIME + timedelta(days=place)
        case Type.BOOLEAN:
            return bool(place % 2)
        case Type.TEXT:
            return f"{field.name} {place + 1}"


def _stored(value: Value) -> Any:
    return float(value) if isinstance(value, Fraction) else value
