"""What a picture of an answer shows: which key runs along the axis, which one has colours, which number stands where.

All of it is post-processing, and free. The drawing itself is in chart.py, which needs matplotlib.

    no key                                  each number as a point with its interval
    dates, or numbers with many values      a line with a band
    numbers in cells                        bars with whiskers; of many cells a line through their middles
    any other key                           bars with whiskers
    two keys                                up to four colours; else a small panel for each value; else joint labels
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import pairwise
from typing import Any

import numpy as np

from lapwing.answers.formats import label
from lapwing.answers.table import AnswerColumn, AnswerTable, numbers, reals
from lapwing.arrays import Floats
from lapwing.errors import Misconfigured
from lapwing.expressions.types import Type
from lapwing.privacy.phrases import percent

BLUE, RED, GREEN, PALE, INK, GREY = "#1b6ca8", "#c8553d", "#5b8c5a", "#d9e3ea", "#22303a", "#66747e"
COLOURS = (BLUE, RED, GREEN, "#a9bccb")
STYLE = {
    "font.size": 9.5, "text.color": INK, "grid.color": PALE, "grid.linewidth": 0.7,
    "axes.labelcolor": GREY, "axes.edgecolor": "#9aa7b0", "axes.axisbelow": True, "axes.titlelocation": "left",
    "axes.titlesize": 10.5, "axes.spines.top": False, "axes.spines.right": False,
    "xtick.color": GREY, "ytick.color": INK,
}  # fmt: skip
"""Settings of matplotlib for every picture."""
MOST_BARS, MOST_COLOURS, MOST_PANELS = 100, 4, 12
LINE_ABOVE = {Type.DATE: 2, Type.TIMESTAMP: 2, Type.INTEGER: 12, Type.REAL: 12}
"""A key of this type with more values than this is drawn as a line; text and truth values never are."""
CELLS_AS_BARS = 40
"""More cells than this are drawn as a line."""


class Shape(Enum):
    """How numbers are marked; the value is what shows the intervals."""

    POINTS = "the line through each point"
    BARS = "the whisker on each bar"
    LINES = "the band around each line"


@dataclass(frozen=True, slots=True, eq=False)
class Marks:
    """Numbers of one colour in one panel, with the ends of their intervals; NaN where there is none."""

    name: str
    places: tuple[Any, ...]
    """Where along the axis: the position of a label, or the key itself if the numbers form a line."""
    values: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    title: str
    marks: tuple[Marks, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    title: str
    condition: str
    """Which rows count, "where year = 1"; empty if all do."""
    subtitle: str
    notes: tuple[str, ...]
    """What to know of the whole answer, a caption below the panels."""
    shape: Shape
    along: str
    """The name of the key along the axis."""
    colours: str
    """The name of the key that has colours; empty if none has."""
    one_scale: bool
    """Whether all panels show the same number, for different values of a key."""
    labels: tuple[str, ...]
    panels: tuple[Panel, ...]


def arrange(table: AnswerTable) -> Picture:
    """Decides what is drawn where. Needs no matplotlib."""
    keys = [replace(key, step=_step(key)) if table.gaps else key for key in _keys(table)]
    numbers = [c for c in table.columns if not c.is_key and c.type.is_number and not (table.binned and c.bare)]
    if not numbers:
        raise Misconfigured("The answer has no number to draw. Select an aggregate, for example COUNT(*).")
    roles = _roles(keys, rows=len(table), panels=len(numbers))
    along, shape = roles.along, Shape.POINTS
    if along.name:
        shape = Shape.LINES if along.is_line else Shape.BARS
    notes = [f"Noisy, differentially private; {shape.value} is the {percent(table.confidence)[:-1]} % interval"]
    if chosen := " and ".join(column.name for column in numbers if column.chosen):
        notes.append(f"rows or values were chosen by {chosen}, whose intervals hold for all groups together")
    if shape is Shape.BARS and len(along.different) > MOST_BARS:
        notes.append(f"the first {MOST_BARS} of {len(along.different):,} groups")
    if shape is Shape.LINES:
        notes += ["NULL is not shown"] if None in along.values else []
        notes += ["drawn at the middle of each cell"] if along.ends else []
        notes += ["a line breaks where a group is not shown"] if along.step is not None else []
    by = f" by {', '.join(key.name for key in keys)}" if keys else ""
    return Picture(
        table.title or f"{', '.join(column.name for column in numbers)}{by}",
        table.condition,
        "; ".join(notes),
        table.warnings,
        shape,
        along.name,
        "" if roles.colours is None else roles.colours.name,
        roles.panels is not None,
        tuple(map(along.label, along.different[:MOST_BARS])) if shape is Shape.BARS else (),
        tuple(_panels(roles, numbers, shape)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Key:
    name: str
    type: Type
    values: list[Any]
    ends: dict[Any, Any] = field(default_factory=dict)
    """Where each cell ends, by its first value; nothing if the values are no cells."""
    step: Any = None
    """How far apart its values are, if some may be missing between those shown."""

    @property
    def different(self) -> list[Any]:
        """Its values without repetition, in the order of the answer."""
        return list(dict.fromkeys(self.values))

    @property
    def is_line(self) -> bool:
        most = CELLS_AS_BARS if self.ends else LINE_ABOVE.get(self.type, math.inf)
        return sum(value is not None for value in self.different) > most

    def label(self, value: Any) -> str:
        """A value as text, a cell with both ends."""
        end = self.ends.get(value, value)
        if end == value:
            return label(value)
        width = min(end - start for start, end in self.ends.items())
        return f"{_edge(value, width)} to {_edge(end, width)}"

    def place(self, value: Any) -> Any:
        """Where it stands on an axis of numbers: a cell in its middle."""
        return value / 2 + self.ends[value] / 2 if self.ends else value


@dataclass(frozen=True, slots=True, eq=False)
class _Roles:
    along: _Key
    colours: _Key | None = None
    panels: _Key | None = None


def _keys(table: AnswerTable) -> list[_Key]:
    keys: list[_Key] = []
    for column in (column for column in table.columns if column.is_key):
        key = _Key(column.name, column.type, column.values.tolist())
        if table.binned and keys and _are_ends(keys[-1], key):
            keys[-1] = replace(keys[-1], ends=dict(zip(keys[-1].values, key.values, strict=True)))
        else:
            keys.append(key)
    return keys


def _step(key: _Key) -> Any:
    """The distance of neighbours: of whole numbers what divides all distances, of dates the shortest."""
    values = sorted(value for value in key.different if value is not None) if key.type in LINE_ABOVE else []
    steps = [after - before for before, after in pairwise(values)]
    return None if not steps else math.gcd(*steps) if key.type is Type.INTEGER else min(steps)


def _are_ends(first: _Key, last: _Key) -> bool:
    """Whether these are the ends of the cells of the key before them: they have its name, and each cell has one."""
    named = last.type.is_number and last.name.rstrip("_") == f"{first.name}_to"
    cells = set(zip(first.values, last.values, strict=True))
    return named and len(cells) == len(first.different) == len(last.different)


def _edge(value: Any, width: Any) -> str:
    """The end of a cell, with as many decimals as tell cells of this width apart."""
    decimals = 0 if width <= 0 else max(0, 3 - math.floor(math.log10(width)))
    if isinstance(value, int) or decimals > 9 or abs(value) >= 1e15:
        return label(value) if isinstance(value, int) else f"{value:.15g}"
    text = f"{round(value, decimals) + 0.0:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if decimals else text


def _roles(keys: list[_Key], *, rows: int, panels: int) -> _Roles:
    """Which key runs along the axis, which has colours and which has panels of its own."""
    if len(set(zip(*(key.values for key in keys), strict=True))) < rows and (keys or rows > 1):
        return _Roles(_numbered(keys, rows))
    if len(keys) < 2:
        return _Roles(keys[0] if keys else _Key("", Type.TEXT, [""] * rows))
    pair = (keys[0] if len(keys) == 2 else _joint(keys[:-1]), keys[-1])
    along = max(pair, key=lambda key: (key.is_line, bool(key.ends), len(key.different)))
    other = pair[1] if along is pair[0] else pair[0]
    if len(other.different) <= MOST_COLOURS:
        return _Roles(along, colours=other)
    if len(other.different) <= MOST_PANELS and panels == 1:
        return _Roles(along, panels=other)
    return _Roles(_joint(keys))


def _joint(keys: list[_Key]) -> _Key:
    texts = [{value: key.label(value) for value in key.different} for key in keys]
    rows = zip(*([text[value] for value in key.values] for key, text in zip(keys, texts, strict=True)), strict=True)
    return _Key(", ".join(key.name for key in keys), Type.TEXT, [" · ".join(row) for row in rows])


def _numbered(keys: list[_Key], rows: int) -> _Key:
    """For answers that do not show all the keys they are grouped by: rows are told apart by their number."""
    if not keys:
        return _Key("row", Type.TEXT, [str(row + 1) for row in range(rows)])
    joint = _joint(keys)
    return _Key(joint.name, Type.TEXT, [f"{text} ({row + 1})" for row, text in enumerate(joint.values)])


def _panels(roles: _Roles, numbers: list[AnswerColumn], shape: Shape) -> list[Panel]:
    every = np.arange(len(roles.along.values))
    if roles.panels is None:
        return [Panel(label(column.name), _marks(roles, column, every, shape)) for column in numbers]
    name, groups = roles.panels.name, _groups(roles.panels, every)
    return [Panel(f"{name}: {text}", _marks(roles, numbers[0], rows, shape)) for text, rows in groups]


def _groups(key: _Key | None, rows: Any) -> list[tuple[str, Any]]:
    """The rows of each value of the key, beside its label."""
    if key is None:
        return [("", rows)]
    return [(key.label(value), [row for row in rows if key.values[row] == value]) for value in key.different]


def _marks(roles: _Roles, column: AnswerColumn, rows: Any, shape: Shape) -> tuple[Marks, ...]:
    return tuple(_placed(name, roles.along, column, part, shape) for name, part in _groups(roles.colours, rows))


def _placed(name: str, along: _Key, column: AnswerColumn, rows: Any, shape: Shape) -> Marks:
    """The numbers of these rows where they stand on the axis; a line runs in the order of its key."""
    if shape is Shape.LINES:
        placed = sorted((row for row in rows if along.values[row] is not None), key=lambda row: along.values[row])
        marked = _with_breaks(along, placed)
        places = tuple(along.place(along.values[row]) for row, _ in marked)
    else:
        position = {value: at for at, value in enumerate(along.different[:MOST_BARS])}
        marked = [(row, True) for row in rows if along.values[row] in position]
        places = tuple(position[along.values[row]] for row, _ in marked)
    at, shown = [row for row, _ in marked], np.array([is_shown for _, is_shown in marked], bool)
    sides = (_floats(side, len(column.values))[at] for side in (column.values, column.low, column.high))
    values, low, high = (np.where(shown, side, np.nan) for side in sides)
    return Marks(name, places, values, low, high)


def _with_breaks(along: _Key, rows: list[int]) -> list[tuple[int, bool]]:
    """The rows of a line, and again each one after which a group is not shown: there the line has no number."""
    marked = [(row, True) for row in rows[:1]]
    for row, after in pairwise(rows):
        if along.step is not None and 2 * (along.values[after] - along.values[row]) > 3 * along.step:
            marked.append((row, False))
        marked.append((after, True))
    return marked


def _floats(values: Any, size: int) -> Floats:
    """Numbers as floats; NaN for what is missing or too large to draw."""
    floats = np.full(size, np.nan) if values is None else numbers(reals(values))
    return np.where(np.abs(floats) < 1e300, floats, np.nan)
