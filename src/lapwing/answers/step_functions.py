"""Aggregates and window functions over released rows, and where their true values lie.

Aggregates. A sum, mean, minimum, maximum or quantile never falls when one of its numbers rises. So with the rows known,
it lies between its value at the low ends of all boxes and that at the high ends. Where rows were chosen by noisy
numbers, those that may be there besides count too: a sum takes of each what lowers or raises it, a maximum is at least
that of the sure rows and at most that of all possible ones, and a mean lies between the least and the largest.

Windows. In an order that is certain, a function that picks a row (LAG, FIRST_VALUE) carries that row's box, and one
that never falls when a number rises lies between its values at the low and at the high ends. In an order by one noisy
number, a rank lies between the number of rows that are surely before and that of rows that may be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lapwing.answers.columns import ranks
from lapwing.answers.interval_arithmetic import exactly, is_empty, widened, without_ends
from lapwing.answers.step_rows import Missing, StepColumn, StepRows, as_values, certain, codes, split, unboxed
from lapwing.answers.table import Box, shown_box
from lapwing.arrays import Array
from lapwing.engines.public_values import PICKING, Calculation, Window
from lapwing.expressions.types import Type
from lapwing.plan.postprocessed import Fold, FoldCall, WindowCall

MONOTONE = frozenset({"sum", "avg", "min", "max", "median", "quantile_cont"})
"""Functions that never fall when one of their numbers rises."""
_FIRST = frozenset({"any_value", "arg_max", "arg_min"})
"""Functions that take the first of equal rows."""
_BLUR = 2.0**-40  # more than adding up a million numbers in any order can lose


def fold(rows: StepRows, step: Fold, calculation: Calculation) -> StepRows:
    """One row for each group of shown rows, in the order in which groups first occur."""
    keys = [rows.columns[name] for name in step.keys]
    groups, every = codes([cells.values for cells in keys], rows.size)
    visible = np.flatnonzero(rows.shown)
    first = {group: row for row, group in reversed(list(zip(visible.tolist(), groups[visible].tolist(), strict=True)))}
    listed = sorted(first, key=lambda group: first[group]) if step.keys else [0]
    place = np.full(max(every, 1), -1)
    place[listed] = range(len(listed))
    at = place[groups] if rows.size else np.zeros(0, np.int64)
    heads = np.array([first[group] for group in listed], np.int64) if step.keys else np.zeros(0, np.int64)
    columns = {name: cells.take(heads) for name, cells in zip(step.keys, keys, strict=True)}
    by_noise = any(cells.noisy for cells in keys)
    folded = _Folded(rows, at, len(listed), by_noise, calculation)
    results = folded.fold([(call.function, call.arguments, call.parameter) for call in step.calls], {})
    for call, values in zip(step.calls, results, strict=True):
        columns[call.name] = folded.cells(call, as_values(values, call.type))
    result = certain(columns, len(listed))
    order = bool(step.keys) and (by_noise or rows.by_noise)
    if rows.exact and not by_noise:
        return replace(result, chosen=rows.chosen, by_noise=order)
    return replace(result, chosen=True, closed=not step.keys, by_noise=order)


@dataclass(frozen=True, slots=True, eq=False)
class _Folded:
    rows: StepRows
    at: Array
    """The place of each row's group among those that are shown; -1 if it is none of them."""
    count: int
    by_noise: bool
    calculation: Calculation

    def cells(self, call: FoldCall, values: Array) -> StepColumn:
        arguments = [self.rows.columns[name] for name in call.arguments]
        noisy = [cells for cells in arguments if cells.noisy]
        if call.function in _FIRST and self.rows.by_noise:
            return unboxed(call.type, values, Missing.NOISY_ORDER)
        if not noisy and self.rows.exact and not self.by_noise:
            return StepColumn(call.type, values)
        if any(cells.bare for cells in noisy):
            return StepColumn(call.type, values, used=None, bare=True)
        if self.by_noise or not self.rows.closed:
            return unboxed(call.type, values, Missing.NOISY_GROUPS if self.by_noise else Missing.CHOSEN_ROWS)
        if any(cells.box() is None for cells in noisy):
            reason = next((cells.reason for cells in noisy if cells.reason is not None), Missing.NO_RULE)
            return unboxed(call.type, values, reason)
        box = self._box(call, arguments)
        if box is None:
            return unboxed(call.type, values, Missing.NO_SPREAD if self.rows.exact else Missing.CHOSEN_ROWS)
        low, high = widened(box, _BLUR)
        return StepColumn(call.type, values, low, high, None, Missing.NO_ENDS if np.isnan(low).any() else None)

    def _box(self, call: FoldCall, arguments: Sequence[StepColumn]) -> Box | None:
        if call.function == "count_rows":
            return self._counted(np.ones(self.rows.size, bool))
        if call.type not in (Type.INTEGER, Type.REAL):
            return None
        if call.function in ("arg_max", "arg_min"):
            return self._best(arguments, largest=call.function == "arg_max")
        (cells,) = arguments
        box = cells.box()
        if box is None:
            if call.function != "count" or cells.noisy:
                return None
            return self._counted(np.array([value is not None for value in cells.values.tolist()], bool))
        there, ends = ~is_empty(box), shown_box((box[0].astype(float), box[1].astype(float)))
        open_ = self._added(np.isnan(ends[0]) & there & self.rows.possible) > 0
        if call.function == "count":
            bounds: Box | None = self._counted(there)
        elif call.function not in MONOTONE:
            return None
        elif self.rows.exact:
            bounds = self._at_ends(call, ends)
        else:
            bounds = self._of_possible(call.function, ends, there)
        return None if bounds is None else without_ends(bounds, open_)

    def _at_ends(self, call: FoldCall, ends: Box) -> Box:
        """With the rows known: the function of the low ends, and of the high ones."""
        sides = {"lw_low": StepColumn(Type.REAL, ends[0]), "lw_high": StepColumn(Type.REAL, ends[1])}
        calls = [(call.function, (name,), call.parameter) for name in sides]
        low, high = self.fold(calls, sides)
        return exactly(as_values(low, Type.REAL))[0], exactly(as_values(high, Type.REAL))[1]

    def _of_possible(self, function: str, ends: Box, there: Array) -> Box | None:
        low, high = ends
        sure, possible = self.rows.sure & there, self.rows.possible & there
        if function == "sum":
            lows = np.where(sure, low, np.where(possible, np.minimum(low, 0), 0))
            highs = np.where(sure, high, np.where(possible, np.maximum(high, 0), 0))
            return self._added(lows), self._added(highs)
        least = self._extreme(np.minimum, low, possible), self._extreme(np.minimum, high, sure)
        largest = self._extreme(np.maximum, low, sure), self._extreme(np.maximum, high, possible)
        bounds = {
            "min": without_ends(least, np.isnan(least[1])),
            "max": without_ends(largest, np.isnan(largest[0])),
            "avg": without_ends((least[0], largest[1]), np.isnan(least[1])),
        }
        return bounds.get(function)

    def _best(self, arguments: Sequence[StepColumn], *, largest: bool) -> Box | None:
        """What stands in the row with the largest number, over all rows that may be it."""
        shown, by = (cells.box() for cells in arguments)
        if shown is None or by is None or not self.rows.exact or np.isnan(by[0].astype(float)).any():
            return None
        low, high = (by[0], by[1]) if largest else (-by[1], -by[0])
        bar = self._extreme(np.maximum, low.astype(float), self.rows.shown)
        may = self.rows.shown & (self.at >= 0)
        may[may] = high[may] >= bar[self.at[may]]
        low, high = (side.astype(float) for side in shown)
        return self._extreme(np.minimum, low, may), self._extreme(np.maximum, high, may)

    def _counted(self, there: Array) -> Box:
        return self._added(self.rows.sure & there), self._added(self.rows.possible & there)

    def _added(self, values: Array) -> Array:
        known = self.at >= 0
        return np.bincount(self.at[known], weights=values[known], minlength=self.count)[: self.count].astype(float)

    def _extreme(self, better: Any, values: Array, which: Array) -> Array:
        """The least or the largest of these rows in each group; NaN if there are none."""
        best = np.full(self.count, np.inf if better is np.minimum else -np.inf)
        chosen = which & (self.at >= 0) & ~np.isnan(values)
        better.at(best, self.at[chosen], values[chosen])
        return np.where(np.isinf(best), np.nan, best)

    def fold(
        self, calls: Sequence[tuple[str, Sequence[str], float | None]], more: dict[str, StepColumn]
    ) -> list[list[Any]]:
        used = {name for _, arguments, _ in calls for name in arguments}
        columns = {name: cells for name, cells in {**self.rows.columns, **more}.items() if name in used}
        shown = self.rows.shown & (self.at >= 0)
        values, types = split(columns)
        seen = {name: column[shown] for name, column in values.items()}
        return self.calculation.fold(calls, seen, types, self.at[shown], self.count)


