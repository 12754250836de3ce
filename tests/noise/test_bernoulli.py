"""lapwing.noise.bernoulli."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from lapwing.noise import bernoulli
from lapwing.noise.bernoulli import (
    BAND,
    Exponent,
    Flags,
    LazyUniform,
    decide_exp,
    exp_is_sound,
    flip_exp,
    run_exp,
    sample_bernoulli,
    sample_bernoulli_exp,
    sample_bernoulli_exp_each,
    sample_coins,
)
from lapwing.noise.bits import BitSource
from lapwing.numbers import Enclosure, ball, enclose
from support.chi import assert_fits, assert_misfits, finite, geometric
from support.law import assert_law, exact_law
from support.tape import CountingBits, SeededBits, Tape

EXPONENTS = [Fraction(0), Fraction(1, 1000), Fraction(1, 2), Fraction(1), Fraction(7, 3), Fraction(10)]


def exp_probability(x: Fraction) -> Enclosure:
    return enclose(lambda: (-ball(x)).exp())


def of_coins(*heads: Enclosure) -> Callable[[tuple[bool, ...]], Enclosure]:
    """The law of independent coins."""

    def pmf(outcome: tuple[bool, ...]) -> Enclosure:
        low = high = Fraction(1)
        for shown, (least, most) in zip(outcome, heads, strict=True):
            low, high = low * (least if shown else 1 - most), high * (most if shown else 1 - least)
        return low, high

    return pmf


def exactly(*xs: Fraction) -> Exponent:
    return lambda i: (xs[i].numerator, xs[i].denominator)


# Equal coins


@pytest.mark.parametrize("width", [2, 3, 4])
@pytest.mark.parametrize("p", [Fraction(1, 3), Fraction(5, 8), Fraction(1, 100), Fraction(99, 100), Fraction(3, 7)])
def test_sample_bernoulli_has_exactly_its_probability(p: Fraction, width: int, step: int) -> None:
    law = exact_law(lambda bits: tuple(sample_bernoulli(p, 1, bits=bits, width=width).tolist()), depth=14)
    assert_law(law, of_coins((p, p)), undecided=Fraction(1, 1 << 11))


@pytest.mark.parametrize("p", [Fraction(1, 3), Fraction(3, 4)])
def test_sample_bernoulli_coins_are_exactly_independent(p: Fraction, one_digit: None) -> None:
    law = exact_law(lambda bits: tuple(sample_bernoulli(p, 3, bits=bits, width=2).tolist()), depth=14)
    assert_law(law, of_coins(*[(p, p)] * 3), undecided=Fraction(1, 100))


@pytest.mark.parametrize("width", [2, 4])
@pytest.mark.parametrize("x", EXPONENTS[1:])
def test_sample_bernoulli_exp_has_exactly_its_probability(x: Fraction, width: int, step: int) -> None:
    law = exact_law(lambda bits: tuple(sample_bernoulli_exp(x, 1, bits=bits, width=width).tolist()), depth=14)
    assert_law(law, of_coins(exp_probability(x)), undecided=Fraction(1, 1 << 11))


@pytest.mark.parametrize("p", [Fraction(1, 10), Fraction(1, 3), Fraction(1, 2), Fraction(9, 10)])
def test_sample_bernoulli_fits_on_a_long_stream(p: Fraction) -> None:
    heads, off = sample_bernoulli(p, 50_000, bits=SeededBits(1)), p * Fraction(11, 10)
    assert_fits(heads, finite([1 - p, p]))
    assert_misfits(heads, finite([1 - off, off]))


@pytest.mark.parametrize("x", [Fraction(1, 5), Fraction(1), Fraction(3)])
def test_sample_bernoulli_exp_fits_on_a_long_stream(x: Fraction) -> None:
    heads = sample_bernoulli_exp(x, 50_000, bits=SeededBits(2))
    p, off = np.exp(-float(x)), np.exp(-float(x) * 1.1)
    assert_fits(heads, finite([1 - p, p]))
    assert_misfits(heads, finite([1 - off, off]))


def test_coin_follows_its_tape_at_a_tie() -> None:
    """1/3 in 4 bits is 5 and a third: words below 5 are heads, above tails, and 5 asks 16 more digits."""
    tape = Tape("0100" + "0101" + "0110" + "0101" + "0000" * 4 + "1111" * 4)
    assert sample_bernoulli(Fraction(1, 3), 4, bits=tape, width=4).tolist() == [True, True, False, False]
    assert tape.left == 0


@pytest.mark.parametrize("width", [1, 8, 64])
@pytest.mark.parametrize("p", [0, 1])
def test_certain_coins_never_err(p: int, width: int) -> None:
    assert sample_bernoulli(Fraction(p), 3000, bits=SeededBits(1), width=width).tolist() == [bool(p)] * 3000


def test_coin_of_probability_zero_is_tails_even_at_the_lowest_word() -> None:
    assert sample_bernoulli(Fraction(0), 1, bits=Tape([0] * 64)).tolist() == [False]


def test_coin_of_exponent_zero_is_heads_without_bits() -> None:
    assert sample_bernoulli_exp(Fraction(0), 2, bits=Tape("")).tolist() == [True, True]


@pytest.mark.parametrize(("x", "heads"), [(Fraction(10**6), False), (Fraction(1, 10**12), True)])
def test_coins_of_extreme_exponents_are_all_but_certain(x: Fraction, heads: bool) -> None:
    assert (sample_bernoulli_exp(x, 50_000, bits=SeededBits(3)) == heads).all()


@pytest.mark.parametrize(("x", "heads"), [(Fraction(10**6), False), (Fraction(1, 10**30), True)])
def test_coins_of_extreme_exponents_are_decided_after_a_tie(x: Fraction, heads: bool) -> None:
    """The word at the threshold itself is not the end: the next digits decide."""
    word = "1" * 64 if heads else "0" * 64
    open_digits, closing = ("1" * 32, "0" * 16) if heads else ("0" * 1600, "1" * 16)
    assert sample_bernoulli_exp(x, 1, bits=Tape(word + open_digits + closing)).tolist() == [heads]


@pytest.mark.parametrize("count", [0, 1, 5])
def test_as_many_coins_as_asked(count: int) -> None:
    assert sample_bernoulli(Fraction(1, 2), count).shape == (count,)
    assert sample_bernoulli_exp(Fraction(1, 2), count).shape == (count,)


def test_sample_coins_narrows_an_enclosure_that_straddles_a_word(one_digit: None) -> None:
    """1/4 + 2^-90 needs 90 digits before floor(2 bits) is known; before that the enclosure holds 1/4 on its border."""
    p = Fraction(1, 4) + Fraction(1, 1 << 90)

    def wide(precision: int) -> tuple[int, int]:
        floor = (p.numerator << precision) // p.denominator
        return floor - 1, floor + 1

    law = exact_law(lambda bits: tuple(sample_coins(wide, 1, bits=bits, width=2).tolist()), depth=12)
    assert_law(law, of_coins((p, p)), undecided=Fraction(1, 1 << 10))


# Unequal coins, decided by floats where they may


def decided(bits: BitSource, xs: list[Fraction], width: int, band: float) -> tuple[bool, ...]:
    gamma = np.array([float(x) for x in xs])
    prefix = bits.words(len(xs), width).astype(np.uint64)
    return tuple(decide_exp(prefix, width, gamma, exactly(*xs), bits, band=band).tolist())


@pytest.mark.parametrize("band", [BAND, 0.2, 0.9])
@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("x", EXPONENTS)
def test_decide_exp_has_exactly_its_probability(x: Fraction, width: int, band: float, one_digit: None) -> None:
    """Whatever share of lanes the floats decide."""
    law = exact_law(lambda bits: decided(bits, [x], width, band), depth=13)
    assert_law(law, of_coins(exp_probability(x)), undecided=Fraction(1, 1 << 10))


@pytest.mark.parametrize(
    "xs", [[Fraction(1, 2), Fraction(7, 3)], [Fraction(0), Fraction(1)], [Fraction(1), Fraction(1)]]
)
def test_decide_exp_coins_are_exactly_independent(xs: list[Fraction], step: int) -> None:
    law = exact_law(lambda bits: decided(bits, xs, 2, 0.2), depth=14)
    assert_law(law, of_coins(*map(exp_probability, xs)), undecided=Fraction(1, 100))


def hard_lanes() -> tuple[np.ndarray, np.ndarray, list[Fraction]]:
    """Prefixes of 53 bits at random and within a few units of exp(-x), and exponents of every size."""
    rng = np.random.default_rng(5)
    xs = [
        Fraction(int(n), int(d)) for n, d in zip(rng.integers(0, 900, 3000), rng.integers(1, 1000, 3000), strict=True)
    ]
    xs += [Fraction(x) for x in (0, 1, 36, 37, 40, 63, 64, 65, 100, 10**6)] * 20
    gamma = np.array([float(x) for x in xs])
    near = np.exp(-gamma) * (1 + rng.uniform(-4, 4, gamma.size) * BAND)
    at = np.where(rng.random(gamma.size) < 0.5, near, rng.random(gamma.size))
    prefix = np.clip(at * 2.0**53 + rng.integers(-2, 3, gamma.size), 0, 2.0**53 - 1).astype(np.uint64)
    return prefix, gamma, xs


def flips(prefix: np.ndarray, xs: list[Fraction]) -> list[bool]:
    """The same lanes decided by integers alone."""
    bits = SeededBits(9)
    uniforms = [LazyUniform(bits, int(word), 53) for word in prefix]
    return [flip_exp(x.numerator, x.denominator, bits, u) for x, u in zip(xs, uniforms, strict=True)]


def test_floats_decide_as_integers_do() -> None:
    prefix, gamma, xs = hard_lanes()
    assert decide_exp(prefix, 53, gamma, exactly(*xs), SeededBits(9)).tolist() == flips(prefix, xs)


def test_decisions_are_the_same_when_the_floats_may_not_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    """If numpy's exp fails its check, integers decide every lane, from the same digits and as many of them."""
    prefix, gamma, xs = hard_lanes()
    trusted, untrusted = CountingBits(SeededBits(9)), CountingBits(SeededBits(9))
    expected = decide_exp(prefix, 53, gamma, exactly(*xs), trusted)
    asked: list[int] = []

    def exponent(i: int) -> tuple[int, int]:
        asked.append(i)
        return exactly(*xs)(i)

    monkeypatch.setattr(bernoulli, "exp_is_sound", lambda: False)
    assert decide_exp(prefix, 53, gamma, exponent, untrusted).tolist() == expected.tolist()
    assert trusted.requests == untrusted.requests
    assert asked == list(range(gamma.size))


