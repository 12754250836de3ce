"""The central epsilon of local reports that a trusted shuffler has mixed.

[FMT21] Feldman, McMillan, Talwar: Hiding among the clones: a simple and nearly optimal analysis of privacy
amplification by shuffling.
"""

from __future__ import annotations

import math

import numpy as np

from lapwing.arrays import Floats
from lapwing.collect.intervals import binomial_window
from lapwing.collect.probabilities import read_epsilon
from lapwing.errors import Misconfigured
from lapwing.numbers import Number, count, inside_unit, shown

_SLACK = 1e-12  # of each tail: above what float64 loses there
_MOST = 10**9


def central_epsilon(epsilon: Number, reports: int, *, delta: Number) -> float:
    """An epsilon that n shuffled reports have in the central model, at this delta.

    Guarantee:  if each of n respondents sends one report of a randomizer with pure `epsilon`, and nothing shows who
                sent which, the reports together are (result, delta)-DP for a change of one respondent's value.
    Proof:      [FMT21, Thm 3.1]: every report of the others is with probability e^-epsilon a clone, drawn from the two
                laws of the report that changes, one or the other with probability 1/2. So the pair to tell apart is
                (A + D, C - A + 1 - D) and the same with 1 - D, C ~ Bin(n - 1, e^-epsilon), A ~ Bin(C, 1/2),
                D ~ Bernoulli(e^epsilon / (1 + e^epsilon)). Both show C, and given C = c the likelihood ratio grows
                with the first number, so that delta(x) = E[P[A' >= t] - e^x Q[A' >= t]] with the t where the ratio
                passes e^x. Computed in float64; every tail is moved up or down by 1e-12 of itself, to the safe side.
    It is never above `epsilon`. It needs the shuffler: without one, the epsilon of a report is what it is.
    """
    local, n, allowed = float(read_epsilon(epsilon)), count(reports, "reports"), float(inside_unit(delta, "delta"))
    if n > _MOST:
        raise Misconfigured(f"`reports` is {shown(reports)}; at most {_MOST:,} are computed with.")
    if n < 2:
        return local
    if shuffled_delta(local, n, 0.0) <= allowed:
        return 0.0
    low, high = 0.0, local
    while high - low > 1e-6 * local:
        middle = (low + high) / 2
        low, high = (low, middle) if shuffled_delta(local, n, middle) <= allowed else (middle, high)
    return high


def shuffled_delta(epsilon: float, n: int, central: float) -> float:
    """An upper bound on delta of n shuffled reports at this central epsilon."""
    first, clones = binomial_window(n - 1, math.exp(-epsilon))
    c = np.arange(first, first + len(clones), dtype=np.float64)
    w = 1 / (1 + math.exp(-epsilon))  # P[D = 1]
    gain, lost = w - math.exp(central) * (1 - w), math.exp(central) * w - (1 - w)
    if gain <= 0:
        return 0.0
    # P[a] > e^x Q[a] where a gain > (c - a + 1) lost, a counting from 0 to c + 1
    least = np.minimum(np.floor((c + 1) * lost / (gain + lost)) + 1, c + 2)
    parts = gain * _at_least(least - 1, c) * (1 + _SLACK) - lost * _at_least(least, c) * (1 - _SLACK)
    return float((clones * np.maximum(parts, 0.0)).sum()) * (1 + _SLACK)


def _at_least(k: Floats, n: Floats) -> Floats:
    """P[Bin(n, 1/2) >= k]."""
    from scipy.special import betainc  # slow import

    safe = np.clip(k, 1, np.maximum(n, 1))
    tail = betainc(safe, np.maximum(n, 1) - safe + 1, 0.5)
    tail = np.where(k > n, 0.0, np.where(k <= 0, 1.0, tail))
    return np.where(n == 0, (k <= 0).astype(np.float64), tail)
