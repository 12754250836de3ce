"""Reals on a power-of-two grid, so that no float ever carries a guarantee.

A real x becomes the integer round(x / g), g = 2^k; an integer mechanism adds its noise; the result times g is
post-processing. The set of possible outputs does not depend on the data. [Mironov12] [HDHH22]

Sensitivity: rounding moves every coordinate by at most g/2, so two neighbours x, x' of `size` coordinates satisfy
    ||round(x/g) - round(x'/g)||_1 <= ||x - x'||_1 / g + size,
    ||round(x/g) - round(x'/g)||_2 <= ||x - x'||_2 / g + sqrt(size)         (triangle inequality).
The grid is chosen so fine (noise of 2^20 size grid units or more) that this costs at most a share 2^-20 of epsilon.
Checked by: tests/mechanisms/test_grid.py
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

_FINE = 20  # the noise scale is at least 2^20 grid units a coordinate
_MOST = 2.0**62


@dataclass(frozen=True, slots=True)
class Grid:
    """All multiples of 2^exponent."""

    exponent: int

    @classmethod
    def for_scale(cls, scale: Fraction, size: int) -> Grid:
        """The grid on which this noise scale lies in [2^20, 2^21) size' units, size' the next power of two."""
        return cls(_floor_log2(scale) - _FINE - (size - 1).bit_length())

    @property
    def step(self) -> Fraction:
        return Fraction(2) ** self.exponent

    def l1_sensitivity(self, sensitivity: Fraction, size: int) -> Fraction:
        """The l1 sensitivity in grid units: an integer, since grid points are."""
        return Fraction(math.floor(sensitivity / self.step) + size)

    def l2_sensitivity(self, sensitivity: Fraction, size: int) -> Fraction:
        """The l2 sensitivity in grid units, rounded up."""
        return sensitivity / self.step + Fraction(math.isqrt(size * (1 << 40) - 1) + 1, 1 << 20)

    def integers(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Each value rounded to the grid, in grid units. Scaling by a power of two and rint are exact in float64.

        Values beyond 2^62 units saturate: more than 2^40 / size noise scales away from zero.
        """
        scaled = np.ldexp(values, -self.exponent)
        return np.clip(np.rint(scaled), -_MOST, _MOST).astype(np.int64)

    def reals(self, integers: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Grid units back to reals (post-processing, rounded to float64)."""
        return np.ldexp(integers.astype(np.float64), self.exponent)


def _floor_log2(value: Fraction) -> int:
    """The k with 2^k <= value < 2^(k+1)."""
    k = value.numerator.bit_length() - value.denominator.bit_length()
    return k if Fraction(2) ** k <= value else k - 1
