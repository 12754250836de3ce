"""Rows that a subquery derives: UNION ALL, and one row per unit by GROUP BY the protected unit.

Rows of one unit in several united tables count together. Per unit ("the average over patients of each patient's
total") results are exact: they are never released, so they have no noise and no price.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from lapwing.expressions.aggregate import Aggregate
from lapwing.expressions.derived import PerUnit, Selected, United, per_unit_kind
from lapwing.expressions.expression import Column, Expression, Key, Slot
from lapwing.expressions.operators.base import common
from lapwing.expressions.operators.dates import zone_of
from lapwing.expressions.operators.table import bounds_of
from lapwing.expressions.refusal import refuse
from lapwing.expressions.table import Field, Table
from lapwing.expressions.types import Interval, Type, Value
from lapwing.plan.domain import domain_of
from lapwing.plan.question import Output
from lapwing.sql.grouping import slot_type
from lapwing.sql.relation import (
    Aggregation,
    Rows,
    all_of,
    by_name,
    column,
    declarable_bounds,
    derive_table,
    fresh,
    names_of,
    substitute,
)

_WHAT = "UNION ALL"


def unite(sides: Sequence[Rows]) -> Rows:
    """The rows of all inputs. Their columns must have the same names in the same order, and compatible types."""
    for side in sides:
        _check_side(side, sides[0])
    units = [column(side.table.field(side.table.unit or "")) for side in sides]
    if len({unit.type for unit in units}) > 1:
        refuse(
            "unsupported-union",
            _WHAT,
            "the unit is declared with different types.",
            "Have the steward declare one type for it.",
        )
    taken: set[str] = set()
    unit = Field(fresh(units[0].name, taken), units[0].type)
    columns: list[list[Expression]] = [[*units]]
    fields, outputs = [unit], []
    for position, shown in enumerate(sides[0].columns.values()):
        parts = [list(side.columns.values())[position].expression for side in sides]
        if parts == units:
            outputs.append(Output(shown.name, column(unit)))
            continue
        field = _united_field(fresh(shown.name, taken), parts, sides)
        fields.append(field)
        columns.append(parts)
        outputs.append(Output(shown.name, column(field)))
    source = United(
        tuple(
            Selected(side.table, tuple(parts[i] for parts in columns), all_of(side.where, "WHERE"))
            for i, side in enumerate(sides)
        )
    )
    table = derive_table(
        source,
        fields,
        unit.name,
        name=names_of(source.tables),
        rows=_add([side.table.rows_per_unit for side in sides]),
        groups=_add([side.table.groups_per_unit for side in sides]),
    )
    return Rows(table, by_name(outputs))


def _check_side(side: Rows, first: Rows) -> None:
    if side.table.public:
        refuse(
            "public-rows",
            _WHAT,
            f"`{side.table.name}` is public, and its rows belong to no unit.",
            "Use UNION ALL with private tables only.",
        )
    if side.table.by_row:
        refuse(
            "unsupported-union",
            _WHAT,
            f"in `{side.table.name}` every row is its own unit, so one person may be in both tables.",
            "Have the steward declare `unit`, or ask about each table separately.",
        )
    if list(side.columns) != list(first.columns):
        refuse(
            "unsupported-union", _WHAT, "the inputs have different columns.", "Select the same names in the same order."
        )


def _united_field(name: str, parts: list[Expression], sides: Sequence[Rows]) -> Field:
    kind = common(tuple(part.type for part in parts))
    if kind is None:
        refuse(
            "unsupported-union",
            f"{_WHAT}, `{name}`",
            "its types are incompatible.",
            f"Cast it in each input: CAST({name} AS ...).",
        )
    bounds = [bounds_of(part) for part in parts]
    edges = {part.edges if isinstance(part, Column) and part.type is kind else () for part in parts}
    zones = {zone_of(part) for part in parts if part.type is kind}
    return Field(
        name,
        kind,
        declarable_bounds(_hull(bounds), kind),
        values=_values(kind, parts, sides),
        edges=edges.pop() if len(edges) == 1 else (),
        zone=zones.pop() if len(zones) == 1 else None,
    )


def _hull(bounds: list[Interval | None]) -> Interval | None:
    known = [interval for interval in bounds if interval is not None]
    if len(known) < len(bounds):
        return None
    return Interval(min(interval.low for interval in known), max(interval.high for interval in known))


def _values(kind: Type, parts: list[Expression], sides: Sequence[Rows]) -> tuple[Value, ...]:
    """The public values of all inputs, in order; none if any input has none."""
    lists = [_as_list(part, side) for part, side in zip(parts, sides, strict=True)]
    if kind is Type.REAL or not all(lists):
        return ()
    return tuple(dict.fromkeys(value for values in lists for value in values))


def _as_list(part: Expression, side: Rows) -> tuple[Value, ...]:
    if isinstance(part, Column):
        return side.table.field(part.name).values
    return domain_of(part, side.table) or ()


def _add(limits: list[int | None]) -> int | None:
    known = [limit for limit in limits if limit is not None]
    return sum(known) if len(known) == len(limits) else None


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
    results = [_result_field(fresh(a.words(), taken), a, table) for a in groups.aggregates]
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
    span = table.field(key.name).span if isinstance(key, Column) else None
    return Field(name, key.type, bounds, values=values, edges=edges, zone=zone_of(key), span=span)


def _rows(table: Table, keys: tuple[Expression, ...]) -> int | None:
    """One row per unit and public value of every key; never more than there are rows."""
    domains = [domain_of(key, table) for key in keys]
    known = [len(domain) for domain in domains if domain is not None]
    limits = [table.rows_per_unit, math.prod(known) if len(known) == len(domains) else None]
    return min((limit for limit in limits if limit is not None), default=None)


def _result_field(name: str, aggregate: Aggregate, table: Table) -> Field:
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
        zone, span = zone_of(argument), table.field(argument.name).span if isinstance(argument, Column) else None
        return Field(name, argument.type, known, values=values, zone=zone, span=span)
    if kind in ("sum", "mean") and bounds is None:
        refuse(
            "unbounded-value",
            aggregate.words(),
            "values are unbounded, and such a sum depends on the order of rows.",
            f"Clip it: {aggregate.function}(CLIP(..., 0, 100))",
            "bounds",
        )
    if kind == "sum":
        own = table.field(argument.name).unit_bounds if isinstance(argument, Column) else None
        bounds = own if own is not None else None if rows is None or bounds is None else bounds.times(rows)
    return Field(name, Type.REAL, bounds)


def _up_to(most: int) -> Interval:
    return Interval(Fraction(0), Fraction(most))
