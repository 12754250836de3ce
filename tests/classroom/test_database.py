"""lapwing.classroom.database."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lapwing.classroom.database import Database, databases, number_of_databases, units
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
