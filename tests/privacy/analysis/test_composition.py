"""lapwing.privacy.analysis.composition and lapwing.privacy.analysis.convolution."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from fractions import Fraction

import pytest
from dp_accounting.pld import privacy_loss_distribution as peer
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

from lapwing.errors import Misconfigured
from lapwing.mechanisms.additive.calibration import continuous_delta
from lapwing.mechanisms.choice.exponential import Exponential
from lapwing.numbers import ball, enclose
from lapwing.privacy.analysis.composition import compose_fixed
from lapwing.privacy.analysis.convolution import LossGrid, LossMeasure, from_above, from_below
from lapwing.privacy.analysis.loss_distribution import PrivacyLoss
from lapwing.privacy.analysis.profile import highest, hockey_stick
from lapwing.privacy.loss import ZCDP, BoundedRange, Pure

always = settings(deadline=None, derandomize=True, max_examples=25)

SMALL = Fraction(1, 10**15)
DELTA = Fraction(1, 10**6)

weights = st.lists(st.integers(min_value=0, max_value=9), min_size=3, max_size=3).filter(any)
laws = weights.map(lambda w: [Fraction(n, sum(w)) for n in w])
long_laws = st.lists(st.integers(1, 99), min_size=9, max_size=9).map(lambda w: [Fraction(n, sum(w)) for n in w])
steps = st.sampled_from([Fraction(1, 7), Fraction(1, 100)])


def product(losses: Iterable[PrivacyLoss]) -> PrivacyLoss:
    """The definition: the laws of all outcomes together, by enumeration. For exact laws only."""
    runs = list(itertools.product(*(loss.pairs for loss in losses)))
    p, q = ([math.prod((pair[side][0] for pair in run), start=Fraction(1)) for run in runs] for side in (0, 1))
    return PrivacyLoss(p, q)


def optimal(epsilon: Fraction, times: int, i: int) -> tuple[Fraction, Fraction]:
    """Kairouz, Oh and Viswanath: k-fold epsilon-DP is exactly ((k - 2 i) epsilon, this delta)-DP."""

    def formula() -> arb:
        terms = (
            math.comb(times, j) * (ball((times - j) * epsilon).exp() - ball((times - 2 * i + j) * epsilon).exp())
            for j in range(i)
        )
        return sum(terms, arb(0)) / (1 + ball(epsilon).exp()) ** times

    return enclose(formula, bits=512)


def gaussian_epsilon(mu: float, delta: Fraction) -> float:
    """Where the exact delta of the continuous Gaussian mechanism with sensitivity mu sigma falls to delta."""
    low, high, variance = Fraction(0), Fraction(50), Fraction(1) / Fraction(mu) ** 2
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if continuous_delta(variance, middle, Fraction(1)) > delta else (low, middle)
    return float(high)


@always
@given(st.lists(st.tuples(laws, laws), min_size=1, max_size=4), steps, st.sampled_from([0, 0.3, 1, 2.5]))
def test_the_truth_lies_between_the_bounds(
    pairs: list[tuple[list[Fraction], list[Fraction]]], step: Fraction | None, epsilon: float
) -> None:
    """lecture:L30: every pair of exact laws, enumerated outcome by outcome, both ways; within the stated error."""
    losses = [PrivacyLoss(p, q) for p, q in pairs]
    together, true = compose_fixed(losses, step=step), product(losses)
    ways = true, true.reversed
    assert together.least_delta(epsilon) <= max(way.delta(epsilon) for way in ways)
    assert max(way.least_delta(epsilon) for way in ways) <= together.delta(epsilon)
    reach, rest = len(losses) * together.step, Fraction(len(losses), 2**68)
    if epsilon >= reach:
        assert together.delta(epsilon) <= max(way.delta(Fraction(epsilon) - reach) for way in ways) + rest
    farther = Fraction(epsilon) + reach + rest
    assert together.least_delta(epsilon) >= max(way.least_delta(farther) for way in ways) - rest
    for delta in (0.01, 0.3):
        assert together.least_epsilon(delta) <= max(way.epsilon(delta) for way in ways)
        assert max(way.least_epsilon(delta) for way in ways) <= together.epsilon(delta)


@pytest.mark.parametrize(("epsilon", "times"), [("0.1", 10), ("0.1", 100), ("0.5", 100), ("1", 7), ("3", 2)])
def test_the_worst_pure_releases_compose_by_the_optimal_formula(epsilon: str, times: int) -> None:
    """lecture:L30: the composition theorem of Kairouz, Oh and Viswanath, at all its points."""
    size = Fraction(epsilon)
    together = compose_fixed([PrivacyLoss.worst(epsilon=size)] * times)
    assert together.step == size
    for i in range(times // 2 + 1):
        low, high = optimal(size, times, i)
        at = (times - 2 * i) * size
        assert together.least_delta(at) <= high
        assert low <= together.delta(at) <= high * (1 + SMALL) + SMALL
        assert together.least_delta(at) >= low - SMALL


def test_the_worst_approximate_releases_compose_to_no_less_than_one_minus_all_good() -> None:
    """All deltas survive: at any epsilon 1 - (1 - delta)^k remains, which is below the k delta of basic composition."""
    slip, k = Fraction(1, 1000), 20
    together = compose_fixed([PrivacyLoss.worst(epsilon=Fraction(1, 10), delta=slip)] * k)
    lost = 1 - (1 - slip) ** k
    assert lost <= together.delta(2) <= lost + SMALL
    assert together.epsilon(lost - SMALL) == math.inf
    assert float(together.epsilon(lost + Fraction(1, 10**9))) < 2


@pytest.mark.parametrize(
    ("scale", "shift", "times", "figure", "optimal_figure"),
    [(500, 50, 10, 1.00, 1.00), (500, 50, 100, 4.69, 4.77), (500, 50, 1000, 19.0, 19.3), (100, 50, 100, 30.5, 33.3)],
)
def test_many_laplace_releases_have_the_known_epsilon(
    scale: int, shift: int, times: int, figure: float, optimal_figure: float
) -> None:
    """lecture:L30: epsilon at delta = 1e-6 of k times 0.1 or 0.5; less than any mechanism of that epsilon may lose."""
    together = compose_fixed([PrivacyLoss.laplace(scale=scale, shift=shift)] * times)
    assert float(together.epsilon(DELTA)) == pytest.approx(figure, rel=0.003)
    assert together.epsilon(DELTA) - together.least_epsilon(DELTA) < Fraction(1, 10**9)
    worst = compose_fixed([PrivacyLoss.worst(epsilon=Fraction(shift, scale))] * times)
    assert float(worst.epsilon(DELTA)) == pytest.approx(optimal_figure, rel=0.003)
    assert together.epsilon(DELTA) < worst.epsilon(DELTA)


def test_gaussian_releases_compose_to_one_gaussian() -> None:
    """lecture:L16, lecture:L30: ten of sigma = 10 have epsilon 1.3676 at 1e-6; zCDP says 1.4716."""
    together = compose_fixed([PrivacyLoss.gaussian(variance=50**2, shift=5)] * 10)
    exactly = gaussian_epsilon(math.sqrt(10) / 10, DELTA)
    assert float(together.epsilon(DELTA)) == pytest.approx(exactly, abs=1e-5)
    assert round(exactly, 4) == round(float(together.least_epsilon(DELTA)), 4) == 1.3676
    assert float((ZCDP(Fraction(1, 200)) * 10).to_approximate(DELTA).epsilon) == pytest.approx(1.4716, abs=1e-4)


CASES = {
    "discrete Laplace 3 of 10": (
        PrivacyLoss.laplace(scale=10, shift=3),
        lambda gap, up: peer.from_discrete_laplace_mechanism(
            0.1, 3, value_discretization_interval=gap, pessimistic_estimate=up
        ),
    ),
    "Laplace 1": (
        PrivacyLoss.laplace(scale=200, shift=200),
        lambda gap, up: peer.from_laplace_mechanism(
            1, value_discretization_interval=gap, pessimistic_estimate=up, use_connect_dots=False
        ),
    ),
    "discrete Gaussian 3": (
        PrivacyLoss.gaussian(variance=9),
        lambda gap, up: peer.from_discrete_gaussian_mechanism(
            3, value_discretization_interval=gap, pessimistic_estimate=up
        ),
    ),
    "Gaussian 5": (
        PrivacyLoss.gaussian(variance=60**2, shift=12),
        lambda gap, up: peer.from_gaussian_mechanism(
            5, value_discretization_interval=gap, pessimistic_estimate=up, use_connect_dots=False
        ),
    ),
    "three answers": (
        PrivacyLoss([Fraction(7, 10), 0.15, 0.15], [Fraction(15, 100), 0.7, 0.15]),
        lambda gap, up: peer.from_randomized_response(
            0.45, 3, value_discretization_interval=gap, pessimistic_estimate=up
        ),
    ),
}


@pytest.mark.parametrize("times", [1, 2, 10, 30])
@pytest.mark.parametrize("case", CASES)
def test_another_accountant_agrees_within_its_grid(case: str, times: int) -> None:
    """dp-accounting, composed one by one: every loss is off by at most one step of its grid, so epsilon by k steps."""
    loss, made = CASES[case]
    together, gap = compose_fixed([loss] * times), 1e-3
    theirs = []
    for up in (True, False):
        single = made(gap, up)
        total = single
        for _ in range(times - 1):
            total = total.compose(single)
        theirs.append(total)
    for delta in (1e-2, 1e-4, 1e-8):
        low, high = float(together.least_epsilon(delta)), float(together.epsilon(delta))
        grain = 2e-3 if case in {"Laplace 1", "Gaussian 5"} else 1e-9  # ours stands for a continuous law there
        assert low - grain <= theirs[0].get_epsilon_for_delta(delta) <= high + times * gap + grain
        assert low - times * gap - grain <= theirs[1].get_epsilon_for_delta(delta) <= high + grain


def test_a_mixed_list_agrees_with_another_accountant() -> None:
    """Different mechanisms in one list, one by one."""
    names, gap = ["discrete Laplace 3 of 10", "discrete Gaussian 3", "three answers"], 1e-3
    together = compose_fixed([CASES[name][0] for name in names for _ in range(5)])
    total = CASES[names[0]][1](gap, True)
    for name in names[:1] * 4 + names[1:2] * 5 + names[2:] * 5:
        total = total.compose(CASES[name][1](gap, True))
    theirs = total.get_epsilon_for_delta(1e-5)
    assert float(together.least_epsilon(1e-5)) <= theirs <= float(together.epsilon(1e-5)) + 15 * gap


def test_a_choice_by_an_earlier_answer_breaks_the_bound() -> None:
    """lecture:L30: why this is for fixed lists only, and no filter.

    Randomized response at 0.5, then either randomized response at 2.8 or Gaussian noise of mu = 2.165: either list is
    (2.3, 0.371)-DP. Who chooses the second by the first answer reaches 0.474 at the same epsilon, which the sums of
    epsilon and delta cover, and this composition does not.
    """
    first, at = PrivacyLoss.worst(epsilon=Fraction(1, 2)), Fraction(23, 10)
    noise = PrivacyLoss.gaussian(variance=(60 / Fraction("2.165")) ** 2, shift=60)
    seconds = [PrivacyLoss.worst(epsilon=Fraction(14, 5)), noise]
    fixed = max(compose_fixed([first, second], step=Fraction(1, 1000)).delta(at) for second in seconds)
    assert float(fixed) == pytest.approx(0.3709, abs=2e-4)
    chances = [p for (p, _), _ in first.pairs if p]  # of a loss of 1/2, and of -1/2
    adaptive = sum(
        p * max(second.least_delta(at - loss) for second in seconds)
        for p, loss in zip(chances, (Fraction(1, 2), -Fraction(1, 2)), strict=True)
    )
    assert float(adaptive) == pytest.approx(0.4737, abs=2e-4)
    assert adaptive > fixed * Fraction(127, 100)
    assert adaptive <= max(second.delta(at - Fraction(1, 2)) for second in seconds)  # basic: epsilons and deltas add


@always
@given(st.lists(st.sampled_from([Fraction(1, 10), Fraction(1, 4), Fraction(1)]), max_size=12), st.randoms())
def test_pure_releases_never_exceed_the_sum_of_their_losses(sizes: list[Fraction], order: object) -> None:
    """lecture:L30: nor what zCDP says; and the order of the list does not matter."""
    losses = [PrivacyLoss.worst(epsilon=size) for size in sizes]
    together = compose_fixed(losses)
    total = sum((Pure(size) for size in sizes), Pure(0))
    assert together.epsilon(SMALL) <= total.epsilon + SMALL
    assert together.epsilon(DELTA) <= total.to_approximate(DELTA).epsilon + SMALL
    shuffled = list(losses)
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    assert float(compose_fixed(shuffled).delta(0.2)) == pytest.approx(float(together.delta(0.2)), abs=1e-18)


def test_exponential_mechanisms_stay_within_bounded_range() -> None:
    """threat:A32: twenty of epsilon 0.5 by their exact laws, against epsilon^2/8 each."""
    mechanism = Exponential(epsilon=0.5)
    loss = PrivacyLoss(mechanism.law([0, 1, 2]), mechanism.law([1, 0, 1]))
    together = compose_fixed([loss] * 20)
    claimed = (BoundedRange(0.5) * 20).to_approximate(DELTA)
    assert together.epsilon(DELTA) < claimed.epsilon
    assert together.epsilon(DELTA) - together.least_epsilon(DELTA) < 20 * together.step


def test_both_orders_of_the_neighbours_are_covered() -> None:
    """One person's presence may be told more easily than the absence."""
    loss = PrivacyLoss([Fraction(9, 10), Fraction(1, 10)], [Fraction(1, 2), Fraction(1, 2)])
    here, there = compose_fixed([loss] * 3), compose_fixed([loss.reversed] * 3)
    assert len(here.above) == len(here.below) == 2
    for epsilon in (0, 0.5, 2):
        assert here.delta(epsilon) == there.delta(epsilon)
    assert here.least_delta(2) > product([loss] * 3).delta(2)
    assert len(compose_fixed([PrivacyLoss.laplace(scale=3, shift=2)]).above) == 1


