"""L41: rows without names, and someone who knows a few harmless facts about the target."""

from __future__ import annotations

from contextlib import closing, suppress
from typing import Any

import numpy as np

from lapwing.answers.step_rows import codes
from lapwing.arrays import Array, Floats
from lapwing.errors import Refused
from lapwing.lab.attacks.attempt import Attacked, View, compare, record_cap
from lapwing.lab.random_people import draw_places, draw_uniforms
from lapwing.lab.targets import health_of_one_year, open_experiment

TARGETS, BUDGET, BAND = 400, 1.0, 10
KNOWN = ("sex", "age", "site", "education", "family_size")


def run() -> Attacked:
    """Health records of one year. The attacker knows five public facts, and wants to know who spends much."""
    table = health_of_one_year()
    spends = table["spending"].to_numpy()
    high = spends > np.median(spends)
    halves = [np.flatnonzero(high), np.flatnonzero(~high)]
    targets = np.concatenate([half[draw_places(len(half), TARGETS // 2)] for half in halves])
    sex, age, *others = (table[name].to_numpy() for name in KNOWN)
    (exact, _), (coarse, _) = (codes([sex, ages, *others], len(high)) for ages in (age, age // BAND))
    blurred = high ^ (draw_uniforms(len(high)) < 0.1)
    shares, shown = _ask(table, float(np.median(spends)))
    groups, at = {"exact facts": exact, f"ages in bands of {BAND}": coarse}, np.arange(1, 21)
    sizes = {name: np.bincount(numbers)[numbers[targets]] for name, numbers in groups.items()}
    return Attacked(
        "linkage",
        "Linkage",
        "does he spend more on doctors than half of the people do? His sex, age, town, schooling and family are known",
        compare(
            high[targets],
            ("rows without names", _majorities(high, exact, targets)),
            (f"ages in bands of {BAND}, one value in ten changed", _majorities(blurred, coarse, targets)),
            (f"rows are {shown}; counts by sex and age at epsilon = 1", shares[targets] > 0.5),
            cap=record_cap(BUDGET),
        ),
        View(
            "How many people share the five facts with a target",
            "people with the same facts",
            "share of targets with no more",
            {name: (at, (size[:, None] <= at).mean(axis=0)) for name, size in sizes.items()},
        ),
        "A few facts single out most people, names or not. Counts with noise show what is common, and no rows.",
    )


def _majorities(bits: Array, groups: Array, targets: Array) -> Array:
    return np.array([np.mean(bits[groups == groups[target]]) > 0.5 for target in targets])


def _ask(table: Any, middle: float) -> tuple[Floats, str]:
    """For each person the share of people like her who spend much, by noisy counts; and what happens to rows."""
    import pyarrow as pa

    bands = (table["age"].to_numpy() // BAND).tolist()
    rows = pa.table({"sex": table["sex"], "band": bands, "high": (table["spending"].to_numpy() > middle).astype(int)})
    curator = open_experiment(
        rows, name="health", unit=None, groups_per_unit=1, bounds={"high": (0, 1)},
        values={"sex": ["F", "M"], "band": list(range(7))}, epsilon=BUDGET,
    )  # fmt: skip
    shown = "shown"
    with closing(curator):
        with suppress(Refused):
            shown = "refused"
            curator.sql("SELECT sex, band, high FROM health", epsilon=BUDGET)
            shown = "shown"
        question = "SELECT sex, band, COUNT(*) AS n, SUM(high) AS many FROM health GROUP BY sex, band"
        answer = curator.sql(question, epsilon=BUDGET).to_arrow().to_pylist()
    share = {(row["sex"], row["band"]): row["many"] / max(row["n"], 1) for row in answer}
    return np.array([share[pair] for pair in zip(table["sex"].to_pylist(), bands, strict=True)]), shown
