"""Mean and variance from soft histograms: no budget is split, and the count comes with them.

A row x becomes t = (x - low) / (high - low) in [0, 1], then a = round(t M) on a public grid of M = 2^30 steps, then a
few whole numbers that are not negative and sum to M: the row's shares of two (or three) soft cells.

    Mean        (a, M - a)                                           Bernstein polynomials of degree 1
    Variance    (floor((M - a)^2 / M), the rest, floor(a^2 / M))     Bernstein polynomials of degree 2

Lemma (sensitivity). A unit of at most k rows moves the sums of the cells by exactly M times its number of rows in l1,
so by at most k M; in l2 by no more, since the l2 norm never exceeds the l1 norm, and by no less when its rows lie on
a bound.
Proof. A row's cells depend on this row alone, are whole numbers of at least 0, and sum to M: a is cut to 0..M as an
integer, and (M - a)^2 + a^2 <= M^2. How well floats computed a is a matter of accuracy, never of privacy.

Lemma (rounding). a is off by less than 1. Let b2 = floor(a^2 / M); then floor((M - a)^2 / M) = b2 - 2 a + M, an
integer more, so b2 - b0 = 2 a - M exactly: the mean loses nothing by the floors, and the mean square less than 1/M.

Lemma (scaling). A unit of n > k rows, with cells that sum to n M, may count as k rows: every cell but one becomes
floor(cell k / n), and that one is k M minus the others. Then no cell is negative, they sum to k M, and the unit moves
the sums by at most k M in l1, so in l2.
Proof. The floors sum to at most k (n M - the one) / n <= k M, so the rest is not negative; all of it is a function of
this unit's rows alone. For units of at most k rows nothing changes. A floor moves a cell by less than one step.
An engine that divides in floats cuts each of these cells in turn to [0, what is left of k M]: the lemma holds as well.

Two steps: `cells` reads rows, and an engine may do it instead (sum of a, sum of a * a >> 30, number of rows); `release`
adds the noise. Everything behind that is post-processing of the noisy cells: moment_values.py and variance.py do it
for many groups at once, and a release here is the case of one group.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from lapwing.mechanisms.additive.gaussian import Gaussian
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.additive.tails import Ends, tail_of
from lapwing.mechanisms.mechanism import Bounds, Given
from lapwing.mechanisms.moments.moment_values import (
    GRID,
    LARGEST,
    LARGEST_TO_SQUARE,
    STEP,
    ColumnCells,
    GroupRelease,
    MomentsMechanism,
    add_noise,
    count_intervals,
    mean_intervals,
    means,
    read_bounds,
    steps,
    sum_intervals,
    sums,
)
from lapwing.mechanisms.moments.variance import stddevs, variance_intervals, variances
from lapwing.numbers import Number, count, inside_unit, nonnegative


@dataclass(frozen=True, slots=True, init=False, repr=False)
class _Moments(MomentsMechanism):
    """Base of both mechanisms: the bounds of a value."""

    largest: ClassVar[Fraction] = LARGEST
    places: ClassVar[tuple[float, ...]]
    squares: ClassVar[tuple[float, ...]] = ()
    rounding: ClassVar[int] = 2

    bounds: tuple[Fraction, Fraction]

    def __init__(self, *, bounds: Bounds, epsilon: Given = None, rho: Given = None, rows_per_unit: int = 1) -> None:
        self._set(bounds=read_bounds(bounds, self.largest))
        self._set_noise(epsilon, rho, rows_per_unit)

    @property
    def column(self) -> ColumnCells:
        return ColumnCells(self.noise, self.bounds, self.places, self.squares, self.rounding)

    @property
    def width(self) -> float:
        return float(self.bounds[1] - self.bounds[0])


@dataclass(frozen=True, slots=True, repr=False)
class _MomentsRelease(GroupRelease):
    """Base of both releases. `count` and `sum` are unbiased, so they may lie outside; `mean` is in the bounds."""

    @property
    def mean(self) -> float:
        return self._value(means)

    @property
    def sum(self) -> float:
        return self._value(sums)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Mean(_Moments):
    """The mean and the number of rows, released together.

    Use:        the mean of a bounded column. `Variance` if you also need the variance; quantiles for wide bounds.
    Law:        (A, B) + (Z1, Z2), A = sum of a_i, B = sum of M - a_i, Z discrete Laplace of scale k M / epsilon
                (discrete Gaussian of variance (k M)^2 / (2 rho) with `rho`); count = (A + B) / M, mean = A / (A + B),
                negative cells taken as 0.
    Guarantee:  pure DP with epsilon (or rho-zCDP) when all rows of one unit are added or removed, at most k =
                `rows_per_unit` of them; the caller enforces that, or scales a unit of n > k rows down to
                floor(A k / n) and, for B, k M minus this. Also with no rows at all.
    Error:      at least n rows: `error(confidence, rows=n)`, about (high - low) k ln(1 / beta) / (n epsilon) at worst.
                Afterwards `MeanRelease.interval`, valid for every n; for many groups moment_values.py.
    Proof:      lemma (sensitivity), for scaled units lemma (scaling): l1 <= k M and l2 <= l1; then the Laplace
                (Gaussian) mechanism. For the error let w = mean + d as a share of the range. The estimate exceeds w
                only if (1 - w) Z1 - w Z2 > d n M, or if both noisy cells are negative (then it is 1/2), of chance at
                most P[Z >= n M / 2]. And |(1 - w) L1 - w L2| is stochastically below |L1|: the ratio of their densities
                is (u e^(-x v/u) - v e^(-x u/v)) / (u - v) for u, v = the larger and the smaller of w, 1 - w; it starts
                at 1, rises, then falls to 0, so it crosses 1 once. For normal noise (1 - w)^2 + w^2 <= 1 says the same.
    Figure:     `round(Mean(epsilon=1, bounds=(0, 100)).error(0.95, rows=1000), 2)` = 0.3
    Checked by: tests/mechanisms/moments/test_mean.py
    """

    places: ClassVar[tuple[float, ...]] = (1.0, 0.0)

    def __call__(self, values: Any) -> MeanRelease:
        return self.release(self.cells(values))

    def cells(self, values: Any) -> tuple[int, int]:
        """(A, B) of these rows, exactly."""
        total = rows = 0
        for a in steps(values, self.bounds):
            total, rows = total + int(a.sum()), rows + a.size
        return total, rows * GRID - total

    def release(self, cells: Any) -> MeanRelease:
        first, second = add_noise(cells, self.noise, 2)
        return MeanRelease((first, second), self)

    def error(self, confidence: Number = 0.95, *, rows: int) -> float:
        """With this probability the mean is off by at most this, if there are at least `rows` rows."""
        return mean_error(self.noise, self.width, confidence, rows=rows)


def mean_error(noise: Laplace | Gaussian, width: float, confidence: Number = 0.95, *, rows: int) -> float:
    """`Mean.error` for bounds of this width under any noise."""
    outside, size = 1 - inside_unit(confidence, "confidence"), count(rows, "rows") * GRID
    lost = Fraction(tail_of(noise)(1.0, 0.0, size / 2) / 2)
    if lost >= outside:
        return width
    return width * min(1.0, (noise.error(1 - outside + lost) + 2) / size + 2 * STEP)


@dataclass(frozen=True, slots=True, repr=False)
class MeanRelease(_MomentsRelease):
    """A released mean and count."""

    cells: tuple[int, int]
    mechanism: Mean

    def interval(self, confidence: Number = 0.95) -> Ends:
        """Holds the mean of the clipped rows with this probability; of no rows, any one value within the bounds."""
        return self._interval(mean_intervals, confidence)

    def count_interval(self, confidence: Number = 0.95) -> tuple[int, int]:
        """Holds the number of rows with this probability."""
        return _whole(self._interval(count_intervals, confidence))

    def sum_interval(self, confidence: Number = 0.95) -> Ends:
        """Holds the sum of the clipped rows with this probability."""
        return self._interval(sum_intervals, confidence)


@dataclass(frozen=True, slots=True)
class MomentIntervals:
    """Intervals that all hold at once."""

    variance: Ends
    stddev: Ends
    mean: Ends
    count: tuple[int, int]


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Variance(_Moments):
    """The variance, the standard deviation, the mean and the number of rows, released together.

    Use:        the spread of a bounded column. If the mean is enough, use `Mean`: it is up to 11 % less noisy.
    Law:        (b0, b1, b2) + Z, b_i = sums of the three cells, Z as in `Mean`; with p_i = the share of cell i,
                negative cells taken as 0: mean = p2 + p1/2 and variance = p2 - mean^2 (of the rows themselves: divided
                by n, not by n - 1) on [0, 1], then scaled to the bounds.
    Guarantee:  pure DP with epsilon (or rho-zCDP) when all rows of one unit are added or removed, at most
                k = `rows_per_unit` of them; a unit of n > k rows may be scaled down to floor(b0 k / n), floor(b2 k / n)
                and, for b1, k M minus these two. Also with no rows at all.
    Error:      |variance error| <= (high - low)^2 q / (n M - 3 q) where q bounds all three |Z_i|: `error`.
    Proof:      lemma (sensitivity), for scaled units lemma (scaling), then the Laplace (Gaussian) mechanism. Error:
                V = p2 - (p2 + p1/2)^2 is (1 - 2 p1 - (p0 - p2)^2) / 4. With s = p0 + p2, d = p0 - p2 and S = b0 + b1 +
                b2 its derivatives are dV/db1 = (d^2 - s) / (2 S), dV/db0 = (p1^2 + 2 p1 p2 + 2 p2^2 - 2 p0 p2) / (2 S),
                and dV/db2 likewise.
                If neither of the last two is negative, the absolute values sum to (2 p1 + s + d^2) / (2 S), else to
                (2 |d| + s - d^2) / (2 S): at most 1/S either way. Cutting a cell at 0 only brings it nearer to the
                truth; S never falls below n M - 3 q on the way.
    Figure:     `round(Variance(epsilon=1, bounds=(0, 1)).error(0.95, rows=1000), 5)` = 0.00413
    Checked by: tests/mechanisms/moments/test_mean.py
    """

    largest: ClassVar[Fraction] = LARGEST_TO_SQUARE
    places: ClassVar[tuple[float, ...]] = (0.0, 0.5, 1.0)
    squares: ClassVar[tuple[float, ...]] = (0.0, 0.0, 1.0)

    def __call__(self, values: Any) -> VarianceRelease:
        return self.release(self.cells(values))

    def cells(self, values: Any) -> tuple[int, int, int]:
        """(b0, b1, b2) of these rows, exactly."""
        total = squares = rows = 0
        for a in steps(values, self.bounds):
            total, squares, rows = total + int(a.sum()), squares + int((a * a // GRID).sum()), rows + a.size
        lowest = squares - 2 * total + rows * GRID
        return lowest, rows * GRID - lowest - squares, squares

    def release(self, cells: Any) -> VarianceRelease:
        lowest, middle, highest = add_noise(cells, self.noise, 3)
        return VarianceRelease((lowest, middle, highest), self)

    def error(self, confidence: Number = 0.95, *, rows: int) -> float:
        """With this probability the variance is off by at most this, if there are at least `rows` rows."""
        return variance_error(self.noise, self.width, confidence, rows=rows)

    def stddev_error(self, confidence: Number = 0.95, *, rows: int, stddev: Number = 0) -> float:
        """The same for the standard deviation, if it is at least `stddev`."""
        return stddev_error(self.noise, self.width, confidence, rows=rows, stddev=stddev)

    def mean_error(self, confidence: Number = 0.95, *, rows: int) -> float:
        """The same for the mean."""
        return mean_error_of_three(self.noise, self.width, confidence, rows=rows)


def variance_error(noise: Laplace | Gaussian, width: float, confidence: Number = 0.95, *, rows: int) -> float:
    """The error of a variance under any noise: see `Variance`."""
    return width**2 * _error_of_three(noise, confidence, rows, gain=1.0, most=0.25, off=12 * STEP)


def stddev_error(
    noise: Laplace | Gaussian, width: float, confidence: Number = 0.95, *, rows: int, stddev: Number = 0
) -> float:
    """The error of a standard deviation of at least `stddev`: |s - t| = |s^2 - t^2| / (s + t)."""
    off, least = variance_error(noise, width, confidence, rows=rows), float(nonnegative(stddev, "stddev"))
    return min(math.sqrt(off), off / least) if least else math.sqrt(off)


def mean_error_of_three(noise: Laplace | Gaussian, width: float, confidence: Number = 0.95, *, rows: int) -> float:
    """The error of a mean from three cells: its numerator is off by at most 3/2 of the largest |Z_i|."""
    return width * _error_of_three(noise, confidence, rows, gain=1.5, most=1.0, off=2 * STEP)


def _error_of_three(
    noise: Laplace | Gaussian, confidence: Number, rows: int, *, gain: float, most: float, off: float
) -> float:
    size, bound = count(rows, "rows") * GRID, noise.error(confidence, simultaneous=3)
    return min(most, gain * bound / (size - 3 * bound) + off) if size > 3 * bound else most


@dataclass(frozen=True, slots=True, repr=False)
class VarianceRelease(_MomentsRelease):
    """Released moments. Variances and standard deviations are clipped to their possible range."""

    cells: tuple[int, int, int]
    mechanism: Variance

    @property
    def variance(self) -> float:
        return self._value(variances)

    @property
    def sample_variance(self) -> float:
        return self._value(variances, sample=True)

    @property
    def stddev(self) -> float:
        return self._value(stddevs)

    def intervals(self, confidence: Number = 0.95) -> MomentIntervals:
        """With this probability all four hold at once, for every number of rows; of no rows, any one possible value.

        Half of what may be left out goes to the variance, a quarter each to the mean and the count.
        """
        outside = 1 - inside_unit(confidence, "confidence")
        low, high = self._interval(variance_intervals, 1 - outside / 2)
        return MomentIntervals(
            variance=(low, high),
            stddev=(math.sqrt(low), math.sqrt(high)),
            mean=self._interval(mean_intervals, 1 - outside / 4),
            count=_whole(self._interval(count_intervals, 1 - outside / 4)),
        )


def _whole(interval: Ends) -> tuple[int, int]:
    return int(interval[0]), int(interval[1])
