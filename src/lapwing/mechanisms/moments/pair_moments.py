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
Checked by: tests/mechanisms/moments/test_pair_moments.py
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import zip_longest
from typing import Any

from lapwing.errors import Misconfigured
from lapwing.mechanisms.additive.tails import Ends
from lapwing.mechanisms.moments import regression
from lapwing.mechanisms.moments.moment_values import (
    GRID,
    LARGEST_TO_SQUARE,
    STEP,
    GroupRelease,
    MomentsMechanism,
    Steps,
    add_noise,
    read_bounds,
    steps,
)
from lapwing.numbers import Number, count

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
                Afterwards the intervals of regression.py, valid for every n.
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
        self,
        *,
        x_bounds: tuple[Number, Number],
        y_bounds: tuple[Number, Number],
        epsilon: Number | None = None,
        rho: Number | None = None,
        rows_per_unit: int = 1,
    ) -> None:
        x, y = read_bounds(x_bounds, LARGEST_TO_SQUARE), read_bounds(y_bounds, LARGEST_TO_SQUARE)
        self._set(x_bounds=x, y_bounds=y)
        self._set_noise(epsilon, rho, rows_per_unit)

    def __call__(self, x: Any, y: Any) -> PairRelease:
        return self.release(self.cells(x, y))

    @property
    def column(self) -> regression.PairCells:
        return regression.PairCells(self.noise, self.x_bounds, self.y_bounds)

    def cells(self, x: Any, y: Any) -> tuple[int, ...]:
        """The sums of the cells of these rows, exactly; those of one x cell stand next to each other."""
        totals = [0] * _CELLS
        for a, b in zip_longest(steps(x, self.x_bounds), steps(y, self.y_bounds)):
            if a is None or b is None or a.size != b.size:
                raise Misconfigured(
                    "`x` and `y` must be columns of the same length. Pass one value of each for per row."
                )
            cells = row_cells(a, b)
            totals = [total + int(cell.sum()) for total, cell in zip(totals, cells, strict=True)]
        return tuple(totals)

    def release(self, cells: Any) -> PairRelease:
        return PairRelease(add_noise(cells, self.noise, _CELLS), self)

    def error(self, confidence: Number = 0.95, *, rows: int) -> float:
        """With this probability the covariance is off by at most this, if there are at least `rows` rows."""
        size, bound, area = (
            count(rows, "rows") * GRID,
            self.noise.error(confidence, simultaneous=_CELLS),
            self.column.area,
        )
        if size <= _CELLS * bound:
            return area / 2
        return area * min(0.5, 4.5 * bound / (size - _CELLS * bound) + 6 * regression.ROUNDING * STEP)


@dataclass(frozen=True, slots=True, repr=False)
class PairRelease(GroupRelease):
    """Released cells of two columns, as one group."""

    mechanism: PairMoments

    @property
    def covariance(self) -> float:
        return self._value(regression.covariances)

    @property
    def correlation(self) -> float:
        return self._value(regression.correlations)

    @property
    def slope(self) -> float:
        return self._value(regression.slopes)

    @property
    def intercept(self) -> float:
        return self._value(regression.intercepts)

    def covariance_interval(self, confidence: Number = 0.95) -> Ends:
        """Holds the covariance of the clipped rows with this probability."""
        return self._interval(regression.covariance_intervals, confidence)

    def correlation_interval(self, confidence: Number = 0.95) -> Ends:
        """Holds the correlation of the clipped rows with this probability, if they have one."""
        return self._interval(regression.correlation_intervals, confidence)

    def slope_interval(self, confidence: Number = 0.95) -> Ends:
        """Holds the slope of y over x with this probability, if the rows have one."""
        return self._interval(regression.slope_intervals, confidence)

    def intercept_interval(self, confidence: Number = 0.95) -> Ends:
        """Holds the intercept of the same line with this probability, if the rows have one."""
        return self._interval(regression.intercept_intervals, confidence)


def row_cells(a: Steps, b: Steps) -> list[Steps]:
    """The cells of each row from its grid steps: what an engine computes."""
    found, (lowest, _, highest) = [], _axis_cells(b)
    for share in _axis_cells(a):
        first, last = share * lowest >> 30, share * highest >> 30
        found += [first, share - first - last, last]
    return found


def _axis_cells(a: Steps) -> tuple[Steps, Steps, Steps]:
    square = a * a >> 30
    return GRID - 2 * a + square, 2 * (a - square), square
