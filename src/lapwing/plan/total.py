"""Counts and sums: one cell a group, the sum over units of one number each, clipped to an interval.

Sensitivity: the largest absolute value of the interval, in steps and rounded outward.
`Best` shows no cells: they only decide which groups are released (mechanisms/choice/exponential.py). One unit changes
each cell by at most the sensitivity, in any number of groups.
`DistinctKind` counts each value once over all units, of a unit at most `rows` values: its sensitivity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from sqlglot import exp

from lapwing.errors import Bug, Misconfigured
from lapwing.expressions.aggregate import Aggregate
from lapwing.expressions.expression import Column, Expression
from lapwing.expressions.forms import ExactSum, KeyedHash, RoundTo, Times, Wide
from lapwing.expressions.identity import Facts, interval_facts
from lapwing.expressions.operators.base import cast, number
from lapwing.expressions.operators.table import bounds_of, is_exact_integer
from lapwing.expressions.refusal import refuse
from lapwing.expressions.table import Table
from lapwing.expressions.to_sqlglot import between, cut, real
from lapwing.expressions.types import Interval, Type, text_of
from lapwing.mechanisms.cells import BestGroups, CellColumns, CellMechanism, mechanisms_for
from lapwing.mechanisms.values import Grid
from lapwing.plan.kind import Function, Kind, Measure, Reading, Surplus, bounds_for, row_limit, scatter
from lapwing.plan.row_values import (
    CELL,
    HELD,
    UNIT,
    Read,
    RowColumn,
    aliased,
    named,
    number_rows,
    one_if_present,
    select,
    where_present,
)
from lapwing.privacy.loss import Loss

if TYPE_CHECKING:
    from lapwing.plan.add_noise import FetchedRows
    from lapwing.plan.query import UnitRows

ONE = Interval(Fraction(0), Fraction(1))

_MOST_STEPS = Fraction(1 << 62)  # of one row: a wider value is cut here, so that no cast to BIGINT can fail
_MOST_BITS = 48  # of the noise, in steps
_MANY_ROWS = 1 << 18  # every row is rounded to a step: finer by this much, so that 10^9 rows add no bias to speak of


@dataclass(frozen=True, slots=True)
class TotalKind(Kind):
    """One cell: a unit's number of rows or values, or the sum of its values, clipped to the interval."""

    argument: Expression | None
    """What is counted or summed; every row if there is none."""
    summed: bool
    interval: Interval
    cells: ClassVar[int] = 1

    @property
    def facts(self) -> Facts:
        return ("total", self.summed, self.whole, interval_facts(self.interval), None)

    def __str__(self) -> str:
        return f"each unit's part of a group is clipped to {self.interval}"

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

    def sensitivity(self, step: Fraction) -> int:
        return max(map(abs, self.steps(step)))

    def best(self, many: int, *, largest: bool) -> Kind | None:
        return Best(self.argument, self.summed, self.interval, many, largest)

    def counts_units(self, *, by_row: bool) -> bool:
        return not self.summed and self.argument is None and (by_row or self.interval.magnitude == 1)

    @property
    def unit_interval(self) -> Interval | None:
        return self.interval

    def step(self, groups_per_unit: int, share: Loss) -> Fraction:
        """A power of two, so fine that rounding to it is small against the noise.

        Whole numbers go in steps of 1; in larger ones only if their noise could not be drawn otherwise.
        """
        if not self.summed:
            return Fraction(1)
        scale = groups_per_unit * self.interval.magnitude / mechanisms_for(share).strength
        if self.whole:
            return Fraction(1 << max(0, math.floor(scale).bit_length() - _MOST_BITS))
        return Grid.fine(scale, self.interval.magnitude, _MANY_ROWS).step

    def columns(self, step: Fraction) -> list[RowColumn]:
        if self.argument is None:
            return []
        return [RowColumn(self.argument, self.summed and not self._is_whole_column(step))]

    def unit_totals(self, step: Fraction, read: Read) -> list[exp.Expression]:
        if self.argument is None:
            return [exp.Count(this=exp.Star())]
        if not self.summed:
            return [exp.Count(this=read(0))]
        return [ExactSum(this=self._amount(step, read), most=self._most(step))]

    def row_parts(self, step: Fraction, read: Read) -> list[exp.Expression]:
        if self.argument is None:
            return [exp.Literal.number(1)]
        return [self._amount(step, read)] if self.summed else [one_if_present(read(0))]

    def unit_cells(self, step: Fraction, totals: list[exp.Expression]) -> list[exp.Expression]:
        """The total cut to the interval; a unit without any value to sum adds nothing."""
        (total,) = totals
        low, high = map(exp.Literal.number, self.steps(step))
        if not self.summed:
            return [cut(total, low, high)]
        gone = exp.Is(this=total, expression=exp.Null())
        return [exp.Case(ifs=[exp.If(this=gone, true=exp.Literal.number(0))], default=cut(total.copy(), low, high))]

    def _is_whole_column(self, step: Fraction) -> bool:
        """An integer column in steps of 1 is clipped as an integer, so that nothing is lost beyond 2^53."""
        return step == 1 and isinstance(self.argument, Column) and self.argument.type is Type.INTEGER

    def _bounds(self) -> Interval:
        """Of one value."""
        bounds = None if self.argument is None else bounds_of(self.argument)
        if bounds is None:
            raise Bug("a sum without bounds was planned")
        return bounds

    def _most(self, step: Fraction) -> int:
        """The most that one row adds to a sum, in whole steps. Twice the bounds, whose ends may have been rounded."""
        return 2 * math.ceil(self._bounds().magnitude / step)

    def _amount(self, step: Fraction, read: Read) -> exp.Expression:
        """What one row adds to a sum, in whole steps, clipped; NULL where it is missing."""
        bounds = self._bounds()
        if self._is_whole_column(step):
            sides = exp.Literal.number(math.floor(bounds.low)), exp.Literal.number(math.ceil(bounds.high))
            return where_present(read(0), cut(read(0), *sides))
        scaled = Times(this=number(read(0)), expression=real(1 / step))
        if isinstance(self.argument, Column) and bounds.magnitude <= _MOST_STEPS * step:
            return cast(RoundTo(this=scaled), exp.DType.BIGINT)  # clipped already, to bounds that fit; NULL stays NULL
        low, high = (max(-_MOST_STEPS, min(_MOST_STEPS, side / step)) for side in (bounds.low, bounds.high))
        return where_present(read(0), cast(RoundTo(this=between(scaled, low, high)), exp.DType.BIGINT))


