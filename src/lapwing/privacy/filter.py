"""A running budget in memory, and a budget with what was spent in words for the person who signs for the risk."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from html import escape
from typing import Any, NoReturn

from lapwing.errors import BudgetExceeded, Misconfigured
from lapwing.numbers import shown
from lapwing.privacy.budget import Budget, Cost, remaining_text
from lapwing.privacy.loss import Loss
from lapwing.privacy.phrases import at_least_text, decimal_text, meaning, share_text
from lapwing.privacy.posterior import posterior


class _Spent:
    """The sum up to one charge. `after` holds at most one successor: its setter made the next charge."""

    __slots__ = ("after", "cost")

    def __init__(self, cost: Cost) -> None:
        self.cost = cost
        self.after: dict[None, _Spent] = {}


class Filter:
    """Grants charges until the budget is full. One process, any number of threads; it cannot be copied.

    Guarantee:  the charges granted never add up to more than `budget.capacity`; by the theorem of budget.py all
                releases paid here are together (epsilon, delta)-DP, even if chosen adaptively.
    Proof:      the sums so far are a chain. A charge is granted if it fits what remains after the last of them and
                becomes its successor, in one `dict.setdefault`; if another thread or a signal handler came first, it
                is checked again. So every sum in the chain is the one before plus one charge that fitted. A refused
                charge changes nothing.
    Checked by: tests/privacy/test_filter.py
    """

    __slots__ = ("_budget", "_known")

    def __init__(self, budget: Budget) -> None:
        if not isinstance(budget, Budget):
            raise Misconfigured(f"{shown(budget)} is not a budget. Pass Budget(epsilon=...).")
        self._budget = budget
        self._known = _Spent(budget.capacity.zero)

    @property
    def budget(self) -> Budget:
        """The value that this filter enforces."""
        return self._budget

    @property
    def total(self) -> Cost:
        return self._budget.capacity

    @property
    def spent(self) -> Cost:
        """The sum of all charges granted so far."""
        return self._last().cost

    @property
    def remaining(self) -> Cost:
        return self.total - self.spent

    def fits(self, loss: Loss) -> bool:
        """Whether this loss could be spent now. Another thread may spend first; only `spend` decides."""
        return self._price(loss).fits(self.remaining)

    def spend(self, loss: Loss) -> Cost:
        """Charges the loss and returns what it cost, or raises BudgetExceeded and changes nothing."""
        cost = self._price(loss)
        while True:
            last = self._last()
            remaining = self.total - last.cost
            if not cost.fits(remaining):
                why = f"This costs {cost}, and {remaining_text(remaining)} is left."
                raise BudgetExceeded(why, self._advice(cost, remaining), asked=cost, remaining=remaining)
            charged = _Spent(last.cost + cost)
            if last.after.setdefault(None, charged) is charged:
                self._known = charged
                return cost

    def _last(self) -> _Spent:
        """The end of the chain; `_known` may lag behind it."""
        last = self._known
        while last.after:
            last = last.after[None]
        return last

    def _price(self, loss: Loss) -> Cost:
        cost = self.budget.cost(loss)
        if not cost:
            raise Misconfigured(f"The loss ({loss}) is 0; a charge must be above 0. Post-processing needs no charge.")
        return cost

    def _advice(self, cost: Cost, remaining: Cost) -> str:
        if cost.amount <= remaining.amount:
            return f"Ask for delta = {at_least_text(remaining.delta)} or less."
        most = self.budget.affordable(remaining)
        return f"Ask for epsilon = {at_least_text(most)} or less." if most else "No question fits any more."

    def __repr__(self) -> str:
        spent = self.spent
        left = self.total - spent
        most = self.budget.affordable(left)
        enough = f"enough for one question at epsilon = {at_least_text(most)}"
        enough = enough if most else "too little for any question"
        return f"Budget: {self.budget}\nSpent: {spent}\nLeft: {remaining_text(left)}, {enough}"

    def __reduce__(self) -> NoReturn:
        raise Misconfigured("A filter cannot be copied or pickled: two copies would spend one budget twice.")


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
        return self.budget.capacity

    @property
    def remaining(self) -> Cost:
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
