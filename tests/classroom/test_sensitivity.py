"""lapwing.classroom.database."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lapwing.classroom.database import (
    Database,
    Norm,
    Sensitivity,
    databases,
    global_sensitivity,
    local_sensitivity,
    local_sensitivity_at_distance,
)
from lapwing.errors import Misconfigured
from lapwing.privacy.neighbours import Neighbours

ADD, CHANGE = Neighbours.ADD_OR_REMOVE, Neighbours.CHANGE_ONE
NUMBERS = range(5)


def histogram(records: list[int]) -> list[int]:
    return [records.count(value) for value in NUMBERS]


def mean(records: list[int]) -> Fraction:
    return Fraction(sum(records), max(len(records), 1))


def lower_median(records: list[int]) -> int:
    return sorted(records)[(len(records) - 1) // 2] if records else 0


@pytest.mark.parametrize(
    ("function", "relation", "norm", "squared"),
    [
        (len, ADD, Norm.L1, 1),
        (lambda records: records.count(3), ADD, Norm.L1, 1),
        (lambda records: records.count(3), CHANGE, Norm.L1, 1),
        (lambda records: [sum(r >= t for r in records) for t in NUMBERS], ADD, Norm.L1, 25),  # m counts: m
        (lambda records: [sum(r >= t for r in records) for t in NUMBERS], ADD, Norm.L2, 5),  # and sqrt m
        (histogram, ADD, Norm.L1, 1),
        (histogram, CHANGE, Norm.L1, 4),
        (histogram, CHANGE, Norm.L2, 2),
        (sum, ADD, Norm.L1, 16),  # the largest value
        (lambda records: sum(r - 2 for r in records), ADD, Norm.L1, 4),  # half, if the bounds are centred
        (sum, CHANGE, Norm.L1, 16),
        (lambda _: 7, ADD, Norm.L1, 0),
    ],
)
def test_global_sensitivities_of_the_lecture(
    function: Callable[[list[Any]], Any], relation: Neighbours, norm: Norm, squared: int
) -> None:
    """lecture:L5 lecture:L13 one count 1; m counts m; a histogram 1, or 2 if a record is changed."""
    assert global_sensitivity(function, NUMBERS, size=4, norm=norm, neighbours=relation).squared == squared


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_mean_of_n_records_moves_by_the_range_over_n(size: int) -> None:
    """lecture:L5 change-one keeps n, so the mean moves by range / n at most; a first record moves it all the way."""
    assert global_sensitivity(mean, NUMBERS, size=size, least=size, neighbours=CHANGE).value == Fraction(4, size)
    assert global_sensitivity(mean, NUMBERS, size=size).value == 4


def test_median_is_locally_calm_and_globally_wild() -> None:
    """lecture:L5 lecture:L20 the local sensitivity may be far below the global one."""
    assert global_sensitivity(lower_median, NUMBERS, size=4).value == 4
    calm = [2, 2, 2, 2, 2]
    assert [local_sensitivity_at_distance(lower_median, calm, NUMBERS, k).value for k in range(6)] == [0, 0, 0, 0, 2, 4]
    assert local_sensitivity(lower_median, [0, 4], NUMBERS).value == 4


def test_pair_reaches_the_sensitivity() -> None:
    """lecture:L5"""
    found = global_sensitivity(sum, NUMBERS, size=3)
    assert found.pair is not None
    first, second = found.pair
    assert first.distance(second) == 1
    assert abs(sum(first.records) - sum(second.records)) == found.value == 4  # type: ignore[arg-type]


def test_unit_that_owns_many_rows_moves_a_count_by_all_of_them() -> None:
    """lecture:L1 lecture:L5 a person with up to three rows: COUNT(*) moves by 3, COUNT(DISTINCT person) by 1."""
    people = [rows for size in (1, 2, 3) for rows in product("xy", repeat=size)]
    assert global_sensitivity(lambda units: sum(map(len, units)), people, size=2).value == 3
    assert global_sensitivity(len, people, size=2).value == 1


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("function", [sum, lower_median, mean, histogram])
def test_global_is_the_largest_local_sensitivity(function: Callable[[list[Any]], Any], relation: Neighbours) -> None:
    """lecture:L5 over all databases of at most three records; a step may lead to a fourth."""
    small = databases(range(3), up_to=3)
    largest = max(local_sensitivity(function, x, range(3), neighbours=relation).squared for x in small)
    among = global_sensitivity(function, range(3), size=4, neighbours=relation).squared
    assert global_sensitivity(function, range(3), size=3, neighbours=relation).squared <= largest <= among


@given(st.lists(st.integers(0, 2), max_size=3), st.sampled_from(list(Neighbours)))
def test_sensitivity_at_a_distance_grows_and_bounds_the_neighbours(records: list[int], relation: Neighbours) -> None:
    """lecture:L20 A_k(x) <= A_(k+1)(x') for neighbours: what smooth sensitivity rests on."""
    x = Database(records)

    def at(database: Database, k: int) -> Fraction:
        return local_sensitivity_at_distance(lower_median, database, range(3), k, neighbours=relation).squared

    assert at(x, 0) == local_sensitivity(lower_median, x, range(3), neighbours=relation).squared
    for y in x.neighbours(relation, range(3)):
        for k in range(2):
            assert at(y, k) <= at(x, k + 1)


@given(st.fractions(0, 10**6))
def test_value_is_exact_or_rounded_up(squared: Fraction) -> None:
    root = Sensitivity(squared, None).value
    assert squared <= root**2
    assert max(root - Fraction(1, 10**18), 0) ** 2 <= squared
    assert Sensitivity(squared**2, None).value == squared


def test_no_neighbours_give_no_pair() -> None:
    assert global_sensitivity(sum, NUMBERS, size=0) == Sensitivity(Fraction(0), None)
    assert local_sensitivity(sum, [], NUMBERS, neighbours=CHANGE) == Sensitivity(Fraction(0), None)


def test_too_large_enumerations_are_refused_with_their_number() -> None:
    with pytest.raises(Misconfigured, match="about 160934410000 pairs of databases; at most 1000000 are supported"):
        global_sensitivity(sum, range(100), size=6, least=6, neighbours=CHANGE)
    with pytest.raises(Misconfigured, match="a smaller universe, fewer records or a smaller distance"):
        local_sensitivity_at_distance(sum, [1, 2], range(150), 2)


def test_functions_must_give_numbers_of_one_shape() -> None:
    with pytest.raises(Misconfigured, match="different lengths"):
        global_sensitivity(lambda records: records, NUMBERS, size=2)
    with pytest.raises(Misconfigured, match=r"`answer` is .* must be a number"):
        global_sensitivity(lambda records: [str(records)], NUMBERS, size=2)
    with pytest.raises(Misconfigured, match="`answer` is nan"):
        global_sensitivity(lambda _: float("nan"), NUMBERS, size=2)


def test_a_sensitivity_reads_as_words() -> None:
    assert str(global_sensitivity(sum, [0, 3], size=1)) == "Sensitivity 3: from [] to [3]"
    diagonal = global_sensitivity(lambda rows: (len(rows), sum(rows)), [1], size=1, norm=Norm.L2)
    assert str(diagonal) == "Sensitivity 1.415: from [] to [1]"
    assert str(global_sensitivity(len, [1], size=0)) == "Sensitivity 0: no two of these databases are neighbours."
