"""Dates and timestamps. To every operator, those outside the years 1 to 9999 and infinite ones are NULL."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NoReturn

from sqlglot import exp

from lapwing.expressions import bounds, forms
from lapwing.expressions.expression import Call, Column, Expression, Literal, Operator, walk
from lapwing.expressions.operators.base import Node, PartText, Types, call, cast, is_whole, let, only, where
from lapwing.expressions.refusal import nearest, refuse
from lapwing.expressions.types import Type
from lapwing.expressions.zones import NONE, VERSION, offsets_of, zone_names

DATES = (Type.DATE, Type.TIMESTAMP)
_NULL = "NULL stays NULL."
_DAYS = 3_652_059  # in the years 1 to 9999


def within_years(node: Node) -> Node:
    """The date or timestamp if it lies in the years 1 to 9999, else NULL."""

    def test(value: Callable[[], Node]) -> Node:
        first, after = (cast(exp.Literal.string(day), exp.DType.DATE) for day in ("0001-01-01", "10000-01-01"))
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

_UNITS = ("year", "quarter", "month", "week", "day")
_TIMES = {"hour": 24, "minute": 1440, "second": 86400}
_WORDS = {Type.DATE: "date", Type.TIMESTAMP: "time"}


def _truncation(unit: str, kind: Type) -> Operator:
    word = _WORDS[kind]

    def emit(value: Node) -> Node:
        start = forms.StartOf(this=within_years(value), unit=exp.Var(this=unit.upper()))
        return cast(start, exp.DType.DATE) if kind is Type.DATE else start

    return Operator(
        f"{word}_trunc_{unit}",
        only(kind, gives=kind),
        emit,
        f"a {word}",
        sql=f"DATE_TRUNC('{unit}', {word[0]})",
        meaning=f"The start of its {unit}, as a {word}. {_NULL}",
    )


TRUNCATED = {(unit, Type.DATE): _truncation(unit, Type.DATE) for unit in _UNITS} | {
    (unit, Type.TIMESTAMP): _truncation(unit, Type.TIMESTAMP) for unit in (*_UNITS, *_TIMES)
}
"""DATE_TRUNC by unit and type."""


def _two_dates(types: Types) -> Type | None:
    kinds = {kind for kind in types if kind is not None}
    return Type.INTEGER if len(types) == 2 and len(kinds) <= 1 and kinds <= set(DATES) else None


def _difference(unit: str) -> Operator:
    most, letter = _DAYS * _TIMES.get(unit, 1), "t" if unit in _TIMES else "d"

    def emit(a: Node, b: Node) -> Node:
        return forms.UnitsBetween(this=within_years(b), expression=within_years(a), unit=exp.Var(this=unit.upper()))

    return Operator(
        f"date_diff_{unit}",
        _two_dates,
        emit,
        "two dates or two timestamps",
        bounds.always(-most, most),
        sql=f"DATE_DIFF('{unit}', {letter}, {letter})",
        meaning=f"The number of {unit} boundaries between the first and the second. NULL if either is NULL.",
    )


DIFFERENCES = {unit: _difference(unit) for unit in (*_UNITS, *_TIMES)}
"""DATE_DIFF by unit."""

_LONGEST = {"months": 120_000, "days": _DAYS, "seconds": _DAYS * 86400}
"""About 10,000 years; the engine's limit is 290,000."""
_MULTIPLES = {"months": "years and quarters", "days": "weeks", "seconds": "hours and minutes"}


