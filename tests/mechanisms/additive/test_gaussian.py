"""lapwing.mechanisms.additive.gaussian."""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from scipy.special import ndtri

from lapwing.errors import Misconfigured
from lapwing.mechanisms.additive.calibration import continuous_delta, discrete_delta
from lapwing.mechanisms.additive.gaussian import Gaussian
from lapwing.privacy.loss import ZCDP, Approximate
from support.audit import audit_profile
from support.chi import assert_fits, assert_misfits, gaussian


def test_gaussian_by_rho_has_the_exact_variance() -> None:
    mechanism = Gaussian(rho=0.125, sensitivity=3)
    assert mechanism.variance == 36
    assert mechanism.loss == ZCDP(Fraction(1, 8)) == mechanism.zcdp


def test_gaussian_by_epsilon_and_delta_states_them() -> None:
    mechanism = Gaussian(epsilon=1, delta=1e-6)
    assert mechanism.loss == Approximate(Fraction(1), Fraction(1, 10**6))
    assert mechanism.scale == pytest.approx(4.2308, abs=1e-3)


@pytest.mark.parametrize("arguments", [{}, {"epsilon": 1}, {"delta": 1e-6}, {"rho": 1, "epsilon": 1, "delta": 1e-6}])
def test_half_a_guarantee_is_refused(arguments: dict[str, float]) -> None:
    with pytest.raises(Misconfigured, match="either `rho`"):
        Gaussian(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1, 0, True, "1", 1, 2])
def test_bad_delta_is_refused(bad: object) -> None:
    """threat:A26"""
    with pytest.raises(Misconfigured, match="`delta` is"):
        Gaussian(epsilon=1, delta=bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1, 0, True, "1", 701])
def test_bad_epsilon_is_refused(bad: object) -> None:
    """threat:A26"""
    with pytest.raises(Misconfigured, match="`epsilon` is"):
        Gaussian(epsilon=bad, delta=1e-6)  # type: ignore[arg-type]


def test_classic_formula_is_offered_below_one_only() -> None:
    """lecture:L16 sigma = sensitivity sqrt(2 ln(1.25 / delta)) / eps, proved for eps < 1."""
    assert Gaussian.classic(epsilon=0.5, delta=1e-6, sensitivity=2).scale == pytest.approx(
        2 * math.sqrt(2 * math.log(1.25e6)) / 0.5, rel=1e-12
    )
    with pytest.raises(Misconfigured, match="proved only below 1"):
        Gaussian.classic(epsilon=1, delta=1e-6)


def test_classic_formula_takes_vectors_by_their_l2_sensitivity() -> None:
    """lecture:L16 and what the refusal of a longer vector advises works."""
    with pytest.raises(Misconfigured, match=r"Make it with size=3\."):
        Gaussian.classic(epsilon=0.5, delta=1e-6)([1, 2, 3])
    vectors = Gaussian.classic(epsilon=0.5, delta=1e-6, size=3)
    assert vectors.variance == Gaussian.classic(epsilon=0.5, delta=1e-6).variance
    assert vectors.variance >= Gaussian(epsilon=0.5, delta=1e-6, size=3).variance
    assert len(vectors([1, 2, 3])) == len(vectors([1.0, 2.0, 3.0])) == 3
    assert vectors.on_grid.size == 3
    with pytest.raises(Misconfigured, match=r"Make it with size=4\."):
        vectors([1, 2, 3, 4])


REAL = {
    "rho": Gaussian(rho=0.5, sensitivity=3),
    "epsilon and delta": Gaussian(epsilon=2, delta=1e-6),
    "several": Gaussian(rho=0.1, size=10),
    "classic": Gaussian.classic(epsilon=0.5, delta=1e-6, size=2),
}


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize(("confidence", "k"), [(0.95, 1), (0.99, 1), (0.95, 100)])
def test_real_error_is_that_on_the_grid_and_half_a_step_for_rounding(name: str, confidence: float, k: int) -> None:
    mechanism = REAL[name]
    units = mechanism.on_grid.error(confidence, simultaneous=k)
    found = Fraction(mechanism.real_error(confidence, simultaneous=k))
    least = (units + Fraction(1, 2)) * mechanism.grid.step
    assert least < found <= least * (1 + Fraction(1, 2**51))
    sigma = mechanism.on_grid.scale * float(mechanism.grid.step)
    continuous = NormalDist(0, sigma).inv_cdf((1 + confidence ** (1 / k)) / 2)
    assert float(found) == pytest.approx(continuous, rel=2e-5)


def test_real_error_is_of_95_percent_and_one_value_unless_said_otherwise() -> None:
    mechanism = REAL["rho"]
    assert mechanism.real_error() == mechanism.real_error(0.95) == mechanism.real_error(0.95, simultaneous=1)
    assert mechanism.real_error(0.95) < mechanism.real_error(0.95, simultaneous=2) < mechanism.real_error(0.999)


