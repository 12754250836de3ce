"""`lapwing serve` as it runs: workers that share a ledger, kill -9 under load, restarts, slow clients, TLS."""

from __future__ import annotations

import os
import re
import signal
import socket
import ssl
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from lapwing.ledger import verify_ledger
from lapwing.privacy import Accounting, Cost
from lapwing.server.tokens import TokenBook
from support.accepted import is_immediate
from support.quick import LAPWING
from support.serving import BY_SEX, COUNT, Running, running, start, stop, wait_until_ready, write_settings


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Two workers over one ledger."""
    with running(tmp_path_factory.mktemp("served"), epsilon=20, workers=2) as found:
        yield found


def question(number: int) -> dict[str, Any]:
    return {"sql": f"SELECT COUNT(*) AS n FROM visits WHERE age < {number}", "epsilon": 0.1}


def test_a_worker_sends_at_once_what_it_writes(server: Running) -> None:
    """With Nagle's algorithm on, every answer would wait some 40 ms for a delayed acknowledgement."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(b"GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")
        found = [is_immediate(worker, connection) for worker in server.workers]
    assert sorted(found, key=str) == [None, True]


def test_workers_share_one_ledger_and_its_answers(server: Running) -> None:
    with server.client(server.token()) as client:
        prices = Counter(client.post("/v1/ask", json=BY_SEX).json()["price"]["epsilon"] for _ in range(20))
    assert prices == {0.1: 1, 0.0: 19}


def test_a_revocation_holds_for_the_next_request_on_all_workers(server: Running) -> None:
    """gate:G52"""
    token = server.token("eve")

    def statuses() -> set[int]:
        """With a connection for each request, so that both workers get some."""
        with server.client(token) as client:
            return {client.get("/v1/budget", headers={"Connection": "close"}).status_code for _ in range(12)}

    assert statuses() == {200}
    with server.ledger() as ledger:
        TokenBook(ledger).revoke("eve")
    assert statuses() == {401}


def test_a_storm_over_all_workers_is_one_charge(server: Running) -> None:
    """ledger:B5 gate:G32: two hundred at once over real connections."""
    token, before = server.token("storm"), None
    with server.ledger() as ledger:
        before = ledger.spent

    with server.client(token) as client, ThreadPoolExecutor(16) as pool:
        headers = {"Idempotency-Key": "one"}
        answers = list(pool.map(lambda _: client.post("/v1/ask", json=question(77), headers=headers), range(200)))
    assert {answer.status_code for answer in answers} <= {200, 409, 429, 503}
    assert len({answer.content for answer in answers if answer.status_code == 200}) == 1
    with server.ledger() as ledger:
        assert ledger.spent - before == Cost(Accounting.PURE, 0.1)


def test_idle_and_slow_connections_do_not_stop_answers(server: Running) -> None:
    """gate:G53: two hundred clients that never finish their request."""
    slow = []
    try:
        for number in range(200):
            connection = socket.create_connection(("127.0.0.1", server.port), timeout=30)
            if number % 2:
                connection.sendall(b"POST /v1/ask HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n")
            slow.append(connection)
        with server.client(server.token()) as client:
            assert client.post("/v1/ask", json=BY_SEX).status_code == 200
    finally:
        for connection in slow:
            connection.close()


@pytest.mark.parametrize(
    "raw",
    [
        b"GET /v1/health HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 1_000_000 + b"\r\n\r\n",
        b"POST /v1/ask HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET",
        b"POST /v1/ask HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"\x16\x03\x01\x00\xa5\x01\x00",
    ],
    ids=["header", "smuggled", "two lengths", "tls"],
)
def test_odd_requests_are_answered_4xx_or_closed(server: Running, raw: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        try:
            connection.sendall(raw)
            answer = connection.recv(1000)
        except ConnectionError:
            answer = b""
    assert re.match(rb"HTTP/1\.1 4\d\d ", answer) or answer == b""
    assert httpx.get(f"{server.url}/v1/health", timeout=60).status_code == 200


def test_the_log_has_lines_of_json_and_no_token(server: Running) -> None:
    token = server.token()
    with server.client(token) as client:
        client.get("/v1/budget")
    assert token.split("_", 2)[2] not in server.log()
    assert '"route": "/v1/budget"' in server.log()
    assert "Traceback" not in server.log()


def test_a_killed_worker_loses_no_charge_and_makes_none_twice(tmp_path: Path) -> None:
    """gate:G34: kill -9 under load. Every answer that was sent is charged, a retry gets its bytes, and the ledger is
    whole; the workers that are left answer, and a new one comes."""
    with running(tmp_path, epsilon=20, workers=2) as server:
        token = server.token()
        sent: dict[int, bytes] = {}

        def ask(number: int) -> None:
            with suppress(httpx.HTTPError):
                answer = client.post("/v1/ask", json=question(number), headers={"Idempotency-Key": f"k{number}"})
                if answer.status_code == 200:
                    sent[number] = answer.content
            if number == 20:
                os.kill(server.workers[0], signal.SIGKILL)

        with server.client(token) as client, ThreadPoolExecutor(8) as pool:
            list(pool.map(ask, range(60)))
        wait_until_ready(server.url, server.process)
        assert sent
        with server.ledger() as ledger:
            charged = ledger.spent
            assert charged.amount >= Cost(Accounting.PURE, 0.1).amount * len(sent)
            assert charged.amount <= Cost(Accounting.PURE, 0.1).amount * 60
        with server.client(token) as client:
            for number, content in list(sent.items())[:10]:
                again = client.post("/v1/ask", json=question(number), headers={"Idempotency-Key": f"k{number}"})
                assert again.content == content
        with server.ledger() as ledger:
            assert ledger.spent == charged
        report = verify_ledger(tmp_path / ".lapwing/ledger.db", witness=[tmp_path / "visits.parquet.lapwing"])
        assert report.ok


def test_a_reply_survives_a_restart_of_the_server(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        token = server.token()
        with server.client(token) as client:
            first = client.post("/v1/ask", json=COUNT, headers={"Idempotency-Key": "k"})
        stop(server.process)
        process = start(tmp_path)
        try:
            wait_until_ready(server.url, process)
            with server.client(token) as client:
                again = client.post("/v1/ask", json=COUNT, headers={"Idempotency-Key": "k"})
            assert again.content == first.content
        finally:
            stop(process)
        with server.ledger() as ledger:
            assert ledger.spent == Cost(Accounting.PURE, 0.1)


def test_tls_by_file(tmp_path: Path) -> None:
    make = "openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost"
    more = " -addext subjectAltName=IP:127.0.0.1"
    try:
        subprocess.run((make + more).split(), cwd=tmp_path, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("needs openssl")
    port = write_settings(tmp_path, more='tls_certificate = "cert.pem"\ntls_key = "key.pem"')
    process = start(tmp_path)
    try:
        trusted = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
        end = time.monotonic() + 60
        status = 0
        while time.monotonic() < end and status != 200:
            try:
                status = httpx.get(f"https://127.0.0.1:{port}/v1/health", verify=trusted, timeout=5).status_code
            except httpx.HTTPError:
                time.sleep(0.05)
        assert status == 200
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"http://127.0.0.1:{port}/v1/health", timeout=5)
    finally:
        stop(process)


def test_without_tls_another_address_is_refused(tmp_path: Path) -> None:
    write_settings(tmp_path, more='host = "0.0.0.0"')
    done = subprocess.run([*LAPWING, "serve"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "loopback" in done.stderr
