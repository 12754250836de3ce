"""At a huge price every shown number is the truth to within a stated error, and lies in its own interval.

Whatever doubles, shifts or mixes up an estimate on its way from the cells to the answer is seen here.
"""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import lapwing as lw
from lapwing.curator import Curator

UNITS, ROWS = 300, 2
BOUNDS = {"x": (-20, 80), "y": (0, 50), "i": (0, 9_000), "w": (0, 1_000_000)}
SITES = ["a", "b", "c"]
EPSILON, CONFIDENCE = 500, 1 - 1e-9
BUDGETS = {
    "pure": {"epsilon": 10**6},
    "zcdp": {"epsilon": 10**6, "delta": 1e-6},
    "basic": {"epsilon": 10**6, "delta": 1e-6, "accounting": "basic"},
}
AGGREGATES = {
    "COUNT(*)": 1,
    "COUNT(x)": 1,
    "COUNT(DISTINCT u)": 1,
    "COUNT(DISTINCT k)": 1,
    "COUNT(*) FILTER (WHERE i > 4000)": 1,
    "SUM(i)": 6_000,
    "SUM(w)": 600_000,
    "SUM(x)": 60,
    "AVG(x)": 0.5,
    "VAR_POP(x)": 10,
    "VARIANCE(x)": 10,
    "STDDEV_POP(x)": 0.2,
    "STDDEV(x)": 0.2,
    "COVAR_POP(y, x)": 5,
    "COVAR_SAMP(y, x)": 5,
    "CORR(y, x)": 0.02,
    "REGR_SLOPE(y, x)": 0.01,
    "REGR_INTERCEPT(y, x)": 0.5,
    "MEDIAN(x)": 1,
    "QUANTILE_CONT(x, 0.9)": 1,
    "MIN(x)": 3,
    "MAX(x)": 3,
}
"""By the aggregate how far the shown number may be from the truth: about one part in a hundred."""


@cache
def data() -> pa.Table:
    """Two rows a unit, all within the bounds and limits, so that nothing is clipped; x is missing here and there."""
    random = Random(3)
    rows = []
    for unit in range(UNITS):
        site = SITES[unit % 3]
        for _ in range(ROWS):
            x = None if random.random() < 0.1 else random.randrange(-79, 319) / 4
            y = 10 + 0.3 * (x or 0) + random.randrange(0, 40) / 4
            i, w = random.randrange(9_001), random.randrange(1_000_001)
            rows.append({"u": unit, "site": site, "x": x, "y": y, "i": i, "w": w, "k": random.randrange(40)})
    return pa.Table.from_pylist(rows)


@cache
def opened(budget: str, keys: str) -> Curator:
    values = {"values": {"site": SITES}} if keys == "public" else {}
    facts: dict[str, Any] = {"unit": "u", "rows_per_unit": ROWS, "groups_per_unit": 1, "bounds": BOUNDS, **values}
    return lw.open(data(), name="t", budget=lw.Budget(**BUDGETS[budget]), confidence=CONFIDENCE, **facts)  # type: ignore[arg-type]


def truth(text: str) -> list[dict[str, Any]]:
    with duckdb.connect() as connection:
        connection.register("t", data())
        return connection.sql(text).to_arrow_table().to_pylist()


@pytest.mark.parametrize(
    ("budget", "keys"), [("pure", "public"), ("zcdp", "public"), ("zcdp", "selected"), ("basic", "selected")]
)
@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_a_shown_number_is_the_truth_and_lies_in_its_interval(aggregate: str, budget: str, keys: str) -> None:
    text = f"SELECT site, {aggregate} AS z FROM t GROUP BY site ORDER BY site"
    answer = opened(budget, keys).sql(text, epsilon=EPSILON)
    rows, expected = answer.intervals().to_pylist(), truth(text)
    assert [row["site"] for row in rows] == SITES
    for row, true in zip(rows, expected, strict=True):
        assert abs(row["z"] - float(true["z"])) <= AGGREGATES[aggregate], (row, true)
        assert row["z_low"] <= row["z"] <= row["z_high"]
        assert row["z_low"] - 1e-9 <= float(true["z"]) <= row["z_high"] + 1e-9, (row, true)
