"""Laplace and Gaussian noise on a count: the law on two neighbours, and the privacy loss of each outcome."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

import lapwing as lw

PICTURE = Path(__file__).resolve().parent.parent / "pictures" / "additive.png"
EPSILON, DELTA, COUNT = 1, 1e-6, 50


def main() -> Path:
    """Saves the picture and prints both errors."""
    outcomes = np.arange(COUNT - 16, COUNT + 18)
    made = {
        "Laplace, epsilon = 1": lw.Laplace(epsilon=EPSILON),
        "Gaussian, epsilon = 1, delta = 1e-6": lw.Gaussian(epsilon=EPSILON, delta=DELTA),
    }
    figure, panels = plt.subplots(2, 2, figsize=(9, 5.2), dpi=120, sharex=True, height_ratios=(2, 1))
    for (above, below), (name, mechanism) in zip(panels.T, made.items(), strict=True):
        here, there = (np.array([float(mechanism.pmf(int(y - x))) for y in outcomes]) for x in (COUNT, COUNT + 1))
        above.step(outcomes, here, where="mid", color="#2c6e8f", label=f"count {COUNT}")
        above.step(outcomes, there, where="mid", color="#b2452c", label=f"count {COUNT + 1}")
        above.set_title(f"{name}: within {mechanism.error(0.95)} at 95%", loc="left", fontsize=10)
        below.step(outcomes, np.log(here / there), where="mid", color="#555555")
        below.axhline(EPSILON, color="#bbbbbb", linewidth=0.8)
        below.axhline(-EPSILON, color="#bbbbbb", linewidth=0.8)
        below.set_xlabel("released number")
    panels[0][0].legend(frameon=False, fontsize=8, loc="upper left")
    panels[0][0].set_ylabel("probability")
    panels[1][0].set_ylabel("privacy loss")
    for axes in panels.flat:
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(PICTURE)
    plt.close(figure)
    print(", ".join(f"{name}: within {mechanism.error(0.95)}" for name, mechanism in made.items()))
    return PICTURE


if __name__ == "__main__":
    main()
