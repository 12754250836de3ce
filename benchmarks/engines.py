"""Questions on each engine beside the exact query on the same engine: time, memory, and growth with the rows.

    python benchmarks/engines.py --engine duckdb --engine postgres --rows 1 --rows 10

W2 count by 50 categories, rows are units; W3 count and sum by category, at most 5 groups of a user and 5 rows in each;
W4 users by day and category, 18,250 keys that nobody declared, at most 10 groups of a user. Beside each stand two exact
queries: what the engine needs without limits and noise, and with the same step for each user, which is the least that
any bounded answer can take. Rows are in millions. PostgreSQL is a server of its own, started here and removed, with one
worker per query as Lapwing's process has; its memory is the most that a backend of it held. Spark has two threads
(local[2]), and its memory is the most that its JVM held. Wall seconds, medians of rounds in turns: read ratios, since
the machine may be busy. With `--peer tumult` Tumult Analytics does the same work, in an environment of its own under
benchmarks/.venvs/, made on first use. `--write` puts each row into benchmarks/results/engines.md as soon as it is
measured, and keeps those of other engines, works and sizes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import threading
import time
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
from peers.scale_data import CATEGORIES, events

from lapwing.curator import open_data
from lapwing.privacy import Budget

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "tests"))
RESULTS = HERE / "results" / "engines.md"


SPARK_SETTINGS = {
    "spark.driver.memory": "4g",
    "spark.sql.shuffle.partitions": "8",
    "spark.default.parallelism": "8",
}


@dataclass(frozen=True)
class Work:
    """A question, the terms it is asked on, and two exact queries."""

    title: str
    terms: dict[str, Any]
    question: str
    plain: str
    stepwise: str


BY_CATEGORY = {"values": {"category": list(range(CATEGORIES))}, "budget": Budget(epsilon=10**6)}
CLIPPED = "LEAST(GREATEST(amount, 0), 100)"
WORKS = {
    "W2": Work(
        "count by category, rows are units",
        {"unit": None, **BY_CATEGORY},
        "SELECT category, COUNT(*) AS n FROM events GROUP BY category",
        "SELECT category, COUNT(*) FROM {table} GROUP BY category",
        "SELECT category, COUNT(*) FROM {table} GROUP BY category",
    ),
    "W3": Work(
        "count and sum by category, 5 groups of 5 rows",
        {"unit": "uid", "rows_per_unit": 5, "groups_per_unit": 5, "bounds": {"amount": (0, 100)}, **BY_CATEGORY},
        "SELECT category, COUNT(*) AS n, SUM(amount) AS s FROM events GROUP BY category",
        f"SELECT category, COUNT(*), SUM({CLIPPED}) FROM {{table}} GROUP BY category",
        f"""
        SELECT category, SUM(n), SUM(s) FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY uid ORDER BY {{hash}}) AS place FROM (
            SELECT uid, category, LEAST(COUNT(*), 5) AS n, LEAST(SUM({CLIPPED}), 500) AS s
            FROM {{table}} GROUP BY uid, category) AS u) AS v
        WHERE place <= 5 GROUP BY category""",
    ),
    "W4": Work(
        "users by day and category, unknown keys, 10 groups",
        {"unit": "uid", "rows_per_unit": 1, "groups_per_unit": 10, "budget": Budget(epsilon=10**6, delta=1e-3)},
        "SELECT day, category, COUNT(DISTINCT uid) AS n FROM events GROUP BY day, category",
        "SELECT day, category, COUNT(DISTINCT uid) FROM {table} GROUP BY day, category",
        """
        SELECT day, category, COUNT(*) FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY uid ORDER BY {hash}) AS place FROM (
            SELECT DISTINCT uid, day, category FROM {table}) AS u) AS v
        WHERE place <= 10 GROUP BY day, category""",
    ),
}


@dataclass(frozen=True)
class Place:
    """Rows on an engine: how they are opened, how a query is run there, and how much memory was held."""

    source: dict[str, Any]
    table: str
    hash: str
    run: Callable[[str], object]
    memory: Callable[[], float]


def peak() -> float:
    """The most megabytes of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@contextmanager
