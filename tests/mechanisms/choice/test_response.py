"""lapwing.mechanisms.choice.response."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

from lapwing.errors import Misconfigured
from lapwing.mechanisms.choice.response import RandomizedResponse, Share
from lapwing.noise import sample_coins
from lapwing.numbers import ball, enclose
from lapwing.privacy.loss import Pure
from lapwing.privacy.neighbours import Neighbours
from support.audit import assert_caught, assert_private
from support.chi import assert_fits, assert_misfits, finite
from support.law import assert_law, exact_law

LETTERS = ("a", "b", "c", "d")
MADE = [
    RandomizedResponse.two_coins(),
    RandomizedResponse(epsilon=1),
    RandomizedResponse(epsilon=0.1, answers=LETTERS),
    RandomizedResponse(epsilon=3, answers=range(10)),
]
EACH = pytest.mark.parametrize("response", MADE, ids=["two coins", "eps 1", "4 answers", "10 answers"])


def counts_of(response: RandomizedResponse, holders: int, n: int) -> np.ndarray[Any, Any]:
    """The law of the number of "yes" if `holders` of n people hold it: a sum of two binomials."""
    p, q = response.probabilities()[0, :2]
    return np.convolve(binom.pmf(range(holders + 1), holders, p), binom.pmf(range(n - holders + 1), n - holders, q))


def shares_of(response: RandomizedResponse, n: int, confidence: float = 0.95) -> list[Share]:
    """The estimate for every possible number of "yes" among n answers."""
    yes, no = response.answers[:2]
    return [response.estimate([yes] * y + [no] * (n - y), confidence)[yes] for y in range(n + 1)]


def test_two_coins_have_the_figures_of_the_lecture() -> None:
    """lecture:L10 P[yes given yes] = 3/4, P[yes given no] = 1/4, eps = ln 3."""
    response = RandomizedResponse.two_coins(answers=["no", "yes"])
    quarter, three = Fraction(1, 4), Fraction(3, 4)
    assert response.law() == (((three, three), (quarter, quarter)), ((quarter, quarter), (three, three)))
    assert response.probabilities().tolist() == [[0.75, 0.25], [0.25, 0.75]]
    low, high = enclose(lambda: ball(3).log())
    assert high <= response.loss.epsilon <= low + Fraction(2, 10**18)


@pytest.mark.parametrize("share", [Fraction(0), Fraction(1, 10), Fraction(1, 2), Fraction(1)])
def test_two_coins_expect_a_quarter_plus_half_the_share(share: Fraction) -> None:
    """lecture:L10 E[yes] = 1/4 + p/2, so p = 2 E[yes] - 1/2."""
    (_, no_yes), (_, yes_yes) = RandomizedResponse.two_coins().law()
    expected = share * yes_yes[0] + (1 - share) * no_yes[0]
    assert expected == Fraction(1, 4) + share / 2
    assert 2 * expected - Fraction(1, 2) == share


@EACH
def test_every_answer_has_a_ratio_of_at_most_e_to_epsilon(response: RandomizedResponse) -> None:
    """lecture:L10 any eps by a biased coin, k answers: all pairs of truths, all answers, with proven bounds."""
    most = enclose(lambda: ball(response.epsilon).exp())[1] * (1 + Fraction(1, 10**30))
    rows = response.law()
    ratios = [a[0] / b[1] for row in rows for other in rows for a, b in zip(row, other, strict=True)]
    assert max(ratios) <= most
    assert max(ratios) >= most * (1 - Fraction(1, 10**15))


@EACH
def test_law_is_a_matrix_of_probabilities(response: RandomizedResponse) -> None:
    """lecture:L2 a finite mechanism exposes its exact output probabilities."""
    k = len(response.answers)
    assert response.probabilities().shape == (k, k)
    for i, row in enumerate(response.law()):
        assert sum(low for low, _ in row) <= 1 <= sum(high for _, high in row)
        assert all(high - low <= low / 10**30 for low, high in row)
        assert response.probabilities()[i] == pytest.approx([float(low) for low, _ in row], rel=1e-14)
        assert row[i][0] > max(high for j, (_, high) in enumerate(row) if j != i)


@pytest.mark.parametrize("epsilon", [0.5, 2])
@pytest.mark.parametrize("k", [2, 5])
def test_coin_for_the_truth_is_exact(epsilon: float, k: int) -> None:
    """Every tape of 12 bits, in words of 4: e^eps / (e^eps + k - 1), to the last bit."""
    response = RandomizedResponse(epsilon=epsilon, answers=range(k))
    coin = exact_law(lambda bits: bool(sample_coins(response._bounds(), 1, bits=bits, width=4)[0]), 12)
    (truth, *_), *_ = response.law()
    assert_law(coin, lambda heads: truth if heads else (1 - truth[1], 1 - truth[0]))


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**30), Fraction(1, 7), 40, 10**6])
def test_bounds_hold_the_probability_at_every_precision(epsilon: Fraction) -> None:
    response = RandomizedResponse(epsilon=epsilon, answers=range(7))
    inner, outer = enclose(lambda: 1 / (1 + 6 * (-ball(response.epsilon)).exp()), bits=600)
    for precision in (1, 8, 64, 256):
        low, high = response._bounds()(precision)
        assert Fraction(low, 1 << precision) <= outer
        assert inner <= Fraction(high, 1 << precision)
        assert high - low <= 2


@pytest.mark.usefixtures("seeded")
@EACH
def test_answers_follow_the_law(response: RandomizedResponse) -> None:
    for place, truth in enumerate(response.answers[:3]):
        answers = response.respond([truth] * 50_000)
        draws = [response.answers.index(answer) for answer in answers]
        chances = response.probabilities()[place]
        assert_fits(draws, finite(chances))
        chances[0] *= 0.7
        assert_misfits(draws, finite(chances / chances.sum()))


@pytest.mark.usefixtures("seeded")
def test_auditor_accepts_it_and_catches_a_larger_epsilon() -> None:
    """lecture:L10"""
    no, yes = np.zeros(50_000, np.bool_), np.ones(50_000, np.bool_)
    claimed, broken = RandomizedResponse(epsilon=1), RandomizedResponse(epsilon=1.2)
    assert_private(claimed.respond(no), claimed.respond(yes), 1.0)
    assert_caught(broken.respond(no), broken.respond(yes), 1.0)


@pytest.mark.usefixtures("seeded")
def test_answers_come_back_as_the_truths_were_given() -> None:
    response = RandomizedResponse(epsilon=20, answers=LETTERS)
    assert response.respond("b") == "b"
    assert response.respond(["a", "d"]) == ["a", "d"]
    assert response.respond([]) == []
    array = response.respond(np.array([["a", "b"], ["c", "d"]]))
    assert array.tolist() == [["a", "b"], ["c", "d"]]
    assert array.dtype == np.dtype("<U1")
    arrow = response.respond(pa.array(["a", "c"]))
    assert isinstance(arrow, pa.Array)
    assert arrow.to_pylist() == ["a", "c"]
    assert response.respond(pa.chunked_array([["a"], ["b"]])).to_pylist() == ["a", "b"]


@pytest.mark.usefixtures("seeded")
def test_arrays_keep_the_type_of_the_answers() -> None:
    truths = np.array([True, False])
    assert RandomizedResponse(epsilon=20).respond(truths).dtype == np.bool_
    assert RandomizedResponse(epsilon=20, answers=[3, 5]).respond(np.array([5, 3])).tolist() == [5, 3]
    mixed = RandomizedResponse(epsilon=20, answers=[None, "yes", (1, 2)])
    assert mixed.respond(np.array([None, "yes"], object)).tolist() == [None, "yes"]
    assert mixed.respond((1, 2)) == (1, 2)
    assert RandomizedResponse(epsilon=20).respond(np.bool_(True)) is True
    assert RandomizedResponse(epsilon=20, answers=["no", "later"]).respond(np.array(["no"])).dtype == np.dtype("<U5")


@pytest.mark.parametrize(
    "truth", ["secret", ["a", "secret"], np.array(["secret"]), pa.array(["secret"]), None, {"secret"}]
)
def test_a_truth_that_is_no_answer_is_refused_without_showing_it(truth: object) -> None:
    response = RandomizedResponse(epsilon=1, answers=LETTERS)
    with pytest.raises(Misconfigured, match="not among the declared answers") as refusal:
        response.respond(truth)
    assert "secret" not in str(refusal.value)
    assert refusal.value.__suppress_context__


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1, 0, True, "1", None])
def test_epsilon_is_refused_with_its_rule(bad: Any) -> None:
    """threat:A26"""
    with pytest.raises(Misconfigured, match=r"`epsilon` is .*; it must"):
        RandomizedResponse(epsilon=bad)


@pytest.mark.parametrize(
    "bad", [[], ["a"], ["a", "a"], [0, False], "ab", {"a", "b"}, None, [[1], [2]], [math.nan, 1.0]]
)
def test_answers_must_be_different_and_at_least_two(bad: Any) -> None:
    with pytest.raises(Misconfigured, match=r"`answers` .*\. Pass"):
        RandomizedResponse(epsilon=1, answers=bad)


def test_two_coins_take_two_answers() -> None:
    with pytest.raises(Misconfigured, match="a coin has two sides"):
        RandomizedResponse.two_coins(answers=LETTERS)


def test_it_is_a_value() -> None:
    response = RandomizedResponse(epsilon=0.1, answers=["no", "yes"])
    assert response == RandomizedResponse(epsilon=Fraction(1, 10), answers=("no", "yes"))
    assert response != RandomizedResponse(epsilon=0.1)
    assert pickle.loads(pickle.dumps(response)) == response
    assert hash(response) == hash(pickle.loads(pickle.dumps(response)))
    assert response.loss == Pure(Fraction(1, 10))
    assert RandomizedResponse.neighbours is Neighbours.CHANGE_ONE


@EACH
@pytest.mark.parametrize("holders", [0, 3, 20])
def test_estimate_is_unbiased_with_the_stated_error(response: RandomizedResponse, holders: int) -> None:
    """lecture:L10 exact, by summing over every possible number of "yes" among 20 answers."""
    n = 20
    chances, shares = counts_of(response, holders, n), np.array([s.share for s in shares_of(response, n)])
    assert chances @ shares == pytest.approx(holders / n, abs=1e-9)
    p, q = response.probabilities()[0, :2]
    variance = (q * (1 - q) + holders / n * (p * (1 - p) - q * (1 - q))) / (n * (p - q) ** 2)
    assert chances @ (shares - holders / n) ** 2 == pytest.approx(variance, rel=1e-9)


@EACH
@pytest.mark.parametrize(("n", "confidence"), [(1, 0.95), (7, 0.9), (25, 0.95), (60, 0.99)])
def test_interval_covers_every_share(response: RandomizedResponse, n: int, confidence: float) -> None:
    """Exact coverage, for every number of holders among these people and for a sample of a population."""
    shares = shares_of(response, n, confidence)
    for holders in range(n + 1):
        covers = [s.low <= holders / n + 1e-12 and s.high >= holders / n - 1e-12 for s in shares]
        assert counts_of(response, holders, n) @ covers >= confidence
        p, q = response.probabilities()[0, :2]
        sampled = binom.pmf(range(n + 1), n, q + holders / n * (p - q))
        assert sampled @ covers >= confidence


def test_interval_is_not_wider_than_it_must_be() -> None:
    answers = [True] * 500 + [False] * 500
    share = RandomizedResponse(epsilon=1).estimate(answers)[True]
    assert share.share == pytest.approx(0.5)
    assert share.high - share.low < 4.2 * share.standard_error * 1.13


def test_estimate_counts_every_declared_answer() -> None:
    response = RandomizedResponse(epsilon=2, answers=LETTERS)
    found = response.estimate(np.array(["a"] * 6 + ["b"] * 4))
    assert list(found) == list(LETTERS)
    assert sum(s.share for s in found.values()) == pytest.approx(1)
    assert found["c"].share < 0
    assert all(0 <= s.low <= s.high <= 1 for s in found.values())
    assert found == response.estimate(pa.array(["b"] * 4 + ["a"] * 6)) == response.estimate(["a", "b"] * 4 + ["a"] * 2)


def test_estimate_stays_finite_for_the_smallest_epsilon() -> None:
    share = RandomizedResponse(epsilon=Fraction(1, 10**30)).estimate([True, False, False])[True]
    assert math.isfinite(share.share)
    assert (share.low, share.high) == (0, 1)


@pytest.mark.parametrize("answers", ["a", [], np.array([]), ["a", "secret"], None, 5])
def test_estimate_refuses_what_it_cannot_count(answers: object) -> None:
    with pytest.raises(Misconfigured, match=r"answer.*\. (Pass|Declare)") as refusal:
        RandomizedResponse(epsilon=1, answers=LETTERS).estimate(answers)
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize("bad", [0, 1, -1, math.nan, True, "a"])
def test_estimate_refuses_a_confidence_outside_the_unit_interval(bad: Any) -> None:
    with pytest.raises(Misconfigured, match="`confidence` is"):
        RandomizedResponse(epsilon=1).estimate([True], bad)


def test_an_estimate_reads_as_a_share_with_its_interval() -> None:
    """lecture:L10"""
    coins = RandomizedResponse.two_coins()
    assert str(coins.estimate([True] * 400 + [False] * 600)[True]) == "30.0%, between 23.9% and 36.2%"
