"""The two-coin survey on real answers: nobody can know who is ill, and the share of the ill comes out all the same.

Each person tosses a coin. Tails: tell the truth. Heads: toss again, and let the second coin answer. 5,638 people of the
RAND Health Insurance Experiment once rated their own health; here they answer again, with coins.

Run it with `python examples/two_coins.py`.
"""

from __future__ import annotations

import lapwing as lw
from lapwing.data import health

ANSWERS = ["excellent", "good", "fair", "poor"]


def ratings() -> list[str]:
    """How each person rated their own health in the first year."""
    table = health()
    years, rated = table.column("year").to_pylist(), table.column("general_health").to_pylist()
    return [rating for year, rating in zip(years, rated, strict=True) if year == 1]


def main() -> None:
    told = ratings()
    truth = [rating in ("fair", "poor") for rating in told]
    coins = lw.RandomizedResponse.two_coins()
    answers = coins.respond(truth)
    yes = sum(answers)
    found = coins.estimate(answers)[True]
    print(
        f'"Is your health fair or poor?" {len(truth):,} people answer with two coins, epsilon = ln 3 = 1.0986 each.\n'
    )
    print(f"{yes:,} say yes, a share of {yes / len(truth):.1%}. A quarter says yes by the coins alone.")
    print(f"The share of the ill is 2 x {yes / len(truth):.3f} - 1/2 = {found.share:.1%},")
    print(f"95 %: {found.low:.1%} to {found.high:.1%}.")
    print(f"The truth, which nobody saw: {sum(truth) / len(truth):.1%}.")
    print("Of a person who said yes, nobody can tell: every fourth healthy person says so too.\n")

    survey = lw.collect.choose(ANSWERS, epsilon=1)
    print(f'"How is your health?" with four answers, epsilon = 1. {survey.why}\n')
    print(survey.estimate(survey.respond(told)))
    print("\nThe truth: " + ", ".join(f"{answer} {told.count(answer) / len(told):.3f}" for answer in ANSWERS) + ".")

    mixed = lw.collect.central_epsilon(1, len(told), delta=1e-6)
    print(f"\nIf a trusted shuffler mixes the {len(told):,} reports, each costs epsilon = {mixed:.3f} instead of 1")
    print("(delta = 1e-6).")
    print(f"A trusted curator would count within {lw.Laplace(epsilon=1).error(0.95)} people at epsilon = 1.")


if __name__ == "__main__":
    main()
