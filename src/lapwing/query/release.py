"""The one place where noise is added.

Everything an analyst ever sees of the rows went through `release`: integer cells in, noisy integers out, each measure
by the mechanism that its plan made before the rows were read; and keys that are not public only if the selection of
the plan shows them. Audits and mutation tests aim here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise, product
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sqlglot import exp

from lapwing.errors import Bug
from lapwing.mechanisms.grid_quantiles import GridQuantiles
from lapwing.mechanisms.keys_threshold import CountThreshold
from lapwing.mechanisms.top_k import TopK
from lapwing.query.bounding import UNITS, Queries
from lapwing.query.measures import Measure
from lapwing.query.plan import Plan
from lapwing.query.shapes import Distinct, Grid, Total

_NARROW = 1 << 62

Cells = npt.NDArray[Any]
"""One integer a group: int64, or Python integers where those do not fit."""


@dataclass(frozen=True, slots=True, eq=False)
class Arranged:
    """Exact cells, still private: in a fixed order of groups. It never prints them."""

    keys: tuple[Cells, ...] = field(repr=False)
    """The keys of each group that occurs, sorted; nothing if they are public."""
    units: Cells | None = field(repr=False)
    """The units of each group or their weight, for the selection of keys."""
    cells: tuple[tuple[Cells, ...], ...] = field(repr=False)
    """For each measure its columns of cells."""


@dataclass(frozen=True, slots=True, eq=False)
class Released:
    """What may be seen: the shown keys where they were selected, and noisy cells in steps of each measure."""

    keys: tuple[Cells, ...]
    cells: tuple[tuple[Cells, ...], ...]


def fetched(plan: Plan, asked: Queries, fetch: Callable[[exp.Select], pa.Table]) -> Arranged:
    """Runs the queries of a plan and arranges what comes back."""
    rows = pa.table({}) if asked.cells is None else fetch(asked.cells)
    return arrange(plan, rows, {index: fetch(query) for index, query in asked.others})


def arrange(plan: Plan, rows: pa.Table, others: Mapping[int, pa.Table] | None = None) -> Arranged:
    """The engine's rows in a fixed order: every public group with empty ones 0, or the groups that occur by key."""
    if plan.outline.domain is None:
        keys, order = _sorted([rows.column(f"k{i}").to_pylist() for i in range(len(plan.question.keys))])
        place = np.empty(order.size, np.int64)
        place[order] = np.arange(order.size)
        names = {key: index for index, key in enumerate(zip(*keys, strict=True))}
        units = _integers(rows.column(UNITS))[order]
    else:
        keys, units = (), None
        names = {key: index for index, key in enumerate(product(*plan.domain))}
        place = _places(plan, rows, names)
    found = iter(_integers(rows.column(f"c{i}")) for i in range(_count_cells(plan)))
    cells = []
    for index, measure in enumerate(plan.measures):
        if others is not None and index in others:
            cells.append(_of_other(plan, measure, others[index], names))
        else:
            cells.append(tuple(_scattered(next(found), place, len(names)) for _ in range(measure.shape.cells)))
    return Arranged(keys, units, tuple(cells))


def _of_other(plan: Plan, measure: Measure, rows: pa.Table, names: dict[Any, int]) -> tuple[Cells, ...]:
    """The cells of a measure with a query of its own: a count a group, or group, cell and weight of a histogram."""
    place, counts = _places(plan, rows, names), _integers(rows.column("c0"))
    if not isinstance(measure.shape, Grid):
        return (_scattered(counts, place, len(names)),)
    columns = place, _integers(rows.column("b0")), counts
    order = np.lexsort(columns[1::-1])
    return tuple(column[order] for column in columns)


def _places(plan: Plan, rows: pa.Table, names: dict[Any, int]) -> npt.NDArray[np.int64]:
    """The number of the group that each row of the engine belongs to."""
    keys = [rows.column(f"k{i}").to_pylist() for i in range(len(plan.question.keys))] if rows.num_columns else []
    found = [names.get(key, -1) for key in zip(*keys, strict=True)] if keys else [0] * rows.num_rows
    if -1 in found:
        raise Bug("the engine gave a group that was not asked for")
    return np.array(found, np.int64)


