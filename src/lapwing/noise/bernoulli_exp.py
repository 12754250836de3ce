"""Single exact coins and runs of coins: the slow, certain path under the fast samplers. [CKS20]

Checked by: tests/noise/test_bernoulli_exp.py
"""

from __future__ import annotations

from lapwing.noise.bits import BitSource
from lapwing.noise.lazy import LazyUniform, exp_bounds, is_below
from lapwing.noise.uniform import uniform_integer


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
