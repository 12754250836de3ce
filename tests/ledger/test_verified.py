"""Entries that were found to fit their hashes are not hashed again; any other row is."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from lapwing.errors import LedgerFailed
from lapwing.ledger import verified
from lapwing.ledger.entry import COLUMNS, Entry, EntryKind, follow
from lapwing.ledger.verified import intact
from lapwing.privacy.budget import Accounting, Cost

NOTHING, TENTH = Cost(Accounting.PURE, 0), Cost(Accounting.PURE, Fraction(1, 10))


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verified, "_KNOWN", {})


def first(note: str = "a") -> Entry:
    return follow(None, EntryKind.OPEN, spent=NOTHING, own=NOTHING, cost=TENTH, note={"note": note})


def test_an_equal_row_is_the_same_entry() -> None:
    entry = intact(first().row)
    assert intact(Entry.read(entry.row).row) is entry


@pytest.mark.parametrize("column", [name for name in COLUMNS if name != "key"])
def test_a_row_that_differs_in_one_column_is_not_believed(column: str) -> None:
    """threat:G38 also if it is equal by value, and of another type."""
    entry = first()
    verified._remember(entry)
    place, value = COLUMNS.index(column), getattr(entry, column)
    others = [float(value), True, 2] if column == "seq" else [value + "0", value.encode(), None]
    for other in others:
        with pytest.raises(LedgerFailed, match="damaged"):
            intact((*entry.row[:place], other, *entry.row[place + 1 :]))
    assert intact(entry.row) is entry


def test_what_does_not_fit_its_hash_is_not_remembered() -> None:
    row = replace(first(), analyst="eve").row
    for _ in range(2):
        with pytest.raises(LedgerFailed, match="does not match its hash"):
            intact(row)


def test_no_more_is_remembered_than_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verified, "_REMEMBERED", 3)
    made = [first(str(number)) for number in range(9)]
    for entry in made:
        assert intact(entry.row) == entry
        assert len(verified._KNOWN) <= 3
    assert made[-1] in verified._KNOWN.values()
    assert made[0] not in verified._KNOWN.values()
