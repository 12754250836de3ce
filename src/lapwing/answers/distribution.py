"""The distribution of a column: every range, its distribution function and its quantiles from one paid release."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from functools import lru_cache
from typing import Any, overload

import numpy as np

from lapwing.answers.answer import Release
from lapwing.answers.table import AnswerColumn, AnswerTable, fresh
from lapwing.answers.tabular import Estimate
from lapwing.arrays import Floats, objects
from lapwing.errors import Misconfigured
from lapwing.expressions.refusal import refuse
from lapwing.expressions.table import Catalog
from lapwing.expressions.types import Type, text_of
from lapwing.mechanisms.ranges.ranges import RangeMechanism, RangeRelease
from lapwing.numbers import Number, exact, inside_unit
from lapwing.plan.axes import make_axis, require_cut
from lapwing.plan.plan import Outline, Plan
from lapwing.plan.workload import Axis, axes_of, read_ranges
from lapwing.sql.workload import find_table, make_workload

CELLS = 100
"""Default number of cells for real columns."""
COUNT, SHARE = "n", "share_up_to"
"""The columns of noisy numbers, unless a column has that name."""

_NEAR = Fraction(1, 10**6)  # of a cell: an end that is so near to an edge means the edge


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Distribution(Release):
    """Noisy counts of every cell of a column and of every range of cells, consistent with each other.

    As a table it has a row for each cell: its count `n`, and `share_up_to`, the share of rows in this cell or before.
    """

    @property
    def axis(self) -> Axis:
        return axes_of(self.plan.measures[0].kind)[0]

    @property
    def ranges(self) -> RangeRelease:
        return read_ranges(self.plan.measures[0], self.released.cells[0])

    def range(self, low: Any = None, high: Any = None, confidence: Number | None = None) -> Estimate:
        """How many rows lie from low to high; an end that is left out is open.

        Both ends count, but a range of reals stops before `high`. Numbers beyond the bounds are in the outermost cells.
        """
        first = 0 if low is None else _bound(self.axis, low, "low", stop=False)
        last = self.axis.size if high is None else _bound(self.axis, high, "high", stop=True)
        if first > last:
            raise Misconfigured("`low` exceeds `high`. Swap them.")
        level = self._level(confidence)
        return self._estimate(self.ranges.range(first, last), self._interval(first, last, level), level)

    @overload
    def cdf(self) -> Floats: ...
    @overload
    def cdf(self, value: Any, confidence: Number | None = None) -> Estimate: ...

    def cdf(self, value: Any = None, confidence: Number | None = None) -> Floats | Estimate:
        """For each cell, the share that lies in it or before it: between 0 and 1, never falling, 1 at the end.

        With a value, an end of a cell as in `range(high=value)`, the share up to it with its interval: it rises with
        the count up to the value and falls with the count beyond; both lie in their intervals together (union bound).
        """
        shares = self.ranges.cdf()
        if value is None:
            return shares
        level, last = self._level(confidence), _bound(self.axis, value, "value", stop=True)
        share = float(shares[last - 1]) if last else 0.0
        return self._estimate(share, self._share_interval(last, share, level), level)

    def quantile(self, q: Number, confidence: Number | None = None) -> Estimate:
        """The value below which a share q lies: of values the first at which it is reached, of cells within the cell,
        with rows spread evenly. Whole numbers stay whole.

        The interval holds the quantile of the limited, clipped rows. With S the sum of the first cells and T of all,
        the quantile is beyond them if S - q T < 0. S - q T = (1 - q) S - q (T - S) errs by at most as much as its
        two ranges, all of which hold together (union bound); as it never falls, halving finds both ends.
        """
        share, level = inside_unit(q, "q"), self._level(confidence)
        shares, (first, last) = self.cdf(), self._cells_of(share, level)
        cell = max(first, min(int(np.searchsorted(shares, float(share))), last))
        return self._estimate(self._within(cell, shares, share), self._ends(first, last), level)

    def _estimate(self, value: Any, ends: tuple[Any, Any], level: Fraction) -> Estimate:
        return Estimate(value, *ends, level, self._notes(), self._warnings())

    def table(self, confidence: Number | None = None, *, simultaneous: bool = False) -> AnswerTable:
        return count_table(Release.table(self, confidence, simultaneous=simultaneous), self.plan, [self.axis])

    def _columns(self, confidence: Fraction, *, simultaneous: bool) -> list[AnswerColumn]:
        counts, off = self.ranges.counts(), self._errors(confidence, self.axis.size if simultaneous else 1)
        cells = axis_columns([self.axis])
        names = [column.name for column in cells]
        shares = AnswerColumn(fresh(SHARE, names), Type.REAL, self.cdf(), bare=True)
        number = AnswerColumn(fresh(COUNT, names), Type.REAL, counts, counts - off, counts + off)
        return [*cells, number, shares]

    def _interval(self, first: int, last: int, level: Fraction, together: int = 1) -> tuple[float, float]:
        middle, off = self.ranges.range(first, last), _error(self.ranges.mechanism, first, last, level, together)
        return middle - off, middle + off

    def _share_interval(self, last: int, share: float, level: Fraction) -> tuple[float, float]:
        """Of the share of the first cells; no narrower than to hold the share itself."""
        if last in (0, self.axis.size):
            return share, share
        ranges = (0, last), (last, self.axis.size)
        (low, high), (least, most) = (np.maximum(self._interval(*ends, level, 2), 0.0).tolist() for ends in ranges)
        return min(share, _part(low, most, 0.0)), max(share, _part(high, least, 1.0))

    def _errors(self, confidence: Fraction, together: int) -> Floats:
        """Of each cell. In a tree all cells are alike."""
        every = 1 if self.ranges.mechanism.alike else self.axis.size
        errors = [_error(self.ranges.mechanism, k, k + 1, confidence, together) for k in range(every)]
        return np.broadcast_to(np.array(errors), (self.axis.size,))

    def _within(self, cell: int, shares: Floats, share: Fraction) -> Any:
        axis = self.axis
        if not axis.edges:
            return axis.starts[cell]
        before = float(shares[cell - 1]) if cell else 0.0
        part = (float(share) - before) / (float(shares[cell]) - before) if shares[cell] > before else 0.5
        within = max(0.0, min(1.0, part)) * float(axis.edges[cell + 1] - axis.edges[cell])
        if axis.type is Type.INTEGER:
            return int(axis.edges[cell]) + max(0, math.ceil(within) - 1)
        return float(axis.edges[cell]) + within

    def _ends(self, first: int, last: int) -> tuple[Any, Any]:
        """The interval from the first value of one cell to the end of another."""
        low, high = self.axis.cells[first][0], self.axis.cells[last][1]
        return (float(low), float(high)) if isinstance(low, Fraction) and isinstance(high, Fraction) else (low, high)

    def _cells_of(self, share: Fraction, level: Fraction) -> tuple[int, int]:
        """The first and the last cell that the quantile can lie in."""
        sums, size, q = self.ranges.sums, self.axis.size, float(share)

        def margin(k: int, sign: int) -> float:
            """S - q T after k cells, moved by its error."""
            off = [_error(self.ranges.mechanism, *ends, level, 2 * size) for ends in ((0, k), (k, size))]
            return float(sums[k] - q * sums[size]) + sign * ((1 - q) * off[0] + q * off[1])

        first = bisect_left(range(1, size), True, key=lambda k: margin(k, 1) >= 0)
        last = bisect_left(range(1, size), True, key=lambda k: margin(k, -1) >= 0)
        return min(first, last), last


@lru_cache(maxsize=1 << 14)
def _error(mechanism: RangeMechanism, low: int, high: int, confidence: Fraction, together: int) -> float:
    return mechanism.error(low, high, confidence, simultaneous=together)


def _part(some: float, rest: float, empty: float) -> float:
    return some / (some + rest) if some + rest > 0 else empty


def ask_distribution(
    catalog: Catalog, column: str, *, table: str | None, where: str | None, cells: int | None
) -> Outline:
    """The question that a distribution answers; raises Refused if it cannot."""
    if not isinstance(column, str):
        raise Misconfigured(
            f'`column` is {column!r}; it must be the name of one column, such as "age". '
            "For several columns ask for marginals. Nothing was charged."
        )
    source = find_table(catalog, table)
    axis = make_axis(source, column, cells=cells, default=CELLS)
    if cells is not None:
        require_cut(axis)
    if None in axis.domain or axis.size < 2:
        why = "a distribution needs at least two values in an order, and NULL has no place in it."
        refuse("wrong-argument", f"`{axis.name}`", why, "Count its groups with GROUP BY.")
    return make_workload(catalog, source, where, [axis])


def axis_columns(axes: Sequence[Axis]) -> list[AnswerColumn]:
    """Every combination of cells as columns of an answer: the values, or where each cell begins and ends."""
    columns, names, sizes = [], [axis.name for axis in axes], [axis.size for axis in axes]
    indices = np.indices(sizes).reshape(len(axes), math.prod(sizes))
    for axis, rows in zip(axes, indices.tolist(), strict=True):
        cells = [[float(end) if isinstance(end, Fraction) else end for end in cell] for cell in axis.cells]
        columns.append(AnswerColumn(axis.name, axis.type, objects([cells[i][0] for i in rows])))
        if axis.edges:
            names.append(fresh(f"{axis.name}_to", names))
            columns.append(AnswerColumn(names[-1], axis.type, objects([cells[i][1] for i in rows])))
    return columns


def count_table(table: AnswerTable, plan: Plan, axes: Sequence[Axis]) -> AnswerTable:
    by = ", ".join(axis.name for axis in axes)
    return replace(table, title=f"COUNT(*) of {plan.table.name}{f' by {by}' if by else ''}", binned=True)


def _bound(axis: Axis, value: Any, name: str, *, stop: bool) -> int:
    """The first cell of a range that begins here, or the first one after a range that ends here."""
    if axis.edges and axis.type is Type.REAL:
        return _edge(axis, value, name)
    ends, wanted = [last for _, last in axis.cells] if stop else axis.starts, value
    if axis.type is Type.DATE and isinstance(value, str):
        with suppress(ValueError):
            wanted = date.fromisoformat(value)
    if wanted in ends and isinstance(wanted, bool) == (axis.type is Type.BOOLEAN):
        return int(ends.index(wanted)) + stop
    some = ", ".join(map(text_of, ends[:6]))
    raise Misconfigured(
        f"`{name}` is {value!r}, which is not an end of a cell of `{axis.name}`. Pass one of {some}, ..."
    )


def _edge(axis: Axis, value: Any, name: str) -> int:
    """The edge that is meant; reals may be off by a millionth of a cell."""
    number, slack = exact(value, name), (axis.edges[1] - axis.edges[0]) * _NEAR
    index = bisect_left(axis.edges, number - slack)
    if index < len(axis.edges) and abs(axis.edges[index] - number) <= slack:
        return index
    near = axis.edges[max(0, index - 1) : index + 1]
    raise Misconfigured(
        f"`{name}` is {value}, which is not an edge of a cell of `{axis.name}`. "
        f"Pass {' or '.join(f'{float(edge):.6g}' for edge in near)}, or ask with other `cells`."
    )
