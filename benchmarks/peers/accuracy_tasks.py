"""What Lapwing and every peer are asked for accuracy: the same cases on the same rows, the same number of times.

Each library gives a table of makers: the name of a statistic, and a function that takes the rows and returns a draw,
a function without arguments that releases the statistic once. Only the standard library is used here.
"""

from __future__ import annotations

import importlib.metadata
import json
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

EPSILON, DELTA = 1.0, 1e-5
REPETITIONS, KEY_REPETITIONS = 300, 60
LEVELS = {"median": 0.5, "quantile 0.9": 0.9}
KEYS, COUNTED_KEYS = "keys", "keys with counts"


@dataclass(frozen=True, slots=True)
class Rows:
    """One column, a row a unit, and the bounds that everybody is told; or for the keys, how many rows each has."""

    values: list[float]
    low: float
    high: float
    whole: bool
    split: float
    counts: dict[str, int]

    @property
    def above(self) -> list[float]:
        """The rows to count. Not all rows: a peer that cuts its count off at the number of rows would seem exact."""
        return [value for value in self.values if value > self.split]

    @property
    def bounds(self) -> tuple[float, float]:
        return self.low, self.high

    def rounded(self, value: float) -> float:
        """A released value of this column: whole if the column is."""
        return float(round(value)) if self.whole else value


Answer = float | list[float]
Maker = Callable[[Rows], Callable[[], Answer]]


@dataclass(frozen=True, slots=True)
class Found:
    """What a library released, by case, and what it could not."""

    version: str
    answers: dict[str, list[Answer]]
    failures: dict[str, str]


def measure(
    package: str, makers: dict[str, Maker], work: dict[str, dict[str, object]], most: int = REPETITIONS
) -> Found:
    """Every statistic that the library has, on all rows that it applies to."""
    answers: dict[str, list[Answer]] = {}
    failures: dict[str, str] = {}
    for data, held in work.items():
        rows = Rows(**held)  # type: ignore[arg-type]
        for statistic, maker in makers.items():
            if is_about_keys(statistic) != bool(rows.counts):
                continue
            case = f"{statistic}, {data}"
            times = min(most, KEY_REPETITIONS if rows.counts else REPETITIONS)
            try:
                draw = maker(rows)
                answers[case] = [draw() for _ in range(times)]
            except Exception as error:  # noqa: BLE001 (a peer's failure is a result)
                failures[case] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            print(f"{package}: {case}", file=sys.stderr)
    return Found(importlib.metadata.version(package), answers, failures)


def is_about_keys(statistic: str) -> bool:
    return statistic.startswith(KEYS)


def shown(released: dict[str, float], counts: dict[str, int]) -> list[float]:
    """How many keys were shown, and the root mean square error of their counts."""
    squares = [(value - counts[key]) ** 2 for key, value in released.items()]
    return [float(len(squares)), math.sqrt(sum(squares) / max(len(squares), 1))]


def main(package: str, makers: dict[str, Maker], most: int = REPETITIONS) -> None:
    """A peer's program: reads the work from the file that is named, prints one line of JSON."""
    found = measure(package, makers, json.loads(Path(sys.argv[1]).read_text()), most)
    print(json.dumps({"version": found.version, "answers": found.answers, "failures": found.failures}))
