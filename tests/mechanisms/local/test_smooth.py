"""lapwing.mechanisms.local.smooth."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from lapwing.classroom.database import Database, databases, local_sensitivity_at_distance
from lapwing.classroom.refutation import refute
from lapwing.errors import Misconfigured
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.local.ordered import BoundedGrid
from lapwing.mechanisms.local.smooth import SmoothMedian, SmoothSensitivity
from lapwing.numbers import Enclosure
from lapwing.privacy.loss import Approximate, Pure
from lapwing.privacy.neighbours import Neighbours
from support.audit import assert_caught, assert_private

ADD, CHANGE = Neighbours.ADD_OR_REMOVE, Neighbours.CHANGE_ONE
LAST = 6

# (x, x'): nobody, one person, ties, everybody at a bound, a gap in the middle, one outlier
PAIRS = [
    ([], [0]),
    ([], [LAST]),
    ([3], [3, LAST]),
    ([3, 3, 3, 3], [3, 3, 3]),
    ([0] * 5 + [LAST] * 5, [0] * 5 + [LAST] * 4),
    ([0, 1, 2, 3, 4, 5, 6], [0, 1, 2, 3, 4, 5]),
    ([LAST] * 6, [LAST] * 6 + [0]),
]


def cut_law(median: int, pmf: Callable[[int], Enclosure], last: int) -> dict[Hashable, Enclosure]:
    """The law of median + Z cut to 0..last, for a symmetric Z: what lies beyond an end is counted there."""

    def tail(m: int) -> Enclosure:
        """P[Z >= m], m >= 0."""
        inside = [pmf(z) for z in range(-m + 1, m)]
        low, high = sum((p[0] for p in inside), Fraction(0)), sum((p[1] for p in inside), Fraction(0))
        if not m:
            return (1 + pmf(0)[0]) / 2, (1 + pmf(0)[1]) / 2
        return (1 - high) / 2, (1 - low) / 2

    law: dict[Hashable, Enclosure] = {y: pmf(y - median) for y in range(1, last)}
    return law | {0: tail(median), last: tail(last - median)}


def median_law(mechanism: SmoothMedian) -> Callable[[list[Any]], dict[Hashable, Enclosure]]:
    """The exact law of the mechanism on a grid small enough to write it down."""

    def law(records: list[Any]) -> dict[Hashable, Enclosure]:
        ordered = mechanism.cells.order(records, mechanism.neighbours)
        smooth = mechanism.smooth_bound(records) / mechanism.cells.step
        return cut_law(ordered.median, lambda z: mechanism.noise.law(z, smooth), mechanism.cells.last)

    return law


def naive_law(epsilon: int, last: int, relation: Neighbours) -> Callable[[list[Any]], dict[Hashable, Enclosure]]:
    """Laplace noise scaled to the local sensitivity itself; none where it is zero."""

    def law(records: list[Any]) -> dict[Hashable, Enclosure]:
        ordered = BoundedGrid((0, last), step=1).order(records, relation)
        if not ordered.gap(0):
            return {ordered.median: (Fraction(1), Fraction(1))}
        return cut_law(ordered.median, Laplace(epsilon=epsilon, sensitivity=ordered.gap(0)).law, last)

    return law


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize(("epsilon", "delta"), [(1, 0), (0.3, 0), (3, 0), (1, 0.01)])
def test_smooth_median_is_not_refuted_by_any_neighbours(relation: Neighbours, epsilon: float, delta: float) -> None:
    """lecture:L20 lecture:L6 exact laws of every database of up to four records: n = 0, n = 1, ties, bounds."""
    mechanism = SmoothMedian(epsilon=epsilon, delta=delta, bounds=(0, 4), step=1, neighbours=relation)
    law = median_law(mechanism)
    assert refute(law, range(5), epsilon=epsilon, delta=delta, size=4, neighbours=relation) is None
    assert refute(law, range(5), epsilon=epsilon / 4, delta=delta / 100, size=4, neighbours=relation) is not None


@pytest.mark.parametrize("relation", list(Neighbours))
def test_naive_local_sensitivity_leaks_without_bound(relation: Neighbours) -> None:
    """lecture:L20 threat:A20 three equal records get no noise; one step later a possible output was impossible."""
    found = refute(naive_law(1, 4, relation), range(5), epsilon=100, delta=0.5, size=5, neighbours=relation)
    assert found is not None
    assert found.rare == 0
    assert found.likely > Fraction(1, 2)


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("delta", [0, 1e-6])
def test_smooth_bound_of_neighbours_differs_by_the_decay(relation: Neighbours, delta: float) -> None:
    """lecture:L20 threat:A20 S(x) <= e^beta S(x'), as fractions, and S is at least the local sensitivity."""
    mechanism = SmoothMedian(epsilon=1, delta=delta, bounds=(0, 3), step=1, neighbours=relation)
    found = {x: mechanism.smooth_bound(x.records) for x in databases(range(4), up_to=5)}
    for x, smooth in found.items():
        assert smooth >= max(1, mechanism.cells.order(x.records, relation).gap(0))
        assert all(smooth <= found[y] / mechanism.noise.decay for y in x.neighbours(relation, range(4)) if y in found)


@pytest.mark.parametrize("relation", list(Neighbours))
def test_smooth_bound_is_the_textbook_maximum(relation: Neighbours) -> None:
    """lecture:L20 S*(x) = max_k e^(-beta k) A_k(x), with A_k by brute force."""
    mechanism = SmoothMedian(epsilon=1, bounds=(0, 3), step=1, neighbours=relation)

    def median(records: list[int]) -> int:
        return sorted(records)[(len(records) - 1) // 2] if records else 0

    for records in ([1], [2, 2, 2], [0, 1, 3], [1, 1, 2, 2]):
        gaps = [
            local_sensitivity_at_distance(median, records, range(4), k, neighbours=relation).value for k in range(4)
        ]
        textbook = max([1.0, *(math.exp(-mechanism.noise.beta * k) * gap for k, gap in enumerate(gaps))])
        assert float(mechanism.smooth_bound(records)) == pytest.approx(textbook, rel=1e-9)


def runs(mechanism: SmoothMedian, values: list[int], n: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """What n calls give on the grid 0, 1, ..., last; the smooth bound is computed once."""
    ordered = mechanism.cells.order(values, mechanism.neighbours)
    smooth, last = mechanism.smooth_bound(values), mechanism.cells.last
    return np.array([min(max(ordered.median + mechanism.noise.draw(smooth), 0), last) for _ in range(n)])


@pytest.mark.parametrize("delta", [0, 0.001])
def test_runs_are_calls(delta: float, request: pytest.FixtureRequest) -> None:
    """The audit draws what a caller would get."""
    mechanism = SmoothMedian(epsilon=1, delta=delta, bounds=(0, LAST), step=1)
    source = request.getfixturevalue("seeded")
    called = [mechanism([0, 1, 5]) for _ in range(20)]
    source.__init__(20_150)
    assert runs(mechanism, [0, 1, 5], 20).tolist() == called


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("delta", [0, 0.001])
def test_auditor_accepts_the_smooth_median(delta: float) -> None:
    """lecture:L20 a gap in the middle of the data"""
    mechanism = SmoothMedian(epsilon=1, delta=delta, bounds=(0, LAST), step=1)
    left, right = PAIRS[4]
    assert_private(runs(mechanism, left, 4000), runs(mechanism, right, 4000), 1.0, delta)


@pytest.mark.usefixtures("seeded")
def test_auditor_catches_naive_local_sensitivity() -> None:
    """lecture:L20 threat:A20 no zero is ever seen with a gap behind it, and nothing but zero without."""
    quiet, loud = [0] * 6 + [LAST] * 4, [0] * 5 + [LAST] * 5
    samples = []
    for values in (quiet, loud):
        ordered = BoundedGrid((0, LAST), step=1).order(values, ADD)
        zeros = np.full(2000, ordered.median)
        samples.append(Laplace(epsilon=1, sensitivity=ordered.gap(0))(zeros) if ordered.gap(0) else zeros)
    assert_caught(samples[0], samples[1], 4.0)


@pytest.mark.slow
@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize(("pair", "delta"), [*((pair, 0) for pair in PAIRS), *((pair, 0.001) for pair in PAIRS[2:5])])
def test_auditor_accepts_the_smooth_median_on_many_pairs(pair: tuple[list[int], list[int]], delta: float) -> None:
    """lecture:L20 n = 0 and 1, ties, bounds, a gap, an outlier; N = 1e5."""
    mechanism = SmoothMedian(epsilon=1, delta=delta, bounds=(0, LAST), step=1)
    assert_private(runs(mechanism, pair[0], 100_000), runs(mechanism, pair[1], 100_000), 1.0, delta)


def test_nothing_but_the_answer_depends_on_the_data() -> None:
    """threat:A20 price, type and the number of distances looked at are the same for nobody and for anybody."""
    mechanism = SmoothMedian(epsilon=1, bounds=(0, 10))
    for values in ([], [3], [math.inf], [10**9], [1.5] * 100, np.zeros(0)):
        assert isinstance(mechanism(values), float)
        assert 0 <= mechanism(values) <= 10
    assert mechanism.loss == Pure(1)
    assert SmoothMedian(epsilon=1, delta=1e-6, bounds=(0, 10)).loss == Approximate(1, Fraction(1, 10**6))


def test_error_shrinks_with_more_records_and_is_never_above_the_bounds() -> None:
    """lecture:L20 far below the global sensitivity, which is the width of the bounds."""
    mechanism = SmoothMedian(epsilon=1, bounds=(0, 1000))
    errors = [mechanism.error([(i + 0.5) * 1000 / n for i in range(n)], 0.5) for n in (10, 100, 1000, 10_000)]
    assert errors == pytest.approx([242.6, 24.26, 2.426, 0.2426], rel=1e-3)
    assert mechanism.error([]) == 1000
    assert mechanism.error([500] * 200) < 1e-3


@pytest.mark.usefixtures("seeded")
def test_error_holds_for_draws() -> None:
    values = [(i + 0.5) * 10 for i in range(100)]
    for delta in (0, 1e-6):
        mechanism = SmoothMedian(epsilon=1, delta=delta, bounds=(0, 1000))
        bound = mechanism.error(values, 0.9)
        inside = sum(abs(mechanism(values) - 495) <= bound for _ in range(200))
        assert 160 <= inside <= 196


def largest(records: list[int]) -> int:
    return max(records, default=0)


@pytest.mark.parametrize("delta", [0, 0.01])
def test_general_interface_keeps_epsilon_for_another_function(delta: float) -> None:
    """lecture:L20 lecture:L5 the largest of a few records, its distances by enumeration, every neighbour pair."""
    universe = range(0, 9, 4)
    mechanism = SmoothSensitivity(epsilon=1, cap=8, delta=delta, step=1)
    bounds = {}
    for x in databases(universe, up_to=3):
        terms = [local_sensitivity_at_distance(largest, x, universe, k).value for k in range(4)]
        bounds[x] = (largest(list(x.records)), mechanism.smooth_bound(terms))  # type: ignore[arg-type]

    def law(value: int, smooth: Fraction) -> dict[Hashable, Enclosure]:
        return cut_law(value + 10, lambda z: mechanism.noise.law(z, smooth), 28)

    laws = {x: law(*pair) for x, pair in bounds.items()}
    assert refute(lambda records: laws[Database(records)], universe, epsilon=1, delta=delta, size=3) is None


def test_general_interface_agrees_with_the_median() -> None:
    """The same data, the distances handed over as a function or as a list; the grid costs one step."""
    values = [1.0, 2.0, 4.0, 4.5, 9.0]
    median = SmoothMedian(epsilon=1, bounds=(0, 10), step=0.5)
    ordered = median.cells.order(values, ADD)
    general = SmoothSensitivity(epsilon=1, cap=10, step=0.5)
    as_function = general.smooth_bound(lambda k: ordered.gap(min(k, 6)) * 0.5)
    assert as_function == general.smooth_bound([ordered.gap(min(k, 6)) * 0.5 for k in range(general.distances)])
    assert as_function == general.smooth_bound([ordered.gap(min(k, 6)) * 0.5 for k in range(8)])  # then the cap
    assert median.smooth_bound(values) <= as_function <= median.smooth_bound(values) + Fraction(1, 2)


@pytest.mark.usefixtures("seeded")
def test_general_answers_lie_on_a_public_grid() -> None:
    """threat:A3 the step follows from the cap alone."""
    mechanism = SmoothSensitivity(epsilon=1, cap=3)
    assert mechanism.step == Fraction(1, 1 << 28)
    answers = [mechanism(value, [0.1, 0.2]) for value in (0.1, math.pi, 7) for _ in range(20)]
    assert all((Fraction(answer) / mechanism.step).denominator == 1 for answer in answers)
    assert SmoothSensitivity(epsilon=1, cap=10**12).step == 1 << 10
    assert 7 <= np.median([SmoothSensitivity(epsilon=1, cap=100, step=1)(8, lambda _: 1) for _ in range(99)]) <= 9


def test_general_error_is_the_quantile_of_the_noise() -> None:
    mechanism = SmoothSensitivity(epsilon=1, cap=1000, step=1)
    assert mechanism.error(0.5, smooth=10) == 21.5  # scale 20, rounded up, and half a step
    light = SmoothSensitivity(epsilon=1, cap=1000, step=1, delta=1e-6)
    assert light.error(0.95, smooth=10) == pytest.approx(20 * math.log(20), abs=1)
    assert mechanism.loss == Pure(1)


@pytest.mark.parametrize("bad", [math.nan, math.inf, "secret", None])
def test_bad_values_are_refused_without_showing_them(bad: Any) -> None:
    mechanism = SmoothSensitivity(epsilon=1, cap=10)
    for call in (lambda: mechanism(bad, [1]), lambda: mechanism(1, [bad])):
        with pytest.raises(Misconfigured, match="not a finite number") as refusal:
            call()
        assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SmoothMedian(epsilon=0, bounds=(0, 1)), "`epsilon` is 0"),
        (lambda: SmoothMedian(epsilon=1, bounds=(1, 0)), "`bounds`"),
        (lambda: SmoothMedian(epsilon=1, bounds=(0, 1), neighbours="one"), "not a relation"),
        (lambda: SmoothMedian(epsilon=1e-6, bounds=(0, 1)), "too small"),
        (lambda: SmoothSensitivity(epsilon=1, cap=0), "`cap` is 0"),
        (lambda: SmoothSensitivity(epsilon=1, cap=10**15, step=1), "`step` is 1"),
        (lambda: SmoothSensitivity(epsilon=1, cap=1, delta=1), "`delta` is 1"),
    ],
)
def test_bad_parameters_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(Misconfigured, match=message):
        make()
