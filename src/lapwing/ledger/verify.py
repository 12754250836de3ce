"""Whether a ledger is whole: every hash, every sum, every answer, the tables themselves, and what the witnesses know.

A chain alone proves that nothing in its middle was changed; that nothing was cut off its end is proved only against a
head kept elsewhere, by a witness or in an export. The budget is proved by the name of the ledger, which commits to it
and which every head holds. Whoever can rewrite the ledger and all heads while no process has it open is not detected: a
chain written anew from its first entry is as good as any other.
Checked by: tests/ledger/test_verify.py
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from lapwing.errors import LapwingError, Misconfigured
from lapwing.ledger.chain import Break, Walk, broken_link
from lapwing.ledger.entry import COLUMNS, Entry, Head, Kind
from lapwing.ledger.store import APPLICATION, FAULTS, SCHEMA, exists, failure, plain_text
from lapwing.ledger.witness import Witness, altered, missing_ledger, other_ledger, rolled_back
from lapwing.privacy.budget import Budget

_PAGE = 500
_ROWS = f"SELECT {', '.join(COLUMNS)} FROM entry"
_IN_ORDER = f"ORDER BY seq LIMIT {_PAGE}"


_NOTE = COLUMNS.index("note")

Reader = Callable[[], AbstractContextManager[sqlite3.Connection]]
"""Lends a connection for one page."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a check of the whole ledger found."""

    entries: int
    """How many entries are proved."""
    head: Head | None
    """The last of them."""
    problem: Break | None = None
    """The first thing that is wrong, and the entry that it concerns."""
    unanswered: tuple[int, ...] = ()
    """Charges without a stored answer: still being answered, or lost when their process ended. They stay charged."""
    notes: tuple[str, ...] = ()
    budget: Budget | None = None
    """The one that it was created with, if that could be read."""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return self.problem is None

    def __str__(self) -> str:
        head = "" if self.head is None else f", head {self.head.hash}"
        verdict = f"The ledger is whole: {self.entries} entries{head}."
        return "\n".join([verdict if self.ok else f"The ledger is NOT whole. {self.problem}", *self.notes])


