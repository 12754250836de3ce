"""lapwing.collect.means."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from lapwing.collect import HybridMean, OneBitMean, Reports, choose_mean
from lapwing.collect import means as module
from lapwing.errors import Misconfigured
from lapwing.numbers import ball, enclose
from support.law import exact_law
from support.tape import SeededBits

BOTH = pytest.mark.parametrize("kind", [OneBitMean, HybridMean])


def test_one_bit_has_its_stated_law_and_loses_no_more_than_epsilon() -> None:
    """All words of 8 bits at every place of the grid: unbiased exactly, and no ratio above e^epsilon."""
    protocol = OneBitMean((-1, 1), epsilon=1, width=8)
    laws = []
    for place in range(-protocol.steps, protocol.steps + 1):
        number = np.array([place / protocol.steps])
        law = exact_law(lambda bits, number=number: int(protocol.randomize(number, bits)[0, 0]), 8).mass
        one = law.get(1, Fraction(0))
        reach = Fraction(1 << 7, protocol.steps * protocol.slope)
        assert reach * (2 * one - 1) == Fraction(place, protocol.steps)
        laws.append(one)
    most = enclose(lambda: ball(1).exp())[1]
    assert max(laws) / min(laws) <= most
    assert (1 - min(laws)) / (1 - max(laws)) <= most


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(4)], ids=str)
def test_cells_of_the_window_lose_no_more_than_epsilon_and_are_unbiased(epsilon: Fraction) -> None:
    """As fractions: the ratio of a cell inside and outside, and the mean over all cells for several windows."""
    protocol = HybridMean((-1, 1), epsilon=epsilon)
    many, window = module._CELLS, protocol.window
    outside = Fraction(protocol.outside, 1 << 64)
    near, far = (1 - outside) / window, outside / (many - window)
    assert 1 <= near / far <= enclose(lambda: ball(epsilon).exp(), bits=256)[0]
    for start in (0, 1, (many - window) // 3, many - window):
        inside = sum(range(start, start + window))
        mean = near * inside + far * (many * (many - 1) // 2 - inside)
        wanted = 2 * start / (many - window) - 1
        assert protocol._starts(np.array([float(mean)]))[0] == pytest.approx(wanted, abs=1e-9)


def test_variances_are_those_of_the_literature() -> None:
    """[WXY19] the worst case at epsilon = 1 and 2; one bit is better below 0.61, hybrid above."""
    assert OneBitMean((-1, 1), epsilon=1).worst_variance() == pytest.approx(4.68, abs=0.01)
    assert HybridMean((-1, 1), epsilon=1).worst_variance() == pytest.approx(4.29, abs=0.01)
    assert HybridMean((-1, 1), epsilon=2).worst_variance() == pytest.approx(1.04, abs=0.01)
    assert isinstance(choose_mean((0, 1), epsilon=0.6), OneBitMean)
    assert isinstance(choose_mean((0, 1), epsilon=0.62), HybridMean)


@BOTH
def test_the_measured_variance_is_the_stated_one(kind: Any) -> None:
    protocol, n = kind((-1, 1), epsilon=1), 200_000
    for number in (0.0, 1.0):
        added = protocol.contributions(protocol.respond(np.full(n, number), bits=SeededBits(4)).rows)
        assert abs(added.mean() - number) < 5 * math.sqrt(protocol.worst_variance() / n)
        assert added.var() <= protocol.worst_variance() * 1.02


@BOTH
@pytest.mark.parametrize("n", [20, 1000])
def test_intervals_hold(kind: Any, n: int) -> None:
    """gate:G44 2,000 surveys each: never below 95 % less sampling error, and not above 98 % where there are many."""
    protocol, bits, rng = kind((0, 10), epsilon=1), SeededBits(n), np.random.default_rng(n)
    values, hits, bias = rng.uniform(0, 4, n), 0, 0.0
    for _ in range(2000):
        found = protocol.estimate(protocol.respond(values, bits=bits))
        hits += found.low <= values.mean() <= found.high
        bias += (found.mean - values.mean()) / 2000
    sampling = 4 * math.sqrt(0.05 * 0.95 / 2000)
    assert hits / 2000 >= 0.95 - sampling
    assert n < 1000 or hits / 2000 <= 0.98
    assert abs(bias) < 4 * 5 * math.sqrt(protocol.worst_variance() / n / 2000)


@pytest.mark.parametrize(("epsilon", "n"), [(2, 5), (4, 20), (6, 50), (8, 50), (12, 200)])
def test_intervals_hold_where_the_far_reports_are_rare(epsilon: int, n: int) -> None:
    """gate:G44 few respondents who all hold one number: most samples hold no report from far away."""
    protocol, bits = HybridMean((-1, 1), epsilon=epsilon), SeededBits(epsilon)
    for number in (0.0, 0.6, 0.9):
        surveys = protocol.respond(np.full(400 * n, number), bits=bits)
        found = [protocol.estimate(surveys[i * n : (i + 1) * n]) for i in range(400)]
        assert sum(one.low <= number <= one.high for one in found) / 400 >= 0.95 - 4 * math.sqrt(0.05 * 0.95 / 400)


@BOTH
def test_hostile_reports_move_the_mean_by_no_more_than_the_bound(kind: Any) -> None:
    """gate:G43 the farthest reports that a collector accepts, 100 of 10,000."""
    protocol, n, hostile = kind((0, 10), epsilon=1), 10_000, 100
    reports = protocol.respond(np.full(n, 5.0), bits=SeededBits(9))
    every = Reports(protocol.name, np.arange(1 << 16, dtype="<u2").view(np.uint8).reshape(-1, 2)[:, : protocol.size])
    every = every[protocol.valid(every)]
    added = protocol.contributions(every.rows)
    best, worst = every[int(added.argmax())], every[int(added.argmin())]
    up, down = (protocol.estimate(reports[hostile:] + one[np.zeros(hostile, np.int64)]).mean for one in (best, worst))
    bound = protocol.estimate(reports).moved_by(hostile)
    assert 0.99 * bound <= up - down <= bound * (1 + 1e-9)


@BOTH
def test_reports_have_one_size_and_malformed_ones_are_refused(kind: Any) -> None:
    """threat:A33 gate:G43"""
    protocol = kind((0, 1), epsilon=1)
    assert {len(protocol.respond(value)) for value in (0, 0.5, 1) for _ in range(50)} == {protocol.size}
    bad = protocol.respond([0.5]) + Reports(protocol.name, np.full((1, protocol.size), 255, np.uint8))
    if kind is OneBitMean:  # every pair of bytes is a report of the other
        with pytest.raises(Misconfigured, match="malformed"):
            protocol.estimate(bad)
    with pytest.raises(Misconfigured, match="another protocol"):
        protocol.estimate(kind((0, 2), epsilon=1).respond([1.0]))
    with pytest.raises(Misconfigured, match="no reports"):
        protocol.estimate([])


@pytest.mark.parametrize("bounds", [None, 1, (1,), (1, 1), (2, 1), (0, float("inf")), ("a", "b"), (0, 1, 2)])
def test_bounds_that_are_none_are_refused(bounds: Any) -> None:
    with pytest.raises(Misconfigured, match="`bounds`"):
        OneBitMean(bounds, epsilon=1)


@pytest.mark.parametrize("value", ["a", None, float("nan"), True, [1.0, None]])
def test_a_value_that_is_no_number_is_refused(value: Any) -> None:
    with pytest.raises(Misconfigured, match="not a number"):
        HybridMean((0, 1), epsilon=1).respond(value)


def test_numbers_outside_the_bounds_count_as_the_bound() -> None:
    protocol = OneBitMean((0, 1), epsilon=1)
    one, far = (protocol.respond([value] * 500, bits=SeededBits(1)).rows for value in (1.0, 1e300))
    assert np.array_equal(one, far)


def test_a_mean_prints_as_people_read() -> None:
    text = str(OneBitMean((0, 100), epsilon=1).estimate([b"\x01", b"\x00"]))
    assert text == "50 (95%: 0 to 100), 2 reports; one hostile respondent moves it by at most 1.1e+02"
