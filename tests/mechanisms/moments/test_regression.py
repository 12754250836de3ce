"""lapwing.mechanisms.moments.pair_moments."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lapwing.mechanisms.moments.moment_values import GRID
from lapwing.mechanisms.moments.pair_moments import (
    PairCells,
    PairMoments,
    correlation_intervals,
    correlations,
    covariance_intervals,
    covariances,
    intercept_intervals,
    intercepts,
    slope_intervals,
    slopes,
)
from support.scaled import scale_down

PRICES = [{"epsilon": 1}, {"rho": 0.5}]
RUNS = 400
VALUES = {
    covariances: covariance_intervals,
    correlations: correlation_intervals,
    slopes: slope_intervals,
    intercepts: intercept_intervals,
}
EVENLY = np.linspace(0, 10, 1000)
LINES: dict[int, list[tuple[Any, Any]]] = {
    0: [(np.array([1.0, 4.0, 7.0]), np.array([2.0, -3.0, 3.0]))],  # one fixed line: of no rows any is as good
    10: [(np.linspace(0, 10, 10), np.linspace(-5, 5, 10)), (np.repeat([0.0, 10.0], 5), np.tile([-5.0, 5.0], 5))],
    1000: [(EVENLY, EVENLY / 2 - 4), (EVENLY, 3 * np.sin(EVENLY)), (EVENLY**2 / 10, 4 - np.sqrt(EVENLY))],
    100_000: [(np.tile(EVENLY, 100), np.tile(3 * np.sin(EVENLY), 100))],
}


def least(confidence: float, runs: int) -> float:
    return confidence - 3 * math.sqrt(confidence * (1 - confidence) / runs)


def truths(x: Any, y: Any) -> dict[Any, float]:
    matrix = np.cov(x, y, bias=True)
    slope = matrix[0, 1] / matrix[0, 0]
    return {
        covariances: matrix[0, 1],
        correlations: matrix[0, 1] / math.sqrt(matrix[0, 0] * matrix[1, 1]),
        slopes: slope,
        intercepts: y.mean() - slope * x.mean(),
    }


def held(band: Any, truth: float) -> float:
    low, high = band
    assert (low <= high).all()
    return float(np.mean((low <= truth) & (truth <= high)))


def pair(**price: Any) -> PairMoments:
    return PairMoments(x_bounds=(0, 10), y_bounds=(-5, 5), **price)


def released(mechanism: PairMoments, x: Any, y: Any, runs: int) -> list[Any]:
    return [cell + mechanism.noise.draw(runs) for cell in mechanism.cells(x, y)]


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("confidence", [0.6, 0.95])
@pytest.mark.parametrize("price", PRICES, ids=["pure", "rho"])
@pytest.mark.parametrize("n", LINES)
def test_intervals_hold_as_often_as_they_say(n: int, price: dict[str, float], confidence: float) -> None:
    """gate:G08 also with no rows; statistics that one row does not have are tested below."""
    mechanism = pair(**price)
    for x, y in LINES[n]:
        cells = released(mechanism, x if n else [], y if n else [], RUNS)
        for values, truth in truths(x, y).items():
            assert held(VALUES[values](mechanism.column, cells, confidence), truth) >= least(confidence, RUNS)
        sample = truths(x, y)[covariances] * len(x) / (len(x) - 1)
        band = covariance_intervals(mechanism.column, cells, confidence, sample=True)
        assert held(band, sample) >= least(confidence, RUNS)


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("price", PRICES, ids=["pure", "rho"])
@pytest.mark.parametrize("rows", [([], []), ([6.5], [1.0]), ([0.0], [5.0]), ([3.0] * 1000, [1.0] * 1000)])
def test_rows_that_do_not_vary_give_answers_of_the_same_shape(rows: tuple[Any, Any], price: dict[str, float]) -> None:
    """gate:G08 the covariance of a constant is 0; a slope is finite, and its interval says that nothing is known."""
    mechanism = pair(**price)
    cells = released(mechanism, *rows, RUNS)
    for sample in (False, True):
        band = covariance_intervals(mechanism.column, cells, 0.95, sample=sample)
        assert held(band, 0.0) >= least(0.95, RUNS)
    for values, intervals in VALUES.items():
        found, (low, high) = values(mechanism.column, cells), intervals(mechanism.column, cells)
        assert np.isfinite(found).all()
        assert ((low <= found) & (found <= high)).all()
    assert np.mean(np.isinf(slope_intervals(mechanism.column, cells)[1])) >= least(0.95, RUNS)


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("price", PRICES, ids=["pure", "rho"])
def test_intervals_shrink_with_the_rows(price: dict[str, float]) -> None:
    """Widths against the error that is seen: 4 deviations would do for normal errors at 95 %."""
    mechanism = pair(**price)
    ((x, y),) = LINES[100_000]
    cells = released(mechanism, x, y, 1000)
    for values, most in ((covariances, 5.5), (slopes, 6.5), (correlations, 9.0), (intercepts, 9.0)):
        low, high = VALUES[values](mechanism.column, cells, 0.95)
        off = values(mechanism.column, cells) - truths(x, y)[values]
        assert np.median(high - low) <= most * math.sqrt(np.mean(off**2))


@pytest.mark.usefixtures("seeded")
def test_slope_has_less_error_than_a_split_budget() -> None:
    """n, x, y, x^2 and x y centred, at a fifth of the price each; 5,000 rows, where both have settled."""
    mechanism = PairMoments(epsilon=1, x_bounds=(0, 1), y_bounds=(0, 1))
    x = np.linspace(0, 1, 5000)
    y = np.clip(0.25 + 0.5 * x + 0.2 * np.sin(40 * x), 0, 1)
    found = slopes(mechanism.column, released(mechanism, x, y, 2000))
    matrix, scale = np.cov(x, y, bias=True), 5 / (1 << 20)
    u, v = 2 * x - 1, 2 * y - 1
    noise = mechanism.noise.draw(5 * 2000).reshape(5, 2000) / float(mechanism.noise.scale) * scale * (1 << 20)
    n, a, b, aa, ab = (total + z for total, z in zip((5000, u.sum(), v.sum(), u @ u, u @ v), noise, strict=True))
    split = (ab / n - a * b / n**2) / (aa / n - a * a / n**2)
    errors = [np.median(np.abs(slope - matrix[0, 1] / matrix[0, 0])) for slope in (found, split)]
    assert errors[0] < 0.6 * errors[1]


@pytest.mark.parametrize("price", PRICES, ids=["pure", "rho"])
def test_any_noisy_cells_give_answers(price: dict[str, float]) -> None:
    """gate:G08 never an error, never NaN, whatever the cells."""
    mechanism = pair(**price)
    wild = np.array([0, -1, GRID, 50 * GRID, -(2**62), 2**62, 10**30, -(10**30), 10**400], object)
    cells = [np.concatenate([np.roll(wild, i * step) for step in range(9)]) for i in range(9)]
    cells = [np.append(cell, [0, -1, 1, GRID, -GRID]) for cell in cells]
    for values, intervals in VALUES.items():
        found, (low, high) = values(mechanism.column, cells), intervals(mechanism.column, cells)
        assert np.isfinite(found).all()
        assert ((low <= found) & (found <= high)).all()
    assert (np.abs(correlations(mechanism.column, cells)) <= 1).all()
    assert (np.abs(covariances(mechanism.column, cells)) <= 25).all()
    assert (np.abs(covariances(mechanism.column, cells, sample=True)) <= 50).all()


def test_no_groups_and_one_group_have_the_same_shape() -> None:
    columns = pair(epsilon=1).column
    for many in (0, 1, 3):
        for values, intervals in VALUES.items():
            cells = [np.full(many, GRID)] * 9
            assert values(columns, cells).shape == (many,)
            assert [end.shape for end in intervals(columns, cells)] == [(many,)] * 2


@pytest.mark.usefixtures("seeded")
def test_simultaneous_intervals_hold_all_at_once() -> None:
    mechanism = pair(epsilon=1)
    x, y = LINES[1000][1]
    cells = released(mechanism, x, y, 100 * 20)
    for values, truth in truths(x, y).items():
        low, high = VALUES[values](mechanism.column, cells, 0.9, simultaneous=20)
        assert ((low <= truth) & (truth <= high)).reshape(100, 20).all(axis=1).mean() >= least(0.9, 100)


@given(
    st.lists(st.tuples(st.floats(0, 10), st.floats(-5, 5)), min_size=1, max_size=20),
    st.integers(1, 3),
    st.integers(0, 8),
)
def test_rounding_stays_within_what_is_said(rows: list[tuple[float, float]], most: int, rest: int) -> None:
    """Places by 12 steps and covariances by six times that, also for units that are scaled down."""
    mechanism = pair(epsilon=1)
    x, y = np.array(rows).T
    cells = np.array(scale_down(mechanism.cells(x, y), len(rows), most, rest), object)[:, None]
    columns: PairCells = mechanism.column
    shares = (cells / cells.sum()).astype(np.float64)
    u, v = x / 10, (y + 5) / 10
    for column, place in ((columns.x, u), (columns.y, v)):
        assert abs(np.array(column.places) @ shares[:, 0] - place.mean()) <= column.rounding / GRID + 1e-14
        squares = np.array(column.squares) @ shares[:, 0] - (np.array(column.places) @ shares[:, 0]) ** 2
        assert abs(squares - place.var()) <= columns.products.off + 1e-14
    both, first, second = (value[0] for value in columns.products.sums(shares, np.ones(1)))
    assert abs(both - first * second - ((u * v).mean() - u.mean() * v.mean())) <= columns.products.off + 1e-14
