"""Above the aggregation: intervals that cover, arithmetic on intervals, sorting."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from lapwing.answers.columns import half_width, present, ranks
from lapwing.answers.table import AnswerColumn
from lapwing.plan.add_noise import Released
from lapwing.plan.plan import Plan, make_plan
from lapwing.plan.question import Question
from lapwing.privacy import Budget, Pure
from lapwing.sql import read_sql
from support.visits import visits_catalog

LEVEL = Fraction(19, 20)


def plan(text: str, epsilon: float = 1, **changes: Any) -> Plan:
    question = read_sql(text, visits_catalog(**{"unit": None, **changes}))
    assert isinstance(question, Question), question
    made = make_plan(question, Pure(epsilon))
    assert isinstance(made, Plan), made
    return made


def columns(text: str, *noisy: list[Any], level: Fraction = LEVEL, **options: Any) -> dict[str, AnswerColumn]:
    cells = [np.array(column, object if any(abs(v) >= 2**63 for v in column) else np.int64) for column in noisy]
    released = Released((), tuple((column,) for column in cells))
    return {column.name: column for column in present(plan(text), released, level, **options)}


@pytest.mark.parametrize("epsilon", [0.1, 0.7, 1, 3])
@pytest.mark.parametrize("level", [Fraction(1, 2), Fraction(9, 10), LEVEL, Fraction(999, 1000)])
def test_the_interval_of_a_count_covers_and_no_smaller_one_does(epsilon: float, level: Fraction) -> None:
    """gate:G54 exact coverage by adding up the law of the noise, without simulation."""
    made = plan("SELECT COUNT(*) AS n FROM visits", epsilon)
    [column] = present(made, Released((), ((np.array([0]),),)), level)
    assert column.low is not None
    assert column.high is not None
    half = int(column.high[0])
    assert (column.low[0], column.high[0]) == (-half, half)

    def coverage(width: int) -> Fraction:
        return sum((made.measures[0].noise.law(z)[0] for z in range(-width, width + 1)), Fraction(0))

    assert coverage(half) >= level
    assert half == 0 or coverage(half - 1) < level


def test_simultaneous_intervals_are_wider_and_cover_all_rows() -> None:
    text, counts = "SELECT site, COUNT(*) AS n FROM visits GROUP BY site", [5, 6, 7]
    one, all_ = columns(text, counts)["n"], columns(text, counts, simultaneous=True)["n"]
    noise = plan(text).measures[0].noise
    half = int(all_.high[0] - 5)
    assert half > one.high[0] - 5
    assert sum(noise.law(z)[0] for z in range(-half, half + 1)) ** 3 >= LEVEL


def test_two_numbers_in_one_column_hold_together() -> None:
    """Each of m numbers is taken at 1 - (1 - c) / m, so that the box holds all of them with probability c."""
    text = "SELECT COUNT(*) + COUNT(age) AS s FROM visits"
    made = plan(text)
    column = columns(text, [10], [20])["s"]
    half = sum(half_width(m, "total", 1 - (1 - LEVEL) / 2) for m in made.measures)
    assert (column.low[0], column.high[0]) == pytest.approx((30 - half, 30 + half))


def test_arithmetic_carries_intervals() -> None:
    text = ("SELECT COUNT(*) AS n, 2 * COUNT(*) AS twice, 1 - COUNT(*) AS minus, COUNT(*) * COUNT(*) AS square, "
            "COUNT(*) / 2 AS half, 100 / COUNT(*) AS share, -COUNT(*) AS neg FROM visits")  # fmt: skip
    found = columns(text, [50])
    low, high = float(found["n"].low[0]), float(found["n"].high[0])
    expected = {
        "twice": (2 * low, 2 * high),
        "minus": (1 - high, 1 - low),
        "square": (low * low, high * high),
        "half": (low / 2, high / 2),
        "share": (100 / high, 100 / low),
        "neg": (-high, -low),
    }
    for name, ends in expected.items():
        assert (found[name].low[0], found[name].high[0]) == pytest.approx(ends, rel=1e-12)
        assert found[name].low[0] <= ends[0] <= ends[1] <= found[name].high[0]
    assert (found["twice"].values[0], found["minus"].values[0], found["half"].values[0]) == (100, -49, 25.0)


def test_signs_are_taken_care_of() -> None:
    text = "SELECT COUNT(*) * COUNT(age) AS p FROM visits"
    made = plan(text)
    half = [float(half_width(m, "total", 1 - (1 - LEVEL) / 2)) for m in made.measures]
    for a, b in ((0, 0), (-40, 60), (1, -50), (-40, -60)):
        column = columns(text, [a], [b])["p"]
        corners = [x * y for x in (a - half[0], a + half[0]) for y in (b - half[1], b + half[1])]
        assert (column.low[0], column.high[0]) == pytest.approx((min(corners), max(corners)))


def test_a_divisor_that_may_be_zero_gives_no_interval_and_says_why() -> None:
    found = columns("SELECT site, COUNT(*) / COUNT(age) AS r FROM visits GROUP BY site", [500, 1, 0], [5, 5, 5])["r"]
    assert found.reason == "the interval of a divisor holds 0"
    assert [bool(np.isnan(v)) for v in found.low] == [False, True, True]
    assert not found.is_key


def test_keys_have_no_interval() -> None:
    found = columns("SELECT site, site + 1 AS next, COUNT(*) AS n FROM visits GROUP BY site", [1, 2, 3])
    assert found["site"].is_key
    assert found["next"].is_key
    assert found["next"].values.tolist() == [10, 11, 1001]
    assert not found["n"].is_key


def test_null_and_what_is_no_number_come_last_in_both_directions() -> None:
    """9 has no quotient: its divisor is 0."""
    text = "SELECT site, COUNT(*) / COUNT(age) AS r FROM visits GROUP BY site ORDER BY "
    for order, expected in (("r", [10, 1000, 9]), ("r DESC", [1000, 10, 9]), ("-r", [1000, 10, 9])):
        found = columns(text + order, [0, 6, 1], [5, 6, 7])
        assert found["site"].values.tolist() == expected
        assert np.isnan(found["r"].values[-1].astype(float))
    values = np.array([np.nan, 2.0, None, 1.0, float("nan"), -np.inf, np.inf], object)
    assert ranks([(values, False)], 7).tolist() == [4, 2, 4, 1, 4, 0, 3]
    assert ranks([(values, True)], 7).tolist() == [4, 1, 4, 2, 4, 3, 0]


@pytest.mark.parametrize(("inner", "outer", "shown"), [(2, 1, [9]), (1, 3, [9]), (0, 2, []), (3, 2, [9, 10])])
def test_a_limit_over_a_limit_is_the_smaller_one(inner: int, outer: int, shown: list[int]) -> None:
    counts = f"SELECT site, COUNT(*) AS n FROM visits GROUP BY site ORDER BY n DESC LIMIT {inner}"
    found = columns(f"SELECT site, n FROM ({counts}) LIMIT {outer}", [7, 6, 5])
    assert found["site"].values.tolist() == shown


def test_sorting_is_by_value_and_ties_keep_the_declared_order() -> None:
    """9 comes before 10 and 1000; equal counts stay as declared in both directions."""
    text = "SELECT site, COUNT(*) AS n FROM visits GROUP BY site ORDER BY "

    def sites(order: str, counts: list[int]) -> list[int]:
        return columns(text + order, counts)["site"].values.tolist()

    assert sites("site", [0, 0, 0]) == [9, 10, 1000]
    assert sites("site DESC", [0, 0, 0]) == [1000, 10, 9]
    assert sites("n", [5, 5, 1]) == [1000, 9, 10]
    assert sites("n DESC", [5, 5, 1]) == [9, 10, 1000]
    assert sites("n DESC, site DESC", [5, 5, 1]) == [10, 9, 1000]
    assert sites("2", [3, 2, 1]) == [1000, 10, 9]
    assert sites("COUNT(*) * -1 LIMIT 2", [3, 2, 1]) == [9, 10]
    assert sites("n LIMIT 0", [3, 2, 1]) == []


def test_what_is_not_a_number_comes_last() -> None:
    text = "SELECT site, COUNT(*) / (COUNT(age) - COUNT(age)) AS r, COUNT(*) AS n FROM visits GROUP BY site ORDER BY r"
    for order in ("", " DESC"):
        found = columns(text + order, [1, 2, 3], [1, 1, 1])
        assert len(found["n"].values) == 3


def test_large_integers_do_not_wrap() -> None:
    found = columns("SELECT COUNT(*) * 1000000000 AS p FROM visits", [10**12])["p"]
    assert found.values[0] == 1e21
    found = columns("SELECT COUNT(*) + 1 AS p FROM visits", [2**61])["p"]
    assert found.values[0] == pytest.approx(2**61 + 1)


def test_rows_follow_the_declared_order_of_several_keys() -> None:
    found = columns("SELECT sex, site, COUNT(*) AS n FROM visits GROUP BY site, sex", list(range(6)))
    pairs = list(zip(found["sex"].values.tolist(), found["site"].values.tolist(), strict=True))
    assert pairs == [(sex, site) for sex in ("F", "M") for site in (9, 10, 1000)]
    assert found["n"].values.tolist() == list(range(6))
    assert Budget(epsilon=1).epsilon == 1
