"""Reads dates in SQL: parts, truncation, differences and intervals."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date, datetime, time, timedelta
from fractions import Fraction

from sqlglot import exp

from lapwing.expressions.expression import Expression, Literal
from lapwing.expressions.operators import dates, numbers
from lapwing.expressions.operators.casts import format_date
from lapwing.expressions.refusal import nearest, refuse
from lapwing.expressions.types import Type
from lapwing.sql.nodes import Apply, ReadForm, SqlNode, SqlReader, bare
from lapwing.sql.refusals import check_modifiers, part_of


def settle_today(statement: exp.Expr, today: date) -> exp.Expr:
    """A copy of the tree with the date for every CURRENT_DATE; the tree itself if there is none."""

    def written(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.CurrentDate) or any(node.args.values()):
            return node
        return exp.Cast(this=exp.Literal.string(today.isoformat()), to=exp.DataType(this=exp.DType.DATE))

    return statement.transform(written) if statement.find(exp.CurrentDate) else statement


def add(node: SqlNode, inner: SqlReader, apply: Apply) -> Expression:
    left, right = bare(node.this), bare(node.expression)
    if isinstance(left, exp.Interval):
        left, right = right, left
    if isinstance(right, exp.Interval):
        return _shift(inner(left), right, 1, node, apply)
    return apply(numbers.ADD, inner(left), inner(right))


def subtract(node: SqlNode, inner: SqlReader, apply: Apply) -> Expression:
    right = bare(node.expression)
    if isinstance(right, exp.Interval):
        return _shift(inner(node.this), right, -1, node, apply)
    first, second = inner(node.this), inner(right)
    if Type.TIMESTAMP in (first.type, second.type):
        refuse(
            "wrong-argument",
            part_of(node),
            "the difference of two timestamps needs a unit.",
            "Write DATE_DIFF('hour', from, to), which counts turns of the hour.",
        )
    if Type.DATE in (first.type, second.type):
        return apply(dates.DIFFERENCES["day"], second, first)
    return apply(numbers.SUBTRACT, first, second)


def _shift(value: Expression, interval: exp.Interval, sign: int, node: SqlNode, apply: Apply) -> Expression:
    """A date or timestamp plus a constant interval."""
    check_modifiers(interval)
    count, unit = interval.this, _unit(interval, dates.STEPS)
    if not isinstance(count, exp.Literal) or not re.fullmatch("-?[0-9]{1,12}", count.name):
        refuse(
            "wrong-argument", part_of(node), "an interval must be an integer with one unit.", "Write INTERVAL 3 DAY."
        )
    steps, factor = dates.STEPS[unit]
    if value.type is None or (steps, value.type) not in dates.SHIFTED:
        why = "hours, minutes and seconds can only be added to timestamps, not to dates."
        refuse("wrong-type", part_of(node), why, "Cast the date: CAST(d AS TIMESTAMP).")
    number = Literal(sign * int(count.name) * factor, Type.INTEGER)
    return apply(dates.SHIFTED[steps, value.type], value, number)


def interval_added(sign: int) -> ReadForm:
    def form(node: SqlNode, inner: SqlReader, apply: Apply) -> Expression:
        interval = bare(node.expression)
        if not isinstance(interval, exp.Interval):
            refuse(
                "wrong-argument",
                part_of(node),
                "an interval must be an integer with one unit.",
                "Write d + INTERVAL 3 DAY.",
            )
        return _shift(inner(node.this), interval, sign, node, apply)

    return form


def _unit(node: SqlNode, known: Iterable[str]) -> str:
    unit = node.args.get("unit")
    name = "" if unit is None else unit.name.lower()
    if name not in known and name.removesuffix("s") in known:
        name = name.removesuffix("s")
    if name not in known:
        refuse("wrong-argument", part_of(node), f"the unit `{name}` is not supported.", nearest(name, known))
    return name


def extract(node: SqlNode, inner: SqlReader, apply: Apply) -> Expression:
    return date_part(node, node.this, node.expression, inner, apply)


def date_part(node: SqlNode, name: SqlNode, value: SqlNode, inner: SqlReader, apply: Apply) -> Expression:
    part = dates.PARTS.get(name.name.lower())
    if part is None:
        refuse(
            "wrong-argument",
            part_of(node),
            f"the date part `{name.name[:20]}` is not supported.",
            nearest(name.name, dates.PARTS),
        )
    return apply(part, inner(value))


def truncate(node: SqlNode, inner: SqlReader, apply: Apply) -> Expression:
    value = inner(node.this)
    units = {unit: operator for (unit, kind), operator in dates.TRUNCATED.items() if kind is value.type}
    if not units:
        refuse("wrong-type", part_of(node), "it takes a date or a timestamp.", "Use a date or timestamp column.")
    return apply(units[_unit(node, units)], value)


def date_diff(node: SqlNode, inner: SqlReader, apply: Apply) -> Expression:
    operator = dates.DIFFERENCES[_unit(node, dates.DIFFERENCES)]
    return apply(operator, inner(node.expression), inner(node.this))


def at_zone(node: SqlNode, inner: SqlReader, _: Apply) -> Expression:
    value, zone = inner(node.this), bare(node.args["zone"])
    if not (isinstance(zone, exp.Literal) and zone.is_string):
        refuse("wrong-argument", part_of(node), "the zone must be a constant.", "Write AT TIME ZONE 'Europe/Oslo'.")
    return dates.at_time_zone(value, zone.name, part=lambda: part_of(node))


def strftime(node: SqlNode, inner: SqlReader, _: Apply) -> Expression:
    """STRFTIME(d, '%Y-%m'); DuckDB takes the format first as well."""
    value, text = inner(node.this), inner(node.args["format"])
    if isinstance(value, Literal):
        value, text = text, value
    return format_date(value, text, part=lambda: part_of(node))


def iso_weekday(node: SqlNode, inner: SqlReader, apply: Apply) -> Expression:
    """ISODOW: Monday is 1, Sunday 7."""
    shifted_day = apply(numbers.ADD, apply(dates.DAY_OF_WEEK, inner(node.this)), Literal(6, Type.INTEGER))
    return apply(numbers.ADD, apply(numbers.REMAINDER, shifted_day, Literal(7, Type.INTEGER)), Literal(1, Type.INTEGER))


def made_date(node: SqlNode, inner: SqlReader, _: Apply) -> Expression:
    """MAKE_DATE(2020, 12, 31) and MAKE_TIMESTAMP(2020, 12, 31, 10, 30, 0): a constant."""
    values = [part.value if isinstance(part, Literal) else None for part in map(inner, node.args.values())]
    whole = [value for value in values[:5] if type(value) is int]
    seconds = [Fraction(value) for value in values[5:] if isinstance(value, int | Fraction)]
    millionths = sum(seconds, Fraction(0)) * 10**6
    try:
        if len(whole) + len(seconds) == len(values) and millionths.denominator == 1 and 0 <= millionths < 60 * 10**6:
            day = date(*whole[:3])
            if isinstance(node, exp.DateFromParts):
                return Literal(day, Type.DATE)
            at = datetime.combine(day, time(hour=whole[3], minute=whole[4])) + timedelta(microseconds=int(millionths))
            return Literal(at, Type.TIMESTAMP)
    except (ValueError, OverflowError):
        pass
    instead = "Write DATE '2020-12-31' or TIMESTAMP '2020-12-31 10:30:00'."
    refuse("wrong-argument", part_of(node), "its arguments must be constants that make a date.", instead)
