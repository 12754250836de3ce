"""Casts, and dates as text: names of days and months, and STRFTIME with a constant format.

No cast can fail: a value that cannot be converted becomes NULL, so CAST, TRY_CAST and `::` are the same."""

from __future__ import annotations

import re

from sqlglot import exp

from lapwing.expressions import bounds
from lapwing.expressions.expression import Call, Expression, Literal, Operator
from lapwing.expressions.forms import TruthAs
from lapwing.expressions.operators import dates
from lapwing.expressions.operators.base import (
    PartText,
    call,
    cast,
    join_terms,
    maybe_nan,
    null_if_nan,
    only,
    read_date,
    try_cast,
)
from lapwing.expressions.operators.dates import within_years
from lapwing.expressions.operators.logic import CASE, EQUAL, UNEQUAL
from lapwing.expressions.operators.text import JOIN, RIGHT
from lapwing.expressions.phrases import cure_of_cast, types_of
from lapwing.expressions.refusal import refuse
from lapwing.expressions.types import Type

_LOST = "NULL if it cannot be converted."

TO_INTEGER = Operator(
    "integer",
    only(Type.REAL, Type.TEXT, gives=Type.INTEGER),
    lambda a: try_cast(null_if_nan(a), exp.DType.BIGINT),
    "a number or text",
    bounds.outward,
    sql="CAST(s AS INTEGER)",
    meaning=f"The nearest 64-bit integer; {_LOST}",
)
TRUTH_TO_INTEGER = Operator(
    "truth",
    only(Type.BOOLEAN, gives=Type.INTEGER),
    lambda a: TruthAs(this=a, to=exp.DataType(this=exp.DType.BIGINT)),
    "a condition",
    bounds.always(0, 1),
    height=1,
    sql="CAST(c AS INTEGER)",
    meaning="1 if true, 0 if false. NULL stays NULL.",
)
TO_REAL = Operator(
    "real",
    only(Type.INTEGER, Type.TEXT, gives=Type.REAL),
    lambda a: maybe_nan(try_cast(a, exp.DType.DOUBLE)),
    "an integer or text",
    lambda value: value,
    sql="CAST(s AS DOUBLE)",
    meaning=f"A real number; {_LOST}",
)
INTEGER_TO_TEXT = Operator(
    "digits",
    only(Type.INTEGER, gives=Type.TEXT),
    lambda a: cast(try_cast(null_if_nan(a), exp.DType.BIGINT), exp.DType.TEXT),
    "an integer",
    height=4,
    sql="CAST(n AS TEXT)",
    meaning="The digits of a 64-bit integer n. NULL stays NULL.",
)
TRUTH_TO_TEXT = Operator(
    "truth_text",
    only(Type.BOOLEAN, gives=Type.TEXT),
    lambda a: cast(a, exp.DType.TEXT),
    "a condition",
    sql="CAST(c AS TEXT)",
    meaning="'true' or 'false'. NULL stays NULL.",
)
DATE_TO_TEXT = Operator(
    "date_text",
    only(Type.DATE, gives=Type.TEXT),
    lambda a: cast(within_years(a), exp.DType.TEXT),
    "a date",
    sql="CAST(d AS TEXT)",
    meaning="The date as '2020-12-31'; NULL outside the years 1 to 9999.",
)
TO_BOOLEAN = Operator(
    "boolean",
    only(Type.TEXT, gives=Type.BOOLEAN),
    lambda a: try_cast(a, exp.DType.BOOLEAN),
    "a text",
    sql="CAST(s AS BOOLEAN)",
    meaning=f"'true', 'yes', '1' and similar; {_LOST} A number is true unless it is 0.",
)
TO_DATE = Operator(
    "date",
    only(Type.TEXT, Type.TIMESTAMP, gives=Type.DATE),
    lambda a: within_years(try_cast(a, exp.DType.DATE)),
    "text or a timestamp",
    sql="CAST(s AS DATE)",
    meaning=f"The date in a text such as '2020-12-31', also with a valid time behind it, or of a timestamp; {_LOST}",
)
TO_TIMESTAMP = Operator(
    "timestamp",
    only(Type.TEXT, Type.DATE, gives=Type.TIMESTAMP),
    lambda a: within_years(try_cast(a, exp.DType.TIMESTAMP)),
    "text or a date",
    sql="CAST(s AS TIMESTAMP)",
    meaning=f"The timestamp in a text such as '2020-12-31 10:00:00', or the start of a date, also in a text; {_LOST}",
)

