"""What only a ledger on a server can suffer: unfit servers, roles, lost connections, poolers, tampering."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from lapwing.errors import BudgetExceeded, LapwingError, LedgerFailed, Misconfigured
from lapwing.ledger import Ledger, accept_ledger, entry, open_ledger, postgres_server, verify_ledger
from lapwing.ledger.postgres import PostgresStore
from lapwing.ledger.postgres_server import ServerFacts
from lapwing.ledger.store import InDoubt
from lapwing.postgres import read_address
from lapwing.privacy import Accounting, Budget, Cost
from support.proxy import Proxy, proxied

PURE = Accounting.PURE
NOTHING = Cost(PURE, 0)
COMMIT = b"\x00\x0bCOMMIT\x00"
FLUSH = b"pg_logical_emit_message"


def ask(ledger: Ledger, amount: Any = 0.1, **more: Any) -> Any:
    return ledger.reserve(Cost(PURE, amount), **{"analyst": "ann", "body": "q", **more})


@pytest.fixture
def proxy(base: Any) -> Iterator[Proxy]:
    with proxied(base.server.port) as made:
        yield made


def through(base: Any, proxy: Proxy, timeout: float = 3.0) -> Ledger:
    """The ledger of the place, over the proxy."""
    url = base.url.replace(f":{base.server.port}/", f":{proxy.port}/")
    ledger = open_ledger(url, base.budget, witness=base.witness, timeout=timeout)
    base.opened.append(ledger)
    return ledger


# What a server must be.

GOOD = ServerFacts(False, "off", "on", "on", "on", 15, "UTF8", "1/00000001")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"in_recovery": True}, "replica.*Name the primary"),
        ({"read_only": "on"}, "read-only.*default_transaction_read_only = off"),
        ({"synchronous_commit": "off"}, "synchronous_commit off.*synchronous_commit = on"),
        ({"fsync": "off"}, "fsync off.*fsync = on"),
        ({"full_page_writes": "off"}, "full_page_writes off.*full_page_writes = on"),
        ({"version": 14}, "PostgreSQL 14.*version 15"),
        ({"encoding": "LATIN1"}, "LATIN1.*UTF8"),
    ],
)
def test_a_server_that_cannot_keep_a_ledger_is_refused(change: dict[str, Any], told: str) -> None:
    """ledger:B13: for each reason, with the fix."""
    assert GOOD.refusal() is None
    assert re.search(told, str(GOOD._replace(**change).refusal()))


@pytest.mark.parametrize("level", ["on", "local", "remote_write", "remote_apply"])
def test_every_level_that_waits_for_the_disk_will_do(base: Any, level: str) -> None:
    url = f"{base.url}&options=-c%20synchronous_commit%3D{level}"
    with open_ledger(url, base.budget) as ledger:
        assert ask(ledger).fresh


@pytest.mark.parametrize(
    ("setting", "told"),
    [("synchronous_commit=off", "has synchronous_commit off"), ("default_transaction_read_only=on", "is read-only")],
)
def test_a_user_whose_settings_lose_charges_is_refused(base: Any, setting: str, told: str) -> None:
    """ledger:B13: when it is opened, and also if it changes while the ledger is open."""
    with pytest.raises(Misconfigured, match=told):
        open_ledger(f"{base.url}&options=-c%20{setting.replace('=', '%3D')}", base.budget)
    base.run(f"CREATE ROLE changing{base.schema} LOGIN SUPERUSER PASSWORD 'word'")
    url = base.url.replace(f"postgres:{base.server.password}", f"changing{base.schema}:word")
    try:
        ledger = open_ledger(url, base.budget)
        base.opened.append(ledger)
        ask(ledger)
        base.run(f"ALTER ROLE changing{base.schema} SET {setting.replace('=', ' = ')}")
        base.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'changing{base.schema}'")
        with pytest.raises(Misconfigured, match=told):
            ask(ledger)
    finally:
        base.close()
        base.run(f"DROP ROLE changing{base.schema}")


def test_a_server_without_fsync_is_refused(postgres: Any, tmp_path: Any) -> None:
    """ledger:B13: nothing is created there."""
    name = postgres.new_database()
    with pytest.raises(Misconfigured, match=r"127.0.0.1:\d+/test\d+ cannot keep it: it has fsync off.*Set fsync = on"):
        open_ledger(postgres.url(name), Budget(1))
    with postgres.connect(name) as shell:
        assert shell.execute("SELECT to_regnamespace('lapwing')").fetchone() == (None,)


def test_unreachable_servers_and_wrong_passwords_are_refused_with_a_next_step(base: Any) -> None:
    """ledger:B13 threat:A13: and the password is in no message, nor in the traceback."""
    with proxied(1) as nobody:
        for url, told in [
            (f"postgresql://ann:hunter2@127.0.0.1:{nobody.port}/postgres", "cannot be reached"),
            (base.server.url(password="hunter2"), "refused this user or password, .* Set PGUSER and PGPASSWORD"),
            (base.server.url(user="hunter2"), "refused this user or password"),
            (base.server.url("nowhere"), "no such database, .* check the name of the database"),
            (f"{base.url}&hunter2=1", "a parameter that libpq does not know"),
        ]:
            with pytest.raises(LapwingError, match=told) as caught:
                open_ledger(url, base.budget, timeout=2)
            assert caught.value.__cause__ is None
            for secret in ("hunter2", base.server.password):
                assert secret not in str(caught.value)
                assert "hunter2=" in url or secret not in str(verify_ledger(url))


def test_the_address_in_messages_has_no_secret(base: Any) -> None:
    """threat:A13."""
    store = base.store()
    assert store.name == f"postgresql://127.0.0.1:{base.server.port}/postgres?schema={base.schema}"
    ledger = base.open()
    ask(ledger)
    with pytest.raises(Misconfigured, match="was created with") as caught:
        base.open(Budget(2))
    assert base.server.password not in str(caught.value)
    export = base.folder / "export.jsonl"
    ledger.export(export)
    assert base.server.password not in export.read_text()


# The database keeps the chain by itself.


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entry SET analyst = 'bob'",
        "DELETE FROM entry",
        "TRUNCATE entry CASCADE",
        "DELETE FROM answer",
        "UPDATE answer SET payload = ''",
        "UPDATE secret SET salt = ''",
        "TRUNCATE head",
        "DELETE FROM head",
        "UPDATE head SET seq = 1",
        "UPDATE head SET hash = 'x'",
        "UPDATE head SET seq = seq + 1",
        "INSERT INTO head VALUES (2, 1, 'x', 'y')",
        "INSERT INTO entry SELECT (jsonb_populate_record(e, '{\"seq\": 3}')).* FROM entry e WHERE seq = 2",
        "INSERT INTO entry SELECT (jsonb_populate_record(e, '{\"seq\": 4}')).* FROM entry e WHERE seq = 3",
        "INSERT INTO entry SELECT (jsonb_populate_record(e, '{\"seq\": 0}')).* FROM entry e WHERE seq = 2",
    ],
)
def test_the_tables_are_append_only_for_everyone(base: Any, statement: str) -> None:
    """ledger:B4: in the owner's own shell; an entry must continue the head."""
    ledger = base.open()
    ledger.settle(ask(ledger), b"answer")
    with pytest.raises(psycopg.Error):
        base.run(statement)
    assert ledger.spent == Cost(PURE, 0.1)
    assert base.verify().ok


