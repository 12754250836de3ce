"""The conversions between zCDP and (epsilon, delta): true, tight, and rounded in the right direction."""

from __future__ import annotations

from fractions import Fraction
from math import comb, log, sqrt

import pytest
from flint import arb

from lapwing.errors import LapwingError, Misconfigured, Refused
from lapwing.numbers import ball, enclose
from lapwing.privacy import Pure, delta_of_rho, epsilon_of_rho, group_delta, rho_of_epsilon

BITS = 400
TINY = Fraction(1, 10**12)
EPSILONS = [Fraction(text) for text in ("0.01", "0.03", "0.1", "0.3", "1", "3", "8", "20", "50")]
DELTAS = [Fraction(1, 10**k) for k in (2, 4, 6, 9, 12)]
RHOS = [Fraction(text) for text in ("1e-9", "1e-6", "0.001", "0.01", "0.1", "1", "10", "1000")]


def gaussian_delta(epsilon: Fraction, rho: Fraction) -> Fraction:
    """An upper bound, equal to 60 digits, on the smallest delta of continuous Gaussian noise that is rho-zCDP.

    With mu = sqrt(2 rho) it is Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu).
    """

    def formula() -> arb:
        mu, root = (2 * ball(rho)).sqrt(), arb(2).sqrt()
        near, far = ball(epsilon) / mu - mu / 2, ball(epsilon) / mu + mu / 2
        return ((near / root).erfc() - ball(epsilon).exp() * (far / root).erfc()) / 2

    return enclose(formula, bits=1000)[1]


def epsilon_at(order: Fraction, rho: Fraction, delta: Fraction) -> tuple[Fraction, Fraction]:
    """The formula of the conversion at one order, written as in the paper."""

    def formula() -> arb:
        a = ball(order)
        return a * ball(rho) + (1 - 1 / a).log() - (ball(delta).log() + a.log()) / (a - 1)

    return enclose(formula, bits=BITS)


def best_epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    """The infimum over all orders, to about 40 digits, by ternary search in exact orders: an oracle of its own."""
    low, high = 1 + Fraction(1, 10**6), Fraction(10**6)
    for _ in range(160):
        first, second = (2 * low + high) / 3, (low + 2 * high) / 3
        if epsilon_at(first, rho, delta)[0] < epsilon_at(second, rho, delta)[0]:
            high = second
        else:
            low = first
    return epsilon_at(low, rho, delta)[0]


@pytest.mark.parametrize("delta", DELTAS, ids=str)
@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_gaussian_noise_at_the_converted_rho_keeps_the_stated_delta(epsilon: Fraction, delta: Fraction) -> None:
    """gate:G09: the true delta never exceeds the stated one, over the whole grid."""
    assert gaussian_delta(epsilon, rho_of_epsilon(epsilon, delta)) <= delta


@pytest.mark.parametrize("delta", DELTAS, ids=str)
@pytest.mark.parametrize("rho", RHOS, ids=str)
def test_gaussian_noise_keeps_the_converted_epsilon_and_delta(rho: Fraction, delta: Fraction) -> None:
    """gate:G09, in the other two directions."""
    epsilon = epsilon_of_rho(rho, delta)
    assert gaussian_delta(epsilon, rho) <= delta
    assert gaussian_delta(epsilon, rho) <= delta_of_rho(rho, epsilon)


@pytest.mark.parametrize("delta", [Fraction(1, 100), Fraction(1, 10**6)], ids=str)
@pytest.mark.parametrize("rho", [Fraction(1, 1000), Fraction(1, 10), Fraction(10)], ids=str)
def test_epsilon_is_above_the_infimum_by_less_than_its_rounding(rho: Fraction, delta: Fraction) -> None:
    """gate:G09: against a search of its own at 400 bits."""
    true = best_epsilon(rho, delta)
    assert true < epsilon_of_rho(rho, delta) < true * (1 + Fraction(1, 10**20))


@pytest.mark.parametrize("delta", DELTAS, ids=str)
@pytest.mark.parametrize("rho", RHOS, ids=str)
def test_no_order_gives_a_smaller_epsilon(rho: Fraction, delta: Fraction) -> None:
    stated = epsilon_of_rho(rho, delta)
    orders = [1 + Fraction(10) ** k * m / 4 for k in range(-4, 9) for m in (4, 9, 18, 30)]
    assert all(max(epsilon_at(order, rho, delta)[1], 0) >= stated * (1 - TINY) for order in orders)


