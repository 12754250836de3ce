"""lapwing.lab.audit.Wealth: stopping at the first rejection stays valid."""

from __future__ import annotations

from typing import Any

import pytest

from lapwing.lab import Claim, audit
from lapwing.lab.audit import Wealth
from lapwing.lab.zoo import add_noise

pytestmark = pytest.mark.usefixtures("seeded")


def stopped(mechanism: Any, runs: int, alpha: float = 1e-3) -> Any:
    return audit(mechanism, (0, 1), epsilon=1, runs=runs, alpha=alpha, many=True, early=True)


@pytest.mark.parametrize(("audits", "most"), [(60, 9), pytest.param(500, 41, marks=pytest.mark.slow)])
def test_stopping_early_seldom_rejects_a_true_claim(audits: int, most: int) -> None:
    """A claim that holds with equality, at alpha = 0.05: the 99.9 % bound of Binomial(audits, 0.05)."""
    assert sum(stopped(add_noise(1), 4_000, alpha=0.05).rejected for _ in range(audits)) <= most


def test_stopping_early_catches_twenty_percent_too_little_noise() -> None:
    found = stopped(add_noise(1 / 1.2), 30_000)
    assert found.rejected
    assert found.runs < 30_000
    assert str(found).startswith(f"Rejected after {found.runs:,} runs")


def test_an_audit_that_rejects_nothing_says_so() -> None:
    found = stopped(add_noise(1), 2_000)
    assert "No violation of epsilon = 1 found at N = 2,000" in str(found)
    assert not found.to_dict()["rejected"]


def test_nothing_is_bet_on_the_first_batch() -> None:
    wealth = Wealth(Claim.dp(1), 0.05)
    wealth.play([0] * 250, [1] * 250, 250)
    assert wealth.mean == 1
    wealth.play([0] * 500, [1] * 500, 250)
    assert wealth.rejects


@pytest.mark.parametrize("runs", [1, 250, 251, 10_000])
def test_batches_add_up(runs: int) -> None:
    sizes = list(Wealth(Claim.dp(1), 0.05).batches(runs))
    assert sum(sizes) == runs
    assert sizes[:2] == [250, 250][: len(sizes)] or runs < 500


def test_wealth_stays_nonnegative_and_fair() -> None:
    """By the exact expectation: over all four outcomes of a pair at the boundary, a bet gains nothing on average."""
    import math

    import numpy as np

    from lapwing.lab.audit import _stake

    for epsilon, delta, rare in ((1.0, 0.0, 0.2), (0.5, 0.1, 0.3), (2.0, 0.01, 0.05)):
        likely, factor = math.exp(epsilon) * rare + delta, math.exp(epsilon)
        stake = _stake(0.9, 0.05, 1_000, (epsilon, delta))
        outcomes = [(a, b) for a in (0, 1) for b in (0, 1)]
        chances = [(likely if a else 1 - likely) * (rare if b else 1 - rare) for a, b in outcomes]
        factors = [1 + stake * (a - factor * b - delta) for a, b in outcomes]
        assert min(factors) > 0
        assert float(np.dot(chances, factors)) == pytest.approx(1)
