"""Subqueries that GROUP BY the protected unit: one row per unit, computed exactly, before noise is added.

"The average over patients of each patient's total": inner results are never released: no noise, no price.
"""

from __future__ import annotations

import math
from fractions import Fraction

from lapwing.expressions.aggregate import Aggregate
from lapwing.expressions.derived import PerUnit, per_unit_kind
from lapwing.expressions.expression import Column, Expression, Key, Slot
from lapwing.expressions.operators.dates import zone_of
from lapwing.expressions.operators.table import bounds_of
from lapwing.expressions.refusal import refuse
from lapwing.expressions.table import Field, Table
from lapwing.expressions.types import Interval, Type
from lapwing.plan.domain import domain_of
from lapwing.plan.question import Output
from lapwing.sql.combining import column, declarable_bounds, derive_table, fresh, substitute
from lapwing.sql.grouping import slot_type
from lapwing.sql.relation import Aggregation, Rows, all_of, by_name


def is_per_unit(groups: Aggregation) -> bool:
    """True if the unit is one of the keys."""
    return any(_is_unit(key, groups.rows.table) for key in groups.keys)


def per_unit(groups: Aggregation) -> Rows:
    """The groups as rows, each of which belongs to one unit."""
    if groups.limit is not None or groups.order:
        refuse(
            "row-choice",
            "ORDER BY, LIMIT",
            "sorting or limiting units depends on all of them.",
            "Leave it out of the subquery; the final groups can be sorted and limited.",
        )
    table = groups.rows.table
    others = tuple(key for key in groups.keys if not _is_unit(key, table))
    taken: set[str] = set()
    unit = Field(fresh(table.unit or "", taken), table.field(table.unit or "").type)
    keys = [_key_field(fresh(_name(key), taken), key, table) for key in others]
    results = [_field(fresh(a.words(), taken), a, table) for a in groups.aggregates]
    source = PerUnit(table, all_of(groups.rows.where, "WHERE"), others, groups.aggregates)
    made = derive_table(
        source,
        [unit, *keys, *results],
        unit.name,
        name=f"{table.name} per {table.unit}",
        rows=_rows(table, others),
        groups=table.groups_per_unit if others else 1,
    )
    fields = dict(zip(others, keys, strict=True))
    meanings: dict[Column | Key | Slot, Expression] = {
        Key(i, key.type or Type.TEXT): column(fields.get(key, unit)) for i, key in enumerate(groups.keys)
    }
    for i, (aggregate, field) in enumerate(zip(groups.aggregates, results, strict=True)):
        meanings[Slot(i, slot_type(aggregate, per_unit=True))] = column(field)
    outputs = (Output(output.name, substitute(output.expression, meanings)) for output in groups.columns.values())
    return Rows(made, by_name(outputs), tuple(substitute(condition, meanings) for condition in groups.having))


def _is_unit(key: Expression, table: Table) -> bool:
    return isinstance(key, Column) and key.name == table.unit


def _name(key: Expression) -> str:
    return key.name if isinstance(key, Column) else "key"


def _key_field(name: str, key: Expression, table: Table) -> Field:
    if key.type is None or key.type is Type.REAL:
        refuse(
            "real-key",
            f"GROUP BY `{name}`",
            "cannot group by a real number: 0.0 and -0.0 compare equal.",
            "Group by FLOOR(...) of it, one group for each whole number.",
        )
    edges = key.edges if isinstance(key, Column) else ()
    bounds, values = declarable_bounds(bounds_of(key), key.type), domain_of(key, table) or ()
    return Field(name, key.type, bounds, values=values, edges=edges, zone=zone_of(key))


def _rows(table: Table, keys: tuple[Expression, ...]) -> int | None:
    """One row per unit and public value of every key; never more than there are rows."""
    domains = [domain_of(key, table) for key in keys]
    known = [len(domain) for domain in domains if domain is not None]
    limits = [table.rows_per_unit, math.prod(known) if len(known) == len(domains) else None]
    return min((limit for limit in limits if limit is not None), default=None)


def _field(name: str, aggregate: Aggregate, table: Table) -> Field:
    kind, rows = per_unit_kind(aggregate), table.rows_per_unit
    if kind == "count_units":
        return Field(name, Type.INTEGER, _up_to(1))
    if kind.startswith("count"):
        bounds = None if rows is None else _up_to(rows)
        return Field(name, Type.INTEGER, declarable_bounds(bounds, Type.INTEGER))
    argument = aggregate.arguments[0]
    bounds = bounds_of(argument)
    if kind in ("min", "max") and argument.type is not None and argument.type is not Type.REAL:
        known = declarable_bounds(bounds, argument.type)
        values = domain_of(argument, table) or ()
        return Field(name, argument.type, known, values=values, zone=zone_of(argument))
    if kind in ("sum", "mean") and bounds is None:
        refuse(
            "unbounded-value",
            aggregate.words(),
            "values are unbounded, and such a sum depends on the order of rows.",
            f"Clip it: {aggregate.function}(CLIP(..., 0, 100)), or have the steward declare bounds.",
        )
    if kind == "sum":
        own = table.field(argument.name).unit_bounds if isinstance(argument, Column) else None
        bounds = own if own is not None else None if rows is None or bounds is None else bounds.times(rows)
    return Field(name, Type.REAL, bounds)


def _up_to(most: int) -> Interval:
    return Interval(Fraction(0), Fraction(most))
