"""Counts over an ordered domain: every prefix, every range and the whole distribution function from one release.

A domain of n cells, such as ages or hours, is declared; x holds the count of each cell. A unit adds at most
`cells_per_unit` to these counts in all. Adding up noisy cells makes the error of a range grow with the root of its
length; both mechanisms here measure sums of cells instead, so that it grows with a power of log n. Answers come from
one vector of noisy prefix sums, so they agree with each other: a range is the difference of two prefixes.

Lemma (root). The lower triangle of ones, P, is the square of the lower triangular Toeplitz matrix with the entries
binom(2k, k) / 4^k, the coefficients of (1 - t)^(-1/2). A is that root, times 2^20, rounded to whole numbers. Whatever A
is, its longest column is known exactly and P A^-1 undoes it, so the rounding costs neither privacy nor bias.
`ToeplitzCounter` measures the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from flint import fmpz_poly

from lapwing.arrays import Floats, Integers, frozen
from lapwing.errors import Misconfigured
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.additive.tails import gaussian_tail_bound, laplace_tail_bound
from lapwing.mechanisms.mechanism import FrozenValue, share_outside
from lapwing.mechanisms.values import saturating_sum
from lapwing.noise import sample_gaussian
from lapwing.numbers import Number, count, positive
from lapwing.privacy.loss import ZCDP, Pure

_FINE = 1 << 20


@lru_cache(maxsize=32)
def coefficients(size: int) -> Integers:
    """c_k = round(2^20 binom(2k, k) / 4^k), the first column of A."""
    k = np.arange(1, size, dtype=np.float64)
    root = np.cumprod(np.concatenate([[1.0], (2 * k - 1) / (2 * k)]))
    return frozen(np.rint(_FINE * root).astype(np.int64))


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
    return frozen(np.cumsum(inverse))


def encode(cells: Integers) -> list[int]:
    """A x in whole numbers of any length."""
    product = fmpz_poly(coefficients(cells.size).tolist()) * fmpz_poly(cells.tolist())
    return [int(product[k]) for k in range(cells.size)]


def product(a: Floats, b: Floats, terms: int) -> Floats:
    """The first terms of the product of two power series."""
    length = 1 << (a.size + b.size - 1).bit_length()
    return np.fft.irfft(np.fft.rfft(a, length) * np.fft.rfft(b, length), length)[:terms]


MOST_CELLS = 1 << 20
_LARGEST = 1 << 62


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RangeRelease(FrozenValue):
    """Noisy counts of every range of cells, all from one release. They may be negative; `cdf` is not."""

    sums: Floats
    """The sum of the first k cells, k = 0, ..., size."""
    mechanism: RangeMechanism

    def range(self, low: int, high: int) -> float:
        """How many lie in the cells low, ..., high - 1."""
        first, last = _ends(low, high, self.mechanism.size)
        return float(self.sums[last] - self.sums[first])

    def interval(self, low: int, high: int, confidence: Number = 0.95) -> tuple[float, float]:
        """Holds the count of this range with this probability; below 0 it is cut."""
        middle, error = self.range(low, high), self.mechanism.error(low, high, confidence)
        return max(0.0, middle - error), max(0.0, middle + error)

    def prefix(self) -> Floats:
        """For each cell, how many lie in it or before it."""
        return self.sums[1:].copy()

    def counts(self) -> Floats:
        """For each cell, how many lie in it."""
        return np.diff(self.sums)

    def cdf(self) -> Floats:
        """For each cell, the share that lies in it or before it: between 0 and 1, never falling, 1 at the end.

        The nearest monotone sequence to the prefix sums, as a share of its last value. A straight line if that is 0.
        """
        from scipy.optimize import isotonic_regression  # slow import

        rising = np.maximum(isotonic_regression(self.sums[1:]).x, 0.0)
        if rising[-1] <= 0:
            rising = np.arange(1.0, rising.size + 1)
        return np.asarray(rising / rising[-1])


@dataclass(frozen=True, slots=True, init=False, repr=False)
class PrefixSums(FrozenValue):
    """All prefix sums of a vector of counts under zCDP.

    Use:        a distribution function, quantiles or ranges under zCDP; under pure DP `Ranges`; one range, its count.
    Law:        y = A x + Z, prefix sums = P A^-1 y. P is the lower triangle of ones; A is the lower triangular Toeplitz
                matrix of c_k = round(2^20 binom(2k, k) / 4^k), whole numbers near a multiple of the square root of P;
                Z discrete Gaussian of variance (cells_per_unit)^2 sum_k c_k^2 / (2 rho).
    Guarantee:  rho-zCDP for one unit that adds at most `cells_per_unit` to the counts, in one cell or in several.
    Error:      that of sum(w_i Z_i) for a known w: `error(low, high)`. `prefix_rmse`, `range_rmse`: over all queries.
                The worst standard deviation at rho = 1/2 is about ln(n) / pi + 1.07.
    Proof:      x' - x is a sum of at most cells_per_unit unit vectors e_j, and |A e_j|^2 = sum of c_k^2 over k < n - j,
                largest for j = 0; triangle inequality; [CKS20, Thm 14] for vectors of whole numbers. A x is computed in
                whole numbers of any length. What A is does not matter for this; that A is near a root of P makes the
                error small. P A^-1 y is post-processing.
    Figure:     `round(PrefixSums(size=1024, rho=0.5).prefix_rmse, 2)` = 3.11
    Checked by: tests/mechanisms/ranges/test_ranges.py
    """

    size: int
    rho: Fraction
    cells_per_unit: int
    alike: ClassVar[bool] = False
    """Whether every cell has the same error."""

    def __init__(self, *, size: int, rho: Number, cells_per_unit: int = 1) -> None:
        self._set(size=read_size(size, "size"), rho=positive(rho, "rho"))
        self._set(cells_per_unit=count(cells_per_unit, "cells_per_unit"))

    @property
    def loss(self) -> ZCDP:
        return ZCDP(self.rho)

    @property
    def variance(self) -> Fraction:
        """That of the noise on each entry of A x."""
        return Fraction(self.cells_per_unit**2 * squared_norm(self.size)) / (2 * self.rho)

    def check(self) -> None:
        """Raises Misconfigured if the noise is too large to be drawn."""
        sample_gaussian(self.variance, 0)

    def release(self, counts: Any) -> RangeRelease:
        """Noisy prefix sums of these counts, one whole number for each cell."""
        cells = _read_counts(counts, self.size)
        noise = sample_gaussian(self.variance, self.size).tolist()
        noisy = [entry + z for entry, z in zip(encode(cells), noise, strict=True)]
        return RangeRelease(_freeze(product(decoder(self.size), np.array(noisy, np.float64), self.size)), self)

    def error(self, low: int, high: int, confidence: Number = 0.95, *, simultaneous: int = 1) -> float:
        """With this probability the count of cells low, ..., high - 1 is off by at most this; known in advance."""
        return gaussian_tail_bound(self._weights(low, high), self.variance, share_outside(confidence, simultaneous))

    def standard_error(self, low: int, high: int) -> float:
        """The standard deviation of that count."""
        return math.sqrt(float((self._weights(low, high) ** 2).sum()) * float(self.variance))

    @property
    def prefix_rmse(self) -> float:
        """The root of the mean variance of all prefixes."""
        return self._rmse()[0]

    @property
    def range_rmse(self) -> float:
        """The root of the mean variance of all ranges."""
        return self._rmse()[1]

    def _rmse(self) -> tuple[float, float]:
        g, n = decoder(self.size), self.size
        trace, ones = float((np.arange(n, 0, -1) * g * g).sum()), float((np.cumsum(g) ** 2).sum())
        return _averages(trace * float(self.variance), ones * float(self.variance), n)

    def _weights(self, low: int, high: int) -> Floats:
        """The weight of each entry of y in the answer."""
        first, last = _ends(low, high, self.size)
        weights = np.zeros(self.size)
        weights[:last] += decoder(self.size)[:last][::-1]
        weights[:first] -= decoder(self.size)[:first][::-1]
        return weights


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Ranges(FrozenValue):
    """All ranges of a vector of counts under pure DP.

    Use:        ranges, prefixes or quantiles of many cells under pure DP; up to about 40 cells it is the plain
                histogram; under zCDP `PrefixSums`; for one quantile the exponential mechanism.
    Law:        a tree: on each of its L levels the cells are cut into blocks of 1, b, b^2, ... cells and each block's
                count gets discrete Laplace noise of scale L cells_per_unit / epsilon; then least squares.
    Guarantee:  pure DP with epsilon for one unit that adds at most `cells_per_unit` to all counts together.
    Error:      that of sum(w_i Z_i) for a known w: `error(low, high)`. `prefix_rmse`, `range_rmse`: over all queries.
    Proof:      on each level the blocks are disjoint, so the unit moves their counts by at most cells_per_unit in l1:
                the level is epsilon/L-DP, and L levels compose to epsilon. Least squares is post-processing: with B_j
                the sums over level j, sum_j B_j^T B_j = sum_j m_j Q_j, m_j = the size of a block and Q_j = the
                projection on vectors that are constant on blocks. Blocks are nested, so Q_j - Q_(j+1) are orthogonal
                projections and the inverse is sum_j (Q_j - Q_(j+1)) / (m_0 + ... + m_j): no matrix is ever solved.
                The tree has no root and is the best, over all L, for the mean square over all ranges; it depends on
                `size` alone. `fanout` sets b by hand.
    Figure:     `round(0.01 * Ranges(size=1024, epsilon=0.01).range_rmse, 1)` = 12.6
    Checked by: tests/mechanisms/ranges/test_ranges.py
    """

    size: int
    epsilon: Fraction
    cells_per_unit: int
    blocks: tuple[int, ...]
    """The size of a block on each level, from 1 upwards."""
    alike: ClassVar[bool] = True

    def __init__(self, *, size: int, epsilon: Number, cells_per_unit: int = 1, fanout: int | None = None) -> None:
        cells = read_size(size, "size")
        self._set(size=cells, epsilon=positive(epsilon, "epsilon"))
        self._set(cells_per_unit=count(cells_per_unit, "cells_per_unit"))
        blocks = _best_blocks(cells)
        if fanout is not None:
            base, blocks = count(fanout, "fanout", least=2), (1,)
            while blocks[-1] * base < cells:
                blocks = (*blocks, blocks[-1] * base)
        self._set(blocks=blocks)

    @property
    def loss(self) -> Pure:
        """Epsilon, and the smaller rho of several levels at epsilon/L each."""
        return Pure(self.epsilon, self.epsilon**2 / (2 * len(self.blocks)))

    @property
    def noise(self) -> Laplace:
        """The noise added to every block."""
        return Laplace(epsilon=self.epsilon / len(self.blocks), sensitivity=self.cells_per_unit)

    def check(self) -> None:
        self.noise.draw(0)

    def release(self, counts: Any) -> RangeRelease:
        """Noisy sums of these counts, one whole number for each cell."""
        cells = np.zeros(_padded_size(self.size, self.blocks), np.int64)
        cells[: self.size] = _read_counts(counts, self.size)
        levels = [cells.reshape(-1, block).sum(axis=1) for block in self.blocks]
        noise = self.noise.draw(sum(level.size for level in levels))
        noisy = saturating_sum(np.concatenate(levels), noise).astype(np.float64)
        spread = np.zeros(cells.size)
        for block, level in zip(self.blocks, np.split(noisy, np.cumsum([x.size for x in levels])), strict=False):
            spread += np.repeat(level, block)
        estimate = _inverse(spread, self.blocks)[: self.size]
        return RangeRelease(_freeze(np.cumsum(estimate)), self)

    def error(self, low: int, high: int, confidence: Number = 0.95, *, simultaneous: int = 1) -> float:
        scale, outside = float(self.noise.scale), share_outside(confidence, simultaneous)
        return laplace_tail_bound(self._weights(low, high), scale, outside)

    def standard_error(self, low: int, high: int) -> float:
        return math.sqrt(float((self._weights(low, high) ** 2).sum()) * self.noise.variance)

    @property
    def prefix_rmse(self) -> float:
        return math.sqrt(self.noise.variance) * _tree_rmse(self.size, self.blocks)[0]

    @property
    def range_rmse(self) -> float:
        return math.sqrt(self.noise.variance) * _tree_rmse(self.size, self.blocks)[1]

    def _weights(self, low: int, high: int) -> Floats:
        """The weight of each block's noisy count in the answer."""
        first, last = _ends(low, high, self.size)
        asked = np.zeros(_padded_size(self.size, self.blocks))
        asked[first:last] = 1
        solved = _inverse(asked, self.blocks)
        return np.concatenate([solved.reshape(-1, block).sum(axis=1) for block in self.blocks])


