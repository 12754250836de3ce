"""Sessions on a PostgreSQL server: one snapshot, nothing written, nothing left, and an end for every query."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator

import psycopg
import pytest

from lapwing.engines.postgres_session import _SETTINGS, Connections, parameters_of
from lapwing.errors import Misconfigured
from lapwing.postgres import read_address
from support.ending import assert_control_c_ends, assert_ends_in_time, assert_ends_with_its_client
from support.hosts import PostgresHost
from support.postgres import PostgresServer


@pytest.fixture
def host(postgres: PostgresServer) -> Iterator[PostgresHost]:
    made = PostgresHost(postgres)
    made.run("CREATE TABLE t AS SELECT 1 AS x")
    made.run(f"GRANT SELECT ON t TO {made.user}")
    yield made
    made.close()


def sessions(host: PostgresHost, **more: int) -> Connections:
    return Connections(read_address(host.url), **more)


def test_one_transaction_sees_one_state(host: PostgresHost) -> None:
    """Between two queries of an answer somebody writes."""
    held = sessions(host)
    with held.begin() as session:
        first = session.rows("SELECT SUM(x) FROM public.t")
        host.run("INSERT INTO t VALUES (1000)")
        assert session.rows("SELECT SUM(x) FROM public.t") == first
    with held.begin() as session:
        assert session.rows("SELECT SUM(x) FROM public.t") == [(1001,)]
    held.close()


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO public.t VALUES (2)",
        "CREATE TABLE public.u (x int)",
        "CREATE TEMP TABLE u (x int)",
        "CREATE FUNCTION public.f() RETURNS int AS 'SELECT 1' LANGUAGE sql",
        "SELECT nextval('public.s')",
        "COPY public.t TO PROGRAM 'true'",
    ],
)
def test_nothing_can_be_written(host: PostgresHost, statement: str) -> None:
    """threat:A10 by the transaction, whatever the role may do; and by a role that may SELECT and nothing else."""
    host.run("CREATE SEQUENCE s")
    host.run(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {host.user}")
    host.run(f"GRANT ALL ON SCHEMA public TO {host.user}")
    host.run(f"GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {host.user}")
    held = sessions(host)
    with pytest.raises(psycopg.Error), held.begin() as session:
        session.rows(statement)
    held.close()
    assert host.run("SELECT COUNT(*) FROM t").fetchone() == (1,)


def test_nothing_stays_in_a_session(host: PostgresHost) -> None:
    """Settings end with the transaction and statements have no name, as behind a pooler."""
    held = sessions(host)
    with held.begin() as session:
        session.parse("SELECT 1")
        assert session.rows("SHOW search_path") == [("pg_catalog, pg_temp",)]
        assert session.rows("SHOW transaction_read_only") == [("on",)]
        assert session.rows("SHOW transaction_isolation") == [("repeatable read",)]
    [connection] = held._idle
    left = "SELECT name FROM pg_settings WHERE source = 'session' AND LOWER(name) = ANY(%s)"
    assert connection.execute(left, [[*_SETTINGS, "search_path", "statement_timeout"]]).fetchall() == []
    assert connection.execute("SHOW search_path").fetchone() != ("pg_catalog, pg_temp",)
    assert connection.execute("SHOW statement_timeout").fetchone() == ("0",)
    assert connection.execute("SELECT COUNT(*) FROM pg_prepared_statements").fetchone() == (0,)
    held.close()


def test_functions_of_the_database_do_not_take_the_place_of_builtin_ones(host: PostgresHost) -> None:
    """threat:A10 a function with a better fitting argument would be chosen, and see private values."""
    host.run("CREATE FUNCTION public.sign(bigint) RETURNS double precision AS 'SELECT 999.0' LANGUAGE sql")
    held = sessions(host)
    with held.begin() as session:
        assert session.rows("SELECT SIGN(CAST(5 AS BIGINT))") == [(1.0,)]
    held.close()


def test_types_of_a_session_do_not_take_the_place_of_builtin_ones(host: PostgresHost, postgres: PostgresServer) -> None:
    """threat:A10 PostgreSQL looks for types among the temporary ones first, and a pooler may hand over a session."""
    held = Connections(read_address(postgres.url(host.database)))
    with held.begin() as session:
        pass
    [connection] = held._idle
    connection.execute("CREATE DOMAIN pg_temp.float8 AS integer")
    with held.begin() as session:
        assert session.rows("SELECT FLOAT8 '0.5'") == [(0.5,)]
    held.close()


SETTINGS = [
    ("array_nulls = off", "SELECT '{NULL}'::text[] = ARRAY[NULL::text]"),
    ("transform_null_equals = on", "SELECT (NULL = NULL) IS NULL"),
    ("extra_float_digits = -15", "SELECT (0.1::float8 + 0.2::float8)::text = '0.30000000000000004'"),
    ("intervalstyle = iso_8601", "SELECT INTERVAL '1 day'::text = '1 day'"),
    ("quote_all_identifiers = on", "SELECT quote_ident('a') = 'a'"),
    ("standard_conforming_strings = off", r"SELECT LENGTH('\\') = 2"),
]


@pytest.mark.parametrize(("setting", "question"), SETTINGS)
def test_settings_of_the_role_do_not_change_what_a_query_means(host: PostgresHost, setting: str, question: str) -> None:
    """threat:A10 public values with NULL would be other values, and failed after the charge."""
    host.run(f"ALTER ROLE {host.user} SET {setting}")
    held = sessions(host)
    with held.begin() as session:
        assert session.rows(question) == [(True,)]
    held.close()
    host.run(f"ALTER ROLE {host.user} RESET ALL")


def test_a_query_ends_when_its_time_is_up(host: PostgresHost) -> None:
    assert_ends_in_time(host, host.url)


def test_control_c_ends_the_query_on_the_server(host: PostgresHost) -> None:
    assert_control_c_ends(host, host.url)


def test_a_client_that_is_gone_ends_its_query(host: PostgresHost) -> None:
    """gate:G34 nobody is left to cancel it, so the server watches the socket."""
    assert_ends_with_its_client(host, host.url)


def test_a_lost_connection_is_replaced_before_anything_is_read(host: PostgresHost) -> None:
    held = sessions(host)
    with held.begin() as session:
        session.rows("SELECT 1")
    host.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", host.user)
    with held.begin() as session:
        assert session.rows("SELECT 2") == [(2,)]
    held.close()


def _in_child(held: Connections, results: "multiprocessing.Queue[int]") -> None:  # noqa: UP037
    with held.begin() as session:
        results.put(session.rows("SELECT pg_backend_pid()")[0][0])


def test_a_fork_has_connections_of_its_own(host: PostgresHost) -> None:
    held, context = sessions(host), multiprocessing.get_context("fork")
    with held.begin() as session:
        mine = session.rows("SELECT pg_backend_pid()")[0][0]
    results: multiprocessing.Queue[int] = context.Queue()
    child = context.Process(target=_in_child, args=(held, results))
    child.start()
    assert results.get(timeout=60) != mine
    child.join()
    with held.begin() as session:
        assert session.rows("SELECT pg_backend_pid()") == [(mine,)]
    held.close()


def test_a_server_that_is_not_there_is_told_without_secrets(host: PostgresHost) -> None:
    """threat:A13 libpq quotes hosts, users and more; the message names the place alone."""
    for url in ("postgresql://xaver:sesame@127.0.0.1:1/none", host.url.replace(host.user, "nobody")):
        with pytest.raises(Misconfigured, match="cannot be reached, or does not let this user in") as caught:
            Connections(read_address(url)).begin().__enter__()
        text = str(caught.value)
        assert "sesame" not in text
        assert "xaver" not in text
        assert "nobody" not in text
        assert caught.value.__context__ is None


@pytest.mark.parametrize(
    ("url", "mode"),
    [
        ("postgresql://db.example.org/x", "require"),
        ("postgresql://localhost/x", "prefer"),
        ("postgresql://127.0.0.1,[::1]/x", "prefer"),
        ("postgresql://127.0.0.1,10.0.0.1/x", "require"),
        ("postgresql:///x?host=/tmp", "prefer"),
        ("postgresql://db.example.org/x?sslmode=verify-full", "verify-full"),
    ],
)
def test_a_server_elsewhere_is_reached_over_tls(url: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PGSSLMODE", "PGSERVICE", "PGHOST"):
        monkeypatch.delenv(name, raising=False)
    assert parameters_of(read_address(url))["sslmode"] == mode
    assert parameters_of(read_address(url))["application_name"] == "lapwing"