def duckdb_place(millions: int) -> Iterator[Place]:
    path = events(millions)
    with duckdb.connect() as connection:
        yield Place(
            {"data": path, "name": "events"},
            f"'{path}'",
            "HASH(uid, category)",
            lambda text: connection.execute(text).fetchall(),
            peak,
        )


@contextmanager
def postgres_place(millions: int) -> Iterator[Place]:
    from support.postgres import running

    settings = {"fsync": "off", "shared_buffers": "256MB", "work_mem": "256MB", "max_parallel_workers_per_gather": "0"}
    with running(**settings) as server:
        name = server.new_database()
        with server.connect(name) as connection:
            connection.execute("CREATE TABLE events (uid bigint, day int, category int, amount float8)")
            with connection.cursor().copy("COPY events FROM STDIN (FORMAT csv)") as copy, duckdb.connect() as reader:
                rows = reader.execute(f"SELECT uid, day, category, amount FROM '{events(millions)}'")
                while batch := rows.fetchmany(50_000):
                    copy.write("".join(",".join(map(str, row)) + "\n" for row in batch))
            connection.execute("VACUUM ANALYZE events")
            with watched(server.process.pid if server.process else 0) as memory:
                yield Place(
                    {"data": server.url(name), "table": "events"},
                    "events",
                    "HASH_RECORD_EXTENDED(ROW(uid, category), 7)",
                    lambda text: connection.execute(text).fetchall(),  # type: ignore[call-overload]
                    memory,
                )


@contextmanager
def watched(parent: int) -> Iterator[Callable[[], float]]:
    """The most megabytes that a child of a process held beside shared memory, looked at every 50 ms."""
    seen, over = [0.0], threading.Event()

    def look() -> None:
        while not over.wait(0.05):
            for line in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
                try:
                    status = Path(f"/proc/{line}/status").read_text()
                except OSError:
                    continue
                held = [int(row.split()[1]) for row in status.splitlines() if row.startswith("RssAnon")]
                seen[0] = max(seen[0], *(kilobytes / 1024 for kilobytes in held), 0.0)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield lambda: seen[0]
    finally:
        over.set()
        thread.join()


@contextmanager
def spark_place(millions: int) -> Iterator[Place]:
    from support.spark import running

    with running("local[2]", SPARK_SETTINGS) as session:
        data = session.read.parquet(str(events(millions)))
        data.createOrReplaceTempView("events")
        status = Path(f"/proc/{session.sparkContext._gateway.proc.pid}/status")
        yield Place(
            {"data": data, "name": "events"},
            "events",
            "XXHASH64(uid, category)",
            lambda text: session.sql(text).toArrow(),
            lambda: float(status.read_text().split("VmHWM:")[1].split()[0]) / 1024,
        )


ENGINES: dict[str, Callable[[int], Any]] = {"duckdb": duckdb_place, "postgres": postgres_place, "spark": spark_place}


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure(place: Place, work: Work, rounds: int) -> tuple[float, float, float]:
    """Seconds of the answer and of both exact queries, in turns."""
    source = dict(place.source)
    found: list[list[float]] = [[], [], []]
    texts = [text.format(table=place.table, hash=place.hash) for text in (work.plain, work.stepwise)]
    if isinstance(source["data"], Path):  # a ledger for each work, so its file has no witness of another
        source["data"].with_name(f"{source['data'].name}.lapwing").unlink(missing_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        open_data(source.pop("data"), check=0, ledger=Path(folder) / "ledger.db", **source, **work.terms) as curator,
    ):
        for turn in range(1 + rounds):
            times = [
                seconds(lambda: curator.sql(work.question, epsilon=1, refresh=True)),
                *(seconds(lambda text=text: place.run(text)) for text in texts),
            ]
            for column, one in zip(found, times, strict=True):
                column += [one] if turn else []  # the first is a warm-up
    ours, plain, stepwise = map(median, found)
    return ours, plain, stepwise


Row = tuple[str, ...]
HEADER: Row = (
    *(
        "engine",
        "rows",
        "work",
        "answer s",
        "exact s",
        "exact, same step s",
        "times exact",
        "times same step",
        "peak MB",
    ),
)


