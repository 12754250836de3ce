"""Aggregates over released rows, and where their true values lie.

A sum, mean, minimum, maximum or quantile never falls when one of its numbers rises. So with the rows that are there
known, it lies between its value at the low ends of all boxes and that at the high ends. Where rows were chosen by noisy
numbers, those that may be there besides count too: a sum takes of each what lowers or raises it, a maximum is at least
that of the sure rows and at most that of all possible ones, and a mean lies between the least and the largest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lapwing.answers.interval_arithmetic import Box, exactly, is_empty
from lapwing.answers.postprocess.rows import (
    CHOSEN_ROWS,
    NO_RULE,
    NO_SPREAD,
    NOISY_GROUPS,
    NOISY_ORDER,
    StepColumn,
    StepRows,
    as_values,
    certain,
    codes,
)
from lapwing.arrays import Array
from lapwing.engines.public_values import Calculation
from lapwing.expressions.types import Type
from lapwing.plan.postprocessed import Fold, FoldCall

MONOTONE = frozenset({"sum", "avg", "min", "max", "median", "quantile_cont"})
"""Functions that never fall when one of their numbers rises."""
_FIRST = frozenset({"any_value", "arg_max", "arg_min"})
"""Functions that take the first of equal rows."""
_BLUR = 2.0**-40  # more than adding up a million numbers in any order can lose


def widened(box: Box) -> Box:
    """The box with room for rounding."""
    low, high = box
    finite = np.isfinite(low) & np.isfinite(high)
    return np.where(finite, low - _BLUR * np.abs(low), low), np.where(finite, high + _BLUR * np.abs(high), high)


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
    made = {name: cells.take(heads) for name, cells in zip(step.keys, keys, strict=True)}
    by_noise = any(cells.noisy for cells in keys)
    folded = _Folded(rows, at, len(listed), by_noise, calculation)
    values = folded.values(step.calls)
    for call, found in zip(step.calls, values, strict=True):
        made[call.name] = folded.cells(call, as_values(found, call.type))
    result = certain(made, len(listed))
    order = bool(step.keys) and (by_noise or rows.by_noise)
    if rows.exact and not by_noise:
        return replace(result, chosen=rows.chosen, by_noise=order)
    return replace(result, chosen=True, closed=not step.keys, by_noise=order)


@dataclass(frozen=True, slots=True, eq=False)
class _Folded:
    rows: StepRows
    at: Array
    """The place of each row's group among those that are shown; -1 if it is none of them."""
    many: int
    by_noise: bool
    calculation: Calculation

    def values(self, calls: Sequence[FoldCall]) -> list[list[Any]]:
        """What the shown rows give."""
        return self._fold([(call.function, call.arguments, call.parameter) for call in calls], {})

    def cells(self, call: FoldCall, values: Array) -> StepColumn:
        arguments = [self.rows.columns[name] for name in call.arguments]
        noisy = [cells for cells in arguments if cells.noisy]
        if call.function in _FIRST and self.rows.by_noise:
            return StepColumn(call.type, values, many=None, reason=NOISY_ORDER)
        if not noisy and self.rows.exact and not self.by_noise:
            return StepColumn(call.type, values)
        if any(cells.bare for cells in noisy):
            return StepColumn(call.type, values, many=None, bare=True)
        if self.by_noise or not self.rows.closed:
            return StepColumn(call.type, values, many=None, reason=NOISY_GROUPS if self.by_noise else CHOSEN_ROWS)
        if any(cells.box() is None for cells in noisy):
            reason = next((cells.reason for cells in noisy if cells.reason is not None), NO_RULE)
            return StepColumn(call.type, values, many=None, reason=reason)
        box = self._box(call, arguments)
        if box is None:
            return StepColumn(call.type, values, many=None, reason=NO_SPREAD if self.rows.exact else CHOSEN_ROWS)
        low, high = widened(box)
        ended = not np.isnan(low).any()
        return StepColumn(
            call.type, values, low, high, None, None if ended else "an interval that it needs has no ends"
        )

    def _box(self, call: FoldCall, arguments: Sequence[StepColumn]) -> Box | None:
        if call.function == "count_rows":
            return self._counted(np.ones(self.rows.size, bool))
        if call.type not in (Type.INTEGER, Type.REAL):
            return None
        if call.function in ("arg_max", "arg_min"):
            return self._best(arguments, largest=call.function == "arg_max")
        (cells,) = arguments
        box = cells.box()
        if box is None and call.function == "count" and not cells.noisy:
            return self._counted(np.array([value is not None for value in cells.values.tolist()], bool))
        if box is None:
            return None
        ends = box[0].astype(float), box[1].astype(float)
        there = ~is_empty(ends)
        ends = np.where(there, ends[0], np.nan), np.where(there, ends[1], np.nan)
        open_ = self._any(np.isnan(ends[0]) & there & self.rows.possible)
        if call.function == "count":
            found: Box | None = self._counted(there)
        elif call.function not in MONOTONE:
            return None
        elif self.rows.exact:
            found = self._at_ends(call, ends)
        else:
            found = self._of_possible(call.function, ends, there)
        return None if found is None else (np.where(open_, np.nan, found[0]), np.where(open_, np.nan, found[1]))

    def _at_ends(self, call: FoldCall, ends: Box) -> Box:
        """With the rows known: the function of the low ends, and of the high ones."""
        sides = {"lw_low": StepColumn(Type.REAL, ends[0]), "lw_high": StepColumn(Type.REAL, ends[1])}
        calls = [(call.function, (name,), call.parameter) for name in sides]
        low, high = self._fold(calls, sides)
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
        if function == "min":
            return np.where(np.isnan(least[1]), np.nan, least[0]), least[1]
        if function == "max":
            return largest[0], np.where(np.isnan(largest[0]), np.nan, largest[1])
        if function == "avg":
            known = ~np.isnan(least[1])
            return np.where(known, least[0], np.nan), np.where(known, largest[1], np.nan)
        return None

    def _best(self, arguments: Sequence[StepColumn], *, largest: bool) -> Box | None:
        """What stands in the row with the largest number, over all rows that may be it."""
        shown, by = (cells.box() for cells in arguments)
        if shown is None or by is None or not self.rows.exact or np.isnan(by[0].astype(float)).any():
            return None
        low, high = (by[0], by[1]) if largest else (-by[1], -by[0])
        bar = self._extreme(np.maximum, low.astype(float), self.rows.shown)
        known = self.at >= 0
        may = np.zeros(self.rows.size, bool)
        may[known] = high[known] >= bar[self.at[known]]
        may &= self.rows.shown
        return (
            self._extreme(np.minimum, shown[0].astype(float), may),
            self._extreme(np.maximum, shown[1].astype(float), may),
        )

    def _counted(self, there: Array) -> Box:
        return self._added((self.rows.sure & there).astype(float)), self._added(
            (self.rows.possible & there).astype(float)
        )

    def _added(self, values: Array) -> Array:
        known = self.at >= 0
        return np.bincount(self.at[known], weights=values[known], minlength=self.many)[: self.many].astype(float)

    def _any(self, flags: Array) -> Array:
        return self._added(flags.astype(float)) > 0

    def _extreme(self, better: Any, values: Array, which: Array) -> Array:
        """The least or the largest of these rows in each group; NaN if there are none."""
        worst = np.inf if better is np.minimum else -np.inf
        found = np.full(self.many, worst)
        chosen = which & (self.at >= 0) & ~np.isnan(values)
        better.at(found, self.at[chosen], values[chosen])
        return np.where(np.isinf(found), np.nan, found)

    def _fold(
        self, calls: Sequence[tuple[str, Sequence[str], float | None]], more: dict[str, StepColumn]
    ) -> list[list[Any]]:
        used = {name for _, arguments, _ in calls for name in arguments}
        columns = {name: cells for name, cells in {**self.rows.columns, **more}.items() if name in used}
        shown = self.rows.shown & (self.at >= 0)
        return self.calculation.fold(
            calls,
            {name: cells.values[shown] for name, cells in columns.items()},
            {name: cells.type for name, cells in columns.items()},
            self.at[shown],
            self.many,
        )