RangeMechanism = PrefixSums | Ranges


def read_size(value: object, name: str) -> int:
    size = count(value, name)
    if size > MOST_CELLS:
        raise Misconfigured(f"`{name}` is {size}; at most {MOST_CELLS} are supported. Merge neighbouring ones.")
    return size


def _inverse(leaves: Floats, blocks: tuple[int, ...]) -> Floats:
    """sum_j (Q_j - Q_(j+1)) leaves / (m_0 + ... + m_j)."""
    weights = 1 / np.cumsum(blocks)
    total = np.zeros(leaves.size)
    for block, gain in zip(blocks, np.diff(weights, prepend=0.0), strict=True):
        total += gain * np.repeat(leaves.reshape(-1, block).mean(axis=1), block)
    return total


@lru_cache(maxsize=256)
def _best_blocks(size: int) -> tuple[int, ...]:
    """The tree of least mean square over all ranges when L levels share epsilon; b is the least with b^L >= size."""
    trees = [(1,)]
    for levels in range(2, 9):
        fanout = next(b for b in range(max(2, int(size ** (1 / levels)) - 1), size + 2) if b**levels >= size)
        trees.append(tuple(fanout**j for j in range(levels)))
    fitting = [tree for tree in trees if tree[-1] < size or tree == (1,)]
    return min(fitting, key=lambda tree: len(tree) * _tree_rmse(size, tree)[1])


