"""The rules of a budget ledger, over any store that keeps the guarantees of store.py.

    reserve   checks the budget and writes the charge, durable in the ledger and its witnesses before it returns
    settle    stores the answer that was computed in between; only then may it be sent

Theorem.  At any time, also after crashes, the charges in the ledger add up to at most the budget, and every answer
          that was ever sent has its charge there.
Proof.    A charge is written only by `reserve`, while no other writes, after its sum with all earlier charges was
          found to fit; the earlier sum is that of the last entry, whose hash is checked against its content and,
          through the entries since, against the witness. Nothing is ever deleted or changed, so the sum never falls.
          The caller reads no data before `reserve` returns with `fresh`, which exactly one call per charge does: the
          one whose transaction wrote the entry. When it returns, the entry is durable.
Lost.     A charge whose process ended before `settle` stays charged and unanswered. The ledger cannot show whether
          its process still runs, so nothing is written about it: a retry with the same key gets no answer, and never
          runs the question again for free.
Created.  The store is empty until one transaction writes the secret and the first entry; only then does a witness
          learn of it. If the process dies before, the next one starts over. An empty store beside a witness is
          refused: the witness has seen a ledger, which is missing.
Power.    The entry of an answer is not synced on its own; the next charge syncs it. If the power fails in between, the
          answer is lost and the charge is not. A witness names only entries that are synced, so it is never ahead.
Checked by: tests/ledger/test_ledger.py, tests/ledger/test_promises.py, tests/ledger/test_model.py,
          tests/ledger/test_processes.py
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import reduce
from hashlib import sha256
from pathlib import Path
from typing import Any, NoReturn, Self

from lapwing.errors import BudgetExceeded, Bug, LapwingError, LedgerFailed, Misconfigured
from lapwing.ledger.chain import Declaration, version_mark
from lapwing.ledger.entry import (
    FREE,
    UNSYNCED,
    Charge,
    Entry,
    EntryKind,
    Head,
    LedgerTerms,
    LedgerView,
    NewAnswer,
    Offer,
    Reservation,
    StoredAnswer,
    add_costs,
    check_names,
    cost_of,
    digest,
    follow,
    left_of,
    note_text,
    round_denominators,
)
from lapwing.ledger.phrases import budget_text, shortage
from lapwing.ledger.store import Book, InDoubt, Store
from lapwing.ledger.verified import CheckedBook, intact
from lapwing.ledger.verify import Report, export_lines, verify, write_export
from lapwing.ledger.witness import Witness, missing_ledger
from lapwing.noise.bits import SYSTEM
from lapwing.privacy.budget import Budget, Cost


class Ledger:
    """What was spent of one budget, permanently. Created by `open_ledger`; safe for any number of threads."""

    def __init__(self, store: Store, witnesses: Sequence[Witness], first: Entry, salt: bytes) -> None:
        self._store = store
        self.note = store.note
        """The note on a budget that ends with the process."""
        self.path = next(iter(store.files), None)
        """The file; None if it is not in one."""
        self._witnesses = tuple(witnesses)
        self._first = first
        self._terms = LedgerTerms.read(first)
        self.id = self._terms.ledger
        """The name of this ledger, a hash of its terms."""
        self.budget = self._terms.budget
        """The value that this ledger enforces."""
        self.total = self._terms.total
        """All there ever was to spend."""
        self.salt = salt
        """32 secret bytes for keyed hashes."""
        self._known: Head | None = None
        """The last charge that this process has made durable. It need not prove again what comes before."""
        self._seen: Head | None = None
        """Where the last check ended. Unlike `_known`, it may not be on disk yet, so it need not be there."""

    @classmethod
    def open(cls, store: Store, budget: Budget, witnesses: Sequence[Witness] = ()) -> Self:
        """The ledger in this store, created if neither it nor a witness of it exists. Closes the store if it fails."""
        if not isinstance(budget, Budget):
            raise Misconfigured(f"{budget!r} is not a budget. Pass Budget(epsilon=...).")
        try:
            if not store.exists():
                _refuse_missing(witnesses, store)
                store.prepare()
            with store.writing() as book:
                if book.is_empty():
                    _refuse_missing(witnesses, store)
                    _create(book, budget)
            with store.writing() as book:  # the first entry is durable before a witness may know it
                ledger = cls(store, witnesses, *_opening(book, store))
                checked = CheckedBook(book, ledger._terms)
                ledger._refuse_other_budget(budget, checked)
                ledger._check(checked, repair=True)
                durable = checked.last_durable()
            ledger._advance(durable)
        except BaseException:
            store.close()
            raise
        return ledger

    def reserve(
        self,
        cost: Cost,
        *,
        analyst: str,
        body: bytes | str,
        key: str | None = None,
        note: Mapping[str, Any] | None = None,
    ) -> Reservation:
        """Charges the cost. If the reservation is `fresh` the caller may read the data for it, once; otherwise never.

        `body` is the canonical request, and `key` names it for retries: the same key and body are charged once and
        give the stored answer back. `note` says to the reader of the ledger what was asked.
        """
        (reservation,) = self.reserve_all([Charge(cost, body, key, note)], analyst=analyst)
        return reservation

    def reserve_all(self, charges: Sequence[Charge], *, analyst: str) -> tuple[Reservation, ...]:
        """Makes all charges or, if their sum does not fit, none, in one transaction.

        With keys, either all were made before, and are given back, or none was.
        """
        requests = [(self._price(c.cost), digest(c.body), c.key, note_text(c.note)) for c in charges]
        for charge in charges:
            check_names(analyst, charge.key)
        total = reduce(add_costs, [price for price, *_ in requests])
        reservations: list[Reservation] = []
        try:
            with self._writing() as book:
                last = self._check(book, repair=True)
                earlier = [None if key is None else book.with_key(analyst, key) for _, _, key, _ in requests]
                if any(earlier):
                    return tuple(self._again(book, old, new[1]) for old, new in zip(earlier, requests, strict=True))
                refusal = self._refusal(book, total, analyst, last)
                if refusal is None:
                    last = book.join(last, analyst)
                    for price, body, key, note in requests:
                        last = book.append(
                            last, EntryKind.RESERVE, cost=price, analyst=analyst, key=key, body=body, note=note
                        )
                        reservations.append(Reservation(last.seq, last.hash, price, fresh=True, answer=None))
        except InDoubt as error:
            error.charged = total  # a charge that may have been made counts as made
            raise
        if refusal is not None:
            raise refusal
        if self._known is None or self._known.seq < last.seq:
            self._known = Head(self.id, last.seq, last.hash)
        try:
            self._advance(last)
        except LapwingError as error:
            failed = LedgerFailed(
                f"The price stays charged (entry {last.seq}), and asking again costs again; use a new key if it had "
                f"one. {error}"
            )
            failed.charged = total
            raise failed from error
        return tuple(reservations)

    def check_fits(self, cost: Cost, *, analyst: str) -> None:
        """Raises BudgetExceeded if this cost would not fit now. Charges nothing; use it before several charges."""
        with self._reading() as book:
            refusal = self._refusal(book, self._rounded(cost), analyst, book.last())
        if refusal is not None:
            raise refusal

    def settle(self, reservation: Reservation, payload: bytes, *, match: str | None = None, terms: str = "") -> None:
        """Stores the answer to a charge, once. An equal question finds it by `match`; without one, none does."""
        self.settle_all([NewAnswer(reservation, bytes(payload), match, terms)])

    def settle_all(self, answers: Sequence[NewAnswer]) -> None:
        """Stores the answers to these charges, all or none, in one transaction."""
        for answer in answers:
            if not answer.reservation.fresh:
                raise Misconfigured(
                    "This reservation repeats an earlier one. Only the one that was charged is settled."
                )
        with self._writing(durable=False) as book:
            last = self._check(book)
            for answer in answers:
                last = book.settle(last, answer)

    def allow(self, analyst: str, cost: Cost) -> None:
        """Sets the most that one analyst may ever spend. It is part of the total, never in addition to it."""
        check_names(analyst, None)
        limit = self._rounded(cost)
        with self._writing() as book:
            entry = book.append(self._check(book, repair=True), EntryKind.ALLOW, cost=limit, analyst=analyst)
        self._advance(entry)

    def accept(self) -> None:
        """Records that the steward accepts this ledger on another server."""
        with self._writing() as book:
            entry = book.append(self._check(book, repair=True), EntryKind.WITNESS, note={"accepted": "server"})
        self._advance(entry)

    def record(
        self,
        kind: EntryKind,
        key: str,
        note: Mapping[str, Any],
        *,
        analyst: str = "",
        content: bytes | None = None,
        unless: str | None = None,
    ) -> tuple[Entry, bool]:
        """Records something that costs nothing, once: the entry with this key of a name, and whether it is new.

        With `content` it is kept beside the entry, which has its hash; `kept` gives it back. Nothing is recorded if
        there is an entry with the key `unless`: then it is that one.
        """
        if kind not in FREE or (content is not None) != (kind is EntryKind.KEEP):
            raise Bug(f"an entry of the kind {kind} is not recorded so")
        text = note_text(note)
        with self._writing(durable=kind not in UNSYNCED) as book:
            last = self._check(book)
            earlier = book.with_key(analyst, key) or (None if unless is None else book.with_key(analyst, unless))
            if earlier is None and content is not None:
                return book.keep(last, analyst=analyst, key=key, note=note, content=content), True
            if earlier is None:
                return book.append(last, kind, analyst=analyst, key=key, note=text), True
        if kind not in UNSYNCED:
            self._store.sync()  # another process has just written it, perhaps
        return earlier, False

    def recorded(self, *keys: str, analyst: str = "") -> tuple[Entry | None, ...]:
        """What is recorded under each of these keys of a name, and then the last entry: all of one moment."""
        with self._reading() as book:
            return (*(book.with_key(analyst, key) for key in keys), book.last())

    def records(self, kind: EntryKind, analyst: str = "") -> list[Entry]:
        """All that is recorded of one kind under a name, in order."""
        with self._reading() as book:
            return book.of_kind(kind, analyst)

    def kept(self, entry: Entry) -> bytes:
        """The content of an entry that keeps one."""
        content = self.answer(entry.seq)
        if content is None:
            raise LedgerFailed(f"The ledger is damaged. Entry {entry.seq}: its content is missing.")
        return content

    def declare(self, tables: Sequence[Declaration], *, public: Sequence[Declaration] = ()) -> None:
        """Records the private tables that will be asked about: all of them or, if one is refused, none.

        A table keeps its unit for ever, and a version its data. What else changed, limits or bounds, is a new entry.
        Nothing is refunded or reset. Tables to be opened as `public` are refused if they hold protected data.
        """
        entries: list[Entry] = []
        with self._writing() as book:
            last = self._check(book, repair=True)
            for declaration, note in self._check_declarations(book, tables, public):
                earlier = list(book.versions(declaration.table))
                _refuse_other_data(earlier, note)
                if not earlier or json.loads(earlier[0].note) != note:
                    last = book.append(last, EntryKind.VERSION, note=note)
                    entries.append(last)
        if entries:
            self._advance(last)

    def version(self, table: str) -> str | None:
        """The version of a table that was declared last."""
        with self._reading() as book:
            return next((str(entry.remark("version")) for entry in book.versions(table)), None)

    def declared_csv(self, table: str) -> dict[str, Any] | None:
        """How the CSV file of a table was declared to be written last, if it was."""
        with self._reading() as book:
            return next(((entry.remark("limits") or {}).get("csv") for entry in book.versions(table)), None)

    def declared_facts(self, table: str | None, fact: str) -> dict[str, str]:
        """The "type" or "zone" of each column as it was declared last, of a table or of all; names in small letters."""
        facts: dict[str, str] = {}
        with self._reading() as book:
            entries = list(book.declarations())
        for entry in entries:
            if table is None or str(entry.remark("table")).lower() == table.lower():
                columns = (entry.remark("limits") or {}).get("columns", {})
                facts = {name.lower(): str(own[fact]) for name, own in columns.items() if fact in own} | facts
        return facts

    def look(
        self, *, offers: Iterable[str] = (), answers: Iterable[str] = (), tables: Iterable[str] = ()
    ) -> LedgerView:
        """What is stored for equal questions, and what was declared of tables: in one read, which ends here."""
        with self._reading() as book:
            return LedgerView(
                {match: tuple(book.offers(digest(match))) for match in offers},
                {match: tuple(book.answers(digest(match))) for match in answers},
                {table: next(book.versions(table), None) for table in tables},
            )

    def is_version(self, declared: Entry | None, table: str, version: str, fingerprint: bytes) -> bool:
        """Whether this version and these data are the ones that were declared."""
        if declared is None or declared.remark("version") != version:
            return False
        return hmac.compare_digest(str(declared.remark("mark")), version_mark(self.salt, table, fingerprint))

    def answer(self, seq: int, match: str | None = None) -> bytes | None:
        """The stored answer to a charge; with `match`, if it answers that question."""
        with self._reading() as book:
            return book.answer(seq, None if match is None else digest(match))

    def check_key(self, analyst: str, key: str, body: bytes | str) -> None:
        """Refuses a key that this analyst has used for another request."""
        check_names(analyst, key)
        with self._reading() as book:
            charge = book.with_key(analyst, key)
        if charge is not None and charge.body != digest(body):
            raise _other_request()

    def knows_key(self, analyst: str, key: str) -> bool:
        check_names(analyst, key)
        with self._reading() as book:
            return book.with_key(analyst, key) is not None

    def find_answers(self, match: str) -> tuple[StoredAnswer, ...]:
        """The stored answers to equal questions, newest first."""
        return self.look(answers=[match]).answers[match]

    def read_offer(self, match: str, offer: Offer) -> bytes:
        with self._reading() as book:
            payload = book.answer(offer.seq, digest(match))
        if payload is None:
            raise LedgerFailed(f"The ledger is damaged. Entry {offer.seq}: its stored answer is missing.")
        return payload

    def paid_with(self, match: str, analyst: str, key: str) -> tuple[int, bytes] | None:
        """The stored answer to an equal question that an analyst paid with this key, and its charge."""
        check_names(analyst, key)
        with self._reading() as book:
            charge = book.with_key(analyst, key)
            payload = None if charge is None else book.answer(charge.seq, digest(match))
            return None if charge is None or payload is None else (charge.seq, payload)

    def answer_stamp(self, match: str) -> tuple[object, ...]:
        """As long as it is the same, this is the same ledger, no other answer to equal questions was stored, and no
        table was declared anew."""
        with self._store.reading() as book:
            return self._store.opened, *book.stamp(digest(match))

    @property
    def state(self) -> Hashable:
        """As long as it is the same, nothing was written to the ledger."""
        return self._store.state

    @property
    def spent(self) -> Cost:
        """The sum of all charges."""
        with self._reading() as book:
            return book.spent()

    @property
    def remaining(self) -> Cost:
        return left_of(self.total, self.spent)

    def spent_by(self, analyst: str) -> Cost:
        """The sum of one analyst's charges, or of a team's."""
        with self._reading() as book:
            return reduce(add_costs, map(book.own, book.members(analyst)), book.own(analyst))

    def allowance(self, analyst: str) -> Cost | None:
        """The most that one analyst may spend; None if only the total limits them."""
        with self._reading() as book:
            return book.allowance(analyst)

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """All entries, from the first or from the one after a number."""
        seq = after
        while True:
            with self._store.reading() as book:
                page = [intact(row) for row in book.page(seq)]
            if not page:
                return
            yield from page
            seq = page[-1].seq

    def verify(self, *, against: Head | None = None) -> Report:
        """Checks every entry and answer, the witnesses, and a head that was exported before."""
        return verify(self._store.inspecting, self._witnesses, against=against)

    def export(self, path: Path | str) -> Head:
        """Writes all entries as JSON lines, and as the last line the head that proves them. No secret, no answer."""
        file = Path(path)
        own = (*self._store.files, *(witness.path for witness in self._witnesses))
        if file.resolve() in [part.resolve() for part in own]:
            raise Misconfigured(f"{file} is part of the ledger itself. Export to another file.")
        self._store.sync()
        return write_export(file, self.id, self.entries())

    def export_lines(self) -> Iterator[str]:
        """The lines of `export`."""
        self._store.sync()
        return (line for line, _ in export_lines(self.id, self.entries()))

    def close(self) -> None:
        """Ends the connection. Charges are durable with or without it."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise Misconfigured("A ledger cannot be copied or pickled. Open it where it is needed.")

    @contextmanager
    def _writing(self, *, durable: bool = True) -> Iterator[CheckedBook]:
        with self._store.writing(durable=durable) as book:
            yield CheckedBook(book, self._terms)

    @contextmanager
    def _reading(self) -> Iterator[CheckedBook]:
        with self._store.reading() as book:
            yield CheckedBook(book, self._terms)

    def _check(self, book: CheckedBook, *, repair: bool = False) -> Entry:
        """The last entry, if this is still the same ledger and the witnesses agree. May replace a missing witness."""
        if not book.begins_with(self._first):
            raise LedgerFailed(
                f"The ledger {self._store.name} was replaced while in use. No answer is given. Open it again."
            )
        heads: list[tuple[str, Head]] = []
        missing: list[Witness] = []
        for witness in self._witnesses:
            head = witness.read()
            if head is None:
                missing.append(witness)
            else:
                heads.append((witness.name, head))
        if self._known is not None:
            heads.append(("this process", self._known))
        last = book.check(heads, self._seen)
        self._seen = Head(self.id, last.seq, last.hash)
        if not (missing and repair):
            return last
        durable = book.last_durable()
        for witness in missing:
            witness.advance(Head(self.id, durable.seq, durable.hash))
        return last if last.seq == 1 else book.append(last, EntryKind.WITNESS, note={"witnesses": len(missing)})

    def _advance(self, entry: Entry) -> None:
        """Tells the witnesses of an entry that is durable, or of a later one that is. Only one that is missing, and
        must be made, takes the lock of the ledger."""
        latest = self._known
        head = Head(self.id, entry.seq, entry.hash) if latest is None or latest.seq < entry.seq else latest
        exist = all(witness.exists() for witness in self._witnesses)
        with nullcontext() if exist else self._store.writing():
            for witness in self._witnesses:
                witness.advance(head)

    def _again(self, book: CheckedBook, earlier: Entry | None, request: str) -> Reservation:
        if earlier is None or earlier.body != request:
            raise _other_request()
        cost = cost_of(self.budget.accounting, earlier.amount, earlier.delta)
        return Reservation(earlier.seq, earlier.hash, cost, fresh=False, answer=book.answer(earlier.seq))

    def _refusal(self, book: CheckedBook, price: Cost, analyst: str, last: Entry) -> BudgetExceeded | None:
        """Why this price does not fit after the last entry; None if it does. Nothing else decides what fits."""
        limits: list[tuple[str | None, Cost, Cost]] = [(None, self.total, book.spent(last))]
        for whose, limit, used in (*limits, *book.allowances(analyst, last)):
            if not add_costs(used, price).fits(limit):
                room = left_of(limit, used)
                words = shortage(self.budget, price, room, whose)
                return BudgetExceeded(*words, asked=price, remaining=room, owner=whose)
        return None

    def _price(self, cost: Cost) -> Cost:
        price = self._rounded(cost)
        if not price:
            raise Misconfigured("The cost is 0; a charge must be above 0. Post-processing needs no charge.")
        return price

    def _rounded(self, cost: Cost) -> Cost:
        """The cost with short denominators, if it is of this kind of budget."""
        if not isinstance(cost, Cost):
            raise Misconfigured(f"{cost!r} is not a cost. Pass budget.cost(loss).")
        cost.fits(self.total)  # refuses costs of another kind of budget
        return round_denominators(cost)

    def _check_declarations(
        self, book: CheckedBook, tables: Sequence[Declaration], public: Sequence[Declaration]
    ) -> list[tuple[Declaration, dict[str, Any]]]:
        """The declarations and their notes, if none contradicts an earlier one or another of them."""
        notes = [(table, table.note(self.salt)) for table in tables]
        units = book.units()
        for conflict in filter(None, (units.take(note) for _, note in notes)):
            raise Misconfigured(f"{conflict} {self._other_unit(book)}")
        for table in public:
            if units.holds(table.note(self.salt)):
                raise Misconfigured(
                    f"The data of the public table `{table.table}` are private: this ledger protects their units. "
                    "Remove it from the public tables, or pass a file that holds only what is public."
                )
        return notes

    def _other_unit(self, book: CheckedBook) -> str:
        """What to do about another unit."""
        first = "A ledger protects one kind of unit, the first that was declared."
        if self.path is None:
            return f"{first} Use a ledger for each; for frames, another `name`. The budgets of two ledgers add up."
        beside = ", ".join(str(witness.path) for witness in self._witnesses)
        moved = f" and move the witness {beside} away" if beside else ""
        unused = "" if book.spent() else f" As nothing was charged yet, you can also delete {self._files()}."
        return (
            f"{first} Declare that unit, or start a new ledger in another file{moved}. "
            f"The budgets of two ledgers add up.{unused}"
        )

    def _files(self) -> str:
        own = f"the ledger {self._store.name}" if self.path is None else f"{self.path}*"
        return ", ".join([own, *(str(witness.path) for witness in self._witnesses)])

    def _refuse_other_budget(self, budget: Budget, book: CheckedBook) -> None:
        if budget == self.budget:
            return
        self._check(book)  # an older copy, on which nothing was charged yet, must not be taken for a new ledger
        advice = "A ledger keeps the budget it was created with. Open it with that one."
        if self.note:
            advice = "Open it with that one, or pass ledger=':memory:' for an experiment with a budget of its own."
        elif not book.spent():
            advice = f"Open it with that one; or, as nothing was charged yet, delete {self._files()} and start over."
        raise Misconfigured(
            f"The ledger {self._store.name} was created with {budget_text(self.budget)}, and is now opened with "
            f"{budget_text(budget)}. {advice}"
        )


