"""lapwing.mechanisms.choice.private_choice."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from lapwing.errors import Misconfigured, Refused
from lapwing.mechanisms.additive.gaussian import Gaussian
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.choice.exponential import Exponential
from lapwing.mechanisms.choice.private_choice import BestOf
from lapwing.privacy.loss import Loss, Pure
from support.audit import assert_caught, assert_private
from support.chi import assert_fits, assert_misfits, finite

STOPS = pytest.mark.parametrize("stop", [Fraction(1, 100), Fraction(1, 4), Fraction(9, 10)])
SCORES = [0, 2, 2, 5]  # of the results 0, 1, 2 and 3: two of them tie


@dataclass(frozen=True)
class Choice:
    """The exponential mechanism over four results; the data are its utilities."""

    epsilon: float

    @property
    def loss(self) -> Loss:
        return Exponential(epsilon=self.epsilon).loss

    def __call__(self, data: Any, /) -> int:
        return int(Exponential(epsilon=self.epsilon).choose(range(4), data))

    def law(self, data: Any) -> list[float]:
        return Exponential(epsilon=self.epsilon).probabilities(data).tolist()


def law(single: list[float], stop: Fraction) -> list[float]:
    """The formula of the docstring."""
    g = float(stop)
    found = []
    for result, p in enumerate(single):
        above = sum(q for q, s in zip(single, SCORES, strict=True) if s > SCORES[result])
        least = sum(q for q, s in zip(single, SCORES, strict=True) if s >= SCORES[result])
        found.append(p * g / ((g + above * (1 - g)) * (g + least * (1 - g))))
    return found


def best_of(single: list[float], runs: int) -> list[float]:
    """The definition for a fixed number of runs: all outcomes of all runs, the first of the best wins."""
    found = [0.0] * 4
    for outcome in itertools.product(range(4), repeat=runs):
        winner = max(outcome, key=lambda result: SCORES[result])
        found[winner] += math.prod(single[result] for result in outcome)
    return found


def test_law_is_the_sum_over_all_numbers_of_runs() -> None:
    single, stop = [0.1, 0.2, 0.3, 0.4], Fraction(9, 10)
    total = np.zeros(4)
    for runs in range(1, 8):
        total += float(stop * (1 - stop) ** (runs - 1)) * np.array(best_of(single, runs))
    assert law(single, stop) == pytest.approx(total.tolist(), abs=2e-7)
    assert sum(law(single, stop)) == pytest.approx(1)


@STOPS
def test_every_neighbour_pair_stays_within_three_epsilon(stop: Fraction) -> None:
    """The exponential mechanism over a whole small universe, two results with the same score included."""
    mechanism = Choice(0.5)
    laws = {u: law(mechanism.law(u), stop) for u in itertools.product(range(3), repeat=4)}
    for u, v in itertools.product(laws, repeat=2):
        if max(abs(a - b) for a, b in zip(u, v, strict=True)) <= 1:
            assert max(math.log(p / q) for p, q in zip(laws[u], laws[v], strict=True)) <= 1.5


def test_three_epsilon_is_needed_and_enough() -> None:
    """All pairs on a grid whose chances differ by a factor of at most e^eps, eps = 0.5; the worst comes close to 3."""
    sizes = [Fraction(1, 10**k) for k in range(1, 7)]
    worst = 0.0
    for p, above, stop in itertools.product(sizes, repeat=3):
        for low, high in itertools.product([math.exp(-0.5), 1.0], repeat=2):
            here = [1 - float(p) - low * float(above), float(p), 0.0, low * float(above)]
            there = [1 - high * float(p) - float(above), high * float(p), 0.0, float(above)]
            ratios = [a / b for a, b in zip(law(here, stop), law(there, stop), strict=True) if b]
            worst = max(worst, *map(abs, map(math.log, ratios)))
    assert 1.49 < worst <= 1.5


def test_a_fixed_number_of_runs_is_not_private() -> None:
    """The planted fault: the best of six runs for the price of three; the random number is what protects."""
    here, there = [0.5, 0.2, 0.2, 0.1], [0.5 * math.exp(-0.5), 0.28, 0.28, 1 - 0.56 - 0.5 * math.exp(-0.5)]
    assert max(abs(math.log(a / b)) for a, b in zip(here, there, strict=True)) <= 0.5
    p, q = best_of(here, 6), best_of(there, 6)
    assert max(math.log(a / b) for a, b in zip(p, q, strict=True)) > 1.5


@pytest.mark.usefixtures("seeded")
def test_draws_follow_the_law() -> None:
    mechanism, data, stop = Choice(2), [1, 2, 1, 0], Fraction(1, 4)
    best = BestOf([mechanism], score=SCORES.__getitem__, stop=stop)
    draws = [best(data)[1] for _ in range(2000)]
    assert_fits(draws, finite(law(mechanism.law(data), stop)))
    assert_misfits(draws, finite(law(mechanism.law(data), Fraction(2, 5))))


@pytest.mark.usefixtures("seeded")
def test_mechanisms_are_drawn_alike_and_named() -> None:
    """With two equal mechanisms each wins half the time."""
    best = BestOf([Choice(1), Choice(1)], score=SCORES.__getitem__, stop=0.5)
    assert_fits([best([0, 0, 0, 0])[0] for _ in range(1000)], finite([0.5, 0.5]))


@pytest.mark.usefixtures("seeded")
def test_the_better_mechanism_wins() -> None:
    """A count near 100 is wanted; the sharper noise gives it more often."""
    best = BestOf([Laplace(epsilon=0.01), Laplace(epsilon=1)], score=lambda noisy: -abs(noisy - 100), stop=0.05)
    results = [best(100) for _ in range(100)]
    assert sum(place for place, _ in results) > 80
    assert np.median([abs(noisy - 100) for _, noisy in results]) <= 1


@STOPS
def test_error_is_the_share_that_is_missed(stop: Fraction) -> None:
    best = BestOf([Choice(1)], score=SCORES.__getitem__, stop=stop)
    for confidence in (Fraction(1, 2), Fraction(19, 20)):
        share = Fraction(best.error(confidence))
        missed = stop * (1 - share) / (stop + share * (1 - stop))
        assert float(missed) == pytest.approx(float(1 - confidence))
        assert missed <= 1 - confidence


def test_loss_is_three_times_the_largest() -> None:
    best = BestOf([Laplace(epsilon=0.5), Choice(1), Laplace(epsilon=0.2)], score=float, stop=0.5)
    assert best.loss == Pure(3)


@pytest.mark.usefixtures("seeded")
def test_auditor_accepts_it_and_catches_more() -> None:
    pair = [3, 3, 3, 2], [2, 2, 2, 3]
    for epsilon, check in ((0.5, assert_private), (6, assert_caught)):
        best = BestOf([Choice(epsilon)], score=SCORES.__getitem__, stop=0.5)
        check(*(np.array([best(u)[1] for _ in range(1000)]) for u in pair), 1.5)


@pytest.mark.slow
@pytest.mark.usefixtures("seeded")
def test_auditor_accepts_it_at_length() -> None:
    pair = [3, 3, 3, 2], [2, 2, 2, 3]
    best = BestOf([Choice(0.5)], score=SCORES.__getitem__, stop=0.5)
    assert_private(*(np.array([best(u)[1] for _ in range(100_000)]) for u in pair), 1.5)


@pytest.mark.parametrize("stop", [0, 1, -1, 2, None, "0.5"])
def test_stop_must_lie_inside(stop: Any) -> None:
    with pytest.raises(Misconfigured, match="`stop`"):
        BestOf([Choice(1)], score=float, stop=stop)


def test_bad_parts_are_refused() -> None:
    with pytest.raises(Misconfigured, match="at least one mechanism"):
        BestOf([], score=float, stop=0.5)
    with pytest.raises(Misconfigured, match="must be callable"):
        BestOf([Exponential(epsilon=1)], score=float, stop=0.5)  # type: ignore[list-item]
    with pytest.raises(Misconfigured, match="must be callable"):
        BestOf([Choice(1)], score=5, stop=0.5)  # type: ignore[arg-type]
    with pytest.raises(Refused, match="zCDP"):
        BestOf([Gaussian(rho=1)], score=float, stop=0.5)
    with pytest.raises(Misconfigured, match=r"a score is not a finite number; `score` must"):
        BestOf([Laplace(epsilon=1)], score=lambda _: math.nan, stop=0.5)(987654321)
