"""Running counts of a stream: a noisy total after every step, for the price of one count.

At step t = 1, 2, ... a whole number x_t arrives (how many people came by) and the total so far is released. A unit
changes at most `steps_per_unit` of the increments, each by at most 1. Fresh noise on every total would cost one price
a step; noise on every increment lets the error grow with the root of the time. Both measure sums of a few increments.

Lemma (epochs). If the end of the stream is not known, epoch e covers the 2^e steps 2^e, ..., 2^(e+1) - 1, has a
counter of that horizon of its own, and the total is the sum of the epochs' last totals and the present one. Each
epoch costs the full price, and all together cost it once per step that a unit changes.
Proof. Each noisy number of an epoch is measured on increments of that epoch alone. Let two streams differ in step j
by 1. Given all earlier answers, increments chosen after seeing them are the same in both, except x_j. So the privacy
loss of a measurement is 0 unless it holds x_j, which only those of j's epoch do: the sum of losses along the stream
is the loss within one epoch. The same argument covers increments that are chosen adaptively within an epoch. A unit
that changes T steps is T such changes: losses add (T epsilon), and for zCDP T^2 rho (privacy/loss.py, lemma (path)).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from operator import index
from typing import ClassVar

import numpy as np

from lapwing.errors import Misconfigured
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.additive.tails import gaussian_tail_bound, laplace_tail_bound
from lapwing.mechanisms.mechanism import FrozenValue, PureMechanism
from lapwing.mechanisms.ranges.ranges import MOST_CELLS, coefficients, decoder, read_size, squared_norm
from lapwing.mechanisms.sparse.crossing import PaidRun
from lapwing.noise import sample_gaussian
from lapwing.numbers import Number, count, inside_unit, positive
from lapwing.privacy.loss import ZCDP, Loss

_LIMB = 21  # an increment is two limbs of 21 bits, so that sums of 2^20 products with 21-bit entries fit int64
_MOST = 1 << 41


@dataclass(frozen=True, slots=True, init=False, repr=False)
class _Counter(FrozenValue, ABC):
    """Base of both counters: they count up to a horizon, or in epochs that double up to the longest."""

    longest: ClassVar[int]

    horizon: int | None
    steps_per_unit: int

    @property
    @abstractmethod
    def loss(self) -> Loss: ...

    @abstractmethod
    def totals(self, horizon: int) -> _Blocks | _Rows:
        """The state of an epoch of this many steps that nothing was added to."""

    def start(self) -> CounterRun:
        """A run with noise of its own; it costs the loss."""
        return CounterRun(self)

    def _epochs(self, step: object) -> list[tuple[int, int]]:
        """(step within the epoch, its length) of the epochs up to this step; one epoch if the horizon is known."""
        left, length = count(step, "step"), self.horizon or 1
        if self.horizon is not None and left > self.horizon:
            raise Misconfigured(f"`step` is {left}; the horizon is {self.horizon}. Pass a step within it.")
        epochs = []
        while left > 0:
            epochs.append((min(left, length), length))
            left, length = left - length, min(2 * length, self.longest)
        return epochs


@dataclass(frozen=True, slots=True, init=False, repr=False)
class BinaryCounter(PureMechanism, _Counter):
    """A running count under pure DP.

    Use:        totals of a stream under pure DP; under zCDP `ToeplitzCounter`; for the last total only, `Laplace`.
    Law:        step t closes the block of the last lowbit(t) steps, lowbit(t) = the largest power of 2 that divides t;
                its sum gets discrete Laplace noise of scale b T / epsilon, once, b = the number of binary digits of the
                horizon, T = steps_per_unit. The total at t is the sum of the noisy blocks that fill steps 1 to t, one
                for each 1 among the binary digits of t.
    Guarantee:  pure DP with epsilon for a unit that changes at most T increments by at most 1 each, for all totals
                together, even if increments are chosen after seeing earlier totals. Without a horizon: lemma (epochs).
    Error:      at step t the sum of as many noises as t has binary ones: `error(t)`.
    Proof:      step j lies in the blocks closed at j, j + lowbit(j), ...: lowbit at least doubles each time, so within
                the horizon they are at most b. One increment moves the noisy sums by at most b in l1: Laplace
                mechanism; T of them by T b. Each noisy sum is drawn once and remembered. [CSS11] [DNPR10]
    Figure:     `BinaryCounter(horizon=1023, epsilon=1).error(1023)` = 89
    Checked by: tests/mechanisms/counters/test_counter.py
    """

    longest: ClassVar[int] = 1 << 62

    epsilon: Fraction

    def __init__(self, *, epsilon: Number, horizon: int | None = None, steps_per_unit: int = 1) -> None:
        self._set(epsilon=positive(epsilon, "epsilon"), horizon=None if horizon is None else count(horizon, "horizon"))
        self._set(steps_per_unit=count(steps_per_unit, "steps_per_unit"))

    def noise(self, horizon: int) -> Laplace:
        return Laplace(epsilon=self.epsilon, sensitivity=self.steps_per_unit * horizon.bit_length())

    def totals(self, horizon: int) -> _Blocks | _Rows:
        return _Blocks(self.noise(horizon))

    def error(self, step: int, confidence: Number = 0.95) -> int:
        """With this probability the total at this step is off by at most this."""
        parts = self._epochs(step)
        scales = [float(self.noise(length).scale) for at, length in parts for _ in range(at.bit_count())]
        outside = float(1 - inside_unit(confidence, "confidence"))
        return math.floor(laplace_tail_bound(np.ones(len(scales)), np.array(scales), outside))


@dataclass(frozen=True, slots=True, init=False, repr=False)
class ToeplitzCounter(_Counter):
    """A running count under zCDP.

    Use:        totals of a stream under zCDP; under pure DP `BinaryCounter`; counts that are all there, `PrefixSums`.
    Law:        y_t = sum_k c_k x_(t-k) + Z_t, total = sum_k g_k y_(t-k), with c, g and the variance of `PrefixSums` for
                the horizon (times steps_per_unit^2). Increments beyond 2^41 are cut.
    Guarantee:  rho-zCDP for a unit that changes at most `steps_per_unit` increments by at most 1 each, for all totals
                together, even if increments are chosen after seeing earlier totals. Without a horizon: lemma (epochs).
    Error:      that of sum_k g_k Z_(t-k): `error(t)`; at rho = 1/2 the standard deviation is at most ln(n) / pi + 1.07.
    Proof:      given earlier answers a changed x_j moves the mean of y_t by c_(t-j), so y_t costs c_(t-j)^2 / (2
                variance) [CKS20]; rhos add along an adaptive path, to at most sum c_k^2 / (2 variance). T changes:
                T^2 times that. Totals are computed from y alone, which holds whole numbers of full precision.
    Figure:     `round(ToeplitzCounter(horizon=1023, rho=0.5).error(1023), 1)` = 6.4
    Checked by: tests/mechanisms/counters/test_counter.py
    """

    longest: ClassVar[int] = MOST_CELLS
    """Epochs no longer double from here on: a step takes time in proportion to its epoch."""

    rho: Fraction

    def __init__(self, *, rho: Number, horizon: int | None = None, steps_per_unit: int = 1) -> None:
        self._set(rho=positive(rho, "rho"), horizon=None if horizon is None else read_size(horizon, "horizon"))
        self._set(steps_per_unit=count(steps_per_unit, "steps_per_unit"))

    @property
    def loss(self) -> ZCDP:
        return ZCDP(self.rho)

    def variance(self, horizon: int) -> Fraction:
        """That of the noise of each step, in an epoch of this many steps."""
        return Fraction(self.steps_per_unit**2 * squared_norm(horizon)) / (2 * self.rho)

    def totals(self, horizon: int) -> _Blocks | _Rows:
        return _Rows(self.variance(horizon), horizon)

    def error(self, step: int, confidence: Number = 0.95) -> float:
        parts = self._epochs(step)
        least = min(self.variance(length) for _, length in parts)
        stretch = [math.sqrt(self.variance(length) / least) for _, length in parts]
        weights = [s * decoder(length)[:at] for (at, length), s in zip(parts, stretch, strict=True)]
        return gaussian_tail_bound(np.concatenate(weights), least, float(1 - inside_unit(confidence, "confidence")))


class CounterRun(PaidRun[float]):
    """A running counter: increments in, noisy totals out, until the horizon."""

    __slots__ = ("_counter", "_done", "_left", "_length", "_step", "_totals")

    def __init__(self, counter: _Counter) -> None:
        super().__init__(counter.loss)
        self._counter = counter
        self._step = 0
        self._done: float = 0
        self._left = self._length = counter.horizon or 1
        self._totals = counter.totals(self._length)

    @property
    def step(self) -> int:
        return self._step

    def add(self, increment: int) -> float:
        """The noisy total, this increment included: a whole number if the counter is binary."""
        if isinstance(increment, bool | np.bool_):
            raise Misconfigured("the increment is a truth value; it must be a whole number. Pass an int.")
        try:
            number = index(increment)
        except TypeError:  # no message shows the increment
            raise Misconfigured("the increment is not a whole number. Pass an int.") from None
        return self._answer(number)

    def _next(self, number: int) -> float | None:
        if not self._left:
            return None
        self._step += 1
        self._left -= 1
        total = self._done + self._totals.add(number)
        if not self._left and self._counter.horizon is None:  # the next epoch starts from this total
            self._done = total
            self._left = self._length = min(2 * self._length, self._counter.longest)
            self._totals = self._counter.totals(self._length)
        return total

    @property
    def _halt(self) -> str:
        return f" after {self._step} steps"


class _Blocks:
    """The open blocks of a binary counter: for each power of 2 the true sum and the noisy sum of its last block."""

    __slots__ = ("_noise", "_noisy", "_step", "_true")

    def __init__(self, noise: Laplace) -> None:
        self._noise = noise
        self._step = 0
        self._true: list[int] = []
        self._noisy: list[int] = []

    def add(self, increment: int) -> int:
        self._step += 1
        closed = (self._step & -self._step).bit_length() - 1
        block = sum(self._true[:closed]) + increment
        fresh = block + int(self._noise.draw(1)[0])
        for sums, value in ((self._true, block), (self._noisy, fresh)):
            sums[: closed + 1] = [0] * closed + [value]
        return sum(self._noisy)


class _Rows:
    """The increments so far, and the noisy rows A x + Z of them."""

    __slots__ = ("_filter", "_limbs", "_root", "_rows", "_step", "_variance")

    def __init__(self, variance: Fraction, horizon: int) -> None:
        self._variance = variance
        self._root, self._filter = coefficients(horizon), decoder(horizon)
        self._limbs = np.zeros((2, horizon), np.int64)  # backwards in time, so that they meet the coefficients in order
        self._rows = np.zeros(horizon)
        self._step = 0

    def add(self, increment: int) -> float:
        self._step += 1
        t, start = self._step, self._root.size - self._step
        high, low = divmod(max(-_MOST, min(increment, _MOST)), 1 << _LIMB)
        self._limbs[:, start] = high, low
        upper, lower = (self._limbs[:, start:] @ self._root[:t]).tolist()
        self._rows[start] = (upper << _LIMB) + lower + int(sample_gaussian(self._variance, 1)[0])
        return float(self._filter[:t] @ self._rows[start:])
