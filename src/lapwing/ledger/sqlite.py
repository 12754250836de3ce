"""A ledger in one SQLite file, shared by any number of threads and processes on one machine.

Transactions:  BEGIN IMMEDIATE takes the write lock before anything is read, so check and charge cannot be separated.
Durable:       WAL with synchronous=FULL: a commit is on the disk when it returns. A commit with durable=False survives
               the end of the process, and the next durable one makes it survive the loss of power too.
Checkpoints:   only while the write lock is held, from a second connection. SQLite before 3.51.3 can lose commits when a
               commit and a checkpoint meet (its "WAL-reset bug"), so its own, which do not take that lock, are off.
Threads:       one connection and one lock; long reads have a connection and a lock of their own, page by page.
Signals:       a handler that uses the ledger in the middle of a transaction is refused; it would wait for the thread
               that it stopped.
Forks:         SQLite keeps its locks per process. In a child even a connection of its own assumes locks that it does
               not hold, and loses commits when the parent closes its own (tests/ledger/test_forks.py). So it is closed
               before a fork, and parent and child open theirs afterwards. A fork that Python does not announce is
               noticed and refused.
Failure:       every error of SQLite becomes LedgerFailed with a next step. The transaction is rolled back.
Checked by:    tests/ledger/test_sqlite.py, tests/ledger/test_forks.py
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

from lapwing.errors import LedgerFailed, Misconfigured
from lapwing.ledger.sqlite_book import APPLICATION, FAULTS, SqliteBook, end, failure
from lapwing.ledger.store import CLOSED, ForkGuard, Gate
from lapwing.ledger.witness import sync_folder

CHECKPOINT_EVERY = 128  # commits of one process
PAUSE = 0.0005  # seconds between two looks at a lock


class SqliteStore:
    """The connection to one ledger file."""

    def __init__(self, path: Path, *, timeout: float = 30.0) -> None:
        self.path = path
        self.opened = 0
        """How many connections there were; another process may have changed the file in between."""
        self.note = ""
        self._timeout = timeout
        self._gate = Gate()
        self._aside_lock = threading.RLock()
        self._looking = False
        """Whether the thread that holds that lock is in the middle of a long read."""
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._closed = False
        self._durable: bool | None = None
        self._commits = 0
        ForkGuard.watch(self)

    @property
    def name(self) -> str:
        return str(self.path)

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(Path(f"{self.path}{ending}") for ending in ("", "-wal", "-shm"))

    @property
    def state(self) -> tuple[int, int, int]:
        with self._connection_held() as connection:
            (others,) = connection.execute("PRAGMA data_version").fetchone()
            return self.opened, self._commits, int(others)

    def exists(self) -> bool:
        """Whether there is such a file; an error if it cannot be reached, or is a folder, a pipe or a device."""
        try:
            mode = os.stat(self.path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise LedgerFailed(
                f"The ledger {self.path} cannot be reached ({error.strerror}). Check its permissions."
            ) from None
        if not stat.S_ISREG(mode):
            raise Misconfigured(f"{self.path} is not a regular file. Name another file for the ledger.")
        return True

    def prepare(self) -> None:
        """An empty file that only its owner may read, unless there is one already."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with suppress(FileExistsError):
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except OSError as error:
            raise LedgerFailed(
                f"The ledger {self.path} could not be created ({error.strerror}). Give this user write access there."
            ) from None

    @contextmanager
    def reading(self) -> Iterator[SqliteBook]:
        with self._connection_held() as connection:
            yield SqliteBook(connection)

    @contextmanager
    def writing(self, *, durable: bool = True) -> Iterator[SqliteBook]:
        with self._connection_held() as connection:
            try:
                if durable is not self._durable:
                    self._durable = None  # unknown if an interrupt comes between the next two lines
                    connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
                    self._durable = durable
                self._begin(connection)
                yield SqliteBook(connection, self._sync_names)
                connection.execute("COMMIT")
            except BaseException:
                self._roll_back(connection)
                raise
            self._commits += 1
            if self._commits % CHECKPOINT_EVERY == 0:
                self._checkpoint(connection)

    @contextmanager
    def inspecting(self) -> Iterator[SqliteBook]:
        with self._connection_held():
            pass  # fails if closed, moved or forked
        with self._aside_lock:
            outer, self._looking = self._looking, True
            try:
                with opened_to_read(self.path, timeout=self._timeout) as book:
                    yield book
            finally:
                self._looking = outer

    def sync(self) -> None:
        try:
            with self._gate.enter(), open(f"{self.path}-wal", "r+b", buffering=0) as log:
                os.fsync(log.fileno())
        except FileNotFoundError:
            return  # there is no commit outside the file itself
        except OSError as error:
            raise LedgerFailed(
                f"The ledger {self.path} could not be synced ({error.strerror}). Check the disk."
            ) from None

    def close(self) -> None:
        with self._gate.lock:
            self._closed = True
            self.drop()

    def drop(self) -> None:
        """Ends the connection; the next use opens another. The caller holds the lock."""
        connection, self._connection = self._connection, None
        if connection is not None:
            end(connection, self._gate)

    @contextmanager
    def _connection_held(self) -> Iterator[sqlite3.Connection]:
        with self._gate.enter():
            try:
                yield self._ready()
            except FAULTS as error:
                raise failure(error, self.path) from error

    def _ready(self) -> sqlite3.Connection:
        if self._closed:
            raise Misconfigured(CLOSED)
        if self._connection is None:
            self._connection, self._durable = self._connect(), None
            self.opened += 1
        if self._file != _identity(self.path):
            self.drop()
            raise LedgerFailed(
                f"The ledger {self.path} was moved, deleted or replaced while in use. No answer is given. "
                "Put it back and open it again."
            )
        return self._connection

    def _connect(self) -> sqlite3.Connection:
        if not self.exists():  # SQLite would create a new file there
            raise LedgerFailed(
                f"The ledger {self.path} was moved or deleted while in use. Put it back and open it again."
            )
        connection = sqlite3.connect(self.path, timeout=self._timeout, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA fullfsync = ON")
            # SQLite does not wait for a lock here, so we do: others may create the file now
            if self._patiently(connection, "PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
                raise LedgerFailed(f"The ledger {self.path} is not on a local disk. Put it on one.")
            connection.execute("PRAGMA wal_autocheckpoint = 0")
            book = SqliteBook(connection)
            if not book.is_empty() and book.owner() != APPLICATION:
                raise Misconfigured(f"{self.path} is a database of another program. Name another file for the ledger.")
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
        if connection.in_transaction:
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

    def _sync_names(self) -> None:
        """Makes the name of a new file durable, and those of the folders above it, which may be new as well."""
        try:
            sync_folder(self.path.parent)
        except OSError as error:
            raise LedgerFailed(
                f"The ledger {self.path} could not be created ({error.strerror}). Check the disk."
            ) from None
        for folder in self.path.resolve().parent.parents:
            with suppress(OSError):  # not ours, so not new
                sync_folder(folder)

    def fork_begins(self) -> bool:
        """Closes the connection and keeps the lock. False if it is in use for too long."""
        if not self._gate.fork_begins(self._timeout):
            return False
        free = self._aside_lock.acquire(timeout=self._timeout)
        if not free or self._looking:
            if free:
                self._aside_lock.release()
            self._gate.lock.release()
            return False
        self.drop()
        return True

    def fork_ends(self, *, in_child: bool) -> None:
        """Lets the store be used again, by the child too."""
        if in_child:
            self._gate.process = os.getpid()
        self._aside_lock.release()
        self._gate.fork_ends(in_child=in_child)

    def __del__(self) -> None:
        self.drop()


@contextmanager
def opened_to_read(path: Path, *, timeout: float = 5.0) -> Iterator[SqliteBook]:
    """The rows of a file that is not changed and may be damaged; text comes as it is, also if it is not UTF-8."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", timeout=timeout, uri=True)) as connection:
            connection.text_factory = lambda raw: raw.decode(errors="surrogateescape")
            yield SqliteBook(connection)
    except FAULTS as error:
        raise failure(error, path) from error


def copy_file(path: Path, to: Path) -> None:
    """A copy of the newest commit, also while others write; none if there is no ledger."""
    if not SqliteStore(path).exists():
        return
    try:
        with (
            closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as source,
            closing(sqlite3.connect(to)) as copied,
        ):
            source.backup(copied)
    except sqlite3.Error as error:
        raise failure(error, path) from None


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
