"""The entries of a ledger, the chain of their hashes, and what a caller passes and gets for a charge.

    hash_i = SHA-256(hash_(i-1) followed by the canonical JSON of entry i)

To change, drop or insert an entry changes every later hash, and so the head, which is also kept elsewhere.
Numbers are exact: an amount is the text "n/d". Time never goes back from one entry to the next, whatever the clock
says, and decides nothing about the budget.
An entry holds nothing that depends on the data: a charge is written before any row is read, and the entry that records
its answer has the hash of what was released anyway and the time of the charge, or of the entry before it if that is
later; its own time would reveal how long the question ran.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from fractions import Fraction
from functools import cached_property, lru_cache
from hashlib import sha256
from operator import attrgetter
from typing import Any, Self

from lapwing.errors import Bug, Misconfigured
from lapwing.numbers import round_up
from lapwing.privacy.budget import Accounting, Budget, Cost

FORMAT = 2
START = "0" * 64
"""What the first entry continues."""
_FINEST = 100
_RATIO = re.compile(r"(0|[1-9][0-9]{0,999})/([1-9][0-9]{0,999})")


class EntryKind(StrEnum):
    OPEN = "open"  # the first: which ledger, which budget; its amount is all there is to spend
    RESERVE = "reserve"  # a charge
    SETTLE = "settle"  # the answer to an earlier charge was stored
    ALLOW = "allow"  # an analyst's allowance was set; its amount is the allowance
    VERSION = "version"  # the steward declared a table: its data, its unit, its limits
    WITNESS = "witness"  # a witness was missing and was recreated
    MEMBER = "member"  # an analyst belongs to a team: `ann@cardiology` to `@cardiology`
    TOKEN = "token"  # someone may ask a server (server/tokens.py)
    REVOKE = "revoke"  # a token is no longer valid, for ever
    CLAIM = "claim"  # a request with a key is being answered (server/retries.py)
    SESSION = "session"  # somebody signed in to the console (server/console/sessions.py)
    LOOK = "look"  # the steward looked at exact facts (curator/fit.py): who and when, never what
    KEEP = "keep"  # something that was sent is kept, with its content as the answer of this very entry


UNSYNCED = (EntryKind.SETTLE, EntryKind.CLAIM, EntryKind.KEEP)
"""What is committed without a sync of its own. No charge is among it."""
FREE = (
    EntryKind.MEMBER,
    EntryKind.TOKEN,
    EntryKind.REVOKE,
    EntryKind.CLAIM,
    EntryKind.SESSION,
    EntryKind.LOOK,
    EntryKind.KEEP,
)
"""What is recorded under a name and a key, and costs nothing."""


@dataclass(frozen=True, slots=True)
class Head:
    """A place in a chain: enough to prove later that nothing before it was changed or dropped."""

    ledger: str
    seq: int
    hash: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry, exactly as stored."""

    seq: int
    kind: str
    analyst: str
    key: str | None
    body: str
    amount: str
    delta: str
    spent_amount: str
    spent_delta: str
    own_amount: str
    own_delta: str
    note: str
    at: str
    previous: str
    hash: str

    @classmethod
    def read(cls, row: tuple[Any, ...]) -> Self:
        """The entry in a row; ValueError if a column has the wrong type or an amount is not a number."""
        wrong = [name for name, value in zip(COLUMNS, row, strict=True) if type(value) not in _TYPES.get(name, (str,))]
        if wrong:
            raise ValueError(f"`{wrong[0]}` has the wrong type")
        entry = cls(*row)
        for name in _AMOUNTS:
            read_ratio(getattr(entry, name))
        return entry

    @property
    def content(self) -> str:
        """The canonical JSON of everything but the two hashes."""
        return canonical({name: getattr(self, name) for name in _CONTENT})

    @property
    def digest(self) -> str:
        """What `hash` must be."""
        return sha256((self.previous + self.content).encode()).hexdigest()

    def seal(self) -> Entry:
        return replace(self, hash=self.digest)

    @property
    def row(self) -> tuple[Any, ...]:
        return _ROW(self)

    def remark(self, name: str) -> Any:
        """One value of the note; None if the note has no such name."""
        note = _read_note(self.note)
        return note.get(name) if isinstance(note, dict) else None


