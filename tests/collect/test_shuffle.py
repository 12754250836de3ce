"""lapwing.collect.shuffle."""

from __future__ import annotations

import math
from typing import Any

import pytest
from mpmath import binomial, exp, mp, mpf

from lapwing.collect import central_epsilon
from lapwing.collect.shuffle import shuffled_delta
from lapwing.errors import Misconfigured


def exact_delta(epsilon: float, n: int, central: float) -> float:
    """The hockey-stick divergence of the two clones, outcome by outcome, with 50 digits."""
    with mp.workdps(50):
        keep, w, factor = exp(-mpf(epsilon)), 1 / (1 + exp(-mpf(epsilon))), exp(mpf(central))
        total = mpf(0)
        for c in range(n):
            clones = binomial(n - 1, c) * keep**c * (1 - keep) ** (n - 1 - c)
            for a in range(c + 2):
                with_, without = binomial(c, a - 1) if a else 0, binomial(c, a)
                p, q = w * with_ + (1 - w) * without, (1 - w) * with_ + w * without
                total += clones * max(mpf(0), p - factor * q) / mpf(2) ** c
        return float(total)


@pytest.mark.parametrize(
    ("epsilon", "n", "central"), [(1, 30, 0.3), (0.5, 40, 0.0), (3, 25, 1.5), (2, 2, 1.0), (1, 60, 0.7)]
)
def test_delta_is_that_of_the_clones(epsilon: float, n: int, central: float) -> None:
    exact = exact_delta(epsilon, n, central)
    assert exact <= shuffled_delta(epsilon, n, central) <= exact * (1 + 1e-9) + 1e-300


PUBLISHED = [(10_000, 0.5, 0.020), (10_000, 1, 0.053), (10_000, 2, 0.155), (10_000, 3, 0.321), (1_000, 1, 0.182)]


@pytest.mark.parametrize(("n", "epsilon", "central"), PUBLISHED)
def test_the_bound_is_that_of_the_published_tables(n: int, epsilon: float, central: float) -> None:
    """[FMT21] at delta = 1e-6."""
    assert central_epsilon(epsilon, n, delta=1e-6) == pytest.approx(central, abs=6e-4)


def exact_lower_bound(epsilon: float, n: int, delta: float) -> float:
    """Shuffled binary randomized response is the sum of its reports; one respondent changes, the others hold 0."""
    with mp.workdps(40):
        q = 1 / (1 + exp(mpf(epsilon)))
        rest = [binomial(n - 1, k) * q**k * (1 - q) ** (n - 1 - k) for k in range(n)]
        laws = [
            [(rest[k - 1] if k else 0) * one + (rest[k] if k < n else 0) * (1 - one) for k in range(n + 1)]
            for one in (q, 1 - q)
        ]
        low, high = 0.0, float(epsilon)
        for _ in range(40):
            middle = (low + high) / 2
            found = sum(max(mpf(0), a - exp(mpf(middle)) * b) for a, b in zip(laws[1], laws[0], strict=True))
            low, high = (low, middle) if found <= delta else (middle, high)
        return low


@pytest.mark.parametrize(("epsilon", "n"), [(1, 200), (2, 200), (0.5, 400)])
def test_the_bound_is_never_below_what_an_attacker_gets(epsilon: float, n: int) -> None:
    assert exact_lower_bound(epsilon, n, 1e-6) <= central_epsilon(epsilon, n, delta=1e-6) <= epsilon


def test_the_bound_falls_with_the_crowd_and_never_exceeds_the_local_one() -> None:
    found = [central_epsilon(1, n, delta=1e-6) for n in (1, 2, 10, 100, 10**4, 10**6)]
    assert found == sorted(found, reverse=True)
    assert found[0] == 1
    assert found[-1] < 0.006
    assert all(map(math.isfinite, found))


@pytest.mark.parametrize("bad", [{"reports": 0}, {"reports": 1.5}, {"delta": 0}, {"delta": 1}, {"epsilon": 0}])
def test_bad_parameters_are_refused(bad: dict[str, Any]) -> None:
    given: dict[str, Any] = {"epsilon": 1, "reports": 100, "delta": 1e-6} | bad
    with pytest.raises(Misconfigured):
        central_epsilon(given["epsilon"], given["reports"], delta=given["delta"])
