"""lapwing.mechanisms.local.propose_test_release."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lapwing.classroom.database import Database, databases, local_sensitivity, within
from lapwing.classroom.refutation import refute
from lapwing.errors import Misconfigured
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.local.propose_test_release import DistanceTest, ProposedMedian, ProposeTestRelease, StableMode
from lapwing.numbers import Enclosure, ball, enclose
from lapwing.privacy.loss import Approximate
from lapwing.privacy.neighbours import Neighbours
from support.audit import assert_caught, assert_private

ADD, CHANGE = Neighbours.ADD_OR_REMOVE, Neighbours.CHANGE_ONE
LAST = 4


def tail(noise: Laplace, m: int) -> Enclosure:
    """P[Z >= m] of discrete Laplace noise: r^m / (1 + r) for m >= 1, and one minus the other side below."""
    if m <= 0:
        low, high = tail(noise, 1 - m)
        return 1 - high, 1 - low
    rate = 1 / noise.scale
    return enclose(lambda: (-ball(rate * m)).exp() / (1 + (-ball(rate)).exp()))


def passing(test: DistanceTest, distance: int) -> Enclosure:
    return tail(Laplace(epsilon=test.epsilon), test.threshold + 1 - distance)


def times(a: Enclosure, b: Enclosure) -> Enclosure:
    return a[0] * b[0], a[1] * b[1]


def median_law(mechanism: ProposedMedian) -> Callable[[list[Any]], dict[Hashable, Enclosure]]:
    """None, or the median with noise, cut to the bounds: the exact law on a small grid."""
    noise = mechanism.released.noise

    def law(records: list[Any]) -> dict[Hashable, Enclosure]:
        middle = mechanism.cells.order(records, mechanism.neighbours).median
        passed = passing(mechanism.released.test, mechanism.distance(records))
        last = mechanism.cells.last
        answers = {y: noise.law(y - middle) for y in range(1, last)}
        answers |= {0: tail(noise, middle), last: tail(noise, last - middle)}
        refused: dict[Hashable, Enclosure] = {None: (1 - passed[1], 1 - passed[0])}
        return refused | {y: times(passed, chance) for y, chance in answers.items()}

    return law


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize(("epsilon", "delta", "proposed"), [(1, 0.05, 1), (4, 0.01, 1), (4, 0.01, 2), (2, 0.2, 3)])
def test_proposed_median_is_not_refuted_by_any_neighbours(
    relation: Neighbours, epsilon: float, delta: float, proposed: int
) -> None:
    """lecture:L20 lecture:L6 exact laws over every database of up to four records: n = 0, n = 1, ties, bounds."""
    mechanism = ProposedMedian(
        proposed=proposed, epsilon=epsilon, delta=delta, bounds=(0, LAST), step=1, neighbours=relation
    )
    law = median_law(mechanism)
    assert refute(law, range(LAST + 1), epsilon=epsilon, delta=delta, size=4, neighbours=relation) is None


def test_proposed_median_needs_its_delta_and_its_epsilon() -> None:
    """lecture:L20 the power twin: smaller claims are refuted by the same enumeration."""
    mechanism = ProposedMedian(proposed=1, epsilon=4, delta=0.01, bounds=(0, LAST), step=1)
    law = median_law(mechanism)
    assert refute(law, range(LAST + 1), epsilon=4, delta=0.001, size=4) is not None
    assert refute(law, range(LAST + 1), epsilon=1.5, delta=0.01, size=4) is not None


@pytest.mark.parametrize("relation", list(Neighbours))
def test_distance_counts_the_steps_to_a_sensitive_database(relation: Neighbours) -> None:
    """lecture:L20 against the definition: the nearest database whose local sensitivity exceeds the proposal."""
    mechanism = ProposedMedian(proposed=1, epsilon=1, delta=0.1, bounds=(0, 3), step=1, neighbours=relation)

    def median(records: list[int]) -> int:
        return sorted(records)[(len(records) - 1) // 2] if records else 0

    for x in databases(range(4), up_to=3, least=1):
        k = 0
        while all(
            local_sensitivity(median, y, range(4), neighbours=relation).value <= 1
            for y in within(x, range(4), k, relation)
        ):
            k += 1
        assert mechanism.distance(x.records) == k


@pytest.mark.parametrize(("epsilon", "delta"), [(1, 1e-6), (0.1, 1e-9), (5, 0.3), (0.5, 0.5)])
def test_threshold_is_the_least_that_keeps_delta(epsilon: float, delta: float) -> None:
    """lecture:L20 for the discrete noise that is drawn, not for its continuous cousin."""
    test = DistanceTest(epsilon=epsilon, delta=delta)
    assert passing(test, 0)[1] <= test.delta
    assert test.threshold == 0 or passing(test, 1)[0] > test.delta
    assert test.threshold <= math.log(1 / delta) / epsilon


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_needed_distance_passes_as_often_as_it_says(confidence: float) -> None:
    test = DistanceTest(epsilon=0.5, delta=1e-6)
    level = Fraction(str(confidence))
    assert (
        passing(test, test.needed_distance(confidence))[0]
        >= level
        > passing(test, test.needed_distance(confidence) - 1)[1]
    )
    assert ProposeTestRelease(proposed=1, epsilon=1, delta=1e-6).needed_distance(confidence) == test.needed_distance(
        confidence
    )


@pytest.mark.usefixtures("seeded")
def test_test_passes_as_often_as_its_law_says() -> None:
    test = DistanceTest(epsilon=0.5, delta=0.01)
    for distance in (0, 5, test.threshold, 20):
        share = np.mean([test(distance) for _ in range(4000)])
        assert share == pytest.approx(float(passing(test, distance)[0]), abs=0.03)


def test_loss_counts_test_and_answer() -> None:
    """lecture:L20 the textbook's (2 eps, delta) is this epsilon and delta: half for the test, half for the answer."""
    mechanism = ProposeTestRelease(proposed=10, epsilon=1, delta=1e-6)
    assert mechanism.loss == Approximate(1, Fraction(1, 10**6))
    assert (mechanism.test.epsilon, mechanism.noise.scale) == (Fraction(1, 2), 20)
    assert mechanism.error(0.95) == Laplace(epsilon=1, sensitivity=20).error(0.95)
    assert ProposedMedian(proposed=2, epsilon=1, delta=0.1, bounds=(0, 9)).loss == Approximate(1, Fraction(1, 10))
    assert StableMode(epsilon=1, delta=0.1).loss == Approximate(1, Fraction(1, 10))


