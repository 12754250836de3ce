"""The laws of privacy, over every loss and mechanism: two releases, disjoint parts, maps of the output, groups, order.

Nothing is sampled. A `Release` is a mechanism on two neighbours: its exact output laws, and the loss that it claims.
What is claimed of several releases together is compared with the exact divergence of their joint law.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, reduce
from operator import add

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lapwing.classroom.database import global_sensitivity
from lapwing.errors import Refused
from lapwing.mechanisms.additive.gaussian import Gaussian
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.choice.exponential import Exponential, PermuteAndFlip
from lapwing.mechanisms.choice.noisy_max import NoisyMax
from lapwing.mechanisms.choice.response import RandomizedResponse
from lapwing.numbers import Enclosure, ball, enclose
from lapwing.privacy import ZCDP, Approximate, BoundedRange, Loss, Pure, group_delta
from lapwing.privacy.analysis.loss_distribution import PrivacyLoss
from lapwing.privacy.analysis.profile import tightest_delta, tightest_epsilon

always = settings(deadline=None, derandomize=True, max_examples=40)

TINY = Fraction(1, 10**15)
FLOOR = Fraction(1, 10**30)  # what bounds of a law may leave open
DELTAS = [FLOOR, Fraction(1, 10**6), Fraction(1, 1000), Fraction(1, 10)]
ORDERS = [Fraction(11, 10), 2, 10]
SELECTIONS = (Exponential, PermuteAndFlip, NoisyMax)

Bounds = tuple[Enclosure, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """A mechanism on two inputs that differ by `distance` steps, and its loss for one step."""

    name: str
    loss: Loss
    pair: PrivacyLoss
    distance: int = 1

    @property
    def ways(self) -> tuple[PrivacyLoss, PrivacyLoss]:
        return self.pair, self.pair.reversed


@cache
def gaussian(epsilon: Fraction | None, delta: Fraction | None, rho: Fraction | None) -> Gaussian:
    return Gaussian(epsilon=epsilon, delta=delta, rho=rho)


@cache
def law(made: type, epsilon: Fraction, scores: tuple[int, ...], monotone: bool) -> Bounds:
    return made(epsilon=epsilon, monotone=monotone).law(scores)  # type: ignore[no-any-return]


def selection(made: type, epsilon: Fraction, scores: tuple[int, ...], moves: tuple[int, ...], k: int) -> Release:
    """Scores that move by at most k each; if all move the same way, the monotone form with half the noise."""
    monotone = min(moves) >= 0 or max(moves) <= 0
    moved = tuple(s + k * m for s, m in zip(scores, moves, strict=True))
    laws = (law(made, epsilon, values, monotone) for values in (scores, moved))
    return Release(made.__name__, made(epsilon=epsilon).loss, PrivacyLoss(*laws), k)


def laplace(epsilon: Fraction, shift: int, k: int) -> Release:
    mechanism = Laplace(epsilon=epsilon, sensitivity=shift)
    return Release("Laplace", mechanism.loss, PrivacyLoss.laplace(scale=mechanism.scale, shift=k * shift), k)


def normal(mechanism: Gaussian, k: int) -> Release:
    return Release("Gaussian", mechanism.loss, PrivacyLoss.gaussian(variance=mechanism.variance, shift=k), k)


def response(epsilon: Fraction, answers: int) -> Release:
    mechanism = RandomizedResponse(epsilon=epsilon, answers=range(answers))
    return Release("RandomizedResponse", mechanism.loss, PrivacyLoss(*mechanism.law()[:2]))


def coin(heads: Fraction, other: Fraction) -> Release:
    """Two outcomes: the log-ratios of any such pair lie in an interval that is known."""
    range_ = enclose(lambda: abs((ball(heads / other) * ball((1 - other) / (1 - heads))).log()))[1]
    return Release("two outcomes", BoundedRange(range_), PrivacyLoss([heads, 1 - heads], [other, 1 - other]))


def worst(epsilon: Fraction, delta: Fraction) -> Release:
    loss = Approximate(epsilon, delta) if delta else Pure(epsilon)
    return Release("worst", loss, PrivacyLoss.worst(epsilon=epsilon, delta=delta))


epsilons = st.sampled_from([Fraction(1, 10), Fraction(1, 2), Fraction(1), Fraction(5, 2)])
chances = st.integers(min_value=1, max_value=19).map(lambda n: Fraction(n, 20))
scores = st.tuples(*[st.integers(min_value=0, max_value=2)] * 3)
moves = st.tuples(*[st.integers(min_value=-1, max_value=1)] * 3)
gaussians = st.sampled_from(
    [(None, None, Fraction(1, 2)), (None, None, Fraction(1, 8)), (Fraction(1), Fraction(1, 1000), None)]
).map(lambda made: gaussian(*made))
slips = st.sampled_from([Fraction(0), Fraction(1, 10**6), Fraction(1, 100)])


def releases(distance: int = 1) -> st.SearchStrategy[Release]:
    k = st.just(distance)
    groups = [
        st.builds(selection, st.sampled_from(SELECTIONS), epsilons, scores, moves, k),
        st.builds(laplace, epsilons, st.integers(min_value=1, max_value=3), k),
        st.builds(normal, gaussians, k),
    ]
    single = [
        st.builds(response, epsilons, st.integers(min_value=2, max_value=4)),
        st.builds(coin, chances, chances),
        st.builds(worst, epsilons, slips),
    ]
    return st.one_of(groups + single if distance == 1 else groups)


def joint(pairs: Iterable[PrivacyLoss]) -> PrivacyLoss:
    """Independent releases together, outcome by outcome."""
    runs = list(itertools.product(*(pair.pairs for pair in pairs)))
    p, q = ([_times(pair[side] for pair in run) for run in runs] for side in (0, 1))
    return PrivacyLoss(p, q)


def _times(bounds: Iterable[Enclosure]) -> Enclosure:
    low, high = zip(*bounds, strict=True)
    return math.prod(low, start=Fraction(1)), math.prod(high, start=Fraction(1))


def total(losses: Iterable[Loss]) -> Loss:
    """The sum; losses that do not add as they are go through zCDP."""
    listed = list(losses)
    try:
        return reduce(add, listed)
    except Refused:
        return reduce(add, (loss.to_zcdp() for loss in listed))


def assert_within(pair: PrivacyLoss, claim: Loss) -> None:
    """The exact profile keeps every (epsilon, delta) that the loss claims, and its zCDP."""
    for delta in DELTAS:
        if isinstance(claim, ZCDP | Approximate) and delta <= claim.delta:
            continue
        assert pair.epsilon(delta) <= claim.to_approximate(delta).epsilon + TINY
    if isinstance(claim, Pure | BoundedRange):
        assert pair.least_epsilon() <= claim.epsilon
    if isinstance(claim, Approximate):
        assert pair.delta(claim.epsilon) <= claim.delta + TINY
    elif not claim.to_zcdp().delta:
        assert all(pair.least_renyi(order) <= order * claim.to_zcdp().rho for order in ORDERS)


@always
@given(releases())
def test_every_mechanism_keeps_what_its_loss_claims(release: Release) -> None:
    """lecture:L2, lecture:L3, lecture:L4, threat:A32: by exact divergences, in both directions."""
    for way in release.ways:
        assert_within(way, release.loss)


def test_permute_and_flip_breaks_the_zcdp_of_bounded_range() -> None:
    """threat:A32: the same law with the claim of the exponential mechanism is refuted by the same check."""
    release = selection(PermuteAndFlip, Fraction(1), (0, 1, 0), (1, -1, 1), 1)
    for way in release.ways:
        assert_within(way, release.loss)
    worse = max(release.ways, key=lambda way: way.least_renyi(2))
    with pytest.raises(AssertionError):
        assert_within(worse, BoundedRange(1))


@always
@given(releases(), releases())
def test_sequential_composition_never_exceeds_the_sum(first: Release, second: Release) -> None:
    """lecture:L30: epsilons add, deltas add, rhos add; whatever two mechanisms are combined."""
    assume(len(first.pair.pairs) * len(second.pair.pairs) <= 1000)
    claim = total([first.loss, second.loss])
    for ways in zip(first.ways, second.ways, strict=True):
        assert_within(joint(ways), claim)


@always
@given(epsilons, slips, st.integers(min_value=2, max_value=4))
def test_k_runs_of_an_approximate_guarantee_are_k_epsilon_and_k_delta(
    epsilon: Fraction, slip: Fraction, k: int
) -> None:
    """lecture:L30: on the worst mechanism there is, whose k runs reach k epsilon."""
    runs = joint([PrivacyLoss.worst(epsilon=epsilon, delta=slip)] * k)
    claim = Approximate(epsilon, slip) * k
    assert runs.delta(claim.epsilon) <= claim.delta + TINY
    if slip:
        assert runs.least_epsilon(slip * Fraction(3, 2)) == math.inf  # the deltas do add up
    else:
        assert runs.least_epsilon() >= claim.epsilon - TINY  # and so do the epsilons


def test_a_second_run_is_not_free() -> None:
    """lecture:L30: the claim of one run is refuted by two."""
    single = response(Fraction(1), 2)
    with pytest.raises(AssertionError):
        assert_within(joint([single.pair] * 2), single.loss)


def parts_law(made: type, epsilon: Fraction, records: Iterable[tuple[int, int]], parts: int) -> tuple[Bounds, ...]:
    """In every part, which of two values is the more frequent: one law a part."""
    counts = [[0, 0] for _ in range(parts)]
    for part, value in records:
        counts[part][value] += 1
    return tuple(law(made, epsilon, tuple(cell), True) for cell in counts)


def across(here: tuple[Bounds, ...], there: tuple[Bounds, ...]) -> PrivacyLoss:
    """All parts together, on two data sets."""
    return joint(PrivacyLoss(p, q) for p, q in zip(here, there, strict=True))


records = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1)), max_size=5)


@always
@given(st.sampled_from(SELECTIONS), epsilons, records, st.integers(0, 2), st.integers(0, 1))
def test_parallel_composition_over_disjoint_parts_costs_once(
    made: type, epsilon: Fraction, data: list[tuple[int, int]], part: int, value: int
) -> None:
    """lecture:L31: one mechanism on each of three disjoint chunks; one more person is in one of them."""
    pair = across(parts_law(made, epsilon, data, 3), parts_law(made, epsilon, [*data, (part, value)], 3))
    for way in (pair, pair.reversed):
        assert_within(way, made(epsilon=epsilon, monotone=True).loss)


@always
@given(st.sampled_from(SELECTIONS), epsilons, records, st.lists(st.integers(0, 1), min_size=2, max_size=3))
def test_a_person_in_several_parts_costs_that_many_times(
    made: type, epsilon: Fraction, data: list[tuple[int, int]], values: list[int]
) -> None:
    """lecture:L31: kappa parts, kappa epsilon; and kappa rho."""
    more = [*data, *enumerate(values)]
    pair = across(parts_law(made, epsilon, data, 3), parts_law(made, epsilon, more, 3))
    for way in (pair, pair.reversed):
        assert_within(way, made(epsilon=epsilon, monotone=True).loss * len(values))


def test_parts_that_overlap_do_not_cost_once() -> None:
    """lecture:L31: the claim of disjoint parts is refuted by a person who is in two of them."""
    data = [(0, 0), (0, 0), (0, 0), (1, 0), (1, 0), (1, 0)]
    here, there = (parts_law(PermuteAndFlip, Fraction(1), rows, 2) for rows in (data, [*data, (0, 1), (1, 1)]))
    assert 1 < across(here, there).reversed.least_epsilon(FLOOR) <= 2
    assert tightest_epsilon(here[0], there[0]) <= 1 + TINY


laws = st.lists(st.integers(min_value=0, max_value=9), min_size=4, max_size=4).filter(any)
maps = st.lists(
    st.lists(st.integers(min_value=0, max_value=3), min_size=3, max_size=3).filter(any), min_size=4, max_size=4
)


def normal_form(weights: list[int]) -> list[Fraction]:
    return [Fraction(w, sum(weights)) for w in weights]


def mapped(bounds: Bounds, rows: list[list[Fraction]]) -> list[Enclosure]:
    """The law after a randomized map: from outcome i to outcome j with probability rows[i mod 4][j]."""
    return [
        tuple(sum((rows[i % 4][j] * chance[end] for i, chance in enumerate(bounds)), Fraction(0)) for end in (0, 1))
        for j in range(3)
    ]  # type: ignore[misc]


@always
@given(laws, laws, maps, st.fractions(min_value=0, max_value=3, max_denominator=20))
def test_post_processing_never_raises_delta(
    here: list[int], there: list[int], weights: list[list[int]], epsilon: Fraction
) -> None:
    """lecture:L32: any two laws, any randomized map; a map to one outcome is deterministic."""
    rows = [normal_form(row) for row in weights]
    p, q = normal_form(here), normal_form(there)
    after = [[chance[0] for chance in mapped(tuple((x, x) for x in law_), rows)] for law_ in (p, q)]
    for one_way in (True, False):
        before = tightest_delta(p, q, epsilon, one_way=one_way)
        assert tightest_delta(after[0], after[1], epsilon, one_way=one_way) <= before + TINY


@always
@given(releases(), maps)
def test_post_processing_keeps_every_claim(release: Release, weights: list[list[int]]) -> None:
    """lecture:L32: what is computed from the output of a mechanism has the mechanism's loss."""
    rows = [normal_form(row) for row in weights]
    p, q = (mapped(tuple(pair[side] for pair in release.pair.pairs), rows) for side in (0, 1))
    after = PrivacyLoss(p, q)
    for way in (after, after.reversed):
        assert_within(way, release.loss)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_group_privacy_holds_at_distance_k(k: int) -> None:
    """lecture:L33: k epsilon for pure losses and bounded range, k^2 rho, and the geometric sum of deltas."""

    @settings(deadline=None, derandomize=True, max_examples=25)
    @given(releases(distance=k))
    def check(release: Release) -> None:
        claim = release.loss.group(release.distance)
        for way in release.ways:
            assert_within(way, claim)

    check()


