"""The promises where somebody copies, cuts, replaces or damages the file of a ledger."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from lapwing.errors import LedgerFailed, Misconfigured
from lapwing.ledger import EntryKind, Ledger, entry, open_ledger, verify_ledger
from lapwing.ledger.sqlite_book import SqliteBook
from lapwing.ledger.witness import Witness
from lapwing.privacy import Accounting, Budget, Cost

PURE = Accounting.PURE
NOTHING = Cost(PURE, 0)


@pytest.fixture
def place(disk: Any) -> Any:
    return disk


def ask(ledger: Ledger, amount: Any = 0.1, **more: Any) -> Any:
    return ledger.reserve(Cost(PURE, amount), **{"analyst": "ann", "body": "q", **more})


def copies(folder: Path, to: Path) -> Path:
    """A copy of the ledger and its log, as a machine that stops now would leave them."""
    to.mkdir()
    for name in ("ledger.db", "ledger.db-wal"):
        if (folder / name).exists():
            shutil.copy(folder / name, to / name)
    return to / "ledger.db"


def test_a_charge_is_durable_in_both_places_when_reserve_returns(place: Any, tmp_path: Path) -> None:
    """ledger:B1: a copy of the files at that moment holds the charge, and the witness knows it."""
    reservation = ask(place.open())
    with open_ledger(copies(place.folder, tmp_path / "after"), place.budget) as survivor:
        assert survivor.spent == Cost(PURE, 0.1)
    known = Witness(place.witness).read()
    assert known is not None
    assert (known.seq, known.hash) == (reservation.seq, reservation.hash)


def test_a_second_ledger_for_the_same_data_is_refused(place: Any) -> None:
    """ledger:B6 gate:G37 gate:G51: a fresh ledger beside a witness would be a second budget for the same people."""
    ask(place.open())
    with pytest.raises(Misconfigured, match=r"There is no ledger at .*fresh.db.*must be taken as spent"):
        open_ledger(place.folder / "fresh.db", place.budget, witness=place.witness)
    assert not (place.folder / "fresh.db").exists()
    open_ledger(place.folder / "other.db", place.budget).close()
    with pytest.raises(Misconfigured, match="Open the other ledger"):
        open_ledger(place.folder / "other.db", place.budget, witness=place.witness)


def test_the_chain_is_checked_when_the_ledger_is_opened(place: Any) -> None:
    """ledger:B11: tests/ledger/test_verify.py has every way to tamper; here the one that would pay."""
    ledger = place.open()
    ask(ledger, 0.9)
    ledger.close()
    place.tamper("UPDATE entry SET spent_amount = '0/1' WHERE seq = 2")
    with pytest.raises(LedgerFailed, match="Entry 2: its content does not match its hash"):
        place.open()


@pytest.mark.parametrize("charges", [1, 2, 5])
def test_an_older_copy_of_the_ledger_is_refused(place: Any, tmp_path: Path, charges: int) -> None:
    """ledger:B12 gate:G37: yesterday's backup, restored; the newest copy put back is served again."""
    ledger = place.open()
    ledger.settle(ask(ledger), b"answer")
    ledger.close()
    shutil.copy(place.path, place.folder / "backup.db")
    ledger = place.open()
    for _ in range(charges):
        ask(ledger)
    ledger.close()
    os.replace(place.path, place.folder / "newest.db")
    shutil.copy(place.folder / "backup.db", place.path)
    for _ in range(2):
        with pytest.raises(Misconfigured, match=rf"ends at entry 3, .*has seen entry {3 + charges}: an older copy"):
            place.open()
    assert place.verify().problem.seq == 4
    os.replace(place.folder / "newest.db", place.path)
    assert place.open().spent == Cost(PURE, Fraction(1 + charges, 10))


def test_an_older_copy_is_not_taken_for_an_unused_ledger(place: Any) -> None:
    """ledger:B12: with another budget too, it says that charges are missing and not how to start over."""
    place.open().close()
    shutil.copy(place.path, place.folder / "unused.db")
    ask(place.open())
    place.close()
    os.replace(place.folder / "unused.db", place.path)
    with pytest.raises(Misconfigured, match="older copy"):
        place.open(Budget(5))


def test_two_copies_of_a_ledger_cannot_both_be_served(place: Any) -> None:
    """ledger:B12: the witness is asked before each charge; the copy that did not make the last one is refused."""
    one = place.open()
    with open_ledger(copies(place.folder, place.folder / "two"), place.budget, witness=place.witness) as two:
        ask(two, 0.3)
        for attempt in (lambda: ask(one), lambda: one.allow("ann", Cost(PURE, 1)), place.open):
            with pytest.raises(Misconfigured, match="older copy"):
                attempt()
        ask(two, 0.3)
    assert one.spent == NOTHING