COLUMNS = tuple(field.name for field in fields(Entry))
_CONTENT = tuple(name for name in COLUMNS if name not in ("previous", "hash"))
_TYPES = {"seq": (int,), "key": (str, type(None))}
_ROW = attrgetter(*COLUMNS)
_AMOUNTS = tuple(name for name in COLUMNS if name.endswith(("amount", "delta")))


@dataclass(frozen=True)
class LedgerTerms:
    """What the first entry fixes permanently.

    The name of the ledger is a hash of the rest, and every head contains it: rewriting the first entry, with a
    larger budget, makes another ledger, which no witness or export has seen.
    """

    budget: Budget
    total: Cost
    salt_hash: str

    @cached_property
    def ledger(self) -> str:
        """Its name: 128 bits that commit to the budget and to the secret salt."""
        return sha256(canonical(self._fixed()).encode()).hexdigest()[:32]

    @classmethod
    def read(cls, entry: Entry) -> Self:
        """The terms in a first entry; ValueError if it is not one."""
        if entry.kind != EntryKind.OPEN or entry.remark("format") != FORMAT:
            raise ValueError(f"the first entry does not open a ledger of format {FORMAT}")
        texts = [entry.remark(name) for name in ("epsilon", "delta", "accounting", "salt_hash")]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("the first entry lacks a term")
        epsilon, delta, accounting, salt_hash = texts
        try:
            budget = Budget.from_record(read_ratio(epsilon), read_ratio(delta), accounting)
        except Misconfigured as error:
            raise ValueError(f"the first entry names no budget: {error}") from None
        recorded, proven = cost_of(budget.accounting, entry.amount, entry.delta), budget.capacity
        total = Cost(budget.accounting, min(recorded.amount, proven.amount), min(recorded.delta, proven.delta))
        terms = cls(budget, total, salt_hash)
        if entry.remark("ledger") != terms.ledger:
            raise ValueError("the first entry does not have the terms that its name was made of")
        return terms

    def note(self) -> dict[str, Any]:
        return {"ledger": self.ledger, **self._fixed()}

    def _fixed(self) -> dict[str, Any]:
        budget = self.budget
        numbers = {"epsilon": ratio(budget.epsilon), "delta": ratio(budget.delta)}
        return {"format": FORMAT, "salt_hash": self.salt_hash, **numbers, "accounting": budget.accounting.value}


canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode
"""The one JSON text of a value: sorted names, no blanks, ASCII only, no NaN."""


def ratio(value: Fraction) -> str:
    return f"{value.numerator}/{value.denominator}"


def _ratios(cost: Cost) -> tuple[str, str]:
    (a, b), (c, d) = cost.amount.as_integer_ratio(), cost.delta.as_integer_ratio()
    return f"{a}/{b}", f"{c}/{d}"


@lru_cache(maxsize=64)
def _read_note(text: str) -> Any:
    """What a note says, as one object for all readers, which do not change it."""
    return json.loads(text)


@lru_cache(maxsize=1024)
def read_ratio(text: str) -> Fraction:
    """The number in a text; ValueError if it is not a number in lowest terms."""
    match = _RATIO.fullmatch(text)
    if match is None or ratio(number := Fraction(int(match[1]), int(match[2]))) != text:
        raise ValueError("an amount is not an exact number")
    return number


@lru_cache(maxsize=1024)
def cost_of(accounting: Accounting, amount: str, delta: str) -> Cost:
    """A cost from its two texts; ValueError if one is not a number."""
    return Cost(accounting, read_ratio(amount), read_ratio(delta))


def add_costs(one: Cost, other: Cost) -> Cost:
    """The sum, exact while its denominators have at most 100 digits, otherwise rounded up to 10^-100.

    So a running sum is never below the true one, and many odd prices cannot make it grow without end.
    """
    return round_denominators(one + other)


def round_denominators(cost: Cost) -> Cost:
    """The cost with short denominators, never less than it was."""
    if max(cost.amount.denominator, cost.delta.denominator) <= 10**_FINEST:
        return cost
    amount, delta = (
        part if part.denominator <= 10**_FINEST else round_up(part, digits=_FINEST)
        for part in (cost.amount, cost.delta)
    )
    return Cost(cost.accounting, amount, delta)


