"""lapwing.mechanisms.moments.variance."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lapwing.mechanisms.moments.mean import Variance, VarianceRelease
from lapwing.mechanisms.moments.moment_values import GRID
from lapwing.mechanisms.moments.variance import (
    Products,
    stddev_intervals,
    stddevs,
    tied_products,
    variance_intervals,
    variances,
)

PRICES = [{"epsilon": 1}, {"rho": 0.5}]
RUNS = 600
DATA: dict[int, list[Any]] = {
    0: [np.array([])],
    1: [np.array([0.0]), np.array([6.5])],
    2: [np.array([0.0, 10.0])],
    10: [np.full(10, 10.0), np.linspace(0, 10, 10), np.repeat([0.0, 10.0], 5)],
    1000: [np.zeros(1000), np.full(1000, 4.0), np.linspace(2, 9, 1000) ** 1.1, np.repeat([0.0, 10.0], [900, 100])],
}
WILD = [0, -1, 1, GRID, -(2**62), 2**62, 10**30, -(10**30), 10**400]


def least(confidence: float, runs: int) -> float:
    return confidence - 3 * math.sqrt(confidence * (1 - confidence) / runs)


def held(band: Any, truth: float) -> float:
    low, high = band
    assert (low <= high).all()
    return float(np.mean((low <= truth) & (truth <= high)))


def released(mechanism: Variance, rows: Any, runs: int) -> list[Any]:
    return [cell + mechanism.noise.draw(runs) for cell in mechanism.cells(rows)]


def sample_variance(rows: Any) -> float:
    return float(np.var(rows, ddof=1)) if len(rows) > 1 else 0.0


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("confidence", [0.6, 0.95])
@pytest.mark.parametrize("price", PRICES, ids=["pure", "rho"])
@pytest.mark.parametrize("n", DATA)
def test_intervals_hold_as_often_as_they_say(n: int, price: dict[str, float], confidence: float) -> None:
    """gate:G08 of the variance and the standard deviation, of the rows and of a sample; of no rows any one value."""
    mechanism = Variance(bounds=(0, 10), **price)
    for rows in DATA[n]:
        cells = released(mechanism, rows, RUNS)
        some = np.clip(rows, 0, 10) if n else np.array([1.0, 4.0])
        for intervals, root in ((variance_intervals, False), (stddev_intervals, True)):
            for sample, variance in ((False, float(np.var(some))), (True, sample_variance(some))):
                truth = math.sqrt(variance) if root else variance
                band = intervals(mechanism, cells, confidence, sample=sample)
                assert held(band, truth) >= least(confidence, RUNS)


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize(("price", "expected"), [(PRICES[0], 0.28), (PRICES[1], 0.18)], ids=["pure", "rho"])
def test_intervals_are_not_much_wider_than_they_need_be(price: dict[str, float], expected: float) -> None:
    """A thousand rows spread evenly: half the width of a box around the noisy cells; and a power twin at half of it."""
    mechanism = Variance(bounds=(0, 10), **price)
    rows = np.linspace(0, 10, 1000)
    low, high = variance_intervals(mechanism, released(mechanism, rows, 2000), 0.95)
    assert float(np.median(high - low)) < expected
    middle, half = (low + high) / 2, (high - low) / 4
    assert held((middle - half, middle + half), float(rows.var())) < 0.85


@pytest.mark.usefixtures("seeded")
def test_simultaneous_intervals_hold_all_at_once() -> None:
    mechanism = Variance(epsilon=1, bounds=(0, 10))
    rows = np.linspace(1, 7, 400)
    low, high = variance_intervals(mechanism, released(mechanism, rows, 300 * 20), 0.9, simultaneous=20)
    assert ((low <= rows.var()) & (rows.var() <= high)).reshape(300, 20).all(axis=1).mean() >= least(0.9, 300)


@pytest.mark.parametrize("price", PRICES, ids=["pure", "rho"])
@pytest.mark.parametrize("sample", [False, True])
def test_any_noisy_cells_give_answers(price: dict[str, float], sample: bool) -> None:
    """gate:G08 never an error, never NaN, never negative, and the interval holds the estimate."""
    mechanism = Variance(bounds=(-3, 7), **price)
    cells = list(np.array(np.meshgrid(*[np.array(WILD, object)] * 3)).reshape(3, -1))
    values, (low, high) = (
        variances(mechanism, cells, sample=sample),
        variance_intervals(mechanism, cells, sample=sample),
    )
    most = 50 if sample else 25
    assert ((low >= 0) & (low <= values) & (values <= high) & (high <= most)).all()
    assert np.array_equal(stddevs(mechanism, cells, sample=sample), np.sqrt(values))
    assert np.array_equal(stddev_intervals(mechanism, cells, sample=sample), np.sqrt([low, high]))


def test_no_groups_and_one_group_have_the_same_shape() -> None:
    mechanism = Variance(epsilon=1, bounds=(0, 10))
    for many in (0, 1, 3):
        cells = [np.full(many, GRID)] * 3
        assert [end.shape for end in stddev_intervals(mechanism, cells, sample=True)] == [(many,)] * 2
        assert variances(mechanism, cells).shape == (many,)


def test_without_noise_values_are_those_of_the_rows() -> None:
    mechanism, rows = Variance(epsilon=1, bounds=(-2, 10)), np.array([1.5, 2.0, 8.25, 30.0, -4.0])
    clipped, cells = np.clip(rows, -2, 10), [np.array([cell]) for cell in mechanism.cells(rows)]
    assert variances(mechanism, cells)[0] == pytest.approx(clipped.var(), abs=1e-5)
    assert variances(mechanism, cells, sample=True)[0] == pytest.approx(clipped.var(ddof=1), abs=1e-5)
    assert stddevs(mechanism, cells)[0] == pytest.approx(clipped.std(), abs=1e-5)


@given(st.lists(st.floats(0, 10), min_size=1, max_size=30), st.integers(1, 3))
def test_rounding_stays_within_what_is_said(rows: list[float], scale: int) -> None:
    """Also for units that are scaled down: 6 r steps of the squared range."""
    from support.scaled import scale_down

    mechanism = Variance(epsilon=1, bounds=(0, 10))
    cells = scale_down(mechanism.cells(rows), len(rows), scale, 1)
    known = tied_products(mechanism)
    total = sum(cells)
    square, mean = cells[2] / total, (cells[2] + cells[1] / 2) / total
    assert abs(square - mean * mean - np.var(np.array(rows) / 10)) <= known.off + 1e-14
    assert abs(mean - np.mean(rows) / 10) <= mechanism.rounding / GRID + 1e-14


shares = st.floats(0, 1)


@given(st.tuples(*[shares] * 3), st.tuples(shares, shares), st.tuples(shares, shares), st.booleans())
def test_ranges_over_bands_are_found(sums: Any, xs: Any, ys: Any, tied: bool) -> None:
    """Against a grid of the two bands: all values inside, and the ends attained."""
    products = Products((0.0,), (0.0,), (0.0,), tied=tied, rounding=2)
    both, x, y = sums[0], sums[1], sums[1] if tied else sums[2]
    xs, ys = sorted(xs), sorted(xs if tied else ys)
    bands = [tuple(np.array([end]) for end in band) for band in (xs, ys)]
    low, high = products.ranges([np.array([value]) for value in (both, x, y)], *bands)
    ms = np.linspace(*xs, 101)
    ks = ms if tied else np.linspace(*ys, 101)[:, None]
    found = both - ks * x - ms * y + ms * ks
    assert low[0] <= found.min() + 1e-12
    assert high[0] >= found.max() - 1e-12
    assert low[0] >= found.min() - 1e-3
    assert high[0] <= found.max() + 1e-3


@given(st.tuples(*[st.integers(-6 * GRID, 60 * GRID)] * 3))
def test_a_release_is_the_case_of_one_group(cells: tuple[int, int, int]) -> None:
    mechanism = Variance(epsilon=1, bounds=(0, 10))
    release, columns = VarianceRelease(cells, mechanism), [np.array([cell]) for cell in cells]
    assert release.variance == variances(mechanism, columns)[0]
    assert release.sample_variance == variances(mechanism, columns, sample=True)[0] >= release.variance
    assert release.stddev == stddevs(mechanism, columns)[0]
