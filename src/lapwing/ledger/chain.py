"""Verifies that entries follow from one another: hashes, running sums, the budget, and the charge of each answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from lapwing.ledger.declaration import Units
from lapwing.ledger.entry import START, Entry, EntryKind, Head, LedgerTerms, add_costs, cost_of
from lapwing.ledger.store import Book
from lapwing.ledger.witness import altered, other_ledger, rolled_back
from lapwing.privacy.budget import Accounting, Cost


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


def head_fault(book: Book, head: Head, source: str, known: Head) -> ChainFault | None:
    """Why the ledger with this head is not the one seen before; None if it is."""
    if known.ledger != head.ledger:
        return ChainFault(other_ledger(source, known, head.ledger))
    if known.seq > head.seq:
        return ChainFault(rolled_back(source, known, head.seq), head.seq + 1)
    row = book.entry(known.seq)
    return None if row is not None and row[-1] == known.hash else ChainFault(altered(source, known), known.seq)


def spent_after(entry: Entry, accounting: Accounting) -> Cost:
    """The sum of all charges up to this entry."""
    return cost_of(accounting, entry.spent_amount, entry.spent_delta)


def own_after(entry: Entry, accounting: Accounting) -> Cost:
    """The sum of this analyst's charges up to this entry."""
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
        known = self._own.get(entry.analyst, own.zero)
        match entry.kind:
            case EntryKind.OPEN:
                if self.last is not None or spent_after(entry, accounting):
                    yield "a ledger is opened only once, with nothing spent."
            case EntryKind.RESERVE:
                known = add_costs(known, cost)
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
            case EntryKind.MEMBER | EntryKind.TOKEN | EntryKind.REVOKE | EntryKind.CLAIM:
                if entry.key is None or cost:
                    yield "it is a record without a key, or with a price."
            case EntryKind.ALLOW | EntryKind.WITNESS:
                pass
            case _:
                yield "its kind is unknown."
        if own != known:
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
