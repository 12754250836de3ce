"""A short tour on real data: everyone born in the United States in 2015, by first name.

Run it with `python examples/tour.py`. Every number printed as noisy is drawn afresh, so no two runs agree.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import lapwing as lw
from lapwing.data import births

PICTURE = Path("build/tour.png")


def main() -> None:
    names, counts = people_by_name()
    print(f"{counts.sum():,} people born in the United States in 2015, {names.size:,} first names.\n")
    histogram(names[:10_000], counts[:10_000])
    most_popular(names, counts)
    auction()
    randomized_response(names, counts)
    budget()
    print(f"A picture of the histogram: {draw(names[:20], counts[:20])}")


def people_by_name() -> tuple[Any, Any]:
    """Names and how many people bear them, the most frequent first."""
    table = births().group_by("name").aggregate([("births", "sum")])
    name, count = table["name"].to_numpy(), table["births_sum"].to_numpy()
    order = np.lexsort((name, -count))
    return name[order], count[order]


def histogram(names: Any, counts: Any) -> None:
    """One person is in one cell, so the whole histogram costs what one count costs."""
    heading("A histogram of 10,000 names at epsilon = 1")
    noisy = lw.Laplace(epsilon=1, sensitivity=1)
    answers = noisy(counts)
    within = noisy.error(0.95, simultaneous=10_000)
    for name, answer, truth in zip(names[:5], answers, counts, strict=False):
        print(
            f"  {name:<10} {answer:>8,}   95 % interval {answer - within:,} to {answer + within:,}   (truth {truth:,})"
        )
    bound = noisy.textbook_error(0.95, simultaneous=10_000)
    print(f"  With 95 % confidence all 10,000 are within {within} at once; the textbook's bound is {bound:.1f}.")
    print(f"  Largest error this time: {np.abs(answers - counts).max()}.\n")


def most_popular(names: Any, counts: Any) -> None:
    """Noisy max reveals the winner and nothing else; its price does not grow with the number of names."""
    heading("The most popular name, by noisy max")
    for epsilon in (0.1, 0.001, 0.00001):
        winner = lw.NoisyMax(epsilon=epsilon, monotone=True).choose(names, counts)
        print(f"  epsilon = {epsilon:<8g} {winner}")
    print(f"  Truth: {names[0]} with {counts[0]:,}. With too little epsilon any name may win.\n")


def auction() -> None:
    """Bids 4.10, 1, 1, 1: a price of 4.1 earns most, 4.2 earns nothing. One bid may change the revenue by 4.2."""
    heading("The auction: a price by the exponential mechanism")
    bids = [4.10, 1, 1, 1]
    prices = [tenth / 10 for tenth in range(1, 43)]
    revenues = [round(price * sum(bid >= price for bid in bids), 10) for price in prices]
    mechanism = lw.Exponential(epsilon=0.1, sensitivity=4.2)
    generous = lw.Exponential(epsilon=10, sensitivity=4.2)
    weights, often = mechanism.weights(revenues), generous.probabilities(revenues)
    print("  price  revenue  weight at epsilon 0.1   chance at epsilon 10")
    for price in (0.9, 1.0, 1.1, 4.1, 4.2):
        i = prices.index(price)
        print(f"  {price:>5}  {revenues[i]:>7}  {weights[i]:>21.4f}   {often[i]:>19.1%}")
    print(f"  Chosen at epsilon 10: {generous.choose(prices, revenues)}\n")


def randomized_response(names: Any, counts: Any) -> None:
    """Nobody trusts the asker: each of 100,000 people flips two coins before answering."""
    heading("Randomized response: is your name among the 100 most frequent?")
    people = np.sort(np.repeat(np.arange(names.size), counts))[:: int(counts.sum()) // 100_000]
    truth = people < 100
    coins = lw.RandomizedResponse.two_coins()
    share = coins.estimate(coins.respond(truth))[True]
    print(f"  People asked: {people.size:,}. Each answer has epsilon = ln 3 for itself.")
    print(f"  Estimated share {share.share:.1%}, 95 % interval {share.low:.1%} to {share.high:.1%}")
    print(f"  Truth {truth.mean():.1%}\n")


def budget() -> None:
    """Ten questions at 0.1 fill a budget of 1 exactly; the eleventh is refused and costs nothing."""
    heading("A budget that holds")
    purse = lw.Filter(lw.Budget(epsilon=1))
    price = lw.Laplace(epsilon=0.1).loss
    for _ in range(10):
        purse.spend(price)
    print(f"  After ten questions at 0.1: spent {purse.spent}")
    try:
        purse.spend(price)
    except lw.BudgetExceeded as refusal:
        print(f"  The eleventh: {refusal}\n")


def draw(names: Any, counts: Any) -> Path:
    """The twenty most frequent names with their intervals, at a generous and at a small epsilon."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 6), layout="constrained")
    rows = np.arange(names.size)
    axes.barh(rows, counts, color="#d9e3ea", label="truth")
    for epsilon, colour, shift in ((1, "#1b6ca8", -0.18), (0.001, "#c8553d", 0.18)):
        noisy = lw.Laplace(epsilon=epsilon)
        error = noisy.error(0.95, simultaneous=names.size)
        axes.errorbar(
            noisy(counts), rows + shift, xerr=error, fmt="o", ms=4, capsize=3, color=colour,
            label=f"epsilon = {epsilon:g}: all 20 within {error:,} at once (95 %)",
        )  # fmt: skip
    axes.set(yticks=rows, yticklabels=names, xlabel="people born in 2015")
    axes.set_title("Twenty first names, with noise and honest intervals")
    axes.set_ylim(names.size - 0.4, -0.6)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", frameon=False)
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=150)
    return PICTURE


def heading(text: str) -> None:
    print(f"{text}\n{'-' * len(text)}")


if __name__ == "__main__":
    main()
