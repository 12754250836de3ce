"""Soaks of a real server with real clients: workers killed under load, storms of retries, canaries in every column."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import pytest

import lapwing as lw
from lapwing.client.transport import Transport, new_key, read_address, read_token
from lapwing.errors import LapwingError
from lapwing.ledger import verify_ledger
from support.service import RunningService, running
from support.visits import CANARY

TWO_WORKERS = "workers = 2\nthreads = 4\nrate = 100000\nburst = 100000"
LOAD = {"serve": TWO_WORKERS, "answer_time": 0.02, "epsilon": 100000}


def charged(service: RunningService) -> Counter[str]:
    """How often each question was charged, by its text; and that the sum of all charges is exact."""
    with service.ledger() as ledger:
        entries = [entry for entry in ledger.entries() if entry.kind == "reserve"]
        assert ledger.spent.amount == sum(Fraction(entry.amount) for entry in entries)
        assert ledger.spent.fits(ledger.total)
    report = verify_ledger(service.folder / ".lapwing" / "ledger.db")
    assert report.ok, str(report)
    return Counter(str(entry.remark("question")) for entry in entries)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [60])
def test_workers_that_are_killed_under_load_lose_no_charge_and_make_none_twice(tmp_path: Path, seconds: int) -> None:
    """ledger:B3 ledger:B5 gate:G34"""
    with running(tmp_path, **LOAD) as service:
        answered: list[str] = []
        lost: list[str] = []
        odd: list[str] = []
        done = threading.Event()

        def ask(client: int) -> None:
            with lw.connect(service.url, service.token, timeout=20) as connection:
                for number in range(10**6):
                    if done.is_set():
                        return
                    question = f"SELECT COUNT(*) AS n FROM visits WHERE age > {client} AND cost < {number + 1}"
                    try:
                        connection.sql(question, epsilon=0.01, check=0)
                        answered.append(question)
                    except LapwingError as error:
                        which = lost if error.code in ("disconnected", "answer-lost", "key-running") else odd
                        which.append(f"{error.code} {question}")

        def kill() -> None:
            while not done.wait(1.5):
                workers = [pid for pid in service.workers() if pid != service.process.pid]
                if len(workers) == 2:
                    os.kill(workers[int(time.monotonic() * 1000) % 2], signal.SIGKILL)
                    killed.append(time.monotonic())

        killed: list[float] = []
        with ThreadPoolExecutor(9) as pool:
            pool.submit(kill)
            asking = [pool.submit(ask, client) for client in range(8)]
            time.sleep(seconds)
            done.set()
            for one in asking:
                one.result()
        assert len(killed) >= 5
        assert len(answered) > 50
        assert odd == []
        charges = charged(service)
        assert {question: charges[question] for question in answered if charges[question] != 1} == {}
        assert max(charges.values()) == 1  # what was lost is charged once, and never run again for nothing
        assert len(charges) <= len(answered) + len(lost)


@pytest.mark.slow
def test_a_thousand_retries_over_all_workers_are_one_charge(tmp_path: Path) -> None:
    """ledger:B5"""
    with running(tmp_path, **LOAD) as service:
        key, sender = new_key(), Transport(read_address(service.url), read_token(service.token), timeout=60, ca=None)
        body = {"sql": "SELECT COUNT(*) AS n FROM visits", "epsilon": "0.1", "refresh": True, "check": 0}
        with ThreadPoolExecutor(32) as pool:
            found = list(pool.map(lambda _: str(sender.post("/v1/ask", body, key=key)), range(1000)))
        assert len(set(found)) == 1
        assert sum(charged(service).values()) == 1
        sender.close()


@pytest.mark.slow
def test_canaries_are_in_no_file_of_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """threat:A13"""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    failing = [
        "SELECT name, COUNT(*) AS n FROM visits GROUP BY name",
        "SELECT SUM(CAST(name AS INTEGER)) AS n FROM visits",
        "SELECT COUNT(*) AS n FROM visits WHERE name LIKE '%9'",
        "SELECT AVG(LENGTH(name)) AS n FROM visits",
        "SELECT MAX(name) FROM visits",
        "SELECT * FROM visits",
        "SELECT COUNT(*) FROM visits WHERE name = (SELECT name FROM visits LIMIT 1)",
    ]
    with running(tmp_path, serve=f"{TWO_WORKERS}\nlog_questions = true", people=20_000, answer_time=0.02) as service:
        seen: list[str] = []
        with lw.connect(service.url, service.token) as connection:
            for number in range(70):
                question = f"{failing[number % len(failing)]} -- {number}"
                try:
                    seen.append(str(connection.sql(question, epsilon=0.001)))
                except LapwingError as error:
                    seen.append(f"{error}{error.to_dict()}")
            seen += [
                str(connection.describe()),
                connection.dummy().sql("SELECT COUNT(*) AS n FROM visits", epsilon=1).to_json(),
            ]
            files = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "visits.parquet"]
            assert any(path.name == "server.log" for path in files)
            assert [path for path in files if CANARY.encode() in path.read_bytes()] == []
        assert not [text for text in seen if CANARY in text]
