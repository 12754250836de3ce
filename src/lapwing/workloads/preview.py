"""What a distribution or marginals would cost, and how far off every count would be. Reads no data."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from lapwing.answers.preview import PricePreview
from lapwing.mechanisms.ranges.ranges import PrefixSums, Ranges
from lapwing.privacy.budget import Cost
from lapwing.workloads.axes import uncounted
from lapwing.workloads.strategy import Strategy


@dataclass(frozen=True, slots=True, repr=False)
class StrategyPreview(PricePreview):
    """Price and error of a strategy, beside what is left."""

    strategy: Strategy
    cost: Cost
    remaining: Cost
    confidence: Fraction

    @property
    def errors(self) -> dict[str, float]:
        """Half the width of an interval: of ranges of a distribution, of a cell of each table."""
        mechanism, axes = self.strategy.mechanism, self.strategy.counted.axes
        if isinstance(mechanism, PrefixSums | Ranges):
            half = mechanism.size // 2
            ranges = {"one cell": (half, half + 1), "the lower half": (0, half), "all": (0, mechanism.size)}
            return {name: mechanism.error(*ends, self.confidence) for name, ends in ranges.items()}
        names = {one: ", ".join(axes[i].name for i in one) for one in mechanism.sets}
        return {name: mechanism.error(one, self.confidence) for one, name in names.items()}

    def facts(self) -> dict[str, Any]:
        return {
            "confidence": float(self.confidence),
            "errors": self.errors,
            "uncounted": uncounted(self.strategy.counted.axes),
            "notes": list(self.strategy.counted.notes),
        }

    def lines(self) -> list[str]:
        errors = [f"{name}: within {error:,.4g}" for name, error in self.errors.items()]
        return [self._price(), *errors, uncounted(self.strategy.counted.axes), *self.strategy.counted.notes]
