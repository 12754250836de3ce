"""What is claimed of a mechanism: a list of (epsilon, delta), all of which must hold.

Pure DP and (epsilon, delta)-DP are one point. A claim of zCDP or of Gaussian DP is a whole curve; one point of it, far
out in the tail, is hard to test, so an audit looks at several. A mechanism that keeps the claim keeps every point.
Checked by: tests/lab/test_audit.py
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from lapwing.errors import Misconfigured
from lapwing.numbers import Number, below_one, nonnegative, positive
from lapwing.privacy.convert import delta_of_rho

WHERE = (0.0, 0.75, 1.5, 3.0)
"""The points of a curve that are audited, in multiples of its spread sqrt(2 rho) = mu; 0 is total variation."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The points, and the claim in words."""

    points: tuple[tuple[float, float], ...]
    text: str

    @classmethod
    def dp(cls, epsilon: Number, delta: Number = 0) -> Claim:
        """(epsilon, delta)-DP; pure DP if delta is 0."""
        e, d = nonnegative(epsilon, "epsilon"), below_one(delta, "delta")
        return cls(((float(e), float(d)),), f"epsilon = {float(e):.6g}" + (f", delta = {float(d):.6g}" if d else ""))

    @classmethod
    def zcdp(cls, rho: Number) -> Claim:
        """rho-zCDP, by the (epsilon, delta) that follow from it."""
        value = positive(rho, "rho")
        text = f"rho = {float(value):.6g}"
        return _curve(math.sqrt(2 * value), lambda e: float(delta_of_rho(value, round(e, 6))), text)

    @classmethod
    def gaussian(cls, mu: Number) -> Claim:
        """mu-GDP: no easier to tell apart than normals of standard deviation 1 whose means differ by mu."""
        m, cdf = float(positive(mu, "mu")), NormalDist().cdf
        return _curve(m, lambda e: cdf(m / 2 - e / m) - math.exp(e) * cdf(-m / 2 - e / m), f"mu = {m:.6g} (Gaussian)")


def read_claim(claim: Any, epsilon: Number | None, delta: Number, rho: Number | None, mu: Number | None) -> Claim:
    """The one claim that was made: a claim, a loss, a mechanism with a loss, or numbers."""
    if sum(given is not None for given in (claim, epsilon, rho, mu)) != 1:
        raise Misconfigured("make one claim: epsilon (with delta, if you like), rho or mu. Pass for example epsilon=1.")
    if epsilon is not None:
        return Claim.dp(epsilon, delta)
    if rho is not None:
        return Claim.zcdp(rho)
    if mu is not None:
        return Claim.gaussian(mu)
    return claim if isinstance(claim, Claim) else _of_loss(getattr(claim, "loss", claim))


def _of_loss(loss: Any) -> Claim:
    """What a loss of Lapwing promises. One that has only rho promises a curve, any other a point."""
    if hasattr(loss, "epsilon"):
        return Claim.dp(loss.epsilon, loss.delta)
    if hasattr(loss, "rho") and not loss.delta:
        return Claim.zcdp(loss.rho)
    raise Misconfigured("`claim` is not one that can be audited. Pass epsilon=1, rho=0.5, or a mechanism with a loss.")


def _curve(spread: float, delta: Callable[[float], float], text: str) -> Claim:
    points = ((e, delta(e)) for e in (round(at * spread, 6) for at in WHERE))
    return Claim(tuple((e, d) for e, d in points if d < 1), text)
