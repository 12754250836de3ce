"""L43: the advertiser who learns from the order of three adverts whether a person is over 49."""

from __future__ import annotations

from itertools import permutations

import numpy as np

from lapwing.arrays import Flags, Floats
from lapwing.lab.attacks.attempt import Attacked, View, compare, presence_cap
from lapwing.lab.random_people import draw_uniforms, flip_coins
from lapwing.mechanisms import Exponential

ADVERTS = ("Kraft", "Stouffer's", "Pillsbury")
RANKINGS = tuple(permutations(ADVERTS))
LIKED = {False: ("Pillsbury", "Kraft", "Stouffer's"), True: ("Stouffer's", "Kraft", "Pillsbury")}
"""The adverts that the young and the old click, the best first."""
PEOPLE, LOADS, CHANCE, BUDGET = 400, 15, 0.3, 1.0


def run() -> Attacked:
    """A page with three adverts, ordered by the age in the account that is logged in."""
    old = flip_coins(PEOPLE)
    swapped = draw_uniforms(PEOPLE, LOADS) < CHANCE
    naive: Flags = np.where(swapped, ~old[:, None], old[:, None]).mean(axis=1) > 0.5
    mechanism = Exponential(epsilon=BUDGET, sensitivity=2)
    chosen = [mechanism.choose(RANKINGS, utilities(bool(age))) for age in old]
    guess: Flags = np.array([ranking.index("Stouffer's") < ranking.index("Pillsbury") for ranking in chosen])
    epsilons = np.array([0.1, 0.25, 0.5, 1, 2, 3, 4, 6])
    guessed, liked = np.array([trade_off(float(epsilon)) for epsilon in epsilons]).T
    caps = np.array([presence_cap(float(epsilon)) for epsilon in epsilons])
    curves = ("the age is guessed", guessed), ("at most", caps), ("the best advert is first", liked)
    return Attacked(
        "advertiser",
        "The web-search advertiser",
        "is the person over 49? The order of three adverts for a search depends on it",
        compare(
            old,
            ("the best order for the age", old),
            (f"reversed with probability {CHANCE}, on each of {LOADS} page loads", naive),
            ("one order by the exponential mechanism at epsilon = 1", guess),
            cap=presence_cap(BUDGET),
        ),
        View("Privacy and relevance", "epsilon", "probability", {name: (epsilons, curve) for name, curve in curves}),
        "A deterministic order shows the age. A random one shows as little as epsilon says, and costs some relevance.",
    )


def utilities(old: bool) -> list[int]:
    """How well each order suits the age: 2 for the best advert in the first place, 1 for the second best."""
    best = LIKED[old]
    return [2 - best.index(ranking[0]) for ranking in RANKINGS]


def trade_off(epsilon: float) -> tuple[float, float]:
    """By the exact laws: how often the better guess is right, and how often the best advert comes first."""
    mechanism = Exponential(epsilon=epsilon, sensitivity=2)
    young, old = (np.asarray(mechanism.probabilities(utilities(age))) for age in (False, True))
    right: Floats = np.maximum(young, old).sum() / 2
    first = sum(p for p, ranking in zip(old, RANKINGS, strict=True) if ranking[0] == LIKED[True][0])
    return float(right), float(first)
