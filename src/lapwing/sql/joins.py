"""Joins of rows: with a public table on one of its keys, of private tables on the protected unit, and semi-joins.

A join relates a row to public rows, or to rows of its own unit. A semi-join gives each row one more column, whether it
has a partner, and takes none away; WHERE then keeps or drops the row by it.

Guarantee:  the columns of a public table that a join compares contain a key of it, under the comparison that runs.
Proof:      `Table.keys` are columns in which no two loaded rows are equal (engines/duckdb.py, `is_key`), each compared
            in its own engine type. A join compares it in that type too (plan/row_values.py), but for whole numbers
            beside reals, which it compares in float64. These are admitted only if the public numbers lie within 2^53,
            where every whole number is a float64 of its own, so different keys stay different.
Guarantee:  membership of a row of unit u depends on public tables and on the rows of u alone. So removing a unit
            removes its own rows, in every table, and changes no membership of another unit.
Proof:      Both semi-joins are outer joins (expressions/derived.py).
            A unit's membership joins each row with one row per unit of the other table. Units are compared as stored,
            so the partner, if there is one, is a function of the rows of that unit.
            A value's membership joins each row with the public rows grouped by what is compared, so at most one.
            In both, a row has at most one partner and stays without one: there are as many rows as before, and the
            limits and bounds of the outer table hold as they are.
NULL:       a NULL in the sub-query equals nothing, so it is dropped. `x IN (...)` is NULL where x is NULL.
Checked by: tests/sql/test_relations.py, tests/sql/test_semi_joins.py, tests/plan/test_relations_neighbours.py
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from lapwing.expressions.derived import Joined, degree_of
from lapwing.expressions.expression import Column, Expression, Key, Literal, Slot
from lapwing.expressions.operators.base import call
from lapwing.expressions.operators.logic import CASE, EQUAL, IS_NULL
from lapwing.expressions.refusal import refuse
from lapwing.expressions.table import Field, Table
from lapwing.expressions.types import Type
from lapwing.plan.question import Output
from lapwing.sql.derive import per_unit
from lapwing.sql.relation import (
    NULL,
    Aggregation,
    Columns,
    Meanings,
    Relation,
    Rows,
    all_of,
    by_name,
    column,
    derive_table,
    filter_by,
    fresh,
    names_of,
    rows_only,
    substitute,
)

MOST_DEGREE = 3
"""The most private tables in a join on the unit, where the row counts of a unit multiply."""

_PARTNER = "has a partner"
_MOST_EXACT = 1 << 53  # up to here every integer is a distinct float64

Pairs = Sequence[tuple[Expression, Expression]]
"""What must be equal: an expression over the left row, and one over the right row."""

BOTH_SIDES = (
    "unmatched rows are kept, so a condition over both tables must be an equality.",
    "Use JOIN, which leaves unmatched rows out.",
)
"""Why a condition of an outer join is refused, and what to write instead."""
TRUE = Literal(True, Type.BOOLEAN)


@dataclass(frozen=True, slots=True)
class Join:
    """The joined rows, and what the columns of both sides mean there."""

    table: Table
    where: tuple[Expression, ...]
    left: Callable[[Columns], Columns]
    right: Callable[[Columns], Columns]


def join(left: Rows, right: Rows, pairs: Pairs, *, how: str, what: str) -> Join:
    """The join of two relations: `how` is inner, left or right. Refused if a row could match rows of other units."""
    if how == "right" or (how == "inner" and left.table.public and not right.table.public):
        turned = join(right, left, [(b, a) for a, b in pairs], how="left" if how == "right" else how, what=what)
        return replace(turned, left=turned.right, right=turned.left)
    _check_sides(left.table, right.table, what)
    pairs = [_equal(a, b, what) for a, b in pairs]
    if right.table.public:
        _check_key(right.table, pairs, what)
        return _join(left, right, tuple(pairs), by_unit=False, outer=how == "left")
    units = column(left.table.field(left.table.unit or "")), column(right.table.field(right.table.unit or ""))
    if units not in list(pairs):
        refuse(
            "join-not-on-unit",
            what,
            "private tables must be joined on the protected unit, so that rows only match rows of the same unit.",
            f"Write ON a.{left.table.unit} = b.{right.table.unit}, followed by other conditions after AND.",
        )
    rest = tuple(pair for pair in pairs if pair != units)
    if degree_of(left.table) + degree_of(right.table) > MOST_DEGREE:
        refuse(
            "too-large",
            what,
            f"it joins more than {MOST_DEGREE} private tables.",
            "GROUP BY the unit in a subquery for some of them.",
        )
    return _join(left, right, rest, by_unit=True, outer=how == "left")


def filter_sides(
    left: Rows, right: Rows, only: Sequence[tuple[str, Expression]], *, how: str, what: str
) -> tuple[Rows, Rows, Pairs]:
    """Both sides with the conditions of ON over one of them, and the pairs that say the rest.

    A row that fails a condition has no match. So it is left out, unless unmatched rows of its side are kept: there the
    condition must equal TRUE. NULL equals nothing, and fails.
    """
    sides, pairs = {"left": left, "right": right}, list[tuple[Expression, Expression]]()
    for side, condition in only:
        kept = rows_only(filter_by(sides[side], [condition], lambda: what), what)
        if side == how:
            pairs.append((condition, TRUE) if side == "left" else (TRUE, condition))
        else:
            sides[side] = kept
    return sides["left"], sides["right"], pairs


def join_once(left: Rows, right: Rows, pairs: Pairs, *, what: str) -> tuple[Rows, Column]:
    """The rows as they are, and whether each has a match on the right, where it can have one only: public rows are
    grouped by what is compared (plan/row_values.py), private ones are one row per unit."""
    _check_sides(left.table, right.table, what)
    by_unit = not right.table.public
    on = tuple(_equal(a, b, what) for a, b in pairs)
    if by_unit:
        mine, yours = (column(side.table.field(side.table.unit or "")) for side in (left, right))
        _equal(mine, yours, what)
    made = _join(left, right, on, by_unit=by_unit, outer=True, once=True)
    return Rows(made.table, left.columns, made.where), column(made.table.fields[-1])


def _check_sides(left: Table, right: Table, what: str) -> None:
    if left.public:
        refuse(
            "public-rows",
            what,
            "unmatched rows of a public table belong to no unit.",
            "Put the private table first in FROM; public rows without a match are then left out.",
        )
    if not right.public and (left.by_row or right.by_row):
        refuse(
            "join-not-on-unit",
            what,
            "a table whose rows are units can only be joined with public tables.",
            "Have the steward declare `unit` for both, or ask about one table.",
        )


def _equal(a: Expression, b: Expression, what: str) -> tuple[Expression, Expression]:
    """Both sides; text compared with a date is read as a date."""
    left, right = call(EQUAL, a, b, part=lambda: what).arguments
    return left, right


def _check_key(table: Table, pairs: Pairs, what: str) -> None:
    """Refuses a join in which a private row could have several matches."""
    compared = [(a, b) for a, b in pairs if isinstance(b, Column)]
    exact = {b.name for a, b in compared if _is_exact(a, b)}
    names = {b.name for _, b in compared}
    if any(exact.issuperset(key) for key in table.keys):
        return
    if any(names.issuperset(key) for key in table.keys):
        refuse(
            "unsupported-join",
            what,
            f"it compares integers of `{table.name}` with reals, and above 2^53 several integers equal one real.",
            "Compare integers with integers: CAST(x AS INTEGER).",
        )
    else:
        keys = " or ".join(f"({', '.join(key)})" for key in table.keys[:6])
        line = f"public_keys={{{table.name!r}: ['column']}}, or key = [\"column\"] for `{table.name}` in lapwing.toml"
        refuse(
            "join-not-on-key",
            what,
            f"these columns are not a key of `{table.name}`, so a row could have several matches.",
            f"Join on {keys}." if keys else f"Have the steward declare its key: {line}.",
        )


def _is_exact(a: Expression, b: Column) -> bool:
    """True if different public values stay different in the comparison."""
    if a.type is not Type.REAL or b.type is not Type.INTEGER:
        return True
    return b.bounds is not None and b.bounds.magnitude <= _MOST_EXACT


def _join(
    left: Rows,
    right: Rows,
    on: tuple[tuple[Expression, Expression], ...],
    *,
    by_unit: bool,
    outer: bool,
    once: bool = False,
) -> Join:
    """The joined table. `once`: each row has at most one match, so that a unit's totals stay as they are."""
    taken = {field.name.lower() for field in left.table.fields}
    mine = [replace(field, unit_bounds=None) if by_unit and not once else field for field in left.table.fields]
    yours = [_partner(field, fresh(field.name, taken), outer=outer) for field in right.table.fields]
    partner = Field(fresh(_PARTNER, taken), Type.BOOLEAN, values=(False, True))
    source = Joined(left.table, right.table, on, by_unit, outer, all_of(right.where, "ON") if outer else None)
    alone = left.table.rows_per_unit, left.table.groups_per_unit
    rows, groups = _limits(left.table, right.table) if by_unit else alone
    table = derive_table(
        source,
        [*mine, *yours, *([partner] if outer else [])],
        left.table.unit,
        name=names_of(source.tables),
        rows=rows,
        groups=groups,
    )
    meanings: dict[Column | Key | Slot, Expression] = {
        column(old): column(new) for old, new in zip(right.table.fields, yours, strict=True)
    }
    if by_unit and not outer and left.table.unit is not None:
        meanings[column(right.table.field(right.table.unit or ""))] = column(left.table.field(left.table.unit))
    inside = () if outer else tuple(substitute(condition, meanings) for condition in right.where)
    return Join(
        table,
        left.where + inside,
        lambda columns: columns,
        lambda columns: _move(columns, meanings, column(partner) if outer else None),
    )


