"""A choice of one index with exponentially falling probabilities.

Exponents are integers e_i >= 0 with smallest 0; candidate i has weight exp(-rate e_i), rate rational.
Checked by: tests/noise/test_choice.py
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from lapwing.arrays import Array, Floats
from lapwing.noise.bernoulli import Exponent, sample_bernoulli_exp_each
from lapwing.noise.bits import SYSTEM, BitSource, sample_uniform, uniform_integer

Exponents = Array
"""int64, or Python integers of any size in an object array."""

_MOST_TRIES = 1 << 20  # proposals at a time
FAR = 2.0**60
"""Exponents are cut here in float64; at far smaller ones the weight is 0."""


def sample_choice(exponents: Exponents, rate: Fraction, *, bits: BitSource = SYSTEM) -> int:
    """An index with P[i] proportional to exp(-rate e_i).

    Proof: a uniform index is kept with probability exp(-rate e_i); the first kept one has the stated law. The number
    of proposals made at a time changes nothing: they are independent and the first kept one is taken.
    """
    gamma = scale_exponents(exponents, rate)
    likely = max(1.0, float(np.exp(-gamma).sum()))
    tries = int(min(_MOST_TRIES, 64 + 2 * exponents.size / likely))
    while True:
        proposed = sample_uniform(exponents.size, tries, bits=bits)
        kept = sample_bernoulli_exp_each(gamma[proposed], _exact(exponents[proposed], rate), bits=bits)
        first = int(kept.argmax())
        if kept[first]:
            return int(proposed[first])


def sample_heads(exponents: Exponents, rate: Fraction, *, bits: BitSource = SYSTEM) -> int:
    """The index that permute-and-flip chooses.

    Proof: scanning in random order until a coin exp(-rate e_i) shows heads finds the first head of a random order,
    which is uniform among all heads; the coins are independent of the order, and one of them (e_i = 0) is certain.
    """
    flips = sample_bernoulli_exp_each(scale_exponents(exponents, rate), _exact(exponents, rate), bits=bits)
    heads = np.flatnonzero(flips)
    return int(heads[uniform_integer(heads.size, bits)])


def scale_exponents(exponents: Exponents, rate: Fraction) -> Floats:
    """rate e in float64, cut at 2^60."""
    most = Fraction(FAR)
    if exponents.dtype == object:
        return np.array([float(min(rate * int(e), most)) for e in exponents.tolist()], np.float64)
    return np.minimum(exponents.astype(np.float64) * float(min(rate, most)), FAR)


def _exact(exponents: Exponents, rate: Fraction) -> Exponent:
    return lambda i: (int(exponents[i]) * rate.numerator, rate.denominator)
