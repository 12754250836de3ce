"""Tiny tables and random questions about them, for tests that compare neighbours.

The tables hold what breaks systems: NULL, NaN, infinities, values outside bounds and keys, heavy units, no rows.
"""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random
from typing import Any

import pyarrow as pa

from lapwing.query.catalog import Catalog, Field, Table
from lapwing.query.types import Interval, Type

TYPES = {
    "pid": pa.int64(),
    "sex": pa.string(),
    "site": pa.int64(),
    "cost": pa.float64(),
    "age": pa.int64(),
    "sick": pa.bool_(),
}
Row = tuple[Any, ...]


def bounds(low: float, high: float) -> Interval:
    return Interval(Fraction(low), Fraction(high))


def make_table(random: Random, *, by_row: bool) -> Table:
    """A declaration with limits that the data often exceed."""
    fields = (
        Field("pid", Type.INTEGER),
        Field("sex", Type.TEXT, values=("F", "M")),
        Field("site", Type.INTEGER, values=(1, 2, 3)),
        Field("cost", Type.REAL, bounds(-5, 10), unit_bounds=random.choice([None, bounds(-3, 4), bounds(0, 100)])),
        Field("age", Type.INTEGER, bounds(0, random.choice([3, 120])), values=(0, 1, 40)),
        Field("sick", Type.BOOLEAN, values=(False, True)),
    )
    return Table(
        "visits",
        fields,
        None if by_row else "pid",
        rows_per_unit=random.choice([1, 2, 5]),
        groups_per_unit=random.choice([None, 1, 2]),
    )


COSTS = [0.0, -0.0, 1.5, 9.99, 1e308, -1e308, 5e-324, math.nan, math.inf, -math.inf, None, 0.1]
AGES = [0, 1, 40, 200, -7, 2**62, -(2**63), None]


def make_row(random: Random) -> Row:
    return (
        random.choice([1, 1, 1, 2, 3, None]),
        random.choice(["F", "M", "X", "", None]),
        random.choice([1, 2, 3, 9, None]),
        random.choice(COSTS),
        random.choice(AGES),
        random.choice([True, False, None]),
    )


def make_rows(random: Random) -> list[Row]:
    """Up to a dozen rows of up to four units; one unit may be heavy."""
    return [make_row(random) for _ in range(random.choice([0, 1, 2, 6, 12]))]


def make_condition(random: Random, depth: int = 2) -> str:
    if depth and random.random() < 0.6:
        kind = random.choice(["AND", "OR", "NOT"])
        if kind == "NOT":
            return f"NOT ({make_condition(random, depth - 1)})"
        return f"({make_condition(random, depth - 1)}) {kind} ({make_condition(random, depth - 1)})"
    return random.choice(
        [
            "age > 1",
            "age BETWEEN 0 AND 100",
            "cost <= 1.5",
            "cost / age > 0.5",
            "cost * 2 - age < 3",
            "age + 9000000000000000000 > age",
            "age * age * age > 5",
            "sex = 'F'",
            "sex IN ('F', 'X')",
            "sex IS NULL",
            "cost IS NOT NULL",
            "site <> 2",
            "sick",
            "sick = TRUE",
            "1 = 1",
            "pid = 1",
        ]
    )


def make_question(random: Random, *, by_row: bool) -> str:
    """A question that should be answered."""
    aggregates = [
        "COUNT(*)",
        "COUNT(age)",
        "COUNT(cost)",
        "SUM(cost)",
        "SUM(age)",
        "SUM(cost * age + 1)",
        "SUM(cost - 2)",
    ]
    if not by_row:
        aggregates.append("COUNT(DISTINCT pid)")
    chosen = random.sample(aggregates, random.choice([1, 2, 3]))
    keys = random.sample(["sex", "site", "age", "sick"], random.choice([0, 0, 1, 1, 2]))
    columns = ", ".join([*keys, *(f"{aggregate} AS a{i}" for i, aggregate in enumerate(chosen))])
    where = f" WHERE {make_condition(random)}" if random.random() < 0.6 else ""
    group = f" GROUP BY {', '.join(keys)}" if keys else ""
    return f"SELECT {columns} FROM visits{where}{group}"


def arrow_table(rows: list[Row]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ((),) * len(TYPES)
    arrays = zip(TYPES.items(), columns, strict=True)
    return pa.table({name: pa.array(list(column), kind, from_pandas=False) for (name, kind), column in arrays})


def without(rows: list[Row], unit: Any) -> list[Row]:
    """The neighbour: all rows of one unit removed."""
    return [row for row in rows if row[0] != unit]


def catalog(table: Table) -> Catalog:
    return Catalog((table,))
