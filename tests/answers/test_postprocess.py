"""What is computed above the release: the values are DuckDB's own, and intervals hold whenever the boxes below do."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from random import Random
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from lapwing.answers import computed
from lapwing.answers.computed import compute, rehearse_statement
from lapwing.answers.table import AnswerColumn, AnswerTable
from lapwing.engines import public_values
from lapwing.errors import Unfinished
from lapwing.expressions.expression import Key
from lapwing.expressions.types import Type
from lapwing.plan.postprocessed import SplitStatement
from lapwing.plan.question import Question
from lapwing.sql.split import read_statement
from support.sweeps import sweep
from support.visits import visits_catalog

LEVEL = Fraction(19, 20)
CATALOG = visits_catalog()
BASE = "SELECT sex, site, COUNT(*) AS n, SUM(cost) AS s FROM visits GROUP BY sex, site"
TOTAL = "SELECT site, COUNT(*) AS m FROM visits GROUP BY site"
GROUPS = [(sex, site) for sex in ("F", "M") for site in (9, 10, 1000)]
Numbers = dict[tuple[Any, ...], dict[str, float]]
"""For each group its numbers, by the name in the released table."""

SAME_ROWS = [
    "SELECT sex, site, n, n * 100.0 / SUM(n) OVER () AS share FROM r",
    "SELECT sex, site, n / SUM(n) OVER (PARTITION BY sex) AS share, AVG(s) OVER (PARTITION BY site) AS a FROM r",
    "SELECT sex, site, SUM(n) OVER (PARTITION BY sex ORDER BY site) AS running FROM r",
    (
        "SELECT sex, site, n - LAG(n) OVER (PARTITION BY sex ORDER BY site) AS step, LEAD(s, "
        "2) OVER (ORDER BY sex, site) AS l FROM r"
    ),
    "SELECT sex, site, AVG(s) OVER (ORDER BY sex, site ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS moving FROM r",
    "SELECT sex, site, MAX(n) OVER w - MIN(n) OVER w AS spread FROM r WINDOW w AS (PARTITION BY sex)",
    "SELECT sex, site, RANK() OVER (ORDER BY n DESC) AS place, ROW_NUMBER() OVER (ORDER BY sex, site) AS i FROM r",
    "SELECT sex, site, DENSE_RANK() OVER (PARTITION BY sex ORDER BY s) AS d FROM r",
    (
        "SELECT sex, site, FIRST_VALUE(n) OVER (PARTITION BY sex ORDER BY site) AS f, "
        "COUNT(*) OVER (PARTITION BY sex) AS c FROM r"
    ),
    "SELECT sex, site, CASE WHEN n > 50 THEN n ELSE 50 END AS c, ROUND(s / n, 2) AS mean FROM r",
    "SELECT sex, SUM(n) AS n, AVG(s) AS a, MIN(s) AS low, MAX(n) AS high, COUNT(*) AS c FROM r GROUP BY sex",
    "SELECT SUM(n) AS n, MEDIAN(s) AS m, QUANTILE_CONT(n, 0.25) AS q FROM r",
    (
        "SELECT site, SUM(n) FILTER (WHERE sex = 'F') AS women, "
        "COUNT(n) FILTER (WHERE sex = 'M') AS c FROM r GROUP BY site"
    ),
    "SELECT sex, MAX(t) AS m FROM (SELECT sex, site, SUM(n) AS t FROM r GROUP BY sex, site) GROUP BY sex",
    (
        "SELECT a.sex, a.site, n / t AS p FROM r AS a JOIN (SELECT sex, "
        "SUM(n) AS t FROM r GROUP BY sex) AS b ON a.sex = b.sex"
    ),
    "SELECT site, SUM(n) AS n, m FROM r JOIN q USING (site) GROUP BY site, m",
    "SELECT sex, site, n FROM r UNION ALL SELECT NULL, site, m FROM q",
    "SELECT sex, site, n / (SELECT SUM(m) FROM q) AS share FROM r",
    "SELECT sex, site, n, n - (SELECT AVG(n) FROM r) AS d FROM r ORDER BY sex, site LIMIT 3 OFFSET 1",
    "SELECT sex, site, SUM(n) AS n, GROUPING(site) AS g FROM r GROUP BY ROLLUP (sex, site)",
    "SELECT a.site, a.m - b.m AS gap FROM q AS a JOIN q AS b ON a.site < b.site",
    "SELECT sex, site, n FROM r WHERE site > 9 AND sex = 'F'",
    "SELECT sex, n FROM r QUALIFY ROW_NUMBER() OVER (PARTITION BY sex ORDER BY site DESC) = 1",
    (
        "SELECT q.site, m, COALESCE(n, 0) AS z "
        "FROM q LEFT JOIN (SELECT * FROM r WHERE n > 50 AND sex = 'F') AS x ON q.site = x.site"
    ),
    (
        "SELECT q.site, m, COALESCE(n, 0) AS z "
        "FROM q LEFT JOIN (SELECT * FROM r WHERE sex = 'F') AS x ON q.site = x.site AND n > 50"
    ),
    (
        "SELECT site, m, COALESCE(c, 0) AS z "
        "FROM (SELECT site, COUNT(*) AS c FROM r WHERE n > 70 GROUP BY site) RIGHT JOIN q USING (site) ORDER BY site"
    ),
    (
        "SELECT sex, site, RANK() OVER (ORDER BY d) AS k "
        "FROM (SELECT sex, site, n - LAG(n) OVER (ORDER BY sex, site) AS d FROM r)"
    ),
    "SELECT sex, site, RANK() OVER (PARTITION BY sex ORDER BY CASE WHEN site > 9 THEN n END DESC) AS k FROM r",
]
"""Nothing chooses rows by noisy numbers: the answer has the same rows whatever they are."""
ONE_ROW = [
    "SELECT COUNT(*) AS c, SUM(n) AS s, MAX(n) AS high, MIN(s) AS low FROM r WHERE n > 50",
    "SELECT AVG(n) AS a, COUNT(n) AS c FROM r WHERE n > 45 OR s < 20",
    "SELECT SUM(n) AS s, COUNT(*) AS c FROM (SELECT * FROM r ORDER BY n DESC LIMIT 3)",
    "SELECT MAX(n) AS m FROM (SELECT n FROM r QUALIFY RANK() OVER (ORDER BY n DESC) <= 2)",
    "SELECT ARG_MAX(site, n) AS best, ARG_MIN(s, n) AS least FROM r",
    "SELECT COUNT(*) AS c FROM (SELECT site, SUM(n) AS t FROM r GROUP BY site) WHERE t > 100",
]
"""One row, computed from rows that noisy numbers choose."""
CHOSEN = [
    "SELECT sex, site, n FROM r ORDER BY n DESC LIMIT 2",
    "SELECT sex, site, n FROM r WHERE n > 50",
    "SELECT sex, site, n FROM r QUALIFY ROW_NUMBER() OVER (PARTITION BY sex ORDER BY n DESC) <= 2",
    "SELECT sex, site, n FROM r WHERE n > (SELECT AVG(n) FROM r)",
    "SELECT a.sex, a.site, a.n FROM r AS a JOIN q ON a.n > q.m - 60",
]
"""Rows that noisy numbers choose; their numbers are those of the groups."""
VALUES_ONLY = [
    "SELECT sex, STDDEV(n) AS d, VARIANCE(s) AS v, COUNT(DISTINCT site) AS c FROM r GROUP BY sex ORDER BY sex DESC",
    "SELECT CASE WHEN n > 50 THEN 'big' ELSE 'small' END AS size, COUNT(*) AS c, SUM(n) AS n FROM r GROUP BY ALL",
    "SELECT DISTINCT site FROM r WHERE n > 40",
    (
        "SELECT sex, site, NTILE(2) OVER (ORDER BY n) AS t, PERCENT_RANK() OVER (ORDER BY n) AS p, "
        "CUME_DIST() OVER (ORDER BY s) AS c FROM r"
    ),
    "SELECT sex, site, SUM(s) OVER (ORDER BY n ROWS UNBOUNDED PRECEDING) AS running FROM r",
    "SELECT * FROM q LEFT JOIN (SELECT site AS s2, n FROM r WHERE n > 60 AND sex = 'F') ON site = s2",
    "SELECT r.sex, q.site FROM r FULL JOIN q ON r.site = q.site AND r.n > 50",
    "SELECT n FROM r UNION SELECT m FROM q ORDER BY 1 LIMIT 4",
    "SELECT site, COUNT(*) AS c FROM r WHERE n > 50 GROUP BY site HAVING SUM(s) > 30 ORDER BY c, site",
    (
        "SELECT sex, site, NTH_VALUE(n, 2) OVER (PARTITION BY sex ORDER BY site) AS v, "
        "LAST_VALUE(s) OVER (PARTITION BY sex) AS l FROM r"
    ),
    "SELECT site, SUM(n) AS n FROM r GROUP BY CUBE (site), sex",
    "SELECT sex, SUM(SUM(n)) OVER (ORDER BY sex) AS t FROM r GROUP BY sex",
]
EVERY = [*SAME_ROWS, *ONE_ROW, *CHOSEN, *VALUES_ONLY]


@cache
def statement(text: str) -> SplitStatement:
    read = read_statement(f"WITH r AS ({BASE}), q AS ({TOTAL}) {text}", CATALOG)
    rehearse_statement(read, LEVEL)
    return read


def table(part: Question, numbers: Numbers, boxes: Numbers | None = None) -> AnswerTable:
    """A released table of a part: its numbers, and how far each may be off."""
    by = {"COUNT(*)": "n" if len(part.keys) == 2 else "m", "SUM(cost)": "s"}
    groups = [group for group in numbers if len(group) == len(part.keys)]
    names = ["sex", "site"] if len(part.keys) == 2 else ["site"]
    columns = []
    for output in part.outputs:
        kind = output.expression.type or Type.TEXT
        if isinstance(output.expression, Key):
            place = names.index(part.keys[output.expression.index].name)  # type: ignore[union-attr]
            values = np.empty(len(groups), object)
            values[:] = [group[place] for group in groups]
            columns.append(AnswerColumn(output.name, kind, values))
        else:
            name = by[part.aggregates[output.expression.index].words()]  # type: ignore[union-attr]
            found = np.array([numbers[group][name] for group in groups])
            off = np.array([boxes[group][name] if boxes else 0.0 for group in groups])
            whole = np.array([int(value) for value in found.tolist()], object)
            columns.append(
                AnswerColumn(output.name, kind, found if kind is Type.REAL else whole, found - off, found + off)
            )
    return AnswerTable(tuple(columns), LEVEL)


def computed_rows(read: SplitStatement, numbers: Numbers, boxes: Numbers | None = None) -> tuple[AnswerColumn, ...]:
    return compute(read, lambda place, _, __: table(read.parts[place], numbers, boxes), LEVEL)


def random_numbers(random: Random, *, wild: bool = False) -> Numbers:
    counts = iter(random.sample(range(20, 90), 18))  # without ties, whose order is nobody's

    def whole() -> float:
        return float(random.choice([0, 1, -7, 2**70, -(2**40)]) if wild else next(counts))

    def real() -> float:
        return random.choice([0.0, -0.0, 1e308, -1e308, 1e-300, 5e-324, 1e150]) if wild else random.uniform(1, 60)

    groups: list[tuple[Any, ...]] = [*GROUPS, (9,), (10,), (1000,)]
    return {g: {"n": whole(), "s": real(), "m": whole()} for g in groups}


def duckdb_rows(text: str, numbers: Numbers) -> list[tuple[Any, ...]]:
    """The same text, run by DuckDB on the released numbers."""
    pairs = [(*group, int(one["n"]), one["s"]) for group, one in numbers.items() if len(group) == 2]
    r = pa.table(dict(zip(["sex", "site", "n", "s"], map(list, zip(*pairs, strict=True)), strict=True)))  # noqa: F841
    singles = [(group[0], int(one["m"])) for group, one in numbers.items() if len(group) == 1]
    q = pa.table({"site": [site for site, _ in singles], "m": [m for _, m in singles]})  # noqa: F841
    with duckdb.connect() as connection:
        return connection.sql(text).fetchall()


def plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(round(float(v), 6) if isinstance(v, int | float) and not isinstance(v, bool) else v for v in row)


@pytest.mark.parametrize("times", sweep([1, 2], 1))
@pytest.mark.parametrize("text", EVERY)
def test_values_are_those_that_duckdb_gives_on_the_released_numbers(text: str, times: int) -> None:
    read, random = statement(text), Random(text)
    for _ in range(times):
        numbers = random_numbers(random)
        columns = computed_rows(read, numbers)
        mine = [plain(row) for row in zip(*(column.plain() for column in columns), strict=True)]
        theirs = [plain(row) for row in duckdb_rows(text, numbers)]
        if "ORDER BY" in text.split("FROM")[-1] and "OVER" not in text.split("FROM")[-1]:
            assert mine == theirs
        assert sorted(mine, key=repr) == sorted(theirs, key=repr)


@pytest.mark.parametrize("times", sweep([1, 2], 1))
@pytest.mark.parametrize("text", EVERY)
def test_no_number_makes_a_step_fail(text: str, times: int) -> None:
    """The error oracle: whatever the numbers are, what was bound before the charge gives an answer."""
    read, random = statement(text), Random(text)
    for _ in range(times):
        numbers = random_numbers(random, wild=True)
        boxes = {g: {name: abs(value) * 0.5 + 1 for name, value in one.items()} for g, one in numbers.items()}
        columns = computed_rows(read, numbers, boxes)
        assert [column.name for column in columns] == [shown for shown, _, _ in read.columns]
        assert all(len(column.plain()) == len(columns[0].plain()) for column in columns)


def _moved(random: Random, true: Numbers) -> tuple[Numbers, Numbers]:
    """Noisy numbers, and boxes around them that hold the true ones."""
    noisy: Numbers = {}
    boxes: Numbers = {}
    for group, one in true.items():
        off = {name: random.choice([0.0, 1.0, 5.0, 20.0]) for name in one}
        noisy[group] = {
            name: float(round(value + random.uniform(-off[name], off[name]))) for name, value in one.items()
        }
        boxes[group] = {name: off[name] + 1.0 for name in one}
    return noisy, boxes


def _inside(column: AnswerColumn, row: int, value: Any) -> bool:
    low, high = (side[row] for side in column.intervals())
    return low is None or high is None or (value is not None and low <= value <= high)


@pytest.mark.parametrize("times", sweep([2, 5], 1))
@pytest.mark.parametrize("text", [*SAME_ROWS, *ONE_ROW])
def test_intervals_hold_whenever_the_boxes_of_the_released_numbers_do(text: str, times: int) -> None:
    read, random, seen = statement(text), Random(text), 0
    for _ in range(times):
        true = random_numbers(random)
        noisy, boxes = _moved(random, true)
        answer, exact = computed_rows(read, noisy, boxes), computed_rows(read, true)
        for column, wanted in zip(answer, exact, strict=True):
            for row, value in enumerate(wanted.plain()):
                assert _inside(column, row, value), (column.name, row, value)
            seen += sum(low is not None for low in column.intervals()[0])
    assert seen, "some of it has intervals"


@pytest.mark.parametrize("text", CHOSEN)
def test_numbers_of_chosen_rows_are_inside_their_intervals(text: str) -> None:
    read, random = statement(text), Random(text)
    for _ in range(5):
        true = random_numbers(random)
        noisy, boxes = _moved(random, true)
        sex, site, n = computed_rows(read, noisy, boxes)
        assert n.chosen
        for row, group in enumerate(zip(sex.plain(), site.plain(), strict=True)):
            assert _inside(n, row, true[group]["n"])
            assert n.intervals()[0][row] is not None


@pytest.mark.parametrize("how", ["LEFT JOIN x ON q.site = x.site", "FULL JOIN x ON q.site = x.site"])
def test_what_an_outer_join_finds_among_chosen_rows_is_not_called_exact(how: str) -> None:
    """Who has a partner follows from noisy numbers, and so do a public column and a NULL of the other side."""
    read = statement(
        f"SELECT q.site, x.site AS other, x.site IS NULL AS none, n FROM q {how}".replace(
            "JOIN x", "JOIN (SELECT * FROM r WHERE n > 50 AND sex = 'F') AS x"
        )
    )
    numbers = {g: {"n": 51.0, "s": 1.0, "m": 1.0} for g in [*GROUPS, (9,), (10,), (1000,)]}
    boxes = {g: dict.fromkeys(one, 20.0) for g, one in numbers.items()}
    _, *others = computed_rows(read, numbers, boxes)
    assert [column.reason for column in others] == ["it is computed from rows that were chosen by noisy numbers"] * 3
    sure = {g: dict.fromkeys(one, 0.5) for g, one in numbers.items()}
    _, other, none, n = computed_rows(read, numbers, sure)
    assert (other.is_key, none.is_key, n.reason) == (True, True, None)


def levels(text: str) -> list[tuple[Fraction, bool]]:
    """At which confidences the tables of the parts are read."""
    read, asked = statement(text), []

    def leaves(place: int, level: Fraction, together: bool) -> AnswerTable:
        asked.append((level, together))
        return table(read.parts[place], random_numbers(Random(1)))

    compute(read, leaves, LEVEL)
    return sorted(set(asked))


def test_row_by_row_arithmetic_keeps_intervals_per_number() -> None:
    """Every answer looks at the box of all numbers once; a column of m of them takes each at 1 - 0.05 / m."""
    together = (1 - Fraction(1, 20) / 2, True)
    assert levels("SELECT sex, n - LAG(n) OVER (ORDER BY sex, site) + s AS d FROM r") == sorted(
        [(1 - Fraction(1, 60), False), together]
    )
    assert levels("SELECT sex, n, s FROM r ORDER BY n OFFSET 0") == sorted([(LEVEL, False), together])
    assert levels("SELECT sex, n, s FROM r ORDER BY n LIMIT 3 OFFSET 1") == [together]
    assert levels("SELECT sex, n / SUM(s) OVER () AS x FROM r") == [together]
    assert levels("SELECT sex, n / SUM(m) OVER () AS x FROM r JOIN q USING (site)") == [together]


def test_columns_without_an_interval_say_why() -> None:
    text = "SELECT sex, STDDEV(n) AS d, SUM(n) AS t FROM r GROUP BY sex"
    first, second, third = computed_rows(statement(text), random_numbers(Random(2)), random_numbers(Random(3)))
    assert (first.note, second.reason, third.note) == (
        "",
        "no interval follows for this function of several noisy numbers",
        "its intervals hold for all groups together",
    )
    by = "SELECT CASE WHEN n > 50 THEN 'a' ELSE 'b' END AS k, SUM(s) AS t FROM r GROUP BY 1"
    columns = computed_rows(statement(by), random_numbers(Random(2)), random_numbers(Random(3)))
    assert columns[1].reason == "its groups follow from noisy numbers"


def test_what_takes_too_long_is_said_in_one_constant_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    read = statement("SELECT SUM(a.n) AS t FROM r AS a, r AS b, r AS c, r AS d")
    monkeypatch.setattr(public_values, "MOST_ROWS", 1000)
    with pytest.raises(Unfinished, match="asking again for them is free"):
        computed_rows(read, random_numbers(Random(4)))
    monkeypatch.setattr(computed, "Calculation", lambda: public_values.Calculation(0.0))
    with pytest.raises(Unfinished):
        computed_rows(statement("SELECT n + 1 AS x FROM r UNION ALL SELECT m FROM q"), random_numbers(Random(4)))


def test_a_query_that_runs_for_ever_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    read = statement(
        "SELECT COUNT(*) AS t FROM " + ", ".join(f"r AS t{i}" for i in range(9)) + " WHERE t0.n > t8.n + 1e9"
    )
    monkeypatch.setattr(computed, "Calculation", lambda: public_values.Calculation(0.5))
    with pytest.raises(Unfinished):
        computed_rows(read, random_numbers(Random(4)))


SHARES: dict[str, Callable[[Numbers], float]] = {
    "SELECT site, n / SUM(n) OVER () AS x FROM r": lambda _: 1 / 6,
    "SELECT SUM(n) AS x FROM r": lambda _: 6000.0,
    "SELECT n AS x FROM r ORDER BY n DESC LIMIT 1": lambda _: 1000.0,
}


@pytest.mark.parametrize("text", SHARES)
def test_coverage_is_as_stated(text: str) -> None:
    """Six groups of 1,000 with Laplace noise of scale 10, whose intervals are exact at every confidence."""
    read, random, held = statement(text), Random(text), 0

    def leaves(noisy: Numbers) -> Callable[[int, Fraction, bool], AnswerTable]:
        def released(place: int, level: Fraction, together: bool) -> AnswerTable:
            outside = float(1 - level) / (6 if together else 1)
            off = -10 * math.log(outside)
            return table(read.parts[place], noisy, {g: dict.fromkeys(one, off) for g, one in noisy.items()})

        return released

    for _ in range(80):
        noise = [random.expovariate(0.1) - random.expovariate(0.1) for _ in GROUPS]
        noisy = {g: {"n": float(round(1000 + z)), "s": 1.0, "m": 1.0} for g, z in zip(GROUPS, noise, strict=True)}
        column = compute(read, leaves(noisy), LEVEL)[-1]
        true = SHARES[text](noisy)
        held += all(_inside(column, row, true) for row in range(len(column.values)))
    assert held >= 72


NOISY = [
    "SELECT site, (SELECT s FROM r ORDER BY n DESC LIMIT 1) AS x FROM q",
    "SELECT (SELECT site FROM r ORDER BY n DESC LIMIT 1) + 0 AS x FROM q",
    "SELECT SUM(s) OVER (ROWS UNBOUNDED PRECEDING) AS x FROM (SELECT * FROM r ORDER BY n)",
    "SELECT ROW_NUMBER() OVER () AS x FROM (SELECT * FROM r ORDER BY n)",
    "SELECT LAG(s) OVER (ORDER BY sex) AS x FROM (SELECT * FROM r ORDER BY n)",
    "SELECT ANY_VALUE(site) AS x FROM (SELECT * FROM r ORDER BY n)",
    "SELECT COUNT(*) AS x FROM q WHERE site = (SELECT site FROM r ORDER BY n DESC LIMIT 1)",
    "SELECT SUM(m) AS x FROM q JOIN (SELECT site FROM r ORDER BY n DESC LIMIT 1) USING (site)",
    "SELECT SUM(x) AS x FROM (SELECT sex, SUM(s) AS x FROM (SELECT * FROM r ORDER BY n) GROUP BY sex LIMIT 1)",
]
"""Noise decides which row it is, or in which order: what is public by itself is so no more."""


@pytest.mark.parametrize("text", NOISY)
def test_what_follows_from_a_noisy_order_is_never_called_exact(text: str) -> None:
    read, random = statement(text), Random(text)
    for _ in range(4):
        true = random_numbers(random)
        noisy, boxes = _moved(random, true)
        x, exact = computed_rows(read, noisy, boxes)[-1], computed_rows(read, true)[-1]
        assert not x.is_key
        assert all(_inside(x, row, value) for row, value in enumerate(exact.plain()))


def test_a_number_outside_of_its_box_is_no_certain_row() -> None:
    """A noisy count of -3 lies in [0, 9]: below 0 it is shown, and surely is not there."""
    read = statement("SELECT COUNT(*) AS c, SUM(n) AS s FROM r WHERE n < 0")
    noisy = random_numbers(Random(5))
    noisy[GROUPS[0]]["n"] = -3.0

    def leaves(place: int, _: Fraction, __: bool) -> AnswerTable:
        made = table(read.parts[place], noisy)
        low = [
            column if column.is_key else replace(column, low=np.maximum(column.low, 0.0), high=column.high + 12)
            for column in made.columns
        ]
        return replace(made, columns=tuple(low))

    count, total = compute(read, leaves, LEVEL)
    assert (count.plain(), count.intervals()) == ([1], ([0.0], [0.0]))
    assert total.intervals() == ([0.0], [0.0])
