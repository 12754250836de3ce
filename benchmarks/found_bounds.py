"""Means over bounds that are searched for, among few people: how often the interval misses, and what is said then.

    python benchmarks/found_bounds.py --runs 200

prints one table and writes it to benchmarks/results/found_bounds.md. Every run opens the first 686 people of the RAND
health insurance experiment with a budget of its own and asks for one mean with bounds="auto". NULL: the search found
nothing to rely on, and the answer was not charged. Missed: the 95 % interval lies beside the mean of the rows. In
silence: it does, and no note of the answer speaks of the search.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

import lapwing as lw
from lapwing.data import health

RESULTS = Path(__file__).resolve().parent / "results" / "found_bounds.md"
PEOPLE, PRICES = 686, (0.1, 0.2, 0.5, 1.0)
COLUMNS = {"age": "integer", "visits": "integer", "spending": "real"}
NOTES = ("found nothing", "Intervals do not cover what that cuts.")
NAMES = (f"people{n}" for n in itertools.count())


def people() -> pa.Table:
    rows = health()
    return rows.filter(pc.is_in(rows["person"], value_set=pc.unique(rows["person"]).slice(0, PEOPLE)))


def outcome(rows: pa.Table, column: str, price: float, truth: float) -> str:
    """What one fresh run comes to."""
    name, facts = next(NAMES), {"unit": "person", "rows_per_unit": 5, "types": {column: COLUMNS[column]}}
    with lw.open(rows, name=name, budget=lw.Budget(epsilon=8), **facts) as curator:
        answer = curator.sql(f"SELECT AVG({column}) AS m FROM {name}", epsilon=price, bounds="auto")
    (row,) = answer
    if row["m"] is None:
        return "NULL"
    if row["m_low"] <= truth <= row["m_high"]:
        return "held"
    return "missed" if any(note in str(answer) for note in NOTES) else "in silence"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=200)
    runs, rows = parser.parse_args().runs, people()
    warnings.simplefilter("ignore")
    lines = ["| mean of | truth | epsilon | NULL | held | missed | in silence |", "|---|---|---|---|---|---|---|"]
    for column, price in itertools.product(COLUMNS, PRICES):
        truth = pc.mean(rows[column]).as_py()
        found = [outcome(rows, column, price, truth) for _ in range(runs)]
        counts = [found.count(word) for word in ("NULL", "held", "missed", "in silence")]
        lines.append(f"| {column} | {truth:.2f} | {price} | {' | '.join(map(str, counts))} |")
    text = "\n".join([f"# Means over found bounds, {PEOPLE} people, {runs} runs each", "", *lines, ""])
    print(text)
    RESULTS.write_text(text)


if __name__ == "__main__":
    main()
