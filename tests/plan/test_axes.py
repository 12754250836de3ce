"""Cells of columns: which values fall into which, exactly, whatever float64 makes of the edges."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random
from typing import Any

import pytest

from lapwing.engines.public_values import calculate
from lapwing.errors import Misconfigured, Refused
from lapwing.expressions.table import Field, Table
from lapwing.expressions.to_sqlglot import whole
from lapwing.expressions.types import Interval, Type
from lapwing.plan.axes import make_axis, require_cut
from lapwing.plan.workload import Axis, uncounted


def axis(kind: Type, low: Any, high: Any, cells: int | None = None, **more: Any) -> Axis:
    field = Field("x", kind, Interval(Fraction(low), Fraction(high)), **more)
    return make_axis(Table("t", (field, Field("pid", Type.INTEGER)), "pid"), "x", cells=cells, default=10)


def placed(made: Axis, values: list[Any]) -> list[Any]:
    """What the engine says."""
    (found,) = calculate([made.key], {"x": values}, {"x": made.type}, len(values), whole)
    return list(found.to_pylist())


@pytest.mark.parametrize(
    ("low", "high"), [("0", "1"), ("-3.3", "7.7"), ("100000", "100001"), ("0", "1e-6"), ("0", "1e9")]
)
@pytest.mark.parametrize("cells", [2, 3, 10, 97, 1000])
def test_every_real_lies_between_the_edges_of_its_cell(low: str, high: str, cells: int) -> None:
    """At the edges themselves, as float64 has them, and just beside."""
    made = axis(Type.REAL, low, high, cells)
    random, edges = Random(3), [float(edge) for edge in made.edges]
    values = [v for e in edges for v in (e, math.nextafter(e, -math.inf), math.nextafter(e, math.inf))]
    values += [random.uniform(edges[0], edges[-1]) for _ in range(500)]
    for value, cell in zip(values, placed(made, values), strict=True):
        assert cell == min(max(sum(value >= edge for edge in edges) - 1, 0), cells - 1)


def test_what_is_no_number_has_no_cell_and_what_is_beyond_has_the_outermost() -> None:
    for made in (axis(Type.REAL, 0, 1, 5), axis(Type.REAL, "-1e299", "1e299", 5)):
        odd = [math.nan, None, math.inf, -math.inf, 1.7e308, -1.7e308]
        assert placed(made, odd) == [None, None, 4, 0, 4, 0]


@pytest.mark.parametrize(
    ("low", "high", "cells"), [(0, 99, 7), (-5, 1995, 1000), (0, 5000, None), (1, 10, 9), (0, 2, 2)]
)
def test_whole_numbers_fall_into_cells_of_nearly_one_size(low: int, high: int, cells: int | None) -> None:
    made = axis(Type.INTEGER, low, high, cells)
    values = list(range(low - 2, high + 3))
    ends = made.cells
    assert (ends[0][0], ends[-1][1], made.size) == (low, high, cells or 10)
    lengths = {int(last) - int(first) + 1 for first, last in ends}  # type: ignore[arg-type]
    assert max(lengths) - min(lengths) <= 1
    for value, cell in zip(values, placed(made, values), strict=True):
        first, last = ends[cell]
        assert first <= min(max(value, low), high) <= last  # type: ignore[operator]


def test_few_whole_numbers_are_cells_of_their_own() -> None:
    made = axis(Type.INTEGER, Fraction(1, 2), Fraction(9, 2))
    assert (made.domain, made.edges) == ((1, 2, 3, 4), ())
    assert placed(made, [-7, 0, 1, 4, 5, None, 2**62]) == [1, 1, 1, 4, 4, None, 4]
    assert axis(Type.INTEGER, 0, 999).size == 1000
    assert axis(Type.INTEGER, 0, 1000).size == 10


def test_declared_values_are_cells_in_their_order() -> None:
    made = axis(Type.INTEGER, 0, 9, values=(3, 1, 2))
    assert made.domain == (3, 1, 2)
    assert made.starts == [3, 1, 2]


def listed(kind: Type, *values: Any) -> Axis:
    """The axis of a column without bounds."""
    return make_axis(Table("t", (Field("x", kind, values=values),), None), "x", cells=None, default=10)


def test_a_number_of_cells_is_refused_where_values_are_cells() -> None:
    for made, kind in ((listed(Type.TEXT, "F", "M"), "declared"), (listed(Type.BOOLEAN), "truth")):
        with pytest.raises(Refused, match=f"the {kind} values of `x` are its cells"):
            require_cut(made)
    for cut in (axis(Type.INTEGER, 0, 9), axis(Type.INTEGER, 0, 9, 3), axis(Type.REAL, 0, 1)):
        require_cut(cut)
        assert cut.clipped


def test_rows_in_no_cell_are_told_as_the_axis_has_it() -> None:
    beyond = "; values beyond the bounds count in the first or last cell."
    undeclared = "Rows without a value, or with one that is not declared, are not counted."
    for made in (axis(Type.INTEGER, 0, 9), axis(Type.INTEGER, 0, 9, 3), axis(Type.REAL, 0, 1)):
        assert uncounted([made]) == f"Rows without a value are not counted{beyond}"
    for made in (listed(Type.TEXT, "F", "M"), listed(Type.INTEGER, 0, 1), listed(Type.BOOLEAN, True)):
        assert uncounted([made]) == undeclared
    assert uncounted([listed(Type.BOOLEAN)]) == "Rows without a value are not counted."
    assert uncounted([listed(Type.TEXT, "F", None)]) == "Rows with a value that is not declared are not counted."


def test_rows_in_no_table_are_told_for_all_columns_together() -> None:
    text, real, null = listed(Type.TEXT, "F", "M"), axis(Type.REAL, 0, 1), listed(Type.TEXT, "F", None)
    missing = "in any listed column are not counted in any table"
    beyond = "; values beyond the bounds count in the first or last cell."
    assert uncounted([text, text]) == f"Rows without a value, or with one that is not declared, {missing}."
    assert uncounted([text, real]) == f"Rows without a value, or with one that is not declared, {missing}{beyond}"
    assert uncounted([real, real]) == f"Rows without a value {missing}{beyond}"
    assert uncounted([null, real]) == f"Rows with a value that is not declared, NULL included, {missing}{beyond}"


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        (Type.REAL, 1, 1),
        (Type.INTEGER, Fraction(1, 3), Fraction(2, 3)),
        (Type.REAL, 0, Fraction(1, 10**310)),
        (Type.REAL, -(10**307), 10**307),
    ],
)
def test_bounds_that_cannot_be_cut_are_refused(kind: Type, low: Any, high: Any) -> None:
    """Before the charge, since the engine could not hold such edges."""
    with pytest.raises(Refused, match="Nothing was charged"):
        axis(kind, low, high)


@pytest.mark.parametrize("bad", [1, 0, -3, 2.5, True, "3"])
def test_odd_numbers_of_cells_are_refused(bad: Any) -> None:
    with pytest.raises(Misconfigured, match="`cells`"):
        axis(Type.REAL, 0, 1, bad)


@pytest.mark.parametrize("low", [2**53, -(2**60), 2**63 - 10])
def test_whole_numbers_beyond_float64_are_refused(low: int) -> None:
    """Cells are found by float64, which would merge them."""
    bounds = Interval(Fraction(low), Fraction(low + 9))
    table = Table("t", (Field("big", Type.INTEGER, bounds),), None)
    with pytest.raises(Refused, match="beyond 2\\^53"):
        make_axis(table, "big", cells=None, default=10)
