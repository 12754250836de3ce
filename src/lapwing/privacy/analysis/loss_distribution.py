"""The privacy-loss distribution: how much outputs reveal, and how often.

Laws of the integer mechanisms, for two values that differ by `shift`:
    Laplace.  P[z] = c r^|z|, Q[z] = c r^|z - shift|, r = e^(-1 / scale). All z <= 0 have the same loss, and so have all
              z >= shift; outcomes of one loss are merged without changing any divergence, and shift + 1 are left. L is
              (shift - 2 z) / scale there.
    Gaussian. P[z] = w(z) / W, w(z) = exp(-z^2 / (2 variance)). What lies more than 14 sigma out, less than 1e-42, is
              one outcome with the bounds (0, mass): infinite loss from above, nothing from below. L(z) is
              shift (shift - 2 z) / (2 variance).
    Worst.    P = (d, (1 - d) a, (1 - d) b, 0), Q = (0, (1 - d) b, (1 - d) a, d), a = e^epsilon / (1 + e^epsilon) =
              1 - b. It dominates every (epsilon, d)-DP pair of neighbours. [KOV15]
              Proof. f is convex with f(0) = 1. (epsilon, d)-DP says f(e^epsilon) <= d, and with P and Q exchanged
              f(x) = 1 - x + x sum max(0, Q - P / x) <= 1 - x + x d at x = e^-epsilon. The worst pair's f joins (0, 1),
              these two points and d beyond them by straight lines.
Checked by: tests/privacy/analysis/test_loss_distribution.py
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from flint import arb

from lapwing.errors import Misconfigured
from lapwing.noise.bernoulli import exp_neg
from lapwing.numbers import Enclosure, Number, ball, below_one, count, enclose, nonnegative, ordinary, positive, shown
from lapwing.privacy.analysis.profile import (
    Amount,
    Law,
    OutcomePair,
    highest,
    hockey_stick,
    inverse,
    log_ratio,
    lowest,
    read_pairs,
    renyi_divergence,
    short,
    swap,
)
from lapwing.privacy.loss import ZCDP, Approximate, BoundedRange, Pure, set_fields

_MOST_OUTCOMES = 1 << 16
_EXTENT = 14  # sigmas to both sides of a Gaussian law
_MOST_BITS = 1 << 13  # weights below e^-5000 are bounded by 0 from below
_CLOSE = Fraction(1, 10**18)
_SMALL = Fraction(1, 10**6)


@dataclass(frozen=True, slots=True, init=False)
class PrivacyLoss:
    """The loss L(y) = ln P(y) / Q(y) of an outcome y drawn from P, for one pair of neighbours in one order.

    `pairs` keeps P(y) and Q(y) of every outcome, so that no logarithm is rounded before it must be; `lattice` divides
    all losses, where such a number is known. `reversed` is the loss of Q against P; a guarantee needs both, and
    `tightest_delta`, `tightest_epsilon` and `compose_fixed` take both. Methods that begin with `least` round down: they
    give lower bounds, the others upper bounds.

    Use:        to see how often the loss comes near a mechanism's epsilon. For a price use the mechanism's `loss`;
                losses of questions chosen one after the other do not compose this way.
    Figure:     `round(float(PrivacyLoss.laplace(scale=10).epsilon(0.01)), 4)` = 0.0808
    Checked by: tests/privacy/analysis/test_loss_distribution.py
    """

    pairs: tuple[OutcomePair, ...]
    lattice: Fraction | None

    def __init__(self, p: Law, q: Law) -> None:
        set_fields(self, pairs=read_pairs(p, q), lattice=None)

    @staticmethod
    def laplace(*, scale: Number, shift: int = 1) -> PrivacyLoss:
        """Of discrete Laplace noise on an integer that moves by `shift`."""
        width, distance = ordinary(positive(scale, "scale"), "scale"), count(shift, "shift")
        _require_feasible(distance + 1)
        law = _laplace(width, distance)
        return _of(read_pairs(law, law[::-1]), (2 - distance % 2) / width)

    @staticmethod
    def gaussian(*, variance: Number, shift: int = 1) -> PrivacyLoss:
        """Of discrete Gaussian noise on an integer that moves by `shift`."""
        square, distance = positive(variance, "variance"), count(shift, "shift")
        extent = math.isqrt(math.ceil(_EXTENT**2 * square)) + 1
        _require_feasible(2 * extent + distance + 1)
        *law, rest = _gaussian(square, distance, extent)
        return _of(read_pairs([*law, rest], [*law[::-1], rest]), (2 - distance % 2) * distance / (2 * square))

    @staticmethod
    def worst(*, epsilon: Number, delta: Number = 0) -> PrivacyLoss:
        """Of the worst mechanism with this guarantee: no (epsilon, delta)-DP mechanism loses more."""
        size, exact_delta = nonnegative(epsilon, "epsilon"), below_one(delta, "delta")
        often, rarely = (enclose(lambda x=x: 1 / (1 + ball(x).exp())) for x in (-size, size))  # type: ignore[misc]
        kept = [((1 - exact_delta) * low, (1 - exact_delta) * high) for low, high in (often, rarely)]
        return _of(read_pairs([exact_delta, *kept, 0], [0, *kept[::-1], exact_delta]), size or None)

    @staticmethod
    def of(release: object) -> PrivacyLoss:
        """Of a mechanism, or of the worst one with this loss.

        `Laplace` and `Gaussian` know their own, for one whole number; any other mechanism has the worst of its loss.
        """
        if isinstance(release, PrivacyLoss):
            return release
        if isinstance(own := getattr(release, "privacy_loss", None), PrivacyLoss):
            return own
        match getattr(release, "loss", release):
            case Pure() | BoundedRange() | Approximate() as loss:
                return PrivacyLoss.worst(epsilon=loss.epsilon, delta=loss.delta)
            case ZCDP():
                raise Misconfigured(
                    "a zCDP loss does not say how likely each loss is. Pass the mechanism itself, for example "
                    "Gaussian(rho=0.1), or a guarantee: loss.to_approximate(delta=1e-6)."
                )
            case _:
                raise Misconfigured(
                    "that has no privacy loss. Pass a mechanism, its loss, or the laws of two neighbours: "
                    "PrivacyLoss(p, q)."
                )

    def __repr__(self) -> str:
        return f"<PrivacyLoss of {len(self.pairs):,} outcomes>"

    def __str__(self) -> str:
        """Three points of its profile, to read; `epsilon` and `delta` give the exact ones."""
        least, rarely = (_about(self.epsilon(delta)) for delta in (0, _SMALL))
        return (
            f"Privacy loss of {len(self.pairs):,} outcomes: epsilon is {least} at delta = 0 and {rarely} at "
            f"delta = 1e-6; delta is {_about(self.delta(0))} at epsilon = 0."
        )

    @property
    def reversed(self) -> PrivacyLoss:
        """The loss of Q against P."""
        return _of(swap(self.pairs), self.lattice)

    @property
    def infinite(self) -> Fraction:
        """The probability of an outcome that Q cannot give, rounded up."""
        return sum((p for p, q in highest(self.pairs) if not q), Fraction(0))

    def delta(self, epsilon: Number) -> Fraction:
        """The least delta with P[S] <= e^epsilon Q[S] + delta for every S, rounded up."""
        return _up(hockey_stick(highest(self.pairs), nonnegative(epsilon, "epsilon"))[1])

    def least_delta(self, epsilon: Number) -> Fraction:
        """The same, rounded down: no smaller delta holds."""
        return Fraction(short(hockey_stick(lowest(self.pairs), nonnegative(epsilon, "epsilon"))[0], up=False))

    def epsilon(self, delta: Number = 0) -> Amount:
        """The least epsilon with P[S] <= e^epsilon Q[S] + delta for every S, rounded up; it may be infinite."""
        return short(inverse(highest(self.pairs), below_one(delta, "delta"))[1], up=True)

    def least_epsilon(self, delta: Number = 0) -> Amount:
        """The same, rounded down: no smaller epsilon holds."""
        return short(inverse(lowest(self.pairs), below_one(delta, "delta"))[0], up=False)

    def tail(self, epsilon: Number) -> Fraction:
        """P[L > epsilon], rounded up. A loss less than 1e-18 above epsilon counts as epsilon."""
        _, most = enclose(lambda: ball(nonnegative(epsilon, "epsilon") + _CLOSE).exp())
        return _up(sum((p for p, q in highest(self.pairs) if p > most * q), Fraction(0)))

    def bound(self, delta: Number = 0) -> Amount:
        """A bound of the loss, except with probability delta: the least epsilon with P[L > epsilon] <= delta.

        Never below `epsilon(delta)`: a loss that is rarely above epsilon is (epsilon, delta)-DP, not the other way.
        """
        left = below_one(delta, "delta")
        for p, q in sorted(highest(self.pairs), key=lambda atom: atom[0] / atom[1] if atom[1] else math.inf)[::-1]:
            left -= p
            if left < 0:
                return short(inverse([(p, q)], Fraction(0))[1], up=True)
        return Fraction(0)

    def renyi(self, order: Number) -> Amount:
        """The Renyi divergence D_a of P from Q, a = `order` > 1, rounded up; rho-zCDP says D_a <= a rho for every a."""
        return short(renyi_divergence(highest(self.pairs), _order(order))[1], up=True)

    def least_renyi(self, order: Number) -> Amount:
        """The same, rounded down."""
        return short(renyi_divergence(lowest(self.pairs), _order(order))[0], up=False)

    @property
    def points(self) -> tuple[tuple[float, float], ...]:
        """(loss, probability) of every outcome that P can give, by rising loss, in float64: for pictures."""
        atoms = highest(self.pairs)
        return tuple(sorted((log_ratio(p, q) if q else math.inf, float(p)) for p, q in atoms))


def _of(pairs: tuple[OutcomePair, ...], lattice: Fraction | None) -> PrivacyLoss:
    loss = object.__new__(PrivacyLoss)
    set_fields(loss, pairs=pairs, lattice=lattice)
    return loss


def _laplace(scale: Fraction, shift: int) -> list[Enclosure]:
    """P[Z <= 0], P[Z = 1], ..., P[Z = shift - 1], P[Z >= shift]; from the other end they are those of Q."""

    def mass(z: int) -> arb:
        step = ball(1 / scale)
        share = 1 if z in (0, shift) else -(-step).expm1()
        return share * (-z * step).exp() / (1 + (-step).exp())

    return [enclose(partial(mass, z)) for z in range(shift + 1)]


def _gaussian(variance: Fraction, shift: int, extent: int) -> list[Enclosure]:
    """P[Z = z] for z from -extent to extent + shift, and what is left.

    The weights beyond a add up to at most w(a) sum_k exp(-k a / variance) <= w(a) variance / a, since
    (a + k)^2 >= a^2 + 2 a k and 1 / (e^u - 1) <= 1 / u.
    """
    far, rate = extent + shift, 1 / (2 * variance)
    bits = min(192 + math.ceil(Fraction(3, 2) * rate * far * far), _MOST_BITS)
    weights = [exp_neg(rate.numerator * z * z, rate.denominator, bits) for z in range(far + 1)]
    low, high = (weights[0][end] + 2 * sum(weight[end] for weight in weights[1:]) for end in (0, 1))
    high += math.ceil(2 * weights[far][1] * variance / far)
    law = [(Fraction(weights[abs(z)][0], high), Fraction(weights[abs(z)][1], low)) for z in range(-extent, far + 1)]
    return [*law, (Fraction(0), 2 * weights[extent][1] * variance / extent / low)]


def _require_feasible(outcomes: int) -> None:
    if outcomes > _MOST_OUTCOMES:
        raise Misconfigured(
            f"The law would have {shown(outcomes)} outcomes; at most {_MOST_OUTCOMES} are supported. "
            "Divide the shift and the noise by the same number."
        )


def _order(order: Number) -> Fraction:
    number = positive(order, "order")
    if number <= 1:
        raise Misconfigured(f"`order` is {order}; it must be above 1. Pass for example 2.")
    return number


def _about(value: Amount) -> str:
    return "infinite" if value == math.inf else f"about {float(value):.4g}"


def _up(value: Fraction) -> Fraction:
    return Fraction(short(value, up=True))
