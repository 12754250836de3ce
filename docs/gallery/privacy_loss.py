"""What one output reveals: output laws on two neighbours, their privacy loss, and many releases together.

Run: python docs/gallery/privacy_loss.py
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import matplotlib as mpl

mpl.use("agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from lapwing.mechanisms import Gaussian, Laplace, RandomizedResponse
from lapwing.privacy import Composition, PrivacyLoss, Pure, compose_fixed

BLUE, RED, GREEN, PALE = "#1b6ca8", "#c8553d", "#5b8c5a", "#d9e3ea"
PICTURE = Path(__file__).resolve().parent.parent / "pictures" / "privacy_loss.png"

SHIFT = 4  # a person with four rows
EPSILON, DELTA = Fraction(1), Fraction(1, 10**6)
SMALL = Fraction(1, 10)
TIMES = [1, 2, 5, 10, 14, 20, 30, 50, 70, 100, 200, 500, 1000]


def main() -> Path:
    response, laplace = RandomizedResponse(epsilon=EPSILON), Laplace(epsilon=EPSILON, sensitivity=SHIFT)
    gaussian = Gaussian(rho=Fraction(1, 8), sensitivity=SHIFT)
    rows = response.law()
    losses = [
        PrivacyLoss(rows[1], rows[0]),
        PrivacyLoss.laplace(scale=laplace.scale, shift=SHIFT),
        PrivacyLoss.gaussian(variance=gaussian.variance, shift=SHIFT),
    ]
    plt.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(4, 2, figsize=(11, 13.5), constrained_layout=True)
    _answers(axes[0, 0], response)
    _noise(axes[1, 0], "Laplace noise, epsilon = 1", laplace, range(30, 76))
    _noise(axes[2, 0], "Gaussian noise, rho = 1/8", gaussian, range(25, 81))
    for place, loss in zip(axes[:3, 1], losses, strict=True):
        _loss(place, loss)
    together = {k: compose_fixed([PrivacyLoss.laplace(scale=100, shift=10)] * k) for k in TIMES}
    _composed(axes[3, 0], together)
    exactly = _prices(axes[3, 1], together)
    figure.savefig(PICTURE, dpi=130)
    print(
        f"100 Laplace answers at epsilon 0.1, fixed in advance, cost {exactly:.2f} at delta 1e-6 and not 10; "
        f"a single Gaussian answer (rho = 1/8) loses more than 1 with probability {float(losses[2].tail(1)):.3f}."
    )
    return PICTURE


def _answers(axes: Axes, response: RandomizedResponse) -> None:
    yes, no = response.probabilities()[1], response.probabilities()[0]
    axes.bar([-0.2, 0.8], [no[0], no[1]], 0.38, color=RED, label='the truth is "no"')
    axes.bar([0.2, 1.2], [yes[0], yes[1]], 0.38, color=BLUE, label='the truth is "yes"')
    axes.set(title="Randomized response, epsilon = 1", ylabel="probability", ylim=(0, 1))
    axes.set_xticks([0, 1], ['the answer is "no"', '"yes"'])
    axes.legend(frameon=False, loc="upper center", ncols=2)


def _noise(axes: Axes, title: str, mechanism: Laplace | Gaussian, outputs: range) -> None:
    for centre, colour, text in ((50 + SHIFT, RED, "with four more rows: 54"), (50, BLUE, "the count is 50")):
        axes.bar(outputs, [mechanism.pmf(y - centre) for y in outputs], 1.0, color=colour, alpha=0.55, label=text)
    axes.set(title=title, xlabel="released count", ylabel="probability", ylim=(0, 1.35 * mechanism.pmf(0)))
    axes.legend(frameon=False, loc="upper center", ncols=2)


def _loss(axes: Axes, loss: PrivacyLoss) -> None:
    shown = [(value, chance) for value, chance in loss.points if abs(value) < 3]
    close = min(b[0] - a[0] for a, b in pairwise(shown))
    above, delta = float(loss.tail(EPSILON)), float(loss.delta(EPSILON))
    for colour, sign in ((BLUE, -1), (RED, 1)):
        some = [(value, chance) for value, chance in shown if sign * (value - float(EPSILON) - 1e-9) > 0]
        if some:
            axes.bar(*zip(*some, strict=True), 0.8 * min(close, 0.1), color=colour)
    if above:
        text = f"above 1 with probability {above:.3f};\nits delta at epsilon 1 is {delta:.3f}"
        axes.text(1.08, 0.86, text, color=RED, transform=axes.get_xaxis_transform(), va="top")
    axes.axvline(float(EPSILON), color=RED, linewidth=1, linestyle="--")
    axes.text(1.08, 0.98, "epsilon = 1", color=RED, transform=axes.get_xaxis_transform(), va="top")
    axes.set(
        title="its privacy loss",
        xlabel="ln P[y] / Q[y]",
        ylabel="probability under P",
        xlim=(-2.2, 3.6),
        ylim=(0, 1.2 * max(c for _, c in shown)),
    )


def _composed(axes: Axes, together: dict[int, Composition]) -> None:
    for k, colour in ((100, GREEN), (200, BLUE), (500, RED)):
        epsilon = float(together[k].epsilon(DELTA))
        losses, chances = zip(*(point for point in together[k].points if point[0] < math.inf), strict=True)
        label = f"{k} answers: epsilon {epsilon:.2f}, not {k // 10}"
        heights, edges = np.histogram(losses, np.arange(-7.1, 15, 0.2), weights=chances)
        axes.stairs(heights / 0.2, edges, color=colour, linewidth=1.5, label=label)
        axes.axvline(epsilon, 0, 0.66, color=colour, linewidth=1, linestyle="--")
    axes.set(title="Many Laplace answers at epsilon = 0.1", xlabel="privacy loss together", ylabel="density under P")
    axes.set(xlim=(-6, 14), ylim=(0, 0.68))
    axes.legend(frameon=False, loc="upper right")


def _prices(axes: Axes, together: dict[int, Composition]) -> float:
    exactly = [float(together[k].epsilon(DELTA)) for k in TIMES]
    worst = [float(compose_fixed([PrivacyLoss.worst(epsilon=SMALL)] * k).epsilon(DELTA)) for k in TIMES]
    zcdp = [float((Pure(SMALL) * k).to_approximate(DELTA).epsilon) for k in TIMES]
    for values, colour, style, label in (
        ([float(SMALL * k) for k in TIMES], "0.45", ":", "sum of epsilons: choose freely"),
        (zcdp, GREEN, "--", "sum of rhos: choose freely"),
        (worst, RED, "-", "worst mechanism, fixed list"),
        (exactly, BLUE, "-", "Laplace, fixed list"),
    ):
        shares = [value / (k * SMALL) for value, k in zip(values, TIMES, strict=True)]
        axes.plot(TIMES, shares, color=colour, linestyle=style, label=label)
    axes.set(
        title="epsilon of k answers at delta = 1e-6, as a share of the sum", xlabel="k", xscale="log", ylim=(0, 1.1)
    )
    axes.grid(color=PALE)
    axes.legend(frameon=False, loc="lower left")
    return exactly[TIMES.index(100)]


if __name__ == "__main__":
    main()
