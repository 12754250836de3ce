"""Biased coins: many at a time, and single ones on the slow, certain path under the fast samplers. [CKS20]

Law:        each coin shows heads with exactly the stated probability, independently.
Proof:      a coin compares the first word u of a uniform real with t = floor(p 2^w): u < t is heads and u > t tails
            for every continuation; u = t draws more digits. `decide_exp` lets float64 answer only outside a band that
            is wider than its error (see there), and asks exact integers inside.
Lemma.      `is_below(U, bounds)` returns 1[U < theta] exactly: it answers only when the whole cell [u, u+1) / 2^k of
            the bits drawn so far lies on one side of an enclosure of theta, and draws more bits otherwise. A dyadic
            theta is decided at its own length; any other needs more than k bits with probability at most 2^(1-k).
Checked by: tests/noise/test_bernoulli.py, tests/noise/test_lazy.py
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import numpy as np

from lapwing.arrays import Flags, Floats
from lapwing.errors import Bug, Misconfigured
from lapwing.noise.bits import SYSTEM, BitSource, Words, uniform_integer

BoundsAt = Callable[[int], tuple[int, int]]
"""bounds(p) = integers (low, high) with low <= 2^p theta <= high, as narrow as p allows."""

_GUARD = 32  # the enclosure is this many bits finer than the uniform
_MOST = 1 << 14


class LazyUniform:
    """A uniform real in [0, 1) whose binary digits are drawn on demand: it lies in [value, value + 1) / 2^length."""

    __slots__ = ("_bits", "length", "value")

    STEP = 16
    """Digits drawn at a time: a fresh comparison needs more with a probability of 2^-15."""

    def __init__(self, bits: BitSource, value: int = 0, length: int = 0) -> None:
        self.value = value
        self.length = length
        self._bits = bits

    def extend(self) -> None:
        if self.length > _MOST:
            raise Bug("a lazy comparison asked for more than 16,384 bits; the enclosure does not narrow")
        self.value = self.value << self.STEP | self._bits.integer(self.STEP)
        self.length += self.STEP


def is_below(uniform: LazyUniform, bounds: BoundsAt) -> bool:
    if not uniform.length:
        uniform.extend()
    while True:
        low, high = bounds(uniform.length + _GUARD)
        if (uniform.value + 1) << _GUARD <= low:
            return True
        if uniform.value << _GUARD >= high:
            return False
        uniform.extend()


def rational_bounds(numerator: int, denominator: int) -> BoundsAt:
    """Enclosures of numerator / denominator."""

    def bounds(precision: int) -> tuple[int, int]:
        scaled = numerator << precision
        return scaled // denominator, -(-scaled // denominator)

    return bounds


def exp_bounds(numerator: int, denominator: int) -> BoundsAt:
    """Enclosures of exp(-numerator / denominator)."""
    return lambda precision: exp_neg(numerator, denominator, precision)


def exp_neg(numerator: int, denominator: int, precision: int) -> tuple[int, int]:
    """Integers (low, high) with low <= 2^precision exp(-numerator / denominator) <= high, for a rate >= 0.

    Proof: the argument is halved until it is below 2^-8; there the alternating Taylor sum, with every product rounded
    outward, errs by at most its last term; then it is squared back, rounding outward. Integers only.
    """
    if not numerator:
        return 1 << precision, 1 << precision
    if numerator >= denominator * precision:  # e^-p < 2^-p
        return 0, 1
    halvings = (numerator // denominator).bit_length() + 8
    work = precision + halvings + 24
    x_low = (numerator << work) // (denominator << halvings)
    x_high = x_low + 1
    low = high = term_low = term_high = 1 << work
    order = 0
    while term_high > 1:
        order += 1
        term_low = (term_low * x_low >> work) // order
        term_high = -((-term_high * x_high >> work) // order)
        low, high = (low - term_high, high - term_low) if order % 2 else (low + term_low, high + term_high)
    low, high = low - term_high, high + term_high
    for _ in range(halvings):
        low, high = low * low >> work, -(-high * high >> work)  # a shift rounds down, so of the negative up
    return low >> work - precision, min(1 << precision, -(-high >> work - precision))


Exponent = Callable[[int], tuple[int, int]]
"""exponent(i) = integers (n, d): the exact exponent n / d of coin i."""

BAND = 2.0**-20
"""Relative half-width within which float64 does not decide."""


def sample_bernoulli(p: Fraction, count: int, *, bits: BitSource = SYSTEM, width: int = 64) -> Flags:
    """Coins with P[heads] = p, rational."""
    if not 0 <= p <= 1:
        raise Misconfigured(f"`p` is {p}; it must lie between 0 and 1.")
    return sample_coins(rational_bounds(p.numerator, p.denominator), count, bits=bits, width=width)


def sample_bernoulli_exp(x: Fraction, count: int, *, bits: BitSource = SYSTEM, width: int = 64) -> Flags:
    """Coins with P[heads] = exp(-x), x >= 0."""
    return sample_coins(exp_bounds(x.numerator, x.denominator), count, bits=bits, width=width)


def sample_coins(bounds: BoundsAt, count: int, *, bits: BitSource = SYSTEM, width: int = 64) -> Flags:
    """Coins whose P[heads] is known by enclosures."""
    threshold = _floor(bounds, width)
    if threshold >> width:  # p = 1
        return np.ones(count, np.bool_)
    words = bits.words(count, width)
    heads: Flags = words < threshold
    for i in np.flatnonzero(words == threshold):
        heads[i] = is_below(LazyUniform(bits, threshold, width), bounds)
    return heads


def sample_bernoulli_exp_each(gamma: Floats, exponent: Exponent, *, bits: BitSource = SYSTEM) -> Flags:
    """Coins with P[heads_i] = exp(-n_i / d_i), (n_i, d_i) = exponent(i), of which gamma_i is the float64 value."""
    return decide_exp(bits.words(gamma.size, 53).astype(np.uint64), 53, gamma, exponent, bits)


def decide_exp(
    prefix: Words, width: int, gamma: Floats, exponent: Exponent, bits: BitSource, *, band: float = BAND
) -> Flags:
    """1[U_i < exp(-exponent(i))], where `prefix` holds the first `width` <= 53 bits of U_i.

    Soundness: gamma is a product of at most four correctly rounded float64 factors, so its relative error is below
    2^-50; where gamma <= 64, exp(-gamma) is off by less than 2^-43 from that and by less than 2^-21 from numpy's exp
    (checked at first use). Together less than the band of 2^-20. Where gamma > 64 it is cut to 64: nothing is
    accepted there (2^-53 > e^-64) and U_i >= e^-64 is rejected rightly.
    """
    estimate = np.exp(-np.minimum(gamma, 64.0))
    cell = 2.0**-width
    left = prefix.astype(np.float64) * cell
    heads: Flags = left + cell <= estimate * (1.0 - band)
    tails = left >= estimate * (1.0 + band)
    for i in np.flatnonzero(~(heads | tails)) if exp_is_sound() else range(gamma.size):
        numerator, denominator = exponent(int(i))
        heads[i] = flip_exp(numerator, denominator, bits, LazyUniform(bits, int(prefix[i]), width))
    return heads


@cache
def exp_is_sound() -> bool:
    """Whether numpy's exp keeps the error bound 2^-21 on 257 points of [-64, 0]; otherwise integers decide all."""
    points = np.linspace(0.0, 64.0, 257)
    return all(map(_exp_is_near, points.tolist(), np.exp(-points).tolist()))


