"""Which local protocol when: the error of a rare share by the number of values, at two epsilons."""

from __future__ import annotations

from math import sqrt
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt

import lapwing as lw

PICTURE = Path(__file__).resolve().parent.parent / "pictures" / "protocols.png"
PEOPLE = 10_000
SIZES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256, 512, 1024)
LOOKS = {
    lw.collect.DirectEncoding: ("direct encoding, 1 or 2 bytes", "#b2452c", "-"),
    lw.collect.UnaryEncoding: ("unary encoding, k / 8 bytes", "#c8912d", "-"),
    lw.collect.LocalHashing: ("local hashing, 9 bytes", "#6a7f3c", "--"),
    lw.collect.SubsetSelection: ("subset selection, k / 8 bytes", "#2c6e8f", "-"),
}


def error(kind: type[lw.collect.FrequencyProtocol], values: int, epsilon: float) -> float:
    """The standard error of the share of a rare value."""
    return sqrt(kind(range(values), epsilon=epsilon).variance() / PEOPLE)


def main() -> Path:
    """Saves the picture and prints what `choose` picks at its ends."""
    figure, panels = plt.subplots(1, 2, figsize=(9.5, 4.2), dpi=120, sharex=True)
    for axes, epsilon in zip(panels, (1, 3), strict=True):
        for kind, (name, color, style) in LOOKS.items():
            axes.loglog(SIZES, [error(kind, k, epsilon) for k in SIZES], style, color=color, label=name, linewidth=1.8)
        axes.set_title(f"epsilon = {epsilon}", loc="left", fontsize=10)
        axes.set_xlabel("values to choose from, k")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    panels[0].set_ylabel(f"standard error of a share, {PEOPLE:,} reports")
    panels[0].legend(frameon=False, fontsize=8, loc="upper left")
    figure.tight_layout()
    figure.savefig(PICTURE)
    plt.close(figure)
    picks = [lw.collect.choose(range(k), epsilon=1).kind for k in (SIZES[0], SIZES[-1])]
    print(f"At epsilon = 1: {picks[0]} for {SIZES[0]} values, {picks[1]} for {SIZES[-1]:,}")
    return PICTURE


if __name__ == "__main__":
    main()
