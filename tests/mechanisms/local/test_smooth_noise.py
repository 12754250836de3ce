"""lapwing.mechanisms.local.smooth."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lapwing.errors import Misconfigured
from lapwing.mechanisms.local.smooth import SmoothNoise, _weights
from lapwing.numbers import ball, enclose
from lapwing.privacy.loss import Approximate, Pure
from support.chi import assert_fits, assert_misfits, laplace

EPSILONS = [Fraction(1, 10), Fraction(1), Fraction(4)]
SMOOTH = [Fraction(1), Fraction(7, 3), Fraction(17)]


def exp_above(epsilon: Fraction) -> Fraction:
    return enclose(lambda: ball(epsilon).exp())[1]


def worst_ratio(noise: SmoothNoise, smooth: tuple[Fraction, Fraction], shift: int) -> Fraction:
    """The largest P[Z = z] / P[Z' = z + shift] over z near the middle and far out, where it is largest for Cauchy."""
    extent = math.ceil(4 * max(smooth) / noise.slide)
    places = [*range(-extent, extent + 1, max(1, extent // 60)), 10**9, -(10**9)]
    return max(noise.law(z, smooth[0])[0] / noise.law(z + shift, smooth[1])[1] for z in places)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("least", SMOOTH)
def test_cauchy_keeps_epsilon_under_slide_and_dilation(epsilon: Fraction, least: Fraction) -> None:
    """lecture:L20 the farthest that neighbours may be apart: scales a factor e^beta, values the smooth bound."""
    noise = SmoothNoise(epsilon=epsilon)
    most = exp_above(epsilon)
    for pair in ((least, least), (least, least / noise.decay), (least / noise.decay, least)):
        for shift in {0, 1, math.floor(least)}:
            assert worst_ratio(noise, pair, shift) <= most
            assert worst_ratio(noise, pair, -shift) <= most


def test_cauchy_breaks_if_the_scale_moves_faster_or_the_value_farther() -> None:
    """The power twin of the test above."""
    noise = SmoothNoise(epsilon=1)
    most = exp_above(Fraction(1))
    far = Fraction(40) / noise.decay**3
    assert worst_ratio(noise, (far, Fraction(40)), 0) > most
    assert worst_ratio(noise, (Fraction(40), Fraction(40)), 100) > most


def needed_delta(noise: SmoothNoise, smooth: tuple[Fraction, Fraction], shift: int) -> float:
    """The hockey-stick divergence at epsilon of the two laws, summed over 80 scales."""
    here, there = (float(bound / noise.slide) for bound in smooth)
    z = np.arange(-int(80 * max(here, there)), int(80 * max(here, there)) + 1)
    p = math.tanh(1 / (2 * here)) * np.exp(-np.abs(z) / here)
    q = math.tanh(1 / (2 * there)) * np.exp(-np.abs(z + shift) / there)
    return float(np.maximum(p - math.exp(noise.epsilon) * q, 0).sum())


@pytest.mark.parametrize(("epsilon", "delta"), [(1, 0.01), (1, 1e-6), (0.2, 0.01), (3, 1e-4), (0.1, 1e-6)])
def test_laplace_keeps_delta_under_slide_and_dilation(epsilon: float, delta: float) -> None:
    """lecture:L20 the divergence of the discrete laws at their farthest; the proof gives away a factor of six."""
    noise = SmoothNoise(epsilon=epsilon, delta=delta)
    for least in (Fraction(1), Fraction(4), Fraction(100)):
        pairs = (least, least), (least, least / noise.decay), (least / noise.decay, least)
        shifts = 0, math.floor(least), -math.floor(least)
        worst = max(needed_delta(noise, pair, shift) for pair in pairs for shift in shifts)
        assert delta / 10 <= worst <= delta


def test_laplace_breaks_if_the_scale_moves_faster() -> None:
    """The power twin: scales that may be a factor e^(2 beta) apart need far more than delta."""
    noise = SmoothNoise(epsilon=1, delta=1e-6)
    assert needed_delta(noise, (1 / noise.decay**2, Fraction(1)), 1) > 50e-6


def test_float_divergence_agrees_with_the_proven_law() -> None:
    noise = SmoothNoise(epsilon=1, delta=0.01)
    factor = exp_above(Fraction(1))
    proven = sum(
        max(noise.law(z, Fraction(2))[0] - factor * noise.law(z + 1, Fraction(1))[1], Fraction(0))
        for z in range(-200, 201)
    )
    assert needed_delta(noise, (Fraction(2), Fraction(1)), 1) == pytest.approx(float(proven), rel=1e-9)


@pytest.mark.parametrize(("epsilon", "delta"), [(1, 0), (1, 1e-6), (0.1, 0), (0.1, 1e-9), (50, 0.1), (700, 0)])
def test_decay_meets_its_conditions(epsilon: float, delta: float) -> None:
    noise = SmoothNoise(epsilon=epsilon, delta=delta)
    assert 0 < noise.decay < 1
    assert noise.beta <= float(noise.epsilon - noise.slide) * (1 + 1e-9)
    if delta:
        q = noise.decay
        exponent = float((noise.epsilon - noise.slide) * q / (1 - q))
        assert (1 + math.tanh(float(noise.slide) / 2)) * float(1 - q) * math.exp(-exponent) <= delta * (1 + 1e-9)


def test_beta_is_larger_than_the_textbook_value() -> None:
    """lecture:L20 eps / (2 ln(2 / delta)) at (1, 1e-6); eps / 6 for Cauchy noise of scale 6 S / eps."""
    noise = SmoothNoise(epsilon=1, delta=1e-6)
    assert noise.beta == pytest.approx(0.0448, abs=1e-4)
    assert noise.beta > 1.25 / (2 * math.log(2e6))
    assert SmoothNoise(epsilon=1).beta == pytest.approx(0.49996, abs=1e-5)


@pytest.mark.parametrize("epsilon", [0.05, 1, 20])
@pytest.mark.parametrize("most", [1, 2, 1000, 1 << 40])
def test_weights_fall_no_faster_than_the_decay(epsilon: float, most: int) -> None:
    """w_(k+1) >= q w_k, exactly, also behind the last one, where the bound is at least 1."""
    decay = SmoothNoise(epsilon=epsilon).decay
    weights = _weights(decay, most)
    one = 1 << 128
    assert weights[0] == one
    assert all(second >= decay * first for first, second in pairwise(weights))
    assert all(second <= decay * first + 1 for first, second in pairwise(weights))
    assert decay * weights[-1] * most <= one


@given(st.lists(st.integers(0, 1000), max_size=60), st.integers(0, 1000), st.integers(0, 999))
def test_smooth_bound_is_smooth(bounds: list[int], first: int, jitter: int) -> None:
    """Whatever U is, V_0 = anything and V_(k+1) >= U_k keeps S(U) <= e^beta S(V)."""
    for noise in (SmoothNoise(epsilon=1), SmoothNoise(epsilon=1, delta=0.01)):
        next_ = [first, *(min(1000, bound + (jitter if i % 7 == 3 else 0)) for i, bound in enumerate(bounds))]
        here, there = noise.smooth_bound(bounds, 1000), noise.smooth_bound(next_, 1000)
        assert here <= there / noise.decay
        assert here >= max([1, *bounds[:1]])


def test_missing_bounds_count_as_the_most() -> None:
    noise = SmoothNoise(epsilon=1)
    assert noise.smooth_bound([], 100) == 100
    assert noise.smooth_bound([0] * noise.terms(100), 100) == 1
    assert noise.smooth_bound([10**9], 100) == 100


@pytest.mark.usefixtures("seeded")
def test_draws_have_the_stated_scale() -> None:
    noise = SmoothNoise(epsilon=1, delta=0.01)
    draws = [noise.draw(Fraction(5)) for _ in range(6000)]
    assert_fits(draws, laplace(10))
    assert_misfits(draws, laplace(12))
    heavy = np.abs([SmoothNoise(epsilon=1).draw(Fraction(5)) for _ in range(6000)])
    assert np.mean(heavy <= 10) == pytest.approx(0.5, abs=0.04)  # the quartile of a Cauchy law is its scale


@pytest.mark.parametrize("delta", [0, 1e-6])
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.99])
def test_error_covers_the_noise(delta: float, confidence: float) -> None:
    noise = SmoothNoise(epsilon=1, delta=delta)
    smooth = Fraction(3)
    t = noise.error(confidence, smooth)
    inside = sum(noise.law(z, smooth)[0] for z in range(-t, t + 1))
    short = sum(noise.law(z, smooth)[1] for z in range(-t + 2, t - 1))
    assert short < Fraction(str(confidence)) <= inside + Fraction(1, 10**20)


def test_loss_is_pure_without_delta() -> None:
    assert SmoothNoise(epsilon=0.1).loss == Pure(Fraction(1, 10))
    assert SmoothNoise(epsilon=0.1, delta=1e-6).loss == Approximate(Fraction(1, 10), Fraction(1, 10**6))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": 0}, "`epsilon` is 0"),
        ({"epsilon": math.nan}, "`epsilon` is nan"),
        ({"epsilon": 1, "delta": 1}, "`delta` is 1"),
        ({"epsilon": 1, "delta": -1}, "`delta` is -1"),
        ({"epsilon": 1000}, "protects nobody"),
        ({"epsilon": Fraction(1, 10**13)}, "too small"),
        ({"epsilon": Fraction(1, 10**10), "delta": Fraction(1, 10**100)}, "too small"),
    ],
)
def test_bad_parameters_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(Misconfigured, match=message):
        SmoothNoise(**arguments)  # type: ignore[arg-type]


def test_too_many_terms_are_refused() -> None:
    with pytest.raises(Misconfigured, match="more than 100,000 steps away"):
        SmoothNoise(epsilon=1e-5).terms(1 << 30)
