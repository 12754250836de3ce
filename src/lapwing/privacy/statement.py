"""The spent and the remaining budget, in words for the person who signs for the risk."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from html import escape
from typing import Any

from lapwing.privacy.budget import Budget, Cost, remaining_text
from lapwing.privacy.phrases import at_least_text, decimal_text, meaning, share_text
from lapwing.privacy.posterior import posterior

_MOST_EPSILON = 20  # above it the odds mean nothing to a reader


@dataclass(frozen=True, slots=True)
class Statement:
    """A budget and the sum of its charges."""

    budget: Budget
    spent: Cost
    note: str = ""
    """Set for a budget that is not kept."""

    @property
    def total(self) -> Cost:
        """The whole budget."""
        return self.budget.capacity

    @property
    def remaining(self) -> Cost:
        """What is left of the total."""
        return self.total - self.spent

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON: exact decimals as text, so that nothing is lost."""
        costs = {"total": self.total, "spent": self.spent, "remaining": self.remaining}
        return {
            "epsilon": decimal_text(self.budget.epsilon),
            "delta": decimal_text(self.budget.delta),
            "accounting": self.budget.accounting.value,
            **{name: {cost.unit: float(cost.amount), "delta": float(cost.delta)} for name, cost in costs.items()},
            "share_spent": float(self.spent.amount / self.total.amount),
            "affordable_epsilon": float(self.budget.affordable(self.remaining)),
            "warning": self.budget.weakness or None,
            "in_words": str(self),
            "explained": self.explain(),
        }

    def __str__(self) -> str:
        most = self.budget.affordable(self.remaining)
        left = "no question fits any more"
        if most:
            left = f"one more question may cost up to epsilon = {at_least_text(most)}"
        spent = f"Spent {share_text(self.spent.amount / self.total.amount)} of the budget; {left}."
        return "\n".join(filter(None, [spent, self.note, self.budget.weakness]))

    def _repr_html_(self) -> str:
        share = f"{float(self.spent.amount / self.total.amount):.1%}"
        bar = f'<div style="width:{share};height:0.7em;background:currentColor;opacity:0.6"></div>'
        words = "<br>".join(map(escape, str(self).split("\n")))
        return f'<div style="max-width:24em;border:1px solid currentColor;border-radius:3px">{bar}</div><p>{words}</p>'

    def explain(self) -> str:
        """Exact amounts, and what the whole budget promises one person."""
        lines = [
            f"Spent: {self.spent} of {self.total}. Left: {remaining_text(self.remaining)}.",
            self._next(),
            self.note,
            f"Once it is all spent: {meaning(self.budget.epsilon, self.budget.delta)}",
        ]
        if self.budget.epsilon <= _MOST_EPSILON:
            belief = posterior(Fraction(1, 2), self.budget.epsilon, self.budget.delta)
            lines.append(f"Is a given person in the data? {belief}")
        return "\n".join(filter(None, [*lines, self.budget.weakness]))

    def _next(self) -> str:
        most = self.budget.affordable(self.remaining)
        if not most:
            return "No question fits any more."
        small = most / 20
        price = self.budget.price(epsilon=small).amount
        more = int(self.remaining.amount / price) if price else 0
        return (
            f"One more question may cost at most epsilon = {at_least_text(most)}; "
            f"about {more:,} fit at epsilon = {at_least_text(small)} each."
        )
