"""The entries of one ledger inside one transaction, refused unless they fit their hashes and sums."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from hashlib import sha256

from lapwing.errors import LedgerFailed, Misconfigured
from lapwing.ledger.chain import Units, head_fault, link_fault, own_after, spent_after, sum_fault
from lapwing.ledger.entry import (
    Entry,
    EntryKind,
    Head,
    LedgerTerms,
    NewAnswer,
    Offer,
    StoredAnswer,
    add_costs,
    cost_of,
    digest,
    follow,
)
from lapwing.ledger.store import AnswerRow, Book, Row
from lapwing.privacy.budget import Cost

_FAR = 2
_REMEMBERED = 64
"""Entries in memory."""


class CheckedBook:
    """Reads and appends entries. Every entry that matters is checked against its hash when read."""

    def __init__(self, book: Book, terms: LedgerTerms) -> None:
        self._book = book
        self._terms = terms
        self._accounting = terms.budget.accounting

    def begins_with(self, first: Entry) -> bool:
        row = self._book.entry(1)
        return row is not None and row[-1] == first.hash

    def last(self) -> Entry:
        return intact(self._book.last())

    def last_durable(self) -> Entry:
        return intact(self._book.last_durable())

    def at(self, seq: int) -> Entry:
        return intact(self._book.entry(seq))

    def with_key(self, analyst: str, key: str) -> Entry | None:
        row = self._book.with_key(analyst, key)
        return None if row is None else intact(row)

    def spent(self, last: Entry | None = None) -> Cost:
        return spent_after(last or self.last(), self._accounting)

    def own(self, analyst: str, last: Entry | None = None) -> Cost:
        """The sum of one analyst's charges, as in their latest entry, which is often the last of all."""
        mine = last if last is not None and last.analyst == analyst else self._latest(EntryKind.RESERVE, analyst)
        return self._terms.total.zero if mine is None else own_after(mine, self._accounting)

    def allowance(self, analyst: str) -> Cost | None:
        """The most that one analyst may spend, if a limit was set."""
        entry = self._latest(EntryKind.ALLOW, analyst)
        return None if entry is None else cost_of(self._accounting, entry.amount, entry.delta)

    def allowances(self, analyst: str, last: Entry | None = None) -> Iterator[tuple[str, Cost, Cost]]:
        """The allowances of this analyst and of their team, and what was used of each.

        `ann@cardiology` belongs to the team `@cardiology`, and is recorded as a member with the first charge.
        """
        own, team = self.allowance(analyst), team_of(analyst)
        if own is not None:
            yield analyst, own, self.own(analyst, last)
        if team is not None and (shared := self.allowance(team)) is not None:
            yield team, shared, reduce(add_costs, map(self.own, self.members(team)), self._terms.total.zero)

    def members(self, team: str) -> list[str]:
        return [str(intact(row).remark("member")) for row in self._book.entries_of(EntryKind.MEMBER, team)]

    def join(self, last: Entry, analyst: str) -> Entry:
        """The last entry, after the analyst was recorded as a member of their team, if they have one."""
        team = team_of(analyst)
        key = f"member:{analyst}"
        if team is None or self.with_key(team, key) is not None:
            return last
        return self.append(last, EntryKind.MEMBER, analyst=team, key=key, note={"member": analyst})

    def of_kind(self, kind: EntryKind, analyst: str) -> list[Entry]:
        return list(map(intact, self._book.entries_of(kind, analyst)))

    def keep(self, last: Entry, *, analyst: str, key: str, note: Mapping[str, object], content: bytes) -> Entry:
        facts = {**note, "of": last.seq + 1, "match_hash": None, "terms": ""}
        body = sha256(content).hexdigest()
        entry = self.append(last, EntryKind.KEEP, analyst=analyst, key=key, body=body, note=facts)
        self._book.add_answer(AnswerRow(entry.seq, entry.seq, None, "", content))
        return entry

    def versions(self, table: str) -> Iterator[Entry]:
        """The declarations of a table, newest first."""
        return (entry for entry in self.declarations() if entry.remark("table") == table)

    def declarations(self) -> Iterator[Entry]:
        """The declarations of all tables, newest first."""
        return map(intact, reversed(self._book.entries_of(EntryKind.VERSION, "")))

    def units(self) -> Units:
        units = Units()
        for entry in map(intact, self._book.entries_of(EntryKind.VERSION, "")):
            try:
                conflict = units.take(json.loads(entry.note))
            except (ValueError, AttributeError):
                conflict = "its note cannot be read."
            if conflict is not None:
                raise _damage_error(f"Entry {entry.seq}: {conflict}")
        return units

    def check(self, heads: Sequence[tuple[str, Head]], seen: Head | None = None) -> Entry:
        """The last entry, proved to continue what the witnesses have seen.

        `seen` is where an earlier check by the same process ended. If that entry is still there with the same hash, it
        follows from what the witnesses know by links that were checked then, since a hash stands for all entries before
        it; so only later links are checked. If it is not, as after a server lost what it had not yet synced, all are.
        """
        rows = self._rows_since(max([known.seq for _, known in heads], default=None), seen)
        first = Head(self._terms.ledger, rows[0][0], rows[0][-1]) if rows else None
        for source, known in heads:
            problem = None if known == first else head_fault(self._book, self._head(rows), source, known)
            if problem is not None:
                raise Misconfigured(f"{problem.text} Nothing is served.")
        last = intact(rows[0] if rows else None)
        for row in rows[1:]:
            equal = _KNOWN.get((row, *map(type, row)))
            entry = equal or _read(row)
            problem = link_fault(last, entry, intact=equal is not None) or sum_fault(last, entry, self._accounting)
            if problem is not None:
                raise _damage_error(str(problem))
            last = entry
        return last

    def append(
        self,
        last: Entry,
        kind: EntryKind,
        *,
        cost: Cost | None = None,
        analyst: str = "",
        key: str | None = None,
        body: str = "",
        note: Mapping[str, object] | str | None = None,
        at: str | None = None,
    ) -> Entry:
        """Writes the entry after the last one, with the sums that follow."""
        spent, own = spent_after(last, self._accounting), self.own(analyst, last)
        if kind is EntryKind.RESERVE and cost is not None:
            spent, own = add_costs(spent, cost), add_costs(own, cost)
        entry = follow(
            last, kind, spent=spent, own=own, cost=cost, analyst=analyst, key=key, body=body, note=note, at=at
        )
        self._book.append(entry)
        _remember(entry)
        return entry

    def settle(self, last: Entry, new: NewAnswer) -> Entry:
        """Stores the answer to a charge that has none, under the match and the terms that its entry records."""
        paid = new.reservation
        charge = last if last.seq == paid.seq else self.at(paid.seq)
        if charge.hash != paid.hash or charge.kind != EntryKind.RESERVE:
            raise LedgerFailed(f"Charge {paid.seq} is not in this ledger. No answer is given.")
        if self.answer(paid.seq) is not None:
            raise Misconfigured(f"Charge {paid.seq} was settled before. Each charge has one answer.")
        match = None if new.match is None else digest(new.match)
        note, body = {"of": paid.seq, "match_hash": match, "terms": new.terms}, digest(new.payload)
        entry = self.append(last, EntryKind.SETTLE, analyst=charge.analyst, body=body, note=note, at=charge.at)
        self._book.add_answer(AnswerRow(charge.seq, entry.seq, match, new.terms, new.payload))
        return entry

    def answer(self, seq: int, match_hash: str | None = None) -> bytes | None:
        """The stored answer to a charge, checked against the entry that recorded it; None if there is none, or if it
        answers another question than the one that is named."""
        row = self._book.answer(seq)
        if row is None or match_hash not in (None, row.match_hash):
            return None
        entry = self.at(row.settled)
        recorded = (entry.body, entry.remark("of"), entry.remark("match_hash"), entry.remark("terms"))
        payload = row.payload
        if not isinstance(payload, bytes) or (sha256(payload).hexdigest(), seq, row.match_hash, row.terms) != recorded:
            raise _damage_error(f"Entry {seq}: its stored answer was changed.")
        return payload

    def answers(self, match_hash: str) -> Iterator[StoredAnswer]:
        """The stored answers to equal questions, newest first."""
        for seq in self._book.matching(match_hash):
            payload = self.answer(seq)
            if payload is not None:
                yield StoredAnswer(self.at(seq), payload)

    def offers(self, match_hash: str) -> Iterator[Offer]:
        """The newest answer for each set of terms, newest first."""
        return (Offer(seq, terms) for seq, terms in self._book.offers(match_hash))

    def _head(self, rows: Sequence[Row]) -> Head:
        """The end of the chain, of which these are the last rows, if there are any."""
        end = rows[-1] if rows else self._book.last()
        return Head(self._terms.ledger, *((0, "") if end is None else (end[0], end[-1])))

    def _rows_since(self, known: int | None, seen: Head | None) -> list[Row]:
        """The rows to check: from what the witnesses know, or from what was seen, if that is far beyond; else the last
        row."""
        if known is not None and seen is not None and seen.seq > known + _FAR:
            rows = self._book.entries_from(seen.seq)
            if rows and (rows[0][0], rows[0][-1]) == (seen.seq, seen.hash):
                return rows
        if known is not None:
            return self._book.entries_from(known)
        last = self._book.last()
        return [] if last is None else [last]

    def _latest(self, kind: EntryKind, analyst: str) -> Entry | None:
        row = self._book.latest(kind, analyst)
        return None if row is None else intact(row)


