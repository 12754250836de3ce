"""lapwing.collect.probabilities."""

from __future__ import annotations

from fractions import Fraction

import pytest

from lapwing.collect import DirectEncoding, SubsetSelection
from lapwing.collect.probabilities import flip, read_epsilon, spread
from lapwing.errors import Misconfigured
from lapwing.numbers import ball, enclose

EPSILONS = [Fraction(1, 1000), Fraction(1, 10), Fraction(1), Fraction(7, 2), Fraction(20), Fraction(32)]


def exp_bounds(epsilon: Fraction) -> tuple[Fraction, Fraction]:
    return enclose(lambda: ball(epsilon).exp(), bits=256)


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
@pytest.mark.parametrize("symbols", [2, 3, 10, 1000, 65536])
def test_spread_never_exceeds_e_to_epsilon(epsilon: Fraction, symbols: int) -> None:
    """Every word is used, the ratio is at most e^epsilon for certain, and one word less would break that."""
    made = spread(epsilon, symbols)
    assert made.truth + (symbols - 1) * made.other == 1 << 64
    assert Fraction(made.truth, made.other) <= exp_bounds(epsilon)[0]
    tighter = Fraction((1 << 64) - (symbols - 1) * (made.other - 1), max(1, made.other - 1))
    assert made.other == 1 or tighter > exp_bounds(epsilon)[0]


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
@pytest.mark.parametrize("width", [6, 8, 64])
def test_flip_never_exceeds_e_to_epsilon(epsilon: Fraction, width: int) -> None:
    wrong = flip(epsilon, width=width)
    assert Fraction((1 << width) - wrong, wrong) <= exp_bounds(epsilon)[0]


@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), float("inf"), "one", None, True, 33, 1e-7])
def test_an_epsilon_that_no_report_can_have_is_refused(epsilon: object) -> None:
    with pytest.raises(Misconfigured, match="`epsilon`"):
        read_epsilon(epsilon)  # type: ignore[arg-type]


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_words_of_too_few_bits_are_refused(width: int) -> None:
    """Rounded up so far, another answer would be likelier than the truth, by more than e^epsilon."""
    epsilon, bound = Fraction(1, 1000), exp_bounds(Fraction(1, 1000))[0]
    with pytest.raises(Misconfigured, match="`width`"):
        _ = DirectEncoding(range(300), epsilon=epsilon, width=width).p
    for many in range(2, 12):
        try:
            made = SubsetSelection(range(many), epsilon=epsilon, width=width)
            ratio = made.p * (many - made.chosen) / ((1 - made.p) * made.chosen)
        except Misconfigured:
            continue
        assert 1 / bound <= ratio <= bound
