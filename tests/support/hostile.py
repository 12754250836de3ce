"""Rows that hold the worst of every type, and expressions over them."""

from __future__ import annotations

from functools import cache
from itertools import product
from math import inf, nan
from typing import Any

import duckdb
import pyarrow as pa
from sqlglot import exp

from lapwing.expressions.expression import Call, Column, Expression, Literal, Operator
from lapwing.expressions.operators.base import call, maybe_nan
from lapwing.expressions.types import Type

HOSTILE: dict[Type, tuple[pa.DataType, list[Any]]] = {
    Type.INTEGER: (pa.int64(), [0, 1, -1, 7, 2**63 - 1, -(2**63), 2**53 + 1, None]),
    Type.REAL: (pa.float64(), [0.0, -0.0, 1.5, -2.5, 1e308, -1e308, 5e-324, nan, inf, -inf, None]),
    Type.TEXT: (
        pa.string(),
        ["", "F", "🦆é\n", "a'b%_", " 12 ", "-1e400", "NaN", "infinity", "2020-02-30", "2020-02-29 23:59:59", None],
    ),
    Type.BOOLEAN: (pa.bool_(), [True, False, None]),
    Type.DATE: (pa.date32(), [0, 18262, 2**31 - 1, -(2**31) + 1, 2**31 - 10, -(2**31) + 10, -719163, 2932897, None]),
    Type.TIMESTAMP: (
        pa.timestamp("us"),
        [0, 1577836799999999, 2**63 - 1, -(2**63) + 1, -(2**63) + 2, 2**62, -(2**62), 253402300800000000, None],
    ),
}  # fmt: skip
FACTS = {kind: values for kind, (_, values) in HOSTILE.items()}


def part() -> str:
    return "test"


def apply(operator: Operator, *arguments: Expression) -> Call:
    return call(operator, *arguments, part=part)


def columns(kind: Type) -> tuple[Column, Column]:
    return Column(f"{kind.value}_a", kind), Column(f"{kind.value}_b", kind)


@cache
def hostile_rows() -> pa.Table:
    """Every pair of hostile values of every type, side by side."""
    pairs = {kind: list(product(values, values)) for kind, values in FACTS.items()}
    pairs[Type.TEXT].append(("x" * 10**6, "é" * 10**6))
    longest = max(map(len, pairs.values()))
    table = {"i": pa.array(range(longest))}
    for kind, found in pairs.items():
        filled = found + [(None, None)] * (longest - len(found))
        for side, name in enumerate("ab"):
            table[f"{kind.value}_{name}"] = pa.array([pair[side] for pair in filled], HOSTILE[kind][0])
    return pa.table(table)


CONSTANTS = (
    *(Literal(value, Type.INTEGER) for value in (0, 1, 3, -2, 10**18 - 1)),
    *(Literal(text, Type.TEXT) for text in ("", "a'b; --", "%🦆_%", "(*[_")),
    Literal(True, Type.BOOLEAN),
    Literal(None, None),
)
LEAVES: tuple[Expression, ...] = (*(column for kind in Type for column in columns(kind)), *CONSTANTS)


def leaf(expression: Any) -> exp.Expression:
    node = exp.column(expression.name, table="lw_rows", quoted=True)
    return maybe_nan(node) if expression.type is Type.REAL else node


@cache
def engine() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": "1"})
