"""Noisy tables as an analyst wants them: Arrow, pandas, Polars, CSV, JSON, text and pictures, each with intervals."""

from __future__ import annotations

import html
import json
from abc import ABC, abstractmethod
from collections.abc import Collection
from fractions import Fraction
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lapwing.answers.present import Answered
from lapwing.engines.engine import ARROW_TYPES
from lapwing.language.types import Type
from lapwing.numbers import Number, inside_unit

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

COUNT, SHARE = "n", "share_up_to"
"""The columns of noisy numbers, unless a column has that name."""


class Tabular(ABC):
    """A released table. Whatever is done with it costs nothing more."""

    __slots__ = ()

    confidence: Fraction
    bought: Any
    """What was counted, and its price."""

    @abstractmethod
    def columns(self, confidence: Fraction, *, simultaneous: bool = False) -> list[Answered]:
        """The columns with intervals at this confidence, per number or for all rows together."""

    @property
    @abstractmethod
    def title(self) -> str:
        """What was counted, in a few words."""

    @property
    @abstractmethod
    def footer(self) -> str:
        """What to know of it, in a line or two."""

    def to_arrow(self) -> pa.Table:
        """The table without intervals."""
        return pa.table({column.name: _arrow(column.values, column.type) for column in self.columns(self.confidence)})

    def intervals(self, confidence: Number | None = None, *, simultaneous: bool = False) -> pa.Table:
        """With `n_low` and `n_high` beside the counts; for all rows together on request."""
        level = self.confidence if confidence is None else inside_unit(confidence, "confidence")
        table = {}
        columns = self.columns(level, simultaneous=simultaneous)
        names = {column.name for column in columns}
        for column in columns:
            table[column.name] = _arrow(column.values, column.type)
            if column.low is not None and column.high is not None:
                table[fresh(f"{column.name}_low", names)] = _arrow(column.low, Type.REAL)
                table[fresh(f"{column.name}_high", names)] = _arrow(column.high, Type.REAL)
        return pa.table(table)

    def to_pandas(self) -> pd.DataFrame:
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        import polars as pl

        return pl.DataFrame(self.to_arrow())

    def to_csv(self) -> str:
        """The table with intervals as CSV text."""
        from pyarrow import csv

        buffer = BytesIO()
        csv.write_csv(self.intervals(), buffer)
        return buffer.getvalue().decode()

    def to_dict(self) -> dict[str, Any]:
        """Rows with intervals, ready for JSON."""
        table = self.intervals()
        return {"columns": table.column_names, "rows": table.to_pylist(), "confidence": float(self.confidence)}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), default=str)

    def plot(self, path: str | Path | None = None) -> Any:
        """A picture with intervals. Saved if a path is given (.png, .svg)."""
        from lapwing.answers.plot import plot

        shown = [column for column in self.columns(self.confidence) if not column.bare]
        asked = self.bought.strategy.counted.outline.question
        return plot(shown, confidence=self.confidence, title=self.title, question=asked, in_cells=True, path=path)

    def __repr__(self) -> str:
        header, rows = self._text()
        widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
        lines = ["  ".join(map(str.rjust, row, widths)) for row in [header, *rows]]
        return "\n".join([*lines, self.footer])

    def _repr_html_(self) -> str:
        header, rows = self._text()
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        foot = html.escape(self.footer).replace("\n", "<br>")
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p><small>{foot}</small></p>"

    def _text(self) -> tuple[list[str], list[list[str]]]:
        cells: dict[str, list[str]] = {}
        for column in self.columns(self.confidence):
            cells[column.name] = [worded(value) for value in column.values.tolist()]
            if column.low is not None and column.high is not None:
                pairs = zip(column.low.tolist(), column.high.tolist(), strict=True)
                cells[fresh(f"{column.name} interval", cells)] = [
                    f"{worded(low)} to {worded(high)}" for low, high in pairs
                ]
        return list(cells), [list(row) for row in zip(*cells.values(), strict=True)]


def fresh(name: str, names: Collection[str]) -> str:
    """The name, or one like it that no column of the table has; small and capital letters are the same."""
    known = {other.lower() for other in names}
    while name.lower() in known:
        name += "_"
    return name


def _arrow(values: Any, kind: Type) -> pa.Array:
    plain = values.tolist()
    return pa.array([float(v) if kind is Type.REAL and v is not None else v for v in plain], ARROW_TYPES[kind])


def worded(value: Any) -> str:
    """A number or a key as it is printed."""
    match value:
        case None:
            return "NULL"
        case bool() | str():
            return str(value)
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.4g}"
        case _:
            return str(value)