@always
@given(epsilons, st.integers(min_value=2, max_value=4), st.integers(min_value=1, max_value=4))
def test_a_group_that_answers_is_a_group(epsilon: Fraction, answers: int, k: int) -> None:
    """lecture:L33: k people change their true answers; each randomizes alone."""
    single = response(epsilon, answers)
    pair = joint([single.pair] * k)
    assert_within(pair, single.loss.group(k))
    assert pair.least_epsilon() >= k * epsilon - TINY


def test_the_delta_of_a_group_is_not_a_multiple() -> None:
    """lecture:L33: three data sets in a row, each (1, 0.01) from the next; the ends are 0.0372 apart, not 0.02."""
    slip = Fraction(1, 100)
    low, high = enclose(lambda: (1 + arb_e()) * ball(slip))
    near, far = [slip, 1 - slip], [Fraction(0), Fraction(1)]
    start = [(low, high), (1 - high, 1 - low)]
    assert tightest_delta(start, near, 1) <= slip + TINY
    assert tightest_delta(near, far, 1) <= slip
    reached = tightest_delta(start, far, 2)
    assert 2 * slip < reached <= group_delta(1, slip, 2) + TINY
    assert reached >= group_delta(1, slip, 2) - TINY


def arb_e() -> object:
    return ball(1).exp()