def _partner(field: Field, name: str, *, outer: bool) -> Field:
    """A column of the right table; NULL in an unmatched row."""
    values = field.values
    if outer and values and None not in values:
        values = (*values, None)
    return replace(field, name=name, unit_bounds=None, values=values)


def _move(columns: Columns, meanings: Meanings, partner: Column | None) -> Columns:
    """The right columns over the joined row. Computed columns are NULL in an unmatched row."""

    def move(output: Output) -> Output:
        expression = substitute(output.expression, meanings)
        if partner is not None and not isinstance(expression, Column):
            expression = call(CASE, partner, expression, NULL, part=lambda: f"`{output.name}`")
        return Output(output.name, expression)

    return {name: move(output) for name, output in columns.items()}


def _limits(left: Table, right: Table) -> tuple[int | None, int | None]:
    """Row limits multiply. A table with one row per unit adds no groups; otherwise the smaller limit holds."""
    limits = [table.rows_per_unit for table in (left, right) if table.rows_per_unit is not None]
    rows = math.prod(limits) if len(limits) == 2 else None
    if right.rows_per_unit == 1:
        return rows, left.groups_per_unit
    if left.rows_per_unit == 1:
        return rows, right.groups_per_unit
    return rows, min((t.groups_per_unit for t in (left, right) if t.groups_per_unit is not None), default=None)


