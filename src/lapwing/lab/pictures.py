"""The lab's pictures, drawn by matplotlib in the house's colours."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lapwing.answers.formats import load, picture_path
from lapwing.answers.picture import BLUE, GREEN, GREY, INK, RED, STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lapwing.lab.attacks.attempt import Attacked, View
    from lapwing.lab.report import Audit, Sketch

GOLD = "#c9a227"
SYSTEMS = {"unprotected": GREY, "naive noise": RED, "Lapwing": BLUE}
_STYLE = {**STYLE, "font.size": 10, "axes.titlesize": 11, "grid.linewidth": 0.8, "ytick.color": GREY}


def canvas(width: float, height: float, columns: int = 1, **layout: Any) -> tuple[Figure, list[Axes]]:
    """An empty figure in the house's style, whatever the caller's settings are."""
    load("matplotlib", what="Pictures", install="'lapwing[plot]'")
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context():
        mpl.rcdefaults()
        settings: Any = mpl.rcParams
        settings.update(_STYLE)
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(1, columns, squeeze=False, **layout)
    return figure, list(axes[0])


def saved(figure: Figure, path: str | Path | None) -> Figure:
    """The figure, written to a PNG or SVG file if there is a path."""
    if path is not None:
        figure.savefig(picture_path(Path(path)), dpi=150)
    return figure


def draw_audit(audit: Audit) -> Figure:
    figure, (laws, bounds) = canvas(9.6, 3.9, 2, width_ratios=(3, 1.25))
    if audit.sketch is not None:
        _laws(laws, audit.sketch)
    else:
        laws.text(0.5, 0.5, f"Event: {audit.event}", ha="center", va="center", wrap=True, transform=laws.transAxes)
        laws.set_axis_off()
    verdict = "rejected" if audit.rejected else "no violation found"
    laws.set_title(f"{audit.claim.text}: {verdict} at N = {audit.runs:,}", fontweight="bold", loc="left")
    _bounds(bounds, audit)
    return figure


def _laws(axes: Axes, sketch: Sketch) -> None:
    keep = np.flatnonzero(sketch.left + sketch.right > 0)
    xs = np.arange(len(keep))
    for x, cell in zip(xs, keep, strict=True):
        if sketch.cells[cell]:
            axes.axvspan(x - 0.5, x + 0.5, color="#f4e3c1", lw=0, zorder=0)
    axes.bar(xs - 0.2, sketch.left[keep], 0.4, color=BLUE, label="left neighbour")
    axes.bar(xs + 0.2, sketch.right[keep], 0.4, color=RED, label="right neighbour")
    names = [*(f"{edge:.4g}" for edge in sketch.edges), "more", "NaN"]
    every = max(1, math.ceil(len(keep) / 12))
    axes.set_xticks(xs[::every], [names[cell] for cell in keep[::every]])
    axes.set(xlabel=f"{sketch.feature} (up to); the event is shaded", ylabel="share of test runs")
    axes.legend(frameon=False)


def _bounds(axes: Axes, audit: Audit) -> None:
    best = audit.best
    if best is None:
        wealth, need = math.log10(max(audit.wealth or 1, 1e-3)), -math.log10(audit.alpha)
        axes.bar([0], [wealth], color=RED if audit.rejected else BLUE, width=0.5)
        axes.axhline(need, color=INK, lw=1.2, ls="--")
        axes.text(0.5, need, f" 1 / alpha = {1 / audit.alpha:,.0f}", va="bottom", ha="right", fontsize=9)
        axes.set_xticks([0], ["log10 of the bet"])
        return
    shown = max(best.bound, 0.0)
    axes.bar([0], [shown], color=RED if audit.rejected else BLUE, width=0.5)
    axes.text(0, shown, f"{shown:.3g}", ha="center", va="bottom", fontweight="bold")
    axes.axhline(best.epsilon, color=INK, lw=1.2, ls="--")
    axes.text(0.72, best.epsilon, f"claimed {best.epsilon:.3g}", ha="right", va="bottom", fontsize=9)
    axes.set(xlim=(-0.75, 0.75), ylim=(0, 1.25 * max(shown, best.epsilon, 0.1)))
    axes.set_xticks([0], ["epsilon is at least"])
    axes.set_title(f"alpha = {audit.alpha:g}", color=GREY, fontsize=9.5)


def _bins(values: Any) -> list[float]:
    """Edges of bars: one for each whole number, or 25 of one width; few values lie outside."""
    low, high = (float(end) for end in np.quantile(values, [0.005, 0.995]))
    if np.array_equal(values, np.rint(values)) and high - low < 60:
        return [float(k) - 0.5 for k in range(round(low), round(high) + 2)]
    return [float(edge) for edge in np.linspace(low, max(high, low + 1e-9), 26)]


def draw_attack(attacked: Attacked) -> Figure:
    figure, (seen, success) = canvas(10.4, 3.8, 2, width_ratios=(1.15, 1))
    _panel(seen, attacked.view)
    names = [attempt.system for attempt in attacked.attempts]
    places = np.arange(len(names))[::-1]
    for place, attempt in zip(places, attacked.attempts, strict=True):
        rate, colour = attempt.success, SYSTEMS[attempt.system]
        success.barh(place, rate.value, 0.5, color=colour)
        ends = [[rate.value - rate.low], [rate.high - rate.value]]
        success.errorbar(rate.value, place, xerr=ends, color=INK, lw=1.2, capsize=3)
        success.text(0.015, place, f"{rate.value:.0%}", va="center", color="white", fontweight="bold")
        if attempt.cap is not None:
            success.plot([attempt.cap] * 2, [place - 0.36, place + 0.36], color=INK, lw=2.5)
            success.text(attempt.cap, place + 0.39, f"cap {attempt.cap:.0%}", ha="center", va="bottom", fontsize=8.5)
    success.axvline(0.5, color=INK, lw=1, ls=":")
    plain = {"facecolor": "white", "edgecolor": "none", "pad": 1}
    success.text(0.5, -0.53, "blind guess", ha="center", va="center", fontsize=8.5, color=GREY, bbox=plain)
    success.set_yticks(places, names, color=INK)
    success.set(xlim=(0, 1.02), ylim=(-0.7, len(names) - 0.3))
    success.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25%", "50%", "75%", "100%"])
    success.set_title("How often the secret was guessed", loc="left")
    figure.suptitle(attacked.title, x=0.01, ha="left", fontweight="bold", fontsize=13)
    return figure


def _panel(axes: Axes, view: View) -> None:
    others = iter((GREEN, GOLD, BLUE, RED) if set(view.lines) & set(SYSTEMS) else (BLUE, RED, GREEN, GOLD))
    for i, (name, (x, y)) in enumerate(view.lines.items()):
        colour = SYSTEMS[name] if name in SYSTEMS else next(others)
        if view.kind == "distributions":
            bins = _bins(np.concatenate([values for values, _ in view.lines.values()]))
            weights = np.full(len(x), 1 / max(len(x), 1))
            axes.hist(np.clip(x, bins[0], bins[-1]), bins, weights=weights, color=colour, alpha=0.6, label=name)
        elif view.kind == "points":
            axes.plot(x, y, "o", ms=4, color=colour, label=name, alpha=0.8)
        else:
            dash = "--" if i % 2 and len(view.lines) > 3 else "-"
            axes.plot(x, y, dash, color=colour, lw=1.8, label=name, marker="o" if len(x) <= 10 else None, ms=4)
    if view.kind == "log lines":
        axes.set_xscale("log")
    axes.set_title(view.title, loc="left")
    axes.set(xlabel=view.across, ylabel=view.up)
    axes.grid(axis="y")
    axes.legend(frameon=False, fontsize=9)
