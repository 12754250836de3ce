"""Every statistic from rows to interval: the engine's cells are the mechanism's, and intervals cover at every size."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import lapwing as lw
from lapwing.answers.answer import Release
from lapwing.answers.columns import intervals_of, present, values_of
from lapwing.curator import Curator
from lapwing.mechanisms.cells import CellQuantiles
from lapwing.mechanisms.moments.mean import Mean, Variance
from lapwing.mechanisms.moments.pair_moments import PairMoments
from lapwing.plan.add_noise import Arranged, Released, release
from lapwing.plan.aggregates import FUNCTIONS
from lapwing.plan.plan import Plan
from lapwing.sql import read_sql
from support.cells import exact_cells
from support.scaled import scale_down
from support.sweeps import sweep

Floats = npt.NDArray[np.float64]
BUDGETS = {"pure": lw.Budget(epsilon=1000), "zcdp": lw.Budget(epsilon=1000, delta=1e-6)}


def curator(x: Any, y: Any = None, *, unit: Any = None, budget: str = "pure", **facts: Any) -> Curator:
    columns = {"x": pa.array(x, pa.float64()), "y": pa.array(x if y is None else y, pa.float64())}
    columns["n"] = pa.array([None if v is None or not abs(v) < 1e9 else int(v) for v in x], pa.int64())
    if unit is not None:
        columns["u"] = pa.array(unit, pa.int64())
    known: dict[str, Any] = {"bounds": {"x": (-5, 10), "y": (0, 20), "n": (-5, 10)}, "rows_per_unit": 1, **facts}
    name = None if unit is None else "u"
    return lw.open(pa.table(columns), name="t", unit=name, ledger=":memory:", budget=BUDGETS[budget], **known)


def arranged(asked: Curator, text: str, epsilon: Any = 1) -> tuple[Plan, Arranged]:
    plan = asked.preview(text, epsilon=epsilon).plan
    return plan, exact_cells(asked._engine, plan)


def cells(asked: Curator, text: str) -> list[int]:
    _, found = arranged(asked, text)
    return [int(column[0]) for column in found.cells[0]]


HOSTILE = [0.0, -0.0, 1.5, 9.99, 1e308, -1e308, 5e-324, math.nan, math.inf, -math.inf, None, 0.1, -5.0, 10.0]


def usable(values: list[Any]) -> list[float]:
    return [value for value in values if value is not None and value == value]


@pytest.mark.parametrize("rows", [[], HOSTILE, [0.3] * 7], ids=["none", "hostile", "same"])
def test_the_engine_makes_the_cells_of_the_mechanisms(rows: list[Any]) -> None:
    """gate:G13 by hand in Python and in the engine, the same whole numbers."""
    asked = curator(rows)
    bounds = (-5, 10)
    assert cells(asked, "SELECT AVG(x) FROM t") == list(Mean(epsilon=1, bounds=bounds).cells(usable(rows)))
    assert cells(asked, "SELECT VARIANCE(x) FROM t") == list(Variance(epsilon=1, bounds=bounds).cells(usable(rows)))


def test_the_engine_makes_the_cells_of_a_pair() -> None:
    x = [*HOSTILE, 3.0, 4.0, None]
    y = [*reversed(HOSTILE), None, 7.0, 8.0]
    both = [(a, b) for a, b in zip(x, y, strict=True) if a is not None and a == a and b is not None and b == b]
    mechanism = PairMoments(epsilon=1, x_bounds=(-5, 10), y_bounds=(0, 20))
    expected = mechanism.cells([a for a, _ in both], [b for _, b in both])
    assert cells(curator(x, y), "SELECT CORR(y, x) FROM t") == list(expected)


def test_a_unit_with_many_rows_is_scaled_down_in_whole_numbers() -> None:
    """threat:A34 three rows of weight for eleven rows, exactly as the mechanism's lemma has it."""
    x = [float(i % 13) - 4 for i in range(11)]
    asked = curator(x, unit=[7] * 11, rows_per_unit=3)
    mean = Mean(epsilon=1, bounds=(-5, 10)).cells(x)
    spread = Variance(epsilon=1, bounds=(-5, 10)).cells(x)
    assert cells(asked, "SELECT AVG(x) FROM t") == list(scale_down(mean, 11, 3, 1))
    assert cells(asked, "SELECT VARIANCE(x) FROM t") == list(scale_down(spread, 11, 3, 1))
    pair = PairMoments(epsilon=1, x_bounds=(-5, 10), y_bounds=(0, 20)).cells(x, x)
    assert cells(asked, "SELECT CORR(y, x) FROM t") == list(scale_down(pair, 11, 3, 4))


