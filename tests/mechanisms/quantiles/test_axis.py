"""lapwing.mechanisms.quantiles.axis."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lapwing.errors import Misconfigured
from lapwing.mechanisms.quantiles import axis as module
from lapwing.mechanisms.quantiles.axis import PointAxis, Tally, whole_numbers

WHOLE = PointAxis((-3, 10), None)
REAL = PointAxis((-1, 1), 0.25)
SECRET = 987654321


def counted(tally: Tally) -> dict[int, int]:
    return dict(zip(tally.cells.tolist(), tally.counts.tolist(), strict=True))


def expected(values: list[Any], axis: PointAxis) -> dict[int, int]:
    """The definition: the nearest point, halves to the even one, each row by itself."""
    places = (round((Fraction(value) - axis.low) / axis.step) for value in values)
    return dict(Counter(min(max(place, 0), axis.size - 1) for place in places))


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 15)))
def test_integers_are_clipped_and_counted(values: list[int]) -> None:
    found = WHOLE.tally(np.array(values, np.int64))
    assert counted(found) == expected(values, WHOLE) == counted(WHOLE.tally(values))
    assert found.rows == len(values)
    assert (np.diff(found.cells) > 0).all()


@given(st.lists(st.integers(-9, 15), min_size=1), st.data())
def test_values_with_counts_are_the_same_as_rows(values: list[int], data: st.DataObject) -> None:
    counts = [data.draw(st.integers(0, 5)) for _ in values]
    rows = [value for value, times in zip(values, counts, strict=True) for _ in range(times)]
    assert counted(WHOLE.tally(values, counts)) == counted(WHOLE.tally(rows))


@given(st.lists(st.integers(-9, 15)), st.data())
def test_a_wide_axis_counts_by_sorting_to_the_same_numbers(values: list[int], data: st.DataObject) -> None:
    counts = [data.draw(st.integers(0, 5)) for _ in values]
    plain, weighted = counted(WHOLE.tally(values)), counted(WHOLE.tally(values, counts))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_DENSE", 0)
        assert counted(WHOLE.tally(values)) == plain
        assert counted(WHOLE.tally(values, counts)) == weighted


@given(st.lists(st.integers(-80, 80)))
def test_reals_go_to_the_next_point(sixteenths: list[int]) -> None:
    values = [k / 16 for k in sixteenths]
    assert counted(REAL.tally(np.array(values))) == expected(values, REAL)


@given(
    st.floats(allow_nan=False),
    st.sampled_from([REAL, PointAxis((0, 100), 0.1), PointAxis((-(10**6), 10**6), Fraction(1, 3))]),
)
def test_any_real_gets_the_nearest_point_up_to_rounding(value: float, axis: PointAxis) -> None:
    ((place, count),) = counted(axis.tally([value])).items()
    high = axis.low + (axis.size - 1) * axis.step
    clipped = min(max(Fraction(value), axis.low), high) if math.isfinite(value) else (high if value > 0 else axis.low)
    assert count == 1
    assert 0 <= place < axis.size
    assert abs(axis.low + place * axis.step - clipped) <= axis.step / 2 * (1 + Fraction(1, 10**6))


@given(st.lists(st.integers(-9, 15)), st.integers(-9, 15))
def test_one_more_row_is_one_more_row_on_the_axis(values: list[int], one: int) -> None:
    before, after = Counter(counted(WHOLE.tally(values))), Counter(counted(WHOLE.tally([*values, one])))
    assert sum((after - before).values()) == 1
    assert not before - after


def test_exact_numbers_of_any_kind_are_read() -> None:
    assert counted(REAL.tally([Fraction(1, 3), Decimal("-0.9"), 0, 5.0])) == {5: 1, 0: 1, 4: 1, 8: 1}
    assert counted(WHOLE.tally([10**30, -(10**30), 0])) == {13: 1, 0: 1, 3: 1}
    assert counted(WHOLE.tally(np.array([2**64 - 1, 0], np.uint64))) == {13: 1, 3: 1}
    assert counted(WHOLE.tally(pa.array([1, 1, 2]))) == {4: 2, 5: 1}
    assert counted(REAL.tally(pa.array([0.25, -math.inf]))) == {5: 1, 0: 1}
    assert counted(REAL.tally(np.array([1, 0], np.int16))) == {8: 1, 4: 1}


@pytest.mark.parametrize("values", [[], (), np.zeros(0), np.zeros(0, np.int64), pa.array([], pa.int64())])
def test_no_rows_are_fine(values: Any) -> None:
    for axis in (WHOLE, REAL, PointAxis((0, 2**61), None)):
        assert counted(axis.tally(values)) == {}
        assert counted(axis.tally(values, [])) == {}
        assert axis.tally(values).rows == 0


def test_points_are_integers_or_floats_as_declared() -> None:
    assert [WHOLE.point(k) for k in (0, 13)] == [-3, 10]
    assert [REAL.point(k) for k in (0, 1, 8)] == [-1.0, -0.75, 1.0]
    assert isinstance(WHOLE.point(0), int)
    assert isinstance(PointAxis((0, 3), 1).point(1), float)
    assert (WHOLE.size, REAL.size, PointAxis((5, 5), None).size) == (14, 9, 1)


@pytest.mark.parametrize(
    "values",
    [
        [SECRET, math.nan],
        np.array([1.5, math.nan]),
        [1, None],
        ["1"],
        "12",
        b"12",
        [True],
        np.array([True]),
        5,
        None,
        {1: 2},
        np.array(["a"]),
        [1j],
        pa.array([0.5, None]),
    ],
)
def test_what_has_no_place_is_refused_without_showing_it(values: Any) -> None:
    for axis in (WHOLE, REAL):
        with pytest.raises(Misconfigured) as refusal:
            axis.tally(values)
        assert str(SECRET) not in str(refusal.value)


def test_reals_need_a_declared_step() -> None:
    with pytest.raises(Misconfigured, match=r"declare the spacing of the points"):
        WHOLE.tally([1.0, 2.0])
    with pytest.raises(Misconfigured, match="an integer unless `step` is declared"):
        WHOLE.tally([Fraction(1, 2)])
    with pytest.raises(Misconfigured, match="one number per row"):
        WHOLE.tally(np.zeros((2, 2), np.int64))


@pytest.mark.parametrize(
    ("counts", "rule"),
    [
        ([1], "different lengths"),
        ([1, -1], "must not be negative"),
        ([1, 2**62], "more than 2"),
        ([2**42, 1], "more than 2"),
        ([1.0, 2.0], "not integers"),
        ([True, False], "not integers"),
    ],
)
def test_bad_counts_are_refused(counts: Any, rule: str) -> None:
    with pytest.raises(Misconfigured, match=rule):
        WHOLE.tally([1, 2], counts)


@pytest.mark.parametrize(
    ("bounds", "step", "rule"),
    [
        ((1, 0), None, "the lower bound exceeds the upper bound"),
        ((0.5, 2), None, "not whole numbers"),
        ((0, 1), 0.3, "whole number of steps"),
        ((0, 1), 0, "`step` is 0"),
        ((0, 2**62), None, r"2\^62 points"),
        ((2**62, 2**62 + 1), None, r"2\^62 points"),
        ((0, 1), Fraction(1, 2**70), r"2\^62 points"),
        ((-(10**310), 0), 10**309, "too large for a float"),
        ((0, Fraction(1, 10**309)), Fraction(1, 10**310), "too large for a float"),
        ((0, math.inf), None, "must be finite"),
        ((0, 1, 2), None, "must be a pair \\(low, high\\)"),
        ("01", None, "must be a pair \\(low, high\\)"),
        (5, None, "must be a pair \\(low, high\\)"),
    ],
)
def test_bad_axes_are_refused(bounds: Any, step: Any, rule: str) -> None:
    with pytest.raises(Misconfigured, match=rule):
        PointAxis(bounds, step)


@pytest.mark.parametrize(
    "values",
    [[1, 2], (1, 2), np.array([1, 2], np.uint8), pa.array([1, 2]), [np.int64(1), 2]],
    ids=["list", "tuple", "numpy", "arrow", "mixed"],
)
def test_whole_numbers_of_an_engine_are_read(values: Any) -> None:
    assert whole_numbers(values).tolist() == [1, 2]
    assert whole_numbers([]).dtype == np.int64


@pytest.mark.parametrize(
    "values",
    [[SECRET, 0.5], [True], ["1"], "12", [2**63], np.array([2**63], np.uint64), [[1]], None, [1, None], {1: 2}],
)
def test_what_is_not_whole_is_refused_without_showing_it(values: Any) -> None:
    with pytest.raises(Misconfigured, match="whole numbers") as refusal:
        whole_numbers(values)
    assert str(SECRET) not in str(refusal.value)
