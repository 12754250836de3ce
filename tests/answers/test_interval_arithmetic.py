"""Interval arithmetic on answers: a box holds every value that the expression takes inside, and ends at some."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
import pytest

from lapwing.answers.interval_arithmetic import RULES, box_of
from lapwing.engines.public_values import calculate
from lapwing.expressions.expression import Call, Column, Expression, Literal, walk
from lapwing.expressions.table import Catalog, Field, Table
from lapwing.expressions.types import Type
from lapwing.plan.question import Question
from lapwing.sql import read_sql

NAMES = ("x", "y", "z")
CATALOG = Catalog((Table("t", tuple(Field(name, Type.REAL) for name in NAMES), None),))
EXPRESSIONS = {
    "x + y": 0.0,
    "x - y": 0.0,
    "x * y": 0.0,
    "x / y": 0.0,
    "FLOOR(x)": 0.0,
    "CEIL(x)": 0.0,
    "ROUND(x)": 1.0,
    "ROUND(x, 1)": 0.1,
    "ROUND(x, -1)": 10.0,
    "SQRT(x)": 0.0,
    "LN(x)": 0.0,
    "EXP(x)": 0.0,
    "ABS(x)": 0.0,
    "LEAST(x, y, z)": 0.0,
    "GREATEST(x, y, z)": 0.0,
}
"""Expressions of one rule each, and how much wider than its values their box may be on either side."""

CHOICES = (
    "CASE WHEN x > y THEN x ELSE z END",
    "CASE WHEN x <= 1 THEN y WHEN x < 3 AND NOT y >= 2 THEN z END",
    "CASE WHEN x = 2 OR y <> 0 THEN 1 ELSE z END",
    "CASE WHEN FLOOR(x) IN (1, 2) THEN x ELSE -x END",
    "CASE WHEN x IS DISTINCT FROM y THEN x + y ELSE 0 END",
    "CASE WHEN LN(x) IS NULL THEN 0 ELSE y END",
    "COALESCE(x, 1) + CAST(x > y AS INTEGER)",
    "x / NULLIF(y, 0) + CAST(CAST(z AS INTEGER) AS DOUBLE)",
    "SIGN(x) + LOG10(ABS(y) + 1) + LOG2(ABS(z) + 1) + CLIP(x, 0, 5)",
)
"""Where a branch is not certain the box may be wider than what the values take."""

Ends = tuple[float, float]


def tree(sql: str) -> Expression:
    question = read_sql(f"SELECT COUNT({sql}) FROM t", CATALOG)
    assert isinstance(question, Question), question
    return question.aggregates[0].arguments[0]


def box(sql: str, *ends: Ends) -> Ends:
    """The box of an expression while each column lies between its ends."""
    places = dict(zip(NAMES, ends, strict=False))

    def leaf(part: Expression) -> tuple[Any, Any]:
        low, high = places[part.name] if isinstance(part, Column) else (_number(part),) * 2
        return np.array([low]), np.array([high])

    found = box_of(tree(sql), leaf)
    assert found is not None
    return float(found[0][0]), float(found[1][0])


def _number(part: Expression) -> float:
    assert isinstance(part, Literal)
    return math.nan if part.value is None else float(part.value)  # type: ignore[arg-type]


def values(sql: str, points: list[tuple[float, ...]]) -> list[float]:
    """What the calculator gives at each point, where that is a number."""
    columns = {name: [point[i] for point in points] for i, name in enumerate(NAMES)}
    (found,) = calculate([tree(sql)], columns, dict.fromkeys(NAMES, Type.REAL), len(points))
    return [float(value) for value in found.to_pylist() if value is not None and math.isfinite(value)]


def inside(random: Random, ends: Ends) -> list[float]:
    """Both ends, 0 if it is inside, and some numbers between."""
    low, high = ends
    return [low, high, *([0.0] if low <= 0 <= high else []), *(random.uniform(low, high) for _ in range(4))]


def random_ends(random: Random) -> Ends:
    low = random.choice([random.uniform(-30, 30), float(random.randrange(-6, 7)), random.uniform(0.01, 5)])
    return low, low + random.choice([0.0, 0.25, random.uniform(0, 1), random.uniform(0, 40), 6.0])


def is_defined(sql: str, ends: list[Ends]) -> bool:
    """Whether the expression has a value everywhere in the box."""
    if "/" in sql:
        return not ends[1][0] <= 0 <= ends[1][1]
    return ends[0][0] >= 0 if "SQRT" in sql else ends[0][0] > 0 if "LN" in sql else True


def test_every_rule_is_tried() -> None:
    used = {
        part.operator.name for sql in (*EXPRESSIONS, *CHOICES) for part in walk(tree(sql)) if isinstance(part, Call)
    }
    assert used == set(RULES)


@pytest.mark.parametrize("sql", EXPRESSIONS)
def test_a_box_holds_every_value_and_ends_at_some(sql: str) -> None:
    random = Random(sql)
    for _ in range(60):
        ends = [random_ends(random) for _ in NAMES]
        low, high = box(sql, *ends)
        if not is_defined(sql, ends):
            assert math.isnan(low)
            assert math.isnan(high)
            continue
        sides = [inside(random, one) for one in ends]
        found = values(sql, [(x, y, z) for x in sides[0] for y in sides[1] for z in sides[2]])
        wider = EXPRESSIONS[sql] + 1e-9 * max(abs(low), abs(high))
        assert low <= min(found) <= low + wider
        assert high - wider <= max(found) <= high


@pytest.mark.parametrize("sql", CHOICES)
def test_the_box_of_a_choice_holds_every_value_and_none_where_one_is_missing(sql: str) -> None:
    random = Random(sql)
    tight = 0
    for _ in range(40):
        ends = [random_ends(random) for _ in NAMES]
        low, high = box(sql, *ends)
        sides = [inside(random, one) for one in ends]
        points = [(x, y, z) for x in sides[0] for y in sides[1] for z in sides[2]]
        found = values(sql, points)
        if len(found) < len(points) or math.isnan(low):
            assert math.isnan(low)
            assert math.isnan(high)
        else:
            assert low <= min(found) <= max(found) <= high
            tight += high - low < 100
    assert tight, "some boxes have ends"


@pytest.mark.parametrize(
    ("sql", "ends", "expected"),
    [
        ("ABS(x)", (-3, 2), (0, 3)),
        ("ABS(x)", (-3, -2), (2, 3)),
        ("x * y", (-3, 2), (-15, 10)),
        ("FLOOR(x)", (-1.5, 2.5), (-2, 2)),
        ("CEIL(x)", (-1.5, 2.5), (-1, 3)),
        ("ROUND(x)", (-1.6, 2.6), (-2, 3)),
        ("SQRT(x)", (4, 9), (2, 3)),
        ("LN(x)", (1, math.e), (0, 1)),
        ("EXP(x)", (0, 1), (1, math.e)),
        ("LEAST(x, y)", (0, 9), (0, 5)),
        ("GREATEST(x, y)", (0, 9), (4, 9)),
        ("x - y", (10, 20), (5, 16)),
        ("SQRT(ABS(x) + 1) * 2 - FLOOR(y)", (-3, 8), (2 - 5, 6 - 4)),
    ],
)
def test_boxes_are_those_of_paper_and_pencil(sql: str, ends: Ends, expected: Ends) -> None:
    assert box(sql, ends, (4, 5)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("sql", ["x / y", "SQRT(y)", "LN(y)", "ABS(x / y)", "LEAST(x, LN(y))", "EXP(SQRT(y))"])
def test_a_box_that_reaches_a_pole_or_leaves_the_domain_has_no_ends(sql: str) -> None:
    low, high = box(sql, (1, 2), (-1, 1))
    assert math.isnan(low)
    assert math.isnan(high)


@pytest.mark.parametrize("sql", ["x % y", "POWER(x, 2)", "CASE WHEN x % y > 1 THEN x END"])
def test_an_operator_without_a_rule_has_no_box(sql: str) -> None:
    assert box_of(tree(sql), lambda _: (np.array([1.0]), np.array([2.0]))) is None