CASTS = (
    TO_INTEGER, TRUTH_TO_INTEGER, TO_REAL, INTEGER_TO_TEXT, TRUTH_TO_TEXT, DATE_TO_TEXT, TO_BOOLEAN,
    TO_DATE, TO_TIMESTAMP,
)  # fmt: skip
_CASTS = {
    (kind, target): operator for operator in CASTS for kind in Type if (target := operator.result((kind,))) is not None
}
"""By source type and target type."""


def convert(value: Expression, kind: Type, *, part: PartText) -> Expression:
    """The value as another type; a constant date is read right away."""
    if value.type is None or value.type is kind:
        return value
    if isinstance(value, Literal) and value.type is Type.TEXT and kind in (Type.DATE, Type.TIMESTAMP):
        return read_date(value, kind, part=part)
    if value.type is Type.BOOLEAN and kind is Type.REAL:
        return call(TO_REAL, call(TRUTH_TO_INTEGER, value, part=part), part=part)
    if value.type.is_number and kind is Type.BOOLEAN:
        return call(UNEQUAL, value, Literal(0, Type.INTEGER), part=part)
    operator = _CASTS.get((value.type, kind))
    if operator is None:
        why = f"{types_of([value])[:-1]}, whose cast to {kind.value} differs between engines."
        refuse("wrong-type", part(), why, cure_of_cast(value, kind))
    return call(operator, value, part=part)


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
    return _name(call(dates.DAY_OF_WEEK, value, part=part), DAYS, 0, part)


def month_name(value: Expression, *, part: PartText) -> Call:
    return _name(call(dates.MONTH, value, part=part), MONTHS, 1, part)


def _name(number: Expression, names: tuple[str, ...], first: int, part: PartText) -> Call:
    arguments: list[Expression] = []
    for value, name in enumerate(names, start=first):
        arguments += [call(EQUAL, number, Literal(value, Type.INTEGER), part=part), Literal(name, Type.TEXT)]
    return call(CASE, *arguments, Literal(None, None), part=part)


def format_date(value: Expression, text: Expression, *, part: PartText) -> Expression:
    """The date as text: each code of the format becomes digits, with zeros in front; the rest stays as it is."""
    if not isinstance(text, Literal) or not isinstance(text.value, str) or not 1 <= len(text.value) <= MOST_FORMAT:
        refuse("wrong-argument", part(), "its format must be a constant.", "For example: STRFTIME(d, '%Y-%m').")
    pieces = re.findall(r"(?s)%.?|[^%]+", text.value)
    codes = [piece for piece in pieces if piece.startswith("%")]
    for code in codes:
        if code[1:] not in FORMATS:
            codes_text = " ".join(f"%{letter}" for letter in FORMATS)
            refuse("wrong-argument", part(), f"the code `{code}` is not supported.", f"Use {codes_text}.")
    if not codes:
        refuse("wrong-argument", part(), "its format has no code.", "For example: STRFTIME(d, '%Y-%m').")
    return join_terms(JOIN, [_term(piece, value, part) for piece in pieces], part=part)


def _term(piece: str, value: Expression, part: PartText) -> Expression:
    if not piece.startswith("%"):
        return Literal(piece, Type.TEXT)
    operator, digits = FORMATS[piece[1:]]
    number = call(INTEGER_TO_TEXT, call(operator, value, part=part), part=part)
    padded = call(JOIN, Literal("0" * (digits - 1), Type.TEXT), number, part=part)
    return call(RIGHT, padded, Literal(digits, Type.INTEGER), part=part)
