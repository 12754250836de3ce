"""The curator: a question from the shell, a question in a running program, and ten million rows.

    python benchmarks/curator.py        (with ten million rows; `python benchmarks/curator.py 1` takes one)

prints its tables and writes them to benchmarks/results/curator.md, below those of turns.py. Everything is measured in
one run on one machine: `cold` starts a new process each time, `warm` includes the durable charge, and W1 and W2 are
compared with the same exact query by DuckDB on the same file, in turns. The data are made once under benchmarks/.data/.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import duckdb

from lapwing.answers.stored import encode
from lapwing.curator import Curator, open_data
from lapwing.curator.pricing import Terms, plan_on_terms
from lapwing.curator.query_cache import QueryCache
from lapwing.plan.add_noise import arrange, release
from lapwing.privacy import Budget
from lapwing.sql import read_sql

HERE = Path(__file__).resolve().parent
DATA = HERE / ".data"
RESULTS = HERE / "results" / "curator.md"
MILLIONS = int(sys.argv[1]) if len(sys.argv) > 1 else 10
HEADING = "## One run of benchmarks/curator.py\n"
LEVEL = Fraction(19, 20)
TOML = """
[budget]
epsilon = 1000
[tables.visits]
source = "visits.parquet"
unit = "pid"
rows_per_unit = 5
[tables.visits.columns]
pid = { type = "integer" }
sex = { type = "text", values = ["F", "M"] }
cost = { type = "real", bounds = [0, 500] }
"""
BY_SEX = "SELECT sex, COUNT(*) AS n, SUM(cost) AS c FROM visits GROUP BY sex"
RUN = "from lapwing.cli.main import run; run()"
STARTS = (
    ("`import lapwing`", 250, ("import lapwing",)),
    ("`lapwing --help`", 400, (RUN, "--help")),
    ("cold `lapwing ask`, 3,000 rows", 1000, (RUN, "ask", BY_SEX, "--epsilon", "0.1", "--refresh")),
)
"""What is started, the milliseconds that it may take on a processor, and how."""


def make_data() -> tuple[Path, Path]:
    """3,000 visits of 1,000 people; ten million events in 50 categories. Values come from hashes, so runs agree."""
    (DATA / f"{MILLIONS}_million").mkdir(parents=True, exist_ok=True)
    visits, events = DATA / "visits.parquet", DATA / f"{MILLIONS}_million" / "events.parquet"
    with duckdb.connect() as connection:
        if not visits.exists():
            connection.execute(f"""COPY (SELECT i % 1000 AS pid, CASE WHEN hash(i % 1000) % 2 = 0 THEN 'F' ELSE 'M' END
                AS sex, (hash(i, 1) % 50000) / 100.0 AS cost FROM range(3000) t(i)) TO '{visits}'""")
        if not events.exists():
            connection.execute(f"""COPY (SELECT (hash(i, 2) % 1000000)::BIGINT AS uid,
                (50 * pow((hash(i, 3) % 1000003) / 1000003.0, 2))::INTEGER % 50 AS category,
                least(500, (hash(i, 4) % 100000) / 150.0) AS amount, hash(i, 5) % 10 < 3 AS flag
                FROM range({MILLIONS}000000) t(i)) TO '{events}'""")
    return visits, events


def timed(work: Callable[[], object]) -> float:
    """Milliseconds on the clock."""
    start = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - start)


def processor() -> float:
    """Milliseconds of this process and its children on a processor: what a busy machine does not change much."""
    return 1000 * sum(os.times()[:4])


def both(work: Callable[[], object], rounds: int) -> tuple[float, float]:
    """The median on the clock and the mean on a processor."""
    before = processor()
    clock = median(timed(work) for _ in range(rounds))
    return clock, (processor() - before) / rounds


def cold(visits: Path, *command: str, rounds: int = 5) -> tuple[float, float]:
    """A new process of Python, the median of several; a first, untimed start compiles the modules."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "visits.parquet").write_bytes(visits.read_bytes())
        (place / "lapwing.toml").write_text(TOML)
        world = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        whole = [sys.executable, "-c", *command]
        start = partial(subprocess.run, whole, cwd=folder, check=True, capture_output=True, env=world)
        start()
        return both(start, rounds)


