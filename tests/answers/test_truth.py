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
BOUNDS = {"x": (-20, 80), "y": (0, 50), "i": (0, 9_000), "w": (0, 1_000_000), "r": (0.5, 1_000_000.25)}
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
    "SUM(r)": 600_000,
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
            i, w = random.randrange(9_001), random.randrange(1, 1_000_001)
            rows.append(
                {"u": unit, "site": site, "x": x, "y": y, "i": i, "w": w, "r": w + 0.25, "k": random.randrange(40)}
            )
    return pa.Table.from_pylist(rows)


@cache
def opened(budget: str, keys: str) -> Curator:
    values = {"values": {"site": SITES}} if keys == "public" else {}
    facts: dict[str, Any] = {"unit": "u", "rows_per_unit": ROWS, "groups_per_unit": 1, "bounds": BOUNDS, **values}
    return lw.open(
        data(), name="t", ledger=":memory:", budget=lw.Budget(**BUDGETS[budget]), confidence=CONFIDENCE, **facts
    )  # type: ignore[arg-type]


@cache
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


PER_UNIT = {"SUM(i)": 60_000, "SUM(w)": 6_000_000, "SUM(r)": 6_000_000, "SUM(x)": 600, "COUNT(*)": 10, "COUNT(x)": 10}
"""By what is computed for each unit how far the total of it may be from the truth."""


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("budget", ["pure", "zcdp"])
@pytest.mark.parametrize("inner", PER_UNIT)
def test_totals_of_what_each_unit_adds_up_are_the_truth(inner: str, budget: str) -> None:
    """The sums of one unit lie far above 4,096 here."""
    text = f"SELECT SUM(v) AS s, AVG(v) AS m, MEDIAN(v) AS q FROM (SELECT u, {inner} AS v FROM t GROUP BY u)"
    [row] = opened(budget, "public").sql(text, epsilon=EPSILON).intervals().to_pylist()
    [true] = truth(text)
    assert abs(row["s"] - float(true["s"])) <= PER_UNIT[inner]
    assert abs(row["m"] - true["m"]) <= PER_UNIT[inner] / UNITS * 3
    assert abs(row["q"] - true["q"]) <= PER_UNIT[inner] / UNITS * 30
    assert all(row[f"{name}_low"] - 1e-9 <= float(true[name]) <= row[f"{name}_high"] + 1e-9 for name in "smq")
