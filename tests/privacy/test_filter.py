"""The filter: grants exactly the budget, refuses without side effects, holds against threads."""

from __future__ import annotations

import contextlib
import copy
import itertools
import pickle
import sys
from fractions import Fraction
from threading import Barrier, Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lapwing.errors import BudgetExceeded, LapwingError, Misconfigured, Refused
from lapwing.privacy import ZCDP, Accounting, Approximate, BoundedRange, Budget, Cost, Filter, Loss, Pure
from lapwing.privacy import filter as module
from support.steps import acts_at

always = settings(deadline=None, derandomize=True, max_examples=60)
BUDGETS = [Budget(1), Budget(1, 1e-6), Budget(1, 1e-6, accounting="basic")]


def granted(account: Filter, loss: Loss, asks: int) -> int:
    """How many of so many asks are granted."""
    count = 0
    for _ in range(asks):
        if account.fits(loss):
            account.spend(loss)
            count += 1
        else:
            with pytest.raises(BudgetExceeded):
                account.spend(loss)
    return count


def test_ten_tenths_fill_one_exactly() -> None:
    """gate:G28 ledger:B7: then not even a billionth more."""
    account = Filter(Budget(1.0))
    assert granted(account, Pure(0.1), 20) == 10
    assert account.spent == account.total == Cost(Accounting.PURE, 1)
    assert account.remaining == Cost(Accounting.PURE, 0)
    with pytest.raises(BudgetExceeded):
        account.spend(Pure(1e-9))


def test_three_at_a_third_leave_a_thousandth() -> None:
    """gate:G28: exact decimals."""
    account = Filter(Budget(1.0))
    assert granted(account, Pure(0.333), 4) == 3
    assert account.remaining == Cost(Accounting.PURE, 0.001)


@pytest.mark.parametrize("n", [1, 3, 7, 11, 49, 1000])
def test_n_questions_at_a_part_of_epsilon_each(n: int) -> None:
    """lecture:L35: n queries at epsilon/n each fill the budget, and one more does not fit."""
    account = Filter(Budget(2))
    assert granted(account, Pure(Fraction(2, n)), n + 1) == n


def test_an_over_ask_has_no_side_effects() -> None:
    """gate:G29 ledger:B9: 2 of 1 is refused, then a half is granted."""
    account = Filter(Budget(1))
    with pytest.raises(BudgetExceeded) as refusal:
        account.spend(Pure(2))
    assert account.spent == Cost(Accounting.PURE, 0)
    assert refusal.value.asked == Cost(Accounting.PURE, 2)
    assert refusal.value.remaining == Cost(Accounting.PURE, 1)
    assert account.spend(Pure(0.5)) == Cost(Accounting.PURE, 0.5)


@pytest.mark.parametrize(("epsilon", "times"), [(0.1, 280), (0.5, 13), (2, 1)])
def test_far_more_small_questions_fit_a_zcdp_budget(epsilon: float, times: int) -> None:
    """lecture:L35: at epsilon = 2, delta = 1e-6 there fit 280 questions at 0.1 and 13 at 0.5."""
    account = Filter(Budget(2, 1e-6))
    assert granted(account, account.budget.price(epsilon=epsilon), times + 3) == times


def test_basic_accounting_adds_both() -> None:
    """lecture:L30."""
    account = Filter(Budget(1, 1e-6, accounting="basic"))
    assert granted(account, Approximate(0.1, 2e-7), 10) == 5
    assert granted(account, Pure(0.1), 10) == 5
    assert account.remaining == Cost(Accounting.BASIC, 0)


