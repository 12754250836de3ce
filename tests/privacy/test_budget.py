"""Budgets: what they hold, what a question costs, and what they refuse."""

from __future__ import annotations

import warnings
from fractions import Fraction

import pytest

from lapwing.errors import LapwingError, Misconfigured, Refused, WeakBudget
from lapwing.privacy import ZCDP, Accounting, Approximate, BoundedRange, Budget, Cost, Pure, epsilon_of_rho

PURE_PROMISE = (
    "The answers change the odds that a person is in the data by at most a factor e^1 = 2.72, and the odds of "
    "what her record says, if she is in, by at most e^2 = 7.39. What they teach about people like her is not bounded."
)
BAD = [float("nan"), float("inf"), -1, 0, True, "1", None, 1j]
PURE, CONCENTRATED, BASIC = Budget(1), Budget(2, 1e-6), Budget(2, 1e-6, accounting="basic")


def test_the_kind_of_accounting_follows_from_delta() -> None:
    assert Budget(1).accounting is Accounting.PURE
    assert Budget(1, 1e-6).accounting is Accounting.ZCDP
    assert Budget(1, 1e-6, accounting="basic").accounting is Accounting.BASIC
    assert Budget(1, 1e-6, accounting="zcdp") == Budget(1, 1e-6, accounting=Accounting.ZCDP) == Budget(1, 1e-6)
    assert Budget(1, accounting="pure") == Budget(epsilon=1)
    assert Budget(1, accounting="basic").capacity == Cost(Accounting.BASIC, 1)


