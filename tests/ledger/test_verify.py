"""Tampering: whatever is changed, dropped, moved or added, `verify` fails and names the entry."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import lapwing.ledger.verify as verify_module
from lapwing.errors import LapwingError, LedgerFailed, Misconfigured
from lapwing.ledger import Declaration, Entry, EntryKind, Head, Ledger, open_ledger, verify_ledger
from lapwing.ledger.chain import ChainVerifier
from lapwing.ledger.entry import COLUMNS, LedgerTerms, canonical, cost_of, follow, ratio
from lapwing.ledger.sqlite_book import SCHEMA
from lapwing.privacy import Accounting, Budget, Cost

TEXTS = [name for name in COLUMNS if name != "seq"]
PURE = Accounting.PURE


def ask(ledger: Ledger, amount: Any = 0.1, **more: Any) -> Any:
    return ledger.reserve(Cost(PURE, amount), **{"analyst": "ann", "body": "q", **more})


def is_unchanged(ledger: Ledger, table: str, version: str, data: bytes) -> bool:
    return ledger.is_version(ledger.look(tables=[table]).versions[table], table, version, data)


@pytest.fixture
def place(disk: Any) -> Any:
    return disk


@pytest.fixture(scope="module")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with eight entries, closed: open, allow, reserve, settle, reserve (lost), version, reserve, settle."""
    folder = tmp_path_factory.mktemp("pattern")
    with open_ledger(folder / "ledger.db", Budget(1), witness=folder / "data.witness") as ledger:
        ledger.allow("ann", Cost(PURE, 0.9))
        ledger.settle(ask(ledger, key="one", note={"question": "SELECT"}), b"first answer", match="m")
        ask(ledger, key="lost", analyst="bob")
        ledger.declare([Declaration("visits", "1", "pid", b"file")])
        ledger.settle(ask(ledger, 0.25, key="two"), b"second answer")
        assert [entry.kind for entry in ledger.entries()] == [
            *("open", "allow", "reserve", "settle", "reserve", "version", "reserve", "settle"),
        ]
    return folder


@pytest.fixture
def filled(place: Any, pattern: Path) -> Any:
    """A copy of that folder."""
    for file in pattern.iterdir():
        shutil.copy(file, place.folder)
    return place


def rows(place: Any) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(place.path)) as shell:
        return shell.execute("SELECT * FROM entry ORDER BY seq").fetchall()


def test_an_untouched_ledger_is_whole(filled: Any) -> None:
    report = filled.verify()
    assert report.ok
    assert (report.entries, report.unanswered) == (8, (5,))
    assert str(report).startswith("The ledger is intact: 8 entries, head ")
    assert report.notes == ("1 charges have no stored answer. They stay charged.",)


