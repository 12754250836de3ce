"""The fourteen promises of a budget ledger, each with a test or more; where a curator has a share, the ledger's."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from lapwing.errors import BudgetExceeded, LedgerFailed, Misconfigured
from lapwing.ledger import Declaration, Kind, SqliteLedger, entry, verify_ledger
from lapwing.ledger.book import insert
from lapwing.ledger.witness import Witness
from lapwing.privacy import Accounting, Budget, Cost

PURE = Accounting.PURE
NOTHING = Cost(PURE, 0)


def ask(ledger: SqliteLedger, amount: Any = 0.1, **more: Any) -> Any:
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
    with SqliteLedger.open(copies(place.folder, tmp_path / "after"), place.budget) as survivor:
        assert survivor.spent == Cost(PURE, 0.1)
    known = Witness(place.witness).read()
    assert known is not None
    assert (known.seq, known.hash) == (reservation.seq, reservation.hash)


def test_no_reservation_is_given_if_the_witness_cannot_be_told(place: Any) -> None:
    """ledger:B1 ledger:B3: the charge stands, there is no answer, and once repaired the ledger goes on."""
    ledger = place.open()
    ask(ledger, 0.1)

    def fails(self: Witness, head: object) -> None:
        raise LedgerFailed("no space")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Witness, "advance", fails)
        with pytest.raises(LedgerFailed):
            ask(ledger, 0.1, key="k")
    assert ledger.spent == Cost(PURE, 0.2)
    again = ask(ledger, 0.1, key="k")
    assert (again.fresh, again.unanswered) == (False, True)
    assert ask(ledger, 0.1).fresh
    assert ledger.verify().ok


def test_check_and_charge_are_one_step(place: Any) -> None:
    """ledger:B2: two ledgers on one file take turns; together they get the budget and not more."""
    two, granted = [place.open(), place.open()], 0
    for number in range(30):
        try:
            ask(two[number % 2], 0.07)
            granted += 1
        except BudgetExceeded:
            assert two[number % 2].remaining.amount < Fraction(7, 100)
    assert granted == 14
    assert two[0].spent == two[1].spent == Cost(PURE, 0.98)


def test_nothing_gives_a_charge_back(place: Any) -> None:
    """ledger:B3: there is no method for it; not settling, closing and opening again keep it."""
    ledger = place.open()
    ask(ledger, 0.3)
    ledger.close()
    again = place.open()
    assert again.spent == Cost(PURE, 0.3)
    names = [name for name in dir(SqliteLedger) if not name.startswith("_")]
    assert not [
        name for name in names if any(word in name for word in ("refund", "delete", "reset", "release", "undo"))
    ]


def test_what_is_spent_never_falls(place: Any) -> None:
    """ledger:B4: over answers, allowances, versions, refusals, retries and a new opening."""
    ledger, seen = place.open(), [Fraction(0)]
    steps = [
        lambda: ask(ledger, 0.1, key="a"),
        lambda: ledger.settle(ask(ledger, 0.2), b"x"),
        lambda: ledger.allow("ann", Cost(PURE, 0.5)),
        lambda: ledger.declare([Declaration("visits", "2", "pid", b"new file")]),
        lambda: ask(ledger, 0.1, key="a"),
        lambda: ask(ledger, 0.3),
        lambda: ask(ledger, 0.2),
        lambda: place.open().close(),
    ]
    for step in steps:
        with suppress(BudgetExceeded):
            step()
        seen.append(ledger.spent.amount)
    assert seen == sorted(seen)
    assert seen[-1] == Fraction(5, 10)
    running = [Fraction(line.spent_amount) for line in ledger.entries()]
    assert running == sorted(running)


def test_a_retry_gives_the_stored_answer_and_is_charged_once(place: Any) -> None:
    """ledger:B5: also from another process, and also when nothing is left."""
    ledger = place.open()
    ledger.settle(ask(ledger, 1, key="k", body="question"), b"the answer")
    for again in (ledger, place.open()):
        retry = ask(again, 1, key="k", body="question")
        assert (retry.fresh, retry.answer, retry.seq) == (False, b"the answer", 2)
        assert retry.cost == Cost(PURE, 1)
        with pytest.raises(Misconfigured, match="repeats"):
            again.settle(retry, b"another answer")
    assert ledger.spent == Cost(PURE, 1)


def test_a_key_belongs_to_one_question_of_one_analyst(place: Any) -> None:
    """ledger:B5: another body under the same key is a conflict; another analyst has keys of their own."""
    ledger = place.open()
    ask(ledger, key="k", body="question")
    with pytest.raises(Misconfigured, match="used for another question"):
        ask(ledger, key="k", body="other question")
    assert ledger.spent == Cost(PURE, 0.1)
    assert ask(ledger, key="k", body="other question", analyst="bob").fresh
    assert ask(ledger, body="question").fresh
    assert ask(ledger, body="question").fresh


def test_a_lost_charge_is_never_run_again_for_free(place: Any) -> None:
    """ledger:B5: its process ended before the answer was stored; it stays charged and unanswered."""
    first = place.open()
    ask(first, key="k")
    first.close()
    for _ in range(3):
        again = place.open()
        retry = ask(again, key="k")
        assert (retry.fresh, retry.answer, retry.unanswered) == (False, None, True)
        again.close()
    report = place.verify()
    assert report.unanswered == (2,)
    assert report.entries == 2


def test_a_charge_of_a_living_process_is_not_called_lost(place: Any) -> None:
    """ledger:B5: another process opens the ledger and retries; the first one still settles."""
    working, other = place.open(), place.open()
    reservation = ask(working, key="k")
    assert ask(other, key="k").unanswered
    working.settle(reservation, b"late answer")
    assert ask(other, key="k").answer == b"late answer"


def test_all_analysts_share_one_budget(place: Any) -> None:
    """ledger:B6 gate:G51: allowances above the total do not add to it."""
    ledger = place.open()
    for name in ("ann", "bob", "eve"):
        ledger.allow(name, Cost(PURE, 0.9))
    ask(ledger, 0.6, analyst="ann")
    ask(ledger, 0.4, analyst="bob")
    with pytest.raises(BudgetExceeded, match=r"epsilon = 0 is left\. Nothing was charged"):
        ask(ledger, 0.1, analyst="eve")
    assert ledger.spent == ledger.total


def test_a_second_ledger_for_the_same_data_is_refused(place: Any) -> None:
    """ledger:B6 gate:G37 gate:G51: a fresh ledger beside a witness would be a second budget for the same people."""
    ask(place.open())
    with pytest.raises(Misconfigured, match=r"There is no ledger at .*fresh.db.*must be taken as spent"):
        SqliteLedger.open(place.folder / "fresh.db", place.budget, witness=place.witness)
    assert not (place.folder / "fresh.db").exists()
    SqliteLedger.open(place.folder / "other.db", place.budget).close()
    with pytest.raises(Misconfigured, match="Open the other ledger"):
        SqliteLedger.open(place.folder / "other.db", place.budget, witness=place.witness)


def test_ten_tenths_fill_one_exactly(place: Any) -> None:
    """ledger:B7 gate:G28: then not even a billionth more."""
    ledger = place.open()
    for _ in range(10):
        ask(ledger, 0.1)
    assert ledger.spent == ledger.total
    assert ledger.remaining == NOTHING
    with pytest.raises(BudgetExceeded):
        ask(ledger, 1e-9)


def test_three_at_a_third_leave_a_thousandth(place: Any) -> None:
    """ledger:B7 gate:G28."""
    ledger = place.open()
    for _ in range(3):
        ask(ledger, 0.333)
    with pytest.raises(BudgetExceeded):
        ask(ledger, 0.333)
    assert ledger.remaining == Cost(PURE, 0.001)


@pytest.mark.parametrize(("epsilon", "times"), [(0.1, 280), (0.5, 13), (2, 1)])
def test_far_more_small_questions_fit_a_zcdp_budget(epsilon: float, times: int) -> None:
    """ledger:B7 lecture:L35: the same counts as the filter in memory."""
    ledger, granted = SqliteLedger.open(None, Budget(2, 1e-6)), 0
    cost = ledger.budget.cost(ledger.budget.price(epsilon=epsilon))
    for _ in range(times + 3):
        try:
            ledger.reserve(cost, analyst="ann", body="q")
            granted += 1
        except BudgetExceeded:
            assert not cost.fits(ledger.remaining)
    assert granted == times


def test_the_decision_uses_the_price_and_the_ledger_only() -> None:
    """ledger:B8: two ledgers, the same prices, other questions, notes, answers, times: the same decisions."""

    def decisions(salt: str) -> list[object]:
        ledger, made = SqliteLedger.open(None, Budget(1)), []
        for number, amount in enumerate([0.3, 0.5, 0.3, 0.1, 0.2, 0.1, 0.05]):
            try:
                reservation = ask(ledger, amount, body=f"{salt}{number}", note={"question": salt * number})
                ledger.settle(reservation, salt.encode() * (number + 1))
                made.append(reservation.cost)
            except BudgetExceeded as refusal:
                made.append((str(refusal), refusal.remaining))
        return made

    assert decisions("x") == decisions("quite different")


def test_an_over_ask_has_no_side_effects(place: Any) -> None:
    """ledger:B9 gate:G29: 2 of 1 is refused, then a half is granted."""
    ledger = place.open()
    before = (place.witness.read_bytes(), list(ledger.entries()))
    with pytest.raises(BudgetExceeded) as refusal:
        ask(ledger, 2, key="k")
    assert (refusal.value.asked, refusal.value.remaining) == (Cost(PURE, 2), Cost(PURE, 1))
    assert (place.witness.read_bytes(), list(ledger.entries())) == before
    assert ask(ledger, 0.5, key="k").fresh


def test_the_clock_decides_nothing(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """ledger:B10 gate:G37: ten years back, ten years on, the same second twice; no budget comes back."""
    times: Iterator[str] = iter(["2026-11-16T00:00:00Z", "2016-01-01T00:00:00Z", "2036-01-01T00:00:00Z"] * 9)
    monkeypatch.setattr(entry, "now", lambda: next(times))
    ledger = place.open()
    for _ in range(10):
        ask(ledger, 0.1)
    ledger.close()
    again = place.open()
    with pytest.raises(BudgetExceeded):
        ask(again, 0.1)
    assert again.verify().ok
    assert len({line.at for line in again.entries()}) == 3


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
    """ledger:B12: with another budget too, it says that charges are missing and not how to begin anew."""
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
    with SqliteLedger.open(copies(place.folder, place.folder / "two"), place.budget, witness=place.witness) as two:
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
    false = replace(entry.follow(last, Kind.VERSION, spent=spent, own=NOTHING, note={}), **change).sealed()
    with closing(sqlite3.connect(place.path)) as file:
        file.execute("DROP TRIGGER entry_at_end")
        insert(file, false)
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


def test_a_ledger_ahead_of_its_witness_goes_on(place: Any) -> None:
    """ledger:B12: the process ended between the two; the witness catches up when the ledger is opened."""
    ledger = place.open()
    behind = place.witness.read_bytes()
    ask(ledger)
    ledger.settle(ask(ledger), b"answer")
    ledger.close()
    place.witness.write_bytes(behind)
    ledger = place.open()
    known = Witness(place.witness).read()
    assert known is not None
    assert known.seq == 3  # the last charge; the answer after it may not be on the disk yet
    assert ask(ledger).seq == 5
    assert ledger.verify().notes == ("2 charges have no stored answer. They stay charged.",)


def test_a_missing_witness_is_written_anew_and_reported_for_ever(place: Any) -> None:
    """ledger:B12: the steward sees in the chain that for a while only one of the two was there."""
    ledger = place.open()
    ledger.settle(ask(ledger), b"answer")
    place.witness.unlink()
    assert "is missing" in str(ledger.verify())
    ask(ledger)
    place.witness.unlink()
    ledger.close()
    ledger = place.open()
    kinds = [line.kind for line in ledger.entries()]
    assert kinds == ["open", "reserve", "settle", "witness", "reserve", "witness"]
    report = ledger.verify()
    assert report.ok
    assert [note for note in report.notes if note.startswith("Entry ")] == [
        f"Entry {line.seq} ({line.at}): a witness was missing and was written anew."
        for line in ledger.entries()
        if line.kind == Kind.WITNESS
    ]


def test_the_answer_after_the_last_charge_may_be_lost_to_a_power_failure(place: Any) -> None:
    """ledger:B12 ledger:B13: the charge is not, and the witness is never ahead of what is synced."""
    ledger = place.open()
    reservation = ask(ledger, key="k")
    size = (place.folder / "ledger.db-wal").stat().st_size
    ledger.settle(reservation, b"answer")
    image = copies(place.folder, place.folder / "image")
    os.truncate(f"{image}-wal", size)
    with SqliteLedger.open(image, place.budget, witness=place.witness) as survivor:
        retry = ask(survivor, key="k")
        assert (retry.fresh, retry.unanswered) == (False, True)
        assert survivor.spent == Cost(PURE, 0.1)


def test_several_witnesses_are_all_asked(place: Any, tmp_path: Path) -> None:
    """ledger:B12."""
    files = [tmp_path / "one.witness", tmp_path / "two.witness"]
    with SqliteLedger.open(place.path, place.budget, witness=files) as ledger:
        ask(ledger)
        old = place.folder / "old.db"
    shutil.copy(place.path, old)
    with SqliteLedger.open(place.path, place.budget, witness=files) as ledger:
        ask(ledger)
    os.replace(old, place.path)
    for alone in files:
        with pytest.raises(Misconfigured, match="older copy"):
            SqliteLedger.open(place.path, place.budget, witness=alone)


def test_every_failure_of_the_file_is_refused_with_a_next_step(place: Any) -> None:
    """ledger:B13: tests/ledger/test_store.py has full disks, missing rights, locks and damage; here a lost header."""
    ask(place.open())
    place.close()
    raw = bytearray(place.path.read_bytes())
    raw[:16] = bytes(16)
    place.path.write_bytes(raw)
    with pytest.raises(LedgerFailed, match=r"damaged.*newest copy.*No answer is given"):
        place.open()


def test_entries_hold_nothing_that_depends_on_the_data(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """ledger:B14: two runs on other data: other answers, another duration; all else in the entries is the same."""

    def run(answer: bytes, seconds: int) -> list[dict[str, Any]]:
        clock = iter(["2026-01-01T00:00:00Z"] * 2 + [f"2026-01-01T00:00:{seconds:02d}Z"] * 9)
        monkeypatch.setattr(entry, "now", lambda: next(clock))
        ledger = SqliteLedger.open(None, Budget(1))
        ledger.settle(ask(ledger, note={"question": "SELECT COUNT(*)"}), answer, match="plan")
        lines = [json.loads(line.content) for line in ledger.entries()][1:]
        return [{name: value for name, value in line.items() if name != "body"} for line in lines]

    assert run(b"12", 1) == run(b"40,000", 59)
