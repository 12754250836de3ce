"""lapwing.noise.block."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from lapwing.noise import BitSource, sample_geometric, sample_laplace
from support import chi
from support.chi import assert_fits, assert_misfits
from support.tape import SeededBits

SCALES = [
    Fraction(1, 500),
    Fraction(1, 2),
    Fraction(1),
    Fraction(22, 7),
    *map(Fraction, (10, 64, 65, 100, 160, 161, 1000, 10**6)),
    Fraction(10**20 + 1, 10**13),
    Fraction(2**50),
]
GATE_SCALES = [Fraction(1, 1000), *map(Fraction, (1, 10, 100, 1000, 10**6))]
KINDS = {"laplace": (sample_laplace, chi.laplace), "geometric": (sample_geometric, chi.geometric)}

each_kind = pytest.mark.parametrize("kind", KINDS)


@each_kind
@pytest.mark.parametrize("scale", SCALES)
def test_draws_fit_on_a_long_stream(kind: str, scale: Fraction) -> None:
    """At a scale of 1/500 all draws are 0, as they should be: P[Z != 0] < 10^-216."""
    sample, law = KINDS[kind]
    draws = sample(scale, 50_000, bits=SeededBits(1))
    assert_fits(draws, law(scale))
    if scale >= Fraction(1, 2):
        assert_misfits(draws, law(scale * Fraction(11, 10)))


@each_kind
@pytest.mark.parametrize("scale", GATE_SCALES)
def test_million_draws_fit(kind: str, scale: Fraction) -> None:
    """gate:G01 and the control at 0.95 of the scale fails wherever more than one value occurs."""
    sample, law = KINDS[kind]
    draws = sample(scale, 10**6, bits=SeededBits(2))
    assert_fits(draws, law(scale))
    if scale >= 1:
        assert_misfits(draws, law(scale * Fraction(95, 100)))


def test_laplace_has_the_moments_and_tails_of_the_lecture() -> None:
    """lecture:L11 variance 2 b^2, P[|Y| >= t b] = exp(-t); within four standard errors."""
    n, scale = 200_000, 10**6
    draws = sample_laplace(Fraction(scale), n, bits=SeededBits(3)) / scale
    assert abs(draws.mean()) < 4 * math.sqrt(2 / n)
    assert abs((draws**2).mean() - 2) < 4 * math.sqrt(20 / n)  # Var[Y^2] = 24 - 4
    for t in (1, 2, 3):
        p = math.exp(-t)
        assert abs((abs(draws) >= t).mean() - p) < 4 * math.sqrt(p * (1 - p) / n)


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(50), Fraction(5000)])
def test_laplace_is_symmetric(scale: Fraction) -> None:
    """Given |Z|, the sign is a fair coin; zero occurs once, not once per side."""
    draws = sample_laplace(scale, 50_000, bits=SeededBits(4))
    assert_fits(draws[draws != 0] > 0, chi.finite([0.5, 0.5]))
    zero = math.tanh(1 / (2 * float(scale)))
    assert_fits(draws == 0, chi.finite([1 - zero, zero]))


def test_geometric_is_never_negative() -> None:
    for scale in (Fraction(1, 2), Fraction(10), Fraction(10**6)):
        assert sample_geometric(scale, 50_000, bits=SeededBits(5)).min() >= 0


@each_kind
@pytest.mark.parametrize("count", [0, 1, 2])
def test_draws_are_as_many_as_asked(kind: str, count: int) -> None:
    draws = KINDS[kind][0](Fraction(10), count)
    assert (draws.dtype, draws.shape) == (np.int64, (count,))


@each_kind
def test_equal_rationals_draw_alike(kind: str) -> None:
    """The scale is read as a number, not as a float: 1/3 is not 0.333..."""
    sample = KINDS[kind][0]

    def drawn(scale: Fraction, bits: BitSource) -> list[int]:
        return sample(scale, 100, bits=bits).tolist()

    assert drawn(Fraction(1000, 3), SeededBits(6)) == drawn(Fraction(2000, 6), SeededBits(6))
