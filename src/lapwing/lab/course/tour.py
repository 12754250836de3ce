"""A short tour on real data: everyone born in the United States in 2015, by first name.

Every noisy number is drawn afresh, so no two tours agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lapwing.answers.picture import BLUE, PALE, RED
from lapwing.data import births
from lapwing.errors import BudgetExceeded
from lapwing.lab.pictures import canvas, saved
from lapwing.mechanisms import Exponential, Laplace, NoisyMax, RandomizedResponse
from lapwing.privacy import Budget, Filter

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def tour() -> Iterator[str]:
    names, counts = people_by_name()
    yield f"{counts.sum():,} people born in the United States in 2015, {names.size:,} first names."
    largest = histogram(names[:10_000], counts[:10_000])
    for part in (largest, most_popular(names, counts), auction(), randomized_response(names, counts), budget()):
        yield "\n".join(part)


def people_by_name() -> tuple[Any, Any]:
    """Names and how many people bear them, the most frequent first."""
    table = births().group_by("name").aggregate([("births", "sum")])
    name, count = table["name"].to_numpy(), table["births_sum"].to_numpy()
    order = np.lexsort((name, -count))
    return name[order], count[order]


def histogram(names: Any, counts: Any) -> Iterator[str]:
    """One person is in one cell, so the whole histogram costs what one count costs."""
    yield from heading("A histogram of 10,000 names at epsilon = 1")
    noisy = Laplace(epsilon=1, sensitivity=1)
    answers = noisy(counts)
    within = noisy.error(0.95, simultaneous=10_000)
    for name, answer, truth in zip(names[:5], answers, counts, strict=False):
        interval = f"95 % interval {answer - within:,} to {answer + within:,}"
        yield f"  {name:<10} {answer:>8,}   {interval}   (truth {truth:,})"
    bound = noisy.textbook_error(0.95, simultaneous=10_000)
    yield f"  With 95 % confidence all 10,000 are within {within} at once; the textbook's bound is {bound:.1f}."
    yield f"  Largest error this time: {np.abs(answers - counts).max()}."


def most_popular(names: Any, counts: Any) -> Iterator[str]:
    """Noisy max reveals the winner and nothing else; its price does not grow with the number of names."""
    yield from heading("The most popular name, by noisy max")
    for epsilon in (0.1, 0.001, 0.00001):
        winner = NoisyMax(epsilon=epsilon, monotone=True).choose(names, counts)
        yield f"  epsilon = {epsilon:<8g} {winner}"
    yield f"  Truth: {names[0]} with {counts[0]:,}. With too little epsilon any name may win."


def auction() -> Iterator[str]:
    """Bids 4.10, 1, 1, 1: a price of 4.1 earns most, 4.2 earns nothing. One bid may change the revenue by 4.2."""
    yield from heading("The auction: a price by the exponential mechanism")
    prices, revenues = auction_revenues()
    generous = Exponential(epsilon=10, sensitivity=4.2)
    weights, often = Exponential(epsilon=0.1, sensitivity=4.2).weights(revenues), generous.probabilities(revenues)
    yield "  price  revenue  weight at epsilon 0.1   chance at epsilon 10"
    for price in (0.9, 1.0, 1.1, 4.1, 4.2):
        i = prices.index(price)
        yield f"  {price:>5}  {revenues[i]:>7}  {weights[i]:>21.4f}   {often[i]:>19.1%}"
    yield f"  Chosen at epsilon 10: {generous.choose(prices, revenues)}"


def auction_revenues() -> tuple[list[float], list[float]]:
    prices = [tenth / 10 for tenth in range(1, 43)]
    return prices, [round(price * sum(bid >= price for bid in (4.1, 1, 1, 1)), 10) for price in prices]


def randomized_response(names: Any, counts: Any) -> Iterator[str]:
    """No curator is trusted: each of 100,000 people flips two coins before answering."""
    yield from heading("Randomized response: is your name among the 100 most frequent?")
    people = np.sort(np.repeat(np.arange(names.size), counts))[:: int(counts.sum()) // 100_000]
    truth = people < 100
    coins = RandomizedResponse.two_coins()
    share = coins.estimate(coins.respond(truth))[True]
    yield f"  People asked: {people.size:,}. Each answer has epsilon = ln 3 for itself."
    yield f"  Estimated share {share.share:.1%}, 95 % interval {share.low:.1%} to {share.high:.1%}"
    yield f"  Truth {truth.mean():.1%}"


def budget() -> Iterator[str]:
    """Ten questions at 0.1 fill a budget of 1 exactly; the eleventh is refused and costs nothing."""
    yield from heading("A budget that holds")
    purse = Filter(Budget(epsilon=1))
    price = Laplace(epsilon=0.1).loss
    for _ in range(10):
        purse.spend(price)
    yield f"  After ten questions at 0.1: spent {purse.spent}"
    try:
        purse.spend(price)
    except BudgetExceeded as refusal:
        yield f"  The eleventh: {refusal}"


def draw_tour(path: str | Path) -> Figure:
    """The twenty most frequent names with their intervals, at a generous and at a small epsilon."""
    names, counts = (column[:20] for column in people_by_name())
    figure, (axes,) = canvas(8, 6)
    rows = np.arange(names.size)
    axes.barh(rows, counts, color=PALE, label="truth")
    for epsilon, colour, shift in ((1, BLUE, -0.18), (0.001, RED, 0.18)):
        noisy = Laplace(epsilon=epsilon)
        error = noisy.error(0.95, simultaneous=names.size)
        axes.errorbar(
            noisy(counts), rows + shift, xerr=error, fmt="o", ms=4, capsize=3, color=colour,
            label=f"epsilon = {epsilon:g}: all 20 within {error:,} at once (95 %)",
        )  # fmt: skip
    axes.set(yticks=rows, yticklabels=names, xlabel="people born in 2015")
    axes.set_title("Twenty first names, with noise and honest intervals")
    axes.set_ylim(names.size - 0.4, -0.6)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    figure.legend(loc="outside lower center", frameon=False)
    return saved(figure, path)


def heading(text: str) -> tuple[str, str]:
    return text, "-" * len(text)