def verify_ledger(path: Path | str, *, witness: Sequence[Path] = (), against: Head | None = None) -> Report:
    """Checks a ledger file, also one that can no longer be opened. Changes nothing."""
    place, witnesses = Path(path), [Witness(Path(file)) for file in witness]
    if not exists(place):
        heads = _heads(witnesses, against)
        seen = [missing_ledger(source, head, place) for source, head in heads if isinstance(head, Head)]
        return Report(0, None, Break((seen or [f"There is no ledger at {place}."])[0]))
    try:
        with closing(sqlite3.connect(f"{place.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            connection.text_factory = plain_text
            return verify(lambda: nullcontext(connection), witnesses, against=against)
    except FAULTS as error:
        return Report(0, None, Break(str(failure(error, place))))


def verify(reader: Reader, witnesses: Sequence[Witness] = (), *, against: Head | None = None) -> Report:
    """Checks everything up to the last entry there is now, and reports the first one that is wrong.

    The connection is asked for one page at a time, so that others may write in between: what they append is not looked
    at, and entries never change, so the report is that of one moment.
    """
    heads = list(_heads(witnesses, against))  # before the entries, which may grow meanwhile
    with reader() as connection:
        if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            return Report(0, None, Break("The file is empty: it never was a ledger, or it was emptied."))
        end = connection.execute("SELECT max(seq) FROM entry").fetchone()[0]
        renewed = connection.execute("SELECT seq, at FROM entry WHERE kind = 'witness' ORDER BY seq").fetchall()
    walk = Walk()
    problem = _broken_entry(reader, walk, end)
    head = None if walk.last is None or walk.terms is None else Head(walk.terms.ledger, walk.last.seq, walk.last.hash)
    if problem is None and head is not None:
        with reader() as connection:
            problem = _broken_head(connection, head, heads) or _broken_store(connection, walk, head.seq)
    notes = [f"{source} is missing." for source, known in heads if known is None]
    if walk.unanswered:
        notes.append(f"{len(walk.unanswered)} charges have no stored answer. They stay charged.")
    notes += [f"Entry {seq} ({at}): a witness was missing and was written anew." for seq, at in renewed]
    budget = None if walk.terms is None else walk.terms.budget
    return Report(head.seq if head else 0, head, problem, tuple(walk.unanswered), tuple(notes), budget)


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
        raise Misconfigured(f"{path} is no export of a ledger. Pass a file that `export` wrote.")
    if head is None or (lines[1:] and (len(lines) != head.seq + 1 or _entry_in(lines[-2]) != (head.seq, head.hash))):
        raise Misconfigured(f"{path} is not a whole export: lines are missing. Pass a whole copy of it.")
    if not _is_chain(lines[:-1]):
        raise Misconfigured(f"{path} was changed after it was written. Pass an unchanged copy of it.")
    return head


def _is_chain(lines: Sequence[str]) -> bool:
    """Whether exported entries have the content of their hashes, and follow each other."""
    before = None
    for line in lines:
        try:
            entry = Entry(**json.loads(line))
            if broken_link(before, entry) is not None:
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


def mismatch(connection: sqlite3.Connection, head: Head, source: str, known: Head) -> Break | None:
    """Why the ledger with this head is not the one that was seen; None if it is."""
    if known.ledger != head.ledger:
        return Break(other_ledger(source, known, head.ledger))
    if known.seq > head.seq:
        return Break(rolled_back(source, known, head.seq), head.seq + 1)
    row = connection.execute("SELECT hash FROM entry WHERE seq = ?", (known.seq,)).fetchone()
    return None if row == (known.hash,) else Break(altered(source, known), known.seq)


def rows_after(connection: sqlite3.Connection, seq: int | None, end: int | None = None) -> list[tuple[Any, ...]]:
    """The next rows of entries in order, from the very first if there is no number, up to an end if there is one."""
    limits = [("seq > ?", seq), ("seq <= ?", end)]
    asked = [(text, value) for text, value in limits if value is not None]
    where = f"WHERE {' AND '.join(text for text, _ in asked)}" if asked else ""
    return connection.execute(f"{_ROWS} {where} {_IN_ORDER}", [value for _, value in asked]).fetchall()


def _broken_entry(reader: Reader, walk: Walk, end: int | None) -> Break | None:
    seq: int | None = None
    while True:
        with reader() as connection:
            page = rows_after(connection, seq, end)
            answers = {row[0]: _answer_to(connection, row) for row in page if row[1] == Kind.SETTLE}
        if not page:
            return None if walk.last else Break("There are no entries.")
        for row in page:
            try:
                entry = Entry.read(row)
                problem = walk.step(entry) or _broken_answer(entry, answers.get(entry.seq))
            except ValueError as error:
                problem = Break(f"{error}.", row[0])
            if problem is not None:
                return problem
        seq = page[-1][0]


def _answer_to(connection: sqlite3.Connection, row: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Of the answer that an entry records: which entry it names, the hash of its content, where it is found."""
    try:
        of = json.loads(row[_NOTE])["of"]
    except (ValueError, TypeError, KeyError):
        return None
    wanted = "SELECT settled, payload, match_hash, terms FROM answer WHERE seq = ?"
    found = connection.execute(wanted, (of,)).fetchone() if type(of) is int and 0 < of < row[0] else None
    if found is None:
        return None
    return found[0], sha256(found[1]).hexdigest() if isinstance(found[1], bytes) else None, *found[2:]


def _broken_answer(entry: Entry, found: tuple[Any, ...] | None) -> Break | None:
    if entry.kind != Kind.SETTLE:
        return None
    if found is None or found[0] != entry.seq:
        return Break("the answer that it records is missing.", entry.seq)
    if found[1] != entry.body:
        return Break("the answer that it records was changed.", entry.seq)
    if found[2:] != (entry.remark("match_hash"), entry.remark("terms")):
        return Break("the answer that it records was moved to another question or price.", entry.seq)
    return None


def _broken_store(connection: sqlite3.Connection, walk: Walk, end: int) -> Break | None:
    older = "settled <= ? OR settled > (SELECT max(seq) FROM entry)"
    for (seq,) in connection.execute(f"SELECT seq FROM answer WHERE {older} ORDER BY seq", (end,)):
        if seq not in walk.answered:
            return Break("an answer is stored that no entry records.", seq)
    salts = connection.execute("SELECT salt FROM secret").fetchall()
    hashes = [sha256(salt if isinstance(salt, bytes) else b"").hexdigest() for (salt,) in salts]
    if walk.terms is None or hashes != [walk.terms.salt_hash]:
        return Break("the secret salt was changed.", 1)
    damage = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if damage != "ok":
        return Break(f"The file is damaged: {damage}.")
    tables = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall())
    if tables != SCHEMA or connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
        return Break("The tables, or the triggers that make them append-only, were changed.")
    return None


def _heads(witnesses: Sequence[Witness], against: Head | None) -> Iterator[tuple[str, Head | str | None]]:
    for witness in witnesses:
        try:
            yield witness.name, witness.read()
        except LapwingError as error:
            yield witness.name, str(error)
    if against is not None:
        yield "the exported head", against


def _broken_head(
    connection: sqlite3.Connection, head: Head, heads: Sequence[tuple[str, Head | str | None]]
) -> Break | None:
    for source, known in heads:
        if isinstance(known, str):
            return Break(known)
        if known is not None and (problem := mismatch(connection, head, source, known)):
            return problem
    return None
