"""A square root of summing up, in whole numbers: what `PrefixSums` and `ToeplitzCounter` measure.

The lower triangle of ones, P, is the square of the lower triangular Toeplitz matrix with entries binom(2k, k) / 4^k,
the coefficients of (1 - t)^(-1/2). A is that root, times 2^20, rounded to whole numbers. Whatever A is, its longest
column is known exactly and P A^-1 undoes it, so the rounding costs neither privacy nor bias.
Checked by: tests/mechanisms/ranges/test_ranges.py
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from flint import fmpz_poly

from lapwing.arrays import Floats, Integers

_FINE = 1 << 20


@lru_cache(maxsize=32)
def coefficients(size: int) -> Integers:
    """c_k = round(2^20 binom(2k, k) / 4^k), the first column of A."""
    k = np.arange(1, size, dtype=np.float64)
    root = np.cumprod(np.concatenate([[1.0], (2 * k - 1) / (2 * k)]))
    entries: Integers = np.rint(_FINE * root).astype(np.int64)
    entries.flags.writeable = False
    return entries


@lru_cache(maxsize=32)
def squared_norm(size: int) -> int:
    """The squared length of the longest column of A, exactly."""
    return sum(c * c for c in coefficients(size).tolist())


@lru_cache(maxsize=32)
def decoder(size: int) -> Floats:
    """The first column of P A^-1: the power series 1 / ((1 - t) sum c_k t^k), by Newton's iteration."""
    c, inverse = coefficients(size).astype(np.float64), np.array([1 / _FINE])
    while inverse.size < size:
        longer = min(2 * inverse.size, size)
        rest = -product(product(c[:longer], inverse, longer), inverse, longer)
        rest[: inverse.size] += 2 * inverse
        inverse = rest
    summed: Floats = np.cumsum(inverse)
    summed.flags.writeable = False
    return summed


def encode(cells: Integers) -> list[int]:
    """A x in whole numbers of any length."""
    product = fmpz_poly(coefficients(cells.size).tolist()) * fmpz_poly(cells.tolist())
    return [int(product[k]) for k in range(cells.size)]


def product(a: Floats, b: Floats, terms: int) -> Floats:
    """The first terms of the product of two power series."""
    length = 1 << (a.size + b.size - 1).bit_length()
    return np.fft.irfft(np.fft.rfft(a, length) * np.fft.rfft(b, length), length)[:terms]