@pytest.mark.parametrize("seq", range(1, 9))
@pytest.mark.parametrize("column", TEXTS)
def test_every_changed_column_is_found_and_its_entry_named(filled: Any, seq: int, column: str) -> None:
    """ledger:B11 gate:G38: first, middle and last byte, another type, nothing, more."""
    value = rows(filled)[seq - 1][COLUMNS.index(column)]
    if value:
        spots = {1, len(value) // 2 + 1, len(value)}
        changed = [value[: spot - 1] + chr(ord(value[spot - 1]) ^ 1) + value[spot:] for spot in spots]
    else:
        changed = ["x"]
    changed += [f"{value}0", ""] if value else []
    original = filled.path.read_bytes()
    for text in [*changed, "\x00"]:
        filled.tamper(f"UPDATE entry SET {column} = CAST(X'{text.encode().hex()}' AS TEXT) WHERE seq = {seq}")
        report = filled.verify()
        assert report.problem is not None, text
        assert report.problem.seq == seq
        assert f"Entry {seq}" in str(report)
        filled.path.write_bytes(original)
    for other in ("X'00'", "X'FF'", "CAST(X'FF' AS TEXT)"):
        filled.tamper(f"UPDATE entry SET {column} = {other} WHERE seq = {seq}")
        assert filled.verify().problem.seq == seq
        filled.path.write_bytes(original)
    assert filled.verify().ok


@pytest.mark.parametrize("seq", range(1, 9))
def test_a_deleted_entry_is_named(filled: Any, seq: int) -> None:
    """gate:G38: the last one is missed by the witness, here if it was a charge; otherwise by its answer."""
    filled.tamper(f"DELETE FROM entry WHERE seq = {seq}")
    report = filled.verify()
    assert not report.ok
    assert report.problem.seq == (seq if seq < 8 else 7)


@pytest.mark.parametrize("last", range(1, 8))
def test_a_truncated_ledger_is_found_by_its_witness(filled: Any, last: int) -> None:
    """ledger:B11 gate:G38: entries and answers cut off cleanly; only an outside head can tell."""
    head = list(verify_head(filled))
    filled.tamper(f"DELETE FROM answer WHERE settled > {last}", f"DELETE FROM entry WHERE seq > {last}")
    seen_by_witness = last < 7  # the answer after the last charge is not witnessed
    report = filled.verify()
    assert report.ok is not seen_by_witness
    if seen_by_witness:
        assert report.problem.seq == last + 1
        assert "has seen entry 7" in str(report)
        with pytest.raises(Misconfigured, match="older copy"):
            filled.open()
    against = verify_ledger(filled.path, against=head[0])
    assert not against.ok
    assert against.problem.seq == last + 1
    assert "the exported head has seen entry 8" in str(against)


def verify_head(place: Any) -> Any:
    report = place.verify()
    yield report.head


def test_swapped_entries_are_named(filled: Any) -> None:
    """gate:G38: each pair of neighbours, numbers exchanged."""
    original = filled.path.read_bytes()
    for seq in range(1, 8):
        steps = [(seq, 99), (seq + 1, seq), (99, seq + 1)]
        filled.tamper(*(f"UPDATE entry SET seq = {new} WHERE seq = {old}" for old, new in steps))
        assert filled.verify().problem.seq == seq
        filled.path.write_bytes(original)


@pytest.mark.parametrize("seq", [-(2**63), -5, 0, 4, 9, 10, 2**63 - 1])
def test_an_inserted_entry_is_named(filled: Any, seq: int) -> None:
    """gate:G38: a copy of a charge put at any place, later entries moved on."""
    if seq == 4:
        filled.tamper(*(f"UPDATE entry SET seq = {old + 1} WHERE seq = {old}" for old in range(8, 3, -1)))
    row = [seq, *rows(filled)[2][1:]]
    row[COLUMNS.index("key")] = "other"
    values = ", ".join(f"'{value}'" for value in row)
    filled.tamper(f"INSERT INTO entry VALUES ({values})")
    report = filled.verify()
    assert not report.ok
    assert report.problem.seq == min(seq, 9)


def test_rewriting_the_end_of_the_chain_is_found_by_the_witness(filled: Any) -> None:
    """ledger:B11: someone lowers a charge and computes all hashes anew; only the witness and the export know."""
    entries = [Entry.read(row) for row in rows(filled)]
    head = filled.verify().head
    statements = ["DELETE FROM answer WHERE seq = 7", "DELETE FROM entry WHERE seq >= 7"]
    before, charge = entries[5], entries[6]
    nothing = Cost(PURE, 0)
    cheap = Cost(PURE, 0.01)
    spent = cost_of(PURE, before.spent_amount, before.spent_delta) + cheap
    forged = follow(
        before, EntryKind.RESERVE, spent=spent, own=Cost(PURE, 0.11), cost=cheap, analyst="ann", at=charge.at
    )
    assert nothing.fits(spent)
    quoted = ", ".join("NULL" if value is None else f"'{value}'" for value in (getattr(forged, n) for n in COLUMNS))
    filled.tamper(*statements, f"INSERT INTO entry VALUES ({quoted})")
    assert verify_ledger(filled.path).ok  # the chain alone cannot know
    report = filled.verify()
    assert report.problem is not None
    assert report.problem.seq == 7
    assert not verify_ledger(filled.path, against=head).ok
    with pytest.raises(Misconfigured, match="the ledger was changed"):
        filled.open()


FORGERIES: dict[str, tuple[EntryKind, dict[str, Any], str]] = {
    "above the budget": (EntryKind.RESERVE, {"cost": 9, "spent": "+", "own": "+"}, "more is spent"),
    "unpaid": (EntryKind.RESERVE, {"cost": 0.1}, "running sum is wrong"),
    "nothing": (EntryKind.RESERVE, {"cost": 0}, "charges nothing"),
    "refund": (EntryKind.ALLOW, {"spent": 0}, "running sum is wrong"),
    "own sum": (EntryKind.RESERVE, {"cost": 0.1, "spent": "+", "own": 0.1}, "for the analyst"),
    "second opening": (EntryKind.OPEN, {}, "only once"),
    "answer to nothing": (EntryKind.SETTLE, {"note": {"of": 77}}, "answers no charge"),
    "second answer": (EntryKind.SETTLE, {"note": {"of": 3}}, "answers no charge"),
    "answer to a list": (EntryKind.SETTLE, {"note": {"of": [3]}}, "cannot be read"),
    "note of another kind": (EntryKind.SETTLE, {"note": [3]}, "answers no charge"),
    "answer of another": (EntryKind.SETTLE, {"note": {"of": 5}}, "answers no charge"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_entry_with_the_right_hash_must_still_add_up(filled: Any, name: str) -> None:
    """ledger:B2 ledger:B11: whoever forges a hash must also keep the rules."""
    kind, facts, message = FORGERIES[name]
    last = Entry.read(rows(filled)[-1])
    spent, own = (cost_of(PURE, *pair) for pair in ((last.spent_amount, "0/1"), (last.own_amount, "0/1")))
    cost = Cost(PURE, facts.get("cost", 0))
    sums = {
        which: base + cost if facts.get(which) == "+" else Cost(PURE, facts[which]) if which in facts else base
        for which, base in (("spent", spent), ("own", own))
    }
    forged = follow(last, kind, **sums, cost=cost, analyst="ann", note=facts.get("note"))
    quoted = ", ".join("NULL" if value is None else f"'{value}'" for value in (getattr(forged, n) for n in COLUMNS))
    filled.tamper(f"INSERT INTO entry VALUES ({quoted})")
    report = filled.verify()
    assert report.problem is not None
    assert report.problem.seq == 9
    assert message in str(report)


@pytest.mark.parametrize(
    ("change", "seq", "message"),
    [
        ("UPDATE answer SET payload = X'00' WHERE seq = 3", 4, "was changed"),
        ("UPDATE answer SET payload = CAST(payload AS TEXT) WHERE seq = 3", 4, "was changed"),
        ("UPDATE answer SET match_hash = NULL WHERE seq = 3", 4, "another question"),
        ("UPDATE answer SET match_hash = 'x' WHERE seq = 7", 8, "another question"),
        ("UPDATE answer SET settled = 8 WHERE seq = 3", 4, "is missing"),
        ("UPDATE answer SET seq = 5 WHERE seq = 7", 8, "is missing"),
        ("DELETE FROM answer WHERE seq = 3", 4, "is missing"),
        ("INSERT INTO answer VALUES (5, 4, NULL, '', X'00')", 5, "no entry records"),
        ("UPDATE secret SET salt = X'00'", 1, "salt"),
        ("DELETE FROM secret", 1, "salt"),
        ("UPDATE answer SET terms = '1' WHERE seq = 3", 4, "another question or price"),
        ("INSERT INTO answer VALUES (5, 99, NULL, '', X'00')", 5, "no entry records"),
        ("DROP INDEX entry_key", None, "were changed"),
        ("CREATE TABLE more (x)", None, "were changed"),
        ("PRAGMA application_id = 7", None, "were changed"),
    ],
)
def test_changed_answers_secrets_and_tables_are_found(filled: Any, change: str, seq: int | None, message: str) -> None:
    """gate:G38: what is not an entry is bound to one."""
    filled.tamper(change)
    report = filled.verify()
    assert report.problem is not None
    assert report.problem.seq == seq
    assert message in str(report)


def test_a_damaged_index_is_found(filled: Any) -> None:
    """gate:G38: the entry is as it was, but a retry with this key would no longer find it."""
    raw = filled.path.read_bytes()
    spots = [match.start() for match in re.finditer(rb"annone(?![0-9a-f]{64})", raw)]
    assert len(spots) == 1
    filled.path.write_bytes(raw[: spots[0]] + b"annonf" + raw[spots[0] + 6 :])
    assert "The file is damaged" in str(filled.verify())


@pytest.mark.parametrize("trigger", [name for name, sql in SCHEMA.items() if sql.startswith("CREATE TRIGGER")])
def test_a_missing_trigger_is_found(filled: Any, trigger: str) -> None:
    with closing(sqlite3.connect(filled.path)) as shell:
        shell.execute(f"DROP TRIGGER {trigger}")
    assert "append-only, were changed" in str(filled.verify())


def test_flipped_bytes_of_the_file_never_change_a_sum_unseen(filled: Any) -> None:
    """gate:G38: one byte in every 157 of the file; either verify fails, or the content is what it was."""
    original, entries, spent = filled.path.read_bytes(), rows(filled), "9/20"
    found = 0
    for place in range(0, len(original), 157):
        raw = bytearray(original)
        raw[place] ^= 0x55
        filled.path.write_bytes(raw)
        if not filled.verify().ok:
            found += 1
            continue
        assert rows(filled) == entries
        assert entries[-1][COLUMNS.index("spent_amount")] == spent
    assert found > 20
    filled.path.write_bytes(original)


def verdicts_of_flips(filled: Any, places: Iterable[int], bits: Iterable[int]) -> Counter[bool]:
    """What verify says of the file with one bit flipped, for each place and bit; it never raises."""
    original, found = filled.path.read_bytes(), Counter[bool]()
    for place, bit in product(places, bits):
        raw = bytearray(original)
        raw[place] ^= 1 << bit
        filled.path.write_bytes(raw)
        report = filled.verify()
        assert str(report).startswith("The ledger is ")
        found[report.ok] += 1
    return found


def test_every_flipped_bit_gets_a_verdict(filled: Any) -> None:
    """Most of all in the names of columns, which come back as NULL if their first bit is set."""
    original = filled.path.read_bytes()
    table = original.index(b"CREATE TABLE entry")
    assert verdicts_of_flips(filled, range(table, table + 80), [7])[True] == 0
    filled.path.write_bytes(original)
    assert verdicts_of_flips(filled, range(0, len(original), 509), range(8))[False] > 50


@pytest.mark.slow
def test_every_flipped_bit_of_the_first_page_gets_a_verdict(filled: Any) -> None:
    assert verdicts_of_flips(filled, range(4096), range(8))[False] > 10_000


def test_every_operation_on_a_damaged_file_fails_with_a_next_step_or_gives_the_truth(filled: Any) -> None:
    """ledger:B13 gate:G36: bytes of every page, most of the schema's: no other error, and never a smaller sum."""
    original, witness, pages = filled.path.read_bytes(), filled.witness.read_bytes(), 0
    spots = [*range(100, 4096, 97), *range(16, 100, 12), *range(4096, len(original), 1511)]
    for spot in spots:
        raw = bytearray(original)
        raw[spot : spot + 3] = b"\xff\xa5\xff"
        for file in filled.folder.glob("ledger.db-*"):
            file.unlink()
        filled.path.write_bytes(raw)
        filled.witness.write_bytes(witness)
        pages += not filled.verify().ok
        with suppress(LapwingError), filled.open(timeout=0.2) as ledger:
            for operation in (
                lambda: ledger.spent_by("ann"),
                lambda: list(ledger.entries()),
                lambda: ledger.verify(),
                lambda: ledger.export(filled.folder / "out.jsonl"),
                lambda: ledger.find_answers("m"),
                lambda: is_unchanged(ledger, "visits", "1", b"file"),
                lambda: ledger.declare([Declaration("visits", "1", "pid", b"file")]),
                lambda: ask(ledger, key="one"),
                lambda: ledger.settle(ask(ledger), b"answer", match="m"),
                lambda: ledger.allow("ann", Cost(PURE, 1)),
            ):
                with suppress(LapwingError):
                    operation()
            assert ledger.spent.amount >= Cost(PURE, 0.45).amount
    assert pages > len(spots) // 2


def resealed(place: Any, budget: Budget, *, name: bool, chain: bool) -> None:
    """Writes the first entry anew with another budget: with a name that fits, with all later hashes."""
    lines = [Entry.read(row) for row in rows(place)]
    terms = LedgerTerms(budget, budget.capacity, str(lines[0].remark("salt_hash")))
    note = {**terms.note(), **({} if name else {"ledger": lines[0].remark("ledger")})}
    changed = [replace(lines[0], note=canonical(note), amount=ratio(budget.capacity.amount)).seal()]
    for line in lines[1:]:
        changed.append(replace(line, previous=changed[-1].hash).seal() if chain else line)
    place.tamper(
        *(
            f"UPDATE entry SET note = '{e.note}', amount = '{e.amount}', previous = '{e.previous}', hash = '{e.hash}' "
            f"WHERE seq = {e.seq}"
            for e in changed
        )
    )


@pytest.mark.parametrize("name", [False, True])
@pytest.mark.parametrize("chain", [False, True])
def test_a_budget_that_was_raised_is_found(filled: Any, name: bool, chain: bool) -> None:
    """ledger:B11 gate:G38: by the witness alone, by an exported head alone, by a process that has it open."""
    running = filled.open()
    head = running.export(filled.folder / "out.jsonl")
    resealed(filled, Budget(1000), name=name, chain=chain)
    with pytest.raises(LedgerFailed, match="replaced while in use"):
        ask(running)
    with pytest.raises(LapwingError, match=r"Open the other ledger|does not have the terms"):
        filled.open(Budget(1000))
    assert not filled.verify().ok
    filled.witness.unlink()
    report = verify_ledger(filled.path, against=head)
    assert report.problem is not None
    assert report.problem.seq in (None, 1, 2)
    assert verify_ledger(filled.path).ok == (name and chain)  # without any head there is nothing to compare with


def test_a_damaged_last_entry_is_not_built_upon(filled: Any) -> None:
    """ledger:B11: what is spent is read from the last entry, so its hash is checked at every use."""
    original = filled.path.read_bytes()
    for seq in (7, 8):
        filled.tamper(f"UPDATE entry SET spent_amount = '1/100' WHERE seq = {seq}")
        with pytest.raises(LedgerFailed, match=f"damaged. Entry {seq}"):
            filled.open()
        with pytest.raises(LapwingError):
            ask(open_ledger(filled.path, filled.budget))
        filled.path.write_bytes(original)


def test_an_entry_that_breaks_the_sum_after_the_witness_is_not_built_upon(filled: Any) -> None:
    """ledger:B11: the entries between the witness and the head are proved at every use."""
    last = Entry.read(rows(filled)[-1])
    forged = follow(last, EntryKind.ALLOW, spent=Cost(PURE, 0), own=Cost(PURE, 0), analyst="ann")
    quoted = ", ".join("NULL" if value is None else f"'{value}'" for value in (getattr(forged, n) for n in COLUMNS))
    filled.tamper(f"INSERT INTO entry VALUES ({quoted})")
    with pytest.raises(LedgerFailed, match="Entry 9: its running sum is wrong"):
        filled.open()


def test_a_changed_answer_is_not_given_out(filled: Any) -> None:
    filled.tamper("UPDATE answer SET payload = X'00' WHERE seq = 3")
    ledger = filled.open()
    for attempt in (lambda: ledger.answer(3), lambda: ask(ledger, key="one"), lambda: ledger.find_answers("m")):
        with pytest.raises(LedgerFailed, match="stored answer was changed"):
            attempt()


def test_a_changed_salt_is_refused(filled: Any) -> None:
    filled.tamper("UPDATE secret SET salt = X'00'")
    with pytest.raises(LedgerFailed, match="salt"):
        filled.open()


def test_a_head_of_another_ledger_does_not_fit(filled: Any) -> None:
    report = verify_ledger(filled.path, against=Head("00" * 16, 3, "x"))
    assert "Open the other ledger" in str(report)


def test_a_damaged_witness_is_reported(filled: Any) -> None:
    filled.witness.write_bytes(b"rubbish")
    assert "damaged" in str(filled.verify())


def is_free(lock: Any) -> bool:
    """Whether another thread may take it: the one that holds a re-entrant lock always may."""
    with ThreadPoolExecutor(1) as other:
        taken = other.submit(lock.acquire, blocking=False).result()
        if taken:
            other.submit(lock.release).result()
    return bool(taken)


def test_verify_lets_others_write_and_reports_one_moment(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """At every entry a question is charged and answered by the same process; the report is that of the beginning."""
    ledger = place.open(Budget(100))
    for _ in range(3):
        ledger.settle(ask(ledger), b"answer", match="m")
    ask(ledger)
    step, asked = ChainVerifier.step, []

    def stepped(chain: ChainVerifier, entry: Entry) -> Any:
        assert is_free(ledger._store._gate.lock)
        asked.append(ask(ledger))
        ledger.settle(asked[-1], b"later", match="m")
        return step(chain, entry)

    monkeypatch.setattr(ChainVerifier, "step", stepped)
    report = ledger.verify()
    assert report.ok
    assert (report.entries, report.unanswered, len(asked)) == (8, (8,), 8)
    monkeypatch.undo()
    assert ledger.verify().entries == 24


@pytest.mark.parametrize("part", ["_answer_to", "_head_fault", "_store_fault"])
def test_questions_go_on_while_verify_reads(place: Any, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    """Not only between two pages: the last check reads the whole file at once."""
    ledger = place.open(Budget(100))
    ledger.settle(ask(ledger), b"answer", match="m")
    inner, asked, lock = getattr(verify_module, part), [], ledger._store._gate.lock

    def reading(*arguments: Any) -> Any:
        with ThreadPoolExecutor(1) as other:
            assert other.submit(lambda: lock.acquire(blocking=False) and lock.release() is None).result()
        asked.append(ask(ledger))
        return inner(*arguments)

    monkeypatch.setattr(verify_module, part, reading)
    assert ledger.verify().entries == 3
    assert asked


def test_verify_waits_for_nobody_and_changes_nothing(filled: Any) -> None:
    before = {name: (filled.folder / name).read_bytes() for name in ("ledger.db", "data.witness")}
    assert filled.verify().ok
    assert before == {name: (filled.folder / name).read_bytes() for name in ("ledger.db", "data.witness")}
    shutil.copy(filled.path, filled.folder / "copy.db")
    os.chmod(filled.folder / "copy.db", 0o400)
    assert verify_ledger(filled.folder / "copy.db").ok
    assert Budget(1) == filled.budget
