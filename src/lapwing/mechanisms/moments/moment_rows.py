"""Reads the parameters and rows of soft histograms; the one place where they add noise.

A row is cut to its bounds and put on the grid 0..M as an integer; no message shows a row.
Checked by: tests/mechanisms/moments/test_moment_rows.py
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt

from lapwing.errors import Misconfigured
from lapwing.mechanisms.additive.gaussian import Gaussian
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.moments.moment_values import GRID
from lapwing.numbers import Number, exact

Steps = npt.NDArray[np.int64]

LARGEST = Fraction(10) ** 300
"""The largest bound of a value that is only summed."""
LARGEST_TO_SQUARE = Fraction(10) ** 100
"""The largest bound of a value that is also squared or divided by, so that the result fits float64."""

_CHUNK = 1 << 20
_NARROWEST = Fraction(1, 1 << 20)  # hi - lo against the larger bound: float64 then places a row within one step


def steps(values: Any, bounds: tuple[Fraction, Fraction]) -> Iterator[Steps]:
    """a for each row, in pieces: the row cut to the bounds and put on the grid 0..M. NaN is refused."""
    low, high = map(float, bounds)
    rows = _rows(values)
    for start in range(0, rows.size, _CHUNK):
        part = np.clip(rows[start : start + _CHUNK].astype(np.float64), low, high)
        if np.isnan(part).any():
            raise Misconfigured("a value is NaN. Drop such rows first.")
        yield np.clip(np.rint((part - low) * (GRID / (high - low))).astype(np.int64), 0, GRID)


def add_noise(cells: Any, noise: Laplace | Gaussian, many: int) -> tuple[int, ...]:
    """Adds the noise: the only step that costs privacy."""
    try:
        true = [index(cell) for cell in cells]
    except TypeError:
        raise Misconfigured("`cells` must be whole numbers. Pass what the `cells` method returns.") from None
    if len(true) != many:
        raise Misconfigured(
            f"`cells` has {len(true)} entries; this mechanism has {many}. Pass what the `cells` method returns."
        )
    return tuple(cell + z for cell, z in zip(true, noise.draw(many).tolist(), strict=True))


def scale_down(cells: Sequence[int], rows: int, most: int, rest: int) -> tuple[int, ...]:
    """Scales the cells of a unit of `rows` rows down to `most` rows; cell number `rest` takes the remainder.

    They are at least 0 and sum to M min(rows, most): lemma (scaling) of mean.py. Engines do the same.
    """
    if rows <= most:
        return tuple(cells)
    floors = [cell * most // rows for cell in cells]
    floors[rest] += most * GRID - sum(floors)
    return tuple(floors)


def noise_for(epsilon: Number | None, rho: Number | None, sensitivity: int) -> Laplace | Gaussian:
    """Laplace noise for a price in epsilon, Gaussian for one in rho."""
    if epsilon is not None and rho is None:
        return Laplace(epsilon=epsilon, sensitivity=sensitivity)
    if rho is not None and epsilon is None:
        return Gaussian(rho=rho, sensitivity=sensitivity)
    raise Misconfigured("pass either `epsilon` for pure DP, or `rho` for zCDP.")


def read_bounds(bounds: object, limit: Fraction) -> tuple[Fraction, Fraction]:
    """Bounds between which float64 places a row within one step; `limit` is the largest magnitude allowed."""
    if not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise Misconfigured("`bounds` must be a pair (low, high). Pass for example bounds=(0, 100).")
    low, high = exact(bounds[0], "bounds"), exact(bounds[1], "bounds")
    if low >= high:
        raise Misconfigured(f"`bounds` are {bounds[0]} and {bounds[1]}; the lower bound must be below the upper bound.")
    largest = max(abs(low), abs(high))
    if high - low < largest * _NARROWEST or not 1 / limit < largest < limit:
        raise Misconfigured(
            f"`bounds` are {bounds[0]} and {bounds[1]}; float64 cannot tell enough values between them apart. "
            "Subtract a constant, or change the unit of measurement."
        )
    return low, high


def _rows(values: Any) -> npt.NDArray[Any]:
    """The rows as a flat array of numbers. No message shows a row."""
    if hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__"):
        values = np.asarray(values)
    if not isinstance(values, np.ndarray):
        try:
            values = np.array(values, np.float64)
        except (TypeError, ValueError, OverflowError):
            raise Misconfigured(
                "`values` holds something that is not a number. Pass a list or an array of them."
            ) from None
    if values.ndim != 1 or values.dtype.kind not in "iuf":
        raise Misconfigured("`values` must be one column of integers or floats. Pass a flat list or array.")
    rows: npt.NDArray[Any] = values
    return rows
