"""Refusals are free, so they are cheap: their work grows in step with the question, counted in calls."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
import pytest

from lapwing.curator import Curator, open_data
from lapwing.errors import LapwingError, Refused
from lapwing.privacy import Budget
from lapwing.sql.parse import _parse, _parsed, parse
from support.refusals import attempt

SIZES = 70, 140  # beyond the number of constants of a question that is read by its shape
Shape = Callable[[int], str]


def repeated(many: int, text: str, between: str = ", ") -> str:
    """The text as often as that, with a number in place of #."""
    return between.join(text.replace("#", str(i)) for i in range(many))


def where(text: str, between: str = " OR ", more: str = "") -> Shape:
    return lambda n: f"SELECT COUNT(*) FROM t WHERE {repeated(n, text, between)}{more}"


def selected(text: str, more: str) -> Shape:
    return lambda n: f"SELECT {repeated(n, text)}{more}"


def nested(opening: str, core: str, closing: str, before: str = "SELECT COUNT(*) FROM t WHERE ") -> Shape:
    return lambda n: before + opening * n + core + closing * n


SHAPES: dict[str, Shape] = {
    "sums": selected("SUM(c#)", " FROM t"),
    "sums of expressions": selected("SUM(c1 + #) AS s#", " FROM t"),
    "sums with the same name": selected("SUM(c1)", ", nothing(c1) FROM t"),
    "levels of quantiles": selected("QUANTILE_CONT(c1, 0.5#)", " FROM t"),
    "rows": selected("c1 AS x#", " FROM t"),
    "columns with the same name": selected("c1", " FROM t"),
    "keys": lambda n: f"SELECT COUNT(*) FROM t GROUP BY {repeated(n, 'c#')}",
    "keys by name": lambda n: f"SELECT {repeated(n, 'c1 + # AS k#')} FROM t GROUP BY {repeated(n, 'k#')}",
    "keys by name, misspelled": lambda n: (
        f"SELECT {repeated(n, 'c1 + # AS k#')}, nothing(c1) FROM t GROUP BY {repeated(n, 'k#')}"
    ),
    "keys by place": lambda n: f"SELECT {repeated(n, 'c1 + #')} FROM t GROUP BY {repeated(n, '#')}".replace(
        "BY 0, ", "BY "
    ),
    "all keys": selected("c1 + # AS k#", ", nothing(c1) FROM t GROUP BY ALL"),
    "rollup": lambda n: f"SELECT COUNT(*) FROM t GROUP BY ROLLUP ({repeated(n, 'c1 + #')})",
    "grouping sets": lambda n: f"SELECT COUNT(*) FROM t GROUP BY GROUPING SETS ({repeated(n, '(c1 + #)')})",
    "sorting": lambda n: (
        f"SELECT {repeated(n, 'COUNT(*) + # AS n#')} FROM t GROUP BY c1 ORDER BY {repeated(n, 'n#')}, nothing(c1)"
    ),
    "having": lambda n: f"SELECT COUNT(*) FROM t HAVING {repeated(n, 'SUM(c#) > 0', ' OR ')} OR nothing(c1)",
    "or": where("c1 = #"),
    "or of all columns": where("c# = #"),
    "or, unknown function": where("c1 = #", more=" OR nothing(c1)"),
    "or, wrong type": where("c1 = #", more=" OR c1"),
    "and": where("c1 <> #", " AND ", " AND nothing(c1)"),
    "plus": where("c1", " + ", " > nothing(c1)"),
    "in": lambda n: f"SELECT COUNT(*) FROM t WHERE c1 IN ({repeated(n, '#')})",
    "in, wrong type": lambda n: f"SELECT COUNT(*) FROM t WHERE c1 IN ({repeated(n, chr(39) + 'a#' + chr(39))})",
    "case": lambda n: f"SELECT SUM(CASE {repeated(n, 'WHEN c1 = # THEN c#', ' ')} END) FROM t",
    "greatest": lambda n: f"SELECT SUM(GREATEST({repeated(n, 'c#')})) FROM t",
    "scalars": where("c1 = (SELECT COUNT(*) FROM t)"),
    "parentheses": nested("(", "nothing(c1)", ")"),
    "not": nested("NOT ", "nothing(c1)", ""),
    "minus": nested("- ", "nothing(c1)", ""),
    "functions": nested("ABS(", "nothing(c1)", ")"),
    "brackets": nested("[", "c1", "]"),
    "cases": nested("CASE WHEN c1 = 1 THEN 1 ELSE ", "nothing(c1)", " END"),
    "subqueries": nested("(SELECT * FROM ", "t", ")", "SELECT nothing(c1) FROM "),
    "unclosed": nested("(", "", "", "SELECT "),
    "unions": lambda n: repeated(n, "SELECT c1 FROM t", " UNION ALL "),
    "unions in FROM": lambda n: f"SELECT nothing(c1) FROM ({repeated(n, 'SELECT id, c1 FROM t', ' UNION ALL ')}) AS u",
    "joins": lambda n: f"SELECT COUNT(*) FROM t AS a {repeated(n, 'JOIN t AS a# ON a.id = a#.id', ' ')}",
    "commas": lambda n: f"SELECT COUNT(*) FROM {repeated(n, 't AS a#')}",
    "with": lambda n: f"WITH {repeated(n, 'a# AS (SELECT c1 FROM t)')} SELECT nothing(c1) FROM a0",
    "with, aggregated": lambda n: f"WITH {repeated(n, 'a# AS (SELECT COUNT(*) AS n FROM t)')} SELECT n FROM a0",
    "windows": selected("SUM(COUNT(*)) OVER () AS w#", ", nothing(c1) FROM t GROUP BY c1"),
    "comments": lambda n: f"SELECT nothing(c1) FROM t {'/* a */ ' * n}",
    "unfinished": selected("c1", " FROM t WHERE )"),
}


