"""lapwing.noise.exponential_race."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

from lapwing.errors import Misconfigured
from lapwing.noise import exponential_race as race
from lapwing.noise.bernoulli import LazyUniform
from lapwing.noise.exponential_race import SHARE, SLACK, sample_race
from lapwing.numbers import Enclosure, ball, enclose
from support.chi import assert_fits, assert_misfits, finite
from support.law import assert_law, exact_law
from support.tape import CountingBits, SeededBits, Tape

FIELDS = [
    pytest.param([0, 0], Fraction(1), None, id="equal"),
    pytest.param([0, 1], Fraction(1, 2), None, id="near"),
    pytest.param([2, 0], Fraction(1), [5, 1], id="multiplicity against exponent"),
    pytest.param([0, 3], Fraction(1), [1, 20], id="nearly even"),
]


def ordered_law(
    exponents: Sequence[int], rate: Fraction, mults: Sequence[int] | None, order: Sequence[int]
) -> Enclosure:
    """The definition: one after another, each in proportion to its weight among those that are left."""

    def chance() -> arb:
        weights = [m * (-ball(rate * e)).exp() for e, m in zip(exponents, mults or [1] * len(exponents), strict=True)]
        left, product = list(range(len(weights))), ball(1)
        for index in order:
            product *= weights[index] / sum((weights[i] for i in left), ball(0))
            left.remove(index)
        return product

    return enclose(chance)


def integers(values: Sequence[int] | None) -> np.ndarray | None:
    return None if values is None else np.array(values, np.int64)


@pytest.mark.parametrize(("exponents", "rate", "mults"), FIELDS)
@pytest.mark.parametrize("width", [1, 3])
def test_race_of_two_has_its_law_on_all_tapes(
    exponents: list[int], rate: Fraction, mults: list[int] | None, width: int, one_digit: None
) -> None:
    """With prefixes this short float64 decides little, and the balls the rest."""
    field, times = np.array(exponents), integers(mults)
    law = exact_law(lambda bits: sample_race(field, rate, times, 2, bits=bits, width=width), depth=12)
    assert_law(
        law,
        lambda order: ordered_law(exponents, rate, mults, order),
        undecided=Fraction(1, 16),
        support=itertools.permutations(range(2)),
    )


def test_race_of_three_has_its_law_on_all_tapes(one_digit: None) -> None:
    field, mults = np.array([0, 1, 2]), [1, 2, 3]
    law = exact_law(lambda bits: sample_race(field, Fraction(1), integers(mults), 2, bits=bits, width=3), depth=11)
    assert_law(
        law,
        lambda order: ordered_law(field.tolist(), Fraction(1), mults, order),
        undecided=Fraction(1, 2),
        support=itertools.permutations(range(3), 2),
    )


@pytest.mark.parametrize(("width", "count"), [(2, 2), (53, 1), (53, 2)])
def test_draws_follow_the_law_of_successive_choices(width: int, count: int) -> None:
    exponents, rate, mults = [3, 0, 1, 2], Fraction(2, 3), [9, 1, 2, 1]
    bits, field, times = SeededBits(7), np.array(exponents), integers(mults)
    orders = {order: i for i, order in enumerate(itertools.permutations(range(4), count))}
    draws = [orders[sample_race(field, rate, times, count, bits=bits, width=width)] for _ in range(2000)]
    assert_fits(draws, finite([ordered_law(exponents, rate, mults, order)[0] for order in orders]))
    assert_misfits(draws, finite([ordered_law(exponents, rate * 3 / 4, mults, order)[0] for order in orders]))
    assert_misfits(draws, finite([ordered_law(exponents, rate, [6, 1, 2, 1], order)[0] for order in orders]))


@pytest.mark.slow
def test_many_draws_of_three_follow_the_law() -> None:
    exponents, rate, mults = [0, 2, 1, 5, 3], Fraction(1, 3), [1, 2, 1, 8, 3]
    bits, field, times = SeededBits(11), np.array(exponents), integers(mults)
    orders = {order: i for i, order in enumerate(itertools.permutations(range(5), 3))}
    draws = [orders[sample_race(field, rate, times, 3, bits=bits)] for _ in range(100_000)]
    assert_fits(draws, finite([ordered_law(exponents, rate, mults, order)[0] for order in orders]))
    assert_misfits(draws, finite([ordered_law(exponents, rate * 9 / 10, mults, order)[0] for order in orders]))


fields = st.lists(
    st.tuples(st.integers(0, 10**6), st.integers(0, 62).flatmap(lambda b: st.integers(1 << b, (2 << b) - 1))),
    min_size=1,
    max_size=6,
)
rates = st.one_of(
    st.fractions(min_value=Fraction(1, 10**6), max_value=1000),
    st.sampled_from([Fraction(1, 10**300), Fraction(10**12)]),
)
digits = st.one_of(st.integers(1, 2**53 - 2), st.integers(1, 99), st.integers(2**53 - 99, 2**53 - 2))


@settings(max_examples=120)
@given(fields, rates, st.data())
def test_float_bounds_hold_the_exact_ones_with_room(
    entrants: list[tuple[int, int]], rate: Fraction, data: st.DataObject
) -> None:
    """Float64 uses less than a thousandth of its slack, and is not wider than it says."""
    exponents, mults = (np.array(column, np.int64) for column in zip(*entrants, strict=True))
    prefix = np.array([data.draw(digits) for _ in entrants], np.uint64)
    field = race._Field(exponents, rate, mults, prefix, 53)
    lows, highs = field.lows(), field.highs(np.arange(prefix.size))
    for i, (low, high) in enumerate(zip(lows.tolist(), highs.tolist(), strict=True)):
        runner = field.runner(i, Tape(""))
        slack = Fraction(SLACK) + Fraction(SHARE) * rate * int(exponents[i])
        assert abs(runner.low - Fraction(low) - slack) <= slack / 1000
        assert abs(Fraction(high) - runner.high - slack) <= slack / 1000 if rate * int(exponents[i]) < 2**60 else True


@pytest.mark.parametrize("width", [32, 53])
def test_float_and_exact_ordering_agree(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given the same uniforms both name the same winners, also where prefixes are too short to tell."""
    exponents = np.arange(20) % 7

    def winners() -> list[tuple[int, ...]]:
        return [sample_race(exponents, Fraction(1, 5), count=6, bits=SeededBits(s), width=width) for s in range(30)]

    monkeypatch.setattr(race, "LazyUniform", Continued)
    fast = winners()
    monkeypatch.setattr(race, "log_is_sound", lambda: False)
    assert fast == winners()


