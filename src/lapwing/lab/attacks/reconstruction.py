"""Reconstruction by linear programming: enough sums over random groups determine everyone. [Dinur, Nissim 2003]"""

from __future__ import annotations

import numpy as np

from lapwing.arrays import Array, Flags, Floats
from lapwing.lab.attacks.attempt import LAPWING, NAIVE, UNPROTECTED, Attacked, View, compare, presence_cap
from lapwing.lab.random_people import draw_whole_laplace, flip_coins
from lapwing.mechanisms import Laplace

PEOPLE, QUESTIONS, WIDTH = 100, 400, 3
BUDGET = 1.0


def run() -> Attacked:
    """Counts of ill people in 400 random groups of 100 people."""
    hidden = flip_coins(PEOPLE)
    groups = flip_coins(QUESTIONS, PEOPLE)
    sums = groups.astype(np.int64) @ hidden.astype(np.int64)
    answers = {
        UNPROTECTED: sums,
        NAIVE: sums + draw_whole_laplace(WIDTH, QUESTIONS),
        LAPWING: Laplace(epsilon=BUDGET, sensitivity=QUESTIONS)(sums),
    }
    guesses = {system: solve(groups, seen) for system, seen in answers.items()}
    asked = np.array([25, 50, 100, 200, 400])
    curves = {
        system: (asked, np.array([np.mean(solve(groups[:k], seen[:k]) == hidden) for k in asked]))
        for system, seen in answers.items()
    }
    return Attacked(
        "reconstruction",
        "Reconstruction",
        f"which of {PEOPLE} people are in the register of the ill, by counts over random groups of them?",
        compare(
            hidden,
            (f"{QUESTIONS} exact counts", guesses[UNPROTECTED]),
            (f"Laplace noise of {WIDTH} on each, no budget", guesses[NAIVE]),
            (f"{QUESTIONS} counts at epsilon = 1 in all", guesses[LAPWING]),
            cap=presence_cap(BUDGET),
        ),
        View("People whose secret was found", "counts published", "share", curves),
        "Too many answers that are too accurate destroy privacy, whatever the noise is called.",
    )


def solve(groups: Flags, answers: Array) -> Flags:
    """The bits nearest to fractions in [0, 1] whose sums miss the answers least in all."""
    from scipy.optimize import linprog

    asked, people = groups.shape
    cost = np.concatenate([np.zeros(people), np.ones(asked)])
    weights: Floats = groups.astype(np.float64)
    rows = np.block([[weights, -np.eye(asked)], [-weights, -np.eye(asked)]])
    limits, bounds = np.concatenate([answers, -answers]), [(0, 1)] * people + [(0, None)] * asked
    return np.asarray(linprog(cost, A_ub=rows, b_ub=limits, bounds=bounds, method="highs").x[:people] > 0.5)
