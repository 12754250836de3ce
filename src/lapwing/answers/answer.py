"""What an analyst gets back: a noisy table that carries its intervals, its price and how it was made."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lapwing.answers.present import Answered, Array, present
from lapwing.answers.wording import percent
from lapwing.cells.finding import Found
from lapwing.cells.release import Released
from lapwing.engines.engine import ARROW_TYPES
from lapwing.language.expression import Expression, Slot, walk
from lapwing.language.types import Type
from lapwing.measures.measure import Measure
from lapwing.measures.selection import selection_words, units_needed
from lapwing.measures.shapes import Pair, Soft
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.choice.top_k import TopK
from lapwing.mechanisms.moments.values import GRID
from lapwing.mechanisms.quantiles.grid_quantiles import GridQuantiles, is_approximate
from lapwing.numbers import Number, inside_unit
from lapwing.planning.plan import Plan
from lapwing.privacy.budget import Cost

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Release:
    """A released answer. Whatever is done with it costs nothing more."""

    plan: Plan
    released: Released
    cost: Cost
    """What this answer cost now; 0 if it was stored."""
    entry: int
    """The number of its entry in the ledger."""
    confidence: Fraction
    found: tuple[Found, ...] = field(default=(), kw_only=True)
    """Bounds and limits that were found privately for it, now or before."""

    @property
    def columns(self) -> list[Answered]:
        return present(self.plan, self.released, self.confidence)

    def to_arrow(self) -> pa.Table:
        """The answer without intervals."""
        return pa.table({column.name: _arrow(column, column.values) for column in self.columns})

    def intervals(self, confidence: Number | None = None, *, simultaneous: bool = False) -> pa.Table:
        """With `name_low` and `name_high` beside each number; for all rows of a column together on request.

        A number that was asked for without an interval stands alone.
        """
        level = self.confidence if confidence is None else inside_unit(confidence, "confidence")
        table = {}
        columns = present(self.plan, self.released, level, simultaneous=simultaneous)
        names = {column.name for column in columns}
        for column in columns:
            table[column.name] = _arrow(column, column.values)
            if not column.is_key and not column.bare:
                missing = np.full(len(column.values), np.nan)
                table[_fresh(f"{column.name}_low", names)] = _floats(missing if column.low is None else column.low)
                table[_fresh(f"{column.name}_high", names)] = _floats(missing if column.high is None else column.high)
        return pa.table(table)

    def plot(self, path: str | Path | None = None) -> Any:
        """A picture with intervals: bars, or lines over dates and numbers. Saved if a path is given (.png, .svg)."""
        from lapwing.answers.plot import plot

        return plot(self.columns, confidence=self.confidence, question=self.plan.question, path=path)

    @property
    def notes(self) -> dict[str, str]:
        """Why an interval is missing, or what else to know, by column."""
        approximate, notes = _approximate(self.plan), {}
        for column in self.columns:
            chosen = CHOSEN if column.chosen and column.low is not None else None
            known = [note for note in (approximate.get(column.name), chosen, column.reason) if note is not None]
            if known:
                notes[column.name] = "; ".join(known)
        return notes

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
            "measures": describe(self.plan),
            "unit": self.plan.table.unit or "one row",
            "limits": {"rows_per_unit": self.plan.table.row_limit, "groups_per_unit": self.plan.groups},
            "found": [{"what": str(found), "epsilon": float(found.epsilon)} for found in self.found],
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
        noise = "; ".join(_methods(self.plan))
        limits = "" if table.by_row else f" Each unit counts in at most {self.plan.groups} groups."
        return (
            f"Answers are differentially private for adding or removing {unit} of `{table.name}` "
            f"(version {table.version}) at a price of {self.plan.loss}.{limits} {noise}. "
            f"{self._covered()}{self._found()}Lapwing ledger entry {self.entry}."
        )

    def _found(self) -> str:
        """What was found privately before the answer, and its price."""
        return "".join(f"Found privately at {found.loss}: {found}. " for found in self.found)

    def _covered(self, condition: str = "") -> str:
        """What intervals promise, if there is one."""
        shown = [column for column in self.columns if column.low is not None]
        if not shown:
            return ""
        chosen = [f"`{column.name}`" for column in shown if column.chosen]
        together = f"of {' and '.join(chosen)}, by which rows were chosen, for all groups together"
        each = "per number" if len(chosen) < len(shown) else together
        more = f"; {together}" if 0 < len(chosen) < len(shown) else ""
        level = f"{percent(self.confidence)} confidence"
        return f"Intervals cover the clipped statistic with {level}, {each}{more}{condition}. "

    def __len__(self) -> int:
        return len(self.columns[0].values)

    def __str__(self) -> str:
        header, rows = self._text()
        widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
        lines = [
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in [header, *rows]
        ]
        return "\n".join([*lines, self._footer()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        header, rows = self._text()
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        foot = html.escape(self._footer())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p><small>{foot}</small></p>"

    def _footer(self) -> str:
        notes = "".join(f"\n{name}: {reason}" for name, reason in self.notes.items())
        price = f"price {self.cost}" if self.cost else "stored answer, no price"
        found = f"\n{self._found().strip()}" if self.found else ""
        kind = f"{percent(self.confidence)} intervals" if self._covered() else "no intervals"
        return f"{kind}; {price}; ledger entry {self.entry}{notes}{found}"

    def _text(self) -> tuple[list[str], list[list[str]]]:
        cells: dict[str, list[str]] = {}
        for column in self.columns:
            cells[column.name] = [_shown(value) for value in column.values.tolist()]
            if column.low is not None and column.high is not None:
                pairs = zip(column.low.tolist(), column.high.tolist(), strict=True)
                shown = ["none" if low != low else f"{_shown(low)} to {_shown(high)}" for low, high in pairs]
                cells[_fresh(f"{column.name} interval", set(cells))] = shown
        return list(cells), [list(row) for row in zip(*cells.values(), strict=True)]


def _approximate(plan: Plan) -> dict[str, str]:
    """Columns that are extremes: the outermost value is one person's, so a value near it is told."""
    notes = {}
    for output in plan.question.outputs:
        if any(
            is_approximate(*plan.question.aggregates[i].parameters[:1])
            for i in _slots(output.expression)
            if plan.question.aggregates[i].parameters
        ):
            notes[output.name] = _INSIDE
    return notes


