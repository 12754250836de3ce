"""Queries that must end on a PostgreSQL server: when their time is up, on Ctrl-C, and when their client is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import psycopg
import pytest

from lapwing.engines.postgres_session import Connections
from lapwing.postgres import read_address
from support.hosts import PostgresHost

SLEEP = "SELECT pg_sleep(30)"


def active_on(host: PostgresHost) -> int:
    """How many statements of the role the server works on."""
    text = "SELECT COUNT(*) FROM pg_stat_activity WHERE usename = %s AND state = 'active'"
    return int(host.run(text, host.user).fetchone()[0])


def wait_for(host: PostgresHost, many: int) -> bool:
    """Waits for the server, as long as a query could take."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if active_on(host) == many:
            return True
        time.sleep(0.05)
    return False


def assert_ends_in_time(host: PostgresHost, url: str) -> None:
    held = Connections(read_address(url), timeout=1)
    with pytest.raises(psycopg.errors.QueryCanceled), held.begin() as session:
        session.rows(SLEEP)
    assert wait_for(host, 0)
    held.close()


def assert_control_c_ends(host: PostgresHost, url: str) -> None:
    held, ended = Connections(read_address(url)), []

    def interrupt() -> None:
        wait_for(host, 1)
        os.kill(os.getpid(), signal.SIGINT)
        ended.append(wait_for(host, 0))  # before it would end by itself

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt), held.begin() as session:
        session.rows(SLEEP)
    thread.join()
    assert ended == [True]
    held.close()


def assert_ends_with_its_client(host: PostgresHost, url: str) -> None:
    """kill -9: nobody is left to cancel the query."""
    program = (
        "import sys\nfrom lapwing.engines.postgres_session import Connections\n"
        "from lapwing.postgres import read_address\n"
        f"with Connections(read_address(sys.stdin.readline().strip())).begin() as session: session.rows({SLEEP!r})"
    )
    client = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, text=True)
    assert client.stdin is not None
    client.stdin.write(f"{url}\n")
    client.stdin.close()
    assert wait_for(host, 1)
    client.kill()
    client.wait()
    assert wait_for(host, 0)
