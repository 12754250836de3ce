"""How far an answer can move the belief that one person is in the data: docs/pictures/odds.png."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("agg")

import numpy as np
from matplotlib import pyplot as plt

from lapwing.privacy import posterior

PICTURE = Path(__file__).parents[1] / "pictures" / "odds.png"
NOT_SHOWN = (
    "What her record says, if she is in: twice the epsilon.\nWhat answers teach about people like her: not bounded."
)
COLOURS = {3: ("#c8553d", "#f8ece9"), 1: ("#1b6ca8", "#d9e3ea"), 0.1: ("#5b8c5a", "#c3d6c2")}


def main() -> Path:
    priors = np.linspace(0.0, 1.0, 201)
    figure, axes = plt.subplots(figsize=(6.8, 8.0), layout="constrained")
    for epsilon, (line, fill) in COLOURS.items():
        beliefs = [posterior(prior, epsilon) for prior in priors.tolist()]
        low, high = [float(belief.low) for belief in beliefs], [float(belief.high) for belief in beliefs]
        axes.fill_between(priors, low, high, color=fill, lw=0)
        axes.plot(priors, high, color=line, lw=2, label=f"epsilon = {epsilon:g}: odds times {np.exp(epsilon):.3g}")
        axes.plot(priors, low, color=line, lw=2)
    axes.plot(priors, priors, color="black", lw=1, ls=(0, (4, 3)), label="nothing learned")
    even = posterior(0.5, 1)
    low_end, high_end = float(even.low), float(even.high)
    axes.plot([0.5, 0.5], [low_end, high_end], color="#1b6ca8", lw=1, marker="o", ms=5)
    axes.text(0.48, high_end + 0.01, f"at most {high_end:.0%}", ha="right", va="bottom", color="#1b6ca8")
    axes.text(0.52, low_end - 0.01, f"at least {low_end:.0%}", ha="left", va="top", color="#1b6ca8")
    axes.set(
        xlim=(0, 1),
        ylim=(0, 1),
        aspect="equal",
        xlabel="belief that she is in the data, before",
        ylabel="the same after the answer",
    )
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda share, _: f"{share:.0%}")
    axes.set_title("How far a private answer can move the belief\nthat one person is in the data", fontsize=12)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    axes.text(0.5, -0.1, NOT_SHOWN, transform=axes.transAxes, ha="center", va="top", fontsize=9, color="#444444")
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=150)
    plt.close(figure)
    print(f"She is in the data, at epsilon = 1: {even}")
    return PICTURE


if __name__ == "__main__":
    main()
