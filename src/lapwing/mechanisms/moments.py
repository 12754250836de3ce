"""Mean and variance from soft histograms: no budget is split, and the count comes with them.

A row x becomes t = (x - low) / (high - low) in [0, 1], then a = round(t M) on a public grid of M = 2^30 steps, then a
few whole numbers that are not negative and sum to M: the row's shares of two (or three) soft cells.

    SoftMean        (a, M - a)                                           Bernstein polynomials of degree 1
    SoftVariance    (floor((M - a)^2 / M), the rest, floor(a^2 / M))     Bernstein polynomials of degree 2

Lemma (sensitivity). A unit of at most k rows moves the sums of the cells by exactly M times its number of rows in l1,
so by at most k M; in l2 by no more, since the l2 norm never exceeds the l1 norm, and by no less when its rows lie on
a bound.
Proof. A row's cells depend on this row alone, are whole numbers of at least 0, and sum to M: a is cut to 0..M as an
integer, and (M - a)^2 + a^2 <= M^2. How well floats computed a is a matter of accuracy, never of privacy.

Lemma (rounding). a is off by less than 1. Let b2 = floor(a^2 / M); then floor((M - a)^2 / M) = b2 - 2 a + M, an
integer more, so b2 - b0 = 2 a - M exactly: the mean loses nothing by the floors, and the mean square less than 1/M.

Two steps: `cells` reads rows, and an engine may do it instead (sum of a, sum of a * a >> 30, number of rows); `release`
adds the noise. Everything behind that is post-processing of the noisy cells.
Checked by: tests/mechanisms/test_moments.py
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from operator import index
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from lapwing.errors import Misconfigured
from lapwing.mechanisms.gaussian import Gaussian
from lapwing.mechanisms.laplace import Laplace
from lapwing.mechanisms.moment_intervals import (
    Interval,
    extreme_means,
    extreme_variances,
    least_share,
    mean_of,
    reach_of,
    tail_of,
    variance_of,
)
from lapwing.privacy.loss import ZCDP, Approximate, Pure
from lapwing.privacy.neighbours import Neighbours
from lapwing.rational import Number, count, exact, inside_unit

GRID = 1 << 30
"""M: every row spreads this many steps over its cells."""

_CHUNK = 1 << 20
_NARROWEST = Fraction(1, 1 << 20)  # hi - lo against the larger bound: float64 then places a row within one step
_LARGEST = Fraction(10) ** 300
_STEP = 1.0 / GRID


@dataclass(frozen=True, slots=True, init=False)
class _Soft:
    """What both mechanisms share: the bounds of a value, how many rows a unit may have, and the noise of a cell."""

    neighbours: ClassVar[Neighbours] = Neighbours.ADD_OR_REMOVE

    bounds: tuple[Fraction, Fraction]
    rows_per_unit: int
    noise: Laplace | Gaussian

    def __init__(
        self,
        *,
        bounds: tuple[Number, Number],
        epsilon: Number | None = None,
        rho: Number | None = None,
        rows_per_unit: int = 1,
    ) -> None:
        rows = count(rows_per_unit, "rows_per_unit")
        object.__setattr__(self, "bounds", _read_bounds(bounds))
        object.__setattr__(self, "rows_per_unit", rows)
        object.__setattr__(self, "noise", _noise(epsilon, rho, rows * GRID))

    @property
    def loss(self) -> Pure | ZCDP | Approximate:
        return self.noise.loss

    @property
    def width(self) -> float:
        return float(self.bounds[1] - self.bounds[0])

    def steps(self, values: Any) -> Iterator[npt.NDArray[np.int64]]:
        """a for each row, in pieces: the row cut to the bounds and put on the grid 0..M. NaN is refused."""
        low, high = map(float, self.bounds)
        rows = _rows(values)
        for start in range(0, rows.size, _CHUNK):
            part = np.clip(rows[start : start + _CHUNK].astype(np.float64), low, high)
            if np.isnan(part).any():
                raise Misconfigured("a value is not a number (NaN). Leave such rows out before asking.")
            yield np.clip(np.rint((part - low) * (GRID / (high - low))).astype(np.int64), 0, GRID)

    def _noisy(self, cells: Any, many: int) -> tuple[int, ...]:
        """Adds the noise: the only step that costs."""
        try:
            true = [index(cell) for cell in cells]
        except TypeError:
            raise Misconfigured("`cells` must be whole numbers, as `cells` of this mechanism gives them.") from None
        if len(true) != many:
            raise Misconfigured(f"`cells` has {len(true)} entries; this mechanism has {many}. Pass what `cells` gives.")
        return tuple(cell + z for cell, z in zip(true, self.noise.draw(many).tolist(), strict=True))

    def _at(self, share: float) -> float:
        """The value at this share of the range, never outside the bounds."""
        low, high = map(float, self.bounds)
        return min(max(low + (high - low) * share, low), high)

    def _span(self, low: float, high: float) -> Interval:
        """Shares of the range as values, one step wider on both sides for the rounding of rows."""
        return self._at(low - _STEP), self._at(high + _STEP)


@dataclass(frozen=True, slots=True, init=False)
class SoftMean(_Soft):
    """The mean and the number of rows, released together.

    Use:        the mean of a bounded column; with the variance as well, `SoftVariance`; a quantile when bounds are
                wide.
    Law:        (A, B) + (Z1, Z2), A = sum of a_i, B = sum of M - a_i, Z discrete Laplace of scale k M / epsilon
                (discrete Gaussian of variance (k M)^2 / (2 rho) with `rho`); count = (A + B) / M, mean = A / (A + B),
                negative cells taken as 0.
    Guarantee:  pure DP with epsilon (or rho-zCDP) when all rows of one unit are added or removed, at most k =
                `rows_per_unit` of them; the caller holds units to that. Also with no rows at all.
    Error:      at least n rows: `error(confidence, rows=n)`, about (high - low) k ln(1 / beta) / (n epsilon) at worst.
                Afterwards `MeanRelease.interval`, valid for every n.
    Proof:      lemma (sensitivity), then the Laplace (Gaussian) mechanism. For the error let w = mean + d as a share of
                the range. The estimate exceeds w only if (1 - w) Z1 - w Z2 > d n M, or if both noisy cells are negative
                (then it is 1/2), of chance at most P[Z >= n M / 2]. And |(1 - w) L1 - w L2| is stochastically below
                |L1|: the ratio of their densities is (u e^(-x v/u) - v e^(-x u/v)) / (u - v) for u, v = the larger and
                the smaller of w, 1 - w; it starts at 1, rises, then falls to 0, so it crosses 1 once. For normal
                noise (1 - w)^2 + w^2 <= 1 says the same.
    Figure:     `round(SoftMean(epsilon=1, bounds=(0, 100)).error(0.95, rows=1000), 2)` = 0.3
    Checked by: tests/mechanisms/test_moments.py
    """

    def __call__(self, values: Any) -> MeanRelease:
        """Both steps: the release of these rows."""
        return self.release(self.cells(values))

    def cells(self, values: Any) -> tuple[int, int]:
        """(A, B) of these rows, exactly."""
        total = rows = 0
        for a in self.steps(values):
            total, rows = total + int(a.sum()), rows + a.size
        return total, rows * GRID - total

    def release(self, cells: Any) -> MeanRelease:
        """The noisy cells, and what follows from them."""
        first, second = self._noisy(cells, 2)
        return MeanRelease((first, second), self)

    def error(self, confidence: Number = 0.95, *, rows: int) -> float:
        """With this probability the mean is off by at most this, whatever it is, if there are at least so many rows."""
        outside, size = 1 - inside_unit(confidence, "confidence"), count(rows, "rows") * GRID
        lost = Fraction(tail_of(self.noise)(1.0, 0.0, size / 2) / 2)
        if lost >= outside:
            return self.width
        return self.width * min(1.0, (self.noise.error(1 - outside + lost) + 2) / size + _STEP)


@dataclass(frozen=True, slots=True)
class MeanRelease:
    """A released mean and count. `count` is unbiased, so it may be negative; `mean` lies within the bounds."""

    cells: tuple[int, int]
    mechanism: SoftMean

    @property
    def mean(self) -> float:
        first, second = (max(cell, 0) for cell in self.cells)
        return self.mechanism._at(first / (first + second) if first + second else 0.5)

    @property
    def count(self) -> float:
        return sum(self.cells) / GRID

    def interval(self, confidence: Number = 0.95) -> Interval:
        """Holds the mean of the clipped rows with this probability; of no rows, any one value within the bounds.

        Every mean that an exact test does not reject (Fieller). Let Y = noisy cells, negative ones taken as 0. For
        the true share m, (1 - m) A = m B, so V = (1 - m) Y1 - m Y2 holds noise alone: V > x >= 0 implies Y1 > 0, and
        cutting Y2 at 0 only lowers V, so P[V > x] <= P[(1 - m) Z1 - m Z2 > x], and likewise below -x. m is rejected
        if the chance of so large a |V| is below 1 - confidence. The estimate itself is never rejected.
        """
        outside = float(1 - inside_unit(confidence, "confidence"))
        first, second = (float(max(cell, 0)) for cell in self.cells)
        tail = tail_of(self.mechanism.noise)
        low, high = least_share(first, second, tail, outside), 1 - least_share(second, first, tail, outside)
        return self.mechanism._span(low, high)

    def count_interval(self, confidence: Number = 0.95) -> tuple[int, int]:
        """Holds the number of rows with this probability."""
        outside = float(1 - inside_unit(confidence, "confidence"))
        reach = reach_of(tail_of(self.mechanism.noise), outside) / GRID
        least = max(0, math.ceil(self.count - reach))
        return least, max(least, math.floor(self.count + reach))


@dataclass(frozen=True, slots=True)
class Moments:
    """Intervals that all hold at once."""

    variance: Interval
    stddev: Interval
    mean: Interval
    count: tuple[int, int]


@dataclass(frozen=True, slots=True, init=False)
class SoftVariance(_Soft):
    """The variance, the standard deviation, the mean and the number of rows, released together.

    Use:        the spread of a bounded column; `SoftMean` if the mean is enough: it is up to 11 % less noisy there.
    Law:        (b0, b1, b2) + Z, b_i = sums of the three cells, Z as in `SoftMean`; with p_i = the share of cell i,
                negative cells taken as 0: mean = p2 + p1/2 and variance = p2 - mean^2 (of the rows themselves: divided
                by n, not by n - 1) on [0, 1], then scaled to the bounds.
    Guarantee:  pure DP with epsilon (or rho-zCDP) when all rows of one unit are added or removed, at most
                `rows_per_unit` of them. Also with no rows at all.
    Error:      |variance error| <= (high - low)^2 q / (n M - 3 q) where q bounds all three |Z_i|: `error`.
    Proof:      lemma (sensitivity), then the Laplace (Gaussian) mechanism. Error: V = p2 - (p2 + p1/2)^2 is
                (1 - 2 p1 - (p0 - p2)^2) / 4. With s = p0 + p2, d = p0 - p2 and S = b0 + b1 + b2 its derivatives are
                dV/db1 = (d^2 - s) / (2 S), dV/db0 = (p1^2 + 2 p1 p2 + 2 p2^2 - 2 p0 p2) / (2 S), and dV/db2 likewise.
                If neither of the last two is negative, the absolute values sum to (2 p1 + s + d^2) / (2 S), else to
                (2 |d| + s - d^2) / (2 S): at most 1/S either way. Cutting a cell at 0 only brings it nearer to the
                truth; S never falls below n M - 3 q on the way.
    Figure:     `round(SoftVariance(epsilon=1, bounds=(0, 1)).error(0.95, rows=1000), 5)` = 0.00413
    Checked by: tests/mechanisms/test_moments.py
    """

    def __call__(self, values: Any) -> VarianceRelease:
        """Both steps: the release of these rows."""
        return self.release(self.cells(values))

    def cells(self, values: Any) -> tuple[int, int, int]:
        """(b0, b1, b2) of these rows, exactly."""
        total = squares = rows = 0
        for a in self.steps(values):
            total, squares, rows = total + int(a.sum()), squares + int((a * a // GRID).sum()), rows + a.size
        lowest = squares - 2 * total + rows * GRID
        return lowest, rows * GRID - lowest - squares, squares

    def release(self, cells: Any) -> VarianceRelease:
        """The noisy cells, and what follows from them."""
        lowest, middle, highest = self._noisy(cells, 3)
        return VarianceRelease((lowest, middle, highest), self)

    def error(self, confidence: Number = 0.95, *, rows: int) -> float:
        """With this probability the variance is off by at most this, if there are at least so many rows."""
        size = count(rows, "rows") * GRID
        bound = self.noise.error(confidence, simultaneous=3)
        share = min(0.25, bound / (size - 3 * bound) + 4 * _STEP) if size > 3 * bound else 0.25
        return self.width**2 * share


@dataclass(frozen=True, slots=True)
class VarianceRelease:
    """Released moments. `count` is unbiased, so it may be negative; the others lie where they can lie."""

    cells: tuple[int, int, int]
    mechanism: SoftVariance

    @property
    def variance(self) -> float:
        known = variance_of(*(max(cell, 0) for cell in self.cells))
        return self.mechanism.width**2 * (0.125 if known is None else max(known, 0.0))

    @property
    def stddev(self) -> float:
        return math.sqrt(self.variance)

    @property
    def mean(self) -> float:
        known = mean_of(*(max(cell, 0) for cell in self.cells))
        return self.mechanism._at(0.5 if known is None else known)

    @property
    def count(self) -> float:
        return sum(self.cells) / GRID

    def intervals(self, confidence: Number = 0.95) -> Moments:
        """With this probability all four hold at once, for every number of rows; of no rows, any one possible value.

        The three true cells lie in a box around the noisy ones, by the exact quantile of the largest of three |Z_i|.
        Each statistic is extremised over the box. Mean: monotone in each cell. Variance: falls with b1, and along b0 or
        b2 alone it rises, then falls (see `SoftVariance`), so it is least at a corner, and greatest on an edge where
        one of b0, b2 is at an end and the other at its best place.
        """
        reach = self.mechanism.noise.error(confidence, simultaneous=3)
        box = [(max(cell - reach, 0), max(cell + reach, 0)) for cell in self.cells]
        variance = extreme_variances(*box)
        squared = self.mechanism.width**2
        least, most = (min(max(v, 0.0), 0.25) for v in (variance[0] - 4 * _STEP, variance[1] + 4 * _STEP))
        spread = (squared * least, squared * most)
        fewest = -(-sum(low for low, _ in box) // GRID)
        return Moments(
            variance=spread,
            stddev=(math.sqrt(spread[0]), math.sqrt(spread[1])),
            mean=self.mechanism._span(*extreme_means(*box)),
            count=(fewest, max(fewest, sum(high for _, high in box) // GRID)),
        )


def _noise(epsilon: Number | None, rho: Number | None, sensitivity: int) -> Laplace | Gaussian:
    if epsilon is not None and rho is None:
        return Laplace(epsilon=epsilon, sensitivity=sensitivity)
    if rho is not None and epsilon is None:
        return Gaussian(rho=rho, sensitivity=sensitivity)
    raise Misconfigured("pass either `epsilon` for pure DP, or `rho` for zCDP.")


def _read_bounds(bounds: object) -> tuple[Fraction, Fraction]:
    if not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise Misconfigured("`bounds` must be a pair (low, high). Pass for example bounds=(0, 100).")
    low, high = exact(bounds[0], "bounds"), exact(bounds[1], "bounds")
    if low >= high:
        raise Misconfigured(f"`bounds` are {bounds[0]} and {bounds[1]}; the first must be below the second.")
    largest = max(abs(low), abs(high))
    if high - low < largest * _NARROWEST or not 1 / _LARGEST < largest < _LARGEST:
        raise Misconfigured(
            f"`bounds` are {bounds[0]} and {bounds[1]}; float64 cannot tell enough values between them apart. "
            "Subtract a constant, or change the unit of measurement."
        )
    return low, high


def _rows(values: Any) -> npt.NDArray[Any]:
    """The rows as a flat array of numbers. Which rows there are never shows in a message."""
    if hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__"):
        values = np.asarray(values)
    if not isinstance(values, np.ndarray):
        try:
            values = np.array(values, np.float64)
        except (TypeError, ValueError, OverflowError):
            raise Misconfigured(
                "`values` holds something that is no number. Pass a list or an array of them."
            ) from None
    if values.ndim != 1 or values.dtype.kind not in "iuf":
        raise Misconfigured("`values` must be one column of integers or floats. Pass a flat list or array.")
    rows: npt.NDArray[Any] = values
    return rows
