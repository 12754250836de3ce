"""The table of aggregates over private rows, and what one unit may add to one group.

Total.  Each unit adds one number to each of its groups, clipped to an interval; the cell is the sum over units. A unit
        in at most k groups changes the cells by at most k reach in the l1 norm and sqrt(k) reach in the l2 norm,
        reach = the largest absolute value of the interval.
Soft.   Each unit adds two whole numbers that are not negative and sum to at most rows * M (mechanisms/moments.py), so
        reach = rows * M in both norms. Mean, count and sum of the values are read off the two noisy cells together.

So every sensitivity is known from the question and from declared facts alone; what is not bounded is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from lapwing.mechanisms.soft_values import GRID
from lapwing.query.catalog import Table
from lapwing.query.expression import Column, Expression, walk
from lapwing.query.operators import bounds_of, is_exact_integer
from lapwing.query.question import Aggregate
from lapwing.query.types import Interval, Type, shown
from lapwing.query.verdict import refuse

ONE = Interval(Fraction(0), Fraction(1))


@dataclass(frozen=True, slots=True)
class Total:
    """One cell: a unit's number of rows or values, or the sum of its values, clipped to the interval."""

    argument: Expression | None
    """What is counted or summed; every row if there is none."""
    summed: bool
    interval: Interval

    @property
    def cells(self) -> int:
        return 1

    @property
    def whole(self) -> bool:
        """Whether the total is a whole number, so that steps of 1 lose nothing."""
        argument = self.argument
        if not self.summed or argument is None:
            return True
        return is_exact_integer(argument) or (isinstance(argument, Column) and argument.type is Type.INTEGER)

    def steps(self, step: Fraction) -> tuple[int, int]:
        """The interval in whole steps, rounded outward."""
        return math.floor(self.interval.low / step), math.ceil(self.interval.high / step)

    def reach(self, step: Fraction) -> int:
        """The most that one unit changes one group by, in steps and in either norm."""
        return max(map(abs, self.steps(step)))


@dataclass(frozen=True, slots=True)
class Soft:
    """Two cells: how a unit's values spread between the lower and the upper bound."""

    argument: Expression
    bounds: Interval
    rows: int
    """A unit with more values counts with this weight, at its own average."""

    @property
    def cells(self) -> int:
        return 2

    def reach(self, _step: Fraction) -> int:
        """The most that one unit changes one group by, in either norm."""
        return self.rows * GRID


Shape = Total | Soft


@dataclass(frozen=True, slots=True)
class Reading:
    """How an aggregate is read off the noisy cells of a measure: its total, or the mean, count or sum of soft cells."""

    measure: int
    statistic: str


@dataclass(frozen=True, slots=True)
class Function:
    """One aggregate that an analyst may write."""

    name: str
    sql: str
    type: Type
    words: str
    """How the preview and the methods sentence speak of it."""
    shape: Callable[[Table, Aggregate], Shape]
    """What one unit adds; refused if that is not bounded."""


def shapes_of(table: Table, aggregates: Sequence[Aggregate]) -> tuple[tuple[Shape, ...], tuple[Reading, ...]]:
    """The measures that answer these aggregates, as few as possible, and how each aggregate is read off them.

    Where the mean of an argument is asked, its count and its sum come with it.
    """
    means = {a.arguments for a in aggregates if a.name == MEAN.name}
    wanted: dict[Aggregate, Shape] = {}
    readings = []
    for aggregate in aggregates:
        shared = aggregate.arguments in means and _comes_along(table, aggregate)
        source = Aggregate(MEAN.name, aggregate.arguments) if shared else aggregate
        if source not in wanted:
            wanted[source] = FUNCTIONS[source.name].shape(table, source)
        readings.append(Reading(list(wanted).index(source), aggregate.name if shared else "total"))
    return tuple(wanted.values()), tuple(readings)


def _comes_along(table: Table, aggregate: Aggregate) -> bool:
    """Whether soft cells of its argument answer it: not where a unit's sum is clipped to bounds of its own."""
    (argument,) = aggregate.arguments
    own = isinstance(argument, Column) and table.field(argument.name).unit_bounds is not None
    return aggregate.name in (MEAN.name, COUNT_VALUES.name) or (aggregate.name == SUM.name and not own)


def _rows(table: Table, asked: str) -> int:
    if table.row_limit is None:
        refuse(
            asked,
            "one unit may have any number of rows here, so one unit could change the answer by any amount.",
            f"Ask for COUNT(DISTINCT {table.unit}), or have the steward declare rows_per_unit for `{table.name}`.",
        )
    return table.row_limit


def _argument(aggregate: Aggregate) -> Expression | None:
    return aggregate.arguments[0] if aggregate.arguments else None


def _count(table: Table, aggregate: Aggregate) -> Total:
    return Total(_argument(aggregate), False, ONE.times(_rows(table, aggregate.words())))


def _units(_: Table, aggregate: Aggregate) -> Total:
    return Total(_argument(aggregate), False, ONE)


def _sum(table: Table, aggregate: Aggregate) -> Total:
    (argument,) = aggregate.arguments
    bounds = _bounds(aggregate, argument)
    declared = table.field(argument.name).unit_bounds if isinstance(argument, Column) else None
    if declared is None and not table.by_row:
        bounds = bounds.times(_rows(table, aggregate.words()))
    total = Total(argument, True, bounds if declared is None else declared)
    if not total.interval.reach:
        refuse(aggregate.words(), "it is 0 whatever the rows hold.", "Leave it out.")
    return total


def _mean(table: Table, aggregate: Aggregate) -> Soft:
    (argument,) = aggregate.arguments
    bounds = _bounds(aggregate, argument)
    if bounds.high - bounds.low <= bounds.reach / (1 << 20):
        refuse(
            aggregate.words(),
            f"its bounds {bounds} are one number, or nearly so: the mean is known without asking.",
            "Leave it out, or have the steward declare wider bounds.",
        )
    return Soft(argument, bounds, _rows(table, aggregate.words()))


def _bounds(aggregate: Aggregate, argument: Expression) -> Interval:
    bounds = bounds_of(argument)
    if bounds is None:
        columns = [part for part in walk(argument) if isinstance(part, Column)]
        names = ", ".join(sorted({f"`{part.name}`" for part in columns if part.bounds is None and part.type.is_number}))
        refuse(
            aggregate.words(),
            "one row could hold a number of any size.",
            f"Clip it: {aggregate.words().split('(')[0]}(CLIP(..., 0, 100)), or have the steward declare bounds"
            f"{f' for {names}' if names else ''}, for example bounds = [0, 100].",
        )
    return bounds


COUNT_ROWS = Function("count_rows", "COUNT(*)", Type.INTEGER, "the number of rows", _count)
COUNT_VALUES = Function("count", "COUNT(x)", Type.INTEGER, "the number of values", _count)
COUNT_UNITS = Function("count_units", "COUNT(DISTINCT unit)", Type.INTEGER, "the number of units", _units)
SUM = Function("sum", "SUM(x)", Type.REAL, "the total", _sum)
MEAN = Function("mean", "AVG(x)", Type.REAL, "the mean", _mean)

FUNCTIONS = {function.name: function for function in (COUNT_ROWS, COUNT_VALUES, COUNT_UNITS, SUM, MEAN)}
"""Every aggregate there is."""


def describe_shape(shape: Shape) -> str:
    """What one unit may add, in words."""
    match shape:
        case Total(interval=interval):
            return f"each unit's part of a group is clipped to {interval}"
        case Soft(bounds=bounds, rows=rows):
            return f"values are clipped to {bounds} and each unit weighs at most {shown(rows)} rows in a group"
