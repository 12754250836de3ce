"""Bounds by interval arithmetic: what an expression can be, from what its columns are."""

from __future__ import annotations

import contextlib
from random import Random
from typing import Any

import pytest
from sqlglot import exp

from lapwing.engines.duckdb_dialect import DUCKDB
from lapwing.errors import Refused
from lapwing.expressions.expression import Column, Expression, Literal, Operator
from lapwing.expressions.operators import numbers
from lapwing.expressions.operators.base import MOST_TEXT
from lapwing.expressions.operators.logic import CASE, IS_NULL
from lapwing.expressions.operators.numbers import ADD, DIVIDE, MULTIPLY, SUBTRACT
from lapwing.expressions.operators.table import OPERATORS, bounds_of, is_exact_integer
from lapwing.expressions.to_sqlglot import emit
from lapwing.expressions.types import Type
from lapwing.plan.question import Question
from lapwing.sql import read_sql
from support.hostile import apply, columns, engine, hostile_rows, leaf
from support.sweeps import sweep
from support.visits import interval, visits_catalog


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
        (numbers.REMAINDER, (-2, 30), (-4, 7), (-2, 7)),
    ],
)
def test_bounds_follow_the_arithmetic(operator: Operator, a: Any, b: Any, expected: Any) -> None:
    left, right = Column("a", Type.REAL, interval(*a)), Column("b", Type.REAL, interval(*b))
    found = bounds_of(apply(operator, left, right))
    assert found == (None if expected is None else interval(*expected))


BOUNDED = {
    "CLIP(loose, 0, 100)": (0, 100),
    "GREATEST(0, LEAST(loose, 100))": (0, 100),
    "LEAST(GREATEST(loose, 0), 100)": (0, 100),
    "GREATEST(LEAST(loose, 100), -loose)": None,
    "COALESCE(LEAST(GREATEST(loose, 0), 100), 7)": (0, 100),
    "GREATEST(LEAST(COALESCE(loose, 5), 100), 0)": (0, 100),
    "CASE WHEN loose > 5 THEN 1 ELSE 0 END": (0, 1),
    "CASE WHEN sick THEN age END": (0, 120),
    "COALESCE(age, -1)": (-1, 120),
    "NULLIF(age, 5)": (0, 120),
    "ABS(age - 100)": (0, 100),
    "SIGN(loose)": (-1, 1),
    "loose % 7": (-7, 7),
    "MONTH(day)": (1, 12),
    "LENGTH(name)": (0, MOST_TEXT),
    "CAST(sick AS INTEGER)": (0, 1),
    "POWER(age - 20, 2)": (0, 10_000),
    "POWER(age - 20, 3)": (-8000, 1_000_000),
    "SQRT(CLIP(loose, 0, 16))": (0, 4),
    "ROUND(cost / 3, 1)": (0, 33.4),
    "FLOOR(cost / 3)": (0, 33),
    "SQRT(loose)": None,
    "EXP(loose)": None,
    "1 / EXP(CLIP(loose, 0, 0))": (1, 1),
    "age + loose": None,
    "0 * loose": (0, 0),
    "loose": None,
    "CAST(name AS INTEGER)": None,
    "DATE_DIFF('day', day, DATE '2020-01-01')": (-3_652_059, 3_652_059),
    "NULL + 1": (0, 0),
}


@pytest.mark.parametrize("sql", BOUNDED)
def test_bounds_are_found_through_expressions(sql: str) -> None:
    """threat:A7 gate:G16 what cannot be bounded is None, whatever stands around it."""
    expected = BOUNDED[sql]
    question = read_sql(f"SELECT SUM({sql}) FROM visits", visits_catalog())
    assert isinstance(question, Question), question
    found = bounds_of(question.aggregates[0].arguments[0])
    if expected is None:
        assert found is None
    else:
        assert found is not None
        assert [round(float(end), 9) for end in (found.low, found.high)] == list(expected)


