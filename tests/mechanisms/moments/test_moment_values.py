"""lapwing.mechanisms.moments.moment_values."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lapwing.errors import Misconfigured
from lapwing.mechanisms.moments.mean import Mean, MeanRelease, Variance
from lapwing.mechanisms.moments.moment_values import (
    GRID,
    ColumnCells,
    count_intervals,
    counts,
    mean_intervals,
    means,
    sum_intervals,
    sums,
)

PRICES = [{"epsilon": 1}, {"rho": 0.5}]
KINDS = [Mean, Variance]
RUNS = 600
DATA: dict[int, list[Any]] = {
    0: [np.array([])],
    1: [np.array([0.0]), np.array([6.5]), np.array([10.0])],
    10: [np.full(10, 10.0), np.linspace(0, 10, 10)],
    1000: [np.zeros(1000), np.full(1000, 4.0), np.linspace(2, 9, 1000) ** 1.1],
}
WILD = [0, -1, 1, GRID, -(2**62), 2**62, 10**30, -(10**30), 10**400]


def released(mechanism: Mean | Variance, rows: Any, runs: int) -> list[Any]:
    """The noisy cells of so many groups that all hold these rows."""
    return [cell + mechanism.noise.draw(runs) for cell in mechanism.cells(rows)]


def least(confidence: float, runs: int) -> float:
    return confidence - 3 * math.sqrt(confidence * (1 - confidence) / runs)


def held(band: Any, truth: float) -> float:
    low, high = band
    assert (low <= high).all()
    return float(np.mean((low <= truth) & (truth <= high)))


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("confidence", [0.6, 0.95])
@pytest.mark.parametrize("price", PRICES, ids=["pure", "rho"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", DATA)
def test_intervals_hold_as_often_as_they_say(n: int, kind: Any, price: dict[str, float], confidence: float) -> None:
    """gate:G08 never below the confidence, less 3 standard errors; also with no rows or one."""
    mechanism = kind(bounds=(0, 10), **price)
    for rows in DATA[n]:
        clipped = np.clip(rows, 0, 10)
        cells = released(mechanism, rows, RUNS)
        mean = float(clipped.mean()) if n else 2.5
        assert held(mean_intervals(mechanism, cells, confidence), mean) >= least(confidence, RUNS)
        assert held(count_intervals(mechanism, cells, confidence), n) >= least(confidence, RUNS)
        assert held(sum_intervals(mechanism, cells, confidence), float(clipped.sum())) >= least(confidence, RUNS)


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("price", PRICES, ids=["pure", "rho"])
@pytest.mark.parametrize("kind", KINDS)
def test_intervals_of_counts_and_sums_are_tight(kind: Any, price: dict[str, float]) -> None:
    """At 95 % they hold in at most 97 % of runs: a sum by chance, a count also by rounding to whole numbers."""
    mechanism = kind(bounds=(-3, 10), **price)
    rows = np.linspace(-3, 10, 1000)
    cells = released(mechanism, rows, 4000)
    assert 0.938 <= held(sum_intervals(mechanism, cells), float(rows.sum())) <= 0.97
    assert 0.938 <= held(count_intervals(mechanism, cells), 1000) <= 0.97
    assert 0.938 <= held(mean_intervals(mechanism, cells), float(rows.mean())) <= 0.97


@pytest.mark.usefixtures("seeded")
def test_simultaneous_intervals_hold_all_at_once() -> None:
    mechanism = Mean(epsilon=1, bounds=(0, 10))
    cells = released(mechanism, np.linspace(1, 7, 50), 400 * 25)
    for intervals, truth in ((mean_intervals, 4.0), (count_intervals, 50), (sum_intervals, 200.0)):
        low, high = intervals(mechanism, cells, 0.9, simultaneous=25)
        together = ((low <= truth) & (truth <= high)).reshape(400, 25).all(axis=1).mean()
        assert together >= least(0.9, 400)
        wider, narrower = (np.subtract(*band[::-1]).mean() for band in ((low, high), intervals(mechanism, cells, 0.9)))
        assert wider > narrower


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("price", PRICES, ids=["pure", "rho"])
def test_any_noisy_cells_give_answers(kind: Any, price: dict[str, float]) -> None:
    """gate:G08 never an error, never NaN, and the mean lies within its interval and the bounds."""
    mechanism = kind(bounds=(-3, 7), **price)
    many = len(mechanism.places)
    grid = np.array(np.meshgrid(*[np.array(WILD, object)] * many)).reshape(many, -1)
    for cells in (list(grid), [column[grid_fits(grid)].astype(np.int64) for column in grid]):
        middle, (low, high) = means(mechanism, cells), mean_intervals(mechanism, cells, 0.99)
        assert ((low >= -3) & (low <= middle) & (middle <= high) & (high <= 7)).all()
        for values in (counts(cells), sums(mechanism, cells)):
            assert np.isfinite(values).all()
        for band in (count_intervals(mechanism, cells), sum_intervals(mechanism, cells)):
            assert (band[0] <= band[1]).all()
        assert (count_intervals(mechanism, cells)[0] >= 0).all()
    nobody = [np.array([-5 * GRID])] * many
    assert means(mechanism, nobody).tolist() == [2.0]
    assert [end.tolist() for end in mean_intervals(mechanism, nobody)] == [[-3.0], [7.0]]


def grid_fits(grid: Any) -> Any:
    return np.array([all(abs(cell) < 2**63 for cell in column) for column in grid.T])


@given(st.lists(st.tuples(*[st.integers(-(2**50), 2**61)] * 3), min_size=1, max_size=5))
def test_narrow_and_wide_integers_give_the_same(groups: list[tuple[int, int, int]]) -> None:
    """threat:A20 how integers are held never shows."""
    mechanism = Variance(epsilon=1, bounds=(0, 10))
    narrow = [np.array(column, np.int64) for column in zip(*groups, strict=True)]
    wide = [column.astype(object) for column in narrow]
    for function in (means, sums, mean_intervals, sum_intervals, count_intervals):
        assert np.array_equal(function(mechanism, narrow), function(mechanism, wide))
    assert counts(narrow).tolist() == counts(wide).tolist()
    assert counts(wide).tolist() == pytest.approx([float(Fraction(sum(group), GRID)) for group in groups], rel=1e-15)


@pytest.mark.parametrize("kind", KINDS)
def test_no_groups_and_one_group_have_the_same_shape(kind: Any) -> None:
    mechanism = kind(epsilon=1, bounds=(0, 10))
    for many in (0, 1, 3):
        cells = [np.full(many, GRID) for _ in mechanism.places]
        for intervals in (mean_intervals, count_intervals, sum_intervals):
            assert [end.shape for end in intervals(mechanism, cells)] == [(many,)] * 2
        for values in (means(mechanism, cells), counts(cells), sums(mechanism, cells)):
            assert values.shape == (many,)
            assert values.dtype == np.float64


def test_without_noise_values_are_those_of_the_rows() -> None:
    rows = np.array([1.5, 2.0, 8.25, 30.0, -4.0])
    clipped = np.clip(rows, -2, 10)
    for kind in KINDS:
        mechanism = kind(epsilon=1, bounds=(-2, 10))
        cells = [np.array([cell]) for cell in mechanism.cells(rows)]
        assert means(mechanism, cells)[0] == pytest.approx(clipped.mean(), abs=1e-7)
        assert sums(mechanism, cells)[0] == pytest.approx(clipped.sum(), abs=1e-6)
        assert counts(cells).tolist() == [5.0]


@given(st.tuples(st.integers(-4 * GRID, 40 * GRID), st.integers(-4 * GRID, 40 * GRID)))
def test_a_release_is_the_case_of_one_group(cells: tuple[int, int]) -> None:
    mechanism = Mean(epsilon=1, bounds=(0, 10))
    release, columns = MeanRelease(cells, mechanism), [np.array([cell]) for cell in cells]
    assert (release.mean, release.count, release.sum) == (
        means(mechanism, columns)[0],
        counts(columns)[0],
        sums(mechanism, columns)[0],
    )
    for interval, band in (
        (release.interval(0.9), mean_intervals(mechanism, columns, 0.9)),
        (release.count_interval(0.9), count_intervals(mechanism, columns, 0.9)),
        (release.sum_interval(0.9), sum_intervals(mechanism, columns, 0.9)),
    ):
        assert interval == (band[0][0], band[1][0])


def test_a_sum_of_values_of_one_sign_keeps_that_sign() -> None:
    cells = [np.array([-GRID, 5 * GRID]), np.array([-GRID, 0])]
    assert (sum_intervals(Mean(epsilon=1, bounds=(2, 10)), cells)[0] >= 0).all()
    assert (sum_intervals(Mean(epsilon=1, bounds=(-10, -2)), cells)[1] <= 0).all()
    assert sum_intervals(Mean(epsilon=1, bounds=(-1, 1)), cells)[0][0] < 0


def test_noise_of_the_caller_decides_the_width() -> None:
    """A unit in several groups needs more noise; the same functions serve it."""
    once, thrice = (Mean(epsilon=1, bounds=(0, 10), rows_per_unit=k) for k in (1, 3))
    column = ColumnCells(thrice.noise, once.bounds, once.places)
    cells = [np.array([90 * GRID]), np.array([10 * GRID])]
    assert (
        mean_intervals(column, cells)[0][0] == mean_intervals(thrice, cells)[0][0] < mean_intervals(once, cells)[0][0]
    )


@pytest.mark.parametrize("bad", [{"confidence": 1}, {"confidence": 0}, {"simultaneous": 0}, {"simultaneous": 1.5}])
def test_bad_levels_are_refused(bad: dict[str, Any]) -> None:
    mechanism = Mean(epsilon=1, bounds=(0, 10))
    with pytest.raises(Misconfigured, match=next(iter(bad))):
        mean_intervals(mechanism, [np.array([1]), np.array([1])], **bad)
