"""lapwing.privacy.analysis.loss_distribution."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lapwing.errors import Misconfigured
from lapwing.mechanisms.additive.calibration import continuous_delta, discrete_delta
from lapwing.mechanisms.additive.gaussian import Gaussian
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.choice.exponential import Exponential, PermuteAndFlip
from lapwing.mechanisms.choice.response import RandomizedResponse
from lapwing.privacy.analysis.loss_distribution import PrivacyLoss
from lapwing.privacy.analysis.profile import tightest_delta, tightest_epsilon

always = settings(deadline=None, derandomize=True, max_examples=40)

YES, NO = Fraction(3, 4), Fraction(1, 4)
TINY = Fraction(1, 10**20)
ORDERS = [Fraction(101, 100), Fraction(3, 2), 2, 3, 5, 10, 50]

weights = st.lists(st.integers(min_value=0, max_value=9), min_size=4, max_size=4).filter(any)
laws = weights.map(lambda w: [Fraction(n, sum(w)) for n in w])
epsilons = st.fractions(min_value=0, max_value=3, max_denominator=50)


def test_two_coins_lose_plus_or_minus_ln_3() -> None:
    """lecture:L4, lecture:L10: the loss is ln 3 with probability 3/4 and -ln 3 with probability 1/4."""
    loss = PrivacyLoss([YES, NO], [NO, YES])
    assert loss.points == (pytest.approx((-math.log(3), 0.25)), pytest.approx((math.log(3), 0.75)))
    assert loss.tail(1) == YES
    assert loss.tail(1.1) == loss.infinite == 0
    assert float(loss.bound()) == float(loss.bound(0.74)) == pytest.approx(math.log(3))
    assert loss.bound(0.75) == 0


@always
@given(laws, laws, epsilons)
def test_delta_is_the_mean_of_what_exceeds_epsilon(p: list[Fraction], q: list[Fraction], epsilon: Fraction) -> None:
    """lecture:L4: delta = E[max(0, 1 - e^(epsilon - L))] over the loss L of an outcome drawn from P."""
    loss = PrivacyLoss(p, q)
    mean = sum(chance * max(0.0, 1 - math.exp(float(epsilon) - value)) for value, chance in loss.points)
    assert float(loss.delta(epsilon)) == pytest.approx(mean, abs=1e-12)
    assert loss.least_delta(epsilon) <= loss.delta(epsilon) <= loss.least_delta(epsilon) + TINY
    assert max(loss.delta(epsilon), loss.reversed.delta(epsilon)) == tightest_delta(p, q, epsilon)
    assert loss.reversed.reversed == loss


@always
@given(laws, laws, epsilons, st.fractions(min_value=0, max_value=Fraction(9, 10), max_denominator=20))
def test_a_rare_large_loss_is_approximate_privacy(
    p: list[Fraction], q: list[Fraction], epsilon: Fraction, delta: Fraction
) -> None:
    """lecture:L4: a loss within epsilon with probability 1 - delta makes (epsilon, delta)-DP, not the other way."""
    loss = PrivacyLoss(p, q)
    assert loss.delta(epsilon) <= loss.tail(epsilon) + TINY
    assert loss.tail(loss.bound(delta)) <= delta if loss.bound(delta) < math.inf else loss.infinite > delta
    assert loss.least_epsilon(delta) <= loss.epsilon(delta) <= loss.bound(delta)
    larger = epsilon + 1
    assert loss.tail(larger) * (1 - Fraction(math.exp(-1))) <= loss.delta(epsilon) + Fraction(1, 10**12)


def test_the_loss_may_exceed_epsilon_more_often_than_delta_says() -> None:
    """lecture:L4: (epsilon, delta)-DP does not bound the loss by epsilon with probability 1 - delta."""
    loss = PrivacyLoss.gaussian(variance=100, shift=10)
    assert float(loss.delta(1)) == pytest.approx(0.1269, abs=1e-3)
    assert float(loss.tail(1)) == pytest.approx(0.3, abs=0.02)


@pytest.mark.parametrize("shift", [1, 2, 5])
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(2)])
def test_laplace_loss_is_that_of_the_mechanism(epsilon: Fraction, shift: int) -> None:
    """lecture:L11: the merged outcomes against the mechanism's own law, outcome by outcome."""
    mechanism, reach = Laplace(epsilon=epsilon, sensitivity=shift), math.ceil(50 * shift / epsilon)
    rest = (Fraction(0), Fraction(1, 10**20))
    p = {z: mechanism.law(z) for z in range(-reach, reach + 1)} | {"rest": rest}
    q = {z: mechanism.law(z - shift) for z in range(-reach, reach + 1)} | {"rest": rest}
    loss = PrivacyLoss.laplace(scale=mechanism.scale, shift=shift)
    for at in (0, epsilon / 3, epsilon / 2, epsilon * Fraction(9, 10)):
        assert float(loss.delta(at)) == pytest.approx(float(tightest_delta(p, q, at)), rel=1e-12, abs=1e-19)
    assert epsilon - TINY <= loss.least_epsilon() <= loss.epsilon() <= epsilon + TINY
    assert loss.tail(epsilon) == 0
    assert len(loss.pairs) == shift + 1