@pytest.mark.usefixtures("seeded")
def test_refusal_is_an_answer() -> None:
    """lecture:L20 far from any sensitive database it answers, next to one it refuses; ints stay ints."""
    mechanism = ProposeTestRelease(proposed=2, epsilon=1, delta=1e-6)
    assert [mechanism(100, 0) for _ in range(50)] == [None] * 50
    answers = [mechanism(100, 200) for _ in range(50)]
    assert all(isinstance(answer, int) for answer in answers)
    assert 95 <= np.median(answers) <= 105
    assert isinstance(mechanism(1.5, 200), float)


@pytest.mark.usefixtures("seeded")
def test_proposed_median_answers_on_dense_data_only() -> None:
    """lecture:L20 n = 0 and n = 1 are refused like any thin middle, by the same path."""
    mechanism = ProposedMedian(proposed=20, epsilon=1, delta=1e-6, bounds=(0, 1000))
    dense = [500 + i * 0.01 for i in range(-100, 101)]
    assert mechanism.distance(dense) == 200
    assert all(isinstance(mechanism(dense), float) for _ in range(20))
    for thin in ([], [3], [0] * 50 + [1000] * 50):
        assert mechanism(thin) is None
    assert mechanism.error(0.95) == pytest.approx(40 * math.log(20), rel=0.01)


# (x, x'): nobody, one person, ties, everybody at a bound, a gap in the middle
PAIRS = [
    ([], [0]),
    ([3], [3, LAST]),
    ([2] * 6, [2] * 7),
    ([0] * 5 + [LAST] * 5, [0] * 5 + [LAST] * 4),
    ([LAST] * 6, [LAST] * 6 + [0]),
]


