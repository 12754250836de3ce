"""Tiny tables and random questions about them, for tests that compare neighbours.

The tables hold what breaks systems: NULL, NaN, infinities, values outside bounds and keys, heavy units, no rows.
"""

from __future__ import annotations

import math
from datetime import date
from fractions import Fraction
from random import Random
from typing import Any

import pyarrow as pa

from lapwing.expressions.table import Catalog, Field, Table
from lapwing.expressions.types import Interval, Type

TYPES = {
    "pid": pa.int64(),
    "sex": pa.string(),
    "site": pa.int64(),
    "cost": pa.float64(),
    "age": pa.int64(),
    "sick": pa.bool_(),
    "town": pa.string(),
    "day": pa.date32(),
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
        Field("town", Type.TEXT),
        Field("day", Type.DATE),
    )
    return Table(
        "visits",
        fields,
        None if by_row else "pid",
        rows_per_unit=random.choice([1, 2, 5]),
        groups_per_unit=random.choice([None, 1, 2, 4]),
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
        random.choice(["oslo", "rome", "Rome ", "", "\N{SNOWMAN}", None]),
        random.choice([date(2020, 2, 29), date(1, 1, 1), date(9999, 12, 31), date(2021, 7, 4), None]),
    )


def make_rows(random: Random) -> list[Row]:
    """Up to a dozen rows of up to four units; one unit may be heavy."""
    return [make_row(random) for _ in range(random.choice([0, 1, 2, 6, 12]))]


CONDITIONS = (
    "age > 1",
    "age BETWEEN 0 AND 100",
    "cost <= 1.5",
    "cost / age > 0.5",
    "cost * 2 - age < 3",
    "age + 9000000000000000000 > age",
    "age * age * age > 5",
    "sex = 'F'",
    "sex IN ('F', 'X')",
    "sex NOT IN ('F', 'X')",
    "sex IS NULL",
    "cost IS NOT NULL",
    "site <> 2",
    "sick",
    "sick = TRUE",
    "1 = 1",
    "pid = 1",
    "LOWER(sex) LIKE 'f%'",
    "LENGTH(town) > 3",
    "COALESCE(cost, 0) > 1",
    "NULLIF(age, 40) IS NULL",
    "CAST(town AS INTEGER) = 1",
    "EXTRACT(year FROM day) >= 2020",
    "DATE_TRUNC('month', day) = DATE '2020-02-01'",
    "DATE_DIFF('day', day, DATE '2020-01-01') < 100",
    "LN(cost) > 0 OR SQRT(age) < 2",
    "CASE WHEN sick THEN age ELSE site END > 1",
    "SUBSTRING(town, 1, 1) || sex = 'oF'",
    "ABS(age) % 2 = 1",
    "GREATEST(cost, age) > LEAST(site, 2)",
)
"""Total on every row, whatever it holds."""

VALUES = (
    "cost",
    "age",
    "cost * age + 1",
    "cost - 2",
    "CASE WHEN sick THEN cost ELSE age END",
    "CASE WHEN cost > 1000 THEN 1 ELSE 0 END",
    "COALESCE(cost, age, 0)",
    "NULLIF(age, 1)",
    "ABS(cost)",
    "FLOOR(cost / 2)",
    "ROUND(cost, 1)",
    "CLIP(LENGTH(town), 0, 4)",
    "GREATEST(0, LEAST(site, 2))",
    "CLIP(CAST(town AS INTEGER), -1, 1)",
    "EXTRACT(month FROM day)",
    "CLIP(LN(cost), 0, 3)",
    "CLIP(cost / age, -2, 2)",
)
"""Bounded, for SUM and AVG."""

KEYS = (
    "sex",
    "site",
    "age",
    "sick",
    "age > 1",
    "cost > 1",
    "NULLIF(site, 2)",
    "MONTH(day) - MONTH(day) % 6",
    "CASE WHEN age < 18 THEN 'child' WHEN age < 65 THEN 'adult' ELSE 'old' END",
    "UPPER(sex)",
    "COALESCE(sex, 'none')",
    "EXTRACT(quarter FROM day)",
    "CLIP(LENGTH(sex), 0, 3)",
    "WIDTH_BUCKET(cost, [0, 1.5, 9])",
    "BUCKET(cost / age, 0, 3, 2)",
)
"""Their values are public."""

