"""The types a column may have. They are declared, never inferred from rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from fractions import Fraction
from itertools import pairwise

MOST_EDGES = 1_001
"""The most edges a histogram may have."""

Value = bool | int | Fraction | str | date | datetime | None
"""A literal or a key; None is NULL."""


class Type(Enum):
    """How the values of a column are read. A value that cannot be read becomes NULL."""

    INTEGER = "integer"
    REAL = "real"
    TEXT = "text"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"

    def __init__(self, name: str) -> None:
        self.is_number = name in {"integer", "real"}


@dataclass(frozen=True, slots=True)
class Interval:
    """All numbers from low to high, inclusive."""

    low: Fraction
    high: Fraction

    @property
    def magnitude(self) -> Fraction:
        return max(abs(self.low), abs(self.high))

    def holds(self, other: Interval) -> bool:
        return self.low <= other.low and other.high <= self.high

    def times(self, factor: int) -> Interval:
        """The range of a sum of up to `factor` numbers from the interval."""
        return Interval(min(Fraction(0), factor * self.low), max(Fraction(0), factor * self.high))

    def __str__(self) -> str:
        return f"[{text_of(self.low)}, {text_of(self.high)}]"


@dataclass(frozen=True, slots=True)
class Span:
    """All dates, or all timestamps, from low to high, inclusive."""

    low: date
    high: date

    def __str__(self) -> str:
        low, high = str(self.low).removesuffix(" 00:00:00"), str(self.high).removesuffix(" 23:59:59.999999")
        return f"[{low}, {high}]"


def type_of(value: Value) -> Type | None:
    """The type of a literal; None for NULL, which has every type."""
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
    """True if all are numbers, or all are dates or timestamps, in strictly ascending order."""
    return all(_is_below(a, b) for a, b in pairwise(values))


def _is_below(a: Value, b: Value) -> bool:
    if isinstance(a, date) and isinstance(b, date):
        return a < b
    return isinstance(a, int | Fraction) and isinstance(b, int | Fraction) and a < b


def text_of(value: Value) -> str:
    """A constant, as shown in a message."""
    if isinstance(value, Fraction):
        return str(value.numerator) if value.denominator == 1 else f"{float(value):g}"
    return str(value)
