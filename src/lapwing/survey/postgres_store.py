"""Reports in a PostgreSQL database, for several servers of one survey, also behind PgBouncer in transaction mode.

Durable:    every commit has synchronous_commit = on, and a server that syncs nothing is refused.
Once:       the nonce is the primary key. Of two at once the second waits for the first, and finds its report.
One each:   an invitation is marked used on condition that it was not, in the transaction of the report.
One survey: `add` holds the row of the survey until it commits; who gives the store to another survey waits for that.
In doubt:   if the connection is lost in a commit, the store connects again, waits until that transaction has ended, and
            looks whether the report is there.
No order:   PostgreSQL notes beside each row the transaction that wrote it, and keeps rows in the order they came. So
            every so often, and when the store is closed, one transaction writes all rows anew in the order of their
            nonces and hashes: then they have one transaction and that order. Until then, and in the server's log and
            its backups, the server's administrators can see order and connection.
Checked by: tests/survey/test_stores.py
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

import psycopg

from lapwing.errors import Misconfigured, StoreFailed
from lapwing.ledger.postgres_server import BEGIN, FACTS, Link, ServerFacts, next_step
from lapwing.postgres import PostgresAddress
from lapwing.survey.report_store import OTHER_SURVEY, TAKEN_OVER, Invited, Kept

SURVEY_SCHEMA = "lapwing_survey"
_MIX_EVERY = 256  # reports of one process, and at least a tenth of all
_LOCKS = 0x4C575356  # "LWSV"
_TABLES = (
    "CREATE TABLE {schema}.survey (one integer PRIMARY KEY CHECK (one = 1), id text NOT NULL, key text NOT NULL)",
    "CREATE TABLE {schema}.reports (nonce bytea PRIMARY KEY, report bytea NOT NULL)",
    "CREATE TABLE {schema}.invitations (hash bytea PRIMARY KEY, used boolean NOT NULL)",
)


class PostgresSurveyStore:
    """The connections to one survey's tables: one for each thread that is at work. Made when it is first used."""

    def __init__(self, address: PostgresAddress, *, timeout: float = 30.0) -> None:
        self.name = address.name
        self._address = address
        self._schema = address.schema or SURVEY_SCHEMA
        self._bound_to, self._reports, self._invitations = (
            f"{self._schema}.{table}" for table in ("survey", "reports", "invitations")
        )
        self._timeout = timeout
        self._idle: list[Link] = []
        self._survey: str | None = None
        self._unmixed, self._mix_at = 0, _MIX_EVERY

    def prepare(self, survey: str, key: str) -> str:
        with self._writing() as link:
            link.run(f"SELECT pg_advisory_xact_lock({_LOCKS}, hashtext('{self._schema}'))")
            if not self._has_tables(link):
                self._create_tables(link)
            rows = link.run(f"SELECT id, key FROM {self._bound_to} FOR UPDATE")
            if not rows:
                link.run(f"INSERT INTO {self._bound_to} VALUES (1, %s, %s)", [survey, key])
            elif rows[0][0] != survey:
                used = f"EXISTS (SELECT FROM {self._reports}) OR EXISTS (SELECT FROM {self._invitations})"
                if link.run(f"SELECT {used}")[0][0]:
                    raise Misconfigured(OTHER_SURVEY.format(name=self.name))
                link.run(f"UPDATE {self._bound_to} SET id = %s", [survey])
        self._survey = survey
        return str(rows[0][1]) if rows else key

    def survey(self) -> str | None:
        with self._reading() as link:
            rows = link.run(f"SELECT id FROM {self._bound_to}") if self._has_tables(link) else []
            return str(rows[0][0]) if rows else None

    def add(self, nonce: bytes, report: bytes, invitation: bytes | None = None) -> Kept:
        try:
            with self._writing() as link:
                self._bound(link, "SHARE")
                refusal = self._keep(link, nonce, report, invitation)
                if refusal is not None:
                    raise _NotKept(refusal)
        except _NotKept as refused:
            return refused.fate
        except _Lost as lost:
            try:
                kept = self._is_kept(nonce, report)
            except StoreFailed:
                raise StoreFailed(
                    f"{self.name} could not be used: {lost} Whether the report was kept is not known: send the same "
                    "again, and it is kept once."
                ) from None
            if not kept:
                raise StoreFailed(f"{self.name} could not be used: {lost} Nothing was kept: send again.") from None
        self._unmixed += 1
        if self._unmixed >= self._mix_at:
            self.mix()
        return Kept.STORED

    def count(self) -> int:
        with self._reading() as link:
            return int(link.run(f"SELECT count(*) FROM {self._reports}")[0][0])

    def reports(self) -> list[bytes]:
        with self._reading() as link:
            return [row[0] for row in link.run(f"SELECT report FROM {self._reports} ORDER BY nonce")]

    def invite(self, hashes: Iterable[bytes]) -> None:
        with self._writing() as link:
            insert = f"INSERT INTO {self._invitations} SELECT unnest(%s::bytea[]), false ON CONFLICT DO NOTHING"
            link.run(insert, [sorted(hashes)])

    def invited(self) -> Invited:
        with self._reading() as link:
            return Invited(*link.run(f"SELECT count(*), count(*) FILTER (WHERE used) FROM {self._invitations}")[0])

    def mix(self) -> None:
        """Writes all rows anew, in one transaction and in the order of their random names."""
        with self._writing() as link:
            self._bound(link, "UPDATE")
            for table, name in ((self._reports, "nonce"), (self._invitations, "hash")):
                old = f"WITH old AS (DELETE FROM {table} RETURNING *)"
                link.run(f"{old} INSERT INTO {table} SELECT * FROM old ORDER BY {name}")
            total = link.run(f"SELECT count(*) FROM {self._reports}")[0][0]
        self._unmixed, self._mix_at = 0, max(_MIX_EVERY, total // 10)

    def close(self) -> None:
        if self._unmixed:
            with suppress(StoreFailed, Misconfigured):
                self.mix()
        while self._idle:
            self._idle.pop().close()

    def _keep(self, link: Link, nonce: bytes, report: bytes, invitation: bytes | None) -> Kept | None:
        """Writes a report, or returns why it was not written."""
        insert = f"INSERT INTO {self._reports} VALUES (%s, %s) ON CONFLICT DO NOTHING RETURNING true"
        if not link.run(insert, [nonce, report]):
            rows = link.run(f"SELECT report FROM {self._reports} WHERE nonce = %s", [nonce])
            return Kept.ALREADY if rows == [(report,)] else Kept.NONCE_TAKEN
        spend = f"UPDATE {self._invitations} SET used = true WHERE hash = %s AND NOT used RETURNING true"
        if invitation is not None and not link.run(spend, [invitation]):
            rows = link.run(f"SELECT used FROM {self._invitations} WHERE hash = %s", [invitation])
            return Kept.INVITATION_USED if rows else Kept.INVITATION_UNKNOWN
        return None

    def _bound(self, link: Link, lock: str) -> None:
        """Holds the survey that this store was prepared for."""
        if link.run(f"SELECT id FROM {self._bound_to} FOR {lock}") != [(self._survey,)]:
            raise StoreFailed(TAKEN_OVER.format(name=self.name))

    def _is_kept(self, nonce: bytes, report: bytes) -> bool:
        """Whether a report whose connection was lost in the commit was kept: the lock says that it has ended."""
        with self._writing() as link:
            self._bound(link, "UPDATE")
            return link.run(f"SELECT report FROM {self._reports} WHERE nonce = %s", [nonce]) == [(report,)]

    def _has_tables(self, link: Link) -> bool:
        return bool(link.run(f"SELECT to_regclass('{self._bound_to}') IS NOT NULL")[0][0])

    def _create_tables(self, link: Link) -> None:
        if not link.run(f"SELECT to_regnamespace('{self._schema}') IS NOT NULL")[0][0]:
            link.run(f"CREATE SCHEMA {self._schema}")
        for statement in _TABLES:
            link.run(statement.replace("{schema}", self._schema))

    @contextmanager
    def _writing(self) -> Iterator[Link]:
        most = round(1000 * self._timeout)
        limits = f"SET LOCAL lock_timeout = {most}; SET LOCAL statement_timeout = {2 * most}"
        with self._held(f"{BEGIN}; SET LOCAL synchronous_commit = on; {limits}") as link:
            yield link
            try:
                link.commit()
            except psycopg.Error as error:
                if not link.lost:
                    raise
                raise _Lost(next_step(error)) from None

    @contextmanager
    def _reading(self) -> Iterator[Link]:
        with self._held(f"{BEGIN}; SET LOCAL transaction_read_only = on") as link:
            yield link

    @contextmanager
    def _held(self, begin: str) -> Iterator[Link]:
        """A connection in a transaction, which ends with it."""
        try:
            link = self._begin(begin)
            try:
                yield link
            finally:
                if link.reset():
                    self._idle.append(link)
                else:
                    link.close()
        except psycopg.Error as error:
            raise StoreFailed(f"{self.name} could not be used: {next_step(error)} Nothing was kept.") from None

    def _begin(self, begin: str) -> Link:
        """A transaction on an idle connection, if it is still there; otherwise on a new one."""
        while self._idle:
            with suppress(IndexError):
                link = self._idle.pop()
                if self._begins(link, begin):
                    return link
        link = Link(self._address, self._timeout, "lapwing survey")
        try:
            ((row,),) = link.batch(BEGIN, FACTS, "ROLLBACK")
            if (why := ServerFacts(*row).refusal()) is not None:
                raise Misconfigured(f"The server of {self.name} cannot keep reports: {why}")
            link.batch(begin)
        except BaseException:
            link.close()
            raise
        return link

    def _begins(self, link: Link, begin: str) -> bool:
        if not link.inherited:
            with suppress(psycopg.Error):
                link.batch(begin)
                return True
        link.close()
        return False


class _NotKept(Exception):
    """The transaction is taken back, and this is why."""

    def __init__(self, fate: Kept) -> None:
        super().__init__(fate)
        self.fate = fate


class _Lost(StoreFailed):
    """The connection was lost in a commit."""
