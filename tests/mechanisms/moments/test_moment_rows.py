"""lapwing.mechanisms.moments.moment_values: what a unit of too many rows becomes; test_moments.py tests reading."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lapwing.mechanisms.moments.mean import Mean, Variance
from lapwing.mechanisms.moments.moment_values import GRID
from lapwing.mechanisms.moments.pair_moments import PairMoments
from support.scaled import scale_down

steps = st.integers(0, GRID)


@given(st.lists(st.tuples(steps, steps), min_size=1, max_size=9), st.integers(1, 5))
def test_a_unit_with_too_many_rows_counts_for_no_more_than_it_may(rows: list[tuple[int, int]], most: int) -> None:
    """Lemma (scaling): cells of at least 0 that sum to M times the rows counted, whichever cell takes the rest."""
    a, b = np.array(rows, np.float64).T
    mean, variance = (kind(epsilon=1, bounds=(0, GRID), rows_per_unit=most) for kind in (Mean, Variance))
    pair = PairMoments(epsilon=1, x_bounds=(0, GRID), y_bounds=(0, GRID), rows_per_unit=most)
    for cells, noise in (
        (mean.cells(a), mean.noise),
        (variance.cells(a), variance.noise),
        (pair.cells(a, b), pair.noise),
    ):
        for rest in range(len(cells)):
            scaled = scale_down(cells, len(rows), most, rest)
            assert min(scaled) >= 0
            assert sum(scaled) == GRID * min(len(rows), most) <= noise.sensitivity
            share = min(1, most / len(rows))
            assert all(
                abs(x - share * y) <= (1 if i != rest else len(cells))
                for i, (x, y) in enumerate(zip(scaled, cells, strict=True))
            )


@pytest.mark.parametrize("most", [1, 2])
def test_scaled_units_move_the_cells_by_no_more_than_the_sensitivity(most: int) -> None:
    """Brute force over units of up to 4 rows: l1 and l2 of what a unit adds, against the noise's sensitivity."""
    mechanism = Mean(epsilon=1, bounds=(0, 10), rows_per_unit=most)
    largest = 0
    for many in range(5):
        for rows in itertools.combinations_with_replacement([0.0, 0.1, 5.0, 10.0], many):
            cells = scale_down(mechanism.cells(list(rows)), many, most, 1)
            assert sum(cell * cell for cell in cells) <= mechanism.noise.sensitivity**2
            largest = max(largest, sum(map(abs, cells)))
    assert largest == mechanism.noise.sensitivity