def test_deltas_are_limited_on_their_own() -> None:
    account = Filter(Budget(2, 1e-6))
    price = account.budget.price(epsilon=0.01, delta=account.budget.question_delta())
    assert granted(account, price, 101) == 100
    assert account.remaining.delta == 0 < account.remaining.amount
    assert account.spend(account.budget.price(epsilon=0.01))


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: budget.accounting.value)
@pytest.mark.parametrize(
    "bad", [float("nan"), float("inf"), -1, 0, 1, 0.5, True, "1", None, Pure, Cost(Accounting.PURE, 1)], ids=str
)
def test_what_is_no_loss_leaves_the_filter_unchanged(budget: Budget, bad: object) -> None:
    """threat:A26: NaN compares false to everything; it must not slip through."""
    account = Filter(budget)
    account.spend(Pure(0.125))
    before = account.spent
    for door in (account.spend, account.fits):
        with pytest.raises(Misconfigured, match="not a privacy loss"):
            door(bad)  # type: ignore[arg-type]
    assert account.spent == before


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1, -1e-9, True, "0.1", None], ids=str)
def test_a_bad_amount_never_reaches_the_filter(bad: object) -> None:
    """threat:A26: refused while the loss or the price is made; spent stays what it was."""
    account = Filter(Budget(1, 1e-6))
    doors = [
        lambda: account.spend(Pure(bad)),  # type: ignore[arg-type]
        lambda: account.spend(BoundedRange(bad)),  # type: ignore[arg-type]
        lambda: account.spend(ZCDP(bad)),  # type: ignore[arg-type]
        lambda: account.spend(ZCDP(0.001, bad)),  # type: ignore[arg-type]
        lambda: account.spend(Approximate(bad, 0)),  # type: ignore[arg-type]
        lambda: account.spend(Approximate(0.1, bad)),  # type: ignore[arg-type]
        lambda: account.spend(account.budget.price(epsilon=bad)),  # type: ignore[arg-type]
    ]
    for door in doors:
        with pytest.raises(LapwingError):
            door()
    assert account.spent == Cost(Accounting.ZCDP, 0)


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: budget.accounting.value)
def test_a_charge_of_nothing_is_refused(budget: Budget) -> None:
    """threat:A26: a loss of 0 exists, a charge of 0 does not."""
    account = Filter(budget)
    for nothing in (Pure(0), BoundedRange(0), Approximate(0, 0), Pure(1) * 0):
        with pytest.raises(Misconfigured, match="must be above 0"):
            account.spend(nothing)


def test_a_loss_without_a_rule_is_refused_and_free() -> None:
    account = Filter(Budget(1))
    with pytest.raises(Refused):
        account.spend(ZCDP(0.0001))
    assert account.spent == Cost(Accounting.PURE, 0)


def test_the_refusal_says_asked_left_and_what_to_do() -> None:
    account = Filter(Budget(1))
    account.spend(Pure(0.9))
    with pytest.raises(BudgetExceeded) as refusal:
        account.spend(Pure(0.2))
    assert str(refusal.value) == (
        "This costs epsilon = 0.2, and epsilon = 0.1 is left. Nothing was charged. Ask for epsilon = 0.1 or less."
    )


def test_the_refusal_gives_advice_that_works() -> None:
    account = Filter(Budget(2, 1e-6))
    account.spend(account.budget.price(epsilon=1.5))
    with pytest.raises(BudgetExceeded, match=r"Ask for epsilon = 1\.2") as refusal:
        account.spend(account.budget.price(epsilon=2))
    advice = str(refusal.value).split("epsilon = ")[-1].split(" or")[0]
    assert account.spend(account.budget.price(epsilon=Fraction(advice)))


def test_the_refusal_names_delta_when_delta_is_short() -> None:
    account = Filter(Budget(2, 1e-6))
    with pytest.raises(BudgetExceeded, match="Ask for delta = 5e-7 or less"):
        account.spend(account.budget.price(epsilon=0.1, delta=1e-6))


def test_the_refusal_of_a_full_budget_says_so() -> None:
    account = Filter(Budget(1))
    account.spend(Pure(1))
    with pytest.raises(BudgetExceeded, match="No question fits any more"):
        account.spend(Pure(1))


def test_the_filter_reads_in_plain_words() -> None:
    """lecture:L35."""
    account = Filter(Budget(1))
    account.spend(Pure(0.4))
    assert str(account) == (
        "Budget: epsilon = 1 (pure accounting: epsilon = 1)\n"
        "The answers change the odds that a person is in the data by at most a factor e^1 = 2.72, and the odds of what "
        "her record says, if she is in, by at most e^2 = 7.39. What they teach about people like her is not bounded.\n"
        "Spent: epsilon = 0.4\n"
        "Left: epsilon = 0.6, enough for one question at epsilon = 0.6"
    )


