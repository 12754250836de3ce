"""The table of allowed operators. Each is total: it cannot fail on any row, on any engine.

Arithmetic is done in float64, which never overflows into an error; a result that is not a number becomes NULL before
it is used (bounding.py). Division by zero gives NULL. Comparison with NULL gives NULL, as in SQL.
To allow one more operator, add an entry; sql.py and ibis.py find it by the node they read.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from sqlglot import exp

from lapwing.query.expression import Call, Expression, Literal, Operator
from lapwing.query.types import Interval, Type
from lapwing.query.verdict import refuse

Types = tuple[Type | None, ...]

MOST_DEPTH, MOST_SIZE = 60, 10_000  # of an expression, so that every later step is quick and cannot run out of stack

_EXACT = Fraction(2**53)  # float64 holds every integer up to here


Part = Callable[[], str]
"""The analyst's own words, made only if they are needed: a long question would be printed once for every node."""


def call(operator: Operator, *arguments: Expression, part: Part) -> Call:
    """The operator applied to the arguments; refused if their types do not fit. Text beside a date is read as one."""
    arguments = _with_dates(arguments, part)
    kind = operator.result(tuple(argument.type for argument in arguments))
    if kind is None:
        refuse(part(), f"`{operator.name}` does not take values of these types.", f"Pass {operator.takes}.")
    inner = [argument for argument in arguments if isinstance(argument, Call)]
    size = 1 + len(arguments) - len(inner) + sum(argument.size for argument in inner)
    depth = 1 + max((argument.depth for argument in inner), default=0)
    if depth > MOST_DEPTH or size > MOST_SIZE:
        refuse("the question", "it is nested too deeply or too long.", "Write it with fewer levels, or use IN.")
    return Call(operator, arguments, kind, size, depth)


def dated(literal: Literal, kind: Type, *, part: Part) -> Literal:
    """A text constant read as a date or a time."""
    try:
        read: date = (date if kind is Type.DATE else datetime).fromisoformat(str(literal.value))
    except ValueError:
        refuse(part(), "a constant beside a date is not a date.", "Write DATE '2020-12-31'.")
    if isinstance(read, datetime) and read.tzinfo is not None:
        refuse(part(), "times are read without a zone.", "Leave the zone out.")
    return Literal(read, kind)


def _with_dates(arguments: tuple[Expression, ...], part: Part) -> tuple[Expression, ...]:
    kinds = [a.type for a in arguments if a.type in (Type.DATE, Type.TIMESTAMP)]
    if not kinds:
        return arguments
    return tuple(
        dated(a, kinds[0], part=part) if isinstance(a, Literal) and a.type is Type.TEXT else a for a in arguments
    )


def cast(node: exp.Expression, kind: exp.DType) -> exp.Expression:
    """The value as this type of the engine. Nodes are used, not copied, so that long expressions stay cheap."""
    return exp.Cast(this=node, to=exp.DataType(this=kind))


def number(node: exp.Expression) -> exp.Expression:
    """The value as float64. Integers and reals only, so it cannot fail."""
    return cast(node, exp.DType.DOUBLE)


def _alike(types: Types) -> bool:
    """Whether values of these types can be compared: all numbers, or all of one type. NULL fits every type."""
    known = {Type.REAL if kind.is_number else kind for kind in types if kind is not None}
    return len(known) <= 1


def _comparison(types: Types) -> Type | None:
    return Type.BOOLEAN if _alike(types) else None


def _logic(types: Types) -> Type | None:
    return Type.BOOLEAN if all(kind in (Type.BOOLEAN, None) for kind in types) else None


def _arithmetic(types: Types) -> Type | None:
    if not all(kind is None or kind.is_number for kind in types):
        return None
    return Type.REAL if Type.REAL in types else Type.INTEGER


def _quotient(types: Types) -> Type | None:
    return Type.REAL if _arithmetic(types) else None


def _corners(function: Callable[[Fraction, Fraction], Fraction]) -> Callable[[Interval, Interval], Interval]:
    """Bounds of a function that takes its extremes at corners."""

    def bounds(a: Interval, b: Interval) -> Interval:
        values = [function(x, y) for x, y in product((a.low, a.high), (b.low, b.high))]
        return Interval(min(values), max(values))

    return bounds


def _divided(a: Interval, b: Interval) -> Interval | None:
    if b.low <= 0 <= b.high:
        return None
    return _corners(lambda x, y: x / y)(a, b)


