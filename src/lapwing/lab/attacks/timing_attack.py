"""Timing: the time of an answer shows whether a person with very many rows is there.

Lapwing does not defend this inside one process, and docs/threat-model.md says so. The attack shows what that means.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np

from lapwing.arrays import Flags, Floats
from lapwing.lab.attacks.attempt import LAPWING, NAIVE, UNPROTECTED, Attacked, Attempt, View, rate_of
from lapwing.lab.random_people import draw_float_laplace, flip_coins
from lapwing.lab.targets import open_experiment

TRIALS, LEARNED, REPEATS, PEOPLE, HEAVY = 40, 8, 3, 2_000, 400_000


def run() -> Attacked:
    """2,000 people with a row each, and perhaps one more with 400,000."""
    import pyarrow as pa

    light = pa.table({"person": np.arange(PEOPLE), "cost": np.ones(PEOPLE)})
    extra = pa.table({"person": np.full(HEAVY, PEOPLE), "cost": np.ones(HEAVY)})
    tables = {False: light, True: pa.concat_tables([light, extra]).combine_chunks()}
    with closing(_open(tables[False])) as plain, closing(_open(tables[True])) as heavy:
        curators = {False: plain, True: heavy}
        systems: dict[str, Callable[[bool], Any]] = {
            UNPROTECTED: lambda secret: _total(tables[secret]),
            NAIVE: lambda secret: _total(tables[secret]) + draw_float_laplace(1.0, 1),
            LAPWING: lambda secret: _ask(curators[secret]),
        }
        seen = {system: _attack(answer) for system, answer in systems.items()}
    rates = {system: rate_of(guesses, hidden) for system, (guesses, hidden, _) in seen.items()}
    _, hidden, times = seen[LAPWING]
    return Attacked(
        "timing",
        "Timing of a heavy unit",
        f"is a person with {HEAVY:,} rows in the data? The attacker measures how long an answer takes",
        (
            Attempt(UNPROTECTED, "the exact sum", rates[UNPROTECTED]),
            Attempt(NAIVE, "the sum with noise", rates[NAIVE]),
            Attempt(LAPWING, "epsilon caps the answer, not the time it takes", rates[LAPWING]),
        ),
        View(
            "Time of an answer by Lapwing",
            "milliseconds",
            "share of answers",
            {"not in": (1000 * times[~hidden], times[:0]), "in": (1000 * times[hidden], times[:0])},
            kind="distributions",
        ),
        "Noise does not hide time. Keep those who must not learn this from measuring how long answers take.",
    )


def _attack(answer: Callable[[bool], Any]) -> tuple[Flags, Flags, Floats]:
    """Guesses, secrets and times: the attacker first learns on data of her own how long either takes."""

    def measured(secret: bool) -> float:
        times = []
        for _ in range(REPEATS):
            start = time.perf_counter()
            answer(secret)
            times.append(time.perf_counter() - start)
        return min(times)

    learned = [float(np.median([measured(secret) for _ in range(LEARNED)])) for secret in (False, True)]
    hidden = flip_coins(TRIALS)
    times: Floats = np.array([measured(bool(secret)) for secret in hidden])
    return times > sum(learned) / 2, hidden, times


def _total(table: Any) -> float:
    totals = table.group_by("person").aggregate([("cost", "sum")])
    return float(np.minimum(totals["cost_sum"].to_numpy(), 1).sum())


def _open(table: Any) -> Any:
    return open_experiment(table, name="visits", unit="person", rows_per_unit=1, bounds={"cost": (0, 1)}, epsilon=1_000)


def _ask(curator: Any) -> None:
    curator.sql("SELECT SUM(cost) AS cost FROM visits", epsilon=1, refresh=True)
