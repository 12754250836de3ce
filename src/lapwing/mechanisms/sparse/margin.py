"""How far from the threshold values must lie for all answers of a sparse vector run to be right.

Right means: up to m values of at most threshold - a are answered "below", and up to `answers` values of at least
threshold + a, anywhere between them, "above". `margin` finds the least such a for a confidence.
Worst case: moving a value away from the threshold, or leaving one out, makes it no harder, so all lie at distance a.
    One bar:        E_t[P[N < t + a + shift]^m P[N >= t - a + shift]^answers], whatever their order.
    Refreshed bar:  a product of E_t[P[N < t + a]^b P[N >= t - a]], one for each "above" and the b belows before it.
                    Each is log-convex in b (Cauchy-Schwarz), so the product is least if the belows are spread evenly.
Arithmetic: the chance of failure is a sum of positive terms, in float64 off by far less than the share 1e-9 that is
added. Wide noise is cut into cells, of which each counts with its worst end: the margin can only come out larger, by
less than a cell, a hundredth of the bar's noise scale at confidences up to 1 - 1e-18.
Checked by: tests/mechanisms/sparse/test_margin.py
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from lapwing.arrays import Floats
from lapwing.errors import Misconfigured
from lapwing.mechanisms.scores import nearest
from lapwing.mechanisms.sparse.crossing import Crossing
from lapwing.numbers import Number, count, inside_unit, ordinary

_EXTENT = 40  # bar scales that are summed over, beyond those that the confidence asks for
_CELLS = 1 << 14
_SLACK = 1 + 1e-9
_MOST = 10**15  # questions
_LEAST = 1e-200  # failures rarer than this are not computed


def margin(crossing: Crossing, confidence: Number, queries: int) -> int | float:
    """The least distance at which all answers are right with this probability, for this many values below."""
    exact_confidence, below = inside_unit(confidence, "confidence"), count(queries, "queries", least=0)
    most = nearest(1 - exact_confidence)
    if most < _LEAST:
        raise Misconfigured(f"`confidence` is closer to 1 than {_LEAST}; no margin is computed there. Pass less.")
    if below + crossing.answers > _MOST:
        raise Misconfigured(f"`queries` and `answers` are more than {_MOST} together; no margin is computed there.")
    for name, scale in (("bar scale", crossing.bar_scale), ("query scale", crossing.query_scale)):
        ordinary(scale, name)
    worst = _Worst(crossing, most)
    high = 1
    while worst.failure(high, below) * _SLACK > most:
        high *= 2
    low = high // 2  # it fails there, or is 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if worst.failure(middle, below) * _SLACK > most else (low, middle)
    return crossing.ticks.length(high)


class _Worst:
    """Upper bounds of the chance that some answer is wrong when all values lie at one distance."""

    def __init__(self, crossing: Crossing, most: float) -> None:
        extent = math.ceil(crossing.bar_scale * math.ceil(_EXTENT - math.log(most)))
        first = -extent if crossing.two_sided else 0
        width = -(-(extent + 1 - first) // _CELLS)
        self._crossing = crossing
        self._left = np.arange(first, extent + 1, width, dtype=np.float64)
        self._right = self._left + (width - 1)
        edges = np.append(self._left, self._right[-1] + 1)
        below = np.exp(_log_below(edges, crossing.bar_scale, crossing.two_sided))
        above = np.exp(_log_above(edges, crossing.bar_scale, crossing.two_sided))
        self._mass = np.where(edges[:-1] < 0, np.diff(below), -np.diff(above))
        self._beyond = float(below[0] + above[-1])

    def failure(self, distance: int, below: int) -> float:
        """For this many values at threshold - distance and `answers` values at threshold + distance."""
        c = self._crossing.answers
        if not self._crossing.refreshed:
            return self._of_one_bar(distance, below, c)
        few, longer = divmod(below, c)
        first, last = self._of_one_bar(distance, few, 1), self._of_one_bar(distance, few + 1, 1)
        if last >= 1:
            return 1.0
        return -math.expm1((c - longer) * math.log1p(-first) + longer * math.log1p(-last))

    def _of_one_bar(self, distance: int, below: int, above: int) -> float:
        """One minus the expectation above. Over t, the chance of a below rises and that of an above falls."""
        scale, shift, two_sided = self._crossing.query_scale, self._crossing.shift, self._crossing.two_sided
        logs = above * _log_above(self._right - distance + shift, scale, two_sided)
        if below:
            logs = logs + below * _log_below(self._left + distance + shift, scale, two_sided)
        return float((self._mass * -np.expm1(logs)).sum()) + self._beyond


def _log_below(z: Floats, scale: Fraction, two_sided: bool) -> Floats:
    """ln P[N < z] for whole z."""
    rate = nearest(1 / scale)
    if not two_sided:
        with np.errstate(divide="ignore"):  # nothing lies below 0
            rises: Floats = np.log(-np.expm1(-rate * np.maximum(z, 0.0)))
            return rises
    both = math.log1p(math.exp(-rate))
    near = np.log1p(-np.exp(-rate * np.maximum(z, 0.0) - both))
    return np.where(z < 0, -rate * (1 - z) - both, near)


def _log_above(z: Floats, scale: Fraction, two_sided: bool) -> Floats:
    """ln P[N >= z] for whole z."""
    if two_sided:
        return _log_below(1 - z, scale, two_sided)
    falls: Floats = -nearest(1 / scale) * np.maximum(z, 0.0)
    return falls
