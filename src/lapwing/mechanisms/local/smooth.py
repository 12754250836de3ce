"""Smooth sensitivity: integer noise whose scale may follow the data, because it follows them smoothly.

Setting. f is an integer function of the database. Its *bounds* U_0, U_1, ... are integer functions with
    |f(x) - f(x')| <= U_0(x)  and  U_k(x) <= U_(k+1)(x')  for all neighbours x, x',  and  U_k <= most, a public number:
the local sensitivities at distance k, or anything above them with this property. Weights 1 = w_0 > w_1 > ... are public
with w_(k+1) >= q w_k, and end at the first K with w_K most <= 1. The *smooth bound* and the answer are
    S(x) = max(1, max over k < K of w_k U_k(x)),        y = f(x) + Z,  Z of scale s(x) = S(x) / a,  a = epsilon / 2.
Let beta = ln(1 / q), x and x' neighbours, s = s(x), s' = s(x'), d = |f(x) - f(x')|, y = f(x) + z = f(x') + z', and
L = ln(P[y | x] / P[y | x']).

Lemma (smooth). S(x) <= e^beta S(x'), and d <= a s'. All is exact: w_k is rounded up, s is a fraction, at least 1/a.
Proof. w_k U_k(x) <= (w_(k+1) / q) U_(k+1)(x'); for k + 1 < K that is at most S(x') / q, for k + 1 = K it is at most
w_K most / q <= 1 / q <= S(x') / q. And 1 <= S(x') / q. Then d <= U_0(x') <= S(x').

Cauchy (delta = 0). P[Z = z] = tanh(pi s) s / pi / (z^2 + s^2). Pure epsilon, if a + (1 + c) beta <= epsilon, where
c = (2 pi / a) / sinh(2 pi / a): 0.00009 for epsilon = 1.
Proof. Slide: (z'^2 + s'^2) / (z^2 + s'^2) <= e^(d / s') <= e^a, as the derivative of ln(z^2 + s'^2) is at most 1 / s'.
Dilate: what remains is [s tanh(pi s) / (s' tanh(pi s'))] (z^2 + s'^2) / (z^2 + s^2). If s <= s', the bracket is at most
s / s' and the rest at most (s' / s)^2, together e^beta. If s > s', the rest is at most 1; the logarithm of
s tanh(pi s) grows with ln s at the rate 1 + 2 pi s / sinh(2 pi s), which falls with s and is at most 1 + c, as
s >= 1/a. So the bracket is at most e^((1 + c) beta).

Laplace (delta > 0). P[Z = z] = tanh(1 / (2 s)) exp(-|z| / s). (epsilon, delta)-DP, if a + beta <= epsilon and
(1 + tanh(a / 2)) (1 - q) exp(-(epsilon - a) q / (1 - q)) <= delta.
Proof. If s <= s': tanh(1 / (2 s)) / tanh(1 / (2 s')) <= s' / s <= e^beta, as tanh(t) / t falls; and
|z'| / s' - |z| / s <= (|z'| - |z|) / s' <= d / s' <= a. So L <= a + beta, always.
If s > s': the ratio of the tanh is at most 1, and L <= (|z| + d) / s' - |z| / s <= a + |z| (1 / s' - 1 / s) <=
a + |z| v / s with v = e^beta - 1 = (1 - q) / q. The delta of the pair is E[max(0, 1 - e^(epsilon - L))] <=
E[max(0, 1 - e^(-v (|z| - T) / s))], T = s (epsilon - a) / v. With r = e^(-1/s), t = r^(1+v), m the first integer
above T and h = m - T it is 2/(1 + r) r^m - 2 (1 - r)/((1 + r)(1 - t)) r^(-v T) t^m = 2/(1 + r) r^T g(h), where
g(h) = r^h - (1 - r)/(1 - t) r^((1+v) h). Since 1 - t <= (1 + v)(1 - r) (Bernoulli), g rises from h = 0 until
r^h = (1 + v)(1 - r)/(1 - t) r^((1+v) h) and falls from there on; there g = r^h v/(1 + v) <= v/(1 + v) = 1 - q.
Last, 2/(1 + r) <= 2/(1 + e^-a) = 1 + tanh(a / 2), and r^T = exp(-(epsilon - a) / v).

[NRS07] Nissim, Raskhodnikova, Smith: Smooth sensitivity and sampling in private data analysis. There, Cauchy noise is
scaled by 6 S / epsilon with beta = epsilon / 6; the proof above gives 2 S / epsilon with beta close to epsilon / 2.
Checked by: tests/mechanisms/local/test_smooth.py, tests/mechanisms/local/test_smooth_noise.py
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from flint import arb

from lapwing.errors import Misconfigured
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.local.ordered import BoundedGrid, Ordered
from lapwing.mechanisms.mechanism import FrozenValue, read_epsilon, read_secret
from lapwing.mechanisms.scores import at_least, nearest
from lapwing.noise.block import cauchy_integer, laplace_integer
from lapwing.numbers import Enclosure, Number, ball, below_one, enclose, inside_unit, positive
from lapwing.privacy.loss import Approximate, Pure
from lapwing.privacy.neighbours import Neighbours, read_neighbours

_DECAY_BITS = 40
_NOT_FINITE = "the value or a sensitivity is not a finite number. Pass ordinary numbers."
_WEIGHT_BITS = 128
_MOST_WEIGHTS = 1 << 17


@dataclass(frozen=True, slots=True, init=False, repr=False)
class SmoothNoise(FrozenValue):
    """The noise of the module's two theorems: Cauchy if delta is 0, Laplace otherwise."""

    epsilon: Fraction
    delta: Fraction
    decay: Fraction
    """q = e^-beta: how much less a database one step farther away counts."""

    def __init__(self, *, epsilon: Number, delta: Number = 0) -> None:
        size, exact_delta = read_epsilon(epsilon), below_one(delta, "delta")
        self._set(epsilon=size, delta=exact_delta)
        self._set(decay=_laplace_decay(size, exact_delta) if exact_delta else _cauchy_decay(size))

    @property
    def loss(self) -> Pure | Approximate:
        return Approximate(self.epsilon, self.delta) if self.delta else Pure(self.epsilon)

    @property
    def slide(self) -> Fraction:
        """The part of epsilon that hides the move of the value; the rest hides the change of scale."""
        return self.epsilon / 2

    @property
    def beta(self) -> float:
        return -math.log(self.decay)

    def terms(self, most: int) -> int:
        """How many of the bounds U_0, U_1, ... matter; it depends on public numbers only."""
        return len(_weights(self.decay, most))

    def smooth_bound(self, bounds: Sequence[int], most: int) -> Fraction:
        """S, from U_0, U_1, ...; what is missing counts as `most`. It depends on the data: never show it."""
        weights = _weights(self.decay, most)
        given = list(bounds[: len(weights)])
        padded = given + [most] * (len(weights) - len(given))
        top = max(weight * min(bound, most) for weight, bound in zip(weights, padded, strict=True))
        return max(Fraction(top, 1 << _WEIGHT_BITS), Fraction(1))

    def draw(self, smooth: Fraction) -> int:
        return (laplace_integer if self.delta else cauchy_integer)(smooth / self.slide)

    def law(self, z: int, smooth: Fraction) -> Enclosure:
        scale = smooth / self.slide
        if self.delta:
            return Laplace(epsilon=1 / scale).law(z)
        return enclose(lambda: (arb.pi() * ball(scale)).tanh() / arb.pi() * ball(scale / (z * z + scale * scale)))

    def error(self, confidence: Number, smooth: Fraction) -> int:
        """A t with P[|Z| <= t] >= confidence for this smooth bound.

        Cauchy: the sum of 1 / (z^2 + s^2) over z > t is at most the integral from t on, so
        P[|Z| > t] <= (2 / pi) arctan(s / t), which is 1 - confidence at t = s / tan(pi (1 - confidence) / 2).
        """
        exact_confidence = inside_unit(confidence, "confidence")
        scale = smooth / self.slide
        if self.delta:
            return Laplace(epsilon=1 / scale).error(exact_confidence)
        return math.ceil(enclose(lambda: ball(scale) / (arb.pi() * ball(1 - exact_confidence) / 2).tan())[1])


