"""Choosing one of many: how often each candidate is chosen, by how far it is from the best."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt

import lapwing as lw

PICTURE = Path(__file__).resolve().parent.parent / "pictures" / "choice.png"
SCORES = [100, 99, 98, 97, 96, 94, 92, 90]


def main() -> Path:
    """Saves the picture and prints how often the best is chosen."""
    made = {
        "permute-and-flip": (lw.mechanisms.PermuteAndFlip(epsilon=1), "#2c6e8f"),
        "noisy max": (lw.NoisyMax(epsilon=1), "#c8912d"),
        "exponential mechanism": (lw.Exponential(epsilon=1), "#b2452c"),
    }
    figure, axes = plt.subplots(figsize=(7.5, 4), dpi=120)
    best = []
    for place, (name, (mechanism, color)) in enumerate(made.items()):
        chances = [float(chance) for chance in mechanism.probabilities(SCORES)]
        at = [i + (place - 1) * 0.27 for i in range(len(SCORES))]
        axes.bar(at, chances, width=0.25, color=color, label=name)
        best.append(f"{name} {chances[0]:.2f}")
    axes.set_xticks(range(len(SCORES)), [str(score) for score in SCORES])
    axes.set_xlabel("score of the candidate")
    axes.set_ylabel("probability of being chosen, epsilon = 1")
    axes.legend(frameon=False, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(PICTURE)
    plt.close(figure)
    print("The best is chosen: " + ", ".join(best))
    return PICTURE


if __name__ == "__main__":
    main()
