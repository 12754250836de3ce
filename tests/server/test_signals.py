"""Signals under load: nothing that was charged is lost, no process stays behind, and settings are read anew."""

from __future__ import annotations

import os
import secrets
import signal
import ssl
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest

from support.quick import LAPWING
from support.serving import Running, running, start, stop, wait_until_ready, write_settings

LOAD = {"epsilon": 100, "workers": 2, "answer_time": 0.2}
CLIENTS = 4


class Load:
    """Clients that ask one question after the other, each under a key of its own, and never twice."""

    def __init__(self, server: Running) -> None:
        self._name = secrets.token_hex(4)
        self._server, self._token = server, server.token(self._name)
        self.told: dict[str, bytes] = {}
        self.asked: dict[str, dict[str, Any]] = {}
        self.odd: list[str] = []
        self._over = Event()
        until(lambda: all(map(is_serving, server.workers)))

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Asks while the block runs, from its first answers on."""
        with ThreadPoolExecutor(CLIENTS) as pool:
            clients = [pool.submit(self._ask, number) for number in range(CLIENTS)]
            try:
                self.wait_for_answers(2 * CLIENTS)
                yield
            finally:
                self._over.set()
            for client in clients:
                client.result()

    def wait_for_answers(self, more: int) -> None:
        """Until so many more were told."""
        wanted = len(self.told) + more
        until(lambda: len(self.told) >= wanted)

    def _ask(self, client: int) -> None:
        with self._server.client(self._token) as sender:
            for number in range(10_000):
                if self._over.is_set():
                    return
                key = f"{client}-{number}"
                sql = f"SELECT COUNT(*) AS n FROM visits WHERE age > {client} AND name <> '{self._name} {number}'"
                self.asked[key] = {"sql": sql, "epsilon": "0.01"}
                try:
                    answer = sender.post("/v1/ask", json=self.asked[key], headers={"Idempotency-Key": key})
                except httpx.HTTPError:
                    time.sleep(0.05)
                    continue
                if answer.status_code == 200:
                    self.told[key] = answer.content
                else:
                    self.odd.append(f"{answer.status_code} {answer.text}")

    def ask_again(self) -> Counter[str]:
        """Every request once more, under its key: the same bytes if they were told. Then how often each was charged."""
        with self._server.client(self._token) as sender:
            for key, body in self.asked.items():
                again = sender.post("/v1/ask", json=body, headers={"Idempotency-Key": key})
                assert again.status_code == 200, again.text
                assert again.content == self.told.get(key, again.content)
        with self._server.ledger() as ledger:
            charges = [entry for entry in ledger.entries() if entry.kind == "reserve" and entry.analyst == self._name]
        return Counter(str(entry.remark("question")) for entry in charges)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One with two workers, for signals that it survives."""
    with running(tmp_path_factory.mktemp("served"), **LOAD) as found:
        yield found


def until(seen: Callable[[], bool], seconds: float = 60) -> None:
    """Waits for what must come."""
    end = time.monotonic() + seconds
    while not seen():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)


def is_gone(pid: int) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    return True


