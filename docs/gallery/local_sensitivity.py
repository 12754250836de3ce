"""Local sensitivity: which median is best when, and how naive noise leaks: docs/pictures/local_sensitivity.png."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")

import numpy as np
from matplotlib import pyplot as plt
from scipy.special import ndtri

from lapwing.mechanisms import ProposedMedian, SmoothMedian

PICTURE = Path(__file__).parents[1] / "pictures" / "local_sensitivity.png"
BLUE, RED, GREEN, PALE, GREY = "#1b6ca8", "#c8553d", "#5b8c5a", "#d9e3ea", "#6f7d87"
BOUNDS = (0, 1_000_000)
DELTA = 1e-6
SIZES = [int(10 ** (exponent / 4)) for exponent in range(4, 21)]
PROPOSALS = (1000, 100)

# 50 incomes of 30,000 and 50 of 60,000; and one more of 30,000, which closes the gap in the middle.
GAP = [30_000] * 50 + [60_000] * 50
CLOSED = [*GAP, 30_000]


def incomes(n: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The n quantiles of a lognormal law with median 40,000: data without chance."""
    return 40_000 * np.exp(0.8 * ndtri((np.arange(n) + 0.5) / n))


def exponential_error(values: np.ndarray[Any, np.dtype[np.float64]], share: float = 0.5) -> float:
    """The error that this share of `Quantile` runs stays within, on a fine grid at epsilon = 1.

    Its law: weight exp(-ranks off), uniform between two records.
    """
    edges = np.concatenate([[BOUNDS[0]], values, [BOUNDS[1]]])
    ranks = np.abs(np.arange(edges.size - 1) - values.size / 2)
    weights = np.diff(edges) * np.exp(ranks.min() - ranks)
    reached = np.concatenate([[0.0], np.cumsum(weights / weights.sum())])
    middle = values[(values.size - 1) // 2]
    low, high = 0.0, float(BOUNDS[1])
    for _ in range(60):
        t = (low + high) / 2
        ends = np.interp([middle - t, middle + t], edges, reached)
        low, high = (t, high) if ends[1] - ends[0] < share else (low, t)
    return high


def errors() -> dict[str, list[float]]:
    """The error that half of all runs stay within, for each size of data, at epsilon = 1."""
    pure, light = SmoothMedian(epsilon=1, bounds=BOUNDS), SmoothMedian(epsilon=1, delta=DELTA, bounds=BOUNDS)
    found = {
        "exponential": [exponential_error(incomes(n)) for n in SIZES],
        "pure": [pure.error(incomes(n), 0.5) for n in SIZES],
        "light": [light.error(incomes(n), 0.5) for n in SIZES],
    }
    for proposed in PROPOSALS:
        mechanism = ProposedMedian(proposed=proposed, epsilon=1, delta=DELTA, bounds=BOUNDS)
        answers = [mechanism.distance(incomes(n)) >= mechanism.needed_distance(0.5) for n in SIZES]
        found[f"proposed {proposed}"] = [mechanism.error(0.5) if yes else math.nan for yes in answers]
    return found


def draw_errors(axes: Any, found: dict[str, list[float]]) -> None:
    axes.axhline(math.log(2) * BOUNDS[1], color=GREY, lw=2)
    axes.text(SIZES[-1], math.log(2) * BOUNDS[1] * 1.25, "Laplace for the global sensitivity", color=GREY, ha="right")
    lines = (
        ("light", RED, "-", "smooth, Laplace noise, delta = 1e-6"),
        ("pure", BLUE, "-", "smooth, Cauchy noise, pure"),
        ("exponential", GREEN, "-", "exponential mechanism, pure"),
    )
    for name, colour, style, label in lines:
        axes.loglog(SIZES, found[name], color=colour, ls=style, lw=2, marker="o", ms=4, label=label)
    for proposed in PROPOSALS:
        line = found[f"proposed {proposed}"]
        first = next(i for i, error in enumerate(line) if not math.isnan(error))
        axes.loglog(SIZES, line, color="black", ls=(0, (1, 1)), lw=2)
        axes.plot(SIZES[first], line[first], marker="|", ms=12, mew=2, color="black")
        place = SIZES[first] * 0.9, line[first] * 1.25
        axes.text(*place, f"gap {proposed:,}", va="bottom")
    axes.loglog(
        [], [], color="black", ls=(0, (1, 1)), lw=2, label="propose-test-release, delta = 1e-6, refused left of |"
    )
    axes.set(xlabel="people", ylabel="error of half of all runs, dollars", title="Median income, epsilon = 1")
    axes.legend(frameon=False, loc="lower left", fontsize=9)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_major_formatter("{x:,.0f}")


def draw_naive(axes: Any, dollars: np.ndarray[Any, np.dtype[np.float64]]) -> None:
    """Laplace noise of the scale (local sensitivity) / epsilon: 30,000 with the gap, none without."""
    density = np.exp(-np.abs(dollars - 30_000) / 30_000) / 60_000 * 1000
    axes.fill_between(dollars, density, color=PALE)
    axes.plot(dollars, density, color=BLUE, lw=2)
    axes.axvline(30_000, color=RED, lw=2)
    axes.text(33_000, 0.0205, "one person more:\nexactly 30,000, always", color=RED, va="top")
    axes.text(92_000, 0.0062, "100 people: any income", color=BLUE)
    axes.set(title="Noise for the local sensitivity leaks", ylim=(0, 0.022))


def draw_smooth(axes: Any, dollars: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    """Cauchy noise of the scale 2 S / epsilon for both neighbours. Returns the largest ratio of the two densities."""
    mechanism = SmoothMedian(epsilon=1, bounds=BOUNDS)
    curves = []
    for values, colour in ((GAP, BLUE), (CLOSED, RED)):
        scale = 2 * float(mechanism.smooth_bound(values))
        curves.append(scale / math.pi / ((dollars - 30_000) ** 2 + scale**2) * 1000)
        axes.plot(dollars, curves[-1], color=colour, lw=2)
    axes.fill_between(dollars, curves[0], curves[1], color=PALE)
    axes.text(70_000, 0.0063, "one person more", color=RED)
    axes.text(12_000, 0.0036, "100 people", color=BLUE)
    axes.set(title="Noise for the smooth sensitivity: within a factor e", ylim=(0, 0.0105), xlabel="answer, dollars")
    axes.set_xticks(range(0, 160_001, 40_000))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    return float(np.max([curves[0] / curves[1], curves[1] / curves[0]]))


def main() -> Path:
    figure = plt.figure(figsize=(12, 6), layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=(1.25, 1))
    left, top = figure.add_subplot(grid[:, 0]), figure.add_subplot(grid[0, 1])
    bottom = figure.add_subplot(grid[1, 1], sharex=top)
    found = errors()
    draw_errors(left, found)
    dollars = np.linspace(0, 160_000, 801)
    draw_naive(top, dollars)
    ratio = draw_smooth(bottom, dollars)
    top.tick_params(labelbottom=False)
    for axes in (left, top, bottom):
        axes.spines[["top", "right"]].set_visible(False)
    for axes in (top, bottom):
        axes.set_ylabel("chance per 1,000 dollars")
        axes.yaxis.set_major_formatter(lambda share, _: f"{share:.1%}")
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=150)
    plt.close(figure)
    at = SIZES.index(1000)
    best, pure, light = (found[name][at] for name in ("exponential", "pure", "light"))
    print(
        f"Median of 1,000 incomes at epsilon = 1, half of all runs: exponential mechanism within {best:,.0f} dollars, "
        f"smooth sensitivity {pure:,.0f} (pure) or {light:,.0f} (delta = 1e-6). The smooth laws of two neighbours "
        f"differ by a factor {ratio:.2f} at most, the naive ones by any factor."
    )
    return PICTURE


if __name__ == "__main__":
    main()
