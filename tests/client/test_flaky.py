"""A network that cuts, delays and refuses: every way to ask is charged once, and gets the answer that was paid."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import lapwing as lw
from lapwing.client import transport
from lapwing.client.connection import Connection
from lapwing.errors import Disconnected, NotServed
from support.service import RunningService, running

BUSY = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 0\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
FATES = ("unsent", "half-sent", "unanswered", "half", "headers", "busy", "busy-after", "trickle", "pass")
"""What happens to a request: it does not arrive, or half of it does; its answer is lost, cut, or cut after its headers;
something on the way says 503 in place of the server or after it; the answer comes in pieces; or nothing happens."""


class Way:
    """A way to a server on which requests meet their fates, one after the other."""

    def __init__(self, url: str) -> None:
        self._to = (urlsplit(url).hostname, urlsplit(url).port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.fates: list[str] = []
        self.pause = 0.0
        """How long an answer is held back."""
        self.sent: list[bytes] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            asked = _request(client)
            fate = self.fates.pop(0) if self.fates else "pass"
            self.sent.append(asked)
            if fate == "busy":
                return client.sendall(BUSY)
            if fate == "half-sent":
                with socket.create_connection(self._to, timeout=60) as server:
                    server.sendall(asked[: len(asked) // 2])
            elif fate != "unsent":
                answer = self._ask(asked)
                if self.pause:
                    time.sleep(self.pause)
                self._answer(client, fate, answer)

    def _ask(self, asked: bytes) -> bytes:
        with socket.create_connection(self._to, timeout=60) as server:
            server.sendall(asked.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))
            return b"".join(iter(lambda: server.recv(1 << 20), b""))

    def _answer(self, client: socket.socket, fate: str, answer: bytes) -> None:
        head = answer.index(b"\r\n\r\n") + 4 if b"\r\n\r\n" in answer else 0
        pieces = {"half": [answer[: len(answer) // 2]], "headers": [answer[:head]], "busy-after": [BUSY]}
        pieces |= {"trickle": [answer[i : i + 97] for i in range(0, len(answer), 97)], "pass": [answer]}
        for piece in pieces.get(fate, []):
            client.sendall(piece)


def _request(client: socket.socket) -> bytes:
    client.settimeout(60)
    asked = client.recv(1 << 20)
    while asked and len(asked.partition(b"\r\n\r\n")[2]) < _length(asked):
        asked += client.recv(1 << 20)
    return asked


def _length(request: bytes) -> int:
    head = request.partition(b"\r\n\r\n")[0].lower()
    return int(head.split(b"content-length:")[1].split(b"\r\n")[0]) if b"content-length:" in head else 0


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with running(tmp_path_factory.mktemp("flaky"), epsilon=1000) as found:
        yield found


@pytest.fixture
def way(service: RunningService, monkeypatch: pytest.MonkeyPatch) -> Iterator[Way]:
    monkeypatch.setattr(transport, "_FIRST_PAUSE", 0.001)
    found = Way(service.url)
    yield found
    found.close()


@contextmanager
def charged(service: RunningService, price: Fraction) -> Iterator[None]:
    """So much is spent, exactly."""
    with service.ledger() as ledger:
        before = ledger.spent.amount
    yield
    with service.ledger() as ledger:
        assert ledger.spent.amount - before == price


def magic(connection: Connection) -> Any:
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell()
    shell.user_ns["hospital"] = connection
    shell.run_line_magic("load_ext", "lapwing.magic")
    return shell.run_cell_magic(
        "lapwing", "--epsilon 0.1", "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex -- magic"
    )


PRICE = Fraction(1, 10)
TERMS: dict[str, Any] = {"epsilon": 0.1, "refresh": True}
WAYS: dict[str, Callable[[Connection], Any]] = {
    "sql": lambda at: at.sql("SELECT COUNT(*) AS n FROM visits", **TERMS, check=0),
    "batch": lambda at: at.batch(["SELECT COUNT(*) AS n FROM visits", "SELECT AVG(age) AS m FROM visits"], **TERMS),
    "distribution": lambda at: at.distribution("age", table="visits", **TERMS),
    "marginals": lambda at: at.marginals(["sex", "site"], table="visits", ways=1, **TERMS),
}


@pytest.mark.parametrize("fate", FATES)
def test_a_question_is_charged_once_whatever_the_network_does(service: RunningService, way: Way, fate: str) -> None:
    """ledger:B5"""
    way.fates = [fate, fate]
    with charged(service, PRICE), lw.connect(way.url, service.token, timeout=60) as connection:
        answer = WAYS["sql"](connection)
    assert answer.cost.amount > 0
    keys = {line for asked in way.sent for line in asked.split(b"\r\n") if line.startswith(b"Idempotency-Key")}
    assert len(keys) == 1
    assert len(way.sent) == (1 if fate in ("trickle", "pass") else 3)


@pytest.mark.parametrize("name", WAYS)
def test_every_way_to_ask_survives_all_of_it_in_turn(service: RunningService, way: Way, name: str) -> None:
    way.fates = ["unsent", "busy", "unanswered", "half", "headers", "busy-after", "trickle"]
    with lw.connect(way.url, service.token, timeout=60) as connection:
        with charged(service, PRICE):
            answer = WAYS[name](connection)
        assert way.fates == []
    assert answer.cost.amount > 0


def test_a_cell_of_a_notebook_is_charged_once(service: RunningService, way: Way) -> None:
    pytest.importorskip("IPython")
    way.fates = ["unanswered", "half", "busy-after"]
    with lw.connect(way.url, service.token, timeout=60) as connection:
        with charged(service, PRICE):
            answer = magic(connection)
        with charged(service, Fraction(0)):
            assert magic(connection).to_arrow().equals(answer.to_arrow())


def test_an_answer_that_is_slower_than_the_client_waits_is_charged_once(service: RunningService, way: Way) -> None:
    way.pause, way.fates = 3.0, ["pass"]
    with charged(service, PRICE), lw.connect(way.url, service.token, timeout=1) as connection:
        question = {"sql": "SELECT COUNT(*) AS n FROM visits WHERE age > 9", "epsilon": 0.1, "key": "slow"}

        def release() -> None:
            way.pause = 0.0

        timer = threading.Timer(1.5, release)
        timer.start()
        answer = connection.sql(question.pop("sql"), **question)
        timer.join()
    assert answer.cost.amount > 0
    assert len(way.sent) >= 2


def test_a_network_that_never_heals_names_the_key_which_brings_the_answer_later(
    service: RunningService, way: Way
) -> None:
    way.fates = ["unanswered"] * transport.ATTEMPTS
    with charged(service, PRICE), lw.connect(way.url, service.token, timeout=60) as connection:
        with pytest.raises(Disconnected) as lost:
            connection.sql("SELECT COUNT(*) AS n FROM visits WHERE age > 11", epsilon=0.1)
        assert lost.value.key in str(lost.value)
        found = connection.sql("SELECT COUNT(*) AS n FROM visits WHERE age > 11", epsilon=0.1, key=lost.value.key)
    assert found.cost.amount > 0


def test_a_proxy_that_stays_busy_is_told_and_nothing_is_charged(service: RunningService, way: Way) -> None:
    way.fates = ["busy"] * 10_000
    connection = lw.connect(way.url, service.token, timeout=1)
    with charged(service, Fraction(0)), connection, pytest.raises(NotServed) as told:
        connection.sql("SELECT COUNT(*) AS n FROM visits WHERE age > 12", epsilon=0.1)
    assert told.value.code == "not-a-server"
    assert "retry key" in str(told.value)


def test_previews_and_budgets_survive_it_too(service: RunningService, way: Way) -> None:
    with charged(service, Fraction(0)), lw.connect(way.url, service.token, timeout=60) as connection:
        for read in (connection.describe, lambda: connection.preview("SELECT COUNT(*) AS n FROM visits", epsilon=1)):
            way.fates = ["half", "busy", "unsent", "headers"]
            assert str(read())


def test_folders_hold_no_token(service: RunningService) -> None:
    secret = service.token.split("_", 2)[2].encode()
    files = [path for path in Path(service.folder).rglob("*") if path.is_file()]
    assert len(files) > 3
    assert [path for path in files if secret in path.read_bytes()] == []
