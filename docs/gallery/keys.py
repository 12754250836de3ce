"""How many units a key needs before it is shown: four rules, for units that hold 1, 4 or 16 keys."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from lapwing.mechanisms import GaussianThreshold, LaplaceThreshold, TruncatedGeometric, WeightedGaussian

PICTURE = Path(__file__).resolve().parent.parent / "pictures" / "keys.png"
EPSILON, DELTA = 1, 1e-5
BLUE, RED, GREEN, PALE = "#1b6ca8", "#c8553d", "#5b8c5a", "#d9e3ea"
REACH = {1: 36, 4: 90, 16: 330}


def panel(axes: Axes, kappa: int) -> dict[str, int]:
    """Draws the probability of being shown for one number of keys per unit; returns the units for an even chance."""
    units = np.arange(REACH[kappa] + 1)
    geometric = TruncatedGeometric(epsilon=EPSILON, delta=DELTA, keys_per_unit=kappa)
    laplace = LaplaceThreshold(epsilon=EPSILON, delta=DELTA, keys_per_unit=kappa)
    gauss = GaussianThreshold(epsilon=EPSILON, delta=DELTA, keys_per_unit=kappa)
    weighted = WeightedGaussian(epsilon=EPSILON, delta=DELTA, keys_per_unit=kappa)

    def weighted_chances(keys: int) -> list[float]:
        return [weighted.probability(int(n) * weighted.weight(keys)) for n in units]

    few = weighted_chances(1)
    axes.fill_between(units, weighted_chances(kappa), few, color=PALE, label="WeightedGaussian, units with more keys")
    axes.plot(units, few, color=GREEN, lw=1.8, ls=(0, (4, 2)), label="WeightedGaussian, units with one key")
    axes.plot(units, [gauss.probability(int(n)) for n in units], color=GREEN, lw=2, label="GaussianThreshold")
    axes.plot(units, [laplace.probability(int(n)) for n in units], color=RED, lw=2, label="LaplaceThreshold")
    shown = [float(geometric.probability(int(n))) for n in units]
    axes.plot(units, shown, color=BLUE, lw=2, label="TruncatedGeometric")
    axes.axhline(0.5, color="#8a949c", lw=0.8, ls=":")
    axes.set_title(f"a unit holds up to {kappa} key{'s' * (kappa > 1)}", fontsize=11)
    axes.set_xlim(0, REACH[kappa])
    axes.set_xlabel("units that hold the key")
    axes.spines[["top", "right"]].set_visible(False)
    return {"geometric": geometric.half(), "one": weighted.half(), "all": weighted.half(keys=kappa)}


def main() -> Path:
    """Saves the picture and prints what it shows."""
    figure, row = plt.subplots(1, 3, figsize=(11.5, 4.3), sharey=True)
    halves = {kappa: panel(axes, kappa) for axes, kappa in zip(row, REACH, strict=True)}
    row[0].set_ylabel("probability that the key is shown")
    row[0].yaxis.set_major_formatter(PercentFormatter(1.0))
    row[0].set_ylim(0, 1.02)
    handles, labels = row[0].get_legend_handles_labels()
    order = [4, 3, 2, 1, 0]
    figure.legend(
        [handles[i] for i in order],
        [labels[i] for i in order],
        loc="lower center",
        ncols=3,
        frameon=False,
        fontsize=9.5,
    )
    figure.suptitle("How many units a key needs before it is shown (epsilon = 1, delta = 1e-5)", fontsize=13)
    figure.tight_layout(rect=(0, 0.13, 1, 1))
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=150)
    plt.close(figure)
    one, many = halves[1], halves[16]
    print(
        f"One key a unit: TruncatedGeometric shows a key of {one['geometric']} units every second time, the optimum. "
        f"Sixteen keys a unit: it needs {many['geometric']}, WeightedGaussian {many['all']} at worst "
        f"and {many['one']} if the units hold one key."
    )
    return PICTURE


if __name__ == "__main__":
    main()
