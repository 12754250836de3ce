"""lapwing.mechanisms.quantiles.several_quantiles."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lapwing.errors import Misconfigured
from lapwing.mechanisms.quantiles.several_quantiles import Quantile
from lapwing.numbers import ball, enclose
from lapwing.privacy.loss import ZCDP, BoundedRange
from support.audit import assert_caught, assert_private
from support.chi import assert_fits, assert_misfits, finite

Rows = tuple[int, ...]
Bounds = tuple[tuple[Fraction, Fraction], ...]

POINTS = 6
SHARES = pytest.mark.parametrize("at", [0.1, 0.5, 0.9])


def data_sets(most: int) -> list[Rows]:
    """All multisets of at most so many rows of the six points."""
    return [rows for n in range(most + 1) for rows in itertools.combinations_with_replacement(range(POINTS), n)]


@cache
def law(rows: Rows, at: float, epsilon: float, rows_per_unit: int = 1) -> Bounds:
    return Quantile(epsilon=epsilon, at=at, bounds=(0, POINTS - 1), rows_per_unit=rows_per_unit).law(rows)


def exp_above(epsilon: Fraction) -> Fraction:
    """A number just above e^epsilon."""
    return enclose(lambda: ball(epsilon).exp())[1] * (1 + Fraction(1, 10**30))


def ratios(p: Bounds, q: Bounds) -> list[Fraction]:
    return [low / high for (low, _), (_, high) in zip(p, q, strict=True)]


def loss(rows: Sequence[int], v: int, at: Fraction) -> Fraction:
    """The definition."""
    n = len(rows)
    return max(sum(x < v for x in rows) - at * n, at * n - sum(x <= v for x in rows), Fraction(0))


def probabilities(mechanism: Quantile, rows: Sequence[int]) -> list[float]:
    low = int(mechanism.axis.low)
    weights = [math.exp(-mechanism.rate * loss(rows, v, mechanism.at)) for v in range(low, low + mechanism.axis.size)]
    return [weight / sum(weights) for weight in weights]


@SHARES
def test_every_neighbour_pair_stays_within_epsilon(at: float) -> None:
    """lecture:L17 add or remove any row of any of 210 data sets, none and ties included: e^eps, and its range too."""
    most = exp_above(Fraction(1))
    ranges = []
    for rows in data_sets(4):
        for one in range(POINTS):
            p, q = law(rows, at, 1), law(tuple(sorted((*rows, one))), at, 1)
            forth, back = ratios(p, q), ratios(q, p)
            assert max(*forth, *back) <= most
            ranges.append(max(forth) * max(back))
    assert max(ranges) <= most


@SHARES
def test_the_whole_range_is_used(at: float) -> None:
    """So the rate cannot be any larger: a row below all others moves the two ends apart by the full 2 max(q, 1 - q)."""
    one = 0 if at <= 0.5 else 5
    p, q = law((3,) * 20, at, 1), law(tuple(sorted((*[3] * 20, one))), at, 1)
    assert float(max(ratios(p, q)) * max(ratios(q, p))) == pytest.approx(math.e, rel=1e-12)


@SHARES
def test_a_unit_of_two_rows_stays_within_epsilon(at: float) -> None:
    most = exp_above(Fraction(1))
    for rows in data_sets(2):
        for pair in itertools.combinations_with_replacement(range(POINTS), 2):
            p, q = law(rows, at, 1, 2), law(tuple(sorted(rows + pair)), at, 1, 2)
            assert max(ratios(p, q)) * max(ratios(q, p)) <= most


def test_two_rows_break_the_guarantee_of_one() -> None:
    """The planted fault: a unit with two rows where one was declared."""
    p, q = law((3, 3, 3), 0.5, 1), law((0, 0, 3, 3, 3), 0.5, 1)
    assert max(ratios(p, q)) * max(ratios(q, p)) > exp_above(Fraction(1))


@given(
    st.lists(st.integers(-3, 12), max_size=12),
    st.fractions(Fraction(1, 100), Fraction(99, 100), max_denominator=100),
    st.integers(1, 3),
)
def test_law_is_the_definition(rows: list[int], at: Fraction, rows_per_unit: int) -> None:
    """lecture:L2 values outside the bounds count as the ends."""
    mechanism = Quantile(epsilon=2, at=at, bounds=(0, 9), rows_per_unit=rows_per_unit)
    clipped = [min(max(x, 0), 9) for x in rows]
    found = mechanism.law(rows)
    assert [float(low) for low, _ in found] == pytest.approx(probabilities(mechanism, clipped), rel=1e-12)
    assert sum(low for low, _ in found) <= 1 <= sum(high for _, high in found)
    assert found == mechanism.law(clipped) == mechanism.law(clipped, [1] * len(rows))


def test_rate_of_the_median_is_epsilon() -> None:
    assert Quantile(epsilon=0.3, bounds=(0, 9)).rate == Fraction(3, 10)
    assert Quantile(epsilon=0.3, at=0.1, bounds=(0, 9)).rate == Fraction(1, 6)
    assert Quantile(epsilon=0.3, at=0.9, bounds=(0, 9), rows_per_unit=5).rate == Fraction(1, 30)


def test_loss_is_bounded_range() -> None:
    mechanism = Quantile(epsilon=0.1, at=0.2, bounds=(0, 9), rows_per_unit=7)
    assert mechanism.loss == BoundedRange(Fraction(1, 10))
    assert mechanism.loss.to_zcdp() == ZCDP(Fraction(1, 800))


@SHARES
def test_no_rows_give_the_uniform_law(at: float) -> None:
    assert all(low <= Fraction(1, POINTS) <= high for low, high in law((), at, 1))


@SHARES
@pytest.mark.usefixtures("seeded")
def test_constant_data_return_the_constant(at: float) -> None:
    """threat:A18 not noise from the whole range, however wide it is."""
    mechanism = Quantile(epsilon=1, at=at, bounds=(0, 10**9))
    assert {mechanism([7] * 1000) for _ in range(20)} == {7}
    assert {mechanism([7], [1000]) for _ in range(20)} == {7}


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("at", [0.25, 0.5])
def test_draws_follow_the_law(at: float) -> None:
    rows = [3, 3, 3, 5, 9, 9, 12, 2]
    mechanism = Quantile(epsilon=1, at=at, bounds=(0, 20))
    draws = [mechanism(rows) for _ in range(3000)]
    assert_fits(draws, finite(probabilities(mechanism, rows)))
    assert_misfits(draws, finite(probabilities(Quantile(epsilon=1.4, at=at, bounds=(0, 20)), rows)))
    assert_misfits(draws, finite(probabilities(Quantile(epsilon=1, at=at + 0.2, bounds=(0, 20)), rows)))


@pytest.mark.usefixtures("seeded")
def test_draws_of_reals_follow_the_law_of_their_steps() -> None:
    mechanism = Quantile(epsilon=1, bounds=(-1, 1), step=0.25)
    rows = [-0.5, -0.5, 0.13, 0.9, 5.0, -math.inf]
    draws = [mechanism(rows) for _ in range(1000)]
    assert all(isinstance(draw, float) for draw in draws)
    steps = Quantile(epsilon=1, bounds=(0, 8))
    assert_fits([4 * draw + 4 for draw in draws], finite(probabilities(steps, [2, 2, 5, 8, 8, 0])))


@pytest.mark.usefixtures("seeded")
def test_a_wide_axis_gives_ranks_within_the_error() -> None:
    rows = np.arange(100_000) * 10**9
    for at in (0.01, 0.5, 0.9):
        mechanism = Quantile(epsilon=0.5, at=at, bounds=(-(2**60), 2**60))
        off = [abs(np.searchsorted(rows, mechanism(rows)) - at * rows.size) for _ in range(10)]
        assert max(off) <= mechanism.error(0.999999)


def test_error_is_the_formula() -> None:
    mechanism = Quantile(epsilon=1, bounds=(0, 120))
    assert mechanism.error(0.95) == pytest.approx(math.log(120 * 19))
    assert mechanism.error(0.95, best=11) == pytest.approx(math.log(10 * 19))
    assert mechanism.error(0.95, best=121) == Quantile(epsilon=1, bounds=(5, 5)).error() == 0
    assert Quantile(epsilon=1, at=0.9, bounds=(0, 120), rows_per_unit=2).error() == pytest.approx(
        3.6 * math.log(120 * 19)
    )
    with pytest.raises(Misconfigured, match="`best` is 122"):
        mechanism.error(best=122)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.99])
@SHARES
def test_error_bound_holds_for_the_exact_law(confidence: float, at: float) -> None:
    """lecture:L17 also where it is tight: the wrong points all just as far off."""
    mechanism = Quantile(epsilon=2, at=at, bounds=(0, 30))
    bound = mechanism.error(confidence)
    for n in (1, 2, 5, 10, 40, math.ceil(bound / min(at, 1 - at)) + 1):
        for rows in ([7] * n, [0] * n, [0] * (n // 2) + [30] * (n - n // 2)):
            far = [high for v, (_, high) in enumerate(mechanism.law(rows)) if loss(rows, v, mechanism.at) >= bound]
            assert sum(far) <= 1 - Fraction(str(confidence))


@pytest.mark.usefixtures("seeded")
def test_auditor_accepts_it_and_catches_a_second_row() -> None:
    """threat:A18 a row at the very end of the range, ties, and the first row of all."""

    def runs(rows: list[int]) -> np.ndarray:
        return np.array([mechanism(rows) for _ in range(1000)])

    mechanism = Quantile(epsilon=1, bounds=(0, 9))
    assert_private(runs([0, 0, 9, 9]), runs([0, 0, 9, 9, 9]), 1.0)
    assert_private(runs([]), runs([9]), 1.0)
    assert_caught(runs([0, 0, 0, 9]), runs([0] * 3 + [9] * 9), 1.0)


@pytest.mark.slow
@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize(
    ("at", "rows", "one"),
    [(0.5, [], 9), (0.1, [9], 0), (0.5, [5] * 6, 5), (0.9, [5] * 6, 99)],
)
def test_auditor_accepts_it_at_length(at: float, rows: list[int], one: int) -> None:
    mechanism = Quantile(epsilon=1, at=at, bounds=(0, 9))
    samples = [np.array([mechanism(data) for _ in range(100_000)]) for data in (rows, [*rows, one])]
    assert_private(*samples, 1.0)


@pytest.mark.parametrize("at", [0, 1, -0.1, 1.5, "0.5", None, True, math.nan])
def test_quantiles_must_lie_inside(at: Any) -> None:
    """threat:A18 the minimum and the maximum are refused."""
    with pytest.raises(Misconfigured, match="`at` is"):
        Quantile(epsilon=1, at=at, bounds=(0, 1))


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(Misconfigured, match=r"denominator exceeds 1000000\. Pass Fraction"):
        Quantile(epsilon=1, at=1 / 3, bounds=(0, 1))
    assert Quantile(epsilon=1, at=Fraction(1, 3), bounds=(0, 1)).at == Fraction(1, 3)
    with pytest.raises(Misconfigured, match="`epsilon` is 0"):
        Quantile(epsilon=0, bounds=(0, 1))
    with pytest.raises(Misconfigured, match="`rows_per_unit` is 0"):
        Quantile(epsilon=1, bounds=(0, 1), rows_per_unit=0)
    with pytest.raises(Misconfigured, match="at most 4096 points"):
        Quantile(epsilon=1, bounds=(0, 5000)).law([1])


@pytest.mark.parametrize("rows", [[math.nan], [1, None], "12", [987654321.5], 3])
def test_bad_rows_are_refused_without_showing_them(rows: Any) -> None:
    with pytest.raises(Misconfigured) as refusal:
        Quantile(epsilon=1, bounds=(0, 9))(rows)
    assert "98765" not in str(refusal.value)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**400), 1e-300, 1e300, Fraction(10**400)])
def test_far_epsilons_are_answered(epsilon: Any) -> None:
    answer = Quantile(epsilon=epsilon, bounds=(0, 9))([4] * 9)
    assert answer == 4 if epsilon > 1 else 0 <= answer <= 9


def test_many_rows_do_not_overflow() -> None:
    mechanism = Quantile(epsilon=1, at=Fraction(333_333, 10**6), bounds=(0, 9))
    assert mechanism([2, 3], [2**40, 2**41]) == 2
    assert mechanism([4], [2**42]) == 4
