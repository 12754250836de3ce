"""One SQLite file: its tables, its connection, its transactions, and what happens when it fails.

Transactions:  BEGIN IMMEDIATE takes the write lock before anything is read, so check and charge cannot be separated.
Durable:       WAL with synchronous=FULL: a commit is on the disk when it returns. A commit with durable=False survives
               the end of the process, and the next durable one makes it survive the loss of power too.
Checkpoints:   only while the write lock is held, from a second connection. SQLite before 3.51.3 can lose commits when a
               commit and a checkpoint meet (its "WAL-reset bug"), so its own, which do not take that lock, are off.
Threads:       one connection and one lock; long reads have a connection and a lock of their own, page by page.
Signals:       a handler that comes in the middle of a transaction, and uses the ledger, is refused; it would wait for
               the very thread that it stopped.
Forks:         SQLite keeps its locks per process and must not be carried into a child; even a connection that the
               child opens anew believes in locks that it does not hold, and loses commits when the parent closes its
               own (tests/ledger/test_forks.py shows it). So the connection is closed before a fork, and parent and
               child open their own afterwards. A fork that Python does not announce is noticed and refused.
Failure:       every error of SQLite becomes LedgerFailed with a next step. The transaction is rolled back.
Checked by:    tests/ledger/test_store.py, tests/ledger/test_forks.py
"""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import ClassVar
from weakref import WeakSet

from lapwing.errors import LedgerFailed, Misconfigured
from lapwing.ledger.entry import COLUMNS
from lapwing.ledger.witness import sync_folder

APPLICATION = 0x4C415057  # "LAPW" in the header of the file
CHECKPOINT_EVERY = 128  # commits of one process
PAUSE = 0.0005  # seconds between two looks at a lock
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

FAULTS = (sqlite3.Error, UnicodeDecodeError)
"""What SQLite raises; its message about a damaged schema quotes bytes that Python may not be able to read."""

_NEXT_STEP = {
    "SQLITE_BUSY": "another process kept it locked for too long. Ask again, or look for a process that hangs.",
    "SQLITE_LOCKED": "another process kept it locked for too long. Ask again, or look for a process that hangs.",
    "SQLITE_FULL": "the disk is full. Free some space and ask again.",
    "SQLITE_READONLY": "it cannot be written. Give this user the right to write to the file and its folder.",
    "SQLITE_CANTOPEN": "it cannot be opened. Give this user the right to read and write the file and its folder.",
    "SQLITE_PERM": "it cannot be opened. Give this user the right to read and write the file and its folder.",
    "SQLITE_NOTADB": "the file is damaged or is no ledger. Put back its newest copy; do not start a new one.",
    "SQLITE_CORRUPT": "the file is damaged. Put back its newest copy; do not start a new one.",
    "SQLITE_IOERR": "the disk failed or is full. Check it, then ask again.",
}