@dataclass(frozen=True, slots=True)
class Best(TotalKind):
    """Only the groups with the largest cells are told, or with the smallest."""

    many: int
    largest: bool

    @property
    def facts(self) -> Facts:
        return ("total", self.summed, self.whole, interval_facts(self.interval), (self.many, self.largest))

    def __str__(self) -> str:
        side = "largest" if self.largest else "smallest"
        return f"{TotalKind.__str__(self)} to find the {self.many:,} {side}"

    @property
    def chosen_groups(self) -> int:
        return self.many

    @property
    def unit_interval(self) -> Interval | None:
        return None

    def step(self, groups_per_unit: int, share: Loss) -> Fraction:
        return TotalKind.step(self, self.many, share)

    def make_mechanism(self, step: Fraction, groups_per_unit: int, share: Loss) -> CellMechanism:
        """All cells move the same way with a unit if none of its parts may be below 0, or none above."""
        monotone = self.interval.low >= 0 or self.interval.high <= 0
        sensitivity = self.exact_sensitivity(step)
        try:
            choice = mechanisms_for(share).top_k(self.many, sensitivity=sensitivity, monotone=monotone)
        except Misconfigured:
            refuse("price-out-of-range", "`epsilon`", f"nothing can be chosen for {share}.", "Choose a larger one.")
        return BestGroups(choice, self.largest)

    def half_width(self, measure: Measure, statistic: str, confidence: Fraction, rows: int | None) -> Fraction | None:
        return None

    def errors(self, measure: Measure, confidence: Fraction, group_count: int) -> list[Fraction]:
        return [Fraction(_released_by(measure).choice.error(confidence, candidates=group_count)) * measure.step]

    def describe(self, measure: Measure, share: Loss | None) -> dict[str, Any]:
        choice = _released_by(measure).choice
        name = "permute-and-flip" if choice.peeling else "exponential"
        return {"mechanism": name, "chosen": choice.k, "loss": str(share)}

    def methods(self, measure: Measure) -> str:
        name = "permute-and-flip" if _released_by(measure).choice.peeling else "the exponential mechanism"
        return f"{self} groups, and {name} chooses them one after another"

    def promise(
        self, measure: Measure, reading: Reading, confidence: Fraction, *, group_count: int, each: str
    ) -> str | None:
        (short,) = self.errors(measure, confidence, group_count)
        return f"each group chosen is within {float(short):,.6g} of its place, with {{}} confidence"


