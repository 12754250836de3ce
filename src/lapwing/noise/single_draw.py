"""One integer at a time, for a scale that is used once.

The block sampler builds tables for a scale, which pays off when many draws share it. Where the scale depends on the
data, every draw has its own; these two need only the scale, of any size.

Laplace:    P[z] proportional to exp(-|z| / scale). A geometric size and a fair sign; the zero with a minus is thrown
            back, so that zero occurs once.
Cauchy:     P[z] proportional to 1 / (z^2 + scale^2); the sum over all integers is (pi / scale) coth(pi scale). Its
            tails are so heavy that it has no mean. Sizes are proposed from blocks: block 0 holds 0..B-1, block j >= 1
            holds 2^(j-1) B .. 2^j B - 1, with B = ceil(scale). A block is chosen with probability 1/3, 1/3, 1/6, 1/12,
            ..., so a size in block j >= 1 is proposed with weight 4^-(j-1) and one in block 0 with weight 1. It is kept
            with probability scale^2 4^(j-1) / (z^2 + scale^2), j = 1 for block 0: a fraction, at most 1 since
            z >= 2^(j-1) scale in block j. So every size has weight scale^2 / (z^2 + scale^2). About half are kept.
Not constant time: far draws take longer, and so do large scales. Checked by: tests/noise/test_single_draw.py
"""

from __future__ import annotations

from fractions import Fraction

from lapwing.noise.bernoulli import run_exp
from lapwing.noise.bits import SYSTEM, BitSource, uniform_integer


def laplace_integer(scale: Fraction, bits: BitSource = SYSTEM) -> int:
    """One draw of discrete Laplace noise."""
    while True:
        size = run_exp(scale.denominator, scale.numerator, bits)
        negative = bits.integer(1)
        if size or not negative:
            return -size if negative else size


def cauchy_integer(scale: Fraction, bits: BitSource = SYSTEM) -> int:
    """One draw of discrete Cauchy noise."""
    while (drawn := propose_cauchy(scale, bits)) is None:
        pass
    return drawn


def propose_cauchy(scale: Fraction, bits: BitSource) -> int | None:
    """One proposal: z with probability scale^2 / (6 B (z^2 + scale^2)), None if it is thrown back."""
    top, bottom = scale.numerator, scale.denominator
    start, width, doublings = 0, -(-top // bottom), 0
    if uniform_integer(3, bits):  # a block beyond the first
        while bits.integer(1):
            doublings += 1
        start = width = width << doublings
    size = start + uniform_integer(width, bits)
    negative = bits.integer(1)
    if uniform_integer((size * bottom) ** 2 + top**2, bits) >= top**2 << 2 * doublings or (negative and not size):
        return None
    return -size if negative else size
