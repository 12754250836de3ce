"""The unit is part of the ledger, whatever is opened and however; what else is declared is recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from lapwing.curator import Curator, load
from lapwing.errors import Misconfigured
from support.visits import frame, open_visits, write_visits

ROWS: dict[str, Any] = {"unit": None, "rows_per_unit": None}
TOML = """
[budget]
epsilon = 1
[tables.visits]
source = "visits.parquet"
unit = "{one}"
rows_per_unit = 2
[tables.visits.columns]
pid = {{ type = "integer" }}
age = {{ type = "integer" }}
[tables.more]
source = "more.parquet"
unit = "{two}"
[tables.more.columns]
pid = {{ type = "integer" }}
age = {{ type = "integer" }}
"""


def limits(curator: Curator) -> list[dict[str, Any]]:
    return [json.loads(entry.note)["limits"] for entry in curator.ledger.entries() if entry.kind == "version"]


@pytest.mark.parametrize("changes", [ROWS, {"unit": "name"}, {"unit": "name", "version": "2"}])
@pytest.mark.parametrize("how", ["the same", "another name", "a copy", "changed"])
def test_a_file_opened_with_another_unit_is_refused(tmp_path: Path, changes: dict[str, Any], how: str) -> None:
    """Before any charge; with the first unit it opens as before."""
    path, ledger = write_visits(tmp_path), tmp_path / "ledger.db"
    open_visits(path, ledger=ledger).close()
    again: dict[str, Any] = {"name": "visits" if how == "the same" else "other"}
    data = path
    if how == "a copy":
        data = path.with_name("copy.parquet")
        path.rename(data)
        path.with_name("visits.parquet.lapwing").rename(path.with_name("copy.parquet.lapwing"))
    if how == "changed":
        write_visits(tmp_path, people=41)
    with pytest.raises(Misconfigured, match=r"unit.*The budgets of two ledgers add up\."):
        open_visits(data, ledger=ledger, **{**again, **changes})
    curator = open_visits(data, ledger=ledger, **{"version": "2", **again})
    assert curator.budget.spent.amount == 0


@pytest.mark.parametrize("how", ["the same", "a link", "a copy", "changed"])
def test_a_file_that_the_ledger_protects_is_never_public(tmp_path: Path, how: str) -> None:
    """Values, bounds and keys of public tables are read from their rows, and joins tell who is in them."""
    path, ledger = write_visits(tmp_path), tmp_path / "ledger.db"
    open_visits(path, ledger=ledger).close()
    data = path if how in ("the same", "changed") else tmp_path / "other.parquet"
    if how == "a link":
        data.symlink_to(path)
    if how == "a copy":
        data.write_bytes(path.read_bytes())
    if how == "changed":
        write_visits(tmp_path, people=41)
    with pytest.raises(Misconfigured, match="The data of the public table `p` are private"):
        open_visits(frame(3), name="more", ledger=ledger, public={"p": data})
    pq.write_table(frame(5), tmp_path / "public.parquet")
    open_visits(frame(3), name="more", ledger=ledger, public={"p": tmp_path / "public.parquet"}).close()


def test_no_data_are_private_and_public_at_once(tmp_path: Path) -> None:
    path = write_visits(tmp_path)
    with pytest.raises(Misconfigured, match="The data of the public table `p` are private"):
        open_visits(path, public={"p": path})
    assert open_visits(path).ledger.spent.amount == 0


def test_frames_keep_their_unit_too(tmp_path: Path) -> None:
    """In a ledger that outlives them, under any name."""
    ledger = tmp_path / "ledger.db"
    open_visits(ledger=ledger).close()
    for changes in (ROWS, {"unit": "name"}, {"unit": "name", "name": "other"}):
        with pytest.raises(Misconfigured, match="unit"):
            open_visits(ledger=ledger, **changes)
    open_visits(frame(41), ledger=ledger, unit="name", name="other").close()


@pytest.mark.parametrize(("one", "two", "told"), [("pid", "row", "named by a col"), ("row", "pid", "single rows")])
def test_tables_of_one_file_all_have_a_unit_column_or_none(tmp_path: Path, one: str, two: str, told: str) -> None:
    write_visits(tmp_path)
    pq.write_table(frame(50), tmp_path / "more.parquet")
    settings = tmp_path / "lapwing.toml"
    settings.write_text(TOML.format(one=one, two=two))
    with pytest.raises(Misconfigured, match=told):
        load(settings)
    for units in (("pid", "age"), ("pid", "age")):
        settings.write_text(TOML.format(one=units[0], two=units[1]))
        load(settings).close()


def test_tables_of_one_database_have_units_of_their_own(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "all.duckdb")) as connection:
        for name in ("visits", "more"):
            connection.execute(f"CREATE TABLE {name} AS SELECT 1 AS pid, 2 AS age")
    settings = tmp_path / "lapwing.toml"
    text = TOML.format(one="pid", two="age").replace('"visits.parquet"', '"all.duckdb"\ntable = "visits"')
    settings.write_text(text.replace('"more.parquet"', '"all.duckdb"\ntable = "more"'))
    assert len(limits(load(settings))) == 2


def test_changed_limits_are_recorded(tmp_path: Path) -> None:
    """Types, bounds, values and limits; many values by their number and hash."""
    path = write_visits(tmp_path)
    many = {"sex": ["F", "M"], "site": list(range(60))}
    for changes in ({}, {}, {"rows_per_unit": 3}, {"bounds": {"cost": (0, 50)}}, {"values": many}):
        curator = open_visits(path, **changes)
    found = limits(curator)
    assert [each["rows_per_unit"] for each in found] == [2, 3, 2, 2]
    bounds = [each["columns"]["cost"]["bounds"][1] for each in found]
    assert bounds == ["100", "100", "50", "100"]
    assert found[0]["columns"]["sex"] == {"type": "text", "values": ["F", "M"]}
    assert found[3]["columns"]["site"]["values"]["count"] == 60
    assert curator.ledger.verify().ok
