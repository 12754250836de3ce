"""Which group each row of the engine belongs to, by the order of the keys, for many groups at once.

Groups are numbered in ascending order, key by key, NULL last, or in the order of the declared values: a key's value has
its place among the values of its column, and the places of all keys are the digits of one whole number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lapwing.errors import Bug
from lapwing.query.calculator import ARROW_TYPES
from lapwing.query.plan import Plan
from lapwing.query.types import Type

Array = npt.NDArray[Any]

_NARROW = 1 << 61


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """All groups of an answer in their order."""

    values: tuple[pa.Array, ...]
    """Of each key in their order."""
    codes: Array | None
    """The groups that occur, ascending; None for all combinations of the values."""

    @property
    def size(self) -> int:
        return math.prod(map(len, self.values)) if self.codes is None else self.codes.size

    def places(self, rows: pa.Table) -> npt.NDArray[np.int64]:
        """The number of the group that each row of the engine belongs to."""
        codes = _codes(_keys(rows, self.values), self.values, rows.num_rows)
        if self.codes is None:
            return codes.astype(np.int64)
        found = np.minimum(np.searchsorted(self.codes, codes), max(0, self.size - 1))
        if codes.size and (not self.size or (self.codes[found] != codes).any()):
            raise Bug(_STRANGE)
        return found


_STRANGE = "the engine gave a group that was not asked for"


def public_groups(plan: Plan) -> Groups:
    """Every combination of the public values."""
    types = [ARROW_TYPES[key.type or Type.TEXT] for key in plan.question.keys]
    values = (pa.array(list(known), kind) for known, kind in zip(plan.domain, types, strict=True))
    return Groups(tuple(values), None)


def found_groups(plan: Plan, rows: pa.Table) -> tuple[Groups, tuple[Array, ...]]:
    """The groups that occur in these rows, one each, and their keys."""
    columns = [rows.column(f"k{i}") for i in range(len(plan.question.keys))]
    values = tuple(_ascending(column) for column in columns)
    codes = _codes(columns, values, rows.num_rows)
    order = np.argsort(codes, kind="stable")
    return Groups(values, codes[order]), tuple(_objects(column.take(pa.array(order))) for column in columns)


def integers(column: pa.ChunkedArray) -> Array:
    """The whole numbers of a column that has no NULL."""
    ends = pc.min_max(column)
    least, most = (ends[side].as_py() or 0 for side in ("min", "max"))
    if least > -_NARROW and most < _NARROW:
        return np.asarray(column.cast(pa.int64()).to_numpy())
    return np.array([int(value) for value in column.to_pylist()], object)


def _ascending(column: pa.ChunkedArray) -> pa.Array:
    """The different values, NULL last."""
    values = pc.unique(column)
    return values.take(pc.array_sort_indices(values, null_placement="at_end"))


def _keys(rows: pa.Table, values: Sequence[pa.Array]) -> list[pa.ChunkedArray]:
    return [rows.column(f"k{i}").cast(known.type) for i, known in enumerate(values)]


def _codes(columns: Sequence[pa.ChunkedArray], values: Sequence[pa.Array], size: int) -> Array:
    """The places of the keys as the digits of one number for each row."""
    wide = math.prod(map(len, values)) >= _NARROW
    codes = np.zeros(size, object if wide else np.int64)
    for column, known in zip(columns, values, strict=True):
        digits = pc.index_in(column, value_set=known)
        if digits.null_count:
            raise Bug(_STRANGE)
        codes = codes * len(known) + digits.to_numpy().astype(np.int64)
    return codes


def _objects(column: pa.ChunkedArray) -> Array:
    array = np.empty(len(column), object)
    array[:] = column.to_pylist()
    return array
