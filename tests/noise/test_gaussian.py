"""lapwing.noise.block."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from lapwing.noise import sample_gaussian
from support import chi
from support.chi import assert_fits, assert_misfits
from support.tape import SeededBits

SIGMAS = [Fraction(1, 500), Fraction(1, 2), *map(Fraction, (1, 10, 64, 65, 100, 160, 161, 1000, 10**6, 2**50))]
VARIANCES = [*(sigma**2 for sigma in SIGMAS), Fraction(2), Fraction(355, 113), Fraction(10**41 + 1, 10**30)]
GATE_SIGMAS = [Fraction(1, 1000), *map(Fraction, (1, 10, 100, 1000, 10**6))]


@pytest.mark.parametrize("variance", VARIANCES)
def test_draws_fit_on_a_long_stream(variance: Fraction) -> None:
    """At sigma = 1/500 all draws are 0, as they should be: P[Z != 0] < 10^-54000."""
    draws = sample_gaussian(variance, 50_000, bits=SeededBits(1))
    assert_fits(draws, chi.gaussian(variance))
    if variance >= Fraction(1, 4):
        assert_misfits(draws, chi.gaussian(variance * Fraction(121, 100)))


@pytest.mark.parametrize("sigma", GATE_SIGMAS)
def test_million_draws_fit(sigma: Fraction) -> None:
    """gate:G01 and the control at 0.95 of sigma fails wherever more than one value occurs."""
    draws = sample_gaussian(sigma**2, 10**6, bits=SeededBits(2))
    assert_fits(draws, chi.gaussian(sigma**2))
    if sigma >= 1:
        assert_misfits(draws, chi.gaussian((sigma * Fraction(95, 100)) ** 2))


def test_gaussian_has_the_moments_of_the_normal_law_at_large_sigma() -> None:
    """lecture:L16 mean 0, variance sigma^2, fourth moment 3 sigma^4; within four standard errors."""
    n, sigma = 200_000, 10**6
    draws = sample_gaussian(Fraction(sigma**2), n, bits=SeededBits(3)) / sigma
    assert abs(draws.mean()) < 4 * math.sqrt(1 / n)
    assert abs((draws**2).mean() - 1) < 4 * math.sqrt(2 / n)
    assert abs((draws**4).mean() - 3) < 4 * math.sqrt(96 / n)


@pytest.mark.parametrize("sigma", [1, 50, 5000])
def test_gaussian_is_symmetric(sigma: int) -> None:
    """Given |Z|, the sign is a fair coin; zero occurs once, not once per side."""
    draws = sample_gaussian(Fraction(sigma**2), 50_000, bits=SeededBits(4))
    assert_fits(draws[draws != 0] > 0, chi.finite([0.5, 0.5]))
    zero = float(chi.gaussian(sigma**2).pmf(np.array([0]))[0])
    assert_fits(draws == 0, chi.finite([1 - zero, zero]))


@pytest.mark.parametrize("count", [0, 1, 2])
def test_draws_are_as_many_as_asked(count: int) -> None:
    draws = sample_gaussian(Fraction(100), count)
    assert (draws.dtype, draws.shape) == (np.int64, (count,))