@pytest.mark.parametrize("others", [0, 1])
def test_an_answer_is_not_given_where_its_charge_is_gone(place: Any, others: int) -> None:
    """ledger:B3 ledger:B12: an older copy is written over the file, row by row, while the question runs."""
    ledger = place.open()
    ask(ledger)
    with closing(sqlite3.connect(place.path)) as live, closing(sqlite3.connect(place.folder / "old.db")) as old:
        live.backup(old)
        reservation = ask(ledger)
        for _ in range(others):
            ask(ledger)
        old.backup(live)
    with pytest.raises(Misconfigured, match="older copy"):
        ledger.settle(reservation, b"answer")
    with pytest.raises(Misconfigured, match="older copy"):
        ask(ledger)
    assert not place.verify().ok


def test_an_answer_is_not_given_where_a_later_charge_is_gone(place: Any) -> None:
    """ledger:B12: its own charge is there, but the ledger is an older one all the same."""
    ledger = place.open()
    reservation = ask(ledger)
    ask(ledger)
    with closing(sqlite3.connect(place.path, isolation_level=None)) as file:
        file.execute("DROP TRIGGER entry_no_delete")
        file.execute("DELETE FROM entry WHERE seq = 3")
    with pytest.raises(Misconfigured, match="older copy"):
        ledger.settle(reservation, b"answer")
    assert ledger.answer(reservation.seq) is None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, None),
        ({"previous": "0" * 64}, "does not continue the entry before it"),
        ({"spent_amount": "0/1"}, "running sum is wrong"),
        ({"spent_amount": "one half"}, "not an exact number"),
        ({"seq": 9}, "it is missing"),
    ],
)
def test_an_entry_that_does_not_follow_is_not_believed(place: Any, change: dict[str, Any], told: str | None) -> None:
    """ledger:B12: somebody appends to the file what the ledger never wrote, with a hash that fits."""
    ledger = place.open()
    ask(ledger, 0.5)
    last, spent = list(ledger.entries())[-1], Cost(PURE, 0.5)
    false = replace(entry.follow(last, EntryKind.VERSION, spent=spent, own=NOTHING, note={}), **change).seal()
    with closing(sqlite3.connect(place.path)) as file:
        file.execute("DROP TRIGGER entry_at_end")
        SqliteBook(file).append(false)
        file.commit()
    if told is None:
        ask(ledger, 0.5)
        return
    for attempt in (lambda: ask(ledger, 0.5), place.open):
        with pytest.raises(LedgerFailed, match=told):
            attempt()
    assert told in str(place.verify().problem)


def test_a_deleted_ledger_is_refused(place: Any) -> None:
    """ledger:B12 gate:G37: nothing is created in its place."""
    ledger = place.open()
    ask(ledger)
    ledger.close()
    place.path.unlink()
    with pytest.raises(Misconfigured, match=r"up to entry 2: it was moved or deleted. Put its newest copy back"):
        place.open()
    assert not place.path.exists()
    place.path.touch()
    with pytest.raises(Misconfigured, match="moved or deleted"):
        place.open()
    assert "moved or deleted" in str(verify_ledger(place.folder / "x.db", witness=[place.witness]))


def test_the_answer_after_the_last_charge_may_be_lost_to_a_power_failure(place: Any) -> None:
    """ledger:B12 ledger:B13: the charge is not, and the witness is never ahead of what is synced."""
    ledger = place.open()
    reservation = ask(ledger, key="k")
    size = (place.folder / "ledger.db-wal").stat().st_size
    ledger.settle(reservation, b"answer")
    image = copies(place.folder, place.folder / "image")
    os.truncate(f"{image}-wal", size)
    with open_ledger(image, place.budget, witness=place.witness) as survivor:
        retry = ask(survivor, key="k")
        assert (retry.fresh, retry.unanswered) == (False, True)
        assert survivor.spent == Cost(PURE, 0.1)


def test_several_witnesses_are_all_asked(place: Any, tmp_path: Path) -> None:
    """ledger:B12."""
    files = [tmp_path / "one.witness", tmp_path / "two.witness"]
    with open_ledger(place.path, place.budget, witness=files) as ledger:
        ask(ledger)
        old = place.folder / "old.db"
    shutil.copy(place.path, old)
    with open_ledger(place.path, place.budget, witness=files) as ledger:
        ask(ledger)
    os.replace(old, place.path)
    for alone in files:
        with pytest.raises(Misconfigured, match="older copy"):
            open_ledger(place.path, place.budget, witness=alone)


def test_every_failure_of_the_file_is_refused_with_a_next_step(place: Any) -> None:
    """ledger:B13: tests/ledger/test_sqlite.py has full disks, missing rights, locks and damage; here a lost header."""
    ask(place.open())
    place.close()
    raw = bytearray(place.path.read_bytes())
    raw[:16] = bytes(16)
    place.path.write_bytes(raw)
    with pytest.raises(LedgerFailed, match=r"damaged.*newest copy.*No answer is given"):
        place.open()