@pytest.mark.parametrize(("scale", "times", "epsilon"), [(1, 2, 2), (1, 50, 50), (Fraction(1, 3), 3, 9), (7, 7, 1)])
def test_pure_releases_have_a_finite_epsilon_without_a_delta(scale: Fraction, times: int, epsilon: int) -> None:
    """lecture:L30 epsilons add, exactly, although masses near 2^-70 are rounded and cut."""
    both = compose_fixed([PrivacyLoss.laplace(scale=scale)] * times)
    assert both.epsilon(0) == epsilon
    assert both.delta(epsilon) == 0
    assert both.delta(epsilon * Fraction(99, 100)) > 0
    assert epsilon - Fraction(1, 10**9) < both.least_epsilon(0) <= epsilon or times > 40
    mixed = compose_fixed([PrivacyLoss.worst(epsilon=Fraction(1, 7)), PrivacyLoss({0: 0.5, 1: 0.5}, {0: 0.2, 1: 0.8})])
    assert mixed.epsilon(0) == pytest.approx(1 / 7 + math.log(2.5), abs=1e-12)
    assert compose_fixed([PrivacyLoss.gaussian(variance=1)] * 2).epsilon(0) == math.inf


def test_different_releases_cost_the_same_in_any_order() -> None:
    losses = [PrivacyLoss.laplace(scale=Fraction(100 + i, 10)) for i in range(40)]
    one, other = compose_fixed(losses, step=Fraction(1, 512)), compose_fixed(losses[::-1], step=Fraction(1, 512))
    for delta in (1e-3, 1e-9):
        assert float(one.epsilon(delta)) == pytest.approx(float(other.epsilon(delta)), rel=1e-12)
        assert one.least_epsilon(delta) < one.epsilon(delta)