def test_a_filter_cannot_be_doubled() -> None:
    account = Filter(Budget(1))
    for double in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(Misconfigured, match="cannot be copied"):
            double(account)


def test_a_filter_needs_a_budget_and_keeps_it() -> None:
    with pytest.raises(Misconfigured, match="not a budget"):
        Filter(1)  # type: ignore[arg-type]
    account = Filter(Budget(1))
    for name in ("budget", "spent", "total", "remaining"):
        with pytest.raises(AttributeError):
            setattr(account, name, Budget(100))


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: budget.accounting.value)
def test_sixteen_threads_get_exactly_the_budget(budget: Budget) -> None:
    """gate:G32: 16 threads ask for more than there is; the grants add up to the budget, and nothing else fails."""
    account = Filter(budget)
    price = ZCDP(budget.capacity.amount / 800) if budget.accounting is Accounting.ZCDP else Pure(Fraction(1, 800))
    start, results = Barrier(16), []

    def ask() -> None:
        start.wait()
        for _ in range(60):
            try:
                results.append(account.spend(price))
            except BudgetExceeded:
                results.append(None)

    pause = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [Thread(target=ask) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(pause)
    costs = [cost for cost in results if cost]
    assert len(results) == 960
    assert len(costs) == 800
    assert sum(costs[1:], start=costs[0]) == account.spent
    assert account.remaining.amount == 0


prices = st.fractions(min_value=Fraction(1, 100), max_value=Fraction(3, 2), max_denominator=100)
shares = st.integers(min_value=0, max_value=500).map(lambda k: Fraction(k, 10**9))
charges: st.SearchStrategy[Loss] = st.one_of(
    prices.map(Pure), prices.map(BoundedRange), st.builds(ZCDP, prices.map(lambda p: p / 50), shares)
) | st.builds(Approximate, prices, shares)


@always
@given(st.sampled_from(BUDGETS), st.lists(charges, max_size=30))
def test_the_filter_agrees_with_a_plain_sum(budget: Budget, asked: list[Loss]) -> None:
    """ledger:B9: granted exactly when it fits, never above the capacity, never down."""
    account, amount, delta = Filter(budget), Fraction(0), Fraction(0)
    for loss in asked:
        try:
            cost = budget.cost(loss)
        except Refused:
            continue
        fits = amount + cost.amount <= budget.capacity.amount and delta + cost.delta <= budget.capacity.delta
        assert account.fits(loss) is fits
        if fits:
            account.spend(loss)
            amount, delta = amount + cost.amount, delta + cost.delta
        else:
            with pytest.raises(BudgetExceeded):
                account.spend(loss)
        assert tuple(account.spent) == (amount, delta)
        assert account.spent + account.remaining == account.total


def test_a_signal_handler_that_spends_never_overspends() -> None:
    """Before any bytecode of `spend`: every grant counts, once, and the handler is not blocked."""
    for step in itertools.count():
        running, charged = Filter(Budget(epsilon=1)), []

        def spend(cost: str, running: Filter = running, charged: list[str] = charged) -> None:
            with contextlib.suppress(BudgetExceeded):
                running.spend(Pure(Fraction(cost)))
                charged.append(cost)

        happened = acts_at(step, module, lambda: spend("0.6"), lambda: spend("0.7"))
        assert len(charged) == 1
        assert running.spent == Budget(epsilon=1).cost(Pure(Fraction(charged[0])))
        spend("0.2")
        spend("0.1")
        assert sum(map(Fraction, charged)) == running.spent.amount
        if not happened:
            break
    assert step > 50


def test_an_interrupted_charge_is_made_or_not_made() -> None:
    for step in itertools.count():
        running = Filter(Budget(epsilon=1))

        def interrupt() -> None:
            raise KeyboardInterrupt

        try:
            happened = acts_at(step, module, lambda: running.spend(Pure(0.6)), interrupt)  # noqa: B023
        except KeyboardInterrupt:
            happened = True
        assert running.spent.amount in (0, Fraction("0.6"))
        if not happened:
            break
    assert step > 50
