"""Auditing in one run: many canaries, each in the data by the flip of a fair coin, and guesses which are in.

Guarantee:  if the mechanism is pure epsilon-DP for every single canary, nobody who sees its answer guesses r coins, r
            fixed beforehand, better than this: the number W of right guesses has P[W >= v] <= P[Binomial(r, q) >= v]
            for every v, where q = e^epsilon / (1 + e^epsilon). So p = `lower(W, r, alpha)` is at most q except with
            probability alpha, and then ln(p / (1 - p)) <= epsilon.
Proof:      fix the answer y, which fixes the guesses, and the coins of all canaries but i. By Bayes the odds that
            canary i is in are P[y | in] / P[y | out], between e^-epsilon and e^epsilon, so a guess about it is right
            with probability at most q. So given y and the earlier coins, each next guess is right with probability at
            most q, and W is at most a binomial in the stochastic order, guess by guess. Answers need not be
            independent. Several r, each at its share of alpha: the union bound. [SNJ23] has the theorem.
Groups:     one question with GROUP BY over groups that hold one canary each is such a mechanism: a canary is a unit of
            a table with groups_per_unit = 1. One answer then audits as many runs would.
[SNJ23] Steinke, Nasr, Jagielski: Privacy auditing with one (1) training run.
Checked by: tests/lab/test_one_run.py
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lapwing.arrays import Flags
from lapwing.errors import Misconfigured
from lapwing.lab.audit import ALPHA
from lapwing.lab.random_people import flip_coins
from lapwing.lab.report import lower
from lapwing.lab.targets import open_experiment
from lapwing.numbers import Number, count, exact, inside_unit, nonnegative

PARTS = (1.0, 0.5, 0.1, 0.02)
"""The share of canaries that are guessed: all, or only the clearest."""
TABLE = "canaries"


@dataclass(frozen=True, slots=True)
class OneRun:
    """The result: of `guesses` guesses `right` were right, which shows `epsilon_lower`."""

    epsilon: float
    epsilon_lower: float
    canaries: int
    guesses: int
    right: int
    alpha: float

    @property
    def rejected(self) -> bool:
        return self.epsilon_lower > self.epsilon

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "rejected": self.rejected, "message": str(self)}

    def __str__(self) -> str:
        most = 1 / (1 + math.exp(-self.epsilon))
        share = self.right / self.guesses
        seen = f"{self.right:,} of {self.guesses:,} guesses about {self.canaries:,} canaries were right ({share:.1%})"
        rule = f"epsilon = {self.epsilon:.4g} allows {most:.1%} on average"
        if self.rejected:
            return (
                f"Rejected: epsilon = {self.epsilon:.4g} is not true. Epsilon is at least {self.epsilon_lower:.4g}.\n"
                f"{seen}; {rule}. One run, alpha = {self.alpha:g}"
            )
        return (
            f"No violation of epsilon = {self.epsilon:.4g} found with {self.canaries:,} canaries in one run, "
            f"alpha = {self.alpha:g}.\n{seen}; {rule}.\nThis does not show that the claim is true."
        )


def audit_one_run(mechanism: Callable[[Flags], Any], canaries: int, *, epsilon: Number, alpha: float = ALPHA) -> OneRun:
    """Audits a claim of pure DP with one run.

    `mechanism(present)` returns a score for each canary: the higher, the more the answer looks as if it were present.
    """
    m, level = count(canaries, "canaries", least=10), float(inside_unit(alpha, "alpha"))
    claimed = float(nonnegative(epsilon, "epsilon"))
    present = flip_coins(m)
    scores = np.asarray(mechanism(present.copy()), dtype=np.float64)
    if scores.shape != (m,):
        raise Misconfigured(f"the mechanism returned {scores.size} scores; return one for each of {m} canaries.")
    order = np.argsort(np.nan_to_num(scores), kind="stable")
    bounds = []
    for part in PARTS:
        half = max(1, int(part * m / 2))
        right = int(present[order[-half:]].sum()) + int((~present[order[:half]]).sum())
        p = lower(right, 2 * half, level / len(PARTS))
        bounds.append((math.log(p / (1 - p)) if p > 0 else -math.inf, 2 * half, right))
    bound, guesses, right = max(bounds)
    return OneRun(claimed, bound, m, guesses, right, level)


def audit_groups(aggregate: str = "COUNT(*)", *, epsilon: Number, groups: int = 10_000, alpha: float = ALPHA) -> OneRun:
    """Audits one aggregate of the curator by a single question over many groups, half of which hold a canary.

    The table is `canaries(person, grp, value)`, with two people of value 1 in each group beside the canary and
    `value` between 0 and 10; a canary has the value 10. So `aggregate` is COUNT(*), SUM(value), or any other that fits.
    """
    price = exact(epsilon, "epsilon")

    def ask(present: Flags) -> Any:
        import pyarrow as pa

        groups = np.arange(len(present))
        group = np.concatenate([groups, groups, groups[present]])
        value = np.concatenate([np.ones(2 * len(present)), np.full(int(present.sum()), 10.0)])
        table = pa.table({"person": np.arange(len(group)), "grp": group, "value": value})
        curator = open_experiment(
            table, name=TABLE, unit="person", rows_per_unit=1, groups_per_unit=1, bounds={"value": (0, 10)},
            values={"grp": groups.tolist()}, epsilon=price,
        )  # fmt: skip
        with closing(curator):
            question = f"SELECT grp, {aggregate} AS answer FROM {TABLE} GROUP BY grp"
            answer = curator.sql(question, epsilon=price).to_arrow().sort_by("grp")
        return answer["answer"].to_numpy(zero_copy_only=False)

    return audit_one_run(ask, groups, epsilon=price, alpha=alpha)
