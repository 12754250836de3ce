"""Questions on each engine beside the exact query on the same engine: time, memory, and growth with the rows.

    python benchmarks/engines.py --engine duckdb --engine postgres --rows 1 --rows 10

W2 count by 50 categories, rows are units; W3 count and sum by category, at most 5 groups of a user and 5 rows in each;
W4 users by day and category, 18,250 keys that nobody declared, at most 10 groups of a user. Beside each stand two exact
queries: what the engine needs without limits and noise, and with the same step for each user, which is the least that
any bounded answer can take. Rows are in millions. PostgreSQL is a server of its own, started here and removed, with one
worker per query as Lapwing's process has; its memory is the most that a backend of it held. Spark has two threads
(local[2]), and its memory is the most that its JVM held. Wall seconds, the median of
rounds in turns: read ratios, since the machine may be busy. The result is benchmarks/results/engines.md.
"""

from __future__ import annotations

import argparse
import platform
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
from peers.scale_data import CATEGORIES, events

from lapwing.opening import open_data
from lapwing.privacy import Budget

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "tests"))
RESULTS, ROUNDS = HERE / "results" / "engines.md", 3


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

    settings = {"spark.driver.memory": "4g", "spark.sql.shuffle.partitions": "8", "spark.default.parallelism": "8"}
    with running("local[2]", settings) as session:
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


def measure(place: Place, work: Work, folder: Path) -> tuple[float, float, float]:
    """Seconds of the answer and of both exact queries, in turns."""
    source = {**place.source, "ledger": folder / f"{time.monotonic_ns()}.db"}
    texts = [text.format(table=place.table, hash=place.hash) for text in (work.plain, work.stepwise)]
    found: list[list[float]] = [[], [], []]
    if isinstance(source["data"], Path):  # a ledger for each work, so its file has no witness of another
        source["data"].with_name(f"{source['data'].name}.lapwing").unlink(missing_ok=True)
    with open_data(source.pop("data"), check=0, **source, **work.terms) as curator:
        for turn in range(1 + ROUNDS):
            times = [
                seconds(lambda turn=turn: curator.sql(work.question, epsilon=1 + turn)),  # another price, so not stored
                *(seconds(lambda text=text: place.run(text)) for text in texts),
            ]
            for column, one in zip(found, times, strict=True):
                column += [one] if turn else []  # the first is a warm-up
    ours, plain, stepwise = map(median, found)
    return ours, plain, stepwise


def main() -> None:
    import tempfile

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", action="append", choices=ENGINES, help="one of them; all without it")
    parser.add_argument("--rows", action="append", type=int, help="millions; 10 without it")
    parser.add_argument("--write", action="store_true", help=f"to {RESULTS.relative_to(HERE.parent)}")
    given = parser.parse_args()
    lines = [
        "# Questions beside exact queries, on each engine",
        "",
        f"`python benchmarks/engines.py`, {platform.processor() or platform.machine()}, {time.strftime('%B %Y')}.",
        "Wall seconds, medians in turns on a shared machine: read the ratios. The same step bounds each user exactly.",
        "",
        "| engine | rows | work | Lapwing s | exact s | exact, same step s | times exact | times same step | peak MB |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        for engine in given.engine or ENGINES:
            for millions in given.rows or [10]:
                with ENGINES[engine](millions) as place:
                    for name, work in WORKS.items():
                        ours, plain, stepwise = measure(place, work, Path(folder))
                        times = (
                            f"{ours:.2f} | {plain:.2f} | {stepwise:.2f} | {ours / plain:.1f} | {ours / stepwise:.1f}"
                        )
                        title = f"{engine} | {millions} M | {name}: {work.title}"
                        lines.append(f"| {title} | {times} | {place.memory():.0f} |")
                        print(lines[-1], flush=True)
    if given.write:
        RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
