"""The ledger as its callers see it: charges, answers, retries, allowances, versions, export, threads."""

from __future__ import annotations

import copy
import json
import os
import pickle
import sys
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest

from lapwing.errors import BudgetExceeded, LapwingError, LedgerFailed, Misconfigured
from lapwing.ledger import Declaration, Entry, EntryKind, Head, Ledger, open_ledger, read_head, verify_ledger
from lapwing.ledger.verified import CheckedBook
from lapwing.privacy import Accounting, Budget, Cost, Filter, Pure

New = Callable[[Budget], Ledger]
BUDGETS = [Budget(1), Budget(1, 1e-6), Budget(1, 1e-6, accounting="basic")]


def pure(amount: Any) -> Cost:
    return Cost(Accounting.PURE, amount)


def ask(ledger: Ledger, amount: Any, **more: Any) -> Any:
    return ledger.reserve(pure(amount), **{"analyst": "ann", "body": "q", **more})


def is_unchanged(ledger: Ledger, table: str, version: str, data: bytes) -> bool:
    return ledger.is_version(ledger.look(tables=[table]).versions[table], table, version, data)


def test_a_charge_is_written_with_all_that_is_known(place: Any) -> None:
    ledger = place.open()
    reservation = ledger.reserve(pure(0.1), analyst="ann", body=b"request", key="k", note={"question": "SELECT 1"})
    assert (reservation.seq, reservation.fresh, reservation.answer) == (2, True, None)
    assert not reservation.unanswered
    entry = list(ledger.entries())[1]
    assert (entry.kind, entry.analyst, entry.key, entry.amount, entry.delta) == ("reserve", "ann", "k", "1/10", "0/1")
    assert (entry.spent_amount, entry.own_amount, entry.hash) == ("1/10", "1/10", reservation.hash)
    assert json.loads(entry.note) == {"question": "SELECT 1"}
    assert ledger.spent == ledger.spent_by("ann") == pure(0.1)
    assert ledger.remaining == pure(0.9)


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: budget.accounting.value)
def test_a_ledger_remembers_after_it_was_closed(place: Any, budget: Budget) -> None:
    cost = Cost(budget.accounting, budget.capacity.amount / 7, budget.capacity.delta / 3)
    first = place.open(budget)
    first.settle(first.reserve(cost, analyst="ann", body="q"), b"answer", match="m")
    facts = (first.id, first.salt, first.total, first.spent, list(first.entries()))
    first.close()
    again = place.open(budget)
    assert (again.id, again.salt, again.total, again.spent, list(again.entries())) == facts
    assert again.total == budget.capacity
    assert again.answer(2) == b"answer"


def test_two_ledgers_differ_in_name_and_salt(another: New) -> None:
    one, other = another(Budget(1)), another(Budget(1))
    assert len(one.salt) == len(other.salt) == 32
    assert one.salt != other.salt
    assert one.id != other.id


@pytest.mark.parametrize("other", [Budget(2), Budget(1, 1e-6), Budget(1, 1e-6, accounting="basic")], ids=str)
def test_another_budget_is_refused_and_both_are_named(place: Any, other: Budget) -> None:
    """ledger:B4: a budget is fixed when its ledger is created."""
    place.open().close()
    with pytest.raises(
        Misconfigured, match=r"created with epsilon = 1 \(pure accounting\), and is now opened with eps"
    ):
        place.open(other)
    assert place.open().remaining == pure(1)


def test_what_is_no_budget_is_refused(place: Any) -> None:
    with pytest.raises(Misconfigured, match="not a budget"):
        place.open(1)
    with pytest.raises(Misconfigured, match="has no witness"):
        open_ledger(None, Budget(1), witness=Path("w"))


@pytest.mark.parametrize(
    "cost", [pure(0), Cost(Accounting.ZCDP, 0.1), Cost(Accounting.BASIC, 0.1), Pure(0.1), 0.1, float("nan"), None, -1]
)
def test_what_is_no_charge_of_this_budget_is_refused(ledger: Ledger, cost: Any) -> None:
    """threat:A26 ledger:B7."""
    with pytest.raises(Misconfigured):
        ledger.reserve(cost, analyst="ann", body="q")
    assert len(list(ledger.entries())) == 1


