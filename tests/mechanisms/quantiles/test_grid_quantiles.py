"""lapwing.mechanisms.quantiles.grid_quantiles."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lapwing.errors import Misconfigured
from lapwing.mechanisms.quantiles.grid_quantiles import UNIT, GridQuantiles, is_approximate
from lapwing.mechanisms.quantiles.several_quantiles import Quantile
from lapwing.privacy.loss import ZCDP, Pure
from support.audit import assert_caught, assert_private

Floats = npt.NDArray[np.float64]
Group = tuple[npt.NDArray[Any], npt.NDArray[Any]]

QUARTILES = [0.25, 0.5, 0.75]


def counted(values: Floats, mechanism: GridQuantiles) -> Group:
    """What an engine does: every value clipped and put into its cell."""
    low, high = map(float, mechanism.bounds)
    cells = np.floor((np.clip(values, low, high) - low) / (high - low) * mechanism.cells).astype(np.int64)
    found, counts = np.unique(np.minimum(cells, mechanism.cells - 1), return_counts=True)
    return found, counts * UNIT


def lognormal(n: int, stream: int) -> Floats:
    return np.exp(np.random.default_rng(stream).normal(3, 1, n))


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("price", [{"epsilon": 1}, {"rho": 0.02}], ids=["pure", "zcdp"])
@pytest.mark.parametrize("n", [0, 1, 10, 1000])
def test_intervals_hold_the_quantile(n: int, price: dict[str, float]) -> None:
    """gate:G08 QUANTILE_CONT of the clipped values, minimum and maximum among them, at every number of rows."""
    at = [0, 0.25, 0.5, 0.95, 1]
    mechanism = GridQuantiles(bounds=(0, 500), cells=1000, at=at, confidence=0.9, **price)
    runs, held = 60, np.zeros(len(at))
    for run in range(runs):
        values = np.clip(lognormal(n, run), 0, 500)
        table = mechanism(*counted(values, mechanism))
        assert table.values.shape == table.lows.shape == table.highs.shape == (1, len(at))
        truth = np.quantile(values, at) if n else np.array([0, 0, 250, 500, 500])
        held += (table.lows[0] <= truth + 1e-9) & (truth <= table.highs[0] + 1e-9)
    assert (held / runs >= 0.9 - 3 * math.sqrt(0.09 / runs)).all()


@pytest.mark.usefixtures("seeded")
def test_intervals_become_narrow() -> None:
    """With many rows an interval is little wider than what its margin stands for."""
    mechanism = GridQuantiles(epsilon=1, bounds=(0, 500), cells=4096, at=[0.5])
    assert mechanism.margins is not None
    values = lognormal(10_000, 1)
    table = mechanism.release([counted(values, mechanism)] * 40)
    aimed = np.diff(np.quantile(values, [0.5 - mechanism.margins[0] / 10_000, 0.5 + mechanism.margins[0] / 10_000]))
    assert (table.highs - table.lows).mean() <= 2 * aimed[0] + 4 * 500 / 4096


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("at", [0.3, 0.5])
def test_estimates_err_like_those_of_quantile(at: float) -> None:
    """Under rho, at the price of the estimate, the law is that of Quantile, so the mean rank errors agree."""
    values = np.random.default_rng(5).integers(0, 1000, 500)
    grid = GridQuantiles(rho=Fraction(1, 16), bounds=(0, 999), cells=1000, points=True, at=[at])
    alone = Quantile(epsilon=Fraction(1, 2), bounds=(0, 999), at=at)
    cells, counts = np.unique(values, return_counts=True)
    found = grid.release([(cells, counts * UNIT)] * 400).values[:, 0]
    others = np.array([alone(cells, counts) for _ in range(400)])
    errors = [np.abs(np.searchsorted(np.sort(values), draws) - at * 500) for draws in (found, others)]
    spread = math.sqrt((errors[0].var() + errors[1].var()) / 400)
    assert abs(errors[0].mean() - errors[1].mean()) <= 5 * spread


@pytest.mark.usefixtures("seeded")
def test_ranks_are_within_the_error() -> None:
    at = [0, 0.05, 0.5, 0.9, 1]
    mechanism = GridQuantiles(epsilon=5, bounds=(0, 2000), cells=2000, at=at)
    bounds = mechanism.error(0.99999)
    for row in mechanism.release([(np.arange(500, 1500), np.full(1000, UNIT))] * 10).values:
        ranks = np.clip(row - 500, 0, 1000)
        assert (np.abs(ranks - 1000 * np.array(at)) <= np.array(bounds) + 1).all()


@pytest.mark.usefixtures("seeded")
def test_extremes_stay_among_the_rows() -> None:
    """threat:A18 rows in one hundredth of the declared range: no extreme lands in the empty rest of it."""
    mechanism = GridQuantiles(epsilon=2, bounds=(0, 4000), cells=4000, at=[0, 0.99, 1])
    table = mechanism.release([(np.arange(2000, 2040), np.full(40, 25 * UNIT))] * 30)
    inside = (table.values >= 2000) & (table.values <= 2040)
    assert inside.mean() >= 0.9
    assert (table.lows[:, 0] == 0).mean() >= 0.95
    assert (table.highs[:, 2] == 4000).mean() >= 0.95


@pytest.mark.usefixtures("seeded")
def test_constant_data_return_the_constant() -> None:
    """threat:A18"""
    mechanism = GridQuantiles(epsilon=3, bounds=(0, 4095), cells=4096, points=True, at=QUARTILES)
    table = mechanism.release([([7], [1000 * UNIT])] * 10)
    assert (table.values == 7).all()
    assert (table.lows == 7).all()
    assert (table.highs == 7).all()


@pytest.mark.usefixtures("seeded")
@given(st.lists(st.integers(0, 20), max_size=8), st.sampled_from([0.001, 1, 1000]))
def test_answers_have_one_shape_and_order(rows: list[int], epsilon: float) -> None:
    """gate:G08"""
    mechanism = GridQuantiles(epsilon=epsilon, bounds=(-1, 1), cells=21, at=[0, 0.2, 0.5, 1])
    table = mechanism.release([(rows, [UNIT] * len(rows)), ([], [])])
    assert table.values.shape == (2, 4)
    assert (np.diff(table.values, axis=1) >= 0).all()
    assert ((table.lows >= -1) & (table.lows <= table.values) & (table.values <= table.highs)).all()
    assert (table.highs <= 1).all()


def test_no_groups_give_an_empty_table() -> None:
    assert GridQuantiles(epsilon=1, bounds=(0, 1), cells=9, at=QUARTILES).release([]).values.shape == (0, 3)


@pytest.mark.usefixtures("seeded")
def test_cells_become_values() -> None:
    """A cell is named by its middle and its edges, a point by itself."""
    wide = GridQuantiles(epsilon=1000, bounds=(0, 10), cells=5, at=[0.5])([2], [100 * UNIT])
    assert (wide.values[0, 0], wide.lows[0, 0], wide.highs[0, 0]) == (5, 4, 6)
    point = GridQuantiles(epsilon=1000, bounds=(0, 10), cells=11, points=True, at=[0.5])([2], [100 * UNIT])
    assert (point.values[0, 0], point.lows[0, 0], point.highs[0, 0]) == (2, 2, 2)
    single = GridQuantiles(epsilon=1, bounds=(3, 3), cells=1, points=True, at=[0.5])([], [])
    assert (single.values[0, 0], single.lows[0, 0], single.highs[0, 0]) == (3, 3, 3)


def test_the_confidence_is_fixed_before_the_release() -> None:
    made = GridQuantiles(epsilon=1, bounds=(0, 1), cells=9, at=[0.5], confidence=0.9)([], [])
    same = made.intervals(0.8)
    assert same is not None
    assert same[0] is made.lows
    assert made.intervals(0.9) is not None
    assert made.intervals(0.95) is None
    without = GridQuantiles(epsilon=1, bounds=(0, 1), cells=9, at=[0.5], confidence=None)
    assert without([], []).intervals(0.5) is None
    assert without.margins is None
    assert np.isnan(without([], []).lows).all()


def test_prices_add_up_to_the_whole() -> None:
    pure = GridQuantiles(epsilon=1, bounds=(0, 1), cells=9, at=QUARTILES, share=0.25)
    assert pure.prices == (Fraction(1, 12), Fraction(1, 4))
    assert pure.loss == Pure(1, 3 * (Fraction(1, 144) + Fraction(1, 16)) / 2)
    assert GridQuantiles(epsilon=1, bounds=(0, 1), cells=9, at=[0.5], confidence=None).loss == Pure(1, Fraction(1, 2))
    zcdp = GridQuantiles(rho=0.01, bounds=(0, 1), cells=9, at=QUARTILES)
    assert zcdp.loss == ZCDP(Fraction(1, 100))
    spent = 3 * sum(price**2 / 8 for price in zcdp.prices)
    assert Fraction(1, 100) * (1 - Fraction(1, 10**15)) <= spent <= Fraction(1, 100)


def test_rates_are_those_of_quantile() -> None:
    mechanism = GridQuantiles(epsilon=2, bounds=(0, 1), cells=9, at=[0.25, 0.5, 1], rows_per_unit=4)
    alone = Quantile(epsilon=Fraction(1, 3), bounds=(0, 1), rows_per_unit=4, at=0.25)
    assert [aim.estimate_rate * UNIT for aim in mechanism.aims] == [alone.rate, Fraction(1, 12), Fraction(1, 24)]


def test_error_and_margins_are_the_formulas() -> None:
    mechanism = GridQuantiles(epsilon=1, bounds=(0, 1), cells=4096, at=[0.5])
    assert mechanism.error(0.95)[0] == pytest.approx(2 * math.log(4095 * 10), abs=1e-5)
    assert mechanism.margins is not None
    assert mechanism.margins[0] == pytest.approx(1 + 2 * math.log(624 * 10), abs=1e-5)
    far = GridQuantiles(epsilon=1, bounds=(0, 1), cells=4096, at=[1])
    assert far.error(0.95)[0] == pytest.approx(8 * math.log(4095 * 10), abs=1e-5)
    zcdp = GridQuantiles(rho=Fraction(1, 16), bounds=(0, 1), cells=4096, at=[0.5])
    assert zcdp.error(0.95)[0] == pytest.approx(2 * math.log(4095 * 19), abs=1e-5)
    assert zcdp.margins is not None
    assert zcdp.margins[0] == pytest.approx(1 + 2 * math.log(624 * 19), abs=1e-5)
    assert GridQuantiles(epsilon=1e-15, bounds=(0, 1), cells=4, at=[0.5]).margins == (math.inf,)


@pytest.mark.parametrize("at", [0.5, 1])
@pytest.mark.usefixtures("seeded")
def test_auditor_accepts_it_and_catches_more_rows(at: float) -> None:
    mechanism = GridQuantiles(epsilon=1, bounds=(0, 5), cells=5, at=[at], confidence=0.5)

    def runs(rows: int) -> Any:
        table = mechanism.release([([4], [rows * UNIT])] * 400)
        return table.values[:, 0] * 100 + table.lows[:, 0] * 10 + table.highs[:, 0]

    assert_private(runs(0), runs(1), 1.0)
    assert_caught(runs(0), runs(12), 1.0)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**400), 1e-300, 1e300, Fraction(10**400)])
def test_far_epsilons_are_answered(epsilon: Any) -> None:
    for price in ({"epsilon": epsilon}, {"rho": epsilon}):
        table = GridQuantiles(bounds=(0, 9), cells=10, points=True, at=[0, 0.5, 1], **price)([4], [9 * UNIT])
        assert (table.lows <= table.values).all()
        assert epsilon < 1 or (table.values == 4).all()


def test_extreme_quantiles_are_named() -> None:
    levels = (0, 0.09, 0.1, 0.5, 0.9, 0.91, 1)
    assert [is_approximate(at) for at in levels] == [True, True, False, False, False, True, True]


def test_a_tenth_is_no_extreme() -> None:
    """The rate is that of the rank alone, and nothing is kept between the estimate and the last row."""
    mechanism = GridQuantiles(epsilon=1, bounds=(0, 1), cells=9, at=[0.1, 0.9], confidence=None)
    for aim in mechanism.aims:
        assert aim.kept == 0
        assert float(aim.estimate_rate * UNIT) == pytest.approx(1 / 2 / 1.8, rel=1e-6)
        assert aim.estimate_rate * UNIT <= Fraction(1, 2) / Fraction(9, 5)


@pytest.mark.parametrize(
    ("given_", "rule"),
    [
        ({"at": []}, "must be a list of quantiles"),
        ({"at": "0.5"}, "must be a list of quantiles"),
        ({"at": 0.5}, "must be a list of quantiles"),
        ({"at": [0.5, 0.5]}, "not ascending"),
        ({"at": [0.7, 0.5]}, "not ascending"),
        ({"at": [-0.1]}, "`at` is -0.1"),
        ({"at": [1.5]}, "`at` is 1.5"),
        ({"at": [1 / 3]}, "six decimals"),
        ({"at": [math.nan]}, "`at` is nan"),
        ({"cells": 0}, "`cells` is 0"),
        ({"cells": 65537}, "at most 65536"),
        ({"cells": 2.5}, "`cells` is 2.5"),
        ({"bounds": (1, 1)}, "the lower of `bounds` must be below the upper one"),
        ({"bounds": (1, 0)}, "the lower of `bounds` must be below the upper one"),
        ({"bounds": (0, math.inf)}, "must be finite"),
        ({"bounds": (0, 10**301)}, "too large for a float"),
        ({"bounds": 5}, "must be a pair \\(low, high\\)"),
        ({"epsilon": None}, "either epsilon"),
        ({"rho": 1}, "either epsilon"),
        ({"epsilon": 0}, "`epsilon` is 0"),
        ({"confidence": 1}, "`confidence` is 1"),
        ({"share": 0}, "`share` is 0"),
        ({"share": 1}, "`share` is 1"),
        ({"rows_per_unit": 0}, "`rows_per_unit` is 0"),
        ({"points": 1}, "`points` is 1"),
    ],
    ids=str,
)
def test_bad_parameters_are_refused(given_: dict[str, Any], rule: str) -> None:
    with pytest.raises(Misconfigured, match=rule):
        GridQuantiles(**({"epsilon": 1, "bounds": (0, 1), "cells": 9, "at": [0.5]} | given_))
