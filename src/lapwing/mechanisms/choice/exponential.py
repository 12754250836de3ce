"""The exponential mechanism.

[MT07] McSherry, Talwar: Mechanism design via differential privacy. [DR14] Dwork, Roth: The algorithmic foundations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lapwing.arrays import Floats
from lapwing.mechanisms import scores
from lapwing.noise import sample_choice
from lapwing.numbers import Enclosure, Number, inside_unit
from lapwing.privacy.loss import BoundedRange


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Exponential(scores.Selection):
    """Chooses a candidate, better ones exponentially more often.

    Use:        choosing one of many under zCDP, where it costs epsilon^2/8; under pure DP `PermuteAndFlip` errs less.
    Law:        P[r] proportional to exp(rate u(x, r)), rate = epsilon / (2 sensitivity), or epsilon / sensitivity if
                the utilities are monotone.
    Guarantee:  pure DP with epsilon, and the log-ratio L(r) = ln P[r | x] / P[r | x'] lies in an interval of length
                epsilon (bounded range), so epsilon^2/8-zCDP; for all x, x' with |u(x, r) - u(x', r)| <= sensitivity
                for every r.
    Error:      P[u(chosen) <= opt - (ln(n / best) + t) / rate] <= e^-t, n candidates of which `best` reach opt.
    Proof:      L(r) = rate (u(x, r) - u(x', r)) + c, where c = ln Z' / Z does not depend on r. The differences
                u(x, r) - u(x', r) lie in an interval of length 2 sensitivity; if monotone, in [0, sensitivity] or in
                [-sensitivity, 0]. Times the rate both are epsilon long. The interval holds 0, since both laws sum to 1,
                so |L| <= epsilon.
                Error: a candidate that far below opt has weight at most exp(rate opt) best e^-t / n, there are at most
                n of them, and the best alone have weight best exp(rate opt). [MT07] [DR14, Thm 3.11]
    Figure:     `round(Exponential(epsilon=1).error(candidates=100), 1)` = 15.2
    Checked by: tests/mechanisms/choice/test_exponential.py
    """

    @property
    def loss(self) -> BoundedRange:
        return BoundedRange(self.epsilon)

    def choose(self, candidates: Sequence[scores.T] | Any, utilities: object) -> scores.T | Any:
        """One candidate; `utilities` holds a number for each."""
        exponents, unit = scores.gaps(utilities)
        scores.require_one_each(candidates, exponents.size, "utilities")
        return scores.candidate_at(candidates, sample_choice(exponents, self.rate * unit))

    def law(self, utilities: object) -> tuple[Enclosure, ...]:
        """Proven bounds of every candidate's probability."""
        exponents, unit = scores.gaps(utilities)
        return scores.shares(exponents, self.rate * unit)

    def probabilities(self, utilities: object) -> Floats:
        """Every candidate's probability in float64; those above 1e-300 have a relative error of at most 1e-12."""
        exponents, unit = scores.gaps(utilities)
        relative = np.exp(-scores.times(exponents, self.rate * unit))
        return np.asarray(relative / relative.sum())

    def weights(self, utilities: object) -> Floats:
        """exp(rate u): the weights as the textbook prints them. A utility of 0 has weight 1; large ones overflow."""
        exact = scores.read(utilities, "utilities")
        with np.errstate(over="ignore"):
            weights: Floats = np.exp(scores.times(exact.ticks, self.rate * exact.unit))
        return weights

    def error(self, confidence: Number = 0.95, *, candidates: int, best: int = 1) -> float:
        """With this probability the chosen utility is at least opt minus this; rounded up.

        `best` is how many candidates are known to reach the optimum; 1 is always true.
        """
        miss = 1 - inside_unit(confidence, "confidence")
        total, optimal = scores.read_candidates(candidates, best)
        return scores.at_least(scores.loss_within(total / (optimal * miss), self.rate))