def _count_cells(plan: Plan) -> int:
    return sum(m.shape.cells for m in plan.measures if not isinstance(m.shape, Grid | Distinct))


def release(plan: Plan, arranged: Arranged) -> Released:
    """The cells with noise, in steps of each measure, of the groups that may be shown."""
    if plan.selection is None:
        size = plan.cells or 1
        return Released((), tuple(_noisy(measure, cells, size) for measure, cells in _paired(plan, arranged)))
    if arranged.units is None:
        raise Bug("keys are selected without a count of units")
    counts = None
    if isinstance(plan.selection, CountThreshold):
        shown = plan.selection.release(arranged.units)
        keep, counts = shown.keep, shown.counts
    else:
        keep = plan.selection.keep(arranged.units)
    cells = tuple(
        _counted(counts) if measure.noise is None else _noisy(measure, _kept(measure, columns, keep), int(keep.sum()))
        for measure, columns in _paired(plan, arranged)
    )
    return Released(tuple(key[keep] for key in arranged.keys), cells)


def narrowed(noisy: Cells) -> Cells:
    """int64 where every noisy number fits, Python integers otherwise: a function of released numbers only."""
    fits = all(-_NARROW < value < _NARROW for value in noisy.tolist())
    return noisy.astype(np.int64 if fits else object)


def _noisy(measure: Measure, columns: tuple[Cells, ...], groups: int) -> tuple[Cells, ...]:
    """Added as Python integers, so that how the *exact* cells are held can never be seen in the answer."""
    match measure.noise:
        case None:
            raise Bug("cells without noise")
        case GridQuantiles() as mechanism:
            table = mechanism.release(_histograms(columns, groups))
            return tuple(
                side[:, i] for i in range(len(mechanism.at)) for side in (table.values, table.lows, table.highs)
            )
        case TopK() as mechanism:
            return (_chosen(measure, mechanism, columns[0]),)
        case noise:
            return tuple(narrowed(c.astype(object) + noise.draw(c.size).astype(object)) for c in columns)


def _chosen(measure: Measure, mechanism: TopK, cells: Cells) -> Cells:
    """Instead of its cell each group gets its place: k for the best, then k - 1, ..., 1, and 0 for all others.

    Of the smallest the places are negative, so that sorting as the question says shows the chosen ones in their order.
    """
    best = measure.shape.best if isinstance(measure.shape, Total) else None
    if best is None:
        raise Bug("a choice without what is to be chosen")
    sign = 1 if best.largest else -1
    chosen = mechanism.choose(range(cells.size), sign * cells.astype(object))
    places = np.zeros(cells.size, np.int64)
    places[chosen] = sign * np.arange(best.many, 0, -1)
    return places


def _histograms(columns: tuple[Cells, ...], groups: int) -> Iterator[tuple[Cells, Cells]]:
    """The cells and weights of each group in turn."""
    place, cells, weights = columns
    order = np.argsort(place, kind="stable")
    ends = np.searchsorted(place[order], np.arange(groups + 1))
    for first, last in pairwise(ends.tolist()):
        yield cells[order[first:last]], weights[order[first:last]]


def _kept(measure: Measure, columns: tuple[Cells, ...], keep: Cells) -> tuple[Cells, ...]:
    """The cells of the groups that are shown."""
    if not isinstance(measure.shape, Grid):
        return tuple(column[keep] for column in columns)
    place, cells, weights = columns
    shown, moved = keep[place], np.cumsum(keep) - 1
    return moved[place[shown]], cells[shown], weights[shown]


def _counted(counts: Cells | None) -> tuple[Cells, ...]:
    if counts is None:
        raise Bug("the selection released no counts")
    return (narrowed(counts.astype(object)),)


def _paired(plan: Plan, arranged: Arranged) -> list[tuple[Measure, tuple[Cells, ...]]]:
    return list(zip(plan.measures, arranged.cells, strict=True))


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
