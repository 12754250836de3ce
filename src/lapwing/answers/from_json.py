"""Rebuilds the answer table from its JSON, without an engine.

Integers beyond 64 bits end at the last one, as they do in the rows of the JSON.
Checked by: tests/answers/test_formats.py
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any

import numpy as np

from lapwing.answers.table import AnswerColumn, AnswerTable, fresh
from lapwing.arrays import Array, Floats, objects
from lapwing.expressions.types import Type
from lapwing.numbers import exact


def read_table(answer: Mapping[str, Any]) -> AnswerTable:
    """The table whose JSON this is; what is in the JSON beside it are its facts."""
    layout = answer["layout"]
    return AnswerTable(
        tuple(_columns(answer["columns"], layout["columns"], answer["rows"], exactly=not layout["binned"])),
        exact(answer["confidence"], "confidence"),
        layout["paid"],
        tuple(answer["notes"]),
        layout["title"],
        layout["condition"],
        binned=layout["binned"],
        facts=lambda: dict(answer),
        gaps=layout["gaps"],
        null_because=answer.get("null_because", ""),
        price=layout.get("price", ""),
        warnings=tuple(layout.get("warnings", ())),
    )


def _columns(
    names: Sequence[str], layouts: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]], *, exactly: bool
) -> Iterator[AnswerColumn]:
    """Each column with the ends of its intervals, which have the names that `AnswerTable.by_name` gives them.

    Keys that are reals are exact numbers, but for the ends of bins.
    """
    taken = set(names)
    for name, layout in zip(names, layouts, strict=True):
        reason, remark, bare, chosen = (layout[what] for what in ("reason", "remark", "bare", "chosen"))
        is_key = not (bare or layout["interval"] or reason is not None)
        ends = [] if is_key or bare else [fresh(f"{name}_{end}", taken) for end in ("low", "high")]
        taken.update(ends)
        kind = Type(layout["type"])
        values = _values(kind, [row[name] for row in rows], exactly=is_key and exactly)
        low, high = (_reals(rows, end) for end in ends) if layout["interval"] else (None, None)
        yield AnswerColumn(name, kind, values, low, high, reason, bare, chosen, remark)


def _reals(rows: Sequence[Mapping[str, Any]], name: str) -> Floats:
    return np.array([math.nan if row[name] is None else row[name] for row in rows], np.float64)


def _values(kind: Type, values: Sequence[Any], *, exactly: bool) -> Array:
    """The values as Python has them; dates and times are text in JSON."""
    match kind:
        case Type.DATE:
            return objects([date.fromisoformat(v) if isinstance(v, str) else v for v in values])
        case Type.TIMESTAMP:
            return objects([datetime.fromisoformat(v) if isinstance(v, str) else v for v in values])
        case Type.REAL if exactly:
            return objects([None if v is None else exact(v, "a key") for v in values])
        case _:
            return objects(list(values))
