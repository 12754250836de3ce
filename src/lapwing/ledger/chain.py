"""Verifies that entries follow from one another: hashes, running sums, the budget, and the charge of each answer.

What a steward declares about a private table, and the unit that a ledger protects.

Guarantee:  all charges of one ledger protect the same units. Tables by row and tables with a unit column never share a
            ledger; a table, the contents of a file and the place of a file keep the unit column that was first declared
            for them, under whatever name they are opened. No such file is ever opened as a public table.
Proof:      a curator declares all its private tables in one transaction before its first charge. The transaction fails
            if a declaration contradicts any earlier one, and entries are never removed: by induction all declarations
            of a ledger agree, and so do any two charges about the same table or data. `verify` checks it again.
Limits:     contents that were changed, moved and renamed at once are new data to the ledger; so are the same rows in
            another format, and a view of a database. The chain keeps marks under the secret salt, so that it tells
            nothing about the data.
Checked by: tests/ledger/test_declaration.py
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from lapwing.ledger.entry import START, Entry, EntryKind, Head, LedgerTerms, add_costs, canonical, cost_of
from lapwing.ledger.store import Book
from lapwing.ledger.witness import altered, other_ledger, rolled_back
from lapwing.privacy.budget import Accounting, Cost

_MARKS = ("table", "data", "place")


@dataclass(frozen=True, slots=True)
class Declaration:
    """One private table: whose rows they are, which data, and what limits them."""

    table: str
    version: str
    unit: str | None
    """The column that says whose row it is; None if every row is a unit of its own."""
    fingerprint: bytes
    """Of the contents."""
    place: str | None = None
    """The file; None if the data are in memory."""
    part: str = ""
    """Which table of the file, if it has several."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    """Everything else that is declared, for the reader of the ledger."""
    files: Sequence[tuple[bytes, str]] = ()
    """The contents and the place of each file, if the data are several files or one that is read in a declared way."""

    def note(self, salt: bytes) -> dict[str, Any]:
        """What the entry says. Data appear as marks only."""
        files = [_places(salt, *file) for file in self.files]
        return {
            "table": self.table,
            "version": self.version,
            "unit": self.unit,
            "mark": version_mark(salt, self.table, self.fingerprint),
            **_places(salt, self.fingerprint, self.place, self.part),
            "limits": dict(self.limits),
            **({"files": files} if files else {}),
        }


def _places(salt: bytes, fingerprint: bytes, place: str | None, part: str = "") -> dict[str, str | None]:
    """The marks of contents and of where they are."""
    marked = None if place is None else _mark(salt, "place", place, part)
    return {"data": _mark(salt, "data", fingerprint.hex(), part), "place": marked}


class Units:
    """The unit of each table and of all data, as the declarations so far have it."""

    def __init__(self) -> None:
        self._declared: dict[tuple[str, str], str | None] = {}

    def take(self, note: Mapping[str, Any]) -> str | None:
        """Adds a declaration and returns None, or says how it contradicts an earlier one. ValueError if it is none."""
        table, unit = note.get("table"), note.get("unit", 0)
        if not isinstance(table, str) or not (unit is None or isinstance(unit, str)):
            raise ValueError("it declares no table and unit")
        conflict = next(self._conflicts(table, unit, note), None)
        if conflict is None:
            self._declared |= dict.fromkeys(_identities(note), unit)
        return conflict

    def holds(self, note: Mapping[str, Any]) -> bool:
        """Whether these contents, or the file in their place, were declared as private."""
        return any(mark in self._declared for mark in _identities(note) if mark[0] != "table")

    def _conflicts(self, table: str, unit: str | None, note: Mapping[str, Any]) -> Iterator[str]:
        kinds = {earlier is None for earlier in self._declared.values()}
        if kinds and (unit is None) not in kinds:
            kind = "units named by a column" if unit is None else "single rows"
            yield f"Table `{table}` declares {_named(unit)}, but this ledger protects {kind}."
        for kind, mark in _identities(note):
            earlier = self._declared.get((kind, mark), unit)
            if (earlier or "").lower() != (unit or "").lower():
                whose = f"Table `{table}`" if kind == "table" else f"The data of table `{table}`"
                yield f"{whose} had {_named(earlier)} before, and {_named(unit)} is declared now."


def version_mark(salt: bytes, table: str, fingerprint: bytes) -> str:
    return _mark(salt, "version", table, fingerprint.hex())


def _identities(note: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What keeps its unit; names of tables are not case-sensitive."""
    notes = [note, *note.get("files", ())]
    return [(kind, own[kind].lower()) for own in notes for kind in _MARKS if isinstance(own.get(kind), str)]


def _named(unit: str | None) -> str:
    return "every row as a unit" if unit is None else f"the unit `{unit}`"


def _mark(salt: bytes, *parts: str) -> str:
    return hmac.new(salt, canonical(parts).encode(), sha256).hexdigest()


@dataclass(frozen=True, slots=True)
class ChainFault:
    """What is wrong with a ledger, and at which entry, if any."""

    text: str
    seq: int | None = None

    def __str__(self) -> str:
        return self.text if self.seq is None else f"Entry {self.seq}: {self.text}"


