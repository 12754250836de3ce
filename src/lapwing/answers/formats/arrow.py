"""Arrow: typed columns, with the ends of intervals beside their numbers.

What to know of the whole answer is in the schema's metadata, `notes`: a list as JSON, which Parquet files keep.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lapwing.answers.table import AnswerTable

if TYPE_CHECKING:
    import pyarrow as pa


def to_arrow(table: AnswerTable, *, intervals: bool = True) -> pa.Table:
    """The answer; `intervals=False` leaves the ends of its intervals out. Types follow from the plan."""
    import pyarrow as pa  # slow import

    from lapwing.engines.engine import ARROW_TYPES

    named = table.by_name(intervals=intervals)
    columns = {name: pa.array(values, ARROW_TYPES[kind]) for name, (kind, values) in named.items()}
    return pa.table(columns, metadata={"notes": json.dumps(table.notes)})
