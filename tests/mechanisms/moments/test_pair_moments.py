"""lapwing.mechanisms.moments.pair_moments."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lapwing.errors import Misconfigured
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.moments.moment_values import GRID, count_intervals, mean_intervals
from lapwing.mechanisms.moments.pair_moments import (
    PairMoments,
    PairRelease,
    correlation_intervals,
    covariance_intervals,
    intercept_intervals,
    row_cells,
    slope_intervals,
)
from lapwing.privacy.loss import ZCDP, Pure
from support.audit import assert_caught, assert_private

UNIVERSE = [-math.inf, -5.0, 0.0, 1e-300, 1 / 3, 5.0, 9.999999999, 10.0, 1e308, math.inf]
steps = st.integers(0, GRID)


def pair(**options: Any) -> PairMoments:
    return PairMoments(**({"epsilon": 1, "x_bounds": (0, 10), "y_bounds": (0, 10)} | options))


@pytest.mark.parametrize("x", UNIVERSE)
def test_a_row_spreads_exactly_one_grid_over_its_cells(x: float) -> None:
    """threat:A5 whole numbers, none negative, and their sum is M whatever the row holds."""
    for y in UNIVERSE:
        cells = pair().cells(np.array([x]), np.array([y]))
        assert len(cells) == 9
        assert all(isinstance(cell, int) and cell >= 0 for cell in cells)
        assert sum(cells) == GRID


@given(st.lists(st.tuples(steps, steps), min_size=1, max_size=6))
def test_cells_are_the_floored_products_of_bernstein_polynomials(rows: list[tuple[int, int]]) -> None:
    """Also the form for engines: six sums of shifted products, the sums of a and s, and the number of rows."""
    sums = dict.fromkeys([*itertools.product(range(3), (0, 2)), "a", "s", "n"], 0)
    for a, b in rows:
        s, r = a * a >> 30, b * b >> 30
        along, across = (GRID - 2 * a + s, 2 * (a - s), s), {0: GRID - 2 * b + r, 2: r}
        for i, j in itertools.product(range(3), (0, 2)):
            assert along[i] * across[j] < 1 << 63
            sums[i, j] += along[i] * across[j] >> 30
        sums["a"], sums["s"], sums["n"] = sums["a"] + a, sums["s"] + s, sums["n"] + 1
    totals = (sums["n"] * GRID - 2 * sums["a"] + sums["s"], 2 * (sums["a"] - sums["s"]), sums["s"])
    expected: list[int] = []
    for i, total in enumerate(totals):
        expected += [sums[i, 0], total - sums[i, 0] - sums[i, 2], sums[i, 2]]
    a_steps, b_steps = np.array(rows, np.int64).T
    assert [int(cell.sum()) for cell in row_cells(a_steps, b_steps)] == expected
    bounds = (0, GRID)
    assert list(pair(x_bounds=bounds, y_bounds=bounds).cells(a_steps, b_steps)) == expected
    assert min(expected) >= 0


@pytest.mark.parametrize("kappa", [1, 2])
def test_neighbours_differ_by_no_more_than_the_sensitivity(kappa: int) -> None:
    """Brute force: data sets of up to 3 rows, and all ways to remove up to kappa rows."""
    mechanism, moved = pair(rows_per_unit=kappa), {0: set[int]()}
    corners = list(itertools.product([0.0, 3.3, 10.0], repeat=2))
    for n in range(4):
        for rows in itertools.combinations(corners, n):
            here = mechanism.cells([x for x, _ in rows], [y for _, y in rows])
            for out in range(min(kappa, n) + 1):
                for kept in itertools.combinations(rows, n - out):
                    there = mechanism.cells([x for x, _ in kept], [y for _, y in kept])
                    moved.setdefault(out, set()).add(sum(abs(a - b) for a, b in zip(here, there, strict=True)))
    assert moved == {out: {out * GRID} for out in range(kappa + 1)}
    assert mechanism.noise.sensitivity == kappa * GRID


def test_large_columns_are_summed_exactly() -> None:
    """threat:A4"""
    rows = 1_500_001
    assert pair(x_bounds=(0, 1), y_bounds=(0, 1)).cells(np.ones(rows, np.int64), np.zeros(rows)) == (
        *(0,) * 6,
        rows * GRID,
        *(0,) * 2,
    )


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([7351.5], []),
        ([7351.5], [7351.5, 1.0]),
        (np.zeros((1 << 20) + 1), np.zeros(1 << 20)),
        ([math.nan], [7351.5]),
        (["7351.5x"], [1.0]),
    ],
    ids=["none", "more", "long", "nan", "text"],
)
def test_what_is_no_pair_of_columns_is_refused_without_showing_it(x: Any, y: Any) -> None:
    """threat:A13"""
    for one, two in ((x, y), (y, x)):
        with pytest.raises(Misconfigured) as refusal:
            pair().cells(one, two)
        assert "7351" not in str(refusal.value)


@pytest.mark.parametrize("name", ["x_bounds", "y_bounds"])
@pytest.mark.parametrize("bad", [(1, 1), (2, 1), 5, (0, math.inf), (0, 1e200)])
def test_bad_bounds_are_refused(name: str, bad: Any) -> None:
    """threat:A26"""
    with pytest.raises(Misconfigured, match="`bounds`"):
        pair(**{name: bad})


def test_bad_prices_and_cells_are_refused() -> None:
    for bad in ({"epsilon": None}, {"rho": 1}, {"epsilon": 0}, {"rows_per_unit": 0}):
        with pytest.raises(Misconfigured):
            pair(**bad)
    with pytest.raises(Misconfigured, match="`cells`"):
        pair().release((1,) * 6)


def test_loss_is_the_price_of_the_whole_vector() -> None:
    """threat:A30"""
    assert pair(epsilon=0.1).loss == Pure(0.1)
    assert pair(epsilon=None, rho=0.1).loss == ZCDP(0.1)
    assert pair(rows_per_unit=3).noise.scale == 3 * GRID


def test_without_noise_the_statistics_are_those_of_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Laplace, "draw", lambda self, count: np.zeros(count, np.int64))
    x, y = np.linspace(-1, 12, 40), np.linspace(-1, 12, 40) ** 2 / 15 - 3
    release = pair(y_bounds=(-4, 6))(x, y)
    x, y = np.clip(x, 0, 10), np.clip(y, -4, 6)
    matrix = np.cov(x, y, bias=True)
    slope = matrix[0, 1] / matrix[0, 0]
    assert release.count == 40
    assert release.covariance == pytest.approx(matrix[0, 1], abs=1e-5)
    assert release.correlation == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-5)
    assert release.slope == pytest.approx(slope, abs=1e-5)
    assert release.intercept == pytest.approx(y.mean() - slope * x.mean(), abs=1e-5)


@settings(max_examples=25)
@given(st.tuples(*[st.integers(-6 * GRID, 60 * GRID)] * 9))
def test_a_release_is_the_case_of_one_group(cells: tuple[int, ...]) -> None:
    release, columns = PairRelease(cells, pair()), [np.array([cell]) for cell in cells]
    for interval, intervals, value in (
        (release.covariance_interval(0.9), covariance_intervals, release.covariance),
        (release.correlation_interval(0.9), correlation_intervals, release.correlation),
        (release.slope_interval(0.9), slope_intervals, release.slope),
        (release.intercept_interval(0.9), intercept_intervals, release.intercept),
    ):
        low, high = intervals(pair().column, columns, 0.9)
        assert interval == (low[0], high[0])
        assert low[0] <= value <= high[0]


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("price", [{"epsilon": 1}, {"epsilon": None, "rho": 0.5}], ids=["pure", "rho"])
def test_errors_stated_beforehand_hold(price: dict[str, Any]) -> None:
    mechanism = pair(**price)
    for n in (30, 400):
        x = np.repeat([0.0, 10.0], n // 2)
        for y in (x, 10 - x):
            cells = mechanism.cells(x, y)
            off = [abs(mechanism.release(cells).covariance - np.cov(x, y, bias=True)[0, 1]) for _ in range(100)]
            assert np.mean(np.array(off) <= mechanism.error(0.9, rows=n)) >= 0.9 - 3 * math.sqrt(0.09 / 100)
    assert mechanism.error(rows=1) == 50
    assert mechanism.error(rows=10**6) < 0.01


@given(st.tuples(*[st.floats(0.01, 10)] * 9))
def test_covariance_moves_by_at_most_four_and_a_half_cells_over_the_total(cells: tuple[float, ...]) -> None:
    """The derivatives of the docstring: their absolute values sum to at most 4.5 / S."""
    places = np.array([0, 0.5, 1])
    p = np.reshape(cells, (3, 3)) / sum(cells)
    m, k = places @ p.sum(axis=1), places @ p.sum(axis=0)
    v = places @ p @ places - m * k
    slopes = np.abs(np.outer(places - m, places - k) - v)
    assert slopes.sum() <= 4.5


@pytest.mark.usefixtures("seeded")
def test_columns_of_a_pair_tell_their_means_and_the_count() -> None:
    mechanism = pair(y_bounds=(-5, 5))
    x, y = np.linspace(0, 10, 500), np.linspace(-5, 5, 500) ** 3 / 25
    cells = [cell + mechanism.noise.draw(600) for cell in mechanism.cells(x, y)]
    for column, truth in ((mechanism.column.x, x.mean()), (mechanism.column.y, y.mean())):
        low, high = mean_intervals(column, cells, 0.9)
        assert np.mean((low <= truth) & (truth <= high)) >= 0.9 - 3 * math.sqrt(0.09 / 600)
    low, high = count_intervals(mechanism.column.x, cells, 0.9)
    assert np.mean((low <= 500) & (high >= 500)) >= 0.9 - 3 * math.sqrt(0.09 / 600)


def released(rows: list[tuple[float, float]], runs: int) -> Any:
    """Three cells that differ most: the auditor looks at few coordinates better than at nine."""
    mechanism = pair()
    cells = mechanism.cells([x for x, _ in rows], [y for _, y in rows])
    return np.stack([cell + mechanism.noise.draw(runs) for cell in cells], axis=1)[:, [0, 4, 8]]


@pytest.mark.usefixtures("seeded")
def test_auditor_accepts_a_row_more_and_catches_two() -> None:
    nobody = released([], 20_000)
    assert_private(nobody, released([(10.0, 10.0)], 20_000), 1.0)
    assert_private(nobody, released([(5.0, 5.0)], 20_000), 1.0)
    assert_caught(nobody, released([(10.0, 10.0)] * 2, 20_000), 1.0)
