"""Tables whose rows are made of other tables: joins, unions, and one row a unit.

Guarantee:  every row of a derived table belongs to one unit, and the rows of a unit are a function of that unit's own
            private rows and of public tables; at row level every private row makes at most one row. So removing a unit
            removes its own rows of the derived table and changes nobody else's.
Proof:      by induction over the tables below; a stored table has it.
            Joined, public.  A row meets the public rows that are equal to its values of the join columns, both sides in
                one type. There is one such row at most by construction, since the public side is grouped by those
                values (cells/derived_rows.py), and which one is decided by public rows; and they hold a key of the
                public table, proved when it is loaded (reading/relations/joins.py). An outer join keeps a row without a
                partner. Its unit stays with it.
            Joined, by unit.  A row meets rows of its own unit only: the units are compared as they are stored, not as
                the analyst wrote it. What a pair holds, and whether a row stays without one, is a function of both.
            United.  Rows stand beside each other, each with its own unit.
            PerUnit.  Rows are grouped by the unit as it is stored, so a row is a function of rows of one unit, and
                every aggregate is exact: no sum depends on the order in which rows are met.
            Columns and conditions are total functions of one row, so nothing fails and no row decides over another.
How many rows of a unit count is not promised here: limits are applied to the derived rows (bounding.py).
Checked by: tests/reading/relations/test_relations.py, tests/cells/test_relations_neighbours.py
"""

from __future__ import annotations

from dataclasses import dataclass

from lapwing.catalog.table import Table
from lapwing.language.aggregate import Aggregate
from lapwing.language.expression import Expression

MOST_TABLES = 16
"""Stored tables in one question, each counted as often as it is read."""
MOST_LEVELS = 16
"""Derived tables inside each other."""


@dataclass(frozen=True, slots=True)
class Joined:
    """Each row of the left table with its partners on the right. Columns: all of the left one, all of the right one,
    and, where rows without a partner stay, whether there is one."""

    left: Table
    right: Table
    on: tuple[tuple[Expression, Expression], ...]
    """Pairs that are equal: an expression over the left row, one over the right row."""
    by_unit: bool
    """Whether both are private, so that the units are equal too."""
    outer: bool
    """Whether a row without a partner stays."""
    right_where: Expression | None = None
    """Which rows of the right table are partners at all."""

    @property
    def tables(self) -> tuple[Table, ...]:
        return self.left, self.right


@dataclass(frozen=True, slots=True)
class Selected:
    """Some rows of a table, with columns computed row by row. The first column is the protected unit."""

    table: Table
    columns: tuple[Expression, ...]
    where: Expression | None


@dataclass(frozen=True, slots=True)
class United:
    """The rows of all sides, one below the other."""

    sides: tuple[Selected, ...]

    @property
    def tables(self) -> tuple[Table, ...]:
        return tuple(side.table for side in self.sides)


@dataclass(frozen=True, slots=True)
class PerUnit:
    """One row for each unit and each value of its keys. Columns: the unit, the keys, the aggregates."""

    table: Table
    where: Expression | None
    keys: tuple[Expression, ...]
    """Besides the unit."""
    aggregates: tuple[Aggregate, ...]

    @property
    def tables(self) -> tuple[Table, ...]:
        return (self.table,)


Derived = Joined | United | PerUnit


def scans_of(table: Table) -> int:
    """How many stored tables are read, each counted as often as it is."""
    return 1 if table.source is None else sum(map(scans_of, table.source.tables))


def levels_of(table: Table) -> int:
    """How many derived tables stand inside each other."""
    return 0 if table.source is None else 1 + max(map(levels_of, table.source.tables))


def degree_of(table: Table) -> int:
    """The rows of a unit with n rows in every stored table grow like n to this power."""
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
