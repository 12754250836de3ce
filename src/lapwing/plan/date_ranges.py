"""For which dates and times a key is computed: those of a declared range, or of one that constants in WHERE fix.

A date is tried for every day of the range. A timestamp is tried at the start of every day, hour, minute or second: the
longest step in which all operators above it have one value. Local times have a range of their own.

Guarantee:  the dates are a function of the question and of declared facts.
Proof:      only the key, WHERE, the catalog and the tz database are read.
Complete:   where WHERE is true, so is each condition that AND joins in it: a date that is compared with a constant is
            then on the side that the comparison says, and not NULL. A range is cut into steps counted from midnight,
            and the operators that `_STEPS` lists have one value in a step, so its start gives the value of every time
            in it, also where the range begins later in that step. Of local times between the least and the greatest,
            a change of the clock may skip an hour: its key is listed too.
Checked by: tests/plan/test_date_ranges.py
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta

from lapwing.engines.public_values import calculate
from lapwing.expressions.expression import Call, Column, Expression, Literal, walk
from lapwing.expressions.operators import dates, logic
from lapwing.expressions.operators.casts import TO_DATE
from lapwing.expressions.table import Table
from lapwing.expressions.to_sqlglot import whole
from lapwing.expressions.types import Span, Type, Value
from lapwing.expressions.zones import offsets_of

_DAY = 86_400
_SECONDS = {"hour": 3600, "minute": 60, "second": 1}
_STEPS = {
    TO_DATE: _DAY,
    **{part: _SECONDS.get(part.name, _DAY) for part in dates.PARTS.values()},
    **{start: _SECONDS.get(unit, _DAY) for (unit, _), start in dates.TRUNCATED.items()},
    **{difference: _SECONDS.get(unit, _DAY) for unit, difference in dates.DIFFERENCES.items()},
}
"""Seconds within which a timestamp can move, from one midnight on, while the operator keeps its value."""
_STARTS = set(dates.TRUNCATED.values())
_SHIFT_SECONDS = dates.SHIFTED["seconds", Type.TIMESTAMP]
_KEPT = {logic.COALESCE, logic.LEAST, logic.GREATEST, *dates.SHIFTED.values()} - {_SHIFT_SECONDS}
"""Operators whose result is in the step of their dates, or whole steps later."""
_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "="}


@dataclass(frozen=True, slots=True)
class DateRange:
    """What is known of a date, a timestamp or a local time."""

    span: Span
    null: bool
    """Whether it can be NULL: not where WHERE compares it."""
    declared: bool
    """Whether its column has declared bounds."""


def tried_dates(
    key: Expression, table: Table, where: Expression | None, most: int
) -> dict[Expression, tuple[tuple[date, ...], DateRange]]:
    """The dates and times, at most so many of each part, that a key is computed for; only of parts with a range."""
    steps: dict[Expression, list[int]] = {}
    for part, step in _steps(key, 0):
        steps.setdefault(part, []).append(step)
    tried = {}
    for part, own in steps.items():
        known = range_of(part, table, where) if all(own) else None
        if known is not None and (starts := _starts(known.span, timedelta(seconds=math.gcd(*own)), most)):
            tried[part] = starts, known
    return tried


def range_of(part: Expression, table: Table, where: Expression | None) -> DateRange | None:
    """The range of a column, or of its local time, if it is public."""
    span, null, declared = None, True, False
    match part:
        case Column(name=name) if not table.field(name).values:
            span = table.field(name).span
            declared = span is not None
        case Call(arguments=(Column() as column, *_)) if (inner := range_of(column, table, where)) is not None:
            span, null, declared = _local(part, inner.span), inner.null, inner.declared
        case Column():
            return None
    low, high = (None, None) if span is None else (span.low, span.high)
    for compared, first, last in _limits(where):
        if compared == part:
            null = False
            low = max(filter(None, (low, first)), default=None)
            high = min(filter(None, (high, last)), default=None)
    return None if low is None or high is None else DateRange(Span(low, high), null, declared)


def is_date(expression: Expression) -> bool:
    """Whether a range may be known of it: a column, or its local time."""
    if isinstance(expression, Call):
        return dates.is_local(expression) and isinstance(expression.arguments[0], Column)
    return isinstance(expression, Column) and expression.type in dates.DATES


def _steps(expression: Expression, outer: int) -> Iterator[tuple[Expression, int]]:
    """The dates in an expression, and in which steps all above them has one value; 0 if there is none. `outer` is the
    step of what is above the expression."""
    if is_date(expression):
        yield expression, _DAY if expression.type is Type.DATE else outer
    elif isinstance(expression, Call):
        operator, arguments = expression.operator, expression.arguments
        own = _STEPS.get(operator, 0)
        if operator in _KEPT or (operator in _STARTS and outer and outer % own == 0):
            own = outer
        elif operator == _SHIFT_SECONDS and outer:
            own = math.gcd(outer, int(str(getattr(arguments[1], "value", 1))))
        for argument in arguments:
            yield from _steps(argument, own)


def _starts(span: Span, step: timedelta, most: int) -> tuple[date, ...]:
    """The starts of the steps that meet a range; none if there are too many."""
    first = span.low
    if isinstance(first, datetime):
        midnight = datetime.combine(first, time.min)
        first = midnight + (first - midnight) // step * step
    count = (span.high - first) // step + 1
    return tuple(first + step * i for i in range(count)) if count <= most else ()


def _local(part: Call, span: Span) -> Span | None:
    """From the least local time to the greatest."""
    changes, offsets = offsets_of(part.operator.name.split()[1])
    turns = [change for change in changes if isinstance(span.low, datetime) and span.low < change <= span.high]
    times = [span.low, span.high, *turns, *(turn - timedelta(microseconds=1) for turn in turns)]
    with suppress(OverflowError):
        local = [at + timedelta(seconds=offsets[bisect_right(changes, at)]) for at in times]
        return Span(min(local), max(local))
    return None


def _limits(where: Expression | None) -> Iterator[tuple[Expression, date | None, date | None]]:
    """Each date that a condition compares with constants, with the first and the last that pass, where there is one."""
    todo = [] if where is None else [where]
    while todo:
        match todo.pop():
            case Call(operator=logic.AND, arguments=arguments):
                todo += arguments
            case Call(operator=operator, arguments=(left, *others)) if operator == logic.IN:
                yield from _compared(left, "=", others)
            case Call(operator=operator, arguments=(left, right)) if operator.name in _TURNED:
                yield from _compared(left, operator.name, [right])
                yield from _compared(right, _TURNED[operator.name], [left])


def _compared(
    function: Expression, name: str, others: list[Expression]
) -> Iterator[tuple[Expression, date | None, date | None]]:
    """What it says of a date that it, its day or its year is compared with these constants."""
    daily = isinstance(function, Call) and function.operator in (TO_DATE, dates.YEAR)
    part = function.arguments[0] if daily and isinstance(function, Call) else function
    constants = [value for value in map(_constant, others) if value is not None] if is_date(part) else []
    step = timedelta(days=1) if part.type is Type.DATE else timedelta(microseconds=1)
    with suppress(OverflowError, ValueError, TypeError):  # a year beyond 9999 or with decimals says nothing
        pairs = [_reach(part, value) if daily else (value, value) for value in constants]
        first, last = min(low for low, _ in pairs), max(high for _, high in pairs)
        match name:
            case "=":
                yield part, first, last
            case ">" | ">=":
                yield part, first if name == ">=" else last + step, None
            case _:
                yield part, None, last if name == "<=" else first - step


def _reach(part: Expression, value: Value) -> tuple[date, date]:
    """The first and the last date or time of a day or a year."""
    first, last = (value, value) if isinstance(value, date) else (date(value, 1, 1), date(value, 12, 31))  # type: ignore[arg-type]
    return (
        (first, last)
        if part.type is Type.DATE
        else (datetime.combine(first, time.min), datetime.combine(last, time.max))
    )


def _constant(expression: Expression) -> Value:
    """The value of an expression without columns; None if it has some, or is NULL."""
    if isinstance(expression, Literal):
        return expression.value
    if not all(isinstance(part, Call | Literal) for part in walk(expression)):
        return None
    (values,) = calculate([expression], {}, {}, 1, whole)
    return values.to_pylist()[0]  # type: ignore[no-any-return]