@contextmanager
def counting() -> Iterator[Callable[[], int]]:
    """Counts calls, of C functions too."""
    many = 0

    def count(_frame: Any, event: str, _of: Any) -> None:
        nonlocal many
        many += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield lambda: many
    finally:
        sys.setprofile(before)


def table(columns: int) -> Curator:
    data = {"id": [1, 2, 3]} | {f"c{i}": [1, 2, 3] for i in range(columns)}
    return open_data(pa.table(data), name="t", unit="id", budget=Budget(epsilon=1))


TABLES = {size: table(size) for size in SIZES}


def calls(curator: Curator, text: str, **terms: Any) -> int:
    """How many calls it takes to refuse a question that was not seen before."""
    with counting() as counted:
        found = attempt(curator.preview, text, **terms)
        many = counted()
    assert isinstance(found, Refused), text
    return many


@pytest.mark.parametrize("name", SHAPES)
def test_a_refusal_takes_work_in_step_with_the_question_and_its_columns(name: str) -> None:
    """Of a table with as many columns, none of which have bounds. Quadratic work would take four times the calls."""
    small, large = (calls(TABLES[size], SHAPES[name](size)) for size in SIZES)
    assert large <= 2.2 * small, (small, large)


@pytest.mark.parametrize("name", ["sums", "sums of expressions", "or", "rows"])
def test_work_stays_in_step_where_bounds_and_limits_are_searched_for(name: str) -> None:
    """What a question needs found is decided for each aggregate alone, without reading the question again."""
    counts = []
    for size in SIZES:
        with counting() as counted, suppress(LapwingError):
            TABLES[size].preview(SHAPES[name](size), bounds="auto", limits="auto")
        counts.append(counted())
    assert counts[1] <= 2.2 * counts[0], counts


def test_a_thousand_ors_are_refused_after_one_parse() -> None:
    """A question that is refused is read for the answer, for what goes on above it and for what could be found."""
    text = f"SELECT COUNT(*) FROM t WHERE {repeated(1_000, 'c1 = 1', ' OR ')}"
    _parsed.cache_clear()
    many = calls(TABLES[SIZES[0]], text)
    with counting() as counted:
        attempt(_parse, text)
    assert many <= 1.1 * counted()
    assert _parsed.cache_info().misses == 1


@pytest.mark.parametrize("name", SHAPES)
def test_reading_leaves_the_parsed_statement_as_it_is(name: str) -> None:
    """It is remembered, so that a second reading finds what the first one found."""
    text = SHAPES[name](3)
    tree = attempt(parse, text)
    if isinstance(tree, Refused):
        assert attempt(parse, text) is not tree
        return
    before = repr(tree)
    for _ in range(2):
        with suppress(LapwingError):
            TABLES[SIZES[0]].preview(text, epsilon=1)
    assert parse(text) is tree
    assert repr(tree) == before


@pytest.mark.parametrize(
    "name", ["parentheses", "not", "minus", "functions", "brackets", "cases", "subqueries", "unclosed"]
)
def test_deep_nesting_is_refused_and_exhausts_no_stack(name: str) -> None:
    for many in (300, 9_000):
        found = attempt(TABLES[SIZES[0]].preview, SHAPES[name](many))
        assert isinstance(found, Refused)
        assert found.code in ("too-large", "syntax", "unsupported-function")
