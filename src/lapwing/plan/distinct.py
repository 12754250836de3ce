"""COUNT(DISTINCT x): how many different values there are, with at most `rows` values of a unit. Sensitivity: rows."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from sqlglot import exp

from lapwing.expressions.aggregate import Aggregate
from lapwing.expressions.expression import Expression
from lapwing.expressions.forms import KeyedHash, Wide
from lapwing.expressions.identity import Facts
from lapwing.expressions.table import Table
from lapwing.expressions.types import Type, text_of
from lapwing.mechanisms.cells import CellColumns
from lapwing.plan.kind import FetchedRows, Function, Kind, Measure, Surplus, UnitRows, row_limit, scatter
from lapwing.plan.row_values import CELL, HELD, UNIT, RowColumn, aliased, named, number_rows, select


@dataclass(frozen=True, slots=True)
class DistinctKind(Kind):
    """One cell: the number of different values, each of which is counted once over all units."""

    argument: Expression
    rows: int
    apart: ClassVar[bool] = True

    @property
    def facts(self) -> Facts:
        return ("distinct", self.rows)

    def __str__(self) -> str:
        return f"of each unit at most {text_of(self.rows)} different values count in a group"

    @property
    def cells(self) -> int:
        return 1

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