def _exp_is_near(point: float, estimate: float) -> bool:
    low, high = exp_neg(*point.as_integer_ratio(), 128)
    share = Fraction(1, 1 << 21)
    return math.isfinite(estimate) and low * (1 - share) <= Fraction(estimate) * (1 << 128) <= high * (1 + share)


def _floor(bounds: BoundsAt, width: int) -> int:
    """floor(p 2^width): the enclosure is narrowed until it holds no multiple of 2^-width but p itself."""
    more = 64
    while True:
        low, high = bounds(width + more)
        if low == high or low >> more == (high - 1) >> more:
            return low >> more
        more = width + 2 * more


def flip_exp(numerator: int, denominator: int, bits: BitSource, uniform: LazyUniform | None = None) -> bool:
    """Heads with probability exp(-numerator / denominator); `uniform` may hold digits that were drawn before."""
    if not numerator:
        return True
    return is_below(uniform or LazyUniform(bits), exp_bounds(numerator, denominator))


def run_exp(numerator: int, denominator: int, bits: BitSource) -> int:
    """A geometric draw: P[k] proportional to exp(-k numerator / denominator), k >= 0.

    Proof: with t = denominator, the accepted u has P[u] proportional to exp(-u / t) on 0..t-1 and v is geometric with
    ratio 1/e, so P[u + t v = y] is proportional to exp(-y / t). Flooring y / numerator joins `numerator` neighbours
    and multiplies the exponent: the ratio becomes exp(-numerator / t).
    """
    while True:
        low = uniform_integer(denominator, bits)
        if flip_exp(low, denominator, bits):
            break
    high = 0
    while flip_exp(1, 1, bits):
        high += 1
    return (low + denominator * high) // numerator
