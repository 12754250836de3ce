"""Servers that are killed, copied, restored and promoted, and many processes through a pooler."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import psycopg
import pytest

from lapwing.errors import LapwingError, Misconfigured
from lapwing.ledger import Ledger, accept_ledger, open_ledger, verify_ledger
from lapwing.ledger.postgres import PostgresStore
from lapwing.privacy import Accounting, Budget, Cost
from support.pgbouncer import pooled
from support.postgres import PostgresServer, binaries, copied, running

PURE = Accounting.PURE
Work = Callable[..., Any]


def ask(ledger: Ledger, amount: Any = 0.1, **more: Any) -> Any:
    return ledger.reserve(Cost(PURE, amount), **{"analyst": "ann", "body": "q", **more})


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    """A server to kill and to copy."""
    with running(wal_writer_delay="10s", max_connections="100") as server:
        yield server


def children_of(process: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process)], capture_output=True, text=True, check=False)
    return [int(word) for word in found.stdout.split()]


def crash(server: PostgresServer) -> None:
    """Kills every process of the server at once, and starts it again."""
    assert server.process is not None
    for pid in [server.process.pid, *children_of(server.process.pid)]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    server.process.wait()
    for _ in range(50):
        try:
            server.start()
        except Exception:  # noqa: BLE001  the memory of the dead is still held
            time.sleep(0.1)
        else:
            return
    server.start()


def check_load(
    work: Work, server: PostgresServer, folder: Path, crashes: int, pause: float, *, processes: int = 4, port: int = 0
) -> None:
    """Kills the server under load, perhaps behind a pooler; then every acknowledged charge is there, and each process
    knew the truth."""
    url = f"{server.url(server.new_database())}"
    (folder / "ledger.url").write_text(url.replace(f":{server.port}/", f":{port or server.port}/"))
    open_ledger(url, Budget(10**6), witness=folder / "data.witness").close()
    pids, made = work("load", folder, processes)["pids"], folder / "made"
    try:
        for _ in range(crashes):
            size = made.stat().st_size
            deadline = time.monotonic() + 60
            while made.stat().st_size < size + 2000:
                assert time.monotonic() < deadline, "no charge was made after the crash"
                time.sleep(0.01)
            time.sleep(pause)
            crash(server)
        size = made.stat().st_size
        while made.stat().st_size < size + 1000:
            time.sleep(0.01)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
    lines = [line.split(" ", 2) for line in made.read_text().splitlines()]
    with open_ledger(url, Budget(10**6), witness=folder / "data.witness") as ledger:
        charges = {(entry.seq, entry.key) for entry in ledger.entries() if entry.kind == "reserve"}
        assert ledger.spent.amount == Fraction(len(charges), 10)
        assert ledger.verify().ok
    acknowledged = {(int(seq), key) for fate, seq, key in lines if fate == "charged"}
    free = {key for fate, _, key in lines if fate == "free"}
    assert len(acknowledged) > 10 * crashes
    assert acknowledged <= charges
    assert not free & {key for _, key in charges}, "a charge was made that was called free"


def test_a_server_killed_under_load_loses_no_charge(work: Work, own_server: PostgresServer, tmp_path: Path) -> None:
    """ledger:B1 ledger:B13: four processes, three crashes; nothing in the log of the server is written by a timer."""
    check_load(work, own_server, tmp_path, 3, 0.05)


@pytest.mark.slow
def test_a_server_killed_behind_a_pooler_loses_no_charge(
    work: Work, own_server: PostgresServer, tmp_path: Path
) -> None:
    """ledger:B1 ledger:B2 ledger:B13: eight processes; the pooler stays, and gives them other connections."""
    with pooled(own_server, default_pool_size="12", server_login_retry="1") as port:
        check_load(work, own_server, tmp_path, 2, 0.05, processes=8, port=port)


def test_an_acknowledged_charge_survives_with_all_below_it(
    own_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ledger:B1: a process was killed between its commit and the disk, another charged on top; then the server dies."""
    url = own_server.url(own_server.new_database())
    with open_ledger(url, Budget(1)) as dead, open_ledger(url, Budget(1)) as other:
        with monkeypatch.context() as patch:
            patch.setattr(PostgresStore, "_make_durable", lambda *_: None)
            ask(dead, key="below")
        ask(other, key="acknowledged")
        crash(own_server)
        assert [entry.key for entry in other.entries()] == [None, "below", "acknowledged"]
        assert other.spent == Cost(PURE, 0.2)


@pytest.mark.slow
def test_a_server_killed_again_and_again_loses_no_charge(
    work: Work, own_server: PostgresServer, tmp_path: Path
) -> None:
    """ledger:B1 ledger:B13."""
    check_load(work, own_server, tmp_path, 25, 0.4)


def test_a_backend_that_is_killed_loses_no_charge(own_server: PostgresServer, tmp_path: Path) -> None:
    """ledger:B1: the server restarts its memory, and with it goes what was not on disk, while its start time stays."""
    url = own_server.url(own_server.new_database())
    with open_ledger(url, Budget(100), witness=tmp_path / "witness") as ledger:
        for _ in range(3):
            before = ask(ledger)
            with own_server.connect() as shell:
                rows = shell.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'lapwing ledger'")
                os.kill(rows.fetchall()[0][0], signal.SIGKILL)
            for _ in range(100):
                try:
                    after = ask(ledger)
                except LapwingError:
                    time.sleep(0.1)
                else:
                    break
            assert after.seq > before.seq
        assert ledger.verify().ok
        assert len([entry for entry in ledger.entries() if entry.kind == "reserve"]) * Fraction(1, 10) == (
            ledger.spent.amount
        )


