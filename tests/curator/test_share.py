"""share= charges so much of the whole capacity, in the ledger's own currency."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from lapwing.curator import Curator
from lapwing.curator.pricing import Terms
from lapwing.curator.request import QuestionRequest, Request
from lapwing.errors import BudgetExceeded, Misconfigured
from lapwing.privacy.budget import Budget
from support.visits import crowd, open_visits

COUNT = "SELECT COUNT(*) AS n FROM visits"
MANY = "SELECT sex, COUNT(*) AS n, SUM(cost) AS c, AVG(cost) AS m FROM visits GROUP BY sex"
BUDGETS = {
    "pure": Budget(epsilon=2),
    "zcdp": Budget(epsilon=2, delta=1e-6),
    "basic": Budget(epsilon=2, delta=1e-6, accounting="basic"),
}


def opened(name: str, **facts: Any) -> Curator:
    return open_visits(budget=BUDGETS[name], groups_per_unit=1, **facts)


@pytest.mark.parametrize("name", BUDGETS)
@pytest.mark.parametrize("question", [COUNT, MANY])
def test_twenty_questions_at_a_twentieth_fill_the_budget_exactly(name: str, question: str) -> None:
    curator = opened(name)
    for _ in range(20):
        answer = curator.sql(question, share=0.05, refresh=True)
        assert answer.cost.amount == curator.budget.total.amount / 20
    assert curator.budget.remaining.amount == 0
    assert curator.budget.remaining.delta == BUDGETS[name].capacity.delta
    with pytest.raises(BudgetExceeded):
        curator.sql(COUNT, share=0.0001, refresh=True)


@pytest.mark.parametrize("name", BUDGETS)
@pytest.mark.parametrize("part", [1, 0.5, 0.3333, Fraction(1, 3), 1e-30, "0.0001"])
def test_a_share_never_costs_more_than_it_says(name: str, part: Any) -> None:
    """Where a share has too many decimals it is rounded down: so many questions always fit."""
    budget, asked = BUDGETS[name], Fraction(part)
    paid = budget.cost(budget.share(asked)).amount
    assert 0 <= asked * budget.capacity.amount - paid < Fraction(1, 10**40)
    assert paid > 0


@pytest.mark.parametrize("name", BUDGETS)
def test_every_way_to_ask_takes_a_share(name: str) -> None:
    curator, part = opened(name), BUDGETS[name].capacity.amount / 10
    ask: list[Any] = [
        curator.batch([COUNT, MANY], share=0.1),
        curator.distribution("age", share=0.1),
        curator.marginals(["sex", "site"], share=0.1),
    ]
    for answer in ask:
        assert answer.cost.amount <= part
        assert float(answer.cost.amount / part) == pytest.approx(1, abs=1e-6)
    for seen in (
        curator.preview_batch([COUNT, MANY], share=0.1, refresh=True),
        curator.preview_distribution("cost", cells=5, share=0.1),
        curator.preview_marginals(["site"], share=0.1),
    ):
        assert 0 < seen.cost.amount <= part


@pytest.mark.parametrize("name", BUDGETS)
@pytest.mark.parametrize("answers", [1, 3])
def test_a_session_takes_its_share_and_no_more(name: str, answers: int) -> None:
    """Under zCDP its epsilon is a root, rounded down."""
    curator = opened(name)
    session, part = curator.watch(threshold=5, share=0.1, answers=answers), curator.budget.total.amount / 10
    assert part * Fraction(10**12 - 1, 10**12) <= session.cost.amount <= part
    with pytest.raises(Misconfigured, match="Name one of them"):
        curator.watch(threshold=5)


@pytest.mark.parametrize("name", BUDGETS)
def test_a_search_is_paid_from_the_share(name: str) -> None:
    """Bounds that are found, and the answer, cost the share together."""
    curator = open_visits(crowd(), budget=BUDGETS[name], groups_per_unit=1, bounds={})
    assert curator.preview("SELECT SUM(cost) AS c FROM visits", share=0.5, bounds="auto").share == 0.5
    answer = curator.sql("SELECT SUM(cost) AS c FROM visits", share=0.5, bounds="auto")
    assert answer.cost.amount == curator.budget.total.amount / 2


def test_a_share_pays_what_the_same_epsilon_pays() -> None:
    """In a pure budget they are the same price, so a stored answer serves both."""
    curator = opened("pure")
    assert curator.sql(COUNT, epsilon=0.5).cost
    assert not curator.sql(COUNT, share=0.25).cost
    assert curator.sql(COUNT, share=0.26).cost


@pytest.mark.parametrize(
    "named", [{}, {"epsilon": 1, "share": 0.1}, {"within": 5, "share": 0.1}, {"within": 5, "epsilon": 1}]
)
def test_a_price_is_named_in_one_way(named: dict[str, Any]) -> None:
    curator = opened("pure")
    for ask in (curator.sql, curator.preview):
        with pytest.raises(Misconfigured, match=r"within=50.*epsilon=0\.1.*share=0\.05.*Nothing was charged\."):
            ask(COUNT, **named)
    if "within" not in named:
        with pytest.raises(Misconfigured, match="Name one of them"):
            curator.batch([COUNT], **named)
        with pytest.raises(Misconfigured, match="Name one of them"):
            curator.distribution("age", **named)
    assert not curator.budget.spent.amount


@pytest.mark.parametrize("part", [0, -0.1, 1.01, float("nan"), "half"])
def test_a_share_lies_between_nothing_and_everything(part: Any) -> None:
    curator = opened("zcdp")
    with pytest.raises(Misconfigured, match="`share`"):
        curator.sql(COUNT, share=part)
    assert not curator.budget.spent.amount


def test_a_retry_key_stands_for_the_share_it_was_paid_at() -> None:
    share, epsilon = (Request(QuestionRequest(COUNT), Terms(**{name: 0.1})) for name in ("share", "epsilon"))  # type: ignore[arg-type]
    assert share.body() != epsilon.body()


def test_a_preview_says_what_epsilon_means_where_a_budget_has_a_delta() -> None:
    said = str(opened("zcdp").preview(COUNT, epsilon=0.5))
    assert "epsilon = 0.5 alone is 7.46% of this budget: 13 such questions fit." in said
    assert "alone" not in str(opened("pure").preview(COUNT, epsilon=0.5))
    assert "alone" not in str(opened("zcdp").preview(COUNT, share=0.1))
    curator = opened("zcdp")
    for _ in range(13):
        curator.sql(COUNT, epsilon=0.5, refresh=True)
    with pytest.raises(BudgetExceeded):
        curator.sql(COUNT, epsilon=0.5, refresh=True)