def random_number(random: Random, depth: int) -> Expression:
    """A random expression of numbers, over columns of which some are bounded."""
    real, other = columns(Type.REAL)
    whole, _ = columns(Type.INTEGER)
    if depth == 0:
        return random.choice(
            [
                Column(real.name, Type.REAL, interval(-2, 5)),
                Column(other.name, Type.REAL, interval(0.5, 3)),
                Column(whole.name, Type.INTEGER, interval(-3, 7)),
                other,
                Literal(2, Type.INTEGER),
                Literal(-1, Type.INTEGER),
            ]
        )
    while True:
        operator = random.choice([o for o in OPERATORS if o.interval is not None])
        arity = random.choice([1, 2, 3])
        arguments = [random_number(random, depth - 1) for _ in range(arity)]
        if operator is CASE:
            arguments[0] = apply(IS_NULL, arguments[0])
        if operator in (numbers.ROUND, numbers.POWER) and arity == 2:
            arguments[1] = Literal(random.choice([0, 1, 2, 3]), Type.INTEGER)
        if operator is numbers.CLIP and arity == 3:
            arguments[1:] = [Literal(-1, Type.INTEGER), Literal(random.choice([0, 4]), Type.INTEGER)]
        with contextlib.suppress(Refused, TypeError):
            return apply(operator, *arguments)


@pytest.mark.parametrize("seed", sweep(range(6), 2))
def test_values_lie_in_the_derived_bounds(seed: int) -> None:
    """gate:G15 computed by the engine from clipped columns, up to the rounding of float64."""
    random = Random(seed)
    expressions = [random_number(random, random.choice([1, 2, 3])) for _ in range(60)]
    bounded = [(e, found) for e in expressions if (found := bounds_of(e)) is not None]
    assert len(bounded) > 15
    with engine().cursor() as cursor:
        cursor.register("lw_rows", hostile_rows())
        chosen = [exp.cast(emit(e, leaf, clipped=True), "DOUBLE") for e, _ in bounded]
        rows = cursor.execute(DUCKDB.write(exp.Select(expressions=chosen).from_("lw_rows")).text).fetchall()
    for row in rows:
        for (expression, bounds), value in zip(bounded, row, strict=True):
            if value is not None and value == value:
                slack = 1e-9 * (1 + float(bounds.magnitude))
                assert float(bounds.low) - slack <= value <= float(bounds.high) + slack, expression


def test_missing_bounds_stay_missing() -> None:
    """threat:A7 gate:G16 an unbounded column makes the whole expression unbounded."""
    bounded, free = Column("a", Type.INTEGER, interval(0, 3)), Column("b", Type.INTEGER)
    assert bounds_of(apply(ADD, bounded, free)) is None
    assert bounds_of(apply(MULTIPLY, Literal(1, Type.INTEGER), free)) is None


def test_bounds_of_high_powers_stay_short() -> None:
    """gate:G53 the fractions behind the bounds do not grow with the nesting."""
    nested: Expression = Column("a", Type.REAL, interval(-1 / 3, 7))
    for _ in range(50):
        nested = apply(numbers.POWER, nested, Literal(16, Type.INTEGER))
    assert bounds_of(nested) is None
    small: Expression = Column("a", Type.REAL, interval(0.1, 0.3))
    for _ in range(50):
        small = apply(numbers.POWER, small, Literal(15, Type.INTEGER))
    found = bounds_of(small)
    assert found is not None
    assert found.high.denominator.bit_length() < 2000


def test_whole_numbers_are_exact_up_to_53_bits() -> None:
    small = Column("a", Type.INTEGER, interval(0, 2**26))
    assert is_exact_integer(apply(MULTIPLY, small, small))
    assert not is_exact_integer(apply(MULTIPLY, apply(MULTIPLY, small, small), small))
    assert not is_exact_integer(apply(DIVIDE, small, Literal(2, Type.INTEGER)))
