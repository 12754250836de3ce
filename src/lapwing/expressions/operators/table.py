"""The table of allowed operators. Each is total: it cannot fail on any row, on any engine.

To allow another operator, add an entry to its file and to the list there; then sql/read_expression.py must read it,
and tests fail until it does.
"""

from __future__ import annotations

from fractions import Fraction

from lapwing.expressions.bounds import EVERYTHING, Extent, point
from lapwing.expressions.expression import Call, Column, Expression, Literal, Operator
from lapwing.expressions.operators.buckets import BUCKETS
from lapwing.expressions.operators.casts import CASTS
from lapwing.expressions.operators.dates import TEMPORAL
from lapwing.expressions.operators.logic import LOGIC
from lapwing.expressions.operators.numbers import NUMERIC
from lapwing.expressions.operators.text import TEXTUAL
from lapwing.expressions.types import Interval, Type

OPERATORS = (*LOGIC, *NUMERIC, *BUCKETS, *TEXTUAL, *TEMPORAL, *CASTS)
"""Every operator. Tests check that the readers and docs/sql.md cover all of them."""

_WHOLE = frozenset(LOGIC)
_EXACT = Fraction(2**53)  # float64 holds every integer up to here


def bounds_of(expression: Expression) -> Interval | None:
    """The interval that contains an expression over clipped columns, if known."""
    return extent_of(expression).interval()


def extent_of(expression: Expression) -> Extent:
    """The extent of an expression over clipped columns; an end may be open."""
    match expression:
        case Literal(value=value):
            return point(value)
        case Column(bounds=Interval(low=low, high=high)):
            return Extent(low, high)
        case Call(operator=operator, arguments=arguments) if operator.interval is not None:
            return operator.interval(*map(extent_of, arguments))
        case _:
            return EVERYTHING


def is_exact_integer(expression: Expression) -> bool:
    """True if float64 arithmetic is exact for this expression: integers that stay within 2^53."""
    bounds = bounds_of(expression)
    return expression.type is Type.INTEGER and bounds is not None and bounds.magnitude <= _EXACT


def sees_start(operator: Operator) -> bool:
    """True if it sees the first MOST_TEXT characters of a text; comparisons and what picks a value take texts whole."""
    return operator not in _WHOLE


def is_long(expression: Expression) -> bool:
    """True for a text that may be longer than that: as it is stored, or picked among such."""
    if expression.type is not Type.TEXT or isinstance(expression, Literal):
        return False
    return not isinstance(expression, Call) or not sees_start(expression.operator)
