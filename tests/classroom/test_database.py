"""lapwing.classroom.database."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise, product
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
    number_of_databases,
    units,
)
from lapwing.errors import Misconfigured
from lapwing.privacy.neighbours import Neighbours

UNIVERSE = "abc"
contents = st.lists(st.sampled_from(UNIVERSE), max_size=5)
relations = st.sampled_from(list(Neighbours))


def test_database_is_a_histogram_without_order() -> None:
    """lecture:L1"""
    assert Database("abca") == Database("aabc") == Database(["c", "a", "b", "a"])
    assert hash(Database("ab")) == hash(Database("ba"))
    assert Database("aab") != Database("ab")
    assert Database("cab").records == ("a", "b", "c")
    assert (len(Database("aab")), Database("aab").count("a"), Database("aab").count("z")) == (3, 2, 0)
    assert str(Database("ba")) == "Database(['a', 'b'])"


def test_distance_is_the_l1_norm_of_the_difference() -> None:
    """lecture:L1"""
    assert Database("aab").distance(Database("ab")) == 1
    assert Database("aab").distance(Database("abb")) == 2
    assert Database("").distance(Database("abc")) == 3
    assert Database("aab").changes(Database("abb")) == 1
    assert Database("aab").changes(Database("bcc")) == 2
    assert Database("aab").changes(Database("ab")) is None


@given(contents, contents, contents)
def test_distance_is_a_metric(a: list[str], b: list[str], c: list[str]) -> None:
    """lecture:L1"""
    x, y, z = Database(a), Database(b), Database(c)
    assert x.distance(y) == sum(abs(x.count(v) - y.count(v)) for v in UNIVERSE) == y.distance(x)
    assert (x.distance(y) == 0) == (x == y)
    assert x.distance(z) <= x.distance(y) + y.distance(z)


@given(contents, relations)
def test_neighbours_are_exactly_the_databases_one_step_away(records: list[str], relation: Neighbours) -> None:
    """lecture:L1 add or remove one record, or change one."""
    x = Database(records)
    found = list(x.neighbours(relation, UNIVERSE))
    others = databases(UNIVERSE, up_to=len(records) + 1)
    steps = Database.distance if relation is Neighbours.ADD_OR_REMOVE else Database.changes
    assert len(set(found)) == len(found)
    assert set(found) == {y for y in others if steps(x, y) == 1}
    assert all(x in y.neighbours(relation, UNIVERSE) for y in found)


def test_empty_database_has_nobody_to_remove_or_change() -> None:
    assert set(Database().neighbours(Neighbours.ADD_OR_REMOVE, "ab")) == {Database("a"), Database("b")}
    assert list(Database().neighbours(Neighbours.CHANGE_ONE, "ab")) == []


def test_records_outside_the_universe_can_be_removed_but_not_added() -> None:
    assert set(Database("z").neighbours(Neighbours.ADD_OR_REMOVE, "a")) == {Database("az"), Database()}
    assert set(Database("z").neighbours(Neighbours.CHANGE_ONE, "a")) == {Database("a")}


@pytest.mark.parametrize(("values", "most", "least", "number"), [("ab", 3, 0, 10), ("abc", 2, 2, 6), ("a", 4, 1, 4)])
def test_databases_are_counted_before_they_are_made(values: str, most: int, least: int, number: int) -> None:
    made = list(databases(values, up_to=most, least=least))
    assert len(set(made)) == len(made) == number == number_of_databases(len(values), up_to=most, least=least)
    assert all(len(x) <= len(y) for x, y in pairwise(made))


def test_neighbours_of_units_remove_all_rows_of_one_owner() -> None:
    """lecture:L1 protecting a whole person with many rows, and not only a row."""
    rows = [("ann", 3), ("bob", 1), ("ann", 5), ("ann", 3)]
    people = units(rows, owner=lambda row: row[0])  # type: ignore[index]
    assert len(people) == 2
    ann = (("ann", 3), ("ann", 3), ("ann", 5))
    assert people == Database([ann, (("bob", 1),)])
    assert Database([(("bob", 1),)]) in set(people.neighbours(Neighbours.ADD_OR_REMOVE, [ann]))
    assert people == units(rows[::-1], owner=lambda row: row[0])  # type: ignore[index]


@pytest.mark.parametrize("universe", [[], ["a", "a"], [None, "a"]])
def test_universe_must_hold_distinct_values(universe: list[object]) -> None:
    with pytest.raises(Misconfigured, match="`universe` must hold"):
        list(databases(universe, up_to=1))
    with pytest.raises(Misconfigured, match="`universe` must hold"):
        list(Database().neighbours(Neighbours.ADD_OR_REMOVE, universe))


def test_none_is_no_record() -> None:
    with pytest.raises(Misconfigured, match="a record is None"):
        Database(["a", None])


@pytest.mark.parametrize("bad", [-1, 1.5, "2", True])
def test_sizes_are_whole_numbers(bad: object) -> None:
    with pytest.raises(Misconfigured, match="`up_to` is"):
        databases("ab", up_to=bad)  # type: ignore[arg-type]


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