@pytest.mark.parametrize("name", ["", "x" * 201, "a\nb", "a\x00b", "\udc80", 7, None], ids=repr)
def test_names_are_short_printable_texts(ledger: Ledger, name: Any) -> None:
    with pytest.raises(Misconfigured, match="printable"):
        ask(ledger, 0.1, analyst=name)
    if name is not None:
        with pytest.raises(Misconfigured, match="printable"):
            ask(ledger, 0.1, key=name)
    assert ledger.spent == pure(0)


@pytest.mark.parametrize("note", [{"x": float("nan")}, {"x": object()}, {"x": b"raw"}, [1], {1: {2, 3}}])
def test_a_note_is_plain(ledger: Ledger, note: Any) -> None:
    with pytest.raises(Misconfigured, match="note"):
        ask(ledger, 0.1, note=note)
    assert ledger.spent == pure(0)


def test_a_refusal_says_the_same_as_the_filter_in_memory(ledger: Ledger) -> None:
    """gate:G29: asked, left, advice; nothing charged."""
    account = Filter(Budget(1))
    for amount in (0.9, 0.1):
        with pytest.raises(BudgetExceeded) as theirs:
            account.spend(Pure(1.5))
        with pytest.raises(BudgetExceeded) as ours:
            ask(ledger, 1.5)
        assert str(ours.value) == str(theirs.value)
        assert (ours.value.asked, ours.value.remaining) == (theirs.value.asked, theirs.value.remaining)
        account.spend(Pure(amount))
        ask(ledger, amount)
    with pytest.raises(BudgetExceeded, match="No question fits any more"):
        ask(ledger, 1e-9)


