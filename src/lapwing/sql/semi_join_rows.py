"""Semi-joins: whether a unit has a row in another table, and whether a value is in a column of a public table.

Each gives the rows one more column, a condition, and takes none away; WHERE then keeps or drops a row by it.

Guarantee:  membership of a row of unit u depends on public tables and on the rows of u alone. So removing a unit
            removes its own rows, in every table, and changes no membership of another unit.
Proof:      Both are outer joins (expressions/derived.py).
            A unit's membership joins each row with one row per unit of the other table. Units are compared as stored,
            so the partner, if there is one, is a function of the rows of that unit.
            A value's membership joins each row with the public rows grouped by what is compared, so at most one.
            In both, a row has at most one partner and stays without one: there are as many rows as before, and the
            limits and bounds of the outer table hold as they are.
NULL:       a NULL in the sub-query equals nothing, so it is dropped. `x IN (...)` is NULL where x is NULL.
Checked by: tests/sql/test_semi_joins.py, tests/plan/test_relations_neighbours.py
"""

from __future__ import annotations

from typing import NoReturn

from lapwing.expressions.expression import Column, Expression, Key
from lapwing.expressions.operators.base import call
from lapwing.expressions.operators.logic import CASE, IS_NULL
from lapwing.expressions.refusal import refuse
from lapwing.plan.question import Output
from lapwing.sql.combining import column, rows_only
from lapwing.sql.joins import join_once
from lapwing.sql.per_unit import per_unit
from lapwing.sql.relation import NULL, Aggregation, Relation, Rows, by_name


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
