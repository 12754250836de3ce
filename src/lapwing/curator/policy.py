"""What a steward declared of a table, in the form that the ledger records."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from lapwing.engines.engine import Origin
from lapwing.expressions.table import Field, Table
from lapwing.expressions.types import Interval, Value
from lapwing.ledger import Declaration

_LISTED = 50  # values that an entry lists; of more it keeps their number and hash


def declaration(table: Table, origin: Origin) -> Declaration:
    """The table as the ledger records it."""
    seen, place, part = origin.fingerprint, origin.place, origin.part
    return Declaration(table.name, table.version, table.unit, seen, place, part, limits_of(table))


def limits_of(table: Table) -> dict[str, Any]:
    """Limits, types, bounds and values: what else decides the answers."""
    limits = {"rows_per_unit": table.rows_per_unit, "groups_per_unit": table.groups_per_unit}
    auto = sorted(limit.value for limit in table.auto)
    return {**limits, "auto": auto, "columns": {field.name: _column(field) for field in table.fields}}


def _column(field: Field) -> dict[str, Any]:
    declared = {
        "bounds": "auto" if field.auto else _interval(field.bounds),
        "unit_bounds": _interval(field.unit_bounds),
        "values": _values(field.values),
        "other": field.other,
        "edges": _values(field.edges),
        "zone": field.zone,
    }
    return {"type": field.type.value, **{name: value for name, value in declared.items() if value}}


def _interval(interval: Interval | None) -> list[str] | None:
    return None if interval is None else [str(interval.low), str(interval.high)]


def _values(values: Sequence[Value]) -> list[str | None] | dict[str, Any]:
    listed = [None if value is None else str(value) for value in values]
    if len(listed) <= _LISTED:
        return listed
    return {"count": len(listed), "sha256": sha256(repr(listed).encode()).hexdigest()}
