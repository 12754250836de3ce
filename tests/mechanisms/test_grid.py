"""lapwing.mechanisms.values."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lapwing.mechanisms.additive.gaussian import Gaussian
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.values import Grid

REALS = st.floats(-1e6, 1e6)


SCALES = st.fractions(Fraction(1, 10**6), 10**6)


@given(SCALES, SCALES, st.sampled_from([1, 2, 3, 1000, 10**6]))
def test_grid_is_fine_enough_for_noise_and_sensitivity(scale: Fraction, sensitivity: Fraction, size: int) -> None:
    step = Grid.fine(scale, sensitivity, size).step
    assert scale / step < 1 << 49
    if scale / step < 1 << 48:
        assert min(scale, sensitivity) / step >= (1 << 20) * size


@given(st.lists(st.tuples(REALS, REALS), min_size=1, max_size=20))
def test_rounding_of_every_coordinate_is_inside_the_sensitivity(pairs: list[tuple[float, float]]) -> None:
    """The l1 and l2 distances on the grid never exceed the stated sensitivities (exact rationals)."""
    x, y = (np.array(side) for side in zip(*pairs, strict=True))
    grid = Grid(-3)
    moved = [abs(int(a) - int(b)) for a, b in zip(grid.integers(x), grid.integers(y), strict=True)]
    distances = [abs(Fraction(a) - Fraction(b)) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    assert sum(moved) <= grid.l1_sensitivity(sum(distances, Fraction(0)), len(pairs))
    l2_up = Fraction(math.isqrt(math.ceil(sum(d * d for d in distances) * (1 << 80))) + 1, 1 << 40)
    assert sum(m * m for m in moved) <= grid.l2_sensitivity(l2_up, len(pairs)) ** 2


def test_a_thousand_coordinates_all_round_the_wrong_way() -> None:
    """The worst case is real: size=1000 values that each move by a hair move 1,000 grid units."""
    mechanism = Laplace(epsilon=1, sensitivity=1, size=1000)
    grid = mechanism.grid
    step = float(grid.step)
    x, y = np.full(1000, 0.499 * step), np.full(1000, 0.501 * step)
    moved = int(np.abs(grid.integers(x) - grid.integers(y)).sum())
    assert moved == 1000
    assert moved <= mechanism.on_grid.sensitivity
    assert mechanism.on_grid.sensitivity == math.floor(1 / grid.step) + 1000


@pytest.mark.parametrize("size", [1, 1000])
@pytest.mark.parametrize("epsilon", [100, 1, Fraction(1, 1000)])
def test_the_grid_costs_almost_nothing(epsilon: Fraction, size: int) -> None:
    laplace = Laplace(epsilon=epsilon, sensitivity=3, size=size)
    assert 1 <= laplace.on_grid.scale * laplace.grid.step / laplace.scale <= 1 + Fraction(1, 10**6)


def test_the_grid_is_as_good_as_continuous_noise() -> None:
    gaussian = Gaussian(epsilon=1, delta=1e-6, size=1000)
    assert gaussian.on_grid.scale * float(gaussian.grid.step) == pytest.approx(4.2247, rel=1e-3)


def test_grid_scaling_is_exact_both_ways() -> None:
    grid = Grid(-20)
    values = np.array([0.5, -0.25, 3.0, 2.0**-20])
    assert grid.reals(grid.integers(values)).tolist() == values.tolist()


def test_far_values_saturate_instead_of_wrapping() -> None:
    assert Grid(0).integers(np.array([1e300, -1e300])).tolist() == [1 << 62, -(1 << 62)]
