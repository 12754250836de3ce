"""The types a column may have. They are declared, never read from the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from fractions import Fraction
from itertools import pairwise

MOST_EDGES = 1_001
"""Of a histogram."""

Value = bool | int | Fraction | str | date | datetime | None
"""What a literal or a key may be; None is NULL."""


class Type(Enum):
    """How values of a column are read. Whatever does not read becomes NULL."""

    INTEGER = "integer"
    REAL = "real"
    TEXT = "text"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"

    @property
    def is_number(self) -> bool:
        return self in (Type.INTEGER, Type.REAL)


@dataclass(frozen=True, slots=True)
class Interval:
    """All numbers from low to high."""

    low: Fraction
    high: Fraction

    @property
    def magnitude(self) -> Fraction:
        """The largest absolute value."""
        return max(abs(self.low), abs(self.high))

    def times(self, factor: int) -> Interval:
        """What `factor` numbers of the interval may add up to, also if fewer are there."""
        return Interval(min(Fraction(0), factor * self.low), max(Fraction(0), factor * self.high))

    def __str__(self) -> str:
        return f"[{text_of(self.low)}, {text_of(self.high)}]"


def type_of(value: Value) -> Type | None:
    """The type of a literal; None for NULL, which is of every type."""
    match value:
        case None:
            return None
        case bool():
            return Type.BOOLEAN
        case int():
            return Type.INTEGER
        case Fraction():
            return Type.REAL
        case str():
            return Type.TEXT
        case datetime():
            return Type.TIMESTAMP
        case date():
            return Type.DATE


def ascending(values: Sequence[Value]) -> bool:
    """Whether all are numbers or all are dates or times, and each is above the one before it."""
    return all(_is_below(a, b) for a, b in pairwise(values))


def _is_below(a: Value, b: Value) -> bool:
    if isinstance(a, date) and isinstance(b, date):
        return a < b
    return isinstance(a, int | Fraction) and isinstance(b, int | Fraction) and a < b


def text_of(value: Value) -> str:
    """A constant in a message."""
    if isinstance(value, Fraction):
        return str(value.numerator) if value.denominator == 1 else f"{float(value):g}"
    return str(value)