_BY_PLACE = PICKING | {"row_number", "ntile"}
"""Functions for which the order of equal rows matters."""


def over(rows: StepRows, calls: tuple[WindowCall, ...], calculation: Calculation) -> StepRows:
    """The same rows with one more column for each call. Windows see the shown rows; in others they are NULL."""
    shown = np.flatnonzero(rows.shown)
    seen = rows if len(shown) == rows.size else rows.take(shown)
    columns = dict(rows.columns)
    for call in calls:
        cells = _Windowed(seen, rows.exact, call, calculation).cells()
        if len(shown) < rows.size:
            back = np.full(rows.size, -1)
            back[shown] = range(len(shown))
            cells = cells.take(back)
        columns[call.name] = cells
    return replace(rows, columns=columns)


class _Windowed:
    def __init__(self, rows: StepRows, exact: bool, call: WindowCall, calculation: Calculation) -> None:
        self.rows, self.exact, self.call, self.calculation = rows, exact, call, calculation
        self.parts, _ = codes([rows.columns[name].values for name in call.partition], rows.size)
        by = [(rows.columns[name].values, descending) for name, descending in call.order]
        self.order = ranks(by, rows.size) if by else None

    def cells(self) -> StepColumn:
        call, rows = self.call, self.rows
        values = self._values()
        arguments = [rows.columns[name] for name in call.arguments if rows.columns[name].noisy]
        by = [rows.columns[name] for name, _ in call.order if rows.columns[name].noisy]
        groups = any(rows.columns[name].noisy for name in call.partition)
        if rows.by_noise and (call.frame is not None or call.function in _BY_PLACE):
            return unboxed(call.type, values, Missing.NOISY_ORDER)
        if self.exact and not (arguments or by or groups):
            return StepColumn(call.type, values)
        reason = self._reason(bool(by), groups)
        if reason is None:
            boxed = self._ranked(by[0], values) if by else self._carried(values, arguments)
            if boxed is not None:
                return boxed
        if any(cells.bare for cells in arguments):
            return StepColumn(call.type, values, used=None, bare=True)
        known = next((cells.reason for cells in (*arguments, *by) if cells.reason is not None), None)
        return unboxed(call.type, values, reason or known or Missing.NO_SPREAD)

    def _values(self) -> Array:
        """What DuckDB gives; a function that picks a row picks it once, for values and boxes alike."""
        arguments = [self.rows.columns[name] for name in self.call.arguments]
        if self.call.function not in PICKING:
            return as_values(self._run(self.call.function, arguments), self.call.type)
        rows = StepColumn(Type.INTEGER, np.arange(self.rows.size).astype(object))
        places = [-1 if place is None else int(place) for place in self._run(self.call.function, [rows])]
        self.places = np.array(places, np.int64).reshape(self.rows.size)
        return arguments[0].take(self.places).values

    def _reason(self, by_noise: bool, groups: bool) -> str | None:
        if not self.exact:
            return Missing.CHOSEN_ROWS
        if groups:
            return Missing.NOISY_GROUPS
        is_rank = self.call.function in ("rank", "row_number", "dense_rank")
        return Missing.NOISY_ORDER if by_noise and not is_rank else None

    def _carried(self, values: Array, arguments: list[StepColumn]) -> StepColumn | None:
        call = self.call
        if not arguments or arguments[0].bare:
            return None
        (cells,) = arguments
        if call.function in PICKING:
            return cells.take(self.places)
        box = cells.box()
        if box is None or call.function not in ("sum", "avg", "min", "max"):
            return None
        there = ~is_empty(box)
        ends = [StepColumn(Type.REAL, side.astype(float)) for side in shown_box(box)]
        low, high = (as_values(self._run(call.function, [end]), Type.REAL) for end in ends)
        missing = StepColumn(Type.REAL, np.where(np.isnan(ends[0].values) & there, 1.0, 0.0))
        open_ = as_values(self._run("max", [missing]), Type.REAL) == 1
        bounds = without_ends(widened((exactly(low)[0], exactly(high)[1]), _BLUR), open_)
        return StepColumn(call.type, values, *bounds, None, Missing.NO_ENDS if open_.any() else None)

    def _ranked(self, by: StepColumn, values: Array) -> StepColumn | None:
        """A rank by one noisy number: how many rows of the group are surely before, and how many may be."""
        call, box = self.call, by.box()
        if box is None or len(call.order) != 1:
            return None
        low, high = _before(self.parts, box, descending=call.order[0][1], equal=call.function == "row_number")
        if call.function == "dense_rank":
            low = np.minimum(low, 1.0)
        return StepColumn(call.type, values, low, high, None)

    def _run(self, function: str, arguments: list[StepColumn]) -> list[Any]:
        frame, order = self.call.frame, None if self.order is None else "lw_order"
        columns = {"lw_part": StepColumn(Type.INTEGER, self.parts.astype(object))}
        if self.order is not None:
            columns["lw_order"] = StepColumn(Type.INTEGER, self.order.astype(object))
        if arguments:
            columns["lw_argument"] = arguments[0]
        argument = "lw_argument" if arguments else None
        ends = (None, None) if frame is None else (frame.low, frame.high)
        window = Window(function, argument, "lw_part", order, *ends, frame is not None, self.call.number)
        (values,) = self.calculation.over([window], *split(columns), self.rows.size)
        return values


def _before(parts: Array, box: Box, *, descending: bool, equal: bool) -> Box:
    """1 and the number of rows of the same group that are surely before each row, and that of those that may be; with
    `equal`, rows with the same number have an unknown order."""
    low, high = (-box[1], -box[0]) if descending else (box[0], box[1])
    least, most = np.ones(len(parts)), np.ones(len(parts))
    for part in np.unique(parts):
        rows = np.flatnonzero(parts == part)
        known = np.isfinite(low[rows].astype(float))  # NULL, whose box is empty, and boxes without ends are not
        lows, highs = (np.sort(side[rows[known]].astype(float)) for side in (low, high))
        open_ = len(rows) - len(lows)
        least[rows] = 1 + np.searchsorted(highs, low[rows].astype(float), "left")
        may = np.searchsorted(lows, high[rows].astype(float), "right" if equal else "left")
        own = np.where(equal | (low[rows] < high[rows]), 1, 0)  # it counts itself unless its box is a point
        most[rows] = 1 + may - own + open_
        least[rows[~known]], most[rows[~known]] = 1, len(rows)
    return least, np.minimum(most, len(parts))
