"""What a question would cost and how good its answer would be, before anything is spent. Reads no data."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from lapwing.privacy.budget import Budget, Cost
from lapwing.privacy.wording import at_least_text
from lapwing.query.answer import describe
from lapwing.query.plan import Plan


@dataclass(frozen=True, slots=True)
class Preview:
    """Price and error of a plan, beside what is left."""

    plan: Plan
    budget: Budget
    cost: Cost
    remaining: Cost
    confidence: Fraction

    @property
    def errors(self) -> dict[str, float]:
        """Half the width of each released number's interval at the confidence."""
        return {m.aggregate.words(): float(m.error(self.confidence)) for m in self.plan.measures}

    @property
    def fits(self) -> bool:
        """Whether the question could be paid now."""
        return self.cost.fits(self.remaining)

    @property
    def share(self) -> float:
        """The part of the whole budget that this question takes."""
        return float(self.cost.amount / self.budget.capacity.amount)

    @property
    def more(self) -> int:
        """About how many such questions fit into what is left."""
        return int(self.remaining.amount / self.cost.amount)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "price": {self.cost.unit: float(self.cost.amount), "delta": float(self.cost.delta)},
            "share_of_budget": self.share,
            "about_how_many_more": self.more,
            "fits": self.fits,
            "confidence": float(self.confidence),
            "errors": self.errors,
            "groups": self.plan.cells,
            "measures": [describe(measure) for measure in self.plan.measures],
        }

    def __str__(self) -> str:
        confidence, cells = f"{float(self.confidence):.0%}", self.plan.cells
        within = (f"{name}: within {error:,.6g} with {confidence} confidence" for name, error in self.errors.items())
        lines = [
            f"Price: {self.cost}, {self.share:.2%} of the budget; about {self.more:,} such questions are left.",
            *(f"{line}, in each of {cells:,} groups" if cells > 1 else line for line in within),
        ]
        if not self.fits:
            lines.append(f"It does not fit: {self.remaining.unit} = {at_least_text(self.remaining.amount)} is left.")
        return "\n".join([*lines, "Nothing was charged and no data were read."])
