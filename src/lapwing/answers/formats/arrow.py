"""Arrow: typed columns, without intervals or with them beside their numbers."""

from __future__ import annotations

import pyarrow as pa

from lapwing.answers.table import AnswerTable
from lapwing.engines.engine import ARROW_TYPES


def to_arrow(table: AnswerTable) -> pa.Table:
    """The answer without intervals. Types follow from the plan."""
    return pa.table({column.name: pa.array(column.typed(), ARROW_TYPES[column.type]) for column in table.columns})


def with_intervals(table: AnswerTable) -> pa.Table:
    """The answer with the ends of its intervals beside their numbers."""
    wide = table.with_intervals()
    return pa.table({name: pa.array(values, ARROW_TYPES[kind]) for name, (kind, values) in wide.items()})
