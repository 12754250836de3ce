"""What an analyst gets back: a noisy table that carries its intervals, its price and how it was made."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lapwing.mechanisms.laplace import Laplace
from lapwing.privacy.budget import Cost
from lapwing.query.plan import Measure, Plan
from lapwing.query.present import Answered, Array, present
from lapwing.query.release import ARROW_TYPES
from lapwing.query.types import Type
from lapwing.rational import Number, inside_unit

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """A released answer. Whatever is done with it costs nothing more."""

    plan: Plan
    noisy: list[Array] = field(repr=False)
    cost: Cost
    """What this answer cost now; 0 if it was stored."""
    entry: int
    """The number of its entry in the ledger."""
    confidence: Fraction

    @property
    def columns(self) -> list[Answered]:
        return present(self.plan, self.noisy, self.confidence)

    def to_arrow(self) -> pa.Table:
        """The answer without intervals."""
        return pa.table({column.name: _arrow(column, column.values) for column in self.columns})

    def intervals(self, confidence: Number | None = None, *, simultaneous: bool = False) -> pa.Table:
        """The answer with `name_low` and `name_high` beside every released number; for all rows at once on request."""
        level = self.confidence if confidence is None else inside_unit(confidence, "confidence")
        table = {}
        columns = present(self.plan, self.noisy, level, simultaneous=simultaneous)
        names = {column.name for column in columns}
        for column in columns:
            table[column.name] = _arrow(column, column.values)
            if not column.is_key:
                missing = np.full(len(column.values), np.nan)
                table[_fresh(f"{column.name}_low", names)] = _floats(missing if column.low is None else column.low)
                table[_fresh(f"{column.name}_high", names)] = _floats(missing if column.high is None else column.high)
        return pa.table(table)

    @property
    def notes(self) -> dict[str, str]:
        """Why an interval is missing, by column."""
        return {column.name: column.reason for column in self.columns if column.reason is not None}

    def to_pandas(self) -> pd.DataFrame:
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        import polars as pl

        return pl.DataFrame(self.to_arrow())

    def to_dict(self) -> dict[str, Any]:
        """Rows with intervals, price and methods, ready for JSON."""
        return {
            "columns": [column.name for column in self.columns],
            "rows": self.intervals().to_pylist(),
            "confidence": float(self.confidence),
            "notes": self.notes,
            "price": {self.cost.unit: float(self.cost.amount), "delta": float(self.cost.delta)},
            "ledger_entry": self.entry,
            "measures": [describe(measure) for measure in self.plan.measures],
            "unit": self.plan.table.unit or "one row",
            "limits": {"rows_per_unit": self.plan.table.row_limit, "groups_per_unit": self.plan.groups},
            "methods": self.methods(),
        }

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), default=str)

    def to_csv(self) -> str:
        """The answer with intervals as CSV text."""
        from io import BytesIO

        from pyarrow import csv

        buffer = BytesIO()
        csv.write_csv(self.intervals(), buffer)
        return buffer.getvalue().decode()

    def methods(self) -> str:
        """A sentence to put into a paper."""
        table = self.plan.table
        unit = "one row" if table.unit is None else f"all rows of one `{table.unit}`"
        noise = "; ".join(_method(measure) for measure in self.plan.measures)
        limits = "" if table.by_row else f" Each unit counts in at most {self.plan.groups} groups."
        return (
            f"Answers are differentially private for adding or removing {unit} of `{table.name}` "
            f"(version {table.version}) at a price of {self.plan.loss}.{limits} {noise}. "
            f"Intervals cover the clipped statistic with {float(self.confidence):.0%} confidence, per number. "
            f"Lapwing ledger entry {self.entry}."
        )

    def __len__(self) -> int:
        return len(self.columns[0].values)

    def __str__(self) -> str:
        header, rows = self._text()
        widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
        lines = [
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in [header, *rows]
        ]
        return "\n".join([*lines, self._footer()])

    def _repr_html_(self) -> str:
        header, rows = self._text()
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        foot = html.escape(self._footer())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p><small>{foot}</small></p>"

    def _footer(self) -> str:
        notes = "".join(f"\n{name}: {reason}" for name, reason in self.notes.items())
        price = f"price {self.cost}" if self.cost else "stored answer, no price"
        return f"{float(self.confidence):.0%} intervals; {price}; ledger entry {self.entry}{notes}"

    def _text(self) -> tuple[list[str], list[list[str]]]:
        cells: dict[str, list[str]] = {}
        for column in self.columns:
            cells[column.name] = [_shown(value) for value in column.values.tolist()]
            if column.low is not None and column.high is not None:
                pairs = zip(column.low.tolist(), column.high.tolist(), strict=True)
                shown = ["none" if low != low else f"{_shown(low)} to {_shown(high)}" for low, high in pairs]
                cells[_fresh(f"{column.name} interval", set(cells))] = shown
        return list(cells), [list(row) for row in zip(*cells.values(), strict=True)]


def describe(measure: Measure) -> dict[str, Any]:
    """Mechanism, scale and bounds of a measure: functions of the plan, not of the data."""
    noise = measure.noise
    return {
        "aggregate": measure.aggregate.words(),
        "mechanism": type(noise).__name__.lower(),
        "scale": float(noise.scale) * float(measure.step),
        "per_unit": [float(measure.low * measure.step), float(measure.high * measure.step)],
        "step": float(measure.step),
        "loss": str(noise.loss),
    }


def _method(measure: Measure) -> str:
    kind = "Laplace" if isinstance(measure.noise, Laplace) else "Gaussian"
    low, high = float(measure.low * measure.step), float(measure.high * measure.step)
    scale = float(measure.noise.scale) * float(measure.step)
    return (
        f"For {measure.function.words} each unit's part of a group is clipped to [{low:g}, {high:g}] "
        f"and discrete {kind} noise of scale {scale:.6g} is added"
    )


def _arrow(column: Answered, values: Array) -> pa.Array:
    """The type follows from the plan; integers beyond 64 bits end at the last one, what is not a number is NULL."""
    match column.type:
        case Type.REAL:
            return _floats(values)
        case Type.INTEGER if values.dtype.kind != "i":
            return pa.array([_integer(value) for value in values.tolist()], pa.int64())
        case kind:
            return pa.array(values.tolist(), ARROW_TYPES[kind])


def _integer(value: Any) -> int | None:
    if value is None or value != value:
        return None
    return int(max(_LEAST, min(_MOST, value)))


def _floats(values: Array) -> pa.Array:
    numbers = values.astype(float)
    return pa.array(np.where(np.isfinite(numbers), numbers, np.nan), pa.float64(), from_pandas=True)


def _fresh(name: str, names: set[str]) -> str:
    """The name, or one like it that no column of the answer has."""
    while name in names:
        name += "_"
    return name


def _shown(value: Any) -> str:
    match value:
        case bool() | str():
            return str(value)
        case None:
            return "NULL"
        case int():
            return f"{value:,}"
        case float() if not np.isfinite(value):
            return "NULL"
        case float():
            return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.4g}"
        case _:
            return str(value)
