"""Rows on a declared axis, and their ranks: what quantiles read.

An axis is a finite set of points low, low + step, ..., declared before any row is seen. A row goes to the point next to
its value, and to an end if it lies outside: a function of that row alone. So one row more or less in the data is one
row more or less on the axis, and no sensitivity grows. Rounding in float64 may send a row that lies between two points
to either of them; it is the same function for every data set.
A missing value, NaN or text is a bug in the caller and is refused; no message shows it.

A quantile is a rank T among the rows, such as q n. A cell with `below` rows before it and `up_to` rows up to its end is
off T by max(below - T, T - up_to, 0), its loss. Cells between two neighbouring values have the same loss, so the axis
is cut into pieces: the exponential law takes a piece by its number of cells, and then one of its cells uniformly.
Checked by: tests/mechanisms/quantiles/test_axis.py, tests/mechanisms/quantiles/test_single_quantile.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np

from lapwing.arrays import Array, Floats, Integers
from lapwing.errors import Misconfigured
from lapwing.mechanisms.mechanism import FrozenValue, read_pair
from lapwing.mechanisms.scores import number_array
from lapwing.noise import uniform_integer
from lapwing.noise.exponential_race import sample_race
from lapwing.numbers import Number, exact, positive

MOST_ROWS = 1 << 42
MOST_WEIGHT = 1 << 61
"""The largest weight of a histogram: 2 10^12 rows. With ranks and margins up to that, every loss fits int64."""
_MOST_POINTS = 1 << 62
_LARGEST_INTEGER = np.uint64((1 << 63) - 1)
_DENSE = 1 << 22  # up to this many points are counted in a table; more are sorted
LARGEST = Fraction(10**300)
"""Numbers within are ordinary float64."""


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """How many rows lie at which points: `cells` are distinct places on an axis, ascending; `counts` are above 0."""

    cells: Integers
    counts: Integers

    @property
    def rows(self) -> int:
        return int(self.counts.sum())


@dataclass(frozen=True, slots=True, init=False, repr=False)
class PointAxis(FrozenValue):
    """The points low + k step, k = 0 .. size - 1. `whole`: the rows are integers, and so are the points."""

    low: Fraction
    step: Fraction
    size: int
    whole: bool

    def __init__(self, bounds: tuple[Number, Number], step: Number | None) -> None:
        low, high = read_pair(bounds)
        if low > high:
            raise Misconfigured(f"`bounds` are {bounds}; the lower bound exceeds the upper bound. Swap them.")
        whole = step is None
        if whole and not (low.denominator == high.denominator == 1):
            raise Misconfigured("`bounds` are not whole numbers; declare the spacing of the points, such as step=0.1.")
        width = Fraction(1) if step is None else positive(step, "step")
        steps = (high - low) / width
        if steps.denominator != 1:
            raise Misconfigured(f"`step` is {step}; the bounds must be a whole number of steps apart. Widen them.")
        if steps >= _MOST_POINTS or (whole and max(abs(low), abs(high)) >= _MOST_POINTS):
            raise Misconfigured("`bounds` are too far apart or too large; at most 2^62 points fit. Use a larger step.")
        if max(abs(low), abs(high), 1 / width) > LARGEST:
            raise Misconfigured("`bounds` or `step` are too large for a float. Use another unit.")
        self._set(low=low, step=width, size=int(steps) + 1, whole=whole)

    def point(self, place: int) -> int | float:
        """The value at this place: an int if the rows are, else a float."""
        value = self.low + place * self.step
        return int(value) if self.whole else float(value)

    def tally(self, values: object, counts: object | None = None) -> Tally:
        """Counts rows: `values` holds one entry per row, or with `counts` any values and how many rows have each."""
        places = self.places(values)
        return _count(places, self.size) if counts is None else add_weights(places, _weights(counts, places.size))

    def places(self, rows: object) -> Integers:
        values = _array(rows)
        if not values.size:  # without rows there is no type to check
            return np.zeros(0, np.int64)
        match values.dtype.kind:
            case "i" | "u" if self.whole:
                whole = np.minimum(values, _LARGEST_INTEGER) if values.dtype == np.uint64 else values
                low = int(self.low)
                return np.clip(whole.astype(np.int64), low, low + self.size - 1) - low
            case "i" | "u" | "f" if not self.whole:
                return self._from_floats(values.astype(np.float64))
            case "f":
                raise Misconfigured("the values are reals; declare the spacing of the points, for example step=0.1.")
            case "O":
                return self._from_each(values.tolist())
            case _:
                raise _unreadable()

    def _from_floats(self, values: Floats) -> Integers:
        if np.isnan(values).any():
            raise _unreadable()
        low, high = float(self.low), float(self.low + (self.size - 1) * self.step)
        places = np.rint((np.clip(values, low, high) - low) / float(self.step))
        return np.clip(places, 0, _MOST_POINTS).astype(np.int64).clip(0, self.size - 1)

    def _from_each(self, values: list[Any]) -> Integers:
        """One number at a time: the slow path that reads everything."""
        try:
            steps = [(exact(value, "values") - self.low) / self.step for value in values]
        except Misconfigured:
            raise _unreadable() from None  # the first message shows the value
        if self.whole and any(step.denominator != 1 for step in steps):
            raise _unreadable()
        return np.array([min(max(round(step), 0), self.size - 1) for step in steps], np.int64)


def add_weights(places: Integers, weights: Integers) -> Tally:
    """The total weight at each place; places without any weight are left out."""
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    first = np.flatnonzero(np.diff(ordered, prepend=-1))
    counts = np.add.reduceat(weights[order], first) if first.size else weights
    return Tally(ordered[first][counts > 0], counts[counts > 0])


def read_counted(
    places: object, counts: object, names: tuple[str, str], size: int | None = None
) -> tuple[Integers, Integers]:
    """Places, below `size`, and how much lies at each; `names` are those of the two parameters."""
    where, weights = whole_numbers(places), whole_numbers(counts)
    if where.shape != weights.shape:
        one, other = (name.removesuffix("s") for name in names)
        raise Misconfigured(f"`{names[0]}` and `{names[1]}` have different lengths. Pass one {other} for each {one}.")
    if size is not None and where.size and (where.min() < 0 or where.max() >= size):
        raise Misconfigured(f"a cell lies outside 0 to {size - 1}. Clip values to the bounds before counting them.")
    if weights.size and (weights.min() < 0 or float(weights.sum(dtype=np.float64)) >= MOST_WEIGHT):
        raise Misconfigured(f"`{names[1]}` must not be negative, nor add up to 2^61 or more.")
    return where, weights


def whole_numbers(values: object) -> Integers:
    """The counts of an engine as int64; an empty list has no type to check."""
    refusal = Misconfigured("what was counted must be a flat list or array of whole numbers below 2^63.")
    try:
        array = _array(values)
        if array.dtype.kind == "O" and all(isinstance(v, Integral) and not isinstance(v, bool) for v in array):
            array = np.array([int(v) for v in array], np.int64)
    except (Misconfigured, OverflowError):
        raise refusal from None
    if array.size and (array.dtype.kind not in "iu" or array.max() > np.iinfo(np.int64).max):
        raise refusal
    return array.astype(np.int64)


def _array(values: object) -> Array:
    if isinstance(values, str | bytes) or not (isinstance(values, Sequence) or hasattr(values, "__array__")):
        raise _unreadable()
    array = number_array(values)
    if array.dtype == object and set(map(type, array)) == {int, float}:
        with suppress(OverflowError):  # beyond float64, numbers are read one at a time
            array = array.astype(np.float64)
    if array.ndim != 1:
        raise Misconfigured("the values must be a plain list, one number per row. Pass a list or a flat array.")
    return array


def _weights(counts: object, size: int) -> Integers:
    array = _array(counts)
    if array.size and array.dtype.kind not in "iu":
        raise Misconfigured("`counts` are not integers; pass how many rows have each value.")
    if array.size != size:
        raise Misconfigured("`values` and `counts` have different lengths. Pass one count for each value.")
    if array.size and (array.min() < 0 or array.max() > MOST_ROWS or float(array.sum(dtype=np.float64)) > MOST_ROWS):
        raise Misconfigured("`counts` must not be negative, nor add up to more than 2^42 rows.")
    return array.astype(np.int64)


def _count(places: Integers, size: int) -> Tally:
    if size <= _DENSE:
        table = np.bincount(places)
        cells = np.flatnonzero(table).astype(np.int64, copy=False)
        return Tally(cells, table[cells].astype(np.int64, copy=False))
    ordered = np.sort(places)
    first = np.flatnonzero(np.diff(ordered, prepend=-1))
    return Tally(ordered[first], np.diff(first, append=ordered.size))


def _unreadable() -> Misconfigured:
    return Misconfigured(
        "some values do not fit the axis; every row must be a number, and an integer unless `step` is declared. "
        "Drop rows without one."
    )


FINEST = 10**6
"""The largest denominator of a quantile: with at most 2^42 rows every loss fits into int64."""


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """The pieces of an axis whose cells all have the same rank: the gaps, and the values by themselves.

    `below` and `up_to` are how many rows lie below a cell of the piece, and how many at or below it.
    """

    starts: Integers
    lengths: Integers
    below: Integers
    up_to: Integers

    def losses(self, rank: int, scale: int = 1) -> Integers:
        """The loss of each piece times `scale`, for the rank T = rank / scale."""
        return rank_losses(self.below * scale, self.up_to * scale, rank)

    def each(self, losses: Integers) -> Integers:
        """The loss of every cell, in order, from those of the pieces."""
        order = np.argsort(self.starts, kind="stable")  # two ascending runs: fast
        return np.repeat(losses[order], self.lengths[order])

    def draw(self, losses: Integers, rate: Fraction) -> tuple[int, int]:
        """A piece and a cell of it: P[cell] proportional to exp(-rate loss)."""
        (piece,) = sample_race(losses, rate, self.lengths)
        return piece, int(self.starts[piece]) + uniform_integer(int(self.lengths[piece]))


def pieces(tally: Tally, size: int) -> Pieces:
    """Cuts an axis of this many cells where the ranks change; gaps without cells are left out."""
    up_to = np.cumsum(tally.counts)
    ends = np.concatenate([np.array([-1]), tally.cells, np.array([size])])
    gaps = np.diff(ends) - 1
    ranks = np.concatenate([np.zeros(1, np.int64), up_to])
    some = gaps > 0
    starts = np.concatenate([ends[:-1][some] + 1, tally.cells])
    lengths = np.concatenate([gaps[some], np.ones_like(tally.cells)])
    return Pieces(starts, lengths, np.concatenate([ranks[some], ranks[:-1]]), np.concatenate([ranks[some], up_to]))


def rank_losses(below: Integers, up_to: Integers, rank: int) -> Integers:
    return np.maximum(np.maximum(below - rank, rank - up_to), 0)


def read_quantiles(at: object, read: Callable[[object], Fraction]) -> tuple[Fraction, ...]:
    if isinstance(at, str | bytes) or not isinstance(at, Sequence) or not at:
        raise Misconfigured("`at` must be a list of quantiles, such as at=[0.25, 0.5, 0.75].")
    quantiles = tuple(read(quantile) for quantile in at)
    if any(low >= high for low, high in pairwise(quantiles)):
        raise Misconfigured("`at` is not ascending; pass each quantile once, smallest first.")
    return quantiles
