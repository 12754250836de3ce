"""JSON: rows with intervals, notes, and how the answer was made."""

from __future__ import annotations

import json
from typing import Any

from lapwing.answers.table import AnswerTable
from lapwing.privacy.budget import Cost


def to_dict(table: AnswerTable) -> dict[str, Any]:
    """Ready for JSON. `columns` are those asked for; rows also hold the ends of their intervals."""
    own = {
        "columns": [column.name for column in table.columns],
        "rows": table.rows(),
        "confidence": float(table.confidence),
        "notes": list(table.notes),
        "column_notes": table.column_notes,
    }
    return {**own, **table.facts(), **own}  # facts of the answer never stand for those of this table


def to_json(table: AnswerTable) -> str:
    return dump(to_dict(table))


def dump(value: Any) -> str:
    """As JSON; dates and times as text."""
    return json.dumps(value, default=str)


def price(cost: Cost) -> dict[str, float]:
    return {cost.unit: float(cost.amount), "delta": float(cost.delta)}
