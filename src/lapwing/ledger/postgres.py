"""A ledger in a PostgreSQL database, shared by any number of servers, also behind PgBouncer in transaction mode.

One writer:  a transaction begins by locking the one row of `head`; who gets the lock reads the newest commit. While the
             tables are made, a lock of the transaction on the schema's name takes its place.
Durable:     a commit does not wait for the disk while it has the lock. Right after, outside of the lock, a second
             transaction with synchronous_commit = on looks whether the entry is there and commits, and only then does
             `writing` end. The log is written in order, so that commit puts the entry on disk, and every entry before
             it; with synchronous standbys, on theirs: a wait for them that somebody cancels ends with a warning, and
             then it is done again. Threads share that commit, and processes the server's flush.
Crash:       an entry that was committed and not yet flushed is gone after a crash of the server. The look finds this:
             it runs in the transaction that flushes, so on the server that has come back.
In doubt:    if the connection is lost in a commit, or the server does not reply, the store connects again and takes the
             lock, which the lost transaction holds until it has ended. Then the entry, with the random name of its
             writer, is there or never will be. If that is not known in time, InDoubt is raised and the caller takes it
             as charged.
Fencing:     `head` records its place: system identifier and timeline of the server, and the numbers of the database and
             of this table. A promoted replica, a recovery to a point in time or a restored dump has others, and is
             refused until the steward accepts it, as the owner of the tables: the role that charges cannot write
             there. A restored image of the disk has the same; the witness refuses it.
Refused:     a replica, a read-only server, one with synchronous_commit, fsync or full_page_writes off.
No session:  every setting is local to its transaction; no prepared statement, no lock of a session.
Forks:       a child connects by itself and never touches what its parent had open.
Checked by:  tests/ledger/test_postgres.py, tests/ledger/test_postgres_crash.py, tests/ledger/test_postgres_faults.py
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar
from weakref import WeakSet

import psycopg
from psycopg import errors

from lapwing.errors import LapwingError, LedgerFailed, Misconfigured
from lapwing.ledger.postgres_book import Mark, PostgresBook, newest_entries
from lapwing.ledger.postgres_server import BEGIN, FACTS, Link, failure, moved_server, without_doubt
from lapwing.ledger.store import CLOSED, Gate, InDoubt, Row
from lapwing.noise.bits import SYSTEM
from lapwing.postgres import PostgresAddress

SCHEMA = "lapwing"
_PAUSE = 0.1  # seconds between two attempts to reach a server that was lost
_LOCKS = 0x4C415057  # "LAPW": the first half of the number that is locked while tables are made
_BEGIN_TO_READ = BEGIN.replace("READ COMMITTED", "REPEATABLE READ READ ONLY")
_LONGEST_IDLE = 10.0  # seconds a process that hangs may keep others waiting

T = TypeVar("T")


class PostgresStore:
    """The connections to one ledger."""

    files: tuple[Path, ...] = ()

    def __init__(self, address: PostgresAddress, *, timeout: float = 30.0, moved: bool = False) -> None:
        self.name = address.name
        self.opened = 0
        self.note = ""
        """How many connections there were; behind the same address, another server may have taken over in between."""
        self._address = address
        self._schema = address.schema or SCHEMA
        self._timeout = timeout
        self._moved = moved
        self._closed = False
        self._apart()
        _STORES.add(self)

    def _apart(self) -> None:
        """The state of one process, before anything is open."""
        self._gate, self._sync_gate = Gate(), Gate()
        self._link: Link | None = None
        self._sync_link: Link | None = None
        self._durable = 0
        """An entry up to which all are on disk."""
        self._waiting: deque[Mark] = deque()
        """Entries that are committed and not yet known to be on disk."""
        self._landed: dict[Mark, bool] = {}

    @property
    def state(self) -> Hashable:
        with self.reading() as book:
            return self.opened, book.head()

    def exists(self) -> bool:
        with self.reading() as book:
            return not book.is_empty()

    def prepare(self) -> None:
        """The tables are made with the first entry, in one transaction."""

    @contextmanager
    def writing(self, *, durable: bool = True) -> Iterator[PostgresBook]:
        self._sync_gate.refuse_interrupted()  # its charge would have to wait for the very thread that it interrupts
        writer = f"{SYSTEM.integer(128):032x}"
        with self._gate.enter():
            link, (server, rows) = self._begin(self._lock)
            book = PostgresBook(link, self._schema, writer=writer, server=server, durable=self._durable, rows=rows)
            with self._undone_on_error(link):
                yield book
                if self._moved and book.mark is not None:
                    self._accept(book)
            self._commit(link, book.mark)
        if durable and book.mark is not None:
            self._make_durable(book.mark)

    def _accept(self, book: PostgresBook) -> None:
        try:
            book.accept_server()
        except errors.InsufficientPrivilege:
            raise Misconfigured(
                f"Only the owner of the tables of the ledger {self.name} may accept its server. Run `lapwing ledger "
                "accept` as that role, for example with PGUSER=lapwing_owner. Nothing was accepted."
            ) from None

    @contextmanager
    def reading(self) -> Iterator[PostgresBook]:
        with self._gate.enter():
            link, _ = self._begin(self._look)
            with self._undone_on_error(link):
                yield PostgresBook(link, self._schema)
            self._give_up(link)

    @contextmanager
    def inspecting(self) -> Iterator[PostgresBook]:
        if self._closed:
            raise Misconfigured(CLOSED)
        link = _connected(self._address, self._timeout)
        try:  # also a ledger that is damaged, or on a replica
            link.batch(_BEGIN_TO_READ)
            yield PostgresBook(link, self._schema)
        except psycopg.Error as error:
            raise failure(error, self.name) from None
        finally:
            link.close()

    def sync(self) -> None:
        self._flush(None)

    def close(self) -> None:
        self._closed = True
        for gate in (self._gate, self._sync_gate):
            with gate.lock:
                self.drop()

    def drop(self) -> None:
        """Ends the connections; the next use opens others."""
        links, self._link, self._sync_link = (self._link, self._sync_link), None, None
        for link in links:
            if link is not None:
                link.close()

    def _begin(self, begin: Callable[[Link], T]) -> tuple[Link, T]:
        """A transaction. A connection that was lost since it was used last is replaced: nothing depends on it."""
        fresh = self._link is None
        link = self._ready()
        try:
            with self._undone_on_error(link):
                return link, begin(link)
        except LedgerFailed:
            if fresh or self._link is not None:
                raise
        return self._begin(begin)

    def _ready(self) -> Link:
        if self._closed:
            raise Misconfigured(CLOSED)
        if self._link is None:
            self._link = self._connect()
            self.opened += 1
        return self._link

    def _connect(self) -> Link:
        """A connection to a server that can keep a ledger, and has on disk what is there."""
        link = _connected(self._address, self._timeout)
        try:
            with self._undone_on_error(link):
                ((row,),) = link.batch(BEGIN, FACTS, "ROLLBACK")
                link.facts(row, self.name)
                self._durable, _ = self._flush_through(link, ())
        except BaseException:
            link.close()
            raise
        return link

    def _lock(self, link: Link) -> tuple[str, list[Row]]:
        """Begins to write; gives back where, and the entries that every writer looks at."""
        while True:
            try:
                (row,), heads, rows = link.batch(
                    *(BEGIN, FACTS, self._limits(), f"{self._where()} FOR UPDATE"),
                    newest_entries(self._schema, max(self._durable, 1)),
                )
            except (errors.UndefinedTable, errors.InvalidSchemaName):
                link.batch("ROLLBACK")
                (row,), _ = link.batch(
                    *(BEGIN, FACTS, self._limits()),
                    f"SELECT pg_advisory_xact_lock({_LOCKS}, hashtext('{self._schema}'))",
                )
                heads, rows, exists = [], [], link.run(f"SELECT to_regclass('{self._schema}.head') IS NOT NULL")[0][0]
                if exists:  # by another process, while this one waited
                    link.batch("ROLLBACK")
                    continue
            server = self._server(link, row, heads)
            if self._durable or not heads or not heads[0][1]:
                return server, rows
            link.batch("ROLLBACK")  # the ledger was made since this process connected
            self._durable, _ = self._flush_through(link, ())

    def _look(self, link: Link) -> None:
        link.batch(_BEGIN_TO_READ, self._limits())

    def _where(self) -> str:
        return f"SELECT server, seq, tableoid::text FROM {self._schema}.head"

    def _server(self, link: Link, facts: Row, heads: list[Row]) -> str:
        """The server, if it can keep a ledger and is the one that this ledger was last written on."""
        server = link.facts(facts, self.name).server
        for recorded, _, table in heads:
            if recorded != f"{server}.{table}" and not self._moved:
                raise moved_server(self.name, recorded, f"{server}.{table}")
        return server

    def _limits(self, durable: str = "off") -> str:
        most, idle = round(1000 * self._timeout), round(1000 * min(self._timeout, _LONGEST_IDLE))
        return (
            f"SET LOCAL synchronous_commit = {durable}; SET LOCAL lock_timeout = {most}; "
            f"SET LOCAL statement_timeout = {most + 1000}; SET LOCAL idle_in_transaction_session_timeout = {idle}"
        )

    @contextmanager
    def _undone_on_error(self, link: Link) -> Iterator[None]:
        """Rolls back whatever fails, and says what failed."""
        try:
            yield
        except psycopg.Error as error:
            self._give_up(link)
            raise failure(error, self.name) from None
        except BaseException:
            self._give_up(link)
            raise

    def _give_up(self, link: Link) -> None:
        if not link.reset():
            link.close()
            self._link = None if self._link is link else self._link
            self._sync_link = None if self._sync_link is link else self._sync_link

    def _commit(self, link: Link, mark: Mark | None) -> None:
        try:
            link.commit()
        except psycopg.Error as error:
            lost = link.lost
            self._give_up(link)
            if mark is None or not lost:
                raise failure(error, self.name) from None
            committed = self._patiently(lambda: self._was_committed(mark))
        except BaseException:
            self._give_up(link)
            raise
        else:
            committed = True
        if not committed:
            raise LedgerFailed(
                f"The connection to the ledger {self.name} was lost before the commit. Nothing was written; ask again."
            )

    def _was_committed(self, mark: Mark) -> bool:
        """Whether a transaction whose connection was lost has committed. The lock says that it has ended."""
        seq, digest, writer = mark
        link, (_, rows) = self._begin(self._lock)
        with self._undone_on_error(link):
            found = PostgresBook(link, self._schema).writer(seq, digest) if rows else None  # without rows, no tables
        self._give_up(link)
        return found == writer

    def _make_durable(self, mark: Mark) -> None:
        if not self._patiently(lambda: self._flush(mark)):
            raise LedgerFailed(
                f"The server of the ledger {self.name} stopped before the charge was on its disk. Nothing was written; "
                "ask again."
            )

    def _patiently(self, act: Callable[[], T]) -> T:
        """Acts as soon as the server can be reached again; in doubt if it takes too long."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                return act()
            except LapwingError as error:
                if isinstance(error, Misconfigured) or self._closed or time.monotonic() > deadline:
                    raise InDoubt(without_doubt(error, self.name)) from None
                time.sleep(_PAUSE)

    def _flush(self, mark: Mark | None) -> bool:
        """Puts all commits on disk; False if this one is not among them. One thread does so for all that wait."""
        if mark is not None:
            self._waiting.append(mark)
        with self._sync_gate.enter():
            if mark is not None and mark in self._landed:
                return self._landed.pop(mark)
            marks = tuple(self._waiting)
            try:
                if self._sync_link is None:
                    self._sync_link = self._connect()
                with self._undone_on_error(self._sync_link):
                    self._durable, found = self._flush_through(self._sync_link, marks)
            except BaseException:
                if mark is not None:
                    self._waiting.remove(mark)
                raise
            for other in marks:
                self._waiting.remove(other)
                self._landed[other] = other in found
            return mark is None or self._landed.pop(mark)

    def _flush_through(self, link: Link, marks: tuple[Mark, ...]) -> tuple[int, set[Mark]]:
        """The last entry on disk, and which of these entries are there."""
        numbers = ", ".join(str(int(seq)) for seq, _, _ in marks) or "NULL"
        link.warned = False
        try:
            (row,), heads, entries, _ = link.batch(
                *(BEGIN, FACTS, self._limits("on"), self._where()),
                f"SELECT seq, hash, writer FROM {self._schema}.entry WHERE seq IN ({numbers})",
                *("SELECT pg_logical_emit_message(true, 'lapwing', ''::text)", "COMMIT"),
            )
        except (errors.UndefinedTable, errors.InvalidSchemaName):
            link.batch("ROLLBACK")
            return 0, set()
        self._server(link, row, heads)
        if link.warned:
            raise LedgerFailed(
                f"The standbys of the ledger {self.name} have not confirmed a charge. No answer is given."
            )
        return (heads[0][1] if heads else 0), {(seq, digest, writer) for seq, digest, writer in entries}

    def __del__(self) -> None:
        try:  # noqa: SIM105 (when the interpreter ends, `suppress` may be gone before this)
            self.drop()
        except (AttributeError, TypeError):
            pass


def _connected(address: PostgresAddress, timeout: float) -> Link:
    try:
        return Link(address, timeout)
    except psycopg.Error as error:
        raise failure(error, address.name) from None


_STORES: WeakSet[PostgresStore] = WeakSet()


def _start_over() -> None:
    """In the child of a fork: its parent's connections are kept, unused and open, and it makes its own."""
    for store in list(_STORES):
        store.drop()
        store._apart()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_over)