class Store:
    """The connection to one ledger file, or to a ledger in memory if there is no path."""

    def __init__(self, path: Path | None, *, timeout: float) -> None:
        self.path = path
        self._timeout = timeout
        self._lock = threading.RLock()  # a signal handler may come while its own thread holds it
        self._aside_lock = threading.RLock()
        self._busy = self._looking = False
        """Whether the thread that holds the lock is in the middle of something."""
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._process = os.getpid()
        self._closed = False
        self._durable: bool | None = None
        self._commits = 0
        self.opened = 0
        """How many connections there were; another process may have changed the file in between."""
        _Forks.watch(self)

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """The connection, for questions that change nothing."""
        with self._held():
            yield self._ready()

    @contextmanager
    def write(self, *, durable: bool = True) -> Iterator[sqlite3.Connection]:
        """A transaction that holds the write lock from its start; committed at the end, rolled back on any error."""
        with self._held():
            connection = self._ready()
            try:
                if durable is not self._durable:
                    self._durable = None  # nobody knows, should an interrupt come between the next two lines
                    connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
                    self._durable = durable
                self._begin(connection)
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                self._roll_back(connection)
                raise
            self._commits += 1
            if self._commits % CHECKPOINT_EVERY == 0 and self.path is not None:
                self._checkpoint(connection)

    @contextmanager
    def aside(self) -> Iterator[sqlite3.Connection]:
        """A connection of its own for a long read, which nobody waits for but a fork."""
        if self.path is None:
            with self.read() as connection:
                yield connection
            return
        with self._held():
            self._ready()
        with self._aside_lock:
            outer, self._looking = self._looking, True
            try:
                place = f"{self.path.resolve().as_uri()}?mode=ro"
                with closing(sqlite3.connect(place, timeout=self._timeout, uri=True)) as connection:
                    connection.text_factory = plain_text
                    yield connection
            except FAULTS as error:
                raise failure(error, self.path) from error
            finally:
                self._looking = outer

    @property
    def state(self) -> tuple[int, int, int]:
        """Another one after every commit, of this process or of any other."""
        with self.read() as connection:
            (others,) = connection.execute("PRAGMA data_version").fetchone()
            return self.opened, self._commits, int(others)

    def sync(self) -> None:
        """Makes every commit so far durable."""
        if self.path is None:
            return
        try:
            with self._held(), open(f"{self.path}-wal", "r+b", buffering=0) as log:
                os.fsync(log.fileno())
        except FileNotFoundError:
            return  # there is no commit outside the file itself
        except OSError as error:
            raise LedgerFailed(
                f"The ledger {self.path} could not be synced ({error.strerror}). Check the disk."
            ) from None

    def close(self) -> None:
        """Ends the connection for good."""
        with self._lock:
            self._closed = True
            self.drop()

    def drop(self) -> None:
        """Ends the connection; the next use opens another. The caller holds the lock."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._process != os.getpid():
            _Forks.inherited.append(connection)  # it is the parent's: even to close it here would do harm
            return
        with suppress(*FAULTS):
            connection.close()

    @contextmanager
    def _held(self) -> Iterator[None]:
        if self._process != os.getpid():
            raise LedgerFailed(
                "This ledger was opened before the process was forked, and a copy of it would spend the budget twice. "
                "Open it in the process that uses it."
            )
        with self._lock:
            if self._busy:  # the lock keeps other threads out
                raise LedgerFailed(
                    "The ledger is in the middle of another question of this thread, which a signal interrupted. Ask "
                    "after it; if it was given up, close the ledger and open it again. No answer is given."
                )
            try:
                self._busy = True
                yield
            except FAULTS as error:
                raise failure(error, self.path) from error
            finally:
                self._busy = False

    def _ready(self) -> sqlite3.Connection:
        if self._closed:
            raise Misconfigured("This ledger is closed. Open it again.")
        if self._connection is None:
            self._connection, self._durable = self._connect(), None
            self.opened += 1
        if self.path is not None and self._file != _identity(self.path):
            self.drop()
            raise LedgerFailed(
                f"The ledger {self.path} was moved, deleted or replaced while in use. No answer is given. "
                "Put it back and open it again."
            )
        return self._connection

    def _connect(self) -> sqlite3.Connection:
        place = ":memory:" if self.path is None else _existing(self.path)
        connection = sqlite3.connect(place, timeout=self._timeout, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA fullfsync = ON")
            if self.path is not None:
                if self._journal(connection) != "wal":
                    raise LedgerFailed(f"The ledger {self.path} is not on a local disk. Put it on one.")
                connection.execute("PRAGMA wal_autocheckpoint = 0")
                self._file = self._file or _identity(self.path)
        except BaseException:
            connection.close()
            raise
        return connection

    def _begin(self, connection: sqlite3.Connection) -> None:
        """Takes the write lock. SQLite's own wait sleeps up to 0.1 s between two looks, and the lock is held for some
        0.002: processes that share a ledger would sleep most of the time, and take turns instead of working."""
        connection.execute("PRAGMA busy_timeout = 0")
        try:
            self._patiently(connection, "BEGIN IMMEDIATE")
        finally:
            connection.execute(f"PRAGMA busy_timeout = {round(1000 * self._timeout)}")

    def _journal(self, connection: sqlite3.Connection) -> str:
        """Switches to the write-ahead log. SQLite does not wait for a lock here, so we do: others may create it now."""
        return str(self._patiently(connection, "PRAGMA journal_mode = WAL").fetchone()[0])

    def _patiently(self, connection: sqlite3.Connection, statement: str) -> sqlite3.Cursor:
        """Runs a statement as soon as no other process has the lock that it needs."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                return connection.execute(statement)
            except sqlite3.OperationalError as error:
                busy = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
                if not busy or time.monotonic() > deadline:
                    raise
                time.sleep(PAUSE)

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        with suppress(*FAULTS):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        if self.path is not None and connection.in_transaction:
            self.drop()

    def _checkpoint(self, connection: sqlite3.Connection) -> None:
        """Moves what the log holds into the file. Failing is no harm: the commits stay in the log."""
        with suppress(*FAULTS):
            self._begin(connection)
            try:
                with closing(sqlite3.connect(str(self.path), timeout=self._timeout)) as second:
                    second.execute("PRAGMA fullfsync = ON")
                    second.execute("PRAGMA wal_checkpoint(PASSIVE)")
            finally:
                connection.execute("ROLLBACK")

    def fork_begins(self) -> bool:
        """Closes the connection and keeps the lock. False if it is in use for too long."""
        if not self._lock.acquire(timeout=self._timeout):
            return False
        if self._busy or not self._aside_lock.acquire(timeout=self._timeout):
            self._lock.release()
            return False
        if self._looking:
            self._aside_lock.release()
            self._lock.release()
            return False
        if self.path is not None:
            self.drop()
        return True

    def fork_ends(self, *, in_child: bool) -> None:
        """Lets the store be used again; in the child not if it is in memory, where it would be a second budget."""
        if in_child and self.path is not None:
            self._process = os.getpid()
        self._aside_lock.release()
        self._lock.release()

    def __del__(self) -> None:
        self.drop()


