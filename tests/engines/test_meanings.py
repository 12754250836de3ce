"""Operators mean the same on every engine, where engines by themselves do not agree."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from sqlglot import exp

from engines.test_remainders import REALS
from engines.test_texts import LETTERS
from lapwing.engines.engine import Engine
from lapwing.errors import Refused
from lapwing.expressions.expression import Column, Key, Operator, Slot
from lapwing.expressions.operators.casts import CASTS
from lapwing.expressions.operators.table import OPERATORS
from lapwing.expressions.table import Catalog, Field, Table
from lapwing.expressions.to_sqlglot import value
from lapwing.expressions.types import Type
from lapwing.plan.question import Question
from lapwing.sql import read_sql
from support.cells import run
from support.hosts import DuckDBHost, Host, dialects

NEW = "\u019b\u0264\u1c89\u1c8a"  # Unicode 16 gave them another case
NUMBERS = [x for x in REALS if x is not None] + [5.0, -5.0, 14.99, 15.0, 149.0, 150.0, -250.0, 4.5e17]
TABLE = Table("t", (Field("i", Type.INTEGER), Field("c", Type.TEXT), Field("x", Type.REAL)), None)


@cache
def cased() -> list[str]:
    """Every character that has a case, and spaces."""
    every = [chr(code) for code in range(1, 0x110000) if not 0xD800 <= code < 0xE000]
    return [c for c in every if c not in NEW and (c.lower() != c or c.upper() != c or c.isspace())]


@cache
def rows() -> pa.Table:
    places = pa.array(range(len(cased())), pa.int64())
    numbers = pa.array([*NUMBERS, *[None] * (len(cased()) - len(NUMBERS))], pa.float64())
    return pa.table({"i": places, "c": cased(), "x": numbers})


@pytest.fixture(scope="module")
def engine(host: Host) -> Iterator[Engine]:
    made = host.engine([(TABLE, rows())])
    yield made
    made.close()


def column(leaf: Column | Key | Slot) -> exp.Expression:
    assert isinstance(leaf, Column)
    return exp.column(leaf.name, quoted=True)


def values(engine: Engine, *texts: str) -> dict[str, list[Any]]:
    """The values of these expressions, row by row."""
    selected = []
    for place, text in enumerate(texts):
        question = read_sql(f"SELECT COUNT({text}) FROM t", Catalog((TABLE,)))
        assert isinstance(question, Question)
        selected.append(exp.alias_(value(question.aggregates[0].arguments[0], column), f"v{place}"))
    found = run(engine, exp.select("i", *selected).from_("t")).sort_by("i")
    return {text: found.column(f"v{place}").to_pylist() for place, text in enumerate(texts)}


def to_multiple(x: float, step: int) -> float | None:
    """By exact arithmetic, halves away from 0, and the nearest float64 of it."""
    if math.isnan(x):
        return None
    if math.isinf(x):
        return x
    steps = math.floor(abs(Fraction(x)) / step + Fraction(1, 2))
    try:
        return math.copysign(float(steps * step), x)
    except OverflowError:
        return x


def test_rounding_to_tens_and_hundreds_keeps_infinity_and_is_nearest(engine: Engine) -> None:
    """DuckDB's own ROUND(x, -2) is 0 for NaN, infinity and some of the largest numbers."""
    steps = {f"ROUND(x, -{digits})": 10**digits for digits in (1, 2, 6, 7, 12, 15)}
    for text, found in values(engine, *steps).items():
        for x, rounded in zip(NUMBERS, found, strict=False):
            exact = to_multiple(x, steps[text])
            near = 2**50 <= abs(x) / steps[text] < 2**53  # where a quotient in float64 may be rounded to a half
            assert rounded == exact or (near and abs(rounded - exact) <= steps[text]), (text, x)


SPECIAL = {
    "LOWER(c)": {"\u0130": "i", "\u03a3": "\u03c3", "\u212a": "k", "\u1e9e": "ß"},
    "UPPER(c)": {
        "ß": "\u1e9e",
        "\u1fb3": "\u1fbc",
        "\u0149": "\u0149",
        "\ufb01": "\ufb01",
        "\u0131": "I",
        "ÿ": "\u0178",
    },
}


def test_every_letter_has_one_case_on_every_engine(engine: Engine) -> None:
    texts = [*SPECIAL, "TRIM(c)", "LTRIM(c)", "RTRIM('a' || c)", "c ILIKE '\u0130%'"]
    other, letters = DuckDBHost().engine([(TABLE, rows())]), cased()
    found, known = values(engine, *texts), values(other, *texts)
    other.close()
    for text in texts:
        odd = [c for c, one, two in zip(letters, found[text], known[text], strict=True) if one != two]
        assert odd == [], text
    for text, cases in SPECIAL.items():
        assert {c: found[text][letters.index(c)] for c in cases} == cases
    assert [c for c, held in zip(letters, found[texts[-1]], strict=True) if held] == ["I", "i", "\u0130"]


def test_parts_of_a_text_have_no_wildcards(engine: Engine) -> None:
    """% and _ stand for themselves, also together, which only LIKE refuses."""
    tests = {
        "STARTS_WITH('%_' || c, '%_')": True,
        "ENDS_WITH(c || '%_', '%_')": True,
        "CONTAINS('a%_' || c, '%_')": True,
        "CONTAINS('ab' || c, '%_')": False,
        "STARTS_WITH('ab' || c, '%_')": False,
        "ENDS_WITH(c || 'ab', '_%')": False,
    }
    for text, found in values(engine, *tests).items():
        assert set(found) == {tests[text]}, text


@pytest.mark.parametrize("inners", [CASTS, pytest.param(OPERATORS, marks=pytest.mark.slow)])
def test_every_operator_is_written_around_others(inners: tuple[Operator, ...]) -> None:
    """sqlglot looks into what some of its nodes hold, which is written already."""
    catalog, many, written = Catalog((LETTERS,)), 0, dialects().values()
    for inner, outer in product(inners, OPERATORS):
        for name in sorted(set(re.findall(r"\b[xynsdtc]\b", outer.sql))):
            text = re.sub(rf"\b{name}\b", f"({inner.sql})", outer.sql, count=1)
            with suppress(Refused):
                question = read_sql(f"SELECT COUNT(*) FROM letters WHERE ({text}) IS NULL", catalog)
                assert isinstance(question, Question)
                assert question.where is not None
                many += 1
                for dialect in written:
                    with suppress(Refused):  # what Spark lacks
                        assert dialect.write(value(question.where, column)).text, text
    assert many > 10 * len(inners)
