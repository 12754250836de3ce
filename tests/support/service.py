"""A real `lapwing serve` in processes of its own, on a spare port of this machine."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from lapwing.cli.options import ledger_at
from lapwing.ledger import Ledger
from lapwing.server.tokens import TokenBook
from support.quick import LAPWING
from support.visits import write_visits

VISITS = """
[tables.visits]
source = "visits.parquet"
unit = "pid"
version = "1"
rows_per_unit = 2
groups_per_unit = 2
answer_time = {answer_time}

[tables.visits.columns]
pid = {{ type = "integer" }}
name = {{ type = "text" }}
sex = {{ type = "text", values = ["F", "M"] }}
site = {{ type = "integer", values = [9, 10, 1000] }}
cost = {{ type = "real", bounds = [0, 100] }}
age = {{ type = "integer", bounds = [0, 120] }}
"""


@dataclass(frozen=True)
class RunningService:
    """What a test sees of a server."""

    url: str
    folder: Path
    token: str
    """Of an analyst."""
    process: subprocess.Popen[bytes]

    @property
    def file(self) -> Path:
        return self.folder / "lapwing.toml"

    @property
    def log(self) -> str:
        """What it has printed so far."""
        return (self.folder / "server.log").read_text(encoding="utf-8")

    def ledger(self) -> Ledger:
        """Its ledger, opened beside it."""
        return ledger_at(self.file)

    def new_token(self, name: str, role: str = "analyst") -> str:
        with self.ledger() as book:
            return TokenBook(book).add(name, role)[0]

    def workers(self) -> list[int]:
        """The ids of its worker processes; its own if there is but one."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        named = [int(pid) for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        return named or [self.process.pid]


def write_settings(
    folder: Path,
    *,
    people: int = 40,
    serve: str = "",
    answer_time: float = 0.05,
    ledger: str | None = None,
    **budget: Any,
) -> Path:
    """A folder with visits and a lapwing.toml that serves them."""
    folder.mkdir(parents=True, exist_ok=True)
    write_visits(folder, people)
    budget = budget or {"epsilon": 10, "delta": 1e-6}
    lines = "\n".join(f"{name} = {value}" for name, value in budget.items())
    top = "" if ledger is None else f'ledger = "{ledger}"\n'
    settings = f"{top}[budget]\n{lines}\n{VISITS.format(answer_time=answer_time)}\n[serve]\n{serve}\n"
    (folder / "lapwing.toml").write_text(settings, encoding="utf-8")
    return folder


def spare_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def running(folder: Path, **settings: Any) -> Iterator[RunningService]:
    """A server on a folder with a lapwing.toml, which is written if it is missing; stopped at the end."""
    if not (folder / "lapwing.toml").exists():
        port = spare_port()
        serve = f"port = {port}\n" + settings.pop("serve", "rate = 100000\nburst = 100000")
        write_settings(folder, serve=serve, **settings)
    said = (folder / "lapwing.toml").read_text()
    scheme = "https" if "tls_key" in said else "http"
    url = f"{scheme}://127.0.0.1:{said.split('port = ')[1].split()[0]}"
    with (folder / "server.log").open("ab") as log:
        command = [*LAPWING, "serve", "--file", str(folder / "lapwing.toml")]
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, start_new_session=True)
    service = RunningService(url, folder, "", process)
    try:
        wait_until_ready(service)
        yield RunningService(url, folder, service.new_token("ann"), process)
    finally:
        stop(process)


def wait_until_ready(service: RunningService, seconds: float = 120) -> None:
    """Polls its health; nothing is slept for in vain."""
    end = time.monotonic() + seconds
    any_certificate = ssl._create_unverified_context()
    while time.monotonic() < end:
        if service.process.poll() is not None:
            raise AssertionError(f"the server has ended: {service.log}")
        try:
            with urlopen(f"{service.url}/v1/health", timeout=5, context=any_certificate) as answer:
                if answer.status == 200:
                    return
        except (URLError, OSError):
            time.sleep(0.05)
    raise AssertionError(f"the server does not answer: {service.log}")


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ends a server and its workers: it leads a group of its own."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
