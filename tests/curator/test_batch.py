"""Several questions at one price: merged where they can be, split for the worst, charged at once or not at all."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom

import lapwing as lw
from lapwing.curator.batch import BatchPlan, read_batch
from lapwing.curator.pricing import Terms
from lapwing.curator.request import Request
from lapwing.ledger import Charge, open_ledger
from lapwing.ledger.entry import Entry
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.privacy import Accounting, Cost, PrivacyLoss, compose_fixed
from support.visits import Spy, frame, open_visits, write_visits

PURE, ZCDP = lw.Budget(epsilon=1000), lw.Budget(epsilon=1000, delta=1e-6)
BASIC = lw.Budget(epsilon=1000, delta=1e-6, accounting="basic")
BUDGETS = {"pure": PURE, "zcdp": ZCDP, "basic": BASIC}

TOTAL = "SELECT COUNT(*) AS n FROM visits"
BY_SEX = "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex ORDER BY n DESC"
AGES = "SELECT AVG(age) AS mean, sex FROM visits GROUP BY sex HAVING COUNT(*) > 5 AND sex = 'M'"
SITES = "SELECT site, sex, SUM(cost) AS s FROM visits GROUP BY site, sex"
NAMES = "SELECT name, COUNT(*) AS n FROM visits GROUP BY name"


def shared(asked: lw.Curator, questions: Any, epsilon: Any = 1, *, weights: Any = None, delta: Any = None) -> BatchPlan:
    batch, terms = read_batch(questions, weights), Terms(epsilon=epsilon, delta=delta)
    return asked._planner.plan_batch(batch, Request(batch, terms)).batch


def test_questions_over_the_same_rows_and_keys_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """One engine query for both, and the count that both need is paid once."""
    asked = open_visits(frame(500), budget=PURE)
    spy = Spy(asked, monkeypatch)
    made = shared(asked, [BY_SEX, AGES])
    assert len(made.plans) == 1
    assert [aggregate.words() for aggregate in made.plans[0].question.aggregates] == ["COUNT(*)", "AVG(age)"]
    answers = asked.batch([BY_SEX, AGES], epsilon=500)
    assert len(spy.queries) == 1
    assert answers[0].to_arrow(intervals=False).column_names == ["sex", "n"]
    assert answers[0].to_arrow()["n"].to_pylist() == [500, 500]
    assert answers[1].to_arrow(intervals=False).column_names == ["mean", "sex"]
    assert answers[1].to_arrow()["sex"].to_pylist() == ["M"]
    assert answers[1].to_arrow()["mean"].to_pylist() == [pytest.approx(50.5, abs=0.5)]


@pytest.mark.parametrize("name", BUDGETS)
def test_the_batch_costs_what_was_asked_and_no_more(name: str) -> None:
    budget = BUDGETS[name]
    asked = open_visits(frame(50), budget=budget)
    answers = asked.batch([TOTAL, BY_SEX, AGES, SITES], epsilon=1)
    room = budget.cost(budget.price(epsilon=1))
    assert answers.cost == asked.ledger.spent
    if name == "basic":
        assert answers.cost.fits(Cost(Accounting.BASIC, 1, budget.question_delta()))
    else:
        assert answers.cost == room
    assert sum((release.cost for release in answers), start=room - room) == answers.cost


@pytest.mark.parametrize("name", BUDGETS)
def test_every_question_errs_alike_relative_to_its_groups(name: str) -> None:
    """w e k / groups is the same for all parts, up to the rounding of their shares to a thousandth.

    Up to an epsilon of 20 a list that is composed has parts of powers of two.
    """
    made = shared(open_visits(frame(50), budget=BUDGETS[name]), [TOTAL, BY_SEX, SITES], weights=[1, 3, 1], epsilon=25)
    found = []
    for plan, one in zip(made.plans, made.merged, strict=True):
        for measure in plan.measures:
            off = Fraction(float(measure.noise.scale)) / measure.sensitivity
            found.append(float(one.weight * off * Fraction(plan.group_count or 1, plan.groups_per_unit)))
    assert max(found) < 1.05 * min(found)


def test_a_weight_makes_a_question_that_much_more_exact() -> None:
    asked = open_visits(frame(50), budget=PURE)
    questions = {"all": TOTAL, "old": "SELECT COUNT(*) AS n FROM visits WHERE age > 60"}
    first, second = (plan.measures[0].noise for plan in shared(asked, questions, weights={"old": 4}).plans)
    assert isinstance(first, Laplace)
    assert isinstance(second, Laplace)
    assert (first.epsilon, second.epsilon) == (Fraction(1, 5), Fraction(4, 5))


def test_a_fixed_list_is_composed_tightly_under_basic_accounting() -> None:
    """lecture:L30 a hundred counts: the parts add up to almost twice the price, and are within it together."""
    asked = open_visits(frame(50), budget=lw.Budget(epsilon=8, delta=1e-6, accounting="basic"))
    questions = [f"SELECT COUNT(*) AS n FROM visits WHERE age > {age}" for age in range(100)]
    made = shared(asked, questions)
    parts = [plan.prices.measures[0] for plan in made.plans]
    assert all(isinstance(part, lw.privacy.Pure) for part in parts)
    added = sum(part.epsilon for part in parts if isinstance(part, lw.privacy.Pure))
    together = compose_fixed([PrivacyLoss.worst(epsilon=p.epsilon) for p in parts if isinstance(p, lw.privacy.Pure)])
    assert together.epsilon(made.delta) <= 1
    assert added > Fraction(17, 10)
    answers = asked.batch(questions, epsilon=1)
    assert answers.cost.fits(Cost(Accounting.BASIC, 1, made.delta))
    assert answers.cost == asked.ledger.spent


def hundred_coins(delta: float) -> float:
    """The epsilon of a hundred answers by coins of e^0.01 to 1, from their binomial law."""
    heads, ks = math.e**0.01 / (1 + math.e**0.01), np.arange(101)
    here, there, losses = binom.pmf(ks, 100, heads), binom.pmf(ks, 100, 1 - heads), 0.01 * (2 * ks - 100)

    def excess(epsilon: float) -> float:
        return float(np.where(losses > epsilon, here - math.e**epsilon * there, 0).sum()) - delta

    return float(brentq(excess, 0, 1))


@pytest.mark.parametrize("capacity", [2, 44, 48, 1000])
def test_delta_is_paid_only_for_a_larger_share_of_epsilon(capacity: int) -> None:
    """A hundredth of the delta for what a hundred counts at epsilon = 1 save, of budgets of different sizes."""
    asked = open_visits(frame(50), budget=lw.Budget(epsilon=capacity, delta=1e-6, accounting="basic"))
    questions = [f"SELECT COUNT(*) AS n FROM visits WHERE age > {age}" for age in range(100)]
    worth = (1 - hundred_coins(1e-8)) / capacity > 0.01
    assert bool(shared(asked, questions).delta) == worth
    seen = asked.preview_batch(questions, epsilon=1)
    assert bool(seen.cost.delta) == worth
    said = f"{'Delta' if worth else 'No delta'} is paid to compose the list: "
    assert said in seen.explain()
    assert said in seen.to_dict()["explained"]


def test_rollups_over_public_keys_pay_no_delta() -> None:
    """They saved 2.4e-6 of epsilon together, and 63 % of the delta was gone after a hundred."""
    asked = open_visits(frame(50), budget=lw.Budget(epsilon=8, delta=1e-6, accounting="basic"))
    rollup = "SELECT sex, site, COUNT(*) AS n FROM visits WHERE age > {} GROUP BY ROLLUP(sex, site)"
    seen = asked.preview(rollup.format(1), epsilon=Fraction(1, 20))
    said = "would be 1.00% of the budget's delta for less than 0.01% of its epsilon."
    assert said in seen.explain()
    assert said in seen.to_dict()["explained"]
    for age in range(3):
        asked.sql(rollup.format(age), epsilon=Fraction(1, 20))
    assert asked.ledger.spent == Cost(Accounting.BASIC, Fraction(3, 20))


def test_what_is_left_of_a_composed_list_pays_delta_by_the_same_rule() -> None:
    asked = open_visits(frame(50), budget=lw.Budget(epsilon=8, delta=1e-6, accounting="basic"))
    made = shared(asked, [f"SELECT COUNT(*) AS n FROM visits WHERE age > {age}" for age in range(100)])
    whole, (one,) = made.costs(range(100)), made.costs([7])
    assert 0 < sum(cost.delta for cost in whole) == made.delta
    assert one == made.budget.cost(made.plans[7].loss)
    assert sum(cost.amount for cost in made.costs(range(90))) <= 1  # which add up to more


@pytest.mark.parametrize("capacity", [8, 1000])
def test_a_delta_that_is_named_is_paid_by_the_same_rule(capacity: int) -> None:
    asked = open_visits(frame(50), budget=lw.Budget(epsilon=capacity, delta=1e-6, accounting="basic"))
    questions = [f"SELECT COUNT(*) AS n FROM visits WHERE age > {age}" for age in range(100)]
    seen = asked.preview_batch(questions, epsilon=1, delta=1e-8)
    assert seen.cost.delta == (Fraction(1, 10**8) if capacity == 8 else 0)


@pytest.mark.parametrize("name", ["zcdp", "basic"])
def test_keys_that_are_not_public_are_selected_in_a_batch(name: str) -> None:
    budget = BUDGETS[name]
    asked = open_visits(frame(50), budget=budget, groups_per_unit=2)
    made = shared(asked, [NAMES, BY_SEX])
    assert sum(plan.selection is not None for plan in made.plans) == 1
    answers = asked.batch([NAMES, BY_SEX], epsilon=1)
    assert answers.cost.delta <= budget.question_delta()
    assert answers.cost.delta > 0
    assert answers[0].to_arrow(intervals=False).column_names == ["name", "n"]


def test_the_delta_of_keys_does_not_grow_with_their_epsilon() -> None:
    """The parts of a fixed list are scaled up by more than 1 / delta here."""
    asked = open_visits(frame(50), budget=lw.Budget(1, 0.9, accounting="basic"), groups_per_unit=2)
    counts = [f"SELECT COUNT(*) AS n FROM visits WHERE age > {age}" for age in range(40)]
    made = shared(asked, [NAMES, *counts], delta=0.8)
    selections = [plan.prices.selection for plan in made.plans if plan.prices.selection is not None]
    assert [loss.delta for loss in selections] == [Fraction(4, 10)]


def test_a_batch_is_paid_whole_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """ledger:B2 nothing is charged and no row is read if the sum does not fit."""
    asked = open_visits(frame(50), budget=lw.Budget(epsilon=1))
    spy = Spy(asked, monkeypatch)
    with pytest.raises(lw.BudgetExceeded):
        asked.batch([TOTAL, SITES], epsilon=1.01)
    assert (bool(asked.ledger.spent), spy.queries) == (False, [])
    assert asked.batch([TOTAL, SITES], epsilon=1).cost.amount == 1


def test_what_is_stored_is_not_paid_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = open_visits(frame(50), budget=ZCDP)
    first = asked.batch([TOTAL, BY_SEX, AGES], epsilon=1)
    spent = asked.ledger.spent
    spy = Spy(asked, monkeypatch)
    again = asked.batch([TOTAL, BY_SEX, AGES], epsilon=1)
    assert (bool(again.cost), asked.ledger.spent, spy.queries) == (False, spent, [])
    assert [one.entry for one in again] == [one.entry for one in first]
    assert [str(one.to_arrow()) for one in again] == [str(one.to_arrow()) for one in first]
    alone = asked.sql(TOTAL, epsilon=Fraction(1, 10))
    assert (alone.entry, bool(alone.cost)) == (first[0].entry, False)
    assert asked.batch([TOTAL, BY_SEX, AGES], epsilon=1, refresh=True).cost == first.cost


def test_a_key_gives_its_own_answers_back() -> None:
    asked = open_visits(frame(50), budget=ZCDP)
    first = asked.batch([TOTAL, SITES], epsilon=1, key="k" * 200)
    better = asked.sql(TOTAL, epsilon=5)
    assert asked.batch([TOTAL, SITES], epsilon=1)[0].entry == better.entry
    again = asked.batch([TOTAL, SITES], epsilon=1, key="k" * 200)
    assert [one.entry for one in again] == [one.entry for one in first]


def test_the_same_choice_twice_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = open_visits(frame(50), budget=ZCDP)
    spy = Spy(asked, monkeypatch)
    best = "SELECT site FROM visits GROUP BY site ORDER BY COUNT(*) DESC LIMIT 1"
    first, second = asked.batch([best, best], epsilon=Fraction(1, 10))
    assert (first.entry, str(first.to_arrow())) == (second.entry, str(second.to_arrow()))
    assert len(spy.queries) == 1


@pytest.mark.parametrize("epsilon", [Fraction(1, 100), 20, 10**4])
def test_many_different_weights_and_prices_are_planned_quickly(epsilon: Any) -> None:
    """gate:G53 few of the parts differ, so that the composition of a hundred takes no longer than that of ten."""
    asked = open_visits(frame(50), budget=lw.Budget(epsilon=2 * epsilon, delta=1e-6, accounting="basic"))
    questions = [f"SELECT COUNT(*) AS n FROM visits WHERE age > {age}" for age in range(100)]
    made = shared(asked, questions, epsilon, weights=[Fraction(n + 1, 7) for n in range(100)])
    parts = {plan.prices.measures[0] for plan in made.plans}
    assert len(parts) <= (10 if epsilon <= 20 else 100)
    assert sum(cost.amount for cost in made.costs(range(100))) <= epsilon


def test_a_key_makes_the_retry_of_a_batch_safe() -> None:
    asked = open_visits(frame(50), budget=ZCDP)
    first = asked.batch([TOTAL, SITES], epsilon=1, key="monday", refresh=True)
    again = asked.batch([TOTAL, SITES], epsilon=1, key="monday", refresh=True)
    assert ([one.entry for one in again], bool(again.cost)) == ([one.entry for one in first], False)
    with pytest.raises(lw.Misconfigured, match="another question"):
        asked.batch([SITES, TOTAL], epsilon=1, key="monday", refresh=True)


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda asked: asked.batch([TOTAL, "SELECT MODE(age) FROM visits"], epsilon=1), "question 2, `MODE"),
        (lambda asked: asked.batch([TOTAL, "SELECT SUM(site) FROM visits"], epsilon=1), "question 2, SUM"),
        (lambda asked: asked.batch([NAMES], epsilon=1), "question 1, GROUP BY"),
        (lambda asked: asked.batch({"a": TOTAL, "b": NAMES}, epsilon=1), "question b, GROUP BY"),
        (
            lambda asked: asked.batch([TOTAL], epsilon=1, weights=[0]),
            "question 1 is 0; it must be above 0. Nothing was",
        ),
        (lambda asked: asked.batch([TOTAL], epsilon=1, delta=1e-9), "Leave `delta` out"),
        (lambda asked: asked.batch([], epsilon=1), "list of questions"),
        (lambda asked: asked.batch(TOTAL, epsilon=1), "list of questions"),
        (lambda asked: asked.batch([TOTAL], epsilon=1, weights=[1, 2]), "one number for each"),
        (lambda asked: asked.batch({"n": TOTAL}, epsilon=1, weights={"m": 2}), "one number for each"),
        (lambda asked: asked.batch([TOTAL], epsilon=0), "positive"),
    ],
    ids=["mode", "bounds", "keys", "by-name", "weight", "delta", "nothing", "a-text", "weights", "names", "price"],
)
def test_a_refusal_names_the_question_and_charges_nothing(ask: Callable[[lw.Curator], Any], says: str) -> None:
    asked = open_visits(frame(50), budget=ZCDP)
    with pytest.raises(lw.LapwingError, match=says):
        ask(asked)
    assert not asked.ledger.spent


def test_the_preview_tells_what_each_question_would_be_worth(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = open_visits(frame(50), budget=PURE)
    spy = Spy(asked, monkeypatch)
    seen = asked.preview_batch({"all": TOTAL, "ages": AGES}, epsilon=1)
    assert (seen.cost.amount, seen.fits, spy.queries, bool(asked.ledger.spent)) == (1, True, [], False)
    text = str(seen)
    assert text.index("all:") < text.index("COUNT(*): within") < text.index("ages:") < text.index("AVG(age)")
    assert seen.to_dict()["questions"]["all"]["errors"] == {
        "COUNT(*)": pytest.approx(seen.previews[0].errors["COUNT(*)"])
    }


def test_the_preview_of_a_batch_says_whether_it_fits() -> None:
    asked = open_visits(frame(50), budget=lw.Budget(epsilon=2))
    fits, does_not = (asked.preview_batch([TOTAL, SITES], epsilon=price) for price in (1, 3))
    assert "epsilon = 1, 50% of the budget." in str(fits)
    assert "epsilon = 3, 150% of the budget; more than is left." in str(does_not)
    assert "It does not fit" not in fits.explain()
    assert "It does not fit: epsilon = 2 is left." in does_not.explain()


def test_answers_print_with_their_names() -> None:
    asked = open_visits(frame(50), budget=PURE)
    answers = asked.batch({"all <visits>": TOTAL, "sexes": BY_SEX}, epsilon=10)
    assert (len(answers), answers["sexes"].entry) == (2, answers[1].entry)
    assert "2 answers; price epsilon = 10, " in str(answers)
    assert str(asked.batch([TOTAL], epsilon=10)).splitlines()[-1].startswith("1 answer; price epsilon = 10, ")
    assert "all &lt;visits&gt;" in answers._repr_html_()
    assert set(answers.to_dict()["answers"]) == {"all <visits>", "sexes"}
    assert repr(answers) == str(answers)
    assert repr(answers[0]) == str(answers[0])
    assert answers[-1] is answers[1]
    for wrong, says in (
        ("sex", "not a question of this batch"),
        (2, "2 answers. Count from 0 to 1"),
        (-3, "2 answers"),
    ):
        with pytest.raises(lw.Misconfigured, match=says):
            answers[wrong]


def test_charges_are_made_together_or_not_at_all(tmp_path: Path) -> None:
    """ledger:B2 ledger:B5 one transaction: all entries or none, and a key that is known for a part only is refused."""
    budget = lw.Budget(epsilon=1)
    half, more = (Cost(Accounting.PURE, amount) for amount in (Fraction(1, 2), Fraction(3, 5)))
    with open_ledger(tmp_path / "ledger.db", budget) as ledger:
        with pytest.raises(lw.BudgetExceeded):
            ledger.reserve_all([Charge(half, "a"), Charge(more, "b")], analyst="ann")
        assert not ledger.spent
        first, second = ledger.reserve_all([Charge(half, "a", "k1"), Charge(half, "b", "k2")], analyst="ann")
        assert (first.fresh, second.fresh, second.seq - first.seq) == (True, True, 1)
        again = ledger.reserve_all([Charge(half, "a", "k1"), Charge(half, "b", "k2")], analyst="ann")
        assert [one.fresh for one in again] == [False, False]
        with pytest.raises(lw.Misconfigured, match="another question"):
            ledger.reserve_all([Charge(half, "a", "k1"), Charge(half, "c", "k3")], analyst="ann")
        assert ledger.spent.amount == 1
        assert ledger.verify().ok


def test_a_batch_takes_as_many_steps_for_each_question_however_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries that are read again and what the ledger says of each question: once both grew with the batch."""
    seen = 0
    read = Entry.read

    def counted(row: Any) -> Entry:
        nonlocal seen
        seen += 1
        return read(row)

    monkeypatch.setattr(Entry, "read", counted)
    steps, notes = {}, {}
    for many in (8, 32):
        folder = tmp_path / str(many)
        folder.mkdir()
        curator = open_visits(write_visits(folder), budget=PURE)
        seen = 0
        curator.batch([f"SELECT COUNT(*) AS n FROM visits WHERE age < {20 + i}" for i in range(many)], epsilon=1)
        steps[many] = seen / many
        notes[many] = sum(len(entry.note) for entry in curator.ledger.entries()) / many
    assert steps[32] <= 1.2 * steps[8]
    assert notes[32] <= 1.2 * notes[8]