@lru_cache(maxsize=256)
def _weights(decay: Fraction, most: int) -> tuple[int, ...]:
    """w_0, ..., w_(K-1) in units of 2^-128, each rounded up; w_K is the first with w_K most <= 1."""
    weights, weight, one = [], 1 << _WEIGHT_BITS, 1 << _WEIGHT_BITS
    while weight * most > one:
        weights.append(weight)
        weight = -(-weight * decay.numerator // decay.denominator)
        if len(weights) > _MOST_WEIGHTS:
            raise Misconfigured(
                "`epsilon` is too small for smooth sensitivity: databases more than 100,000 steps away would matter. "
                "Use more epsilon or a coarser grid, or a mechanism with a global sensitivity."
            )
    return tuple(weights) or (one,)


@lru_cache(maxsize=256)
def _cauchy_decay(epsilon: Fraction) -> Fraction:
    """The least q = e^-beta, rounded up, with (1 + c) beta <= epsilon - a."""

    def most() -> arb:
        angle = 4 * arb.pi() / ball(epsilon)  # 2 pi / a
        return (-ball(epsilon / 2) / (1 + angle / angle.sinh())).exp()

    return _up(enclose(most)[1])


@lru_cache(maxsize=256)
def _laplace_decay(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The least q, by bisection over multiples of 2^-40, that meets both conditions of the theorem."""
    slide = epsilon / 2

    def delta_at(q: Fraction) -> Fraction:
        exponent = (epsilon - slide) * q / (1 - q)
        return enclose(lambda: (1 + ball(slide / 2).tanh()) * ball(1 - q) * (-ball(exponent)).exp())[1]

    top = (1 << _DECAY_BITS) - 1
    ticks = 1 + bisect_left(range(1, top), True, key=lambda q: delta_at(Fraction(q, 1 << _DECAY_BITS)) <= delta)
    least = Fraction(ticks, 1 << _DECAY_BITS)
    if delta_at(least) > delta:
        raise _too_small()
    return max(least, _up(enclose(lambda: (-ball(epsilon - slide)).exp())[1]))


def _up(decay: Fraction) -> Fraction:
    ticks = math.ceil(decay * (1 << _DECAY_BITS))
    if ticks >= 1 << _DECAY_BITS:
        raise _too_small()
    return Fraction(ticks, 1 << _DECAY_BITS)


def _too_small() -> Misconfigured:
    return Misconfigured("`epsilon` or `delta` is too small for smooth sensitivity. Pass a larger one.")


LocalSensitivities = Callable[[int], Number] | Sequence[Number]
"""The local sensitivity at distance k, as a function of k or as a list."""

_FINE = 30  # by default the grid has between 2^29 and 2^30 steps up to the cap


@dataclass(frozen=True, slots=True, init=False, repr=False)
class SmoothSensitivity(FrozenValue):
    """Adds noise scaled to how much the function can change near these data.

    Use:        when the global sensitivity is too large, and the local one is small and known at every distance, as
                for triangles in a graph; for medians `Quantile` is better.
    Law:        y = step (round(value / step) + Z); Z is Cauchy if delta is 0, Laplace otherwise, of scale
                2 S / epsilon, S a smooth upper bound of the local sensitivity in steps (above).
    Guarantee:  pure DP with epsilon if delta = 0, otherwise (epsilon, delta)-DP, for all neighbours x, x' with
                |f(x) - f(x')| <= A_0(x), A_k(x) <= A_(k+1)(x') for every k, and A_k <= cap. The local sensitivities at
                distance k are such. A list may be shorter than `distances`: missing terms count as the cap, and its
                length may then differ between neighbours by at most one.
    Error:      depends on the data through S: `error(confidence, smooth=...)` gives it for a bound that you assume.
    Proof:      floor(A_k / step) + 1 are integer bounds of the rounded function with the same property: two roundings
                add less than one step each way, and the map is monotone. The theorems above apply. The
                number of terms looked at, the grid and the weights are public. [NRS07]
    Figure:     `SmoothSensitivity(epsilon=1, cap=1000, step=1).error(0.5, smooth=10)` = 21.5
    Checked by: tests/mechanisms/local/test_smooth.py
    """

    noise: SmoothNoise
    cap: Fraction
    step: Fraction

    def __init__(self, *, epsilon: Number, cap: Number, delta: Number = 0, step: Number | None = None) -> None:
        most = positive(cap, "cap")
        size = _power_of_two(most / (1 << _FINE)) if step is None else positive(step, "step")
        if most / size > 1 << 40:
            raise Misconfigured(f"`step` is {step}; the cap must be at most 2^40 steps. Pass a larger step.")
        self._set(noise=SmoothNoise(epsilon=epsilon, delta=delta), cap=most, step=size)
        self.noise.terms(self._most)  # refuses an epsilon that would need too many terms

    def __call__(self, value: Number, at_distance: LocalSensitivities) -> float:
        """The value with noise; `at_distance` gives the local sensitivity at distance 0, 1, 2, ..."""
        units = round(read_secret(value, _NOT_FINITE) / self.step)
        return nearest((units + self.noise.draw(self._smooth(at_distance))) * self.step)

    @property
    def loss(self) -> Pure | Approximate:
        return self.noise.loss

    @property
    def distances(self) -> int:
        return self.noise.terms(self._most)

    def error(self, confidence: Number = 0.95, *, smooth: Number) -> float:
        """With this probability the answer is within this of the value, if `smooth_bound` is `smooth`.

        The bound of real data is secret, and so is the error that follows from it: assume one, or use synthetic data.
        """
        bound = max(positive(smooth, "smooth") / self.step, Fraction(1))
        return at_least((self.noise.error(confidence, bound) + Fraction(1, 2)) * self.step)

    def smooth_bound(self, at_distance: LocalSensitivities) -> Fraction:
        """The smooth bound in the units of the value, the step of the grid included. Secret for real data."""
        return self._smooth(at_distance) * self.step

    @property
    def _most(self) -> int:
        return math.floor(self.cap / self.step) + 1

    def _smooth(self, at_distance: LocalSensitivities) -> Fraction:
        most = self.distances
        terms = [at_distance(k) for k in range(most)] if callable(at_distance) else at_distance[:most]
        read = (read_secret(term, _NOT_FINITE) for term in terms)
        bounds = [math.floor(min(max(bound, Fraction(0)), self.cap) / self.step) + 1 for bound in read]
        return self.noise.smooth_bound(bounds, self._most)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class SmoothMedian(FrozenValue):
    """The median with noise scaled to the smooth sensitivity of these records.

    Use:        to see what local sensitivity can do; `Quantile` is several times better on most data and never far
                off. With delta > 0 the tails are light, but the typical error is about five times larger.
    Law:        records are cut to the bounds and rounded to a public grid; y = median + Z, cut to the bounds; Z is
                Cauchy if delta is 0, Laplace otherwise, of scale 2 S / epsilon steps, S = max over k of
                e^(-beta k) A_k, A_k the local sensitivity of the median at distance k.
    Guarantee:  pure DP with epsilon if delta = 0, otherwise (epsilon, delta)-DP, for all neighbouring sets of records,
                none and one included.
    Error:      depends on the data; `error(values)` gives it for data that are not secret, such as synthetic ones.
    Proof:      ordered.py proves A_k for either relation; they satisfy A_k(x) <= A_(k+1)(x'), so the theorems
                above apply. Cutting the answer is post-processing. [NRS07]
    Figure:     `SmoothMedian(epsilon=1, bounds=(0, 1000), step=1).error(range(1001), 0.5)` = 4.0
    Checked by: tests/mechanisms/local/test_smooth.py
    """

    noise: SmoothNoise
    cells: BoundedGrid
    neighbours: Neighbours

    def __init__(
        self,
        *,
        epsilon: Number,
        bounds: tuple[Number, Number],
        delta: Number = 0,
        step: Number | None = None,
        neighbours: Neighbours = Neighbours.ADD_OR_REMOVE,
    ) -> None:
        self._set(noise=SmoothNoise(epsilon=epsilon, delta=delta), cells=BoundedGrid(bounds, step))
        self._set(neighbours=read_neighbours(neighbours))
        self.noise.terms(self.cells.last)  # refuses an epsilon that would need too many terms

    def __call__(self, values: Any) -> float:
        records = self._order(values)
        return self.cells.value(records.median + self.noise.draw(self._smooth(records)))

    @property
    def loss(self) -> Pure | Approximate:
        return self.noise.loss

    def error(self, values: Any, confidence: Number = 0.95) -> float:
        """With this probability the answer for these records is within this of their median. Secret for real data."""
        steps = self.noise.error(confidence, self._smooth(self._order(values))) + 1  # one more for the grid
        return at_least(min(steps, self.cells.last) * self.cells.step)

    def smooth_bound(self, values: Any) -> Fraction:
        """The smooth bound S of these records, in the units of the bounds. Secret for real data."""
        return self._smooth(self._order(values)) * self.cells.step

    def _order(self, values: Any) -> Ordered:
        return self.cells.order(values, self.neighbours)

    def _smooth(self, records: Ordered) -> Fraction:
        last = self.cells.last
        return self.noise.smooth_bound(records.gaps(self.noise.terms(last)), last)


def _power_of_two(value: Fraction) -> Fraction:
    """The least power of two that is not below the value."""
    ceiling = math.ceil(value)
    if ceiling > 1:
        return Fraction(1 << (ceiling - 1).bit_length())
    return Fraction(1, 1 << (math.floor(1 / value).bit_length() - 1))
