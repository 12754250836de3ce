"""lapwing.noise.bernoulli."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from lapwing.errors import Bug
from lapwing.noise.bernoulli import BoundsAt, LazyUniform, exp_bounds, exp_neg, is_below, rational_bounds
from lapwing.numbers import ball, enclose
from support.law import assert_law, exact_law
from support.tape import CountingBits, SeededBits, Tape

NUMBERS = [
    pytest.param(rational_bounds(1, 3), (Fraction(1, 3),) * 2, id="1/3"),
    pytest.param(rational_bounds(355, 452), (Fraction(355, 452),) * 2, id="355/452"),
    pytest.param(exp_bounds(1, 2), enclose(lambda: ball(Fraction(-1, 2)).exp()), id="exp(-1/2)"),
    pytest.param(exp_bounds(7, 3), enclose(lambda: ball(Fraction(-7, 3)).exp()), id="exp(-7/3)"),
    pytest.param(exp_bounds(1, 1000), enclose(lambda: ball(Fraction(-1, 1000)).exp()), id="exp(-1/1000)"),
]


def magnitudes(most_bits: int) -> st.SearchStrategy[int]:
    """Positive integers of every length up to this many bits, small and large alike."""
    return st.integers(0, most_bits).flatmap(lambda bits: st.integers(1 << bits, (2 << bits) - 1))


@settings(max_examples=1200)
@given(magnitudes(120), magnitudes(160), st.integers(1, 700))
@example(1, 1, 1)
@example(1, 1 << 900, 64)  # so close to 1 that no digit shows it
@example(63, 1, 64)  # just inside and at the cut e^-p < 2^-p
@example(64 * 10**9 - 1, 10**9, 64)
@example(64, 1, 64)
@example(255, 256 * 256, 2000)
@example(1, 256, 2000)
def test_exp_neg_encloses_within_two_units(numerator: int, denominator: int, precision: int) -> None:
    """Against python-flint's balls, which are at least 300 bits finer."""
    assume(numerator < denominator << 12)
    finer = precision + 300 + denominator.bit_length() + 3 * (numerator // denominator).bit_length()
    below, above = enclose(lambda: (-ball(Fraction(numerator, denominator))).exp(), bits=finer)
    low, high = exp_neg(numerator, denominator, precision)
    assert 0 <= low <= below * 2**precision
    assert above * 2**precision <= high <= 2**precision
    assert high - low <= 2


@pytest.mark.parametrize("numerator", [64, 10**6, 1 << 5000])
def test_exp_neg_of_far_numbers_is_between_zero_and_one_unit(numerator: int) -> None:
    assert exp_neg(numerator, 1, 64) == (0, 1)


@pytest.mark.parametrize("precision", [1, 64, 1000])
def test_exp_neg_of_zero_is_one(precision: int) -> None:
    assert exp_neg(0, 7, precision) == (1 << precision, 1 << precision)


@given(magnitudes(100), magnitudes(100), st.integers(1, 300))
def test_rational_bounds_enclose_within_one_unit(numerator: int, denominator: int, precision: int) -> None:
    low, high = rational_bounds(numerator, denominator)(precision)
    assert low <= Fraction(numerator, denominator) * 2**precision <= high
    assert high - low == (0 if (numerator << precision) % denominator == 0 else 1)


@pytest.mark.parametrize(("bounds", "theta"), NUMBERS)
def test_is_below_has_exactly_its_probability(bounds: BoundsAt, theta: tuple[Fraction, Fraction], step: int) -> None:
    """On all tapes of 16 bits. Needing more than k digits has probability at most 2^(1-k)."""
    law = exact_law(lambda bits: is_below(LazyUniform(bits), bounds), depth=16)
    assert law.remainder <= Fraction(2, 1 << 16)
    low, high = theta
    assert_law(law, lambda below: theta if below else (1 - high, 1 - low), undecided=Fraction(1, 1 << 14))


@pytest.mark.parametrize(("numerator", "bits"), [(5, 4), (15, 4), (1, 4), (2, 2), (3, 2)])
def test_is_below_decides_dyadic_numbers_at_their_own_length(numerator: int, bits: int, one_digit: None) -> None:
    theta = Fraction(numerator, 1 << bits)
    law = exact_law(lambda tape: is_below(LazyUniform(tape), rational_bounds(numerator, 1 << bits)), depth=bits)
    assert (law.mass, law.remainder) == ({True: theta, False: 1 - theta}, 0)


@pytest.mark.parametrize("theta", [0, 1])
def test_is_below_decides_certain_numbers_at_once(theta: int, step: int) -> None:
    counted = CountingBits(SeededBits(1))
    assert is_below(LazyUniform(counted), rational_bounds(theta, 1)) is bool(theta)
    assert counted.bits == step


def test_is_below_keeps_the_digits_it_was_given(one_digit: None) -> None:
    """Given the first digits 01, U is uniform in [1/4, 1/2), so P[U < 1/3] = 1/3 again."""
    law = exact_law(lambda bits: is_below(LazyUniform(bits, 0b01, 2), rational_bounds(1, 3)), depth=14)
    assert_law(law, lambda below: Fraction(1, 3) if below else Fraction(2, 3), undecided=Fraction(1, 1 << 12))


@pytest.mark.parametrize(("value", "expected"), [(0b00, True), (0b10, False), (0b11, False)])
def test_is_below_draws_nothing_when_the_digits_decide(value: int, expected: bool) -> None:
    assert is_below(LazyUniform(Tape(""), value, 2), rational_bounds(1, 3)) is expected


def test_is_below_draws_on_while_digits_agree() -> None:
    """1/3 = 0.010101...: the tape follows it for 96 digits, then falls below."""
    tape = Tape("01" * 48 + "00" + "1" * 14)
    assert is_below(LazyUniform(tape), rational_bounds(1, 3))
    assert tape.left == 0


def test_lazy_uniform_appends_digits() -> None:
    uniform = LazyUniform(Tape("1" + "0" * 14 + "1"), 0b10, 2)
    uniform.extend()
    assert (uniform.value, uniform.length) == (0b10_1000_0000_0000_0001, 18)


def test_enclosure_that_does_not_narrow_is_a_bug() -> None:
    with pytest.raises(Bug):
        is_below(LazyUniform(SeededBits(1)), lambda precision: (0, 1 << precision))