def test_the_histogram_gives_each_unit_its_weight() -> None:
    asked = curator([0.0, 1.0, 1.0, 2.0, None], unit=[1, 1, 1, 2, 2], rows_per_unit=2)
    _, found = arranged(asked, "SELECT MEDIAN(n) FROM t")
    place, bins, weights = (column.tolist() for column in found.cells[0])
    third = 2 * 2**20 // 3
    assert (place, bins, weights) == ([0, 0, 0], [5, 6, 7], [third, 2 * third, 2**20])


def test_different_values_are_counted_once_and_limited_per_unit() -> None:
    """F6: a unit with many values brings at most `rows_per_unit` of them."""
    values = [float(i) for i in range(10)]
    asked = curator([*values, 0.0, 0.0], unit=[1] * 10 + [2, 3], rows_per_unit=4)
    assert cells(asked, "SELECT COUNT(DISTINCT n) FROM t")[0] in (4, 5)
    assert cells(curator([*values, 0.0, None]), "SELECT COUNT(DISTINCT n) FROM t") == [10]


def linear(x: Floats, y: Floats) -> tuple[float, float]:
    spread = float(np.var(x)) if x.size else 0.0
    slope = float(np.mean((x - x.mean()) * (y - y.mean()))) / spread if spread else math.nan
    return slope, float(y.mean() - slope * x.mean()) if x.size else math.nan


STATISTICS: dict[str, Callable[[Floats, Floats], float]] = {
    "COUNT(*)": lambda x, _: float(x.size),
    "COUNT(x)": lambda x, _: float(x.size),
    "SUM(x)": lambda x, _: float(x.sum()),
    "AVG(x)": lambda x, _: float(x.mean()) if x.size else math.nan,
    "VAR_POP(x)": lambda x, _: float(x.var()) if x.size else math.nan,
    "STDDEV_POP(x)": lambda x, _: float(x.std()) if x.size else math.nan,
    "VARIANCE(x)": lambda x, _: float(x.var(ddof=1)) if x.size > 1 else math.nan,
    "STDDEV(x)": lambda x, _: float(x.std(ddof=1)) if x.size > 1 else math.nan,
    "COVAR_POP(y, x)": lambda x, y: float(np.cov(x, y, ddof=0)[0, 1]) if x.size else math.nan,
    "COVAR_SAMP(y, x)": lambda x, y: float(np.cov(x, y, ddof=1)[0, 1]) if x.size > 1 else math.nan,
    "CORR(y, x)": lambda x, y: float(np.corrcoef(x, y)[0, 1]) if x.size > 1 else math.nan,
    "REGR_SLOPE(y, x)": lambda x, y: linear(x, y)[0],
    "REGR_INTERCEPT(y, x)": lambda x, y: linear(x, y)[1],
    "MEDIAN(x)": lambda x, _: float(np.median(x)) if x.size else math.nan,
    "QUANTILE_CONT(x, 0.9)": lambda x, _: float(np.quantile(x, 0.9)) if x.size else math.nan,
    "MIN(x)": lambda x, _: float(x.min()) if x.size else math.nan,
    "MAX(n)": lambda x, _: float(np.trunc(x).max()) if x.size else math.nan,
    "COUNT(DISTINCT n)": lambda x, _: float(len(set(np.trunc(x).tolist()))),
}
TIGHT = {"COUNT(*)", "SUM(x)"}


