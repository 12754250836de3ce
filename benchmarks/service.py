"""What `lapwing serve` does on this machine: answers a second, beside a server that does nothing.

    python benchmarks/service.py [--seconds 10] [--clients 64] [--workers 2]

wrk asks over HTTP on loopback. The null handler runs on the same web server and the same kind of socket with as many
workers, and sends as many bytes without any work: what it takes is the wire, the web server and wrk, which shares the
cores. The rest is Lapwing's own. The data are the bundled health data, 20,190 rows; T, after which an answer leaves, is
0.1 s.

    stored      one question over and over: the token, the ledger, the stored answer
    keyed       the same with a retry key for each request, as lw.connect sends: the ledger records key and reply
    fresh       every request is charged, read from the rows and noised; 32 on each worker are under way at a time
    previews    price and error of a question that differs every time

Work is the processor time of all workers, divided by the requests. After the run the ledger must hold exactly as many
charges as it granted, the sum of them as spent, and a chain that verifies; a single 5xx fails the benchmark.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from lapwing.cli.options import ledger_at
from lapwing.lab.targets import write_neighbours
from lapwing.ledger import verify_ledger
from lapwing.server.tokens import TokenBook

EPSILON = "0.001"
ASKED = ("COUNT(*) AS n", "AVG(visits) AS m")
NULL = """
import sys

import uvicorn
from uvicorn.supervisors import Multiprocess

from lapwing.sockets import listen

