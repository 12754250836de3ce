"""`within=`: the lowest price for a half-width, and what the preview says about it."""

from __future__ import annotations

import pytest

from lapwing.errors import Misconfigured, Refused
from lapwing.privacy import Budget
from support.visits import open_visits

BUDGETS = {
    "pure": Budget(epsilon=2),
    "zcdp": Budget(epsilon=2, delta=1e-6),
    "basic": Budget(epsilon=2, delta=1e-6, accounting="basic"),
}
COUNT = "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex"


@pytest.mark.parametrize("name", BUDGETS)
@pytest.mark.parametrize("within", [30, 100.5, 10_000])
@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_within_is_met_at_the_lowest_price(name: str, within: float, confidence: float) -> None:
    """A price lower by a tenth of a per cent does not buy it any more."""
    curator = open_visits(budget=BUDGETS[name])
    seen = curator.preview(COUNT, within=within, confidence=confidence)
    assert seen.errors["COUNT(*)"] <= within
    if name != "zcdp":
        less = seen.cost.amount * 999 / 1000
        assert curator.preview(COUNT, epsilon=less, confidence=confidence).errors["COUNT(*)"] >= min(within, 30) - 1
        assert curator.preview(COUNT, epsilon=less, confidence=confidence).errors["COUNT(*)"] > within - 1


def test_the_answer_is_as_exact_as_was_asked() -> None:
    curator = open_visits(budget=Budget(epsilon=100))
    row = curator.sql(COUNT, within=10).intervals().to_pylist()[0]
    assert row["n_high"] - row["n"] <= 10
    assert row["n"] - row["n_low"] <= 10


def test_a_half_width_for_a_column_that_is_not_there_is_refused_by_name() -> None:
    with pytest.raises(Refused, match=r"the answer has no column 'm'\. Name its numbers: 'n'\."):
        open_visits().preview(COUNT, within={"m": 20})


def test_each_number_may_have_its_own_half_width() -> None:
    text = "SELECT COUNT(*) AS n, SUM(cost) AS c FROM visits"
    curator = open_visits(budget=Budget(epsilon=100))
    seen = curator.preview(text, within={"n": 20, "c": 500})
    assert seen.errors["COUNT(*)"] <= 20
    assert seen.errors["SUM(cost)"] <= 500
    assert curator.preview(text, within={"n": 20, "c": 5000}).cost.amount < seen.cost.amount


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SELECT SUM(cost) / COUNT(*) AS m FROM visits", ["`within`", "epsilon="]),
        ("SELECT COUNT(*) AS n, SUM(cost) / COUNT(*) AS m FROM visits", ["SUM(cost)", "epsilon="]),
        ("SELECT AVG(cost) AS m FROM visits", ["assume_rows=1000"]),
    ],
)
def test_what_within_cannot_promise_is_refused(text: str, words: list[str]) -> None:
    with pytest.raises(Refused) as error:
        open_visits().preview(text, within=5)
    assert all(word in str(error.value) for word in [*words, "Nothing was charged."])


def test_a_mean_may_be_asked_within_for_an_assumed_number_of_rows() -> None:
    curator = open_visits(budget=Budget(epsilon=2, delta=1e-6))
    small, large = (
        curator.preview("SELECT AVG(cost) AS m FROM visits", within=2, assume_rows=n) for n in (1_000, 100_000)
    )
    assert small.errors["AVG(cost)"] <= 2
    assert large.cost.amount < small.cost.amount


@pytest.mark.parametrize("terms", [{}, {"within": 5, "epsilon": 1}])
def test_either_within_or_epsilon_is_said(terms: dict[str, float]) -> None:
    with pytest.raises(Misconfigured, match="Nothing was charged"):
        open_visits().sql(COUNT, **terms)


@pytest.mark.parametrize("within", [0, -1, float("nan")])
def test_a_half_width_is_positive(within: float) -> None:
    with pytest.raises(Misconfigured, match="within"):
        open_visits().sql(COUNT, within=within)
