"""The one place where noise is added.

Everything an analyst ever sees of the rows went through `release`: integer cells in, noisy integers out, each measure
by the mechanism that its plan made before the rows were read. Audits and mutation tests aim here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lapwing.query.plan import Measure, Plan
from lapwing.query.types import Type

ARROW_TYPES = {
    Type.INTEGER: pa.int64(),
    Type.REAL: pa.float64(),
    Type.TEXT: pa.string(),
    Type.BOOLEAN: pa.bool_(),
    Type.DATE: pa.date32(),
    Type.TIMESTAMP: pa.timestamp("us"),
}

_NARROW = 1 << 62

Cells = npt.NDArray[Any]
"""One integer a group: int64, or Python integers where those do not fit."""


def arrange(plan: Plan, rows: pa.Table) -> list[Cells]:
    """The engine's rows as an array of cells for each measure: every declared group in declared order, empty ones 0."""
    place = np.zeros(rows.num_rows, np.int64)
    for i, values in enumerate(plan.domain):
        order = {value: index for index, value in enumerate(values)}
        found = (order[value] for value in rows.column(f"k{i}").to_pylist())
        place = place * len(values) + np.fromiter(found, np.int64, rows.num_rows)
    return [_scattered(rows.column(f"c{i}"), place, plan.cells) for i in range(len(plan.measures))]


def release(plan: Plan, cells: list[Cells]) -> list[Cells]:
    """The cells with noise, in steps of each measure."""
    return [_noisy(measure, column) for measure, column in zip(plan.measures, cells, strict=True)]


def narrowed(noisy: Cells) -> Cells:
    """int64 where every noisy number fits, Python integers otherwise: a function of released numbers only."""
    fits = all(-_NARROW < value < _NARROW for value in noisy.tolist())
    return noisy.astype(np.int64 if fits else object)


def _noisy(measure: Measure, cells: Cells) -> Cells:
    """Added as Python integers, so that how the *exact* cells are held can never be seen in the answer."""
    return narrowed(cells.astype(object) + measure.noise.draw(cells.size).astype(object))


def _scattered(column: pa.ChunkedArray, place: npt.NDArray[np.int64], size: int) -> Cells:
    values = [int(value) for value in column.to_pylist()]
    fits = all(-(1 << 61) < value < 1 << 61 for value in values)
    cells = np.zeros(size, np.int64 if fits else object)
    cells[place] = values
    return cells
