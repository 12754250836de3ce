"""A connection to a PostgreSQL server, what the server must be to keep a ledger, and its failures in words."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

import psycopg

from lapwing.errors import LapwingError, LedgerFailed, Misconfigured
from lapwing.ledger.store import LOCKED, Row
from lapwing.postgres import PostgresAddress

OLDEST = 15
_PATIENCE = 5.0  # seconds after which a server that does not answer is given up, beyond those it was allowed

BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL search_path = pg_catalog, pg_temp"
"""Begins a transaction in which no other schema's functions are found, whatever the user's settings are."""

FACTS = """SELECT pg_is_in_recovery(), current_setting('transaction_read_only'), current_setting('synchronous_commit'),
  current_setting('fsync'), current_setting('full_page_writes'), current_setting('server_version_num')::integer / 10000,
  current_setting('server_encoding'), CASE WHEN NOT pg_is_in_recovery() THEN (SELECT system_identifier::text || '/' ||
  left(pg_walfile_name(pg_current_wal_lsn()), 8) || '/' || oid::text FROM pg_control_system(), pg_database
  WHERE datname = current_database()) END"""


class ServerFacts(NamedTuple):
    """What a server says of itself, in the order of FACTS."""

    in_recovery: bool
    read_only: str
    synchronous_commit: str
    fsync: str
    full_page_writes: str
    version: int
    encoding: str
    server: str
    """The system identifier, which a copy shares, the timeline, which it does not share once it was promoted, and the
    number of the database, which another one on the same server does not share."""

    def refusal(self) -> str | None:
        """Why it cannot keep a ledger; None if it can."""
        rules = (
            (self.in_recovery, "is a replica, or is still recovering", "Name the primary server"),
            (self.read_only != "off", "is read-only", "Set default_transaction_read_only = off for this user"),
            (
                self.synchronous_commit == "off",
                "has synchronous_commit off, and would lose charges in a crash",
                "Set synchronous_commit = on for the server, the database and this user",
            ),
            (self.fsync != "on", "has fsync off, and would lose charges in a crash", "Set fsync = on"),
            (
                self.full_page_writes != "on",
                "has full_page_writes off, and would damage the ledger in a crash",
                "Set full_page_writes = on",
            ),
            (self.version < OLDEST, f"is PostgreSQL {self.version}", f"Use version {OLDEST} or later"),
            (self.encoding != "UTF8", f"keeps text as {self.encoding}", "Use a database with the encoding UTF8"),
        )
        return next((f"it {wrong}. {fix}." for bad, wrong, fix in rules if bad), None)


class _Patient(psycopg.Connection[Row]):
    """A connection that does not wait without end for a server that hangs."""

    patience = 60.0

    def wait(self, gen: Generator[Any, Any, Any], *more: Any, **options: Any) -> Any:
        return super().wait(_until(gen, time.monotonic() + self.patience), *more, **options)


def _until(gen: Generator[Any, Any, Any], deadline: float) -> Generator[Any, Any, Any]:
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() > deadline:
                raise psycopg.OperationalError("the server does not answer")
            wanted = gen.send(ready)
    except StopIteration as end:
        return end.value


class Link:
    """A connection of one process. It keeps no session state, so that a pooler may give each transaction another."""

    def __init__(self, address: PostgresAddress, timeout: float, title: str = "lapwing ledger") -> None:
        self._process = os.getpid()
        settings: dict[str, Any] = {
            "connect_timeout": max(2, round(min(timeout, 10))),
            "keepalives_idle": 5,
            "keepalives_interval": 2,
            "tcp_user_timeout": round(1000 * (timeout + _PATIENCE)),
            "application_name": title,
            "client_encoding": "UTF8",
            **address.parameters,
        }
        try:
            self._connection = _Patient.connect(autocommit=True, prepare_threshold=None, **settings)
        except psycopg.ProgrammingError:
            raise Misconfigured(
                f"The address {address.name} has a parameter that libpq does not know. Remove it."
            ) from None
        self._connection.patience = timeout + _PATIENCE
        self.warned = False
        """Whether the server warned of something since this was set to False."""
        self._connection.add_notice_handler(self._hear)

    def execute(self, statement: str, values: Sequence[object] = ()) -> psycopg.Cursor[Row]:
        """The cursor of one statement, or of several without values."""
        if self._process != os.getpid():
            raise LedgerFailed("This process was forked in the middle of a question. Ask again. No answer is given.")
        return self._connection.execute(statement.encode(), values or None)

    def run(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        cursor = self.execute(statement, values)
        return cursor.fetchall() if _has_rows(cursor) else []

    def batch(self, *statements: str) -> list[list[Row]]:
        """Runs statements in one round trip; the rows of each that has some."""
        cursor = self.execute("; ".join(statements))
        results = []
        while True:
            if _has_rows(cursor):
                results.append(cursor.fetchall())
            if not cursor.nextset():
                return results

    def commit(self) -> None:
        """Ends the transaction; an error if the server had given it up."""
        if self.execute("COMMIT").statusmessage != "COMMIT":
            raise psycopg.errors.InFailedSqlTransaction("it was rolled back")

    def facts(self, row: Row, name: str) -> ServerFacts:
        """What the server says, if it can keep a ledger."""
        facts = ServerFacts(*row)
        if (why := facts.refusal()) is not None:
            raise Misconfigured(f"The server of the ledger {name} cannot keep it: {why}")
        return facts

    @property
    def lost(self) -> bool:
        """Whether it can no longer be used: it has ended, or the server did not reply to what it was told last."""
        unanswered = (psycopg.pq.TransactionStatus.ACTIVE, psycopg.pq.TransactionStatus.UNKNOWN)
        return bool(self._connection.closed) or self._connection.info.transaction_status in unanswered

    @property
    def inherited(self) -> bool:
        """Whether it belongs to the parent of this process."""
        return self._process != os.getpid()

    def reset(self) -> bool:
        """Ends the transaction without a commit. False if the connection must be given up."""
        if self._process != os.getpid():
            return False
        try:
            if self._connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                self._connection.execute("ROLLBACK")
        except psycopg.Error:
            return False
        return self._connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE

    def close(self) -> None:
        """Ends the connection, unless it is that of a parent process, which still uses it."""
        if self._process == os.getpid():
            self._connection.close()
        else:
            _INHERITED.append(self._connection)

    def _hear(self, notice: psycopg.errors.Diagnostic) -> None:
        self.warned = self.warned or notice.severity_nonlocalized == "WARNING"


def _has_rows(cursor: psycopg.Cursor[Row]) -> bool:
    """Whether the statement gave a table, also an empty one."""
    return cursor.pgresult is not None and cursor.pgresult.status == psycopg.pq.ExecStatus.TUPLES_OK


_INHERITED: list[Any] = []

_LOST = (
    "the connection was lost, or the server cannot be reached. Check that it runs and can be reached, and ask again."
)
_NEXT_STEP = {
    "25006": "the server is read-only or a replica. Name the primary, and set default_transaction_read_only = off.",
    "40": "two transactions met. Ask again.",
    "42501": "this user lacks a privilege. Grant those of the page `A ledger that many servers share`.",
    "42601": "the name of its schema is a word of SQL. Name another one: postgresql://HOST/DATABASE?schema=NAME.",
    "42P01": "its tables are damaged or are not those of a ledger. Restore its newest backup; do not start a new one.",
    "42703": "its tables are damaged or are not those of a ledger. Restore its newest backup; do not start a new one.",
    "42P07": "its schema has tables of another program. Name another schema: postgresql://HOST/DATABASE?schema=NAME.",
    "53100": "the server's disk is full. Free some space and ask again.",
    "53300": "the server has no connection left. Ask again, or raise max_connections.",
    "53": "the server lacks memory or disk. Check it, then ask again.",
    "55P03": LOCKED,
    "57014": LOCKED,
    "25P03": "this process kept it locked for too long. Ask again.",
    "57P": _LOST,
    "08": _LOST,
    "P0001": "this is not the next entry. The ledger is append-only.",
    "23505": "this is not the next entry. The ledger is append-only.",
    "XX": "the server found its files damaged. Restore the newest backup; do not start a new one.",
}
_NOT_LET_IN = (
    "the server refused this user or password, has no such database, or has no connection left. "
    "Set PGUSER and PGPASSWORD, or a line in ~/.pgpass, and check the name of the database."
)


def next_step(error: psycopg.Error) -> str:
    """What went wrong, and what to do about it. Nothing of the server's own text, which may quote rows or users."""
    link = error.pgconn  # a failed connection has no code, and its words depend on the server's language
    if error.sqlstate is None and link is not None and (link.needs_password or link.used_password):
        return _NOT_LET_IN
    code = error.sqlstate or "08"
    prefixes = sorted((prefix for prefix in _NEXT_STEP if code.startswith(prefix)), key=len)
    return _NEXT_STEP[prefixes[-1]] if prefixes else f"PostgreSQL reports {code}. Check the server, then ask again."


def failure(error: psycopg.Error, name: str) -> LedgerFailed:
    return LedgerFailed(f"The ledger {name} failed: {next_step(error)} No answer is given.")


def moved_server(name: str, recorded: str, now: str) -> Misconfigured:
    return Misconfigured(
        f"The ledger {name} was last written on server {recorded} and is now on server {now}: a backup was restored or "
        "a replica promoted, and its last charges may be missing. Nothing is served. Put back the server that has "
        "them. If you know that none is missing, run `lapwing ledger accept`."
    )


def without_doubt(error: LapwingError, name: str) -> str:
    """The message when it is unknown whether a commit was made."""
    return (
        f"The connection to the ledger {name} was lost while a charge was written, and whether it was made cannot be "
        f"looked up yet: take it as charged. No answer is given. {error}"
    )