def _create(book: Book, budget: Budget) -> None:
    salt = SYSTEM.integer(256).to_bytes(32, "big")
    terms = LedgerTerms(budget, budget.capacity, sha256(salt).hexdigest())
    zero = terms.total.zero
    book.create(salt)
    book.append(follow(None, EntryKind.OPEN, spent=zero, own=zero, cost=terms.total, note=terms.note()))


def _opening(book: Book, store: Store) -> tuple[Entry, bytes]:
    """The first entry and the salt, if they fit together."""
    entry, salt = intact(book.entry(1)), book.salt()
    try:
        terms = LedgerTerms.read(entry)
    except ValueError as error:
        raise LedgerFailed(f"The ledger {store.name} is damaged: {error}. Put back its newest copy.") from None
    if not isinstance(salt, bytes) or sha256(salt).hexdigest() != terms.salt_hash:
        raise LedgerFailed(
            f"The ledger {store.name} is damaged: its secret salt was changed. Put back its newest copy."
        )
    return entry, salt


def _refuse_missing(witnesses: Sequence[Witness], store: Store) -> None:
    for witness in witnesses:
        head = witness.read()
        if head is not None:
            raise Misconfigured(missing_ledger(witness.name, head, store.name))


def _refuse_other_data(earlier: Sequence[Entry], note: Mapping[str, Any]) -> None:
    for entry in earlier:
        if entry.remark("version") == note["version"] and entry.remark("mark") != note["mark"]:
            raise Misconfigured(
                f"Version {note['version']!r} of {note['table']} was declared for other data. "
                "The data changed, so declare a new `version` for the table."
            )


def _other_request() -> Misconfigured:
    return Misconfigured("This key was used for another question. Use a new key.")