def rows_of(engine: str, millions: int, works: dict[str, Work], rounds: int) -> Iterator[Row]:
    with ENGINES[engine](millions) as place:
        for name, work in works.items():
            ours, plain, stepwise = measure(place, work, rounds)
            ratios = f"{ours / plain:.1f}", f"{ours / stepwise:.1f}"
            times = f"{ours:.2f}", f"{plain:.2f}", f"{stepwise:.2f}", *ratios, f"{place.memory():.0f}"
            yield engine, f"{millions} M", f"{name}: {work.title}", *times


def rows_of_tumult(millions: int, works: dict[str, Work], rounds: int) -> Iterator[Row]:
    """Tumult Analytics in an environment of its own, on the newest Spark that it runs on."""
    home = HERE / ".venvs" / "engines-tumult"
    python = home / "bin" / "python"
    if not python.exists():
        venv.create(home, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "tmlt.analytics"], check=True)
    from support.spark import java_home

    with tempfile.TemporaryDirectory() as folder:
        script = HERE / "peers" / "engines_tumult.py"
        command = [python, script, events(millions), str(rounds), folder, json.dumps(SPARK_SETTINGS), *works]
        env = {**os.environ, "JAVA_HOME": str(java_home())}
        env.pop("PYTHONPATH", None)
        with subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout or ():
                told = json.loads(line)
                engine = f"Tumult {told['version']}, Spark {told['spark']}"
                work = f"{told['work']}: {works[told['work']].title}"
                yield engine, f"{millions} M", work, f"{told['seconds']:.2f}", *"----", f"{told['peak']:.0f}"
        if process.returncode:
            raise SystemExit(f"Tumult ended with {process.returncode}.")


PEERS = {"tumult": rows_of_tumult}


def write(rows: list[Row]) -> None:
    """To the table of results, in place of rows for the same work; all others stay."""
    text = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else ""
    lines = [
        tuple(part.strip() for part in line.strip("|").split("|")) for line in text.splitlines() if line[:1] == "|"
    ]
    kept = {line[:3]: line for line in lines[2:] if len(line) == len(HEADER)}
    kept.update({row[:3]: row for row in rows})
    listed = sorted(kept.values(), key=lambda row: (row[0].lower(), int(row[1].split()[0]), row[2]))
    RESULTS.write_text(
        "\n".join([*TITLE, *map(shown, [HEADER, ("---",) * len(HEADER), *listed])]) + "\n", encoding="utf-8"
    )


def shown(row: Row) -> str:
    return "|---" * len(row) + "|" if set(row) == {"---"} else f"| {' | '.join(row)} |"


TITLE = (
    "# Questions beside exact queries, on each engine",
    "",
    f"`python benchmarks/engines.py`, {platform.processor() or platform.machine()}, {time.strftime('%B %Y')}.",
    "Wall seconds, medians in turns on a shared machine: read the ratios. The same step bounds each user exactly.",
    "Tumult runs on the same machine, data and settings, on the newest Spark that it supports.",
    "",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", action="append", choices=ENGINES, help="one of them; all without it and --peer")
    parser.add_argument("--peer", action="append", choices=PEERS, default=[], help="another library on the same work")
    parser.add_argument("--rows", action="append", type=int, help="millions, also several times; 10 without it")
    parser.add_argument("--work", action="append", choices=WORKS, help="one of them; all without it")
    parser.add_argument("--rounds", type=int, default=3, help="of which the median is taken")
    parser.add_argument("--write", action="store_true", help=f"to {RESULTS.relative_to(HERE.parent)}, row by row")
    given = parser.parse_args()
    works = {name: WORKS[name] for name in given.work or WORKS}
    print(shown(HEADER), shown(("---",) * len(HEADER)), sep="\n")
    for millions in given.rows or [10]:
        runs = [
            rows_of(name, millions, works, given.rounds) for name in given.engine or (() if given.peer else ENGINES)
        ]
        for row in chain(*runs, *(PEERS[name](millions, works, given.rounds) for name in given.peer)):
            print(shown(row), flush=True)
            if given.write:
                write([row])


if __name__ == "__main__":
    main()
