"""lapwing.noise.bernoulli."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from lapwing.noise.bernoulli import flip_exp, run_exp
from lapwing.noise.lazy import LazyUniform
from lapwing.numbers import Enclosure, ball, enclose
from support.chi import assert_fits, assert_misfits, geometric
from support.law import assert_law, exact_law
from support.tape import CountingBits, SeededBits, Tape

RATES = [(1, 1), (1, 2), (3, 2), (4, 2), (2, 3), (5, 4)]


def exp_law(heads: bool, x: Fraction) -> Enclosure:
    """P[heads] = exp(-x)."""
    return enclose(lambda: (-ball(x)).exp() if heads else 1 - (-ball(x)).exp())


def geometric_law(k: int, rate: Fraction) -> Enclosure:
    """P[k] = (1 - e^-rate) e^(-rate k)."""
    return enclose(lambda: (1 - (-ball(rate)).exp()) * (-ball(rate * k)).exp())


@pytest.mark.parametrize("x", [Fraction(1, 2), Fraction(3), Fraction(1, 100), Fraction(22, 7)])
def test_flip_exp_has_exactly_its_probability(x: Fraction, step: int) -> None:
    law = exact_law(lambda bits: flip_exp(x.numerator, x.denominator, bits), depth=16)
    assert_law(law, lambda heads: exp_law(heads, x), undecided=Fraction(1, 1 << 14))


def test_flip_exp_of_zero_is_heads_without_a_bit() -> None:
    assert flip_exp(0, 5, Tape(""))
    assert flip_exp(0, 5, Tape(""), LazyUniform(Tape(""), 3, 2))


@pytest.mark.parametrize(("numerator", "denominator", "heads"), [(10**6, 1, False), (1, 10**12, True)])
def test_flip_exp_of_extreme_numbers_is_all_but_certain(numerator: int, denominator: int, heads: bool) -> None:
    counted = CountingBits(SeededBits(1))
    assert all(flip_exp(numerator, denominator, counted) is heads for _ in range(100))
    assert counted.bits <= 101 * LazyUniform.STEP


@pytest.mark.parametrize(("last", "heads"), [(0, True), (1, False)])
def test_flip_exp_of_a_tiny_chance_is_decided_by_all_its_digits(last: int, heads: bool) -> None:
    """exp(-100) = 2^-144.27: 144 zeros leave it open, and the next digits decide (0.110... of 2^-144)."""
    tape = Tape([0] * 144 + [last] + [1] * 15)
    assert flip_exp(100, 1, tape) is heads


def test_flip_exp_uses_the_digits_it_was_given(one_digit: None) -> None:
    """Given the first digit 1, heads has probability 2 exp(-1/2) - 1."""
    law = exact_law(lambda bits: flip_exp(1, 2, bits, LazyUniform(bits, 1, 1)), depth=14)
    low, high = exp_law(True, Fraction(1, 2))
    heads = 2 * low - 1, 2 * high - 1
    assert_law(law, lambda is_heads: heads if is_heads else (1 - heads[1], 1 - heads[0]), undecided=Fraction(1, 2**12))


@pytest.mark.parametrize(("numerator", "denominator"), RATES)
def test_run_exp_is_exactly_geometric(numerator: int, denominator: int, one_digit: None) -> None:
    law = exact_law(lambda bits: run_exp(numerator, denominator, bits), depth=16)
    rate = Fraction(numerator, denominator)
    assert_law(law, lambda k: geometric_law(k, rate), undecided=Fraction(1, 8), support=range(6))


def test_run_exp_with_two_digits_at_a_time_has_the_same_law(step: int) -> None:
    law = exact_law(lambda bits: run_exp(1, 2, bits), depth=16)
    assert_law(law, lambda k: geometric_law(k, Fraction(1, 2)), undecided=Fraction(1, 20))


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(8), Fraction(10**30 + 1, 10**29)])
def test_run_exp_fits_on_a_long_stream(scale: Fraction) -> None:
    bits = SeededBits(1)
    draws = np.array([run_exp(scale.denominator, scale.numerator, bits) for _ in range(20_000)])
    assert_fits(draws, geometric(scale))
    assert_misfits(draws, geometric(scale * Fraction(11, 10)))
