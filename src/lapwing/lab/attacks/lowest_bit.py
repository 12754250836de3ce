"""The lowest bits of floats: noise in doubles cannot reach every double, and those it reaches show the answer.

Naive Laplace noise is a function of one of 2^53 uniforms. Given an output, the attacker tries for either answer whether
any uniform leads from it to exactly this double; often only one answer remains. [Mironov 2012] If guessing the nearer
answer works better, that is reported.
"""

from __future__ import annotations

import numpy as np

from lapwing.arrays import Flags, Floats
from lapwing.lab.attacks.attempt import LAPWING, NAIVE, UNPROTECTED, Attacked, View, compare, presence_cap
from lapwing.lab.outputs import lowest_bit
from lapwing.lab.random_people import draw_float_laplace, flip_coins
from lapwing.mechanisms import Laplace

TRIALS, EPSILON = 4_000, 1.0
_NEAR = 12  # uniforms on either side


def run() -> Attacked:
    """The count of people with a rare disease, 0 or 1, released as a double."""
    hidden = flip_coins(TRIALS)
    truth = hidden.astype(np.float64)
    exact = Laplace(epsilon=EPSILON, size=TRIALS)
    outputs = {
        UNPROTECTED: truth,
        NAIVE: truth + draw_float_laplace(1 / EPSILON, TRIALS),
        LAPWING: np.array([exact(value) for value in truth.tolist()]),
    }
    guesses = {
        system: max(seen > 0.5, _guess(seen), key=lambda guess: np.sum(guess == hidden))
        for system, seen in outputs.items()
    }
    bits = {
        f"{system}, count {int(value)}": _histogram(seen[hidden == bool(value)])
        for system, seen in outputs.items()
        if system != UNPROTECTED
        for value in (0, 1)
    }
    return Attacked(
        "lowest-bit",
        "The lowest bits of floats",
        "is the count 0 or 1?",
        compare(
            hidden,
            ("the exact count", guesses[UNPROTECTED]),
            ("Laplace noise in doubles at epsilon = 1", guesses[NAIVE]),
            ("exact noise on a fixed grid at epsilon = 1", guesses[LAPWING]),
            cap=presence_cap(EPSILON),
            naive_cap=presence_cap(EPSILON),
        ),
        View("The lowest digit that is set", "exponent of 2", "share of outputs", bits),
        "The law of the noise is right and its digits are wrong: the naive answer breaks its own promise.",
    )


def _guess(outputs: Floats) -> Flags:
    """The only answer that a uniform leads from to this output; the nearer one if both or neither does."""
    from_0, from_1 = _reachable(outputs, 0.0), _reachable(outputs, 1.0)
    return np.where(from_0 == from_1, outputs > 0.5, from_1)


def _reachable(outputs: Floats, answer: float) -> Flags:
    """Whether naive noise on this answer can give exactly these doubles, by trying the uniforms nearby."""
    noise = outputs - answer
    nearest = np.rint(-np.expm1(-np.abs(noise)) / 2 * 2.0**53)
    tried = (nearest[:, None] + np.arange(-_NEAR, _NEAR + 1)) * 2.0**-53
    with np.errstate(invalid="ignore", divide="ignore"):
        reached = answer + np.sign(noise)[:, None] * -np.log1p(-2 * tried) / EPSILON
    return np.asarray((reached == outputs[:, None]).any(axis=1))


def _histogram(outputs: Floats) -> tuple[Floats, Floats]:
    at = np.arange(-60, -20)
    bits = lowest_bit(outputs)
    return at.astype(np.float64), np.array([np.mean(bits == k) for k in at])
