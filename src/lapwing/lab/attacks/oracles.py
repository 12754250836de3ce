"""Error and budget oracles: questions that fail, or are refunded, only if a certain person is there."""

from __future__ import annotations

from contextlib import closing

import numpy as np

from lapwing.arrays import Array, Flags
from lapwing.errors import LapwingError
from lapwing.lab.attacks.attempt import LAPWING, NAIVE, UNPROTECTED, Attacked, Attempt, View, presence_cap, rate_of
from lapwing.lab.experiment import open_experiment
from lapwing.lab.random_people import draw_float_laplace, shuffled

TRIALS, PRICE, BUDGET, AGE = 20, 0.1, 1.0, 37


def run() -> Attacked:
    """The mean of 100 / (age - 37): it fails if anybody is 37."""
    hidden: Flags = shuffled(TRIALS) % 2 == 0  # in exactly half of the wards
    tables = [np.array([25, 41, 58, 63] + [AGE] * int(secret)) for secret in hidden]
    naive = [_naive(ages) for ages in tables]
    ours = [_ask(ages) for ages in tables]
    errors: Flags = np.array([failed for failed, _ in naive])
    quiet = _ask(np.array([25, 41, 58, 63]))
    guess: Flags = np.array([seen != quiet for seen in ours])
    balances = {
        NAIVE: (np.arange(TRIALS), np.array([left for _, left in naive])),
        LAPWING: (np.arange(TRIALS), np.array([left for _, left in ours])),
    }
    return Attacked(
        "oracles",
        "Error and budget oracles",
        f"is anybody in the ward {AGE} years old? The question divides by age - {AGE}",
        (
            Attempt(UNPROTECTED, "the engine's error message", rate_of(errors, hidden)),
            Attempt(NAIVE, "noise on the result; errors are shown and refunded", rate_of(errors, hidden)),
            Attempt(
                LAPWING,
                "no row makes it fail, and every answer is charged",
                rate_of(guess, hidden),
                presence_cap(PRICE),
            ),
        ),
        View("The balance after the question", "ward", "epsilon left", balances, kind="points"),
        "Whether a question fails, and what it costs, are answers too. Here they depend on the question alone.",
    )


def _naive(ages: Array) -> tuple[bool, float]:
    """Whether the question failed, and what is left of the budget: failures are free."""
    try:
        sum(100 / int(age - AGE) for age in ages) + draw_float_laplace(1.0, 1)
    except ZeroDivisionError:
        return True, BUDGET
    return False, BUDGET - PRICE


def _ask(ages: Array) -> tuple[bool, float]:
    import pyarrow as pa

    rows = pa.table({"age": ages})
    with closing(open_experiment(rows, name="ward", unit=None, bounds={"age": (0, 120)}, epsilon=BUDGET)) as curator:
        failed = False
        try:
            curator.sql(
                f"SELECT SUM(CASE WHEN 100 / (age - {AGE}) > 1 THEN 1 ELSE 0 END) AS n FROM ward", epsilon=PRICE
            )
        except LapwingError:
            failed = True
        return failed, float(curator.budget.remaining.amount)
