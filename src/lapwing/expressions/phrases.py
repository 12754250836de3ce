"""An expression as text, for messages and charts; and what to write if an operator does not take its arguments."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from lapwing.expressions.expression import Call, Column, Expression, Key, Literal, Slot
from lapwing.expressions.types import Type, Value, text_of

_LEVELS = {
    "or": 1,
    "and": 2,
    "not": 3,
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">=", "like", "ilike", "in", "is null", "is distinct from"), 4),
    **dict.fromkeys(("+", "-", "||"), 5),
    **dict.fromkeys(("*", "/", "%"), 6),
}
"""The precedence of operators; all others are written as functions."""

_RESERVED = """
all and any as asc between both case cast check column create default desc distinct else end except exists false for
foreign from full group having in inner intersect into is join left like limit natural not null offset on or order
outer primary references right select some table then to true union unique using when where window with
"""
_WORDS = frozenset(_RESERVED.split())


def name_text(name: str) -> str:
    """A name as it is written in SQL: in double quotes unless it is a plain word."""
    if name.isidentifier() and name.lower() not in _WORDS:
        return name
    return '"{}"'.format(name.replace('"', '""'))


def units_text(unit: str | None) -> str:
    """How many units there are, as an analyst writes it."""
    return f"COUNT(DISTINCT {name_text(unit or 'unit')})"


def expression_text(expression: Expression) -> str:
    """The expression as an analyst would write it, with parentheses only where needed."""
    match expression:
        case Column(name=name):
            return name_text(name)
        case Literal(value=value):
            return _constant(value)
        case Key(index=index):
            return f"@{index}"
        case Slot(index=index):
            return f"#{index}"
        case Call():
            return _call_text(expression)


def shorten(text: str, most: int = 60) -> str:
    return text if len(text) <= most else text[: most - 3].rstrip() + "..."


def _constant(value: Value) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case str():
            return "'{}'".format(value.replace("'", "''"))
        case dt.datetime():
            return f"TIMESTAMP '{value}'"
        case dt.date():
            return f"DATE '{value}'"
        case _:
            return text_of(value)


def _call_text(call: Call, no: str = "") -> str:
    name, arguments = call.operator.name, call.arguments
    match name, arguments:
        case "not", (Call() as inner,) if inner.operator.name in ("in", "is null"):
            return _call_text(inner, "not ")
        case "not", (inner,):
            return f"not {_within(inner, 7)}"
        case "is null", (inner,):
            return f"{_within(inner, 5)} is {no}null"
        case "in", (inner, *constants):
            return f"{_within(inner, 5)} {no}in ({', '.join(map(expression_text, constants))})"
        case "case", (*pairs, other) if len(pairs) % 2 == 0:
            texts = list(map(expression_text, pairs))
            whens = [f"WHEN {when} THEN {then}" for when, then in zip(texts[::2], texts[1::2], strict=True)]
            otherwise = [] if other == Literal(None, None) else [f"ELSE {expression_text(other)}"]
            return " ".join(["CASE", *whens, *otherwise, "END"])
        case _, (moved, Literal(value=int() as steps)) if "_add_" in name:
            unit = name.rpartition("_")[2].removesuffix("s").upper()
            return f"{_within(moved, 5)} {'-' if steps < 0 else '+'} INTERVAL {abs(steps)} {unit}"
        case _, (value,) if name.startswith("at_time_zone"):
            text = expression_text(value)
            return f"{text if isinstance(value, Column) else f'({text})'} AT TIME ZONE '{name.split()[1]}'"
        case _, (left, right) if name in _LEVELS:
            level = _LEVELS[name]
            right_level = level if name in ("and", "or") else level + 1
            return f"{_within(left, 5 if level == 4 else level)} {name} {_within(right, right_level)}"
        case _:
            return f"{name}({', '.join(map(expression_text, arguments))})"


def _within(expression: Expression, level: int) -> str:
    """A subexpression, in parentheses if it binds less tightly than this."""
    loose = isinstance(expression, Call) and _LEVELS.get(expression.operator.name, level) < level
    return f"({expression_text(expression)})" if loose else expression_text(expression)


_NOUNS = {
    Type.INTEGER: "an integer",
    Type.REAL: "a real number",
    Type.TEXT: "text",
    Type.BOOLEAN: "boolean",
    Type.DATE: "a date",
    Type.TIMESTAMP: "a timestamp",
}
_NO = frozenset({"no", "n", "false", "f", "0", "off"})
_COMPARED = frozenset({"=", "<>", "<", "<=", ">", ">="})
_OF_TEXT = frozenset({"lower", "upper", "trim", "ltrim", "rtrim", "length"})


def types_of(arguments: Sequence[Expression]) -> str:
    """Each argument with its type: `medicaid` is boolean and 'yes' is text."""
    typed = dict.fromkeys(f"{_shown(part)} is {_NOUNS[part.type]}" for part in arguments if part.type is not None)
    *first, last = list(typed)[:4] or ["it has no values but NULL"]
    return f"{', '.join(first)} and {last}." if first else f"{last}."


def cure_of(operator: str, arguments: Sequence[Expression], takes: str) -> str:
    """A rewrite that works for these types, or what the operator takes."""
    match operator, tuple(arguments):
        case ("=" | "<>", (Column(type=Type.BOOLEAN) as one, Literal() as other)) | (
            "=" | "<>",
            (Literal() as other, Column(type=Type.BOOLEAN) as one),
        ):
            opposite = (str(other.value).lower() in _NO) != (operator == "<>")
            return f"Write WHERE {'NOT ' if opposite else ''}{_bare(one)}."
        case "in", (Column(type=Type.TEXT) as one, *others) if all(map(_is_number, others)):
            numbers = ", ".join(_bare(other) for other in others[:3])
            more = ", ..." if len(others) > 3 else ""
            return f"Write CAST({_bare(one)} AS {_number_type(others)}) IN ({numbers}{more})."
        case name, (Column(type=Type.TEXT) as one, Literal() as other) if name in _COMPARED and _is_number(other):
            text = expression_text(other)
            texts = f", or {_bare(one)} {name} '{text}' to compare texts" if name in ("=", "<>") else ""
            return f"Write CAST({_bare(one)} AS {_number_type([other])}) {name} {text}{texts}."
        case name, (one, other) if name in _COMPARED and {one.type, other.type} == {Type.DATE, Type.TIMESTAMP}:
            day = one if one.type is Type.DATE else other
            return f"Write CAST({_bare(day)} AS TIMESTAMP)."
        case name, (one, other) if name in _COMPARED and _is_day(one) != _is_day(other):
            day = one if _is_day(one) else other
            return f"Compare with a date: {_bare(day)} >= DATE '2020-12-31', or use YEAR({_bare(day)})."
        case name, (one, other, *_) if name in _COMPARED and _is_number(one) and other.type is Type.TEXT:
            if isinstance(other, Literal):
                return f"Compare with a number: {_bare(one)} = 40."
            return f"Write CAST({_bare(other)} AS INTEGER)."
        case name, (one,) if name in _OF_TEXT and one.type in (Type.INTEGER, Type.BOOLEAN, Type.DATE):
            return f"Write {name.upper()}(CAST({_bare(one)} AS TEXT))."
        case "like" | "ilike" as name, (one, pattern) if one.type in (Type.INTEGER, Type.BOOLEAN, Type.DATE):
            return f"Write CAST({_bare(one)} AS TEXT) {name.upper()} {_bare(pattern)}."
        case "and" | "or" | "not", parts if any(_is_number(part) for part in parts):
            one = next(part for part in parts if _is_number(part))
            return f"Write {_bare(one)} <> 0 as the condition."
        case "+" | "-", (one, Literal(type=Type.INTEGER) as days) if _is_day(one):
            return f"Write {_bare(one)} {operator} INTERVAL {_bare(days)} DAY."
        case "+" | "-" | "*" | "/" | "%", parts if any(part.type is Type.TEXT for part in parts):
            one = next(part for part in parts if part.type is Type.TEXT)
            return f"Write CAST({_bare(one)} AS INTEGER); || joins texts."
    return f"Pass {takes}."


def cure_of_cast(value: Expression, kind: Type) -> str:
    """What to write instead of a cast that engines do in different ways."""
    match value.type, kind:
        case Type.REAL, Type.TEXT:
            return f"Write CAST({_bare(value)} AS INTEGER), which rounds."
        case Type.TIMESTAMP, Type.TEXT:
            return f"Write STRFTIME({_bare(value)}, '%Y-%m-%d %H:%M:%S'), which leaves out fractions of a second."
        case ((Type.DATE | Type.TIMESTAMP), (Type.INTEGER | Type.REAL)):
            return f"Write DATE_DIFF('day', DATE '1970-01-01', CAST({_bare(value)} AS DATE)), which counts days."
    return "Use a comparison, or YEAR, MONTH and DAY of a date, which are numbers."


def _shown(part: Expression) -> str:
    return _bare(part) if isinstance(part, Literal) else f"`{_bare(part)}`"


def _bare(part: Expression) -> str:
    if isinstance(part, Key | Slot):
        return "a key" if isinstance(part, Key) else "a released number"
    return shorten(expression_text(part), 40)


def _number_type(parts: Sequence[Expression]) -> str:
    return "INTEGER" if all(part.type is Type.INTEGER for part in parts) else "DOUBLE"


def _is_number(part: Expression) -> bool:
    return part.type is not None and part.type.is_number


def _is_day(part: Expression) -> bool:
    return part.type in (Type.DATE, Type.TIMESTAMP)
