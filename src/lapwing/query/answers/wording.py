"""What a picture says in words: the question, its condition, the values of keys."""

from __future__ import annotations

from typing import Any

from lapwing.errors import Bug
from lapwing.query.language.expression import Call, Column, Expression, Key, Literal
from lapwing.query.question import Question
from lapwing.query.types import shown

LONGEST_NAME, LONGEST_CONDITION = 60, 150
_LEVELS = {
    "or": 1,
    "and": 2,
    "not": 3,
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">=", "like", "ilike", "in", "is null", "is distinct from"), 4),
    **dict.fromkeys(("+", "-", "||"), 5),
    **dict.fromkeys(("*", "/", "%"), 6),
}
"""How tightly operators bind; all others are written as functions."""


def asked(question: Question) -> str:
    """What was asked, in a few words; a computed key has the name of its column in the answer."""
    names = {o.expression.index: o.name for o in question.outputs if isinstance(o.expression, Key)}
    by = [
        key.name if isinstance(key, Column) else names.get(index) or _cut(worded(key), LONGEST_NAME)
        for index, key in enumerate(question.keys)
    ]
    numbers = ", ".join(aggregate.words() for aggregate in question.aggregates)
    return f"{numbers} of {question.table.name}" + (f" by {', '.join(by)}" if by else "")


def condition(where: Expression) -> str:
    """Which rows count, in one line, cut short if it is long."""
    return _cut(label(f"where {worded(where)}"), LONGEST_CONDITION)


def worded(expression: Expression) -> str:
    """An expression over the columns of a row as an analyst would write it."""
    match expression:
        case Column(name=name):
            return name
        case Literal(value=str() as text):
            return "'{}'".format(text.replace("'", "''"))
        case Literal(value=value):
            return label(value)
        case Call():
            return _called(expression)
        case _:
            raise Bug("a released number stands in an expression over rows")


def _called(call: Call, no: str = "") -> str:
    name, arguments = call.operator.name, call.arguments
    match name, arguments:
        case "not", (Call() as inner,) if inner.operator.name in ("in", "is null"):
            return _called(inner, "not ")
        case "not", (inner,):
            return f"not {_within(inner, 7)}"
        case "is null", (inner,):
            return f"{_within(inner, 5)} is {no}null"
        case "in", (inner, *constants):
            return f"{_within(inner, 5)} {no}in ({', '.join(map(worded, constants))})"
        case _, (left, right) if name in _LEVELS:
            level = _LEVELS[name]
            alike = name in ("and", "or")
            return f"{_within(left, 5 if level == 4 else level)} {name} {_within(right, level if alike else level + 1)}"
        case _:
            return f"{name}({', '.join(map(worded, arguments))})"


def _within(expression: Expression, level: int) -> str:
    """Part of an expression, in brackets if it binds less tightly than this."""
    loose = isinstance(expression, Call) and _LEVELS.get(expression.operator.name, level) < level
    return f"({worded(expression)})" if loose else worded(expression)


def label(value: Any) -> str:
    """A key as text: one line, only characters that can be printed."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case str():
            text = " ".join("".join(c if c.isprintable() else " " for c in value).split())
            return text or "(empty)"
        case _:
            return shown(value)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 3].rstrip() + "..."
