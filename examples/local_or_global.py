"""Local and global differential privacy at the same epsilon: how many of n people say yes?

Local: each person randomizes the answer before sending it, and nobody has to be trusted. Global: a trusted curator
counts and adds noise once. The local error grows with the square root of n, the global one does not grow.

Run it with `python examples/local_or_global.py`.
"""

from __future__ import annotations

import math

import numpy as np

import lapwing as lw

EPSILON = 1
PEOPLE = (100, 1_000, 10_000, 100_000)


def global_error() -> int:
    """With 95 % confidence the curator's count is within this, however many people there are."""
    return lw.Laplace(epsilon=EPSILON).error(0.95)


def local_error(people: int) -> float:
    """The same for the count estimated from randomized responses, by the normal approximation.

    Each answer is true with probability p, whatever the truth, so the number of "yes" has the variance n p (1 - p), and
    the estimate divides it by 2 p - 1.
    """
    p = float(lw.RandomizedResponse(epsilon=EPSILON).law()[1][1][0])
    return 1.96 * math.sqrt(people * p * (1 - p)) / (2 * p - 1)


def asked(people: int) -> tuple[int, float]:
    """One run of both when a third of the people say yes: the error of each."""
    truth = np.arange(people) % 3 == 0
    response = lw.RandomizedResponse(epsilon=EPSILON)
    estimate = response.estimate(response.respond(truth))[True].share * people
    return abs(lw.Laplace(epsilon=EPSILON)(int(truth.sum())) - int(truth.sum())), abs(estimate - float(truth.sum()))


def main() -> None:
    print(f"How many say yes? Both at epsilon = {EPSILON}; half-widths at 95 %, and the error of one run.\n")
    print(f"{'people':>9} {'global':>8} {'local':>8}   {'global run':>11} {'local run':>10}")
    for people in PEOPLE:
        central, local = asked(people)
        print(f"{people:>9,} {global_error():>8} {local_error(people):>8.0f}   {central:>11} {local:>10.0f}")
    print("\nLocal is the safer model, since nobody sees the truth. Global is the more accurate one.")


if __name__ == "__main__":
    main()
