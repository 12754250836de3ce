"""Error and budget oracles: questions that fail, or are refunded, only if a certain person is there."""

from __future__ import annotations

from contextlib import closing

import numpy as np

from lapwing.arrays import Array, Flags
from lapwing.errors import LapwingError
from lapwing.lab.attacks.attempt import LAPWING, NAIVE, Attacked, View, compare, presence_cap
from lapwing.lab.random_people import draw_float_laplace, shuffled
from lapwing.lab.targets import open_experiment

TRIALS, PRICE, BUDGET, AGE = 20, 0.1, 1.0, 37


def run() -> Attacked:
    """The mean of 100 / (age - 37): it fails if anybody is 37."""
    hidden: Flags = shuffled(TRIALS) % 2 == 0  # in exactly half of the wards
    tables = [np.array([25, 41, 58, 63] + [AGE] * int(secret)) for secret in hidden]
    outcomes = {NAIVE: list(map(_ask_naively, tables)), LAPWING: list(map(_ask, tables))}
    errors: Flags = np.array([failed for failed, _ in outcomes[NAIVE]])
    quiet = _ask(np.array([25, 41, 58, 63]))
    guess: Flags = np.array([outcome != quiet for outcome in outcomes[LAPWING]])
    balances = {name: (np.arange(TRIALS), np.array([left for _, left in wards])) for name, wards in outcomes.items()}
    return Attacked(
        "oracles",
        "Error and budget oracles",
        f"is anybody in the ward {AGE} years old? The question divides by age - {AGE}",
        compare(
            hidden,
            ("the engine's error message", errors),
            ("noise on the result; errors are shown and refunded", errors),
            ("no row makes it fail, and every answer is charged", guess),
            cap=presence_cap(PRICE),
        ),
        View("The balance after the question", "ward", "epsilon left", balances, kind="points"),
        "Whether a question fails, and what it costs, are answers too. Here they depend on the question alone.",
    )


def _ask_naively(ages: Array) -> tuple[bool, float]:
    """Whether the question failed, and what is left of the budget: failures are free."""
    try:
        sum(100 / int(age - AGE) for age in ages) + draw_float_laplace(1.0, 1)
    except ZeroDivisionError:
        return True, BUDGET
    return False, BUDGET - PRICE


def _ask(ages: Array) -> tuple[bool, float]:
    import pyarrow as pa

    rows = pa.table({"age": ages})
    question = f"SELECT SUM(CASE WHEN 100 / (age - {AGE}) > 1 THEN 1 ELSE 0 END) AS n FROM ward"
    with closing(open_experiment(rows, name="ward", unit=None, bounds={"age": (0, 120)}, epsilon=BUDGET)) as curator:
        failed = False
        try:
            curator.sql(question, epsilon=PRICE)
        except LapwingError:
            failed = True
        return failed, float(curator.budget.remaining.amount)
