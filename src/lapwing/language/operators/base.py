"""What all operators are made of: applying them, and the few forms that keep them total.

Numbers. Arithmetic is done in float64, which never fails: what is too large is infinite, and what is no number (NaN)
becomes NULL before anything but arithmetic looks at it. An emitted node that may be NaN is marked as `loose`.
Length.  An operator that uses an argument twice goes through `let`, so that nesting cannot make a query grow.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time
from itertools import islice

from sqlglot import exp

from lapwing.language import forms
from lapwing.language.expression import Call, Expression, Literal, Operator
from lapwing.language.refusal import refuse
from lapwing.language.types import Type

Types = tuple[Type | None, ...]
Node = exp.Expression
PartText = Callable[[], str]
"""The analyst's own words, made only if they are needed: a long question would be printed once for every node."""

MOST_DEPTH, MOST_SIZE = 60, 10_000  # of an expression, so that every later step is quick and cannot run out of stack

_SMALL = 16  # nodes that are written twice rather than named
_LOOSE = "lw_loose"


def call(operator: Operator, *arguments: Expression, part: PartText) -> Call:
    """The operator applied to the arguments; refused if their types do not fit. Text beside a date is read as one."""
    arguments = _with_dates(arguments, part)
    kind = operator.result(tuple(argument.type for argument in arguments))
    if kind is None:
        refuse(
            "wrong-type", part(), f"`{operator.name}` does not take values of these types.", f"Pass {operator.takes}."
        )
    instead = None if operator.admit is None else operator.admit(*arguments)
    if instead is not None:
        refuse("wrong-argument", part(), f"`{operator.name}` does not take these arguments.", instead)
    inner = [argument for argument in arguments if isinstance(argument, Call)]
    size = 1 + len(arguments) - len(inner) + sum(argument.size for argument in inner)
    depth = operator.height + max((argument.depth for argument in inner), default=0)
    if depth > MOST_DEPTH or size > MOST_SIZE:
        refuse(
            "too-large",
            "the question",
            "it is nested too deeply or too long.",
            "Write it with fewer levels, or use IN.",
        )
    return Call(operator, arguments, kind, size, depth)


def join_terms(operator: Operator, terms: list[Expression], *, part: PartText) -> Expression:
    """The terms joined two by two, as AND or OR: a tree that is no deeper than it must be."""
    while len(terms) > 1:
        pairs = [terms[i : i + 2] for i in range(0, len(terms), 2)]
        terms = [call(operator, *pair, part=part) if len(pair) == 2 else pair[0] for pair in pairs]
    return terms[0]


def read_date(literal: Literal, kind: Type, *, part: PartText) -> Literal:
    """A text constant read as a date or a time."""
    try:
        read: date = (date if kind is Type.DATE else datetime).fromisoformat(str(literal.value))
    except ValueError:
        refuse("wrong-argument", part(), "a constant beside a date is not a date.", "Write DATE '2020-12-31'.")
    if isinstance(read, datetime) and read.tzinfo is not None:
        refuse("wrong-argument", part(), "times are read without a zone.", "Leave the zone out.")
    return Literal(read, kind)


def _with_dates(arguments: tuple[Expression, ...], part: PartText) -> tuple[Expression, ...]:
    kinds = [a.type for a in arguments if a.type in (Type.DATE, Type.TIMESTAMP)]
    if not kinds:
        return arguments
    kind = Type.TIMESTAMP if Type.TIMESTAMP in kinds else Type.DATE
    return tuple(_beside_dates(a, kind, part) if isinstance(a, Literal) else a for a in arguments)


def _beside_dates(literal: Literal, kind: Type, part: PartText) -> Literal:
    if literal.type is Type.TEXT:
        return read_date(literal, kind, part=part)
    if kind is Type.TIMESTAMP and literal.type is Type.DATE and isinstance(literal.value, date):
        return Literal(datetime.combine(literal.value, time()), kind)
    return literal


def is_whole(argument: Expression, low: int, high: int) -> bool:
    """Whether the argument is a whole constant between these numbers."""
    return isinstance(argument, Literal) and argument.type is Type.INTEGER and low <= int(str(argument.value)) <= high


def common(types: Types) -> Type | None:
    """The type of a value that is one of these; NULL fits every type, and whole numbers are reals where one is."""
    known = {kind for kind in types if kind is not None}
    if known and all(kind.is_number for kind in known):
        return Type.REAL if Type.REAL in known else Type.INTEGER
    return known.pop() if len(known) == 1 else None


def comparison(types: Types) -> Type | None:
    """For values that can be compared: all numbers, or all of one type."""
    return Type.BOOLEAN if common(types) is not None or set(types) == {None} else None


def only(*kinds: Type, gives: Type, least: int = 1, most: int = 1) -> Callable[[Types], Type | None]:
    """For so many arguments of these types."""

    def result(types: Types) -> Type | None:
        fits = least <= len(types) <= most and all(kind is None or kind in kinds for kind in types)
        return gives if fits else None

    return result


def cast(node: exp.Expression, kind: exp.DType) -> exp.Expression:
    """The value as another type. Nodes are used, not copied, so that long expressions stay cheap."""
    return exp.Cast(this=node, to=exp.DataType(this=kind))


def try_cast(node: exp.Expression, kind: exp.DType) -> exp.Expression:
    """The value as another type, or NULL where it does not read as one."""
    return forms.TryRead(this=node, to=exp.DataType(this=kind))


def number(node: exp.Expression) -> exp.Expression:
    """The value as float64. Integers and reals only, so it cannot fail."""
    return cast(node, exp.DType.DOUBLE)


def paren(node: exp.Expr) -> exp.Expression:
    return exp.Paren(this=node)


def where(condition: exp.Expr, value: exp.Expression) -> exp.Expression:
    """The value where the condition holds, else NULL."""
    return exp.Case(ifs=[exp.If(this=condition, true=value)])


def let(node: exp.Expression, body: Callable[[Callable[[], exp.Expression]], exp.Expression]) -> exp.Expression:
    """The body with the node in several places. A longer node is computed once, and named."""
    if sum(1 for _ in islice(node.walk(), _SMALL + 1)) <= _SMALL:
        return body(node.copy)
    return forms.Let(this=node, body=body(lambda: exp.column(forms.LOCAL, quoted=True)))


def maybe_nan(node: exp.Expression) -> exp.Expression:
    """Marks a node that may be NaN."""
    node.meta[_LOOSE] = True
    return node


def is_maybe_nan(node: exp.Expression) -> bool:
    return bool(node.meta.get(_LOOSE))


def null_if_nan(node: exp.Expression) -> exp.Expression:
    """The node with NULL for what is no number."""
    if not is_maybe_nan(node):
        return node
    return let(node, lambda value: where(exp.Not(this=forms.IsNaN(this=number(value()))), value()))


def zero() -> exp.Expression:
    return exp.Literal.number(0)
