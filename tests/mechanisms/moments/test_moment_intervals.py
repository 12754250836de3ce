"""lapwing.mechanisms.additive.tails."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lapwing.mechanisms.additive.gaussian import Gaussian
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.additive.tails import (
    gaussian_tail_bound,
    laplace_tail_bound,
    share_bands,
    tail_bound,
    tail_bounds,
    tail_of,
)

M = 1 << 30
LAPLACE, GAUSSIAN = Laplace(epsilon=1, sensitivity=M), Gaussian(rho=0.5, sensitivity=M)
BOTH = [LAPLACE, GAUSSIAN]
LEVELS = [0.5, 0.1, 0.05, 1e-3, 1e-6]
WEIGHTS = [
    (1.0,),
    (1.0, 0.1),
    (0.5, 0.5),
    (0.5, 0.01, 0.5),
    (0.17, -0.33, 0.17),
    (1.0, 1.0, 1.0),
    (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
    (1.0,) * 9,
]


@pytest.mark.parametrize("w", [0.0, 0.01, 0.2, 0.4999, 0.5, 0.7, 1.0])
def test_tail_agrees_with_fourier_sums(w: float) -> None:
    """Two ways to the same law: closed form here, characteristic functions in tails.py."""
    noise = Laplace(epsilon=1, sensitivity=1 << 20)
    tail = tail_of(noise)
    for outside in LEVELS:
        x = laplace_tail_bound(np.array([1 - w, w]), float(noise.scale), outside)
        assert tail(1 - w, w, x) <= outside
        assert tail(1 - w, w, 0.97 * x) > outside
        assert 0.97 * x <= tail_bound(noise, (w, 1 - w), outside) <= x


def test_mixed_noise_strays_less_than_that_of_one_cell() -> None:
    """The lemma behind `Mean.error`: P[|(1 - w) L1 - w L2| > x] <= P[|L1| > x]."""
    tail = tail_of(Laplace(epsilon=1, sensitivity=1 << 40))
    for w, x in itertools.product(np.linspace(0, 1, 41), np.linspace(0.01, 30, 200) * 2.0**40):
        assert tail(1 - w, w, x) <= tail(1, 0, x) * (1 + 1e-5)
        assert tail(1 - w, w, x) <= tail(1 - w, min(1, w + 0.1), x) * (1 + 1e-5)


@pytest.mark.parametrize("outside", LEVELS)
def test_reach_of_fixed_weights_does_not_depend_on_sign_or_order(outside: float) -> None:
    for noise, weights in itertools.product(BOTH, WEIGHTS):
        far = tail_bound(noise, weights, outside)
        turned = tail_bound(noise, tuple(-weight for weight in reversed(weights)), outside)
        assert turned == pytest.approx(far, rel=1e-5)
        assert tail_bound(noise, (*weights, 0.0), outside) == pytest.approx(far, rel=1e-5)
    assert tail_bound(LAPLACE, (0.0, 0.0), outside) == 0


@pytest.mark.parametrize("noise", BOTH, ids=["laplace", "gaussian"])
def test_reach_of_one_cell_is_the_exact_quantile(noise: Laplace | Gaussian) -> None:
    for confidence in (0.5, 0.9, 0.95, 0.999):
        assert tail_bound(noise, (1.0,), 1 - confidence) == pytest.approx(noise.error(confidence), rel=1e-5)


@pytest.mark.parametrize("outside", LEVELS[1:])
@pytest.mark.parametrize("weights", WEIGHTS, ids=lambda weights: f"{len(weights)}-{weights[0]}")
def test_reaches_of_many_groups_are_valid_and_near_the_least(weights: tuple[float, ...], outside: float) -> None:
    """Against Fourier sums, which are up to 1 % above the least themselves. The bound of tilted densities."""
    columns = np.array([weights, [2 * weight for weight in weights]]).T
    one, two = tail_bounds(LAPLACE, columns, outside) / M
    least = laplace_tail_bound(np.array(weights), float(M), outside) / M
    assert 0.985 * least <= one <= 1.3 * least
    assert two == pytest.approx(2 * one)
    normal = gaussian_tail_bound(np.array(weights), GAUSSIAN.variance, outside)
    assert normal * (1 - 1e-6) <= tail_bounds(GAUSSIAN, columns, outside)[0] <= normal * (1 + 1e-6)


@pytest.mark.parametrize("t", [0.3, 0.7, 0.95])
def test_peak_of_a_tilted_density_is_below_one_over_its_deviation(t: float) -> None:
    """sup f_t <= 1 / sigma_t for the tilted density of w1 L1 + w2 L2, on a grid: the step behind `tail_bounds`."""
    x = np.linspace(-400, 400, 400_001)
    for less in (0.2, 0.5, 0.9, 0.999):
        density = (np.exp(-np.abs(x)) - less * np.exp(-np.abs(x) / less)) / (2 * (1 - less * less))
        tilted = density * np.exp(t * x)
        tilted /= tilted.sum() * (x[1] - x[0])
        u = np.array([t * t, (less * t) ** 2])
        deviation = math.sqrt(float((2 * np.array([1, less**2]) * (1 + u) / (1 - u) ** 2).sum()))
        mean = (x * tilted).sum() * (x[1] - x[0])
        assert ((x - mean) ** 2 * tilted).sum() * (x[1] - x[0]) == pytest.approx(deviation**2, rel=1e-2)
        assert tilted.max() <= 1 / deviation


def test_no_weight_means_no_noise() -> None:
    assert tail_bounds(LAPLACE, np.zeros((3, 2)), 0.05).tolist() == pytest.approx([0, 0], abs=1e-9)


@given(st.lists(st.floats(-5, 40), min_size=2, max_size=2), st.sampled_from([0.3, 0.05, 1e-4]))
def test_shares_of_two_cells_are_those_that_the_test_keeps(cells: list[float], outside: float) -> None:
    """Brute force over shares: none that is kept lies outside, and the ends are within 1 % of the kept ones."""
    for noise in BOTH:
        first, second = (max(cell, 0.0) * M for cell in cells)
        low, high = share_bands(noise, (1.0, 0.0), np.array(cells)[:, None] * M, outside)
        tail = tail_of(noise)
        shares = np.linspace(0, 1, 401)
        kept = [m for m in shares if tail(1 - m, m, abs((1 - m) * first - m * second)) >= outside]
        assert low[0] <= min(kept)
        assert high[0] >= max(kept)
        assert low[0] >= min(kept) - 0.0025 - 0.01
        assert high[0] <= max(kept) + 0.0025 + 0.01


@given(st.lists(st.floats(-5, 40), min_size=3, max_size=3))
def test_shares_of_three_cells_hold_all_that_the_test_keeps(cells: list[float]) -> None:
    for noise in BOTH:
        low, high = share_bands(noise, (0.0, 0.5, 1.0), np.array(cells)[:, None] * M, 0.05)
        if sum(cells) <= 0:
            assert (low[0], high[0]) == (0, 1)
        for m in np.linspace(0, 1, 21):
            weights = np.array([-m, 0.5 - m, 1 - m])
            if sum(cells) > 0 and abs(weights @ cells) * M <= 0.98 * tail_bound(noise, tuple(weights.tolist()), 0.05):
                assert low[0] <= m <= high[0]


def test_groups_do_not_touch_each_other() -> None:
    """Also over the pieces in which groups are worked through."""
    cells = np.outer([3.0, 5.0, 9.0], np.arange(1, 9_001)) * M
    low, high = share_bands(LAPLACE, (0.0, 0.5, 1.0), cells, 0.05)
    for place in (0, 4095, 4096, 8999):
        alone = share_bands(LAPLACE, (0.0, 0.5, 1.0), cells[:, [place]], 0.05)
        assert (low[place], high[place]) == (alone[0][0], alone[1][0])
