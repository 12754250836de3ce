"""lapwing.mechanisms.keys.key_loss."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from lapwing.errors import Misconfigured
from lapwing.mechanisms.keys.key_loss import (
    TAIL_SHARE,
    edge_of,
    gaussian_loss,
    gaussian_margin,
    gaussian_tail,
    gaussian_tails,
    laplace_margin,
    laplace_tail_up,
    laplace_tails,
    read_counts,
    share_of_key,
)
from lapwing.numbers import ball, enclose
from lapwing.privacy.loss import ZCDP, Approximate
from support.chi import gaussian

KEYS = [1, 2, 3, 16, 1000]


def root_up(value: int) -> Fraction:
    return Fraction(math.isqrt((value << 80) - 1) + 1, 1 << 40)


def continuous(epsilon: float, squared: float) -> float:
    """The delta of continuous Gaussian noise whose (shift / sigma)^2 is `squared`."""
    m = math.sqrt(squared)
    return float(norm.cdf(m / 2 - epsilon / m) - math.exp(epsilon) * norm.cdf(-m / 2 - epsilon / m)) if m else 0.0


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("delta", [Fraction(1, 2), Fraction(1, 10**5), Fraction(1, 10**30)])
def test_share_is_the_largest_that_keeps_delta(delta: Fraction, keys: int) -> None:
    share = share_of_key(delta, keys)
    assert (1 - share) ** keys >= 1 - delta
    assert (1 - share * (1 + Fraction(1, 10**30))) ** keys < 1 - delta


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(5, 2), Fraction(1000)])
@pytest.mark.parametrize("share", [Fraction(2, 5), Fraction(1, 1000), Fraction(1, 10**40)])
def test_laplace_margin_is_the_least_whole_number(scale: Fraction, share: Fraction) -> None:
    m = laplace_margin(scale, share)

    def tail(at: int) -> tuple[Fraction, Fraction]:
        return enclose(lambda: (-ball(at / scale)).exp() / (1 + (-ball(1 / scale)).exp()), bits=400)

    assert tail(m)[1] <= share
    assert m == 1 or tail(m - 1)[0] > share


@pytest.mark.parametrize("variance", [Fraction(1, 20), Fraction(1), Fraction(14), Fraction(500), Fraction(64**2)])
def test_gaussian_tail_is_above_the_law_and_close(variance: Fraction) -> None:
    law = gaussian(variance)
    for m in sorted({1, 2, *(math.ceil(k * math.sqrt(variance)) for k in (1, 2, 4, 6))}):
        true = float(law.pmf(np.arange(m, m + 20 * math.ceil(math.sqrt(variance)) + 20)).sum())
        assert true * (1 - 1e-11) <= gaussian_tail(variance, m)
        assert gaussian_tail(variance, m) <= true * (1 + 1e-6) or variance < 1


@pytest.mark.parametrize("sigma", [65, 300])
def test_gaussian_tail_beyond_the_sum_is_above_the_law_and_close(sigma: int) -> None:
    law = gaussian(sigma**2)
    for m in (1, sigma // 2, sigma, 3 * sigma, 6 * sigma):
        true = float(law.pmf(np.arange(m, 12 * sigma)).sum())
        assert true <= gaussian_tail(Fraction(sigma**2), m)
        assert m <= sigma or gaussian_tail(Fraction(sigma**2), m) <= true * (1 + 0.005)


@pytest.mark.parametrize("variance", [Fraction(1), Fraction(14), Fraction(2000), Fraction(10**8)])
@pytest.mark.parametrize("share", [Fraction(1, 100), Fraction(1, 10**9)])
def test_gaussian_margin_is_the_least_that_is_proved(variance: Fraction, share: Fraction) -> None:
    m = gaussian_margin(variance, share)
    assert gaussian_tail(variance, m) <= share
    assert gaussian_tail(variance, m - 1) > share
    assert abs(m - math.sqrt(variance) * norm.isf(float(share))) < 1.5


@given(st.floats(0.01, 8), st.floats(0.05, 1), st.floats(0, 1))
def test_delta_falls_in_proportion_to_the_shared_keys(epsilon: float, part: float, y: float) -> None:
    """Lemma (convex): u + u^2/4 <= epsilon^2."""
    u = part * 2 * (math.sqrt(1 + epsilon**2) - 1)
    assert continuous(epsilon, y * u) <= y * continuous(epsilon, u) + 1e-13


def test_delta_does_not_fall_in_proportion_without_the_condition() -> None:
    assert continuous(0.01, 0.5) > 0.5 * continuous(0.01, 1)


@pytest.mark.parametrize("keys", KEYS[1:])
@pytest.mark.parametrize(
    ("epsilon", "delta"), [(1, 1e-5), (0.1, 1e-8), (6, 1e-6), (40, 1e-6), (1, 0.2), (0.01, 0.3), (0.001, 1e-6)]
)
def test_variance_covers_every_number_of_shared_keys(epsilon: float, delta: float, keys: int) -> None:
    """s of `keys` shared: at most delta s / keys, by the formula of the continuous law, to which smoothing adds."""
    loss, variance = gaussian_loss(epsilon, delta, None, root_up(keys), Fraction(keys), keys)
    assert loss == Approximate(epsilon, delta)
    for shared in {0, 1, keys // 3, keys // 2, keys - 1, keys}:
        assert continuous(epsilon, shared / float(variance)) <= delta * shared / keys * (1 + 1e-9) + 1e-15


def test_rho_needs_no_certificate() -> None:
    assert gaussian_loss(None, 1e-6, 0.5, root_up(3), Fraction(3), 3) == (ZCDP(0.5, 1e-6), 3)


@pytest.mark.parametrize("scale", [Fraction(1, 5), Fraction(7), Fraction(10**6)])
def test_laplace_tails_are_those_of_the_law(scale: Fraction) -> None:
    m = np.array([-30, -1, 0, 1, 2, 40])
    exact = [
        enclose(lambda k=k: (-ball(max(k, 1 - k) / scale)).exp() / (1 + (-ball(1 / scale)).exp())) for k in m.tolist()
    ]
    values = [float(low) if k > 0 else 1 - float(low) for k, (low, _) in zip(m.tolist(), exact, strict=True)]
    assert laplace_tails(scale, m) == pytest.approx(values, rel=1e-12)


@pytest.mark.parametrize("sigma", [0.5, 3, 500])
def test_gaussian_tails_are_those_of_the_law(sigma: float) -> None:
    law = gaussian(sigma**2)
    m = np.array([math.floor(k * sigma) for k in (-5, -1, 0, 0.5, 1, 3, 5)])
    sums = [float(law.pmf(np.arange(k, k + math.ceil(14 * sigma) + 20)).sum()) for k in m.tolist()]
    assert gaussian_tails(Fraction(sigma) ** 2, m) == pytest.approx(sums, rel=1e-10)


def test_gaussian_tails_stay_within_their_share_where_they_are_integrals() -> None:
    variance = 4097**2
    z = np.arange(30 * 4097, dtype=np.float64)
    weights = np.exp(-z * z / (2 * variance))
    sums = np.cumsum(weights[::-1])[::-1] / (2 * weights.sum() - 1)
    m = np.array([1, 100, 4097, 5 * 4097, 15 * 4097, 25 * 4097])
    assert gaussian_tails(Fraction(variance), m) == pytest.approx(sums[m], rel=TAIL_SHARE)
    assert gaussian_tails(Fraction(variance), 1 - m) == pytest.approx(1 - sums[m], rel=TAIL_SHARE)


def test_counts_are_read_from_lists_and_arrays() -> None:
    for given_ in ([3, 0], np.array([3, 0], np.uint8), np.array([3, 0]), pa.array([3, 0])):
        assert read_counts(given_).tolist() == [3, 0]
    assert read_counts(np.array([2**64 - 1], np.uint64)).tolist() == [2**63 - 1]
    assert read_counts([]).tolist() == []
    assert read_counts(np.zeros(0)).dtype == np.int64


@pytest.mark.parametrize(
    "bad", [5, [1.0], [True], ["777"], [[1, 2]], None, [None], [-777], [10**30], pa.array([777, None])]
)
def test_other_counts_are_refused_without_showing_them(bad: Any) -> None:
    with pytest.raises(Misconfigured, match=r"`counts` .*\. Pass") as refusal:
        read_counts(bad)
    assert "777" not in str(refusal.value)


@pytest.mark.parametrize("share", [Fraction(1, 10), Fraction(1, 1000), Fraction(1, 10**9)], ids=str)
@pytest.mark.parametrize("noise", [Fraction(1, 2), Fraction(2), Fraction(40), Fraction(10**5)], ids=str)
def test_the_edge_spends_the_rest_of_the_share(noise: Fraction, share: Fraction) -> None:
    """Lemma (edge): what both thresholds show together, by the same bounds, is the share and hardly less."""
    for tail, margin in (
        (partial(laplace_tail_up, noise), laplace_margin(noise, share)),
        (partial(gaussian_tail, noise), gaussian_margin(noise, share)),
    ):
        edge = edge_of(tail, margin, share)
        assert 0 <= edge < 1
        if margin == 1:
            assert edge == 0
        else:
            spent = (1 - edge) * tail(margin) + edge * tail(margin - 1)
            assert share - (tail(margin - 1) - tail(margin)) / (1 << 20) <= spent <= share
