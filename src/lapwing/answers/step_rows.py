"""Rows between two steps: values, the box that each noisy number lies in, and which rows would be there without noise.

A step that chooses rows by noisy numbers keeps all of them here, with three marks: `shown` rows are in the answer,
`sure` rows would be in it wherever the numbers lie in their boxes, and rows that may be in it are `possible`. So what
is computed later from the chosen rows still has an interval that holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np

from lapwing.answers.columns import comparable
from lapwing.answers.interval_arithmetic import exactly
from lapwing.answers.table import Box, numbers
from lapwing.arrays import Array, objects
from lapwing.expressions.types import Type


class Missing(StrEnum):
    """Why a noisy number has no box."""

    NO_RULE = "no interval follows for this expression"
    CHOSEN_ROWS = "it is computed from rows that were chosen by noisy numbers"
    NOISY_ORDER = "the order it is computed in follows from noisy numbers"
    NOISY_GROUPS = "its groups follow from noisy numbers"
    NO_SPREAD = "no interval follows for this function of several noisy numbers"
    NO_ENDS = "an interval that it needs has no ends"


@dataclass(frozen=True, slots=True, eq=False)
class StepColumn:
    type: Type
    values: Array
    """float64 for reals, with NaN for NULL; objects otherwise, with None."""
    low: Array | None = None
    high: Array | None = None
    """The box of each noisy number; NaN where it has no ends."""
    used: int | None = 0
    """From how many released numbers each of its cells is computed; 0 for public ones, None for all of some group."""
    reason: str | None = None
    """Why there is no box, in all rows or in some."""
    bare: bool = False
    """Whether a number was asked for without an interval."""
    remark: str | None = None

    @property
    def noisy(self) -> bool:
        return self.used != 0

    def box(self) -> Box | None:
        """Where the true values lie; a public value is its own."""
        if self.noisy:
            return None if self.low is None or self.high is None else (self.low, self.high)
        if self.type in (Type.TEXT, Type.DATE, Type.TIMESTAMP):
            return None
        return exactly(numbers(self.values.tolist()))

    def take(self, places: Array) -> StepColumn:
        """The cells at these places; NULL at -1, which is certain."""
        missing = places < 0
        values = self.values[places] if self.values.size else as_values([None] * len(places), self.type)
        if missing.any():
            values = values.copy()
            values[missing] = np.nan if self.type is Type.REAL else None
        if self.low is None or self.high is None:
            return replace(self, values=values)
        low, high = (side[places] if side.size else np.zeros(len(places)) for side in (self.low, self.high))
        return replace(self, values=values, low=np.where(missing, np.inf, low), high=np.where(missing, -np.inf, high))


@dataclass(frozen=True, slots=True, eq=False)
class StepRows:
    columns: Mapping[str, StepColumn]
    shown: Array
    sure: Array
    possible: Array
    closed: bool = True
    """Whether every row that may be there is among these."""
    chosen: bool = False
    """Whether rows were chosen by noisy numbers, so that only boxes that hold together hold."""
    by_noise: bool = False
    """Whether the order of the rows follows from noisy numbers."""
    size: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", len(self.shown))

    @property
    def exact(self) -> bool:
        """Whether it is certain which rows are there. A noisy number may lie outside of its box, such as a count below
        0, and be shown where it surely is not."""
        return self.closed and bool(((self.sure == self.possible) & (self.shown == self.sure)).all())

    def take(self, places: Array) -> StepRows:
        """The rows at these places, in this order."""
        columns = {name: cells.take(places) for name, cells in self.columns.items()}
        shown, sure, possible = (marks[places] for marks in (self.shown, self.sure, self.possible))
        return replace(self, columns=columns, shown=shown, sure=sure, possible=possible)

    def visible(self) -> StepRows:
        """The shown rows only; those that may be there besides are forgotten."""
        if self.shown.all() and self.exact:
            return self
        return replace(self.take(np.flatnonzero(self.shown)), closed=self.exact)


def unboxed(kind: Type, values: Array, reason: str) -> StepColumn:
    return StepColumn(kind, values, used=None, reason=reason)


def split(columns: Mapping[str, StepColumn]) -> tuple[dict[str, Array], dict[str, Type]]:
    """The values and the types of columns, as the calculator takes them."""
    return {name: cells.values for name, cells in columns.items()}, {n: cells.type for n, cells in columns.items()}


def certain(columns: Mapping[str, StepColumn], size: int) -> StepRows:
    everything = np.ones(size, bool)
    return StepRows(columns, everything, everything, everything)


def as_values(values: Sequence[Any], kind: Type) -> Array:
    """What the calculator gave, as values of this type."""
    if kind is Type.REAL:
        return numbers(values)
    if kind is Type.INTEGER:
        return objects([None if value is None else int(value) for value in values])
    return objects(list(values))


def codes(columns: Sequence[Array], size: int) -> tuple[Array, int]:
    """The number of each row's group, in the order in which groups first occur, and how many there are."""
    seen: dict[tuple[Any, ...], int] = {}
    rows = zip(*map(comparable, columns), strict=True) if columns else iter([()] * size)
    groups = np.array([seen.setdefault(row, len(seen)) for row in rows], np.int64)
    return groups.reshape(size), len(seen)
