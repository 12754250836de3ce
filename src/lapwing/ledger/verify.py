"""Whether a ledger is whole: every hash, every sum, every answer, the tables themselves, and what the witnesses know.

A chain alone proves that nothing in its middle was changed; that nothing was cut off its end is proved only against a
head kept elsewhere, by a witness or in an export. The budget is proved by the name of the ledger, which commits to it
and which every head holds. A rewrite of the ledger and of all heads while no process has it open is not detected.
Checked by: tests/ledger/test_verify.py
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

from lapwing.errors import LapwingError, LedgerFailed, Misconfigured
from lapwing.ledger.chain import ChainFault, ChainVerifier, head_fault, link_fault
from lapwing.ledger.entry import COLUMNS, Entry, EntryKind, Head, canonical
from lapwing.ledger.store import AnswerRow, Book, Row
from lapwing.ledger.witness import Witness, sync_folder
from lapwing.privacy.budget import Budget

_AT, _NOTE = COLUMNS.index("at"), COLUMNS.index("note")
_ANSWERING = (EntryKind.SETTLE, EntryKind.KEEP)
_ACCEPTED = "the ledger had come to another server, and the steward accepted it."
_RENEWED = "a witness was missing and was written again."

EntryReader = Callable[[], AbstractContextManager[Book]]
"""Lends a book for one page."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a check of the whole ledger found."""

    entries: int
    """How many entries are proved."""
    head: Head | None
    """The last of them."""
    problem: ChainFault | None = None
    """The first thing that is wrong, and the entry that it concerns."""
    unanswered: tuple[int, ...] = ()
    """Charges without a stored answer: still being answered, or lost when their process ended. They stay charged."""
    notes: tuple[str, ...] = ()
    budget: Budget | None = None
    """The one that it was created with, if that could be read."""

    @property
    def ok(self) -> bool:
        return self.problem is None

    def __str__(self) -> str:
        head = "" if self.head is None else f", head {self.head.hash}"
        verdict = f"The ledger is intact: {self.entries} entries{head}."
        return "\n".join([verdict if self.ok else f"The ledger is NOT intact. {self.problem}", *self.notes])


def verify(reader: EntryReader, witnesses: Sequence[Witness] = (), *, against: Head | None = None) -> Report:
    """Checks everything up to the last entry there is now, and reports the first one that is wrong.

    The book is asked for one page at a time, so that others may write in between: what they append is not looked
    at, and entries never change, so the report is that of one moment.
    """
    heads = list(known_heads(witnesses, against))  # before the entries, which may grow meanwhile
    with reader() as book:
        if book.is_empty():
            return Report(0, None, ChainFault("The file is empty: it never was a ledger, or it was emptied."))
        last = book.last()
        renewed = book.entries_of(EntryKind.WITNESS, "")
    end = None if last is None else last[0]
    chain = ChainVerifier()
    problem = _entry_fault(reader, chain, end)
    head = (
        None if chain.last is None or chain.terms is None else Head(chain.terms.ledger, chain.last.seq, chain.last.hash)
    )
    if problem is None and head is not None:
        with reader() as book:
            problem = _head_fault(book, head, heads) or _store_fault(book, chain, head.seq)
    notes = [f"{source} is missing." for source, known in heads if known is None]
    if chain.unanswered:
        notes.append(f"{len(chain.unanswered)} charges have no stored answer. They stay charged.")
    for row in renewed:
        event = _ACCEPTED if '"accepted"' in str(row[_NOTE]) else _RENEWED
        notes.append(f"Entry {row[0]} ({row[_AT]}): {event}")
    budget = None if chain.terms is None else chain.terms.budget
    return Report(head.seq if head else 0, head, problem, tuple(chain.unanswered), tuple(notes), budget)


def write_export(path: Path, ledger: str, entries: Iterable[Entry]) -> Head:
    """Writes the entries as JSON lines, the last one the head: all or nothing, readable by its owner only."""
    if path.is_dir():
        raise Misconfigured(f"{path} is a folder. Name a file to write, for example {path / 'ledger.jsonl'}.")
    if path.exists() and not path.is_file():  # a device or a pipe would be replaced
        raise Misconfigured(f"{path} is not an ordinary file. Name another file to write.")
    fresh = path.with_name(path.name + ".new")
    try:
        head = _write_entries(fresh, ledger, entries)
        os.replace(fresh, path)
        sync_folder(path.parent)
    except OSError as error:
        raise LedgerFailed(f"{path} could not be written ({error.strerror}). Name another file.") from None
    finally:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
    return head


def export_lines(ledger: str, entries: Iterable[Entry]) -> Iterator[tuple[str, Head]]:
    """The lines of an export, each with the head up to it; the last one is the head itself."""
    head = Head(ledger, 0, "")
    for entry in entries:
        head = Head(ledger, entry.seq, entry.hash)
        yield canonical(asdict(entry)) + "\n", head
    yield canonical({"head": asdict(head)}) + "\n", head


