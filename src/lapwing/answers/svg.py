"""Draws a picture as SVG for a page: no style of its own, only classes, so that it follows the page's colours.

matplotlib draws the same pictures for notebooks and files (chart.py); this needs no package.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from datetime import date
from html import escape
from typing import Any

from lapwing.answers.formats import show
from lapwing.answers.picture import Marks, Panel, Picture, Shape

_WIDTH = 720
_BAR, _GAP, _LABELS = 26, 12, 180
_HEIGHT = 260
_LONGEST = 26
_STYLE = (
    "svg{font:13px system-ui,sans-serif;background:#fff}.label,.end-end{text-anchor:end}.panel{font-weight:600}"
    ".axis,.whisker line{stroke:#1a2530;stroke-width:1.6}.grid{stroke:#d5dde2}.band{opacity:.25}"
    "polyline{stroke-width:2}"
    + "".join(
        f".c{nth}{{fill:{colour}}}polyline.c{nth}{{fill:none;stroke:{colour}}}"
        for nth, colour in enumerate(("#1b6ca8", "#c8553d", "#4f7f4e", "#7d94a8"))
    )
)


def draw_svg(picture: Picture) -> str:
    """All panels, one below the other."""
    bodies: list[str] = []
    top = 0.0
    for panel in picture.panels:
        title = panel.title if len(picture.panels) > 1 else ""
        lines, height = _panel(picture, panel, title)
        bodies.append(f'<g transform="translate(0 {top:.0f})">{"".join(lines)}</g>')
        top += height
    return _svg(bodies, top, f"{picture.title}. {picture.subtitle}.")


def styled(svg: str) -> str:
    """A picture with colours of its own, to be kept as a file."""
    return svg.replace("<title>", f"<style>{_STYLE}</style><title>", 1)


def draw_ghost(count: int, half_width: float, height: float) -> str:
    """Bars of one height with the intervals that an answer would have; they say nothing about the rows."""
    shown, most = min(count, 12), height + half_width
    pattern = '<pattern id="hatch" width="8" height="8" patternTransform="rotate(45)" patternUnits="userSpaceOnUse">'
    lines = [f'<defs>{pattern}<rect width="4" height="8" class="hatch"/></pattern></defs>']
    for row in range(shown):
        y, end = row * (_BAR + _GAP) + 8, (_WIDTH - 40) * height / most
        reach = (_WIDTH - 40) * half_width / most
        lines.append(f'<rect x="20" y="{y}" width="{end:.1f}" height="{_BAR}" fill="url(#hatch)" class="ghost"/>')
        lines.append(_whisker(20 + end - min(reach, end), 20 + end + reach, y + _BAR / 2))
    size = shown * (_BAR + _GAP) + 16
    lines.append(f'<text x="{_WIDTH / 2}" y="{size / 2}" class="example">EXAMPLE</text>')
    return _svg(lines, size, "An example of how wide the intervals would be. It shows no data.")


def _svg(bodies: Iterable[str], height: float, title: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" role="img" class="chart" '
        f'aria-label="{escape(title)}"><title>{escape(title)}</title>{"".join(bodies)}</svg>'
    )


def _panel(picture: Picture, panel: Panel, title: str) -> tuple[list[str], float]:
    head = [f'<text x="0" y="16" class="panel">{escape(title)}</text>'] if title else []
    top = 26 if title else 4
    if picture.shape is Shape.LINES:
        return [*head, *_lines(panel, top)], top + _HEIGHT + 34
    labels = picture.labels if picture.shape is Shape.BARS else ("",)
    return [*head, *_bars(panel, labels, top)], top + _bar_height(panel, len(labels)) + 12


def _bar_height(panel: Panel, labels: int) -> float:
    return float(labels * (len(panel.marks) * _BAR + _GAP))


def _bars(panel: Panel, labels: tuple[str, ...], top: float) -> Iterator[str]:
    """Horizontal bars from 0 with whiskers, and the number behind each."""
    left = _LABELS if any(labels) else 10
    finite = [side for marks in panel.marks for side in _finite(marks)]
    low, high = min([0.0, *finite]), max([0.0, *finite])
    scale = (_WIDTH - left - 90) / ((high - low) or 1)

    def across(number: float) -> float:
        return left + (number - low) * scale

    for index, text in enumerate(labels):
        y = top + index * (len(panel.marks) * _BAR + _GAP) + len(panel.marks) * _BAR / 2 + 4
        yield f'<text x="{left - 10}" y="{y:.1f}" class="label">{escape(_short(text))}</text>' if text else ""
    for nth, marks in enumerate(panel.marks):
        for place, value, start, end in zip(marks.places, marks.values, marks.low, marks.high, strict=True):
            index = place if any(labels) else 0
            y = top + index * (len(panel.marks) * _BAR + _GAP) + nth * _BAR
            if math.isnan(value):
                yield f'<text x="{across(0) + 6:.1f}" y="{y + 17:.1f}" class="number">NULL</text>'
                continue
            first, last = sorted((across(0), across(value)))
            yield (
                f'<rect x="{first:.1f}" y="{y + 2:.1f}" width="{max(last - first, 0.5):.1f}" height="{_BAR - 4}" '
                f'class="bar c{nth}"><title>{escape(_said(marks, value, start, end))}</title></rect>'
            )
            known = not (math.isnan(start) or math.isnan(end))
            if known:
                yield _whisker(across(start), across(end), y + _BAR / 2)
            after = across(max(value, end if known else value, 0.0)) + 6
            yield f'<text x="{after:.1f}" y="{y + 17:.1f}" class="number">{escape(_number(value, start, end))}</text>'
    bottom, zero = top + _bar_height(panel, len(labels)) - _GAP, across(0)
    yield f'<line x1="{zero:.1f}" x2="{zero:.1f}" y1="{top}" y2="{bottom}" class="axis"/>'


def _lines(panel: Panel, top: float) -> Iterator[str]:
    """A line with a band for each colour."""
    left, bottom = 64, top + _HEIGHT
    finite = [side for marks in panel.marks for side in _finite(marks)]
    low, high = min([0.0, *finite]), max([0.0, *finite])
    places = [_position(place) for marks in panel.marks for place in marks.places]
    first, last = min(places, default=0.0), max(places, default=1.0)

    def across(place: Any) -> float:
        return left + (_position(place) - first) / ((last - first) or 1) * (_WIDTH - left - 12)

    def down(number: float) -> float:
        return bottom - (number - low) / ((high - low) or 1) * (_HEIGHT - 12)

    for tick in _ticks(low, high):
        yield f'<line x1="{left}" x2="{_WIDTH - 12}" y1="{down(tick):.1f}" y2="{down(tick):.1f}" class="grid"/>'
        yield f'<text x="{left - 8}" y="{down(tick) + 4:.1f}" class="label">{escape(show(tick))}</text>'
    for nth, marks in enumerate(panel.marks):
        for run in _runs(marks):
            band = [(across(p), down(h)) for p, _, _, h in run] + [(across(p), down(lo)) for p, _, lo, _ in run[::-1]]
            yield f'<polygon points="{_points(band)}" class="band c{nth}"/>'
            yield f'<polyline points="{_points((across(p), down(v)) for p, v, _, _ in run)}" class="line c{nth}"/>'
    ends = [place for marks in panel.marks for place in marks.places]
    for place, anchor in ((min(ends, default=None), "start"), (max(ends, default=None), "end")):
        if place is not None:
            said = escape(_short(place.isoformat() if isinstance(place, date) else show(float(place))))
            yield f'<text x="{across(place):.1f}" y="{bottom + 20}" class="end-{anchor}">{said}</text>'


def _runs(marks: Marks) -> list[list[tuple[Any, float, float, float]]]:
    """The points of a line, in parts without gaps."""
    runs: list[list[tuple[Any, float, float, float]]] = [[]]
    for place, value, low, high in zip(marks.places, marks.values, marks.low, marks.high, strict=True):
        if math.isnan(value):
            runs.append([])
        else:
            ends = (value, value) if math.isnan(low) or math.isnan(high) else (float(low), float(high))
            runs[-1].append((place, float(value), *ends))
    return [run for run in runs if run]


def _position(place: Any) -> float:
    return float(place.toordinal()) if isinstance(place, date) else float(place)


def _ticks(low: float, high: float) -> list[float]:
    step = 10 ** math.floor(math.log10((high - low) or 1))
    step = next(size for size in (step / 5, step / 2, step, 2 * step, 5 * step, 10 * step) if (high - low) / size <= 6)
    return [step * number for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _whisker(start: float, end: float, y: float) -> str:
    caps = "".join(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y - 5:.1f}" y2="{y + 5:.1f}"/>' for x in (start, end))
    return f'<g class="whisker"><line x1="{start:.1f}" x2="{end:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>{caps}</g>'


def _finite(marks: Marks) -> list[float]:
    sides = (marks.values, marks.low, marks.high)
    return [float(number) for side in sides for number in side if math.isfinite(number)]


def _points(pairs: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in pairs)


def _number(value: float, low: float, high: float) -> str:
    if float(value).is_integer() or math.isnan(low) or high <= low:
        return show(int(value) if float(value).is_integer() else float(value))
    return show(float(value), min(max(0, 2 - math.floor(math.log10((high - low) / 2))), 12))


def _said(marks: Marks, value: float, low: float, high: float) -> str:
    name = f"{marks.name}: " if marks.name else ""
    interval = (
        "" if math.isnan(low) or math.isnan(high) else f", {_number(low, low, high)} to {_number(high, low, high)}"
    )
    return f"{name}{_number(value, low, high)}{interval}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