def is_member(rows: Rows, value: Expression, members: Relation, what: str) -> tuple[Rows, Expression]:
    """The same rows, and the condition `value IN (members)`. The sub-query has one column."""
    found = members_only(members, what)
    if len(found.columns) != 1:
        refuse("wrong-argument", what, f"the sub-query has {len(found.columns)} columns.", "Select one column in it.")
    (output,) = found.columns.values()
    if found.table.public:
        made, met = join_once(rows, found, ((value, output.expression),), what=what)
        empty = call(IS_NULL, value, part=lambda: what)
        return made, call(CASE, empty, NULL, met, part=lambda: what)
    if not (is_unit(value, rows) and is_unit(output.expression, found)):
        _refuse_private(rows, found, what)
    return has_rows(rows, found, what)


def has_rows(rows: Rows, others: Rows, what: str) -> tuple[Rows, Expression]:
    """The same rows, and the condition that their unit has a row among the others."""
    if rows.table.by_row or others.table.by_row:
        refuse(
            "join-not-on-unit",
            what,
            "rows of this table are units of their own, so they belong to no unit in another table.",
            "Have the steward declare `unit` for both, or use a public table.",
        )
    unit = column(others.table.field(others.table.unit or ""))
    each = per_unit(Aggregation(others, (unit,), (), by_name([Output(unit.name, Key(0, unit.type))])))
    return join_once(rows, each, (), what=what)


def members_only(members: Relation, what: str) -> Rows:
    """The sub-query as rows; refused if it returns released numbers."""
    if isinstance(members, Aggregation):
        refuse(
            "released-numbers",
            what,
            "the groups in the sub-query would have to be released first.",
            "Ask the sub-query by itself, then write its values: IN ('a', 'b').",
        )
    return rows_only(members, what)


def is_unit(expression: Expression, rows: Rows) -> bool:
    """True for the column of the protected unit."""
    return isinstance(expression, Column) and expression.name == rows.table.unit


def _refuse_private(rows: Rows, members: Rows, what: str) -> NoReturn:
    unit, other = rows.table.unit, members.table.unit
    if unit is None or other is None:
        has_rows(rows, members, what)  # refuses
    refuse(
        "join-not-on-unit",
        what,
        f"`{members.table.name}` is private: its values belong to other units.",
        f"Compare the protected unit: {unit} IN (SELECT {other} FROM {members.table.name} WHERE ...).",
    )
