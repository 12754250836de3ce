"""Covariance, correlation and the regression line of two columns from one soft histogram of nine cells.

A row (x, y) becomes grid steps (a, b), each in 0..M, M = 2^30. Its M steps are first spread over three cells of x, then
what fell into each of these over three cells of y:

    B = (M - 2 a + s, 2 (a - s), s), s = floor(a^2 / M)          C likewise from b
    cell (i, 0) = floor(B_i C_0 / M), cell (i, 2) = floor(B_i C_2 / M), cell (i, 1) = B_i minus these two

So a row needs products of two numbers of at most 2^30 and right shifts by 30, all within 64 bits. An engine sums, in
128 bits, six products over the rows (B_i * C_0 >> 30 and B_i * C_2 >> 30 for i = 0, 1, 2), a, s and 1; the sums of B_i
and then the middle cells follow.

Lemma (sensitivity). A row's cells are whole numbers of at least 0 that sum to M, so a unit of at most k rows moves the
sums by at most k M in l1, and by no more in l2.
Proof. sum B_i = M and B_i >= 0: s <= a, and M - 2 a + s = floor((M - a)^2 / M). Within one i the floors sum to at most
B_i (C_0 + C_2) / M <= B_i, so the middle is not negative, and the three sum to B_i. A unit of more than k rows may
be scaled down: lemma (scaling) of mean.py, with any one of the cells as the rest.

Reading. Cell (i, j) holds what falls on the i-th Bernstein polynomial of x and the j-th of y.
With places c_i and d_j = 0, 1/2, 1 the sums of x, y and x y are the cells weighted by c_i, d_j and c_i d_j; squares are
the last of the three cells along a column. Post-processing only: any noisy cells are accepted.

Intervals. The event that variance.py describes, for the covariance and the variances that are needed, each at a
share of what may be left out; division gives a first range. Then Fieller: let N, S, R belong to the covariance and the
variances of x and y. For the true slope b, N - b S is a weighted sum of noises alone; so is N - r (l S + R / l) / 2 for
the true correlation r and the true ratio l of the standard deviations of y and x. The first ranges bound the weights,
and then b lies in (N +- tail bound) / S, and r likewise; an error of l enters only squared: l S + R / l is least there.
Checked by: tests/mechanisms/moments/test_pair_moments.py, tests/mechanisms/moments/test_regression.py
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import zip_longest
from typing import Any

import numpy as np

from lapwing.arrays import Floats
from lapwing.errors import Misconfigured
from lapwing.mechanisms.additive.gaussian import Gaussian
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.additive.tails import Band, Ends, share_bands, tail_bounds
from lapwing.mechanisms.mechanism import Bounds, Given, share_outside
from lapwing.mechanisms.moments.moment_values import (
    GRID,
    LARGEST_TO_SQUARE,
    STEP,
    CellArrays,
    ColumnCells,
    GroupRelease,
    MomentsMechanism,
    Steps,
    add_noise,
    as_floats,
    at_share,
    count_bands,
    counts,
    means,
    read_bounds,
    steps,
)
from lapwing.mechanisms.moments.variance import Products, covariance_bands, sample_bands, tied_products, to_sample
from lapwing.numbers import Enclosure, Number, count

PLACES, SQUARES = (0.0, 0.5, 1.0), (0.0, 0.0, 1.0)
ROUNDING = 12
"""A place is off by less than this many steps: 1 for the row, 3 for the floors of cells, 8 for scaling a unit down."""

_MEAN, _REST = 0.1, 0.8  # shares of what may be left out: for each of the two means, and for all else
_ROUNDS = 2


@dataclass(frozen=True, slots=True)
class PairCells:
    """The cells of two columns under any noise; those of one x cell stand next to each other."""

    noise: Laplace | Gaussian
    x_bounds: Enclosure
    y_bounds: Enclosure

    @property
    def x(self) -> ColumnCells:
        places, squares = (tuple(np.repeat(along, 3).tolist()) for along in (PLACES, SQUARES))
        return ColumnCells(self.noise, self.x_bounds, places, squares, ROUNDING)

    @property
    def y(self) -> ColumnCells:
        return ColumnCells(self.noise, self.y_bounds, PLACES * 3, SQUARES * 3, ROUNDING)

    @property
    def products(self) -> Products:
        x, y = self.x.places, self.y.places
        return Products(x, y, tuple(c * d for c, d in zip(x, y, strict=True)), tied=False, rounding=ROUNDING)

    @property
    def area(self) -> float:
        return _width(self.x_bounds) * _width(self.y_bounds)

    @property
    def steepness(self) -> float:
        return _width(self.y_bounds) / _width(self.x_bounds)


def covariances(columns: PairCells, cells: CellArrays, *, sample: bool = False) -> Floats:
    """Of the rows themselves (divided by n), or with `sample` divided by n - 1."""
    share = columns.products.values(as_floats(cells))
    return columns.area * (to_sample(share, counts(cells)) if sample else share)


def correlations(columns: PairCells, cells: CellArrays) -> Floats:
    """Between -1 and 1; pulled towards 0 where a variance is below the noise."""
    values = as_floats(cells)
    spread = np.sqrt(_firm(columns.x, values) * _firm(columns.y, values))
    return np.clip(columns.products.values(values) / spread, -1.0, 1.0)


def slopes(columns: PairCells, cells: CellArrays) -> Floats:
    """Of the least-squares line of y over x; pulled towards 0 where the variance of x is below the noise."""
    values = as_floats(cells)
    return columns.steepness * columns.products.values(values) / _firm(columns.x, values)


def intercepts(columns: PairCells, cells: CellArrays) -> Floats:
    """Of the same line, at x = 0."""
    return means(columns.y, cells) - slopes(columns, cells) * means(columns.x, cells)


def covariance_intervals(
    columns: PairCells, cells: CellArrays, confidence: Number = 0.95, *, simultaneous: int = 1, sample: bool = False
) -> Band:
    """Each holds the covariance of the clipped rows of its group with this probability; of one row, 0."""
    outside, values = share_outside(confidence, simultaneous), as_floats(cells)
    left = 0.9 * outside if sample else outside
    x, y = _means(columns, values, left)
    products = columns.products
    band = covariance_bands(columns.noise, products, values, x, y, _REST * left)
    if sample:
        band = sample_bands(band, count_bands(columns.noise, cells, 0.1 * outside))
    return _hull((columns.area * band[0], columns.area * band[1]), covariances(columns, cells, sample=sample))


def correlation_intervals(
    columns: PairCells, cells: CellArrays, confidence: Number = 0.95, *, simultaneous: int = 1
) -> Band:
    """Each holds the correlation of the clipped rows of its group with this probability, if it has one."""
    outside, values = share_outside(confidence, simultaneous), as_floats(cells)
    x, y = _means(columns, values, outside)
    part, products = _REST * outside, columns.products
    both = covariance_bands(columns.noise, products, values, x, y, 0.1 * part)
    xx, yy = (_variance(columns.x, values, x, 0.1 * part), _variance(columns.y, values, y, 0.1 * part))
    first = _divide(both, (np.sqrt(xx[0] * yy[0]), np.sqrt(xx[1] * yy[1])))
    ratio = _ratio(xx, yy)
    along, across = tied_products(columns.x), tied_products(columns.y)
    below = _mix(ratio, along.middle(values, x, x), across.middle(values, y, y))
    pairs = zip(along.weights(x, x), across.weights(y, y), strict=True)
    weights = [_mix(ratio, ps, qs, any_sign=True) for ps, qs in pairs]
    low, high = _fieller(columns, values, (x, y), 0.7 * part, first, below, weights, (ratio[1] + 1 / ratio[0]) / 2)
    return _hull((np.clip(low, -1.0, 1.0), np.clip(high, -1.0, 1.0)), correlations(columns, cells))


def slope_intervals(columns: PairCells, cells: CellArrays, confidence: Number = 0.95, *, simultaneous: int = 1) -> Band:
    """Each holds the slope of its group with this probability, if it has one; infinite where x may not vary at all."""
    low, high = _slope_bands(columns, as_floats(cells), share_outside(confidence, simultaneous))
    return _hull((columns.steepness * low, columns.steepness * high), slopes(columns, cells))


def intercept_intervals(
    columns: PairCells, cells: CellArrays, confidence: Number = 0.95, *, simultaneous: int = 1
) -> Band:
    """Each holds the intercept of its group with this probability, if it has one: mean of y less slope times x."""
    outside, values = share_outside(confidence, simultaneous), as_floats(cells)
    slope = [columns.steepness * end for end in _slope_bands(columns, values, outside)]
    x_means, y_means = _means(columns, values, outside)
    x, y = _at(columns.x, x_means), _at(columns.y, y_means)
    finite = np.isfinite(slope[0]) & np.isfinite(slope[1])
    drops = np.stack([np.where(finite, end, 0.0) * m for end in slope for m in x])
    least = np.where(finite, y[0] - drops.max(axis=0), -np.inf)
    return _hull((least, np.where(finite, y[1] - drops.min(axis=0), np.inf)), intercepts(columns, cells))


def _slope_bands(columns: PairCells, values: Floats, outside: float) -> Band:
    """Slopes of y over x, both as shares of their ranges."""
    x, y = _means(columns, values, outside)
    part, products, squares = _REST * outside, columns.products, tied_products(columns.x)
    both = covariance_bands(columns.noise, products, values, x, y, 0.1 * part)
    first = _divide(both, _variance(columns.x, values, x, 0.1 * part))
    below, weights = squares.middle(values, x, x), squares.weights(x, x)
    return _fieller(columns, values, (x, y), 0.8 * part, first, below, weights, np.ones(1))


def _fieller(
    columns: PairCells,
    values: Floats,
    means: tuple[Band, Band],
    outside: float,
    first: Band,
    below: Band,
    weights: list[Band],
    gain: Floats,
) -> Band:
    """A narrower range for the quotient of the covariance and what `below` and `weights` describe.

    Rounding: for the quotient q of the rows the true N - q S is not 0 but d times the true total, and |d| is at most
    off (1 + |q| gain); so d goes into the weights.
    """
    products, (low, high) = columns.products, first
    size, finite = _size(values), np.isfinite(low) & np.isfinite(high)
    above, pairs = products.middle(values, *means), list(zip(products.weights(*means), weights, strict=True))
    blur = 2.0**-46 * np.abs(values).sum(axis=0) / size
    for _ in range(_ROUNDS):
        ends = np.where(finite, low, 0.0), np.where(finite, high, 0.0)
        most = 1 + np.maximum(-ends[0], ends[1]) * gain
        widest = np.stack([_widest(ps, qs, ends) + products.off * most for ps, qs in pairs])
        far = tail_bounds(columns.noise, widest, outside) / size + (products.off + blur) * most
        finer = _divide((above[0] - far, above[1] + far), below)
        low = np.where(finite, np.maximum(low, finer[0]), low)
        high = np.where(finite, np.maximum(low, np.minimum(high, finer[1])), high)
    return low, high


def _size(values: Floats) -> Floats:
    total = values.sum(axis=0)
    return np.where(total > 0, total, 1.0)


def _ratio(xx: Band, yy: Band) -> Band:
    """The ratio of the standard deviations of y and x; 1 where one of them may be 0, and then nothing rests on it."""
    sure = (xx[0] > 0) & (yy[0] > 0)
    low, high = (np.sqrt(np.where(sure, a, 1.0) / np.where(sure, b, 1.0)) for a, b in ((yy[0], xx[1]), (yy[1], xx[0])))
    return low, high


def _mix(ratio: Band, ps: Band, qs: Band, *, any_sign: bool = False) -> Band:
    """The range of (l p + q / l) / 2 for l, p and q in their bands; for positive p and q it is convex in l."""
    ends = [(much * p + q / less) / 2 for much in ratio for less in ratio for p in ps for q in qs]
    if any_sign:
        return np.min(ends, axis=0), np.max(ends, axis=0)
    sure = (ps[0] > 0) & (qs[0] > 0)
    best = np.clip(np.sqrt(np.where(sure, qs[0], 1.0) / np.where(sure, ps[0], 1.0)), *ratio)
    return np.where(sure, (best * ps[0] + qs[0] / best) / 2, 0.0), np.max(ends, axis=0)


def _widest(ps: Band, qs: Band, slopes: Band) -> Floats:
    """The largest |p - b q| for p, q and b in their bands."""
    falls = np.stack([b * q for b in slopes for q in qs])
    return np.asarray(np.maximum(np.abs(ps[0] - falls.max(axis=0)), np.abs(ps[1] - falls.min(axis=0))))


def _means(columns: PairCells, values: Floats, outside: float) -> tuple[Band, Band]:
    x, y = (share_bands(columns.noise, column.places, values, _MEAN * outside) for column in (columns.x, columns.y))
    return x, y


def _variance(column: ColumnCells, values: Floats, mean: Band, outside: float) -> Band:
    products = tied_products(column)
    return covariance_bands(column.noise, products, values, mean, mean, outside)


def _firm(column: ColumnCells, values: Floats) -> Floats:
    """Variances as shares, but no less than one noise scale over the total: less is indistinguishable from 0."""
    scale = float(column.noise.scale)
    total = np.maximum(np.maximum(values, 0.0).sum(axis=0), scale)
    return np.asarray(np.maximum(tied_products(column).values(values), scale / total))


def _divide(above: Band, below: Band) -> Band:
    """Quotients of two bands; everything where the divisor may be 0."""
    sure = below[0] > 0
    divisors = [np.where(sure, end, 1.0) for end in below]
    values = np.stack([end / divisor for end in above for divisor in divisors])
    return np.where(sure, values.min(axis=0), -np.inf), np.where(sure, values.max(axis=0), np.inf)


def _at(column: ColumnCells, band: Band) -> Band:
    off = column.rounding * STEP
    return at_share(column, band[0] - off), at_share(column, band[1] + off)


def _hull(band: Band, values: Floats) -> Band:
    return np.minimum(band[0], values), np.maximum(band[1], values)


def _width(bounds: Enclosure) -> float:
    return float(bounds[1] - bounds[0])


_CELLS = 9


@dataclass(frozen=True, slots=True, init=False, repr=False)
class PairMoments(MomentsMechanism):
    """The covariance, the correlation and the least-squares line of two bounded columns, released together.

    Use:        how two bounded columns are related; also gives the mean and the variance of each. Fewer cells would
                serve a covariance alone (2 x 2) or a slope alone (3 x 2), but gain less than 20 % there.
    Law:        the cells (see above) + Z, Z as in `Mean`; with the shares p_ij of the cells, negative ones taken as
                0, and places c, d = 0, 1/2, 1: mean of x = sum c_i p_ij, mean of x y = sum c_i d_j p_ij, mean
                of x^2 = sum_j p_2j, covariance = mean of x y - mean of x times mean of y, then scaled to the bounds.
    Guarantee:  pure DP with epsilon (or rho-zCDP) when all rows of one unit are added or removed, at most k =
                `rows_per_unit` of them; a unit of n > k rows may be scaled down to floor(cell k / n), but one cell to
                k M minus the others. Also with no rows at all.
    Error:      |covariance error| <= (range of x) (range of y) 4.5 q / (n M - 9 q) where q bounds all |Z_ij|: `error`.
                Afterwards the intervals of `PairRelease`, valid for every n.
    Proof:      lemma (sensitivity), then the Laplace (Gaussian) mechanism. Error: the derivative of the covariance v by
                cell (i, j) is ((c_i - m)(d_j - k) - v) / S with means m, k and S the sum of the cells; |c_i - m| sum to
                at most 3/2, |d_j - k| as well, and |v| <= 1/4, so the absolute values sum to at most 4.5 / S. Cutting a
                cell at 0 only brings it nearer to the truth; S never falls below n M - 9 q on the way.
    Figure:     `round(PairMoments(epsilon=1, x_bounds=(0, 1), y_bounds=(0, 1)).error(0.95, rows=1000), 4)` = 0.0244
    Checked by: tests/mechanisms/moments/test_pair_moments.py
    """

    x_bounds: tuple[Fraction, Fraction]
    y_bounds: tuple[Fraction, Fraction]

    def __init__(
        self, *, x_bounds: Bounds, y_bounds: Bounds, epsilon: Given = None, rho: Given = None, rows_per_unit: int = 1
    ) -> None:
        x, y = read_bounds(x_bounds, LARGEST_TO_SQUARE), read_bounds(y_bounds, LARGEST_TO_SQUARE)
        self._set(x_bounds=x, y_bounds=y)
        self._set_noise(epsilon, rho, rows_per_unit)

    def __call__(self, x: Any, y: Any) -> PairRelease:
        return self.release(self.cells(x, y))

    @property
    def column(self) -> PairCells:
        return PairCells(self.noise, self.x_bounds, self.y_bounds)

    def cells(self, x: Any, y: Any) -> tuple[int, ...]:
        """The sums of the cells of these rows, exactly; those of one x cell stand next to each other."""
        totals = [0] * _CELLS
        for a, b in zip_longest(steps(x, self.x_bounds), steps(y, self.y_bounds)):
            if a is None or b is None or a.size != b.size:
                raise Misconfigured("`x` and `y` must be columns of the same length. Pass one value of each per row.")
            cells = row_cells(a, b)
            totals = [total + int(cell.sum()) for total, cell in zip(totals, cells, strict=True)]
        return tuple(totals)

    def release(self, cells: Any) -> PairRelease:
        return PairRelease(add_noise(cells, self.noise, _CELLS), self)

    def error(self, confidence: Number = 0.95, *, rows: int) -> float:
        """With this probability the covariance is off by at most this, if there are at least `rows` rows."""
        size, bound = count(rows, "rows") * GRID, self.noise.error(confidence, simultaneous=_CELLS)
        area = self.column.area
        if size <= _CELLS * bound:
            return area / 2
        return area * min(0.5, 4.5 * bound / (size - _CELLS * bound) + 6 * ROUNDING * STEP)


@dataclass(frozen=True, slots=True, repr=False)
class PairRelease(GroupRelease):
    """Released cells of two columns, as one group."""

    mechanism: PairMoments

    @property
    def covariance(self) -> float:
        return self._value(covariances)

    @property
    def correlation(self) -> float:
        return self._value(correlations)

    @property
    def slope(self) -> float:
        return self._value(slopes)

    @property
    def intercept(self) -> float:
        return self._value(intercepts)

    def covariance_interval(self, confidence: Number = 0.95) -> Ends:
        """Holds the covariance of the clipped rows with this probability."""
        return self._interval(covariance_intervals, confidence)

    def correlation_interval(self, confidence: Number = 0.95) -> Ends:
        """Holds the correlation of the clipped rows with this probability, if they have one."""
        return self._interval(correlation_intervals, confidence)

    def slope_interval(self, confidence: Number = 0.95) -> Ends:
        """Holds the slope of y over x with this probability, if the rows have one."""
        return self._interval(slope_intervals, confidence)

    def intercept_interval(self, confidence: Number = 0.95) -> Ends:
        """Holds the intercept of the same line with this probability, if the rows have one."""
        return self._interval(intercept_intervals, confidence)


def row_cells(a: Steps, b: Steps) -> list[Steps]:
    """The cells of each row from its grid steps: what an engine computes."""
    cells, (lowest, _, highest) = [], _axis_cells(b)
    for share in _axis_cells(a):
        first, last = share * lowest >> 30, share * highest >> 30
        cells += [first, share - first - last, last]
    return cells


def _axis_cells(a: Steps) -> tuple[Steps, Steps, Steps]:
    square = a * a >> 30
    return GRID - 2 * a + square, 2 * (a - square), square
