"""Tables of counts over several attributes: every table is a sum of parts, one for each set of attributes.

The counts over a set A of attributes, its marginal, are a sum over the subsets B of A: of each, the part that is
centred in every attribute of B (its sum along any of them is 0) and spread evenly over the rest of A. Parts of
different B are orthogonal. A table and its sums share their parts, so tables built from one estimate of every part
agree with each other. With C = I - J / n, J the matrix of ones and n the size of an attribute, the part of B in the
marginal of A is the product of C over B and J / n over A without B, applied to it.

A set of attributes is a tuple of their numbers, ascending; its table has one axis for each.
Checked by: tests/mechanisms/ranges/test_noisy_marginals.py
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np

from lapwing.arrays import Array, Floats, frozen
from lapwing.errors import Misconfigured
from lapwing.mechanisms.mechanism import FrozenValue
from lapwing.numbers import Number, count

Set = tuple[int, ...]
Sets = Iterable[Iterable[int]]
Sizes = tuple[int, ...]
Counts = Array
"""Whole numbers: int64, or Python integers where those could be too short."""

MOST_ATTRIBUTES = 60
MOST_TABLE = 1 << 20
"""Cells of one table."""
MOST_COUNT = 1 << 40
"""Larger counts are cut here."""
MOST_SETS = 20_000
"""Sets of attributes that tables and their sums are made of."""


@dataclass(frozen=True, slots=True, init=False, repr=False)
class TableMechanism(FrozenValue, ABC):
    """Base of both mechanisms: the size of each attribute, the sets of attributes, and the most a unit may add."""

    sizes: Sizes
    sets: tuple[Set, ...]
    cells_per_unit: int

    def _set_tables(self, sizes: object, sets: Sets | None, ways: object, unit: object) -> None:
        lengths = read_sizes(sizes)
        self._set(sizes=lengths, sets=read_sets(sets, ways, lengths), cells_per_unit=count(unit, "cells_per_unit"))

    @abstractmethod
    def error(self, one: Iterable[int], confidence: Number = 0.95, *, simultaneous: int = 1) -> float:
        """With this probability a cell of this table is off by at most this; known in advance."""


@dataclass(frozen=True, slots=True, eq=False)
class MarginalRelease:
    """Noisy tables, all from one release: sums of one along an attribute are the other. Cells may be negative."""

    tables: Mapping[Set, Floats]
    """By set of attributes; one axis for each attribute, in ascending order."""
    mechanism: TableMechanism

    def table(self, attributes: Iterable[int]) -> Floats:
        """The counts over these attributes, ascending: of a set that was asked for, or of a part of one."""
        asked = set(attributes)
        for axes, table in self.tables.items():
            if asked <= set(axes):
                return sum_over(table, axes, tuple(sorted(asked)))
        raise Misconfigured("no table of the release holds these attributes together. Ask for them with `sets`.")


def read_sizes(sizes: object) -> Sizes:
    scalar = isinstance(sizes, np.ndarray) and not sizes.ndim
    listed = tuple(sizes) if isinstance(sizes, Iterable) and not scalar else ()
    if not 1 <= len(listed) <= MOST_ATTRIBUTES:
        raise Misconfigured(f"`sizes` must list how many values each attribute has, for 1 to {MOST_ATTRIBUTES}.")
    return tuple(count(size, "sizes") for size in listed)


def read_sets(sets: Sets | None, ways: object, sizes: Sizes) -> tuple[Set, ...]:
    """Reads which tables are asked for: these, or all of up to `ways` attributes."""
    if sets is None:
        most = min(count(ways, "ways"), len(sizes))
        if sum(math.comb(len(sizes), k) for k in range(most + 1)) > MOST_SETS:
            raise Misconfigured(f"`ways` is {most}; that makes more than {MOST_SETS:,} tables. List `sets` instead.")
        asked = {axes for k in range(1, most + 1) for axes in combinations(range(len(sizes)), k)}
    else:
        asked = {tuple(sorted({count(i, "sets", least=0) for i in axes})) for axes in sets}
    if not asked or any(i >= len(sizes) for axes in asked for i in axes):
        raise Misconfigured(f"`sets` must hold sets of attributes, each from 0 to {len(sizes) - 1}. Pass [(0, 1)].")
    if max(cells(sizes, axes) for axes in asked) > MOST_TABLE:
        raise Misconfigured(f"a table has more than {MOST_TABLE:,} cells. Ask for fewer attributes at once.")
    return tuple(sorted(asked, key=lambda axes: (len(axes), axes)))


@lru_cache(maxsize=64)
def closure(sets: tuple[Set, ...]) -> tuple[Set, ...]:
    """All subsets of these sets, the empty one first."""
    if sum(1 << len(axes) for axes in sets) > 64 * MOST_SETS:
        raise Misconfigured("the tables have too many sums. Ask for fewer attributes at once.")
    parts = {part for axes in sets for part in subsets(axes)}
    if len(parts) > MOST_SETS:
        raise Misconfigured(f"the tables have more than {MOST_SETS:,} sums. Ask for fewer attributes at once.")
    return tuple(sorted(parts, key=lambda axes: (len(axes), axes)))


@lru_cache(maxsize=64)
def maximal(sets: frozenset[Set] | tuple[Set, ...]) -> tuple[Set, ...]:
    """Those that are part of no other."""
    kept: list[Set] = []
    masks: list[int] = []
    for axes in sorted(set(sets), key=lambda axes: (-len(axes), axes)):
        mask = sum(1 << i for i in axes)
        if not any(mask & other == mask for other in masks):
            kept.append(axes)
            masks.append(mask)
    return tuple(sorted(kept, key=lambda axes: (len(axes), axes)))


@lru_cache(maxsize=64)
def coverings(sizes: Sizes, sets: tuple[Set, ...], most: int) -> tuple[tuple[Set, ...], ...]:
    """Ways to cover all sets by larger ones of at most `most` cells; the last is the largest sets themselves.

    Attributes are put into blocks, and each set becomes all blocks that it touches: with one block the table of all
    attributes, with as many blocks as attributes itself.
    """
    covers = []
    for number in range(1, len(sizes)):
        of = _blocks(sizes, number)
        touched = {frozenset(of[i] for i in axes) for axes in sets}
        held = frozenset(tuple(i for i, block in enumerate(of) if block in blocks) for blocks in touched)
        if max(cells(sizes, axes) for axes in held) <= most:
            covers.append(maximal(held))
    return tuple(dict.fromkeys([*covers, maximal(sets)]))


def _blocks(sizes: Sizes, number: int) -> list[int]:
    """The block of each attribute: the largest attribute first, each into the block with the fewest cells so far."""
    of, filled = [0] * len(sizes), [1] * number
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        of[i] = filled.index(min(filled))
        filled[of[i]] *= max(2, sizes[i])
    return of


def cells(sizes: Sizes, axes: Set) -> int:
    return math.prod(sizes[i] for i in axes)


def shape(sizes: Sizes, axes: Set) -> tuple[int, ...]:
    return tuple(sizes[i] for i in axes)


def sum_over(table: Counts, whole: Set, part: Set) -> Counts:
    """The table of a part of its attributes."""
    axes = tuple(axis for axis, i in enumerate(whole) if i not in part)
    return table.sum(axis=axes) if axes else table


def centre(table: Floats) -> Floats:
    """C along every axis."""
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


def contrasts(table: Counts) -> Counts:
    """n C along every axis, which is whole: n I - J."""
    for axis in range(table.ndim):
        table = table.shape[axis] * table - table.sum(axis=axis, keepdims=True)
    return table


def assemble(parts: Mapping[Set, Floats], sets: tuple[Set, ...], sizes: Sizes) -> dict[Set, Floats]:
    """The table of each set from the centred parts of all its subsets."""
    tables = {}
    for axes in sets:
        total = np.zeros(shape(sizes, axes))
        for part in subsets(axes):
            wide = tuple(sizes[i] if i in part else 1 for i in axes)
            total += parts[part].reshape(wide) / cells(sizes, tuple(i for i in axes if i not in part))
        tables[axes] = frozen(total)
    return tables


def centred_norm(sizes: Sizes, part: Set) -> float:
    """The squared length of the centred part of one record: the product of 1 - 1/n."""
    return math.prod(1 - 1 / sizes[i] for i in part)


@lru_cache(maxsize=64)
def gains(sizes: Sizes, sets: tuple[Set, ...]) -> dict[Set, float]:
    """For each part how much its variance counts in the variance of a cell, summed over the tables: see `closure`."""
    terms: dict[Set, list[float]] = {part: [] for part in closure(sets)}
    for axes in sets:
        for part in subsets(axes):
            terms[part].append((cells(sizes, part) / cells(sizes, axes)) ** 2)
    return {part: centred_norm(sizes, part) * math.fsum(shares) for part, shares in terms.items()}


def subsets(axes: Set) -> list[Set]:
    return [part for k in range(len(axes) + 1) for part in combinations(axes, k)]


def read_counts(counts: Mapping[Set, Any], sizes: Sizes, sets: tuple[Set, ...]) -> dict[Set, Counts]:
    """The counts as int64, cut so that no sum overflows: cutting never increases a difference."""
    held = {}
    for axes in sets:
        array = np.asarray(counts.get(axes))
        if array.dtype.kind not in "iu" or array.shape != shape(sizes, axes):
            raise Misconfigured(
                f"`counts` must hold whole numbers of shape {shape(sizes, axes)} for attributes {axes}."
            )
        least = 0 if array.dtype.kind == "u" else -MOST_COUNT
        held[axes] = np.clip(array, least, MOST_COUNT).astype(np.int64)
    return held


def read_part(axes: Iterable[int], sets: tuple[Set, ...]) -> Set:
    """Reads a set of attributes that stand together in a table."""
    asked = tuple(sorted({count(i, "set", least=0) for i in axes}))
    if not any(set(asked) <= set(table) for table in sets):
        raise Misconfigured("no table holds these attributes together. Ask for them with `sets`.")
    return asked
