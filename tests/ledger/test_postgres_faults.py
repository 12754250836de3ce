"""Connections that end at any message, servers that do not reply, settings that deceive, copies on the same server."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lapwing.errors import LapwingError, LedgerFailed, Misconfigured
from lapwing.ledger import Ledger, accept_ledger, open_ledger, postgres_server, verify_ledger
from lapwing.ledger.postgres import PostgresStore
from lapwing.ledger.store import InDoubt
from lapwing.postgres import read_address
from lapwing.privacy import Accounting, Budget, Cost
from support.postgres import PostgresServer, binaries, running
from support.proxy import Proxy, proxied

PURE = Accounting.PURE
COMMIT = b"\x00\x0bCOMMIT\x00"
FLUSH = b"pg_logical_emit_message"


def ask(ledger: Ledger, amount: Any = 0.01, **more: Any) -> Any:
    return ledger.reserve(Cost(PURE, amount), **{"analyst": "ann", "body": "q", **more})


@pytest.fixture
def proxy(base: Any) -> Iterator[Proxy]:
    with proxied(base.server.port) as made:
        yield made


def through(base: Any, proxy: Proxy, timeout: float = 3.0) -> Ledger:
    """The ledger of the place, over the proxy."""
    url = base.url.replace(f":{base.server.port}/", f":{proxy.port}/")
    ledger = open_ledger(url, Budget(10), witness=base.witness, timeout=timeout)
    base.opened.append(ledger)
    return ledger


def fail_at(proxy: Proxy, number: int, fate: str) -> Callable[[], bool]:
    """Lets it happen to the message with this number, of all connections; says whether it came to that."""
    seen = 0

    def rule(_: bytes) -> str:
        nonlocal seen
        seen += 1
        return fate if seen == number else "pass"

    proxy.rule = rule
    return lambda: seen >= number


@pytest.mark.parametrize("fate", ["cut", "half", "deliver", "mute"])
def test_a_connection_that_ends_at_any_message_charges_once_or_not_at_all(
    base: Any, proxy: Proxy, fate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ledger:B1 ledger:B5 ledger:B13: charge and answer, failing at each message in turn; what was said is true."""
    monkeypatch.setattr(postgres_server, "_PATIENCE", -0.5)
    number, reached, told = 0, True, []
    while reached:
        number += 1
        ledger, key = through(base, proxy, 1.0), f"{fate} {number}"
        was_reached = fail_at(proxy, number, fate)
        try:
            reservation = ask(ledger, key=key)
            told.append("charged")
            ledger.settle(reservation, b"answer", match=key)
            told.append("answered")
        except InDoubt:
            told.append("in doubt")
        except LapwingError as error:
            told.append("free" if told[-1:] != ["charged"] and error.charged is None else "no answer")
        reached = was_reached()
        proxy.rule = lambda _: "pass"
        ledger.close()
        with open_ledger(base.url, Budget(10), witness=base.witness) as other:
            made = [entry for entry in other.entries() if entry.kind == "reserve" and entry.key == key]
            assert len(made) == 1 or (made == [] and told[-1] in ("free", "in doubt")), (number, told)
            assert told[-1] != "free" or made == [], number
            assert told[-1] != "answered" or other.find_answers(key)[0].payload == b"answer", number
    assert number > 6
    assert told[-1] == "answered"
    assert {"free", "no answer"} <= set(told)
    assert base.verify().ok


