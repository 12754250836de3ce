"""A ledger whose server has a synchronous standby: what was acknowledged is on both, and a failover loses nothing."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lapwing.errors import LapwingError, LedgerFailed, Misconfigured
from lapwing.ledger import Ledger, accept_ledger, open_ledger, postgres_server, verify_ledger
from lapwing.ledger.store import InDoubt
from lapwing.privacy import Accounting, Budget, Cost
from support.postgres import PostgresServer, copied, running

PURE = Accounting.PURE


def ask(ledger: Ledger, **more: Any) -> Any:
    return ledger.reserve(Cost(PURE, 0.1), **{"analyst": "ann", "body": "q", **more})


def reserved(url: str) -> set[str | None]:
    """The keys of all charges that a server has. A replica can be read, and serves nothing."""
    from lapwing.ledger.entry import Entry
    from lapwing.ledger.postgres import PostgresStore
    from lapwing.postgres import read_address

    with PostgresStore(read_address(url)).inspecting() as book:
        entries = [Entry.read(row) for row in book.page(None)]
    return {entry.key for entry in entries if entry.kind == "reserve"}


def wait_until_streaming(primary: PostgresServer) -> None:
    deadline = time.monotonic() + 60
    while True:
        with primary.connect(options="-c synchronous_commit=local") as shell:
            found = shell.execute("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'").fetchone()
        if found == (1,):
            return
        assert time.monotonic() < deadline, "the standby does not follow"
        time.sleep(0.05)


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[PostgresServer, PostgresServer]]:
    """A server and its synchronous standby."""
    monkeypatch.setattr(postgres_server, "_PATIENCE", 0.5)
    with running() as primary, copied(primary, "-R") as standby:
        place = f"host=127.0.0.1 port={primary.port} user=postgres password={primary.password}"
        settings = standby.folder / "data" / "postgresql.auto.conf"
        settings.write_text(f"primary_conninfo = '{place} application_name=second'\n")
        standby.start()
        primary.run("ALTER SYSTEM SET synchronous_standby_names = 'second'", "SELECT pg_reload_conf()")
        wait_until_streaming(primary)
        yield primary, standby


def test_an_acknowledged_charge_is_on_the_standby(pair: tuple[PostgresServer, PostgresServer], tmp_path: Path) -> None:
    """ledger:B1 ledger:B12: the server is lost for good; after the failover every charge that returned is there."""
    primary, standby = pair
    witness = tmp_path / "witness"
    with open_ledger(primary.url(), Budget(100), witness=witness) as ledger:
        keys = {str(number) for number in range(20)}
        for key in sorted(keys):
            assert ask(ledger, key=key).fresh
        primary.stop(signal.SIGKILL)
    with standby.connect() as shell:
        assert shell.execute("SELECT pg_promote()").fetchone() == (True,)
        shell.execute("ALTER SYSTEM SET synchronous_standby_names = ''")
        shell.execute("SELECT pg_reload_conf()")
    assert verify_ledger(standby.url(), witness=[witness]).ok
    with pytest.raises(Misconfigured, match="lapwing ledger accept"):
        open_ledger(standby.url(), Budget(100), witness=witness)
    assert accept_ledger(standby.url(), Budget(100), witness=[witness]).ok
    with open_ledger(standby.url(), Budget(100), witness=witness) as ledger:
        assert {entry.key for entry in ledger.entries() if entry.kind == "reserve"} == keys
        assert ask(ledger).fresh


def test_without_the_standby_a_charge_waits_and_is_in_doubt(
    pair: tuple[PostgresServer, PostgresServer], tmp_path: Path
) -> None:
    """ledger:B1 ledger:B13: no answer is given, the price counts as charged, and whoever comes new charges nothing."""
    primary, standby = pair
    witness = tmp_path / "witness"
    with open_ledger(primary.url(), Budget(100), witness=witness, timeout=1) as ledger:
        assert ask(ledger, key="before").fresh
        standby.stop(signal.SIGKILL)
        started = time.monotonic()
        with pytest.raises(InDoubt, match=r"take it as charged\. No answer is given") as caught:
            ask(ledger, key="alone")
        assert time.monotonic() - started >= 1
        assert caught.value.charged == Cost(PURE, 0.1)
        with pytest.raises(LedgerFailed, match="No answer is given"):
            open_ledger(primary.url(), Budget(100), timeout=1)
        standby.start()
        wait_until_streaming(primary)
        again = ask(ledger, key="alone")
        assert (again.fresh, again.unanswered) == (False, True), "it was charged, as was said"
        assert ask(ledger, key="after").fresh
        assert ledger.spent == Cost(PURE, 0.3)
    assert reserved(primary.url()) == {"before", "alone", "after"}
    primary.stop(signal.SIGKILL)
    assert reserved(standby.url()) == {"before", "alone", "after"}


@pytest.mark.slow
def test_a_standby_that_comes_back_in_time_costs_nothing(pair: tuple[PostgresServer, PostgresServer]) -> None:
    """ledger:B1: the charge waits, and returns when the standby has it."""
    primary, standby = pair
    with open_ledger(primary.url(), Budget(100), timeout=60) as ledger:
        ask(ledger)
        standby.stop(signal.SIGKILL)
        made: list[Any] = []

        def charge() -> None:
            try:
                made.append(ask(ledger, key="waits"))
            except LapwingError as error:
                made.append(error)

        thread = threading.Thread(target=charge)
        thread.start()
        with primary.connect(options="-c synchronous_commit=local") as shell:
            waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
            deadline = time.monotonic() + 30
            while shell.execute(waiting).fetchone() == (0,):
                assert time.monotonic() < deadline, "it does not wait"
                time.sleep(0.02)
        assert made == []
        standby.start()
        thread.join(60)
        assert [one.fresh for one in made] == [True]
        primary.stop(signal.SIGKILL)
    assert "waits" in reserved(standby.url())
