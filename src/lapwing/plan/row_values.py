"""What a measure reads of each row, and the small forms that its query is made of.

Missing values: NaN becomes NULL and NULL is left out *before* clipping, since LEAST and GREATEST skip NULL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from sqlglot import exp

from lapwing.errors import Bug
from lapwing.expressions.expression import Column, Expression, Key, Slot
from lapwing.expressions.forms import ExactSum, Minus, RoundTo, Times, Wide
from lapwing.expressions.operators.base import let
from lapwing.expressions.operators.table import cast, number
from lapwing.expressions.to_sqlglot import between, real, value
from lapwing.expressions.types import Interval

ROWS = "lw_rows"
"""Every column is read through this name, so that no alias can be taken for a column."""

UNIT, HELD, CELL = "lw_unit", "lw_held", "lw_cell"
"""Columns inside a query: the unit, how much of something it has, and a value of its rows."""

Read = Callable[[int], exp.Expression]
"""The column of `rows` that holds the measure's first value, its second, ..."""


@dataclass(frozen=True, slots=True)
class RowColumn:
    """What a measure reads of each row: the value, its place between bounds in so many steps, or its cell of a grid."""

    expression: Expression
    clipped: bool = False
    """Whether its columns are clipped first: where it is added up."""
    bounds: Interval | None = None
    steps: int = 0
    floored: bool = False


def compute(column: RowColumn) -> exp.Expression:
    """The column of `rows`; NULL where the value is missing or not a number."""
    node = value(column.expression, source, clipped=column.clipped)
    if column.bounds is None:
        return node
    low, width = column.bounds.low, column.bounds.high - column.bounds.low

    def placed(one: Callable[[], exp.Expression]) -> exp.Expression:
        moved = exp.Paren(this=Minus(this=number(one()), expression=real(low)))
        scaled = Times(this=moved, expression=real(column.steps / width))
        most = Fraction(column.steps - 1 if column.floored else column.steps)
        whole = exp.Floor(this=scaled) if column.floored else RoundTo(this=scaled)
        return where_present(one(), cast(between(whole, Fraction(0), most), exp.DType.BIGINT))

    return let(node, placed)


def source(leaf: Column | Key | Slot) -> exp.Expression:
    """A column of the private table."""
    if not isinstance(leaf, Column):
        raise Bug("the result of an aggregate stands below the aggregation")
    return exp.column(leaf.name, table=ROWS, quoted=True)


def named(name: str) -> exp.Expression:
    """A column of the query inside."""
    return exp.column(name, quoted=True)


def aliased(node: exp.Expression, name: str) -> exp.Alias:
    """The node under a name."""
    return exp.Alias(this=node, alias=exp.to_identifier(name, quoted=True))


def select(*columns: exp.Expression) -> exp.Select:
    """A query for these columns."""
    return exp.Select(expressions=list(columns))


def sum_units(node: exp.Expression, name: str, most: int | None = None) -> exp.Alias:
    """A sum over units, each of at most so much, as an integer of 38 digits: no engine wraps or rounds it."""
    return aliased(Wide(this=zero_if_null(ExactSum(this=node, most=most))), name)


def number_rows(number: exp.Expression, within: list[exp.Expression], order: list[exp.Expression]) -> exp.Expression:
    """The place of a row among those of its part, in this order."""
    by = exp.Order(expressions=[exp.Ordered(this=part) for part in order])
    return exp.Window(this=number, partition_by=within, order=by)


def where_present(column: exp.Expression, result: exp.Expression) -> exp.Expression:
    """The result where the column has a value, else NULL."""
    gone = exp.Is(this=column, expression=exp.Null())
    return exp.Case(ifs=[exp.If(this=gone, true=exp.Null())], default=result)


def one_if_present(column: exp.Expression) -> exp.Expression:
    """1 where the column has a value, else 0."""
    gone = exp.Is(this=column, expression=exp.Null())
    return exp.Case(ifs=[exp.If(this=gone, true=exp.Literal.number(0))], default=exp.Literal.number(1))


def zero_if_null(node: exp.Expression) -> exp.Expression:
    """0 in place of NULL."""
    return exp.Coalesce(this=node, expressions=[exp.Literal.number(0)])


def or_null(name: str) -> exp.Expression:
    """The column, NULL where it is 0."""
    return exp.Nullif(this=named(name), expression=exp.Literal.number(0))