BODY = b"x" * {size}

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({{"type": "lifespan.startup.complete"}})
        return await send({{"type": "lifespan.shutdown.complete"}})
    while (await receive()).get("more_body"):
        pass
    length = str(len(BODY)).encode()
    await send({{"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]}})
    await send({{"type": "http.response.body", "body": BODY}})

if __name__ == "__main__":
    port, workers = map(int, sys.argv[1:])
    config = uvicorn.Config("null_app:app", workers=workers, log_level="error", access_log=False)
    with listen("127.0.0.1", port) as at:
        Multiprocess(config, sockets=[at]).run()
"""
LUA = """
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
local tokens = {{{tokens}}}
local made, threads = 0, 0
function setup(thread) thread:set("number", threads); threads = threads + 1 end
function request()
  made = made + 1
  wrk.headers["Authorization"] = "Bearer " .. tokens[(made + number) % #tokens + 1]
  if {keyed} then wrk.headers["Idempotency-Key"] = "k" .. {seed} .. "-" .. number .. "-" .. made end
  local body = string.gsub([[{body}]], "NUMBER", tostring(number * 100000 + made))
  return wrk.format(nil, nil, nil, body)
end
function done(summary, latency)
  local failed = summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout
  local form = '\\nRESULT {{"requests": %d, "micros": %d, "refused": %d, "failed": %d, "times": [%.3f, %.3f, %.3f]}}\\n'
  local function time(part) return latency:percentile(part) / 1000 end
  local counts = {{summary.requests, summary.duration, summary.errors.status, failed}}
  io.write(string.format(form, counts[1], counts[2], counts[3], counts[4], time(50), time(95), time(99)))
end
"""


@dataclass(frozen=True)
class Measured:
    """What one run showed; times in milliseconds."""

    requests: int
    rate: float
    refused: int
    failed: int
    p50: float
    p95: float
    p99: float
    work: float
    """Processor time of the workers for each request."""


def main() -> None:
    warnings.simplefilter("ignore")  # a budget for thousands of questions is a weak one
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=int, default=10)
    options.add_argument("--clients", type=int, default=64)
    options.add_argument("--workers", type=int, default=2)
    said = options.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("wrk is missing: sudo apt-get install wrk")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with serving(folder, said.workers) as (url, process, tokens, file):

            def load(path: str, body: dict[str, Any], clients: int = said.clients, *, keyed: bool = False) -> Measured:
                return measure(url + path, body, tokens, process.pid, said.seconds, clients, folder, keyed)

            size = len(ask_once(url, tokens[0]))
            rows = {"stored answers": load("/v1/ask", {"sql": stored(), "epsilon": EPSILON})}
            rows["stored answers, keyed"] = load("/v1/ask", {"sql": stored(), "epsilon": EPSILON}, keyed=True)
            count, mean = (f"SELECT sex, {what} FROM health WHERE visits < NUMBER GROUP BY sex" for what in ASKED)
            before = charges(file)
            rows["fresh answers"] = load("/v1/ask", {"sql": count, "epsilon": EPSILON, "refresh": True, "check": 0})
            wait_for_rest(file)
            granted = charges(file) - before
            preview = {"sql": mean, "epsilon": "0.1"}
            rows["previews"] = load("/v1/preview", preview)
            rows["previews, 4 clients"] = load("/v1/preview", preview, 4)
            sum_is_exact(file)
        with null_server(folder, said.workers, size) as (url, process):
            body, clients = {"sql": stored()}, said.clients
            rows["null handler"] = measure(url, body, ["x"], process.pid, said.seconds, clients, folder)
    show(rows, granted, said)
    bad = {what: found for what, found in rows.items() if found.failed or found.refused}
    if bad:
        sys.exit(f"some requests were not answered: {bad}")


def stored() -> str:
    return "SELECT sex, COUNT(*) AS n FROM health GROUP BY sex"


@contextmanager
def serving(folder: Path, workers: int) -> Iterator[tuple[str, subprocess.Popen[bytes], list[str], Path]]:
    """A server on the bundled data, and tokens of as many analysts as wrk has."""
    port = spare_port()
    file, _ = write_neighbours(folder / "data", (port, 0))
    text = file.read_text().replace("answer_time = 0.05", "answer_time = 0.1")
    file.write_text(f"{text}workers = {workers}\nthreads = 8\nat_once = 32\n")
    command = [sys.executable, "-W", "ignore", "-m", "lapwing", "serve", "--file", str(file)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        wait_for(f"http://127.0.0.1:{port}/v1/health", process)
        with ledger_at(file) as ledger:
            tokens = [TokenBook(ledger).add(f"analyst{i}", "analyst")[0] for i in range(16)]
        yield f"http://127.0.0.1:{port}", process, tokens, file
    finally:
        stop(process)


@contextmanager
def null_server(folder: Path, workers: int, size: int) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The same web server around a handler that reads the request and sends as many bytes as an answer has."""
    (folder / "null_app.py").write_text(NULL.format(size=size))
    port = spare_port()
    command = [sys.executable, "null_app.py", str(port), str(workers)]
    process = subprocess.Popen(command, cwd=folder, start_new_session=True)
    try:
        wait_for(f"http://127.0.0.1:{port}/", process)
        yield f"http://127.0.0.1:{port}/", process
    finally:
        stop(process)


def measure(
    url: str,
    body: dict[str, Any],
    tokens: list[str],
    process: int,
    seconds: int,
    clients: int,
    folder: Path,
    keyed: bool = False,
) -> Measured:
    """Some seconds of load by wrk; with a retry key of its own for every request if it is `keyed`."""
    script = folder / "load.lua"
    listed = ", ".join(json.dumps(token) for token in tokens)
    script.write_text(LUA.format(tokens=listed, body=json.dumps(body), keyed=str(keyed).lower(), seed=time.time_ns()))
    before = processor_time(process)
    command = ["wrk", "-t2", f"-c{clients}", f"-d{seconds}s", "--timeout", "30s", "-s", str(script), url]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = json.loads(said.split("RESULT ")[1])
    done = found["requests"]
    rate, work = done / (found["micros"] / 1e6), 1000 * (processor_time(process) - before) / max(1, done)
    return Measured(done, rate, found["refused"], found["failed"], *found["times"], work)


def processor_time(process: int) -> float:
    """Seconds that a process and those below it have used."""

    def used(pid: int) -> float:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") + sum(used(int(one)) for one in children)

    return used(process)


def ask_once(url: str, token: str) -> bytes:
    """The stored answer, paid for now."""
    from lapwing.client.transport import Transport, read_address, read_token

    sender = Transport(read_address(url), read_token(token), timeout=30, ca=None)
    return json.dumps(sender.post("/v1/ask", {"sql": stored(), "epsilon": EPSILON})).encode()


def charges(file: Path) -> int:
    with ledger_at(file) as ledger:
        return sum(entry.kind == "reserve" for entry in ledger.entries())


def wait_for_rest(file: Path) -> None:
    """Until what wrk has left behind is done: work goes on when its client leaves."""
    last = -1
    while (now := charges(file)) != last:
        last = now
        time.sleep(2)


def sum_is_exact(file: Path) -> None:
    """The ledger has spent the sum of its charges, exactly, and its chain verifies."""
    with ledger_at(file) as ledger:
        prices = [Fraction(entry.amount) for entry in ledger.entries() if entry.kind == "reserve"]
        assert ledger.spent.amount == sum(prices)
        assert ledger.spent.fits(ledger.total)
    assert verify_ledger(file.parent / ".lapwing" / "ledger.db").ok


def spare_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def wait_for(url: str, process: subprocess.Popen[bytes], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        try:
            urlopen(url, timeout=5).close()
            return
        except OSError:
            time.sleep(0.1)
    sys.exit(f"nothing answers at {url}")


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ends a server and its workers."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def show(rows: dict[str, Measured], granted: int, said: Any) -> None:
    null = rows["null handler"]
    how = f"{said.clients} clients, {said.workers} workers, {said.seconds} s each, {os.cpu_count()} cores"
    lines = [
        f"{how}; {granted:,} fresh answers were charged, and the ledger is exact.",
        "",
        "| | requests/s | p50 ms | p95 ms | p99 ms | work ms a request | of the null handler's rate | not answered |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for what, one in rows.items():
        times = " | ".join(f"{one_time:,.1f}" for one_time in (one.p50, one.p95, one.p99))
        numbers = f"{one.rate:,.0f} | {times} | {one.work:.2f} | {one.rate / null.rate:.1%}"
        lines.append(f"| {what} | {numbers} | {one.refused + one.failed} |")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
