"""Draws a picture with matplotlib: no pyplot, and the settings of the caller neither matter nor change."""

from __future__ import annotations

import textwrap
import warnings
from datetime import date
from fractions import Fraction
from io import BytesIO
from math import ceil
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from lapwing.answers.picture import BLUE, COLOURS, GREY, INK, PALE, STYLE, Marks, Panel, Picture, Shape

_LONGEST = 34  # characters of a label


class Chart(Figure):
    """A figure that shows itself in a notebook."""

    def _repr_png_(self) -> bytes:
        buffer = BytesIO()
        _write(self, buffer, "png", dpi=110)
        return buffer.getvalue()


def save(figure: Figure, path: Path) -> None:
    _write(figure, path, path.suffix.lower()[1:], dpi=170)


def draw(picture: Picture) -> Figure:
    with mpl.rc_context():
        mpl.rcdefaults()
        settings: Any = mpl.rcParams
        settings.update(STYLE)
        columns, width, below = _size(picture)
        title = _wrapped(picture.title, int(10 * width), 4)
        condition = _wrapped(picture.condition, int(15 * width), 2) if picture.condition else []
        subtitle = _wrapped(picture.subtitle, int(15.5 * width), 2)
        small = len(condition) + len(subtitle)
        above = 0.23 * len(title) + 0.19 * small + (0.3 if picture.colours else 0) + 0.22
        caption = [line for note in picture.notes for line in _wrapped(note, int(15.5 * width), 4)]
        under = 0.19 * len(caption) + 0.1 if caption else 0
        height = below + above + under
        rect = (0, under / height, 1, below / height)
        figure = Chart(figsize=(width, height), layout=ConstrainedLayoutEngine(rect=rect, w_pad=0.1, h_pad=0.06))
        _header(figure, picture, title, condition, subtitle)
        _caption(figure, caption)
        _body(figure, picture, columns)
        return figure


def _size(picture: Picture) -> tuple[int, float, float]:
    """Panels side by side, and the width and height of all panels in inches."""
    panels = len(picture.panels)
    if picture.shape is Shape.POINTS:
        return 1, 7.2, 1.15 * panels
    columns = min(panels, 3) if picture.shape is Shape.BARS or picture.one_scale else 1
    rows = ceil(panels / columns)
    if picture.shape is Shape.LINES:
        return columns, 7.6 if columns == 1 else 10.5, rows * (3.2 if columns == 1 else 2.3)
    bars = len(picture.labels) * (1 + 0.6 * (len(picture.panels[0].marks) - 1))
    pitch = float(np.interp(len(picture.labels), [4, 12, 40, 100], [0.44, 0.33, 0.22, 0.17]))  # the more, the narrower
    return columns, {1: 7.6, 2: 9.6, 3: 11.5}[columns], rows * (max(bars, 1) * pitch + 0.75)


def _header(figure: Figure, picture: Picture, title: list[str], condition: list[str], subtitle: list[str]) -> None:
    """Title, which rows count, what the marks mean, and the colours, above the panels."""
    width, height = figure.get_size_inches()
    left, at = 0.12 / width, 1 - 0.12 / height
    for line in title:
        figure.text(left, at, _plain(line), va="top", in_layout=False, fontsize=11, fontweight="bold")
        at -= 0.23 / height
    for line, colour in [*((line, INK) for line in condition), *((line, GREY) for line in subtitle)]:
        figure.text(left, at, _plain(line), va="top", in_layout=False, fontsize=9, color=colour)
        at -= 0.19 / height
    if picture.colours:
        names = [_text(f"{picture.colours}: {marks.name}") for marks in picture.panels[0].marks]
        legend = figure.legend(
            [Patch(color=colour) for colour in COLOURS[: len(names)]], names,
            loc="upper left", bbox_to_anchor=(left, at - 0.05 / height), ncols=len(names), frameon=False,
            borderpad=0, borderaxespad=0, handlelength=1, handleheight=1,
        )  # fmt: skip
        legend.set_in_layout(False)


def _caption(figure: Figure, lines: list[str]) -> None:
    width, height = figure.get_size_inches()
    for row, line in enumerate(reversed(lines)):
        at = (0.12 + 0.19 * row) / height
        figure.text(0.12 / width, at, _plain(line), va="bottom", in_layout=False, fontsize=9, color=GREY)


def _body(figure: Figure, picture: Picture, columns: int) -> None:
    panels = picture.panels
    bars, lines = picture.shape is Shape.BARS, picture.shape is Shape.LINES
    across, down = lines or (bars and picture.one_scale), bars or (lines and picture.one_scale)
    grid = figure.subplots(ceil(len(panels) / columns), columns, squeeze=False, sharex=across, sharey=down)
    draw_panel = {Shape.POINTS: _point, Shape.BARS: _bars, Shape.LINES: _lines}[picture.shape]
    for at, (axes, panel) in enumerate(zip(grid.flat, panels, strict=False)):
        if len(panels) > 1 or picture.shape is not Shape.POINTS:
            axes.set_title(_text(panel.title), pad=8)
        if not any(marks.places for marks in panel.marks):
            _say(axes, "no rows")
            continue
        draw_panel(axes, picture, panel)
        if at + columns >= len(panels):  # nothing below it
            axes.tick_params(labelbottom=True)
            axes.set_xlabel(_text(picture.along) if lines else "")
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()


