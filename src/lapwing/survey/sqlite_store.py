"""Reports in one SQLite file, or in memory, for a demonstration: those end with the process.

Durable:     write-ahead log with synchronous=FULL: a commit is on the disk when it returns.
One writer:  BEGIN IMMEDIATE takes the write lock before anything is read, so look and insert cannot be separated.
Checkpoints: only while the write lock is held, from a second connection: SQLite before 3.51.3 can lose a commit that
             meets a checkpoint.
No order:    tables are kept by nonce and by hash (WITHOUT ROWID), but SQLite fills a page in the order rows came, and
             the log holds the last commits. So every so often, when the store is opened for writing, and when it is
             closed, one transaction writes all rows anew in the order of their nonces and hashes, and the log starts
             again. Until then the file and its log show order and connection.
Checked by:  tests/survey/test_stores.py, tests/survey/test_crash.py
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from lapwing.errors import Misconfigured, StoreFailed
from lapwing.survey.report_store import OTHER_SURVEY, TAKEN_OVER, Invited, Kept

_APPLICATION = 0x4C575356  # LWSV
_CHECKPOINT_EVERY = 256  # commits
_MIX_EVERY = 16  # commits of one process, and at least a tenth of all reports
_SCHEMA = (
    "CREATE TABLE survey (one INTEGER PRIMARY KEY CHECK (one = 1), id TEXT NOT NULL, key TEXT NOT NULL) STRICT",
    "CREATE TABLE reports (nonce BLOB PRIMARY KEY, report BLOB NOT NULL) STRICT, WITHOUT ROWID",
    "CREATE TABLE invitations (hash BLOB PRIMARY KEY, used INTEGER NOT NULL) STRICT, WITHOUT ROWID",
)
_NEXT_STEP = {
    sqlite3.SQLITE_BUSY: "Another process kept it locked for too long. Send again.",
    sqlite3.SQLITE_FULL: "The disk is full. Free some space.",
    sqlite3.SQLITE_READONLY: "It cannot be written. Give this user write access to the file and its folder.",
    sqlite3.SQLITE_CANTOPEN: "It cannot be opened. Give this user read and write access to the file and its folder.",
    sqlite3.SQLITE_NOTADB: "It is damaged or no store of a survey. Put back its newest copy, or name another file.",
    sqlite3.SQLITE_CORRUPT: "It is damaged. Put back its newest copy.",
}


class SqliteSurveyStore:
    """The connection to one file, which is created when it is first used. Without a path, reports are in memory."""

    _connection: sqlite3.Connection | None = None

    def __init__(self, path: Path | str | None = None, *, timeout: float = 30.0) -> None:
        self.path = None if path is None else Path(path)
        self._timeout = timeout
        self._lock = threading.Lock()
        self._survey: str | None = None
        self._commits = 0
        self._unmixed, self._mix_at = 0, 1  # what a process that was killed left is mixed with the first commit

    @property
    def name(self) -> str:
        return "memory" if self.path is None else str(self.path)

    def prepare(self, survey: str, key: str) -> str:
        with self._writing() as connection:
            self._survey = survey
            row = connection.execute("SELECT id, key FROM survey").fetchone()
            if row is None:
                connection.execute("INSERT INTO survey VALUES (1, ?, ?)", (survey, key))
                return key
            if row[0] != survey:
                used = "SELECT EXISTS (SELECT 1 FROM reports) OR EXISTS (SELECT 1 FROM invitations)"
                if connection.execute(used).fetchone()[0]:
                    raise Misconfigured(OTHER_SURVEY.format(name=self.name))
                connection.execute("UPDATE survey SET id = ?", (survey,))
            return str(row[1])

    def survey(self) -> str | None:
        with self._held() as connection:
            row = connection.execute("SELECT id FROM survey").fetchone()
            return str(row[0]) if row else None

    def add(self, nonce: bytes, report: bytes, invitation: bytes | None = None) -> Kept:
        with self._writing() as connection:
            bound = connection.execute("SELECT id FROM survey").fetchone()
            if self.path is not None and bound != (self._survey,):  # memory has no other process to take it over
                raise StoreFailed(TAKEN_OVER.format(name=self.name))
            found = connection.execute("SELECT report FROM reports WHERE nonce = ?", (nonce,)).fetchone()
            if found is not None:
                return Kept.ALREADY if found[0] == report else Kept.NONCE_TAKEN
            if invitation is not None:
                used = connection.execute("SELECT used FROM invitations WHERE hash = ?", (invitation,)).fetchone()
                if used is None or used[0]:
                    return Kept.INVITATION_UNKNOWN if used is None else Kept.INVITATION_USED
                connection.execute("UPDATE invitations SET used = 1 WHERE hash = ?", (invitation,))
            connection.execute("INSERT INTO reports VALUES (?, ?)", (nonce, report))
        return Kept.STORED

    def count(self) -> int:
        with self._held() as connection:
            return int(connection.execute("SELECT COUNT(*) FROM reports").fetchone()[0])

    def reports(self) -> list[bytes]:
        with self._held() as connection:
            return [row[0] for row in connection.execute("SELECT report FROM reports ORDER BY nonce")]

    def invite(self, hashes: Iterable[bytes]) -> None:
        with self._writing() as connection:
            connection.executemany("INSERT OR IGNORE INTO invitations VALUES (?, 0)", [(code,) for code in hashes])

    def invited(self) -> Invited:
        with self._held() as connection:
            return Invited(*connection.execute("SELECT COUNT(*), COALESCE(SUM(used), 0) FROM invitations").fetchone())

    def close(self) -> None:
        with self._lock:
            if self._connection is not None and self.path is not None:
                if self._unmixed:
                    self._mix(self._connection)
                self._connection.close()
                self._connection = None

    def __del__(self) -> None:
        if self._connection is not None:
            self._connection.close()

    @contextmanager
    def _held(self) -> Iterator[sqlite3.Connection]:
        """The connection, for one thread at a time."""
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = self._connect()
                yield self._connection
            except (sqlite3.Error, OSError) as error:
                raise StoreFailed(f"{self.name} could not be used. {_next_step(error)}") from error

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._held() as connection:
            with _transaction(connection):
                yield connection
            if self.path is None:
                return
            self._commits += 1
            self._unmixed += 1
            if mixed := self._unmixed >= self._mix_at:
                self._mix(connection)
            if mixed or self._commits % _CHECKPOINT_EVERY == 0:
                self._checkpoint(connection)

    def _connect(self) -> sqlite3.Connection:
        if self.path is not None:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with suppress(FileExistsError):  # only its owner may read it
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        connection = sqlite3.connect(
            self.path or ":memory:", timeout=self._timeout, isolation_level=None, check_same_thread=False
        )
        try:
            self._begin_with(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _begin_with(self, connection: sqlite3.Connection) -> None:
        if self.path is None:
            for statement in _SCHEMA:
                connection.execute(statement)
            return
        owner = connection.execute("PRAGMA application_id").fetchone()[0]
        if owner != _APPLICATION and connection.execute("SELECT COUNT(*) FROM sqlite_schema").fetchone()[0]:
            raise Misconfigured(f"{self.path} is a database of another program. Name another file with --store.")
        if str(connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]) != "wal":
            raise StoreFailed(f"{self.path} is not on a local disk. Put it on one.")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute("PRAGMA journal_size_limit = 0")  # a log that starts again is cut off, not written over
        connection.execute("PRAGMA secure_delete = ON")  # nor are old rows left behind
        connection.execute("PRAGMA temp_store = MEMORY")
        if owner != _APPLICATION:
            with _transaction(connection):
                if not connection.execute("SELECT COUNT(*) FROM sqlite_schema").fetchone()[0]:
                    for statement in _SCHEMA:
                        connection.execute(statement)
                    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)  # the file's name is durable too
            finally:
                os.close(folder)

    def _mix(self, connection: sqlite3.Connection) -> None:
        """Writes all rows anew in the order of their random names. Failing is no harm: it is tried again later."""
        with suppress(sqlite3.Error):
            with _transaction(connection):
                for table, name in (("reports", "nonce"), ("invitations", "hash")):
                    connection.execute(f"CREATE TEMP TABLE mixed AS SELECT * FROM {table}")
                    connection.execute(f"DELETE FROM {table}")
                    connection.execute(f"INSERT INTO {table} SELECT * FROM mixed ORDER BY {name}")
                    connection.execute("DROP TABLE mixed")
                total = connection.execute("SELECT COUNT(*) FROM reports").fetchone()[0]
            self._unmixed, self._mix_at = 0, max(_MIX_EVERY, total // 10)

    def _checkpoint(self, connection: sqlite3.Connection) -> None:
        """Moves the log into the file. Failing is no harm: the commits stay in the log."""
        with suppress(sqlite3.Error):
            connection.execute("BEGIN IMMEDIATE")
            try:
                with closing(sqlite3.connect(self.name, timeout=self._timeout)) as second:
                    second.execute("PRAGMA fullfsync = ON")
                    second.execute("PRAGMA wal_checkpoint(PASSIVE)")
            finally:
                connection.execute("ROLLBACK")


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """One write transaction: committed at the end, or rolled back."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _next_step(error: Exception) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if isinstance(error, OSError):
        return f"{error.strerror}. Give this user read and write access to the file and its folder."
    return _NEXT_STEP.get(code, "The disk failed, or the file was changed by another program. Check both.")
