"""Reals on a power-of-two grid, so that no float ever carries a guarantee.

A real x becomes the integer round(x / g), g = 2^k; an integer mechanism adds its noise; the result times g is
post-processing. The set of possible outputs does not depend on the data. [Mironov12] [HDHH22]

Sensitivity: rounding moves every coordinate by at most g/2, so two neighbours x, x' of `size` coordinates satisfy
    ||round(x/g) - round(x'/g)||_1 <= ||x - x'||_1 / g + size,
    ||round(x/g) - round(x'/g)||_2 <= ||x - x'||_2 / g + sqrt(size)         (triangle inequality).
The grid is so fine, at least 2^20 size steps to the sensitivity and to the noise scale, that this adds at most one
part in a million to the noise (more only if epsilon is so small that the noise would span 2^48 steps).
Checked by: tests/mechanisms/test_grid.py
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from lapwing.numbers import root_up

_FINE = 20
_MOST_STEPS = 48  # noise of 2^49 steps is still drawn exactly
_MOST = 2.0**62


@dataclass(frozen=True, slots=True)
class Grid:
    """All multiples of 2^exponent."""

    exponent: int

    @classmethod
    def fine(cls, scale: Fraction, sensitivity: Fraction, size: int) -> Grid:
        """The grid for noise of this scale on `size` coordinates of this sensitivity. All three are public."""
        finest = _floor_log2(min(scale, sensitivity)) - _FINE - (size - 1).bit_length()
        return cls(max(finest, _floor_log2(scale) - _MOST_STEPS))

    @property
    def step(self) -> Fraction:
        return Fraction(2) ** self.exponent

    def l1_sensitivity(self, sensitivity: Fraction, size: int) -> Fraction:
        """The l1 sensitivity in grid units: an integer, since grid points are."""
        return Fraction(math.floor(sensitivity / self.step) + size)

    def l2_sensitivity(self, sensitivity: Fraction, size: int) -> Fraction:
        """The l2 sensitivity in grid units, rounded up."""
        return sensitivity / self.step + root_up(size)

    def integers(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Each value rounded to the grid, in grid units. Scaling by a power of two and rint are exact in float64.

        Values beyond 2^62 steps saturate: more than 2^13 noise scales away from zero, as a rule 2^40 / size.
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