def warm(visits: Path, rounds: int = 50) -> tuple[float, float]:
    """`curator.sql` in a running program, with a ledger on the disk."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "visits.parquet").write_bytes(visits.read_bytes())
        curator = open_data(
            Path(folder) / "visits.parquet",
            unit="pid",
            rows_per_unit=5,
            bounds={"cost": (0, 500)},
            values={"sex": ["F", "M"]},
            budget=Budget(epsilon=1000),
        )
        curator.sql(BY_SEX, epsilon=0.1)
        found = both(lambda: curator.sql(BY_SEX, epsilon=0.1, refresh=True), rounds)
        curator.close()
    return found


def a_second(visits: Path) -> tuple[float, float]:
    """How many stored answers, and how many fresh ones to small questions, one process gives in a second.

    Seven hundred different questions, the median of seven rounds; a hundred before them are not timed. A fresh one is
    read, planned, charged on the disk, run and stored; then a hundred of them are asked again in turn.
    """
    questions = [f"SELECT COUNT(*) AS n FROM visits WHERE cost < {i / 2}" for i in range(800)]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "visits.parquet").write_bytes(visits.read_bytes())
        source = Path(folder) / "visits.parquet"
        curator = open_data(source, unit="pid", rows_per_unit=5, budget=Budget(epsilon=10_000, delta=1e-6))
        rounds = [questions[first : first + 100] for first in range(0, 800, 100)]
        took = [timed(lambda mine=mine: [curator.sql(question, epsilon=0.01) for question in mine]) for mine in rounds]
        for question in questions[:100]:
            curator.sql(question, epsilon=0.01)
        stored = timed(lambda: [curator.sql(question, epsilon=0.01) for _ in range(20) for question in questions[:100]])
        curator.close()
    return 2000 * 1000 / stored, 100 * 1000 / median(took[1:])


def together(visits: Path, processes: int, seconds: float = 4) -> float:
    """How many fresh answers in a second so many processes give on one ledger, all together."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "visits.parquet"
        source.write_bytes(visits.read_bytes())
        (ready, start), (results, tell) = os.pipe(), os.pipe()
        children = []
        for number in range(processes):
            if child := os.fork():
                children.append(child)
                continue
            os.close(start)
            curator = open_data(source, unit="pid", rows_per_unit=5, budget=Budget(epsilon=10_000, delta=1e-6))
            os.read(ready, 1)  # until the parent closes its end
            made, end = 0, time.monotonic() + seconds
            while time.monotonic() < end:
                text = f"SELECT COUNT(*) AS n FROM visits WHERE cost < {made / 2 + number / 100_000}"
                curator.sql(text, epsilon=0.01)
                made += 1
            os.write(tell, made.to_bytes(8))
            os._exit(0)
        time.sleep(3)  # all have opened the ledger by then
        os.close(start)
        for child in children:
            os.waitpid(child, 0)
        return sum(int.from_bytes(os.read(results, 8)) for _ in children) / seconds


