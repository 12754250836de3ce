"""Where the cells of a question get their noise.

Exact cells meet noise in four functions: `release` and `release_tables` here, `released` in cells/finding.py (bounds
and limits) and `Watch.above` in asking/watch.py (one bit). Only curator/private_data.py calls them with rows in hand,
and tests/test_shape.py checks that no other file of query/ or curator/ draws noise.
`release` takes integer cells and returns noisy integers, each measure by the mechanism that its plan made before the
rows were read; keys that are not public are shown only if the plan's selection shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lapwing.cells.bounding import UNITS, Queries
from lapwing.cells.groups import Groups, found_groups, integers, public_groups
from lapwing.errors import Bug
from lapwing.measures.measure import Measure
from lapwing.measures.shapes import Distinct, Grid, Total
from lapwing.mechanisms.choice.top_k import TopK
from lapwing.mechanisms.keys.threshold import CountThreshold
from lapwing.mechanisms.quantiles.grid_quantiles import GridQuantiles
from lapwing.mechanisms.ranges.components import MarginalRelease, Set
from lapwing.mechanisms.ranges.laplace_marginals import LaplaceMarginals
from lapwing.mechanisms.ranges.marginals import Marginals
from lapwing.mechanisms.ranges.ranges import PrefixSums, RangeRelease, Ranges
from lapwing.planning.plan import Plan

_NARROW = 1 << 62

Cells = npt.NDArray[Any]
"""One integer a group: int64, or Python integers where those do not fit."""

Tables = Mapping[Set, npt.NDArray[np.int64]]
"""Exact counts of a strategy by set of axes; still private."""
Mechanism = PrefixSums | Ranges | Marginals | LaplaceMarginals
Answer = RangeRelease | MarginalRelease
"""What a strategy is released by, and as."""


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


def fetched(plan: Plan, asked: Queries, fetch: Callable[[Any], pa.Table]) -> Arranged:
    """Runs the queries of a plan and arranges what comes back."""
    rows = pa.table({}) if asked.cells is None else fetch(asked.cells)
    return arrange(plan, rows, {index: fetch(query) for index, query in asked.others})


def arrange(plan: Plan, rows: pa.Table, others: Mapping[int, pa.Table] | None = None) -> Arranged:
    """The engine's rows in a fixed order: every public group with empty ones 0, or the groups that occur by key."""
    if plan.outline.domain is None:
        groups, keys = found_groups(plan, rows)
        place = groups.places(rows)
        units: Cells | None = _scattered(integers(rows.column(UNITS)), place, groups.size)
    else:
        groups, keys, units = public_groups(plan), (), None
        place = groups.places(rows) if rows.num_columns else np.zeros(0, np.int64)
    found = iter(integers(rows.column(f"c{i}")) for i in range(_count_cells(plan)))
    cells = []
    for index, measure in enumerate(plan.measures):
        if others is not None and index in others:
            cells.append(_of_other(measure, others[index], groups))
        else:
            cells.append(tuple(_scattered(next(found), place, groups.size) for _ in range(measure.shape.cells)))
    return Arranged(keys, units, tuple(cells))


def _of_other(measure: Measure, rows: pa.Table, groups: Groups) -> tuple[Cells, ...]:
    """The cells of a measure with a query of its own: a count a group, or group, cell and weight of a histogram."""
    if not isinstance(measure.shape, Grid):
        return (_scattered(integers(rows.column("c0")), groups.places(rows), groups.size),)
    rows = rows.filter(rows.column("b0").is_valid())  # rows without a value have no cell
    columns = groups.places(rows), integers(rows.column("b0")), integers(rows.column("c0"))
    order = np.lexsort(columns[1::-1])
    return tuple(column[order] for column in columns)


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


def release_tables(mechanism: Mechanism, tables: Tables) -> Answer:
    """The counts of a strategy with noise: one mechanism for all its tables, made before the rows were read."""
    match mechanism:
        case PrefixSums() | Ranges():
            return mechanism.release(tables[(0,)])
        case Marginals() | LaplaceMarginals():
            return mechanism.release(tables)


def narrowed(noisy: Cells) -> Cells:
    """int64 where every noisy number fits, Python integers otherwise: a function of released numbers only."""
    values = noisy.tolist()
    fits = not values or (min(values) > -_NARROW and max(values) < _NARROW)
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


def _scattered(values: Cells, place: npt.NDArray[np.int64], size: int) -> Cells:
    cells = np.zeros(size, values.dtype)
    cells[place] = values
    return cells