@pytest.mark.parametrize("delta", [*DELTAS, Fraction(9, 10), Fraction(1, 10**40)], ids=str)
@pytest.mark.parametrize(
    "epsilon", [Fraction(0), Fraction(1, 10**9), Fraction(2, 97), Fraction(5, 97), *EPSILONS, Fraction(10**6)], ids=str
)
def test_rho_is_as_large_as_its_epsilon_allows(epsilon: Fraction, delta: Fraction) -> None:
    rho = rho_of_epsilon(epsilon, delta)
    assert epsilon_of_rho(rho, delta) <= epsilon < epsilon_of_rho(rho * (1 + TINY), delta)


@pytest.mark.parametrize("rho", RHOS, ids=str)
def test_delta_and_epsilon_are_inverse(rho: Fraction) -> None:
    for epsilon in EPSILONS:
        delta = delta_of_rho(rho, epsilon)
        if Fraction(1, 10**300) < delta < Fraction(1, 10):
            assert epsilon_of_rho(rho, delta) == pytest.approx(float(epsilon), rel=1e-12)


@pytest.mark.parametrize(
    ("rho", "percent"), [("0.001", 29), ("0.01", 21), ("0.1", 14), ("1", 9)], ids=lambda value: str(value)
)
def test_the_loose_formula_is_larger_by_the_known_percentages(rho: str, percent: int) -> None:
    """rho + 2 sqrt(rho ln(1/delta)) against ours at delta = 1e-6."""
    loose = float(rho) + 2 * sqrt(float(rho) * log(1e6))
    assert round(100 * (loose / float(epsilon_of_rho(Fraction(rho), 1e-6)) - 1)) == percent


@pytest.mark.parametrize(
    ("epsilon", "delta", "sigma"), [(0.1, 1e-6, "39.5"), (1, 1e-6, "4.53"), (4, 1e-6, "1.27"), (1, 1e-9, "5.78")]
)
def test_sigma_by_zcdp_has_the_known_values(epsilon: float, delta: float, sigma: str) -> None:
    assert f"{sqrt(1 / (2 * rho_of_epsilon(epsilon, delta))):.3g}" == sigma


def test_forgetting_rho_in_the_formula_would_break_the_promise() -> None:
    """A known-wrong formula: epsilon = 2 sqrt(rho ln(1/delta)) at rho = 2 has a true delta of 3.1e-6, not 1e-6."""
    wrong = Fraction(2 * sqrt(2 * log(1e6)))
    assert float(gaussian_delta(wrong, Fraction(2))) == pytest.approx(3.1e-6, rel=0.02)
    assert epsilon_of_rho(2, 1e-6) > wrong


@pytest.mark.parametrize(("rho", "factor"), [(Fraction(1, 2), 140), (Fraction(2), 1300)])
def test_the_root_two_formula_would_break_the_promise(rho: Fraction, factor: int) -> None:
    """A known-wrong formula: epsilon = sqrt(2 rho ln(1/delta)) is off by a factor 140 and more."""
    wrong = Fraction(sqrt(2 * rho * log(1e6)))
    assert float(gaussian_delta(wrong, rho)) == pytest.approx(factor * 1e-6, rel=0.05)
    assert epsilon_of_rho(rho, 1e-6) > wrong


@pytest.mark.parametrize(
    ("each", "times", "figure"), [("0.1", 10, "1"), ("0.1", 100, "5.22"), ("0.1", 1000, "20.6"), ("0.5", 100, "37.4")]
)
def test_many_small_releases_cost_less_than_their_sum(each: str, times: int, figure: str) -> None:
    """lecture:L30: tighter composition for many queries, at delta = 1e-6."""
    together = (Pure(Fraction(each)) * times).to_approximate(1e-6)
    assert f"{float(together.epsilon):.3g}" == figure


@pytest.mark.parametrize(("each", "times"), [("0.1", 100), ("0.5", 40), ("1", 10)])
def test_composed_coin_flips_keep_the_stated_delta(each: str, times: int) -> None:
    """Randomized response composed k times has a known exact delta; it stays below the stated one."""
    step = Fraction(each)
    for delta in DELTAS:
        epsilon = (Pure(step) * times).to_approximate(delta).epsilon

        def exact_delta(target: Fraction = epsilon) -> arb:
            likely = 1 / (1 + (-ball(step)).exp())
            terms = [
                comb(times, k) * (likely ** (times - k) * (1 - likely) ** k)
                - ball(target).exp() * comb(times, k) * (likely**k * (1 - likely) ** (times - k))
                for k in range(times + 1)
                if (times - 2 * k) * step > target
            ]
            return sum(terms, arb(0))

        assert enclose(exact_delta, bits=BITS)[1] <= delta


