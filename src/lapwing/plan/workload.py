"""Workloads: many counts of rows from one release. The distribution along one column, or tables over several.

The cells of the full table are the groups of the question, COUNT(*) by every axis. A unit counts in at most
groups_per_unit of them, and in each by at most the sensitivity of the count; the engine sees to both (query.py). So
it adds at most the product of both to the counts, in one cell or in several, also to sums of cells: this is the
`cells_per_unit` that the mechanism is made for. The full table stays in the engine, which sums it to the tables that
the mechanism reads.
Checked by: tests/plan/test_workload.py
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sqlglot import exp

from lapwing.errors import Bug
from lapwing.expressions.expression import Column, Expression
from lapwing.expressions.forms import ExactSum, GroupingId, Wide
from lapwing.expressions.identity import Facts
from lapwing.expressions.types import Type, Value
from lapwing.mechanisms.cells import (
    CellColumns,
    CellMechanism,
    Cells,
    Family,
    NoisyMarginals,
    NoisyRanges,
    mechanisms_for,
)
from lapwing.mechanisms.ranges.components import MarginalRelease, Set, coverings, sum_over
from lapwing.mechanisms.ranges.noisy_marginals import LaplaceMarginals
from lapwing.mechanisms.ranges.ranges import RangeRelease, Ranges
from lapwing.plan.kind import Kind, Measure, require_noise
from lapwing.plan.row_values import RowColumn, aliased, named, select
from lapwing.privacy.loss import Loss

if TYPE_CHECKING:
    from lapwing.plan.add_noise import FetchedRows
    from lapwing.plan.query import UnitRows

_SET, _MOST = "lw_set", 1 << 62
_FORM = 1  # of the mechanisms; another one makes answers that are no longer what is stored
_MODERATE = 1 << 16  # cells of a table that is counted for the tables it holds


@dataclass(frozen=True, slots=True)
class Axis:
    """A column cut into cells, which are public."""

    name: str
    type: Type
    key: Expression
    """What a row is counted under."""
    domain: tuple[Value, ...]
    """The values of the key, in order: of a point itself, of a cell its number."""
    edges: tuple[Fraction, ...] = ()
    """Where the cells of numbers begin, and where the last one ends; nothing if every value is a cell."""

    @property
    def size(self) -> int:
        return len(self.domain)

    @property
    def cells(self) -> list[tuple[Value, Value]]:
        """The first value of each cell, and the last one; of reals the end, which belongs to the next cell."""
        if not self.edges:
            return [(value, value) for value in self.domain]
        if self.type is Type.INTEGER:
            return [(int(low), int(high) - 1) for low, high in pairwise(self.edges)]
        return list(pairwise(self.edges))

    @property
    def clipped(self) -> bool:
        """Whether values beyond the bounds count in the outermost cells; if not, every value of a cell is listed."""
        return not isinstance(self.key, Column)

    @property
    def starts(self) -> list[Value]:
        """The first value of each cell."""
        return [first for first, _ in self.cells]


@dataclass(frozen=True, slots=True)
class WorkloadKind(Kind):
    """Counts over cells of one or several axes. A column of cells is one table, flat; noisy ones are float64."""

    counts: Kind
    """COUNT(*) in one cell of the full table."""
    axes: tuple[Axis, ...]
    apart: ClassVar[bool] = True
    noise_target: ClassVar[str]
    group_word: ClassVar[str] = "cell"

    @abstractmethod
    def fitted(self, family: Family, cells_per_unit: int) -> NoisyRanges | NoisyMarginals:
        """The mechanism for a unit that adds at most `cells_per_unit` counts."""

    def __str__(self) -> str:
        names = " and ".join(f"`{axis.name}`" for axis in self.axes)
        part = f"each unit's part of a cell is clipped to {self.counts.unit_interval}"
        return f"rows are counted in cells of {names}, {part}"

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(axis.size for axis in self.axes)

    def sensitivity(self, step: Fraction) -> int:
        return self.counts.sensitivity(step)

    def make_mechanism(self, step: Fraction, groups_per_unit: int, share: Loss) -> CellMechanism:
        noisy = self.fitted(mechanisms_for(share), groups_per_unit * self.exact_sensitivity(step))
        require_noise(noisy.mechanism, share)
        return noisy

    def columns(self, step: Fraction) -> list[RowColumn]:
        return self.counts.columns(step)

    def query(self, measure: Measure, rows: UnitRows) -> exp.Select:
        """The cells of the full table, each unit within its limits, summed to a few tables that hold all others."""
        keys = rows.keys()
        number = aliased(GroupingId(expressions=[key.copy() for key in keys]), _SET)
        total = aliased(Wide(this=ExactSum(this=named("c0"))), "c0")
        query = select(number, *keys, total).from_(rows.cells(self.counts).subquery("lw_cells", copy=False), copy=False)
        grouped = [exp.Tuple(expressions=[keys[i].copy() for i in one]) for one in self._read(measure)]
        query.set("group", exp.Group(grouping_sets=[exp.GroupingSets(expressions=grouped)]))
        return query

    def arrange(self, measure: Measure, fetched: FetchedRows) -> CellColumns:
        """The tables that the mechanism reads."""
        found, counts = fetched.integers(_SET), np.clip(fetched.integers("c0"), -_MOST, _MOST).astype(np.int64)
        places = [fetched.key_places(i) for i in range(len(self.axes))]
        tables: dict[Set, Cells] = {}
        for one in self._read(measure):
            mine = np.flatnonzero(found == _mask(one, len(self.axes)))
            index = tuple(places[i][mine] for i in one)
            if any((place < 0).any() for place in index):
                raise Bug("the engine gave a group that was not asked for")
            tables[one] = np.zeros([self.sizes[i] for i in one], np.int64)
            tables[one][index] = counts[mine]
        return tuple(_summed(tables, one).ravel() for one in _noisy(measure).measured)

    def empty(self, measure: Measure, groups: int) -> CellColumns:
        sizes = self.sizes
        return tuple(np.zeros(np.prod([sizes[i] for i in one]), np.int64) for one in _noisy(measure).measured)

    def decode(self, column: list[str]) -> Cells:
        numbers = np.array(column, np.float64)
        numbers.flags.writeable = False
        return numbers

    def half_width(self, measure: Measure, statistic: str, confidence: Fraction, rows: int | None) -> Fraction | None:
        return None

    def errors(self, measure: Measure, confidence: Fraction, group_count: int) -> list[Fraction]:
        """One over the price: with more of it every count has less noise, and their errors are many."""
        return [1 / _noisy(measure).mechanism.loss.amount]

    def describe(self, measure: Measure, share: Loss | None) -> dict[str, Any]:
        return {"mechanism": type(_noisy(measure).mechanism).__name__, "loss": str(share)}

    def methods(self, measure: Measure) -> str:
        mechanism = _noisy(measure).mechanism
        noise = "Laplace" if isinstance(mechanism, Ranges | LaplaceMarginals) else "Gaussian"
        read = len(_noisy(measure).measured)
        tables = f"the cells of {read} table{'' if read == 1 else 's'}"
        target = tables if isinstance(mechanism, LaplaceMarginals) else self.noise_target
        return (
            f"{self}, and discrete {noise} noise is added to {target}, for a unit that adds at most "
            f"{mechanism.cells_per_unit} in all; all counts come from these"
        )

    @property
    def left_out(self) -> str:
        return uncounted(self.axes)

    def _read(self, measure: Measure) -> tuple[Set, ...]:
        """The fewest tables of moderate size that hold all that are measured: the engine takes its time for each."""
        return min(coverings(self.sizes, _noisy(measure).measured, _MODERATE), key=len)


@dataclass(frozen=True, slots=True)
class DistributionKind(WorkloadKind):
    """Every range of cells along one axis. Its released cells are the sums of the first k of them."""

    noise_target: ClassVar[str] = "sums of cells"
    cells: ClassVar[int] = 1

    @property
    def facts(self) -> Facts:
        return ("distribution", _FORM, self.counts.facts, _axes_facts(self.axes))

    def fitted(self, family: Family, cells_per_unit: int) -> NoisyRanges:
        return NoisyRanges(family.ranges(size=self.sizes[0], cells_per_unit=cells_per_unit))

    def named_errors(self, measure: Measure, confidence: Fraction) -> dict[str, float]:
        mechanism, half = _ranges(measure).mechanism, self.sizes[0] // 2
        ranges = {"one cell": (half, half + 1), "the lower half": (0, half), "all": (0, self.sizes[0])}
        return {name: mechanism.error(*ends, confidence) for name, ends in ranges.items()}


@dataclass(frozen=True, slots=True)
class MarginalsKind(WorkloadKind):
    """Tables over sets of axes, consistent with each other."""

    sets: tuple[Set, ...]
    """The axes of each table that is asked for."""
    noise_target: ClassVar[str] = "what the tables have in common"

    @property
    def facts(self) -> Facts:
        return ("marginals", _FORM, self.counts.facts, _axes_facts(self.axes), self.sets)

    @property
    def cells(self) -> int:
        return len(self.sets)

    def fitted(self, family: Family, cells_per_unit: int) -> NoisyMarginals:
        return NoisyMarginals(family.marginals(sizes=self.sizes, sets=self.sets, cells_per_unit=cells_per_unit))

    def named_errors(self, measure: Measure, confidence: Fraction) -> dict[str, float]:
        mechanism = _marginals(measure).mechanism
        names = {one: ", ".join(self.axes[i].name for i in one) for one in self.sets}
        return {name: mechanism.error(one, confidence) for one, name in names.items()}


def axes_of(kind: Kind) -> tuple[Axis, ...]:
    """The axes of a workload."""
    if not isinstance(kind, WorkloadKind):
        raise Bug("this is no workload")
    return kind.axes


def read_ranges(measure: Measure, cells: CellColumns) -> RangeRelease:
    """The released cells of a distribution."""
    return RangeRelease(cells[0], _ranges(measure).mechanism)


def read_marginals(measure: Measure, cells: CellColumns) -> MarginalRelease:
    """The released tables of marginals."""
    mechanism = _marginals(measure).mechanism
    pairs, sizes = zip(mechanism.sets, cells, strict=True), mechanism.sizes
    return MarginalRelease({one: flat.reshape([sizes[i] for i in one]) for one, flat in pairs}, mechanism)


def uncounted(axes: Sequence[Axis]) -> str:
    """A sentence on the rows that lie in no cell, and on those beyond the bounds."""
    nulls = sum(None in axis.domain for axis in axes)
    if nulls:
        rows = f"with a value that is not declared{', NULL included,' if nulls < len(axes) else ''}"
    elif any(not axis.clipped and (axis.type is not Type.BOOLEAN or axis.size < 2) for axis in axes):
        rows = "without a value, or with one that is not declared,"
    else:
        rows = "without a value"
    several = len(axes) > 1
    counted = f"{' in any listed column' if several else ''} are not counted{' in any table' if several else ''}"
    beyond = "; values beyond the bounds count in the first or last cell" if any(axis.clipped for axis in axes) else ""
    return f"Rows {rows}{counted}{beyond}."


def _axes_facts(axes: Sequence[Axis]) -> Facts:
    return tuple((axis.name, tuple(map(str, axis.edges))) for axis in axes)


def _mask(one: Set, many: int) -> int:
    """GROUPING_ID of a set: one bit for each key that is summed over, the first key's highest."""
    return sum(1 << (many - 1 - i) for i in range(many) if i not in one)


def _summed(tables: Mapping[Set, Cells], one: Set) -> Cells:
    whole = next(known for known in tables if set(one) <= set(known))
    return sum_over(tables[whole], whole, one)


def _noisy(measure: Measure) -> NoisyRanges | NoisyMarginals:
    if not isinstance(measure.mechanism, NoisyRanges | NoisyMarginals):
        raise Bug("these are no tables of counts")
    return measure.mechanism


def _ranges(measure: Measure) -> NoisyRanges:
    if not isinstance(measure.mechanism, NoisyRanges):
        raise Bug("a distribution is made of ranges")
    return measure.mechanism


def _marginals(measure: Measure) -> NoisyMarginals:
    if not isinstance(measure.mechanism, NoisyMarginals):
        raise Bug("these are no marginals")
    return measure.mechanism
