"""What differential privacy is, and what it is not, in three short demonstrations.

Run it with `python examples/what_dp_is.py`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from fractions import Fraction

import numpy as np

import lapwing as lw
from lapwing.classroom import Refutation, refute
from lapwing.privacy import Neighbours

ANSWERS = ("no", "yes")
CHANGE = Neighbours.CHANGE_ONE


def coin(_: list[str]) -> dict[Hashable, Fraction]:
    """An algorithm that does not look at the data: does the majority say yes?"""
    return {"no": Fraction(1, 2), "yes": Fraction(1, 2)}


def hint(records: list[str]) -> dict[Hashable, Fraction]:
    """The same coin, with a slight bias towards the truth."""
    lean = Fraction(1, 1000) if 2 * records.count("yes") > len(records) else Fraction(0)
    return {"no": Fraction(1, 2) - lean, "yes": Fraction(1, 2) + lean}


def perfect_privacy() -> tuple[Refutation | None, Refutation | None]:
    """At epsilon = 0 and delta = 0 the coin is not refuted, and any algorithm that learns anything is."""
    return refute(coin, ANSWERS, epsilon=0, size=4), refute(hint, ANSWERS, epsilon=0, size=4)


def accuracies(people: int = 1000, parts: int = 10) -> dict[str, float]:
    """How far off three algorithms for one task are, with 95 % confidence, all at epsilon = 1: how many say yes?

    A count moves by at most 1 whether a person is added, removed or changed, so all three promise the same.
    """
    response = lw.RandomizedResponse(epsilon=1)
    p = float(response.law()[1][1][0])
    spread = math.sqrt(people * p * (1 - p)) / (2 * p - 1)
    return {
        "one count, one noise": float(lw.Laplace(epsilon=1).error(0.95)),
        f"{parts} counts of parts, added up": float(error_of_sum(parts)),
        "everybody lies a little": 1.96 * spread,
    }


def error_of_sum(parts: int, confidence: float = 0.95) -> int:
    """The smallest t that the sum of independent Laplace noises keeps with this probability, by convolution."""
    noise = lw.Laplace(epsilon=1)
    reach = 60
    one = np.array([noise.pmf(z) for z in range(-reach, reach + 1)])
    total = one
    for _ in range(parts - 1):
        total = np.convolve(total, one)
    middle = len(total) // 2
    inside = np.cumsum(np.concatenate([[total[middle]], 2 * total[middle + 1 :]]))
    return int(np.argmax(inside >= confidence))


def one_record(records: list[str]) -> dict[Hashable, Fraction]:
    """Publishes the whole record of one person, chosen at random."""
    return {record: Fraction(records.count(record), len(records)) for record in set(records)}


def sacrifice(people: int) -> tuple[Refutation | None, Refutation | None]:
    """(0, 1/n)-DP does not refute publishing someone's record; any smaller delta does."""
    exactly, less = Fraction(1, people), Fraction(1, people) - Fraction(1, 10**9)
    universe = ("healthy", "ill", "very ill")
    return (
        refute(one_record, universe, epsilon=0, delta=exactly, size=people, least=people, neighbours=CHANGE),
        refute(one_record, universe, epsilon=0, delta=less, size=people, least=people, neighbours=CHANGE),
    )


def main() -> None:
    blind, leaning = perfect_privacy()
    print("1. Perfect privacy is useless. With epsilon = 0 and delta = 0 every database must have the same law.")
    print(f"   A coin that ignores the data is not refuted: {blind is None}. It is right half of the time.")
    if leaning is not None:
        print(f"   A coin that leans by 0.001 is, by {leaning.first} and {leaning.second}.\n")
    print(
        "2. It is a definition, not an algorithm. How many of 1,000 people say yes? All at epsilon = 1, within (95 %):"
    )
    for name, error in accuracies().items():
        print(f"   {name:<32} {error:5.0f}")
    print("\n3. It does not sacrifice the few for the many, if delta is far below 1/n.")
    for people in (2, 5, 10):
        allowed, refuted = sacrifice(people)
        print(
            f"   n = {people:>2}: publishing one whole record at random is (0, 1/{people})-DP: {allowed is None}; "
            f"with any smaller delta: {refuted is None}."
        )
    print(
        "   At delta = 1/n someone is exposed in every run. Choose delta below 1/n by a factor of a thousand or more."
    )


if __name__ == "__main__":
    main()
