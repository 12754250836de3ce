"""Four small questions from the lectures: a hospital's count, scores above 80, a sum of an array, a table of five rows.

Run it with `python examples/first_answers.py`. The noise is fresh, so no two runs agree.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

import lapwing as lw
from lapwing.data import five_people

PATIENTS = 50
SCORES = pd.DataFrame({"scores": [(37 * i) % 101 for i in range(200)]})
AMOUNTS = np.arange(1_000) % 7
FIVE = five_people()


def hospital() -> int:
    """50 patients have the disease. At epsilon = 0.1 the published number is within 30 of it, 95 times of 100."""
    return int(lw.Laplace(epsilon=0.1)(PATIENTS))


def above_80() -> tuple[int, lw.Release]:
    """The same count with pandas and a mechanism, and with SQL and a budget."""
    by_hand = int(lw.Laplace(epsilon=0.1)(int((SCORES["scores"] > 80).sum())))
    curator = lw.open(SCORES, name="exam", unit=None, budget=lw.Budget(epsilon=1), ledger=":memory:")
    return by_hand, curator.sql("SELECT COUNT(*) AS n FROM exam WHERE scores > 80", epsilon=0.1)


def total() -> int:
    """A sum moves by as much as one entry can: 6 for entries from 0 to 6. The sum of a tensor is an int() away too."""
    return int(lw.Laplace(epsilon=0.1, sensitivity=6)(int(AMOUNTS.sum())))


def smokers() -> tuple[int, lw.Release]:
    """How many of five smoke and have lung cancer? How far is the table without Ellen Jones?"""
    rows = [tuple(row.values()) for row in FIVE.to_pylist()]
    others = lw.classroom.Database([row for row in rows if row[0] != "Ellen Jones"])
    distance = lw.classroom.Database(rows).distance(others)
    curator = lw.open(FIVE, name="people", unit=None, budget=lw.Budget(epsilon=1), ledger=":memory:")
    return distance, curator.sql("SELECT COUNT(*) AS n FROM people WHERE smoker AND lung_cancer", epsilon=1)


def main() -> None:
    print(f"A hospital has {PATIENTS} patients with a disease and publishes {hospital()} at epsilon = 0.1.\n")
    by_hand, release = above_80()
    print(f"Scores above 80: {by_hand} with pandas and lw.Laplace; with SQL:\n{release}\n")
    print(f"The sum of {AMOUNTS.size:,} numbers from 0 to 6 is {int(AMOUNTS.sum()):,}; published: {total():,}.\n")
    distance, answer = smokers()
    print(f"Five people; the table without Ellen Jones is at distance {distance}. Smokers with lung cancer:\n{answer}")
    print(
        "With and without her every answer is about equally likely: the chances differ by a factor of at most "
        f"e^1 = {math.e:.2f}.\nWith five people that reveals almost nothing, which is the point."
    )


if __name__ == "__main__":
    main()