@pytest.mark.parametrize(("variance", "shift"), [(Fraction(1, 4), 1), (1, 1), (4, 3), (100, 1), (400, 20)])
def test_gaussian_loss_is_the_exact_formula(variance: Fraction, shift: int) -> None:
    """lecture:L16: against the exact delta of the discrete law, a sum of two tails. [CKS20, Thm 7]"""
    loss = PrivacyLoss.gaussian(variance=variance, shift=shift)
    for epsilon in (Fraction(1, 10), Fraction(1), Fraction(4)):
        exactly = discrete_delta(Fraction(variance), epsilon, shift)
        assert float(loss.delta(epsilon)) == pytest.approx(float(exactly), rel=1e-12, abs=1e-40)
        assert loss.least_delta(epsilon) <= exactly <= loss.delta(epsilon) + TINY
    assert loss.epsilon() == math.inf
    assert loss.infinite < Fraction(1, 10**40)


@pytest.mark.parametrize(("epsilon", "true"), [(8, 8.0e-6), (10, 2.3e-5), (20, 1.5e-3), (50, 0.59)])
def test_the_classic_gaussian_breaks_its_promise_for_large_epsilon(epsilon: int, true: float) -> None:
    """lecture:L16: sigma = sqrt(2 ln(1.25 / delta)) / epsilon, at delta = 1e-5, on a grid of 100 points a unit."""
    sigma = Fraction(math.sqrt(2 * math.log(1.25e5)) / epsilon).limit_denominator(10**6)
    loss = PrivacyLoss.gaussian(variance=(100 * sigma) ** 2, shift=100)
    assert float(loss.delta(epsilon)) == pytest.approx(true, rel=0.05)
    assert (loss.least_delta(epsilon) > Fraction(1, 10**5)) == (epsilon > 8)
    assert float(loss.delta(epsilon)) == pytest.approx(
        float(continuous_delta(sigma**2, Fraction(epsilon), Fraction(1))), rel=0.03
    )


@pytest.mark.parametrize(("variance", "shift"), [(1, 1), (9, 2)])
def test_gaussian_loss_is_within_its_zcdp(variance: int, shift: int) -> None:
    """D_a <= a shift^2 / (2 variance), and for integer shift and order it is equal. [CKS20, Thm 14]"""
    loss, rho = PrivacyLoss.gaussian(variance=variance, shift=shift), Fraction(shift**2, 2 * variance)
    for order in ORDERS[:-2]:
        assert loss.least_renyi(order) <= order * rho
    assert float(loss.least_renyi(2)) == pytest.approx(2 * float(rho), rel=1e-9)
    assert Gaussian(rho=rho, sensitivity=shift).variance == variance
    assert loss.renyi(2) == math.inf  # the tail that was cut


