"""A private median: where it falls, by epsilon, for ages of 5,638 real people."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

import lapwing as lw
from lapwing.data import health

PICTURE = Path(__file__).resolve().parent.parent / "pictures" / "quantiles.png"
RUNS = 400


def main() -> Path:
    """Saves the picture and prints the spread at the smallest epsilon."""
    table = health()
    rows = zip(table.column("year").to_pylist(), table.column("age").to_pylist(), strict=True)
    ages = [age for year, age in rows if year == 1][:1000]
    figure, axes = plt.subplots(figsize=(7.5, 4), dpi=120)
    spread = {}
    for epsilon, color in ((0.05, "#b2452c"), (0.2, "#c8912d"), (1, "#2c6e8f")):
        median = lw.mechanisms.Quantile(epsilon=epsilon, bounds=(0, 120), step=1)
        drawn = np.array([median(ages) for _ in range(RUNS)])
        values, times = np.unique(drawn, return_counts=True)
        axes.plot(values, times / RUNS, "o-", color=color, markersize=3, label=f"epsilon = {epsilon}")
        spread[epsilon] = drawn.std()
    axes.axvline(float(np.median(ages)), color="#888888", linewidth=0.9, linestyle="--", label="true median")
    axes.set_xlabel("released median age of 1,000 people")
    axes.set_ylabel(f"share of {RUNS} releases")
    axes.legend(frameon=False, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(PICTURE)
    plt.close(figure)
    print(f"At epsilon = 0.05 the released median varies by {spread[0.05]:.1f} years")
    return PICTURE


if __name__ == "__main__":
    main()
