"""Float64 arithmetic on PostgreSQL is that of IEEE 754, on every pair of numbers that has ends to fall off."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sqlglot import exp

from lapwing.engines.engine import Engine
from lapwing.engines.postgres_arithmetic import constant_of
from lapwing.expressions import forms
from lapwing.expressions.table import Field, Table
from lapwing.expressions.to_sqlglot import literal, real
from lapwing.expressions.types import Type
from support.cells import run
from support.hosts import DuckDBHost, PostgresHost
from support.postgres import PostgresServer

MANY = 4000


def numbers() -> list[float]:
    ends = [0.0, -0.0, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, math.inf, -math.inf, math.nan]
    near = [1.0, 2.0**-500, 2.0**500, 2.0**1022, 2.0**1023, 2.0**512, 2.0**-537, 2.0**-1000, 2.0**-40, 3.0]
    around = [np.nextafter(x, to) for x in near for to in (0, np.inf)]
    return [*ends, *near, *map(float, around)]


def pairs() -> list[tuple[float, float]]:
    random = Random(7)
    found = [(x, y) for x in numbers() for y in numbers()]
    while len(found) < MANY:
        x = math.ldexp(random.uniform(1, 2), random.randint(-1074, 1023)) * random.choice([1, -1])
        edge = random.choice([1024, 1023, -1074, -1075, -1076, 0])
        y = math.ldexp(random.uniform(1, 2), max(-1074, min(1023, edge - math.frexp(x)[1]))) * random.choice([1, -1])
        found.append((x, y))
        found.append((x, 1 / y if y and math.isfinite(1 / y) else y))
    return [*found, (1.0, None), (None, 1.0), (1.7e308, None)]  # type: ignore[list-item]


PAIRS = pairs()
TABLE = Table("t", (Field("i", Type.INTEGER), Field("x", Type.REAL), Field("y", Type.REAL)), None)
X, Y = exp.column("x"), exp.column("y")


def data() -> pa.Table:
    x, y = zip(*PAIRS, strict=True)
    return pa.table({"i": pa.array(range(len(PAIRS))), "x": pa.array(x, pa.float64()), "y": pa.array(y, pa.float64())})


@pytest.fixture(scope="module")
def engine(postgres: PostgresServer) -> Iterator[Engine]:
    host = PostgresHost(postgres)
    made = host.engine([(TABLE, data())])
    yield made
    made.close()
    host.close()


def values(engine: Engine, *nodes: exp.Expression) -> list[list[Any]]:
    columns = [exp.alias_(node, f"v{place}") for place, node in enumerate(nodes)]
    found = run(engine, exp.select("i", *columns).from_("t")).sort_by("i")
    return [found.column(f"v{place}").to_pylist() for place in range(len(nodes))]


def same(a: float | None, b: float | None) -> bool:
    return a == b or (a is not None and b is not None and a != a and b != b)


def longer(node: exp.Expression) -> exp.Expression:
    """The same number in so many words that it is computed once and named."""
    for _ in range(4):
        node = forms.Greatest(expressions=[node, node.copy()])
    return node


OPERATORS: dict[forms.Form, Callable[[Any, Any], Any]] = {
    forms.Plus: np.add,
    forms.Minus: np.subtract,
    forms.Times: np.multiply,
    forms.Quotient: np.divide,
}


@pytest.mark.parametrize("form", OPERATORS, ids=lambda form: form.name)
@pytest.mark.parametrize("make", [lambda node: node, longer], ids=["short", "named"])
def test_every_pair_gives_what_ieee_says(engine: Engine, form: forms.Form, make: Any) -> None:
    """threat:A12 gate:G18 where PostgreSQL itself would raise on about a third of these."""
    [found] = values(engine, form(this=make(X.copy()), expression=Y.copy()))
    with np.errstate(all="ignore"):
        for (x, y), one in zip(PAIRS, found, strict=True):
            if x is None or y is None or (form is forms.Quotient and y == 0):
                assert one is None
            else:
                assert same(one, float(OPERATORS[form](np.float64(x), np.float64(y)))), (x, y, one)


@pytest.mark.parametrize("constant", [0.0, 1.0, 0.3, 1e300, 1e-300, 1.7e308, 5e-324])
def test_constants_are_operands_too(engine: Engine, constant: float) -> None:
    """A constant operand is checked when the text is written; both constant, it is folded by the server."""
    from fractions import Fraction

    node = real(Fraction(constant))
    for form, operator in OPERATORS.items():
        operand = exp.Paren(this=node.copy())
        if form is forms.Quotient and not constant:
            continue
        folded = form(this=node.copy(), expression=node.copy())
        [found, both] = values(engine, form(this=X.copy(), expression=operand), folded)
        with np.errstate(all="ignore"):
            assert same(both[0], float(operator(np.float64(constant), np.float64(constant))))
            for (x, _), one in zip(PAIRS, found, strict=True):
                expected = None if x is None else float(operator(np.float64(x), np.float64(constant)))
                assert same(one, expected), (x, constant, one)


def test_remainders_are_exact_or_null(engine: Engine) -> None:
    [found] = values(engine, forms.Modulo(this=X.copy(), expression=Y.copy()))
    known = 0
    for (x, y), one in zip(PAIRS, found, strict=True):
        if x is None or y is None or y == 0:
            assert one is None
        elif one is not None:
            known += 1
            assert same(one, float(np.fmod(x, y)) if math.isfinite(x) else math.nan), (x, y, one)
        else:
            assert abs(x) >= abs(y)
            assert abs(x) >= 2**116 or abs(y) < 2**-9
    assert known > MANY / 3


@pytest.mark.parametrize("constant", [5e-324, 1e-300, 2.0**63, 1.7e308])
def test_remainders_of_constants_do_not_fail_while_they_are_planned(engine: Engine, constant: float) -> None:
    """PostgreSQL computes constants before it looks at a row, also in a branch that no row takes."""
    nodes = [
        forms.Modulo(this=real(constant), expression=Y.copy()),
        forms.Modulo(this=X.copy(), expression=real(constant)),
    ]
    left, right = values(engine, *nodes)
    for (x, y), one, other in zip(PAIRS, left, right, strict=True):
        assert one is None or same(one, math.fmod(constant, y))
        assert other is None or not math.isfinite(x) or same(other, math.fmod(x, constant))
    assert any(one is not None for one in left)


def test_remainders_of_large_whole_numbers_are_exact(postgres: PostgresServer) -> None:
    """Of every integer, and of their sums and products: ABS of the least integer is 2^63."""
    host, random = PostgresHost(postgres), Random(11)
    large = [
        float(s * (2**e + d * 2 ** max(0, e - 52)))
        for e in (52, 53, 62, 63, 64, 100, 115)
        for d in (-1, 0, 1)
        for s in (1, -1)
    ]
    large += [math.ldexp(random.uniform(1, 2), random.randint(50, 115)) for _ in range(300)]
    small = [2.0, 3.0, -7.0, 0.1, 2.0**-9, 1e15 + 0.3, 2.0**63, 2.0**70 + 2.0**20, 1e30 / 3]
    both = [(x, y) for x in large for y in small]
    rows = pa.table(
        {
            "i": pa.array(range(len(both))),
            "x": pa.array([x for x, _ in both], pa.float64()),
            "y": pa.array([y for _, y in both], pa.float64()),
        }
    )
    engine = host.engine([(TABLE, rows)])
    [found] = values(engine, forms.Modulo(this=X.copy(), expression=Y.copy()))
    assert found == [math.fmod(x, y) for x, y in both]
    engine.close()
    host.close()


def test_functions_are_those_of_duckdb(engine: Engine) -> None:
    """Up to the last bit of what libraries compute, and up to numbers below 2^-1022, which are 0 here."""
    nodes = [forms.Power(this=X.copy(), expression=exp.cast(literal(n), "DOUBLE")) for n in (0, 1, 2, 3, 7, 16)]
    nodes += [forms.Exponential(this=X.copy())]
    positive = exp.GT(this=X.copy(), expression=exp.Literal.number(0))
    for form in (forms.Log2, forms.Log10):
        nodes.append(exp.Case(ifs=[exp.If(this=positive.copy(), true=form(this=X.copy()))]))
    ours = DuckDBHost().engine([(TABLE, data())])
    for mine, theirs in zip(values(ours, *[n.copy() for n in nodes]), values(engine, *nodes), strict=True):
        for a, b in zip(mine, theirs, strict=True):
            tiny = b == 0 and abs(a) < 2.3e-308
            huge = a != b and b is not None and math.isinf(b) and abs(a) > 1.79769e308
            assert same(a, b) or tiny or huge or math.isclose(a, b, rel_tol=1e-15), (a, b)


@pytest.mark.parametrize("digits", [None, 0, 1, 2, 15, -1, -2, -15])
def test_halves_are_rounded_away_from_zero(engine: Engine, digits: int | None) -> None:
    def node() -> exp.Expression:
        return forms.RoundTo(this=X.copy(), digits=None if digits is None else literal(digits))

    ours = DuckDBHost().engine([(TABLE, data())])
    [mine], [theirs] = values(ours, node()), values(engine, node())
    for (x, _), a, b in zip(PAIRS, mine, theirs, strict=True):
        large = digits is not None and x is not None and abs(x) >= 1e280
        assert same(a, b) or (large and math.isclose(a, b, rel_tol=1e-15)), (x, a, b)


@pytest.mark.parametrize(
    ("text", "value"),
    [("FLOAT8 '1.5e0'", 1.5), ("CAST(2 AS DOUBLE PRECISION)", 2.0), ("(FLOAT8 '2e3')", 2000.0), ('"x"', None)],
)
def test_constants_are_known(text: str, value: float | None) -> None:
    assert constant_of(text) == value