def test_budgets_are_compared_by_value() -> None:
    assert Budget(0.1, 1e-6) == Budget(Fraction(1, 10), Fraction(1, 10**6))
    assert len({Budget(1), Budget(2), Budget(1, 1e-6), Budget(1, 1e-6, accounting="basic")}) == 4


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_what_is_no_amount_is_refused_at_every_door(bad: object) -> None:
    """threat:A26: zero too, for a budget or a price of 0 answers nothing."""
    with pytest.raises(Misconfigured):
        Budget(bad)  # type: ignore[arg-type]
    for budget in (PURE, CONCENTRATED, BASIC):
        with pytest.raises(Misconfigured):
            budget.price(epsilon=bad)  # type: ignore[arg-type]
        with pytest.raises(LapwingError):
            budget.cost(bad)  # type: ignore[arg-type]
    if bad != 0:
        with pytest.raises(Misconfigured):
            Budget(1, bad)  # type: ignore[arg-type]
        with pytest.raises(Misconfigured):
            CONCENTRATED.price(epsilon=1, delta=bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("delta", [1, 1.5, Fraction(2)])
def test_a_delta_of_one_or_more_is_refused(delta: float) -> None:
    """threat:A26."""
    with pytest.raises(Misconfigured, match="below 1"):
        Budget(1, delta)


@pytest.mark.parametrize("name", ["BASIC", "rdp", "", 1, True, float("nan"), ["zcdp"]])
def test_an_unknown_accounting_is_refused_with_the_choices(name: object) -> None:
    with pytest.raises(Misconfigured, match="'pure', 'zcdp', 'basic'"):
        Budget(1, 1e-6, accounting=name)  # type: ignore[arg-type]


def test_accounting_and_delta_must_agree() -> None:
    with pytest.raises(Misconfigured, match="needs one above 0"):
        Budget(1, accounting="zcdp")
    with pytest.raises(Misconfigured, match="pure accounting has none"):
        Budget(1, 1e-6, accounting="pure")


def test_a_budget_too_small_for_any_question_is_refused() -> None:
    with pytest.raises(Misconfigured, match="too small"):
        Budget(Fraction(1, 10**60), Fraction(1, 10**60))


def test_capacity_is_exact_and_unpacks() -> None:
    assert tuple(PURE.capacity) == (1, 0)
    assert tuple(BASIC.capacity) == (2, Fraction(1, 10**6))
    rho, delta = CONCENTRATED.capacity
    assert delta == Fraction(1, 2 * 10**6)
    assert rho == pytest.approx(0.0834417178336798, rel=1e-12)
    assert epsilon_of_rho(rho, delta) <= 2 < epsilon_of_rho(rho * (1 + Fraction(1, 10**12)), delta)


def test_asking_for_the_whole_epsilon_costs_the_whole_budget() -> None:
    for epsilon, delta in ((2, 1e-6), (0.001, 1e-12), (1e-9, 1e-15), (50, 1e-3), (Fraction(1, 3), Fraction(1, 7))):
        budget = Budget(epsilon, delta)
        assert budget.cost(budget.price(epsilon=epsilon)).amount == budget.capacity.amount


def test_prices_are_losses_in_the_currency_of_the_budget() -> None:
    assert PURE.price(epsilon=0.1) == Pure(0.1)
    assert BASIC.price(epsilon=0.1) == Pure(0.1)
    assert BASIC.price(epsilon=0.1, delta=1e-8) == Approximate(0.1, 1e-8)
    rho = CONCENTRATED.price(epsilon=0.1).to_zcdp().rho
    assert CONCENTRATED.price(epsilon=0.1, delta=1e-9) == ZCDP(rho, 1e-9)
    assert epsilon_of_rho(rho, CONCENTRATED.delta / 2) <= Fraction(1, 10)


def test_a_pure_budget_sells_no_delta() -> None:
    with pytest.raises(Refused, match="no delta to spend"):
        PURE.price(epsilon=1, delta=1e-9)


def test_a_question_that_names_no_delta_takes_a_hundredth() -> None:
    assert CONCENTRATED.question_delta() == Fraction(1, 2 * 10**8)
    assert BASIC.question_delta() == Fraction(1, 10**8)
    assert PURE.question_delta() == 0


def test_the_delta_of_a_question_is_a_hundredth_of_what_is_left_rounded_down_to_three_digits() -> None:
    assert CONCENTRATED.question_delta(Fraction(123_456, 10**9)) == Fraction(123, 10**8)
    assert CONCENTRATED.question_delta(Fraction(1, 3)) == Fraction(333, 10**5)
    assert CONCENTRATED.question_delta(Fraction(99_999, 10**12)) == Fraction(999, 10**12)
    assert CONCENTRATED.question_delta(Fraction(0)) == 0


def test_a_thousand_questions_that_select_keys_stay_within_the_delta() -> None:
    """Exactly: what was spent and what is left are the whole, and the last one still has something to take."""
    left = whole = CONCENTRATED.capacity.delta
    spent = Fraction(0)
    for _ in range(1000):
        delta = CONCENTRATED.question_delta(left)
        assert 0 < delta <= left / 100
        assert delta > left / 100 * Fraction(99, 100)
        spent, left = spent + delta, left - delta
    assert spent + left == whole
    assert left / whole > Fraction(99, 100) ** 1000


@pytest.mark.parametrize("many", [1, 2, 99, 100, 1000])
def test_several_questions_at_once_each_take_a_hundredth_of_what_the_others_leave(many: int) -> None:
    left = Fraction(1, 2 * 10**6)
    each = CONCENTRATED.question_delta(left, many=many)
    assert 0 < each <= (left - (many - 1) * each) / 100


def test_costs_in_a_pure_budget() -> None:
    assert PURE.cost(Pure(0.1)) == PURE.cost(BoundedRange(0.1)) == Cost(Accounting.PURE, 0.1)
    assert PURE.cost(Approximate(0.1, 0)) == Cost(Accounting.PURE, 0.1)
    for unknown in (ZCDP(0.1), Approximate(0.1, 1e-9)):
        with pytest.raises(Refused, match="Budget"):
            PURE.cost(unknown)


def test_costs_in_a_zcdp_budget() -> None:
    """Pure mechanisms cost epsilon^2/2, the exponential mechanism epsilon^2/8."""
    kind = Accounting.ZCDP
    assert CONCENTRATED.cost(Pure(0.1)) == Cost(kind, 0.005)
    assert CONCENTRATED.cost(BoundedRange(0.1)) == Cost(kind, 0.00125)
    assert CONCENTRATED.cost(Pure(0.1) * 10) == Cost(kind, 0.05)
    assert CONCENTRATED.cost(ZCDP(0.01, 1e-9)) == Cost(kind, 0.01, 1e-9)
    assert CONCENTRATED.cost(Approximate(0.1, 1e-9)) == Cost(kind, 0.005, 1e-9)


def test_costs_in_a_basic_budget() -> None:
    kind = Accounting.BASIC
    assert BASIC.cost(Pure(0.1)) == BASIC.cost(BoundedRange(0.1)) == Cost(kind, 0.1)
    assert BASIC.cost(Approximate(0.1, 1e-9)) == Cost(kind, 0.1, 1e-9)
    with pytest.raises(Refused, match="to_approximate"):
        BASIC.cost(ZCDP(0.1))


def test_costs_are_exact_while_short_and_rounded_up_when_long() -> None:
    """ledger:B7."""
    assert PURE.cost(Pure(Fraction(1, 3))).amount == Fraction(1, 3)
    assert PURE.cost(Pure(1e-320)).amount == Fraction(1, 10**40)
    long = Fraction(1, 3**90)
    assert long < PURE.cost(Pure(long)).amount <= long + Fraction(1, 10**40)


def test_costs_of_different_budgets_do_not_mix() -> None:
    for act in (Cost.__add__, Cost.__sub__, Cost.fits):
        with pytest.raises(Misconfigured, match="different kinds"):
            act(PURE.capacity, BASIC.capacity)


def test_a_cost_is_never_negative() -> None:
    with pytest.raises(Misconfigured, match="at least 0"):
        Cost(Accounting.PURE, 1) - Cost(Accounting.PURE, 2)


def test_the_affordable_epsilon_fits_and_the_next_does_not() -> None:
    room = CONCENTRATED.capacity - CONCENTRATED.cost(CONCENTRATED.price(epsilon=0.5))
    most = CONCENTRATED.affordable(room)
    step = Fraction(1, 10**6)
    assert CONCENTRATED.cost(CONCENTRATED.price(epsilon=most)).fits(room)
    assert not CONCENTRATED.cost(CONCENTRATED.price(epsilon=most + step)).fits(room)
    assert CONCENTRATED.affordable(CONCENTRATED.capacity) == 2
    assert CONCENTRATED.affordable(Cost(Accounting.ZCDP, 0)) == 0


@pytest.mark.parametrize(
    ("budget", "first", "second"),
    [
        (
            Budget(1),
            "epsilon = 1 (pure accounting: epsilon = 1)",
            PURE_PROMISE,
        ),
        (
            Budget(2, 1e-6, accounting="basic"),
            "epsilon = 2, delta = 1e-6 (basic accounting: epsilon = 2, delta = 1e-6)",
            "With or without one person, no outcome becomes more than e^2 = 7.39 times as likely, plus 1e-6.",
        ),
        (
            Budget(2, 1e-6),
            "epsilon = 2, delta = 1e-6 (zcdp accounting: rho = 0.08345, delta = 5e-7)",
            "With or without one person, no outcome becomes more than e^2 = 7.39 times as likely, plus 1e-6.",
        ),
        (
            Budget(10**6),
            "epsilon = 1000000 (pure accounting: epsilon = 1000000)",
            "An epsilon of 1000000 promises almost nothing.",
        ),
    ],
    ids=["pure", "basic", "zcdp", "absurd"],
)
def test_a_budget_says_what_it_means(budget: Budget, first: str, second: str) -> None:
    """lecture:L7 that she is in: e^eps; what her record says: e^(2 eps); what the world teaches: unbounded."""
    assert str(budget).splitlines()[:2] == [first, second]
    assert str(budget).splitlines()[2:] == ([budget.weakness] if budget.epsilon > 8 else [])


WEAK = {
    "epsilon": (
        (50, 0),
        (
            "An epsilon above 8 protects hardly anyone: 50 lets the answers raise a chance of 1 in 1,000 that a person "
            "is in the data to near certainty. Use 1 or less where you can."
        ),
    ),
    "a little": (
        (8.5, 0),
        (
            "An epsilon above 8 protects hardly anyone: 8.5 lets the answers raise a chance of 1 in 1,000 that a "
            "person is in the data to 83.1 %. Use 1 or less where you can."
        ),
    ),
    "delta": (
        (1, 0.5),
        (
            "A delta of 0.5 allows each person's record to be published with that probability. "
            "Use one far below 1 / (number of people), such as 1e-6."
        ),
    ),
}


@pytest.mark.parametrize(("given", "sentence"), WEAK.values(), ids=WEAK)
def test_a_budget_that_promises_next_to_nothing_warns_once_where_it_is_made(
    given: tuple[float, float], sentence: str
) -> None:
    """lecture:L3 delta far below 1/n, eps about 1."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        budget = Budget(*given)
        Budget.from_record(*budget_terms(budget))
        str(budget), budget.capacity, budget.weakness
    assert [(str(one.message), one.category, one.filename) for one in caught] == [(sentence, WeakBudget, __file__)]
    assert budget.weakness == sentence
    assert Budget.from_record(*budget_terms(budget)) == budget


def budget_terms(budget: Budget) -> tuple[Fraction, Fraction, Accounting]:
    return budget.epsilon, budget.delta, budget.accounting


def test_both_weaknesses_are_told() -> None:
    with pytest.warns(WeakBudget, match=r"An epsilon above 8 .* A delta of 0\.01 "):
        Budget(9, 0.01)


@pytest.mark.parametrize(("epsilon", "delta"), [(1, 0), (8, 0), (2, 1e-6), (8, 0.00099), (0.1, 1e-12)])
def test_a_budget_that_promises_something_is_silent(epsilon: float, delta: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Budget(epsilon, delta).weakness == ""
