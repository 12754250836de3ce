"""Error against epsilon, and the auction: docs/pictures/error_epsilon.png and docs/pictures/auction.png."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import lapwing as lw
from lapwing.lab.pictures import BLUE, GREEN, GREY, PALE, RED, canvas, saved

PICTURES = Path(__file__).parents[1] / "pictures"
BIDS = (4.1, 1, 1, 1)


def error_against_epsilon() -> Path:
    """Within how much a count is, 95 times of 100, by sensitivity."""
    epsilons = np.geomspace(0.05, 5, 60)
    figure, (axes,) = canvas(8, 4.5)
    for sensitivity, colour in ((10, RED), (3, GREEN), (1, BLUE)):
        errors = [lw.Laplace(epsilon=float(epsilon), sensitivity=sensitivity).error(0.95) for epsilon in epsilons]
        axes.plot(epsilons, errors, color=colour, lw=2, drawstyle="steps-post", label=f"sensitivity {sensitivity}")
    axes.set(xscale="log", yscale="log", xlabel="epsilon", ylabel="error at 95 % confidence")
    axes.set_xticks([0.05, 0.1, 0.5, 1, 5], ["0.05", "0.1", "0.5", "1", "5"])
    axes.set_yticks([1, 10, 100], ["1", "10", "100"])
    axes.minorticks_off()
    axes.grid(True)
    axes.legend(frameon=False)
    axes.set_title("The price of privacy: a count's error is about 3 times sensitivity / epsilon")
    saved(figure, PICTURES / "error_epsilon.png")
    return PICTURES / "error_epsilon.png"


def auction() -> Path:
    """What each price earns, and how often the exponential mechanism chooses it."""
    prices = np.arange(1, 43) / 10
    revenue = [round(float(price) * sum(bid >= price for bid in BIDS), 10) for price in prices]
    figure, (left, right) = canvas(10, 4.2, columns=2)
    left.bar(prices, revenue, width=0.08, color=PALE, edgecolor=GREY, lw=0.4)
    left.set(xlabel="price", ylabel="revenue", title="Bids 4.1, 1, 1, 1: what a price earns")
    for epsilon, colour in ((20, RED), (10, BLUE), (1, GREEN), (0.1, GREY)):
        chances = lw.Exponential(epsilon=epsilon, sensitivity=4.2).probabilities(revenue)
        right.plot(prices, chances, color=colour, lw=1.8, label=f"epsilon = {epsilon:g}")
    right.set(xlabel="price", ylabel="chance to be chosen", ylim=(0, None), title="The exponential mechanism")
    right.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    right.legend(frameon=False, loc="upper center")
    saved(figure, PICTURES / "auction.png")
    return PICTURES / "auction.png"


if __name__ == "__main__":
    print(error_against_epsilon(), auction())
