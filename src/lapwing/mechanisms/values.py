"""Values in, values out: a number, a list, a numpy array or an Arrow array, of integers or of reals.

`add_noise` adds the noise of an additive mechanism and returns the same kind of container that it was given. Reals go
through a power-of-two grid. The type of a value decides whether it is an integer or a real, and a type must not depend
on the data: sum integers to an int and reals to a float, also when there are no rows.
An aggregate that is not finite is a bug in the caller, so it is refused; the message never shows it.

Grid. No float ever carries a guarantee: a real x becomes the integer round(x / g), g = 2^k; an integer mechanism adds
its noise; the result times g is post-processing. The set of possible outputs does not depend on the data. [Mironov12]
[HDHH22]

Sensitivity: rounding moves every coordinate by at most g/2, so two neighbours x, x' of `size` coordinates satisfy
    ||round(x/g) - round(x'/g)||_1 <= ||x - x'||_1 / g + size,
    ||round(x/g) - round(x'/g)||_2 <= ||x - x'||_2 / g + sqrt(size)         (triangle inequality).
The grid is so fine, at least 2^20 size steps to the sensitivity and to the noise scale, that this adds at most one
part in a million to the noise (more only if epsilon is so small that the noise would span 2^48 steps).
Checked by: tests/mechanisms/test_values.py, tests/mechanisms/test_grid.py
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from lapwing.arrays import Array, Floats, Integers
from lapwing.errors import Misconfigured
from lapwing.mechanisms.scores import nearest
from lapwing.numbers import Number, root_up

_FINE = 20
_MOST_STEPS = 48  # noise of 2^49 steps is still drawn exactly
_MOST = 2.0**62


@dataclass(frozen=True, slots=True)
class Grid:
    """All multiples of 2^exponent."""

    exponent: int

    @classmethod
    def fine(cls, scale: Fraction, sensitivity: Fraction, size: int) -> Grid:
        """The grid for noise of this scale on `size` coordinates of this sensitivity. All three are public."""
        finest = _floor_log2(min(scale, sensitivity)) - _FINE - (size - 1).bit_length()
        return cls(max(finest, _floor_log2(scale) - _MOST_STEPS))

    @property
    def step(self) -> Fraction:
        return Fraction(2) ** self.exponent

    def l1_sensitivity(self, sensitivity: Fraction, size: int) -> Fraction:
        """The l1 sensitivity in grid units: an integer, since grid points are."""
        return Fraction(math.floor(sensitivity / self.step) + size)

    def l2_sensitivity(self, sensitivity: Fraction, size: int) -> Fraction:
        """The l2 sensitivity in grid units, rounded up."""
        return sensitivity / self.step + root_up(size)

    def integers(self, values: Floats) -> Integers:
        """Each value rounded to the grid, in grid units. Scaling by a power of two and rint are exact in float64.

        Values beyond 2^62 steps saturate: more than 2^13 noise scales away from zero, as a rule 2^40 / size.
        """
        scaled = np.ldexp(values, -self.exponent)
        return np.clip(np.rint(scaled), -_MOST, _MOST).astype(np.int64)

    def reals(self, integers: Integers) -> Floats:
        """Grid units back to reals (post-processing, rounded to float64)."""
        return np.ldexp(integers.astype(np.float64), self.exponent)


def _floor_log2(value: Fraction) -> int:
    """The k with 2^k <= value < 2^(k+1)."""
    k = value.numerator.bit_length() - value.denominator.bit_length()
    return k if Fraction(2) ** k <= value else k - 1


_CAREFUL = 1 << 62


class Additive(Protocol):
    """A mechanism that adds independent integer noise."""

    __slots__ = ()

    @property
    def size(self) -> int:
        """How many real values the guarantee covers."""

    @property
    def most_integers(self) -> int | None:
        """How many integers the guarantee covers; None if any number."""

    @property
    def grid(self) -> Grid:
        """The grid that real values are rounded to."""

    @property
    def on_grid(self) -> Additive:
        """The integer mechanism for real values, in grid units."""

    def draw(self, count: int) -> Integers:
        """Draws integer noise."""

    def error(self, confidence: Number = 0.95, *, simultaneous: int = 1) -> int:
        """A t with P[max of `simultaneous` independent |Z_i| <= t] >= confidence, for integer values."""

    def __call__(self, values: Any) -> Any:
        """Adds noise: int in, int out; float in, float out; lists and arrays likewise."""
        return add_noise(values, self)

    def real_error(self, confidence: Number = 0.95, *, simultaneous: int = 1) -> float:
        """The same as `error` for real values, rounding to the grid included."""
        units = self.on_grid.error(confidence, simultaneous=simultaneous)
        return math.nextafter(nearest((units + Fraction(1, 2)) * self.grid.step), math.inf)


def add_noise(values: Any, mechanism: Additive) -> Any:
    """Adds noise: int in, int out; float in, float out; lists and arrays likewise."""
    match values:
        case bool() | np.bool_() | str() | bytes() | None:
            raise Misconfigured("the value is not a number; pass an int, a float, or an array of them.")
        case int() | np.integer():
            return int(values) + int(mechanism.draw(1)[0])
        case float() | np.floating():
            return float(_add_noise_to_array(np.array([values], np.float64), mechanism)[0])
        case np.ndarray():
            return _add_noise_to_array(values, mechanism)
        case list() | tuple():
            return _add_noise_to_array(np.asarray(values), mechanism).tolist()
        case _ if hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__"):
            import pyarrow as pa

            array = values if isinstance(values, (pa.Array, pa.ChunkedArray)) else pa.array(values)
            if array.null_count:
                raise Misconfigured("the Arrow array holds nulls; fill them before adding noise.")
            return pa.array(_add_noise_to_array(array.to_numpy(zero_copy_only=False), mechanism))
        case _:
            raise Misconfigured("the values are of an unknown kind; pass a number, a list, a numpy or an Arrow array.")


def whole_shift(sensitivity: Fraction) -> int:
    """The sensitivity as a number of whole steps: the move of a whole number that loses most.

    Guarantee:  for log-concave noise Z on the integers and shifts 0 <= s <= t, no event tells x from x + s better than
                some event tells x from x + t: for every epsilon the least delta of the pair (Z, Z + t) is at least that
                of (Z, Z + s). So the loss at the largest shift covers all smaller ones, and by symmetry both signs.
    Proof:      P[Z = z] / P[Z = z - s] falls in z, since the law is log-concave. So the event that tells most is a ray
                {z <= k}, with F(k) - e^epsilon F(k - s), F the distribution function. F grows, so the same ray gives
                F(k) - e^epsilon F(k - t) >= F(k) - e^epsilon F(k - s). Discrete Laplace and Gaussian are log-concave.
    Checked by: tests/mechanisms/additive/test_shifted.py
    """
    if sensitivity.denominator != 1:
        raise Misconfigured(
            f"`sensitivity` is {sensitivity}; the privacy loss is known for whole numbers, which move by whole steps. "
            "Use PrivacyLoss.worst(epsilon=...) instead."
        )
    return int(sensitivity)


def saturating_sum(values: Integers, noise: Integers) -> Integers:
    """values + noise, kept inside int64; overwrites `noise`. |noise| <= 2^62, so only values beyond that need care.

    Cutting the *sum* is post-processing; both paths give the same numbers where neither leaves int64.
    """
    if not values.size or (int(values.min()) >= -_CAREFUL and int(values.max()) < _CAREFUL):
        noise += values
        return noise
    limits = np.iinfo(np.int64)
    return np.asarray(np.clip(values.astype(object) + noise.astype(object), limits.min, limits.max).astype(np.int64))


def _add_noise_to_array(values: Array, mechanism: Additive) -> Array:
    match values.dtype.kind:
        case "i" | "u":
            _check_size(values.size, mechanism.most_integers)
            if values.dtype == np.uint64:  # cutting is 1-Lipschitz: it makes nothing more sensitive
                values = np.minimum(values, np.iinfo(np.int64).max)
            noise = mechanism.draw(values.size).reshape(values.shape)
            return saturating_sum(values.astype(np.int64, copy=False), noise)
        case "f":
            _check_size(values.size, mechanism.size)
            if not np.isfinite(values).all():
                raise Misconfigured("a value is not finite; clip and filter before adding noise.")
            grid = mechanism.grid
            noise = mechanism.on_grid.draw(values.size).reshape(values.shape)
            return grid.reals(saturating_sum(grid.integers(values.astype(np.float64)), noise))
        case _:
            raise Misconfigured("the array holds neither integers nor floats; convert it to one of them.")


def _check_size(given: int, most: int | None) -> None:
    if most is not None and given > most:
        raise Misconfigured(
            f"{given} values were passed to a mechanism made for {most}; the guarantee covers no more. "
            f"Make it with size={given}."
        )
