"""The tools of the other tests, tested: they must accept what is right and catch what is wrong."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from support import chi
from support.law import Law, assert_law, exact_law
from support.tape import CountingBits, SeededBits, Tape, TapeEnded

if TYPE_CHECKING:
    from lapwing.noise.bits import BitSource


def discrete_laplace(scale: float, n: int, rng: np.random.Generator) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The difference of two geometrics."""
    stop = -np.expm1(-1 / scale)
    return np.asarray(rng.geometric(stop, n) - rng.geometric(stop, n))


def below(n: int, bits: BitSource) -> int:
    """Uniform in [0, n) by rejection."""
    while True:
        value = bits.integer((n - 1).bit_length())
        if value < n:
            return value


def one_third(bits: BitSource) -> bool:
    return below(3, bits) == 0


def uniform_pmf(n: int) -> dict[int, Fraction]:
    return dict.fromkeys(range(n), Fraction(1, n))


# Tapes


def test_tape_reads_most_significant_bit_first() -> None:
    tape = Tape("1101" + "001" + "10")
    assert (tape.integer(4), list(tape.words(1, 3)), tape.integer(0), tape.left) == (0b1101, [0b001], 0, 2)


def test_tape_gives_words_in_order_of_their_bits() -> None:
    assert list(Tape("110100").words(3, 2)) == [3, 1, 0]
    assert list(Tape.of_words([3, 1, 0], 2).words(3, 2)) == [3, 1, 0]


def test_tape_ends_without_reading_part_of_a_word() -> None:
    tape = Tape("101")
    with pytest.raises(TapeEnded) as ended:
        tape.words(2, 2)
    assert (ended.value.args, tape.left) == ((), 3)


def test_tape_continues_with_another_source_in_the_middle_of_a_word() -> None:
    assert Tape("10", then=Tape("0111")).integer(6) == 0b100111


@pytest.mark.parametrize(("width", "dtype"), [(1, "u1"), (8, "u1"), (9, "u2"), (17, "u4"), (32, "u4"), (33, "u8")])
def test_words_have_the_smallest_type(width: int, dtype: str) -> None:
    for source in (Tape("1" * 64), SeededBits(1)):
        words = source.words(1, width)
        assert words.dtype == np.dtype(dtype)
        assert int(words[0]) < 2**width


def test_seeded_bits_repeat_for_ever() -> None:
    first = [int(word) for word in SeededBits(7).words(3, 16)]
    assert first == [int(word) for word in SeededBits(7).words(3, 16)]
    assert first != [int(word) for word in SeededBits(8).words(3, 16)]


@pytest.mark.parametrize("width", [1, 3, 8, 13, 64])
def test_seeded_bits_are_uniform_in_every_bit(width: int) -> None:
    words = SeededBits(3).words(50_000, width).astype(np.uint64)
    for shift in range(width):
        chi.assert_fits(words >> np.uint64(shift) & np.uint64(1), chi.finite([0.5, 0.5]))


def test_seeded_bits_make_integers_of_any_width() -> None:
    values = [SeededBits(seed).integer(200) for seed in range(50)]
    assert SeededBits(1).integer(0) == 0
    assert max(values).bit_length() == 200


def test_counting_bits_add_up_requests() -> None:
    counted = CountingBits(SeededBits(1))
    counted.words(5, 12)
    counted.integer(100)
    assert (counted.bits, counted.requests) == (160, [(5, 12), (1, 100)])


# Exact laws


def test_exact_law_of_a_coin_is_one_half() -> None:
    law = exact_law(lambda bits: bits.integer(1), depth=5)
    assert law == Law({0: Fraction(1, 2), 1: Fraction(1, 2)}, Fraction(0), depth=5, runs=2)


def test_exact_law_of_one_third_by_rejection_leaves_a_known_remainder() -> None:
    law = exact_law(one_third, depth=16)
    assert law.remainder == Fraction(1, 4) ** 8
    assert law.mass[True] == (1 - law.remainder) / 3
    assert_law(law, {True: Fraction(1, 3), False: Fraction(2, 3)}.__getitem__)


def test_exact_law_of_a_uniform_below_five_fits() -> None:
    law = exact_law(lambda bits: below(5, bits), depth=15)
    assert_law(law, uniform_pmf(5).__getitem__, undecided=Fraction(1, 100))


def test_exact_law_branches_over_vectors_of_words() -> None:
    law = exact_law(lambda bits: tuple(int(word) for word in bits.words(2, 2)), depth=4)
    assert law.mass == {(a, b): Fraction(1, 16) for a in range(4) for b in range(4)}


def test_exact_law_counts_a_request_beyond_the_depth_as_undecided() -> None:
    law = exact_law(lambda bits: bits.integer(1) and bits.integer(64), depth=8)
    assert law == Law({0: Fraction(1, 2)}, Fraction(1, 2), depth=8, runs=2)


def test_exact_law_turns_numpy_outcomes_into_numbers() -> None:
    law = exact_law(lambda bits: bits.words(1, 1)[0], depth=1)
    assert {type(outcome) for outcome in law.mass} == {int}


