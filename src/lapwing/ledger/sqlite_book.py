"""The rows of a ledger in SQLite: tables, and one statement for each thing that is read or appended.

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
from lapwing.ledger.entry import COLUMNS, UNSYNCED, Entry
from lapwing.ledger.gate import ForkGuard, Gate
from lapwing.ledger.store import PAGE, AnswerRow, Row

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
    "entry_key": "CREATE UNIQUE INDEX entry_key ON entry (analyst, key) WHERE key IS NOT NULL",
    "entry_kind": "CREATE INDEX entry_kind ON entry (kind, analyst, seq)",
    "answer_match": "CREATE INDEX answer_match ON answer (match_hash, terms, seq) WHERE match_hash IS NOT NULL",
    "answer_settled": "CREATE INDEX answer_settled ON answer (match_hash, settled) WHERE match_hash IS NOT NULL",
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

_COLUMNS = ", ".join(COLUMNS)
_ENTRIES = f"SELECT {_COLUMNS} FROM entry"
_INSERT = f"INSERT INTO entry ({_COLUMNS}) VALUES ({', '.join('?' * len(COLUMNS))})"
_ANSWER = ", ".join(AnswerRow._fields)
_OFFERS = """WITH RECURSIVE known (terms) AS (
  SELECT min(terms) FROM answer WHERE match_hash = :match
  UNION ALL
  SELECT (SELECT min(terms) FROM answer WHERE match_hash = :match AND terms > known.terms) FROM known
  WHERE known.terms IS NOT NULL
)
SELECT (SELECT max(seq) FROM answer WHERE match_hash = :match AND terms = known.terms), terms
FROM known WHERE terms IS NOT NULL"""  # one look at the index for each of the terms
_STAMP = """SELECT (SELECT hash FROM entry WHERE seq = 1),
  (SELECT max(settled) FROM answer WHERE match_hash = :match),
  (SELECT max(seq) FROM entry WHERE kind = 'version' AND analyst = '')"""

FAULTS = (sqlite3.Error, UnicodeDecodeError)
"""What SQLite raises; its message about a damaged schema quotes bytes that Python may not be able to read."""

_NEXT_STEP = {
    "SQLITE_BUSY": "another process kept it locked for too long. Ask again, or look for a process that hangs.",
    "SQLITE_LOCKED": "another process kept it locked for too long. Ask again, or look for a process that hangs.",
    "SQLITE_FULL": "the disk is full. Free some space and ask again.",
    "SQLITE_READONLY": "it cannot be written. Give this user write access to the file and its folder.",
    "SQLITE_CANTOPEN": "it cannot be opened. Give this user read and write access to the file and its folder.",
    "SQLITE_PERM": "it cannot be opened. Give this user read and write access to the file and its folder.",
    "SQLITE_NOTADB": "the file is damaged or is not a ledger. Put back its newest copy; do not start a new one.",
    "SQLITE_CORRUPT": "the file is damaged. Put back its newest copy; do not start a new one.",
    "SQLITE_IOERR": "the disk failed or is full. Check it, then ask again.",
}


class SqliteBook:
    """Reads and appends through one connection. `created` is called when there are new tables, before the commit."""

    def __init__(self, connection: sqlite3.Connection, created: Callable[[], None] = lambda: None) -> None:
        self._connection = connection
        self._created = created

    def is_empty(self) -> bool:
        return not self._value("SELECT count(*) FROM sqlite_master")

    def create(self, salt: bytes) -> None:
        self._connection.execute(f"PRAGMA application_id = {APPLICATION}")
        for statement in SCHEMA.values():
            self._connection.execute(statement)
        self._connection.execute("INSERT INTO secret (one, salt) VALUES (1, ?)", (salt,))
        self._created()

    def salt(self) -> object:
        return self._value("SELECT salt FROM secret")

    def entry(self, seq: int) -> Row | None:
        found: Row | None = self._connection.execute(f"{_ENTRIES} WHERE seq = ?", (seq,)).fetchone()
        return found

    def last(self) -> Row | None:
        return self._one("ORDER BY seq DESC LIMIT 1")

    def last_durable(self) -> Row | None:
        return self._one(f"WHERE kind NOT IN ({', '.join('?' * len(UNSYNCED))}) ORDER BY seq DESC LIMIT 1", *UNSYNCED)

    def entries_from(self, seq: int) -> list[Row]:
        return self._connection.execute(f"{_ENTRIES} WHERE seq >= ? ORDER BY seq", (seq,)).fetchall()

    def page(self, after: int | None, end: int | None = None) -> list[Row]:
        asked = [(text, value) for text, value in (("seq > ?", after), ("seq <= ?", end)) if value is not None]
        where = f"WHERE {' AND '.join(text for text, _ in asked)}" if asked else ""
        wanted = f"{_ENTRIES} {where} ORDER BY seq LIMIT {PAGE}"
        return self._connection.execute(wanted, [value for _, value in asked]).fetchall()

    def entries_of(self, kind: str, analyst: str) -> list[Row]:
        wanted = f"{_ENTRIES} WHERE kind = ? AND analyst = ? ORDER BY seq"
        return self._connection.execute(wanted, (kind, analyst)).fetchall()

    def latest(self, kind: str, analyst: str) -> Row | None:
        wanted = f"{_ENTRIES} WHERE kind = ? AND analyst = ? ORDER BY seq DESC LIMIT 1"
        found: Row | None = self._connection.execute(wanted, (kind, analyst)).fetchone()
        return found

    def with_key(self, analyst: str, key: str) -> Row | None:
        return self._one("WHERE analyst = ? AND key = ?", analyst, key)

    def append(self, entry: Entry) -> None:
        self._connection.execute(_INSERT, entry.row)

    def answer(self, seq: int) -> AnswerRow | None:
        row = self._connection.execute(f"SELECT {_ANSWER} FROM answer WHERE seq = ?", (seq,)).fetchone()
        return None if row is None else AnswerRow(*row)

    def matching(self, match_hash: str) -> list[int]:
        wanted = "SELECT seq FROM answer WHERE match_hash = ? ORDER BY seq DESC"
        return [seq for (seq,) in self._connection.execute(wanted, (match_hash,)).fetchall()]

    def offers(self, match_hash: str) -> list[tuple[int, str]]:
        return sorted(self._connection.execute(_OFFERS, {"match": match_hash}).fetchall(), reverse=True)

    def stamp(self, match_hash: str) -> Row:
        found: Row = self._connection.execute(_STAMP, {"match": match_hash}).fetchone()
        return found

    def add_answer(self, answer: AnswerRow) -> None:
        self._connection.execute(f"INSERT INTO answer ({_ANSWER}) VALUES (?, ?, ?, ?, ?)", answer)

    def answered(self) -> list[Row]:
        return self._connection.execute("SELECT seq, settled FROM answer ORDER BY seq").fetchall()

    def find_damage(self) -> str | None:
        damage = self._value("PRAGMA integrity_check(1)")
        if damage != "ok":
            return f"The file is damaged: {damage}."
        tables = dict(self._connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall())
        if tables != SCHEMA or self.owner() != APPLICATION:
            return "The tables, or the triggers that make them append-only, were changed."
        return None

    def owner(self) -> object:
        """The program that made the file."""
        return self._value("PRAGMA application_id")

    def _value(self, statement: str) -> object:
        """The first value of the first row; None if there is no row."""
        return (self._connection.execute(statement).fetchone() or (None,))[0]

    def _one(self, where: str, *values: object) -> Row | None:
        found: Row | None = self._connection.execute(f"{_ENTRIES} {where}", values).fetchone()
        return found


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
                raise Misconfigured("This ledger is closed. Open it again.")
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
    fits = [step for known, step in _NEXT_STEP.items() if code == known or code.startswith(f"{known}_")]
    step = fits[0] if fits else f"SQLite reports {code}. Run `lapwing ledger verify`."
    return LedgerFailed(f"The ledger {name} failed: {step} No answer is given.")