HIDDEN_KEYS = ("town", "LOWER(town)", "DATE_TRUNC('year', day)", "SUBSTRING(town, 1, 1)", "day")
"""Their values are not."""


PLAIN = 17
"""So many conditions and four values use only what the reference in Python knows: comparisons and arithmetic."""


def make_condition(random: Random, depth: int = 2, *, plain: bool = False) -> str:
    if depth and random.random() < 0.5:
        kind = random.choice(["AND", "OR", "NOT"])
        one, two = (make_condition(random, depth - 1, plain=plain) for _ in range(2))
        return f"NOT ({one})" if kind == "NOT" else f"({one}) {kind} ({two})"
    return random.choice(CONDITIONS[:PLAIN] if plain else CONDITIONS)


def make_plain_question(random: Random, *, by_row: bool) -> str:
    """A question with comparisons and arithmetic only, over keys with declared values."""
    aggregates = ["COUNT(*)", "COUNT(age)", "COUNT(cost)", *(f"SUM({value})" for value in VALUES[:4])]
    if not by_row:
        aggregates.append("COUNT(DISTINCT pid)")
    chosen = random.sample(aggregates, random.choice([1, 2, 3]))
    keys = random.sample(KEYS[:4], random.choice([0, 0, 1, 1, 2]))
    columns = ", ".join([*keys, *(f"{aggregate} AS a{i}" for i, aggregate in enumerate(chosen))])
    where = f" WHERE {make_condition(random, plain=True)}" if random.random() < 0.6 else ""
    group = f" GROUP BY {', '.join(keys)}" if keys else ""
    return f"SELECT {columns} FROM visits{where}{group}"


def make_aggregate(random: Random, *, by_row: bool) -> str:
    value = random.choice(VALUES)
    other = random.choice(VALUES)
    kinds = ["COUNT(*)", f"COUNT({value})", f"SUM({value})", f"AVG({value})"]
    if random.random() < 0.4:
        kinds = [
            *(f"{name}({value})" for name in ("VARIANCE", "VAR_POP", "STDDEV", "MEDIAN", "MIN", "MAX")),
            *(f"{name}({value}, {other})" for name in ("COVAR_POP", "CORR", "REGR_SLOPE", "REGR_INTERCEPT")),
            f"QUANTILE_CONT({value}, 0.9)",
            f"COUNT(DISTINCT {random.choice(['town', 'age', 'cost', 'LOWER(sex)', 'day'])})",
        ]
    if not by_row:
        kinds.append("COUNT(DISTINCT pid)")
    condition = f" FILTER (WHERE {make_condition(random, 1)})" if random.random() < 0.2 else ""
    return random.choice(kinds) + condition


def make_question(random: Random, table: Table) -> str:
    """A question that should be answered, from a budget with a delta if it names `town` or `day` as a key."""
    chosen = dict.fromkeys(make_aggregate(random, by_row=table.by_row) for _ in range(random.choice([1, 2, 3])))
    keys = random.sample(KEYS, random.choice([0, 0, 1, 1, 2]))
    if (table.by_row or table.groups_per_unit is not None) and random.random() < 0.3:
        keys = [*keys[:1], random.choice(HIDDEN_KEYS)]
    columns = ", ".join(
        [*(f"{key} AS k{i}" for i, key in enumerate(keys)), *(f"{one} AS a{i}" for i, one in enumerate(chosen))]
    )
    source = random.choice(["visits", "visits", "(SELECT * FROM visits WHERE age IS NOT NULL) AS v"])
    where = f" WHERE {make_condition(random)}" if random.random() < 0.5 else ""
    group = f" GROUP BY {', '.join(keys)}" if keys else ""
    having = f" HAVING {next(iter(chosen))} > 1" if keys and random.random() < 0.2 else ""
    return f"SELECT {columns} FROM {source}{where}{group}{having}"


def arrow_table(rows: list[Row]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ((),) * len(TYPES)
    arrays = zip(TYPES.items(), columns, strict=True)
    return pa.table({name: pa.array(list(column), kind, from_pandas=False) for (name, kind), column in arrays})


def without(rows: list[Row], unit: Any) -> list[Row]:
    """The neighbour: all rows of one unit removed."""
    return [row for row in rows if row[0] != unit]


def catalog(table: Table) -> Catalog:
    return Catalog((table,))