@always
@given(releases(), st.fractions(min_value=0, max_value=4, max_denominator=50), st.fractions(0, 2, max_denominator=50))
def test_delta_falls_as_epsilon_grows_and_epsilon_as_delta_grows(
    release: Release, epsilon: Fraction, more: Fraction
) -> None:
    """lecture:L34, lecture:L3."""
    for way in release.ways:
        assert way.delta(epsilon + more) <= way.delta(epsilon)
        assert way.least_delta(epsilon + more) <= way.least_delta(epsilon)
        amounts = [way.epsilon(delta) for delta in DELTAS]
        assert amounts == sorted(amounts, reverse=True)


sizes = st.fractions(min_value=Fraction(1, 20), max_value=5, max_denominator=20)


@always
@given(sizes, sizes, sizes)
def test_less_epsilon_or_more_sensitivity_is_more_noise(
    epsilon: Fraction, less: Fraction, sensitivity: Fraction
) -> None:
    """lecture:L34: for every mechanism, in what it adds and in the error that it states."""
    low, high = min(epsilon, less), max(epsilon, less)
    for made in (Laplace, *SELECTIONS):
        careful, careless = (made(epsilon=e, sensitivity=sensitivity) for e in (low, high))
        bold = made(epsilon=high, sensitivity=2 * sensitivity)
        options = {} if made is Laplace else {"candidates": 10}
        assert careful.error(**options) >= careless.error(**options)
        assert bold.error(**options) >= careless.error(**options)
    for careful, careless in (
        (Gaussian(rho=low, sensitivity=sensitivity), Gaussian(rho=high, sensitivity=sensitivity)),
        (Gaussian(rho=high, sensitivity=2 * sensitivity), Gaussian(rho=high, sensitivity=sensitivity)),
    ):
        assert careful.variance >= careless.variance
        assert careful.error() >= careless.error()
    honest, shy = (RandomizedResponse(epsilon=e).law()[0][0] for e in (high, low))
    assert honest[1] >= shy[0]