def steps(visits: Path, rounds: int = 200) -> list[tuple[str, float]]:
    """Where the time of a fresh answer goes: the median of each step by itself, in milliseconds."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "visits.parquet").write_bytes(visits.read_bytes())
        source = Path(folder) / "visits.parquet"
        curator = open_data(source, unit="pid", rows_per_unit=5, budget=Budget(epsilon=10_000, delta=1e-6))
        engine, ledger, budget = curator._engine, curator.ledger, curator.ledger.budget
        ready, terms = QueryCache(engine), Terms(epsilon=0.01)
        took: dict[str, list[float]] = {}

        def no_delta() -> Fraction:
            return Fraction(0)

        def step(name: str, work: Callable[[], Any]) -> Any:
            start = time.perf_counter()
            done = work()
            took.setdefault(name, []).append(1000 * (time.perf_counter() - start))
            return done

        for i in range(rounds):
            text = f"SELECT COUNT(*) AS n FROM visits WHERE cost < {i / 2}"
            asked = step("reading the SQL", lambda text=text: read_sql(text, curator.catalog))

            planned = partial(plan_on_terms, asked, budget, terms, LEVEL, no_delta)
            plan = step("planning", planned)
            cells = step("the engine's query, and a rehearsal", partial(ready.rehearse, plan, LEVEL)).cells
            note, match = {"question": text, "plan": plan.question.canonical()}, plan.outline.identity.text
            charge = partial(ledger.reserve, budget.cost(plan.loss), analyst="a", body=match, note=note)
            paid = step("the charge, on the disk twice", charge)
            rows = step("DuckDB", lambda cells=cells: engine.fetch(cells))
            made = step("noise", lambda plan=plan, rows=rows: release(plan, arrange(plan, rows)))
            step("storing the answer", lambda: ledger.settle(paid, encode(plan, made), match=match))  # noqa: B023
        curator.close()
    return [(name, median(times)) for name, times in took.items()]


def in_turns(curator: Curator, question: str, exact: str, rounds: int = 15) -> tuple[float, float]:
    """Medians of our question and of the exact query, taking turns."""
    with duckdb.connect() as connection:
        ours, theirs = [], []
        for _ in range(rounds + 1):
            theirs.append(timed(lambda: connection.execute(exact).to_arrow_table()))
            ours.append(timed(lambda: curator.sql(question, epsilon=0.1, refresh=True)))
    return median(ours[1:]), median(theirs[1:])


def large(events: Path) -> list[tuple[str, float, str, bool]]:
    """W1 and W2, row level, on millions of rows."""
    with tempfile.TemporaryDirectory() as folder:
        curator = open_data(
            events,
            unit=None,
            values={"category": list(range(50))},
            budget=Budget(epsilon=1000),
            ledger=Path(folder) / "ledger.db",
        )
        rows = []
        for name, question, exact in (
            ("W1 total count", "SELECT COUNT(*) AS n FROM events", f"SELECT COUNT(*) FROM '{events}'"),
            (
                "W2 count by 50 categories",
                "SELECT category, COUNT(*) AS n FROM events GROUP BY category",
                f"SELECT category, COUNT(*) FROM '{events}' GROUP BY category",
            ),
        ):
            ours, theirs = in_turns(curator, question, exact)
            most = 1.1 * theirs + 20
            rows.append((name, ours, f"{most:,.0f} ms (1.1 x {theirs:,.1f} ms exact + 20 ms)", ours <= most))
        curator.close()
        (events.with_name(f"{events.name}.lapwing")).unlink(missing_ok=True)
    return rows


def main() -> None:
    visits, events = make_data()
    starts = [(name, most, *cold(visits, *command)) for name, most, command in STARTS]
    second, second_cpu = warm(visits)
    rows = [
        *(
            (f"{name}, on a processor ({clock:,.0f} ms on the clock)", cpu, f"{most:,} ms", cpu <= most)
            for name, most, clock, cpu in starts
        ),
        (f"warm `curator.sql`, durable charge ({second_cpu:,.1f} ms processor)", second, "30 ms", second <= 30),
        *large(events),
    ]
    lines = ["| what | median | at most | |", "|---|---:|---|---|"]
    lines += [f"| {name} | {value:,.1f} ms | {most} | {'ok' if ok else 'above'} |" for name, value, most, ok in rows]
    stored, fresh = a_second(visits)
    lines += ["", "| how many in a second, one process | | at least | |", "|---|---:|---|---|"]
    lines += [
        f"| {name} | {value:,.0f} | {least:,} | {'ok' if value >= least else 'below'} |"
        for name, value, least in (("stored answers", stored, 2000), ("fresh answers, durable charge", fresh, 100))
    ]
    rates = {many: together(visits, many) for many in (1, 2, 4)}
    lines += ["", "| fresh answers in a second, processes on one ledger | |", "|---|---:|"]
    lines += [f"| {many} | {rate:,.0f} |" for many, rate in rates.items()]
    parts = steps(visits)
    lines += ["", "| a fresh answer, step by step | ms |", "|---|---:|"]
    lines += [f"| {name} | {value:.2f} |" for name, value in parts]
    lines += [f"| together | {sum(value for _, value in parts):.2f} |"]
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    note = (
        f"Python {platform.python_version()}, DuckDB {duckdb.__version__}, "
        f"{os.cpu_count()} cores, load {load} at the end; W1 and W2 on {MILLIONS} million rows."
    )
    text = "\n".join([HEADING, *lines, "", note, ""])
    above = RESULTS.read_text().split(HEADING)[0] if RESULTS.exists() else "# The curator\n\n"
    RESULTS.write_text(above + text)
    print(text)


if __name__ == "__main__":
    main()