def test_an_image_of_the_disk_that_is_put_back_is_refused(own_server: PostgresServer, tmp_path: Path) -> None:
    """ledger:B12: it has the same identity, so the witness refuses it; where nothing is missing, it is served."""
    name, witness = own_server.new_database(), tmp_path / "witness"
    with open_ledger(own_server.url(name), Budget(1), witness=witness) as ledger:
        ask(ledger)
        with copied(own_server) as image:
            image.start()
            with open_ledger(image.url(name), Budget(1), witness=witness) as same:
                assert same.spent == Cost(PURE, 0.1)
            ask(ledger)
            with pytest.raises(Misconfigured, match=r"ends at entry 2, .*has seen entry 3: an older copy"):
                open_ledger(image.url(name), Budget(1), witness=witness)
            assert "older copy" in str(verify_ledger(image.url(name), witness=[witness]))


def test_a_replica_is_refused_and_a_stale_one_too_when_it_is_promoted(
    own_server: PostgresServer, tmp_path: Path
) -> None:
    """ledger:B12 ledger:B13: by its timeline on every host, and by the witness where charges are missing."""
    name, witness = own_server.new_database(), tmp_path / "witness"
    with open_ledger(own_server.url(name), Budget(1), witness=witness) as ledger:
        ask(ledger)
        with copied(own_server, "-R") as replica:
            conninfo = replica.folder / "data" / "postgresql.auto.conf"
            conninfo.write_text("primary_conninfo = ''\n")  # it never catches up
            replica.start()
            with pytest.raises(Misconfigured, match=r"is a replica.*Name the primary"):
                open_ledger(replica.url(name), Budget(1))
            assert verify_ledger(replica.url(name), witness=[witness]).ok
            ask(ledger)
            with replica.connect() as shell:
                assert shell.execute("SELECT pg_promote()").fetchone() == (True,)
            with pytest.raises(Misconfigured, match=r"/00000001/\d+\.\d+ and is now on server \d+/00000002/"):
                open_ledger(replica.url(name), Budget(1))
            refused = accept_ledger(replica.url(name), Budget(1), witness=[witness])
            assert not refused.ok
            assert "an older copy" in str(refused)
            assert accept_ledger(replica.url(name), Budget(1)).ok  # a host that knows nothing may; see the page
            with open_ledger(replica.url(name), Budget(1)) as other:
                assert ask(other).fresh


def test_a_restored_dump_is_refused(own_server: PostgresServer, tmp_path: Path) -> None:
    """ledger:B12: another server has another identity, and the tables come back as they were."""
    name = own_server.new_database()
    with open_ledger(own_server.url(name), Budget(1)) as ledger:
        ledger.settle(ask(ledger), b"answer")
    dump = subprocess.run([binaries() / "pg_dump", own_server.url(name)], check=True, capture_output=True).stdout
    with running() as other:
        restored = other.new_database()
        subprocess.run([binaries() / "psql", "-q", other.url(restored)], input=dump, check=True, capture_output=True)
        with pytest.raises(Misconfigured, match=r"last written on server .* is now on server"):
            open_ledger(other.url(restored), Budget(1))
        assert accept_ledger(other.url(restored), Budget(1)).ok
        with open_ledger(other.url(restored), Budget(1)) as ledger:
            assert ask(ledger).fresh
        assert verify_ledger(other.url(restored)).ok


def test_eight_processes_race_through_a_pooler(work: Work, base: Any, tmp_path: Path) -> None:
    """ledger:B2: PgBouncer in transaction mode, fewer server connections than processes hold."""
    with pooled(base.server, default_pool_size="12") as port:
        (tmp_path / "ledger.url").write_text(base.url.replace(f":{base.server.port}/", f":{port}/"))
        result = work("race", tmp_path, 30, 8)
        assert sum(result["granted"]) == 30
        assert result["ok"]
        assert result["entries"] == 61
    assert base.verify().ok


def test_nothing_of_a_session_is_left_behind_a_pooler(base: Any) -> None:
    """Settings end with their transaction, and there are no prepared statements and no locks."""
    with pooled(base.server, default_pool_size="2") as port:
        url = base.url.replace(f":{base.server.port}/", f":{port}/")
        with open_ledger(url, Budget(10)) as ledger:
            for number in range(10):
                ledger.settle(ask(ledger, key=str(number)), b"answer", match="m")
            with psycopg.connect(url.partition("?")[0], autocommit=True, prepare_threshold=None) as shell:
                for wanted in (
                    "SELECT count(*) FROM pg_prepared_statements",
                    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'",
                    "SELECT count(*) FROM pg_settings WHERE source = 'session' AND name LIKE '%timeout'",
                    "SELECT count(*) FROM pg_settings WHERE source = 'session' AND name = 'synchronous_commit'",
                ):
                    assert shell.execute(wanted).fetchone() == (0,)  # type: ignore[arg-type]
            assert ledger.spent == Cost(PURE, 1)
