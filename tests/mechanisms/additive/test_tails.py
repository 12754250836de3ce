"""lapwing.mechanisms.additive.tails."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from lapwing.mechanisms.additive.gaussian import Gaussian
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.additive.tails import gaussian_tail_bound, laplace_tail_bound

OUTSIDE = [0.5, 0.1, 0.05, 1e-3, 1e-6]


def exact_tail(scales: list[float], x: float) -> float:
    """P[|sum of discrete Laplace noises| > x] by convolution."""
    law = np.ones(1)
    for scale in scales:
        z = np.arange(-math.ceil(45 * scale) - 1, math.ceil(45 * scale) + 2)
        law = np.convolve(law, math.tanh(0.5 / scale) * np.exp(-np.abs(z) / scale))
    z = np.arange(law.size) - law.size // 2
    return float(law[np.abs(z) > x].sum())


@pytest.mark.parametrize("epsilon", [4, 1, 0.1])
@pytest.mark.parametrize("outside", OUTSIDE)
def test_one_laplace_noise_has_its_exact_quantile(epsilon: float, outside: float) -> None:
    mechanism = Laplace(epsilon=epsilon)
    bound = laplace_tail_bound(np.ones(1), float(mechanism.scale), outside)
    assert math.floor(bound) == mechanism.error(1 - Fraction(str(outside)))


@pytest.mark.parametrize("scales", [[1.0, 1.0], [0.3, 5.0, 2.0], [3.0] * 10])
@pytest.mark.parametrize("outside", OUTSIDE)
def test_sums_of_laplace_noises_are_covered_and_hardly_more(scales: list[float], outside: float) -> None:
    bound = laplace_tail_bound(np.ones(len(scales)), np.array(scales), outside)
    assert exact_tail(scales, bound) <= outside
    std = math.sqrt(sum(0.5 / math.sinh(0.5 / s) ** 2 for s in scales))
    assert exact_tail(scales, math.floor(bound - 0.02 * std - 1)) > outside


def test_chernoff_takes_over_where_sums_of_floats_end() -> None:
    scales = np.array([2.0, 1.0, 1.0])
    reaches = [laplace_tail_bound(np.ones(3), scales, outside) for outside in (1e-6, 1.1e-9, 0.9e-9, 1e-15, 1e-60)]
    assert reaches == sorted(reaches)
    assert exact_tail(scales.tolist(), reaches[3]) <= 1e-15
    assert math.isfinite(laplace_tail_bound(np.ones(3), scales, 1e-300))


@pytest.mark.parametrize("epsilon", [1024, 100, 20, 10])
def test_noise_that_is_nearly_always_zero_reaches_nowhere(epsilon: float) -> None:
    for outside in (0.05, 1e-3):
        bound = laplace_tail_bound(np.ones(3), 1 / epsilon, outside)
        assert math.floor(bound) == Laplace(epsilon=epsilon).error(1 - Fraction(str(outside)), simultaneous=3) == 0
        assert 0 < laplace_tail_bound(np.array([0.3, 0.2]), 1 / epsilon, outside) < 1


def test_weights_count_by_their_size() -> None:
    scale = 7.0
    assert laplace_tail_bound(np.zeros(4), scale, 0.05) == 0
    once = laplace_tail_bound(np.array([1.0, 0.5]), scale, 0.05)
    assert laplace_tail_bound(np.array([-2.0, 1.0, 0.0]), scale, 0.05) == pytest.approx(2 * once, rel=1e-6)
    assert laplace_tail_bound(np.array([1.0, 0.6]), scale, 0.05) > once


@pytest.mark.parametrize("weights", [[1.0], [0.5, 0.25, 0.25], [1 / 3] * 20])
def test_real_weights_agree_with_enumeration(weights: list[float]) -> None:
    """Against the law of 60,000 sums of equally likely pieces: quantiles of a fine stratified sample of two terms."""
    rng = np.random.default_rng(5)
    scale, n = 4.0, 60_000
    stop = -math.expm1(-1 / scale)
    noise = rng.geometric(stop, (n, len(weights))) - rng.geometric(stop, (n, len(weights)))
    sums = np.abs(noise @ np.array(weights))
    for outside in (0.5, 0.1, 0.01):
        bound = laplace_tail_bound(np.array(weights), scale, outside)
        slack = 4 * math.sqrt(outside * (1 - outside) / n)
        assert np.mean(sums > bound) <= outside + slack
        assert np.mean(sums > 0.95 * bound - 1.1 * max(weights)) >= outside - slack


@pytest.mark.parametrize("variance", [Fraction(100), Fraction(10**6)])
@pytest.mark.parametrize("outside", [0.5, 0.05, 1e-3])
def test_one_gaussian_noise_has_its_quantile_within_a_unit(variance: Fraction, outside: float) -> None:
    exactly = Gaussian(rho=1 / (2 * variance)).error(1 - Fraction(str(outside)))
    bound = gaussian_tail_bound(np.ones(1), variance, outside)
    assert exactly <= bound <= exactly + 1 + 0.3 * math.sqrt(variance) / math.sqrt(variance * outside)


def test_gaussian_sums_are_covered_even_if_the_noise_is_coarse() -> None:
    """Variance 1/4: noises are -1, 0 or 1 nearly always, far from normal."""
    variance, weights = Fraction(1, 4), np.array([1.0, 0.7, 0.7])
    z = np.arange(-6, 7)
    mass = np.exp(-(z**2) / (2 * float(variance)))
    mass /= mass.sum()
    for outside in (0.5, 0.05, 1e-3):
        bound = gaussian_tail_bound(weights, variance, outside)
        beyond = sum(
            mass[i] * mass[j] * mass[k]
            for i, j, k in itertools.product(range(z.size), repeat=3)
            if abs(weights @ z[[i, j, k]]) > bound
        )
        assert beyond <= outside


@pytest.mark.parametrize("sigma", [1.0, 2.0, 10.0])
def test_rounded_normal_is_as_close_to_the_discrete_gaussian_as_claimed(sigma: float) -> None:
    from scipy.special import ndtr

    z = np.arange(-math.ceil(12 * sigma), math.ceil(12 * sigma) + 1)
    discrete = np.exp(-((z / sigma) ** 2) / 2)
    discrete /= discrete.sum()
    rounded = ndtr((z + 0.5) / sigma) - ndtr((z - 0.5) / sigma)
    assert np.abs(discrete - rounded).sum() / 2 <= 1 / (16 * sigma**2)
