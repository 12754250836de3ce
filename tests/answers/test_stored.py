"""The same question costs nothing the second time."""

from __future__ import annotations

import json
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lapwing as lw
from lapwing.answers.stored import decode
from lapwing.curator.pricing import Terms
from lapwing.curator.request import QuestionRequest, Request
from lapwing.errors import BudgetExceeded, Bug
from lapwing.plan.question import Question
from lapwing.sql import read_sql
from support.visits import frame, open_visits, visits_catalog

TEXT = "SELECT sex, COUNT(*) AS n, AVG(cost) AS m FROM visits GROUP BY sex"
ZCDP = lw.Budget(epsilon=2, delta=1e-6)


def rows(release: Any) -> list[dict[str, Any]]:
    return list(release.intervals().to_pylist())


@pytest.mark.parametrize("budget", [lw.Budget(epsilon=2), ZCDP], ids=["pure", "zcdp"])
def test_a_repeated_question_is_free_and_equal(budget: lw.Budget) -> None:
    """gate:G45 lecture:L40 averaging repeats gives nothing: they are one answer."""
    curator = open_visits(budget=budget)
    first = curator.sql(TEXT, epsilon=0.5)
    spent = curator.ledger.spent
    again = [curator.sql(TEXT, epsilon=0.5) for _ in range(100)]
    assert {str(rows(answer)) for answer in again} == {str(rows(first))}
    assert not any(answer.cost for answer in again)
    assert curator.ledger.spent == spent
    assert again[0].entry == first.entry


def test_refreshing_pays_every_time_until_the_budget_is_gone() -> None:
    """lecture:L40 threat:A29 fresh noise is never free."""
    curator = open_visits(budget=lw.Budget(epsilon=1))
    answers = [curator.sql(TEXT, epsilon=0.25, refresh=True) for _ in range(4)]
    assert len({str(rows(answer)) for answer in answers}) > 1
    with pytest.raises(BudgetExceeded):
        curator.sql(TEXT, epsilon=0.25, refresh=True)
    assert not curator.sql(TEXT, epsilon=0.25).cost


def test_a_less_exact_question_is_free_and_a_more_exact_one_is_paid() -> None:
    curator = open_visits(budget=lw.Budget(epsilon=10))
    first = curator.sql(TEXT, epsilon=1)
    assert rows(curator.sql(TEXT, epsilon=0.5)) == rows(first)
    assert curator.sql(TEXT, epsilon=2).cost
    best = curator.sql(TEXT, epsilon=0.1)
    assert not best.cost
    assert rows(best) == rows(curator.sql(TEXT, epsilon=2))


def test_words_order_and_arithmetic_above_do_not_matter() -> None:
    """gate:G46 the same cells under other names, filters and sorting."""
    curator = open_visits(budget=lw.Budget(epsilon=10))
    first = curator.sql(TEXT, epsilon=1)
    other = "select avg(Cost) as average, count(*) + 1 as more, SEX from Visits v group by v.sex having count(*) > -1e9"
    again = curator.sql(other + " order by more desc", epsilon=1)
    assert not again.cost
    assert sorted(row["more"] - 1 for row in rows(again)) == sorted(row["n"] for row in rows(first))


@pytest.mark.parametrize(
    "other",
    [
        "SELECT sex, COUNT(*) AS n, AVG(cost) AS m FROM visits WHERE age > 30 GROUP BY sex",
        "SELECT sex, COUNT(*) AS n, AVG(age) AS m FROM visits GROUP BY sex",
        "SELECT sex, COUNT(age) AS n, AVG(cost) AS m FROM visits GROUP BY sex",
        "SELECT COUNT(*) AS n, AVG(cost) AS m FROM visits",
    ],
)
def test_another_question_is_paid(other: str) -> None:
    curator = open_visits(budget=lw.Budget(epsilon=10))
    curator.sql(TEXT, epsilon=1)
    assert curator.sql(other, epsilon=1).cost


def test_another_version_or_policy_is_paid(tmp_path: Path) -> None:
    """gate:G46 a stored answer belongs to one version of the data and to the declared limits."""
    pq.write_table(frame(), tmp_path / "visits.parquet")
    facts: dict[str, Any] = {"unit": "pid", "bounds": {"cost": (0, 100)}, "values": {"sex": ["F", "M"]}}
    budget = lw.Budget(epsilon=10)

    def cost(**changes: Any) -> bool:
        known = {**facts, "rows_per_unit": 2, "version": "1", **changes}
        curator = lw.open(tmp_path / "visits.parquet", budget=budget, **known)
        try:
            return bool(curator.sql(TEXT, epsilon=1).cost)
        finally:
            curator.close()

    assert cost()
    assert not cost()
    assert cost(rows_per_unit=3)
    assert cost(bounds={"cost": (0, 90)})
    assert cost(values={"sex": ["M", "F"]})
    assert cost(version="2")
    assert not cost(version="2")


