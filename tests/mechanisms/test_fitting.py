"""Which mechanism fits a price: for every kind of loss it is known, and none loses more than the price."""

from __future__ import annotations

from fractions import Fraction
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lapwing.errors import Bug, Misconfigured
from lapwing.mechanisms import Gaussian, Laplace, LaplaceMarginals, Marginals, PrefixSums, Ranges, WeightedGaussian
from lapwing.mechanisms.cells import Family, mechanisms_for
from lapwing.mechanisms.keys.threshold import GaussianThreshold
from lapwing.numbers import root_up
from lapwing.privacy import ZCDP, Approximate, BoundedRange, Loss, Pure

always = settings(deadline=None, derandomize=True, max_examples=40)
amounts = st.fractions(min_value=Fraction(1, 50), max_value=5, max_denominator=50)
prices: st.SearchStrategy[Loss] = st.one_of(amounts.map(Pure), amounts.map(ZCDP))


def in_kind(loss: Loss, price: Loss) -> Loss:
    """The loss in the currency of the price."""
    if isinstance(price, ZCDP):
        return loss.to_zcdp()
    return loss.to_pure() if isinstance(price, Pure) else loss.to_approximate()


def made(family: Family) -> list[Loss]:
    """The losses of everything that needs no delta."""
    return [
        family.additive(sensitivity=3, groups=1).loss,
        family.top_k(2, sensitivity=3, monotone=True).loss,
        family.top_k(200, sensitivity=3, monotone=False).loss,
        family.quantiles(bounds=(0, 1), cells=8, at=[0.5]).loss,
        family.ranges(size=8, cells_per_unit=2).loss,
        family.marginals(sizes=(2, 3), sets=((0,), (1,)), cells_per_unit=2).loss,
    ]


@always
@given(prices)
def test_no_mechanism_loses_more_than_its_price(price: Loss) -> None:
    for loss in made(mechanisms_for(price)):
        assert price.amount * Fraction(99, 100) <= in_kind(loss, price).amount <= price.amount
        assert loss.delta == 0


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("price", [ZCDP(Fraction(1, 10), 1e-6), Approximate(1, 1e-6)], ids=str)
def test_keys_are_selected_for_the_price_and_its_delta(price: Loss, counted: bool) -> None:
    loss = in_kind(mechanisms_for(price).keys(3, counted=counted).loss, price)
    assert (loss.amount, loss.delta) == (price.amount, price.delta)


@pytest.mark.parametrize("price", [ZCDP(1), Pure(1)], ids=str)
def test_no_key_is_selected_without_a_delta(price: Loss) -> None:
    with pytest.raises(Misconfigured, match="delta"):
        mechanisms_for(price).keys(3, counted=True)


@always
@given(amounts, st.integers(min_value=1, max_value=100), st.integers(min_value=1, max_value=10**6))
def test_noise_covers_all_groups_of_a_unit(amount: Fraction, groups: int, most: int) -> None:
    pure, curve = mechanisms_for(Pure(amount)), mechanisms_for(ZCDP(amount))
    assert pure.additive(sensitivity=most, groups=groups) == Laplace(epsilon=amount, sensitivity=groups * most)
    assert curve.additive(sensitivity=most, groups=groups) == Gaussian(rho=amount, sensitivity=root_up(groups) * most)
    assert (root_up(groups) * most) ** 2 >= groups * most**2


def test_a_price_in_rho_gets_gaussian_mechanisms() -> None:
    pure, curve = mechanisms_for(Pure(1)), mechanisms_for(ZCDP(1, 0.1))
    sets = ((0,), (1,))
    assert isinstance(pure.ranges(size=4, cells_per_unit=1), Ranges)
    assert isinstance(curve.ranges(size=4, cells_per_unit=1), PrefixSums)
    assert isinstance(pure.marginals(sizes=(2, 2), sets=sets, cells_per_unit=1), LaplaceMarginals)
    assert isinstance(curve.marginals(sizes=(2, 2), sets=sets, cells_per_unit=1), Marginals)
    assert isinstance(curve.keys(3, counted=True), GaussianThreshold)
    assert isinstance(curve.keys(3, counted=False), WeightedGaussian)


def test_few_are_chosen_by_peeling_under_a_pure_price_only() -> None:
    pure, curve = mechanisms_for(Pure(1)), mechanisms_for(ZCDP(1))
    peeling = [family.top_k(k, sensitivity=1, monotone=True).peeling for family in (pure, curve) for k in (100, 101)]
    assert peeling == [True, False, False, False]


def test_every_kind_of_loss_is_decided() -> None:
    """No price is of bounded range: it is what a choice loses."""
    samples: list[Loss] = [Pure(1), BoundedRange(1), ZCDP(1), Approximate(1, 0.1)]
    assert {type(sample) for sample in samples} == set(get_args(Loss))
    for sample in samples:
        if isinstance(sample, BoundedRange):
            with pytest.raises(Bug, match="no mechanism"):
                mechanisms_for(sample)
        else:
            assert mechanisms_for(sample).strength > 0


def test_a_pure_price_with_a_smaller_rho_is_not_taken_for_its_epsilon() -> None:
    with pytest.raises(Bug, match="no mechanism"):
        mechanisms_for(Pure(1, Fraction(1, 8)))
