"""What a ledger needs of the place that keeps it. A store has no rules: it keeps rows in order and gives them back.

The rules of ledger.py rest on these guarantees, and tests/ledger/ checks them for every store:

One writer:  from the start of `writing` to its end no other thread, process or server writes to the same ledger, and
             what is read inside is the newest commit. A store on a server takes a lock that all servers share.
Whole:       a transaction is kept when `writing` ends without an error; otherwise nothing of it is.
Durable:     after `writing(durable=True)` it survives a loss of power, and so does every commit before it. After
             `writing(durable=False)` it survives the end of the process.
Append-only: there is no way to change or delete a row, and an entry is refused unless it is the next one.
Unchecked:   rows come back exactly as they are stored; whoever reads them checks types and hashes.
Alone:       whoever interrupts a transaction of the same thread, as a signal handler does, is refused and does not
             wait. The child of a fork never goes on with what its parent had open.
Failure:     every failure is a LedgerFailed that names the next step. After InDoubt nobody knows whether the
             transaction is kept; after any other, it is not.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from lapwing.errors import LedgerFailed
from lapwing.ledger.entry import Entry

Row = tuple[Any, ...]
"""An entry as it is stored: its values in the order of `entry.COLUMNS`, not checked."""

PAGE = 500
"""How many entries are read at a time."""


class InDoubt(LedgerFailed):
    """The store was lost in the middle of a commit. The transaction may be kept or not."""


class AnswerRow(NamedTuple):
    """A stored answer, not checked."""

    seq: Any
    """Of its charge."""
    settled: Any
    """The number of the entry that records it."""
    match_hash: Any
    terms: Any
    payload: Any


class Book(Protocol):
    """The rows of one ledger inside one transaction."""

    def is_empty(self) -> bool:
        """Whether no ledger was created here yet."""

    def create(self, salt: bytes) -> None:
        """Makes a ledger without entries that keeps this secret."""

    def salt(self) -> object:
        """The secret; None if it is missing."""

    def entry(self, seq: int) -> Row | None:
        """The entry with this number."""

    def last(self) -> Row | None:
        """The last entry."""

    def last_durable(self) -> Row | None:
        """The last entry whose kind is not in `entry.UNSYNCED`: those are committed durably, and answers are not."""

    def entries_from(self, seq: int) -> list[Row]:
        """The entries from this number on, in order."""

    def page(self, after: int | None, end: int | None = None) -> list[Row]:
        """The next `PAGE` entries in order, from the first if `after` is None, up to an end if there is one."""

    def entries_of(self, kind: str, analyst: str) -> list[Row]:
        """The entries of one kind and one analyst, in order."""

    def latest(self, kind: str, analyst: str) -> Row | None:
        """The last of them."""

    def with_key(self, analyst: str, key: str) -> Row | None:
        """The entry that has this key of an analyst."""

    def append(self, entry: Entry) -> None:
        """Adds the next entry."""

    def answer(self, seq: int) -> AnswerRow | None:
        """The stored answer to the charge with this number."""

    def matching(self, match_hash: str) -> list[int]:
        """The charges of all answers with this match, the newest first."""

    def offers(self, match_hash: str) -> list[tuple[int, str]]:
        """For each of the terms, the newest charge of an answer with this match, and the terms; the newest first."""

    def stamp(self, match_hash: str) -> tuple[object, ...]:
        """The hash of the first entry, the number of the last one that records an answer with this match, and that of
        the last declaration."""

    def add_answer(self, answer: AnswerRow) -> None:
        """Stores the answer to a charge that has none."""

    def answered(self) -> list[tuple[Any, Any]]:
        """The charge of every stored answer, in order, and the entry that records it."""

    def find_damage(self) -> str | None:
        """What is wrong with the place itself, such as a damaged page or a changed table; None if nothing is."""


class Store(Protocol):
    """The place of one ledger."""

    @property
    def name(self) -> str:
        """The store's name in messages."""

    @property
    def note(self) -> str:
        """What is said of a budget that does not outlive the process."""

    @property
    def files(self) -> Sequence[Path]:
        """The files it consists of, the main one first; none if it is elsewhere."""

    @property
    def state(self) -> Hashable:
        """Another value after every commit, whoever made it."""

    @property
    def opened(self) -> int:
        """How often it was connected; in between, another ledger may have been put in its place."""

    def exists(self) -> bool:
        """Whether the place is there. Creates nothing."""

    def prepare(self) -> None:
        """Makes an empty place, unless there is one."""

    def writing(self, *, durable: bool = True) -> AbstractContextManager[Book]:
        """A transaction that nobody else writes beside."""

    def reading(self) -> AbstractContextManager[Book]:
        """A short read of the newest commit."""

    def inspecting(self) -> AbstractContextManager[Book]:
        """A long read that no writer waits for, also of a damaged ledger."""

    def sync(self) -> None:
        """Makes every commit so far durable."""

    def close(self) -> None:
        """Ends the connection for good. May be called again."""
