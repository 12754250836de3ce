"""lapwing.noise.bits."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from lapwing.errors import Misconfigured
from lapwing.noise.bits import sample_uniform, uniform_integer
from support.chi import assert_fits, assert_misfits, finite
from support.law import assert_law, exact_law
from support.tape import CountingBits, SeededBits, Tape


@pytest.mark.parametrize("below", [*range(1, 10), 12, 15, 16])
def test_uniform_integer_is_exactly_uniform(below: int) -> None:
    law = exact_law(lambda bits: uniform_integer(below, bits), depth=12)
    assert set(law.mass) == set(range(below))
    assert_law(law, lambda _: Fraction(1, below), undecided=Fraction(1, 10))
    assert len(set(law.mass.values())) == 1


@pytest.mark.parametrize("width", [3, 4])
@pytest.mark.parametrize("below", [1, 2, 3, 4])
def test_sample_uniform_is_exactly_uniform(below: int, width: int) -> None:
    law = exact_law(lambda bits: sample_uniform(below, 1, bits=bits, width=width)[0], depth=12)
    assert set(law.mass) == set(range(below))
    assert len(set(law.mass.values())) == 1
    assert_law(law, lambda _: Fraction(1, below), undecided=Fraction(1, 10))


@pytest.mark.parametrize(("below", "width"), [(3, 3), (5, 4), (7, 4)])
def test_sample_uniform_lanes_are_exactly_independent(below: int, width: int) -> None:
    """Two lanes, of which none, one or both are drawn again."""
    law = exact_law(lambda bits: tuple(sample_uniform(below, 2, bits=bits, width=width).tolist()), depth=14)
    assert len(law.mass) == below**2
    assert_law(law, lambda _: Fraction(1, below**2), undecided=Fraction(1, 10))


@pytest.mark.parametrize("below", [2, 3, 10, 255, 2**63])
def test_sample_uniform_fits_on_a_long_stream(below: int) -> None:
    draws = sample_uniform(below, 50_000, bits=SeededBits(1))
    assert draws.dtype == np.int64
    cells = min(below, 128)
    cell = np.array([int(draw) * cells // below for draw in draws])
    assert_fits(cell, finite([(-(-(i + 1) * below // cells) - -(-i * below // cells)) / below for i in range(cells)]))


def test_sample_uniform_test_has_power() -> None:
    draws = sample_uniform(10, 50_000, bits=SeededBits(1))
    assert_misfits(draws, finite([0.11] * 5 + [0.09] * 5))


def test_sample_uniform_draws_again_what_is_beyond_whole_cycles() -> None:
    """Of 2^3 words, 6 and 7 are beyond two cycles of three."""
    tape = Tape.of_words([7, 5, 6, 7, 2, 6, 1], 3)  # lanes 0 and 2 again, then lane 0 twice more
    assert sample_uniform(3, 3, bits=tape, width=3).tolist() == [1, 2, 2]
    assert tape.left == 0


@pytest.mark.parametrize("below", [1, 2**10, 2**63])
def test_sample_uniform_of_powers_of_two_never_draws_again(below: int) -> None:
    counted = CountingBits(SeededBits(1))
    sample_uniform(below, 1000, bits=counted)
    assert counted.requests == [(1000, 64)]


def test_uniform_integer_of_one_takes_no_bits() -> None:
    assert uniform_integer(1, Tape("")) == 0


def test_uniform_integer_serves_any_size() -> None:
    below = 10**50
    draws = [uniform_integer(below, SeededBits(seed)) for seed in range(300)]
    assert all(0 <= draw < below for draw in draws)
    assert max(draws) > below * 0.97


@pytest.mark.parametrize("count", [0, 1, 7])
def test_sample_uniform_gives_as_many_as_asked(count: int) -> None:
    assert sample_uniform(6, count, bits=SeededBits(1)).shape == (count,)


@pytest.mark.parametrize("below", [0, -1, 2**63 + 1])
def test_sample_uniform_refuses_what_it_cannot_serve(below: int) -> None:
    with pytest.raises(Misconfigured, match="`below` is"):
        sample_uniform(below, 1)


@pytest.mark.parametrize("below", [0, -5])
def test_uniform_integer_refuses_an_empty_range(below: int) -> None:
    with pytest.raises(Misconfigured, match="at least 1"):
        uniform_integer(below)