def test_no_release_loses_nothing() -> None:
    empty = compose_fixed([])
    assert empty.releases == empty.epsilon(0) == empty.delta(0) == empty.least_delta(0) == 0
    alike = compose_fixed([PrivacyLoss([1], [1])] * 5)
    assert alike.epsilon(SMALL) == alike.least_epsilon(0) == 0
    assert alike.delta(0) < SMALL


def test_disjoint_outcomes_are_lost_for_certain() -> None:
    together = compose_fixed([PrivacyLoss([1, 0], [0, 1]), PrivacyLoss.laplace(scale=3)])
    assert together.delta(10) == 1
    assert together.least_delta(10) > 1 - SMALL
    assert together.epsilon(0.99) == together.least_epsilon(0.99) == math.inf


@pytest.mark.parametrize("step", [Fraction(1, 3), Fraction(1, 50), Fraction(1, 1000), Fraction(3, 1000)])
def test_a_finer_grid_is_closer_and_a_dividing_one_exact(step: Fraction) -> None:
    loss, times = PrivacyLoss.laplace(scale=50, shift=10), 20
    exactly = compose_fixed([loss] * times)
    assert exactly.step == Fraction(1, 25)
    found = compose_fixed([loss] * times, step=step)
    true = exactly.epsilon(DELTA)
    assert found.least_epsilon(DELTA) <= true <= found.epsilon(DELTA)
    assert true - found.least_epsilon(DELTA) <= times * step
    assert found.epsilon(DELTA) - true <= 4 * times * step**2 + SMALL
    assert exactly.epsilon(DELTA) - exactly.least_epsilon(DELTA) < SMALL


