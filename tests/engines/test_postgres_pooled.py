"""Questions to a PostgreSQL database behind PgBouncer in transaction mode, which gives each transaction a session."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import lapwing as lw
from lapwing.engines.postgres_session import Connections
from lapwing.postgres import read_address
from support.ending import assert_control_c_ends, assert_ends_in_time, assert_ends_with_its_client
from support.hosts import PostgresHost
from support.pgbouncer import pooled
from support.postgres import PostgresServer

COUNT = "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex"
LOCAL = ("search_path", "timezone", "datestyle", "jit", "lock_timeout", "statement_timeout", "tcp_keepalives_idle")


@pytest.fixture(scope="module")
def host(postgres: PostgresServer) -> Iterator[PostgresHost]:
    made = PostgresHost(postgres)
    made.run(
        "CREATE TABLE visits AS SELECT i % 300 AS pid, CASE WHEN i % 2 = 0 THEN 'F' ELSE 'M' END AS sex, "
        "i % 90 AS cost FROM generate_series(1, 600) AS i"
    )
    made.run(f"GRANT SELECT ON visits TO {made.user}")
    yield made
    made.close()


@pytest.fixture(scope="module")
def port(host: PostgresHost, postgres: PostgresServer) -> Iterator[int]:
    """A pooler with two sessions, fewer than there are clients."""
    with pooled(postgres, host.user, default_pool_size="2") as made:
        yield made


@pytest.fixture
def url(host: PostgresHost, postgres: PostgresServer, port: int) -> str:
    return host.url.replace(f":{postgres.port}/", f":{port}/")


def opened(url: str, folder: Path, name: str = "ledger.db") -> Any:
    return lw.open(
        url,
        table="public.visits",
        name="visits",
        unit="pid",
        rows_per_unit=2,
        values={"sex": ["F", "M"]},
        bounds={"cost": (0, 100)},
        budget=lw.Budget(10**7),
        ledger=folder / name,
    )


def test_answers_of_many_threads_are_those_of_the_rows(url: str, tmp_path: Path) -> None:
    """Eight threads share two sessions; a large epsilon shows the exact cells."""
    with opened(url, tmp_path) as curator:
        found: list[list[int]] = []

        def work(number: int) -> None:
            for least in range(4):
                text = f"SELECT sex, COUNT(*) AS n FROM visits WHERE cost >= {least * 10 + number} GROUP BY sex"
                rows = curator.sql(text, epsilon=1000, check=0).to_pandas()["n"].tolist()
                found.append([least * 10 + number, *map(round, rows)])

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    costs = [(i % 90, i % 2) for i in range(1, 601)]
    wanted = [[low, *(sum(c >= low and side == odd for c, odd in costs) for side in (0, 1))] for low, *_ in found]
    assert len(found) == 32
    assert found == wanted


def test_an_answer_of_several_queries_reads_one_state(host: PostgresHost, url: str) -> None:
    """One transaction stays with one session, whoever else asks meanwhile, and whatever is written."""
    host.run("CREATE TABLE state AS SELECT 1 AS x")
    host.run(f"GRANT SELECT ON state TO {host.user}")
    held = Connections(read_address(url))
    with held.begin() as first:
        before = first.rows("SELECT pg_backend_pid(), SUM(x) FROM public.state")
        with held.begin() as second:
            assert second.rows("SELECT pg_backend_pid()") != before[:1]
            host.run("INSERT INTO state VALUES (5)")
        assert first.rows("SELECT pg_backend_pid(), SUM(x) FROM public.state") == before
    with held.begin() as later:
        assert later.rows("SELECT SUM(x) FROM public.state") == [(6,)]
    held.close()


def test_nothing_of_a_transaction_is_left_in_the_session(host: PostgresHost, url: str, tmp_path: Path) -> None:
    """The next client of the session has its own settings, no prepared statement, and may write if it has the right."""
    with opened(url, tmp_path) as curator:
        for number in range(4):
            curator.sql(f"{COUNT.replace(' GROUP', f' WHERE cost > {number} GROUP')}", epsilon=1)
        shells = [psycopg.connect(url, autocommit=True, prepare_threshold=None) for _ in range(2)]
        for shell in shells:  # both sessions
            shell.execute("BEGIN")
        for shell in shells:
            for wanted in (
                "SELECT count(*) FROM pg_prepared_statements",
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'",
                f"SELECT count(*) FROM pg_settings WHERE source = 'session' AND name IN {LOCAL}",
            ):
                assert shell.execute(wanted).fetchone() == (0,)  # type: ignore[arg-type]
            assert shell.execute("SHOW transaction_read_only").fetchone() == ("off",)
            assert shell.execute("SHOW statement_timeout").fetchone() == ("0",)
            shell.close()


def test_what_another_client_left_in_the_session_changes_nothing(
    host: PostgresHost, postgres: PostgresServer, tmp_path: Path
) -> None:
    """threat:A10 a pooler in transaction mode resets nothing: a search path or a time limit stays for the next one."""
    with pooled(postgres, host.user, default_pool_size="2") as port:
        url = host.url.replace(f":{postgres.port}/", f":{port}/")
        check_left_settings(url, tmp_path)


def check_left_settings(url: str, tmp_path: Path) -> None:
    with opened(url, tmp_path) as curator:
        for setting in ("statement_timeout = 1", "search_path = public", "timezone = 'Asia/Kolkata'", "jit = on"):
            shells = [psycopg.connect(url, autocommit=True) for _ in range(2)]
            for shell in shells:
                shell.execute("BEGIN")
                shell.execute(f"SET {setting}")  # type: ignore[call-overload]
            for shell in shells:
                shell.execute("COMMIT")
                shell.close()
        held = Connections(read_address(url))
        with held.begin() as session:
            assert session.rows("SHOW search_path") == [("pg_catalog, pg_temp",)]
            assert session.rows("SHOW timezone") == [("UTC",)]
            assert session.rows("SHOW statement_timeout") == [("1h",)]
        held.close()
        rows = curator.sql(COUNT, epsilon=1000, check=0).to_pandas()["n"].tolist()
        assert list(map(round, rows)) == [300, 300]


def test_a_query_ends_when_its_time_is_up(host: PostgresHost, url: str) -> None:
    assert_ends_in_time(host, url)


def test_control_c_ends_the_query_on_the_server(host: PostgresHost, url: str) -> None:
    """The pooler passes it on."""
    assert_control_c_ends(host, url)


def test_a_client_that_is_gone_ends_its_query(host: PostgresHost, url: str) -> None:
    """gate:G34 the pooler ends the session, and the server sees its socket closed."""
    assert_ends_with_its_client(host, url)
