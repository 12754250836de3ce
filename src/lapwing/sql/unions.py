"""UNION ALL of private rows: rows of one unit in several tables count together."""

from __future__ import annotations

from collections.abc import Sequence

from lapwing.expressions.derived import Selected, United
from lapwing.expressions.expression import Column, Expression
from lapwing.expressions.operators.base import common
from lapwing.expressions.operators.dates import zone_of
from lapwing.expressions.operators.table import bounds_of
from lapwing.expressions.refusal import refuse
from lapwing.expressions.table import Field
from lapwing.expressions.types import Interval, Type, Value
from lapwing.plan.domain import domain_of
from lapwing.plan.question import Output
from lapwing.sql.combining import column, declarable_bounds, derive_table, fresh, names_of
from lapwing.sql.relation import Rows, all_of, by_name

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
        field = _field(fresh(shown.name, taken), parts, sides)
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


def _field(name: str, parts: list[Expression], sides: Sequence[Rows]) -> Field:
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
