"""Tables of counts over several columns at a time, all from one paid release and consistent with each other."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations, islice
from typing import Any, NoReturn

import numpy as np

from lapwing.answers.answer import Release
from lapwing.answers.distribution import COUNT, axis_columns, count_table
from lapwing.answers.formats import Explanation, dump, footer, to_dict
from lapwing.answers.table import AnswerColumn, AnswerTable, fresh
from lapwing.errors import Misconfigured
from lapwing.expressions.refusal import nearest, refuse
from lapwing.expressions.table import Catalog, Table
from lapwing.expressions.types import Type
from lapwing.mechanisms.ranges.components import MOST_TABLE, MarginalRelease, Set
from lapwing.numbers import Number, count
from lapwing.plan.axes import make_axis, require_cut
from lapwing.plan.plan import Outline
from lapwing.plan.workload import Axis, axes_of, read_marginals
from lapwing.privacy.budget import Cost
from lapwing.sql.workload import find_table, make_workload

CELLS = 10
"""Default number of cells for real columns."""
MOST_TABLES = 1_000
MOST_WAYS = 8
"""Columns of one table: its error is a sum over pairs of their subsets."""
MOST_COLUMNS = 60
_LISTED = 12  # tables in a message

CellsPerAxis = int | Mapping[str, int] | None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MarginalTable(Release):
    """Noisy counts over some columns. Every cell has the same error, known beforehand."""

    tables: MarginalRelease
    over: Set
    """The numbers of its axes."""

    @property
    def axes(self) -> tuple[Axis, ...]:
        axes = axes_of(self.plan.measures[0].kind)
        return tuple(axes[i] for i in self.over)

    @property
    def counts(self) -> Any:
        return self.tables.table(self.over)

    def table(self, confidence: Number | None = None, *, simultaneous: bool = False) -> AnswerTable:
        return count_table(Release.table(self, confidence, simultaneous=simultaneous), self.plan, self.axes)

    def _columns(self, confidence: Fraction, *, simultaneous: bool) -> list[AnswerColumn]:
        counts = np.ravel(self.counts)
        off = self.tables.mechanism.error(self.over, confidence, simultaneous=counts.size if simultaneous else 1)
        keys = axis_columns(self.axes)
        name = fresh(COUNT, [column.name for column in keys])
        return [*keys, AnswerColumn(name, Type.REAL, counts, counts - off, counts + off)]

    def __len__(self) -> int:
        return math.prod(axis.size for axis in self.axes)


@dataclass(frozen=True, eq=False, repr=False)
class MarginalTables(Mapping[tuple[str, ...], MarginalTable]):
    """All tables, by the names of their columns; in brackets also sums of them, and any order of the names."""

    release: Release

    @cached_property
    def _released(self) -> MarginalRelease:
        return read_marginals(self.release.plan.measures[0], self.release.released.cells[0])

    @cached_property
    def _names(self) -> list[str]:
        return [axis.name for axis in axes_of(self.release.plan.measures[0].kind)]

    def __getitem__(self, names: str | Sequence[str]) -> MarginalTable:
        index = {name.lower(): i for i, name in enumerate(self._names)}
        asked = [names] if isinstance(names, str) or not isinstance(names, Iterable) else list(names)
        some = ", ".join(json.dumps(names, ensure_ascii=False) for names in islice(self, _LISTED))
        tables = f"The tables are {some}{', ...' if len(self) > _LISTED else '.'}"
        for name in asked:
            if not isinstance(name, str):
                raise Misconfigured(f"{name!r} is not the name of a column. {tables}")
            if name.lower() not in index:
                raise Misconfigured(f"`{name}` is not a column of this answer. {nearest(name, self._names)}")
        over = tuple(sorted({index[name.lower()] for name in asked}))
        if not any(set(over) <= set(table) for table in self._released.tables):
            raise Misconfigured(
                f"these columns stand together in no table of this answer. {tables} Ask for more `ways`."
            )
        return self._table(over)

    def _table(self, over: Set) -> MarginalTable:
        return MarginalTable.of(self.release, tables=self._released, over=over)

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return (tuple(self._names[i] for i in over) for over in self._released.tables)

    def __len__(self) -> int:
        return len(self._released.tables)

    @property
    def cost(self) -> Cost:
        return self.release.cost

    @property
    def entry(self) -> int:
        return self.release.entry

    @property
    def total(self) -> MarginalTable:
        return self._table(())

    def methods(self) -> str:
        return self.total.methods()

    def explain(self) -> Explanation:
        return self.total.explain()

    def to_dict(self) -> dict[str, Any]:
        tables = ((names, replace(table.table(), facts=dict)) for names, table in self.items())
        return {"tables": [{"over": list(names), **to_dict(table)} for names, table in tables], **self.total.facts()}

    def to_json(self) -> str:
        return dump(self.to_dict())

    def __repr__(self) -> str:
        error, confidence = self._released.mechanism.error, self.release.confidence
        lines = [
            f"{', '.join(names)}: {len(table):,} cells, within {error(table.over, confidence):,.4g}"
            for names, table in self.items()
        ]
        return "\n".join([*lines, *footer(self.total.table())])


def ask_marginals(
    catalog: Catalog,
    columns: Sequence[str | Sequence[str]],
    *,
    table: str | None,
    where: str | None,
    ways: int,
    cells: CellsPerAxis,
) -> Outline:
    """The question that the tables answer; raises Refused if they cannot."""
    source, asked = find_table(catalog, table), read_columns(columns)
    lists = [(item,) if isinstance(item, str) else item for item in asked]
    names = _ordered(source, [name for listed in lists for name in listed])
    sizes = _read_cells(cells, names)
    axes = [make_axis(source, name, cells=size, default=CELLS) for name, size in zip(names, sizes, strict=True)]
    for axis, size in zip(axes, sizes, strict=True):
        if isinstance(cells, Mapping) and size is not None:
            require_cut(axis)
    if all(isinstance(item, str) for item in asked):
        ways = min(count(ways, "ways"), len(names))
        tables = sum(math.comb(len(names), k) for k in range(1, ways + 1))
        sets = combinations_up_to(len(names), ways) if tables <= MOST_TABLES else ()
    else:
        index = {name.lower(): i for i, name in enumerate(names)}
        sets = tuple(dict.fromkeys(tuple(sorted({index[name.lower()] for name in listed})) for listed in lists))
        tables = len(sets)
    if tables > MOST_TABLES:
        _refuse(f"that makes {tables:,} tables; at most {MOST_TABLES:,} are answered.", "Ask for fewer.")
    if max(map(len, sets)) > MOST_WAYS:
        _refuse(f"a table has more than {MOST_WAYS} columns.", f"Ask for tables of at most {MOST_WAYS}.")
    if max(math.prod(axes[i].size for i in over) for over in sets) > MOST_TABLE:
        _refuse(f"a table has more than {MOST_TABLE:,} cells.", "Pass fewer `ways`, or fewer `cells`.")
    return make_workload(catalog, source, where, axes, tuple(sorted(sets, key=lambda over: (len(over), over))))


def _refuse(why: str, fix: str) -> NoReturn:
    refuse("too-many-groups", "`columns`", why, fix)


def combinations_up_to(size: int, most: int) -> tuple[Set, ...]:
    """All sets of 1 to `most` numbers below `size`."""
    return tuple(chosen for k in range(1, most + 1) for chosen in combinations(range(size), k))


def read_columns(columns: object) -> tuple[str | tuple[str, ...], ...]:
    asked = [item if isinstance(item, str) else _listed(item) for item in _listed(columns)]
    names = [name for item in asked for name in ([item] if isinstance(item, str) else item)]
    if not names or not all(isinstance(name, str) for name in names):
        raise Misconfigured(
            '`columns` must list names of columns, ["sex", "age"], or tables, [("sex", "age"), ("age",)]. '
            "Nothing was charged."
        )
    return tuple(asked)


def _listed(names: object) -> tuple[Any, ...]:
    return tuple(names) if isinstance(names, Iterable) and not isinstance(names, str) else (None,)


def _ordered(table: Table, names: Sequence[str]) -> list[str]:
    """The columns, each once, in the order of the table: so that the same tables are one question."""
    asked = {table.field(name).name for name in names}
    if not 1 <= len(asked) <= MOST_COLUMNS:
        why = f"there are {len(asked)}; 1 to {MOST_COLUMNS} are counted."
        refuse("wrong-argument", "`columns`", why, "Name fewer.")
    return [field.name for field in table.fields if field.name in asked]


def _read_cells(cells: CellsPerAxis, names: Sequence[str]) -> list[int | None]:
    if not isinstance(cells, Mapping):
        return [cells] * len(names)
    sizes: dict[str, int | None] = {name.lower(): None for name in names}
    for name, size in cells.items():
        if str(name).lower() not in sizes:
            refuse("unknown-column", "`cells`", f"`{name}` is not among the columns.", nearest(str(name), names))
        sizes[str(name).lower()] = size
    return [sizes[name.lower()] for name in names]
