"""What can fail without data fails before the charge."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from lapwing.curator import Curator
from lapwing.curator import query_cache as rehearsal_module
from lapwing.curator.pricing import Terms
from lapwing.curator.query_cache import rehearse
from lapwing.curator.request import QuestionRequest, Request
from lapwing.errors import Bug
from lapwing.plan.plan import Plan
from lapwing.privacy import Budget
from support.visits import open_visits

QUESTIONS = [
    "SELECT COUNT(*) AS n FROM visits",
    "SELECT site, sex, SUM(cost) / COUNT(*) AS m FROM visits GROUP BY site, sex HAVING COUNT(*) > 3 ORDER BY m LIMIT 2",
    "SELECT sex, MEDIAN(age) AS m, AVG(cost) AS a, STDDEV(cost) AS s FROM visits GROUP BY sex",
    "SELECT site, COUNT(DISTINCT age) AS n FROM visits GROUP BY site",
    "SELECT site FROM visits GROUP BY site ORDER BY COUNT(*) DESC LIMIT 2",
    "SELECT age, COUNT(DISTINCT pid) AS n, SUM(cost) AS s FROM visits GROUP BY age",
    "SELECT age, name, COUNT(*) AS n FROM visits GROUP BY age, name",
]


def rich() -> Curator:
    return open_visits(budget=Budget(epsilon=100, delta=Fraction(1, 10**4)), groups_per_unit=2)


def planned(curator: Curator, text: str) -> tuple[Plan, Fraction]:
    asked = QuestionRequest(text)
    made = curator._planner.plan(asked, Request(asked, Terms(epsilon=1)))
    return made.plan, made.confidence


@pytest.mark.parametrize("text", QUESTIONS)
def test_a_rehearsal_answers_every_kind_of_question_without_rows(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its noisy cells are those of the plan's mechanisms around zero, read off as the question says."""
    seen: list[Any] = []
    inner = rehearsal_module.present
    monkeypatch.setattr(rehearsal_module, "present", lambda *args: seen.append(inner(*args)))
    plan, level = planned(rich(), text)
    rehearse(plan, level, (plan.question,))
    (columns,) = seen
    assert [column.name for column in columns] == [output.name for output in plan.question.outputs]


@pytest.mark.parametrize("least", range(1, 13))
def test_a_rehearsal_takes_as_few_groups_as_will_do(least: int) -> None:
    domain = ((1, 2, 3), ("a", "b"), (True, False))
    kept = rehearsal_module._leading(domain, least)
    assert least <= np.prod([len(values) for values in kept]) <= 2 * least
    assert all(values[: len(few)] == few for values, few in zip(domain, kept, strict=True))


STEPS = {
    "writing the query": (
        "lapwing.engines.duckdb.DuckDBEngine.prepare",
        ["sql", "batch", "workload", "find", "check", "watch"],
    ),
    "drawing noise": ("lapwing.curator.query_cache.release", ["sql", "batch", "workload", "find", "check"]),
    "encoding the answer": ("lapwing.curator.query_cache.encode", ["sql", "batch", "workload", "find", "check"]),
    "finding bounds": ("lapwing.mechanisms.cells.UnitPowers.release", ["find"]),
    "arranging a check": ("lapwing.plan.units_exceeding.UnitsExceeding.empty", ["check"]),
    "binding what stands above": ("lapwing.curator.query_cache.present", ["sql", "batch"]),
}
WAYS = {
    "sql": lambda curator: curator.sql(QUESTIONS[0], epsilon=1),
    "batch": lambda curator: curator.batch(QUESTIONS[:2], epsilon=1),
    "workload": lambda curator: curator.distribution("age", epsilon=1),
    "find": lambda curator: curator.sql("SELECT SUM(site) AS s FROM visits", epsilon=1, bounds="auto"),
    "check": lambda curator: curator.sql(QUESTIONS[0], epsilon=1, check=0.1),
}


@pytest.mark.parametrize(("step", "way"), [(step, way) for step, (_, ways) in STEPS.items() for way in ways])
def test_what_fails_without_data_fails_before_the_charge(step: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    curator = rich()
    session = curator.watch(threshold=10, epsilon=1)
    spent = curator.budget.spent

    def broken(*_: Any, **__: Any) -> None:
        raise TypeError("interpreted classes cannot inherit from compiled")

    monkeypatch.setattr(STEPS[step][0], broken)
    with pytest.raises(Bug, match=r"could not be prepared \(TypeError\)\. .* Nothing was charged\.$"):
        session.above(QUESTIONS[0]) if way == "watch" else WAYS[way](curator)
    assert curator.budget.spent == spent
    monkeypatch.undo()
    assert session.left == 1  # no row was read, so the session goes on


@pytest.mark.parametrize("chosen", ["HAVING COUNT(DISTINCT pid) > 1", "ORDER BY n DESC LIMIT 2"])
@pytest.mark.parametrize("confidence", [1 - Fraction(1, 10**7), 1 - Fraction(1, 10**9)])
def test_selected_keys_that_are_chosen_by_their_counts_are_answered_at_high_confidence(
    chosen: str, confidence: Fraction
) -> None:
    """Their intervals hold for all shown groups together, and how many are shown is not known before the charge."""
    text = f"SELECT age, COUNT(DISTINCT pid) AS n FROM visits GROUP BY age {chosen}"
    _, counts = rich().sql(text, epsilon=50, confidence=confidence).columns
    assert counts.values.size > 1
    assert counts.low is not None
    assert counts.high is not None
    assert (counts.low <= counts.values).all()
    assert (counts.values <= counts.high).all()