def runs(mechanism: ProposedMedian, values: list[int], n: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """What n calls give, refused ones as -1; the distance is computed once."""
    ordered, distance = mechanism.cells.order(values, mechanism.neighbours), mechanism.distance(values)
    answers = [mechanism.released(ordered.median, distance) for _ in range(n)]
    return np.array([-1 if y is None else min(max(y, 0), mechanism.cells.last) for y in answers])


@pytest.mark.usefixtures("seeded")
def test_auditor_accepts_the_proposed_median_and_catches_one_without_a_test() -> None:
    """lecture:L20 threat:A20 the proposal alone proves nothing."""
    mechanism = ProposedMedian(proposed=1, epsilon=2, delta=0.05, bounds=(0, LAST), step=1)
    left, right = PAIRS[3]
    assert_private(runs(mechanism, left, 4000), runs(mechanism, right, 4000), 2.0, 0.05)
    middles = [mechanism.cells.order(values, ADD).median for values in (left[:-1], left + [LAST] * 2)]
    assert_caught(*(mechanism.released.noise(np.full(4000, middle)) for middle in middles), 2.0, 0.05)


@pytest.mark.slow
@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_auditor_accepts_the_proposed_median_on_many_pairs(pair: tuple[list[int], list[int]]) -> None:
    """lecture:L20 n = 0 and 1, ties, bounds, a gap; N = 1e5."""
    mechanism = ProposedMedian(proposed=1, epsilon=2, delta=0.05, bounds=(0, LAST), step=1)
    assert_private(runs(mechanism, pair[0], 100_000), runs(mechanism, pair[1], 100_000), 2.0, 0.05)


def winner(records: list[int]) -> int:
    return max(range(3), key=lambda value: (records.count(value), -value))


def mode_law(mechanism: StableMode) -> Callable[[list[Any]], dict[Hashable, Enclosure]]:
    def law(records: list[Any]) -> dict[Hashable, Enclosure]:
        passed = passing(mechanism.test, mechanism.distance([records.count(value) for value in range(3)]))
        return {None: (1 - passed[1], 1 - passed[0]), winner(records): passed}

    return law


@pytest.mark.parametrize("relation", list(Neighbours))
def test_stable_mode_is_not_refuted_by_any_neighbours(relation: Neighbours) -> None:
    """lecture:L20 lecture:L6 no noise on the answer, only on whether there is one."""
    for epsilon, delta in ((1, 0.05), (3, 0.01)):
        law = mode_law(StableMode(epsilon=epsilon, delta=delta, neighbours=relation))
        assert refute(law, range(3), epsilon=epsilon, delta=delta, size=6, neighbours=relation) is None
        assert refute(law, range(3), epsilon=epsilon, delta=delta / 10, size=6, neighbours=relation) is not None


@pytest.mark.parametrize("relation", list(Neighbours))
def test_stability_is_the_number_of_steps_that_keep_the_winner(relation: Neighbours) -> None:
    """lecture:L20 by enumeration: with one step more than the distance some database has another winner."""
    mechanism = StableMode(epsilon=1, delta=0.1, neighbours=relation)
    for x in databases(range(3), up_to=4, least=1):
        steps = mechanism.distance([x.count(value) for value in range(3)])

        def winners(k: int, x: Database = x) -> set[int]:
            return {winner(list(y.records)) for y in within(x, range(3), k, relation)}  # type: ignore[arg-type]

        assert winners(steps) == {winner(list(x.records))}  # type: ignore[arg-type]
        assert len(winners(steps + 1)) > 1


@pytest.mark.usefixtures("seeded")
def test_stable_mode_tells_the_exact_winner_or_nothing() -> None:
    mechanism = StableMode(epsilon=1, delta=1e-6)
    assert {mechanism.choose("abc", [5, 90, 7]) for _ in range(30)} == {"b"}
    assert {mechanism.choose("abc", np.array([50, 50, 7])) for _ in range(30)} == {None}
    assert mechanism.needed_distance(0.95) == 16
    assert mechanism.distance([10, 4, 4]) == 6
    assert StableMode(epsilon=1, delta=1e-6, neighbours=CHANGE).distance([10, 4, 4]) == 3


@given(st.lists(st.integers(0, 20), min_size=2, max_size=5), st.integers(0, 4), st.sampled_from([-1, 1]))
def test_stability_moves_by_one_step_at_most(counts: list[int], place: int, change: int) -> None:
    mechanism = StableMode(epsilon=1, delta=0.1)
    other = [max(c + change * (i == place % len(counts)), 0) for i, c in enumerate(counts)]
    here, there = mechanism.distance(counts), mechanism.distance(other)
    assert abs(here - there) <= 1
    if counts.index(max(counts)) != other.index(max(other)):
        assert here == there == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ProposeTestRelease(proposed=0, epsilon=1, delta=0.1), "`proposed` is 0"),
        (lambda: ProposeTestRelease(proposed=1, epsilon=0, delta=0.1), "`epsilon` is 0"),
        (lambda: ProposeTestRelease(proposed=1, epsilon=1, delta=0), "`delta` is 0"),
        (lambda: ProposeTestRelease(proposed=1, epsilon=1, delta=0.1)(5, -1), "distance is not a whole number"),
        (lambda: ProposeTestRelease(proposed=1, epsilon=1, delta=0.1)(5, 1.5), "distance is not a whole number"),
        (lambda: ProposedMedian(proposed=10, epsilon=1, delta=0.1, bounds=(0, 10)), "less than the bounds are apart"),
        (lambda: ProposedMedian(proposed=0.5, epsilon=1, delta=0.1, bounds=(0, 10), step=1), "at least a step"),
        (lambda: ProposedMedian(proposed=1, epsilon=1, delta=0.1, bounds=(0, 9), neighbours=1), "not a relation"),
        (lambda: StableMode(epsilon=1, delta=0.1, neighbours="x"), "not a relation"),
        (lambda: StableMode(epsilon=1, delta=0.1).choose("a", [5]), "at least two whole numbers"),
        (lambda: StableMode(epsilon=1, delta=0.1).choose("ab", [5.0, 987.5]), "at least two whole numbers"),
        (lambda: StableMode(epsilon=1, delta=0.1).choose("ab", [5]), "different lengths"),
    ],
)
def test_bad_parameters_are_refused_without_data(make: Callable[[], object], message: str) -> None:
    with pytest.raises(Misconfigured, match=message) as refusal:
        make()
    assert "987" not in str(refusal.value)
