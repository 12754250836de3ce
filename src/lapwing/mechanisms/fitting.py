"""Which mechanism fits a price: the one place where the kind of loss decides the noise.

Guarantee:  the loss of whatever is made here is at most the price, for what one unit may change.
Proof:      each mechanism is made for the epsilon, or for the rho, and the delta of the price; its own file proves that
            it loses no more. A pure price with a smaller rho than epsilon^2/2 is a bug: no mechanism here keeps it.
Checked by: tests/mechanisms/test_fitting.py
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from lapwing.errors import Bug
from lapwing.mechanisms.additive.gaussian import Gaussian
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.choice.top_k import TopK
from lapwing.mechanisms.keys.selection import TruncatedGeometric, best_selection
from lapwing.mechanisms.keys.threshold import CountThreshold, GaussianThreshold, LaplaceThreshold
from lapwing.mechanisms.keys.weighted import WeightedGaussian
from lapwing.mechanisms.quantiles.grid_quantiles import GridQuantiles
from lapwing.mechanisms.ranges.noisy_marginals import LaplaceMarginals, Marginals
from lapwing.mechanisms.ranges.ranges import PrefixSums, Ranges
from lapwing.numbers import root_down, root_up
from lapwing.privacy.loss import ZCDP, Approximate, Loss, Pure

Noise = Laplace | Gaussian
KeySelection = CountThreshold | WeightedGaussian | TruncatedGeometric

_MOST_PEELED = 100  # beyond, one race chooses all: permute-and-flip draws again for each


@dataclass(frozen=True, slots=True)
class PureFamily:
    """For a price in epsilon: Laplace noise and pure choices."""

    loss: Pure | Approximate

    @property
    def strength(self) -> Fraction:
        """About the sensitivity over the scale of the noise."""
        return self.loss.epsilon

    def additive(self, *, sensitivity: int, groups: int) -> Laplace:
        """Noise for a unit that changes `groups` groups, each by at most `sensitivity` in either norm."""
        return Laplace(epsilon=self.loss.epsilon, sensitivity=groups * sensitivity)

    def top_k(self, k: int, *, sensitivity: int, monotone: bool) -> TopK:
        peeling = k <= _MOST_PEELED
        return TopK(k=k, epsilon=self.loss.epsilon, sensitivity=sensitivity, monotone=monotone, peeling=peeling)

    def quantiles(self, **terms: Any) -> GridQuantiles:
        return GridQuantiles(epsilon=self.loss.epsilon, **terms)

    def ranges(self, **terms: Any) -> Ranges:
        return Ranges(epsilon=self.loss.epsilon, **terms)

    def marginals(self, **terms: Any) -> LaplaceMarginals:
        return LaplaceMarginals(epsilon=self.loss.epsilon, **terms)

    def keys(self, keys_per_unit: int, *, counted: bool) -> KeySelection:
        """The rule that shows keys of the fewest units; `counted` if the number of units is released too."""
        terms: dict[str, Any] = {"epsilon": self.loss.epsilon, "delta": self.loss.delta, "keys_per_unit": keys_per_unit}
        if not counted:
            return best_selection(**terms).best
        return min((LaplaceThreshold(**terms), GaussianThreshold(**terms)), key=lambda choice: choice.half())


@dataclass(frozen=True, slots=True)
class ZCDPFamily:
    """For a price in rho: Gaussian noise and choices of bounded range."""

    loss: ZCDP

    @property
    def strength(self) -> Fraction:
        return Fraction(math.sqrt(2 * self.loss.rho))

    def additive(self, *, sensitivity: int, groups: int) -> Gaussian:
        return Gaussian(rho=self.loss.rho, sensitivity=root_up(groups) * sensitivity)

    def top_k(self, k: int, *, sensitivity: int, monotone: bool) -> TopK:
        epsilon = root_down(8 * k * self.loss.rho)
        return TopK(k=k, epsilon=epsilon, sensitivity=sensitivity, monotone=monotone)

    def quantiles(self, **terms: Any) -> GridQuantiles:
        return GridQuantiles(rho=self.loss.rho, **terms)

    def ranges(self, **terms: Any) -> PrefixSums:
        return PrefixSums(rho=self.loss.rho, **terms)

    def marginals(self, **terms: Any) -> Marginals:
        return Marginals(rho=self.loss.rho, **terms)

    def keys(self, keys_per_unit: int, *, counted: bool) -> KeySelection:
        selection = GaussianThreshold if counted else WeightedGaussian
        return selection(rho=self.loss.rho, delta=self.loss.delta, keys_per_unit=keys_per_unit)


Family = PureFamily | ZCDPFamily
"""The mechanisms for one price."""

_FAMILIES: dict[type[Loss], Callable[[Any], Family]] = {Pure: PureFamily, Approximate: PureFamily, ZCDP: ZCDPFamily}


def mechanisms_for(price: Loss) -> Family:
    """The mechanisms that lose at most this price."""
    if type(price) not in _FAMILIES or (isinstance(price, Pure) and 2 * price.rho != price.epsilon**2):
        raise Bug(f"no mechanism is made for a price of {price!r}")
    return _FAMILIES[type(price)](price)
