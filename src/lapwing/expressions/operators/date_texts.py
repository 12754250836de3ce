"""Dates as text, from our own date parts: names of days and months, and STRFTIME with a constant format."""

from __future__ import annotations

from functools import partial

from lapwing.expressions.expression import Call, Expression, Literal, Operator
from lapwing.expressions.operators import dates
from lapwing.expressions.operators.base import PartText, call, join_terms
from lapwing.expressions.operators.casts import INTEGER_TO_TEXT
from lapwing.expressions.operators.logic import CASE, EQUAL
from lapwing.expressions.operators.text import JOIN, RIGHT
from lapwing.expressions.refusal import refuse
from lapwing.expressions.types import Type

DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip

FORMATS: dict[str, tuple[Operator, int]] = {
    "Y": (dates.YEAR, 4),
    "m": (dates.MONTH, 2),
    "d": (dates.DAY, 2),
    "H": (dates.HOUR, 2),
    "M": (dates.MINUTE, 2),
    "S": (dates.SECOND, 2),
    "j": (dates.DAY_OF_YEAR, 3),
}
"""The codes of a format: a date part, and how many digits it has."""

MOST_FORMAT = 40


def day_name(value: Expression, *, part: PartText) -> Call:
    """The English name of the day of the week."""
    return _name(call(dates.DAY_OF_WEEK, value, part=part), DAYS, 0, part)


def month_name(value: Expression, *, part: PartText) -> Call:
    """The English name of the month."""
    return _name(call(dates.MONTH, value, part=part), MONTHS, 1, part)


def _name(number: Expression, names: tuple[str, ...], first: int, part: PartText) -> Call:
    apply = partial(call, part=part)
    arguments: list[Expression] = []
    for place, name in enumerate(names, start=first):
        arguments += [apply(EQUAL, number, Literal(place, Type.INTEGER)), Literal(name, Type.TEXT)]
    return apply(CASE, *arguments, Literal(None, None))


def format_date(value: Expression, text: Expression, *, part: PartText) -> Expression:
    """The date as text: each code of the format becomes digits, with zeros in front; the rest stays as it is."""
    if not isinstance(text, Literal) or not isinstance(text.value, str) or not 1 <= len(text.value) <= MOST_FORMAT:
        refuse("wrong-argument", part(), "its format must be a constant.", "For example: STRFTIME(d, '%Y-%m').")
    terms = [_term(piece, value, part) for piece in _pieces(text.value, part)]
    return join_terms(JOIN, terms, part=part)


def _pieces(text: str, part: PartText) -> list[str]:
    """Codes such as %Y, and the text between them."""
    found: list[str] = []
    place = 0
    while place < len(text):
        code = text[place : place + 2] if text[place] == "%" else ""
        if code and code[1:] not in FORMATS:
            known = " ".join(f"%{letter}" for letter in FORMATS)
            refuse("wrong-argument", part(), f"the code `{code}` is not supported.", f"Use {known}.")
        end = place + 2 if code else (text.find("%", place) if "%" in text[place:] else len(text))
        found.append(text[place:end])
        place = end
    if not any(piece.startswith("%") for piece in found):
        refuse("wrong-argument", part(), "its format has no code.", "For example: STRFTIME(d, '%Y-%m').")
    return found


def _term(piece: str, value: Expression, part: PartText) -> Expression:
    if not piece.startswith("%"):
        return Literal(piece, Type.TEXT)
    operator, digits = FORMATS[piece[1:]]
    number = call(INTEGER_TO_TEXT, call(operator, value, part=part), part=part)
    padded = call(JOIN, Literal("0" * (digits - 1), Type.TEXT), number, part=part)
    return call(RIGHT, padded, Literal(digits, Type.INTEGER), part=part)
