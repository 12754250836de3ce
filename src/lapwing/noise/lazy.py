"""Exact comparison of a uniform real with a real number that is known only by enclosures.

Lemma.  `is_below(U, bounds)` returns 1[U < theta] exactly: it answers only when the whole cell [u, u+1) / 2^k of the
        bits drawn so far lies on one side of an enclosure of theta, and draws more bits otherwise. A dyadic theta is
        decided at its own length; for any other theta, needing more than k bits has probability at most 2^(1-k).
Checked by: tests/noise/test_lazy.py
"""

from __future__ import annotations

from collections.abc import Callable

from lapwing.errors import Bug
from lapwing.noise.bits import BitSource

BoundsAt = Callable[[int], tuple[int, int]]
"""bounds(p) = integers (low, high) with low <= 2^p theta <= high, as narrow as p allows."""

_GUARD = 32  # the enclosure is this many bits finer than the uniform
_MOST = 1 << 14


class LazyUniform:
    """A uniform real in [0, 1) whose binary digits are drawn on demand: it lies in [value, value + 1) / 2^length."""

    __slots__ = ("_bits", "length", "value")

    STEP = 16
    """Digits drawn at a time: a fresh comparison needs more with a probability of 2^-15."""

    def __init__(self, bits: BitSource, value: int = 0, length: int = 0) -> None:
        self.value = value
        self.length = length
        self._bits = bits

    def extend(self) -> None:
        """Draws the next digits."""
        if self.length > _MOST:
            raise Bug("a lazy comparison asked for more than 16,384 bits; the enclosure does not narrow")
        self.value = self.value << self.STEP | self._bits.integer(self.STEP)
        self.length += self.STEP


def is_below(uniform: LazyUniform, bounds: BoundsAt) -> bool:
    """Whether the uniform lies below the enclosed number."""
    if not uniform.length:
        uniform.extend()
    while True:
        low, high = bounds(uniform.length + _GUARD)
        if (uniform.value + 1) << _GUARD <= low:
            return True
        if uniform.value << _GUARD >= high:
            return False
        uniform.extend()


def rational_bounds(numerator: int, denominator: int) -> BoundsAt:
    """Enclosures of numerator / denominator."""

    def bounds(precision: int) -> tuple[int, int]:
        scaled = numerator << precision
        return scaled // denominator, -(-scaled // denominator)

    return bounds


def exp_bounds(numerator: int, denominator: int) -> BoundsAt:
    """Enclosures of exp(-numerator / denominator)."""
    return lambda precision: exp_neg(numerator, denominator, precision)


def exp_neg(numerator: int, denominator: int, precision: int) -> tuple[int, int]:
    """Integers (low, high) with low <= 2^precision exp(-numerator / denominator) <= high, for a rate >= 0.

    Proof: the argument is halved until it is below 2^-8; there the alternating Taylor sum, with every product rounded
    outward, errs by at most its last term; then it is squared back, rounding outward. Integers only.
    """
    if not numerator:
        return 1 << precision, 1 << precision
    if numerator >= denominator * precision:  # e^-p < 2^-p
        return 0, 1
    halvings = (numerator // denominator).bit_length() + 8
    work = precision + halvings + 24
    x_low = (numerator << work) // (denominator << halvings)
    x_high = x_low + 1
    low = high = term_low = term_high = 1 << work
    order = 0
    while term_high > 1:
        order += 1
        term_low = (term_low * x_low >> work) // order
        term_high = -((-term_high * x_high >> work) // order)
        low, high = (low - term_high, high - term_low) if order % 2 else (low + term_low, high + term_high)
    low, high = low - term_high, high + term_high
    for _ in range(halvings):
        low, high = low * low >> work, -(-high * high >> work)  # a shift rounds down, so of the negative up
    return low >> work - precision, min(1 << precision, -(-high >> work - precision))
