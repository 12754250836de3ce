"""A ledger protects one kind of unit, and tables and data keep theirs; other limits are entries."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from lapwing.errors import LedgerFailed, Misconfigured
from lapwing.ledger import Declaration, EntryKind, Ledger
from lapwing.ledger.entry import canonical, follow
from lapwing.privacy import Accounting, Cost

VISITS = Declaration("visits", "1", "pid", b"contents", place="/data/visits.csv", limits={"rows_per_unit": 5})
OTHER = {"fingerprint": b"other contents", "place": "/data/other.csv"}


def declared(ledger: Ledger) -> list[dict[str, Any]]:
    return [json.loads(entry.note) for entry in ledger.entries() if entry.kind == EntryKind.VERSION]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"unit": "uid"}, "Table `visits` had the unit `pid` before, and the unit `uid`"),
        ({"unit": None}, "Table `visits` declares every row as a unit, but this ledger protects units named by"),
        ({"unit": None, "table": "more", **OTHER}, "this ledger protects units named by a column"),
        ({"unit": "uid", "version": "2", **OTHER}, "Table `visits` had the unit `pid`"),
        ({"unit": "uid", "table": "VISITS", **OTHER}, "Table `VISITS` had the unit `pid`"),
        ({"unit": "uid", "table": "more", "place": "/elsewhere"}, "The data of table `more` had the unit `pid`"),
        ({"unit": "uid", "table": "more", "fingerprint": b"new"}, "The data of table `more` had the unit `pid`"),
    ],
)
def test_another_unit_is_refused(place: Any, change: dict[str, Any], told: str) -> None:
    """By the name of the table, by its contents, by its file; and rows and a column never share a ledger."""
    ledger = place.open()
    ledger.declare([VISITS])
    before = list(ledger.entries())
    with pytest.raises(Misconfigured, match=told) as refusal:
        ledger.declare([replace(VISITS, **change)])
    assert [text for text in place.ways_out if text not in str(refusal.value)] == []
    assert "The budgets of two ledgers add up." in str(refusal.value)
    assert list(ledger.entries()) == before
    ledger.reserve(Cost(Accounting.PURE, 0.1), analyst="ann", body="q")
    with pytest.raises(Misconfigured, match=told) as refusal:
        place.open().declare([replace(VISITS, **change)])
    assert "nothing was charged" not in str(refusal.value)


def test_single_rows_are_one_kind_of_unit(place: Any) -> None:
    ledger = place.open()
    ledger.declare([replace(VISITS, unit=None)])
    ledger.declare([replace(VISITS, unit=None, table="more", **OTHER)])
    with pytest.raises(Misconfigured, match="Table `third` declares the unit `pid`, but this ledger protects single r"):
        ledger.declare([Declaration("third", "1", "pid", b"third")])


def test_a_new_table_may_name_its_unit_otherwise(place: Any) -> None:
    """Also another table in the same file of a database."""
    ledger = place.open()
    ledger.declare([VISITS])
    ledger.declare([replace(VISITS, table="staff", unit="employee", **OTHER)])
    ledger.declare([replace(VISITS, table="rooms", unit="room", part="rooms")])
    assert [note["unit"] for note in declared(ledger)] == ["pid", "employee", "room"]
    assert ledger.verify().ok


def test_of_several_tables_all_or_none_are_declared(place: Any) -> None:
    """A mistake in the second one does not bind the ledger to the first."""
    ledger = place.open()
    with pytest.raises(Misconfigured, match="single rows"):
        ledger.declare([replace(VISITS, unit=None), replace(VISITS, table="more", **OTHER)])
    with pytest.raises(Misconfigured, match="The data of table `more` had the unit `pid`"):
        ledger.declare([VISITS, replace(VISITS, table="more", unit="uid")])
    assert declared(ledger) == []
    ledger.declare([VISITS])


def test_other_limits_are_entries_and_the_same_ones_are_not(place: Any) -> None:
    ledger = place.open()
    changed = replace(VISITS, limits={"rows_per_unit": 50})
    for declaration in (VISITS, VISITS, changed, changed, VISITS):
        ledger.declare([declaration])
        place.open().declare([declaration])
    assert [note["limits"]["rows_per_unit"] for note in declared(ledger)] == [5, 50, 5]
    assert ledger.verify().ok


def test_a_declaration_tells_nothing_about_the_data(place: Any) -> None:
    """ledger:B14: contents and place are marks under the secret salt."""
    ledger = place.open()
    ledger.declare([VISITS])
    (note,) = declared(ledger)
    assert set(note) == {"table", "version", "unit", "mark", "data", "place", "limits"}
    text = canonical(note)
    assert "contents" not in text
    assert b"contents".hex() not in text
    assert "csv" not in text


@pytest.mark.parametrize(
    ("note", "told"),
    [
        ({"table": "visits", "unit": "uid"}, "had the unit `pid` before"),
        ({"table": "more", "unit": None}, "protects units named by a column"),
        ({"table": "visits"}, "cannot be read"),
        ([], "cannot be read"),
    ],
)
def test_verify_finds_a_unit_that_was_changed(place: Any, note: object, told: str) -> None:
    """Somebody appends it, with a hash that fits; it is not believed either."""
    ledger = place.open()
    ledger.declare([VISITS])
    last, nothing = list(ledger.entries())[-1], Cost(Accounting.PURE, 0)
    with ledger._store.writing() as book:
        book.append(follow(last, EntryKind.VERSION, spent=nothing, own=nothing, note=note))
    report = ledger.verify()
    assert report.problem is not None
    assert report.problem.seq == 3
    assert told in report.problem.text
    with pytest.raises(LedgerFailed, match="Entry 3"):
        ledger.declare([VISITS])
