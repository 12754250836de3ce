"""lapwing.mechanisms.moments.mean. Many groups at once: test_soft_values.py and test_soft_spread.py."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lapwing.errors import Misconfigured
from lapwing.mechanisms.additive.gaussian import Gaussian
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.moments.mean import GRID, Mean, MeanRelease, Variance, VarianceRelease
from lapwing.privacy.loss import ZCDP, Pure
from support.audit import assert_caught, assert_private
from support.chi import assert_fits, assert_misfits, gaussian, laplace

Kind = type[Mean] | type[Variance]
BOTH: list[Kind] = [Mean, Variance]
UNIVERSE = [-math.inf, -5.0, 0.0, 1e-300, 0.1, 1 / 3, 5.0, 9.999999999, 10.0, 1e308, math.inf]


def l1(a: Sequence[int], b: Sequence[int]) -> int:
    return sum(abs(x - y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("value", [*UNIVERSE, -0.0, 5e-324, np.float32(0.1), np.int8(-7), 2**63 - 1])
def test_a_row_spreads_exactly_one_grid_over_its_cells(kind: Kind, value: float) -> None:
    """threat:A5 whole numbers, none negative, and their sum is M whatever the row holds."""
    cells = kind(epsilon=1, bounds=(0, 10)).cells(np.array([value]))
    assert all(isinstance(cell, int) and cell >= 0 for cell in cells)
    assert sum(cells) == GRID


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("kappa", [1, 2])
def test_neighbours_differ_by_no_more_than_the_sensitivity(kind: Kind, kappa: int) -> None:
    """Brute force: all data sets of up to 3 rows, ties and bounds included, and all ways to remove up to kappa rows."""
    mechanism = kind(epsilon=1, bounds=(0, 10), rows_per_unit=kappa)
    moved = {}
    for n in range(4):
        for rows in itertools.combinations_with_replacement(UNIVERSE, n):
            here = mechanism.cells(np.array(rows))
            for out in range(min(kappa, n) + 1):
                for kept in itertools.combinations(rows, n - out):
                    there = mechanism.cells(np.array(kept))
                    moved[out] = {*moved.get(out, ()), l1(here, there)}
    assert moved == {out: {out * GRID} for out in range(kappa + 1)}
    assert mechanism.noise.sensitivity == kappa * GRID
    assert mechanism.noise.scale == kappa * GRID


@given(st.lists(st.integers(0, GRID), max_size=5))
def test_variance_cells_are_the_floored_bernstein_polynomials(steps: list[int]) -> None:
    """Also the form for engines: the sum of a, of a * a >> 30, and the number of rows."""
    mechanism = Variance(epsilon=1, bounds=(0, GRID))
    rows = [((GRID - a) ** 2 // GRID, a * a // GRID) for a in steps]
    lowest, middle, highest = mechanism.cells(np.array(steps, np.float64))
    assert (lowest, highest) == (sum(row[0] for row in rows), sum(row[1] for row in rows))
    assert middle == len(steps) * GRID - lowest - highest == 2 * (sum(steps) - sum(a * a >> 30 for a in steps))
    assert Mean(epsilon=1, bounds=(0, GRID)).cells(steps) == (sum(steps), len(steps) * GRID - sum(steps))


@given(st.floats(-3, 12), st.sampled_from([(-1, 11), (0, 10), (0.1, 0.3), (-7.25, -7.2)]))
def test_a_row_lands_within_one_step_of_its_place(value: float, bounds: tuple[float, float]) -> None:
    mechanism = Mean(epsilon=1, bounds=bounds)
    low, high = mechanism.bounds
    exactly = min(max(Fraction(value), low), high)
    assert abs(mechanism.cells([value])[0] - (exactly - low) / (high - low) * GRID) < 1


def test_large_columns_are_summed_exactly() -> None:
    """threat:A4 two and a half million rows in pieces: no float sums, no overflow, no order."""
    mechanism = Variance(epsilon=1, bounds=(0, 1))
    rows = 2_500_001
    assert mechanism.cells(np.ones(rows, np.int64)) == (0, 0, rows * GRID)
    assert mechanism.cells(np.zeros(rows, np.float32)) == (rows * GRID, 0, 0)


@pytest.mark.parametrize("kind", BOTH)
def test_every_kind_of_column_is_read_alike(kind: Kind) -> None:
    import pyarrow as pa

    mechanism = kind(epsilon=1, bounds=(0, 10))
    expected = mechanism.cells([1, 2, 3.0])
    for column in (np.array([1, 2, 3], np.uint8), (1, 2, 3), pa.array([1, 2, 3]), np.array([1.0, 2.0, 3.0])):
        assert mechanism.cells(column) == expected
    assert mechanism.cells([]) == mechanism.cells(np.array([], np.int64)) == (0,) * len(expected)


@pytest.mark.parametrize(
    "values",
    [[math.nan, 7351.5], ["7351.5x"], [[7351.5]], 7351.5, np.array(["7351.5"]), np.array([7351.5], object), None],
)
def test_what_is_no_column_is_refused_without_showing_it(values: Any) -> None:
    """threat:A5 threat:A13"""
    with pytest.raises(Misconfigured) as refusal:
        Mean(epsilon=1, bounds=(0, 10)).cells(values)
    assert "7351" not in str(refusal.value)
    assert refusal.value.__cause__ is None
    assert refusal.value.__suppress_context__ or refusal.value.__context__ is None


@pytest.mark.parametrize("cells", [(1,), (1, 2, 3), (1.0, 2.0), "12", None, (True, None)])
def test_cells_of_another_shape_are_refused(cells: Any) -> None:
    with pytest.raises(Misconfigured, match="`cells`"):
        Mean(epsilon=1, bounds=(0, 10)).release(cells)


@pytest.mark.parametrize("bad", [(1, 1), (2, 1), (0,), 5, (0, math.inf), (math.nan, 1), (0, True), ("0", 1)])
def test_bad_bounds_are_refused(bad: Any) -> None:
    """threat:A26"""
    for kind in BOTH:
        with pytest.raises(Misconfigured, match="`bounds`"):
            kind(epsilon=1, bounds=bad)


def test_bounds_whose_squares_overflow_are_refused() -> None:
    """gate:G11 a mean of such values is possible, a variance is not."""
    assert math.isfinite(Mean(epsilon=1, bounds=(0, 1e200))([1e199]).mean)
    with pytest.raises(Misconfigured, match="`bounds`"):
        Variance(epsilon=1, bounds=(0, 1e200))


@pytest.mark.parametrize("bad", [(10**9, 10**9 + 1), (-1e305, 1e305), (0, 1e-310)])
def test_bounds_that_floats_cannot_resolve_are_refused(bad: Any) -> None:
    with pytest.raises(Misconfigured, match="float64 cannot tell"):
        Mean(epsilon=1, bounds=bad)


@pytest.mark.parametrize("price", [{}, {"epsilon": 1, "rho": 1}, {"epsilon": 0}, {"rho": -1}, {"epsilon": math.nan}])
def test_one_price_is_needed(price: dict[str, Any]) -> None:
    """threat:A26"""
    with pytest.raises(Misconfigured):
        Mean(bounds=(0, 1), **price)
    with pytest.raises(Misconfigured, match="`rows_per_unit`"):
        Mean(bounds=(0, 1), epsilon=1, rows_per_unit=0)


def test_loss_is_the_price_of_the_whole_vector() -> None:
    """threat:A30 mean, count and variance together cost one price: the vector has one sensitivity."""
    assert Mean(epsilon=0.1, bounds=(0, 1)).loss == Variance(epsilon=0.1, bounds=(0, 1)).loss == Pure(0.1)
    assert Variance(rho=0.1, bounds=(0, 1)).loss == ZCDP(0.1)
    assert isinstance(Mean(rho=0.1, bounds=(0, 1)).noise, Gaussian)
    assert Mean(rho=0.5, bounds=(0, 1), rows_per_unit=3).noise.scale == 3 * GRID


@pytest.mark.usefixtures("seeded")
def test_noisy_cells_follow_the_law() -> None:
    cells = (7 * GRID, 3 * GRID, 0)
    draws = {
        mechanism: np.array([mechanism.release(cells).cells for _ in range(8_000)]) - cells
        for mechanism in (Variance(epsilon=0.5, bounds=(0, 1)), Variance(rho=0.5, bounds=(0, 1)))
    }
    for mechanism, noise in draws.items():
        scale = float(mechanism.noise.scale)
        right, wrong = (
            laplace(s) if mechanism.noise.loss == Pure(0.5) else gaussian(s**2) for s in (scale, 1.1 * scale)
        )
        assert_fits(noise.ravel(), right)
        assert_misfits(noise.ravel(), wrong)


@pytest.mark.parametrize("kind", BOTH)
def test_data_decide_neither_the_draws_nor_the_shape(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """threat:A20 threat:A35 no rows, one row or many: the same calls, and answers of the same kind."""
    calls: list[tuple[Laplace, int]] = []

    def zeros(self: Laplace, count: int) -> Any:
        calls.append((self, count))
        return np.zeros(count, np.int64)

    monkeypatch.setattr(Laplace, "draw", zeros)
    mechanism = kind(epsilon=1, bounds=(0, 10))
    for rows in ([], [3.0], [0.0], [10.0, 10.0], [5.0] * 100):
        release = mechanism(rows)
        assert isinstance(release.mean, float)
        assert 0 <= release.mean <= 10
        spans = [release.interval(), release.count_interval()] if isinstance(release, MeanRelease) else []
        spans += (
            [release.intervals().variance, release.intervals().count] if isinstance(release, VarianceRelease) else []
        )
        assert all(low <= high and math.isfinite(high) for low, high in spans)
    assert len(set(calls)) == 1


def test_without_noise_the_moments_are_those_of_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Laplace, "draw", lambda self, count: np.zeros(count, np.int64))
    rows = np.array([1.5, 2.0, 8.25, 30.0, -4.0])
    clipped = np.clip(rows, 0, 10)
    mean, variance = Mean(epsilon=1, bounds=(0, 10))(rows), Variance(epsilon=1, bounds=(0, 10))(rows)
    assert mean.count == variance.count == 5
    assert mean.mean == pytest.approx(clipped.mean(), abs=1e-8)
    assert variance.mean == pytest.approx(clipped.mean(), abs=1e-8)
    assert variance.variance == pytest.approx(clipped.var(), abs=1e-6)
    assert variance.stddev == pytest.approx(clipped.std(), abs=1e-6)


@pytest.mark.parametrize("cells", [(-(10**15), -1), (0, 0), (-1, 5), (10**30, 0), (0, 10**25)])
def test_any_noisy_cells_give_an_answer_within_the_bounds(cells: tuple[int, int]) -> None:
    for price in ({"epsilon": 1}, {"rho": 0.5}):
        release = MeanRelease(cells, Mean(bounds=(-3, 7), **price))
        low, high = release.interval(0.99)
        assert -3 <= low <= release.mean <= high <= 7
        assert 0 <= release.count_interval()[0] <= release.count_interval()[1]


@settings(max_examples=50)
@given(st.tuples(*[st.integers(-6 * GRID, 60 * GRID)] * 3), st.sampled_from([0.5, 0.95, 0.999]))
def test_joint_intervals_hold_the_estimates(cells: tuple[int, int, int], confidence: float) -> None:
    release = VarianceRelease(cells, Variance(epsilon=1, bounds=(0, 2)))
    spans = release.intervals(confidence)
    assert 0 <= spans.variance[0] <= release.variance <= max(spans.variance[1], release.variance) <= 1
    assert spans.mean[0] <= release.mean <= spans.mean[1]
    assert spans.stddev == (math.sqrt(spans.variance[0]), math.sqrt(spans.variance[1]))
    assert 0 <= spans.count[0] <= spans.count[1]


def variance_of(lowest: float, middle: float, highest: float) -> float:
    total = lowest + middle + highest
    return (1 - 2 * middle / total - ((lowest - highest) / total) ** 2) / 4


@given(st.tuples(*[st.floats(0.01, 10)] * 3))
def test_variance_moves_by_at_most_one_cell_over_the_total(cells: tuple[float, float, float]) -> None:
    """The derivatives of the docstring: their absolute values sum to at most 1 / S."""
    steps = []
    for place in range(3):
        moved = [list(cells), list(cells)]
        moved[0][place] *= 1 - 1e-6
        moved[1][place] *= 1 + 1e-6
        steps.append((variance_of(*moved[1]) - variance_of(*moved[0])) / (2e-6 * cells[place]))
    assert sum(map(abs, steps)) <= (1 + 1e-3) / sum(cells)


DATA = {
    0: [np.array([])],
    1: [np.array([0.0]), np.array([6.5])],
    10: [np.full(10, 10.0), np.linspace(0, 10, 10)],
    1000: [np.zeros(1000), np.linspace(2, 9, 1000) ** 1.1],
}


def joint_coverage(mechanism: Variance, rows: Any, confidence: float, runs: int) -> float:
    cells, some = mechanism.cells(rows), np.clip(rows, 0, 10) if len(rows) else np.array([1.0, 4.0])
    truths = float(np.var(some)), float(np.std(some)), float(np.mean(some)), len(rows)
    held = 0
    for _ in range(runs):
        found = mechanism.release(cells).intervals(confidence)
        spans = found.variance, found.stddev, found.mean, found.count
        held += all(low <= value <= high for (low, high), value in zip(spans, truths, strict=True))
    return held / runs


def least(confidence: float, runs: int) -> float:
    return confidence - 3 * math.sqrt(confidence * (1 - confidence) / runs)


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("price", [{"epsilon": 1}, {"rho": 0.5}])
@pytest.mark.parametrize("n", DATA)
def test_joint_intervals_hold_as_often_as_they_say(price: dict[str, float], n: int) -> None:
    """Never below the confidence, less 3 standard errors of the simulation: also with no rows or one."""
    for rows in DATA[n]:
        assert joint_coverage(Variance(bounds=(0, 10), **price), rows, 0.9, 150) >= least(0.9, 150)


@pytest.mark.slow
@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize(
    ("price", "confidence"), [({"epsilon": 1}, 0.95), ({"epsilon": 20}, 0.5), ({"rho": 0.5}, 0.99)]
)
@pytest.mark.parametrize("n", DATA)
def test_joint_intervals_hold_over_many_runs(price: dict[str, float], n: int, confidence: float) -> None:
    for rows in DATA[n]:
        assert joint_coverage(Variance(bounds=(0, 10), **price), rows, confidence, 600) >= least(confidence, 600)


@pytest.mark.usefixtures("seeded")
def test_intervals_are_not_wider_than_they_need_be() -> None:
    """The power twin: at half the width the interval of a mean fails far too often."""
    mechanism = Mean(epsilon=1, bounds=(0, 10))
    cells, held = mechanism.cells(np.full(1000, 4.0)), 0
    for _ in range(300):
        low, high = mechanism.release(cells).interval(0.9)
        held += abs((low + high) / 2 - 4.0) <= (high - low) / 4
    assert held / 300 < 0.8


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("share", [0.0, 0.05, 0.5])
@pytest.mark.parametrize("price", [{"epsilon": 1}, {"rho": 0.5}])
def test_errors_stated_beforehand_hold(share: float, price: dict[str, float]) -> None:
    mean, variance = Mean(bounds=(0, 10), **price), Variance(bounds=(0, 10), **price)
    for n in (3, 20, 400):
        rows = np.repeat([0.0, 10.0], [n - round(share * n), round(share * n)])
        off = [abs(mean.release(mean.cells(rows)).mean - rows.mean()) for _ in range(300)]
        assert np.mean(np.array(off) <= mean.error(0.9, rows=n)) >= least(0.9, 300)
        off = [abs(variance.release(variance.cells(rows)).variance - rows.var()) for _ in range(300)]
        assert np.mean(np.array(off) <= variance.error(0.9, rows=n)) >= least(0.9, 300)
        releases = [variance.release(variance.cells(rows)) for _ in range(300)]
        off = [abs(release.mean - rows.mean()) for release in releases]
        assert np.mean(np.array(off) <= variance.mean_error(0.9, rows=n)) >= least(0.9, 300)
        off = [abs(release.stddev - rows.std()) for release in releases]
        for known in (0, float(rows.std())):
            stated = variance.stddev_error(0.9, rows=n, stddev=known)
            assert np.mean(np.array(off) <= stated) >= least(0.9, 300)


def test_errors_shrink_with_rows_and_price() -> None:
    """lecture:L34"""
    for kind in BOTH:
        few, many = (kind(epsilon=1, bounds=(0, 10)).error(rows=n) for n in (100, 10_000))
        assert few > 50 * many
        assert kind(epsilon=0.1, bounds=(0, 10)).error(rows=10_000) > many
        assert kind(epsilon=1, bounds=(0, 10), rows_per_unit=2).error(rows=10_000) > many
    assert Mean(epsilon=1, bounds=(0, 10)).error(rows=1) == 10
    assert Variance(epsilon=1, bounds=(0, 10)).error(rows=1) == 25
    assert Variance(epsilon=1, bounds=(0, 10)).stddev_error(rows=1) == 5
    assert Variance(epsilon=1, bounds=(0, 10)).mean_error(rows=1) == 10


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize(("mean", "expected"), [(0.5, 1.00), (0.8, 1.17), (0.95, 1.35)])
def test_mean_has_the_error_of_the_soft_histogram(mean: float, expected: float) -> None:
    """RMSE n eps / range, n = 1000: the midpoint method at 50:50 has 1.42, 1.66 and 1.91."""
    mechanism = Mean(epsilon=1, bounds=(0, 1))
    cells = mechanism.cells(np.full(1000, mean))
    errors = np.array([mechanism.release(cells).mean for _ in range(4000)]) - mean
    assert 1000 * math.sqrt(np.mean(errors**2)) == pytest.approx(expected, rel=0.05)
    assert expected == pytest.approx(math.sqrt(2 * (mean**2 + (1 - mean) ** 2)), abs=0.01)


@pytest.mark.usefixtures("seeded")
def test_count_comes_with_less_noise_than_half_the_budget_would_give() -> None:
    mechanism = Mean(epsilon=1, bounds=(0, 1))
    counts = np.array([mechanism.release((0, 50 * GRID)).count for _ in range(4000)])
    assert counts.std() == pytest.approx(2.0, rel=0.05)
    assert counts.mean() == pytest.approx(50, abs=0.1)


PAIRS: list[tuple[list[float], list[float]]] = [
    ([], [10.0]),
    ([], [0.0]),
    ([5.0], [5.0, 5.0]),
    ([0.0, 10.0], [0.0, 10.0, 7.5]),
]


def released(mechanism: Mean | Variance, rows: list[float], runs: int) -> Any:
    cells = mechanism.cells(rows)
    return np.array([mechanism.release(cells).cells for _ in range(runs)])


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("kind", BOTH)
def test_auditor_accepts_a_row_more_and_catches_two(kind: Kind) -> None:
    mechanism = kind(epsilon=1, bounds=(0, 10))
    nobody = released(mechanism, [], 4_000)
    assert_private(nobody, released(mechanism, [10.0], 4_000), 1.0)
    assert_caught(nobody, released(mechanism, [10.0, 10.0], 4_000), 1.0)


@pytest.mark.slow
@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("pair", PAIRS)
def test_auditor_accepts_soft_histograms(kind: Kind, pair: tuple[list[float], list[float]]) -> None:
    mechanism = kind(epsilon=1, bounds=(0, 10))
    assert_private(*(released(mechanism, rows, 100_000) for rows in pair), 1.0)


@pytest.mark.slow
@pytest.mark.usefixtures("seeded")
def test_auditor_accepts_two_rows_of_one_unit() -> None:
    mechanism = Mean(epsilon=1, bounds=(0, 10), rows_per_unit=2)
    assert_private(released(mechanism, [], 100_000), released(mechanism, [0.0, 10.0], 100_000), 1.0)
