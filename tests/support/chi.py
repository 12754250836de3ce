"""Chi-square of draws on a fixed stream against a law computed in floats by its textbook formula."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr
from scipy.stats import chi2

LEVEL = 1e-9
LEAST_EXPECTED = 20.0
MOST_CELLS = 256
FAR = 2**62

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Number = Fraction | int | float


@dataclass(frozen=True, slots=True)
class Discrete:
    """A law on the integers: P[X = x] and P[X <= x], both over arrays."""

    pmf: Callable[[Integers], Floats]
    cdf: Callable[[Integers], Floats]


def geometric(scale: Number) -> Discrete:
    """P[X = x] = (1 - r) r^x for x >= 0, r = exp(-1 / scale)."""
    s = float(scale)
    return Discrete(
        pmf=lambda x: np.where(x < 0, 0.0, -np.expm1(-1 / s) * np.exp(-np.maximum(x, 0) / s)),
        cdf=lambda x: np.where(x < 0, 0.0, -np.expm1(-(np.maximum(x, 0) + 1) / s)),
    )


def laplace(scale: Number) -> Discrete:
    """P[X = x] = (1 - r) / (1 + r) r^|x|, r = exp(-1 / scale)."""
    s = float(scale)
    r = math.exp(-1 / s)

    def cdf(x: Integers) -> Floats:
        below = np.exp(np.minimum(x, 0) / s) / (1 + r)
        above = 1 - np.exp(-(np.maximum(x, 0) + 1) / s) / (1 + r)
        return np.where(x < 0, below, above)

    return Discrete(pmf=lambda x: -np.expm1(-1 / s) / (1 + r) * np.exp(-np.abs(x) / s), cdf=cdf)


def gaussian(sigma_squared: Number) -> Discrete:
    """P[X = x] proportional to exp(-x^2 / (2 sigma^2)) on the integers.

    From sigma = 1000 on, the cdf is the normal one at x + 1/2: the midpoint rule errs by less than 1 / (24 sigma^2).
    """
    sigma = float(sigma_squared) ** 0.5
    if sigma >= 1000:
        weight = 1 / (sigma * np.sqrt(2 * np.pi))
        return Discrete(
            pmf=lambda x: weight * np.exp(-((x / sigma) ** 2) / 2), cdf=lambda x: ndtr((np.asarray(x) + 0.5) / sigma)
        )
    reach = int(12 * sigma) + 40
    weights = np.exp(-((np.arange(-reach, reach + 1) / sigma) ** 2) / 2)
    table = np.concatenate([[0.0], weights / weights.sum()])
    running = np.minimum(np.cumsum(table), 1.0)

    def pmf(x: Integers) -> Floats:
        return np.where(np.abs(x) > reach, 0.0, table[np.clip(x, -reach, reach) + reach + 1])

    return Discrete(pmf=pmf, cdf=lambda x: running[np.clip(x, -reach - 1, reach) + reach + 1])


def finite(probabilities: Sequence[Number]) -> Discrete:
    """P[X = i] = probabilities[i]."""
    table = np.concatenate([[0.0], [float(p) for p in probabilities]])
    running, last = np.minimum(np.cumsum(table), 1.0), len(table) - 2
    running[-1] = 1.0
    return Discrete(
        pmf=lambda x: np.where((x < 0) | (x > last), 0.0, table[np.clip(x, -1, last) + 1]),
        cdf=lambda x: running[np.clip(x, -1, last) + 1],
    )


@dataclass(frozen=True, slots=True)
class Fit:
    """A chi-square over `cells`, and how many draws were expected as far out as the farthest one (`beyond`)."""

    statistic: float
    cutoff: float
    cells: int
    beyond: float

    @property
    def good(self) -> bool:
        return self.statistic <= self.cutoff and self.beyond >= LEVEL


def chi_square(draws: ArrayLike, law: Discrete) -> Fit:
    """Compare draws with the law on cells of expected count at least 20, chosen from the law and the number of draws.

    Chi-square cannot see one draw where almost none should be, so the farthest draw on each side is judged by itself.
    """
    values: Integers = np.asarray(draws).ravel().astype(np.int64)
    edges = _edges(law, len(values))
    expected = len(values) * np.diff(law.cdf(edges), prepend=0.0, append=1.0)
    counts = np.bincount(np.searchsorted(edges, values, side="left"), minlength=len(expected))
    statistic = float(((counts - expected) ** 2 / expected).sum())
    cutoff = float(chi2.isf(LEVEL, len(edges))) if len(edges) else LEVEL
    below, above = law.cdf(np.array([values.min(), values.max() - 1]))
    return Fit(statistic, cutoff, len(expected), float(len(values) * min(below, 1 - above)))


def assert_fits(draws: ArrayLike, law: Discrete) -> None:
    """The draws follow the law, or an event of probability 3e-9 happened."""
    fit = chi_square(draws, law)
    assert fit.good, f"the draws do not follow the law: {fit}"


def assert_misfits(draws: ArrayLike, law: Discrete) -> None:
    """The power twin: the same draws must be told from a law that is a little wrong."""
    fit = chi_square(draws, law)
    assert not fit.good, f"the test is too weak to tell the laws apart: {fit}"


def _edges(law: Discrete, n: int) -> Integers:
    """Upper ends of all cells but the last. Up to 256 integers get cells of their own, wider ranges are cut evenly."""
    least = LEAST_EXPECTED / n
    low, high = _first(law, least), _first(law, 1 - least)
    steps = min(int(high) - int(low), MOST_CELLS)
    ladder = np.array([low + (high - low) * i // max(steps, 1) for i in range(steps + 1)], dtype=np.int64)
    kept: list[int] = []
    done = 0.0
    for edge, reached in zip(ladder, law.cdf(ladder), strict=True):
        if reached - done >= least and 1 - reached >= least:
            kept.append(int(edge))
            done = float(reached)
    return np.array(kept, dtype=np.int64)


def _first(law: Discrete, level: float) -> int:
    """The smallest x with P[X <= x] >= level."""
    low, high = -FAR, FAR
    while high - low > 1:
        middle = (low + high) // 2
        if law.cdf(np.array([middle]))[0] >= level:
            high = middle
        else:
            low = middle
    return high
