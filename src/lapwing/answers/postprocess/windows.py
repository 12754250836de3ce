"""Window functions over released rows, and where their true values lie.

In an order that nobody doubts, a function that picks a row (LAG, FIRST_VALUE) carries that row's box, and one that
never falls when a number rises lies between its values at the low and at the high ends. In an order by one noisy
number, a rank lies between the number of rows that are surely before and that of rows that may be.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from lapwing.answers.interval_arithmetic import Box, exactly, is_empty
from lapwing.answers.postprocess.folding import widened
from lapwing.answers.postprocess.rows import (
    CHOSEN_ROWS,
    NO_SPREAD,
    NOISY_GROUPS,
    NOISY_ORDER,
    StepColumn,
    StepRows,
    as_values,
    codes,
    ranks,
)
from lapwing.arrays import Array
from lapwing.engines.public_values import PICKING, Calculation, Window
from lapwing.expressions.types import Type
from lapwing.plan.postprocessed import WindowCall

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
    """One window function over the rows that are shown."""

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
            return StepColumn(call.type, values, many=None, reason=NOISY_ORDER)
        if self.exact and not (arguments or by or groups):
            return StepColumn(call.type, values)
        reason = self._reason(bool(by), groups)
        if reason is None:
            found = self._ranked(by[0], values) if by else self._carried(values, arguments)
            if found is not None:
                return found
        if any(cells.bare for cells in arguments):
            return StepColumn(call.type, values, many=None, bare=True)
        known = next((cells.reason for cells in (*arguments, *by) if cells.reason is not None), None)
        return StepColumn(call.type, values, many=None, reason=reason or known or NO_SPREAD)

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
            return CHOSEN_ROWS
        if groups:
            return NOISY_GROUPS
        return NOISY_ORDER if by_noise and self.call.function not in ("rank", "row_number", "dense_rank") else None

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
        ends = [StepColumn(Type.REAL, np.where(there, side.astype(float), np.nan)) for side in box]
        low, high = (as_values(self._run(call.function, [end]), Type.REAL) for end in ends)
        missing = StepColumn(Type.REAL, np.where(np.isnan(ends[0].values) & there, 1.0, 0.0))
        open_ = as_values(self._run("max", [missing]), Type.REAL) == 1
        low, high = widened((exactly(low)[0], exactly(high)[1]))
        reason = "an interval that it needs has no ends" if open_.any() else None
        return StepColumn(call.type, values, np.where(open_, np.nan, low), np.where(open_, np.nan, high), None, reason)

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
        call = self.call
        columns = {"lw_part": StepColumn(Type.INTEGER, self.parts.astype(object))}
        if self.order is not None:
            columns["lw_order"] = StepColumn(Type.INTEGER, self.order.astype(object))
        if arguments:
            columns["lw_argument"] = arguments[0]
        window = Window(
            function,
            "lw_argument" if arguments else None,
            "lw_part",
            None if self.order is None else "lw_order",
            None if call.frame is None else call.frame.low,
            None if call.frame is None else call.frame.high,
            call.frame is not None,
            call.number,
        )
        (found,) = self.calculation.over(
            [window],
            {name: cells.values for name, cells in columns.items()},
            {name: cells.type for name, cells in columns.items()},
            self.rows.size,
        )
        return found


def _before(parts: Array, box: Box, *, descending: bool, equal: bool) -> Box:
    """1 and the number of rows of the same group that are surely before each row, and that of those that may be.

    With `equal`, rows with the same number have an order too, which nobody knows.
    """
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
