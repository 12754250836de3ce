"""The largest move loses most, and mechanisms know the distribution of their own loss."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest

import lapwing as lw
from lapwing.mechanisms.values import whole_shift
from lapwing.privacy import Approximate, PrivacyLoss, Pure, compose_fixed

EPSILONS = [0, Fraction(1, 20), Fraction(1, 5), Fraction(2, 5), 1]


@pytest.mark.parametrize(
    "losses",
    [
        [PrivacyLoss.laplace(scale=5, shift=shift) for shift in (1, 2, 3, 4)],
        [PrivacyLoss.gaussian(variance=9, shift=shift) for shift in (1, 2, 3, 4)],
    ],
    ids=["laplace", "gaussian"],
)
def test_a_larger_shift_loses_at_least_as_much_at_every_epsilon(losses: list[PrivacyLoss]) -> None:
    for small, large in pairwise(losses):
        for epsilon in EPSILONS:
            assert small.least_delta(epsilon) <= large.delta(epsilon)


def test_a_mechanism_gives_its_privacy_loss_in_one_call() -> None:
    laplace, gaussian = lw.Laplace(epsilon=0.5, sensitivity=2), lw.Gaussian(rho=0.1, sensitivity=2)
    assert PrivacyLoss.of(laplace) == laplace.privacy_loss == PrivacyLoss.laplace(scale=4, shift=2)
    assert PrivacyLoss.of(gaussian) == PrivacyLoss.gaussian(variance=20, shift=2)
    assert 0 <= laplace.privacy_loss.epsilon(0) - laplace.epsilon <= Fraction(1, 10**20)
    assert PrivacyLoss.of(lw.NoisyMax(epsilon=1)) == PrivacyLoss.worst(epsilon=1)
    assert PrivacyLoss.of(lw.RandomizedResponse(epsilon=1)) == PrivacyLoss.worst(epsilon=1)
    assert PrivacyLoss.of(Approximate(1, 1e-6)) == PrivacyLoss.worst(epsilon=1, delta=1e-6)


def test_losses_and_mechanisms_compose_as_a_fixed_list() -> None:
    laplace = lw.Laplace(epsilon=0.1, sensitivity=20)
    own, worst = (compose_fixed([one] * 50).epsilon(1e-6) for one in (laplace, laplace.loss))
    assert own < worst < 5
    count = lw.Laplace(epsilon=0.1)  # a count that moves by 1 is the worst there is
    assert compose_fixed([count] * 50).epsilon(1e-6) == worst
    assert worst == compose_fixed([PrivacyLoss.worst(epsilon=0.1)] * 50).epsilon(1e-6)
    assert compose_fixed([laplace, Pure(0.1), laplace.privacy_loss]).releases == 3


@pytest.mark.parametrize(
    ("release", "words"),
    [
        (lw.Gaussian(rho=0.1).loss, "a zCDP loss does not say how likely each loss is"),
        (lw.Laplace(epsilon=1, sensitivity=Fraction(1, 2)), "PrivacyLoss.worst"),
        (lw.Gaussian(rho=0.1, size=2), "size=1"),
        ("half", "no privacy loss"),
    ],
)
def test_what_has_no_distribution_says_what_to_pass(release: object, words: str) -> None:
    with pytest.raises(lw.Misconfigured, match=words):
        compose_fixed([release] * 3)
    with pytest.raises(lw.Misconfigured, match="whole steps"):
        whole_shift(Fraction(3, 2))