@pytest.mark.parametrize(
    ("tampering", "told"),
    [
        ("UPDATE entry SET spent_amount = '0/1' WHERE seq = 2", "Entry 2: its content does not match its hash"),
        ("DELETE FROM entry WHERE seq = 4", "seen entry 4: an older copy was put back"),
        ("UPDATE answer SET payload = 'x'", "Entry 3: the answer that it records was changed"),
        ("DELETE FROM answer", "Entry 3: the answer that it records is missing"),
        ("UPDATE secret SET salt = 'x'", "salt was changed"),
        ("UPDATE head SET seq = 3", "triggers that make them append-only, were changed"),
        ("ALTER TABLE entry DISABLE TRIGGER entry_no_update", "triggers that make them append-only, were changed"),
        ("DROP TRIGGER head_moves_on ON head", "triggers that make them append-only, were changed"),
        ("CREATE OR REPLACE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NEW; END$$", "triggers"),
        ("DROP INDEX entry_key", "were changed"),
        ("ALTER TABLE answer ALTER COLUMN terms TYPE varchar(10)", "were changed"),
        ("DROP TABLE head", "failed"),
        ("DROP TABLE answer, secret, head, entry", "There is no ledger at|moved or deleted"),
    ],
)
def test_what_a_superuser_changes_is_found(base: Any, tampering: str, told: str) -> None:
    """ledger:B11 ledger:B4."""
    ledger = base.open()
    ledger.settle(ask(ledger), b"answer")
    ask(ledger)
    assert base.verify().ok
    base.tamper(tampering)
    report = base.verify()
    assert not report.ok
    assert re.search(told, str(report))


