"""lapwing.mechanisms.quantiles.grid_quantiles."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lapwing.errors import Misconfigured
from lapwing.mechanisms.quantiles.axis import MOST_WEIGHT, Tally
from lapwing.mechanisms.quantiles.grid_quantiles import UNIT, Aim, Choice, offsets, read_histogram, weight_within
from lapwing.numbers import ball, enclose
from support.chi import assert_fits, assert_misfits, finite

Dense = tuple[int, ...]
Law = dict[Choice, tuple[Fraction, Fraction]]

LEVELS = [Fraction(0), Fraction(1, 20), Fraction(1, 3), Fraction(1, 2), Fraction(9, 10), Fraction(1)]
AT = pytest.mark.parametrize("at", LEVELS, ids=str)
FLIPS = pytest.mark.parametrize("flips", [True, False], ids=["flips", "exponential"])


def tally(weights: Dense) -> Tally:
    return read_histogram(np.arange(len(weights)), np.array(weights, np.int64), len(weights))


def exp_above(epsilon: Fraction) -> Fraction:
    """A number just above e^epsilon."""
    return enclose(lambda: ball(epsilon).exp())[1] * (1 + Fraction(1, 10**25))


def additions(cells: int, most: int, step: int) -> Iterator[Dense]:
    """Everything that one unit may add: weights in steps, `most` together."""
    for weights in itertools.product(range(0, most + 1, step), repeat=cells):
        if 0 < sum(weights) <= most:
            yield weights


def histograms(cells: int) -> list[Dense]:
    """None, one, a few rows, many rows, ties and gaps; whole rows and parts of rows."""
    few = [w for w in itertools.product((0, UNIT), repeat=cells) if sum(w) <= 2 * UNIT]
    odd = [(UNIT // 3,) + (0,) * (cells - 1), (0,) * (cells - 1) + (5 * UNIT + 1,)]
    many = [(6 * UNIT,) * cells, (0, 15 * UNIT) + (0,) * (cells - 2), (9 * UNIT,) + (0,) * (cells - 2) + (9 * UNIT,)]
    return few + odd + many


def worst(p: Law, q: Law) -> Fraction:
    return max(max(p[key][0] / q[key][1], q[key][0] / p[key][1]) for key in p)


def aim(at: Fraction, cells: int, **given: Any) -> Aim:
    defaults = {"flips": True, "estimate": Fraction(1, 2), "interval": Fraction(3, 2), "confidence": Fraction(1, 5)}
    return Aim(at, cells, given.pop("rows_per_unit", 1), **(defaults | given))


@AT
@FLIPS
def test_every_neighbour_stays_within_epsilon(at: Fraction, flips: bool) -> None:
    """gate:G08 one unit more or less, spread over any cells, from no rows on: all three cells together, exactly."""
    mechanism = aim(at, 4, flips=flips)
    most = exp_above(Fraction(2))
    for before in histograms(4):
        law = mechanism.law(tally(before))
        for more in additions(4, UNIT, UNIT // 2):
            after = tuple(a + b for a, b in zip(before, more, strict=True))
            assert worst(law, mechanism.law(tally(after))) <= most


@AT
@FLIPS
def test_a_unit_of_two_rows_stays_within_epsilon(at: Fraction, flips: bool) -> None:
    mechanism = aim(at, 3, rows_per_unit=2, flips=flips)
    most = exp_above(Fraction(2))
    for before in histograms(3):
        law = mechanism.law(tally(before))
        for more in additions(3, 2 * UNIT, UNIT):
            after = tuple(a + b for a, b in zip(before, more, strict=True))
            assert worst(law, mechanism.law(tally(after))) <= most


@pytest.mark.parametrize("at", [Fraction(1, 3), Fraction(1, 2), Fraction(9, 10), Fraction(1)], ids=str)
@FLIPS
def test_weight_beyond_the_limit_is_found(at: Fraction, flips: bool) -> None:
    """The planted fault: a unit with six rows where one was declared."""
    mechanism = aim(at, 4, flips=flips)
    before = mechanism.law(tally((6 * UNIT,) * 4))
    after = [mechanism.law(tally(tuple(6 * UNIT * (1 + (v == cell)) for v in range(4)))) for cell in range(4)]
    assert max(worst(before, law) for law in after) > exp_above(Fraction(2))


@pytest.mark.parametrize("at", [Fraction(1, 3), Fraction(1, 2), Fraction(9, 10)], ids=str)
@FLIPS
def test_divergence_keeps_to_rho(at: Fraction, flips: bool) -> None:
    """threat:A32 a step is epsilon^2/8-zCDP by the exponential law, epsilon^2/2 by flips; both together the sum."""
    mechanism = aim(at, 4, flips=flips)
    rho = (0.5**2 + 1.5**2) / (2 if flips else 8)
    for before, more in itertools.product(histograms(4)[::3], list(additions(4, UNIT, UNIT))):
        p, q = mechanism.law(tally(before)), mechanism.law(tally(tuple(map(sum, zip(before, more, strict=True)))))
        for order in (2, 16):
            total = sum(float(p[key][0]) ** order * float(q[key][0]) ** (1 - order) for key in p)
            assert math.log(total) / (order - 1) <= order * rho * (1 + 1e-9)


def covered(weights: Dense, at: Fraction) -> tuple[int, int]:
    """The cells x and y of the lemma, by definition."""
    up_to = np.cumsum(weights).tolist()
    n = up_to[-1]
    low = next(v for v in range(len(weights)) if up_to[v] > at * n - UNIT)
    high = max(v for v in range(len(weights)) if (up_to[v - 1] if v else 0) < at * n + UNIT)
    return low, high


@AT
@pytest.mark.parametrize("confidence", [Fraction(1, 2), Fraction(19, 20)], ids=str)
@pytest.mark.parametrize("interval", [Fraction(1, 10), Fraction(8)], ids=str)
@FLIPS
def test_the_ends_enclose_the_quantile(at: Fraction, confidence: Fraction, interval: Fraction, flips: bool) -> None:
    """gate:G08 the exact chance, for no rows, one and many, and for rows laid out to defeat it."""
    mechanism = aim(at, 5, confidence=confidence, interval=interval, flips=flips)
    assert mechanism.margin is not None
    bar = mechanism.margin
    hostile = [
        (bar,) * 5,
        (math.floor(at * 9 * bar),) + (0,) * 3 + (math.ceil((1 - at) * 9 * bar),),
        (0, bar, 0, bar, 0),
        (0, 0, 2 * bar + UNIT, 0, 0),
        (bar + UNIT, 0, 0, 0, bar + UNIT),
    ]
    for weights in histograms(5)[::2] + hostile:
        low, high = covered(weights, at)
        chances = mechanism.law(tally(weights)).items()
        assert sum(chance[1] for choice, chance in chances if choice.low <= low and high <= choice.high) >= confidence


@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.fractions(0, 1, max_denominator=20), st.integers(4, 9))
def test_usual_quantiles_lie_in_the_covered_cells(rows: list[int], at: Fraction, kind: int) -> None:
    """All definitions that interpolate, QUANTILE_CONT among them (linear)."""
    names = {4: "interpolated_inverted_cdf", 5: "hazen", 6: "weibull", 7: "linear", 8: "median_unbiased"}
    found = np.quantile(rows, float(at), method=names.get(kind, "normal_unbiased"))  # type: ignore[call-overload]
    low, high = covered(tuple(UNIT * rows.count(v) for v in range(10)), at)
    assert low - 1e-9 <= found <= high + 1e-9


@given(st.lists(st.integers(0, 3 * UNIT), min_size=1, max_size=9), st.sampled_from(LEVELS))
def test_estimate_has_the_law_of_the_rank(weights: list[int], at: Fraction) -> None:
    """Against the definition, cell by cell, of the exponential law and of permute-and-flip."""
    mechanism = aim(at, len(weights), flips=False)
    law = mechanism.law(tally(tuple(weights)))
    up_to = np.cumsum(weights).tolist()
    rank, cells = mechanism.rank(up_to[-1]), range(len(weights))
    losses = [max(up_to[v] - weights[v] - rank, rank - up_to[v], 0) for v in cells]
    expected = np.exp(-float(mechanism.estimate_rate) * np.array(losses))
    found = [sum(float(c[0]) for choice, c in law.items() if choice.estimate == v) for v in cells]
    assert found == pytest.approx((expected / expected.sum()).tolist(), rel=1e-9)
    flipped = aim(at, len(weights), interval=None, flips=True)
    losses = [
        max(up_to[v] - weights[v] - flipped.rank(up_to[-1]), flipped.rank(up_to[-1]) - up_to[v], 0) for v in cells
    ]
    coins = np.exp(-float(flipped.estimate_rate) * np.array(losses))
    found = [float(chance[0]) for chance in flipped.law(tally(tuple(weights))).values()]
    assert found == pytest.approx([walked(coins, v) for v in cells], rel=1e-9)


def walked(coins: npt.NDArray[np.float64], cell: int) -> float:
    """The chance that permute-and-flip takes this cell: all outcomes of the other coins, one by one."""
    others = np.delete(coins, cell)
    total = 0.0
    for heads in itertools.product((0, 1), repeat=others.size):
        total += float(np.prod(np.where(heads, others, 1 - others))) / (1 + sum(heads))
    return float(coins[cell]) * total


@AT
def test_permute_and_flip_is_nearer_at_the_same_price(at: Fraction) -> None:
    """Its mean loss is never above that of the exponential law; and so are its margin and its stated error."""
    flips, exponential = (aim(at, 5, interval=None, flips=kind) for kind in (True, False))
    object.__setattr__(exponential, "kept", flips.kept)
    for weights in histograms(5):
        held = tally(weights)
        means = []
        for a in (flips, exponential):
            cut, losses = a._losses(held)
            laws = a.law(held).values()
            means.append(sum(int(loss) * law[0] for loss, law in zip(cut.each(losses), laws, strict=True)))
        assert means[0] <= means[1]
    assert flips.off(Fraction(19, 20)) < exponential.off(Fraction(19, 20))


@given(st.integers(0, 10**9), st.sampled_from(LEVELS))
def test_rank_stays_inside_and_near(rows: int, at: Fraction) -> None:
    """So some cell has loss 0, and an extreme one is off by what is kept at most."""
    mechanism = aim(at, 100)
    rank = mechanism.rank(rows)
    assert 0 <= rank <= rows
    assert abs(rank - math.floor(at * rows)) <= mechanism.kept
    assert mechanism.kept == 0 or min(rank, rows - rank) >= min(mechanism.kept, rows // 2)


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("at", [Fraction(1, 2), Fraction(1)], ids=str)
@FLIPS
def test_draws_follow_the_law(at: Fraction, flips: bool) -> None:
    weights = (0, 2 * UNIT, UNIT // 2, 0, 3 * UNIT)
    right = aim(at, 5, interval=Fraction(2), confidence=Fraction(1, 50), flips=flips)
    assert flips or right.margin == 0
    other = aim(at, 5, estimate=Fraction(2), interval=Fraction(6), confidence=Fraction(1, 50), flips=flips)
    laws = [mechanism.law(tally(weights)) for mechanism in (right, other)]
    number = {choice: i for i, choice in enumerate(laws[0])}
    draws = [number[right.choose(tally(weights))] for _ in range(1500)]
    assert_fits(draws, finite([float(low) for low, _ in laws[0].values()]))
    assert_misfits(draws, finite([float(laws[1][choice][0]) for choice in number]))


def test_offsets_grow_by_the_root_of_two() -> None:
    assert offsets(1).tolist() == [0]
    assert offsets(2).tolist() == [0, 1]
    assert offsets(100).tolist() == [0, 1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 99]
    assert offsets(4096).size == 25
    assert offsets(65536)[-1] == 65535


def test_reach_is_the_logarithm() -> None:
    assert weight_within(Fraction(1, 1000), Fraction(99 * 19)) == math.ceil(1000 * math.log(99 * 19))
    assert weight_within(Fraction(1), Fraction(0)) == weight_within(Fraction(1), Fraction(1)) == 0
    for flips, odds in ((True, 99 / 2 / 0.05), (False, 99 * 19)):
        off = aim(Fraction(1, 2), 100, flips=flips).off(Fraction(19, 20))
        assert off / UNIT == pytest.approx(2 * math.log(odds), abs=1e-5)


def test_an_interval_that_says_nothing_is_the_whole_grid() -> None:
    mechanism = aim(Fraction(1, 2), 9, interval=Fraction(1, 10**15))
    assert mechanism.margin is None
    assert all((c.low, c.high) == (0, 8) for c in mechanism.law(tally((UNIT,) * 9)))


@pytest.mark.parametrize("size", [1, 2, 65536])
def test_no_rows_and_one_row_are_answered(size: int) -> None:
    """gate:G08"""
    for at in LEVELS:
        for cells in ([], [0], [size - 1]):
            choice = aim(at, size).choose(read_histogram(cells, [UNIT] * len(cells), size))
            assert 0 <= choice.low <= choice.estimate <= choice.high < size


def test_the_largest_weights_do_not_overflow() -> None:
    """The least and the largest value may lie beyond all values with a probability that the weights do not lower."""
    most = MOST_WEIGHT - (1 << 10)
    for at in LEVELS:
        choice = aim(at, 9, interval=Fraction(1, 10**9)).choose(read_histogram([4], [most], 9))
        sides = {0: range(5), 1: range(4, 9)}
        assert choice.estimate in sides.get(at, [4])


def test_histograms_are_put_in_order() -> None:
    found = read_histogram([5, 1, 5, 2], [3, 4, 10, 0], 6)
    assert (found.cells.tolist(), found.counts.tolist()) == ([1, 5], [4, 13])
    assert read_histogram((), np.zeros(0), 6).rows == 0


@pytest.mark.parametrize(
    ("cells", "weights", "rule"),
    [
        ([1], [1, 2], "different lengths"),
        ([6], [1], "lies outside 0 to 5"),
        ([-1], [1], "lies outside 0 to 5"),
        ([1], [-987654], "must not be negative"),
        ([1, 2], [2**60, 2**60], "must not be negative"),
        ([1], [np.uint64(2**63)], "whole numbers"),
        ([1.5], [1], "whole numbers"),
        ([1], [987654.5], "whole numbers"),
        ([True], [1], "whole numbers"),
        ([[1]], [[1]], "whole numbers"),
        (["secret"], [1], "whole numbers"),
        ([1, None], [1, 1], "whole numbers"),
        ([2**70], [1], "whole numbers"),
        ({1: 2}, [1], "whole numbers"),
        (None, None, "whole numbers"),
    ],
)
def test_bad_histograms_are_refused_without_showing_them(cells: Any, weights: Any, rule: str) -> None:
    with pytest.raises(Misconfigured, match=rule) as refusal:
        read_histogram(cells, weights, 6)
    assert "987654" not in str(refusal.value)
    assert "secret" not in str(refusal.value)
