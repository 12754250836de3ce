"""What a ledger needs of the database that keeps it. A store has no rules: it keeps rows in order and returns them.

The rules of ledger.py rest on these guarantees, and tests/ledger/ checks them for every store:

One writer:  from the start of `writing` to its end no other thread, process or server writes to the same ledger, and
             what is read inside is the newest commit. A store on a server takes a lock that all servers share.
Whole:       a transaction is kept when `writing` ends without an error; otherwise nothing of it is.
Durable:     after `writing(durable=True)` it survives a loss of power, and so does every commit before it. After
             `writing(durable=False)` it survives the end of the process.
Append-only: there is no way to change or delete a row, and an entry is refused unless it is the next one.
Unchecked:   rows are returned exactly as they are stored; the reader checks types and hashes.
Alone:       an interrupt of a transaction in the same thread, such as a signal handler, is refused and does not wait.
             The child of a fork never continues what its parent had open.
Failure:     every failure is a LedgerFailed that names the next step. After InDoubt it is unknown whether the
             transaction is kept; after any other, it is not.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol
from weakref import WeakSet

from lapwing.errors import LedgerFailed
from lapwing.ledger.entry import COLUMNS, UNSYNCED, Entry

Row = tuple[Any, ...]
"""An entry as it is stored: its values in the order of `entry.COLUMNS`, not checked."""

PAGE = 500
"""How many entries are read at a time."""
CHANGED = "The tables, or the triggers that make them append-only, were changed."
LOCKED = "another process kept it locked for too long. Ask again, or look for a process that hangs."
CLOSED = "This ledger is closed. Open it again."
INDEXES = {
    "entry_key": "CREATE UNIQUE INDEX entry_key ON {schema}entry (analyst, key) WHERE key IS NOT NULL",
    "entry_kind": "CREATE INDEX entry_kind ON {schema}entry (kind, analyst, seq)",
    "answer_match": "CREATE INDEX answer_match ON {schema}answer (match_hash, terms, seq) WHERE match_hash IS NOT NULL",
    "answer_settled": "CREATE INDEX answer_settled ON {schema}answer (match_hash, settled) "
    "WHERE match_hash IS NOT NULL",
}


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


class RowCursor(Protocol):
    def fetchone(self) -> Row | None: ...

    def fetchall(self) -> list[Row]: ...


_COLUMNS, _ANSWER = ", ".join(COLUMNS), ", ".join(AnswerRow._fields)
_OFFERS = """WITH RECURSIVE known (terms) AS (
  SELECT min(terms) FROM {answer} WHERE match_hash = ?
  UNION ALL
  SELECT (SELECT min(terms) FROM {answer} WHERE match_hash = ? AND terms > known.terms) FROM known
  WHERE known.terms IS NOT NULL
)
SELECT (SELECT max(seq) FROM {answer} WHERE match_hash = ? AND terms = known.terms), terms
FROM known WHERE terms IS NOT NULL"""  # one look at the index for each of the terms
_STAMP = """SELECT (SELECT hash FROM {entry} WHERE seq = 1), (SELECT max(settled) FROM {answer} WHERE match_hash = ?),
  (SELECT max(seq) FROM {entry} WHERE kind = 'version' AND analyst = '')"""


class Book(ABC):
    """The rows of one ledger inside one transaction. `execute` runs a statement whose values are written as `?`."""

    def __init__(self, execute: Callable[[str, Sequence[object]], RowCursor], schema: str = "") -> None:
        self._execute = execute
        self._entry, self._answer, self._secret = f"{schema}entry", f"{schema}answer", f"{schema}secret"
        self._entries = f"SELECT {_COLUMNS} FROM {self._entry}"
        self._durable = 2**62
        """An entry up to which all that are synced are certain to be on disk."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Whether no ledger was created here yet."""

    @abstractmethod
    def create(self, salt: bytes) -> None:
        """Makes a ledger without entries that keeps this secret."""

    @abstractmethod
    def find_damage(self) -> str | None:
        """What is wrong with the tables themselves, such as a damaged page; None if nothing is."""

    def salt(self) -> object:
        """The secret; None if it is missing."""
        return self._value(f"SELECT salt FROM {self._secret}")

    def entry(self, seq: int) -> Row | None:
        return self._execute(f"{self._entries} WHERE seq = ?", (seq,)).fetchone()

    def last(self) -> Row | None:
        return self._execute(f"{self._entries} ORDER BY seq DESC LIMIT 1", ()).fetchone()

    def last_durable(self) -> Row | None:
        """The last entry whose kind is not in `entry.UNSYNCED`: those are committed durably, and answers are not."""
        where = f"WHERE kind NOT IN ({', '.join('?' * len(UNSYNCED))}) AND seq <= ? ORDER BY seq DESC LIMIT 1"
        return self._execute(f"{self._entries} {where}", (*UNSYNCED, self._durable)).fetchone()

    def entries_from(self, seq: int) -> list[Row]:
        """The entries from this number on, in order."""
        return self._execute(f"{self._entries} WHERE seq >= ? ORDER BY seq", (seq,)).fetchall()

    def page(self, after: int | None, end: int | None = None) -> list[Row]:
        """The next `PAGE` entries in order, from the first if `after` is None, up to an end if there is one."""
        limits = [(text, value) for text, value in (("seq > ?", after), ("seq <= ?", end)) if value is not None]
        where = f"WHERE {' AND '.join(text for text, _ in limits)}" if limits else ""
        statement = f"{self._entries} {where} ORDER BY seq LIMIT {PAGE}"
        return self._execute(statement, [value for _, value in limits]).fetchall()

    def entries_of(self, kind: str, analyst: str) -> list[Row]:
        """The entries of one kind and one analyst, in order."""
        where = "WHERE kind = ? AND analyst = ? ORDER BY seq"
        return self._execute(f"{self._entries} {where}", (kind, analyst)).fetchall()

    def latest(self, kind: str, analyst: str) -> Row | None:
        """The last of them."""
        where = "WHERE kind = ? AND analyst = ? ORDER BY seq DESC LIMIT 1"
        return self._execute(f"{self._entries} {where}", (kind, analyst)).fetchone()

    def with_key(self, analyst: str, key: str) -> Row | None:
        return self._execute(f"{self._entries} WHERE analyst = ? AND key = ?", (analyst, key)).fetchone()

    def append(self, entry: Entry) -> None:
        marks = ", ".join("?" * len(COLUMNS))
        self._execute(f"INSERT INTO {self._entry} ({_COLUMNS}) VALUES ({marks})", entry.row)

    def answer(self, seq: int) -> AnswerRow | None:
        """The stored answer to the charge with this number."""
        row = self._execute(f"SELECT {_ANSWER} FROM {self._answer} WHERE seq = ?", (seq,)).fetchone()
        return None if row is None else AnswerRow(*row)

    def matching(self, match_hash: str) -> list[int]:
        """The charges of all answers with this match, the newest first."""
        statement = f"SELECT seq FROM {self._answer} WHERE match_hash = ? ORDER BY seq DESC"
        return [seq for (seq,) in self._execute(statement, (match_hash,)).fetchall()]

    def offers(self, match_hash: str) -> list[tuple[int, str]]:
        """For each of the terms, the newest charge of an answer with this match, and the terms; the newest first."""
        rows = self._execute(_OFFERS.format(answer=self._answer), [match_hash] * 3).fetchall()
        return sorted(((seq, terms) for seq, terms in rows), reverse=True)

    def stamp(self, match_hash: str) -> Row:
        """The hash of the first entry, the number of the last one that records an answer with this match, and that of
        the last declaration."""
        return self._execute(_STAMP.format(entry=self._entry, answer=self._answer), (match_hash,)).fetchall()[0]

    def add_answer(self, answer: AnswerRow) -> None:
        """Stores the answer to a charge that has none."""
        self._execute(f"INSERT INTO {self._answer} ({_ANSWER}) VALUES (?, ?, ?, ?, ?)", answer)

    def answered(self) -> list[Row]:
        """The charge of every stored answer, in order, and the entry that records it."""
        return self._execute(f"SELECT seq, settled FROM {self._answer} ORDER BY seq", ()).fetchall()

    def _value(self, statement: str, *values: object) -> object:
        """The first value of the first row; None if there is no row."""
        return (self._execute(statement, values).fetchone() or (None,))[0]


