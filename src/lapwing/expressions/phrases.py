"""An expression as text, for messages and charts."""

from __future__ import annotations

import datetime as dt
from typing import assert_never

from lapwing.expressions.expression import Call, Column, Expression, Key, Literal, Slot
from lapwing.expressions.types import Value, text_of

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
        case _:
            assert_never(expression)


def shorten(text: str, most: int = 60) -> str:
    """The text, shortened if it is long."""
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
            alike = name in ("and", "or")
            return f"{_within(left, 5 if level == 4 else level)} {name} {_within(right, level if alike else level + 1)}"
        case _:
            return f"{name}({', '.join(map(expression_text, arguments))})"


def _within(expression: Expression, level: int) -> str:
    """A subexpression, in parentheses if it binds less tightly than this."""
    loose = isinstance(expression, Call) and _LEVELS.get(expression.operator.name, level) < level
    return f"({expression_text(expression)})" if loose else expression_text(expression)