@pytest.mark.parametrize("factor", [1 - 2.0**-21, 1 + 2.0**-21])
def test_decisions_are_the_same_for_the_worst_exp_that_passes_the_check(
    factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix, gamma, xs = hard_lanes()
    sound = exp_is_sound()
    true_exp = np.exp
    monkeypatch.setattr(np, "exp", lambda x: true_exp(x) * factor)
    assert sound
    assert decide_exp(prefix, 53, gamma, exactly(*xs), SeededBits(9)).tolist() == flips(prefix, xs)


@pytest.mark.parametrize(("factor", "sound"), [(1 + 2.0**-22, True), (1 + 2.0**-20, False), (1 - 2.0**-20, False)])
def test_exp_is_checked_against_integers(factor: float, sound: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    true_exp = np.exp
    monkeypatch.setattr(np, "exp", lambda x: true_exp(x) * factor)
    assert exp_is_sound.__wrapped__() is sound


def test_exp_is_sound_here() -> None:
    assert exp_is_sound()


def test_integers_are_asked_for_few_lanes() -> None:
    asked: list[int] = []

    def exponent(i: int) -> tuple[int, int]:
        asked.append(i)
        return 1, 2

    heads: Flags = sample_bernoulli_exp_each(np.full(200_000, 0.5), exponent, bits=SeededBits(4))
    assert_fits(heads, finite([1 - np.exp(-0.5), np.exp(-0.5)]))
    assert_misfits(heads, finite([1 - np.exp(-0.55), np.exp(-0.55)]))
    assert len(asked) < 10


def test_coins_each_have_their_own_probability() -> None:
    xs = [Fraction(0), Fraction(1, 10), Fraction(1), Fraction(70)]
    gamma = np.tile([float(x) for x in xs], 50_000)
    heads = sample_bernoulli_exp_each(gamma, lambda i: exactly(*xs)(i % 4), bits=SeededBits(6)).reshape(-1, 4)
    assert heads[:, 0].all()
    assert not heads[:, 3].any()
    for column, x in ((1, xs[1]), (2, xs[2])):
        p = float(np.exp(-float(x)))
        assert_fits(heads[:, column], finite([1 - p, p]))
        assert_misfits(heads[:, column], finite([1 - p * 0.9, p * 0.9]))


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
