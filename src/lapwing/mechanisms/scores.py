"""Scores of candidates, read exactly: the input of every mechanism that chooses one of many.

A score is a whole number, a float (read as its shortest decimal), a Fraction or a Decimal. Choosing needs the gaps to
the best score only, as whole multiples of one exact unit: the samplers of noise/choice.py take them from there.
Scores are data, so no message shows one.
Checked by: tests/mechanisms/test_scores.py
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from numbers import Integral
from typing import Any, TypeVar

import numpy as np

from lapwing.arrays import Array, Floats
from lapwing.errors import Misconfigured
from lapwing.mechanisms.mechanism import FrozenValue, read_monotone
from lapwing.noise.bernoulli import exp_neg
from lapwing.numbers import Enclosure, Number, ball, count, enclose, exact, positive
from lapwing.privacy.neighbours import Neighbours, read_neighbours

T = TypeVar("T")
Wholes = Array
"""An integer array, or Python integers of any size in an object array."""

_DIGITS = 15  # a decimal of at most 15 digits is determined by its float64
_GLANCE = 64  # floats checked before all of them are
_FAR = 2000  # a weight below e^-2000 is enclosed without care for its relative width


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Selection(FrozenValue):
    """The parameters of a mechanism that chooses one of many candidates by their scores.

    `sensitivity` bounds how far one step of `neighbours` moves any single score. `monotone` states that such a step
    moves all scores the same way, as adding a person does to counts; then half the noise gives the same guarantee.
    """

    epsilon: Fraction
    sensitivity: Fraction
    monotone: bool
    neighbours: Neighbours

    def __init__(
        self,
        *,
        epsilon: Number,
        sensitivity: Number = 1,
        monotone: bool = False,
        neighbours: Neighbours = Neighbours.ADD_OR_REMOVE,
    ) -> None:
        self._set(epsilon=positive(epsilon, "epsilon"), sensitivity=positive(sensitivity, "sensitivity"))
        self._set(monotone=read_monotone(monotone, neighbours), neighbours=read_neighbours(neighbours))

    @property
    def rate(self) -> Fraction:
        """How much the log-weight of a candidate grows per unit of score."""
        return self.epsilon / (self.sensitivity if self.monotone else 2 * self.sensitivity)


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Score i is ticks[i] * unit, exactly. `whole` says that all were written as integers, whatever their values."""

    ticks: Wholes
    unit: Fraction
    whole: bool


def gaps(utilities: object, name: str = "utilities") -> tuple[Wholes, Fraction]:
    """Integers e_i >= 0 (int64, or Python integers in an object array) and u with max - utilities[i] = e_i u."""
    scores = read(utilities, name)
    return below_best(scores.ticks), scores.unit


def read(values: object, name: str) -> Scores:
    if isinstance(values, str | bytes):
        raise _unreadable(name)
    if not isinstance(values, Sequence) and not hasattr(values, "__array__"):
        raise Misconfigured(f"`{name}` is not a sequence of numbers. Pass a list, a tuple or an array.")
    array = number_array(values)
    if array.ndim != 1 or not array.size:
        raise Misconfigured(f"`{name}` must be a list of at least one number. Pass one number for each candidate.")
    match array.dtype.kind:
        case "i" | "u":
            return Scores(array, Fraction(1), whole=True)
        case "f" if not np.isfinite(array).all():
            raise _unreadable(name)
        case "f" if array.dtype == np.float64 and (digits := _decimals(array)) is not None:
            return Scores(np.rint(array * 10.0**digits).astype(np.int64), Fraction(1, 10**digits), whole=False)
        case "f" if array.dtype == np.float64:
            return _combine([Decimal(repr(value)).as_integer_ratio() for value in array.tolist()], whole=False)
        case "f" | "O":
            return _read_each(list(array), name)
        case _:
            raise _unreadable(name)


def below_best(ticks: Wholes) -> Wholes:
    """max(ticks) - ticks, as int64 where that fits."""
    best, worst = int(ticks.max()), int(ticks.min())
    if ticks.dtype == object or best - worst >= 1 << 63:
        return wholes([best - tick for tick in ticks.tolist()])
    signed = ticks if ticks.dtype == np.uint64 else ticks.astype(np.int64, copy=False)
    return (signed.dtype.type(best) - signed).astype(np.int64, copy=False)


def wholes(numbers: list[int]) -> Wholes:
    """The integers as int64, or as an object array if one of them does not fit."""
    try:
        return np.array(numbers, np.int64)
    except OverflowError:
        return np.array(numbers, object)


def times(numbers: Wholes, factor: Fraction) -> Floats:
    """numbers * factor in float64, with a relative error below 2^-51 each; what float64 cannot hold is infinite."""
    if numbers.dtype != object and 1e-280 < factor < 1e280:
        return numbers.astype(np.float64) * float(factor)
    return np.array([nearest(number * factor) for number in numbers.tolist()], np.float64)