def _released_by(measure: Measure) -> BestGroups:
    if not isinstance(measure.mechanism, BestGroups):
        raise Bug("groups are told without a choice")
    return measure.mechanism


def _argument(aggregate: Aggregate) -> Expression | None:
    return aggregate.arguments[0] if aggregate.arguments else None


def _count(table: Table, aggregate: Aggregate) -> TotalKind:
    return TotalKind(_argument(aggregate), False, ONE.times(row_limit(table, aggregate)))


def _units(_: Table, aggregate: Aggregate) -> TotalKind:
    return TotalKind(_argument(aggregate), False, ONE)


def _sum(table: Table, aggregate: Aggregate) -> TotalKind:
    (argument,) = aggregate.arguments
    bounds = bounds_for(aggregate, argument)
    declared = table.field(argument.name).unit_bounds if isinstance(argument, Column) else None
    if declared is None and not table.by_row:
        bounds = bounds.times(row_limit(table, aggregate))
    total = TotalKind(argument, True, bounds if declared is None else declared)
    if not total.interval.magnitude:
        refuse("constant-answer", aggregate.words(), "it is 0 whatever the rows hold.", "Leave it out.")
    return total


COUNT_ROWS = Function(
    "count_rows", "COUNT(*)", Type.INTEGER, "the number of rows", _count, surplus=Surplus.DROPPED, clips=False
)
COUNT_VALUES = Function(
    "count", "COUNT(x)", Type.INTEGER, "the number of values", _count, surplus=Surplus.DROPPED, clips=False
)
COUNT_UNITS = Function(
    "count_units",
    "COUNT(DISTINCT unit)",
    Type.INTEGER,
    "the number of units",
    _units,
    surplus=Surplus.NONE,
    clips=False,
)
SUM = Function("sum", "SUM(x)", Type.REAL, "the total", _sum, surplus=Surplus.CLIPPED)
COUNTS = COUNT_ROWS, COUNT_VALUES, COUNT_UNITS


@dataclass(frozen=True, slots=True)
class DistinctKind(Kind):
    """One cell: the number of different values, each of which is counted once over all units."""

    argument: Expression
    rows: int
    cells: ClassVar[int] = 1
    apart: ClassVar[bool] = True

    @property
    def facts(self) -> Facts:
        return ("distinct", self.rows)

    def __str__(self) -> str:
        return f"of each unit at most {text_of(self.rows)} different values count in a group"

    def sensitivity(self, step: Fraction) -> int:
        return self.rows

    def columns(self, step: Fraction) -> list[RowColumn]:
        return [RowColumn(self.argument)]

    def query(self, measure: Measure, rows: UnitRows) -> exp.Select:
        """Keys and c0, the number of different values; of each unit and group only as many as the limit says."""
        many = aliased(Wide(this=exp.Count(this=exp.Distinct(expressions=[named(CELL)]))), "c0")
        columns = [*rows.keys(), aliased(rows.read(), CELL)]
        counted = select(*rows.keys(), many)
        if rows.by_row:
            return _grouped(rows, counted, rows.select(*columns))
        once = rows.select(named(UNIT), *columns).group_by(named(UNIT), *rows.keys(), rows.read(), copy=False)
        gone = exp.Is(this=named(CELL), expression=exp.Null())
        order = [gone, KeyedHash(expressions=[named(UNIT), *rows.keys(), named(CELL)]), named(CELL)]
        number = number_rows(exp.RowNumber(), [named(UNIT), *rows.keys()], order)
        query = _grouped(rows, counted, rows.place(once, [aliased(number, HELD)]))
        within = exp.LTE(this=named(HELD), expression=exp.Literal.number(self.rows))
        return rows.within(query.where(exp.Paren(this=within), copy=False))

    def arrange(self, measure: Measure, fetched: FetchedRows) -> CellColumns:
        return (scatter(fetched.integers("c0"), fetched.places(), fetched.size),)


def _grouped(rows: UnitRows, query: exp.Select, inner: exp.Select) -> exp.Select:
    query = query.from_(inner.subquery("t", copy=False), copy=False)
    return query.group_by(*rows.keys(), copy=False) if rows.keys() else query


def _distinct(table: Table, aggregate: Aggregate) -> DistinctKind:
    (argument,) = aggregate.arguments
    return DistinctKind(argument, row_limit(table, aggregate))


COUNT_DISTINCT = Function(
    "count_distinct",
    "COUNT(DISTINCT x)",
    Type.INTEGER,
    "the number of different values",
    _distinct,
    surplus=Surplus.DIFFERENT,
    clips=False,
)
