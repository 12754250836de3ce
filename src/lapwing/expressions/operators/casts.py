"""Casts. None can fail: a value that cannot be converted becomes NULL, so CAST, TRY_CAST and `::` are the same."""

from __future__ import annotations

from sqlglot import exp

from lapwing.expressions import bounds
from lapwing.expressions.expression import Expression, Literal, Operator
from lapwing.expressions.forms import TruthAs
from lapwing.expressions.operators.base import (
    Node,
    PartText,
    call,
    cast,
    maybe_nan,
    null_if_nan,
    only,
    read_date,
    try_cast,
)
from lapwing.expressions.operators.dates import within_years
from lapwing.expressions.operators.logic import UNEQUAL
from lapwing.expressions.refusal import refuse
from lapwing.expressions.type_errors import cure_of_cast, types_of
from lapwing.expressions.types import Type

_LOST = "NULL if it cannot be converted."


def _whole_text(value: Node) -> Node:
    return cast(try_cast(null_if_nan(value), exp.DType.BIGINT), exp.DType.TEXT)


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
    _whole_text,
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

_CASTS: dict[tuple[Type, Type], Operator] = {
    (Type.REAL, Type.INTEGER): TO_INTEGER,
    (Type.TEXT, Type.INTEGER): TO_INTEGER,
    (Type.BOOLEAN, Type.INTEGER): TRUTH_TO_INTEGER,
    (Type.INTEGER, Type.REAL): TO_REAL,
    (Type.TEXT, Type.REAL): TO_REAL,
    (Type.INTEGER, Type.TEXT): INTEGER_TO_TEXT,
    (Type.BOOLEAN, Type.TEXT): TRUTH_TO_TEXT,
    (Type.DATE, Type.TEXT): DATE_TO_TEXT,
    (Type.TEXT, Type.BOOLEAN): TO_BOOLEAN,
    (Type.TEXT, Type.DATE): TO_DATE,
    (Type.TIMESTAMP, Type.DATE): TO_DATE,
    (Type.TEXT, Type.TIMESTAMP): TO_TIMESTAMP,
    (Type.DATE, Type.TIMESTAMP): TO_TIMESTAMP,
}
"""By source type and target type."""

_ZERO = Literal(0, Type.INTEGER)


def convert(value: Expression, kind: Type, *, part: PartText) -> Expression:
    """The value as another type; a constant date is read right away."""
    if value.type is None or value.type is kind:
        return value
    if isinstance(value, Literal) and value.type is Type.TEXT and kind in (Type.DATE, Type.TIMESTAMP):
        return read_date(value, kind, part=part)
    if value.type is Type.BOOLEAN and kind is Type.REAL:
        return call(TO_REAL, call(TRUTH_TO_INTEGER, value, part=part), part=part)
    if value.type.is_number and kind is Type.BOOLEAN:
        return call(UNEQUAL, value, _ZERO, part=part)
    operator = _CASTS.get((value.type, kind))
    if operator is None:
        why = f"{types_of([value])[:-1]}, whose cast to {kind.value} differs between engines."
        refuse("wrong-type", part(), why, cure_of_cast(value, kind))
    return call(operator, value, part=part)


CASTS = (
    TO_INTEGER, TRUTH_TO_INTEGER, TO_REAL, INTEGER_TO_TEXT, TRUTH_TO_TEXT, DATE_TO_TEXT, TO_BOOLEAN,
    TO_DATE, TO_TIMESTAMP,
)  # fmt: skip
