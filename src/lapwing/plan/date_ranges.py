"""For which dates and times a key is computed: those of a declared range, or of one that constants in WHERE fix.

A date is tried for every day of the range, and a timestamp at the start of every day, hour, minute or second: the
longest step in which every operator on it has one value. Local times have a range of their own.

Guarantee:  the dates are a function of the question and of declared facts.
Proof:      only the key, WHERE, the catalog and the tz database are read.
Complete:   where WHERE is true, so is each condition that AND joins in it: a date that is compared with a constant is
            then on the side that the comparison says, and not NULL. Steps are counted from midnight, and operators in
            `_STEPS` have one value in each, so the start of a step gives the value of every time in it, also if the
            range begins later. The key of an hour that a change of the clock skips is listed too.
Checked by: tests/plan/test_date_ranges.py
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from itertools import islice
from typing import Any

from lapwing.engines.public_values import calculate
from lapwing.expressions.expression import Call, Column, Expression, Literal, walk
from lapwing.expressions.operators import dates, logic
from lapwing.expressions.operators.casts import TO_DATE
from lapwing.expressions.table import Table
from lapwing.expressions.to_sqlglot import whole
from lapwing.expressions.types import Span, Type
from lapwing.expressions.zones import offsets_of

_DAY, _TICK = 86_400, timedelta(microseconds=1)
_SECONDS = {"hour": 3600, "minute": 60, "second": 1}
_STEPS = {
    TO_DATE: _DAY,
    **{part: _SECONDS.get(part.name, _DAY) for part in dates.PARTS.values()},
    **{start: _SECONDS.get(unit, _DAY) for (unit, _), start in dates.TRUNCATED.items()},
    **{difference: _SECONDS.get(unit, _DAY) for unit, difference in dates.DIFFERENCES.items()},
}
"""Seconds within which a timestamp can move, from one midnight on, while the operator keeps its value."""
_MOST_LIMITS = 20  # conditions on one date that are looked at, so that no plan takes long
_Limit = tuple[date | None, date | None]
_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "="}


def tried_dates(
    key: Expression, table: Table, where: Expression | None, most: int
) -> dict[Expression, tuple[tuple[date, ...], bool]]:
    """The dates that a key is computed for, at most so many of each part, and whether the part may be NULL."""
    steps: dict[Expression, int] = {}
    for part, step in _steps(key, 0):
        steps[part] = min(step, steps.get(part, step))
    ranges = ((part, step, range_of(part, table, where)) for part, step in steps.items() if step)
    return {part: (days, own[1]) for part, step, own in ranges if own and (days := _starts(own[0], step, most))}


def range_of(part: Expression, table: Table, where: Expression | None) -> tuple[Span, bool] | None:
    """The public range of a column or of its local time, if there is one, and whether it may be NULL."""
    span, null = None, True
    if isinstance(part, Call) and (inner := range_of(part.arguments[0], table, where)):
        span, null = _local(part, inner[0]), inner[1]
    elif isinstance(part, Column) and not table.field(part.name).values:
        span = table.field(part.name).span
    low, high = (span.low, span.high) if span else (None, None)
    for first, last in islice(_limits(where, part), _MOST_LIMITS):
        low, high = max(filter(None, (low, first)), default=None), min(filter(None, (high, last)), default=None)
        null = False
    return None if low is None or high is None else (Span(low, high), null)


def is_date(expression: Expression) -> bool:
    """Whether a range may be known of it: a column, or its local time."""
    column = expression.arguments[0] if isinstance(expression, Call) and dates.is_local(expression) else expression
    return isinstance(column, Column) and column.type in dates.DATES


def _steps(expression: Expression, step: int) -> Iterator[tuple[Expression, int]]:
    """The dates in an expression, and in which step the operator above has one value; 0 if there is none."""
    if is_date(expression):
        yield expression, _DAY if expression.type is Type.DATE else step
    elif isinstance(expression, Call):
        for argument in expression.arguments:
            yield from _steps(argument, _STEPS.get(expression.operator, 0))


def _starts(span: Span, seconds: int, most: int) -> tuple[date, ...]:
    """The starts of the steps that meet a range; none if there are too many."""
    first, step = span.low, timedelta(seconds=seconds)
    if isinstance(first, datetime):
        midnight = datetime.combine(first, time.min)
        first = midnight + (first - midnight) // step * step
    count = (span.high - first) // step + 1
    return tuple(first + step * i for i in range(count)) if count <= most else ()


def _local(part: Call, span: Span) -> Span | None:
    """From the least local time to the greatest."""
    changes, offsets = offsets_of(part.operator.name.split()[1])
    turns = (at for change in changes if span.low < change <= span.high for at in (change - _TICK, change))
    with suppress(OverflowError):
        local = [at + timedelta(seconds=offsets[bisect_right(changes, at)]) for at in (span.low, span.high, *turns)]
        return Span(min(local), max(local))
    return None


def _limits(where: Expression | None, part: Expression) -> Iterator[_Limit]:
    """The first and the last value, where there is one, that pass each condition that compares it with constants."""
    todo = [] if where is None else [where]
    while todo:
        match todo.pop():
            case Call(operator=logic.AND, arguments=arguments):
                todo += arguments
            case Call(operator=logic.IN, arguments=(left, *others)):
                yield from _compared(part, left, "=", others)
            case Call(operator=operator, arguments=(left, right)) if operator.name in _TURNED:
                yield from _compared(part, left, operator.name, [right])
                yield from _compared(part, right, _TURNED[operator.name], [left])


def _compared(part: Expression, function: Expression, name: str, others: Sequence[Expression]) -> Iterator[_Limit]:
    """What it says of a date that it, its day or its year is compared with these constants."""
    daily = isinstance(function, Call) and function.operator in (TO_DATE, dates.YEAR) and function.arguments[0] == part
    leaves = (leaf for other in others for leaf in walk(other))
    if not (daily or function == part) or not all(isinstance(leaf, Call | Literal) for leaf in leaves):
        return
    values = [value for value in map(_constant, others) if value is not None]
    with suppress(OverflowError, ValueError, TypeError):  # no value, or a year that is not from 1 to 9999
        days = [value if isinstance(value, date) else date(value, 1, 1) for value in values]
        first, last = min(days), max(days).replace(month=12, day=31) if isinstance(values[0], int) else max(days)
        if daily and part.type is Type.TIMESTAMP:
            first, last = datetime.combine(first, time.min), datetime.combine(last, time.max)
        step = timedelta(days=1) if part.type is Type.DATE else _TICK
        low = {"=": first, ">=": first, ">": last + step}.get(name)
        yield low, {"=": last, "<=": last, "<": first - step}.get(name)


@lru_cache(maxsize=1024)
def _constant(expression: Expression) -> Any:
    """The value of an expression without columns. It is remembered: one question needs it many times."""
    if isinstance(expression, Literal):
        return expression.value
    return calculate([expression], {}, {}, 1, whole)[0].to_pylist()[0]
