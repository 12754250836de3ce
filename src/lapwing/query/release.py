"""The one place where noise is added.

Everything an analyst ever sees of the rows went through `release`: integer cells in, noisy integers out, each measure
by the mechanism that its plan made before the rows were read; and keys that are not public only if the selection of
the plan shows them. Audits and mutation tests aim here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lapwing.errors import Bug
from lapwing.mechanisms.keys_threshold import CountThreshold
from lapwing.query.bounding import UNITS
from lapwing.query.plan import Measure, Plan

_NARROW = 1 << 62

Cells = npt.NDArray[Any]
"""One integer a group: int64, or Python integers where those do not fit."""


@dataclass(frozen=True, slots=True, eq=False)
class Arranged:
    """Exact cells, still private: in a fixed order of groups."""

    keys: tuple[Cells, ...]
    """The keys of each group that occurs, sorted; nothing if they are public."""
    units: Cells | None
    """The units of each group or their weight, for the selection of keys."""
    cells: tuple[tuple[Cells, ...], ...]
    """For each measure its columns of cells."""


@dataclass(frozen=True, slots=True, eq=False)
class Released:
    """What may be seen: the shown keys where they were selected, and noisy cells in steps of each measure."""

    keys: tuple[Cells, ...]
    cells: tuple[tuple[Cells, ...], ...]


def arrange(plan: Plan, rows: pa.Table) -> Arranged:
    """The engine's rows in a fixed order: every public group with empty ones 0, or the groups that occur by key."""
    if plan.outline.domain is None:
        keys, order = _sorted([rows.column(f"k{i}").to_pylist() for i in range(len(plan.question.keys))])
        units = _integers(rows.column(UNITS))[order]
        return Arranged(keys, units, _by_measure(plan, [column[order] for column in _columns(plan, rows)]))
    place = np.zeros(rows.num_rows, np.int64)
    for i, values in enumerate(plan.domain):
        index = {value: place for place, value in enumerate(values)}
        found = (index[value] for value in rows.column(f"k{i}").to_pylist())
        place = place * len(values) + np.fromiter(found, np.int64, rows.num_rows)
    size = plan.cells or 1
    return Arranged((), None, _by_measure(plan, [_scattered(column, place, size) for column in _columns(plan, rows)]))


def release(plan: Plan, arranged: Arranged) -> Released:
    """The cells with noise, in steps of each measure, of the groups that may be shown."""
    if plan.selection is None:
        return Released((), tuple(_noisy(measure, cells) for measure, cells in _paired(plan, arranged)))
    if arranged.units is None:
        raise Bug("keys are selected without a count of units")
    counts = None
    if isinstance(plan.selection, CountThreshold):
        shown = plan.selection.release(arranged.units)
        keep, counts = shown.keep, shown.counts
    else:
        keep = plan.selection.keep(arranged.units)
    cells = tuple(
        _counted(counts) if measure.noise is None else _noisy(measure, tuple(column[keep] for column in columns))
        for measure, columns in _paired(plan, arranged)
    )
    return Released(tuple(key[keep] for key in arranged.keys), cells)


def narrowed(noisy: Cells) -> Cells:
    """int64 where every noisy number fits, Python integers otherwise: a function of released numbers only."""
    fits = all(-_NARROW < value < _NARROW for value in noisy.tolist())
    return noisy.astype(np.int64 if fits else object)


def _noisy(measure: Measure, columns: tuple[Cells, ...]) -> tuple[Cells, ...]:
    """Added as Python integers, so that how the *exact* cells are held can never be seen in the answer."""
    if measure.noise is None:
        raise Bug("cells without noise")
    return tuple(narrowed(c.astype(object) + measure.noise.draw(c.size).astype(object)) for c in columns)


def _counted(counts: Cells | None) -> tuple[Cells, ...]:
    if counts is None:
        raise Bug("the selection released no counts")
    return (narrowed(counts.astype(object)),)


def _paired(plan: Plan, arranged: Arranged) -> list[tuple[Measure, tuple[Cells, ...]]]:
    return list(zip(plan.measures, arranged.cells, strict=True))


def _columns(plan: Plan, rows: pa.Table) -> list[Cells]:
    return [_integers(rows.column(f"c{i}")) for i in range(sum(m.shape.cells for m in plan.measures))]


def _by_measure(plan: Plan, columns: list[Cells]) -> tuple[tuple[Cells, ...], ...]:
    ends = np.cumsum([measure.shape.cells for measure in plan.measures]).tolist()
    return tuple(tuple(columns[end - m.shape.cells : end]) for m, end in zip(plan.measures, ends, strict=True))


def _sorted(keys: list[list[Any]]) -> tuple[tuple[Cells, ...], Cells]:
    """The keys in ascending order, NULL last, and which row each came from."""
    rows = sorted(range(len(keys[0])), key=lambda row: [(key[row] is None, _comparable(key[row])) for key in keys])
    order = np.array(rows, np.int64)
    return tuple(_objects(key)[order] for key in keys), order


def _comparable(value: Any) -> Any:
    return 0 if value is None else value


def _objects(values: list[Any]) -> Cells:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _integers(column: pa.ChunkedArray) -> Cells:
    values = [int(value) for value in column.to_pylist()]
    fits = all(-(1 << 61) < value < 1 << 61 for value in values)
    return np.array(values, np.int64 if fits else object)


def _scattered(values: Cells, place: npt.NDArray[np.int64], size: int) -> Cells:
    cells = np.zeros(size, values.dtype)
    cells[place] = values
    return cells
