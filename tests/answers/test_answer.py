"""What an analyst gets back: one schema on full and empty data, every export, nothing unescaped."""

from __future__ import annotations

import csv
import io
import json
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lapwing.answers.answer import Release
from lapwing.answers.picture import arrange
from lapwing.curator import Curator
from lapwing.plan.add_noise import Released
from lapwing.privacy import Budget
from support.visits import frame, open_visits

TEXT = ("SELECT sex, site, COUNT(*) AS n, SUM(cost) AS c, SUM(age) AS a, COUNT(*) / SUM(age) AS r, COUNT(*) * 2 AS m "
        "FROM visits GROUP BY sex, site")  # fmt: skip


def asked(text: str = TEXT, data: Any = None, **changes: Any) -> Release:
    return open_visits(data, **changes).sql(text, epsilon=1)


def empty() -> pa.Table:
    return frame().slice(0, 0)


def test_types_are_the_same_on_empty_and_full_data() -> None:
    """threat:A14 gate:G08 schema, number of rows and order come from the plan."""
    full, none = asked(), asked(data=empty())
    assert full.to_arrow().schema == none.to_arrow().schema
    assert full.to_arrow(intervals=False).schema == pa.schema(
        {"sex": pa.string(), "site": pa.int64(), "n": pa.int64(), "c": pa.float64(), "a": pa.float64(),
         "r": pa.float64(), "m": pa.int64()}
    )  # fmt: skip
    assert full.to_arrow().schema == full.intervals().schema == none.intervals().schema
    assert full.to_arrow().select(["sex", "site"]).equals(none.to_arrow().select(["sex", "site"]))
    assert list(full.to_pandas().dtypes) == list(none.to_pandas().dtypes)
    assert full.to_polars().schema == none.to_polars().schema
    assert len(full) == len(none) == 6
    assert full.to_csv().splitlines()[0] == none.to_csv().splitlines()[0]
    assert json.loads(full.to_json()).keys() == json.loads(none.to_json()).keys()


def test_exports_hold_the_same_numbers() -> None:
    answer = asked()
    table = answer.to_arrow()
    assert answer.to_pandas()["n"].tolist() == table["n"].to_pylist()
    assert answer.to_polars()["c"].to_list() == table["c"].to_pylist()
    rows = list(csv.DictReader(io.StringIO(answer.to_csv())))
    assert [int(row["n"]) for row in rows] == table["n"].to_pylist()
    assert [float(row["c_low"]) for row in rows] == answer.intervals()["c_low"].to_pylist()
    found = json.loads(answer.to_json())
    assert [row["n"] for row in found["rows"]] == table["n"].to_pylist()
    assert found["confidence"] == 0.95
    assert found["price"] == {"epsilon": 1.0, "delta": 0.0}
    assert found["ledger_entry"] == answer.entry
    assert found["unit"] == "pid"


def test_measures_say_how_they_were_made() -> None:
    """gate:G54 mechanism, scale, bounds, limits and price, none of them from the data."""
    full, none = asked().to_dict(), asked(data=empty()).to_dict()
    assert full["measures"] == none["measures"]
    assert full["limits"] == {"rows_per_unit": 2, "groups_per_unit": 6}
    assert {name for m in full["measures"] for name in m["aggregates"]} == {"COUNT(*)", "SUM(cost)", "SUM(age)"}
    assert {m["mechanism"] for m in full["measures"]} == {"laplace"}
    [count] = [m for m in full["measures"] if m["aggregates"] == ["COUNT(*)"]]
    assert "clipped to [0, 2]" in count["bounding"]
    assert (count["step"], count["scale"]) == (1.0, 36.0)


def test_methods_is_a_sentence_for_a_paper() -> None:
    words = asked().methods()
    for part in ("adding or removing all rows of one `pid`", "version 1", "epsilon = 1", "95%", "Laplace", "entry"):
        assert part in words
    assert "Gaussian" in asked(budget=Budget(epsilon=2, delta=1e-6)).methods()
    assert "one row" in asked(unit=None).methods()


def test_intervals_at_another_confidence_are_free() -> None:
    answer = asked()
    narrow, wide = answer.intervals(0.5), answer.intervals(0.99)
    assert all(a < b for a, b in zip(narrow["n_high"].to_pylist(), wide["n_high"].to_pylist(), strict=True))
    together = answer.intervals(0.95, simultaneous=True)
    assert together["n_low"].to_pylist()[0] < answer.intervals()["n_low"].to_pylist()[0]


