"""Laws of losses as prices: split, scaled, minus, with_delta, pure_epsilon, and their texts."""

from __future__ import annotations

from fractions import Fraction
from functools import reduce
from operator import add

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lapwing.errors import LapwingError, Misconfigured, Refused
from lapwing.privacy import ZCDP, Approximate, BoundedRange, Budget, Cost, Loss, Pure
from lapwing.privacy.loss import decode_loss

always = settings(deadline=None, derandomize=True, max_examples=100)

amounts = st.fractions(min_value=0, max_value=20, max_denominator=1000)
deltas = st.integers(min_value=0, max_value=10**6).map(lambda k: Fraction(k, 10**9))
factors = st.fractions(min_value=0, max_value=8, max_denominator=100)
weights = st.lists(st.fractions(min_value=Fraction(1, 100), max_value=100, max_denominator=100), min_size=1, max_size=9)
losses: st.SearchStrategy[Loss] = st.one_of(
    amounts.map(Pure),
    st.tuples(amounts, amounts).map(lambda pair: Pure(pair[0]) + BoundedRange(pair[1])),
    amounts.map(BoundedRange),
    st.builds(ZCDP, amounts, deltas),
    st.builds(Approximate, amounts, deltas),
)
BUDGETS = [Budget(1), Budget(1, 1e-6), Budget(1, 1e-6, accounting="basic")]
CONVERT = {Pure: lambda a: a.to_pure(), ZCDP: lambda a: a.to_zcdp(), Approximate: lambda a: a.to_approximate()}


def costs(loss: Loss) -> list[Cost | None]:
    """What it costs in each currency that can pay it."""

    def one(budget: Budget) -> Cost | None:
        try:
            return budget.cost(loss)
        except Refused:
            return None

    return [one(budget) for budget in BUDGETS]


def is_at_most(less: Loss, more: Loss) -> bool:
    """Whether no currency that can pay both says otherwise."""
    pairs = zip(costs(less), costs(more), strict=True)
    return all(a.fits(b) for a, b in pairs if a is not None and b is not None)


@always
@given(losses, weights)
def test_parts_add_up_to_the_whole_exactly(loss: Loss, shares: list[Fraction]) -> None:
    parts = loss.split(shares)
    together = reduce(add, parts)
    assert (together.amount, together.delta) == (loss.amount, loss.delta)
    assert [part.amount * sum(shares) for part in parts] == [loss.amount * share for share in shares]
    assert is_at_most(together, loss)


@always
@given(losses, factors, factors)
def test_scaling_twice_is_scaling_once(loss: Loss, first: Fraction, second: Fraction) -> None:
    assert loss.scaled(1) == loss
    assert loss.scaled(first).scaled(second) == loss.scaled(first * second)


@always
@given(losses, st.integers(min_value=1, max_value=9))
def test_a_scaled_price_has_the_amount_of_as_many_releases(loss: Loss, times: int) -> None:
    """One release of that amount may lose more rho than many small ones, never less."""
    scaled, many = loss.scaled(times), loss * times
    assert (scaled.amount, scaled.delta) == (many.amount, many.delta)
    assert isinstance(loss, BoundedRange) or is_at_most(many, scaled)


@always
@given(losses, losses, factors, factors, weights)
def test_more_never_becomes_less(loss: Loss, more: Loss, low: Fraction, high: Fraction, shares: list[Fraction]) -> None:
    """Within one kind: an epsilon scales otherwise than its rho."""
    low, high = sorted((low, high))
    assert is_at_most(loss.scaled(low), loss.scaled(high))
    try:
        sum_of_both = loss + more
    except Refused:
        return
    if sum_of_both.kind != loss.kind:
        return
    assert is_at_most(loss.scaled(low), sum_of_both.scaled(low))
    assert all(is_at_most(a, b) for a, b in zip(loss.split(shares), sum_of_both.split(shares), strict=True))


@always
@given(losses, losses)
def test_minus_undoes_plus(first: Loss, second: Loss) -> None:
    try:
        whole = first + second
    except Refused:
        return
    assert whole.minus(second) == CONVERT[type(whole)](first)


@always
@given(losses, losses)
def test_what_is_left_and_what_was_taken_are_within_the_price(price: Loss, taken: Loss) -> None:
    try:
        rest = price.minus(taken)
    except LapwingError:
        return
    assert is_at_most(rest + taken, price)


@always
@given(losses, deltas)
def test_a_delta_changes_nothing_else(loss: Loss, delta: Fraction) -> None:
    other = loss.with_delta(delta)
    assert (other.amount, other.delta) == (loss.amount, delta)
    assert other.with_delta(0).delta == 0
    assert other.with_delta(loss.delta).amount == loss.amount


@always
@given(losses, st.integers(min_value=1, max_value=20), st.sampled_from([Fraction(1, 10**18), Fraction(1, 2**64)]))
def test_pure_releases_are_as_large_as_the_amount_allows(loss: Loss, times: int, unit: Fraction) -> None:
    price = loss.with_delta(0)
    each = price.pure_epsilon(times, unit=unit)
    taken = CONVERT.get(type(price), CONVERT[Pure])(Pure(each) * times)
    larger = CONVERT.get(type(price), CONVERT[Pure])(Pure(each + 2 * unit) * times)
    assert taken.amount <= price.amount < larger.amount


@always
@given(losses)
def test_a_loss_comes_back_from_its_texts(loss: Loss) -> None:
    assert decode_loss(loss.encode()) == loss
    assert type(decode_loss(loss.encode())) is type(loss)


@always
@given(losses, losses)
def test_different_losses_have_different_texts(first: Loss, second: Loss) -> None:
    assert (first.encode() == second.encode()) == (first == second)


LOSSES = [Pure(1), BoundedRange(1), ZCDP(1, 0.01), Approximate(1, 0.01)]


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("bad", [[], [0], [1, -1], [1, float("nan")], [1, True], ["1"]], ids=str)
def test_bad_weights_are_refused(loss: Loss, bad: list[float]) -> None:
    with pytest.raises(Misconfigured):
        loss.split(bad)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_bad_numbers_are_refused(loss: Loss) -> None:
    with pytest.raises(Misconfigured, match="factor"):
        loss.scaled(-1)
    with pytest.raises(Misconfigured, match="delta"):
        loss.with_delta(1)
    with pytest.raises(Misconfigured, match="times"):
        loss.with_delta(0).pure_epsilon(0, unit=Fraction(1, 8))


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_more_than_the_price_cannot_be_taken(loss: Loss) -> None:
    with pytest.raises(Misconfigured):
        loss.minus(loss.scaled(2))


def test_what_cannot_be_compared_cannot_be_taken() -> None:
    with pytest.raises(Refused, match="no epsilon without"):
        Pure(1).minus(ZCDP(0.1))
    with pytest.raises(Refused, match="above its own"):
        Approximate(1, 0.1).minus(ZCDP(0.1))


def test_a_scaled_delta_stays_below_one() -> None:
    with pytest.raises(Refused, match="add up to"):
        ZCDP(1, 0.5).scaled(2)
