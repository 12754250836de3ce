"""lapwing.mechanisms.choice.exponential."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from lapwing.errors import Misconfigured
from lapwing.mechanisms.choice.exponential import Exponential
from lapwing.numbers import ball, enclose
from lapwing.privacy.loss import ZCDP, BoundedRange, Pure
from support.audit import assert_caught, assert_private
from support.chi import assert_fits, assert_misfits, finite

Bounds = tuple[tuple[Fraction, Fraction], ...]

BIDS = [Fraction("4.10"), Fraction(1), Fraction(1), Fraction(1)]
PRICES = [Fraction(tenths, 10) for tenths in range(1, 43)]
VECTORS = list(itertools.product(range(3), repeat=3))


def revenue(bids: list[Fraction]) -> list[Fraction]:
    return [price * sum(bid >= price for bid in bids) for price in PRICES]


def exp_above(epsilon: Fraction) -> Fraction:
    """A number just above e^epsilon."""
    return enclose(lambda: ball(epsilon).exp())[1] * (1 + Fraction(1, 10**30))


def worst_ratio(p: Bounds, q: Bounds) -> Fraction:
    return max(low / high for (low, _), (_, high) in zip(p, q, strict=True))


def range_of_ratios(p: Bounds, q: Bounds) -> Fraction:
    """e to the length of the interval that holds the log-ratio."""
    ratios = [low / high for (low, _), (_, high) in zip(p, q, strict=True)]
    return max(ratios) / min(ratios)


@pytest.mark.parametrize("epsilon", [1, 0.1, 5])
def test_every_neighbour_pair_stays_within_epsilon(epsilon: float) -> None:
    """lecture:L17 pure epsilon, and the log-ratio in an interval of length epsilon, over a whole small universe."""
    mechanism = Exponential(epsilon=epsilon)
    most = exp_above(mechanism.epsilon)
    laws = {u: mechanism.law(u) for u in VECTORS}
    pairs = [(u, v) for u in VECTORS for v in VECTORS if max(abs(a - b) for a, b in zip(u, v, strict=True)) <= 1]
    assert max(worst_ratio(laws[u], laws[v]) for u, v in pairs) <= most
    assert max(range_of_ratios(laws[u], laws[v]) for u, v in pairs) <= most
    assert max(range_of_ratios(laws[u], laws[v]) for u, v in pairs) >= most * (1 - Fraction(1, 10**20))


def test_every_monotone_neighbour_pair_stays_within_epsilon() -> None:
    """lecture:L18 the factor 2 is free if all utilities move one way, and only then."""
    mechanism = Exponential(epsilon=1, monotone=True)
    most = exp_above(mechanism.epsilon)
    laws = {u: mechanism.law(u) for u in VECTORS}
    pairs = [(u, v) for u in VECTORS for v in VECTORS if all(0 <= b - a <= 1 for a, b in zip(u, v, strict=True))]
    for p, q in [(laws[u], laws[v]) for u, v in pairs]:
        assert max(worst_ratio(p, q), worst_ratio(q, p), range_of_ratios(p, q)) <= most
    assert worst_ratio(laws[0, 0, 1], laws[1, 1, 0]) > most


def test_law_is_narrow_and_sums_to_one() -> None:
    """lecture:L2 a finite mechanism is a point of the simplex, known with proven bounds."""
    law = Exponential(epsilon=1).law([0, 1, 2, 30, -400])
    assert sum(low for low, _ in law) <= 1 <= sum(high for _, high in law)
    assert all(high - low <= low / 10**30 for low, high in law)


@pytest.mark.parametrize(
    "utilities", [[1, 2, 3], [0], [5, 5], [0.1, 0.25], [Fraction(1, 3), 2], [0, 10**25], [10**400, 0, -(10**400)]]
)
def test_probabilities_agree_with_the_law(utilities: list[float]) -> None:
    mechanism = Exponential(epsilon=2, sensitivity=3)
    law = mechanism.law(utilities)
    found = mechanism.probabilities(utilities)
    assert found.dtype == np.float64
    assert found == pytest.approx([float((low + high) / 2) for low, high in law], rel=1e-12, abs=1e-300)
    assert found.sum() == pytest.approx(1, abs=1e-12)


def test_adding_a_constant_changes_nothing() -> None:
    mechanism = Exponential(epsilon=1)
    assert mechanism.law([1, 2, 4]) == mechanism.law([-9, -8, -6]) == mechanism.law([0.5, 1.5, 3.5])


def test_auction_revenue_is_that_of_the_lecture() -> None:
    """lecture:L18 bids 4.10, 1, 1, 1: 4.0 at 1.0, 1.1 at 1.1, 4.1 at 4.1 (the best), 0 at 4.2."""
    earned = dict(zip(PRICES, revenue(BIDS), strict=True))
    assert [earned[Fraction(p)] for p in ("1.0", "1.1", "4.1", "4.2")] == [4, Fraction("1.1"), Fraction("4.1"), 0]
    assert max(earned, key=earned.__getitem__) == Fraction("4.1")


def test_auction_sensitivity_is_the_highest_price_and_revenue_is_monotone() -> None:
    """lecture:L18 one more bid changes the revenue at price r by at most r, and never lowers it."""
    for bid in [*PRICES, Fraction(5)]:
        moves = [after - before for before, after in zip(revenue(BIDS), revenue([*BIDS, bid]), strict=True)]
        assert all(0 <= move <= price for move, price in zip(moves, PRICES, strict=True))
    assert max(revenue([Fraction(5)])) == Fraction("4.2")


def test_auction_weights_follow_the_formula() -> None:
    """lecture:L18 1.0438, 1.0488, 1.0132, 1.0500, 1.0000; a utility of 0 has weight 1, not 0 as the lecture prints."""
    weights = Exponential(epsilon=0.1, sensitivity=4.2).weights(revenue(BIDS))
    found = dict(zip(PRICES, weights.round(4).tolist(), strict=True))
    expected = {"0.9": 1.0438, "1.0": 1.0488, "1.1": 1.0132, "4.1": 1.0500, "4.2": 1.0000}
    assert {price: found[Fraction(price)] for price in expected} == expected


def test_auction_weights_are_proportional_to_the_probabilities() -> None:
    """lecture:L17 P[r] proportional to exp(eps u / (2 sensitivity))."""
    mechanism = Exponential(epsilon=0.1, sensitivity=4.2)
    weights = mechanism.weights(revenue(BIDS))
    assert mechanism.probabilities(revenue(BIDS)) == pytest.approx(weights / weights.sum(), rel=1e-12)


@pytest.mark.parametrize("monotone", [False, True])
def test_auction_is_private_for_every_bidder(monotone: bool) -> None:
    """lecture:L18 both forms are epsilon-DP for adding or removing any bid; the monotone one is sharper."""
    mechanism = Exponential(epsilon=1, sensitivity=4.2, monotone=monotone)
    most = exp_above(mechanism.epsilon)
    law = mechanism.law(revenue(BIDS))
    for bid in (Fraction("4.2"), Fraction("4.1"), Fraction(1), Fraction("0.1")):
        other = mechanism.law(revenue([*BIDS, bid]))
        assert max(worst_ratio(law, other), worst_ratio(other, law), range_of_ratios(law, other)) <= most


def test_monotone_auction_earns_more() -> None:
    """lecture:L18 both: the expected revenue at the same epsilon, without and with the free factor 2."""
    earned = np.array([float(r) for r in revenue(BIDS)])
    general = Exponential(epsilon=1, sensitivity=4.2).probabilities(revenue(BIDS)) @ earned
    sharper = Exponential(epsilon=1, sensitivity=4.2, monotone=True).probabilities(revenue(BIDS)) @ earned
    assert general < sharper < 4.1


def test_large_weights_are_infinite_but_probabilities_are_not() -> None:
    mechanism = Exponential(epsilon=2)
    assert mechanism.weights([1000, 0, -1000]).tolist() == [math.inf, 1.0, 0.0]
    assert mechanism.probabilities([1000, 0, -1000]).tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("best", [1, 3])
def test_error_bound_holds_for_the_exact_law(confidence: float, best: int) -> None:
    """lecture:L17 P[u <= opt - (2 sens/eps)(ln(|R|/|R_opt|) + t)] <= exp(-t), with every gap tried."""
    mechanism = Exponential(epsilon=0.5, sensitivity=2)
    bound = mechanism.error(confidence, candidates=20, best=best)
    for gap in [1, 5, 20, 40, 60, math.floor(bound), math.ceil(bound), 100]:
        law = mechanism.law([gap] * best + [0] * (20 - best))
        missed = sum(high for _, high in law[best:]) if gap > bound else 0
        assert missed <= 1 - Fraction(str(confidence))


def test_error_is_both_forms_of_the_lecture() -> None:
    """lecture:L17 with ln(|R| / |R_opt|), and the simpler form with ln |R|."""
    mechanism = Exponential(epsilon=0.1, sensitivity=4.2)
    t = math.log(20)
    assert mechanism.error(0.95, candidates=42) == pytest.approx(84 * (math.log(42) + t), rel=1e-12)
    assert mechanism.error(0.95, candidates=42, best=6) == pytest.approx(84 * (math.log(7) + t), rel=1e-12)
    assert mechanism.error(candidates=42) == 2 * Exponential(epsilon=0.1, sensitivity=4.2, monotone=True).error(
        candidates=42
    )
    with pytest.raises(Misconfigured, match="`best` is 43; there are only 42 candidates"):
        mechanism.error(candidates=42, best=43)


def test_loss_is_bounded_range() -> None:
    """lecture:L17 epsilon-DP, and an eighth of epsilon squared under zCDP."""
    loss = Exponential(epsilon=0.1).loss
    assert loss == BoundedRange(Fraction(1, 10)) == Exponential(epsilon=0.1, monotone=True).loss
    assert loss.to_zcdp() == ZCDP(Fraction(1, 800))
    assert loss.to_pure() == Pure(Fraction(1, 10), Fraction(1, 800))


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("utilities", [[0, 4, 1, 3, 4], [0.0, 4.0, 0.5, 3.25, 4.0]])
def test_draws_follow_the_law(utilities: list[float]) -> None:
    mechanism = Exponential(epsilon=1)
    draws = [mechanism.choose(range(5), utilities) for _ in range(20_000)]
    assert_fits(draws, finite(mechanism.probabilities(utilities)))
    assert_misfits(draws, finite(Exponential(epsilon=1.2).probabilities(utilities)))


@pytest.mark.usefixtures("seeded")
def test_auditor_accepts_it_and_catches_a_missing_factor_two() -> None:
    """lecture:L17 scores that move both ways need the factor 2."""
    claimed, sharper = Exponential(epsilon=1), Exponential(epsilon=1, monotone=True)
    low, high = [3] * 9 + [2], [2] * 9 + [3]
    sound_low, sound_high, broken_low, broken_high = (
        np.array([mechanism.choose(range(10), scores) for _ in range(10_000)])
        for mechanism in (claimed, sharper)
        for scores in (low, high)
    )
    assert_private(sound_low, sound_high, 1.0)
    assert_caught(broken_low, broken_high, 1.0)


@pytest.mark.usefixtures("seeded")
def test_a_million_candidates_are_fine() -> None:
    utilities = np.zeros(1_000_000, np.int64)
    utilities[123_456] = 200
    assert Exponential(epsilon=1).choose(np.arange(1_000_000), utilities) == 123_456


def test_auction_sensitivity_at_each_price_is_the_price() -> None:
    """lecture:L18 0.9, 1.0, 1.1 and 1.2, where the notes print 2.8, 2.0, 2.2 and 2.4; 4.2 at most."""
    moved = dict.fromkeys(PRICES, Fraction(0))
    for bid in PRICES:
        for price, before, after in zip(PRICES, revenue(BIDS), revenue([*BIDS, bid]), strict=True):
            moved[price] = max(moved[price], abs(after - before))
    assert moved == {price: price for price in PRICES}
    assert max(moved.values()) == Fraction("4.2")