def link_fault(before: Entry | None, entry: Entry, *, intact: bool = False) -> ChainFault | None:
    """Why this entry cannot follow `before`; None if it can. `intact` if its content is known to match its hash."""
    expected = 1 if before is None else before.seq + 1
    if entry.seq > expected:
        return ChainFault("it is missing.", expected)
    if entry.seq < expected:
        return ChainFault("its number comes before the first.", entry.seq)
    if not intact and entry.hash != entry.digest:
        return ChainFault("its content does not match its hash.", entry.seq)
    if entry.previous != (START if before is None else before.hash):
        return ChainFault("it does not continue the entry before it.", entry.seq)
    return None


def sum_fault(before: Entry, entry: Entry, accounting: Accounting) -> ChainFault | None:
    """Why the running sum does not follow from the one before; None if it does."""
    try:
        spent, cost = spent_after(before, accounting), cost_of(accounting, entry.amount, entry.delta)
        expected = add_costs(spent, cost) if entry.kind == EntryKind.RESERVE else spent
        right = spent_after(entry, accounting) == expected
    except ValueError:
        return ChainFault("an amount is not an exact number.", entry.seq)
    return None if right else ChainFault("its running sum is wrong.", entry.seq)


def head_fault(book: Book, head: Head, source: str, seen: Head) -> ChainFault | None:
    """Why the ledger with this head is not the one seen before; None if it is."""
    if seen.ledger != head.ledger:
        return ChainFault(other_ledger(source, seen, head.ledger))
    if seen.seq > head.seq:
        return ChainFault(rolled_back(source, seen, head.seq), head.seq + 1)
    row = book.entry(seen.seq)
    return None if row is not None and row[-1] == seen.hash else ChainFault(altered(source, seen), seen.seq)


def spent_after(entry: Entry, accounting: Accounting) -> Cost:
    return cost_of(accounting, entry.spent_amount, entry.spent_delta)


def own_after(entry: Entry, accounting: Accounting) -> Cost:
    return cost_of(accounting, entry.own_amount, entry.own_delta)


class ChainVerifier:
    """Checks a whole chain, entry by entry from the first."""

    def __init__(self) -> None:
        self.last: Entry | None = None
        self.terms: LedgerTerms | None = None
        self.unanswered: dict[int, str] = {}
        """Charges without an answer so far, and whose they are."""
        self.answered: set[int] = set()
        self._own: dict[str, Cost] = {}
        self._units = Units()

    def step(self, entry: Entry) -> ChainFault | None:
        """Checks the next entry: advances and returns None, or returns the fault."""
        problem = link_fault(self.last, entry)
        if problem is None and self.last is not None and self.terms is not None:
            problem = sum_fault(self.last, entry, self.terms.budget.accounting)
        if problem is None:
            try:
                problem = next((ChainFault(text, entry.seq) for text in self._faults(entry)), None)
            except (ValueError, TypeError, AttributeError):
                problem = ChainFault("its amounts or its note cannot be read.", entry.seq)
        if problem is None:
            self._take(entry)
        return problem

    def _faults(self, entry: Entry) -> Iterator[str]:
        if self.terms is None:
            self.terms = LedgerTerms.read(entry)
        accounting = self.terms.budget.accounting
        cost, own = cost_of(accounting, entry.amount, entry.delta), own_after(entry, accounting)
        expected = self._own.get(entry.analyst, own.zero)
        match entry.kind:
            case EntryKind.OPEN:
                if self.last is not None or spent_after(entry, accounting):
                    yield "a ledger is opened only once, with nothing spent."
            case EntryKind.RESERVE:
                expected = add_costs(expected, cost)
                if not cost:
                    yield "it charges nothing."
                if not spent_after(entry, accounting).fits(self.terms.total):
                    yield "more is spent than the budget holds."
            case EntryKind.SETTLE:
                if self.unanswered.get(entry.remark("of")) != entry.analyst:
                    yield "it answers no charge, or one that was answered before."
            case EntryKind.VERSION:
                if conflict := self._units.take(json.loads(entry.note)):
                    yield conflict
            case EntryKind.KEEP:
                if entry.remark("of") != entry.seq:
                    yield "it does not say which content it keeps."
            case (
                EntryKind.MEMBER
                | EntryKind.TOKEN
                | EntryKind.REVOKE
                | EntryKind.CLAIM
                | EntryKind.SESSION
                | EntryKind.LOOK
            ):
                if entry.key is None or cost:
                    yield "it is a record without a key, or with a price."
            case EntryKind.ALLOW | EntryKind.WITNESS:
                pass
            case _:
                yield "its kind is unknown."
        if own != expected:
            yield "its running sum for the analyst is wrong."

    def _take(self, entry: Entry) -> None:
        self.last = entry
        if entry.kind == EntryKind.RESERVE and self.terms is not None:
            self.unanswered[entry.seq] = entry.analyst
            self._own[entry.analyst] = own_after(entry, self.terms.budget.accounting)
        elif entry.kind == EntryKind.SETTLE:
            self.unanswered.pop(entry.remark("of"))
            self.answered.add(entry.remark("of"))
        elif entry.kind == EntryKind.KEEP:
            self.answered.add(entry.seq)