def test_group_delta_is_the_geometric_sum() -> None:
    """lecture:L33: for a group of 3 at epsilon = 1 the factor is 1 + e + e^2 = 11.107, not 3."""
    delta = group_delta(1, 1e-6, 3)
    low, high = enclose(lambda: (1 + arb(1).exp() + arb(2).exp()) / 10**6, bits=BITS)
    assert high <= delta < low * (1 + Fraction(1, 10**20))


def test_group_delta_never_exceeds_the_textbook_bound() -> None:
    for k in range(1, 12):
        _, textbook = enclose(lambda k=k: k * ((k - 1) * ball(Fraction(1, 2))).exp() / 10**9)
        assert k * Fraction(1, 10**9) <= group_delta(0.5, 1e-9, k) <= textbook


def test_group_delta_of_epsilon_zero_is_a_multiple() -> None:
    assert group_delta(0, 1e-6, 7) == Fraction(7, 10**6)
    assert group_delta(3, 0, 7) == 0
    assert group_delta(3, 0.2, 1) == Fraction(1, 5)


@pytest.mark.parametrize(
    ("epsilon", "delta", "size"), [(1, 1e-6, 15), (0, 0.1, 10), (1000, 1e-6, 2), (1, 1e-9, 10**9), (10**30, 1e-300, 9)]
)
def test_a_group_delta_that_reaches_one_is_refused(epsilon: float, delta: float, size: int) -> None:
    with pytest.raises(Refused, match="reaches 1"):
        group_delta(epsilon, delta, size)


def test_no_loss_stays_no_loss() -> None:
    assert epsilon_of_rho(0, 1e-6) == delta_of_rho(0, 0) == 0


def test_a_useless_delta_is_stated_as_one() -> None:
    assert delta_of_rho(1000, 0) == 1


def test_an_absurdly_small_delta_is_stated_as_a_larger_one() -> None:
    assert 0 < delta_of_rho(Fraction(1, 10**9), 10**9) < Fraction(1, 10**800)


@pytest.mark.parametrize("delta", [Fraction(1, 10**320), Fraction(1, 10**1000), Fraction(999, 1000)], ids=float)
@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(1, 10**320), Fraction(10) ** 400], ids=lambda e: "")
def test_extreme_numbers_neither_fail_nor_promise_too_much(epsilon: Fraction, delta: Fraction) -> None:
    rho = rho_of_epsilon(epsilon, delta)
    assert rho >= 0
    assert epsilon_of_rho(rho, delta) <= epsilon


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1, -1e-9, True, "1", None, 1j, [1]], ids=str)
def test_what_is_no_amount_is_refused_at_every_door(bad: object) -> None:
    """threat:A26."""
    doors = [
        lambda: epsilon_of_rho(bad, 1e-6),
        lambda: epsilon_of_rho(1, bad),
        lambda: delta_of_rho(bad, 1),
        lambda: delta_of_rho(1, bad),
        lambda: rho_of_epsilon(bad, 1e-6),
        lambda: rho_of_epsilon(1, bad),
        lambda: group_delta(bad, 1e-6, 2),
        lambda: group_delta(1, bad, 2),
        lambda: group_delta(1, 1e-6, bad),
    ]
    for door in doors:
        with pytest.raises(LapwingError):
            door()


@pytest.mark.parametrize("delta", [0, 1, 2])
def test_a_conversion_needs_a_delta_strictly_between_zero_and_one(delta: int) -> None:
    """threat:A26."""
    for door in (epsilon_of_rho, rho_of_epsilon):
        with pytest.raises(Misconfigured, match="delta"):
            door(1, delta)


def test_a_truth_value_is_refused_after_its_number_was_accepted() -> None:
    """threat:A26: a cache must not let True in because it equals 1."""
    assert epsilon_of_rho(1, 1e-6) > 0
    with pytest.raises(Misconfigured, match="truth value"):
        epsilon_of_rho(True, 1e-6)