def team_of(analyst: str) -> str | None:
    """The team that a name says, `@cardiology` of `ann@cardiology`; None if it says none."""
    name, at, team = analyst.rpartition("@")
    return f"@{team}" if name and at and team else None


_KNOWN: dict[Hashable, Entry] = {}
"""The last entries whose content was found to match its hash, or was hashed here, by their rows and types. Whether it
does follows from the row alone, so an equal row, of the same types, need not be checked again."""


def _remember(entry: Entry) -> None:
    """Keeps an entry in place of the oldest."""
    row = entry.row
    _KNOWN[row, *map(type, row)] = entry
    if len(_KNOWN) > _REMEMBERED:
        with suppress(StopIteration, RuntimeError, KeyError):  # another thread may make room too
            del _KNOWN[next(iter(_KNOWN))]


def intact(row: Row | None) -> Entry:
    """The entry in a row, if its content matches its hash."""
    if row is None:
        raise _damage_error("An entry is missing.")
    entry = _KNOWN.get((row, *map(type, row)))
    if entry is None:
        entry = _read(row)
        if entry.hash != entry.digest:
            raise _damage_error(f"Entry {entry.seq}: its content does not match its hash.")
        _remember(entry)
    return entry


def _read(row: Row) -> Entry:
    try:
        return Entry.read(row)
    except ValueError as error:
        raise _damage_error(f"Entry {row[0]}: {error}.") from None


def _damage_error(text: str) -> LedgerFailed:
    return LedgerFailed(f"The ledger is damaged. {text} No answer is given. Run `lapwing ledger verify`.")
