"""Soft histograms: rows become steps on a grid, cells get noise, and noisy cells give means, counts and sums.

A row is cut to its bounds and put on the grid 0..M as an integer; no message shows a row. `add_noise` is the only step
that costs privacy. Noisy cells come as one array per cell, one entry per group: int64, or Python integers where those
do not fit. What reads them is post-processing, accepts any noisy cells, and returns float64 arrays of the same length.

Rounding. A row's place on the grid is off by less than one step, and the cells of a unit that was scaled down
(`Mean`) by less than one more for each row that it still counts for: together r = 2 steps, more for pairs. So the
sum of n rows is off by less than r n (high - low) / M, where n M is again a sum of cells: the ends of an interval take
it into their weights.
Checked by: tests/mechanisms/moments/test_moment_values.py, tests/mechanisms/moments/test_moment_rows.py
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import index
from typing import Any, ClassVar

import numpy as np

from lapwing.arrays import Array, Floats, Integers
from lapwing.errors import Misconfigured
from lapwing.mechanisms.additive.gaussian import Gaussian
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.additive.tails import Band, Ends, share_bands, tail_bound
from lapwing.mechanisms.mechanism import FrozenValue, Given, read_interval, share_outside
from lapwing.numbers import Number, count, shown
from lapwing.privacy.loss import ZCDP, Approximate, Pure
from lapwing.privacy.neighbours import Neighbours

GRID = 1 << 30
"""M: every row spreads this many steps over its cells."""
STEP = 1.0 / GRID

CellArrays = Sequence[Array]
"""One array of noisy integers a cell, with one entry per group."""

Steps = Integers

LARGEST = Fraction(10) ** 300
"""The largest bound of a value that is only summed."""
LARGEST_TO_SQUARE = Fraction(10) ** 100
"""The largest bound of a value that is also squared or divided by, so that the result fits float64."""

_CHUNK = 1 << 20
_NARROWEST = Fraction(1, 1 << 20)  # hi - lo against the larger bound: float64 then places a row within one step
_FARTHEST = 1 << 200  # no cell gets there; a float64 can hold its square


@dataclass(frozen=True, slots=True)
class ColumnCells:
    """How noisy cells describe a column: the noise of each, the bounds of the rows, and how rows fill the cells."""

    noise: Laplace | Gaussian
    bounds: tuple[Fraction, Fraction]
    places: tuple[float, ...]
    """Where each cell stands between the bounds, 0 to 1, symmetric about 1/2."""
    squares: tuple[float, ...] = ()
    """What each cell adds to the sum of squares of places, if it is in the cells."""
    rounding: int = 2
    """The place of a row is off by less than this many steps."""


@dataclass(frozen=True, slots=True, init=False, repr=False)
class MomentsMechanism(FrozenValue, ABC):
    """Base of mechanisms over soft histograms: how many rows a unit may have, and the noise of a cell."""

    neighbours: ClassVar[Neighbours] = Neighbours.ADD_OR_REMOVE

    rows_per_unit: int
    noise: Laplace | Gaussian

    @property
    def loss(self) -> Pure | ZCDP | Approximate:
        return self.noise.loss

    @property
    @abstractmethod
    def column(self) -> Any:
        """How noisy cells are read."""

    def _set_noise(self, epsilon: Given, rho: Given, rows_per_unit: int) -> None:
        """Laplace noise for a price in epsilon, Gaussian for one in rho."""
        rows = count(rows_per_unit, "rows_per_unit")
        sensitivity = rows * GRID
        if epsilon is not None and rho is None:
            self._set(rows_per_unit=rows, noise=Laplace(epsilon=epsilon, sensitivity=sensitivity))
        elif rho is not None and epsilon is None:
            self._set(rows_per_unit=rows, noise=Gaussian(rho=rho, sensitivity=sensitivity))
        else:
            raise Misconfigured("pass either `epsilon` for pure DP, or `rho` for zCDP.")


@dataclass(frozen=True, slots=True, repr=False)
class GroupRelease(FrozenValue):
    """The noisy cells of a single group, read as those of many."""

    cells: tuple[int, ...]
    mechanism: Any

    @property
    def count(self) -> float:
        return float(counts(self._arrays)[0])

    @property
    def _arrays(self) -> CellArrays:
        return [np.array([cell], object) for cell in self.cells]

    def _value(self, statistic: Callable[..., Floats], **terms: bool) -> float:
        return float(statistic(self.mechanism.column, self._arrays, **terms)[0])

    def _interval(self, intervals: Callable[..., Band], confidence: Number) -> Ends:
        low, high = intervals(self.mechanism.column, self._arrays, confidence)
        return float(low[0]), float(high[0])


def means(column: ColumnCells, cells: CellArrays) -> Floats:
    """Within the bounds. Negative cells count as 0; if no cell is above 0, the middle of the bounds."""
    kept = np.maximum(as_floats(cells), 0.0)
    total = kept.sum(axis=0)
    share = np.array(column.places) @ kept / np.where(total > 0, total, 1.0)
    return at_share(column, np.where(total > 0, share, 0.5))


def counts(cells: CellArrays) -> Floats:
    """Numbers of rows; unbiased, so they may be negative or fractional."""
    whole, rest = np.sum([cell >> 30 for cell in cells], axis=0), np.sum([cell & (GRID - 1) for cell in cells], axis=0)
    return _as_floats(whole) + _as_floats(rest) / GRID


def sums(column: ColumnCells, cells: CellArrays) -> Floats:
    """Sums of the clipped rows; unbiased."""
    return _weights(column, 0.0) @ as_floats(cells)


def mean_intervals(column: ColumnCells, cells: CellArrays, confidence: Number = 0.95, *, simultaneous: int = 1) -> Band:
    """Each holds the mean of the clipped rows of its group with this probability; of no rows, any one value.

    With `simultaneous`, all of that many intervals hold at once with this probability.
    """
    low, high = share_bands(column.noise, column.places, as_floats(cells), share_outside(confidence, simultaneous))
    best, off = means(column, cells), column.rounding * STEP
    return np.minimum(at_share(column, low - off), best), np.maximum(at_share(column, high + off), best)


def count_intervals(
    column: ColumnCells, cells: CellArrays, confidence: Number = 0.95, *, simultaneous: int = 1
) -> Band:
    """Each holds the number of rows of its group with this probability; the ends are whole numbers."""
    return count_bands(column.noise, cells, share_outside(confidence, simultaneous))


def sum_intervals(column: ColumnCells, cells: CellArrays, confidence: Number = 0.95, *, simultaneous: int = 1) -> Band:
    """Each holds the sum of the clipped rows of its group with this probability.

    A sum is a weighted sum of the true cells, up to rounding (see above), so it is off by a weighted sum of noises.
    Each end leaves out half: the noise is symmetric.
    """
    outside, values = share_outside(confidence, simultaneous), as_floats(cells)
    ends = []
    for sign in (-1, 1):
        weights = _weights(column, sign * column.rounding * STEP)
        far = tail_bound(column.noise, tuple(weights.tolist()), outside) * (1 + 1e-9)
        ends.append(weights @ values + sign * (far + 2.0**-48 * (np.abs(weights) @ np.abs(values))))
    least, most = (0.0 if column.bounds[0] >= 0 else -np.inf), (0.0 if column.bounds[1] <= 0 else np.inf)
    return np.clip(np.minimum(*ends), least, most), np.clip(np.maximum(*ends), least, most)


def count_bands(noise: Laplace | Gaussian, cells: CellArrays, outside: float) -> Band:
    """Whole numbers of rows that the noise does not rule out at this confidence."""
    number = counts(cells)
    far = tail_bound(noise, (1.0,) * len(cells), outside) / GRID * (1 + 1e-9) + 2.0**-50 * np.abs(number)
    low = np.maximum(np.ceil(number - far), 0.0)
    return low, np.maximum(np.floor(number + far), low)


def as_floats(cells: CellArrays) -> Floats:
    """One row per cell, one column per group; values beyond any possible cell are cut, so that this cannot fail."""
    return np.stack([_as_floats(cell) for cell in cells])


def at_share(column: ColumnCells, share: Floats) -> Floats:
    """The values at these shares of the range, never outside the bounds."""
    low, high = map(float, column.bounds)
    return np.clip(low + (high - low) * share, low, high)


def _as_floats(cell: Array) -> Floats:
    if cell.dtype != object:
        return cell.astype(np.float64)
    return np.array([float(min(max(value, -_FARTHEST), _FARTHEST)) for value in cell.tolist()], np.float64)


def _weights(column: ColumnCells, more: float) -> Floats:
    """The weight of a step of each cell in the sum, if rows may be off by this share of the range."""
    low, high = map(float, column.bounds)
    return (low + (high - low) * (np.array(column.places) + more)) / GRID


def steps(values: Any, bounds: tuple[Fraction, Fraction]) -> Iterator[Steps]:
    """a for each row, in pieces: the row cut to the bounds and put on the grid 0..M. NaN is refused."""
    low, high = map(float, bounds)
    rows = _rows(values)
    for start in range(0, rows.size, _CHUNK):
        part = np.clip(rows[start : start + _CHUNK].astype(np.float64), low, high)
        if np.isnan(part).any():
            raise Misconfigured("a value is NaN. Drop such rows first.")
        yield np.clip(np.rint((part - low) * (GRID / (high - low))).astype(np.int64), 0, GRID)


def add_noise(cells: Any, noise: Laplace | Gaussian, size: int) -> tuple[int, ...]:
    try:
        true = [index(cell) for cell in cells]
    except TypeError:
        raise Misconfigured("`cells` must be whole numbers. Pass what the `cells` method returns.") from None
    if len(true) != size:
        raise Misconfigured(f"`cells` has {len(true)} entries; this mechanism has {size}. Pass what `cells` returns.")
    return tuple(cell + z for cell, z in zip(true, noise.draw(size).tolist(), strict=True))


def read_bounds(bounds: object, limit: Fraction) -> tuple[Fraction, Fraction]:
    """Bounds between which float64 places a row within one step; `limit` is the largest magnitude allowed."""
    low, high = read_interval(bounds)
    largest = max(abs(low), abs(high))
    if high - low < largest * _NARROWEST or not 1 / limit < largest < limit:
        raise Misconfigured(
            f"`bounds` are {shown(bounds)}; float64 cannot tell enough values between them apart. "
            "Subtract a constant, or change the unit of measurement."
        )
    return low, high


def _rows(values: Any) -> Array:
    """The rows as a flat array of numbers. No message shows a row."""
    if hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__"):
        values = np.asarray(values)
    if not isinstance(values, np.ndarray):
        try:
            values = np.array(values, np.float64)
        except (TypeError, ValueError, OverflowError):
            raise Misconfigured("`values` holds what is not a number. Pass a list or an array of numbers.") from None
    if values.ndim != 1 or values.dtype.kind not in "iuf":
        raise Misconfigured("`values` must be one column of integers or floats. Pass a flat list or array.")
    return np.asarray(values)