@always
@given(sizes, sizes, st.integers(min_value=1, max_value=4))
def test_more_noise_never_loses_more(first: Fraction, second: Fraction, shift: int) -> None:
    """lecture:L34: the whole profile of Laplace noise falls when its scale grows, and grows with the shift."""
    low, high = min(first, second), max(first, second)
    narrow, wide = (PrivacyLoss.laplace(scale=scale, shift=shift) for scale in (low, high))
    farther = PrivacyLoss.laplace(scale=high, shift=shift + 1)
    for epsilon in (0, Fraction(1, 3), 1, 3):
        assert wide.delta(epsilon) <= narrow.delta(epsilon) + TINY
        assert wide.delta(epsilon) <= farther.delta(epsilon) + TINY


def test_counts_cost_what_a_unit_can_move_them() -> None:
    """lecture:L13 sensitivities by enumeration: one count 1, m counts m, a histogram 1; noise 1/eps, m/eps, 1/eps."""
    places, epsilon = range(3), Fraction(1, 2)
    functions = {
        "one count": (lambda records: [len(records)], 1),
        "m counts": (lambda records: [len(records)] * 7, 7),
        "histogram": (lambda records: [records.count(place) for place in places], 1),
    }
    for function, moved in functions.values():
        found = global_sensitivity(function, places, size=3).value
        assert found == moved
        assert Laplace(epsilon=epsilon, sensitivity=found).scale == moved / epsilon


@pytest.mark.parametrize("moved", [1, 2, 3])
def test_a_laplace_histogram_costs_what_one_count_costs(moved: int) -> None:
    """lecture:L31: the joint law of independent cells; a person in k of them costs k times, and reaches it."""
    cell = Laplace(epsilon=Fraction(1, 3))
    ratios = [(cell.law(z)[0] / cell.law(z - 1)[1], cell.law(z)[1] / cell.law(z - 1)[0]) for z in range(-9, 10)]
    claim = enclose(lambda: ball(moved * cell.epsilon).exp())
    worst = max(high for _, high in ratios), max(1 / low for low, _ in ratios)
    assert max(worst) ** moved <= claim[1] * (1 + FLOOR)
    assert max(worst) ** moved >= claim[0] * (1 - FLOOR)
