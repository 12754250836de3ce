"""Histograms: which interval between edges contains a value. The edges are constants in the question, or declared for
the column, so the list of buckets is public, whatever the rows contain, and real columns can be grouped this way.

Every row has one bucket: 0 below the first edge, the number of edges from the last one on, NULL if there is no
value. So a histogram drops no row, but those beyond the declared bounds of whole numbers that have a bucket of their
own. The bucket is found by binary search: each value takes about the same few steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise

from sqlglot import exp

from lapwing.expressions.bounds import between
from lapwing.expressions.expression import Call, Expression, Literal, Operator
from lapwing.expressions.forms import IsNaN
from lapwing.expressions.operators.base import (
    Node,
    PartText,
    Types,
    call,
    comparison,
    is_maybe_nan,
    is_whole,
    let,
    number,
    where,
)
from lapwing.expressions.operators.logic import AT_LEAST, CASE, LESS
from lapwing.expressions.refusal import refuse
from lapwing.expressions.types import MOST_EDGES, Type, ascending, type_of

MOST_BUCKETS = MOST_EDGES - 1
"""The most buckets between edges; there is one more below, and one above."""

_ORDERED = (Type.INTEGER, Type.REAL, Type.DATE, Type.TIMESTAMP, None)
_EDGES = f"Pass at most {MOST_EDGES:,} constants in ascending order: WIDTH_BUCKET(x, [0, 18, 65])."
_WIDTHS = f"Pass constants, the lower first, and at most {MOST_BUCKETS:,} buckets: WIDTH_BUCKET(x, 0, 100, 10)."
_NULL = Literal(None, None)


def _result(types: Types) -> Type | None:
    fits = len(types) > 1 and all(kind in _ORDERED for kind in types) and comparison(types) is not None
    return Type.INTEGER if fits else None


def _ascending(_: Expression, *edges: Expression) -> str | None:
    values = [edge.value for edge in edges if isinstance(edge, Literal)]
    known = len(values) == len(edges) <= MOST_EDGES and None not in values
    return None if known and ascending(values) else _EDGES


def _place(value: Node, *edges: Node) -> Node:
    """The number of edges at or below the value."""

    def search(current: Callable[[], Node], least: int, most: int) -> Node:
        if least == most:
            return exp.Literal.number(least)
        middle = (least + most) // 2
        below = exp.LT(this=current(), expression=edges[middle])
        lower, upper = search(current, least, middle), search(current, middle + 1, most)
        return exp.Case(ifs=[exp.If(this=below, true=lower)], default=upper)

    def present(current: Callable[[], Node]) -> Node:
        gone = IsNaN(this=number(current())) if is_maybe_nan(value) else exp.Is(this=current(), expression=exp.Null())
        # NOT NULL is NULL, so a missing value has no bucket.
        return where(exp.Not(this=gone), search(current, 0, len(edges)))

    return let(value, present)


WIDTH_BUCKET = Operator(
    "width_bucket",
    _result,
    _place,
    "a number, date or timestamp, and a list of constants of the same type",
    lambda _, *edges: between(0, len(edges)),
    _ascending,
    height=12,
    sql="WIDTH_BUCKET(x, [0, 18, 65])",
    meaning="The bucket between ascending edges: 0 below the first, 1 from the first on, and so on; NULL stays NULL. "
    f"WIDTH_BUCKET(x, 0, 100, 10) has 10 buckets of equal width between 0 and 100; the most is {MOST_BUCKETS:,}. "
    "BUCKET(x, [0, 18, 65]) returns them as text: `[0, 18)`. Both take a column alone if the steward declared its "
    "`edges`. As a GROUP BY key it needs no declared values, and rows without a value form a group. Over whole numbers "
    "with declared bounds it has the buckets that these reach. Groups come in "
    "the order of the edges; ORDER BY sorts them as text.",
)

BUCKETS = (WIDTH_BUCKET,)


def bucket_number(value: Expression, edges: Sequence[Expression], *, part: PartText) -> Call:
    return call(WIDTH_BUCKET, value, *map(_plain, edges), part=part)


def bucket_label(value: Expression, edges: Sequence[Expression], *, part: PartText) -> Call:
    """The bucket as text, such as `[0, 18)`."""
    checked = bucket_number(value, edges, part=part).arguments[1:]
    names = [_name(edge) for edge in checked]
    labels = [f"< {names[0]}", *(f"[{low}, {high})" for low, high in pairwise(names))]
    arguments: list[Expression] = []
    for edge, label in zip(checked, labels, strict=True):
        arguments += [call(LESS, value, edge, part=part), Literal(label, Type.TEXT)]
    last = call(AT_LEAST, value, checked[-1], part=part)
    return call(CASE, *arguments, last, Literal(f">= {names[-1]}", Type.TEXT), _NULL, part=part)


def equal_edges(low: Expression, high: Expression, many: Expression, *, part: PartText) -> list[Literal]:
    """The exact edges of this many buckets of equal width."""
    match low, high, many:
        case (
            Literal(value=int() | Fraction() as bottom, type=Type.INTEGER | Type.REAL),
            Literal(value=int() | Fraction() as top, type=Type.INTEGER | Type.REAL),
            Literal(value=int() as count),
        ) if bottom < top and is_whole(many, 1, MOST_BUCKETS):
            width = Fraction(top - bottom) / count
            edges = [bottom + width * i for i in range(count + 1)]
            return [Literal(edge, Type.REAL) for edge in edges]
    refuse("wrong-argument", part(), "its limits and the number of buckets must be constants.", _WIDTHS)


def _plain(edge: Expression) -> Expression:
    """Integers have one form, so that 18 and 18.0 ask the same question."""
    match edge:
        case Literal(value=Fraction(denominator=1, numerator=whole)) if abs(whole) < 1 << 62:
            return Literal(whole, type_of(whole))
        case _:
            return edge


def _name(edge: Expression) -> str:
    value = edge.value if isinstance(edge, Literal) else None
    return repr(float(value)) if isinstance(value, Fraction) else str(value)
