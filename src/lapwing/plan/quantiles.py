"""QuantilesKind: a histogram of each group on a grid of cells (mechanisms/quantiles/grid_quantiles.py).

A unit adds weights of at least 0 that sum to at most rows * 2^20. Sensitivity, in units of 2^20: rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sqlglot import exp

from lapwing.errors import Bug, Misconfigured
from lapwing.expressions.aggregate import Aggregate
from lapwing.expressions.expression import Expression
from lapwing.expressions.forms import ExactSum, Least, WholeQuotient, Wide
from lapwing.expressions.identity import Facts, interval_facts, number_facts
from lapwing.expressions.refusal import refuse
from lapwing.expressions.table import Table
from lapwing.expressions.types import Interval, Type, text_of
from lapwing.mechanisms.cells import CellColumns, CellMechanism, CellQuantiles, Cells, mechanisms_for
from lapwing.mechanisms.quantiles.grid_quantiles import UNIT as WEIGHT
from lapwing.mechanisms.quantiles.grid_quantiles import GridQuantiles
from lapwing.plan.kind import CellBand, Function, Kind, Measure, Reading, row_limit, wide_bounds
from lapwing.plan.row_values import CELL, HELD, UNIT, RowColumn, aliased, named, or_null, select, sum_units
from lapwing.privacy.loss import Loss

if TYPE_CHECKING:
    from lapwing.plan.add_noise import FetchedRows
    from lapwing.plan.query import UnitRows

FINE, COARSE, FEW = 1 << 16, 1 << 12, 16
"""Cells for reals: FINE for up to FEW groups, else COARSE."""

_TIMES = "lw_times"


@dataclass(frozen=True, slots=True)
class QuantilesKind(Kind):
    """A histogram over a grid, for quantiles at these levels with intervals at this confidence, or without."""

    argument: Expression
    bounds: Interval
    rows: int
    at: tuple[Fraction, ...]
    bins: int
    points: bool
    """Whether the cells are the whole numbers between the bounds."""
    confidence: Fraction | None
    apart: ClassVar[bool] = True
    releases_intervals: ClassVar[bool] = True

    @property
    def facts(self) -> Facts:
        levels = tuple(map(number_facts, self.at))
        bounds, confidence = interval_facts(self.bounds), number_facts(self.confidence)
        return ("grid", bounds, self.rows, levels, self.bins, self.points, confidence)

    def __str__(self) -> str:
        return (
            f"values are clipped to {self.bounds}, put on a grid of {self.bins:,} cells, "
            f"and each unit weighs at most {text_of(self.rows)} rows in a group"
        )

    @property
    def cells(self) -> int:
        return 3 * len(self.at)

    def sensitivity(self, step: Fraction) -> int:
        return self.rows

    def merge(self, others: Sequence[Kind]) -> Kind:
        more = {level for other in others if isinstance(other, QuantilesKind) for level in other.at}
        return replace(self, at=tuple(sorted({*self.at, *more})))

    def fit(self, group_count: int | None, confidence: Fraction | None) -> Kind:
        few = group_count is not None and group_count <= FEW
        return replace(self, bins=self.bins or (FINE if few else COARSE), confidence=confidence)

    @property
    def lacks_intervals(self) -> bool:
        return self.confidence is None

    def make_mechanism(self, step: Fraction, groups_per_unit: int, share: Loss) -> CellMechanism:
        """A unit is in several groups, each of which has its own histogram: a part of the share for each."""
        try:
            quantiles = mechanisms_for(share.scaled(Fraction(1, groups_per_unit))).quantiles(
                bounds=(self.bounds.low, self.bounds.high),
                cells=self.bins,
                at=self.at,
                rows_per_unit=self.rows,
                confidence=self.confidence,
                points=self.points,
            )
        except Misconfigured:
            refuse("price-out-of-range", "`epsilon`", f"no quantile can be drawn for {share}.", "Choose another one.")
        return CellQuantiles(quantiles)

    def columns(self, step: Fraction) -> list[RowColumn]:
        steps = self.bins - 1 if self.points else self.bins
        return [RowColumn(self.argument, True, self.bounds, steps, not self.points)]

    def query(self, measure: Measure, rows: UnitRows) -> exp.Select:
        """Keys, cell number b0 and weight c0: a row of a unit with n values counts min(1, rows / n), in units of 2^-20.

        Rows without a value are in the cell NULL, which is not read: to drop them here computes every cell twice.
        """
        one = exp.Literal.number(WEIGHT)
        if rows.by_row:
            inner = rows.select(*rows.keys(), aliased(rows.read(), CELL))
            many = exp.Mul(this=exp.Count(this=exp.Star()), expression=one)
            total = aliased(Wide(this=many), "c0")
        else:
            inner = _binned(rows)
            limit = Least(expressions=[named(HELD), exp.Literal.number(self.rows)])
            share = WholeQuotient(this=exp.Paren(this=exp.Mul(this=limit, expression=one)), expression=or_null(HELD))
            weight = exp.Mul(this=named(_TIMES), expression=exp.Paren(this=share))
            total = sum_units(weight, "c0")
        query = select(*rows.keys(), aliased(named(CELL), "b0"), total)
        query = query.from_(inner.subquery("t", copy=False), copy=False)
        return rows.within(query).group_by(*rows.keys(), named(CELL), copy=False)

    def arrange(self, measure: Measure, fetched: FetchedRows) -> CellColumns:
        """Group, cell and weight, in this order; rows without a value have no cell."""
        present = fetched.having("b0")
        columns = present.places(), present.integers("b0"), present.integers("c0")
        order = np.lexsort(columns[1::-1])
        return tuple(column[order] for column in columns)

    def filter_groups(self, columns: CellColumns, keep: Cells) -> CellColumns:
        place, cells, weights = columns
        shown, moved = keep[place], np.cumsum(keep) - 1
        return moved[place[shown]], cells[shown], weights[shown]

    def empty(self, measure: Measure, groups: int) -> CellColumns:
        return (np.zeros(0, np.int64),) * 3

    def decode(self, column: list[str]) -> Cells:
        return np.array(column, np.float64)

    def values(self, measure: Measure, cells: CellColumns, reading: Reading) -> Cells:
        return cells[3 * reading.place]

    def intervals(
        self, measure: Measure, cells: CellColumns, reading: Reading, confidence: Fraction, *, simultaneous: int
    ) -> CellBand | None:
        fits = self.confidence is not None and 1 - (1 - confidence) / simultaneous <= self.confidence
        return (cells[3 * reading.place + 1], cells[3 * reading.place + 2]) if fits else None

    def is_known_beforehand(self, statistic: str) -> bool:
        return False

    def half_width(self, measure: Measure, statistic: str, confidence: Fraction, rows: int | None) -> Fraction | None:
        return None

    def errors(self, measure: Measure, confidence: Fraction, group_count: int) -> list[Fraction]:
        """In rows, off the rank."""
        quantiles = _released_by(measure)
        return list(map(Fraction, quantiles.error(quantiles.confidence or confidence)))

    def describe(self, measure: Measure, share: Loss | None) -> dict[str, Any]:
        quantiles = _released_by(measure)
        name = "permute-and-flip" if quantiles.flips else "exponential"
        return {"mechanism": name, "rank_error": max(quantiles.error()), "cells": quantiles.cells, "loss": str(share)}

    def methods(self, measure: Measure) -> str:
        name = "permute-and-flip" if _released_by(measure).flips else "the exponential mechanism"
        return f"{self}, and {name} chooses cells by their rank"

    def promise(
        self, measure: Measure, reading: Reading, confidence: Fraction, *, group_count: int, each: str
    ) -> str | None:
        """A rank that is off by as much as there are rows on its longer side can be any: then it says nothing."""
        off, level = _released_by(measure).error(confidence)[reading.place], self.at[reading.place]
        fewest = math.ceil(off / max(level, 1 - level))
        useless = f"; useless in groups of fewer than {fewest:,} rows, where it may be anything between the bounds"
        return f"within {off:,.0f} rows of its rank with {{}} confidence{each}{useless}"


def _binned(rows: UnitRows) -> exp.Select:
    """Per unit, group and cell: how many rows, how many values the unit has in the group, and the group's place."""
    columns = [named(UNIT), *rows.keys(), aliased(rows.read(), CELL), aliased(exp.Count(this=exp.Star()), _TIMES)]
    counted = rows.select(*columns).group_by(named(UNIT), *rows.keys(), rows.read(), copy=False)
    present = exp.Case(
        ifs=[exp.If(this=exp.Is(this=named(CELL), expression=exp.Null()), true=exp.Literal.number(0))],
        default=named(_TIMES),
    )
    held = exp.Window(this=ExactSum(this=present), partition_by=[named(UNIT), *rows.keys()])
    return rows.place(counted, [aliased(held, HELD)])


def _released_by(measure: Measure) -> GridQuantiles:
    if not isinstance(measure.mechanism, CellQuantiles):
        raise Bug("these cells are not released as quantiles")
    return measure.mechanism.quantiles


def _quantile(table: Table, aggregate: Aggregate) -> QuantilesKind:
    (argument,) = aggregate.arguments
    bounds = wide_bounds(aggregate, argument)
    low, high = math.ceil(bounds.low), math.floor(bounds.high)
    points = argument.type is Type.INTEGER and 1 < high - low + 1 <= FINE
    if points:
        bounds = Interval(Fraction(low), Fraction(high))
    bins = high - low + 1 if points else 0
    rows = row_limit(table, aggregate)
    return QuantilesKind(argument, bounds, rows, aggregate.parameters, bins, points, Fraction(19, 20))


QUANTILE = Function(
    "quantile", "QUANTILE_CONT(x, 0.9), MEDIAN(x), MIN(x), MAX(x)", Type.REAL, "the quantile", _quantile, "quantiles"
)
