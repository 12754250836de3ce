"""intervals=False: the whole price of a quantile buys its estimate, and nothing else changes."""

from __future__ import annotations

import csv
import io
import json
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lapwing as lw
from lapwing.curator import Curator
from lapwing.errors import Misconfigured
from lapwing.mechanisms.cells import CellQuantiles
from lapwing.mechanisms.quantiles.grid_quantiles import GridQuantiles
from lapwing.plan.plan import Plan

MEDIAN = "SELECT MEDIAN(x) AS m FROM t"
BOTH = "SELECT g, MEDIAN(x) AS m, MEDIAN(x) * 2 + COUNT(*) AS d, COUNT(*) AS n FROM t GROUP BY g"
BUDGETS = {"pure": lw.Budget(epsilon=1000), "zcdp": lw.Budget(epsilon=1000, delta=1e-6)}


def curator(budget: str = "pure", rows: int = 300) -> Curator:
    x = np.random.default_rng(4).normal(3, 2, rows)
    frame = pa.table({"x": pa.array(x, pa.float64()), "g": pa.array([i % 2 for i in range(rows)], pa.int64())})
    facts: dict[str, Any] = {"bounds": {"x": (-5, 10)}, "values": {"g": [0, 1]}, "check": 0}
    return lw.open(frame, name="t", unit=None, ledger=":memory:", budget=BUDGETS[budget], **facts)


def quantiles(plan: Plan) -> GridQuantiles:
    (found,) = (m.mechanism for m in plan.measures if isinstance(m.mechanism, CellQuantiles))
    return found.quantiles


@pytest.mark.parametrize("budget", BUDGETS)
def test_the_whole_price_buys_the_estimate(budget: str) -> None:
    asked = curator(budget)
    with_, without = (asked.preview(MEDIAN, epsilon=1, intervals=kind) for kind in (True, False))
    assert with_.cost == without.cost
    assert quantiles(without.plan).confidence is None
    assert quantiles(without.plan).loss == quantiles(with_.plan).loss or budget == "pure"
    ratio = float(quantiles(without.plan).prices[0] / quantiles(with_.plan).prices[0])
    assert ratio == pytest.approx(2 if budget == "pure" else 2**0.5, rel=1e-9)
    assert "MEDIAN(x): within 13 rows of its rank" in str(without) or budget == "zcdp"


def test_every_export_leaves_the_interval_out() -> None:
    answer = curator().sql(BOTH, epsilon=1, intervals=False)
    names = ["g", "m", "d", "n", "n_low", "n_high"]
    assert answer.intervals().column_names == answer.intervals(0.5, simultaneous=True).column_names == names
    assert next(csv.reader(io.StringIO(answer.to_csv()))) == names
    assert list(json.loads(answer.to_json())["rows"][0]) == names
    assert answer.to_pandas().columns.tolist() == names
    assert answer.to_pandas(intervals=False).columns.tolist() == ["g", "m", "d", "n"]
    assert str(answer).splitlines()[0].split() == ["g", "m", "d", "n", "n", "interval"]
    assert "<th>m interval</th>" not in answer._repr_html_()
    assert answer.column_notes == {}
    assert answer.plot() is not None
    assert not answer.to_pandas()["m"].isna().any()


def test_an_answer_without_any_interval_does_not_speak_of_them() -> None:
    bare, full = (curator().sql(MEDIAN, epsilon=1, intervals=kind) for kind in (False, True))
    assert "no intervals; price" in str(bare)
    assert "Intervals cover" not in bare.methods()
    assert "95% intervals" in str(full)
    assert "Intervals cover" in full.methods()


@pytest.mark.parametrize("budget", BUDGETS)
def test_neither_kind_is_given_for_the_other(budget: str) -> None:
    """gate:G28 a stored answer is given back for its own question only."""
    asked = curator(budget)
    full = asked.sql(MEDIAN, epsilon=2)
    bare = asked.sql(MEDIAN, epsilon=1, intervals=False)
    assert bare.cost
    assert bare.entry != full.entry
    again = asked.sql(MEDIAN, epsilon=1, intervals=False)
    assert not again.cost
    assert again.to_arrow().equals(bare.to_arrow())
    assert again.intervals().column_names == ["m"]
    assert not asked.sql(MEDIAN, epsilon=2).cost
    assert asked.sql(MEDIAN, epsilon=2).to_arrow().equals(full.to_arrow())
    assert asked.preview(MEDIAN, epsilon=1, intervals=False).stored


def test_other_numbers_are_stored_for_both() -> None:
    """What has its interval at no extra price is the same question."""
    asked = curator()
    count = "SELECT COUNT(*) AS n FROM t"
    first = asked.sql(count, epsilon=1, intervals=False)
    assert first.intervals().column_names == ["n", "n_low", "n_high"]
    assert not asked.sql(count, epsilon=1).cost


def test_ibis_takes_it_too() -> None:
    asked = curator()
    table = asked.table("t")
    answer = asked.ask(table.aggregate(m=table.x.median()), epsilon=1, intervals=False)
    assert answer.intervals().column_names == ["m"]


@pytest.mark.parametrize("rows", [0, 1])
def test_few_rows_change_no_shape(rows: int) -> None:
    """gate:G08"""
    full, none = (curator(rows=n).sql(BOTH, epsilon=1, intervals=False).intervals() for n in (300, rows))
    assert full.schema == none.schema
    assert none.num_rows == 2


@pytest.mark.usefixtures("seeded")
def test_estimates_are_nearer_without_interval() -> None:
    """Mean rank errors of 40 releases: about half."""
    asked = curator(rows=2000)
    x = np.sort(np.clip(np.random.default_rng(4).normal(3, 2, 2000), -5, 10))
    off = {}
    for kind in (True, False):
        found = [
            asked.sql(MEDIAN, epsilon=Fraction(1, 10), refresh=True, intervals=kind).to_arrow()["m"][0].as_py()
            for _ in range(40)
        ]
        off[kind] = float(np.mean(np.abs(np.searchsorted(x, found) - 1000)))
    assert off[False] < 0.8 * off[True]


@pytest.mark.parametrize("wrong", [None, 1, "no"])
def test_anything_but_a_truth_value_is_refused(wrong: Any) -> None:
    asked = curator()
    with pytest.raises(Misconfigured, match="`intervals` is"):
        asked.sql(MEDIAN, epsilon=1, intervals=wrong)
    assert not asked.budget.spent
