"""Sessions on a PostgreSQL server: every answer reads one snapshot, in a transaction that cannot write.

Guarantee:  nothing is left behind on the server: no table, function, prepared statement or setting. A query ends when
            its time is up, when Ctrl-C is pressed, and within seconds when this process or its network is gone.
Proof:      transactions are READ ONLY, and every setting is SET LOCAL, so that it ends with them, also behind a pooler
            that gives each transaction another session. Statements have no name. The server watches the client's socket
            while it works (client_connection_check_interval), and ends what exceeds statement_timeout, which
            follows from the question and what is declared (time_limit.py).
Names are resolved in pg_catalog first, so that no function or type of the database can take the place of a builtin one.
Temporary types would come before it, unless pg_temp is named behind it.
Checked by: tests/engines/test_postgres_session.py
"""

from __future__ import annotations

import ipaddress
import logging
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from lapwing.engines.interrupt import interruptible
from lapwing.engines.time_limit import LEAST
from lapwing.errors import Misconfigured
from lapwing.expressions.refusal import hide_errors
from lapwing.postgres import PostgresAddress, load_driver

_LOG = logging.getLogger("lapwing.engine")

OLDEST = 150_000
"""The server's version, as it counts: 15.0."""

_IDLE = 4  # connections that are kept
_SETTINGS = {
    "timezone": "UTC",
    "datestyle": "ISO, YMD",
    "intervalstyle": "postgres",
    "extra_float_digits": "1",
    "standard_conforming_strings": "on",
    "array_nulls": "on",
    "transform_null_equals": "off",
    "quote_all_identifiers": "off",
    "lock_timeout": "30s",
    "idle_in_transaction_session_timeout": "300s",
    "client_connection_check_interval": "2s",
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
    "jit": "off",
}
_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL search_path = pg_catalog, pg_temp; " + " ".join(
    f"SET LOCAL {name} = '{value}';" for name, value in _SETTINGS.items()
)


class ReadTransaction:
    """One transaction: it sees one state of the database."""

    def __init__(self, connection: Any, seconds: int) -> None:
        self._connection, self._seconds = connection, seconds

    def run(self, text: str, values: Sequence[Any] = (), *, seconds: int | None = None) -> Any:
        """A cursor with the result. Ctrl-C ends the query on the server, and so does its end of time."""
        driver = load_driver()
        if seconds not in (None, self._seconds):
            self._connection.execute(f"SET LOCAL statement_timeout = '{seconds}s'")
            self._seconds = seconds
        cursor = driver.RawCursor(self._connection)
        interruptible(lambda: cursor.execute(text, list(values)) if values else cursor.execute(text), self._cancel)
        return cursor

    def rows(self, text: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return list(self.run(text, values).fetchall())

    def parse(self, text: str) -> list[tuple[str, int]]:
        """The columns of a query and their types, by number. The server reads and checks the text, and plans nothing:
        planning looks at what the server knows of the rows."""
        connection, driver = self._connection.pgconn, load_driver()
        if connection.prepare(b"", text.encode()).status != driver.pq.ExecStatus.COMMAND_OK:
            raise driver.errors.SyntaxError("the server does not read the query")
        described = connection.describe_prepared(b"")
        return [(described.fname(i).decode(), described.ftype(i)) for i in range(described.nfields)]

    def _cancel(self) -> None:
        self._connection.cancel_safe(timeout=5)


class Connections:
    """Connections to one database, opened when they are needed; each thread and each process has its own."""

    def __init__(self, address: PostgresAddress, *, timeout: int = LEAST) -> None:
        self.address, self._seconds = address, timeout
        self._begin = f"{_BEGIN} SET LOCAL statement_timeout = '{timeout}s';"
        self._lock = threading.Lock()
        self._idle: list[Any] = []
        self._process = os.getpid()

    @contextmanager
    def begin(self) -> Iterator[ReadTransaction]:
        """A transaction. A connection that broke while it was idle is replaced before anything is read."""
        connection = self._begun()
        try:
            yield ReadTransaction(connection, self._seconds)
        except BaseException:
            self._end(connection, "ROLLBACK")
            raise
        self._end(connection, "COMMIT")

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        if self._process == os.getpid():
            for connection in idle:
                connection.close()

    def _begun(self) -> Any:
        driver = load_driver()
        while (connection := self._take()) is not None:
            try:
                connection.execute(self._begin)
                return connection
            except driver.Error as error:
                _LOG.debug("an idle connection was lost: %s", type(error).__name__)
                connection.close()
        connection = self._connect()
        with hide_errors(driver.Error, self._unreachable):
            try:
                connection.execute(self._begin)
            except driver.Error:
                connection.close()
                raise
        return connection

    def _take(self) -> Any:
        with self._lock:
            if self._process != os.getpid():  # the parent's connections are not ours
                self._idle, self._process = [], os.getpid()
            return self._idle.pop() if self._idle else None

    def _end(self, connection: Any, how: str) -> None:
        with suppress(load_driver().Error):
            connection.execute(how)
            with self._lock:
                if len(self._idle) < _IDLE and self._process == os.getpid():
                    self._idle.append(connection)
                    return
        connection.close()

    def _connect(self) -> Any:
        driver = load_driver()
        with hide_errors(driver.Error, self._unreachable):
            connection: Any = driver.connect(**parameters_of(self.address), autocommit=True, prepare_threshold=None)
        if connection.info.server_version < OLDEST:
            connection.close()
            raise Misconfigured(f"the server {self.address.name} is older than PostgreSQL 15. Upgrade it.")
        if connection.info.parameter_status("server_encoding") != "UTF8":
            connection.close()
            raise Misconfigured(f"the database {self.address.name} is not in UTF8. Copy it into one that is.")
        return connection

    def _unreachable(self, _: Exception) -> str:
        return (
            f"the database {self.address.name} cannot be reached, or does not let this user in. Check the address and "
            "the server; the password comes from PGPASSWORD, ~/.pgpass or a service file. Nothing was charged."
        )


def parameters_of(address: PostgresAddress) -> dict[str, Any]:
    """Parameters for libpq. A server elsewhere is reached over TLS, unless the address or PGSSLMODE says how."""
    parameters: dict[str, Any] = {"connect_timeout": "15", "keepalives_idle": "30", "application_name": "lapwing"}
    parameters |= dict(address.parameters) | {"client_encoding": "utf8"}
    if not {"sslmode", "service"} & set(parameters) and not {"PGSSLMODE", "PGSERVICE"} & set(os.environ):
        hosts = parameters.get("host") or os.environ.get("PGHOST", "")
        parameters["sslmode"] = "prefer" if all(map(_is_here, hosts.split(","))) else "require"
    return parameters


def _is_here(host: str) -> bool:
    if not host or host.startswith(("/", "@")) or host == "localhost":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False
