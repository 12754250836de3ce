"""JSON: rows with intervals, notes, how the answer was made, and all that it takes to show it again (from_json.py)."""

from __future__ import annotations

import json
from typing import Any

from lapwing.answers.table import AnswerColumn, AnswerTable
from lapwing.privacy.budget import Cost


def to_dict(table: AnswerTable) -> dict[str, Any]:
    """Ready for JSON. `columns` are those asked for; rows also hold the ends of their intervals."""
    own = {
        "columns": [column.name for column in table.columns],
        "rows": table.rows(),
        "confidence": float(table.confidence),
        "notes": list(table.notes),
        "column_notes": table.column_notes,
        "layout": _layout(table),
        **({"null_because": table.null_because} if table.null_because else {}),
    }
    return {**own, **table.facts(), **own}  # facts of the answer never stand for those of this table


def to_json(table: AnswerTable) -> str:
    return dump(to_dict(table))


def dump(value: Any) -> str:
    """As JSON; dates and times as text."""
    return json.dumps(value, default=str)


def price(cost: Cost) -> dict[str, float]:
    return {cost.unit: float(cost.amount), "delta": float(cost.delta)}


def _layout(table: AnswerTable) -> dict[str, Any]:
    """What rows and notes do not say of the table: types, which numbers have intervals, and the words beside it."""
    words = {"paid": table.paid, "title": table.title, "condition": table.condition}
    shape = {"binned": table.binned, "gaps": table.gaps}
    return {"columns": [_column_layout(column) for column in table.columns], **words, **shape}


def _column_layout(column: AnswerColumn) -> dict[str, Any]:
    said = {"type": column.type.value, "reason": column.reason, "remark": column.remark}
    return {**said, "interval": column.low is not None, "bare": column.bare, "chosen": column.chosen}
