"""Exact numbers and guarantees as text."""

from __future__ import annotations

from dataclasses import fields
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_UP, Context, Decimal, Inexact
from enum import Enum
from fractions import Fraction
from inspect import Parameter, signature
from types import NoneType
from typing import Any

from lapwing.numbers import ball, enclose, round_down

WEAK_EPSILON = 8
WEAK_DELTA = Fraction(1, 1000)
_LARGEST_EXPONENT = 100  # above it e^epsilon means nothing to a reader


def decimal_text(value: Fraction, *, rounding: str = ROUND_HALF_EVEN) -> str:
    """All digits if 18 suffice, otherwise 8 of them, rounded as asked."""
    return _exact_text(value, 18) or _rounded_text(value, 8, rounding)


def round_text(value: Fraction, digits: int = 2, *, rounding: str = ROUND_HALF_EVEN) -> str:
    """The value with this many significant digits, or its whole part if that is longer."""
    return _rounded_text(value, max(digits, len(str(int(abs(value))))), rounding)


def share_text(part: Fraction) -> str:
    """A part of the budget that is spent, never below it: 5%, 2.8%, 0.031%."""
    return f"{round_text(100 * part, rounding=ROUND_UP)}%"


def left_text(part: Fraction) -> str:
    """A part of the budget that is left, never above it."""
    return f"{round_text(100 * part, rounding=ROUND_DOWN)}%"


def short_text(value: Fraction) -> str:
    """All digits if 18 suffice, otherwise 8 of them and dots."""
    text = decimal_text(value, rounding=ROUND_DOWN)
    return text if Fraction(text) == value else f"{text}..."


def short_repr(value: Any) -> str:
    """A frozen value as it is written in a program, without defaults; its fields hold the exact fractions."""
    defaults = {name: parameter.default for name, parameter in signature(type(value)).parameters.items()}
    named = []
    for name, own in ((field.name, getattr(value, field.name)) for field in fields(value) if field.repr):
        default = defaults.get(name, Parameter.empty)
        if own is not None and not (_is_plain(own) and _is_plain(default) and own == default):
            named.append(f"{name}={_short(own)}")
    return f"{type(value).__name__}({', '.join(named)})"


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return isinstance(value, bool | int | float | str | Fraction | Enum | NoneType)


def _short(value: object) -> str:
    match value:
        case Fraction():
            return short_text(value)
        case Enum():
            return repr(value.value)
        case tuple():
            return f"({', '.join(map(_short, value))}{',' if len(value) == 1 else ''})"
        case _:
            return repr(value)


def at_least_text(value: Fraction) -> str:
    """All digits if 6 suffice, otherwise 4, never above the value: for what remains."""
    return _exact_text(value, 6) or round_text(value, 4, rounding=ROUND_DOWN)


def at_most_text(value: Fraction) -> str:
    """All digits if 6 suffice, otherwise 4, never below the value: for what was spent."""
    return _exact_text(value, 6) or round_text(value, 4, rounding=ROUND_UP)


def percent(confidence: Fraction) -> str:
    """95%, 99.9%: never more than it is."""
    return f"{decimal_text(100 * confidence, rounding=ROUND_DOWN)}%"


def meaning(epsilon: Fraction, delta: Fraction) -> str:
    """The promise of (epsilon, delta) to one person under add-or-remove, and no more.

    Proof for delta = 0: "she is in the data" and "she is not" are neighbours, so Bayes multiplies their odds by at most
    e^epsilon; two records that she may have are two steps apart (one removed, one added), so theirs by e^(2 epsilon).
    What is true of everyone like her is learned without her too, and no epsilon bounds it.
    """
    if epsilon > _LARGEST_EXPONENT:
        return f"An epsilon of {decimal_text(epsilon)} promises almost nothing."
    factor = f"e^{decimal_text(epsilon)} = {_factor(epsilon)}"
    if delta == 0:
        twice = f"e^{decimal_text(2 * epsilon)} = {_factor(2 * epsilon)}"
        return (
            f"The answers change the odds that a person is in the data by at most a factor {factor}, and the odds of "
            f"what her record says, if she is in, by at most {twice}. "
            "What they teach about people like her is not bounded."
        )
    chance = at_most_text(delta)
    return f"With or without one person, no outcome becomes more than {factor} times as likely, plus {chance}."


def weakness(epsilon: Fraction, delta: Fraction) -> str:
    """Why (epsilon, delta) promises almost nothing; empty if it is a real promise.

    At epsilon = 8 the answers may raise the chance that a person is in the data from 1 in 1,000 to 75 %. Publishing
    each record with probability delta = 1/1,000 is within the promise, and exposes one person in every 1,000.
    """
    reasons = []
    if epsilon > WEAK_EPSILON:
        reasons.append(
            f"An epsilon above {WEAK_EPSILON} protects hardly anyone: {decimal_text(epsilon)} lets the answers raise a "
            f"chance of 1 in 1,000 that a person is in the data to {_raised(epsilon)}. Use 1 or less where you can."
        )
    if delta >= WEAK_DELTA:
        reasons.append(
            f"A delta of {decimal_text(delta)} allows each person's record to be published with that probability. "
            "Use one far below 1 / (number of people), such as 1e-6."
        )
    return " ".join(reasons)


def _raised(epsilon: Fraction) -> str:
    if epsilon > 2 * WEAK_EPSILON:
        return "near certainty"
    low, _ = enclose(lambda: 1 / (1 + 999 * (-ball(epsilon)).exp()))
    return f"{decimal_text(round_down(100 * low, digits=1))} %"


def _factor(epsilon: Fraction) -> str:
    _, high = enclose(lambda: ball(epsilon).exp())
    return _rounded_text(high, 3, ROUND_UP)


def _exact_text(value: Fraction, digits: int) -> str:
    """All digits, if this many suffice; otherwise nothing."""
    context = Context(prec=digits)
    number = context.divide(Decimal(value.numerator), Decimal(value.denominator))
    return "" if context.flags[Inexact] else _plain(number)


def _rounded_text(value: Fraction, digits: int, rounding: str) -> str:
    return _plain(Context(prec=digits, rounding=rounding).divide(Decimal(value.numerator), Decimal(value.denominator)))


def _plain(number: Decimal) -> str:
    """0.001 rather than 1E-3, and 1e-6 rather than 0.000001."""
    number = number.normalize()
    if number == 0 or -4 <= number.adjusted() < 18:
        return f"{number:f}"
    return f"{number:e}".replace("e+", "e")