class Store(Protocol):
    """The database of one ledger."""

    @property
    def name(self) -> str:
        """The store's name in messages."""

    @property
    def note(self) -> str:
        """The note on a budget that ends with the process."""

    @property
    def files(self) -> Sequence[Path]:
        """The files it consists of, the main one first; none if it is elsewhere."""

    @property
    def state(self) -> Hashable:
        """Changes with every commit of any process."""

    @property
    def opened(self) -> int:
        """How often it was connected; another ledger may have replaced it in between."""

    def exists(self) -> bool:
        """Whether the database is there. Creates nothing."""

    def prepare(self) -> None:
        """Makes an empty database, unless there is one."""

    def writing(self, *, durable: bool = True) -> AbstractContextManager[Book]:
        """An exclusive write transaction."""

    def reading(self) -> AbstractContextManager[Book]:
        """A short read of the newest commit."""

    def inspecting(self) -> AbstractContextManager[Book]:
        """A long read that blocks no writer, also of a damaged ledger."""

    def sync(self) -> None:
        """Makes every commit so far durable."""

    def close(self) -> None:
        """Ends the connection for good. May be called again."""


class Gate:
    """One transaction at a time inside one process: other threads wait, and signal handlers in the middle of one and
    forks are refused."""

    def __init__(self, forked: str = "Open it in the process that uses it.") -> None:
        self.forked = forked
        """What the child of a fork should do."""
        self.lock = threading.RLock()  # a signal handler may come while its own thread holds it
        self.busy = False
        """Whether the thread that holds the lock is in the middle of something."""
        self.process = os.getpid()
        """The one that may use the store."""

    @contextmanager
    def enter(self) -> Iterator[None]:
        """Excludes everyone else until it exits."""
        if self.process != os.getpid():
            raise LedgerFailed(
                "This ledger was opened before the process was forked, and a copy of it would spend the budget twice. "
                f"{self.forked}"
            )
        with self.lock:
            if self.busy:  # the lock keeps other threads out
                raise _interrupted()
            try:
                self.busy = True
                yield
            finally:
                self.busy = False

    def refuse_interrupted(self) -> None:
        """Refuses an interrupt of the thread inside. Does not wait for other threads."""
        if self.lock.acquire(blocking=False):
            busy = self.busy
            self.lock.release()
            if busy:
                raise _interrupted()

    def fork_begins(self, timeout: float = 30.0) -> bool:
        """Keeps the lock during a fork. False if it is in use for too long."""
        if not self.lock.acquire(timeout=timeout):
            return False
        if self.busy:
            self.lock.release()
        return not self.busy

    def fork_ends(self, *, in_child: bool) -> None:
        """Releases the lock. The child is still refused."""
        del in_child
        self.lock.release()