class _Forks:
    """Closes all stores before a fork."""

    stores: ClassVar[WeakSet[Store]] = WeakSet()
    held: ClassVar[list[Store]] = []
    inherited: ClassVar[list[sqlite3.Connection]] = []
    lock = threading.Lock()

    @classmethod
    def watch(cls, store: Store) -> None:
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
        before=_Forks.begins,
        after_in_parent=lambda: _Forks.ends(in_child=False),
        after_in_child=lambda: _Forks.ends(in_child=True),
    )


def failure(error: sqlite3.Error | UnicodeDecodeError, path: Path | None) -> LedgerFailed:
    """What went wrong, and what to do about it."""
    name = "SQLITE_CORRUPT" if isinstance(error, UnicodeDecodeError) else getattr(error, "sqlite_errorname", None)
    name = name or "SQLITE_ERROR"
    fits = [step for code, step in _NEXT_STEP.items() if name == code or name.startswith(f"{code}_")]
    step = fits[0] if fits else f"SQLite reports {name}. Run `lapwing ledger verify`."
    return LedgerFailed(f"The ledger {path or 'in memory'} failed: {step} No answer is given.")


def create_file(path: Path) -> None:
    """An empty file that only its owner may read, unless there is one already."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except OSError as error:
        raise LedgerFailed(
            f"The ledger {path} could not be created ({error.strerror}). Give this user the right to write there."
        ) from None


def sync_names(path: Path | None) -> None:
    """Makes the name of a new file durable, and those of the folders above it, which may be new as well."""
    if path is None:
        return
    try:
        sync_folder(path.parent)
    except OSError as error:
        raise LedgerFailed(f"The ledger {path} could not be created ({error.strerror}). Check the disk.") from None
    for folder in path.resolve().parent.parents:
        with suppress(OSError):  # not ours, so not new
            sync_folder(folder)


def is_new(connection: sqlite3.Connection, path: Path | None) -> bool:
    """Whether the file has no tables yet. Refuses files that belong to another program."""
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    owner = connection.execute("PRAGMA application_id").fetchone()[0]
    if tables and owner != APPLICATION:
        raise Misconfigured(f"{path} is a database of another program. Name another file for the ledger.")
    return bool(tables == 0)


def create_tables(connection: sqlite3.Connection) -> None:
    """The tables, indexes and triggers of a new ledger, inside a transaction."""
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    for statement in SCHEMA.values():
        connection.execute(statement)


def exists(path: Path) -> bool:
    """Whether there is such a file; an error if nobody may look, or if it is a folder, a pipe or a device."""
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise LedgerFailed(f"The ledger {path} cannot be reached ({error.strerror}). Check the rights.") from None
    if not stat.S_ISREG(mode):
        raise Misconfigured(f"{path} is no regular file. Name another file for the ledger.")
    return True


def _existing(path: Path) -> Path:
    """The path, if SQLite would not create a new file there."""
    if not exists(path):
        raise LedgerFailed(f"The ledger {path} was moved or deleted while in use. Put it back and open it again.")
    return path


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def plain_text(raw: bytes) -> str:
    """Text as it is stored, also where it is no longer UTF-8."""
    return raw.decode(errors="surrogateescape")