def make_certificate(folder: Path, key: str, certificate: str, *more: str) -> None:
    command = f"openssl req -x509 -newkey rsa:2048 -keyout {key} -out {certificate} -days 2 -subj /CN=x"
    try:
        subprocess.run([*command.split(), *more], cwd=folder, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("needs openssl")


def is_serving(pid: int) -> bool:
    """Whether a worker has started so far that it leaves signals to its parent."""
    ignored = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigIgn"))
    return bool(int(ignored.split()[1], 16) >> (signal.SIGHUP - 1) & 1)


@pytest.mark.parametrize("name", ["SIGTERM", pytest.param("SIGINT", marks=pytest.mark.slow)])
def test_a_server_that_is_stopped_loses_no_answer(tmp_path: Path, name: str) -> None:
    """ledger:B5: it ends with code 0 and all its processes; what was charged is told, or found by its key."""
    with running(tmp_path, **LOAD) as server:
        load, workers = Load(server), server.workers
        with load.going_on():
            server.process.send_signal(getattr(signal, name))
            assert server.process.wait(60) == 0
        assert all(is_gone(pid) for pid in workers)
        assert load.odd == []
        process = start(tmp_path)
        try:
            wait_until_ready(server.url, process)
            charges = load.ask_again()
        finally:
            stop(process)
        assert set(charges.values()) == {1}
        assert len(charges) == len(load.asked)


def test_a_hangup_replaces_the_workers_and_reads_the_settings_anew(server: Running) -> None:
    load, before = Load(server), server.workers
    assert '"question":' not in server.log()
    settings = server.folder / "lapwing.toml"
    settings.write_text(settings.read_text().replace("[serve]", "[serve]\nlog_questions = true"))
    with load.going_on():
        os.kill(server.process.pid, signal.SIGHUP)
        until(lambda: len(server.workers) == 2 and not set(server.workers) & set(before))
        load.wait_for_answers(CLIENTS)
    assert load.odd == []
    assert set(load.ask_again().values()) == {1}
    assert '"question":' in server.log()
    assert "Traceback" not in server.log()


def test_a_hangup_with_broken_settings_changes_nothing_and_is_told(tmp_path: Path) -> None:
    with running(tmp_path, **{**LOAD, "workers": 1}) as server:
        load, before = Load(server), server.workers
        settings = tmp_path / "lapwing.toml"
        settings.write_text(settings.read_text().replace("rows_per_unit", "rows_for_unit"))
        with load.going_on():
            os.kill(server.process.pid, signal.SIGHUP)
            until(lambda: "keeping worker" in server.log())  # said when the new process is gone
            load.wait_for_answers(CLIENTS)
        assert load.odd == []
        assert server.workers == before
        assert '"failed": "start"' in server.log()
        assert "rows_for_unit" in server.log()
        assert "Traceback" not in server.log()


def test_a_hangup_reads_a_certificate_that_was_renewed(tmp_path: Path) -> None:
    def renew() -> None:
        make_certificate(tmp_path, "key.pem", "cert.pem", "-nodes")

    def shown() -> str:
        try:
            return ssl.get_server_certificate(("127.0.0.1", port), timeout=30)
        except OSError:
            return ""

    renew()
    port = write_settings(tmp_path, more='tls_certificate = "cert.pem"\ntls_key = "key.pem"')
    process = start(tmp_path)
    try:
        first = (tmp_path / "cert.pem").read_text()
        until(lambda: shown().split() == first.split())
        renew()
        second = (tmp_path / "cert.pem").read_text()
        assert second != first
        process.send_signal(signal.SIGHUP)
        until(lambda: shown().split() == second.split())
    finally:
        stop(process)


def test_other_signals_to_a_worker_lose_no_answer(server: Running) -> None:
    """Such as the hang-up of a terminal, which all its processes get."""
    load, before = Load(server), server.workers
    with load.going_on():
        for name in ("SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"):
            for pid in before:
                os.kill(pid, getattr(signal, name))
            load.wait_for_answers(2 * CLIENTS)
            assert load.odd == [], name
            assert server.workers == before, name
    assert load.odd == []
    assert set(load.told) == set(load.asked)
    assert server.workers == before


def test_the_hangup_of_a_terminal_loses_no_answer(server: Running) -> None:
    load, before = Load(server), server.workers
    with load.going_on():
        os.killpg(server.process.pid, signal.SIGHUP)
        until(lambda: len(server.workers) == 2 and not set(server.workers) & set(before))
    assert load.odd == []
    assert set(load.ask_again().values()) == {1}


def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    """What they were answering is told, or stored for its key."""
    with running(tmp_path, **LOAD) as server:
        load, workers = Load(server), server.workers
        with load.going_on():
            server.process.kill()
            until(lambda: all(is_gone(pid) for pid in workers))
        process = start(tmp_path)
        try:
            wait_until_ready(server.url, process)
            assert set(load.ask_again().values()) == {1}
        finally:
            stop(process)


def test_no_process_leaves_a_core_dump(server: Running) -> None:
    """threat:A13: it would hold rows."""
    for pid in (server.process.pid, *server.workers):
        limits = Path(f"/proc/{pid}/limits").read_text()
        (line,) = [line for line in limits.splitlines() if line.startswith("Max core file size")]
        assert line.split()[4:6] == ["0", "0"]


def serve(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [*LAPWING, "serve"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)


def test_a_port_that_is_taken_is_one_sentence_and_code_2(server: Running) -> None:
    done = serve(server.folder)
    assert done.returncode == 2
    assert "cannot be listened on" in done.stderr
    assert "serve.port" in done.stderr


@pytest.mark.parametrize("wrong", ["text", "another", "locked", "missing"])
def test_a_certificate_that_does_not_fit_is_told_before_a_worker_starts(tmp_path: Path, wrong: str) -> None:
    write_settings(tmp_path, more='tls_certificate = "cert.pem"\ntls_key = "key.pem"')
    make_certificate(
        tmp_path, "key.pem", "cert.pem", *(("-passout", "pass:secret") if wrong == "locked" else ("-nodes",))
    )
    if wrong == "text":
        (tmp_path / "key.pem").write_text("no key")
    elif wrong == "another":
        make_certificate(tmp_path, "key.pem", "other.pem", "-nodes")
    elif wrong == "missing":
        (tmp_path / "key.pem").unlink()
    done = serve(tmp_path)
    assert done.returncode == 2
    assert "key.pem" in done.stderr
    assert len(done.stderr.splitlines()) == 1