def test_a_dense_loss_is_close_from_below_too() -> None:
    """Where cells hold many outcomes, merging them costs less than k step^2, not k step."""
    loss, times, step = PrivacyLoss.gaussian(variance=40**2, shift=8), 30, Fraction(1, 10)
    exactly, found = compose_fixed([loss] * times), compose_fixed([loss] * times, step=step)
    assert exactly.step < step / 10
    assert found.least_epsilon(DELTA) <= exactly.epsilon(DELTA) <= found.epsilon(DELTA)
    assert exactly.least_epsilon(DELTA) - found.least_epsilon(DELTA) < times * step**2


@always
@given(long_laws, long_laws, st.sampled_from([Fraction(1, 3), Fraction(1, 40)]), st.fractions(0, 2))
def test_a_measure_on_the_grid_bounds_its_pair(
    p: list[Fraction], q: list[Fraction], step: Fraction, epsilon: Fraction
) -> None:
    """Domination, at one epsilon after the other: what the proof rests on."""
    atoms = highest(PrivacyLoss(p, q).pairs)

    def delta(measure: LossMeasure) -> float:
        masses = enumerate(measure.finite, measure.first)
        finite = sum(m * max(0.0, 1 - math.exp(float(epsilon - j * step))) for j, m in masses)
        return (finite + measure.infinite) / 2**96

    true = float(hockey_stick(atoms, epsilon)[1])
    assert delta(from_below(atoms, LossGrid(step))) <= true + 1e-12
    assert true <= delta(from_above(atoms, LossGrid(step))) + 1e-12


