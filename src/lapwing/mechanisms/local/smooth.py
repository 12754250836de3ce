"""Smooth sensitivity: noise scaled to these data, not to the worst case."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from lapwing.errors import Misconfigured
from lapwing.mechanisms.local.ordered import BoundedGrid, Ordered
from lapwing.mechanisms.local.smooth_noise import SmoothNoise
from lapwing.mechanisms.scores import at_least, nearest
from lapwing.numbers import Number, exact, positive
from lapwing.privacy.loss import Approximate, Pure
from lapwing.privacy.neighbours import Neighbours, read_neighbours
from lapwing.privacy.phrases import short_repr

LocalSensitivities = Callable[[int], Number] | Sequence[Number]
"""The local sensitivity at distance k, as a function of k or as a list."""

_FINE = 30  # by default the grid has between 2^29 and 2^30 steps up to the cap


@dataclass(frozen=True, slots=True, init=False)
class SmoothSensitivity:
    """Adds noise scaled to how much the function can change near these data.

    Use:        when the global sensitivity is too large, and the local one is small and known at every distance, as
                for triangles in a graph; for medians `Quantile` is better.
    Law:        y = step (round(value / step) + Z); Z is Cauchy if delta is 0, Laplace otherwise, of scale
                2 S / epsilon, S a smooth upper bound of the local sensitivity in steps (smooth_noise.py).
    Guarantee:  pure DP with epsilon if delta = 0, otherwise (epsilon, delta)-DP, for all neighbours x, x' with
                |f(x) - f(x')| <= A_0(x), A_k(x) <= A_(k+1)(x') for every k, and A_k <= cap. The local sensitivities at
                distance k are such. A list may be shorter than `distances`: missing terms count as the cap, and its
                length may then differ between neighbours by at most one.
    Error:      depends on the data through S: `error(confidence, smooth=...)` gives it for a bound that you assume.
    Proof:      floor(A_k / step) + 1 are integer bounds of the rounded function with the same property: two roundings
                add less than one step each way, and the map is monotone. The theorems of smooth_noise.py apply. The
                number of terms looked at, the grid and the weights are public. [NRS07]
    Figure:     `SmoothSensitivity(epsilon=1, cap=1000, step=1).error(0.5, smooth=10)` = 21.5
    Checked by: tests/mechanisms/local/test_smooth.py
    """

    noise: SmoothNoise
    cap: Fraction
    step: Fraction

    __repr__ = short_repr

    def __init__(self, *, epsilon: Number, cap: Number, delta: Number = 0, step: Number | None = None) -> None:
        most = positive(cap, "cap")
        size = _power_of_two(most / (1 << _FINE)) if step is None else positive(step, "step")
        if most / size > 1 << 40:
            raise Misconfigured(f"`step` is {step}; the cap must be at most 2^40 steps. Pass a larger step.")
        object.__setattr__(self, "noise", SmoothNoise(epsilon=epsilon, delta=delta))
        object.__setattr__(self, "cap", most)
        object.__setattr__(self, "step", size)
        self.noise.terms(self._most)  # refuses an epsilon that would need too many terms

    def __call__(self, value: Number, at_distance: LocalSensitivities) -> float:
        """The value with noise; `at_distance` gives the local sensitivity at distance 0, 1, 2, ..."""
        units = round(_read(value) / self.step)
        return nearest((units + self.noise.draw(self._smooth(at_distance))) * self.step)

    @property
    def loss(self) -> Pure | Approximate:
        return self.noise.loss

    @property
    def distances(self) -> int:
        """The number of distances that matter."""
        return self.noise.terms(self._most)

    def error(self, confidence: Number = 0.95, *, smooth: Number) -> float:
        """With this probability the answer is within this of the value, if `smooth_bound` is `smooth`.

        The bound of real data is secret, and so is the error that follows from it: assume one, or use synthetic data.
        """
        bound = max(positive(smooth, "smooth") / self.step, Fraction(1))
        return at_least((self.noise.error(confidence, bound) + Fraction(1, 2)) * self.step)

    def smooth_bound(self, at_distance: LocalSensitivities) -> Fraction:
        """The smooth bound in the units of the value, the step of the grid included. Secret for real data."""
        return self._smooth(at_distance) * self.step

    @property
    def _most(self) -> int:
        return math.floor(self.cap / self.step) + 1

    def _smooth(self, at_distance: LocalSensitivities) -> Fraction:
        most = self.distances
        terms = [at_distance(k) for k in range(most)] if callable(at_distance) else at_distance[:most]
        bounds = [math.floor(min(max(_read(term), Fraction(0)), self.cap) / self.step) + 1 for term in terms]
        return self.noise.smooth_bound(bounds, self._most)


@dataclass(frozen=True, slots=True, init=False)
class SmoothMedian:
    """The median with noise scaled to the smooth sensitivity of these records.

    Use:        to see what local sensitivity can do; `Quantile` is several times better on most data and never far
                off. With delta > 0 the tails are light, but the typical error is about five times larger.
    Law:        records are cut to the bounds and rounded to a public grid; y = median + Z, cut to the bounds; Z is
                Cauchy if delta is 0, Laplace otherwise, of scale 2 S / epsilon steps, S = max over k of
                e^(-beta k) A_k, A_k the local sensitivity of the median at distance k.
    Guarantee:  pure DP with epsilon if delta = 0, otherwise (epsilon, delta)-DP, for all neighbouring sets of records,
                none and one included.
    Error:      depends on the data; `error(values)` gives it for data that are not secret, such as synthetic ones.
    Proof:      ordered.py proves A_k for either relation; they satisfy A_k(x) <= A_(k+1)(x'), so the theorems of
                smooth_noise.py apply. Cutting the answer is post-processing. [NRS07]
    Figure:     `SmoothMedian(epsilon=1, bounds=(0, 1000), step=1).error(range(1001), 0.5)` = 4.0
    Checked by: tests/mechanisms/local/test_smooth.py
    """

    noise: SmoothNoise
    cells: BoundedGrid
    neighbours: Neighbours

    __repr__ = short_repr

    def __init__(
        self,
        *,
        epsilon: Number,
        bounds: tuple[Number, Number],
        delta: Number = 0,
        step: Number | None = None,
        neighbours: Neighbours = Neighbours.ADD_OR_REMOVE,
    ) -> None:
        object.__setattr__(self, "noise", SmoothNoise(epsilon=epsilon, delta=delta))
        object.__setattr__(self, "cells", BoundedGrid(bounds, step))
        object.__setattr__(self, "neighbours", read_neighbours(neighbours))
        self.noise.terms(self.cells.last)  # refuses an epsilon that would need too many terms

    def __call__(self, values: Any) -> float:
        """The noisy median of a list or an array of numbers."""
        records = self._order(values)
        return self.cells.value(records.median + self.noise.draw(self._smooth(records)))

    @property
    def loss(self) -> Pure | Approximate:
        return self.noise.loss

    def error(self, values: Any, confidence: Number = 0.95) -> float:
        """With this probability the answer for these records is within this of their median. Secret for real data."""
        steps = self.noise.error(confidence, self._smooth(self._order(values))) + 1  # one more for the grid
        return at_least(min(steps, self.cells.last) * self.cells.step)

    def smooth_bound(self, values: Any) -> Fraction:
        """The smooth bound S of these records, in the units of the bounds. Secret for real data."""
        return self._smooth(self._order(values)) * self.cells.step

    def _order(self, values: Any) -> Ordered:
        return self.cells.order(values, self.neighbours)

    def _smooth(self, records: Ordered) -> Fraction:
        last = self.cells.last
        return self.noise.smooth_bound(records.gaps(self.noise.terms(last)), last)


def _power_of_two(value: Fraction) -> Fraction:
    """The least power of two that is not below the value."""
    ceiling = math.ceil(value)
    if ceiling > 1:
        return Fraction(1 << (ceiling - 1).bit_length())
    return Fraction(1, 1 << (math.floor(1 / value).bit_length() - 1))


def _read(number: Number) -> Fraction:
    """A value or a sensitivity of the data: no message shows it."""
    try:
        return exact(number, "value")
    except Misconfigured:
        raise Misconfigured("the value or a sensitivity is not a finite number. Pass ordinary numbers.") from None