def test_a_changed_entry_stops_the_ledger_at_once(base: Any) -> None:
    """ledger:B11: not only when somebody verifies it."""
    ledger = base.open()
    ask(ledger, 0.9)
    base.tamper("UPDATE entry SET spent_amount = '0/1' WHERE seq = 2")
    with pytest.raises(LedgerFailed, match="Entry 2: its content does not match its hash"):
        ask(ledger, 0.9)


def test_a_dropped_ledger_is_refused(base: Any) -> None:
    """ledger:B12: nothing is created in its place."""
    ask(base.open())
    base.run(f"DROP SCHEMA {base.schema} CASCADE")
    with pytest.raises(Misconfigured, match=r"up to entry 2: it was moved or deleted"):
        base.open()
    with pytest.raises(LapwingError):
        ask(base.opened[0])
    assert not base.store().exists()


def test_tables_of_another_program_are_not_taken_for_a_ledger(base: Any) -> None:
    base.run(f"CREATE SCHEMA {base.schema}", "CREATE TABLE entry (id integer)")
    with pytest.raises(LapwingError, match="tables"):
        base.open()


# Roles.


def test_a_role_with_few_rights_can_charge_and_nothing_else(base: Any) -> None:
    """ledger:B4 ledger:B12: the grants of docs/shared-ledger.md; the owner makes the ledger and accepts its server."""
    base.open().close()
    page = (base_docs() / "shared-ledger.md").read_text()
    grants = re.search(r"```sql\n(-- the service.*?)```", page, re.DOTALL)
    assert grants is not None
    role = f"service_{base.schema}"
    text = grants[1].replace("lapwing_service", role).replace("lapwing.", f"{base.schema}.")
    text = text.replace("SCHEMA lapwing", f"SCHEMA {base.schema}")
    base.run(*[part for part in text.split(";") if part.strip()])
    base.run(f"ALTER ROLE {role} PASSWORD 'word'")
    url = base.url.replace(f"postgres:{base.server.password}", f"{role}:word")
    try:
        with open_ledger(url, base.budget, witness=base.witness) as ledger:
            ledger.settle(ask(ledger, key="k"), b"answer", match="m")
            assert ask(ledger, key="k").answer == b"answer"
            assert ledger.find_answers("m")[0].payload == b"answer"
            ledger.allow("bob", Cost(PURE, 0.1))
        assert verify_ledger(url, witness=[base.witness]).ok
        with psycopg.connect(url.partition("?")[0], autocommit=True) as shell:
            for statement in (
                "DELETE FROM {}.entry",
                "UPDATE {}.entry SET analyst = 'x'",
                "TRUNCATE {}.entry",
                "UPDATE {}.secret SET salt = ''",
                "DELETE FROM {}.head",
                "ALTER TABLE {}.entry DISABLE TRIGGER ALL",
                "DROP TABLE {}.answer",
                "DROP TRIGGER entry_no_delete ON {}.entry",
                "CREATE TABLE {}.mine (x integer)",
                "DROP FUNCTION {}.keep() CASCADE",
                "UPDATE {}.head SET server = 'x'",
                "UPDATE {}.head SET seq = seq, server = server",
                "INSERT INTO {}.head VALUES (1, 0, '', '')",
                "INSERT INTO {}.secret VALUES (1, '')",
            ):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    shell.execute(statement.format(base.schema))  # type: ignore[arg-type]
        base.run("UPDATE head SET server = '1/00000001'")
        with pytest.raises(Misconfigured, match=r"Only the owner .* may accept its server.*Nothing was accepted"):
            accept_ledger(url, base.budget, witness=[base.witness])
        with pytest.raises(Misconfigured, match="was last written on server 1/00000001"):
            open_ledger(url, base.budget)
        assert accept_ledger(base.url, base.budget, witness=[base.witness]).ok
        with open_ledger(url, base.budget, witness=base.witness) as ledger:
            assert ask(ledger).fresh
    finally:
        base.run(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def test_a_role_without_rights_is_told_what_to_grant(base: Any) -> None:
    base.open().close()
    role = f"nobody_{base.schema}"
    base.run(f"CREATE ROLE {role} LOGIN PASSWORD 'word'")
    url = base.url.replace(f"postgres:{base.server.password}", f"{role}:word")
    try:
        with pytest.raises(LedgerFailed, match=r"lacks a privilege\. Grant those of the page"):
            open_ledger(url, base.budget)
        with pytest.raises(LedgerFailed, match="lacks a privilege"):
            open_ledger(url.replace(f"schema={base.schema}", "schema=elsewhere"), base.budget)
    finally:
        base.run(f"DROP ROLE {role}")


# Connections that are lost.


def test_a_lost_connection_is_replaced_between_two_questions(base: Any, proxy: Proxy) -> None:
    ledger = through(base, proxy)
    for _ in range(3):
        ask(ledger)
        proxy.cut()
    assert ledger.spent == Cost(PURE, 0.3)
    assert base.verify().ok


def test_a_connection_cut_before_the_commit_charges_nothing(base: Any, proxy: Proxy) -> None:
    """ledger:B1 ledger:B13: the message is checked against the ledger, and asking again is fresh."""
    ledger = through(base, proxy)
    proxy.once(COMMIT, "cut")
    with pytest.raises(LedgerFailed, match=r"lost before the commit\. Nothing was written; ask again") as caught:
        ask(ledger, key="k")
    assert caught.value.charged is None
    assert ledger.spent == NOTHING
    assert ask(ledger, key="k").fresh
    assert ledger.spent == Cost(PURE, 0.1)


@pytest.mark.parametrize(("text", "fate"), [(COMMIT, "deliver"), (FLUSH, "deliver"), (FLUSH, "cut")])
def test_a_connection_cut_after_the_commit_charges_once(base: Any, proxy: Proxy, text: bytes, fate: str) -> None:
    """ledger:B1 ledger:B5: the entry is found again, so the charge is made, fresh, and made once."""
    ledger = through(base, proxy)
    proxy.once(text, fate)
    reservation = ask(ledger, key="k")
    assert reservation.fresh
    assert ledger.spent == Cost(PURE, 0.1)
    ledger.settle(reservation, b"answer")
    assert ask(ledger, key="k").answer == b"answer"
    assert base.verify().ok


def test_an_equal_charge_of_another_process_is_not_taken_for_ones_own(
    base: Any, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ledger:B2: same analyst, question, price and second, so the same hash; two answers on one charge are refused."""
    monkeypatch.setattr(entry, "now", lambda: "2030-01-01T00:00:00Z")
    ledger, other, made = through(base, proxy, 30.0), base.open(timeout=30.0), []

    def meanwhile() -> None:
        made.append(ask(other))
        proxy.down = False

    def rule(data: bytes) -> str:
        if COMMIT not in data:
            return "pass"
        proxy.rule, proxy.down = lambda _: "pass", True  # who looks must wait until the other one has charged
        threading.Thread(target=meanwhile).start()
        return "cut"

    proxy.rule = rule
    with pytest.raises(LedgerFailed, match=r"lost before the commit\. Nothing was written"):
        ask(ledger)
    assert made[0].fresh
    assert ledger.spent == Cost(PURE, 0.1)


def test_a_commit_that_cannot_be_looked_up_counts_as_charged(base: Any, proxy: Proxy) -> None:
    """ledger:B1 ledger:B13: whether it arrived or not; when the server is back, the ledger has the truth."""
    for fate, arrived in (("deliver", True), ("cut", False)):
        ledger = through(base, proxy, 1.0)
        before = ledger.spent.amount

        def rule(data: bytes, fate: str = fate) -> str:
            if COMMIT not in data:
                return "pass"
            proxy.down = True
            return fate

        proxy.rule = rule
        with pytest.raises(InDoubt, match=r"take it as charged\. No answer is given") as caught:
            ask(ledger, key=fate)
        assert caught.value.charged == Cost(PURE, 0.1)
        proxy.down, proxy.rule = False, lambda _: "pass"
        assert ledger.spent.amount == before + (Cost(PURE, 0.1).amount if arrived else 0)
        again = ask(ledger, key=fate)
        assert again.fresh is not arrived
        assert (again.answer, again.unanswered) == (None, arrived)


def test_a_server_that_hangs_is_given_up(base: Any, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """ledger:B13: bytes vanish and the connection stays; nobody waits without end."""
    monkeypatch.setattr(postgres_server, "_PATIENCE", 0.2)
    ledger = through(base, proxy, 1.0)
    proxy.rule = lambda _: "hang"
    began = time.monotonic()
    with pytest.raises(LedgerFailed, match="No answer is given"):
        ask(ledger)
    assert time.monotonic() - began < 60
    proxy.rule = lambda _: "pass"
    assert ask(ledger).fresh


def test_a_process_that_hangs_in_a_transaction_is_put_out(base: Any) -> None:
    """ledger:B13: others wait a while and go on; the one that hung fails closed."""
    slow, other = base.open(timeout=1.0), base.open(timeout=10.0)

    def hang() -> None:
        with slow._store.writing() as book:
            time.sleep(1.6)
            book.salt()

    with pytest.raises(LedgerFailed, match="No answer is given"):
        hang()
    assert ask(other).fresh
    assert ask(slow).fresh


def test_whoever_waits_too_long_for_the_lock_is_told(base: Any) -> None:
    holder, other = base.open(timeout=10.0), base.open(timeout=0.3)
    with holder._store.writing(), pytest.raises(LedgerFailed, match="kept it locked for too long"):
        ask(other)
    assert ask(other).fresh


def test_a_fork_in_the_middle_of_a_transaction_is_refused(base: Any) -> None:
    """threat:A28: the child never speaks on its parent's connection, and may open its own."""
    ledger = base.open()
    with ledger._store.writing() as book:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                book.salt()
            except LedgerFailed:
                with_own = ledger.spent == NOTHING
                code = 7 if with_own else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert book.last() is not None
    assert ask(ledger).fresh


def test_threads_share_commits_and_each_charge_is_on_disk(base: Any) -> None:
    """Charges of sixteen threads: fewer flushes than charges, and none returns before its own is flushed."""
    ledger = base.open(Budget(100))
    flushes: list[int] = []
    inner = PostgresStore._flush_through

    def counted(self: PostgresStore, link: Any, marks: Any) -> Any:
        time.sleep(0.02)  # as a disk
        found = inner(self, link, marks)
        flushes.append(len(marks))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PostgresStore, "_flush_through", counted)
        threads = [threading.Thread(target=lambda: [ask(ledger) for _ in range(10)]) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sum(flushes) == 160
    assert len(flushes) < 160
    assert ledger.spent == Cost(PURE, 16)


def base_docs() -> Any:
    from pathlib import Path

    return Path(__file__).parents[2] / "docs"


# Another server.


def test_a_ledger_on_another_server_is_refused_until_it_is_accepted(base: Any) -> None:
    """ledger:B12: a restored dump or a promoted replica; on every host, whatever its own witness knows."""
    ledger = base.open(witness=False)
    ask(ledger)
    base.run("UPDATE head SET server = '1/00000001'")
    for attempt in (lambda: ask(ledger), lambda: base.open(witness=False)):
        with pytest.raises(Misconfigured, match=r"last written on server 1/00000001 .*run `lapwing ledger accept`"):
            attempt()
    assert base.verify().ok
    report = accept_ledger(base.url, base.budget, witness=[base.witness])
    assert report.ok
    assert ask(ledger).fresh
    assert "the ledger had come to another server, and the steward accepted it" in str(base.verify())


def test_a_ledger_that_misses_charges_is_not_accepted(base: Any) -> None:
    """ledger:B12."""
    ledger = base.open()
    for _ in range(3):
        ask(ledger)
    base.tamper(
        "DELETE FROM entry WHERE seq = 4",
        "UPDATE head SET seq = 3, server = '1/1', hash = (SELECT hash FROM entry WHERE seq = 3)",
    )
    assert "older copy" in str(accept_ledger(base.url, base.budget, witness=[base.witness]))
    with pytest.raises(Misconfigured, match="last written on server"):
        ask(ledger)


def test_a_ledger_in_a_file_has_nothing_to_accept(tmp_path: Any) -> None:
    with pytest.raises(Misconfigured, match="no server"):
        accept_ledger(tmp_path / "ledger.db", Budget(1))


def test_budgets_are_kept_apart_by_schema(base: Any) -> None:
    """Two ledgers in one database."""
    one = base.open(witness=False)
    two = open_ledger(base.url.replace(base.schema, f"{base.schema}b"), Budget(2))
    try:
        ask(one, 1)
        with pytest.raises(BudgetExceeded):
            ask(one)
        ask(two, 2)
    finally:
        two.close()
        base.run(f"DROP SCHEMA {base.schema}b CASCADE")


def test_a_schema_that_would_be_sql_is_refused() -> None:
    with pytest.raises(Misconfigured, match="small letters"):
        read_address("postgresql://db/h?schema=a;drop")
