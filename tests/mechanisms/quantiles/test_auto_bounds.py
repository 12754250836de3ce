"""lapwing.mechanisms.quantiles.auto_bounds."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lapwing.errors import Misconfigured
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.quantiles.auto_bounds import AutoBounds
from lapwing.numbers import ball, enclose
from lapwing.privacy.loss import ZCDP, Pure
from support.audit import assert_caught, assert_private

Floats = npt.NDArray[np.float64]
Law = dict[int, tuple[Fraction, Fraction]]


def exp_above(epsilon: Fraction) -> Fraction:
    """A number just above e^epsilon."""
    return enclose(lambda: ball(epsilon).exp())[1] * (1 + Fraction(1, 10**25))


def law(mechanism: AutoBounds, exponents: list[int]) -> Law:
    """Bounds of the chance of every exponent: the answers up to the first "above"."""
    tails = mechanism.counts_from(exponents, [1] * len(exponents))
    answers = mechanism.scan.law([-tail for tail in tails.tolist()])
    return {mechanism.first + (a.index(True) if True in a else len(a)): chance for a, chance in answers.items()}


def worst(p: Law, q: Law) -> Fraction:
    return max(max(p[key][0] / q[key][1], q[key][0] / p[key][1]) for key in p)


def log2_histogram(values: Floats) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """What an engine counts."""
    return np.unique(np.floor(np.log2(values[values > 0])).astype(np.int64), return_counts=True)


def test_every_neighbour_stays_within_epsilon() -> None:
    """gate:G08 one value more, of any size, from nobody on: every bound that may come out."""
    mechanism = AutoBounds(epsilon=4, first=0, last=3)
    most = exp_above(Fraction(4))
    data = [list(rows) for n in range(3) for rows in itertools.combinations_with_replacement(range(-1, 4), n)]
    for rows in [*data, [0, 1, 3], [2] * 9, [0] * 4 + [2] * 4]:
        before = law(mechanism, rows)
        assert set(before) == {0, 1, 2, 3}
        for one in range(-1, 4):
            assert worst(before, law(mechanism, [*rows, one])) <= most


def test_both_sides_together_stay_within_epsilon() -> None:
    """A unit of two values spends on each side what it has there: never more than epsilon in sum."""
    mechanism = AutoBounds(epsilon=6, first=0, last=2, values_per_unit=2)
    most = exp_above(Fraction(6))
    sides = [[], [0], [1] * 3, [0, 1] * 2]
    for negative, positive in itertools.product(sides, sides):
        for unit in [([0, 1], []), ([], [1, 1]), ([1], [1]), ([1], [0])]:
            low = worst(law(mechanism, negative), law(mechanism, negative + unit[0]))
            high = worst(law(mechanism, positive), law(mechanism, positive + unit[1]))
            assert low * high <= most


def test_more_values_than_declared_are_found() -> None:
    """The planted fault: three values of a unit where one was declared."""
    mechanism = AutoBounds(epsilon=4, first=0, last=3)
    assert worst(law(mechanism, []), law(mechanism, [3] * 5)) > exp_above(Fraction(4))


@given(st.lists(st.integers(-5, 12), max_size=20))
def test_reaching_counts_values_from_each_power_on(exponents: list[int]) -> None:
    mechanism = AutoBounds(epsilon=1, first=0, last=8)
    found = mechanism.counts_from(exponents, [2] * len(exponents))
    assert found.tolist() == [2 * sum(e >= i for e in exponents) for i in range(8)]


@pytest.mark.usefixtures("seeded")
def test_bound_leaves_few_values_behind() -> None:
    values = np.exp(np.random.default_rng(1).normal(3, 1, 5000))
    mechanism = AutoBounds(epsilon=1, first=-20, last=40)
    for _ in range(50):
        power = mechanism(*log2_histogram(values))
        assert (values >= 2.0**power).sum() <= mechanism.error(0.9999)
        assert 2.0**power <= 2 * values.max()


@pytest.mark.usefixtures("seeded")
def test_signed_values_get_a_bound_on_each_side() -> None:
    values = np.random.default_rng(1).normal(100, 100, 5000)
    mechanism = AutoBounds(epsilon=2, first=-10, last=30)
    low, high = mechanism.signed(log2_histogram(-values), log2_histogram(values))
    assert (low, high) == (8, 9)
    assert mechanism.signed(([], []), log2_histogram(values))[0] == -10


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("exponents", [[], [3], [10**6], [-(10**6)]], ids=["none", "one", "huge", "tiny"])
def test_few_values_are_answered(exponents: list[int]) -> None:
    """gate:G08"""
    mechanism = AutoBounds(epsilon=1, first=0, last=9)
    assert {mechanism(exponents, [1] * len(exponents)) for _ in range(20)} == {0}


def test_price_is_that_of_the_scan() -> None:
    mechanism = AutoBounds(epsilon=0.2, first=0, last=9)
    assert mechanism.loss == Pure(Fraction(1, 5))
    assert mechanism.spared == 60
    assert mechanism.scan.scales == (Fraction(15, 2), 15)
    by_rho = AutoBounds(rho=0.02, first=0, last=9)
    assert by_rho.loss.to_zcdp() == ZCDP(by_rho.epsilon**2 / 2)
    assert Fraction(1, 50) * (1 - Fraction(1, 10**15)) <= by_rho.loss.rho <= Fraction(1, 50)
    assert AutoBounds(epsilon=0.2, first=0, last=9, values_per_unit=3).spared == 180


def test_error_and_overshoot_are_the_formulas() -> None:
    mechanism = AutoBounds(epsilon=1, first=0, last=40)
    assert mechanism.error(0.95) == pytest.approx(12 + 3 * math.log(40 / 0.05))
    a, b = math.exp(-2 / 3), math.exp(-1 / 3)
    assert mechanism.overshoot == pytest.approx(a**13 * (1 - b) / (1 - a * b))


def test_a_scan_that_goes_too_far_soon_stops() -> None:
    mechanism = AutoBounds(epsilon=Fraction(1, 2), first=0, last=12)
    chances = [float(law(mechanism, [])[power][0]) for power in range(13)]
    beyond = [sum(chances[j:]) for j in range(13)]
    for j in (2, 5, 10):
        assert beyond[j] == pytest.approx(mechanism.overshoot * 6 / ((j + 1) * (j + 2)), rel=0.2)


def test_overshoot_is_the_chance_of_the_law() -> None:
    mechanism = AutoBounds(epsilon=4, first=0, last=3)
    chances = law(mechanism, [])
    assert 1 - float(chances[0][0]) == pytest.approx(mechanism.overshoot)
    assert float(chances[3][0]) < mechanism.overshoot


@pytest.mark.usefixtures("seeded")
def test_auditor_accepts_it_and_catches_more_values() -> None:
    mechanism = AutoBounds(epsilon=1, first=0, last=4)

    def runs(values: int) -> Any:
        return np.array([mechanism([4], [values]) for _ in range(1000)])

    assert_private(runs(12), runs(13), 1.0)
    assert_caught(runs(6), runs(20), 1.0)


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize(
    ("make", "n", "most"),
    [
        (lambda g, n: np.exp(g.normal(3, 1, n)), 1000, 0.09),
        (lambda g, n: np.exp(g.normal(3, 1, n)), 10_000, 0.017),
        (lambda g, n: 10 * (1 + g.pareto(1.5, n)), 10_000, 0.13),
        (lambda g, n: g.exponential(10, n), 1000, 0.05),
        (lambda g, n: g.exponential(10, n), 10_000, 0.004),
        (lambda g, n: g.uniform(0, 100, n), 10_000, 0.0005),
    ],
    ids=["lognormal 1e3", "lognormal 1e4", "pareto 1e4", "exponential 1e3", "exponential 1e4", "uniform 1e4"],
)
def test_sums_clipped_by_it_are_close(make: Any, n: int, most: float) -> None:
    """A fifth of the price for the bound, the rest for the sum: the mean relative error of sums."""
    mechanism = AutoBounds(epsilon=0.2, first=-20, last=44)
    errors = []
    for run in range(100):
        values = make(np.random.default_rng(run), n)
        bound = 2.0 ** mechanism(*log2_histogram(values))
        noise = Laplace(epsilon=0.8, sensitivity=1).draw(1)[0] * bound
        errors.append(abs(np.minimum(values, bound).sum() + noise - values.sum()) / values.sum())
    assert float(np.mean(errors)) <= most


@pytest.mark.parametrize(
    ("exponents", "counts", "rule"),
    [
        ([1], [1, 2], "different lengths"),
        ([1], [-987654], "must not be negative"),
        ([1, 2], [2**60, 2**60], "must not be negative"),
        ([1.5], [1], "whole numbers"),
        ([1], [987654.5], "whole numbers"),
        ("1", [1], "whole numbers"),
        ([1, None], [1, 1], "whole numbers"),
    ],
)
def test_bad_counts_are_refused_without_showing_them(exponents: Any, counts: Any, rule: str) -> None:
    with pytest.raises(Misconfigured, match=rule) as refusal:
        AutoBounds(epsilon=1, first=0, last=9)(exponents, counts)
    assert "987654" not in str(refusal.value)


@pytest.mark.parametrize(
    ("given_", "rule"),
    [
        ({"first": 9}, "`first` is 9 and `last` is 9"),
        ({"first": 0.5}, "`first` is 0.5"),
        ({"last": 1001}, "`last` is 1001"),
        ({"epsilon": None}, "either epsilon"),
        ({"rho": 1}, "either epsilon"),
        ({"epsilon": -1}, "`epsilon` is -1"),
        ({"values_per_unit": 0}, "`values_per_unit` is 0"),
    ],
    ids=str,
)
def test_bad_parameters_are_refused(given_: dict[str, Any], rule: str) -> None:
    with pytest.raises(Misconfigured, match=rule):
        AutoBounds(**({"epsilon": 1, "first": 0, "last": 9} | given_))