def test_names_of_intervals_do_not_hide_columns() -> None:
    answer = asked("SELECT COUNT(*) AS n, SUM(cost) AS n_low FROM visits")
    names = answer.intervals().column_names
    assert len(names) == len(set(names)) == 6
    assert answer.intervals()["n_low"].to_pylist() == answer.to_arrow()["n_low"].to_pylist()


def test_html_is_escaped() -> None:
    evil = "<script>alert(1)</script>"
    answer = asked(
        f"SELECT sex, COUNT(*) AS \"{evil}\", '{evil}' AS x FROM visits GROUP BY sex", values={"sex": [evil]}
    )
    shown = answer._repr_html_()
    assert "<script>" not in shown
    assert shown.count("&lt;script&gt;") >= 4


def test_text_shows_values_intervals_and_price() -> None:
    answer = asked("SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex")
    lines = str(answer).splitlines()
    assert lines[0].split() == ["sex", "n", "n", "interval"]
    assert len(lines) == 4
    assert lines[-1].startswith("95% intervals; price epsilon = 1, ")
    assert lines[-1].endswith("% of the budget")
    explained = str(answer.explain())
    assert f"price epsilon = 1; ledger entry {answer.entry}" in explained
    assert "Counts at most 2 rows of a pid in a group; the rest is left out." in explained


def test_a_stored_answer_says_so() -> None:
    curator = open_visits()
    for _ in range(2):
        answer = curator.sql("SELECT COUNT(*) AS n FROM visits", epsilon=0.1, key="k")
    assert "stored answer" in str(answer)


def at_most(curator: Curator, text: str, cells: list[list[int]]) -> Release:
    """A release of these noisy cells, without noise of its own."""
    plan = curator.preview(text, epsilon=1).plan
    noisy = [np.array(c, object if any(abs(v) >= 2**63 for v in c) else np.int64) for c in cells]
    released = Released((), tuple((column,) for column in noisy))
    return Release(plan, released, curator.budget.spent, 1, Fraction(19, 20))


def test_division_by_zero_is_null_with_a_reason() -> None:
    answer = at_most(open_visits(), "SELECT COUNT(*) / COUNT(age) AS r FROM visits", [[0], [5]])
    assert answer.to_arrow()["r"].to_pylist() == [None]
    assert answer.intervals()["r_low"].to_pylist() == [None]
    assert answer.column_notes == {"r": "the interval of a divisor holds 0"}
    assert "holds 0" in answer.explain()
    assert json.loads(answer.to_json())["rows"] == [{"r": None, "r_low": None, "r_high": None}]


@pytest.mark.parametrize("value", [2**70, -(2**70)])
def test_integers_beyond_64_bits_end_at_the_last_one(value: int) -> None:
    answer = at_most(open_visits(), "SELECT COUNT(*) AS n, COUNT(*) + 1 AS m FROM visits", [[value]])
    edge = 2**63 - 1 if value > 0 else -(2**63)
    assert answer.to_arrow()["n"].to_pylist() == [edge]
    assert answer.to_arrow()["m"].to_pylist() == [edge]
    assert answer.to_arrow().schema.field("n").type == pa.int64()


def test_wide_sums_become_floats() -> None:
    answer = at_most(open_visits(), "SELECT SUM(age) AS s FROM visits", [[2**70 + 1]])
    assert answer.to_arrow()["s"].to_pylist() == [float(2**70)]


@pytest.mark.parametrize(("confidence", "told"), [(0.95, "95%"), (0.995, "99.5%"), (0.9999, "99.99%"), (0.5, "50%")])
def test_a_confidence_is_never_printed_as_more_than_it_is(confidence: float, told: str) -> None:
    curator = open_visits(budget=Budget(epsilon=9), confidence=confidence, groups_per_unit=1)
    answer, seen = curator.sql(TEXT, epsilon=1), curator.preview(TEXT, epsilon=2)
    spread = curator.distribution("age", epsilon=1)
    for text in (str(answer), answer.methods(), str(seen), str(spread), spread.methods(), str(spread.quantile(0.5))):
        assert told in text
        assert "100%" not in text
    assert told.replace("%", " %") in arrange(answer.table()).subtitle
