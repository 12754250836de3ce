"""Arrow: typed columns, with the ends of intervals beside their numbers."""

from __future__ import annotations

import pyarrow as pa

from lapwing.answers.table import AnswerTable
from lapwing.engines.engine import ARROW_TYPES


def to_arrow(table: AnswerTable, *, intervals: bool = True) -> pa.Table:
    """The answer; `intervals=False` leaves the ends of its intervals out. Types follow from the plan."""
    named = table.by_name(intervals=intervals)
    return pa.table({name: pa.array(values, ARROW_TYPES[kind]) for name, (kind, values) in named.items()})
