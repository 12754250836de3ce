"""How often something happened, and what that shows about its probability.

Guarantee:  for n independent trials of probability p, `lower` is above p with probability at most `level`, and so is
            `upper` below p. Computed in float64.
Proof:      Clopper and Pearson: `lower` is the p at which this many hits or more have probability `level`. If p is
            smaller, then the hits are among those whose probability is at most `level`.
Checked by: tests/lab/test_success_rate.py
"""

from __future__ import annotations

from dataclasses import dataclass


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
    """Above the true probability with chance at most `level`."""
    from scipy.special import betaincinv  # slow import

    return 0.0 if hits == 0 else float(betaincinv(hits, n - hits + 1, level))


def upper(hits: int, n: int, level: float) -> float:
    """Below the true probability with chance at most `level`."""
    from scipy.special import betainccinv

    return 1.0 if hits == n else float(betainccinv(hits + 1, n - hits, level))
