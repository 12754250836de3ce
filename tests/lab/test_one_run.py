"""lapwing.lab.audit."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import lapwing as lw
from lapwing.arrays import Flags
from lapwing.errors import Misconfigured
from lapwing.lab.audit import audit_groups, audit_one_run

pytestmark = pytest.mark.usefixtures("seeded")


def test_one_run_catches_twenty_percent_too_little_noise() -> None:
    less = lw.Laplace(epsilon=1.2)
    assert audit_one_run(lambda present: less(present.astype(np.int64)), 10_000, epsilon=1).rejected


def test_one_run_seldom_rejects_a_true_claim() -> None:
    noise = lw.Laplace(epsilon=1)
    found = [audit_one_run(lambda x: noise(x.astype(np.int64)), 1_000, epsilon=1, alpha=0.05) for _ in range(300)]
    assert sum(audit.rejected for audit in found) <= 15


def test_one_run_needs_no_independence() -> None:
    """One draw of noise for all canaries: their answers are equal up to what each adds, and the bound holds."""
    noise = lw.Laplace(epsilon=1, sensitivity=1)

    def count(present: Flags) -> Flags:
        return np.full(len(present), noise(int(present.sum())))

    found = [audit_one_run(count, 100, epsilon=1, alpha=0.05) for _ in range(200)]
    assert sum(audit.rejected for audit in found) <= 10


def test_right_guesses_never_beat_the_binomial() -> None:
    """The theorem, exactly: all coins of three canaries under randomized response, guessed by their own answer."""
    p = Fraction(3, 4)  # e^epsilon = 3
    law = dict.fromkeys(range(4), Fraction(0))
    for coins, kept in product(product((0, 1), repeat=3), product((True, False), repeat=3)):
        answers = [coin if keep else 1 - coin for coin, keep in zip(coins, kept, strict=True)]
        chance = Fraction(1, 8) * math.prod(p if keep else 1 - p for keep in kept)
        law[sum(a == c for a, c in zip(answers, coins, strict=True))] += chance
    for v in range(4):
        binomial = sum(math.comb(3, k) * p**k * (1 - p) ** (3 - k) for k in range(v, 4))
        assert sum(law[k] for k in range(v, 4)) <= binomial


@pytest.mark.parametrize("aggregate", ["COUNT(*)", "SUM(value)"])
def test_one_question_over_many_groups_audits_the_curator(aggregate: str) -> None:
    found = audit_groups(aggregate, epsilon=1, groups=2_000)
    assert not found.rejected
    assert 0.4 < found.epsilon_lower < 1
    assert "No violation of epsilon = 1 found with 2,000 canaries in one run" in str(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    "aggregate",
    [
        "COUNT(DISTINCT person)",
        "AVG(value)",
        "MEDIAN(value)",
        "VAR_SAMP(value)",
        "COUNT(DISTINCT value)",
        "SUM(CASE WHEN value > 5 THEN value ELSE 0 END)",
        "SUM(value * value) / COUNT(*)",
        "COUNT(*) FILTER (WHERE value > 5)",
    ],
)
@pytest.mark.parametrize("epsilon", [0.5, 2])
def test_a_grid_of_aggregates_keeps_its_claim(aggregate: str, epsilon: float) -> None:
    assert not audit_groups(aggregate, epsilon=epsilon, groups=5_000).rejected


def test_a_mechanism_must_score_every_canary() -> None:
    with pytest.raises(Misconfigured, match="one for each of 100"):
        audit_one_run(lambda _: [1.0], 100, epsilon=1)