@pytest.mark.parametrize("widths", [(2, 1), (1, 0)])
def test_exact_law_refuses_a_draw_with_a_memory(widths: tuple[int, int]) -> None:
    pending = list(widths)
    with pytest.raises(ValueError, match="not a function of its bits"):
        exact_law(lambda bits: bits.integer(pending.pop(0)), depth=8)


def test_assert_law_rejects_a_biased_uniform() -> None:
    law = exact_law(lambda bits: bits.integer(8) % 5, depth=8)
    with pytest.raises(AssertionError, match="above its probability"):
        assert_law(law, uniform_pmf(5).__getitem__)


def test_assert_law_rejects_a_slight_bias_that_depth_can_see() -> None:
    law = exact_law(one_third, depth=16)
    off = Fraction(1, 10_000)
    with pytest.raises(AssertionError):
        assert_law(law, {True: Fraction(1, 3) - off, False: Fraction(2, 3) + off}.__getitem__)


def test_assert_law_rejects_an_outcome_that_no_tape_reaches() -> None:
    law = exact_law(lambda bits: bits.integer(1), depth=1)
    with pytest.raises(AssertionError, match="2 has mass at most 0"):
        assert_law(law, lambda _: Fraction(1, 2), support=[2])


def test_assert_law_rejects_a_pmf_above_one() -> None:
    law = Law({0: Fraction(1, 2), 1: Fraction(1, 4)}, Fraction(1, 4), depth=2, runs=3)
    with pytest.raises(AssertionError, match="no probability"):
        assert_law(law, {0: Fraction(3, 4), 1: Fraction(1, 2)}.__getitem__)


def test_assert_law_rejects_a_law_that_decides_little() -> None:
    law = exact_law(lambda bits: bits.integer(64), depth=8)
    with pytest.raises(AssertionError, match="undecided"):
        assert_law(law, lambda _: 1)


def test_assert_law_accepts_an_enclosure() -> None:
    law = exact_law(one_third, depth=16)
    assert_law(law, lambda hit: (Fraction(33, 100), Fraction(34, 100)) if hit else (Fraction(66, 100), Fraction(1)))


# Chi-square


LAWS = {
    "geometric": chi.geometric(3),
    "laplace": chi.laplace(Fraction(7, 2)),
    "gaussian": chi.gaussian(12),
    "wide gaussian": chi.gaussian(1500**2),
    "finite": chi.finite([0.2, 0.5, 0.3]),
}


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS.keys())
def test_pmf_is_the_step_of_the_cdf(law: chi.Discrete) -> None:
    x = np.arange(-15_000, 15_001)
    assert math.isclose(law.pmf(x).sum(), 1, rel_tol=1e-9)
    assert np.allclose(np.diff(law.cdf(x)), law.pmf(x[1:]), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("scale", [0.5, 1, 10, 1e3, 1e6, 2.0**50])
def test_chi_square_accepts_the_law_and_rejects_ten_percent_more_scale(scale: float) -> None:
    draws = np.floor(np.random.default_rng(5).exponential(scale, 50_000)).astype(np.int64)
    chi.assert_fits(draws, chi.geometric(scale))
    chi.assert_misfits(draws, chi.geometric(1.1 * scale))


@pytest.mark.parametrize(("scale", "n"), [(1, 100_000), (10, 50_000), (300, 50_000)])
def test_chi_square_tells_laplace_scales_apart(scale: int, n: int) -> None:
    draws = discrete_laplace(scale, n, np.random.default_rng(6))
    chi.assert_fits(draws, chi.laplace(scale))
    chi.assert_misfits(draws, chi.laplace(1.1 * scale))


@pytest.mark.parametrize("sigma", [1, 10, 300])
def test_chi_square_tells_gaussian_scales_apart(sigma: int) -> None:
    support = np.arange(-12 * sigma, 12 * sigma + 1)
    weights = np.exp(-(support**2) / (2 * sigma**2))
    draws = np.random.default_rng(7).choice(support, size=50_000, p=weights / weights.sum())
    chi.assert_fits(draws, chi.gaussian(sigma**2))
    chi.assert_misfits(draws, chi.gaussian(1.21 * sigma**2))


def test_chi_square_tells_wide_gaussians_apart() -> None:
    draws = np.rint(np.random.default_rng(8).normal(0, 1e6, 50_000)).astype(np.int64)
    chi.assert_fits(draws, chi.gaussian(10**12))
    chi.assert_misfits(draws, chi.gaussian(1.21 * 10**12))


def test_chi_square_sees_odd_numbers_missing() -> None:
    draws = 2 * discrete_laplace(1, 50_000, np.random.default_rng(9))
    chi.assert_misfits(draws, chi.laplace(2))


def test_chi_square_pools_cells_to_an_expected_twenty() -> None:
    fit = chi.chi_square(np.zeros(1_000, dtype=np.int64), chi.laplace(10))
    assert fit.cells <= 1_000 / chi.LEAST_EXPECTED


def test_chi_square_sees_one_impossible_draw() -> None:
    draws = np.zeros(50_000, dtype=np.int64)
    chi.assert_fits(draws, chi.laplace(Fraction(1, 500)))
    draws[17] = 1
    chi.assert_misfits(draws, chi.laplace(Fraction(1, 500)))
