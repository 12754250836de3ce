"""Text for a terminal: a line for each row, then confidence, price and notes."""

from __future__ import annotations

import math
from typing import Any

from lapwing.answers.table import AnswerTable, fresh
from lapwing.privacy.phrases import percent


def to_text(table: AnswerTable) -> str:
    header, rows = grid(table)
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = ["  ".join(map(str.rjust, row, widths)) for row in [header, *rows]]
    return "\n".join([*lines, *footer(table)])


def grid(table: AnswerTable) -> tuple[list[str], list[list[str]]]:
    """The names of the columns, and each row as texts; an interval stands beside its number."""
    cells: dict[str, list[str]] = {}
    names = {column.name for column in table.columns}
    for column in table.columns:
        cells[column.name] = list(map(_label if column.is_key else show, column.plain()))
        if column.low is not None:
            name = fresh(f"{column.name} interval", names)
            names.add(name)
            cells[name] = list(map(_interval, *column.intervals()))
    return list(cells), [list(row) for row in zip(*cells.values(), strict=True)]


def footer(table: AnswerTable) -> list[str]:
    """The lines below the rows."""
    kind = f"{percent(table.confidence)} intervals" if table.has_intervals else "no intervals"
    columns = [f"{name}: {note}" for name, note in table.column_notes.items()]
    return ["; ".join(filter(None, [kind, table.paid])), *columns, *table.notes]


def show(value: Any) -> str:
    """A number or a key as it is printed."""
    match value:
        case None:
            return "NULL"
        case bool() | str():
            return str(value)
        case int():
            return f"{value:,}"
        case float() if not math.isfinite(value):
            return "NULL"
        case float():
            return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.4g}"
        case _:
            return str(value)


def _label(value: Any) -> str:
    """A key as it is printed. It is a name, not an amount: the year 1985 is not 1,985."""
    return str(value) if isinstance(value, int) else show(value)


def _interval(low: float | None, high: float | None) -> str:
    return "none" if low is None and high is None else f"{show(low)} to {show(high)}"
