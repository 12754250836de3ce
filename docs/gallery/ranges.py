"""Counts of ranges: noisy cells beside a tree (pure DP) and a square root of the sums (zCDP).

Run it with `python docs/gallery/ranges.py`. Every number is computed from the exact covariance; nothing is simulated.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from lapwing.mechanisms import PrefixSums, Ranges

mpl.use("agg")
import matplotlib.pyplot as plt

BLUE, RED = "#1b6ca8", "#c8553d"
PICTURE = Path(__file__).resolve().parent.parent / "pictures" / "ranges.png"
SIZES = [2**k for k in range(2, 17)]
CELLS = 1024


def main() -> Path:
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4))
    draw_sizes(left)
    draw_lengths(right)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.title.set(fontsize=11, ha="left", position=(0, 1))
        axes.minorticks_off()
    figure.tight_layout(w_pad=3)
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=150)
    plt.close(figure)
    tree, prefix, plain = tree_of(CELLS).range_rmse, prefix_of(CELLS).range_rmse, plain_of(CELLS).range_rmse
    print(
        f"RMSE over all ranges of {CELLS:,} cells at epsilon = 1: noisy cells {plain:.1f}, Ranges {tree:.1f}; "
        f"at rho = 1/2: noisy cells {gaussian_cells(CELLS):.1f}, PrefixSums {prefix:.1f}."
    )
    return PICTURE


def tree_of(size: int) -> Ranges:
    return Ranges(size=size, epsilon=1)


def plain_of(size: int) -> Ranges:
    return Ranges(size=size, epsilon=1, fanout=size + 1)


def prefix_of(size: int) -> PrefixSums:
    return PrefixSums(size=size, rho=0.5)


def gaussian_cells(size: int) -> float:
    """Noisy cells at rho = 1/2 have variance 1 each; a range has (size + 2) / 3 cells on average."""
    return float(np.sqrt((size + 2) / 3))


def draw_sizes(axes: Any) -> None:
    lines = (
        ([plain_of(n).range_rmse for n in SIZES], RED, "--"),
        ([tree_of(n).range_rmse for n in SIZES], RED, "-"),
        ([gaussian_cells(n) for n in SIZES], BLUE, "--"),
        ([prefix_of(n).range_rmse for n in SIZES], BLUE, "-"),
    )
    axes.set(xscale="log", yscale="log")
    for error, colour, style in lines:
        axes.plot(SIZES, error, style, color=colour, lw=2)
    axes.text(2500, 62, "noisy cells, ε = 1", color=RED, ha="right", fontsize=9.5)
    axes.text(7000, 12.5, "Ranges, ε = 1", color=RED, fontsize=9.5)
    axes.text(9500, 34, r"noisy cells, $\rho$ = ½", color=BLUE, fontsize=9.5)
    axes.text(7000, 3.5, r"PrefixSums, $\rho$ = ½", color=BLUE, fontsize=9.5)
    ticks = [4, 16, 64, 256, 1024, 4096, 65536]
    axes.set(
        xlabel="cells of the domain",
        ylabel="RMSE over all ranges",
        title="The error of a range hardly grows with the domain",
    )
    axes.set(xticks=ticks, xticklabels=[f"{tick:,}" for tick in ticks], yticks=[1, 3, 10, 30, 100], ylim=(1, 260))
    axes.set_yticklabels(["1", "3", "10", "30", "100"])


def draw_lengths(axes: Any) -> None:
    lengths = np.unique(np.geomspace(1, CELLS, 40).astype(int))
    axes.set(xscale="log", yscale="log")
    for mechanism, colour, style in (
        (plain_of(CELLS), RED, "--"),
        (tree_of(CELLS), RED, "-"),
        (prefix_of(CELLS), BLUE, "-"),
    ):
        axes.plot(lengths, [average(mechanism, length) for length in lengths], style, color=colour, lw=2)
    axes.plot(lengths, np.sqrt(lengths), "--", color=BLUE, lw=2)
    axes.text(190, 24, "noisy cells, ε = 1", color=RED, ha="right", fontsize=9.5)
    axes.text(1.5, 9.0, "Ranges, ε = 1", color=RED, fontsize=9.5)
    axes.text(2.4, 1.22, r"noisy cells, $\rho$ = ½", color=BLUE, fontsize=9.5)
    axes.text(60, 2.6, r"PrefixSums, $\rho$ = ½", color=BLUE, fontsize=9.5)
    ticks = [1, 4, 16, 64, 256, 1024]
    axes.set(xlabel=f"length of the range, of {CELLS:,} cells", ylabel="standard error", ylim=(1, 60))
    axes.set(xticks=ticks, xticklabels=[f"{tick:,}" for tick in ticks], yticks=[1, 3, 10, 30])
    axes.set_yticklabels(["1", "3", "10", "30"])
    axes.set(title="Long ranges gain; single cells pay for it")


def average(mechanism: Ranges | PrefixSums, length: int) -> float:
    """The root of the mean variance over every fifth range of this length."""
    starts = range(0, CELLS - length + 1, 5)
    return float(np.sqrt(np.mean([mechanism.standard_error(start, start + length) ** 2 for start in starts])))


if __name__ == "__main__":
    main()