def left_of(total: Cost, used: Cost) -> Cost:
    """What is left; nothing if more was used."""
    amount, delta = max(total.amount, used.amount) - used.amount, max(total.delta, used.delta) - used.delta
    return Cost(total.accounting, amount, delta)


def now() -> str:
    """The time for the reader, in UTC and whole seconds."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def follow(
    before: Entry | None,
    kind: EntryKind,
    *,
    spent: Cost,
    own: Cost,
    cost: Cost | None = None,
    analyst: str = "",
    key: str | None = None,
    body: str = "",
    note: Mapping[str, Any] | str | None = None,
    at: str | None = None,
) -> Entry:
    """The entry that comes after another one, with its hash. A note that is text is canonical JSON already."""
    if before is None and kind is not EntryKind.OPEN:
        raise Bug("A chain must begin with an entry that opens it.")
    seq, previous = (1, START) if before is None else (before.seq + 1, before.hash)
    amounts = (*(("0/1", "0/1") if cost is None else _ratios(cost)), *_ratios(spent), *_ratios(own))
    text = note if isinstance(note, str) else canonical(note or {})
    time = max(now() if at is None else at, "" if before is None else before.at)
    values = (seq, kind.value, analyst, key, body, *amounts, text, time)
    content = canonical(dict(zip(_CONTENT, values, strict=True)))
    return Entry(*values, previous, sha256((previous + content).encode()).hexdigest())


_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class LedgerView:
    """What a ledger has for one request, all of one moment. A charge checks again what may have changed since."""

    offers: Mapping[str, tuple[Offer, ...]]
    """By match the newest stored answer to equal questions on each of the terms that were paid, the newest first."""
    answers: Mapping[str, tuple[StoredAnswer, ...]]
    """By match all stored answers, the newest first."""
    versions: Mapping[str, Entry | None]
    """By table what was declared last."""


@dataclass(frozen=True, slots=True)
class Charge:
    """What one question costs, and which one it is."""

    cost: Cost
    body: bytes | str
    """The canonical request."""
    key: str | None = None
    """Names the request for retries: the same key and body are charged once and give the stored answer back."""
    note: Mapping[str, Any] | None = None
    """Says to the reader of the ledger what was asked."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """A charge that is durable. Exactly one reservation of each charge is fresh, and only that one buys an answer."""

    seq: int
    hash: str
    cost: Cost
    fresh: bool
    """Whether this call made the charge. If not, the question was asked before with this key and must not run again."""
    answer: bytes | None
    """The stored answer, if the question was asked before and was answered."""

    @property
    def unanswered(self) -> bool:
        """Asked before, and no answer is stored: it is still being computed, or was lost. It stays charged."""
        return not self.fresh and self.answer is None


@dataclass(frozen=True, slots=True)
class NewAnswer:
    """The answer to a charge, and what it will be found by."""

    reservation: Reservation
    payload: bytes
    match: str | None = None
    """An equal question finds it by this; without it, none does."""
    terms: str = ""
    """How good it is: of several answers on the same terms only the newest is offered."""


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """A stored answer, and the charge that paid for it."""

    charge: Entry
    payload: bytes


@dataclass(frozen=True, slots=True)
class Offer:
    """The newest of the stored answers to equal questions on the same terms."""

    seq: int
    """Of its charge."""
    terms: str


def digest(value: bytes | str) -> str:
    return sha256(value.encode() if isinstance(value, str) else bytes(value)).hexdigest()


def check_names(analyst: object, key: object) -> None:
    for name, value in (("analyst", analyst), ("key", "none" if key is None else key)):
        if not (isinstance(value, str) and value.isprintable() and 0 < len(value) <= _LONGEST_NAME):
            raise Misconfigured(f"`{name}` must be a text of 1 to {_LONGEST_NAME} printable characters. Pass a name.")


def note_text(note: Mapping[str, Any] | None) -> str:
    try:
        return canonical(dict(note or {}))
    except (TypeError, ValueError, RecursionError):
        raise Misconfigured("`note` must be texts, whole numbers and lists of them under names. Pass those.") from None
