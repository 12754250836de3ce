"""Remainders and quotients on every engine, over all pairs of numbers that have ends to fall off, beside Python's.

Operands are columns, constants, or one of each; integers and reals in every combination. Spark is asked twice: as the
suite asks it, interpreted, and compiled, which is what users have.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from sqlglot import exp

from lapwing.engines.engine import Engine
from lapwing.engines.source import SparkFrame
from lapwing.engines.spark import SparkEngine
from lapwing.expressions.expression import Column, Key, Slot
from lapwing.expressions.table import Catalog, Field, Table
from lapwing.expressions.to_sqlglot import value
from lapwing.expressions.types import Type
from lapwing.plan.question import Question
from lapwing.sql import read_sql
from support.cells import run
from support.hosts import HOSTS, SALT

INTEGERS = [
    *(0, 1, -1, 2, -2, 3, -3, 5, 7, -7, 10, 12, -13, 97, 100, -1000, 2**31 - 1, -(2**31), 2**31, 2**32 + 1, 10**9 + 7),
    *(
        2**52,
        2**53 - 1,
        2**53,
        2**53 + 1,
        -(2**53) - 1,
        2**53 + 3,
        2**54 + 2,
        10**15,
        10**16 + 1,
        10**18,
        -(10**18) + 1,
    ),
    *(2**60 + 1, 2**62, 2**62 + 1, -(2**62) - 1, 3**39, 2**63 - 1, 2**63 - 2, 2**63 - 512, 2**63 - 513, -(2**63)),
    *(-(2**63) + 1, 6_700_417, -999_999_937, 0x5555_5555_5555_5555, None),
]
REALS = [
    *(
        0.0,
        -0.0,
        1.0,
        -1.0,
        2.0,
        2.5,
        -2.5,
        0.5,
        0.1,
        0.3,
        -0.1,
        1 / 3,
        7.0,
        9.99,
        100.01,
        -1e3,
        1e15 + 0.3,
        1e16,
        1e19,
    ),
    *(2.0**53, 2.0**53 + 2, 2.0**63, -(2.0**63), 2.0**64, 2.0**100, 3.0**50, 1e100, -1e200, 1e300, 1e308, -1e308),
    *(5e-324, -5e-324, 1.5e-323, 2.2250738585072014e-308, 2.225073858507201e-308, 1e-300, -1e-200, 1e-100, 1e-20, 1e-9),
    *(2.0**-9, 2.0**-10, 1 - 2.0**-53, 1 + 2.0**-52, 1.7976931348623157e308, -1.7976931348623157e308, math.pi, -math.e),
    *(math.inf, -math.inf, math.nan, None),
]
WRITTEN = (0, 1, 2, 3, -7, 2**53 + 1, 2**63 - 1, 0.1, 2.5, -0.3, 9.99, 1e19, 1e300, 1e-300)
"""Constants in a question."""
FEW = (0, -7, 2**63 - 1, 0.1, -2.5, 1e19, 1e300, 1e-300)

FIELDS = tuple(
    Field(f"{side}{letter}", kind) for side in "ab" for letter, kind in (("n", Type.INTEGER), ("x", Type.REAL))
)
TABLE = Table("t", (Field("i", Type.INTEGER), *FIELDS), None)
CATALOG = Catalog((TABLE,))
COMPILED = "spark, compiled"
COUNT = max(len(INTEGERS), len(REALS))


def padded(values: list[Any]) -> list[Any]:
    return values + values[:1] * (COUNT - len(values))


def rows() -> pa.Table:
    """Every pair of places; `an` and `ax` have the first value, `bn` and `bx` the second."""
    firsts, seconds = zip(*product(range(COUNT), repeat=2), strict=True)
    columns: dict[str, pa.Array] = {"i": pa.array(range(COUNT**2), pa.int64())}
    for side, places in (("a", firsts), ("b", seconds)):
        columns[f"{side}n"] = pa.array([padded(INTEGERS)[place] for place in places], pa.int64())
        columns[f"{side}x"] = pa.array([padded(REALS)[place] for place in places], pa.float64())
    return pa.table(columns)


ROWS = rows()
SINGLE = ROWS.slice(0, COUNT)
"""Rows in which the first operand is constant and the second runs through all values."""


@dataclass(frozen=True)
class Place:
    """An engine under test, and which remainders it may leave out."""

    engine: Engine
    leaves_out: bool


@pytest.fixture(scope="module", params=[*HOSTS, COMPILED])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    name = request.param
    host = HOSTS[name.split(",")[0]](request)
    if name == COMPILED:
        spark = request.getfixturevalue("spark")
        made: Engine = SparkEngine([(TABLE, SparkFrame(spark.createDataFrame(ROWS)))], salt=SALT)
    else:
        made = host.engine([(TABLE, ROWS)])
    yield Place(made, name == "postgres")
    made.close()
    host.close()


def modelled(sign: str, a: float | None, b: float | None) -> float | None:
    """In float64; NULL if an operand is missing, the divisor is 0 or the result undefined (docs/sql.md)."""
    if a is None or b is None or a != a or b != b:
        return None
    a, b = float(a), float(b)
    if b == 0 or (math.isinf(a) and (sign == "%" or math.isinf(b))):
        return None
    if sign == "%":
        return math.fmod(a, b)
    if math.isinf(a) or math.isinf(b):
        return a / b
    quotient = _divided(a, b)
    return quotient if sign == "/" else math.trunc(quotient) if math.isfinite(quotient) else quotient


def _divided(a: float, b: float) -> float:
    """Rounded once, by exact arithmetic."""
    exact = Fraction(a) / Fraction(b)
    try:
        return float(exact) if exact or a >= 0 else -0.0
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def emitted(text: str) -> exp.Expression:
    """The number that a question would add up."""
    question = read_sql(f"SELECT SUM(CLIP({text}, -1, 1)) FROM t", CATALOG)
    assert isinstance(question, Question)
    argument = question.aggregates[0].arguments[0]
    return value(argument.arguments[0], _column)


def _column(leaf: Column | Key | Slot) -> exp.Expression:
    assert isinstance(leaf, Column)
    return exp.column(leaf.name, quoted=True)


def read(engine: Engine, nodes: dict[str, exp.Expression], *, many: int) -> dict[str, list[Any]]:
    """The value of each expression on the first rows."""
    columns = [exp.alias_(node, f"v{number}") for number, node in enumerate(nodes.values())]
    query = exp.select("i", *columns).from_("t").where(f"i < {many}")
    found = run(engine, query).sort_by("i")
    return {text: found.column(f"v{number}").to_pylist() for number, text in enumerate(nodes)}


def assert_same(place: Place, sign: str, operands: tuple[Any, Any], found: float | None) -> None:
    expected = modelled(sign, *operands)
    if found is None and expected is not None and place.leaves_out and sign == "%":
        x, y = (abs(float(operand)) for operand in operands)  # docs/warehouse.md
        assert x >= 2**63 or (y < 2**-9 and x >= y), (sign, operands)
    else:
        assert found == expected, (sign, operands, found, expected)


SIGNS = ("%", "/", "//")
PAIRS = [f"{a} {sign} {b}" for sign in SIGNS for a in ("an", "ax") for b in ("bn", "bx")]


def test_every_pair_of_columns_gives_python_s_number(place: Place) -> None:
    found = read(place.engine, {text: emitted(text) for text in PAIRS}, many=COUNT**2)
    columns = {name: ROWS.column(name).to_pylist() for name in ("an", "ax", "bn", "bx")}
    for text, values in found.items():
        first, sign, second = text.split()
        for a, b, one in zip(columns[first], columns[second], values, strict=True):
            assert_same(place, sign, (a, b), one)


def test_a_column_beside_a_constant_gives_python_s_number(place: Place) -> None:
    sides = {
        f"{column} {sign} ({constant!r})": (column, sign, constant)
        for sign in SIGNS[:2]
        for column in ("bn", "bx")
        for constant in WRITTEN
    }
    turned = {f"({constant!r}) {sign} {column}": (column, sign, constant) for column, sign, constant in sides.values()}
    found = read(place.engine, {text: emitted(text) for text in (*sides, *turned)}, many=COUNT)
    for text, values in found.items():
        column, sign, constant = {**sides, **turned}[text]
        for one, value_of_row in zip(values, SINGLE.column(column).to_pylist(), strict=True):
            operands = (value_of_row, constant) if text in sides else (constant, value_of_row)
            assert_same(place, sign, operands, one)


def test_two_constants_are_folded_to_python_s_number(place: Place) -> None:
    texts = {f"({a!r}) {sign} ({b!r})": (sign, a, b) for sign in SIGNS[:2] for a in FEW for b in FEW}
    found = read(place.engine, {text: emitted(text) for text in texts}, many=1)
    for text, (sign, a, b) in texts.items():
        assert_same(place, sign, (a, b), found[text][0])
