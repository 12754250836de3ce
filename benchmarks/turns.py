"""Fresh answers of two commits in turns, as ratios: a busy machine changes seconds, and ratios hardly.

    git worktree add --detach ../other c5a2f95
    python benchmarks/turns.py ../other/src

Each turn asks the same questions of the other commit and of this one, each in a process of its own, and compares the
processor time of an answer. Small questions, on 3,000 visits of 1,000 people, differ in a constant of WHERE; W2 to W5
are those of curator.py and scale.py on a million rows. The table is printed, and stands in results/curator.md.
The file is older than two seconds when the first question is asked: of a younger one this commit hashes every byte
before each question, since a write in the same tick of the clock would not show (engines/files.py), and of 10 MB that
takes as long as W2.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from statistics import median
from typing import Any

import duckdb

from lapwing.curator import open_data
from lapwing.privacy import Budget

HERE = Path(__file__).resolve().parent
OURS = HERE.parent / "src"
TURNS = 3
SETTLED = 2.5  # seconds until a file counts as written
warnings.simplefilter("ignore")  # a budget for thousands of questions is a weak one
WIDE, NARROW = Budget(epsilon=100_000, delta=1e-6), Budget(epsilon=1000)
QUANTILES = ", ".join(f"QUANTILE_CONT(amount, {q}) AS q{i}" for i, q in enumerate((0.25, 0.5, 0.75, 0.95)))
VISITS: dict[str, Any] = {"unit": "pid", "rows_per_unit": 5, "budget": WIDE}
KNOWN = {**VISITS, "bounds": {"cost": (0, 500)}, "values": {"sex": ["F", "M"]}}
CATEGORIES = {"values": {"category": list(range(50))}, "budget": NARROW}
SMALL = {
    "count": (VISITS, "SELECT COUNT(*) AS n FROM visits WHERE cost < {x}"),
    "count and sum by 2 keys": (
        KNOWN,
        "SELECT sex, COUNT(*) AS n, SUM(cost) AS c FROM visits WHERE cost < {x} GROUP BY sex",
    ),
    "mean by 2 keys": (KNOWN, "SELECT sex, AVG(cost) AS a FROM visits WHERE cost < {x} GROUP BY sex"),
    "the same question, paid again": (KNOWN, "SELECT sex, COUNT(*) AS n, SUM(cost) AS c FROM visits GROUP BY sex"),
}
LARGE = {
    "W2": ({"unit": None, **CATEGORIES}, "SELECT category, COUNT(*) AS n FROM events GROUP BY category"),
    "W3": (
        {"unit": "uid", "rows_per_unit": 5, "groups_per_unit": 5, "bounds": {"amount": (0, 100)}, **CATEGORIES},
        "SELECT category, COUNT(*) AS n, SUM(amount) AS s FROM events GROUP BY category",
    ),
    "W4": (
        {"unit": "uid", "rows_per_unit": 1, "groups_per_unit": 10, "budget": Budget(epsilon=1000, delta=1e-3)},
        "SELECT day, category, COUNT(DISTINCT uid) AS n FROM events GROUP BY day, category",
    ),
    "W5": (
        {"unit": None, "bounds": {"amount": (0, 500)}, "budget": NARROW},
        f"SELECT {QUANTILES} FROM events",
    ),
}
ROWS = {
    "visits": """SELECT i % 1000 AS pid, CASE WHEN hash(i % 1000) % 2 = 0 THEN 'F' ELSE 'M' END AS sex,
        CAST(hash(i, 6) % 100 AS BIGINT) AS age, (hash(i, 1) % 50000) / 100.0 AS cost FROM range(3000) t(i)""",
    "events": """SELECT (100000 * pow((hash(i, 2) % 1000003) / 1000003.0, 2))::BIGINT AS uid,
        (hash(i, 7) % 365)::INTEGER AS day, (50 * pow((hash(i, 3) % 1000003) / 1000003.0, 2))::INTEGER % 50 AS category,
        least(500, (hash(i, 4) % 100000) / 150.0) AS amount FROM range(1000000) t(i)""",
}


def milliseconds(name: str) -> float:
    """The median processor time of a fresh answer in this process."""
    facts, question = {**SMALL, **LARGE}[name]
    table, rounds = ("visits", 130) if name in SMALL else ("events", 15)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{table}.parquet"
        with duckdb.connect() as connection:
            connection.execute(f"COPY ({ROWS[table]}) TO '{file}'")
        time.sleep(SETTLED)
        curator = open_data(file, **facts)
        took = []
        for number in range(rounds):
            start = time.process_time()
            curator.sql(question.format(x=number / 2), epsilon=0.05, refresh="{x}" not in question)
            took.append(time.process_time() - start)
        curator.close()
    return 1000 * median(took[rounds // 5 :])


def child(source: Path, name: str) -> float:
    """The same in a process that imports Lapwing from there."""
    world = {**os.environ, "PYTHONPATH": str(source)}
    command = [sys.executable, __file__, "--alone", name]
    return float(subprocess.run(command, env=world, check=True, capture_output=True, text=True).stdout)


def main(other: Path) -> None:
    print("| a fresh answer, processor ms | other | this | this / other |\n|---|---:|---:|---:|")
    for name in (*SMALL, *LARGE):
        pairs = [(child(other, name), child(OURS, name)) for _ in range(TURNS)]
        theirs, ours = (median(side) for side in zip(*pairs, strict=True))
        print(f"| {name} | {theirs:,.1f} | {ours:,.1f} | {median(b / a for a, b in pairs):.2f} |", flush=True)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--alone", name]:
            print(milliseconds(name))
        case [folder]:
            main(Path(folder).resolve())
        case _:
            print(f"Pass the src folder of another commit: python {Path(__file__).name} ../other/src")
