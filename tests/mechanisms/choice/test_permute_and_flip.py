"""lapwing.mechanisms.choice.exponential."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from lapwing.errors import Misconfigured
from lapwing.mechanisms.choice.exponential import Exponential, PermuteAndFlip
from lapwing.numbers import ball, enclose
from lapwing.privacy.loss import ZCDP, Pure
from support.audit import assert_caught, assert_private
from support.chi import assert_fits, assert_misfits, finite

Bounds = tuple[tuple[Fraction, Fraction], ...]

VECTORS = list(itertools.product(range(3), repeat=3))


def exp_above(epsilon: Fraction) -> Fraction:
    """A number just above e^epsilon."""
    return enclose(lambda: ball(epsilon).exp())[1] * (1 + Fraction(1, 10**30))


def worst_ratio(p: Bounds, q: Bounds) -> Fraction:
    return max(low / high for (low, _), (_, high) in zip(p, q, strict=True))


def middle_of_exp(x: Fraction) -> Fraction:
    low, high = enclose(lambda: ball(x).exp(), bits=256)
    return (low + high) / 2


def walk(heads: list[Fraction]) -> list[Fraction]:
    """The definition: through the candidates in every order, each order as likely, until a coin shows heads."""
    chance = [Fraction(0)] * len(heads)
    for order in itertools.permutations(range(len(heads))):
        reached = Fraction(1, math.factorial(len(heads)))
        for candidate in order:
            chance[candidate] += reached * heads[candidate]
            reached *= 1 - heads[candidate]
    return chance


@pytest.mark.parametrize("utilities", [[0], [2, 2], [0, 3], [1, 2, 3], [4, 4, 0, 1], [0.5, 0.25, 0.0, 7.5, 7.5]])
def test_law_is_that_of_the_walk(utilities: list[float]) -> None:
    """The integral of the docstring against the definition, with the middle of each enclosure as the coin."""
    mechanism = PermuteAndFlip(epsilon=1, sensitivity=2)
    best = max(utilities)
    middles = [middle_of_exp(Fraction(str(u - best)) / 4) for u in utilities]
    law = mechanism.law(utilities)
    for expected, (low, high) in zip(walk(middles), law, strict=True):
        assert low <= expected <= high
        assert high - low <= low / 10**30


@pytest.mark.parametrize(
    "utilities", [[0], [1, 2, 3], [5] * 10, [0, 1000], list(range(32)), [0.1 * k for k in range(9)]]
)
def test_probabilities_agree_with_the_law(utilities: list[float]) -> None:
    mechanism = PermuteAndFlip(epsilon=1)
    middles = [float((low + high) / 2) for low, high in mechanism.law(utilities)]
    assert mechanism.probabilities(utilities) == pytest.approx(middles, rel=1e-12)


@pytest.mark.parametrize("size", [1, 2, 33, 1000, 30_000])
def test_probabilities_of_ties_are_equal_shares_at_any_size(size: int) -> None:
    found = PermuteAndFlip(epsilon=1).probabilities(np.zeros(size, np.int64))
    assert found == pytest.approx(np.full(size, 1 / size), rel=1e-12)


def test_probabilities_of_one_good_candidate_among_many_are_a_binomial_mean() -> None:
    """The other heads are binomial: E[1 / (K + 1)] = (1 - (1 - p)^n) / (n p) over n coins of the same p."""
    n, p = 50_000, math.exp(-3)
    found = PermuteAndFlip(epsilon=2).probabilities([3] + [0] * n)
    assert found.sum() == pytest.approx(1, abs=1e-11)
    assert found[0] == pytest.approx((1 - (1 - p) ** (n + 1)) / ((n + 1) * p), rel=1e-11)


@pytest.mark.parametrize("epsilon", [1, 0.1, 5])
def test_every_neighbour_pair_stays_within_epsilon(epsilon: float) -> None:
    """lecture:L17 the same guarantee as the exponential mechanism, over a whole small universe."""
    mechanism = PermuteAndFlip(epsilon=epsilon)
    most = exp_above(mechanism.epsilon)
    laws = {u: mechanism.law(u) for u in VECTORS}
    for u, v in itertools.product(VECTORS, repeat=2):
        if max(abs(a - b) for a, b in zip(u, v, strict=True)) <= 1:
            assert worst_ratio(laws[u], laws[v]) <= most


def test_every_monotone_neighbour_pair_stays_within_epsilon() -> None:
    mechanism = PermuteAndFlip(epsilon=1, monotone=True)
    most = exp_above(mechanism.epsilon)
    laws = {u: mechanism.law(u) for u in VECTORS}
    for u, v in itertools.product(VECTORS, repeat=2):
        if all(0 <= b - a <= 1 for a, b in zip(u, v, strict=True)):
            assert max(worst_ratio(laws[u], laws[v]), worst_ratio(laws[v], laws[u])) <= most
    assert worst_ratio(laws[0, 0, 1], laws[1, 1, 0]) > most


def test_its_log_ratio_is_not_of_bounded_range() -> None:
    """threat:A32 two neighbours whose log-ratios are 1.49 epsilon apart, so that epsilon^2/8 has no proof."""
    mechanism = PermuteAndFlip(epsilon=1, monotone=True)
    here, there = mechanism.law([0, 1]), mechanism.law([0, 0])
    ratios = [float(a[0] / b[1]) for a, b in zip(here, there, strict=True)]
    assert math.log(max(ratios) / min(ratios)) > 1.45
    assert mechanism.loss == Pure(1)
    assert mechanism.loss.to_zcdp() == ZCDP(Fraction(1, 2))


def test_renyi_divergence_exceeds_that_of_bounded_range() -> None:
    """threat:A32 order 2, on that same pair: above 2 epsilon^2/8 and below 2 epsilon^2/2."""
    mechanism = PermuteAndFlip(epsilon=1, monotone=True)
    p, q = mechanism.probabilities([0, 1]), mechanism.probabilities([0, 0])
    assert 2 / 8 < math.log((p**2 / q).sum()) < 2 / 2


@pytest.mark.parametrize(
    ("utilities", "flipped", "classic"),
    [([0] * 99 + [10], 2.71, 4.00), (range(100), 1.28, 1.54), ([3, 0], 0.33, 0.55)],
)
def test_expected_loss_is_below_the_exponential_mechanism(utilities: list[int], flipped: float, classic: float) -> None:
    """Never above it, and at best half of it."""
    lost = max(utilities) - np.array(utilities)
    assert PermuteAndFlip(epsilon=1).probabilities(utilities) @ lost == pytest.approx(flipped, abs=0.005)
    assert Exponential(epsilon=1).probabilities(utilities) @ lost == pytest.approx(classic, abs=0.005)


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("best", [1, 3])
def test_error_bound_holds_for_the_exact_law(confidence: float, best: int) -> None:
    mechanism = PermuteAndFlip(epsilon=0.5, sensitivity=2)
    bound = mechanism.error(confidence, candidates=20, best=best)
    for gap in [1, 5, 20, 40, math.floor(bound) or 1, math.ceil(bound), 60]:
        law = mechanism.law([gap] * best + [0] * (20 - best))
        missed = sum(high for _, high in law[best:]) if gap > bound else 0
        assert missed <= 1 - Fraction(str(confidence))


def test_error_is_below_that_of_the_exponential_mechanism() -> None:
    flip, classic = PermuteAndFlip(epsilon=1), Exponential(epsilon=1)
    assert classic.error(candidates=100) - flip.error(candidates=100) == pytest.approx(2 * math.log(200 / 99))
    assert flip.error(candidates=5, best=5) == 0
    assert flip.error(0.5, candidates=2) == 0
    with pytest.raises(Misconfigured, match="`best` is 6"):
        flip.error(candidates=5, best=6)


def test_law_refuses_many_candidates() -> None:
    with pytest.raises(Misconfigured, match=r"33 entries.*at most 32.*Use probabilities\(\)"):
        PermuteAndFlip(epsilon=1).law(range(33))


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("utilities", [[0, 4, 1, 3, 4], [0.0, 4.0, 0.5, 3.25, 4.0]])
def test_draws_follow_the_law(utilities: list[float]) -> None:
    mechanism = PermuteAndFlip(epsilon=1)
    draws = [mechanism.choose(range(5), utilities) for _ in range(20_000)]
    assert_fits(draws, finite(mechanism.probabilities(utilities)))
    assert_misfits(draws, finite(PermuteAndFlip(epsilon=1.2).probabilities(utilities)))
    assert_misfits(draws, finite(Exponential(epsilon=1).probabilities(utilities)))


@pytest.mark.usefixtures("seeded")
def test_auditor_accepts_it_and_catches_a_missing_factor_two() -> None:
    """lecture:L17 scores that move both ways need the factor 2."""
    claimed, sharper = PermuteAndFlip(epsilon=1), PermuteAndFlip(epsilon=1, monotone=True)
    low, high = [3] * 9 + [2], [2] * 9 + [3]
    sound_low, sound_high, broken_low, broken_high = (
        np.array([mechanism.choose(range(10), scores) for _ in range(10_000)])
        for mechanism in (claimed, sharper)
        for scores in (low, high)
    )
    assert_private(sound_low, sound_high, 1.0)
    assert_caught(broken_low, broken_high, 1.0)
