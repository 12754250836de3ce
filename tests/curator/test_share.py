"""share= charges so much of the whole capacity, in the ledger's own currency."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import pytest

from lapwing.curator import Curator
from lapwing.curator.pricing import Terms
from lapwing.curator.request import QuestionRequest, Request
from lapwing.errors import BudgetExceeded, Misconfigured
from lapwing.privacy.budget import Accounting, Budget, Cost
from lapwing.privacy.phrases import left_text, share_text
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
    assert re.search(r"\nWith a delta, epsilon = 0.5 is 7.5% of the budget; share=0.25 buys within \d+\.\n", said)
    assert "With a delta" not in str(opened("pure").preview(COUNT, epsilon=0.5))
    assert "With a delta" not in str(opened("zcdp").preview(COUNT, share=0.1))
    curator = opened("zcdp")
    for _ in range(13):
        curator.sql(COUNT, epsilon=0.5, refresh=True)
    with pytest.raises(BudgetExceeded):
        curator.sql(COUNT, epsilon=0.5, refresh=True)


@pytest.mark.parametrize("check", [0, 0.05, 0.5])
def test_what_a_preview_says_that_a_share_buys_is_what_its_preview_says(check: float) -> None:
    """Also where a part of the price checks limits, and where the share in words is rounded."""
    curator = opened("zcdp")
    for epsilon in (0.3, 0.5, 0.7, Fraction(2, 3)):
        said = str(curator.preview(COUNT, epsilon=epsilon, check=check))
        share, half = re.findall(r"share=([\d.]+) buys within ([\d.,]+)\.\n", said)[0]
        assert f"COUNT(*): within {half} (95%)" in str(curator.preview(COUNT, share=Fraction(share), check=check))


@pytest.mark.parametrize("check", [0, 0.05, 0.5])
@pytest.mark.parametrize("name", BUDGETS)
def test_the_best_precision_that_a_refusal_names_is_affordable_and_one_better_is_not(name: str, check: float) -> None:
    curator = opened(name)
    curator.sql(COUNT, share=0.9, check=0)
    asked = "SELECT COUNT(*) AS n FROM visits WHERE age > 30"
    with pytest.raises(BudgetExceeded, match="The best this budget still buys is within") as refused:
        curator.sql(asked, within=0.5, check=check)
    half = int(refused.value.instead.partition("within ")[2].rstrip(".").replace(",", ""))
    with pytest.raises(BudgetExceeded):
        curator.sql(asked, within=half * Fraction(9, 10), check=check)
    assert curator.sql(asked, within=half, check=check).cost


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({"share": 0.5}, "This costs 50% of the budget, and a share of 0.05 is left of the allowance of ann."),
        ({"epsilon": 1.5}, "% of the budget, and 5% is left of the allowance of ann."),
        ({"within": 20}, "This costs more than is left of the allowance of ann (within 20, for "),
    ],
)
def test_a_refusal_names_the_allowance_and_who_can_raise_it(terms: dict[str, Any], words: str) -> None:
    curator = opened("zcdp")
    curator.ledger.allow("ann", Cost(Accounting.ZCDP, curator.budget.total.amount / 20))
    with pytest.raises(BudgetExceeded) as refused:
        curator.sql(COUNT, analyst="ann", **terms)
    assert words in refused.value.why
    assert refused.value.instead.endswith(" The steward can raise the allowance.")
    assert refused.value.owner == "ann"
    assert "rho" not in str(refused.value)


def test_shares_in_words_are_rounded_to_the_safe_side() -> None:
    """What is paid never reads as less than it is, and what is left never as more."""
    for part, paid, left in (
        (Fraction(1, 20), "5%", "5%"),
        (Fraction(1, 3), "34%", "33%"),
        (Fraction(9999, 10000), "100%", "99%"),
        (Fraction(5, 10**40) + Fraction(1, 100), "1.1%", "1%"),
        (Fraction(0), "0%", "0%"),
        (Fraction(58712, 1000), "5872%", "5871%"),
    ):
        assert (share_text(part), left_text(part)) == (paid, left)