def _slots(expression: Expression) -> list[int]:
    """Which released numbers it is made of."""
    return [part.index for part in walk(expression) if isinstance(part, Slot)]


_INSIDE = "approximate: an extreme quantile, inside the outermost value; far inside where there are few rows"
CHOSEN = "rows were chosen by this noisy number; its intervals hold for all groups together, shown or not"


def describe(plan: Plan) -> list[dict[str, Any]]:
    """Mechanism, scale and bounds of each measure: functions of the plan, not of the data."""
    return [_described(plan, index) for index in range(len(plan.measures))] + _selected(plan)


def _described(plan: Plan, index: int) -> dict[str, Any]:
    measure = plan.measures[index]
    asked = {"aggregates": _asked(plan, index), "bounding": str(measure.shape)}
    match measure.noise:
        case None:
            return {**asked, "mechanism": "selection of the keys"}
        case GridQuantiles() as mechanism:
            name = "permute-and-flip" if mechanism.flips else "exponential"
            kind = {"mechanism": name, "rank_error": max(mechanism.error()), "cells": mechanism.cells}
            return {**asked, **kind, "loss": str(plan.prices.measures[index])}
        case TopK() as mechanism:
            kind = {"mechanism": "exponential" if not mechanism.peeling else "permute-and-flip", "chosen": mechanism.k}
            return {**asked, **kind, "loss": str(plan.prices.measures[index])}
        case noise:
            kind = {"mechanism": type(noise).__name__.lower(), "scale": _scale(measure), "step": float(measure.step)}
            return {**asked, **kind, "loss": str(noise.loss)}


def _scale(measure: Measure) -> float:
    """Of additive noise, in the units of the answer; of soft cells in rows."""
    unit = GRID if isinstance(measure.shape, Soft | Pair) else 1
    return float(measure.additive.scale) * float(measure.step) / unit


def _selected(plan: Plan) -> list[dict[str, Any]]:
    if plan.selection is None:
        return []
    half, most = units_needed(plan.selection)
    name, loss = type(plan.selection).__name__, str(plan.selection.loss)
    return [{"aggregates": ["keys"], "mechanism": name, "loss": loss, "units_for_half": half, "units_for_95": most}]


def _asked(plan: Plan, index: int) -> list[str]:
    """The aggregates that are read off this measure."""
    pairs = zip(plan.question.aggregates, plan.outline.readings, strict=True)
    return [aggregate.words() for aggregate, reading in pairs if reading.measure == index]


def _methods(plan: Plan) -> list[str]:
    words = []
    for index, measure in enumerate(plan.measures):
        asked = " and ".join(_asked(plan, index))
        match measure.noise:
            case None:
                words.append(f"For {asked} the noisy counts of the selection are shown")
            case GridQuantiles() as mechanism:
                kind = "permute-and-flip" if mechanism.flips else "the exponential mechanism"
                words.append(f"For {asked} {measure.shape}, and {kind} chooses cells by their rank")
            case TopK() as mechanism:
                kind = "permute-and-flip" if mechanism.peeling else "the exponential mechanism"
                words.append(f"For {asked} {measure.shape} groups, and {kind} chooses them one after another")
            case noise:
                kind = "Laplace" if isinstance(noise, Laplace) else "Gaussian"
                of = "to soft counts of rows" if isinstance(measure.shape, Soft | Pair) else "in each group"
                added = f"discrete {kind} noise of scale {_scale(measure):.6g} is added {of}"
                words.append(f"For {asked} {measure.shape}, and {added}")
    return words if plan.selection is None else [*words, selection_words(plan.selection)]


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
