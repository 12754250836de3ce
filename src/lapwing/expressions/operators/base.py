"""What all operators share: applying them, and the few forms that keep them total.

Numbers. Arithmetic is in float64, which never fails: overflow gives infinity, and NaN
becomes NULL before anything but arithmetic sees it. An emitted node that may be NaN is marked `maybe_nan`.
Length.  An operator that uses an argument twice goes through `let`, so that nesting cannot make a query grow.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, time
from fractions import Fraction
from itertools import islice

from sqlglot import exp

from lapwing.expressions import forms
from lapwing.expressions.expression import Call, Expression, Literal, Operator
from lapwing.expressions.phrases import cure_of, types_of
from lapwing.expressions.refusal import refuse
from lapwing.expressions.types import Type

Types = tuple[Type | None, ...]
Node = exp.Expression
PartText = Callable[[], str]
"""The analyst's own words, printed only when needed: otherwise a long question would be printed once per node."""

MOST_TEXT = 1_000
"""The most characters of a text that a function sees, and of one that it makes."""
MOST_DEPTH, MOST_SIZE = 60, 10_000  # of an expression, so that every later step is fast and cannot exhaust the stack

IN_UTC = "Write the time in UTC, or in the zone that is declared for the column, without an offset."

_SMALL = 16  # a subtree of at most this many nodes is repeated rather than named
_LOOSE, _TYPE = "lw_loose", "lw_type"


def call(operator: Operator, *arguments: Expression, part: PartText) -> Call:
    """The operator applied to the arguments; refused if their types are wrong. Text next to a date becomes one."""
    arguments = _with_dates(arguments, part)
    if operator.compares:
        arguments = _as_compared(arguments)
    kind = operator.result(tuple(argument.type for argument in arguments))
    if kind is None:
        cure = cure_of(operator.name, arguments, operator.takes)
        refuse("wrong-type", part(), types_of(arguments), cure)
    instead = None if operator.admit is None else operator.admit(*arguments)
    if instead is not None:
        refuse("wrong-argument", part(), "it does not take these arguments.", instead)
    inner = [argument for argument in arguments if isinstance(argument, Call)]
    size = 1 + len(arguments) - len(inner) + sum(argument.size for argument in inner)
    depth = operator.height + max((argument.depth for argument in inner), default=0)
    if depth > MOST_DEPTH or size > MOST_SIZE:
        advice = "Use fewer levels of nesting, or use IN."
        refuse("too-large", "the question", "it is nested too deeply or too long.", advice)
    return Call(operator, arguments, kind, size, depth)


def join_terms(operator: Operator, terms: list[Expression], *, part: PartText) -> Expression:
    """The terms joined pairwise, by AND or OR: a tree of minimal depth."""
    while len(terms) > 1:
        pairs = [terms[i : i + 2] for i in range(0, len(terms), 2)]
        terms = [call(operator, *pair, part=part) if len(pair) == 2 else pair[0] for pair in pairs]
    return terms[0]


def read_date(literal: Literal, kind: Type, *, part: PartText) -> Literal:
    """A text constant read as a date or a timestamp."""
    try:
        read: date = (date if kind is Type.DATE else datetime).fromisoformat(str(literal.value))
    except ValueError:
        refuse("wrong-argument", part(), "the constant next to a date is not a valid date.", "Write DATE '2020-12-31'.")
    if isinstance(read, datetime) and read.tzinfo is not None:
        refuse("wrong-argument", part(), "a constant has no time zone.", IN_UTC)
    return Literal(read, kind)


def _with_dates(arguments: tuple[Expression, ...], part: PartText) -> tuple[Expression, ...]:
    kinds = {argument.type for argument in arguments}
    if not kinds & {Type.DATE, Type.TIMESTAMP}:
        return arguments
    kind = Type.TIMESTAMP if Type.TIMESTAMP in kinds else Type.DATE

    def beside_dates(argument: Expression) -> Expression:
        match argument:
            case Literal(type=Type.TEXT):
                return read_date(argument, kind, part=part)
            case Literal(type=Type.DATE) if kind is Type.TIMESTAMP and isinstance(argument.value, date):
                return Literal(datetime.combine(argument.value, time()), kind)
            case _:
                return argument

    return tuple(map(beside_dates, arguments))


def _as_compared(arguments: tuple[Expression, ...]) -> tuple[Expression, ...]:
    """Constants as the type of the column they are compared with, as in DuckDB: '8' beside a number, 1 beside a truth.
    One that is not a value of that type stays as it is, and is then refused."""
    kinds = {a.type for a in arguments if not isinstance(a, Literal) and a.type is not None}
    if len(kinds) != 1:
        return arguments
    kind = kinds.pop()
    return tuple(_constant_as(a, kind) if isinstance(a, Literal) else a for a in arguments)


