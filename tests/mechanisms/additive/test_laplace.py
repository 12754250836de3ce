"""lapwing.mechanisms.additive.laplace."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from lapwing.errors import Misconfigured
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.numbers import ball, enclose
from lapwing.privacy.loss import Pure
from support.audit import assert_caught, assert_private
from support.chi import assert_fits, assert_misfits, laplace

BAD = [math.nan, math.inf, -math.inf, -1, 0, True, "1", None]


@pytest.mark.parametrize(("epsilon", "sensitivity"), [(1, 1), (0.1, 1), (2, 3), (0.5, Fraction(5, 2))])
def test_laplace_ratio_never_exceeds_epsilon(epsilon: float, sensitivity: Fraction) -> None:
    """lecture:L11 pure epsilon: every outcome, every shift up to the sensitivity, with proven bounds."""
    mechanism = Laplace(epsilon=epsilon, sensitivity=sensitivity)
    most = enclose(lambda: ball(mechanism.epsilon).exp())[1] * (1 + Fraction(1, 10**30))
    for shift in range(1, math.floor(sensitivity) + 1):
        for z in range(-20, 21):
            assert mechanism.law(z)[0] / mechanism.law(z - shift)[1] <= most


def test_laplace_ratio_reaches_epsilon() -> None:
    """lecture:L11 the guarantee is tight: some outcome attains epsilon."""
    mechanism = Laplace(epsilon=1, sensitivity=2)
    ratio = mechanism.law(-5)[0] / mechanism.law(-7)[1]
    assert math.log(ratio) == pytest.approx(1, abs=1e-12)


def test_laplace_law_sums_to_one_and_has_its_variance() -> None:
    """lecture:L11 variance close to 2 b^2; P[|Y| > t] = 2 r^(t+1) / (1 + r)."""
    mechanism = Laplace(epsilon=0.1)
    z = range(-600, 601)
    mass = [mechanism.pmf(v) for v in z]
    assert math.fsum(mass) == pytest.approx(1, abs=1e-12)
    assert math.fsum(p * v * v for p, v in zip(mass, z, strict=True)) == pytest.approx(mechanism.variance, rel=1e-9)
    assert mechanism.variance == pytest.approx(2 * 10**2, rel=1e-2)


def test_laplace_tail_falls_by_e_per_scale() -> None:
    """lecture:L11 P[|Y| >= t b] = exp(-t), up to the discreteness of the law."""
    mechanism = Laplace(epsilon=Fraction(1, 1000))
    beyond = sum(mechanism.pmf(z) for z in range(3000, 30_000)) * 2
    assert beyond == pytest.approx(math.exp(-3), rel=1e-3)


@pytest.mark.parametrize(("confidence", "expected"), [(0.95, 30), (0.99, 46), (0.999, 69)])
def test_error_is_the_smallest_covering_integer(confidence: float, expected: int) -> None:
    """lecture:L12 exact quantiles at scale 10."""
    mechanism = Laplace(epsilon=0.1)
    outside = [1 - sum(mechanism.pmf(z) for z in range(-t, t + 1)) for t in (expected - 1, expected)]
    assert mechanism.error(confidence) == expected
    assert outside[0] > 1 - confidence >= outside[1]


@pytest.mark.parametrize("k", [1, 7, 100, 10_000])
def test_simultaneous_error_is_exact(k: int) -> None:
    """lecture:L12"""
    mechanism = Laplace(epsilon=0.1)
    t = mechanism.error(0.95, simultaneous=k)
    inside = [math.fsum(mechanism.pmf(z) for z in range(-s, s + 1)) ** k for s in (t - 1, t)]
    assert inside[0] < 0.95 <= inside[1]


@pytest.mark.parametrize("k", [1, 2, 10, 100, 10_000])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1, 2, 5])
def test_textbook_bound_holds_for_continuous_noise_and_the_exact_one_for_integers(epsilon: float, k: int) -> None:
    """lecture:L12 Theorem 3.8, P[max error >= ln(k / beta) scale] <= beta, and its statement for integers, exactly."""
    mechanism, beta = Laplace(epsilon=epsilon), Fraction(1, 20)
    t, exact = mechanism.textbook_error(0.95, simultaneous=k), mechanism.error(0.95, simultaneous=k)
    assert 1 - (1 - math.exp(-t * epsilon)) ** k <= 0.05 * (1 + 1e-9)
    assert mechanism.beyond(exact + 1, simultaneous=k)[1] <= beta < mechanism.beyond(exact, simultaneous=k)[0]


def test_integer_noise_breaks_the_textbook_bound() -> None:
    """lecture:L12 0.073 instead of 0.05 at epsilon = 1, and in 8 of these 25 settings."""
    mechanism = Laplace(epsilon=1)
    assert float(mechanism.beyond(mechanism.textbook_error(0.95))[0]) == pytest.approx(0.0728, abs=1e-4)
    settings = [(Laplace(epsilon=e), k) for e in (0.1, 0.5, 1, 2, 5) for k in (1, 2, 10, 100, 10_000)]
    broken = [
        m.beyond(m.textbook_error(0.95, simultaneous=k), simultaneous=k)[0] > Fraction(1, 20) for m, k in settings
    ]
    assert sum(broken) == 8


@pytest.mark.parametrize("t", [0, 0.2, 1, 1.5, 4])
def test_beyond_is_the_mass_outside(t: float) -> None:
    mechanism = Laplace(epsilon=0.7)
    low, high = mechanism.beyond(t)
    inside = math.fsum(mechanism.pmf(z) for z in range(1 - math.ceil(t), math.ceil(t)))
    assert low <= high
    assert float(low) == pytest.approx(1 - inside, abs=1e-12)


@pytest.mark.parametrize(("epsilon", "t", "k"), [(1000, 1, 1), (1, 3, 10**30), (1, 10**300, 1)])
def test_beyond_is_a_probability(epsilon: int, t: int, k: int) -> None:
    low, high = Laplace(epsilon=epsilon).beyond(t, simultaneous=k)
    assert 0 <= low <= high <= 1


@pytest.mark.parametrize("confidence", [1 - Fraction(1, 10**41), Fraction(1, 10**41), 1 - Fraction(1, 10**400)])
def test_confidence_beyond_what_can_be_computed_is_refused(confidence: Fraction) -> None:
    for error in (Laplace(epsilon=1).error, Laplace(epsilon=1).real_error, Laplace(epsilon=1).textbook_error):
        with pytest.raises(Misconfigured, match="it must lie between 1e-40 and 1 - 1e-40"):
            error(confidence)


@pytest.mark.parametrize("epsilon", [100, 1, 0.01])
def test_real_error_is_the_continuous_quantile(epsilon: float) -> None:
    """lecture:L11 on the fine grid P[|Y| >= t b] = exp(-t) holds to six digits."""
    assert Laplace(epsilon=epsilon).real_error() == pytest.approx(math.log(20) / epsilon, rel=2e-6)


def test_first_names_are_within_12() -> None:
    """lecture:L14 10,000 names, eps = 1, 95 %: ln(10000 / 0.05) = 12.2."""
    names = Laplace(epsilon=1)
    assert names.textbook_error(0.95, simultaneous=10_000) == pytest.approx(12.2, abs=0.01)
    assert names.error(0.95, simultaneous=10_000) == 12


def test_counting_queries_have_the_scales_of_the_lecture() -> None:
    """lecture:L13 one count 1/eps; m arbitrary counts m/eps; a histogram over disjoint cells 1/eps."""
    assert Laplace(epsilon=0.5, sensitivity=1).scale == 2
    assert Laplace(epsilon=0.5, sensitivity=7).scale == 14


def test_more_sensitivity_or_less_epsilon_means_more_noise() -> None:
    """lecture:L34"""
    assert Laplace(epsilon=1, sensitivity=2).error() > Laplace(epsilon=1).error()
    assert Laplace(epsilon=0.5).error() > Laplace(epsilon=1).error()


def test_loss_is_pure_and_exact() -> None:
    assert Laplace(epsilon=0.1).loss == Pure(Fraction(1, 10))


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("epsilon", [2, 0.1, 0.001])
def test_laplace_draws_follow_its_law(epsilon: float) -> None:
    scale = 1 / epsilon
    draws = Laplace(epsilon=epsilon)(np.full(200_000, 7)) - 7
    assert_fits(draws, laplace(scale))
    assert_misfits(draws, laplace(scale * 1.1))


@pytest.mark.usefixtures("seeded")
def test_scalar_draws_follow_the_same_law() -> None:
    mechanism = Laplace(epsilon=0.5)
    draws = np.array([mechanism(0) for _ in range(30_000)])
    assert_fits(draws, laplace(2.0))
    assert_misfits(draws, laplace(2.2))


@pytest.mark.usefixtures("seeded")
def test_auditor_accepts_laplace_and_catches_half_its_scale() -> None:
    claimed, half = Laplace(epsilon=1), Laplace(epsilon=2)
    zeros, ones = np.zeros(100_000, np.int64), np.ones(100_000, np.int64)
    assert_private(claimed(zeros), claimed(ones), 1.0)
    assert_caught(half(zeros), half(ones), 1.0)


@pytest.mark.usefixtures("seeded")
def test_auditor_accepts_laplace_on_reals() -> None:
    """threat:A1 threat:A3 the low bits of a real answer tell nothing: outputs lie on one grid."""
    n = 50_000
    claimed = Laplace(epsilon=1, size=n)
    assert_private(claimed(np.zeros(n)), claimed(np.ones(n)), 1.0)
    mechanism = Laplace(epsilon=1)
    step = float(mechanism.grid.step)
    outputs = np.array([mechanism(v) for v in (0.0, 1.0, 0.1) for _ in range(500)]) / step
    assert np.array_equal(outputs, np.rint(outputs))


@pytest.mark.parametrize("bad", BAD)
def test_parameters_are_refused_with_their_rule(bad: object) -> None:
    """threat:A26"""
    for name in ("epsilon", "sensitivity"):
        with pytest.raises(Misconfigured, match=rf"`{name}` is .*; it must"):
            Laplace(**{"epsilon": 1, name: bad})  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [0, 1, 1.5, math.nan, "a", True])
def test_confidence_is_refused_outside_the_unit_interval(bad: object) -> None:
    with pytest.raises(Misconfigured, match="`confidence` is"):
        Laplace(epsilon=1).error(bad)  # type: ignore[arg-type]


def test_noise_scale_outside_the_exact_range_is_refused() -> None:
    with pytest.raises(Misconfigured, match="noise scale"):
        Laplace(epsilon=2000)(5)
    with pytest.raises(Misconfigured, match="noise scale"):
        Laplace(epsilon=Fraction(1, 1 << 51))(5)