@pytest.mark.parametrize("up", [True, False])
@pytest.mark.parametrize("times", [0, 1, 2, 7, 64])
def test_mass_is_never_lost_from_above_nor_gained_from_below(times: int, up: bool) -> None:
    """Rounded products and cut tails, at both ends and at infinity."""
    one = 1 << 96
    thin = [3, 1 << 20, one // 3, one // 3, 1 << 18, 5]
    single = LossMeasure(-2, tuple(thin), one - sum(thin), up)
    many = single**times
    total = sum(many.finite) + many.infinite
    assert (total >= one) if up else (total <= one)
    assert abs(total - one) <= one >> 60
    lost = one - one * (one - single.infinite) ** times // one**times
    assert (many.infinite >= lost) if up else (many.infinite <= lost + 1)
    assert len(many.finite) <= 3 * times + 3  # the tails were cut


def test_points_are_the_composed_distribution() -> None:
    together = compose_fixed([PrivacyLoss.worst(epsilon=1, delta=0.1)] * 2)
    losses, chances = zip(*together.points, strict=True)
    assert losses[-1] == math.inf
    assert chances[-1] == pytest.approx(0.19)
    assert sum(chances) == pytest.approx(1)
    assert min(losses) == -2


@pytest.mark.parametrize("step", [0, -1, math.nan, "1", True])
def test_bad_steps_are_refused(step: object) -> None:
    """threat:A26."""
    with pytest.raises(Misconfigured):
        compose_fixed([PrivacyLoss.laplace(scale=1)], step=step)  # type: ignore[arg-type]


def test_a_grid_that_does_not_fit_is_refused() -> None:
    with pytest.raises(Misconfigured, match="larger `step`"):
        compose_fixed([PrivacyLoss.laplace(scale=1)], step=Fraction(1, 10**9))
    with pytest.raises(Misconfigured, match="no privacy loss"):
        compose_fixed([1])