def _shift(unit: str, kind: Type) -> Operator:
    word = _WORDS[kind]

    def emit(value: Node, count: Node) -> Node:
        step = exp.Interval(this=exp.Literal.string(count.sql()), unit=exp.Var(this=unit[:-1].upper()))
        moved: Node = exp.Paren(this=forms.Shift(this=within_years(value), expression=step))
        return within_years(cast(moved, exp.DType.DATE) if kind is Type.DATE else moved)

    def admit(_: Expression, count: Expression) -> str | None:
        return None if is_whole(count, -_LONGEST[unit], _LONGEST[unit]) else "Use a constant, as in INTERVAL 3 DAY."

    return Operator(
        f"{word}_add_{unit}",
        lambda types: kind if len(types) == 2 and types[0] in (kind, None) else None,
        emit,
        f"a {word} and a constant interval",
        admit=admit,
        height=5,
        sql=f"{word[0]} + INTERVAL 3 {unit[:-1].upper()}",
        meaning=f"That many {unit} later; `-` for earlier. Also takes {_MULTIPLES[unit]}. "
        "NULL outside the years 1 to 9999.",
    )


SHIFTED = {(unit, Type.DATE): _shift(unit, Type.DATE) for unit in ("months", "days")} | {
    (unit, Type.TIMESTAMP): _shift(unit, Type.TIMESTAMP) for unit in _LONGEST
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

_LOCAL = "at_time_zone"


@cache
def _local_time(zone: str) -> Operator:
    """The version of the database is part of the name: with another one it is another question."""

    def emit(value: Node) -> Node:
        if isinstance(value, exp.Column):
            return forms.LocalTime(this=value, zone=zone)
        named = exp.column(forms.LOCAL, quoted=True)  # however short it is: it occurs at every change of the offset
        return forms.Let(this=value, body=forms.LocalTime(this=named, zone=zone))

    return Operator(
        f"{_LOCAL} {zone} {VERSION}",
        only(Type.TIMESTAMP, gives=Type.TIMESTAMP),
        emit,
        "a timestamp",
        height=12,
        sql=f"t AT TIME ZONE '{zone}'",
        meaning="The local time, of a column whose own time zone is known; without it, a column with a time zone is in "
        "UTC. Offsets are those of the tz database; from 2100 on the last one holds. NULL outside the years 1 to 9999.",
    )


def is_local(expression: Expression) -> bool:
    return isinstance(expression, Call) and expression.operator.name.startswith(_LOCAL)


def at_time_zone(value: Expression, zone: str, *, part: PartText) -> Expression:
    """The local time in a zone; refused if the zone of the value is unknown."""
    name, own = zone_names().get(zone.lower()), zone_of(value)
    if name is None:
        why = "there is no such time zone."
        refuse("wrong-argument", part(), why, nearest(zone[:40], zone_names().values()))
    if own is None:
        _refuse_unknown(value, part)
    if own == name or offsets_of(own) == offsets_of(name) == NONE:
        return value
    if offsets_of(own) != NONE:
        why = f"its times are local times of {own}, where an hour may come twice."
        refuse("wrong-argument", part(), why, f"Use AT TIME ZONE '{own}', or have the steward store times in UTC.")
    return call(_local_time(name), value, part=part)


def _refuse_unknown(value: Expression, part: PartText) -> NoReturn:
    for column in walk(value):
        if isinstance(column, Column) and column.type is Type.TIMESTAMP and column.zone is None:
            line = f'zones={{"{column.name}": "UTC"}}, or zone = "UTC" beside its type in lapwing.toml'
            why = f"the time zone of `{column.name}` is not declared."
            refuse("wrong-argument", part(), why, f"If its times are in UTC, have the steward declare it: {line}.")
    why = "it takes a timestamp column that has a time zone, or one computed from it."
    refuse("wrong-type", part(), why, "Write t AT TIME ZONE 'Europe/Oslo' once, where t is the column.")


def zone_of(expression: Expression) -> str | None:
    """The zone in which a timestamp is stored, if it is known: that of the columns it comes from."""
    match expression:
        case Column(zone=zone):
            return zone
        case Call(arguments=arguments, type=Type.TIMESTAMP) if not is_local(expression):
            zones = {zone_of(a) for a in arguments if a.type is Type.TIMESTAMP and not isinstance(a, Literal)}
            return zones.pop() if len(zones) == 1 else None
        case _:
            return None


TEMPORAL = (*_PARTS, *TRUNCATED.values(), *DIFFERENCES.values(), *SHIFTED.values(), _local_time("Europe/Oslo"))
