"""What noisy soft cells still tell about the mean and the variance: the intervals of moments.py.

Everything here is post-processing of noisy numbers, so floats may compute it; rounding goes to the safe side.
Checked by: tests/mechanisms/test_moments.py
"""

from __future__ import annotations

import math
from collections.abc import Callable

from lapwing.mechanisms.gaussian import Gaussian
from lapwing.mechanisms.laplace import Laplace

Interval = tuple[float, float]
Span = tuple[int, int]
Tail = Callable[[float, float, float], float]
"""(w1, w2, x): a bound of P[|w1 Z1 + w2 Z2| >= x]."""

_FINEST = 2.0**-32  # how closely the ends of an interval are searched, as a share of the range


def extreme_means(lowest: Span, middle: Span, highest: Span) -> Interval:
    """The least and the greatest mean, as shares of the range, of cells within these spans."""
    least = [mean_of(lowest[1], b, highest[0]) for b in middle]
    most = [mean_of(lowest[0], b, highest[1]) for b in middle]
    return min(0.0 if m is None else m for m in least), max(1.0 if m is None else m for m in most)


def extreme_variances(lowest: Span, middle: Span, highest: Span) -> Interval:
    """The least and the greatest variance on [0, 1] of cells within these spans."""
    corners = [variance_of(a, middle[1], c) for a in lowest for c in highest]
    b = middle[0]
    edges = [(a, _best(b, a, highest)) for a in lowest] + [(_best(b, c, lowest), c) for c in highest]
    tops = [variance_of(a, b, c) for a, c in edges]
    return min(0.0 if v is None else v for v in corners), max(0.25 if v is None else v for v in tops)


def _best(middle: int, other: int, span: Span) -> float:
    """Where in its span one outer cell makes the variance largest, given the middle cell and the other outer cell."""
    if not other:
        return span[1] if middle else span[0]  # rises for ever, or is 0 wherever both vanish
    return min(max((middle * middle + 2 * middle * other + 2 * other * other) / (2 * other), span[0]), span[1])


def mean_of(lowest: float, middle: float, highest: float) -> float | None:
    """p2 + p1/2; None if there are no rows at all."""
    total = lowest + middle + highest
    return (highest + middle / 2) / total if total else None


def variance_of(lowest: float, middle: float, highest: float) -> float | None:
    """p2 - (p2 + p1/2)^2; below 0 where no rows have such cells; None if there are no rows at all."""
    total = lowest + middle + highest
    return (1 - 2 * middle / total - ((lowest - highest) / total) ** 2) / 4 if total else None


def least_share(first: float, second: float, tail: Tail, outside: float) -> float:
    """At or below the least share m for which `first` and `second` could be noisy m and 1 - m parts of one total.

    A stretch of shares [u, v] is left out only if none of it passes the test: |V| is least at an end, and the noise of
    every share within is less spread than with weights 1 - u and v (lemma of `tail_of`).
    """
    blur = 2.0**-48 * (first + second)  # float64
    stretches = [(0.0, 1.0)]
    while stretches:
        u, v = stretches.pop()
        left, right = (1 - u) * first - u * second, (1 - v) * first - v * second
        far = min(abs(left), abs(right)) - blur if left * right > 0 else 0.0
        if tail(1 - u, v, far) < outside:
            continue
        if v - u <= _FINEST:
            return u
        stretches += [((u + v) / 2, v), (u, (u + v) / 2)]
    return 0.0


def reach_of(tail: Tail, outside: float) -> float:
    """An x with P[|Z1 + Z2| >= x] <= outside, and hardly more than the least."""
    low, high = 0.0, 1.0
    while tail(1.0, 1.0, high) > outside:
        low, high = high, 2 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if tail(1.0, 1.0, middle) > outside else (low, middle)
    return high


def tail_of(noise: Laplace | Gaussian) -> Tail:
    """At least P[|w1 Z1 + w2 Z2| >= x], and hardly more while the noise scale is large; weights are not negative.

    Discrete Laplace is floor(E1) - floor(E2) with exponential E of the same scale, so it is within 1 of continuous
    Laplace noise L; discrete Gaussian is within 1/2 of a normal number, except with probability 1 / (16 variance)
    (tails.py). So the sum is within w1 + w2 of the same sum of continuous noises.
    Lemma: more weight means more spread. L is symmetric and unimodal, so is w2 L2, hence P[|w2 L2 + c| <= x] falls in
    |c|; average over c = w1 L1. So equal weights may be told apart by making one a little larger.
    """
    scale = float(noise.scale)

    def laplace(w1: float, w2: float, x: float) -> float:
        less, more = (w1, w2) if w1 < w2 else (w2, w1)
        far = (x - less - more) / scale
        if far <= 0:
            return 1.0
        more = max(more, less * (1 + 1e-6))
        small = less * less * math.exp(-far / less) if less else 0.0
        return min(1.0, (more * more * math.exp(-far / more) - small) / (more * more - less * less) * (1 + 1e-9))

    def normal(w1: float, w2: float, x: float) -> float:
        far = (x - w1 - w2) / (scale * math.hypot(w1, w2))
        return min(1.0, math.erfc(far / math.sqrt(2)) + 1 / (8 * scale**2)) if far > 0 else 1.0

    return normal if isinstance(noise, Gaussian) else laplace
