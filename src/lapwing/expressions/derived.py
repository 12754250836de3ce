"""Tables derived from other tables: joins, unions, and one row per unit.

Guarantee:  every row of a derived table belongs to one unit, and the rows of a unit are a function of that unit's own
            private rows and of public tables; by row, each private row yields at most one. So removing a unit
            removes its own rows from the derived table and changes no others.
Proof:      by induction over the tables below; it holds for stored tables.
            Joined, public.  A row matches the public rows that equal its values in the join columns, both sides in
                one type. There is at most one such row by construction, since the public side is grouped by those
                values (plan/row_values.py), and public rows decide which one; and they contain a key of the
                public table, checked when it is loaded (sql/joins.py). An outer join keeps an unmatched
                row. Its unit stays with it.
            Joined, by unit.  A row is matched only with rows of its own unit: units are compared as stored, not as
                the analyst wrote them. The content of a pair, and whether a row is unmatched, is a function of both.
            United.  Rows are concatenated, each with its own unit.
            PerUnit.  Rows are grouped by the unit as stored, so a row is a function of the rows of one unit, and
                every aggregate is exact: no sum depends on the order of rows.
            Columns and conditions are total functions of one row, so nothing fails and no row affects another.
How many rows of a unit count is decided elsewhere: limits are applied to the derived rows (query.py).
Checked by: tests/sql/test_relations.py, tests/plan/test_relations_neighbours.py
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from lapwing.expressions.aggregate import Aggregate
from lapwing.expressions.expression import Expression
from lapwing.expressions.refusal import refuse
from lapwing.expressions.table import Table

PER_UNIT = {"count_rows", "count", "count_units", "count_distinct", "sum", "mean", "min", "max"}
"""Aggregates of one unit, besides the quantiles 0 and 1, which are MIN and MAX."""
EXTREMES: dict[tuple[Fraction, ...], str] = {(Fraction(0),): "min", (Fraction(1),): "max"}
"""The levels of MIN and MAX."""
MOST_TABLES = 16
"""The most stored tables in one question, each counted as often as it is read."""
MOST_LEVELS = 16
"""The most levels of nested derived tables."""


@dataclass(frozen=True, slots=True)
class Joined:
    """Each row of the left table with its matches on the right. Columns: all of the left, all of the right,
    and, if unmatched rows are kept, whether there is a match."""

    left: Table
    right: Table
    on: tuple[tuple[Expression, Expression], ...]
    """Pairs compared for equality: an expression over the left row, one over the right row."""
    by_unit: bool
    """True if both tables are private, so that the units must be equal too."""
    outer: bool
    """True if unmatched rows are kept."""
    right_where: Expression | None = None
    """Which rows of the right table can match at all."""

    @property
    def tables(self) -> tuple[Table, ...]:
        return self.left, self.right


@dataclass(frozen=True, slots=True)
class Selected:
    """A filtered table, with columns computed row by row. The first column is the protected unit."""

    table: Table
    columns: tuple[Expression, ...]
    where: Expression | None


@dataclass(frozen=True, slots=True)
class United:
    """The rows of all inputs, concatenated."""

    sides: tuple[Selected, ...]

    @property
    def tables(self) -> tuple[Table, ...]:
        return tuple(side.table for side in self.sides)


@dataclass(frozen=True, slots=True)
class PerUnit:
    """One row per unit and key value. Columns: the unit, the keys, the aggregates."""

    table: Table
    where: Expression | None
    keys: tuple[Expression, ...]
    """The keys besides the unit."""
    aggregates: tuple[Aggregate, ...]

    @property
    def tables(self) -> tuple[Table, ...]:
        return (self.table,)


Derived = Joined | United | PerUnit


def scans_of(table: Table) -> int:
    """How many stored tables are read, each counted as often as it is read."""
    return 1 if table.source is None else sum(map(scans_of, table.source.tables))


def levels_of(table: Table) -> int:
    return 0 if table.source is None else 1 + max(map(levels_of, table.source.tables))


def degree_of(table: Table) -> int:
    """If a unit has n rows in every stored table, its derived rows grow like n to this power."""
    match table.source:
        case None:
            return 0 if table.public else 1
        case Joined(left=left, right=right, by_unit=True):
            return degree_of(left) + degree_of(right)
        case Joined(left=left):
            return degree_of(left)
        case United(sides=sides):
            return max(degree_of(side.table) for side in sides)
        case PerUnit(table=inner, keys=keys):
            return degree_of(inner) if keys else 0


def per_unit_kind(aggregate: Aggregate) -> str:
    """The aggregate computed inside; refused if it is not exact for every unit."""
    name = EXTREMES.get(aggregate.parameters, "") if aggregate.name == "quantile" else aggregate.name
    if name not in PER_UNIT:
        refuse(
            "unsupported-function",
            aggregate.words(),
            "it cannot be computed per unit in a subquery.",
            "COUNT, SUM, AVG, MIN and MAX in the subquery are other questions; the outer SELECT takes every aggregate.",
        )
    return name