def test_a_sum_that_must_be_rounded_up_is_checked_after_the_rounding(another: New) -> None:
    """ledger:B7: the two prices add up to 1/3 - 10^-120 or so, which is above 1/3 when it is rounded up."""
    p, q = 10**60 + 1, 10**60 + 7
    a = (p * q - 1) // 3 * pow(q, -1, p) % p
    b = ((p * q - 1) // 3 - a * q) // p
    one, other = Fraction(a, p), Fraction(b, q)
    assert 0 < Fraction(1, 3) - one - other < Fraction(1, 10**110)
    ledger = another(Budget(Fraction(1, 3)))
    ask(ledger, one)
    with pytest.raises(BudgetExceeded):
        ask(ledger, other)
    ask(ledger, ledger.remaining.amount)
    assert ledger.spent == ledger.total
    assert ledger.verify().ok


def test_a_refusal_names_delta_when_delta_is_short(another: New) -> None:
    ledger = another(Budget(2, 1e-6))
    with pytest.raises(BudgetExceeded, match="Ask for delta = 5e-7 or less"):
        ledger.reserve(Cost(Accounting.ZCDP, 0.001, 1e-6), analyst="ann", body="q")
    assert not ledger.spent


def test_an_allowance_limits_one_analyst_and_says_so(ledger: Ledger) -> None:
    """ledger:B6: the message says whose limit it is."""
    ledger.allow("ann", pure(0.3))
    ask(ledger, 0.2)
    with pytest.raises(BudgetExceeded, match=r"epsilon = 0.1 is left of the allowance of ann.*The steward") as refusal:
        ask(ledger, 0.2)
    assert refusal.value.remaining == pure(0.1)
    assert ask(ledger, 0.5, analyst="bob").fresh
    assert (ledger.allowance("ann"), ledger.allowance("bob")) == (pure(0.3), None)
    assert (ledger.spent_by("ann"), ledger.spent_by("bob"), ledger.spent_by("eve")) == (pure(0.2), pure(0.5), pure(0))


def test_an_allowance_can_be_changed_and_never_refunds(ledger: Ledger) -> None:
    ledger.allow("ann", pure(0.3))
    ask(ledger, 0.3)
    ledger.allow("ann", pure(0.1))
    with pytest.raises(BudgetExceeded) as refusal:
        ask(ledger, 0.1)
    assert refusal.value.remaining == pure(0)
    ledger.allow("ann", pure(5))
    ask(ledger, 0.7)
    with pytest.raises(BudgetExceeded, match=r"epsilon = 0 is left\. Nothing"):
        ask(ledger, 0.1)


def test_an_allowance_of_another_currency_is_refused(ledger: Ledger) -> None:
    with pytest.raises(Misconfigured):
        ledger.allow("ann", Cost(Accounting.ZCDP, 1))


def test_each_charge_has_one_answer(ledger: Ledger) -> None:
    reservation = ask(ledger, 0.1)
    assert ledger.answer(reservation.seq) is None
    ledger.settle(reservation, b"first")
    with pytest.raises(Misconfigured, match="settled before"):
        ledger.settle(reservation, b"second")
    assert ledger.answer(reservation.seq) == b"first"


def test_only_a_charge_of_this_ledger_can_be_settled(ledger: Ledger, another: New) -> None:
    other = another(Budget(1))
    ask(ledger, 0.1)
    with pytest.raises(LedgerFailed, match="not in this ledger"):
        ledger.settle(ask(other, 0.1), b"answer")
    assert ledger.answer(2) is None


def test_equal_questions_find_all_stored_answers(ledger: Ledger) -> None:
    """The newest first, with the charge that says how exact each one is; failures are stored without a match."""
    for number, match in enumerate(["plan v1", "plan v1", "plan v2", None]):
        reservation = ask(ledger, 0.1, note={"number": number})
        ledger.settle(reservation, f"answer {number}".encode(), match=match)
    found = ledger.find_answers("plan v1")
    assert [answer.payload for answer in found] == [b"answer 1", b"answer 0"]
    assert [answer.charge.remark("number") for answer in found] == [1, 0]
    assert ledger.find_answers("plan v3") == ()


def test_of_equal_questions_the_newest_on_each_of_the_terms_is_offered(ledger: Ledger) -> None:
    """And read with one look, if it is still the one that its entry records."""
    for number, (match, terms) in enumerate([("m", "b"), ("m", "a"), ("m", "b"), ("other", "c"), (None, "a")]):
        ledger.settle(ask(ledger, 0.1, key=str(number)), f"answer {number}".encode(), match=match, terms=terms)
    offers = ledger.look(offers=["m", "nothing"]).offers["m"]
    assert [(offer.seq, offer.terms) for offer in offers] == [(6, "b"), (4, "a")]
    assert [ledger.read_offer("m", offer) for offer in offers] == [b"answer 2", b"answer 1"]
    assert ledger.look(offers=["m", "nothing"]).offers["nothing"] == ()
    with pytest.raises(LedgerFailed, match="Entry 4: its stored answer is missing"):
        ledger.read_offer("other", offers[1])
    assert ledger.paid_with("m", "ann", "0") == (2, b"answer 0")
    for match, analyst, key in (("other", "ann", "0"), ("m", "bob", "0"), ("m", "ann", "9")):
        assert ledger.paid_with(match, analyst, key) is None


def test_versions_are_declared_once_and_compared_without_showing_the_data(ledger: Ledger, another: New) -> None:
    """ledger:B4 ledger:B14: a new version resets nothing; the ledger holds no plain hash of the file."""
    ask(ledger, 0.4)
    assert ledger.version("visits") is None
    assert not is_unchanged(ledger, "visits", "1", b"file one")
    ledger.declare([Declaration("visits", "1", "pid", b"file one")])
    ledger.declare([Declaration("visits", "1", "pid", b"file one")])
    ledger.declare([Declaration("other", "7", "pid", b"file one")])
    assert ledger.version("visits") == "1"
    assert is_unchanged(ledger, "visits", "1", b"file one")
    assert not is_unchanged(ledger, "visits", "1", b"file two")
    with pytest.raises(Misconfigured, match="declare a new `version`"):
        ledger.declare([Declaration("visits", "1", "pid", b"file two")])
    ledger.declare([Declaration("visits", "2", "pid", b"file two")])
    ledger.declare([Declaration("visits", "1", "pid", b"file one")])
    assert ledger.version("visits") == "1"
    assert [entry.kind for entry in ledger.entries()].count(EntryKind.VERSION) == 4
    assert ledger.spent == pure(0.4)
    with another(Budget(1)) as other:
        other.declare([Declaration("visits", "1", "pid", b"file one")])
        ledgers = (ledger, other)
        marks = {line.remark("mark") for each in ledgers for line in each.entries() if line.kind == EntryKind.VERSION}
    assert len(marks) == 4


def test_an_export_proves_itself_and_tells_no_secret(place: Any, tmp_path: Path) -> None:
    """ledger:B11."""
    ledger = place.open()
    ledger.settle(ask(ledger, 0.1), b"the answer")
    head = ledger.export(tmp_path / "export.jsonl")
    lines = (tmp_path / "export.jsonl").read_text().splitlines()
    assert [Entry(**json.loads(line)) for line in lines[:-1]] == list(ledger.entries())
    assert read_head(tmp_path / "export.jsonl") == head == Head(ledger.id, 3, list(ledger.entries())[-1].hash)
    assert ledger.salt.hex() not in "".join(lines)
    assert "the answer" not in "".join(lines)
    assert (tmp_path / "export.jsonl").stat().st_mode & 0o077 == 0
    ask(ledger, 0.1)
    assert ledger.verify(against=head).ok
    for own in (*place.store().files, place.witness):
        with pytest.raises(Misconfigured, match="part of the ledger"):
            ledger.export(own)
    with pytest.raises(LedgerFailed, match="Name another file"):
        ledger.export(tmp_path / "no" / "folder")
    with pytest.raises(Misconfigured, match="not a ledger export"):
        read_head(place.witness)


def test_an_export_goes_to_a_file_or_nowhere(place: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder, a device, a full disk: one sentence, and nothing is left behind."""
    ledger, before = place.open(), sorted(place.folder.iterdir())
    monkeypatch.chdir(tmp_path)
    for folder in (".", "..", tmp_path, "/", "/dev/full"):
        with pytest.raises(Misconfigured, match=r"Name (a|another) file to write"):
            ledger.export(folder)

    def full(handle: int) -> None:
        if (tmp_path / "out.jsonl.new").exists():
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(LedgerFailed, match=r"could not be written \(No space left on device\)"):
            ledger.export(tmp_path / "out.jsonl")
    assert sorted(place.folder.iterdir()) == before


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda lines: lines[:-1], "is incomplete"),
        (lambda lines: [*lines[:-1], lines[-1][:50]], "is incomplete"),
        (lambda lines: lines[1:], "is incomplete"),
        (lambda lines: [lines[0], lines[-1]], "is incomplete"),
        (lambda lines: [lines[0], lines[1].replace('"amount":"1/', '"amount":"0/'), *lines[2:]], "was changed after"),
        (lambda lines: ["{}", *lines[1:]], "was changed after"),
        (lambda lines: [lines[0].replace('"previous"', '"before"')], "not a ledger export"),
        (lambda lines: ["epsilon,delta", "1,0"], "not a ledger export"),
        (lambda lines: ["[" * 100_000], "not a ledger export"),
        (lambda lines: ["\udcff"], "not a ledger export"),
        (lambda lines: [], "not a ledger export"),
        (lambda lines: lines[-1:], None),
        (lambda lines: lines, None),
    ],
)
def test_a_head_is_read_from_a_whole_export_or_from_its_last_line(place: Any, change: Any, told: str | None) -> None:
    ledger, file = place.open(), place.folder / "out.jsonl"
    ask(ledger, 0.1)
    head = ledger.export(file)
    file.write_text("\n".join(change(file.read_text().splitlines())), errors="surrogateescape")
    if told is None:
        assert read_head(file) == head
        return
    with pytest.raises(Misconfigured, match=told):
        read_head(file)


def test_many_entries_are_read_page_by_page(ledger: Ledger) -> None:
    for _ in range(600):
        ask(ledger, Fraction(1, 2000))
    assert [entry.seq for entry in ledger.entries()] == list(range(1, 602))
    assert ledger.verify().ok


def test_sixteen_threads_get_exactly_the_budget(place: Any) -> None:
    """gate:G32: more is asked than there is; the grants add up to the budget, and nothing else fails."""
    ledger = place.open()
    start, results = Barrier(16), []

    def work(name: str) -> None:
        start.wait()
        for _ in range(10):
            try:
                reservation = ask(ledger, Fraction(1, 100), analyst=name)
                ledger.settle(reservation, name.encode())
                results.append(reservation.seq)
            except BudgetExceeded:
                results.append(None)
            except Exception as error:  # noqa: BLE001
                results.append(error)

    pause = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [Thread(target=work, args=(f"analyst {n}",)) for n in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(pause)
    granted = [seq for seq in results if seq is not None]
    assert len(results) == 160
    assert len(set(granted)) == len(granted) == 100
    assert ledger.spent == ledger.total == pure(1)
    assert sum(ledger.spent_by(f"analyst {n}").amount for n in range(16)) == 1
    assert ledger.verify().ok


def test_two_ledgers_of_one_process_share_one_place(place: Any) -> None:
    one, other = place.open(), place.open()
    ask(one, 0.5)
    assert other.spent == pure(0.5)
    other.settle(ask(other, 0.5), b"answer")
    with pytest.raises(BudgetExceeded):
        ask(one, 0.1)


def test_a_ledger_in_memory_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with open_ledger(None, Budget(1)) as ledger:
        ledger.settle(ask(ledger, 0.1), b"answer")
        assert ledger.path is None
        assert ledger.verify().ok
        ledger.export("export.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["export.jsonl"]


def test_only_charges_move_the_witness(place: Any) -> None:
    """An answer is not synced on its own, and a witness must never name what the disk may not have."""
    ledger = place.open()
    before = place.witness.read_bytes()
    reservation = ask(ledger, 0.1)
    changed = place.witness.read_bytes()
    assert changed != before
    ledger.settle(reservation, b"answer")
    assert place.witness.read_bytes() == changed


def test_a_missing_ledger_is_reported(tmp_path: Path) -> None:
    report = verify_ledger(tmp_path / "nothing.db")
    assert not report.ok
    assert "There is no ledger" in str(report)
    with pytest.raises(LapwingError):
        read_head(tmp_path / "nothing.jsonl")


def test_a_closed_ledger_says_so(place: Any) -> None:
    ledger = place.open()
    ledger.close()
    ledger.close()
    with pytest.raises(Misconfigured, match="closed"):
        ask(ledger, 0.1)


def test_a_ledger_cannot_be_copied(place: Any) -> None:
    ledger = place.open()
    for double in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(Misconfigured, match="cannot be copied"):
            double(ledger)


def test_an_interruption_before_the_commit_undoes_the_charge(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = place.open()

    def interrupted(book: CheckedBook, *arguments: Any, **more: Any) -> Any:
        append(book, *arguments, **more)
        raise KeyboardInterrupt

    append = CheckedBook.append
    with monkeypatch.context() as patch:
        patch.setattr(CheckedBook, "append", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ask(ledger, 0.1)
    assert len(list(ledger.entries())) == 1
    assert ask(ledger, 0.1).seq == 2


@pytest.mark.parametrize("allowed", [None, 0.3, 5])
def test_what_fits_is_what_can_be_charged(place: Any, allowed: float | None) -> None:
    """The same refusal, word for word; and asking whether it fits charges nothing."""
    ledger = place.open()
    if allowed is not None:
        ledger.allow("ann", pure(allowed))
    ask(ledger, 0.2)
    ask(ledger, 0.2, analyst="bob")
    for amount in (0.1, 0.100001, 0.6, 0.600001, 2):
        before, told = (list(ledger.entries()), ledger.state), []
        for attempt in (lambda cost: ledger.check_fits(cost, analyst="ann"), lambda cost: another_ask(place, cost)):
            try:
                attempt(pure(amount))
                told.append(None)
            except BudgetExceeded as refusal:
                told.append((str(refusal), refusal.asked, refusal.remaining))
            if len(told) == 1:
                assert (list(ledger.entries()), ledger.state) == before
        assert told[0] == told[1]


def another_ask(place: Any, cost: Cost) -> None:
    """Charges, and takes it back as no ledger can: by an error inside the transaction."""
    with pytest.MonkeyPatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr(CheckedBook, "append", _interrupted)
        place.open().reserve(cost, analyst="ann", body="q")


def _interrupted(*_: Any, **__: Any) -> Any:
    raise KeyboardInterrupt
