"""Whole numbers that coins are compared with: probabilities of the local model as multiples of 2^-64.

A randomizer compares uniform words of W bits with integer thresholds, so every probability is a fraction with
denominator 2^W and every ratio of two of them is known exactly. Thresholds are rounded to the side on which no ratio
exceeds e^epsilon; estimators use the rounded probabilities, so rounding never makes an estimate wrong. A program in
another language that compares the same words with the same integers sends the same report.
Checked by: tests/collect/test_probabilities.py
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from lapwing.errors import Misconfigured
from lapwing.numbers import Number, ball, enclose, positive, shown

WORD = 64
"""Bits of a word. Tests use fewer, to try every word."""

MOST_EPSILON = 32
"""Beyond it the smallest probabilities have too few of the 64 bits. A report of so much is the truth anyway."""
_LEAST_EPSILON = Fraction(1, 10**6)


def read_epsilon(value: Number) -> Fraction:
    """Reads the epsilon of a report."""
    epsilon = positive(value, "epsilon")
    if not _LEAST_EPSILON <= epsilon <= MOST_EPSILON:
        raise Misconfigured(f"`epsilon` is {shown(value)}; a report needs 1e-6 to {MOST_EPSILON}. Pass for example 1.")
    return epsilon


def ceil_share(epsilon: Fraction, others: int = 1, *, per: int = 1, times: int = 1, width: int = WORD) -> int:
    """The least T that is certainly at least 2^width per / (times e^epsilon + others)."""
    _, high = enclose(lambda: ball(per << width) / (times * ball(epsilon).exp() + others), bits=width + 96)
    return -(-high.numerator // high.denominator)


@dataclass(frozen=True, slots=True)
class SymbolCoin:
    """One word decides between the truth and `others` other symbols, all equally likely.

    Law:        P[truth] = truth / 2^width, P[each other] = other / 2^width; together 1.
    Guarantee:  truth / other <= e^epsilon.
    Proof:      other >= 2^width / (e^epsilon + others), so 2^width <= other (e^epsilon + others), and truth =
                2^width - others * other <= other e^epsilon. Where truth would be less than other it is refused.
    """

    truth: int
    other: int
    width: int = WORD

    @property
    def p(self) -> Fraction:
        return Fraction(self.truth, 1 << self.width)

    @property
    def q(self) -> Fraction:
        return Fraction(self.other, 1 << self.width)


def spread(epsilon: Fraction, symbols: int, *, width: int = WORD) -> SymbolCoin:
    """The thresholds for one of this many symbols."""
    other = ceil_share(epsilon, symbols - 1, width=width)
    truth = (1 << width) - (symbols - 1) * other
    require_bits(truth >= other, width)
    return SymbolCoin(truth, other, width)


def require_bits(enough: bool, width: int) -> None:
    """Refuses words so short that rounding makes the truth less likely than something else."""
    if not enough:
        raise Misconfigured(f"`width` is {shown(width)}; words of so few bits cannot keep this epsilon. Leave it out.")


def flip(epsilon: Fraction, *, width: int = WORD) -> int:
    """How many of 2^width words give the wrong one of two answers: (2^width - flip) / flip <= e^epsilon."""
    return ceil_share(epsilon, width=width)
