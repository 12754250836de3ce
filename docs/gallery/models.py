"""Local, shuffled and central at the same epsilon: the error of a share by the number of people."""

from __future__ import annotations

from math import sqrt
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt

import lapwing as lw

PICTURE = Path(__file__).resolve().parent.parent / "pictures" / "models.png"
EPSILON, DELTA = 1, 1e-6
PEOPLE = tuple(round(10 ** (power / 4)) for power in range(8, 25))


def local_error(people: int, epsilon: float = EPSILON) -> float:
    """The half-width at 95 % of a share near 0 from yes-or-no reports."""
    return 1.96 * sqrt(lw.collect.DirectEncoding([False, True], epsilon=epsilon).variance() / people)


def shuffled_error(people: int) -> float:
    """The same if a shuffler allows the largest epsilon for a report whose crowd is worth EPSILON at DELTA."""
    low, high = 0.001, 16.0
    while high - low > 0.001:
        middle = (low + high) / 2
        fits = lw.collect.central_epsilon(middle, people, delta=DELTA) <= EPSILON
        low, high = (middle, high) if fits else (low, middle)
    return local_error(people, max(low, EPSILON))


def central_error(people: int) -> float:
    """The same for a curator who counts and adds noise once."""
    return lw.Laplace(epsilon=EPSILON).error(0.95) / people


def main() -> Path:
    """Saves the picture and prints its last row."""
    figure, axes = plt.subplots(figsize=(7.5, 4.5), dpi=120)
    rows = {
        "local: no one is trusted": [local_error(n) for n in PEOPLE],
        "shuffled: a shuffler is trusted": [shuffled_error(n) for n in PEOPLE],
        "central: a curator is trusted": [central_error(n) for n in PEOPLE],
    }
    for (name, errors), color in zip(rows.items(), ("#b2452c", "#c8912d", "#2c6e8f"), strict=True):
        axes.loglog(PEOPLE, errors, color=color, linewidth=2, label=name)
    axes.set_xlabel("people")
    axes.set_ylabel("half-width of a 95% interval for a share")
    axes.set_title(f"The same question at epsilon = {EPSILON} in three models", loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, fontsize=9, loc="lower left")
    figure.tight_layout()
    figure.savefig(PICTURE)
    plt.close(figure)
    last = ", ".join(f"{name.split(':')[0]} {errors[-1]:.2g}" for name, errors in rows.items())
    print(f"{PEOPLE[-1]:,} people: {last}")
    return PICTURE


if __name__ == "__main__":
    main()
