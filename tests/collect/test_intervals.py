"""lapwing.collect.intervals: coverage, computed from the exact law of the reports."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from lapwing.arrays import Floats
from lapwing.collect import intervals
from lapwing.collect.intervals import Support, binomial_window, share_of_population, share_of_respondents

SUPPORTS = {
    "direct, 2 values, epsilon 1": Support(math.e / (1 + math.e), 1 / (1 + math.e)),
    "direct, 32 values, epsilon 2": Support(math.exp(2) / (math.exp(2) + 31), 1 / (math.exp(2) + 31)),
    "direct, 8 values, epsilon 4": Support(math.exp(4) / (math.exp(4) + 7), 1 / (math.exp(4) + 7)),
    "unary, epsilon 1/2": Support(0.5, 1 / (1 + math.exp(0.5))),
    "unary, epsilon 6": Support(0.5, 1 / (1 + math.exp(6))),
}
EACH = pytest.mark.parametrize("support", SUPPORTS.values(), ids=SUPPORTS.keys())


def law(n: int, holders: int, support: Support) -> Floats:
    """P[y reports support the value], y = 0..n."""
    held = binom.pmf(np.arange(holders + 1), holders, support.p)
    return np.convolve(held, binom.pmf(np.arange(n - holders + 1), n - holders, support.q))


def holders_of(n: int) -> list[int]:
    return sorted({m for m in (0, 1, 2, n // 20, n // 4, n // 2, n - 1, n) if 0 <= m <= n})


@EACH
@pytest.mark.parametrize("outside", [0.05, 0.001, 0.05 / 1024])
@pytest.mark.parametrize("n", [1, 2, 5, 20, 100, 600])
def test_intervals_of_respondents_hold_exactly(support: Support, outside: float, n: int) -> None:
    """gate:G44 every possible outcome, weighed by its probability: never outside more often than stated."""
    low, high = share_of_respondents(np.arange(n + 1), n, support, outside)
    for holders in holders_of(n):
        held = (low <= holders / n + 1e-12) & (holders / n - 1e-12 <= high)
        assert law(n, holders, support)[~held].sum() <= outside * (1 + 1e-9)


@EACH
@pytest.mark.parametrize("outside", [0.05, 0.05 / 1024])
def test_the_normal_law_agrees_with_the_exact_one(
    support: Support, outside: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """gate:G44 where it takes over, the ends differ by a hundredth of a standard error at most."""
    variance = support.variance(np.array([0.0, 1.0])).min()
    n = math.ceil(intervals._LARGE / variance) + 1
    shares = np.array([0.0, 0.01, 0.3, 0.9])
    counts = np.rint(n * support.mean(shares)).astype(np.int64)
    normal = share_of_respondents(counts, n, support, outside)
    monkeypatch.setattr(intervals, "_LARGE", math.inf)
    exact = share_of_respondents(counts, n, support, outside)
    error = np.sqrt(support.variance(shares) / n) / (support.p - support.q)
    assert np.abs((np.array(normal) - np.array(exact)) / error).max() < 0.02


@EACH
def test_intervals_are_not_wasteful(support: Support) -> None:
    """gate:G44 at 2,000 reports and a share in the middle, coverage is at most 98 %."""
    n, holders = 2000, 600
    chances = law(n, holders, support)
    (counts,) = np.nonzero(chances > 1e-12)
    low, high = share_of_respondents(counts, n, support, 0.05)
    held = (low <= holders / n) & (holders / n <= high)
    covered, left_out = chances[counts][held].sum(), 1 - chances[counts].sum()
    assert 0.95 <= covered <= covered + left_out <= 0.98


@EACH
def test_intervals_of_the_population_hold(support: Support) -> None:
    """gate:G44 respondents drawn at random: the number of supporting reports is one binomial."""
    n = 300
    low, high = share_of_population(np.arange(n + 1), n, support, 0.05)
    for share in (0.0, 0.01, 0.2, 0.5, 1.0):
        held = (low <= share + 1e-12) & (share - 1e-12 <= high)
        chance = support.q + share * (support.p - support.q)
        assert binom.pmf(np.arange(n + 1), n, chance)[held].sum() >= 0.95 - 1e-9


def test_intervals_shrink_as_reports_come_in() -> None:
    support = SUPPORTS["direct, 2 values, epsilon 1"]
    widths = []
    for n in (10, 100, 1000, 10_000, 100_000, 10_000_000):
        low, high = share_of_respondents(np.array([n // 2]), n, support, 0.05)
        widths.append(float(high[0] - low[0]))
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 0.002


@pytest.mark.parametrize(("n", "p"), [(0, 0.5), (1, 0.3), (50, 0.999), (10**6, 1e-6), (10**7, 0.4)])
def test_the_window_of_a_binomial_holds_its_mass(n: int, p: float) -> None:
    first, mass = binomial_window(n, p)
    assert 0 <= first <= first + len(mass) - 1 <= n
    assert mass.sum() == pytest.approx(1.0, abs=1e-7)
    assert mass[: 10**4] == pytest.approx(binom.pmf(np.arange(first, first + min(len(mass), 10**4)), n, p), rel=1e-6)
