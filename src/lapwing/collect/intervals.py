"""Intervals for shares and means of randomized reports.

Of n respondents m hold a value; a report supports it with probability p if it is held and q if not, so the number y of
supporting reports is the sum of two binomials, Bin(m, p) + Bin(n - m, q). The interval for m / n holds every m that y
does not contradict: P[Y >= y] and P[Y <= y] under m are both above (1 - confidence) / 2. Both fall or rise in m, so the
ends are found by bisection, on the exact law. Where the variance of y is large the ends are those of the normal law
with corrections for continuity and skewness, which agree with the exact ones to a small part of a standard error.
If the respondents were drawn from a population, y is one binomial and the interval is Clopper and Pearson's.
Checked by: tests/collect/test_intervals.py
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lapwing.arrays import Floats, Integers

_LARGE = 10_000.0  # a variance from which the normal law is used
_FAR = 13.0  # standard deviations beyond which a binomial has no mass that float64 sees


@dataclass(frozen=True, slots=True)
class Support:
    """How likely a report supports a value that is held, and one that is not."""

    p: float
    q: float

    def mean(self, share: Floats) -> Floats:
        return self.q + share * (self.p - self.q)

    def variance(self, share: Floats) -> Floats:
        """Of one report, averaged over respondents of whom this share hold the value."""
        return share * self.p * (1 - self.p) + (1 - share) * self.q * (1 - self.q)

    def third_moment(self, share: Floats) -> Floats:
        def third(p: float) -> float:
            return p * (1 - p) * (1 - 2 * p)

        return share * third(self.p) + (1 - share) * third(self.q)


def share_of_respondents(counts: Integers, n: int, support: Support, outside: float) -> tuple[Floats, Floats]:
    """Both ends of the interval for the share of the n respondents who hold each value."""
    counts, where = np.unique(counts, return_inverse=True)  # of thousands of values many have the same count
    low, high = (_normal_end(counts, n, support, outside, side) for side in (-1, 1))
    estimate = np.clip((counts / n - support.q) / (support.p - support.q), 0.0, 1.0)
    for i in np.flatnonzero(n * support.variance(estimate) < _LARGE):
        y = int(counts[i])
        low[i] = _least(y, n, support, outside / 2, float(low[i])) / n
        high[i] = 1 - _least(n - y, n, Support(1 - support.q, 1 - support.p), outside / 2, 1 - float(high[i])) / n
    return low[where], np.maximum(low, high)[where]


def share_of_population(counts: Integers, n: int, support: Support, outside: float) -> tuple[Floats, Floats]:
    """Both ends of the interval for the share in the population that the respondents were drawn from."""
    from scipy.special import betaincinv  # slow import

    y = counts.astype(np.float64)
    low = np.where(y > 0, betaincinv(np.maximum(y, 1), n - y + 1, outside / 2), 0.0)
    high = np.where(y < n, betaincinv(y + 1, np.maximum(n - y, 1), 1 - outside / 2), 1.0)
    low, high = (np.clip((end - support.q) / (support.p - support.q), 0.0, 1.0) for end in (low, high))
    return low, high


def _normal_end(counts: Integers, n: int, support: Support, outside: float, side: int) -> Floats:
    """Where the score of y, corrected for continuity, reaches the quantile; then again with that of the skewed law."""
    from scipy.special import ndtri  # slow import

    z = float(-ndtri(outside / 2))
    end = _score_end(counts, n, support, np.full(len(counts), z), side)
    skew = support.third_moment(end) / np.sqrt(n * support.variance(end) ** 3)
    # y above its mean excludes small shares (side -1), where the upper quantile is z + skew (z^2 - 1) / 6
    return _score_end(counts, n, support, z - side * skew * (z * z - 1) / 6, side)


def _score_end(counts: Integers, n: int, support: Support, z: Floats, side: int) -> Floats:
    """The share f at which side (mean(f) - y) - 1/2 = z sd(f), or the end of [0, 1] beyond which there is none."""
    margin = support.p - support.q
    y = counts / n + side / (2 * n)
    slope = support.p * (1 - support.p) - support.q * (1 - support.q)
    spread, gap = z * z / n, y - support.q
    b, c = -2 * gap * margin - spread * slope, gap * gap - spread * support.q * (1 - support.q)
    root = (-b + side * np.sqrt(np.maximum(b * b - 4 * margin * margin * c, 0.0))) / (2 * margin * margin)
    reaches = [side * (support.mean(f) - y) <= z * np.sqrt(support.variance(f) / n) for f in (_ZERO, _ONE)]
    inner, outer = (reaches[1], reaches[0]) if side > 0 else (reaches[0], reaches[1])
    last, first = (1.0, 0.0) if side > 0 else (0.0, 1.0)
    return np.where(inner, last, np.where(outer, np.clip(root, 0.0, 1.0), first))


_ZERO, _ONE = np.zeros(1), np.ones(1)


def _least(y: int, n: int, support: Support, outside: float, guess: float) -> int:
    """The least m of 0..n under which P[Y >= y] is above `outside`; n if there is none. The guess only saves time."""
    if y == 0 or _upper_tail(y, 0, n, support) > outside:
        return 0
    step = max(1, math.isqrt(n) // 16)
    high = min(n, max(1, round(guess * n) + step))
    while high < n and _upper_tail(y, high, n, support) <= outside:
        high, step = min(n, high + step), step * 4
    low = max(0, high - 2 * step)
    while low > 0 and _upper_tail(y, low, n, support) > outside:
        low, step = max(0, low - step), step * 4
    while high - low > 1:  # low is contradicted, high is not, or is n
        middle = (low + high) // 2
        low, high = (low, middle) if _upper_tail(y, middle, n, support) > outside else (middle, high)
    return high


def _upper_tail(y: int, holders: int, n: int, support: Support) -> float:
    """P[Bin(holders, p) + Bin(n - holders, q) >= y]."""
    from scipy.special import bdtrc  # slow import

    first, law = binomial_window(holders, support.p)
    needed = y - 1 - np.arange(first, first + len(law))  # bdtrc(k) = P[more than k]
    rest = n - holders
    inside = np.clip(needed, 0, max(rest, 1) - 1)
    tail = np.where(needed < 0, 1.0, np.where(needed >= rest, 0.0, bdtrc(inside, max(rest, 1), support.q)))
    return float(law @ tail)


def binomial_window(n: int, p: float) -> tuple[int, Floats]:
    """The first outcome that float64 sees, and the probabilities from there on."""
    from scipy.special import gammaln, xlog1py, xlogy  # slow import

    reach = _FAR * math.sqrt(n * p * (1 - p)) + 40
    first, last = max(0, math.floor(n * p - reach)), min(n, math.ceil(n * p + reach))
    k = np.arange(first, last + 1, dtype=np.float64)
    law: Floats = np.exp(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1) + xlogy(k, p) + xlog1py(n - k, -p))
    return first, law
