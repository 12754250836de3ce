"""How many charges a second a ledger takes: in SQLite, in PostgreSQL, and in PostgreSQL behind PgBouncer.

    python benchmarks/ledgers.py [SECONDS]

Each row starts one or eight processes, or eight threads, that charge as fast as they can, with a witness, every charge
on disk before it returns; `answered` also stores an answer. The physical limit stands beside it in the same run: how
often one process can overwrite a block of 8 kB and sync it (fdatasync), and how many empty synced commits the server
takes from one connection. Server and clients share the cores. Starts servers of its own, which need PostgreSQL and
PgBouncer on the machine, with fsync on.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import psycopg

from lapwing.ledger import Ledger, open_ledger
from lapwing.privacy import Accounting, Budget, Cost
from support.pgbouncer import pooled
from support.postgres import running

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 4.0
warnings.simplefilter("ignore")  # a budget for thousands of charges is a weak one
PRICE = Cost(Accounting.PURE, Fraction(1, 1000))
BUDGET = Budget(10**6)


def sync_limit(folder: Path) -> float:
    with open(folder / "block", "w+b", buffering=0) as file:
        file.write(bytes(8192))
        return rate(lambda: (os.pwrite(file.fileno(), os.urandom(8192), 0), os.fdatasync(file.fileno())))


def commit_limit(url: str) -> float:
    flush = b"BEGIN; SET LOCAL synchronous_commit = on; SELECT pg_logical_emit_message(true, 'bench', 'x'); COMMIT"
    with psycopg.connect(url, autocommit=True) as link:
        return rate(lambda: link.execute(flush))


def rate(act: Callable[[], object]) -> float:
    began, done = time.perf_counter(), 0
    while time.perf_counter() - began < SECONDS / 2:
        act()
        done += 1
    return done / (time.perf_counter() - began)


def charge(ledger: Ledger, who: str, answered: bool) -> int:
    began, done = time.perf_counter(), 0
    while time.perf_counter() - began < SECONDS:
        reservation = ledger.reserve(PRICE, analyst=who, body=f"{who} {done}")
        if answered:
            ledger.settle(reservation, b"x" * 500, match=f"{who} {done}")
        done += 1
    return done


def processes(place: Path | str, witness: Path, count: int, answered: bool) -> float:
    """Charges a second of processes that start together."""
    open_ledger(place, BUDGET, witness=witness).close()
    pipes = []
    for number in range(count):
        read, write = os.pipe()
        if os.fork() == 0:
            with open_ledger(place, BUDGET, witness=witness) as ledger:
                os.write(write, str(charge(ledger, f"process {number}", answered)).encode())
            os._exit(0)
        os.close(write)
        pipes.append(read)
    done = sum(int(os.read(pipe, 100) or 0) for pipe in pipes)
    for _ in pipes:
        os.wait()
    return done / SECONDS


def threads(place: Path | str, witness: Path, count: int, answered: bool) -> float:
    """The same with threads of one process."""
    done: list[int] = []
    with open_ledger(place, BUDGET, witness=witness) as ledger:
        workers = [
            threading.Thread(target=lambda n=n: done.append(charge(ledger, f"thread {n}", answered)))
            for n in range(count)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    return sum(done) / SECONDS


def main() -> None:
    with tempfile.TemporaryDirectory() as name, running(max_connections="100") as server, pooled(server) as port:
        folder = Path(name)
        print(f"{os.cpu_count()} cores, {SECONDS:g} s a row, load {os.getloadavg()[0]:.1f} at the start")
        print(f"physical limit: {sync_limit(folder):,.0f} syncs of a block a second")
        print(f"physical limit: {commit_limit(server.url()):,.0f} empty commits a second on one connection")
        direct, through = server.url(), server.url().replace(f":{server.port}/", f":{port}/")
        print(f"\n{'charges a second':34} {'1 process':>10} {'8 processes':>12} {'8 threads':>10}")
        for answered in (False, True):
            for title, place in (("SQLite", None), ("PostgreSQL", direct), ("PostgreSQL, PgBouncer", through)):
                found = []
                for kind, count in ((processes, 1), (processes, 8), (threads, 8)):
                    mark = f"l{len(list(folder.iterdir()))}"
                    where = folder / f"{mark}.db" if place is None else f"{place}?schema={mark}"
                    found.append(kind(where, folder / f"{mark}.witness", count, answered))
                what = f"{title}{', answered' if answered else ''}"
                print(f"{what:34} {found[0]:10,.0f} {found[1]:12,.0f} {found[2]:10,.0f}", flush=True)


if __name__ == "__main__":
    main()
