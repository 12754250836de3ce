"""Quantiles with intervals, from histograms that an engine counted, for many groups at once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from lapwing.arrays import Floats
from lapwing.errors import Misconfigured
from lapwing.mechanisms.mechanism import Value, read_pair
from lapwing.mechanisms.quantiles.axis import FINEST, LARGEST, read_quantiles
from lapwing.mechanisms.quantiles.grid_quantile import MOST_CELLS, UNIT, Aim, is_extreme, read_histogram
from lapwing.mechanisms.scores import at_least
from lapwing.numbers import Number, count, exact, flag, inside_unit, positive, root_down
from lapwing.privacy.loss import ZCDP, Pure

_HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class QuantileTable(Value):
    """Released quantiles: one row per group, one column per quantile; `lows` and `highs` are the interval ends.

    The confidence was fixed before the release, since it sets the ranks that the ends aim at.
    """

    values: Floats
    lows: Floats
    highs: Floats
    confidence: Fraction | None

    def intervals(self, confidence: Number = 0.95) -> tuple[Floats, Floats] | None:
        """The intervals if they hold at this confidence; None if they were released for less, or not at all."""
        asked = inside_unit(confidence, "confidence")
        return None if self.confidence is None or asked > self.confidence else (self.lows, self.highs)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class GridQuantiles(Value):
    """Releases quantiles of bounded values and an interval around each, from weights counted on a grid.

    Use:        medians, percentiles and approximate extremes (at 0 and 1) of a column, for one group or many, where an
                engine counts and the rows stay in place; for rows in memory without an interval, use Quantile. Good
                for up to about four quantiles; for more, without intervals, Quantiles errs less.
    Law:        each of the m quantiles by itself: a cell chosen by its rank at the price epsilon share / m, then a pair
                of ends around it at epsilon (1 - share) / m, both by permute-and-flip (grid_quantile.py). With rho by
                the exponential law at rho share / m, that of Quantile, and rho (1 - share) / m. Then the estimates are
                put in ascending order, and an interval that does not hold its own is widened to do so.
    Guarantee:  pure DP with epsilon and epsilon^2 (share^2 + (1 - share)^2) / (2 m)-zCDP, or rho-zCDP, for adding or
                removing one unit that adds weights of at least 0 and at most rows_per_unit 2^20 to the histogram of one
                group; the caller enforces that. A unit in g groups costs g times as much. For any number of
                rows, none included. Under zCDP pass rho: epsilon buys a quarter of what it costs there.
    Error:      `error(confidence)`: the most rows that each estimate is off its rank. The interval holds every usual
                quantile of the clipped values (QUANTILE_CONT too) with the stated confidence, each quantile by itself,
                for every number of rows; without rows, all values. Its ends aim at `margins` rows off the quantile,
                and lie up to a factor of about sqrt(2) farther from the estimate than that.
    Proof:      lemma (ranks): every loss moves by at most S, the log-weights by at most rate S = half the price. So a
                step by permute-and-flip is pure DP at its price (PermuteAndFlip, utilities that move by S), price^2 / 2
                for zCDP; one by the exponential law has a log-ratio within an interval of the length of its price
                (as in Quantile), price^2 / 8 for zCDP, and with rho the prices are sqrt(8 rho share / m), rounded down.
                The second step reads the first one's cell, an output. The prices add. Order, widening and values are
                functions of the cells.
                Interval: lemma (cover); a value in cells x to y lies between the lower edge of x and the upper edge of
                y. Widening keeps what is held.
                Share: the estimate's error falls like 1 / share, the interval's like 1 / (1 - share). At one half the
                estimate errs twice as much as without interval, sqrt(2) times with rho.
    Figure:     `round(GridQuantiles(epsilon=1, at=[0.5], bounds=(0, 120), cells=120).margins[0], 1)` = 16.4
    Checked by: tests/mechanisms/quantiles/test_grid_quantiles.py
    """

    bounds: tuple[Fraction, Fraction]
    cells: int
    at: tuple[Fraction, ...]
    rows_per_unit: int
    epsilon: Fraction | None
    rho: Fraction | None
    confidence: Fraction | None
    share: Fraction
    points: bool
    aims: tuple[Aim, ...]
    """The mechanism of each quantile."""

    def __init__(
        self,
        *,
        bounds: tuple[Number, Number],
        cells: int,
        at: Sequence[Number],
        epsilon: Number | None = None,
        rho: Number | None = None,
        rows_per_unit: int = 1,
        confidence: Number | None = 0.95,
        share: Number = _HALF,
        points: bool = False,
    ) -> None:
        """`cells` cells of equal width; with `points`, equidistant points from the lower to the upper bound.

        `confidence=None` spends the whole price on the estimates and gives no intervals.
        """
        if (epsilon is None) == (rho is None):
            raise Misconfigured("no price is given. Pass either epsilon or rho, for example epsilon=0.1.")
        self._set(points=flag(points, "points"), cells=_read_cells(cells))
        self._set(bounds=_read_bounds(bounds, self.cells, self.points), at=read_quantiles(at, _read_quantile))
        self._set(rows_per_unit=count(rows_per_unit, "rows_per_unit"))
        self._set(epsilon=None if epsilon is None else positive(epsilon, "epsilon"))
        self._set(rho=None if rho is None else positive(rho, "rho"))
        self._set(confidence=None if confidence is None else inside_unit(confidence, "confidence"))
        self._set(share=Fraction(1) if confidence is None else inside_unit(share, "share"))
        self._set(aims=self._aims())

    @property
    def loss(self) -> Pure | ZCDP:
        if self.rho is not None:
            return ZCDP(self.rho)
        many = len(self.at)
        return Pure(sum(self.prices) * many, sum(price**2 for price in self.prices) * many / 2)

    @property
    def flips(self) -> bool:
        """Whether permute-and-flip chooses, for a price in epsilon; otherwise the exponential law does."""
        return self.rho is None

    @property
    def prices(self) -> tuple[Fraction, Fraction]:
        """The epsilons of the estimate and of the interval of one quantile."""
        many = len(self.at)
        if self.epsilon is not None:
            return self.epsilon * self.share / many, self.epsilon * (1 - self.share) / many
        rho = Fraction(self.rho or 0)
        return root_down(8 * rho * self.share / many), root_down(8 * rho * (1 - self.share) / many)

    @property
    def margins(self) -> tuple[float, ...] | None:
        """How many rows off its quantile the ends of each interval aim; infinite if they are the bounds always."""
        if self.confidence is None:
            return None
        return tuple(math.inf if aim.margin is None else aim.margin / UNIT + 1 for aim in self.aims)

    def error(self, confidence: Number = 0.95) -> tuple[float, ...]:
        """With this probability each estimate, by itself, is off the rank q n by at most this many rows."""
        exact_confidence = inside_unit(confidence, "confidence")
        return tuple(at_least(Fraction(aim.off(exact_confidence) + aim.kept + 1, UNIT)) for aim in self.aims)

    def __call__(self, cells: object, weights: object) -> QuantileTable:
        """The quantiles of one histogram: which cells hold something, and how much weight in units of 2^-20 rows."""
        return self.release([(cells, weights)])

    def release(self, groups: Iterable[tuple[object, object]]) -> QuantileTable:
        """The quantiles of each group; a group is its cells and their weights, both empty for an empty group."""
        histograms = [read_histogram(cells, weights, self.cells) for cells, weights in groups]
        return self._table(
            np.array([[aim.choose(histogram) for aim in self.aims] for histogram in histograms], np.int64)
        )

    def _table(self, chosen: npt.NDArray[np.int64]) -> QuantileTable:
        """From cells to values: post-processing."""
        estimates, lows, highs = chosen.reshape(-1, len(self.at), 3).transpose(2, 0, 1)
        estimates = np.sort(estimates, axis=1)
        lows, highs = np.minimum(lows, estimates), np.maximum(highs, estimates)
        middle = Fraction(0) if self.points else _HALF
        values = self._values(estimates, middle)
        if self.confidence is None:
            nothing = np.full_like(values, np.nan)
            return QuantileTable(values, nothing, nothing, None)
        return QuantileTable(values, self._values(lows, Fraction(0)), self._values(highs, 2 * middle), self.confidence)

    def _values(self, cells: npt.NDArray[np.int64], inside: Fraction) -> Floats:
        """Where in its cell each value lies: 0 at the lower edge, 1 at the upper one."""
        low, high = self.bounds
        width = (high - low) / max(self.cells - self.points, 1)
        numbers, place = np.unique(cells, return_inverse=True)
        known = np.array([float(low + (number + inside) * width) for number in numbers.tolist()], np.float64)
        return known[place].reshape(cells.shape)

    def _aims(self) -> tuple[Aim, ...]:
        estimate, interval = self.prices
        both = {"estimate": estimate}
        if self.confidence is not None:
            both |= {"interval": interval, "confidence": self.confidence}
        return tuple(Aim(at, self.cells, self.rows_per_unit, flips=self.flips, **both) for at in self.at)


def is_approximate(at: Number) -> bool:
    """Whether a quantile is an extreme one, whose estimate keeps a distance from the last rows: name it `approx`."""
    return is_extreme(_read_quantile(at))


def _read_cells(value: object) -> int:
    cells = count(value, "cells")
    if cells > MOST_CELLS:
        raise Misconfigured(f"`cells` is {cells}; at most {MOST_CELLS} are counted. Pass fewer.")
    return cells


def _read_bounds(bounds: object, cells: int, points: bool) -> tuple[Fraction, Fraction]:
    low, high = read_pair(bounds)
    if low > high or (low == high) != (points and cells == 1):
        raise Misconfigured("the lower of `bounds` must be below the upper one, unless there is a single point.")
    if max(abs(low), abs(high)) > LARGEST:
        raise Misconfigured("`bounds` are too large for a float. Use another unit.")
    return low, high


def _read_quantile(value: object) -> Fraction:
    quantile = exact(value, "at")
    if not 0 <= quantile <= 1 or quantile.denominator > FINEST:
        raise Misconfigured(f"`at` is {value}; it must be between 0 and 1 with at most six decimals. Round it.")
    return quantile
