"""How exact numbers and guarantees read when they are printed."""

from __future__ import annotations

from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_UP, Context, Decimal, Inexact
from fractions import Fraction

from lapwing.rational import ball, enclose

_EXACT_DIGITS = 18
_SHORT_DIGITS = 8
_LARGEST_EXPONENT = 100  # above it e^epsilon says nothing to a reader


def decimal_text(value: Fraction, *, rounding: str = ROUND_HALF_EVEN) -> str:
    """All digits if 18 suffice, otherwise 8 of them, rounded as asked."""
    exactly = Context(prec=_EXACT_DIGITS)
    number = exactly.divide(Decimal(value.numerator), Decimal(value.denominator))
    if exactly.flags[Inexact]:
        shortly = Context(prec=_SHORT_DIGITS, rounding=rounding)
        number = shortly.divide(Decimal(value.numerator), Decimal(value.denominator))
    return _plain(number)


def at_least_text(value: Fraction) -> str:
    """The value as text, never above it: for what remains."""
    return decimal_text(value, rounding=ROUND_DOWN)


def at_most_text(value: Fraction) -> str:
    """The value as text, never below it: for what was spent."""
    return decimal_text(value, rounding=ROUND_UP)


def meaning(epsilon: Fraction, delta: Fraction) -> str:
    """What (epsilon, delta) promises to one person, in one sentence."""
    if epsilon > _LARGEST_EXPONENT:
        return f"An epsilon of {decimal_text(epsilon)} promises next to nothing."
    factor = f"e^{decimal_text(epsilon)} = {_factor(epsilon)}"
    if delta == 0:
        return f"Whatever anyone believes about a person, the answers can change the odds by at most a factor {factor}."
    chance = at_most_text(delta)
    return f"With or without one person, no outcome becomes more than {factor} times as likely, plus {chance}."


def _factor(epsilon: Fraction) -> str:
    _, high = enclose(lambda: ball(epsilon).exp())
    return _plain(Context(prec=3, rounding=ROUND_UP).divide(Decimal(high.numerator), Decimal(high.denominator)))


def _plain(number: Decimal) -> str:
    """0.001 rather than 1E-3, and 1e-6 rather than 0.000001."""
    number = number.normalize()
    if number == 0 or -4 <= number.adjusted() < _EXACT_DIGITS:
        return f"{number:f}"
    return f"{number:e}".replace("e+", "e")
