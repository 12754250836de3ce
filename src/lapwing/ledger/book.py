"""The entries of one ledger inside one transaction: what was written, and what comes next."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any

from lapwing.errors import LedgerFailed, Misconfigured
from lapwing.ledger.chain import broken_link, own_after, spent_after, wrong_sum
from lapwing.ledger.declaration import Units
from lapwing.ledger.entry import COLUMNS, Entry, Head, Kind, Terms, added, cost_of, follow
from lapwing.ledger.reservation import Answer, Offer
from lapwing.ledger.verify import mismatch
from lapwing.privacy.budget import Cost

_COLUMNS = ", ".join(COLUMNS)
_INSERT = f"INSERT INTO entry ({_COLUMNS}) VALUES ({', '.join('?' * len(COLUMNS))})"

_ANSWER = "seq, settled, match_hash, terms, payload"
_OFFERS = """WITH RECURSIVE known (terms) AS (
  SELECT min(terms) FROM answer WHERE match_hash = :match
  UNION ALL
  SELECT (SELECT min(terms) FROM answer WHERE match_hash = :match AND terms > known.terms) FROM known
  WHERE known.terms IS NOT NULL
)
SELECT (SELECT max(seq) FROM answer WHERE match_hash = :match AND terms = known.terms), terms
FROM known WHERE terms IS NOT NULL"""

_SETTLED = """SELECT (SELECT hash FROM entry WHERE seq = 1),
  (SELECT max(settled) FROM answer WHERE match_hash = :match),
  (SELECT max(seq) FROM entry WHERE kind = 'version' AND analyst = '')"""


class Book:
    """Reads and appends entries. Every entry that decides something is checked against its hash when it is read."""

    def __init__(self, connection: sqlite3.Connection, terms: Terms) -> None:
        self._connection = connection
        self._terms = terms
        self._accounting = terms.budget.accounting

    def begins_with(self, first: Entry) -> bool:
        """Whether this is the ledger that began with this entry."""
        return bool(self._connection.execute("SELECT hash FROM entry WHERE seq = 1").fetchone() == (first.hash,))

    def last_synced(self) -> Entry:
        """The last entry that was certainly durable when it was committed."""
        return self._one("kind <> 'settle' ORDER BY seq DESC LIMIT 1")

    def at(self, seq: int) -> Entry:
        """The entry with this number."""
        return self._one("seq = ?", seq)

    def with_key(self, analyst: str, key: str) -> Entry | None:
        """The charge that an analyst made under this key."""
        return self._find("analyst = ? AND key = ?", analyst, key)

    def spent(self, last: Entry | None = None) -> Cost:
        """The sum of all charges, as the last entry has it."""
        return spent_after(self._one("seq = (SELECT max(seq) FROM entry)") if last is None else last, self._accounting)

    def own(self, analyst: str, last: Entry | None = None) -> Cost:
        """The sum of one analyst's charges, as their latest entry has it; often that is the last of all."""
        mine = last if last is not None and last.analyst == analyst else self._latest(Kind.RESERVE, analyst)
        return self._terms.total - self._terms.total if mine is None else own_after(mine, self._accounting)

    def allowance(self, analyst: str) -> Cost | None:
        """The most that one analyst may spend, if a limit was set."""
        entry = self._latest(Kind.ALLOW, analyst)
        return None if entry is None else cost_of(self._accounting, entry.amount, entry.delta)

    def versions(self, table: str) -> Iterator[Entry]:
        """The declarations of a table, the newest first."""
        return (entry for entry in self._declarations("DESC") if entry.remark("table") == table)

    def units(self) -> Units:
        """The units that were declared so far."""
        units = Units()
        for entry in self._declarations("ASC"):
            try:
                conflict = units.take(json.loads(entry.note))
            except (ValueError, AttributeError):
                conflict = "its note cannot be read."
            if conflict is not None:
                raise _damaged(f"Entry {entry.seq}: {conflict}")
        return units

    def check(self, heads: Sequence[tuple[str, Head]]) -> Entry:
        """The last entry, proved to continue what the witnesses have seen."""
        rows = self._rows_from(max((known.seq for _, known in heads), default=None))
        first = Head(self._terms.ledger, rows[0][0], rows[0][-1]) if rows else None
        for source, known in heads:
            problem = None if known == first else mismatch(self._connection, self._head(), source, known)
            if problem is not None:
                raise Misconfigured(f"{problem.text} Nothing is served.")
        last, *later = [intact(rows[0] if rows else None), *map(_read, rows[1:])]
        for entry in later:
            problem = broken_link(last, entry) or wrong_sum(last, entry, self._accounting)
            if problem is not None:
                raise _damaged(str(problem))
            last = entry
        return last

    def append(
        self,
        last: Entry,
        kind: Kind,
        *,
        cost: Cost | None = None,
        analyst: str = "",
        key: str | None = None,
        body: str = "",
        note: object = None,
        at: str | None = None,
    ) -> Entry:
        """Writes the entry after the last one, with the sums that follow."""
        spent, own = spent_after(last, self._accounting), self.own(analyst, last)
        if kind is Kind.RESERVE and cost is not None:
            spent, own = added(spent, cost), added(own, cost)
        entry = follow(
            last, kind, spent=spent, own=own, cost=cost, analyst=analyst, key=key, body=body, note=note, at=at
        )
        return insert(self._connection, entry)

    def store(self, charge: Entry, settle: Entry, payload: bytes) -> None:
        """Stores the answer to a charge, under the match and the terms that the entry records."""
        row = (charge.seq, settle.seq, settle.remark("match_hash"), settle.remark("terms"), payload)
        self._connection.execute(f"INSERT INTO answer ({_ANSWER}) VALUES (?, ?, ?, ?, ?)", row)

    def answer(self, seq: int, match_hash: str | None = None) -> bytes | None:
        """The stored answer to a charge, checked against the entry that recorded it; None if there is none, or if it
        answers another question than the one that is named."""
        row = self._connection.execute(f"SELECT {_ANSWER} FROM answer WHERE seq = ?", (seq,)).fetchone()
        if row is None or match_hash not in (None, row[2]):
            return None
        _, settled, match, terms, payload = row
        entry = self.at(settled)
        recorded = (entry.body, entry.remark("of"), entry.remark("match_hash"), entry.remark("terms"))
        if not isinstance(payload, bytes) or (sha256(payload).hexdigest(), seq, match, terms) != recorded:
            raise _damaged(f"Entry {seq}: its stored answer was changed.")
        return payload

    def answers(self, match_hash: str) -> Iterator[Answer]:
        """The stored answers to equal questions, the newest first."""
        wanted = "SELECT seq FROM answer WHERE match_hash = ? ORDER BY seq DESC"
        for (seq,) in self._connection.execute(wanted, (match_hash,)).fetchall():
            payload = self.answer(seq)
            if payload is not None:
                yield Answer(self.at(seq), payload)

    def settled(self, match_hash: str) -> tuple[object, ...]:
        """The hash of the first entry, the last answer to equal questions and the last declaration."""
        found: tuple[object, ...] = self._connection.execute(_SETTLED, {"match": match_hash}).fetchone()
        return found

    def offers(self, match_hash: str) -> list[Offer]:
        """The newest answer on each of the terms, the newest first; one look at the index for each."""
        rows = self._connection.execute(_OFFERS, {"match": match_hash}).fetchall()
        return [Offer(seq, terms) for seq, terms in sorted(rows, reverse=True)]

    def _declarations(self, order: str) -> Iterator[Entry]:
        rows = self._connection.execute(
            f"SELECT {_COLUMNS} FROM entry WHERE kind = ? AND analyst = '' ORDER BY seq {order}", (Kind.VERSION,)
        ).fetchall()
        return map(intact, rows)

    def _head(self) -> Head:
        end = self._connection.execute("SELECT seq, hash FROM entry ORDER BY seq DESC LIMIT 1").fetchone() or (0, "")
        return Head(self._terms.ledger, *end)

    def _rows_from(self, seq: int | None) -> list[tuple[Any, ...]]:
        """The rows from this number on; if there is none, the last row."""
        where, values = ("seq >= ?", (seq,)) if seq is not None else ("seq = (SELECT max(seq) FROM entry)", ())
        return self._connection.execute(f"SELECT {_COLUMNS} FROM entry WHERE {where} ORDER BY seq", values).fetchall()

    def _latest(self, kind: Kind, analyst: str) -> Entry | None:
        return self._find("kind = ? AND analyst = ? ORDER BY seq DESC LIMIT 1", kind, analyst)

    def _one(self, where: str, *values: object) -> Entry:
        return intact(self._row(where, *values))

    def _find(self, where: str, *values: object) -> Entry | None:
        row = self._row(where, *values)
        return None if row is None else intact(row)

    def _row(self, where: str, *values: object) -> tuple[object, ...] | None:
        found: tuple[object, ...] | None = self._connection.execute(
            f"SELECT {_COLUMNS} FROM entry WHERE {where}", values
        ).fetchone()
        return found


def insert(connection: sqlite3.Connection, entry: Entry) -> Entry:
    """Writes an entry and returns it."""
    connection.execute(_INSERT, tuple(getattr(entry, name) for name in COLUMNS))
    return entry


def intact(row: tuple[Any, ...] | None) -> Entry:
    """The entry in a row, if its content matches its hash."""
    if row is None:
        raise _damaged("An entry is missing.")
    entry = _read(row)
    if entry.hash != entry.digest:
        raise _damaged(f"Entry {entry.seq}: its content does not match its hash.")
    return entry


def _read(row: tuple[Any, ...]) -> Entry:
    try:
        return Entry.read(row)
    except ValueError as error:
        raise _damaged(f"Entry {row[0]}: {error}.") from None


def _damaged(text: str) -> LedgerFailed:
    return LedgerFailed(f"The ledger is damaged. {text} No answer is given. Run `lapwing ledger verify`.")