def nearest(value: Fraction) -> float:
    """The nearest float64; infinite if there is none."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def at_least(value: Fraction) -> float:
    """A float64 at or barely above the value."""
    near = nearest(value)
    return near if near == math.inf or Fraction(near) >= value else math.nextafter(near, math.inf)


def least_whole(holds: Callable[[int], bool]) -> int:
    """The least whole number above 0 that holds, if all larger ones do too."""
    low, high = 0, 1
    while not holds(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def weights(exponents: Wholes, rate: Fraction) -> tuple[list[int], list[int], int]:
    """Integers (lows, highs, bits) with lows[i] <= 2^bits exp(-rate e_i) <= highs[i].

    Narrow to a share 2^-120 of every weight above e^-2000.
    """
    distinct = set(exponents.tolist())
    bits = 128 + math.ceil(min(rate * max(distinct), _FAR) / Fraction("0.693"))
    bounds = {e: exp_neg(e * rate.numerator, rate.denominator, bits) for e in distinct}
    lows, highs = zip(*(bounds[e] for e in exponents.tolist()), strict=True)
    return list(lows), list(highs), bits


def shares(exponents: Wholes, rate: Fraction) -> tuple[Enclosure, ...]:
    """Bounds of exp(-rate e_i) / sum_j exp(-rate e_j): largest if i's weight is and the others' are smallest."""
    lows, highs, _ = weights(exponents, rate)
    low_sum, high_sum = sum(lows), sum(highs)
    return tuple(
        (Fraction(low, low + high_sum - high), Fraction(high, high + low_sum - low))
        for low, high in zip(lows, highs, strict=True)
    )


def loss_within(odds: Fraction, rate: Fraction) -> Fraction:
    """A t at or barely above the least t >= 0 with odds e^(-rate t) <= 1."""
    return enclose(lambda: ball(odds).log() / ball(rate))[1] if odds > 1 else Fraction(0)


def require_one_each(candidates: Any, size: int, name: str) -> None:
    """Refuses candidates that are not a sequence or an array of this length."""
    if not isinstance(candidates, Sequence) and (not hasattr(candidates, "__array__") or not np.ndim(candidates)):
        raise Misconfigured("`candidates` is not a sequence; the order must be known. Pass a list or an array.")
    if len(candidates) != size:
        raise Misconfigured(f"`candidates` and `{name}` have different lengths. Pass one number for each candidate.")


def candidate_at(candidates: Sequence[T] | Any, index: int) -> T | Any:
    """The candidate in this place: an element of a sequence or an array, a Python value from an Arrow array."""
    if isinstance(candidates, Sequence):
        return candidates[index]
    if hasattr(candidates, "to_pylist"):
        return candidates[index].as_py()
    return np.asarray(candidates)[index]


def read_candidates(candidates: int, best: int) -> tuple[int, int]:
    """Reads how many candidates there are, and how many of them are known to reach the best score."""
    total, optimal = count(candidates, "candidates"), count(best, "best")
    if optimal > total:
        raise Misconfigured(f"`best` is {best}; there are only {total} candidates. Pass at most that many.")
    return total, optimal


def number_array(values: Any) -> Wholes:
    """A sequence, a numpy, Arrow or pandas array as an array; numbers of different types stay objects."""
    if hasattr(values, "__array__"):  # a missing value arrives as NaN or as a non-number
        return np.asarray(values)
    kinds = set(map(type, values))
    if kinds <= {int}:
        return wholes(list(values))
    return np.array(values, np.float64) if kinds == {float} else np.fromiter(values, object, len(values))


def _decimals(values: Floats) -> int | None:
    """The least d <= 15 for which all values are k / 10^d with |k| < 10^15, if there is one.

    Then k / 10^d is the shortest decimal of its float: k and 10^d are exact floats and their quotient is rounded
    correctly, so the value is the float of that decimal of at most 15 digits; the shortest decimal has no more digits,
    and two decimals of at most 15 digits have different floats.
    """
    glance = values[:_GLANCE]
    return next((d for d in range(_DIGITS + 1) if _are_decimals(glance, d) and _are_decimals(values, d)), None)


def _are_decimals(values: Floats, digits: int) -> bool:
    with np.errstate(over="ignore"):
        ticks = np.rint(values * 10.0**digits)
    return bool((np.abs(ticks) < 10.0**_DIGITS).all() and (ticks / 10.0**digits == values).all())


def _read_each(values: list[Any], name: str) -> Scores:
    """One number at a time: the slow path that reads everything."""
    try:
        ratios = [exact(value, name).as_integer_ratio() for value in values]
    except Misconfigured:
        raise _unreadable(name) from None  # the first message shows the value
    return _combine(ratios, whole=all(isinstance(value, Integral) for value in values))


def _combine(ratios: list[tuple[int, int]], *, whole: bool) -> Scores:
    common = math.lcm(*{denominator for _, denominator in ratios})
    ticks = [numerator * (common // denominator) for numerator, denominator in ratios]
    return Scores(wholes(ticks), Fraction(1, common), whole)


def _unreadable(name: str) -> Misconfigured:
    return Misconfigured(
        f"`{name}` holds something that is not a finite number; every entry must be an int, float, Fraction or "
        "Decimal. Leave out candidates without one."
    )
