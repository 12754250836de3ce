"""What answers and pictures say in words: the question, its condition, the values of keys."""

from __future__ import annotations

from typing import Any

from lapwing.expressions.expression import Column, Expression, Key
from lapwing.expressions.phrases import expression_text, shorten
from lapwing.expressions.types import text_of
from lapwing.plan.question import Question

_LONGEST = 150  # characters of a condition


def asked(question: Question) -> str:
    """What was asked, in a few words; a computed key has the name of its column in the answer."""
    names = {o.expression.index: o.name for o in question.outputs if isinstance(o.expression, Key)}
    by = [
        key.name if isinstance(key, Column) else names.get(index) or shorten(expression_text(key))
        for index, key in enumerate(question.keys)
    ]
    numbers = ", ".join(aggregate.words() for aggregate in question.aggregates)
    return f"{numbers} of {question.table.name}" + (f" by {', '.join(by)}" if by else "")


def condition(where: Expression) -> str:
    """Which rows count, in one line, cut short if it is long."""
    return shorten(label(f"where {expression_text(where)}"), _LONGEST)


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
            return text_of(value)
