"""What a distribution or marginals would cost, and how far off every count would be. Reads no data."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from lapwing.mechanisms.ranges.ranges import PrefixSums, Ranges
from lapwing.privacy.budget import Cost, remaining_text
from lapwing.workloads.axes import uncounted
from lapwing.workloads.strategy import Strategy


@dataclass(frozen=True, slots=True, repr=False)
class StrategyPreview:
    """Price and error of a strategy, beside what is left."""

    strategy: Strategy
    cost: Cost
    """What asking would be charged now; 0 if a stored answer is at least as good."""
    remaining: Cost
    confidence: Fraction

    @property
    def stored(self) -> bool:
        """Whether an answer that is at least as good has been paid for before."""
        return not self.cost

    @property
    def fits(self) -> bool:
        """Whether it could be paid now."""
        return self.cost.fits(self.remaining)

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

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "price": {self.cost.unit: float(self.cost.amount), "delta": float(self.cost.delta)},
            "stored": self.stored,
            "fits": self.fits,
            "confidence": float(self.confidence),
            "errors": self.errors,
            "uncounted": uncounted(self.strategy.counted.axes),
        }

    def __repr__(self) -> str:
        price = "nothing, an answer that is at least this good is stored" if self.stored else str(self.cost)
        lines = [f"Price: {price}.", *(f"{name}: within {error:,.4g}" for name, error in self.errors.items())]
        lines.append(uncounted(self.strategy.counted.axes))
        if not self.fits:
            lines.append(f"It does not fit: {remaining_text(self.remaining)} is left.")
        return "\n".join([*lines, "Nothing was charged and no data were read."])
