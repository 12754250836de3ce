"""Stopping at the first rejection, validly: a bet against the claim.

Runs come in pairs, one on each neighbour, in batches. For every point (e, d) of the claim and both directions a gambler
bets that the event is more likely than the claim allows: with 1[X in E] - e^e 1[Y in E] - d as the payoff of a pair
(X, Y), wealth is multiplied by 1 + stake * payoff. Event and stake of a batch are chosen by the batches before it.

Guarantee:  if runs are independent and the claim is true, the mean wealth ever reaches 1 / alpha with probability at
            most alpha, whatever the number of runs and whenever one stops.
Proof:      given the past, E and the stake are fixed, and E[payoff] = P[E | x] - e^e P[E | y] - d <= 0. The payoff is
            at least -(e^e + d), and the stake at most 0.95 / (e^e + d), so no factor is negative. So each wealth is a
            nonnegative supermartingale that starts at 1, and so is the mean of all of them. Ville's inequality.
It gives no bound on epsilon beyond the verdict.
Checked by: tests/lab/test_sequential.py
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from lapwing.arrays import Floats
from lapwing.lab.claim import Claim
from lapwing.lab.event import Event, choose_event
from lapwing.lab.outputs import Features, Outputs, features
from lapwing.lab.report import Audit

FIRST = 250
"""Runs of the first batch, which nothing is bet on; later batches double what was run so far."""
_BOLDEST = 0.95
_STAKES = 60


class Wealth:
    """The gamblers' state: one for each point of the claim and each direction."""

    def __init__(self, claim: Claim, alpha: float) -> None:
        self._claim, self._alpha = claim, alpha
        self._bets = [(point, way) for point in claim.points for way in (0, 1)]
        self._logs = [0.0] * len(self._bets)
        self._events = ["none yet"] * len(self._bets)
        self.runs = 0

    @property
    def mean(self) -> float:
        """The wealth of all gamblers, per unit that they brought."""
        most = max(self._logs)
        return math.exp(min(700.0, most + math.log(sum(math.exp(log - most) for log in self._logs) / len(self._logs))))

    @property
    def rejects(self) -> bool:
        return self.mean >= 1 / self._alpha

    def batches(self, runs: int) -> Iterator[int]:
        """The sizes of the batches, `runs` in all."""
        done = 0
        while done < runs:
            size = min(max(FIRST, done), runs - done)
            yield size
            done += size

    def play(self, left: Outputs, right: Outputs, size: int) -> None:
        """Bets on the last `size` runs, by the runs before them."""
        before = self.runs
        self.runs = before + size
        if not before:
            return
        seen = features(left, right, (before, before))
        for i, (point, way) in enumerate(self._bets):
            sides = (seen.left, seen.right) if way == 0 else (seen.right, seen.left)
            event = choose_event(sides[0], sides[1], (before, before), point)
            hits = [event.holds(side) for side in sides]
            stake = _stake(hits[0][:before].mean(), hits[1][:before].mean(), before, point)
            payoff = hits[0][before:] - math.exp(point[0]) * hits[1][before:] - point[1]
            self._logs[i] += float(np.log1p(stake * payoff).sum())
            self._events[i] = _words(seen, event, way)

    def report(self) -> Audit:
        best = self._events[max(range(len(self._logs)), key=self._logs.__getitem__)]
        return Audit(self._claim, self.runs, self._alpha, (), None, wealth=self.mean, bet=best)


def _stake(likely: float, rare: float, runs: int, point: tuple[float, float]) -> float:
    """The stake with the largest expected log of wealth, by what was seen, a little pessimistic; 0 if none helps."""
    factor, delta = math.exp(point[0]), point[1]
    a = max(likely - 0.5 * math.sqrt(likely * (1 - likely) / runs), 0.0)
    b = min(rare + 0.5 * math.sqrt(max(rare * (1 - rare), 1 / runs) / runs), 1.0)
    stakes: Floats = np.linspace(0, _BOLDEST / (factor + delta), _STAKES)
    growth = (
        a * b * np.log1p(stakes * (1 - factor - delta))
        + a * (1 - b) * np.log1p(stakes * (1 - delta))
        + (1 - a) * b * np.log1p(-stakes * (factor + delta))
        + (1 - a) * (1 - b) * np.log1p(-stakes * delta)
    )
    return float(stakes[int(np.argmax(growth))])


def _words(seen: Features, event: Event, way: int) -> str:
    side = ("left", "right")[way]
    return f"{event.describe(seen.names[event.feature], seen.categories[event.feature])}, more often on the {side}"
