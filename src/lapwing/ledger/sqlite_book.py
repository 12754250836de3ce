"""The tables of a ledger in SQLite, and ledgers in memory.

A ledger in memory is such rows and no file, for data frames, lessons and tests. It ends with its process.

Whole:      SQLite commits a transaction in one step. One that an error or an interrupt left open is rolled back when
            the next one starts.
Forks:      a child has a copy of the rows, which would be a second budget. It is refused, also if it opens it again.
Checked by: tests/ledger/test_store.py, tests/ledger/test_ledger.py, tests/ledger/test_promises.py
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from lapwing.errors import LedgerFailed, Misconfigured
from lapwing.ledger.entry import COLUMNS
from lapwing.ledger.store import CHANGED, CLOSED, INDEXES, LOCKED, Book, ForkGuard, Gate

APPLICATION = 0x4C415057  # "LAPW" in the header of the file
_KEEP = "SELECT RAISE(ABORT, 'the ledger is append-only')"

SCHEMA = {
    "entry": f"""CREATE TABLE entry (
  seq INTEGER PRIMARY KEY,
  {", ".join(f"{name} TEXT{'' if name == 'key' else ' NOT NULL'}" for name in COLUMNS[1:])}
)""",
    "answer": """CREATE TABLE answer (
  seq INTEGER PRIMARY KEY REFERENCES entry (seq),
  settled INTEGER NOT NULL REFERENCES entry (seq),
  match_hash TEXT,
  terms TEXT NOT NULL,
  payload BLOB NOT NULL
)""",
    "secret": "CREATE TABLE secret (one INTEGER PRIMARY KEY CHECK (one = 1), salt BLOB NOT NULL)",
    **{name: text.format(schema="") for name, text in INDEXES.items()},
    **{
        f"{table}_no_{action.lower()}": f"CREATE TRIGGER {table}_no_{action.lower()} BEFORE {action} ON {table} "
        f"BEGIN {_KEEP}; END"
        for table in ("entry", "answer", "secret")
        for action in ("UPDATE", "DELETE")
    },
    # INSERT OR REPLACE deletes rows without a word to the triggers above; these see it first.
    "entry_at_end": "CREATE TRIGGER entry_at_end BEFORE INSERT ON entry WHEN NEW.seq IS NOT "
    "(SELECT coalesce(max(seq), 0) + 1 FROM entry) OR EXISTS (SELECT 1 FROM entry WHERE NEW.key IS NOT NULL "
    f"AND analyst = NEW.analyst AND key = NEW.key) BEGIN {_KEEP}; END",
    "answer_once": "CREATE TRIGGER answer_once BEFORE INSERT ON answer "
    f"WHEN EXISTS (SELECT 1 FROM answer WHERE seq = NEW.seq) BEGIN {_KEEP}; END",
    "secret_once": "CREATE TRIGGER secret_once BEFORE INSERT ON secret "
    f"WHEN EXISTS (SELECT 1 FROM secret) BEGIN {_KEEP}; END",
}

FAULTS = (sqlite3.Error, UnicodeDecodeError)
"""What SQLite raises; its message about a damaged schema quotes bytes that Python may not be able to read."""

_NEXT_STEP = {
    "SQLITE_BUSY": LOCKED,
    "SQLITE_LOCKED": LOCKED,
    "SQLITE_FULL": "the disk is full. Free some space and ask again.",
    "SQLITE_READONLY": "it cannot be written. Give this user write access to the file and its folder.",
    "SQLITE_CANTOPEN": "it cannot be opened. Give this user read and write access to the file and its folder.",
    "SQLITE_PERM": "it cannot be opened. Give this user read and write access to the file and its folder.",
    "SQLITE_NOTADB": "the file is damaged or is not a ledger. Put back its newest copy; do not start a new one.",
    "SQLITE_CORRUPT": "the file is damaged. Put back its newest copy; do not start a new one.",
    "SQLITE_IOERR": "the disk failed or is full. Check it, then ask again.",
}


class SqliteBook(Book):
    """Reads and appends through one connection. `created` is called when there are new tables, before the commit."""

    def __init__(self, connection: sqlite3.Connection, created: Callable[[], None] = lambda: None) -> None:
        super().__init__(connection.execute)
        self._created = created

    def is_empty(self) -> bool:
        return not self._value("SELECT count(*) FROM sqlite_master")

    def create(self, salt: bytes) -> None:
        for statement in (f"PRAGMA application_id = {APPLICATION}", *SCHEMA.values()):
            self._execute(statement, ())
        self._execute("INSERT INTO secret (one, salt) VALUES (1, ?)", (salt,))
        self._created()

    def find_damage(self) -> str | None:
        damage = self._value("PRAGMA integrity_check(1)")
        if damage != "ok":
            return f"The file is damaged: {damage}."
        tables = self._execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL", ()).fetchall()
        return None if sorted(tables) == sorted(SCHEMA.items()) and self.owner() == APPLICATION else CHANGED

    def owner(self) -> object:
        return self._value("PRAGMA application_id")


class Memory:
    """What the stores of one ledger in memory share: one connection, and one lock."""

    def __init__(self, note: str = "") -> None:
        self.note = note
        self.commits = 0
        self.gate = Gate("Pass ledger='ledger.db' to every process that opens the data.")
        self.connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self.connection.execute("PRAGMA foreign_keys = ON")
        self.book = SqliteBook(self.connection)
        ForkGuard.watch(self.gate)

    def __del__(self) -> None:
        end(self.connection, self.gate)


class MemoryStore:
    """A ledger in memory; another one on the same memory sees the same rows."""

    name = "in memory"
    files: tuple[Path, ...] = ()
    opened = 1

    def __init__(self, memory: Memory | None = None) -> None:
        self._memory = memory or Memory()
        self._closed = False

    @property
    def note(self) -> str:
        return self._memory.note

    @property
    def state(self) -> int:
        with self.reading():
            return self._memory.commits

    def exists(self) -> bool:
        return self._memory.commits > 0

    def prepare(self) -> None:
        """There is nothing to make."""

    @contextmanager
    def reading(self) -> Iterator[SqliteBook]:
        with self._memory.gate.enter():
            if self._closed:
                raise Misconfigured(CLOSED)
            try:
                if self._memory.connection.in_transaction:
                    self._memory.connection.execute("ROLLBACK")
                yield self._memory.book
            except FAULTS as error:
                raise failure(error, self.name) from error

    @contextmanager
    def writing(self, *, durable: bool = True) -> Iterator[SqliteBook]:
        del durable  # nothing in memory survives the process
        with self.reading() as book:
            self._memory.connection.execute("BEGIN")
            yield book
            self._memory.commits += 1  # first, as an interrupt may come right after the commit
            self._memory.connection.execute("COMMIT")

    def inspecting(self) -> AbstractContextManager[SqliteBook]:
        return self.reading()

    def sync(self) -> None:
        """There is no disk."""

    def close(self) -> None:
        self._closed = True


def end(connection: sqlite3.Connection, gate: Gate) -> None:
    """Closes a connection, unless it is that of a parent process: even to close it here would do harm."""
    if gate.process != os.getpid():
        ForkGuard.inherited.append(connection)
        return
    with suppress(*FAULTS):
        connection.close()


def failure(error: sqlite3.Error | UnicodeDecodeError, name: Path | str) -> LedgerFailed:
    """What went wrong, and what to do about it."""
    code = "SQLITE_CORRUPT" if isinstance(error, UnicodeDecodeError) else getattr(error, "sqlite_errorname", None)
    code = code or "SQLITE_ERROR"
    steps = [step for prefix, step in _NEXT_STEP.items() if f"{code}_".startswith(f"{prefix}_")]
    step = steps[0] if steps else f"SQLite reports {code}. Run `lapwing ledger verify`."
    return LedgerFailed(f"The ledger {name} failed: {step} No answer is given.")
