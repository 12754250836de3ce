"""lapwing.noise.choice.

The exact tests run on every bit tape. For that, proposals come one or two at a time and coins start with two digits;
the production sizes are tried on a fixed stream.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from lapwing.noise import choice, sample_choice, sample_heads
from lapwing.noise.bernoulli import Exponent, Flags, Floats, decide_exp
from lapwing.noise.bits import BitSource, sample_uniform
from lapwing.numbers import Enclosure, ball, enclose
from support import chi
from support.chi import assert_fits, assert_misfits
from support.law import assert_law, exact_law
from support.tape import SeededBits

Draw = Callable[..., int]

RATE = Fraction(1, 2)
CASES = [
    pytest.param([0], RATE, id="one"),
    pytest.param([0, 0], RATE, id="tie"),
    pytest.param([0, 1], RATE, id="two"),
    pytest.param([2, 0, 0], Fraction(1, 3), id="tie-and-worse"),
    pytest.param([3, 1, 0], Fraction(2, 3), id="three"),
    pytest.param([0, 10**30], RATE, id="far"),
]


def integers(exponents: Sequence[int]) -> np.ndarray:
    """int64 where it fits, else Python integers."""
    return np.array(exponents, object if max(exponents) >= 2**63 else np.int64)


def choice_law(exponents: Sequence[int], rate: Fraction) -> list[Enclosure]:
    """P[i] proportional to exp(-rate e_i)."""
    weights = [(-ball(rate * min(e, 10**6))).exp for e in exponents]
    return [enclose(lambda w=w: w() / sum(v() for v in weights)) for w in weights]  # type: ignore[misc]


def heads_law(exponents: Sequence[int], rate: Fraction) -> list[float]:
    """Permute-and-flip over all subsets of heads: P[i] = sum over subsets that hold i of P[subset] / size."""
    p = [math.exp(-float(min(rate * e, 700))) for e in exponents]
    mass = [0.0] * len(p)
    for shown in product([False, True], repeat=len(p)):
        chance = math.prod(q if head else 1 - q for q, head in zip(p, shown, strict=True))
        for i, head in enumerate(shown):
            mass[i] += chance / sum(shown) if head else 0.0
    return mass


def near(p: float) -> Enclosure:
    """A float with its rounding error."""
    return Fraction(p) - Fraction(1, 10**12), Fraction(p) + Fraction(1, 10**12)


# On every tape


def short_coins(gamma: Floats, exponent: Exponent, *, bits: BitSource) -> Flags:
    """sample_bernoulli_exp_each with two digits at first."""
    return decide_exp(bits.words(gamma.size, 2).astype(np.uint64), 2, gamma, exponent, bits)


def short_uniform(below: int, count: int, *, bits: BitSource) -> np.ndarray:
    """sample_uniform with words of three bits."""
    return sample_uniform(below, count, bits=bits, width=3)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch, one_digit: None) -> pytest.MonkeyPatch:
    monkeypatch.setattr(choice, "sample_bernoulli_exp_each", short_coins)
    monkeypatch.setattr(choice, "sample_uniform", short_uniform)
    monkeypatch.setattr(choice, "_MOST_TRIES", 1)
    return monkeypatch


@pytest.mark.parametrize(("exponents", "rate"), CASES)
def test_choice_has_exactly_its_law(exponents: list[int], rate: Fraction, short: pytest.MonkeyPatch) -> None:
    """lecture:L17 P[i] proportional to exp(-rate e_i), proposals one at a time."""
    law = exact_law(lambda bits: sample_choice(integers(exponents), rate, bits=bits), depth=13)
    expected = choice_law(exponents, rate)
    assert_law(law, expected.__getitem__, undecided=Fraction(2, 7), support=range(len(exponents)))


@pytest.mark.parametrize(("exponents", "rate"), CASES[2:5])
def test_choice_has_the_same_law_with_two_proposals_at_a_time(
    exponents: list[int], rate: Fraction, short: pytest.MonkeyPatch
) -> None:
    short.setattr(choice, "_MOST_TRIES", 2)
    law = exact_law(lambda bits: sample_choice(integers(exponents), rate, bits=bits), depth=13)
    assert_law(law, choice_law(exponents, rate).__getitem__, undecided=Fraction(1, 2))


@pytest.mark.parametrize(("exponents", "rate"), CASES)
def test_heads_have_exactly_their_law(exponents: list[int], rate: Fraction, short: pytest.MonkeyPatch) -> None:
    """All coins at once and a uniform head are permute-and-flip."""
    law = exact_law(lambda bits: sample_heads(integers(exponents), rate, bits=bits), depth=14)
    expected = [near(p) for p in heads_law(exponents, rate)]
    assert_law(law, expected.__getitem__, undecided=Fraction(1, 10), support=range(len(exponents)))


def test_heads_law_is_that_of_scanning_in_random_order() -> None:
    """The definition: a random order, the first head wins. Two candidates: 1 - p/2 and p/2."""
    p = math.exp(-0.5)
    assert heads_law([0, 1], RATE) == pytest.approx([1 - p / 2, p / 2])


# On a fixed stream

LONG = [
    pytest.param([0, 0, 0, 0], RATE, id="ties"),
    pytest.param([0, 1, 2, 3, 4, 5], Fraction(3, 7), id="ladder"),
    pytest.param([5, 0, 10**30, 2, 0, 7], Fraction(1, 5), id="big"),
    pytest.param([0, 2**62, 1, 2**62], RATE, id="far"),
    pytest.param([0, 10**400, 1], RATE, id="beyond-floats"),
    pytest.param([0, 1, 3, 4], Fraction(10**30, 10**30 + 1), id="long-rate"),
]


def drawn(draw: Draw, exponents: list[int], rate: Fraction, n: int = 4_000) -> np.ndarray:
    bits, values = SeededBits(1), integers(exponents)
    return np.array([draw(values, rate, bits=bits) for _ in range(n)])


@pytest.mark.parametrize(("exponents", "rate"), LONG)
def test_choice_fits_on_a_long_stream(exponents: list[int], rate: Fraction) -> None:
    """lecture:L17, and the twin of a steeper rate does not fit."""
    draws = drawn(sample_choice, exponents, rate)
    assert_fits(draws, chi.finite([low for low, _ in choice_law(exponents, rate)]))
    if any(exponents):
        assert_misfits(draws, chi.finite([low for low, _ in choice_law(exponents, rate * 3 / 2)]))


@pytest.mark.parametrize(("exponents", "rate"), LONG)
def test_heads_fit_on_a_long_stream(exponents: list[int], rate: Fraction) -> None:
    draws = drawn(sample_heads, exponents, rate)
    assert_fits(draws, chi.finite(heads_law(exponents, rate)))
    if any(exponents):
        assert_misfits(draws, chi.finite(heads_law(exponents, rate * 3 / 2)))


def test_choice_and_heads_are_told_apart() -> None:
    """Permute-and-flip prefers the best more than the exponential choice does."""
    exponents, rate = [0, 1, 2, 3, 4, 5], Fraction(3, 7)
    expected = [float(low) for low, _ in choice_law(exponents, rate)]
    assert_misfits(drawn(sample_heads, exponents, rate), chi.finite(expected))
    assert heads_law(exponents, rate)[0] > expected[0]


@pytest.mark.parametrize("draw", [sample_choice, sample_heads])
@pytest.mark.parametrize("rate", [Fraction(1, 10**400), Fraction(1, 3), Fraction(10**400)])
def test_single_candidate_is_certain(draw: Draw, rate: Fraction) -> None:
    assert draw(np.array([0]), rate) == 0
    assert draw(np.array([0], object), rate) == 0


@pytest.mark.parametrize("draw", [sample_choice, sample_heads])
@pytest.mark.parametrize("dtype", [np.int64, object])
def test_steep_rate_leaves_only_the_best(draw: Draw, dtype: type) -> None:
    """exp(-10^400) is beyond float64; the best still wins, and no draw hangs or overflows."""
    exponents = np.array([1, 0, 2], dtype)
    assert {draw(exponents, Fraction(10**400), bits=SeededBits(seed)) for seed in range(50)} == {1}


@pytest.mark.parametrize("draw", [sample_choice, sample_heads])
@pytest.mark.parametrize("dtype", [np.int64, object])
def test_flat_rate_makes_all_alike(draw: Draw, dtype: type) -> None:
    exponents, bits = np.array([0, 1, 2, 3], dtype), SeededBits(2)
    draws = [draw(exponents, Fraction(1, 10**400), bits=bits) for _ in range(3_000)]
    assert_fits(draws, chi.finite([0.25] * 4))


def test_integer_types_draw_alike() -> None:
    exponents = [0, 3, 1, 2]
    for draw in (sample_choice, sample_heads):
        found = [
            [draw(np.array(exponents, dtype), RATE, bits=SeededBits(seed)) for seed in range(100)]
            for dtype in (np.int64, object)
        ]
        assert found[0] == found[1]


@pytest.mark.parametrize("draw", [sample_choice, sample_heads])
def test_one_good_candidate_among_many_is_found(draw: Draw) -> None:
    """100,000 candidates of which one weighs anything: proposals go on until it is kept."""
    exponents = np.full(100_000, 10**6)
    exponents[77_777] = 0
    assert [draw(exponents, Fraction(1), bits=SeededBits(seed)) for seed in range(5)] == [77_777] * 5


@pytest.mark.parametrize("draw", [sample_choice, sample_heads])
def test_choice_among_many_equals_is_uniform(draw: Draw) -> None:
    bits, exponents = SeededBits(3), np.zeros(1000, np.int64)
    draws = np.array([draw(exponents, RATE, bits=bits) for _ in range(2000)])
    assert_fits(draws // 125, chi.finite([1 / 8] * 8))