def _interrupted() -> LedgerFailed:
    return LedgerFailed(
        "A signal interrupted another question of this thread, which still holds the ledger. Ask when it "
        "is done; if it was abandoned, close the ledger and open it again. No answer is given."
    )


class Forked(Protocol):
    """What must be idle during a fork."""

    def fork_begins(self) -> bool:
        """Keeps it idle. False if it is in use for too long."""

    def fork_ends(self, *, in_child: bool) -> None:
        """Lets it be used again."""


class ForkGuard:
    """Keeps all stores idle during a fork, so that no child inherits a lock of SQLite that no thread will release."""

    stores: ClassVar[WeakSet[Forked]] = WeakSet()
    held: ClassVar[list[Forked]] = []
    inherited: ClassVar[list[object]] = []
    """Connections of the parent, which the child must not close."""
    lock = threading.RLock()  # a signal handler may open a store too

    @classmethod
    def watch(cls, store: Forked) -> None:
        with cls.lock:
            cls.stores.add(store)

    @classmethod
    def begins(cls) -> None:
        cls.lock.acquire()
        for store in list(cls.stores):
            if store.fork_begins():
                cls.held.append(store)

    @classmethod
    def ends(cls, *, in_child: bool) -> None:
        held, cls.held = cls.held, []
        for store in held:
            store.fork_ends(in_child=in_child)
        cls.lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=ForkGuard.begins,
        after_in_parent=lambda: ForkGuard.ends(in_child=False),
        after_in_child=lambda: ForkGuard.ends(in_child=True),
    )
