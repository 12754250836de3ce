"""Dates and timestamps. To every operator, those outside the years 1 to 9999 and infinite ones are NULL."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from lapwing.language import bounds, forms
from lapwing.language.expression import Expression, Operator
from lapwing.language.operators.base import Node, Types, cast, is_whole, let, only, where
from lapwing.language.types import Type

DATES = (Type.DATE, Type.TIMESTAMP)
_NULL = "NULL stays NULL."
_DAYS = 3_652_059  # in the years 1 to 9999
_FIRST, _AFTER = "0001-01-01", "10000-01-01"


def within_years(node: Node) -> Node:
    """The date or timestamp if it lies in the years 1 to 9999, else NULL."""

    def test(value: Callable[[], Node]) -> Node:
        first, after = (cast(exp.Literal.string(day), exp.DType.DATE) for day in (_FIRST, _AFTER))
        late = exp.GTE(this=value(), expression=first)
        return where(exp.And(this=late, expression=exp.LT(this=value(), expression=after)), value())

    return let(node, test)


def _part(name: str, low: int, high: int, meaning: str, sql: str = "") -> Operator:
    return Operator(
        name,
        only(*DATES, gives=Type.INTEGER),
        lambda d: forms.DatePart(this=within_years(d), unit=exp.Var(this=name.upper())),
        "a date or a timestamp",
        bounds.always(low, high),
        sql=sql or f"{name.upper()}(d)",
        meaning=f"{meaning} {_NULL}",
    )


YEAR = _part(
    "year", 1, 9999, "The year. EXTRACT(year FROM d) and DATE_PART('year', d) are the same; so for every part."
)
QUARTER = _part("quarter", 1, 4, "The quarter, 1 to 4.")
MONTH = _part("month", 1, 12, "The month, 1 to 12.")
WEEK = _part("week", 1, 53, "The ISO week, 1 to 53.")
DAY = _part("day", 1, 31, "The day of the month.")
DAY_OF_WEEK = _part("dayofweek", 0, 6, "The day of the week: 0 is Sunday, 6 is Saturday.")
DAY_OF_YEAR = _part("dayofyear", 1, 366, "The day of the year, 1 to 366.")
HOUR = _part("hour", 0, 23, "The hour, 0 to 23.", sql="HOUR(t)")
MINUTE = _part("minute", 0, 59, "The minute, 0 to 59.", sql="MINUTE(t)")
SECOND = _part("second", 0, 59, "The second, 0 to 59.", sql="SECOND(t)")

_PARTS = (YEAR, QUARTER, MONTH, WEEK, DAY, DAY_OF_WEEK, DAY_OF_YEAR, HOUR, MINUTE, SECOND)
PARTS = {part.name: part for part in _PARTS} | {"dow": DAY_OF_WEEK, "doy": DAY_OF_YEAR, "weekday": DAY_OF_WEEK}
"""By the name in EXTRACT."""

_UNITS = {"year": 366, "quarter": 92, "month": 31, "week": 7, "day": 1}
_TIMES = {"hour": 24, "minute": 1440, "second": 86400}


def _truncation(unit: str, kind: Type) -> Operator:
    is_date = kind is Type.DATE

    def emit(value: Node) -> Node:
        start = forms.StartOf(this=within_years(value), unit=exp.Var(this=unit.upper()))
        return cast(start, exp.DType.DATE) if is_date else start

    return Operator(
        f"{'date' if is_date else 'time'}_trunc_{unit}",
        only(kind, gives=kind),
        emit,
        f"a {'date' if is_date else 'time'}",
        sql=f"DATE_TRUNC('{unit}', {'d' if is_date else 't'})",
        meaning=f"The start of its {unit}, as a {'date' if is_date else 'time'}. {_NULL}",
    )


TRUNCATED = {(unit, Type.DATE): _truncation(unit, Type.DATE) for unit in _UNITS} | {
    (unit, Type.TIMESTAMP): _truncation(unit, Type.TIMESTAMP) for unit in (*_UNITS, *_TIMES)
}
"""DATE_TRUNC by unit and type."""


def _two_dates(types: Types) -> Type | None:
    known = {kind for kind in types if kind is not None}
    return Type.INTEGER if len(types) == 2 and len(known) <= 1 and known <= set(DATES) else None


def _difference(unit: str) -> Operator:
    most = _DAYS * _TIMES.get(unit, 1)
    return Operator(
        f"date_diff_{unit}",
        _two_dates,
        lambda a, b: forms.UnitsBetween(
            this=within_years(b), expression=within_years(a), unit=exp.Var(this=unit.upper())
        ),
        "two dates or two timestamps",
        bounds.always(-most, most),
        sql=f"DATE_DIFF('{unit}', d, d)" if unit in _UNITS else f"DATE_DIFF('{unit}', t, t)",
        meaning=f"The number of {unit} boundaries between the first and the second. NULL if either is NULL.",
    )


DIFFERENCES = {unit: _difference(unit) for unit in (*_UNITS, *_TIMES)}
"""DATE_DIFF by unit."""

_LONGEST = {
    "months": 120_000,
    "days": _DAYS,
    "seconds": _DAYS * 86400,
}  # about 10,000 years; the engine's limit is 290,000


def _shift(unit: str, kind: Type) -> Operator:
    is_date = kind is Type.DATE

    def emit(value: Node, count: Node) -> Node:
        step = exp.Interval(this=exp.Literal.string(count.sql()), unit=exp.Var(this=unit[:-1].upper()))
        moved: Node = exp.Paren(this=forms.Shifted(this=within_years(value), expression=step))
        return within_years(cast(moved, exp.DType.DATE) if is_date else moved)

    def admit(_: Expression, count: Expression) -> str | None:
        return None if is_whole(count, -_LONGEST[unit], _LONGEST[unit]) else "Use a constant, as in INTERVAL 3 DAY."

    return Operator(
        f"{'date' if is_date else 'time'}_add_{unit}",
        lambda types: kind if len(types) == 2 and types[0] in (kind, None) else None,
        emit,
        f"a {'date' if is_date else 'time'} and a constant interval",
        admit=admit,
        height=5,
        sql=f"{'d' if is_date else 't'} + INTERVAL 3 {unit[:-1].upper()}",
        meaning=f"That many {unit} later; `-` for earlier. {_MULTIPLES[unit]} NULL outside the years 1 to 9999.",
    )


_MULTIPLES = {
    "months": "Also takes years and quarters.",
    "days": "Also takes weeks.",
    "seconds": "Also takes hours and minutes.",
}

SHIFTED = {(unit, Type.DATE): _shift(unit, Type.DATE) for unit in ("months", "days")} | {
    (unit, Type.TIMESTAMP): _shift(unit, Type.TIMESTAMP) for unit in ("months", "days", "seconds")
}
"""Adding a constant interval, by unit and type."""

STEPS = {
    "year": ("months", 12),
    "quarter": ("months", 3),
    "month": ("months", 1),
    "week": ("days", 7),
    "day": ("days", 1),
    "hour": ("seconds", 3600),
    "minute": ("seconds", 60),
    "second": ("seconds", 1),
}
"""Each unit of an interval, in months, days or seconds."""

TEMPORAL = (*_PARTS, *TRUNCATED.values(), *DIFFERENCES.values(), *SHIFTED.values())