@lru_cache(maxsize=256)
def _tree_rmse(size: int, blocks: tuple[int, ...]) -> tuple[float, float]:
    """(prefixes, ranges) for noise of variance 1 on every block; |Q_j 1_[0, k)|^2 = k - k mod m + (k mod m)^2 / m."""
    k = np.arange(size + 1)
    ramp = np.zeros(_padded_size(size, blocks))
    ramp[:size] = np.arange(size, 0, -1)
    trace = ones = 0.0
    for block, gain in zip(blocks, np.diff(1 / np.cumsum(blocks), prepend=0.0), strict=True):
        trace += gain * float((k - k % block + (k % block) ** 2 / block).sum())
        ones += gain * float((ramp.reshape(-1, block).sum(axis=1) ** 2).sum()) / block
    return _averages(trace, ones, size)


def _averages(trace: float, ones: float, size: int) -> tuple[float, float]:
    """Over prefixes and over ranges, from the trace of the prefixes' covariance K and from 1^T K 1.

    A range has variance K_ii + K_jj - 2 K_ij, 0 <= i < j <= size, and K_00 = 0.
    """
    ranges = ((size + 1) * trace - ones) / (size * (size + 1) / 2)
    return math.sqrt(trace / size), math.sqrt(ranges)


def _padded_size(size: int, blocks: tuple[int, ...]) -> int:
    return -(-size // blocks[-1]) * blocks[-1]


def _read_counts(counts: Any, size: int) -> Integers:
    """The counts as int64, cut so that no sum overflows: cutting never increases a difference."""
    array = np.asarray(counts)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise Misconfigured("`counts` must be a flat list or array of whole numbers, one for each cell.")
    if array.size != size:
        raise Misconfigured(f"`counts` has {array.size} entries; the domain has {size} cells. Pass one for each.")
    most = _LARGEST // (2 * size)
    return np.asarray(np.clip(array, 0 if array.dtype.kind == "u" else -most, most).astype(np.int64))


def _ends(low: object, high: object, size: int) -> tuple[int, int]:
    first, last = count(low, "low", least=0), count(high, "high", least=0)
    if not first <= last <= size:
        raise Misconfigured(f"the range {first} to {last} is outside 0 to {size}. Pass 0 <= low <= high <= {size}.")
    return first, last


def _freeze(sums: Floats) -> Floats:
    """Sums of the first 0, 1, 2, ... cells, read-only."""
    return frozen(np.concatenate([[0.0], sums]))