class Continued(LazyUniform):
    """A uniform whose digits after the prefix are a function of the prefix, whoever asks for them."""

    def extend(self) -> None:
        self.value = self.value << 8 | (self.value * 2_654_435_761 >> 16) % 256
        self.length += 8


def test_wide_prefixes_need_no_more_digits() -> None:
    counted = CountingBits(SeededBits(3))
    sample_race(np.arange(1000) % 10, Fraction(1), count=5, bits=counted)
    assert counted.requests == [(1000, 53)]


@pytest.mark.parametrize("prefix", [0, 2**53 - 1, 12345], ids=["all zeros", "all ones", "equal"])
def test_equal_prefixes_are_told_apart_by_later_digits(prefix: int) -> None:
    """At the ends the time may be 0 or infinite as far as the prefix tells; the rest of the tape decides."""
    orders = set()
    for seed in range(12):
        tape = Tape.of_words([prefix] * 3, 53, then=SeededBits(seed))
        orders.add(sample_race(np.zeros(3, np.int64), Fraction(1), count=3, bits=tape))
    assert len(orders) > 2
    assert all(sorted(order) == [0, 1, 2] for order in orders)


def test_an_early_prefix_wins_against_a_late_one() -> None:
    tape = Tape.of_words([2**53 - 2, 5, 2**52], 53)
    assert sample_race(np.zeros(3, np.int64), Fraction(1), count=3, bits=tape) == (1, 2, 0)


def test_whole_race_is_a_permutation() -> None:
    order = sample_race(np.arange(500) % 3, Fraction(1, 2), count=500, bits=SeededBits(5))
    assert sorted(order) == list(range(500))


@pytest.mark.parametrize(
    ("exponents", "rate"),
    [
        ([0, 10**30, 10**400], Fraction(1)),
        ([0, 1, 2], Fraction(10**400)),
        ([0, 2**62, 2**63 - 1], Fraction(1)),
        ([0, 10**30, 10**400], Fraction(1, 10**20)),
    ],
)
def test_far_exponents_lose(exponents: list[int], rate: Fraction) -> None:
    field = np.array(exponents, object if max(exponents) >= 2**63 else np.int64)
    for seed in range(5):
        assert sample_race(field, rate, count=3, bits=SeededBits(seed)) == (0, 1, 2)


def test_a_tiny_rate_makes_no_difference() -> None:
    bits = SeededBits(9)
    field = np.array([0, 2**62])
    draws = [sample_race(field, Fraction(1, 10**400), bits=bits)[0] for _ in range(1000)]
    assert_fits(draws, finite([0.5, 0.5]))


def test_large_multiplicities_weigh_what_they_should() -> None:
    """2^62 copies at an exponent of 62 ln 2 or so are as good as one copy at 0."""
    bits, mults = SeededBits(13), np.array([1, 2**62])
    draws = [sample_race(np.array([0, 43]), Fraction(1), mults, bits=bits)[0] for _ in range(1500)]
    low, high = ordered_law([0, 43], Fraction(1), [1, 2**62], [0])
    assert_fits(draws, finite([low, 1 - high]))


@pytest.mark.parametrize("count", [0, -1, 4])
def test_count_must_lie_between_one_and_all(count: int) -> None:
    with pytest.raises(Misconfigured, match=f"`count` is {count}"):
        sample_race(np.zeros(3, np.int64), Fraction(1), count=count)


def test_bad_weights_are_refused() -> None:
    for exponents in ([0, -1], [0.0, 0.5]):
        with pytest.raises(Misconfigured, match="an exponent is negative or not whole"):
            sample_race(np.array(exponents), Fraction(1))
    for width in (0, 54):
        with pytest.raises(Misconfigured, match=f"`width` is {width}"):
            sample_race(np.array([0, 1]), Fraction(1), width=width)
    for mults in ([1, 0], [1, -2], [1], [1, 2, 3], [1.0, 2.5]):
        with pytest.raises(Misconfigured, match="`multiplicities` must hold"):
            sample_race(np.array([0, 1]), Fraction(1), np.array(mults))


def test_log_check_passes_here_and_sees_a_wrong_logarithm() -> None:
    assert race.log_is_sound()
    for point in (0.5, 1 - 2.0**-40, 3e17):
        assert race._log_is_near(point, float(np.log(point)))
        assert not race._log_is_near(point, float(np.log(point)) * (1 + 2.0**-29))
    assert race._log_is_near(1.0, 0.0)
    assert not race._log_is_near(1.0, 1e-300)
    assert not race._log_is_near(0.5, float("nan"))
    assert not race._log_is_near(0.5, float("-inf"))
