"""Claims about mechanisms and the results of audits, in words, as JSON and as pictures.

A report never says that a mechanism is private. `lower` and `upper` say what a rate shows about its probability:
Guarantee:  for n independent trials of probability p, `lower` is above p with probability at most `level`, and so is
            `upper` below p. Computed in float64.
Proof:      Clopper and Pearson: `lower` is the p at which this many hits or more have probability `level`. If p is
            smaller, then the hits are among those whose probability is at most `level`.
Checked by: tests/lab/test_audit.py, tests/lab/test_success_rate.py
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from lapwing.arrays import Flags, Floats
from lapwing.errors import Misconfigured
from lapwing.numbers import Number, below_one, nonnegative, positive
from lapwing.privacy.convert import delta_of_rho

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WHERE = (0.0, 0.75, 1.5, 3.0)
"""The points of a curve that are audited, in multiples of its spread sqrt(2 rho) = mu; 0 is total variation."""
LIMITS = "This does not show that the claim is true: another event or other neighbours may break it."


@dataclass(frozen=True, slots=True)
class Claim:
    """A list of (epsilon, delta), all of which must hold, and the claim in words.

    Pure DP and (epsilon, delta)-DP are one point. A claim of zCDP or of Gaussian DP is a whole curve; one point of it,
    far out in the tail, is hard to test, so an audit looks at several. A mechanism that keeps the claim keeps them all.
    """

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
    if isinstance(claim, Claim):
        return claim
    loss = getattr(claim, "loss", claim)  # one that has only rho promises a curve, any other a point
    if hasattr(loss, "epsilon"):
        return Claim.dp(loss.epsilon, loss.delta)
    if hasattr(loss, "rho") and not loss.delta:
        return Claim.zcdp(loss.rho)
    raise Misconfigured("`claim` is not one that can be audited. Pass epsilon=1, rho=0.5, or a mechanism with a loss.")


def _curve(spread: float, delta: Callable[[float], float], text: str) -> Claim:
    points = ((e, delta(e)) for e in (round(at * spread, 6) for at in WHERE))
    return Claim(tuple((e, d) for e, d in points if d < 1), text)


@dataclass(frozen=True, slots=True)
class Finding:
    """One direction of one point of the claim: P[event | side] >= low, P[event | other side] <= high."""

    epsilon: float
    delta: float
    bound: float
    """A lower bound on the epsilon of any mechanism with this delta."""
    event: str
    side: str
    low: float
    high: float

    @property
    def excess(self) -> float:
        return self.bound - self.epsilon


@dataclass(frozen=True, slots=True, eq=False)
class Sketch:
    """The test runs by the cells of one feature, and which cells the event has."""

    feature: str
    edges: Floats
    left: Floats
    right: Floats
    cells: Flags


@dataclass(frozen=True, slots=True, eq=False)
class Audit:
    claim: Claim
    runs: int
    alpha: float
    findings: tuple[Finding, ...]
    sketch: Sketch | None
    wealth: float | None = None
    """Of an audit that may stop early: what the bet against the claim is worth."""
    bet: str | None = None
    only: str | None = None
    """The output of all runs, if they all gave the same; then there was nothing to audit."""

    @property
    def best(self) -> Finding | None:
        """The finding that comes closest to a rejection, or goes furthest beyond."""
        return max(self.findings, key=lambda finding: finding.excess, default=None)

    @property
    def rejected(self) -> bool:
        if self.wealth is not None:
            return self.wealth >= 1 / self.alpha
        return any(finding.bound > finding.epsilon for finding in self.findings)

    @property
    def epsilon_lower(self) -> float:
        """With confidence 1 - alpha, epsilon is at least this, at the delta of `best`."""
        return self.best.bound if self.best is not None else -math.inf

    @property
    def event(self) -> str:
        if self.best is None:
            return self.bet or "none"
        return f"{self.best.event}, more often on the {self.best.side}"

    def to_dict(self) -> dict[str, Any]:
        bound, best = self.epsilon_lower, self.best
        return {
            "claim": self.claim.text, "rejected": self.rejected, "runs": self.runs, "alpha": self.alpha,
            "epsilon_lower": bound if math.isfinite(bound) else None, "delta": None if best is None else best.delta,
            "event": self.event, "wealth": self.wealth, "only_output": self.only, "message": str(self),
        }  # fmt: skip

    def plot(self, path: str | Path | None = None) -> Figure:
        """Both distributions with the event, and the bound beside the claim; written to a PNG or SVG file if asked."""
        from lapwing.lab.pictures import draw_audit, saved

        return saved(draw_audit(self), path)

    def __str__(self) -> str:
        if self.only is not None:
            return (
                f"Nothing to audit: all {self.runs:,} runs on each side gave the same output, {self.only}. "
                "A constant is private and answers nothing. Audit a function whose output depends on its data."
            )
        if self.wealth is not None:
            return self._early()
        best = self.best
        if best is None:
            return f"Nothing was audited at N = {self.runs:,}."
        at = f" at delta = {best.delta:.3g}" if best.delta else ""
        other = "right" if best.side == "left" else "left"
        often, seldom = f"on the {best.side} at least {best.low:.4g}", f"on the {other} at most {best.high:.4g}"
        seen = f"Event: {best.event}\n  {often}, {seldom}"
        odds = f"N = {self.runs:,} runs on each side, alpha = {self.alpha:g}"
        if self.rejected:
            return (
                f"Rejected: {self.claim.text} is not true. Epsilon is at least {best.bound:.4g}{at}, where "
                f"{best.epsilon:.4g} is claimed (confidence {1 - self.alpha:.4g}).\n{seen}\n{odds}"
            )
        bound = f"epsilon >= {max(best.bound, 0):.4g}{at}" if math.isfinite(best.bound) else "nothing"
        return f"No violation of {self.claim.text} found at {odds}.\nThe best event shows {bound}.\n{seen}\n{LIMITS}"

    def _early(self) -> str:
        bet = f"the bet against it is worth {self.wealth:,.3g}; {1 / self.alpha:,.0f} rejects\nEvent: {self.bet}"
        if self.rejected:
            return f"Rejected after {self.runs:,} runs on each side: {self.claim.text} is not true; {bet}"
        return f"No violation of {self.claim.text} found at N = {self.runs:,} runs on each side; {bet}\n{LIMITS}"


@dataclass(frozen=True, slots=True)
class Rate:
    """Hits among independent trials, with a 95 % interval."""

    hits: int
    trials: int

    @property
    def value(self) -> float:
        return self.hits / self.trials

    @property
    def low(self) -> float:
        return lower(self.hits, self.trials, 0.025)

    @property
    def high(self) -> float:
        return upper(self.hits, self.trials, 0.025)

    def __str__(self) -> str:
        return f"{self.value:.1%} ({self.low:.1%} to {self.high:.1%})"


def lower(hits: int, n: int, level: float) -> float:
    from scipy.special import betaincinv  # slow import

    return 0.0 if hits == 0 else float(betaincinv(hits, n - hits + 1, level))


def upper(hits: int, n: int, level: float) -> float:
    from scipy.special import betainccinv

    return 1.0 if hits == n else float(betainccinv(hits + 1, n - hits, level))
