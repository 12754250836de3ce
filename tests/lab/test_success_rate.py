"""lapwing.lab.report."""

from __future__ import annotations

import math

import pytest

from lapwing.lab.report import Rate, lower, upper


@pytest.mark.parametrize(("hits", "n"), [(0, 10), (3, 10), (10, 10)])
def test_clopper_pearson_matches_the_binomial_tail(hits: int, n: int) -> None:
    def tail(p: float, least: int, most: int) -> float:
        return sum(math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(least, most + 1))

    assert hits == 0 or math.isclose(tail(lower(hits, n, 0.01), hits, n), 0.01)
    assert hits == n or math.isclose(tail(upper(hits, n, 0.01), 0, hits), 0.01)
    assert lower(hits, n, 0.01) <= hits / n <= upper(hits, n, 0.01)


def test_a_rate_prints_its_interval() -> None:
    assert str(Rate(50, 100)) == "50.0% (39.8% to 60.2%)"