def _write_entries(path: Path, ledger: str, entries: Iterable[Entry]) -> Head:
    with os.fdopen(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
        for line, head in export_lines(ledger, entries):  # noqa: B007 (the last one is returned)
            file.write(line)
        file.flush()
        os.fsync(file.fileno())
    return head


def read_head(path: Path | str) -> Head:
    """The head in the last line of an export; that line alone will do."""
    try:
        lines = Path(path).read_text().splitlines() if Path(path).is_file() or not Path(path).exists() else []
    except OSError as error:
        raise Misconfigured(f"{path} cannot be read ({error.strerror}). Pass a file that `export` wrote.") from None
    except ValueError:
        lines = []
    head = _head_in(lines[-1]) if lines else None
    if head is None and not (lines and _entry_in(lines[0])):
        raise Misconfigured(f"{path} is not a ledger export. Pass a file that `export` wrote.")
    if head is None or (lines[1:] and (len(lines) != head.seq + 1 or _entry_in(lines[-2]) != (head.seq, head.hash))):
        raise Misconfigured(f"{path} is incomplete: lines are missing. Pass a complete copy of it.")
    if not _is_chain(lines[:-1]):
        raise Misconfigured(f"{path} was changed after it was written. Pass an unchanged copy of it.")
    return head


def _is_chain(lines: Sequence[str]) -> bool:
    """Whether exported entries have the content of their hashes, and follow each other."""
    before = None
    for line in lines:
        try:
            entry = Entry(**json.loads(line))
            if link_fault(before, entry) is not None:
                return False
        except (ValueError, TypeError, RecursionError):
            return False
        before = entry
    return True


def _head_in(line: str) -> Head | None:
    try:
        facts = json.loads(line)["head"]
        seq = int(facts["seq"])
        return Head(str(facts["ledger"]), seq, str(facts["hash"])) if seq > 0 else None
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None


def _entry_in(line: str) -> tuple[int, str] | None:
    """Number and hash of an exported entry."""
    try:
        facts = json.loads(line)
        return (int(facts["seq"]), str(facts["hash"])) if "previous" in facts else None
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None


def _entry_fault(reader: EntryReader, chain: ChainVerifier, end: int | None) -> ChainFault | None:
    seq: int | None = None
    while True:
        with reader() as book:
            page = book.page(seq, end)
            answers = {row[0]: _answer_to(book, row) for row in page if row[1] in _ANSWERING}
        if not page:
            return None if chain.last else ChainFault("There are no entries.")
        for row in page:
            try:
                entry = Entry.read(row)
                problem = chain.step(entry) or _answer_fault(entry, answers.get(entry.seq))
            except ValueError as error:
                problem = ChainFault(f"{error}.", row[0])
            if problem is not None:
                return problem
        seq = page[-1][0]


def _answer_to(book: Book, row: Row) -> AnswerRow | None:
    """The answer that an entry records, with the hash of its content instead of the content."""
    try:
        of = json.loads(row[_NOTE])["of"]
    except (ValueError, TypeError, KeyError):
        return None
    if type(of) is not int or type(row[0]) is not int or not 0 < of <= row[0]:
        return None
    answer = book.answer(of)
    return None if answer is None else answer._replace(payload=_digest(answer.payload))


def _answer_fault(entry: Entry, answer: AnswerRow | None) -> ChainFault | None:
    if entry.kind not in _ANSWERING:
        return None
    if answer is None or answer.settled != entry.seq:
        return ChainFault("the answer that it records is missing.", entry.seq)
    if answer.payload != entry.body:
        return ChainFault("the answer that it records was changed.", entry.seq)
    if (answer.match_hash, answer.terms) != (entry.remark("match_hash"), entry.remark("terms")):
        return ChainFault("the answer that it records was moved to another question or price.", entry.seq)
    return None


def _store_fault(book: Book, chain: ChainVerifier, end: int) -> ChainFault | None:
    last = book.last()
    for seq, settled in book.answered():
        later = last is not None and type(settled) is int and end < settled <= last[0]  # appended meanwhile
        if not later and seq not in chain.answered:
            return ChainFault("an answer is stored that no entry records.", seq)
    if chain.terms is None or _digest(book.salt()) != chain.terms.salt_hash:
        return ChainFault("the secret salt was changed.", 1)
    damage = book.find_damage()
    return None if damage is None else ChainFault(damage)


def _digest(stored: object) -> str | None:
    return sha256(stored).hexdigest() if isinstance(stored, bytes) else None


def known_heads(witnesses: Sequence[Witness], against: Head | None) -> Iterator[tuple[str, Head | str | None]]:
    for witness in witnesses:
        try:
            yield witness.name, witness.read()
        except LapwingError as error:
            yield witness.name, str(error)
    if against is not None:
        yield "the exported head", against


def _head_fault(book: Book, head: Head, heads: Sequence[tuple[str, Head | str | None]]) -> ChainFault | None:
    for source, seen in heads:
        if isinstance(seen, str):
            return ChainFault(seen)
        if seen is not None and (problem := head_fault(book, head, source, seen)):
            return problem
    return None
