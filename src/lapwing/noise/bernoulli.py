"""Biased coins: many at a time, and single ones on the slow, certain path under the fast samplers. [CKS20]

Law:        each coin shows heads with exactly the stated probability, independently.
Proof:      a coin compares the first word u of a uniform real with t = floor(p 2^w): u < t is heads and u > t tails
            for every continuation; u = t draws more digits (lazy.py). `decide_exp` lets float64 answer only outside
            a band that is wider than its error (see there), and asks exact integers inside.
Checked by: tests/noise/test_bernoulli.py
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import numpy as np

from lapwing.arrays import Flags, Floats
from lapwing.errors import Misconfigured
from lapwing.noise.bits import SYSTEM, BitSource, Words, uniform_integer
from lapwing.noise.lazy import BoundsAt, LazyUniform, exp_bounds, exp_neg, is_below, rational_bounds

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
    if not math.isfinite(estimate):
        return False
    low, high = exp_neg(*point.as_integer_ratio(), 128)
    numerator, denominator = estimate.as_integer_ratio()
    scaled = numerator << 128 + 21
    return low * ((1 << 21) - 1) * denominator <= scaled <= high * ((1 << 21) + 1) * denominator


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
