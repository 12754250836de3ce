"""Every operator on hostile rows: it never fails, and what it gives for a row depends on that row only."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import inf, nan
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from sqlglot import exp

from lapwing.query.bounding import emit
from lapwing.query.expression import Call, Column, Expression, Literal, Operator
from lapwing.query.operators import ADD, DIVIDE, MULTIPLY, OPERATORS, SUBTRACT, bounds_of, call, is_exact_integer
from lapwing.query.types import Interval, Type
from lapwing.query.verdict import Stop
from support.visits import interval

HOSTILE: dict[Type, tuple[pa.DataType, list[Any]]] = {
    Type.INTEGER: (pa.int64(), [0, 1, -1, 2**63 - 1, -(2**63), 2**53 + 1, None]),
    Type.REAL: (pa.float64(), [0.0, -0.0, 1.5, 1e308, -1e308, 5e-324, nan, inf, -inf, None]),
    Type.TEXT: (pa.string(), ["", "F", "🦆", "a'b", 'a"b', "NaN", "x" * 10_000, None]),
    Type.BOOLEAN: (pa.bool_(), [True, False, None]),
    Type.DATE: (pa.date32(), [0, 2**31 - 10, -(2**31) + 10, None]),
    Type.TIMESTAMP: (pa.timestamp("us"), [0, 2**62, -(2**62), None]),
}


def columns(kind: Type) -> tuple[Column, Column]:
    return Column(f"{kind.value}_a", kind), Column(f"{kind.value}_b", kind)


def hostile_rows() -> pa.Table:
    """Every pair of hostile values of every type, side by side."""
    pairs = {kind: list(product(values, values)) for kind, (_, values) in HOSTILE.items()}
    longest = max(map(len, pairs.values()))
    table = {"i": pa.array(range(longest))}
    for kind, found in pairs.items():
        filled = found + [(None, None)] * (longest - len(found))
        for side, name in enumerate("ab"):
            table[f"{kind.value}_{name}"] = pa.array([pair[side] for pair in filled], HOSTILE[kind][0])
    return pa.table(table)


def constants(kind: Type) -> list[Literal]:
    if kind is Type.INTEGER:
        return [Literal(value, kind) for value in (0, 10**18 - 1, -(10**18) + 1)]
    if kind is Type.REAL:
        return [Literal(Fraction(value), kind) for value in (0, 10**300, Fraction(1, 10**300))]
    return [Literal("", kind), Literal("a'b; --", kind)] if kind is Type.TEXT else []


def uses(operator: Operator) -> list[Expression]:
    """The operator on columns, on constants, on mixed numbers and on NULL, wherever the types fit."""
    found: list[Expression] = []
    for left, right in product(Type, Type):
        (a, _), (_, b) = columns(left), columns(right)
        for arguments in ([a], [a, b], [a, *constants(right)], [b, Literal(None, None)], [Literal(None, None), a]):
            try:
                found.append(call(operator, *arguments, part=lambda: "test"))
            except (Stop, TypeError):
                continue
    return [use for use in found if _arity(operator, use)]


def _arity(operator: Operator, use: Expression) -> bool:
    wanted = {"not": 1, "is null": 1}.get(operator.name, 2)
    return isinstance(use, Call) and (
        len(use.arguments) == wanted or (operator.name == "in" and len(use.arguments) > 1)
    )


def values(rows: pa.Table, expressions: list[Expression]) -> dict[int, tuple[Any, ...]]:
    with duckdb.connect() as connection:
        connection.register("lw_rows", rows)
        chosen = [exp.column("i", table="lw_rows"), *(emit(expression) for expression in expressions)]
        found = connection.execute(exp.select(*chosen).from_("lw_rows").sql(dialect="duckdb")).fetchall()
    return {row[0]: tuple(map(repr, row[1:])) for row in found}


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.name)
def test_operators_never_fail_and_work_row_by_row(operator: Operator) -> None:
    """gate:G14 threat:A6 threat:A12 the value of a row is the same alone, among others and in any order."""
    rows, expressions = hostile_rows(), uses(operator)
    assert expressions
    together = values(rows, expressions)
    shuffled = Random(3).sample(range(rows.num_rows), rows.num_rows)
    assert values(rows.take(shuffled), expressions) == together
    for part in (rows.slice(0, 40), rows.slice(40, 1), rows.slice(41)):
        assert values(part, expressions).items() <= together.items()


def test_operators_nest_without_failing() -> None:
    """gate:G14 results that are infinite or not a number go through the next operator too."""
    real, other = columns(Type.REAL)
    whole, _ = columns(Type.INTEGER)
    expressions: list[Expression] = [real, other, whole]
    for operator in (MULTIPLY, ADD, SUBTRACT, DIVIDE, MULTIPLY, DIVIDE):
        expressions = [call(operator, a, b, part=lambda: "test") for a, b in product(expressions[-3:], repeat=2)]
    assert len(values(hostile_rows(), expressions)) == hostile_rows().num_rows


def test_division_by_zero_is_null() -> None:
    a, b = columns(Type.INTEGER)
    found = values(hostile_rows(), [call(DIVIDE, a, b, part=lambda: "test")])
    zero = [i for i, pair in enumerate(product(HOSTILE[Type.INTEGER][1], repeat=2)) if pair[1] == 0]
    assert [found[i] for i in zero] == [("None",)] * len(zero)


@pytest.mark.parametrize(
    ("operator", "a", "b", "expected"),
    [
        (ADD, (0, 1), (-5, 10), (-5, 11)),
        (SUBTRACT, (0, 1), (-5, 10), (-10, 6)),
        (MULTIPLY, (-2, 3), (-5, 10), (-20, 30)),
        (DIVIDE, (-2, 3), (2, 4), (-1, 1.5)),
        (DIVIDE, (-2, 3), (0, 4), None),
        (DIVIDE, (-2, 3), (-1, 4), None),
        (DIVIDE, (1, 1), (-4, -2), (-0.5, -0.25)),
    ],
)
def test_bounds_follow_the_arithmetic(operator: Operator, a: Any, b: Any, expected: Any) -> None:
    left, right = Column("a", Type.REAL, interval(*a)), Column("b", Type.REAL, interval(*b))
    found = bounds_of(call(operator, left, right, part=lambda: "test"))
    assert found == (None if expected is None else interval(*expected))


def test_derived_bounds_hold_on_a_grid() -> None:
    """Brute force: no corner and no inner point leaves the interval."""
    for operator, function in ((ADD, Fraction.__add__), (SUBTRACT, Fraction.__sub__), (MULTIPLY, Fraction.__mul__)):
        a, b = Interval(Fraction(-3), Fraction(2)), Interval(Fraction(-1, 2), Fraction(5))
        found = bounds_of(call(operator, Column("a", Type.REAL, a), Column("b", Type.REAL, b), part=lambda: "test"))
        grid = product((Fraction(i, 4) for i in range(-12, 9)), (Fraction(i, 4) for i in range(-2, 21)))
        assert found is not None
        assert all(found.low <= function(x, y) <= found.high for x, y in grid)


def test_missing_bounds_stay_missing() -> None:
    """threat:A7 gate:G16 an unbounded column makes the whole expression unbounded."""
    bounded, free = Column("a", Type.INTEGER, interval(0, 3)), Column("b", Type.INTEGER)
    assert bounds_of(call(ADD, bounded, free, part=lambda: "test")) is None
    assert bounds_of(call(MULTIPLY, Literal(0, Type.INTEGER), free, part=lambda: "test")) is None


def test_whole_numbers_are_exact_up_to_53_bits() -> None:
    small = Column("a", Type.INTEGER, interval(0, 2**26))
    assert is_exact_integer(call(MULTIPLY, small, small, part=lambda: "test"))
    wide = call(MULTIPLY, call(MULTIPLY, small, small, part=lambda: "t"), small, part=lambda: "t")
    assert not is_exact_integer(wide)
    assert not is_exact_integer(call(DIVIDE, small, Literal(2, Type.INTEGER), part=lambda: "test"))