def _point(axes: Axes, _: Picture, panel: Panel) -> None:
    (marks,) = panel.marks
    value, low, high = (float(side[0]) for side in (marks.values, marks.low, marks.high))
    if np.isnan(value):
        _say(axes, "NULL")
        return
    axes.plot([low, high], [0, 0], color=PALE, lw=9, solid_capstyle="butt", zorder=1)
    axes.plot([low, high], [0, 0], color=BLUE, lw=1.6, marker="|", ms=11, mew=1.6, zorder=2)
    axes.plot([value], [0], color=BLUE, marker="o", ms=8, zorder=3)
    text = number(value, digits(marks))
    axes.annotate(text, (value, 0), (0, 8), textcoords="offset points", ha="center", fontweight="bold")
    reach = (high - low) if high > low else max(abs(value), 1.0) / 10
    axes.set_xlim(float(np.nanmin([value, low])) - reach / 2, float(np.nanmax([value, high])) + reach / 2)
    axes.set(ylim=(-1, 1.6), yticks=[])
    axes.spines["left"].set_visible(False)
    _number_axis(axes.xaxis, 6)


def _say(axes: Axes, text: str) -> None:
    axes.set_axis_off()
    axes.text(0.5, 0.5, text, ha="center", va="center", color=GREY, transform=axes.transAxes)


def _bars(axes: Axes, picture: Picture, panel: Panel) -> None:
    """Horizontal bars from 0, the first one at the top."""
    several, labels = len(panel.marks), picture.labels
    thick = (0.7 if several == 1 else 0.8) / several
    written = len(labels) * several <= 40
    for nth, (marks, colour) in enumerate(zip(panel.marks, COLOURS, strict=False)):
        places = np.array(marks.places, float) + (nth - (several - 1) / 2) * thick
        axes.barh(places, marks.values, height=thick * (1 if several == 1 else 0.9), color=colour)
        _whiskers(axes, marks, places, min(3.0, 9 * thick))
        if written:
            _write_values(axes, marks, places)
    axes.axvline(0, color=INK, lw=0.8)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.set_yticks(range(len(labels)), [_text(text) for text in labels])
    axes.tick_params(axis="y", length=0, labelsize=9.5 if len(labels) <= 40 else 7.5)
    axes.spines["left"].set_visible(False)
    axes.margins(x=0.16 if written else 0.05)
    axes.grid(axis="x")
    if axes.get_subplotspec().is_first_col():  # type: ignore[union-attr]
        over: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}  # above the labels
        axes.annotate(_text(picture.along), (0, 1), (-6, 8), ha="right", color=GREY, **over)
    _number_axis(axes.xaxis, 5)


def _whiskers(axes: Axes, marks: Marks, places: Any, cap: float) -> None:
    bounded = ~np.isnan(marks.low) & ~np.isnan(marks.high)
    reach = np.maximum([marks.values - marks.low, marks.high - marks.values], 0)[:, bounded]
    for colour, extra in (("white", 1.4), (INK, 0.0)):
        axes.errorbar(
            marks.values[bounded], places[bounded], xerr=reach, fmt="none", ecolor=colour,
            elinewidth=1.1 + extra, capthick=1.1 + extra, capsize=cap + extra / 2, alpha=0.75 if extra else 1,
        )  # fmt: skip


def _write_values(axes: Axes, marks: Marks, places: Any) -> None:
    after = digits(marks)
    for place, value, high in zip(places, marks.values, marks.high, strict=True):
        text, end = ("NULL", 0.0) if np.isnan(value) else (number(value, after), float(np.nanmax([value, high, 0.0])))
        axes.annotate(text, (end, place), (4, 0), textcoords="offset points", va="center", color=GREY, fontsize=8)


def _lines(axes: Axes, _: Picture, panel: Panel) -> None:
    for marks, colour in zip(panel.marks, COLOURS, strict=False):
        places = [float(place) if isinstance(place, Fraction) else place for place in marks.places]
        axes.fill_between(places, marks.low, marks.high, color=colour, alpha=0.2, lw=0)
        dots = len(places) <= 80 or bool(np.isnan(marks.values).any())  # a point between two breaks has no line
        axes.plot(places, marks.values, color=colour, lw=1.6, marker="o" if dots else "", ms=2.6)
    axes.grid(axis="y")
    axes.margins(x=0.02)
    low, high = axes.get_ylim()
    if low > 0 and low < high / 2:
        axes.set_ylim(bottom=0)
    elif low < 0 < high:
        axes.axhline(0, color=INK, lw=0.8)
    _number_axis(axes.yaxis, 6)
    if isinstance(next(place for marks in panel.marks for place in marks.places), date):
        locator = AutoDateLocator()  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    else:
        axes.xaxis.set_major_locator(MaxNLocator(9, integer=True, steps=[1, 2, 5, 10]))


def digits(marks: Marks) -> int:
    """How many decimals are worth showing: two digits of the typical error, or three of the numbers without one."""
    values = marks.values[~np.isnan(marks.values)]
    if np.all(values == np.round(values)):
        return 0
    errors = (marks.high - marks.low)[marks.high > marks.low] / 2
    size = float(np.median(errors)) if errors.size else float(np.max(np.abs(values))) / 10
    return int(np.clip(1 - np.floor(np.log10(size)), 0, 6))


def number(value: float, decimals: int) -> str:
    return f"{value:.4g}" if abs(value) >= 1e9 else f"{value:,.{decimals}f}"


def _number_axis(axis: Any, ticks: int) -> None:
    axis.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(lambda value, _: f"{value:.4g}" if abs(value) >= 1e9 else f"{value:,.10g}")


def _wrapped(text: str, width: int, most: int) -> list[str]:
    return textwrap.wrap(text, width, max_lines=most, placeholder=" …") or [""]


def _text(text: str) -> str:
    return _plain(text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…")


def _plain(text: str) -> str:
    """Text that matplotlib does not read as a formula."""
    return text.replace("$", r"\$")


def _write(figure: Figure, target: Any, kind: str, *, dpi: int) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(target, format=kind, dpi=dpi)