@always
@given(laws, laws, st.sampled_from(ORDERS))
def test_renyi_divergence_follows_its_formula(p: list[Fraction], q: list[Fraction], order: Fraction) -> None:
    loss = PrivacyLoss(p, q)
    if loss.infinite:
        assert loss.renyi(order) == loss.least_renyi(order) == math.inf
        return
    a = float(order)
    formula = math.log(sum(float(x) ** a * float(y) ** (1 - a) for x, y in zip(p, q, strict=True) if x)) / (a - 1)
    assert float(loss.renyi(order)) == pytest.approx(formula, rel=1e-9, abs=1e-12)
    assert loss.least_renyi(order) <= loss.renyi(order) <= loss.epsilon() + TINY


def test_renyi_divergence_of_two_coins_of_order_two() -> None:
    """9/4 + 1/12 = 7/3."""
    assert float(PrivacyLoss([YES, NO], [NO, YES]).renyi(2)) == pytest.approx(math.log(7 / 3), rel=1e-15)


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(1), Fraction(3)])
def test_exponential_mechanism_is_of_bounded_range_and_permute_and_flip_is_not(epsilon: Fraction) -> None:
    """threat:A32: exact Renyi divergences on every pair of a small universe against a epsilon^2/8."""
    vectors = list(itertools.product(range(3), repeat=2))
    near = [(u, v) for u, v in itertools.product(vectors, repeat=2) if max(abs(u[0] - v[0]), abs(u[1] - v[1])) == 1]
    worst = {}
    for made in (Exponential, PermuteAndFlip):
        law = {u: made(epsilon=epsilon).law(u) for u in vectors}
        losses = [PrivacyLoss(law[u], law[v]) for u, v in near]
        worst[made] = max(loss.least_renyi(a) / a for loss in losses for a in ORDERS)
        claimed = made(epsilon=epsilon).loss.to_zcdp().rho
        assert all(loss.renyi(a) <= a * claimed + TINY for loss in losses for a in ORDERS)
    assert worst[Exponential] <= epsilon**2 / 8 < worst[PermuteAndFlip]


@always
@given(laws, laws, epsilons)
def test_the_worst_pair_dominates_every_pair_with_its_guarantee(
    p: list[Fraction], q: list[Fraction], epsilon: Fraction
) -> None:
    """The pair of the composition theorem of Kairouz, Oh and Viswanath: no curve of the same guarantee is above it."""
    delta = tightest_delta(p, q, epsilon)
    if delta == 1:
        return
    worst = PrivacyLoss.worst(epsilon=epsilon, delta=delta)
    assert worst.delta(epsilon) <= delta + TINY
    for other in (0, epsilon / 2, epsilon, epsilon + 1):
        assert tightest_delta(p, q, other) <= worst.delta(other) + TINY


def test_the_worst_pure_pair_is_randomized_response() -> None:
    rows = RandomizedResponse(epsilon=1).law()
    found, worst = PrivacyLoss(rows[0], rows[1]), PrivacyLoss.worst(epsilon=1)
    for epsilon in (0, Fraction(1, 3), Fraction(9, 10)):
        assert float(found.delta(epsilon)) == pytest.approx(float(worst.delta(epsilon)), rel=1e-15)
    assert PrivacyLoss.worst(epsilon=0).epsilon() == 0
    assert PrivacyLoss.worst(epsilon=1, delta=0.1).epsilon(0.09) == math.inf
    assert PrivacyLoss.worst(epsilon=1, delta=0.1).infinite == Fraction(1, 10)


