"""Arrow: typed columns, without intervals or with them beside their numbers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lapwing.answers.table import AnswerColumn, AnswerTable, fresh
from lapwing.engines.calculator import ARROW_TYPES
from lapwing.language.types import Type

_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


def to_arrow(table: AnswerTable) -> pa.Table:
    """The answer without intervals. Types follow from the plan."""
    return pa.table({column.name: _array(column) for column in table.columns})


def with_intervals(table: AnswerTable) -> pa.Table:
    """With `name_low` and `name_high` beside each number; one asked for without an interval stands alone."""
    made, names = {}, {column.name for column in table.columns}
    for column in table.columns:
        made[column.name] = _array(column)
        if not column.is_key and not column.bare:
            for end, values in zip(("low", "high"), column.intervals(), strict=True):
                name = fresh(f"{column.name}_{end}", names)
                names.add(name)
                made[name] = pa.array(values, pa.float64())
    return pa.table(made)


def _array(column: AnswerColumn) -> pa.Array:
    values: list[Any] = column.plain()
    if column.type is Type.INTEGER and column.values.dtype.kind != "i":
        values = [None if value is None else max(_LEAST, min(_MOST, value)) for value in values]
    return pa.array(values, ARROW_TYPES[column.type])