def test_a_commit_without_a_reply_is_looked_up(base: Any, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """ledger:B1: the connection stays and nothing comes back; what the server has done counts."""
    monkeypatch.setattr(postgres_server, "_PATIENCE", 0.2)
    ledger = through(base, proxy, 1.0)
    proxy.once(COMMIT, "mute")
    assert ask(ledger, key="k").fresh
    assert not ask(ledger, key="k").fresh
    proxy.rule = lambda data: "hang" if COMMIT in data else "pass"
    with pytest.raises(LedgerFailed) as caught:
        ask(ledger, key="l")
    proxy.rule = lambda _: "pass"
    assert isinstance(caught.value, InDoubt) or ask(ledger, key="l").fresh
    assert ledger.verify().ok


@pytest.fixture(scope="module")
def waiting_server() -> Iterator[PostgresServer]:
    """A server whose commits wait for a standby that is not there."""
    with running() as server:
        yield server


def test_a_cancelled_wait_for_a_standby_is_not_taken_for_its_word(waiting_server: PostgresServer) -> None:
    """ledger:B1: PostgreSQL then commits with a warning, and a failover would lose the charge."""
    ledger, made = open_ledger(waiting_server.url(), Budget(1), timeout=3), []
    with waiting_server.connect() as shell:
        shell.execute("SET synchronous_commit = local")
        shell.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        shell.execute("SELECT pg_reload_conf()")

        def charge() -> None:
            try:
                for _ in range(1000):  # until the server has read its settings again
                    ask(ledger, 0.001)
            except LapwingError as error:
                made.append(error)

        thread = threading.Thread(target=charge)
        thread.start()
        cancelled = 0
        while thread.is_alive():
            found = shell.execute("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
            cancelled += len(found.fetchall())
            time.sleep(0.1)
        assert cancelled
        assert isinstance(made[0], InDoubt)
        assert made[0].charged == Cost(PURE, 0.001)
    ledger.close()


# What a user's settings may not change.


def test_a_hostile_schema_before_postgresqls_own_is_not_asked(base: Any) -> None:
    """threat:A28: functions that lie about the server stand first on the user's path."""
    lies = "SELECT CASE WHEN $1 LIKE 's%commit' THEN 'on' ELSE pg_catalog.current_setting($1) END"
    base.run(
        "CREATE SCHEMA hostile",
        f"CREATE FUNCTION hostile.current_setting(text) RETURNS text LANGUAGE sql AS $${lies}$$",
    )
    try:
        path = "-c%20search_path%3Dhostile,pg_catalog"
        with pytest.raises(Misconfigured, match="has synchronous_commit off"):
            open_ledger(f"{base.url}&options=-c%20synchronous_commit%3Doff%20{path}", base.budget)
        with open_ledger(f"{base.url}&options={path}", base.budget) as ledger:
            assert ask(ledger).fresh
    finally:
        base.run("DROP SCHEMA hostile CASCADE")


def test_a_stricter_isolation_of_the_user_refuses_nobody(base: Any) -> None:
    """ledger:B2."""
    url = f"{base.url}&options=-c%20default_transaction_isolation%3Dserializable"
    ledgers = [open_ledger(url, base.budget) for _ in range(2)]
    base.opened += ledgers
    threads = [threading.Thread(target=lambda one=one: [ask(one) for _ in range(10)]) for one in ledgers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledgers[0].spent == Cost(PURE, 0.2)


@pytest.mark.parametrize("schema", ["pg_temp", "pg_catalog", "pg_temp_3", "information_schema"])
def test_a_schema_of_postgresql_itself_is_refused(schema: str) -> None:
    """threat:A28: a temporary one forgets, and a dump leaves the others out."""
    with pytest.raises(Misconfigured, match="PostgreSQL's own"):
        read_address(f"postgresql://db/h?schema={schema}")


def test_a_schema_whose_name_is_a_word_of_sql_is_refused(base: Any) -> None:
    with pytest.raises(LedgerFailed, match="is a word of SQL"):
        open_ledger(f"{base.server.url()}?schema=user", base.budget)


def test_a_table_that_a_crash_would_empty_is_found(base: Any) -> None:
    """ledger:B11."""
    ledger = base.open()
    ask(ledger)
    base.run("ALTER TABLE answer SET UNLOGGED")
    assert "tables" in str(ledger.verify())
    assert not ledger.verify().ok


# Copies.


@pytest.mark.parametrize("how", ["restored", "copied"])
def test_an_older_copy_on_the_same_server_is_refused(base: Any, how: str) -> None:
    """ledger:B12: system and timeline are the same; the tables or their database are not. Also without a witness."""
    server = base.server
    name, other = server.new_database(), server.new_database()
    with open_ledger(server.url(name), Budget(1)) as ledger:
        ask(ledger)
    dump = subprocess.run([binaries() / "pg_dump", server.url(name)], check=True, capture_output=True).stdout
    if how == "copied":
        server.run(f"DROP DATABASE {other}", f"CREATE DATABASE {other} TEMPLATE {name}")
    else:
        server.run(f"DROP DATABASE {name}", f"CREATE DATABASE {name}")
        subprocess.run([binaries() / "psql", "-q", server.url(name)], input=dump, check=True, capture_output=True)
    place = server.url(other if how == "copied" else name)
    with pytest.raises(Misconfigured, match="a backup was restored"):
        open_ledger(place, Budget(1))
    assert verify_ledger(place).ok
    assert accept_ledger(place, Budget(1)).ok
    with open_ledger(place, Budget(1)) as ledger:
        assert ask(ledger).fresh


def test_a_copy_that_an_export_disproves_is_not_accepted_on_a_host_without_a_witness(base: Any) -> None:
    """ledger:B12: to open it would write a new witness and an entry, and with that accept the server."""
    ledger = base.open(witness=False)
    for _ in range(3):
        ask(ledger)
    head = ledger.export(base.folder / "export.jsonl")
    base.tamper(
        "DELETE FROM entry WHERE seq = 4",
        "UPDATE head SET seq = 3, server = '1/1', hash = (SELECT hash FROM entry WHERE seq = 3)",
    )
    fresh = base.folder / "fresh.witness"
    assert not accept_ledger(base.url, base.budget, witness=[fresh], against=head).ok
    assert not fresh.exists()
    with pytest.raises(Misconfigured, match="last written on server 1/1"):
        open_ledger(base.url, base.budget)


# Signals.


def test_a_signal_handler_in_the_middle_of_a_flush_is_refused_at_once(
    base: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ledger:B13: it would wait for the thread that it interrupts; and nothing is charged for it."""
    ledger, told = base.open(timeout=20), []
    inner = PostgresStore._flush_through

    def interrupted(self: PostgresStore, link: Any, marks: Any) -> Any:
        monkeypatch.setattr(PostgresStore, "_flush_through", inner)
        os.kill(os.getpid(), signal.SIGUSR1)
        return inner(self, link, marks)

    def handle(*_: object) -> None:
        with pytest.raises(LedgerFailed, match="A signal interrupted") as caught:
            ask(ledger)
        told.append(caught.value)

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        monkeypatch.setattr(PostgresStore, "_flush_through", interrupted)
        assert ask(ledger).fresh
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert [(type(error), error.charged) for error in told] == [(LedgerFailed, None)]
    assert ledger.spent == Cost(PURE, 0.01)
