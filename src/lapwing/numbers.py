"""Exact numbers: how parameters are read, and the one outward rounding at the edge.

A float is read as its shortest decimal (0.1 is 1/10), so that ten questions at 0.1 fill a budget of 1 exactly.
Real functions (exp, log, erfc) are evaluated as balls (python-flint); `enclose` gives proven bounds.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import isfinite, isqrt
from numbers import Integral, Rational, Real

from flint import arb, ctx, fmpq

from lapwing.errors import Bug, Misconfigured
from lapwing.terms import Number as Number

Enclosure = tuple[Fraction, Fraction]
"""(low, high) with low <= the number <= high."""

_MOST_DIGITS = 400
_MOST_BITS = 13_000  # Python prints integers of up to 4,300 digits
_LARGEST = Fraction(10**40)
_SHOWN = 60
_FARTHEST = 1 << 20  # ends of balls lie between 2^-1,048,576 and its inverse, or are cut
_TOO_LARGE = "a parameter is too large or too small to compute with. Pass ordinary numbers."


class _Precision:
    """python-flint keeps one precision for the whole process; code that changes it holds this lock.

    A signal handler may hold it again in the thread that it interrupts.
    """

    lock = threading.RLock()

    @classmethod
    def renew(cls) -> None:
        cls.lock = threading.RLock()


os.register_at_fork(after_in_child=_Precision.renew)  # a thread that does not exist here may hold the parent's lock


def exact(value: object, name: str) -> Fraction:
    """Reads a parameter as the number the user wrote."""
    if type(value) is Fraction and max(value.numerator.bit_length(), value.denominator.bit_length()) <= _MOST_BITS:
        return value
    if type(value) is int and value.bit_length() <= _MOST_BITS:
        return Fraction(value)
    if type(value) is float and isfinite(value):
        return _as_printed(value)
    match value:
        case bool():
            raise Misconfigured(
                f"`{name}` is {value!r}; it must be a number, not a truth value. Pass an int or a float."
            )
        case Integral() | Rational():
            number = Fraction(int(value.numerator), int(value.denominator))
            if max(number.numerator.bit_length(), number.denominator.bit_length()) > _MOST_BITS:
                raise Misconfigured(f"`{name}` has thousands of digits. Pass an ordinary number.")
            return number
        case Decimal() if value.is_finite() and _length(value) > _MOST_DIGITS:
            raise Misconfigured(f"`{name}` has more than {_MOST_DIGITS} digits. Pass an ordinary number.")
        case Decimal() | Real() if not (isinstance(value, Decimal) and value.is_snan()) and isfinite(value):
            return Fraction(str(value))
        case Decimal() | Real():
            raise Misconfigured(f"`{name}` is {value}; it must be finite. Pass an ordinary number.")
        case _:
            raise Misconfigured(
                f"`{name}` is {shown(value)}; it must be a number. Pass an int, float, Fraction or Decimal."
            )


@lru_cache(maxsize=256)
def _as_printed(value: float) -> Fraction:
    return Fraction(str(value))


def ordinary(number: Fraction, name: str) -> Fraction:
    """The number itself, where a formula needs one from 10^-40 to 10^40."""
    if not 1 / _LARGEST <= number <= _LARGEST:
        raise Misconfigured(
            f"`{name}` is {shown(number)}; it must lie between 1e-40 and 1e40. Pass an ordinary number."
        )
    return number


def shown(value: object) -> str:
    """A parameter as a message shows it: short and on one line, whatever was passed."""
    try:
        text = str(value) if isinstance(value, int | float | Fraction | Decimal) else repr(value)
    except Exception:  # noqa: BLE001 such as an int of more digits than Python prints
        return f"a {type(value).__name__}"
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def positive(value: object, name: str) -> Fraction:
    """Reads a number above 0."""
    number = exact(value, name)
    if number.numerator <= 0:
        raise Misconfigured(f"`{name}` is {shown(value)}; it must be above 0. Pass a positive number.")
    return number


def nonnegative(value: object, name: str) -> Fraction:
    """Reads a number of at least 0."""
    number = exact(value, name)
    if number.numerator < 0:
        raise Misconfigured(f"`{name}` is {shown(value)}; it must be at least 0. Pass 0 or a positive number.")
    return number


def below_one(value: object, name: str, *, zero: str = "pure DP") -> Fraction:
    """Reads a number in [0, 1), such as delta; `zero` is what 0 means."""
    number = exact(value, name)
    if not 0 <= number.numerator < number.denominator:
        raise Misconfigured(f"`{name}` is {shown(value)}; it must be at least 0 and below 1. Use 0 for {zero}.")
    return number


def inside_unit(value: object, name: str) -> Fraction:
    """Reads a number strictly between 0 and 1, such as a confidence."""
    number = exact(value, name)
    if not 0 < number.numerator < number.denominator:
        raise Misconfigured(f"`{name}` is {shown(value)}; it must lie strictly between 0 and 1. Pass for example 0.95.")
    return number


def confidence_of(value: object) -> Fraction:
    """Reads a confidence whose distances from 0 and from 1 are ordinary numbers."""
    number = inside_unit(value, "confidence")
    if not 1 / _LARGEST <= number <= 1 - 1 / _LARGEST:
        raise Misconfigured(
            f"`confidence` is {shown(value)}; it must lie between 1e-40 and 1 - 1e-40. Pass for example 0.95."
        )
    return number


def count(value: object, name: str, *, least: int = 1) -> int:
    """Reads a whole number that is at least `least`."""
    number = exact(value, name)
    if number.denominator != 1 or number < least:
        raise Misconfigured(f"`{name}` is {shown(value)}; it must be a whole number of at least {least}.")
    return int(number)


def flag(value: object, name: str) -> bool:
    """Reads a truth value, and nothing else."""
    if not isinstance(value, bool):
        raise Misconfigured(f"`{name}` is {shown(value)}; it must be True or False.")
    return value


def ball(value: Fraction | int) -> arb:
    """The ball of the current precision around an exact number."""
    number = Fraction(value)
    return arb(fmpq(number.numerator, number.denominator))


def enclose(formula: Callable[[], arb], *, bits: int = 128) -> tuple[Fraction, Fraction]:
    """Rationals (low, high) that enclose the formula's value, computed at this precision.

    A nested call, from a formula or a signal handler, ends before the outer one continues and restores its precision:
    every step of a formula runs at the formula's own precision.
    """
    with _Precision.lock:
        before = ctx.prec
        try:
            ctx.prec = bits
            value = formula()
            return _dyadic(value.lower(), up=False), _dyadic(value.upper(), up=True)
        finally:
            ctx.prec = before


def decide(margin: Callable[[], arb]) -> bool:
    """Whether a number that is not zero lies above zero, computed with growing precision until the ball says so."""
    bits = 64
    with _Precision.lock:
        before = ctx.prec
        try:
            while bits <= 1 << 14:
                ctx.prec = bits
                value = margin()
                if not value.is_finite():
                    raise Misconfigured(_TOO_LARGE)
                if value > 0 or value < 0:  # all numbers of the ball
                    return bool(value > 0)
                bits *= 2
        finally:
            ctx.prec = before
    raise Bug("a comparison of real numbers does not converge")


def round_up(value: Fraction, *, digits: int = 18) -> Fraction:
    """The next multiple of 10^-digits at or above."""
    return -round_down(-value, digits=digits)


def round_down(value: Fraction, *, digits: int = 18) -> Fraction:
    """The next multiple of 10^-digits at or below."""
    unit = 10**digits
    return Fraction(value.numerator * unit // value.denominator, unit)


def root_up(value: int) -> Fraction:
    """sqrt(value) rounded up to a multiple of 2^-20; exact for squares."""
    return Fraction(isqrt((value << 40) - 1) + 1, 1 << 20) if value else Fraction(0)


def root_down(value: Fraction) -> Fraction:
    """A root rounded down, to 2^-64 of the largest power of two below it or finer."""
    bits = 64 + max(0, value.denominator.bit_length() - value.numerator.bit_length())
    return Fraction(isqrt((value.numerator << 2 * bits) // value.denominator), 1 << bits)


def _dyadic(value: arb, *, up: bool) -> Fraction:
    """The end of a ball; next to 0 it is rounded to one side, which keeps it short."""
    if not value.is_finite():
        raise Misconfigured(_TOO_LARGE)
    mantissa, exponent = map(int, value.man_exp())
    if mantissa and exponent + mantissa.bit_length() < -_FARTHEST:
        tiny = Fraction(1, 1 << _FARTHEST) if up == (mantissa > 0) else Fraction(0)
        return tiny if mantissa > 0 else -tiny
    if exponent > _FARTHEST:
        raise Misconfigured(_TOO_LARGE)
    return Fraction(mantissa) * Fraction(2) ** exponent


def _length(value: Decimal) -> int:
    """The number of digits on the longer side of the point."""
    return max(abs(value.adjusted()), len(value.as_tuple().digits))
