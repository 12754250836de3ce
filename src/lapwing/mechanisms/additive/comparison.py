"""Laplace or Gaussian noise: which gives less error for many values at the same guarantee."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lapwing.mechanisms.additive.gaussian import Gaussian
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.numbers import Number, count, positive, root_up
from lapwing.privacy.phrases import short_repr


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both mechanisms for the same values, their errors, and the better one."""

    laplace: Laplace
    gaussian: Gaussian
    laplace_error: int
    gaussian_error: int
    explanation: str

    __repr__ = short_repr

    @property
    def best(self) -> Laplace | Gaussian:
        return self.laplace if self.laplace_error <= self.gaussian_error else self.gaussian

    def __str__(self) -> str:
        return self.explanation


def laplace_or_gaussian(
    *,
    values: int,
    epsilon: Number,
    delta: Number,
    changed: int | None = None,
    by: Number = 1,
    confidence: Number = 0.95,
) -> Comparison:
    """Compares the two for `values` integers of which one unit changes at most `changed`, each by at most `by`.

    The l1 sensitivity is changed * by, the l2 sensitivity only sqrt(changed) * by: for long vectors the Gaussian's
    noise grows like sqrt(changed) and the Laplace noise like changed. For few values the Gaussian pays for its delta.
    """
    k, most = count(values, "values"), positive(by, "by")
    touched = min(k, count(changed, "changed")) if changed is not None else k
    laplace = Laplace(epsilon=epsilon, sensitivity=touched * most)
    gaussian = Gaussian(epsilon=epsilon, delta=delta, sensitivity=root_up(touched) * most, size=k)
    errors = laplace.error(confidence), gaussian.error(confidence)
    return Comparison(laplace, gaussian, *errors, _explain(k, touched, errors, float(confidence)))


def _explain(k: int, touched: int, errors: tuple[int, int], confidence: float) -> str:
    better, worse = ("Laplace", "Gaussian") if errors[0] <= errors[1] else ("Gaussian", "Laplace")
    return (
        f"{better} noise is better here: each of {k:,} values is off by at most {min(errors):,} "
        f"with {confidence:.0%} confidence, against {max(errors):,} for {worse}. One unit changes up to {touched:,} "
        f"values, so the l1 sensitivity that Laplace pays is {touched:,} times one change, "
        f"the l2 sensitivity that Gaussian pays {math.sqrt(touched):,.4g} times."
    )
