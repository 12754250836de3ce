"""lapwing.privacy.posterior."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lapwing.errors import Misconfigured
from lapwing.mechanisms.choice.response import RandomizedResponse
from lapwing.privacy.posterior import Belief, posterior

beliefs = st.fractions(Fraction(1, 10**6), 1 - Fraction(1, 10**6))
sizes = st.fractions(0, 20, max_denominator=1000)


@given(beliefs, sizes)
def test_odds_move_by_at_most_the_factor(prior: Fraction, epsilon: Fraction) -> None:
    """lecture:L7 prior and posterior odds of a statement about neighbours differ by at most e^eps."""
    belief = posterior(prior, epsilon)
    assert belief.low <= prior <= belief.high
    assert belief.outside == 0
    for end, sign in ((belief.low, -1), (belief.high, 1)):
        change = math.log(end / (1 - end)) - math.log(prior / (1 - prior))
        assert change == pytest.approx(sign * float(epsilon), abs=1e-7)


@pytest.mark.parametrize(("epsilon", "high"), [(0.1, 0.525), (1, 0.7311), (math.log(3), 0.75), (5, 0.9933)])
def test_even_odds_become_known_figures(epsilon: float, high: float) -> None:
    """lecture:L7"""
    assert float(posterior(0.5, epsilon).high) == pytest.approx(high, abs=1e-4)


def test_bound_is_reached_by_two_coins() -> None:
    """lecture:L7 lecture:L10 Bayes' rule after one answer of randomized response, exactly."""
    coins = RandomizedResponse.two_coins()
    (yes_if_no, _), (yes_if_yes, _) = coins.law()[0][1], coins.law()[1][1]
    for prior in (Fraction(1, 100), Fraction(1, 2), Fraction(9, 10)):
        after = prior * yes_if_yes / (prior * yes_if_yes + (1 - prior) * yes_if_no)
        belief = posterior(prior, coins.epsilon)
        assert belief.low < after <= belief.high
        assert belief.high - after < Fraction(1, 10**17)


@given(beliefs, sizes, sizes)
def test_two_answers_move_it_as_far_as_their_sum(prior: Fraction, first: Fraction, second: Fraction) -> None:
    """lecture:L7 lecture:L30"""
    once = posterior(prior, first).high
    assume(once < 1)
    both = posterior(prior, first + second).high
    assert once <= both
    assert abs(posterior(once, second).high - both) < Fraction(1, 10**24)


@given(st.lists(st.integers(1, 50), min_size=3, max_size=3), st.lists(st.integers(1, 50), min_size=3, max_size=3))
def test_delta_bounds_the_chance_to_leave_the_interval(a: list[int], b: list[int]) -> None:
    """lecture:L7 for any two laws P and Q: at their exact delta, both truths, the promised share stays inside."""
    p, q = ([Fraction(w, sum(weights)) for w in weights] for weights in (a, b))
    epsilon, prior = Fraction(1, 5), Fraction(1, 3)
    factor = Fraction(math.exp(float(epsilon))) * (1 - Fraction(1, 10**9))  # a little low: delta a little high
    delta = max(sum(max(x - factor * y, 0) for x, y in zip(*pair, strict=True)) for pair in ((p, q), (q, p)))
    assume(0 < delta < 1)
    for slack in (0.1, 0.5):
        belief = posterior(prior, epsilon, delta, slack=slack)
        after = [prior * x / (prior * x + (1 - prior) * y) for x, y in zip(p, q, strict=True)]
        left = [not belief.low <= value <= belief.high for value in after]
        for law in (p, q):
            assert sum(mass for mass, out in zip(law, left, strict=True) if out) <= belief.outside


def test_more_slack_makes_leaving_rarer() -> None:
    tight, loose = posterior(0.5, 1, 1e-6, slack=0.01), posterior(0.5, 1, 1e-6, slack=1)
    assert tight.high < loose.high
    assert float(tight.outside) == pytest.approx(1e-6 / (1 - math.exp(-0.01)) + 1e-6 / math.e / math.expm1(0.01))
    assert loose.outside < tight.outside < 2e-4
    assert posterior(0.5, 1, 0.5, slack=0.01).outside == 1


def test_nothing_is_learned_at_epsilon_zero_or_by_the_certain() -> None:
    """lecture:L8"""
    assert posterior(0.3, 0) == Belief(Fraction(3, 10), Fraction(3, 10), Fraction(3, 10), Fraction(0))
    for certain in (0, 1):
        assert posterior(certain, 5, 0.1) == Belief(
            Fraction(certain), Fraction(certain), Fraction(certain), Fraction(0)
        )


def test_belief_reads_as_a_sentence() -> None:
    """lecture:L7"""
    assert str(posterior(0.5, 1)) == ("A belief of 50% becomes 26.89% to 73.11%, whatever the answer.")
    assert str(posterior(0.01, 0.1)).startswith("A belief of 1% becomes 0.9056% to 1.105%")
    assert str(posterior(0.5, 1, 1e-6)).endswith("except with probability 1.401e-5.")
    assert "99.9999997939%" in str(posterior(0.5, 20))
    assert "becomes 0% to 0%" in str(posterior(0, 1))


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((-0.1, 1), "prior"),
        ((1.5, 1), "prior"),
        ((0.5, -1), "epsilon"),
        ((0.5, 1, 1), "delta"),
        ((0.5, 1e6), "epsilon"),
    ],
)
def test_bad_parameters_are_refused(arguments: tuple[float, ...], name: str) -> None:
    with pytest.raises(Misconfigured, match=f"`{name}` is"):
        posterior(*arguments)  # type: ignore[misc]
    with pytest.raises(Misconfigured, match="`slack` is 0"):
        posterior(0.5, 1, 0.1, slack=0)
