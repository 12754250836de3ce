"""lapwing.mechanisms.additive.calibration."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest

from lapwing.mechanisms.additive.calibration import calibrate, continuous_delta, discrete_delta, smoothed_delta

mpmath.mp.dps = 60


def exact_delta(variance: float, epsilon: float, shift: int) -> mpmath.mpf:
    """The hockey-stick divergence of two shifted discrete Gaussians, by its definition."""
    extent = int(45 * math.sqrt(variance)) + abs(shift) + 5
    weight = {z: mpmath.exp(-mpmath.mpf(z * z) / (2 * mpmath.mpf(variance))) for z in range(-extent, extent + 1)}
    total = mpmath.fsum(weight.values())
    factor = mpmath.exp(mpmath.mpf(epsilon))
    gains = (weight.get(z, mpmath.mpf(0)) - factor * weight.get(z - shift, mpmath.mpf(0)) for z in weight)
    return mpmath.fsum(g for g in gains if g > 0) / total


@pytest.mark.parametrize(("variance", "epsilon", "shift"), [(0.25, 0.5, 1), (4, 1, 1), (9, 0.25, 3), (1, 4, 2)])
def test_discrete_delta_equals_the_divergence(variance: float, epsilon: float, shift: int) -> None:
    stated = discrete_delta(Fraction(variance), Fraction(epsilon), shift)
    truth = exact_delta(variance, epsilon, shift)
    assert float(stated) == pytest.approx(float(truth), rel=1e-12)
    assert mpmath.mpf(stated.numerator) / stated.denominator >= truth * (1 - mpmath.mpf(10) ** -40)


@pytest.mark.parametrize(
    ("sigma", "epsilon", "discrete", "continuous"),
    [(0.5, 0.5, 0.717, 0.599), (2, 1, 7.2e-3, 6.8e-3), (20, 0.5, 4.85e-26, 4.80e-26)],
)
def test_continuous_formula_is_too_small_on_coarse_integers(
    sigma: float, epsilon: float, discrete: float, continuous: float
) -> None:
    """lecture:L16 why the continuous formula is never used on the integers."""
    variance, eps = Fraction(sigma) ** 2, Fraction(epsilon)
    assert float(discrete_delta(variance, eps, 1)) == pytest.approx(discrete, rel=0.01)
    assert float(continuous_delta(variance, eps, Fraction(1))) == pytest.approx(continuous, rel=0.01)
    assert discrete_delta(variance, eps, 1) > continuous_delta(variance, eps, Fraction(1))


@pytest.mark.parametrize("smoothing", [Fraction(1), Fraction(9, 4), Fraction(4)])
@pytest.mark.parametrize("sigma", [3, 5, 12])
def test_smoothed_delta_is_an_upper_bound(sigma: int, smoothing: Fraction) -> None:
    variance = Fraction(sigma * sigma)
    for shift in (1, 2, 3):
        bound = smoothed_delta(variance, Fraction(1, 2), Fraction(shift), 1, smoothing)
        assert bound >= discrete_delta(variance, Fraction(1, 2), shift)


def test_smoothed_delta_bounds_two_coordinates_by_brute_force() -> None:
    """Two integers that both move by one: the divergence in the plane, against the bound at l2 = sqrt(2)."""
    variance, epsilon, extent = 25.0, 0.3, 80
    weight = {z: math.exp(-z * z / (2 * variance)) for z in range(-extent - 1, extent + 1)}
    total = sum(weight.values()) ** 2
    plane = ((a, b) for a in range(-extent, extent + 1) for b in range(-extent, extent + 1))
    truth = math.fsum(
        max(0.0, weight[a] * weight[b] - math.exp(epsilon) * weight[a - 1] * weight[b - 1]) for a, b in plane
    )
    root_two = Fraction(math.isqrt(2 << 40) + 1, 1 << 20)
    bound = smoothed_delta(Fraction(variance), Fraction(3, 10), root_two, 2, Fraction(9, 4))
    assert truth / total <= float(bound) < 2 * truth / total


GRID = [
    (epsilon, delta)
    for epsilon in (Fraction(1, 100), Fraction(1, 10), Fraction(1), Fraction(4), Fraction(10), Fraction(50))
    for delta in (Fraction(1, 100), Fraction(1, 10**6), Fraction(1, 10**12))
]


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_true_delta_never_exceeds_the_stated_delta(epsilon: Fraction, delta: Fraction) -> None:
    """gate:G09 over epsilon in [0.01, 50] and delta in [1e-12, 1e-2], by the definition in 60 digits."""
    variance = calibrate(epsilon, delta, Fraction(1), 1)
    if variance < 4000:
        truth = exact_delta(float(variance), float(epsilon), 1)
        assert truth <= mpmath.mpf(delta.numerator) / delta.denominator * (1 + mpmath.mpf(10) ** -15)
    else:
        assert continuous_delta(variance, epsilon, Fraction(1)) <= delta


@pytest.mark.parametrize(
    ("epsilon", "delta", "sigma"), [("0.1", "1e-6", 36.3), ("1", "1e-6", 4.22), ("1", "1e-9", 5.50)]
)
def test_calibration_reaches_the_analytic_figures(epsilon: str, delta: str, sigma: float) -> None:
    """lecture:L16 far below the classic formula: 36.3 against 53.0, 4.22 against 5.30."""
    variance = calibrate(Fraction(epsilon), Fraction(delta), Fraction(1), 1)
    assert math.sqrt(variance) == pytest.approx(sigma, rel=3e-3)
    classic = math.sqrt(2 * math.log(1.25 / float(delta))) / float(epsilon)
    assert math.sqrt(variance) < 0.86 * classic


def test_calibration_is_tight() -> None:
    """One part in a million less noise breaks the guarantee."""
    epsilon, delta = Fraction(1), Fraction(1, 10**6)
    variance = calibrate(epsilon, delta, Fraction(1), 1)
    assert discrete_delta(variance * (1 - Fraction(1, 10**6)), epsilon, 1) > delta


@pytest.mark.parametrize("size", [1, 10, 1000, 10**6])
def test_long_vectors_cost_little_more_than_one_value(size: int) -> None:
    variance = calibrate(Fraction(1, 10), Fraction(1, 10**6), Fraction(1), size)
    assert 36.30 < math.sqrt(variance) < 36.34
