"""Bounds on the values of an expression: interval arithmetic with open ends.

An expression can be bounded even if its parts are not: GREATEST(0, LEAST(x, 100)). No guarantee depends on these
bounds: the engine clips every value to them before using it (query.py). They decide how much noise is added.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from flint import arb

from lapwing.expressions.types import Interval, Value
from lapwing.numbers import ball, enclose

End = Fraction | float
"""An end of an extent: exact, or plus or minus infinity. No other float."""

INFINITY = math.inf
_LARGE = Fraction(2**1000)  # an end beyond this counts as open
_FINE = 2**300  # longer fractions are rounded outward to multiples of its inverse, so their length stays bounded
_LEAST_LOG = Fraction(-745)  # below the logarithm of the smallest positive float64


@dataclass(frozen=True, slots=True)
class Extent:
    """All values an expression may take besides NULL. If there are none, low is above high."""

    low: End
    high: End
    present: bool = False
    """True if the expression is never NULL."""

    @property
    def is_empty(self) -> bool:
        return self.low > self.high

    def interval(self) -> Interval | None:
        """The extent as an interval, or None if an end is open."""
        if self.is_empty:
            return Interval(Fraction(0), Fraction(0))
        if isinstance(self.low, float) or isinstance(self.high, float):
            return None
        return Interval(self.low, self.high)


EVERYTHING = Extent(-INFINITY, INFINITY)
NOTHING = Extent(INFINITY, -INFINITY)


def between(low: int, high: int) -> Extent:
    return Extent(Fraction(low), Fraction(high))


def point(value: Value) -> Extent:
    """The extent of a constant. NULL has no value."""
    match value:
        case None:
            return NOTHING
        case bool():
            return EVERYTHING
        case int() | Fraction():
            return Extent(Fraction(value), Fraction(value), present=True)
        case _:
            return Extent(-INFINITY, INFINITY, present=True)


def always(low: int, high: int) -> Callable[..., Extent]:
    """A result between these numbers, whatever the arguments."""
    return lambda *_: between(low, high)


def strict(rule: Callable[..., Extent]) -> Callable[..., Extent]:
    """The rule for operators that return NULL if any argument is NULL. Ends are rounded outward."""

    def extent(*arguments: Extent) -> Extent:
        if any(argument.is_empty for argument in arguments):
            return NOTHING
        result = rule(*arguments)
        return Extent(_round_outward(result.low, math.floor), _round_outward(result.high, math.ceil))

    return extent


def hull(*extents: Extent) -> Extent:
    return Extent(
        min((extent.low for extent in extents), default=INFINITY),
        max((extent.high for extent in extents), default=-INFINITY),
        all(extent.present for extent in extents),
    )


def first(*extents: Extent) -> Extent:
    """COALESCE: the union of all; never NULL if one of them never is."""
    union = hull(*extents)
    return Extent(union.low, union.high, any(extent.present for extent in extents))


def case(*extents: Extent) -> Extent:
    """CASE: condition, value, condition, value, ..., and the ELSE value."""
    return hull(*extents[1:-1:2], extents[-1])


def greatest(*extents: Extent) -> Extent:
    """The largest non-NULL value: at least each argument that is never NULL."""
    union = first(*extents)
    return Extent(max([union.low, *(e.low for e in extents if e.present)]), union.high, union.present)


def least(*extents: Extent) -> Extent:
    """The smallest non-NULL value: at most each argument that is never NULL."""
    union = first(*extents)
    return Extent(union.low, min([union.high, *(e.high for e in extents if e.present)]), union.present)


def clip(value: Extent, low: Extent, high: Extent) -> Extent:
    """CLIP to constants; NULL leaves that side open."""
    if value.is_empty:
        return NOTHING
    bottom, top = (-INFINITY if low.is_empty else low.low), (INFINITY if high.is_empty else high.high)
    return Extent(max(bottom, min(value.low, top)), max(bottom, min(value.high, top)), value.present)


def _plus(x: End, y: End) -> End:
    return x if isinstance(x, float) else y if isinstance(y, float) else x + y


def _times(x: End, y: End) -> End:
    if not isinstance(x, float) and not isinstance(y, float):
        return x * y
    if x == 0 or y == 0:
        return Fraction(0)  # a finite number times 0; infinity times 0 is NaN, which becomes NULL
    return INFINITY if (x > 0) == (y > 0) else -INFINITY


@strict
def add(x: Extent, y: Extent) -> Extent:
    return Extent(_plus(x.low, y.low), _plus(x.high, y.high))


@strict
def subtract(x: Extent, y: Extent) -> Extent:
    return Extent(_plus(x.low, -y.high), _plus(x.high, -y.low))


@strict
def multiply(x: Extent, y: Extent) -> Extent:
    corners = [_times(a, b) for a in (x.low, x.high) for b in (y.low, y.high)]
    return Extent(min(corners), max(corners))


@strict
def divide(x: Extent, y: Extent) -> Extent:
    """Unbounded if the divisor comes near 0."""
    if y.low <= 0 <= y.high:
        return EVERYTHING
    inverse = [Fraction(0) if isinstance(end, float) else 1 / end for end in (y.high, y.low)]
    return multiply(x, Extent(inverse[0], inverse[1]))


@strict
def remainder(x: Extent, y: Extent) -> Extent:
    """It has the sign of x, and its magnitude exceeds neither argument."""
    most = max(-y.low, y.high)
    return Extent(max(min(x.low, Fraction(0)), -most), min(max(x.high, Fraction(0)), most))


@strict
def absolute(x: Extent) -> Extent:
    return Extent(max(Fraction(0), x.low, -x.high), max(-x.low, x.high))


@strict
def outward(x: Extent) -> Extent:
    """The extent of ROUND, and of casts to integers."""
    return Extent(_whole(x.low, math.floor), _whole(x.high, math.ceil))


@strict
def floor(x: Extent) -> Extent:
    """The extent of FLOOR; a number just below an integer may have been rounded up to it."""
    return Extent(_whole(_blur(x.low, -1), math.floor), _whole(_blur(x.high, 1), math.floor))


@strict
def ceil(x: Extent) -> Extent:
    return Extent(_whole(_blur(x.low, -1), math.ceil), _whole(_blur(x.high, 1), math.ceil))


@strict
def round_to(x: Extent, digits: Extent | None = None) -> Extent:
    places = 0 if digits is None or isinstance(digits.low, float) else int(digits.low)
    scale = Extent(Fraction(10) ** places, Fraction(10) ** places)
    return divide(outward(multiply(x, scale)), scale)


@strict
def sign(x: Extent) -> Extent:
    return between(1 if x.low > 0 else 0 if x.low == 0 else -1, -1 if x.high < 0 else 0 if x.high == 0 else 1)


@strict
def exponential(x: Extent) -> Extent:
    return Extent(_enclose(x.low, arb.exp)[0], _enclose(x.high, arb.exp)[1])


@strict
def root(x: Extent) -> Extent:
    if x.high < 0:
        return NOTHING
    return Extent(_enclose(max(x.low, Fraction(0)), arb.sqrt)[0], _enclose(x.high, arb.sqrt)[1])


def logarithm(base: int) -> Callable[[Extent], Extent]:
    """The extent of LN (base 0), LOG2 and LOG10, which are NULL at 0 and below."""

    def take(x: arb) -> arb:
        return x.log() / arb(base).log() if base else x.log()

    @strict
    def extent(x: Extent) -> Extent:
        if x.high <= 0:
            return NOTHING
        least = _enclose(x.low, take)[0] if x.low > 0 else _LEAST_LOG * (2 if base == 2 else 1)
        return Extent(least, _enclose(x.high, take)[1])

    return extent


@strict
def power(x: Extent, exponent: Extent) -> Extent:
    """For a non-negative integer exponent."""
    times = 0 if isinstance(exponent.low, float) else int(exponent.low)
    base = absolute(x) if times % 2 == 0 else x
    return Extent(_power(base.low, times), _power(base.high, times))


def _power(x: End, times: int) -> End:
    if not isinstance(x, float):
        return x**times
    return Fraction(1) if times == 0 else -INFINITY if x < 0 and times % 2 else INFINITY


def _enclose(x: End, function: Callable[[arb], arb]) -> tuple[End, End]:
    """Bounds on an increasing function at one point; outside the range of float64 they are open or 0."""
    if function is arb.exp and not -700 <= x <= 700:
        return (Fraction(1), INFINITY) if x > 0 else (Fraction(0), Fraction(1))
    if isinstance(x, float):
        return x, x
    end = x
    return enclose(lambda: function(ball(end)))


def _blur(x: End, sign: int) -> End:
    """An end that is not an integer, moved outward by more than the float64 error."""
    return x if isinstance(x, float) or x.denominator == 1 else x + sign * abs(x) / 2**40


def _whole(x: End, towards: Callable[[Fraction], int]) -> End:
    return x if isinstance(x, float) else Fraction(towards(x))


def _round_outward(x: End, towards: Callable[[Fraction], int]) -> End:
    if isinstance(x, float):
        return x
    if abs(x) > _LARGE:
        up = towards is math.ceil
        return (INFINITY if up else _LARGE) if x > 0 else (-_LARGE if up else -INFINITY)
    return Fraction(towards(x * _FINE), _FINE) if x.denominator > _FINE else x