_WHOLE, _DECIMAL = re.compile(r"[+-]?[0-9]{1,18}"), re.compile(r"[+-]?[0-9]{1,18}(\.[0-9]{1,18})?")
_TRUTHS = {"true": True, "false": False, 1: True, 0: False}


def _constant_as(literal: Literal, kind: Type) -> Literal:
    """The value is looked at only where it can become another: beside its own type a constant may be a placeholder."""
    if kind is Type.BOOLEAN and literal.type in (Type.TEXT, Type.INTEGER):
        value = literal.value
        known = _TRUTHS.get(value.lower() if isinstance(value, str) else value)
        return literal if known is None else Literal(known, kind)
    if kind.is_number and literal.type is Type.BOOLEAN:
        return Literal(int(literal.value is True), Type.INTEGER)
    if literal.type is not Type.TEXT or not kind.is_number:
        return literal
    text = str(literal.value)
    if kind is Type.INTEGER and _WHOLE.fullmatch(text):
        return Literal(int(text), kind)
    if kind is Type.REAL and _DECIMAL.fullmatch(text):
        return Literal(Fraction(repr(float(text))), kind)
    return literal


def is_whole(argument: Expression, low: int, high: int) -> bool:
    return isinstance(argument, Literal) and argument.type is Type.INTEGER and low <= int(str(argument.value)) <= high


def common(types: Types) -> Type | None:
    """The common type of these values; NULL fits every type, and integers become reals if any is real."""
    kinds = {kind for kind in types if kind is not None}
    if kinds and all(kind.is_number for kind in kinds):
        return Type.REAL if Type.REAL in kinds else Type.INTEGER
    return kinds.pop() if len(kinds) == 1 else None


def comparison(types: Types) -> Type | None:
    """For comparable values: all numbers, or all of one type."""
    return Type.BOOLEAN if common(types) is not None or set(types) == {None} else None


def only(*kinds: Type, gives: Type, least: int = 1, most: int = 1) -> Callable[[Types], Type | None]:
    """For this many arguments of these types."""

    def result(types: Types) -> Type | None:
        fits = least <= len(types) <= most and all(kind is None or kind in kinds for kind in types)
        return gives if fits else None

    return result


def cast(node: exp.Expression, kind: exp.DType) -> exp.Expression:
    """The value as another type. Nodes are reused, not copied, so long expressions stay cheap."""
    return exp.Cast(this=node, to=exp.DataType(this=kind))


def try_cast(node: exp.Expression, kind: exp.DType, known: Type | None = None) -> exp.Expression:
    """The value as another type, or NULL if it cannot be converted. `known` is its type, if the node does not say."""
    return forms.TryRead(this=node, to=exp.DataType(this=kind), known=known or node.meta.get(_TYPE))


def of_type(node: exp.Expression, kind: Type | None) -> exp.Expression:
    """The node, marked with the type of its value."""
    if kind is not None:
        node.meta[_TYPE] = kind
    return node


def number(node: exp.Expression) -> exp.Expression:
    """The value as float64. Integers and reals only, so it cannot fail."""
    return cast(node, exp.DType.DOUBLE)


def paren(node: exp.Expr) -> exp.Expression:
    return exp.Paren(this=node)


def shortened(node: exp.Expression) -> exp.Expression:
    """The first characters of a text, as many as functions see."""
    is_short = isinstance(node, exp.Left) and node.expression.name == str(MOST_TEXT)
    return node if is_short else exp.Left(this=node, expression=exp.Literal.number(MOST_TEXT))


def where(condition: exp.Expr, value: exp.Expression) -> exp.Expression:
    """The value if the condition holds, else NULL."""
    return exp.Case(ifs=[exp.If(this=condition, true=value)])


def let(node: exp.Expression, body: Callable[[Callable[[], exp.Expression]], exp.Expression]) -> exp.Expression:
    """The body, with the node in several places. A long node is computed once and named."""
    if sum(1 for _ in islice(node.walk(), _SMALL + 1)) <= _SMALL:
        return body(node.copy)
    return forms.Let(this=node, body=body(lambda: exp.column(forms.LOCAL, quoted=True)))


def maybe_nan(node: exp.Expression) -> exp.Expression:
    """The node, marked as possibly NaN."""
    node.meta[_LOOSE] = True
    return node


def is_maybe_nan(node: exp.Expression) -> bool:
    return _LOOSE in node.meta


def null_if_nan(node: exp.Expression) -> exp.Expression:
    """The node, with NULL for NaN."""
    if _LOOSE not in node.meta:
        return node
    kept = let(node, lambda value: where(exp.Not(this=forms.IsNaN(this=number(value()))), value()))
    return of_type(kept, node.meta.get(_TYPE))


def zero() -> exp.Expression:
    return exp.Literal.number(0)
