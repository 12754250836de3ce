"""Several tables of the same units are opened at once, on one ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lapwing as lw

BUDGET = lw.Budget(epsilon=1000)
VISITS = pa.table({"pid": [1, 1, 2], "cost": [1.0, 2.0, 3.0]})
STAYS = pa.table({"pid": [1, 3], "nights": [4, 5]})
BOTH = {"visits": VISITS, "stays": STAYS}
FACTS: dict[str, Any] = {"unit": "pid", "rows_per_unit": 2, "budget": BUDGET}


def test_several_tables_are_asked_and_joined_on_their_unit() -> None:
    curator = lw.open(BOTH, bounds={"visits": {"cost": (0, 10)}, "stays": {"nights": (0, 30)}}, **FACTS)
    assert curator.sql("SELECT SUM(cost) AS c FROM visits", epsilon=200)["c"] == pytest.approx([6], abs=1)
    assert curator.sql("SELECT SUM(nights) AS n FROM stays", epsilon=200)["n"] == pytest.approx([9], abs=1)
    joined = "SELECT COUNT(*) AS n FROM visits AS v JOIN stays AS s ON v.pid = s.pid"
    assert curator.sql(joined, epsilon=200)["n"] == pytest.approx([2], abs=1)
    assert [table.rows_per_unit for table in curator.catalog.tables] == [2, 2]


def test_facts_of_a_table_are_one_for_all_or_by_table() -> None:
    stays = STAYS.rename_columns(["patient", "nights"])
    curator = lw.open(
        {"visits": VISITS, "stays": stays},
        unit={"visits": "pid", "stays": "patient"},
        rows_per_unit={"visits": 3},
        version={"stays": "7"},
        types={"stays": {"nights": "real"}},
        budget=BUDGET,
    )
    visits, other = curator.catalog.tables
    assert (visits.unit, visits.rows_per_unit, visits.version) == ("pid", 3, "1")
    assert (other.unit, other.rows_per_unit, other.version) == ("patient", None, "7")
    assert other.field("nights").type.value == "real"


def test_files_in_one_folder_share_the_ledger_beside_them(tmp_path: Path) -> None:
    for name, table in BOTH.items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
    files = {name: tmp_path / f"{name}.parquet" for name in BOTH}
    with lw.open(files, **FACTS) as curator:
        curator.sql("SELECT COUNT(*) AS n FROM stays", epsilon=1)
    assert (tmp_path / ".lapwing" / "ledger.db").exists()
    assert all((tmp_path / f"{name}.parquet.lapwing").exists() for name in BOTH)
    with lw.open(files, **FACTS) as curator:
        assert curator.budget.spent.amount == 1
    (tmp_path / "other").mkdir()
    files["stays"] = files["stays"].rename(tmp_path / "other" / "stays.parquet")
    with pytest.raises(lw.Misconfigured, match="different folders"):
        lw.open(files, **FACTS)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"data": {}}, "has no tables"),
        ({"data": {"a": [1, 2]}}, "Make a frame of the columns first"),
        ({"data": {1: VISITS}}, "`name` must be text"),
        ({"name": "visits"}, "Leave `name` out"),
        ({"unit": {"visits": "pid"}}, "`unit` says nothing about `stays`"),
        ({"rows_per_unit": {"visit": 2}}, "not a table. Did you mean"),
        ({"bounds": {"cost": (0, 10)}}, "by table, then by column"),
        ({"types": {"cost": "real"}}, "by table, then by column"),
        ({"bounds": {"stays": {"cost": (0, 10)}}}, "`bounds` names `cost`, but the data have no such column"),
        ({"unit": "nights"}, "no such column"),
    ],
)
def test_what_does_not_fit_is_told(changes: dict[str, Any], words: str) -> None:
    asked: dict[str, Any] = {"data": BOTH, **FACTS, **changes}
    with pytest.raises(lw.Misconfigured, match=words):
        lw.open(asked.pop("data"), **asked)
