"""lapwing.mechanisms.choice.noisy_max."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lapwing.errors import Misconfigured
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.choice.noisy_max import NoisyMax
from lapwing.numbers import ball, enclose
from lapwing.privacy.loss import ZCDP, Pure
from lapwing.privacy.neighbours import Neighbours
from support.audit import assert_caught, assert_private
from support.chi import assert_fits, assert_misfits, finite

Bounds = tuple[tuple[Fraction, Fraction], ...]

VECTORS = list(itertools.product(range(3), repeat=3))


def exp_above(epsilon: Fraction) -> Fraction:
    """A number just above e^epsilon."""
    return enclose(lambda: ball(epsilon).exp())[1] * (1 + Fraction(1, 10**30))


def worst_ratio(p: Bounds, q: Bounds) -> Fraction:
    return max(low / high for (low, _), (_, high) in zip(p, q, strict=True))


def by_enumeration(mechanism: NoisyMax, scores: list[int], reach: int) -> list[float]:
    """The definition: every tuple of noises within reach, the first largest sum wins."""
    chance = [0.0] * len(scores)
    mass = {z: mechanism.noise.pmf(z) for z in range(-reach, reach + 1)}
    for noises in itertools.product(mass, repeat=len(scores)):
        noisy = [s + z for s, z in zip(scores, noises, strict=True)]
        chance[noisy.index(max(noisy))] += math.prod(mass[z] for z in noises)
    return chance


@pytest.mark.parametrize("scores", [[0], [1, 1], [0, 2], [2, 0], [1, 2, 1], [2, 2, 2]])
def test_law_is_that_of_the_first_largest_noisy_score(scores: list[int]) -> None:
    """lecture:L15 the sum of the docstring against the definition; ties go to the lowest index."""
    mechanism = NoisyMax(epsilon=3)
    for expected, (low, high) in zip(by_enumeration(mechanism, scores, 20), mechanism.law(scores), strict=True):
        assert expected == pytest.approx(float(low), abs=1e-11)
        assert 0 <= high - low < Fraction(1, 10**37)


@pytest.mark.parametrize("scores", [[0], [3, 1], [1, 1, 1, 1], [0, 100], [7, 5, 6, 0, 7], [10**30, 10**30 - 1, 0]])
@pytest.mark.parametrize("epsilon", [0.2, 1, 8])
def test_probabilities_agree_with_the_law(scores: list[int], epsilon: float) -> None:
    mechanism = NoisyMax(epsilon=epsilon)
    law = mechanism.law(scores)
    assert sum(low for low, _ in law) <= 1 <= sum(high for _, high in law)
    assert mechanism.probabilities(scores) == pytest.approx([float(low) for low, _ in law], rel=1e-12, abs=1e-17)


def test_probabilities_are_summed_in_pieces_for_many_candidates() -> None:
    found = NoisyMax(epsilon=0.1).probabilities(np.arange(3000) % 7)
    assert found.sum() == pytest.approx(1, abs=1e-9)
    assert np.all(np.diff(found[6::7]) < 0)


@pytest.mark.parametrize("epsilon", [1, Fraction(1, 3), 4])
def test_every_neighbour_pair_stays_within_epsilon(epsilon: float) -> None:
    """lecture:L15 Laplace 2/eps for general scores, ties included, over a whole small universe."""
    mechanism = NoisyMax(epsilon=epsilon)
    most = exp_above(mechanism.epsilon)
    laws = {u: mechanism.law(u) for u in VECTORS}
    for u, v in itertools.product(VECTORS, repeat=2):
        if max(abs(a - b) for a, b in zip(u, v, strict=True)) <= 1:
            assert worst_ratio(laws[u], laws[v]) <= most


def test_every_monotone_neighbour_pair_stays_within_epsilon() -> None:
    """lecture:L15 Laplace 1/eps is enough for counts, and not for scores that move both ways."""
    mechanism = NoisyMax(epsilon=1, monotone=True)
    most = exp_above(mechanism.epsilon)
    laws = {u: mechanism.law(u) for u in VECTORS}
    for u, v in itertools.product(VECTORS, repeat=2):
        if all(0 <= b - a <= 1 for a, b in zip(u, v, strict=True)):
            assert max(worst_ratio(laws[u], laws[v]), worst_ratio(laws[v], laws[u])) <= most
    assert worst_ratio(mechanism.law([4, 4, 0]), mechanism.law([5, 5, -1])) > exp_above(Fraction("1.99"))


@pytest.mark.parametrize("many", [2, 10, 40])
def test_epsilon_does_not_grow_with_the_number_of_counts(many: int) -> None:
    """lecture:L15 pure eps whatever m is: one person who is in every count, or in the last one only."""
    mechanism = NoisyMax(epsilon=1, monotone=True)
    most = exp_above(mechanism.epsilon)
    counts = [3] * many
    for other in ([4] * many, [3] * (many - 1) + [4], [4] * (many - 1) + [3]):
        here, there = mechanism.law(counts), mechanism.law(other)
        assert max(worst_ratio(here, there), worst_ratio(there, here)) <= most


def test_scale_is_that_of_the_lecture() -> None:
    """lecture:L15 Lap(1/eps) for counting queries, Lap(2/eps) in general; releasing m counts would cost m eps."""
    assert NoisyMax(epsilon=0.1, monotone=True).scale == 10
    assert NoisyMax(epsilon=0.1).scale == 20
    assert NoisyMax(epsilon=0.1, sensitivity=1.5).scale == 30
    assert NoisyMax(epsilon=0.1).noise.scale == Laplace(epsilon=0.1, sensitivity=2).scale


def test_monotone_is_refused_under_change_one() -> None:
    """lecture:L15 a changed record lowers one count and raises another."""
    with pytest.raises(Misconfigured, match=r"may lower one score and raise another\. Leave monotone=False"):
        NoisyMax(epsilon=1, monotone=True, neighbours=Neighbours.CHANGE_ONE)


def test_loss_is_pure_and_not_of_bounded_range() -> None:
    """threat:A32"""
    loss = NoisyMax(epsilon=0.1).loss
    assert loss == Pure(Fraction(1, 10))
    assert loss.to_zcdp() == ZCDP(Fraction(1, 200))


def test_fractional_sensitivity_of_whole_scores_is_covered() -> None:
    """Whole scores move by whole numbers: by 1 if the sensitivity is 1.5, and the noise is made for 1.5."""
    mechanism = NoisyMax(epsilon=1, sensitivity=1.5)
    most = exp_above(Fraction(2, 3))
    laws = {u: mechanism.law(u) for u in itertools.product(range(2), repeat=3)}
    assert max(worst_ratio(laws[u], laws[v]) for u in laws for v in laws) <= most


@given(st.lists(st.fractions(-50, 50), min_size=1, max_size=5), st.data())
def test_grid_moves_by_no_more_than_its_noise_is_made_for(scores: list[Fraction], data: Any) -> None:
    """The shift of the proof, for real scores: differences of two in general, one score if monotone."""
    sensitivity = Fraction(1, 3)
    for monotone in (False, True):
        mechanism = NoisyMax(epsilon=1, sensitivity=sensitivity, monotone=monotone, reals=True)
        least = 0 if monotone else -sensitivity
        moved = [score + data.draw(st.fractions(least, sensitivity)) for score in scores]
        steps = [b - a for a, b in zip(mechanism._ticks(scores), mechanism._ticks(moved), strict=True)]
        most = mechanism.noise.on_grid.sensitivity
        assert max(steps) - min(steps) <= most
        assert not monotone or all(0 <= step <= most for step in steps)


def test_grid_noise_is_hardly_larger() -> None:
    mechanism = NoisyMax(epsilon=1, sensitivity=4.2, reals=True)
    real_scale = mechanism.noise.on_grid.scale * mechanism.noise.grid.step
    assert mechanism.scale <= real_scale <= mechanism.scale * (1 + Fraction(1, 1 << 18))


def test_real_scores_round_to_the_nearest_step() -> None:
    mechanism = NoisyMax(epsilon=1, reals=True)
    step = mechanism.noise.grid.step
    scores = [Fraction(7, 3), 5 * step, step / 2, -step / 2, Fraction(-1, 7), 0.1, 4]
    for tick, score in zip(mechanism._ticks(scores), [Fraction(str(s)) for s in scores], strict=True):
        assert -step / 2 < tick * step - score <= step / 2


@pytest.mark.parametrize("scores", [[987654321.0, 2.0], np.array([987654321.0]), [987654321, 0.5], [Fraction(2), 1]])
def test_real_scores_must_be_declared(scores: object) -> None:
    """Whole and real scores get different noise; the type is asked for, so that the data cannot choose."""
    with pytest.raises(Misconfigured, match="make the mechanism with reals=True") as refusal:
        NoisyMax(epsilon=1).choose(list(scores), scores)  # type: ignore[call-overload]
    assert "987654321" not in str(refusal.value)
    assert NoisyMax(epsilon=400, reals=True).choose(["a", "b"], [3, 0.5]) == "a"
    with pytest.raises(Misconfigured, match="`reals` is 1; it must be True or False"):
        NoisyMax(epsilon=1, reals=1)  # type: ignore[arg-type]


def test_probabilities_are_refused_where_they_are_not_computed() -> None:
    reals = NoisyMax(epsilon=1, reals=True)
    for door in (reals.law, reals.probabilities):
        with pytest.raises(Misconfigured, match="computed for whole scores"):
            door([1, 2])
    with pytest.raises(Misconfigured, match=r"sum of \d+ terms.*Use probabilities"):
        NoisyMax(epsilon=0.001).law([1, 2, 3])
    with pytest.raises(Misconfigured, match=r"sum of \d+ terms.*larger epsilon"):
        NoisyMax(epsilon=1e-6).probabilities([1, 2, 3])


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("monotone", [False, True])
def test_error_bound_holds_for_the_exact_law(confidence: float, monotone: bool) -> None:
    """lecture:L15 with this probability the reported count is within the error of the largest one."""
    mechanism = NoisyMax(epsilon=1, monotone=monotone)
    bound = mechanism.error(confidence, candidates=10)
    for gap in [int(bound) + 1, int(bound) + 2]:
        missed = sum(high for _, high in mechanism.law([0] * 9 + [gap])[:9])
        assert missed <= 1 - Fraction(str(confidence))


def test_error_is_twice_the_exact_quantile() -> None:
    assert NoisyMax(epsilon=1, monotone=True).error(0.95, candidates=100) == 2 * Laplace(epsilon=1).error(
        0.95, simultaneous=100
    )
    real, whole = NoisyMax(epsilon=0.01, reals=True), NoisyMax(epsilon=0.01)
    assert real.error(candidates=100) == pytest.approx(whole.error(candidates=100), rel=1e-3)


def test_huge_scores_do_not_overflow() -> None:
    mechanism = NoisyMax(epsilon=1)
    assert mechanism.choose("ab", np.array([-(2**63), 2**63 - 1])) == "b"
    assert mechanism.choose("ab", np.array([2**64 - 1, 0], np.uint64)) == "a"
    assert mechanism.choose("ab", [10**30, 0]) == "a"
    assert mechanism.choose("ab", [0, 2**62]) == "b"


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("monotone", [False, True])
def test_draws_follow_the_law(monotone: bool) -> None:
    scores = [0, 4, 1, 3, 4]
    mechanism = NoisyMax(epsilon=1, monotone=monotone)
    draws = [mechanism.choose(range(5), scores) for _ in range(20_000)]
    assert_fits(draws, finite(mechanism.probabilities(scores)))
    assert_misfits(draws, finite(NoisyMax(epsilon=1.25, monotone=monotone).probabilities(scores)))
    assert_misfits(draws, finite(mechanism.probabilities(scores[::-1])[::-1]))


@pytest.mark.usefixtures("seeded")
def test_draws_on_the_grid_follow_the_continuous_law() -> None:
    """Two scores a apart: P[the larger wins] = 1 - e^-a (2 + a) / 4 with Laplace noise of scale 1."""
    mechanism = NoisyMax(epsilon=1, monotone=True, reals=True)
    draws = [mechanism.choose([0, 1], [0.25, 1.5]) for _ in range(8_000)]
    wins = 1 - math.exp(-1.25) * (2 + 1.25) / 4
    assert_fits(draws, finite([1 - wins, wins]))
    assert_misfits(draws, finite([1.25 * (1 - wins), 1 - 1.25 * (1 - wins)]))


@pytest.mark.usefixtures("seeded")
def test_auditor_accepts_it_and_catches_a_missing_factor_two() -> None:
    """lecture:L15 scores that move both ways need Laplace 2/eps."""
    claimed, sharper = NoisyMax(epsilon=1), NoisyMax(epsilon=1, monotone=True)
    low, high = [3] * 9 + [2], [2] * 9 + [3]
    sound_low, sound_high, broken_low, broken_high = (
        np.array([mechanism.choose(range(10), scores) for _ in range(10_000)])
        for mechanism in (claimed, sharper)
        for scores in (low, high)
    )
    assert_private(sound_low, sound_high, 1.0)
    assert_caught(broken_low, broken_high, 1.0)


@pytest.mark.parametrize("many", [2, 5])
def test_releasing_all_counts_with_the_noise_of_noisy_max_costs_m_times_epsilon(many: int) -> None:
    """lecture:L15 one person in every count: of the vector some outcome has the ratio e^(m eps), of the index none."""
    winner = NoisyMax(epsilon=Fraction(1, 2), monotone=True)
    all_counts = Laplace(epsilon=many * winner.epsilon, sensitivity=many)
    assert all_counts.scale == winner.scale
    low, high = all_counts.law(0)[0] / all_counts.law(1)[1], all_counts.law(0)[1] / all_counts.law(1)[0]
    assert low**many <= exp_above(many * winner.epsilon)
    assert high**many >= exp_above(many * winner.epsilon) * (1 - Fraction(1, 10**9))
    here, there = winner.law([3] * many), winner.law([4] * many)
    assert max(worst_ratio(here, there), worst_ratio(there, here)) <= exp_above(winner.epsilon)
