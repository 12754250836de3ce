"""A server for tests: one in this process, asked without a network, or one in processes of its own."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from lapwing.curator import Curator
from lapwing.ledger import open_ledger
from lapwing.privacy import Budget
from lapwing.server.app import create_app
from lapwing.server.log import LOGGER
from lapwing.server.service import Service
from lapwing.server.settings import ServeSettings
from lapwing.server.tokens import TokenBook
from support.quick import LAPWING
from support.visits import open_visits, write_visits

COUNT = {"sql": "SELECT COUNT(*) AS n FROM visits", "epsilon": "0.1"}
BY_SEX = {"sql": "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex", "epsilon": "0.1"}
QUICK = 0.05
"""An answer time for tests, in seconds."""


@dataclass
class Asked:
    """A server in this process."""

    service: Service
    app: Any
    tokens: dict[str, str] = field(default_factory=dict)
    logged: list[str] = field(default_factory=list)

    @property
    def lines(self) -> list[dict[str, Any]]:
        """What was logged."""
        return [json.loads(line) for line in self.logged]

    def token(self, name: str = "ann", role: str = "analyst") -> str:
        """A token of this name and role, made once."""
        known = self.tokens.get(f"{name}:{role}")
        if known is None:
            known = self.tokens[f"{name}:{role}"] = self.service.tokens.add(name, role)[0]
        return known

    def call(self, method: str, path: str, *, name: str = "ann", role: str = "analyst", **more: Any) -> httpx.Response:
        """What the server answers."""
        (response,) = self.calls([(method, path, more)], name=name, role=role)
        return response

    def ask(self, body: Any, path: str = "/v1/ask", *, key: str | None = None, **more: Any) -> httpx.Response:
        headers = {} if key is None else {"Idempotency-Key": key}
        return self.call("POST", path, json=body, headers=headers, **more)

    def calls(
        self, requests: list[tuple[str, str, dict[str, Any]]], *, name: str = "ann", role: str = "analyst"
    ) -> list[httpx.Response]:
        """What the server answers to requests that come at once."""
        found: dict[int, httpx.Response] = {}

        async def run() -> None:
            own = {"Authorization": f"Bearer {self.token(name, role)}"}
            transport = httpx.ASGITransport(app=self.app)
            async with (
                httpx.AsyncClient(transport=transport, base_url="http://lapwing", timeout=60) as client,
                anyio.create_task_group() as group,
            ):

                async def one(place: int, method: str, path: str, more: dict[str, Any]) -> None:
                    headers = {**own, **more.pop("headers", {})}
                    found[place] = await client.request(method, path, headers=headers, **more)

                for place, (method, path, more) in enumerate(requests):
                    group.start_soon(one, place, method, path, dict(more))

        anyio.run(run)
        return [found[place] for place in range(len(requests))]

    @property
    def spent(self) -> Any:
        return self.service.ledger.spent


@contextmanager
def serving(curator: Curator | None = None, times: Any = None, **settings: Any) -> Iterator[Asked]:
    """A server over the visits."""
    chosen = ServeSettings(**{"rate": 100_000, "burst": 100_000, **settings})
    service = Service(
        open_visits() if curator is None else curator, chosen, {"visits": QUICK} if times is None else times
    )
    asked = Asked(service, create_app(service))
    handler = _Lines(asked.logged)
    level = LOGGER.level
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    try:
        yield asked
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(level)
        service.close()


class _Lines(logging.Handler):
    """Keeps what is logged."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(record.getMessage())


SETTINGS = """
check = 0
[budget]
epsilon = {epsilon}
[serve]
port = {port}
workers = {workers}
rate = 100000
burst = 100000
{more}
[tables.visits]
source = "visits.parquet"
unit = "pid"
rows_per_unit = 2
answer_time = {answer_time}
[tables.visits.columns]
pid = {{ type = "integer" }}
name = {{ type = "text" }}
sex = {{ type = "text", values = ["F", "M"] }}
site = {{ type = "integer", values = [9, 10, 1000] }}
cost = {{ type = "real", bounds = [0, 100] }}
age = {{ type = "integer", bounds = [0, 120] }}
"""


def hold_rows(service: Any, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """No row is read until the event is set, or for a minute."""
    engine, going = service.curator._engine, threading.Event()
    real = engine.fetch

    def slow(query: Any) -> Any:
        going.wait(60)
        return real(query)

    monkeypatch.setattr(engine, "fetch", slow)
    return going


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Running:
    """A server in processes of its own."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes]
    budget: Budget

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def token(self, name: str = "ann", role: str = "analyst") -> str:
        with self.ledger() as ledger:
            return TokenBook(ledger).add(name, role)[0]

    def ledger(self) -> Any:
        return open_ledger(
            self.folder / ".lapwing" / "ledger.db", self.budget, witness=self.folder / "visits.parquet.lapwing"
        )

    def client(self, token: str) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {token}"}, timeout=60)

    @property
    def workers(self) -> list[int]:
        """The processes that answer."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        children = [int(pid) for pid in path.read_text().split()]
        return [pid for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]

    def log(self) -> str:
        return (self.folder / "log").read_text()


def write_settings(
    folder: Path, *, epsilon: float = 1, answer_time: float = QUICK, workers: int = 1, more: str = ""
) -> int:
    """A data file and its lapwing.toml; the port that it names."""
    port = free_port()
    write_visits(folder)
    facts = {"epsilon": epsilon, "port": port, "workers": workers, "answer_time": answer_time, "more": more}
    (folder / "lapwing.toml").write_text(SETTINGS.format(**facts))
    return port


def start(folder: Path) -> subprocess.Popen[bytes]:
    """`lapwing serve` in a folder; its output goes to a file there."""
    with open(folder / "log", "ab") as log:
        return subprocess.Popen([*LAPWING, "serve"], cwd=folder, stdout=log, stderr=log, start_new_session=True)


def wait_until_ready(url: str, process: subprocess.Popen[bytes], seconds: float = 60) -> None:
    """Asks for /v1/health until it answers."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert process.poll() is None, "the server ended"
        try:
            if httpx.get(f"{url}/v1/health", timeout=5).status_code == 200:
                return
        except httpx.HTTPError:
            time.sleep(0.05)
    raise AssertionError("the server did not start")


@contextmanager
def running(folder: Path, **facts: Any) -> Iterator[Running]:
    """A server with processes of its own, stopped at the end."""
    port = write_settings(folder, **facts)
    process = start(folder)
    server = Running(folder, port, process, Budget(facts.get("epsilon", 1)))
    try:
        wait_until_ready(server.url, process)
        yield server
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Stops a server that `start` started, and its workers."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(20)
