"""lapwing.mechanisms.local.ordered."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lapwing.classroom.database import databases, local_sensitivity_at_distance
from lapwing.errors import Misconfigured
from lapwing.mechanisms.local.ordered import BoundedGrid
from lapwing.privacy.neighbours import Neighbours

GRID = BoundedGrid((0, 3), step=1)


def lower_median(records: list[int]) -> int:
    return sorted(records)[(len(records) - 1) // 2] if records else 0


@pytest.mark.parametrize("relation", list(Neighbours))
def test_gaps_are_the_local_sensitivities_at_a_distance(relation: Neighbours) -> None:
    """lecture:L20 lecture:L5 the lemma against its definition: all databases of up to four records."""
    for x in databases(range(4), up_to=4, least=0 if relation is Neighbours.ADD_OR_REMOVE else 1):
        ordered = GRID.order(x.records, relation)
        assert ordered.median == lower_median(list(x.records))  # type: ignore[arg-type]
        brute = [local_sensitivity_at_distance(lower_median, x, range(4), k, neighbours=relation) for k in range(3)]
        assert ordered.gaps(3) == [found.value for found in brute]


@given(st.lists(st.integers(0, 9), max_size=9), st.integers(0, 9), st.sampled_from(list(Neighbours)))
def test_gaps_of_neighbours_bound_each_other(records: list[int], other: int, relation: Neighbours) -> None:
    """lecture:L20 A_0(x) covers the move of the median, and A_k(x) <= A_(k+1)(x'), in both directions."""
    assume(records or relation is Neighbours.ADD_OR_REMOVE)
    kept = records[1:] if relation is Neighbours.CHANGE_ONE else records
    grid = BoundedGrid((0, 9), step=1)
    x, y = grid.order(records, relation), grid.order([*kept, other], relation)
    for a, b in ((x, y), (y, x)):
        assert abs(a.median - b.median) <= a.gap(0)
        assert all(a.gap(k) <= b.gap(k + 1) for k in range(12))


@given(st.lists(st.integers(0, 9), max_size=9), st.integers(0, 8), st.sampled_from(list(Neighbours)))
def test_steps_to_exceed_are_the_first_gap_above(records: list[int], bound: int, relation: Neighbours) -> None:
    ordered = BoundedGrid((0, 9), step=1).order(records, relation)
    steps = ordered.steps_to_exceed(bound)
    assert ordered.gap(steps) > bound
    assert steps == 0 or ordered.gap(steps - 1) <= bound
    assert steps <= len(records)


@pytest.mark.parametrize("relation", list(Neighbours))
def test_no_records_and_one_record_are_ordinary(relation: Neighbours) -> None:
    none, one = GRID.order([], relation), GRID.order([2], relation)
    assert (none.median, none.gaps(3)) == (0, [3, 3, 3])
    assert (one.median, one.gap(1)) == (2, 3)
    assert none.steps_to_exceed(2) == 0


@pytest.mark.parametrize(
    "values",
    [
        [7, -1, 0.4, math.inf, -math.inf, 1e300],
        np.array([7, -1, 0.4, math.inf, -math.inf, 1e300]),
        pa.array([7, -1, 0.4, math.inf, -math.inf, 1e300]),
        [7, -1, 0, 10**400, -(10**400), 4],
    ],
    ids=["list", "numpy", "arrow", "huge"],
)
def test_every_number_has_a_cell(values: object) -> None:
    """threat:A26 no number can make it fail: a message that depends on the data would tell about it."""
    assert GRID.order(values, Neighbours.ADD_OR_REMOVE).padded.tolist() == [0, 0, 0, 0, 3, 3, 3, 3]


def test_cells_cover_the_bounds() -> None:
    grid = BoundedGrid((-1, 2), step=0.5)
    assert (grid.last, grid.step) == (6, Fraction(1, 2))
    assert grid.order([-1, 0, 0.3, 2], Neighbours.CHANGE_ONE).padded.tolist() == [0, 0, 2, 3, 6, 6]
    assert [grid.value(cell) for cell in (-5, 0, 3, 6, 99)] == [-1, -1, 0.5, 2, 2]
    assert BoundedGrid((0, 1)).last == 1 << 30
    assert GRID.order(range(3), Neighbours.CHANGE_ONE).size == 3


@pytest.mark.parametrize("bounds", [(1, 1), (2, 1), (0,), 5, (0, math.inf), ("a", 1)])
def test_bad_bounds_are_refused(bounds: object) -> None:
    with pytest.raises(Misconfigured, match="`bounds`"):
        BoundedGrid(bounds)  # type: ignore[arg-type]


@pytest.mark.parametrize("step", [0, -1, 0.7, 1e-30, "x"])
def test_bad_steps_are_refused(step: object) -> None:
    with pytest.raises(Misconfigured, match="`step` is"):
        BoundedGrid((0, 1), step=step)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "values",
    [
        ["secret"],
        [math.nan],
        [1, None],
        [10**400, None],
        [10**400, math.nan],
        [10**400, "secret"],
        np.array([0.5, math.nan]),
        pa.array([0.5, None]),
    ],
    ids=["text", "nan", "missing", "huge and missing", "huge and nan", "huge and text", "numpy", "arrow"],
)
def test_what_is_no_number_is_refused_without_showing_it(values: object) -> None:
    """The rule of axis.py: whoever calls leaves missing values out."""
    with pytest.raises(Misconfigured, match="some values do not fit the axis") as refusal:
        GRID.order(values, Neighbours.ADD_OR_REMOVE)
    assert "secret" not in str(refusal.value)
