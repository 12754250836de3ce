"""lapwing.noise.block."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb
from scipy.special import digamma

from lapwing.noise.block import cauchy_integer, laplace_integer, propose_cauchy
from lapwing.numbers import ball, enclose
from support.chi import Discrete, Floats, Integers, assert_fits, assert_misfits, laplace
from support.law import assert_law, exact_law
from support.tape import SeededBits

SCALES = [Fraction(1, 3), Fraction(1), Fraction(5, 2), Fraction(10**40 + 7, 3 * 10**37), Fraction(1 << 70)]


def cauchy(scale: Fraction) -> Discrete:
    """P[X >= m] = Im digamma(m + i s) tanh(pi s) / pi, as s / (z^2 + s^2) is the imaginary part of -1 / (z + i s)."""
    s = float(scale)
    share = math.tanh(math.pi * s) / math.pi

    def tail(m: Floats) -> Floats:
        """P[X >= m], m >= 1."""
        far = np.arctan2(s, m - 0.5)  # the midpoint rule, off by a share below 1 / (24 m^2)
        near = digamma(np.minimum(m, 1e6) + 1j * s).imag if s < 1e6 else far
        return share * np.where(m < 1e6, near, far)

    def cdf(x: Integers) -> Floats:
        size = np.asarray(x, np.float64)
        return np.where(size < 0, tail(np.maximum(-size, 1)), 1 - tail(np.maximum(size, 0) + 1))

    return Discrete(pmf=lambda x: share * s / (np.asarray(x, np.float64) ** 2 + s * s), cdf=cdf)


@pytest.mark.usefixtures("one_digit")
@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(2), Fraction(2, 3)])
def test_laplace_integer_has_its_law_on_all_tapes(scale: Fraction) -> None:
    rate = 1 / scale
    law = exact_law(lambda bits: laplace_integer(scale, bits), 14)
    assert_law(
        law, lambda z: enclose(lambda: (ball(rate) / 2).tanh() * (-ball(rate * abs(z))).exp()), support=[0, 1, -1]
    )


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(1, 2), Fraction(2), Fraction(3, 2)])
def test_cauchy_proposals_have_their_law_on_all_tapes(scale: Fraction) -> None:
    """Each z with weight 1 / (z^2 + s^2), as fractions; what is thrown back is drawn again, which keeps the weights."""
    law = exact_law(lambda bits: propose_cauchy(scale, bits), 20)
    kept = {z: mass for z, mass in law.mass.items() if z is not None}
    most = {z: scale**2 / (6 * math.ceil(scale) * (z * z + scale**2)) for z in kept}
    assert {0, 1, -1, 2, -2, 3} <= set(kept)
    assert all(kept[z] <= most[z] <= kept[z] + law.remainder for z in kept)
    assert law.remainder < Fraction(1, 4)


def test_cauchy_weights_of_all_integers_sum_to_the_cotangent() -> None:
    """The normalizer that every proof about this law uses."""
    for scale in (Fraction(1, 3), Fraction(2)):
        low, high = enclose(lambda: arb.pi() / ball(scale) / (arb.pi() * ball(scale)).tanh())  # noqa: B023
        summed = float(1 / scale**2) + 2 * math.fsum(1 / (z * z + float(scale) ** 2) for z in range(1, 10**5))
        assert float(low) == pytest.approx(summed + 2e-5, rel=1e-8)
        assert high - low < Fraction(1, 10**30)


@pytest.mark.parametrize("scale", SCALES, ids=lambda scale: f"{float(scale):.3g}")
def test_draws_follow_their_laws(scale: Fraction) -> None:
    """Any scale, also beyond what the block sampler serves; seen in units of a thousandth of a large scale."""
    bits = SeededBits(7)
    unit = max(1, int(scale / 100))
    seen = scale / unit
    for draw, law in ((laplace_integer, laplace), (cauchy_integer, cauchy)):
        draws = np.array([min(max((draw(scale, bits) + unit // 2) // unit, -(10**15)), 10**15) for _ in range(12_000)])
        assert_fits(draws, law(seen))
        assert_misfits(draws, law(seen * Fraction(6, 5)))


def test_cauchy_integer_gives_far_values_as_often_as_it_should() -> None:
    """The share beyond t is (2 / pi) arctan(s / t): heavy tails are the point."""
    bits = SeededBits(11)
    draws = [abs(cauchy_integer(Fraction(10), bits)) for _ in range(20_000)]
    for t in (10, 100, 1000):
        expected = 2 / math.pi * math.atan(10 / t)
        assert sum(z > t for z in draws) / 20_000 == pytest.approx(expected, rel=6 / math.sqrt(20_000 * expected))
