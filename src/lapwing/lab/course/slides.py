"""Pictures for slides, each a function: it returns a figure, and writes it if a path is given."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lapwing.answers.picture import BLUE, GREEN, GREY, PALE, RED
from lapwing.lab.course.tour import auction_revenues
from lapwing.lab.pictures import canvas, saved
from lapwing.mechanisms import Exponential, Laplace, RandomizedResponse, laplace_or_gaussian
from lapwing.numbers import Number
from lapwing.privacy import PrivacyLoss, posterior

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = (BLUE, RED, GREEN, GREY)


def _finish(figure: Figure, path: str | Path | None, title: str, *, grid: bool = False) -> Figure:
    figure.axes[0].set_title(title)
    figure.axes[0].grid(grid)
    figure.axes[0].legend(frameon=False)
    return saved(figure, path)


def draw_two_laws(epsilon: Number = 1, path: str | Path | None = None) -> Figure:
    """The laws of a noisy count on two neighbours: nowhere do they differ by more than e^epsilon."""
    noise = Laplace(epsilon=epsilon)
    reach = noise.error(0.99)
    figure, (axes,) = canvas(8, 4.5)
    for count, colour in ((50, BLUE), (51, RED)):
        seen = np.arange(50 - reach, 52 + reach)
        chances = [noise.pmf(int(value) - count) for value in seen]
        axes.plot(seen, chances, color=colour, marker="o", ms=4, lw=1.4, label=f"the truth is {count}")
    axes.set(xlabel="published count", ylabel="probability", ylim=(0, None))
    ratio = math.exp(float(epsilon))
    return _finish(
        figure, path, f"With and without one person: probabilities differ by a factor of at most {ratio:.3g}"
    )


def draw_loss(epsilon: Number = 1, path: str | Path | None = None) -> Figure:
    """How often the privacy loss exceeds a value: Laplace noise, and Gaussian noise of the same variance."""
    scale = 1 / float(epsilon)
    steps = np.linspace(0, 2.5, 101) * float(epsilon)
    figure, (axes,) = canvas(8, 4.5)
    for name, loss, colour in (
        ("Laplace", PrivacyLoss.laplace(scale=scale), BLUE),
        ("Gaussian of the same variance", PrivacyLoss.gaussian(variance=2 * scale**2), RED),
    ):
        tails = [float(loss.tail(float(step))) for step in steps]
        axes.plot(steps, tails, color=colour, lw=2, ds="steps-post", label=name)
    axes.axvline(float(epsilon), color=GREY, lw=1, ls=(0, (4, 3)))
    axes.set(xlabel="privacy loss", ylabel="probability of more", ylim=(0, None))
    return _finish(figure, path, "Laplace noise never loses more than epsilon; Gaussian noise may")


def draw_beliefs(epsilon: Number = 1, path: str | Path | None = None) -> Figure:
    """How far an answer can move the belief that a person is in the data."""
    priors = np.linspace(0, 1, 101)
    beliefs = [posterior(prior, epsilon) for prior in priors.tolist()]
    figure, (axes,) = canvas(8, 4.5)
    low, high = ([float(getattr(belief, side)) for belief in beliefs] for side in ("low", "high"))
    axes.fill_between(priors, low, high, color=PALE, lw=0)
    axes.plot(priors, high, priors, low, color=BLUE, lw=2)
    axes.plot(priors, priors, color=GREY, lw=1, ls=(0, (4, 3)))
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="belief that she is in the data, before", ylabel="after an answer")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda share, _: f"{share:.0%}")
    axes.set_title(f"At epsilon = {float(epsilon):g} a belief stays in the band, whatever the answer is")
    return saved(figure, path)


def draw_error(path: str | Path | None = None) -> Figure:
    """Within how much a count is, 95 times of 100, by epsilon and sensitivity."""
    epsilons = np.geomspace(0.05, 3, 60)
    figure, (axes,) = canvas(8, 4.5)
    for sensitivity, colour in ((10, RED), (3, GREEN), (1, BLUE)):
        errors = [Laplace(epsilon=float(epsilon), sensitivity=sensitivity).error(0.95) for epsilon in epsilons]
        axes.plot(epsilons, errors, color=colour, lw=2, drawstyle="steps-post", label=f"sensitivity {sensitivity}")
    axes.set(xscale="log", yscale="log", xlabel="epsilon", ylabel="error at 95 % confidence")
    axes.set_xticks([0.05, 0.1, 0.5, 1, 3], ["0.05", "0.1", "0.5", "1", "3"])
    axes.set_yticks([1, 10, 100], ["1", "10", "100"])
    axes.minorticks_off()
    return _finish(figure, path, "A count's error is about 3 times sensitivity / epsilon", grid=True)


def draw_auction(path: str | Path | None = None) -> Figure:
    """The revenue of each price with bids of 4.1, 1, 1, 1, and how often the exponential mechanism chooses it."""
    prices, revenue = auction_revenues()
    figure, (left, right) = canvas(10, 4.2, columns=2)
    left.bar(prices, revenue, width=0.08, color=PALE, edgecolor=GREY, lw=0.4)
    left.set(xlabel="price", ylabel="revenue", title="Bids 4.1, 1, 1, 1: what a price earns")
    for epsilon, colour in zip((10, 20, 1, 0.1), COLOURS, strict=True):
        chances = Exponential(epsilon=epsilon, sensitivity=4.2).probabilities(revenue)
        right.plot(prices, chances, color=colour, lw=1.8, label=f"epsilon = {epsilon:g}")
    right.set(xlabel="price", ylabel="chance to be chosen", ylim=(0, None), title="The exponential mechanism")
    right.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    right.legend(frameon=False, loc="upper center")
    return saved(figure, path)


def draw_laplace_or_gaussian(epsilon: Number = 1, delta: Number = 1e-6, path: str | Path | None = None) -> Figure:
    """The error of k numbers that one person may change all of: from some k on Gaussian noise is smaller."""
    sizes = sorted({round(size) for size in np.geomspace(1, 200, 30).tolist()})
    compared = [laplace_or_gaussian(values=size, epsilon=epsilon, delta=delta) for size in sizes]
    figure, (axes,) = canvas(8, 4.5)
    axes.plot(sizes, [errors.laplace_error for errors in compared], color=BLUE, lw=2, label="Laplace")
    axes.plot(sizes, [errors.gaussian_error for errors in compared], color=RED, lw=2, label="Gaussian")
    axes.set(xscale="log", yscale="log", xlabel="numbers that one person changes", ylabel="error at 95 % confidence")
    return _finish(
        figure, path, f"Laplace or Gaussian, epsilon = {float(epsilon):g}, delta = {float(delta):g}", grid=True
    )


def draw_local_or_central(epsilon: Number = 1, path: str | Path | None = None) -> Figure:
    """The error of a count in the local model, by the normal approximation, and in the central one."""
    no, yes = RandomizedResponse(epsilon=epsilon).probabilities()[:, 1]
    people = np.geomspace(100, 1e6, 50)
    figure, (axes,) = canvas(8, 4.5)
    local = 1.96 * np.sqrt(people * yes * (1 - yes)) / (yes - no)
    axes.plot(people, local, color=RED, lw=2, label="local: everyone randomizes")
    central = Laplace(epsilon=epsilon).error(0.95)
    axes.plot(people, np.full_like(people, central), color=BLUE, lw=2, label="central: a trusted curator adds noise")
    axes.set(xscale="log", yscale="log", xlabel="people", ylabel="error of a count at 95 % confidence")
    return _finish(figure, path, f"Local or central, epsilon = {float(epsilon):g}", grid=True)
