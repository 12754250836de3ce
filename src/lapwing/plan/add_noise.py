"""Where the cells of a question get their noise.

Exact cells meet noise in two functions: `release` here, for whatever is planned (answers, checks of limits, searches
for bounds), and `Watch.above` in curator/watch.py (one bit). Only curator/private_data.py calls them with rows in hand,
and tests/test_shape.py checks that no other file above mechanisms/ draws noise.
`release` takes integer cells and returns noisy ones, each measure by the mechanism that its plan made before the rows
were read (mechanisms/cells.py); keys that are not public are shown only if the plan's selection shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lapwing.errors import Bug
from lapwing.mechanisms.cells import CellColumns, Cells, SelectedKeys
from lapwing.plan.group_order import Groups, found_groups, integers, public_groups
from lapwing.plan.kind import Measure, scatter
from lapwing.plan.plan import Plan
from lapwing.plan.query import UNITS, Queries


@dataclass(frozen=True, slots=True, eq=False)
class Arranged:
    """Exact cells, still private: in a fixed order of groups. It never prints them."""

    keys: tuple[Cells, ...] = field(repr=False)
    """The keys of each group that occurs, sorted; nothing if they are public."""
    units: Cells | None = field(repr=False)
    """The units of each group or their weight, for the selection of keys."""
    cells: tuple[CellColumns, ...] = field(repr=False)
    """For each measure its columns of cells."""


@dataclass(frozen=True, slots=True, eq=False)
class Released:
    """What may be seen: the shown keys where they were selected, and noisy cells in steps of each measure."""

    keys: tuple[Cells, ...]
    cells: tuple[CellColumns, ...]


def fetched(plan: Plan, asked: Queries, fetch: Callable[[Any], pa.Table]) -> Arranged:
    """Runs the queries of a plan and arranges what comes back."""
    rows = pa.table({}) if asked.cells is None else fetch(asked.cells)
    return arrange(plan, rows, {index: fetch(query) for index, query in asked.others})


def arrange(plan: Plan, rows: pa.Table, others: Mapping[int, pa.Table] | None = None) -> Arranged:
    """The engine's rows in a fixed order: every public group with empty ones 0, or the groups that occur by key."""
    if plan.outline.domain is None:
        groups, keys = found_groups(plan, rows)
        place = groups.places(rows)
        units: Cells | None = scatter(integers(rows.column(UNITS)), place, groups.size)
    else:
        groups, keys, units = public_groups(plan), (), None
        rows = groups.listed(rows) if rows.num_columns else rows
        others = {index: groups.listed(own) for index, own in (others or {}).items()}
        place = groups.places(rows) if rows.num_columns else np.zeros(0, np.int64)
    count = sum(measure.kind.cells for measure in plan.measures if not measure.kind.apart)
    found = iter(integers(rows.column(f"c{i}")) for i in range(count))
    cells = []
    for index, measure in enumerate(plan.measures):
        if others is not None and index in others:
            cells.append(measure.kind.arrange(measure, _Fetched(others[index], groups)))
        else:
            cells.append(tuple(scatter(next(found), place, groups.size) for _ in range(measure.kind.cells)))
    return Arranged(keys, units, tuple(cells))


@dataclass(frozen=True, slots=True, eq=False)
class _Fetched:
    """The rows of a measure with a query of its own."""

    rows: pa.Table = field(repr=False)
    groups: Groups

    @property
    def size(self) -> int:
        return self.groups.size

    def places(self) -> npt.NDArray[np.int64]:
        return self.groups.places(self.rows)

    def key_places(self, key: int) -> npt.NDArray[np.int64]:
        return self.groups.keys[key].places(self.rows.column(f"k{key}"))

    def integers(self, name: str) -> Cells:
        return integers(self.rows.column(name))

    def having(self, name: str) -> _Fetched:
        return _Fetched(self.rows.filter(self.rows.column(name).is_valid()), self.groups)


def release(plan: Plan, arranged: Arranged) -> Released:
    """The cells with noise, in steps of each measure, of the groups that may be shown."""
    pairs = list(zip(plan.measures, arranged.cells, strict=True))
    if plan.selection is None:
        return Released((), tuple(_noisy(measure, cells, plan.group_count or 1) for measure, cells in pairs))
    if arranged.units is None:
        raise Bug("keys are selected without a count of units")
    keep, counts = SelectedKeys(plan.selection).release(arranged.units)
    groups = int(keep.sum())
    cells = tuple(
        _counted(counts)
        if measure.mechanism is None
        else _noisy(measure, measure.kind.filter_groups(columns, keep), groups)
        for measure, columns in pairs
    )
    return Released(tuple(key[keep] for key in arranged.keys), cells)


def _noisy(measure: Measure, columns: CellColumns, groups: int) -> CellColumns:
    if measure.mechanism is None:
        raise Bug("cells without noise")
    return measure.mechanism.release(columns, groups)


def _counted(counts: CellColumns | None) -> CellColumns:
    if counts is None:
        raise Bug("the selection released no counts")
    return counts
