"""From expressions to trees of forms and standard nodes. The analyst's text never gets here; only its constants do."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from fractions import Fraction

from sqlglot import exp

from lapwing.expressions import forms
from lapwing.expressions.expression import Call, Column, Expression, Key, Literal, Slot
from lapwing.expressions.operators.base import cast, maybe_nan, null_if_nan, number, of_type, shortened, try_cast
from lapwing.expressions.operators.dates import within_years
from lapwing.expressions.operators.table import is_long, sees_start
from lapwing.expressions.types import Type, Value

Leaf = Callable[[Column | Key | Slot], exp.Expression]
"""The node for a column, a key or a released number in the query that evaluates the expression."""

STORED = {
    Type.INTEGER: exp.DType.BIGINT,
    Type.REAL: exp.DType.DOUBLE,
    Type.TEXT: exp.DType.TEXT,
    Type.BOOLEAN: exp.DType.BOOLEAN,
    Type.DATE: exp.DType.DATE,
    Type.TIMESTAMP: exp.DType.TIMESTAMP,
}
"""The engine's type for each declared type. No other is used in computations, in particular not float32, in which
integers above 2^24 equal their neighbours."""


def emit(expression: Expression, leaf: Leaf, *, clipped: bool = False) -> exp.Expression:
    """The tree of an expression. `clipped` clips every bounded column where its number is used. Conditions and texts
    inside stay unchanged: `CASE WHEN cost > 9000 THEN 1 ELSE 0 END` tests the cost as stored; its value is bounded."""
    return of_type(_emitted(expression, leaf, clipped=clipped), expression.type)


def _emitted(expression: Expression, leaf: Leaf, *, clipped: bool) -> exp.Expression:
    match expression:
        case Column(bounds=bounds) if clipped and bounds is not None:
            is_null = exp.Is(this=leaf(expression), expression=exp.Null())
            gone = exp.Or(this=is_null, expression=forms.IsNaN(this=number(leaf(expression))))
            kept = between(number(leaf(expression)), bounds.low, bounds.high)
            return exp.Case(ifs=[exp.If(this=gone, true=exp.Null())], default=kept)
        case Column(type=Type.REAL) | Key(type=Type.REAL) | Slot(type=Type.REAL):
            return maybe_nan(leaf(expression))
        case Column() | Key() | Slot():
            return leaf(expression)
        case Literal(value=value):
            return literal(value)
        case Call(operator=operator, arguments=arguments):
            inner = clipped and expression.type.is_number
            nodes = [emit(argument, leaf, clipped=inner) for argument in arguments]
            if sees_start(operator):
                pairs = zip(arguments, nodes, strict=True)
                nodes = [of_type(shortened(n), Type.TEXT) if is_long(a) else n for a, n in pairs]
            return operator.emit(*nodes)


def clipped_columns(expression: Expression) -> list[Column]:
    """The columns that `emit` clips."""
    match expression:
        case Column(bounds=bounds) if bounds is not None:
            return [expression]
        case Call(type=kind, arguments=arguments) if kind.is_number:
            return [column for argument in arguments for column in clipped_columns(argument)]
        case _:
            return []


def value(expression: Expression, leaf: Leaf, *, clipped: bool = False) -> exp.Expression:
    """The same tree, with NULL for NaN."""
    return null_if_nan(emit(expression, leaf, clipped=clipped))


def between(value: exp.Expression, low: Fraction, high: Fraction) -> exp.Expression:
    """The float64 value clipped to [low, high]; it must not be NULL."""
    return cut(value, real(low), real(high))


def cut(value: exp.Expression, low: exp.Expression, high: exp.Expression) -> exp.Expression:
    """The value clipped to [low, high]; it must not be NULL."""
    return forms.Greatest(expressions=[low, forms.Least(expressions=[value, high])])


def literal(value: Value) -> exp.Expression:
    """A constant, quoted by the engine's rules."""
    match value:
        case None:
            return exp.Null()
        case bool():
            return exp.Boolean(this=value)
        case int():
            return exp.Literal.number(value)
        case Fraction():
            return real(value)
        case str():
            return exp.Literal.string(value)
        case datetime():
            return cast(exp.Literal.string(value.isoformat(sep=" ")), exp.DType.TIMESTAMP)
        case date():
            return cast(exp.Literal.string(value.isoformat()), exp.DType.DATE)


def real(value: Fraction) -> exp.Expression:
    """The nearest float64, printed so that it reads back unchanged."""
    text = repr(abs(float(value)))
    digits = forms.Real(this=text if "e" in text else f"{text}e0")  # an exponent makes it a float64
    return exp.Neg(this=digits) if value < 0 else digits


def whole(expression: Expression, leaf: Leaf) -> exp.Expression:
    """An expression as a key: an integer computed in float64 becomes an integer again, or NULL. Dates outside the years
    1 to 9999 are NULL too, since not every client can represent them."""
    node = value(expression, leaf)
    if expression.type in (Type.DATE, Type.TIMESTAMP):
        return within_years(node)
    if expression.type is not Type.INTEGER or not isinstance(expression, Call):
        return node
    return try_cast(forms.RoundTo(this=node), exp.DType.BIGINT, Type.REAL)


def typed(expression: Expression, kind: Type | None, leaf: Leaf) -> exp.Expression:
    """The expression in the engine's type for `kind`: integers as BIGINT, reals as float64; NULL if it does not fit."""
    if kind is None:
        return exp.Null()
    node = value(expression, leaf) if kind is Type.REAL else whole(expression, leaf)
    return try_cast(node, STORED[kind], expression.type)
