"""The table of aggregates over private rows.

Every aggregate is of one shape: each unit adds one integer to each of its groups, clipped to [low, high] in steps of
`step`; the released cell is the sum over units. So its sensitivity is known from the table alone: a unit in at most k
groups changes the cells by at most k max(|low|, |high|) in the l1 norm and sqrt(k) max(|low|, |high|) in the l2 norm.
To allow one more aggregate of this shape, add an entry.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from sqlglot import exp

from lapwing.query.catalog import Table
from lapwing.query.expression import Column, Expression
from lapwing.query.operators import bounds_of, is_exact_integer
from lapwing.query.types import Interval, Type
from lapwing.query.verdict import refuse

ONE = Interval(Fraction(0), Fraction(1))


@dataclass(frozen=True, slots=True)
class Function:
    """One entry of the table."""

    name: str
    type: Type
    total: Callable[[Table, Expression | None], Interval]
    """What one unit may add to one group, in the units of the answer; refused if that is not bounded."""
    gather: Callable[[exp.Expression | None], exp.Expression]
    """One unit's total within a group, from its rows; the argument comes as clipped integers."""
    whole: Callable[[Expression | None], bool]
    """Whether the total is a whole number, so that steps of 1 lose nothing."""
    words: str
    """How the preview and the methods sentence speak of it."""


def _rows(table: Table, asked: str) -> int:
    if table.row_limit is None:
        refuse(
            asked,
            "one unit may have any number of rows here, so one unit could change the answer by any amount.",
            f"Ask for COUNT(DISTINCT {table.unit}), or have the steward declare rows_per_unit for `{table.name}`.",
        )
    return table.row_limit


def _count_total(table: Table, _: Expression | None) -> Interval:
    return ONE.times(_rows(table, "COUNT"))


def _units_total(_table: Table, _: Expression | None) -> Interval:
    return ONE


def _sum_total(table: Table, argument: Expression | None) -> Interval:
    bounds = None if argument is None else bounds_of(argument)
    if argument is None or bounds is None:
        names = ", ".join(sorted({f"`{part.name}`" for part in _columns(argument) if part.bounds is None}))
        refuse(
            "SUM",
            "one row could hold a number of any size.",
            f"Have the steward declare bounds for {names or 'its columns'}, for example bounds = [0, 100].",
        )
    declared = table.field(argument.name).unit_bounds if isinstance(argument, Column) else None
    if table.by_row:
        return bounds if declared is None else declared
    return declared if declared is not None else bounds.times(_rows(table, "SUM"))


def _columns(expression: Expression | None) -> list[Column]:
    from lapwing.query.expression import walk

    return [] if expression is None else [part for part in walk(expression) if isinstance(part, Column)]


def _count_star(_: exp.Expression | None) -> exp.Expression:
    return exp.Count(this=exp.Star())


def _count_values(argument: exp.Expression | None) -> exp.Expression:
    return exp.Count(this=argument)


def _sum_values(argument: exp.Expression | None) -> exp.Expression:
    return exp.Coalesce(this=exp.Sum(this=argument), expressions=[exp.Literal.number(0)])


def _always(_: Expression | None) -> bool:
    return True


def _sum_whole(argument: Expression | None) -> bool:
    return argument is not None and (is_exact_integer(argument) or _is_integer_column(argument))


def _is_integer_column(argument: Expression) -> bool:
    return isinstance(argument, Column) and argument.type is Type.INTEGER


COUNT_ROWS = Function("count_rows", Type.INTEGER, _count_total, _count_star, _always, "the number of rows")
COUNT_VALUES = Function("count", Type.INTEGER, _count_total, _count_values, _always, "the number of values")
COUNT_UNITS = Function("count_units", Type.INTEGER, _units_total, _count_star, _always, "the number of units")
SUM = Function("sum", Type.REAL, _sum_total, _sum_values, _sum_whole, "the total")

FUNCTIONS = {function.name: function for function in (COUNT_ROWS, COUNT_VALUES, COUNT_UNITS, SUM)}
"""Every aggregate there is."""


def steps(interval: Interval, step: Fraction) -> tuple[int, int]:
    """The interval in whole steps, rounded outward."""
    return math.floor(interval.low / step), math.ceil(interval.high / step)
