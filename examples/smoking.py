"""The smoking parable: a study teaches the world, and so teaches about a smoker, with or without his record.

Run it with `python examples/smoking.py`.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

import lapwing as lw
from lapwing.privacy import Belief, posterior

# People of a study, by (smokes, has lung cancer). Bob smokes and is ill, and may have been asked or not.
WITHOUT_BOB = {(True, True): 374, (True, False): 2125, (False, True): 75, (False, False): 7425}
WITH_BOB = WITHOUT_BOB | {(True, True): 375}

STUDY = lw.Laplace(epsilon=0.1)  # four disjoint counts: one person is in one of them, so the sensitivity is 1
RUNS = 2000


def risks(table: dict[tuple[bool, bool], int]) -> dict[bool, float]:
    """The share of ill people among smokers and among non-smokers."""
    return {smokes: table[smokes, True] / (table[smokes, True] + table[smokes, False]) for smokes in (True, False)}


def released(table: dict[tuple[bool, bool], int]) -> dict[tuple[bool, bool], int]:
    """What the study publishes: every count with noise."""
    return dict(zip(table, STUDY(list(table.values())), strict=True))


def conclusions(table: dict[tuple[bool, bool], int]) -> float:
    """The share of runs in which the published table says that smoking makes the illness over five times as likely."""
    counts = np.array(list(table.values()))[:, None] + STUDY.draw(4 * RUNS).reshape(4, RUNS)
    smokers, others = counts[0] / (counts[0] + counts[1]), counts[2] / (counts[2] + counts[3])
    return float(np.mean(smokers > 5 * others))


def took_part(prior: float = 0.5) -> Belief:
    """What anyone can conclude from the table about whether Bob is in it."""
    return posterior(prior, STUDY.epsilon)


def is_ill(prior: Fraction | float) -> Belief:
    """What his own record can add to the belief that he is ill: a changed record is one removed and one added."""
    return posterior(prior, STUDY.loss.group(2).epsilon)


def main() -> None:
    everybody = sum(ill for (_, sick), ill in WITH_BOB.items() if sick) / sum(WITH_BOB.values())
    print(f"Before the study an insurer gives Bob, like everyone, a risk of {everybody:.1%}.\n")
    for name, table in (("with Bob", WITH_BOB), ("without Bob", WITHOUT_BOB)):
        found = risks(released(table))
        print(f"Study {name}: risk of smokers {found[True]:.1%}, of others {found[False]:.1%}.", end=" ")
        print(f"More than five times as likely in {conclusions(table):.1%} of {RUNS} runs.")
    told = risks(WITH_BOB)[True]
    print(f"\nKnowing that Bob smokes, the insurer now gives him {told:.0%}. The study did that to him, and would have")
    print("done it without him. What his own record can add is bounded:")
    print(f"  Is he in the data?  {took_part()}")
    print(f"  Is he ill?          {is_ill(Fraction(15, 100))}")


if __name__ == "__main__":
    main()