def _paren(node: exp.Expr) -> exp.Expression:
    return exp.Paren(this=node)


def _binary(node: type[exp.Binary]) -> Callable[[exp.Expression, exp.Expression], exp.Expression]:
    return lambda a, b: _paren(node(this=a, expression=b))


def _on_numbers(node: type[exp.Binary]) -> Callable[[exp.Expression, exp.Expression], exp.Expression]:
    return lambda a, b: _paren(node(this=number(a), expression=number(b)))


def _guarded_division(a: exp.Expression, b: exp.Expression) -> exp.Expression:
    return _paren(exp.Div(this=number(a), expression=exp.Nullif(this=number(b), expression=exp.Literal.number(0))))


def _is_in(needle: exp.Expression, *values: exp.Expression) -> exp.Expression:
    return _paren(exp.In(this=needle, expressions=list(values)))


def _on_arrays(function: Callable[..., Any], *, real: bool = False) -> Callable[..., Any]:
    """The function on arrays of released numbers. Integers stay exact while they fit into 62 bits."""

    def compute(*arrays: Any) -> Any:
        with np.errstate(all="ignore"):
            near = function(*(array.astype(float) for array in arrays))
            whole = not real and all(array.dtype.kind == "i" for array in arrays)
            if whole and all(np.all(np.abs(array.astype(float)) < 2.0**62) for array in (near, *arrays)):
                return function(*arrays)
            return near

    return compute


NUMBERS = "numbers"
TWO_ALIKE = "two values of one type"
TRUTH = "conditions, such as `age > 40`"

EQUAL = Operator("=", _comparison, _binary(exp.EQ), TWO_ALIKE)
UNEQUAL = Operator("<>", _comparison, _binary(exp.NEQ), TWO_ALIKE)
LESS = Operator("<", _comparison, _binary(exp.LT), TWO_ALIKE)
AT_MOST = Operator("<=", _comparison, _binary(exp.LTE), TWO_ALIKE)
GREATER = Operator(">", _comparison, _binary(exp.GT), TWO_ALIKE)
AT_LEAST = Operator(">=", _comparison, _binary(exp.GTE), TWO_ALIKE)
AND = Operator("and", _logic, _binary(exp.And), TRUTH)
OR = Operator("or", _logic, _binary(exp.Or), TRUTH)
NOT = Operator("not", _logic, lambda a: _paren(exp.Not(this=a)), TRUTH)
IS_NULL = Operator("is null", lambda _: Type.BOOLEAN, lambda a: _paren(exp.Is(this=a, expression=exp.Null())))
IN = Operator("in", _comparison, _is_in, "a column and a list of values of its type")
ADD = Operator(
    "+", _arithmetic, _on_numbers(exp.Add), NUMBERS, _corners(lambda x, y: x + y), compute=_on_arrays(np.add)
)
SUBTRACT = Operator(
    "-", _arithmetic, _on_numbers(exp.Sub), NUMBERS, _corners(lambda x, y: x - y), compute=_on_arrays(np.subtract)
)
MULTIPLY = Operator(
    "*", _arithmetic, _on_numbers(exp.Mul), NUMBERS, _corners(lambda x, y: x * y), compute=_on_arrays(np.multiply)
)
DIVIDE = Operator("/", _quotient, _guarded_division, NUMBERS, _divided, compute=_on_arrays(np.divide, real=True))

OPERATORS = (
    EQUAL, UNEQUAL, LESS, AT_MOST, GREATER, AT_LEAST, AND, OR, NOT, IS_NULL, IN, ADD, SUBTRACT, MULTIPLY, DIVIDE,
)  # fmt: skip
"""Every operator there is. A test keeps sql.py and ibis.py total over it."""


def bounds_of(expression: Expression) -> Interval | None:
    """The interval that an expression over clipped columns lies in, if it is known."""
    match expression:
        case Literal(value=int() | Fraction() as value) if not isinstance(value, bool):
            return Interval(Fraction(value), Fraction(value))
        case Call(operator=operator, arguments=arguments) if operator.interval is not None:
            known = [bounds_of(argument) for argument in arguments]
            return None if None in known else operator.interval(*known)
        case _:
            return getattr(expression, "bounds", None)


def is_exact_integer(expression: Expression) -> bool:
    """Whether float64 arithmetic gives this expression exactly: integers that stay within 2^53."""
    bounds = bounds_of(expression)
    return expression.type is Type.INTEGER and bounds is not None and bounds.reach <= _EXACT
