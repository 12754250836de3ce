"""Variances and covariances of many groups from noisy cells, with their intervals.

Let m, k be the true means of x and y as shares of their ranges, and v the true covariance (the variance if y is x).
With a cell's places c, d and its product place e (what it adds to the sum of x y),
    N(m, k) - v T = sum over cells of (e - k c - m d + m k - v) Y,     N and T sums of noisy cells,
is a weighted sum of noises alone: in the true cells it is 0. So, except with the probabilities that are left out, m and
k lie in their bands (additive/tails.py) and |N(m, k) - v T| stays within the tail bound of its noise. What follows is
arithmetic: the weights are bounded over the bands and over what is known of v, which gives a tail bound, which gives a
narrower range of v; a few rounds are enough, and each is valid since the true values stay inside.
At the start |v| <= sqrt(m (1 - m) k (1 - k)), which holds for all numbers in [0, 1] and for the cells as well.
Where the noisy total is not above 0 nothing more follows.

Rounding. If places are off by less than r steps and products by less than 4 r, then a covariance is off by less than
6 r steps: a product of two means by less than 2 r. For three cells of one column r = 2: squares lose less than 2 by the
place, 1 by the floor and 1 by scaling down.
Checked by: tests/mechanisms/moments/test_spread.py
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lapwing.arrays import Floats
from lapwing.mechanisms.additive.gaussian import Gaussian
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.additive.tails import Band, share_bands, tail_bounds
from lapwing.mechanisms.mechanism import share_outside
from lapwing.mechanisms.moments.moment_values import STEP, CellArrays, ColumnCells, as_floats, count_bands, counts
from lapwing.numbers import Number

_ROUNDS = 3
_MOST_SAMPLE = 0.5  # two rows, one on each bound: n / (n - 1) times 1 / 4


@dataclass(frozen=True, slots=True)
class Products:
    """The places of cells for two columns x and y and for their product; `tied` if y is x."""

    x: tuple[float, ...]
    y: tuple[float, ...]
    both: tuple[float, ...]
    tied: bool
    rounding: int

    @property
    def off(self) -> float:
        """How far rounding moves a covariance, as a share."""
        return 6 * self.rounding * STEP

    @property
    def least(self) -> float:
        return 0.0 if self.tied else -0.25

    def sums(self, cells: Floats, size: Floats) -> list[Floats]:
        """(both, x, y) of all cells, divided by these sizes."""
        return [np.array(place) @ cells / size for place in (self.both, self.x, self.y)]

    def ranges(self, sums: list[Floats], xs: Band, ys: Band) -> Band:
        """The least and the greatest of both - k x - m y + m k over m in xs and k in ys; with k = m if tied.

        Bilinear, so extreme at corners; tied, a parabola in m with its least value at m = x.
        """
        both, x, y = sums
        corners = [(m, m) for m in (*xs, np.clip(x, *xs))] if self.tied else [(m, k) for m in xs for k in ys]
        values = np.stack([both - k * x - m * y + m * k for m, k in corners])
        return values.min(axis=0), values.max(axis=0)

    def middle(self, cells: Floats, x: Band, y: Band) -> Band:
        """The covariance in the noisy cells, over the bands of the means."""
        total = cells.sum(axis=0)
        return self.ranges(self.sums(cells, np.where(total > 0, total, 1.0)), x, y)

    def weights(self, x: Band, y: Band) -> list[Band]:
        """The weight of each cell in it."""
        places = zip(self.both, self.x, self.y, strict=True)
        return [self.ranges([np.array([place]) for place in cell], x, y) for cell in places]

    def values(self, cells: Floats) -> Floats:
        """Covariances as shares, negative cells taken as 0; half the largest, or 0, if no cell is above 0."""
        kept = np.maximum(cells, 0.0)
        total = kept.sum(axis=0)
        size = np.where(total > 0, total, 1.0)
        both, x, y = self.sums(kept, size)
        return np.where(total > 0, np.clip(both - x * y, self.least, 0.25), 0.125 if self.tied else 0.0)


def tied_products(column: ColumnCells) -> Products:
    return Products(column.places, column.places, column.squares, tied=True, rounding=column.rounding)


def variances(column: ColumnCells, cells: CellArrays, *, sample: bool = False) -> Floats:
    """Of the rows themselves (divided by n), or with `sample` divided by n - 1; never negative."""
    share = tied_products(column).values(as_floats(cells))
    return _width(column) ** 2 * (to_sample(share, counts(cells)) if sample else share)


def stddevs(column: ColumnCells, cells: CellArrays, *, sample: bool = False) -> Floats:
    return np.sqrt(variances(column, cells, sample=sample))


def variance_intervals(
    column: ColumnCells, cells: CellArrays, confidence: Number = 0.95, *, simultaneous: int = 1, sample: bool = False
) -> Band:
    """Each holds the variance of the clipped rows of its group with this probability.

    Of no rows, it holds any one possible value with this probability; of one row, 0, also with `sample`.
    """
    outside, products, values = share_outside(confidence, simultaneous), tied_products(column), as_floats(cells)
    left = 0.9 * outside if sample else outside
    means = share_bands(column.noise, column.places, values, 0.25 * left)
    band = covariance_bands(column.noise, products, values, means, means, 0.75 * left)
    if sample:
        band = sample_bands(band, count_bands(column.noise, cells, 0.1 * outside))
    best, squared = variances(column, cells, sample=sample), _width(column) ** 2
    return np.minimum(squared * band[0], best), np.maximum(squared * band[1], best)


def stddev_intervals(
    column: ColumnCells, cells: CellArrays, confidence: Number = 0.95, *, simultaneous: int = 1, sample: bool = False
) -> Band:
    """Each holds the standard deviation of its group with this probability: roots of `variance_intervals`."""
    low, high = variance_intervals(column, cells, confidence, simultaneous=simultaneous, sample=sample)
    return np.sqrt(low), np.sqrt(high)


def covariance_bands(
    noise: Laplace | Gaussian, products: Products, cells: Floats, x: Band, y: Band, outside: float
) -> Band:
    """The covariances, as shares, that remain while the means lie in their bands; see above."""
    total = cells.sum(axis=0)
    size = np.where(total > 0, total, 1.0)
    high = np.sqrt(_most_variance(x) * _most_variance(y))
    low = np.zeros(len(total)) - products.off if products.tied else -high
    middle, weights = products.middle(cells, x, y), products.weights(x, y)
    blur = 2.0**-46 * np.abs(cells).sum(axis=0) / size
    for _ in range(_ROUNDS):
        widest = np.stack([np.maximum(np.abs(least - high), np.abs(most - low)) for least, most in weights])
        far = tail_bounds(noise, widest, outside) / size + blur
        low = np.where(total > 0, np.maximum(low, middle[0] - far), low)
        high = np.maximum(low, np.where(total > 0, np.minimum(high, middle[1] + far), high))
    return np.clip(low - products.off, products.least, 0.25), np.clip(high + products.off, products.least, 0.25)


def to_sample(share: Floats, number: Floats) -> Floats:
    """n / (n - 1) times the share, for at least two rows, and never more than two rows can have."""
    number = np.maximum(number, 2.0)
    return np.clip(share * (number / (number - 1)), -_MOST_SAMPLE, _MOST_SAMPLE)


def sample_bands(band: Band, number: Band) -> Band:
    """The same for intervals: n / (n - 1) falls in n."""
    low, high = ([to_sample(end, rows) for rows in number] for end in band)
    return np.min(low, axis=0), np.max(high, axis=0)


def _most_variance(means: Band) -> Floats:
    """m (1 - m) is the most for a mean share m."""
    nearest = np.minimum(np.maximum(means[0], 0.5), means[1])
    return np.asarray(nearest * (1 - nearest))


def _width(column: ColumnCells) -> float:
    return float(column.bounds[1] - column.bounds[0])
