"""How far from the threshold values must lie for all answers of a sparse vector run to be right.

All margins are computed from the tails of the noise; nothing is simulated.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("agg")

import matplotlib.pyplot as plt

from lapwing.mechanisms import AboveThreshold, GeometricSparse

PICTURE = Path(__file__).resolve().parent.parent / "pictures" / "sparse_vector.png"
BLUE, RED, GREEN, GREY = "#1b6ca8", "#c8553d", "#5b8c5a", "#d9e3ea"
EPSILON = 0.02  # noise so wide that margin * epsilon hardly depends on epsilon
QUESTIONS = sorted({round(10 ** (k / 6)) for k in range(2, 31)})  # 2 to 100,000, the last of them above
Line = list[float]


def theorem(m: int) -> float:
    return EPSILON * AboveThreshold(threshold=0, epsilon=EPSILON).textbook_error(queries=m - 1)


def textbook(m: int) -> float:
    return EPSILON * AboveThreshold(threshold=0, epsilon=EPSILON).error(queries=m - 1)


def geometric(m: int, *, monotone: bool = False) -> float:
    return EPSILON * GeometricSparse(threshold=0, epsilon=EPSILON, queries=m - 1, monotone=monotone).error()


def unshifted(m: int) -> float:
    return EPSILON * GeometricSparse(threshold=0, epsilon=EPSILON, queries=m - 1, shift=0).error()


def main() -> Path:
    lines = {
        "theorem": [theorem(m) for m in QUESTIONS],
        "textbook": [textbook(m) for m in QUESTIONS],
        "unshifted": [unshifted(m) for m in QUESTIONS],
        "geometric": [geometric(m) for m in QUESTIONS],
        "counts": [geometric(m, monotone=True) for m in QUESTIONS],
    }
    draw(lines)
    at = QUESTIONS.index(100)
    old, new, counts = (lines[name][at] for name in ("textbook", "geometric", "counts"))
    print(
        f"For 100 questions at 95 % the textbook needs a margin of {old:.1f} / epsilon, geometric noise with its shift "
        f"{new:.1f} ({1 - new / old:.0%} less), and {counts:.1f} for counts ({1 - counts / old:.0%} less)."
    )
    return PICTURE


def draw(lines: dict[str, Line]) -> None:
    figure, axes = plt.subplots(figsize=(8.4, 5.2), dpi=150)
    axes.fill_between(QUESTIONS, lines["geometric"], lines["textbook"], color=GREY, zorder=0)
    axes.plot(QUESTIONS, lines["theorem"], color=RED, linewidth=1.2, linestyle=(0, (2, 2)))
    axes.plot(QUESTIONS, lines["textbook"], color=RED, linewidth=2.2)
    axes.plot(QUESTIONS, lines["unshifted"], color=BLUE, linewidth=1.2, linestyle=(0, (5, 2)))
    axes.plot(QUESTIONS, lines["geometric"], color=BLUE, linewidth=2.2)
    axes.plot(QUESTIONS, lines["counts"], color=GREEN, linewidth=2.2)
    for name, colour, text in (
        ("textbook", RED, "textbook, exact"),
        ("unshifted", BLUE, "geometric, no shift"),
        ("geometric", BLUE, "geometric, with shift"),
        ("counts", GREEN, "geometric, for counts"),
    ):
        bold = "bold" if name in ("textbook", "geometric", "counts") else "normal"
        axes.annotate(
            text,
            (QUESTIONS[-1], lines[name][-1]),
            xytext=(8, 0),
            textcoords="offset points",
            color=colour,
            va="center",
            fontsize=9.5,
            fontweight=bold,
        )
    axes.text(75, 59, "the textbook's bound", color=RED, fontsize=9.5)
    for m in (10, 100, 1000):
        at = QUESTIONS.index(m)
        for name, colour, up in (("textbook", RED, 6), ("geometric", BLUE, -12), ("counts", GREEN, -13)):
            axes.plot([m], [lines[name][at]], "o", color=colour, markersize=4.5)
            axes.annotate(
                f"{lines[name][at]:.1f}",
                (m, lines[name][at]),
                xytext=(0, up),
                textcoords="offset points",
                color=colour,
                ha="center",
                fontsize=9,
            )
    axes.set_xscale("log")
    axes.set_xlim(QUESTIONS[0], QUESTIONS[-1])
    axes.set_ylim(0, 70)
    axes.set_xlabel("questions asked, all but the last below the threshold")
    axes.set_ylabel("margin for all answers to be right at 95%\nin units of sensitivity / epsilon")
    axes.set_title("Sparse vector: how far must values be from the threshold?", loc="left", fontsize=12.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0)
    figure.subplots_adjust(left=0.1, right=0.775, top=0.92, bottom=0.11)
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE)
    plt.close(figure)


if __name__ == "__main__":
    main()