def test_classic_noise_on_reals_is_classic_too() -> None:
    """lecture:L16 the grid keeps the calibration that was asked for."""
    mechanism = Gaussian.classic(epsilon=0.5, delta=1e-6)
    assert mechanism.on_grid.scale * float(mechanism.grid.step) == pytest.approx(mechanism.scale, rel=1e-5)


def test_classic_formula_would_break_at_large_epsilon() -> None:
    """lecture:L16 at eps = 20 and delta = 1e-5 the classic formula has a delta of about 1.5e-3."""
    variance = Fraction(2 * math.log(1.25e5) / 20**2)
    assert float(continuous_delta(variance, Fraction(20), Fraction(1))) == pytest.approx(1.5e-3, rel=0.05)


@pytest.mark.parametrize("sigma", [0.4, 1.0, 7.3, 300.0, 4095.0])
@pytest.mark.parametrize("k", [1, 1000])
def test_error_is_the_smallest_covering_integer(sigma: float, k: int) -> None:
    mechanism = Gaussian(rho=1 / (2 * Fraction(sigma) ** 2))
    t = mechanism.error(0.95, simultaneous=k)
    z = np.arange(-math.ceil(40 * sigma), math.ceil(40 * sigma) + 1)
    weights = np.exp(-(z**2) / (2 * sigma**2))
    inside = [float(weights[np.abs(z) <= s].sum() / weights.sum()) ** k for s in (t - 1, t)]
    assert inside[0] < 0.95 <= inside[1]


def test_error_beyond_the_sums_is_at_most_one_too_large() -> None:
    sigma = 10**6
    assert Gaussian(rho=Fraction(1, 2 * sigma**2)).error(0.95) in (1_959_964, 1_959_965)


@pytest.mark.parametrize("sigma", [1, 10**6])
@pytest.mark.parametrize("digits", [15, 16, 20, 40])
def test_error_next_to_certainty_is_the_normal_quantile(sigma: int, digits: int) -> None:
    error = Gaussian(rho=Fraction(1, 2 * sigma**2)).error(1 - Fraction(1, 10**digits))
    assert error == pytest.approx(-sigma * ndtri(10.0**-digits / 2), rel=1e-6, abs=1)


@pytest.mark.parametrize("confidence", [1 - Fraction(1, 10**41), Fraction(1, 10**41), 1 - Fraction(1, 10**400)])
def test_confidence_beyond_what_can_be_computed_is_refused(confidence: Fraction) -> None:
    with pytest.raises(Misconfigured, match="it must lie between 1e-40 and 1 - 1e-40"):
        Gaussian(rho=1).error(confidence)


def test_pmf_sums_to_one_and_joins_at_the_cut() -> None:
    small, large = (Gaussian(rho=1 / (2 * Fraction(s) ** 2)) for s in (4096, 4097))
    assert math.fsum(small.pmf(z) for z in range(-60_000, 60_001)) == pytest.approx(1, abs=1e-12)
    assert large.pmf(5) == pytest.approx(small.pmf(5), rel=3e-4)


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("sigma", [0.7, 10, 1000])
def test_gaussian_draws_follow_its_law(sigma: float) -> None:
    draws = Gaussian(rho=1 / (2 * Fraction(sigma) ** 2))(np.zeros(200_000, np.int64))
    assert_fits(draws, gaussian(sigma**2))
    assert_misfits(draws, gaussian((1.1 * sigma) ** 2))


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("integers", [True, False])
def test_auditor_accepts_gaussian_along_its_whole_profile(integers: bool) -> None:
    """threat:A2 integers and reals, at several (epsilon, delta) of the claimed curve."""
    n = 100_000
    mechanism = Gaussian(epsilon=1, delta=1e-5)
    profile = [(e, float(discrete_delta(mechanism.variance, Fraction(e), 1))) for e in (0.0, 0.2, 0.5, 1.0) if e]
    kind = np.int64 if integers else np.float64
    many = Gaussian(rho=mechanism.zcdp.rho, size=n)
    found = audit_profile(many(np.zeros(n, kind)), many(np.ones(n, kind)), profile)
    assert not found.rejected


@pytest.mark.usefixtures("seeded")
def test_auditor_catches_too_little_gaussian_noise() -> None:
    n = 100_000
    claimed, actual = Gaussian(epsilon=1, delta=1e-5), Gaussian(epsilon=2, delta=1e-5)
    profile = [(e, float(discrete_delta(claimed.variance, Fraction(e), 1))) for e in (0.2, 0.5, 1.0)]
    less = Gaussian(rho=actual.zcdp.rho)
    found = audit_profile(less(np.zeros(n, np.int64)), less(np.ones(n, np.int64)), profile)
    assert found.rejected
