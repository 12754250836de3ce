"""Numbers in a range: how many points, how far the mean errs, and what its interval covers."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from lapwing.collect.probabilities import spread
from lapwing.errors import Misconfigured
from lapwing.survey.numeric import Numeric, best_points, fieller, worst_variance
from lapwing.survey.program import run
from support.surveys import simulated
from support.tape import SeededBits

LEVEL = Fraction(95, 100)


def asked(epsilon: str = "1", points: int | None = None, **more: Any) -> Numeric:
    given = {"high": Fraction(80)} | more
    return Numeric(id="q", text="?", epsilon=Fraction(epsilon), declared_points=points, unit="h", **given)


def test_a_small_epsilon_takes_two_points_and_a_large_one_more() -> None:
    chosen = [best_points(Fraction(epsilon)) for epsilon in ("0.1", "1", "2", "4", "8")]
    assert chosen[:2] == [2, 2]
    assert chosen == sorted(chosen)
    assert chosen[-1] > 4
    for epsilon in ("0.5", "2", "5"):
        coins = {points: worst_variance(spread(Fraction(epsilon), points + 1), points) for points in range(2, 12)}
        assert min(coins, key=coins.__getitem__) == best_points(Fraction(epsilon))


@pytest.mark.parametrize("points", [2, 3, 5])
def test_the_worst_variance_is_that_of_the_law(points: int) -> None:
    """Every word of 7 bits: the variance of what a report adds, at every number, is largest where it is said to be."""
    width, steps = 7, 8
    coin = spread(Fraction(2), points + 1, width=width)
    question = asked("2", points, high=Fraction(steps))
    facts = question.program(width).to_dict()
    grid = np.append(np.linspace(-1, 1, points), 0.0) / float(coin.p - coin.q)
    found = []
    for answer in range(steps + 1):
        places = [run(facts, answer, words, width=width) for words in product(range(1 << width), repeat=2)]
        added = grid[places]
        assert added.mean() == pytest.approx(2 * answer / steps - 1, abs=0.05)  # words of 7 bits round coarsely
        found.append(added.var())
    assert max(found) <= worst_variance(coin, points) * 1.03
    assert max(found) >= worst_variance(coin, points) * 0.9


@pytest.mark.parametrize(("epsilon", "points"), [("1", None), ("2", None), ("1", 5)])
def test_intervals_cover_the_mean_of_those_who_answered(epsilon: str, points: int | None) -> None:
    """600 respondents of whom a fifth do not answer, 150 surveys."""
    question, bits = asked(epsilon, points), SeededBits(23)
    numbers = [10, 20, 38, 40, 45, 60, 80, 0] * 60
    answers: list[int | None] = [*numbers, *[None] * 120]
    truth, inside, means = float(np.mean(numbers)), 0, []
    shares = np.bincount([round(number / 20) for number in numbers], minlength=5)
    for _ in range(150):
        found = question.estimate(simulated(question, answers, bits), LEVEL)
        assert found.mean is not None
        inside += found.mean.low <= truth <= found.mean.high
        means.append(found.mean.mean)
        assert 0 <= found.mean.low <= found.mean.high <= 80
    assert inside >= 0.91 * 150
    assert abs(np.mean(means) - truth) < 4 * np.std(means) / np.sqrt(150) + 0.5  # a ratio of estimates
    assert shares.sum() == len(numbers)


def test_a_survey_that_nobody_answers_excludes_no_mean() -> None:
    question = asked()
    found = question.estimate(simulated(question, [None] * 300, SeededBits(4)), LEVEL)
    assert found.mean is not None
    assert (found.mean.low, found.mean.high) == (0.0, 80.0)


def test_one_report_excludes_no_mean() -> None:
    question = asked()
    for place in range(3):
        found = question.estimate(np.array([[place]], np.uint8), LEVEL)
        assert found.mean is not None
        assert (found.mean.low, found.mean.high) == (0.0, 80.0)


def test_fieller_is_the_ratio_with_its_reach() -> None:
    low, high = fieller(0.2, 0.8, np.array([[1e-6, 0.0], [0.0, 1e-12]]), 2.0)
    assert (low, high) == pytest.approx((0.2475, 0.2525), abs=1e-6)
    assert fieller(0.2, 0.001, np.eye(2) * 0.01, 2.0) == (-1.0, 1.0)


def test_a_scale_with_a_point_for_each_number_is_not_rounded() -> None:
    question = asked(points=11, high=Fraction(10))
    facts = question.program().to_dict()
    for answer, word in product(range(11), (0, 2**63, 2**64 - 1)):
        assert run(facts, answer, (word, 0)) == answer
    assert question.labels == tuple(map(str, range(11)))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"low": Fraction(5), "high": Fraction(5)}, "range"),
        ({"step": Fraction(3)}, "step"),
        ({"step": Fraction(-1)}, "step"),
        ({"step": Fraction(1, 10**6)}, "larger"),
        ({"points": 1}, "points"),
        ({"points": 82}, "points"),
        ({"points": 4, "high": Fraction(2)}, "points"),
    ],
)
def test_ranges_that_cannot_be_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(Misconfigured, match=said):
        asked(**given)
