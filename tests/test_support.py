"""The tools of the other tests, tested: they must accept what is right and catch what is wrong."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.stats import norm

from support import chi
from support.audit import assert_caught, assert_private, audit, audit_profile, is_rejected, lower, upper
from support.broken import BROKEN, SOUND, Control, geometric_noise
from support.features import lowbit_exp
from support.law import Law, assert_law, exact_law
from support.tape import CountingBits, SeededBits, Tape, TapeEnded

if TYPE_CHECKING:
    from lapwing.noise.bits import BitSource

GEOMETRIC = geometric_noise(1.0)


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
    draws = geometric_noise(scale)(0, n, np.random.default_rng(6))
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
    draws = 2 * GEOMETRIC(0, 50_000, np.random.default_rng(9))
    chi.assert_misfits(draws, chi.laplace(2))


def test_chi_square_pools_cells_to_an_expected_twenty() -> None:
    fit = chi.chi_square(np.zeros(1_000, dtype=np.int64), chi.laplace(10))
    assert fit.cells <= 1_000 / chi.LEAST_EXPECTED


def test_chi_square_sees_one_impossible_draw() -> None:
    draws = np.zeros(50_000, dtype=np.int64)
    chi.assert_fits(draws, chi.laplace(Fraction(1, 500)))
    draws[17] = 1
    chi.assert_misfits(draws, chi.laplace(Fraction(1, 500)))


# The auditor


@pytest.mark.parametrize(("hits", "n"), [(0, 10), (3, 10), (10, 10)])
def test_clopper_pearson_matches_the_binomial_tail(hits: int, n: int) -> None:
    def tail(p: float, least: int, most: int) -> float:
        return sum(math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(least, most + 1))

    assert hits == 0 or math.isclose(tail(lower(hits, n, 0.01), hits, n), 0.01)
    assert hits == n or math.isclose(tail(upper(hits, n, 0.01), 0, hits), 0.01)
    assert lower(hits, n, 0.01) <= hits / n <= upper(hits, n, 0.01)


def test_lowbit_exp_matches_exact_arithmetic() -> None:
    """threat:A3"""
    values = np.concatenate([np.random.default_rng(1).laplace(size=500), [1.0, -0.75, 2.0**60, 5e-324, 1e-310]])
    for value, found in zip(values.tolist(), lowbit_exp(values), strict=True):
        scaled = Fraction(value) / Fraction(2) ** int(found)
        assert scaled.denominator == 1
        assert scaled.numerator % 2 == 1


def test_lowbit_exp_of_special_values_is_zero() -> None:
    assert not lowbit_exp(np.array([0.0, -0.0, np.nan, np.inf, -np.inf])).any()


@pytest.mark.parametrize("name", BROKEN)
def test_auditor_catches_a_broken_mechanism(name: str) -> None:
    """threat:A1 threat:A2 threat:A3"""
    control = BROKEN[name]
    for seed in range(3):
        assert_caught(*control.samples(seed), control.epsilon, control.delta)


@pytest.mark.parametrize("name", SOUND)
def test_auditor_accepts_a_sound_mechanism(name: str) -> None:
    control = SOUND[name]
    assert_private(*control.samples(1), control.epsilon, control.delta)


@pytest.mark.parametrize("name", ["float Laplace", "Box-Muller Gaussian"])
def test_auditor_sees_float_noise_only_by_its_lowest_bit(name: str) -> None:
    """threat:A1 threat:A2 threat:A3: the law is private, the doubles are not."""
    control = BROKEN[name]
    left, right = control.samples(1)
    assert "lowbit_exp" in audit(left, right, control.epsilon, control.delta).event
    coarse = [np.round(sample * 2**10).astype(np.int64) for sample in (left, right)]
    assert_private(coarse[0], coarse[1], control.epsilon, control.delta)


def test_auditor_seldom_rejects_a_mechanism_at_its_boundary() -> None:
    rng = np.random.default_rng(11)
    runs, alpha = 400, 0.05
    alarms = sum(is_rejected(GEOMETRIC(0, 2_000, rng), GEOMETRIC(1, 2_000, rng), 1.0, alpha=alpha) for _ in range(runs))
    assert alarms <= alpha * runs


def test_auditor_seldom_rejects_equal_float_rows_at_epsilon_zero() -> None:
    rng = np.random.default_rng(12)
    runs, alpha = 100, 0.05
    pairs = (rng.laplace(size=(2, 1_000, 3)) for _ in range(runs))
    alarms = sum(is_rejected(left, right, 0.0, alpha=alpha) for left, right in pairs)
    assert alarms <= alpha * runs


def test_auditor_finds_nearly_all_of_the_loss() -> None:
    found = audit(*Control(GEOMETRIC, 0, 2, runs=100_000).samples(1), epsilon=1.0)
    assert 1.9 < found.epsilon_lower < 2.0


def test_auditor_rejects_twenty_percent_too_little_noise() -> None:
    assert_caught(*Control(geometric_noise(1 / 1.2), 0, 1, runs=30_000).samples(1), epsilon=1.0)


def test_auditor_subtracts_delta() -> None:
    shown = np.arange(1_000) % 10 == 0
    hidden = np.zeros(1_000, dtype=np.bool_)
    assert_caught(shown, hidden, 1.0, delta=0.01)
    assert_private(shown, hidden, 1.0, delta=0.1)


def test_auditor_needs_the_profile_to_see_a_gaussian_of_double_epsilon() -> None:
    """Noise for (2, 1e-5), sold as noise for (1, 1e-5)."""
    sold, given, rng = 3.73, 1.99, np.random.default_rng(13)
    left, right = (value + np.rint(rng.normal(0, given, 30_000)).astype(np.int64) for value in (0, 1))
    profile = [(e, norm.cdf(0.5 / sold - e * sold) - math.exp(e) * norm.cdf(-0.5 / sold - e * sold)) for e in (0, 0.5)]
    assert_private(left, right, 1.0, delta=1e-5)
    assert any(found.rejected for found in audit_profile(left, right, profile))


@pytest.mark.parametrize("sign", [1, -1])
def test_auditor_looks_in_both_directions(sign: int) -> None:
    left, right = Control(GEOMETRIC, 0, 3, runs=2_000).samples(1)[::sign]
    assert_caught(left, right, 1.0)


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_auditor_sees_special_floats(odd: float) -> None:
    left = GEOMETRIC(0, 2_000, np.random.default_rng(14)).astype(np.float64)
    right = left.copy()
    right[::20] = odd
    assert_caught(left, right, 1.0)


@pytest.mark.parametrize("odd", [ValueError("x"), "refused", None, 3.0, (1, 2)])
def test_auditor_sees_odd_outcomes_among_integers(odd: object) -> None:
    left = GEOMETRIC(0, 2_000, np.random.default_rng(15)).tolist()
    right = [odd if i % 20 == 0 else value for i, value in enumerate(left)]
    assert_caught(left, right, 1.0)


def test_auditor_accepts_equal_categories() -> None:
    answers = np.array(["yes", "no", "perhaps"])[np.random.default_rng(16).integers(3, size=4_000)].tolist()
    assert_private(answers[:2_000], answers[2_000:], 0.1)


def test_auditor_sees_noise_used_twice() -> None:
    noise = GEOMETRIC(0, 1_000, np.random.default_rng(17))
    assert_caught(np.stack([noise, noise], axis=1), np.stack([noise, noise + 1], axis=1), 2.0)


def test_auditor_does_not_count_training_runs() -> None:
    """The first 30 % differ completely and choose the event; the others are alike and must decide."""
    rest = np.arange(700) % 2
    left, right = np.concatenate([np.zeros(300), rest]), np.concatenate([np.ones(300), rest])
    assert_private(left.astype(np.int64), right.astype(np.int64), 0.0)


def test_auditor_refuses_samples_of_different_types() -> None:
    with pytest.raises(ValueError, match="differ in type or shape"):
        audit(np.zeros(100), np.zeros(100, dtype=np.int64), 1.0)
