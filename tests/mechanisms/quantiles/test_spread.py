"""lapwing.mechanisms.quantiles.several_quantiles."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lapwing.mechanisms.quantiles.axis import PointAxis
from lapwing.mechanisms.quantiles.several_quantiles import Spread, place_of, rows_before

AXIS = PointAxis((0, 5), None)
BITS = pytest.mark.parametrize("bits", [0, 1, 2, 3, 5])
rows = st.lists(st.integers(0, 5), max_size=40)


def backwards(number: int, bits: int) -> int:
    return int(f"{number:0{bits}b}"[::-1], 2) if bits else 0


def places(values: list[int], bits: int) -> list[int]:
    """The definition: the i-th row of a value sits at the digits of i backwards."""
    seen: Counter[int] = Counter()
    found = []
    for value in values:
        found.append((value << bits) + backwards(seen[value] % (1 << bits), bits))
        seen[value] += 1
    return sorted(found)


@BITS
def test_rows_before_a_place_are_counted(bits: int) -> None:
    for total in range(3 * (1 << bits) + 2):
        sat = [backwards(i % (1 << bits), bits) for i in range(total)]
        for place in range(1 << bits):
            assert rows_before(np.array([total]), np.array([place]), bits) == [sum(p < place for p in sat)]


@BITS
def test_place_of_a_row_is_found(bits: int) -> None:
    for total in range(1, 3 * (1 << bits) + 2):
        sat = sorted(backwards(i % (1 << bits), bits) for i in range(total))
        assert place_of(np.full(total, total), np.arange(total), bits).tolist() == sat


@BITS
def test_one_more_row_adds_one_place_and_moves_none(bits: int) -> None:
    """The lemma, for up to 70 rows of one value."""
    for total in range(70):
        before, after = Counter(places([0] * total, bits)), Counter(places([0] * (total + 1), bits))
        assert sum((after - before).values()) == 1
        assert not before - after


def test_rows_of_one_value_lie_evenly() -> None:
    bits = 5
    for total, digits in [(t, b) for t in range(100) for b in range(bits + 1)]:
        held = Counter(place >> (bits - digits) for place in places([0] * total, bits))
        assert max(held.values(), default=0) == -(-total // (1 << digits))


@given(rows, st.sampled_from([0, 1, 3]))
def test_ranks_count_the_rows_below(values: list[int], bits: int) -> None:
    every = np.arange((6 << bits) + 1)
    sat = places(values, bits)
    assert Spread(AXIS.tally(values), bits).ranks(every).tolist() == [sum(p < q for p in sat) for q in every]


@given(rows, st.sampled_from([0, 1, 3]), st.data())
def test_edges_cover_the_part_with_true_ranks(values: list[int], bits: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, (6 << bits) - 1))
    stop = data.draw(st.integers(start + 1, 6 << bits))
    spread, sat = Spread(AXIS.tally(values), bits), places(values, bits)
    edges, ranks = spread.edges(start, stop, len(values) / 2, 1.5)
    assert (edges[0], edges[-1]) == (start, stop)
    assert (np.diff(edges) >= 0).all()
    assert ranks.tolist() == [sum(p < edge for p in sat) for edge in edges.tolist()]
    ends = {end for value in values for end in (value << bits, value + 1 << bits)}
    assert {end for end in ends if start <= end <= stop} <= set(edges.tolist())
