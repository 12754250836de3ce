"""Where the cells of a question get their noise.

Exact cells meet noise in two functions: `release` here, for whatever is planned (answers, checks of limits, searches
for bounds), and `Watch.above` in curator/watch.py (one bit). Only curator/private_data.py calls them with rows in hand,
and tests/test_shape.py checks that no other file above mechanisms/ draws noise.
`release` takes integer cells and returns noisy ones, each measure by the mechanism that its plan made before the rows
were read (mechanisms/cells.py); keys that are not public are shown only if the plan's selection shows them.

Which group each row of the engine belongs to, by the order of the keys, for many groups at once.

Groups are numbered in ascending order, key by key, NULL last, or in the order of the declared values: a key's value has
its place among the values of its column, and the places of all keys are the digits of one whole number.

Arrow's own ways to and from numpy import pandas, and `pyarrow.compute` takes its time too: longer than most questions.
So public groups, which most questions have, do without both, unless they are many.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lapwing.arrays import Array, objects
from lapwing.engines.dialect import ARROW_TYPES
from lapwing.errors import Bug
from lapwing.expressions.types import Type, Value
from lapwing.mechanisms.cells import CellColumns, Cells, SelectedKeys
from lapwing.plan.kind import scatter
from lapwing.plan.plan import Plan
from lapwing.plan.query import UNITS, Queries

_NARROW = 1 << 61
_FEW = 16  # rows, up to which numpy takes longer than Python
_MANY = 10_000  # rows, from which on the imports are worth their time
_STRANGE = "the engine gave a group that was not asked for"


@dataclass(frozen=True, slots=True)
class Public:
    """The declared values of one key, in their order."""

    values: tuple[Value, ...]
    type: Type

    def __len__(self) -> int:
        return len(self.values)

    def places(self, column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
        kind = ARROW_TYPES[self.type]
        if len(column) > _MANY:
            return FoundGroups(pa.array(list(self.values), kind)).places(column)
        known = {value: place for place, value in enumerate(self.values)}
        rows = (column if column.type == kind else column.cast(kind)).to_pylist()
        return np.array([known.get(value, -1) for value in rows], np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class FoundGroups:
    """The values of one key that occur, ascending, NULL last."""

    values: pa.Array

    def __len__(self) -> int:
        return len(self.values)

    def places(self, column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
        import pyarrow.compute as pc

        places = pc.fill_null(pc.index_in(column.cast(self.values.type), value_set=self.values), -1)
        return np.asarray(places.to_numpy().astype(np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """All groups of an answer in their order."""

    keys: tuple[Public | FoundGroups, ...]
    codes: Array | None
    """The groups, ascending; None for all combinations of the values."""

    @property
    def size(self) -> int:
        return math.prod(map(len, self.keys)) if self.codes is None else self.codes.size

    def listed(self, rows: pa.Table) -> pa.Table:
        """The rows of these groups: of public keys not every combination need be one."""
        if self.codes is None:
            return rows
        return rows.filter(pa.array(np.isin(_codes(self.keys, rows), self.codes)))

    def places(self, rows: pa.Table) -> npt.NDArray[np.int64]:
        """The number of the group that each row of the engine belongs to."""
        codes = _codes(self.keys, rows)
        if self.codes is None:
            return codes.astype(np.int64)
        found = np.minimum(np.searchsorted(self.codes, codes), max(0, self.size - 1))
        if codes.size and (not self.size or (self.codes[found] != codes).any()):
            raise Bug(_STRANGE)
        return found


def public_groups(plan: Plan) -> Groups:
    """Every combination of the public values, or those that are groups."""
    types = [key.type or Type.TEXT for key in plan.question.keys]
    keys = tuple([Public(known, kind) for known, kind in zip(plan.domain, types, strict=True)])
    codes = plan.outline.groups
    return Groups(keys, None if codes is None else np.array(codes, _code_type(keys)))


def found_groups(plan: Plan, rows: pa.Table) -> tuple[Groups, tuple[Array, ...]]:
    """The groups that occur in these rows, one each, and their keys."""
    columns = [rows.column(f"k{i}") for i in range(len(plan.question.keys))]
    keys = tuple(FoundGroups(_ascending(column)) for column in columns)
    codes = _codes(keys, rows)
    order = np.argsort(codes, kind="stable")
    return Groups(keys, codes[order]), tuple(objects(column.take(pa.array(order)).to_pylist()) for column in columns)


def integers(column: pa.ChunkedArray) -> Array:
    """The whole numbers of a column without NULL, which the engine gives as BIGINT, DECIMAL(38, 0) or INTEGER.

    They are read where they lie: one word of 64 bits, or two, the lower first. int64 if all are narrow, else objects.
    """
    if column.type == pa.int32():
        return np.array(column.to_pylist(), np.int64)
    wide = column.type == pa.decimal128(38, 0)
    if not wide and column.type != pa.int64():
        raise Bug(f"the engine gave {column.type} where it was asked for whole numbers")
    if len(column) <= _FEW:
        few = [int(value) for value in column.to_pylist()]
        return np.array(few, np.int64 if max(map(abs, few), default=0) < _NARROW else object)
    array = column.combine_chunks()
    words = np.frombuffer(array.buffers()[1], "<i8").reshape(-1, 2 if wide else 1)
    mine = words[array.offset : array.offset + len(array)]
    low, high = mine[:, 0], mine[:, 1:]
    if (high == low[:, None] >> 63).all() and (low > -_NARROW).all() and (low < _NARROW).all():
        return low.astype(np.int64)
    return np.array([int(value) for value in array.to_pylist()], object)


def _ascending(column: pa.ChunkedArray) -> pa.Array:
    import pyarrow.compute as pc

    values = pc.unique(column)
    return values.take(pc.array_sort_indices(values, null_placement="at_end"))


def _code_type(keys: Sequence[Public | FoundGroups]) -> npt.DTypeLike:
    return object if math.prod(map(len, keys)) >= _NARROW else np.int64


def _codes(keys: Sequence[Public | FoundGroups], rows: pa.Table) -> Array:
    """The places of the keys as the digits of one number for each row."""
    codes = np.zeros(rows.num_rows, _code_type(keys))
    for i, key in enumerate(keys):
        digits = key.places(rows.column(f"k{i}"))
        if (digits < 0).any():
            raise Bug(_STRANGE)
        codes = codes * len(key) + digits
    return codes


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
    cells, first = [], 0
    for index, measure in enumerate(plan.measures):
        if others is not None and index in others:
            cells.append(measure.kind.arrange(measure, FetchedRows(others[index], groups)))
            continue
        numbers = range(first, first := first + measure.kind.cells)
        cells.append(tuple([scatter(integers(rows.column(f"c{i}")), place, groups.size) for i in numbers]))
    return Arranged(keys, units, tuple(cells))


@dataclass(frozen=True, slots=True, eq=False)
class FetchedRows:
    """What came back for a measure with a query of its own."""

    rows: pa.Table = field(repr=False)
    groups: Groups

    @property
    def size(self) -> int:
        return self.groups.size

    def places(self) -> npt.NDArray[np.int64]:
        """The group of each row."""
        return self.groups.places(self.rows)

    def key_places(self, key: int) -> npt.NDArray[np.int64]:
        """The place of each row's value among those of one key; -1 where it is none of them."""
        return self.groups.keys[key].places(self.rows.column(f"k{key}"))

    def integers(self, name: str) -> Cells:
        return integers(self.rows.column(name))

    def having(self, name: str) -> FetchedRows:
        """The rows with a value in this column."""
        return FetchedRows(self.rows.filter(self.rows.column(name).is_valid()), self.groups)


def release(plan: Plan, arranged: Arranged) -> Released:
    """The cells with noise, in steps of each measure, of the groups that may be shown."""
    counts: CellColumns | None = None
    keep, groups = None, plan.group_count or 1
    if plan.selection is not None:
        if arranged.units is None:
            raise Bug("keys are selected without a count of units")
        keep, counts = SelectedKeys(plan.selection).release(arranged.units)
        groups = int(keep.sum())
    cells = []
    for measure, columns in zip(plan.measures, arranged.cells, strict=True):
        if measure.mechanism is not None:
            kept = columns if keep is None else measure.kind.filter_groups(columns, keep)
            cells.append(measure.mechanism.release(kept, groups))
        elif counts is not None:
            cells.append(counts)
        else:
            raise Bug("cells without noise")
    return Released(() if keep is None else tuple(key[keep] for key in arranged.keys), tuple(cells))