def coverage(statistic: str, n: int, budget: str, times: int, epsilon: Any) -> float:
    """How often the interval holds the exact statistic; a statistic of too few rows is any value."""
    rng = np.random.default_rng(n)
    x = np.clip(rng.normal(3, 2, n), -5, 10)
    y = np.clip(x + rng.normal(5, 1, n), 0, 20)
    plan, exact_cells = arranged(
        curator(x.tolist(), y.tolist(), budget=budget), f"SELECT {statistic} AS a FROM t", epsilon
    )
    [column] = present(plan, release(plan, exact_cells), Fraction(19, 20))
    assert column.low is not None
    assert column.high is not None
    assert column.values.shape == column.low.shape == column.high.shape == (1,)
    truth = STATISTICS[statistic](x, y)
    drawn, [reading] = repeated(plan, exact_cells, times), plan.outline.readings
    values = values_of(plan, drawn, reading).astype(float)
    ends = intervals_of(plan, drawn, reading, Fraction(19, 20), simultaneous=1)
    assert ends is not None
    low, high = (end.astype(float) for end in ends)
    assert values.shape == low.shape == high.shape == (times,)
    assert (low <= values + 1e-9).all()
    assert (values - 1e-9 <= high).all()
    return float(np.mean((low - 1e-6 <= truth) & (truth <= high + 1e-6))) if truth == truth else 1.0


def repeated(plan: Plan, exact: Arranged, times: int) -> Released:
    """So many releases of the same cells, one below the other as if each were a group."""
    if isinstance(plan.measures[0].mechanism, CellQuantiles):
        many = [release(plan, exact).cells[0] for _ in range(times)]
        return Released((), (tuple(np.concatenate(side) for side in zip(*many, strict=True)),))
    cells = tuple(tuple(np.repeat(column, times) for column in columns) for columns in exact.cells)
    return release(plan, replace(exact, cells=cells))


@pytest.mark.parametrize("times", sweep([50, 150], 1))
@pytest.mark.parametrize("n", [0, 1, 10, 1000])
@pytest.mark.parametrize("statistic", STATISTICS)
def test_intervals_cover_at_every_size(statistic: str, n: int, times: int, seeded: Any) -> None:
    """gate:G08 gate:G54 never below 95 % minus three standard errors; no rows and one row give the same shape."""
    assert seeded is not None
    budget = "zcdp" if n in (1, 1000) else "pure"
    found = coverage(statistic, n, budget, times, Fraction(1))
    assert found >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / times)


@pytest.mark.slow
@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("n", [0, 1, 10, 1000])
@pytest.mark.parametrize("statistic", STATISTICS)
def test_intervals_cover_and_those_of_counts_and_sums_are_tight(statistic: str, n: int, budget: str) -> None:
    times = 3000
    found = coverage(statistic, n, budget, times, Fraction(1, 10))
    assert found >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / times)
    assert found <= (0.995 if statistic in TIGHT else 1)


def test_an_approximate_extreme_says_so() -> None:
    asked = curator([1.0, 2.0, 3.0] * 100)
    answer = asked.sql("SELECT MAX(x), MIN(n) AS least FROM t", epsilon=10)
    assert isinstance(answer, Release)
    assert answer.to_arrow(intervals=False).column_names == ["approx_max_x", "least"]
    assert "approximate" in answer.explain()
    assert any("approximate" in note for note in answer.to_dict()["column_notes"].values())


def test_every_aggregate_has_a_statistic() -> None:
    """An aggregate that is read off the wrong cells would be answered, with an interval, and wrong.

    Where rows are units COUNT(*) counts them; tests/plan/test_query.py counts units.
    """
    catalog = curator([1.0]).catalog
    tried = {one.name for text in STATISTICS for one in read_sql(f"SELECT {text} FROM t", catalog).aggregates}
    assert set(FUNCTIONS) - tried == {"count_units"}
