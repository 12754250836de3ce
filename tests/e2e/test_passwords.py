"""Passwords of PostgreSQL, for data and for the ledger, are seen by nobody else: not by `ps`, nor in any text."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from support.hosts import PostgresHost
from support.postgres import PostgresServer

TOML = """
ledger = "{ledger}"

[budget]
epsilon = 10

[tables.visits]
source = "{data}"
table = "visits"
unit = "pid"
rows_per_unit = 2

[tables.visits.columns]
pid = {{ type = "integer" }}
"""
PROGRAM = """
import logging, subprocess, sys, traceback
import lapwing as lw

logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
data, ledger, other, _ = sys.stdin.read().split("\\n")
facts = {"table": "visits", "unit": "pid", "rows_per_unit": 2}
curator = lw.open(data, ledger=ledger, budget=lw.Budget(epsilon=10), **facts)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(curator, repr(curator), curator.sql("SELECT COUNT(*) AS n FROM visits", epsilon=1))
child.kill()
child.wait()
for place, book in ((other, ledger), (data, other), (data + "%00", ledger), (data, ledger + "&word=1")):
    try:
        lw.open(place, ledger=book, budget=lw.Budget(epsilon=10), **facts)
    except Exception as error:
        traceback.print_exc()
        print(str(error), repr(error), error.args, vars(error))
    else:
        raise SystemExit("it opened")
"""


@pytest.fixture
def host(ledger_server: PostgresServer) -> Iterator[PostgresHost]:
    """A table that cannot be read to its end while somebody has a lock, so that there is something to look at."""
    made = PostgresHost(ledger_server)
    for statement in (
        "CREATE TABLE stored AS SELECT i AS pid FROM generate_series(1, 40) AS i",
        "CREATE VIEW visits AS SELECT pid FROM stored WHERE pg_advisory_xact_lock_shared(7) IS NOT NULL",
        f"GRANT SELECT ON visits TO {made.user}",
    ):
        made.run(statement)
    yield made
    made.close()


def read(file: Path) -> bytes:
    with suppress(OSError):  # it has ended, or is another user's
        return file.read_bytes()
    return b""


def descendants(process: int) -> set[int]:
    """The process and all below it."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        stat = read(folder / "stat").rpartition(b")")[2].split()
        if len(stat) > 1:
            parents[int(folder.name)] = int(stat[1])
    found, size = {process}, 0
    while size != len(found):
        size = len(found)
        found |= {child for child, parent in parents.items() if parent in found}
    return found


def watched(process: subprocess.Popen[str], host: PostgresHost, secret: str) -> tuple[int, int]:
    """Looks as long as it runs: how often while it was reading rows, and the most processes it was."""
    looks, most, deadline = 0, 0, time.monotonic() + 120
    host.run("SELECT pg_advisory_lock(7)")
    text = "SELECT COUNT(*) FROM pg_stat_activity WHERE usename = %s AND wait_event = 'advisory'"
    while process.poll() is None:
        assert time.monotonic() < deadline, "it does not end"
        looks += host.run(text, host.user).fetchone()[0]
        if looks == 5:
            host.run("SELECT pg_advisory_unlock_all()")
        for folder in Path("/proc").glob("[0-9]*"):
            assert secret.encode() not in read(folder / "cmdline"), "ps shows it"
        tree = descendants(process.pid)
        most = max(most, len(tree))
        for pid in tree:
            assert secret.encode() not in read(Path("/proc") / str(pid) / "environ"), "the environment holds it"
        time.sleep(0.05)
    return looks, most


def test_a_command_whose_password_is_in_a_file_shows_it_nowhere(
    host: PostgresHost, ledger_server: PostgresServer, tmp_path: Path
) -> None:
    """threat:A13 the engine and the ledger take it from ~/.pgpass, and pass it on to nobody."""
    secret, before = ledger_server.password, len(ledger_server.log())
    data, ledger = (url.replace(f":{secret}@", "@") for url in (host.url, ledger_server.url(host.database)))
    passwords = tmp_path / "pgpass"
    passwords.write_text(f"127.0.0.1:{ledger_server.port}:*:*:{secret}\n")
    passwords.chmod(0o600)
    home = tmp_path / "home"
    home.mkdir()
    (home / "lapwing.toml").write_text(TOML.format(data=data, ledger=ledger))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    command = [sys.executable, "-m", "lapwing", "ask", "SELECT COUNT(*) AS n FROM visits", "--epsilon", "1"]
    with (tmp_path / "out").open("w") as told:
        process = subprocess.Popen(
            command, cwd=home, env={**environment, "PGPASSFILE": str(passwords)}, stdout=told, stderr=told, text=True
        )
    looks, _ = watched(process, host, secret)
    out = (tmp_path / "out").read_text()
    assert process.returncode == 0, out
    assert looks >= 5
    kept = b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())
    assert secret not in out
    assert secret.encode() not in kept
    assert secret not in ledger_server.log()[before:]


def test_a_password_in_an_address_is_in_no_log_no_error_and_no_child(
    host: PostgresHost, ledger_server: PostgresServer, tmp_path: Path
) -> None:
    """threat:A13 with every log on, over failures of the engine and of the ledger, with their tracebacks."""
    secret = ledger_server.password
    ledger = f"{ledger_server.url(host.database)}?schema=own"
    other = host.url.replace(f":{ledger_server.port}/", ":1/")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    with (tmp_path / "out").open("w") as told:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=told,
            stderr=told,
            text=True,
        )
    assert process.stdin is not None
    process.stdin.write(f"{host.url}\n{ledger}\n{other}\n")
    process.stdin.close()
    looks, most = watched(process, host, secret)
    out = (tmp_path / "out").read_text()
    assert process.returncode == 0, out
    assert looks >= 5
    assert most > 1, "a child was looked at"
    assert out.count("Traceback") >= 4
    assert "DEBUG" in out
    assert secret not in out