@pytest.mark.parametrize(
    "loss",
    [
        PrivacyLoss.laplace(scale=7, shift=3),
        PrivacyLoss.laplace(scale=Fraction(5, 2), shift=4),
        PrivacyLoss.gaussian(variance=5, shift=1),
        PrivacyLoss.gaussian(variance=Fraction(9, 2), shift=2),
        PrivacyLoss.worst(epsilon=Fraction(2, 3), delta=Fraction(1, 9)),
    ],
    ids=lambda loss: str(loss.lattice),
)
def test_lattice_divides_every_loss(loss: PrivacyLoss) -> None:
    multiples = [value / float(loss.lattice) for value, _ in loss.points if value < math.inf]  # type: ignore[arg-type]
    assert multiples == pytest.approx([round(m) for m in multiples], abs=1e-9)
    assert loss.reversed.lattice == loss.lattice


def test_probabilities_add_up_from_both_sides() -> None:
    for loss in (PrivacyLoss.gaussian(variance=Fraction(1, 1000)), PrivacyLoss.gaussian(variance=2500, shift=7)):
        for side in (0, 1):
            low, high = (sum(pair[side][end] for pair in loss.pairs) for end in (0, 1))
            assert 1 - Fraction(1, 10**30) < low <= 1 <= high < 1 + Fraction(1, 10**30)


def test_a_very_far_shift_keeps_a_finite_epsilon() -> None:
    """30 sigma apart: the probabilities under Q are below 1e-190, and still bounded away from 0."""
    assert float(PrivacyLoss.gaussian(variance=1, shift=30).epsilon(1e-6)) == pytest.approx(599, abs=1)


@pytest.mark.parametrize(
    "door",
    [
        lambda: PrivacyLoss.laplace(scale=0),
        lambda: PrivacyLoss.laplace(scale=1, shift=0),
        lambda: PrivacyLoss.laplace(scale=1, shift=1.5),
        lambda: PrivacyLoss.laplace(scale=1, shift=10**9),
        lambda: PrivacyLoss.gaussian(variance=-1),
        lambda: PrivacyLoss.gaussian(variance=10**12),
        lambda: PrivacyLoss.gaussian(variance=1, shift=-1),
        lambda: PrivacyLoss.worst(epsilon=-1),
        lambda: PrivacyLoss.worst(epsilon=1, delta=1),
        lambda: PrivacyLoss([1], [Fraction(1, 2)]),
        lambda: PrivacyLoss([1], [1]).renyi(1),
        lambda: PrivacyLoss([1], [1]).delta(-1),
        lambda: PrivacyLoss([1], [1]).epsilon(1),
        lambda: PrivacyLoss([1], [1]).tail(math.nan),
        lambda: PrivacyLoss([1], [1]).bound(-1),
    ],
)
def test_bad_parameters_are_refused(door: object) -> None:
    """threat:A26."""
    with pytest.raises(Misconfigured):
        door()  # type: ignore[operator]


def test_losses_are_values() -> None:
    loss = PrivacyLoss.laplace(scale=2)
    assert loss == PrivacyLoss.laplace(scale=2) != PrivacyLoss.laplace(scale=3)
    assert len({loss, PrivacyLoss.laplace(scale=2), loss.reversed}) == 2
    with pytest.raises(AttributeError):
        loss.pairs = ()  # type: ignore[misc]
    assert tightest_epsilon([1], [1]) == 0


def test_the_gaussian_of_the_picture_exceeds_epsilon_five_times_as_often_as_delta_says() -> None:
    """lecture:L4: rho = 1/8, as docs/lectures.md says: (1, 0.007)-DP, and a loss above 1 with probability 0.035."""
    loss = PrivacyLoss.gaussian(variance=64, shift=4)
    assert float(loss.delta(1)) == pytest.approx(0.007, abs=5e-4)
    assert float(loss.tail(1)) == pytest.approx(0.035, abs=5e-4)


def test_a_privacy_loss_prints_as_people_read() -> None:
    """lecture:L4"""
    assert str(PrivacyLoss.laplace(scale=1)) == (
        "Privacy loss of 2 outcomes: epsilon is about 1 at delta = 0 and about 1 at delta = 1e-6; "
        "delta is about 0.4621 at epsilon = 0."
    )
    assert "epsilon is infinite at delta = 0 and about 2.276 at" in str(PrivacyLoss.gaussian(variance=4))