def test_selected_keys_are_stored_with_the_answer() -> None:
    budget, bounds = lw.Budget(epsilon=20, delta=1e-6), {"cost": (0, 100)}
    curator = open_visits(frame(4000), budget=budget, groups_per_unit=2, bounds=bounds)
    text = "SELECT age, COUNT(DISTINCT pid) AS n FROM visits GROUP BY age"
    first = curator.sql(text, epsilon=5)
    assert rows(first)
    assert rows(curator.sql(text, epsilon=5)) == rows(first)
    assert not curator.sql(text, epsilon=1).cost


def test_a_stored_answer_survives_a_restart_with_keys_of_every_type(tmp_path: Path) -> None:
    from datetime import date, datetime

    n = 3000
    table = pa.table(
        {
            "d": [date(2020, 1, 1 + i % 2) for i in range(n)],
            "t": [datetime.fromisoformat(f"2020-01-01 0{i % 2}:00:00") for i in range(n)],
            "s": [None if i % 2 else "x'\"\N{SNOWMAN}" for i in range(n)],
            "i": [2**60 + i % 2 for i in range(n)],
            "b": [i % 2 == 0 for i in range(n)],
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    found = []
    for _ in range(2):
        curator = lw.open(tmp_path / "t.parquet", unit=None, budget=lw.Budget(epsilon=5, delta=1e-6))
        answer = curator.sql("SELECT d, t, s, i, b, COUNT(*) AS n FROM t GROUP BY d, t, s, i, b", epsilon=2)
        found.append((bool(answer.cost), answer.to_arrow()))
        curator.close()
    assert [paid for paid, _ in found] == [True, False]
    assert found[0][1].equals(found[1][1])
    assert found[0][1].num_rows == 2


def test_the_interval_of_a_quantile_is_stored_for_its_confidence() -> None:
    """gate:G46 it was released with the answer, so another confidence is another question."""
    curator = open_visits(budget=lw.Budget(epsilon=50))
    text = "SELECT MEDIAN(cost) AS m FROM visits"
    assert curator.sql(text, epsilon=1, confidence=0.5).cost
    assert curator.sql(text, epsilon=1, confidence=0.99).cost
    assert not curator.sql(text, epsilon=1, confidence=0.5).cost


def costs(tmp_path: Path, text: str, *bounds: tuple[float, float], epsilon: float = 1) -> list[bool]:
    """Whether the question is paid for under each of these bounds of `x`, one after another on one ledger."""
    pq.write_table(pa.table({"x": pa.array([float(i) for i in range(200)])}), tmp_path / "t.parquet")
    found = []
    for pair in bounds:
        facts: dict[str, Any] = {"unit": None, "version": "1", "bounds": {"x": pair}, "budget": lw.Budget(epsilon=100)}
        with closing(lw.open(tmp_path / "t.parquet", **facts)) as curator:
            found.append(bool(curator.sql(text, epsilon=epsilon).cost))
    return found


@pytest.mark.parametrize("text", ["SUM(x)", "AVG(x)", "VAR_POP(x)", "MEDIAN(x)", "CORR(x, x * x)", "SUM(x % 7)"])
def test_bounds_that_differ_in_any_digit_are_another_question(text: str, tmp_path: Path) -> None:
    """The step of a SUM doubles between the first two, whose first six digits are the same."""
    near = [(0, 131071.6), (0, 131072.4), (0, 131071.6), (0, 131072.4000000001)]
    assert costs(tmp_path, f"SELECT {text} AS z FROM t", *near) == [True, True, False, True]


def test_bounds_of_a_column_count_though_the_result_keeps_its_own(tmp_path: Path) -> None:
    """Values are clipped before the remainder is taken, so these are two statistics within [0, 7]."""
    assert costs(tmp_path, "SELECT SUM(x % 7) AS z FROM t", (0, 100), (0, 200)) == [True, True]


def test_bounds_of_a_column_that_is_only_counted_or_compared_do_not_count(tmp_path: Path) -> None:
    text = "SELECT COUNT(x) AS z FROM t WHERE x > 7"
    assert costs(tmp_path, text, (0, 100), (0, 200)) == [True, False]


def test_a_payload_with_other_steps_is_never_read() -> None:
    curator = open_visits(budget=lw.Budget(epsilon=10))
    plan = curator.sql("SELECT SUM(cost) AS s FROM visits", epsilon=1).plan
    [answer] = curator.ledger.find_answers(plan.outline.identity.text)
    payload = json.loads(answer.payload)
    assert payload["steps"] == [str(plan.measures[0].step)]
    payload["steps"] = [str(2 * plan.measures[0].step)]
    with pytest.raises(Bug, match="other steps"):
        decode(plan.outline, json.dumps(payload).encode())


def test_an_identity_holds_every_digit_of_the_price() -> None:
    """A retry key that was used is compared with it."""
    prices = (Fraction(1), 1 + Fraction(1, 10**15))
    assert len({Request(QuestionRequest(TEXT), Terms(epsilon=price)).body() for price in prices}) == 2


def question(text: str) -> Question:
    read = read_sql(text, visits_catalog())
    assert isinstance(read, Question)
    return read
