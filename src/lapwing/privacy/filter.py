"""A running budget in memory: every charge is checked before it is made."""

from __future__ import annotations

from typing import NoReturn

from lapwing.errors import BudgetExceeded, Misconfigured
from lapwing.numbers import shown
from lapwing.privacy.budget import Budget, Cost, remaining_text
from lapwing.privacy.loss import Loss
from lapwing.privacy.phrases import at_least_text


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
        """The whole budget."""
        return self._budget.capacity

    @property
    def spent(self) -> Cost:
        """The sum of all charges granted so far."""
        return self._last().cost

    @property
    def remaining(self) -> Cost:
        """What is left."""
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
        """What would fit."""
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
