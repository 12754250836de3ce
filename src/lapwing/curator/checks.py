"""Checks of what limits cut: what one costs, and which stored one serves a question.

Price:      a share of the price of the question, in it and not on top of it. A question that names a precision pays so
            much more. What is already stored costs nothing, and its part goes to the answer.
Stored:     rules as for bounds that were found (search.py). A stored check serves if it is about the same relation and
            keys, covers every limit of the question, and cost a quarter or more of what the question would pay for one;
            of several the oldest, so that later ones never change what an earlier question got, and a cheap one spoils
            nothing.
Checked by: tests/curator/test_check_price.py
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from lapwing.answers.stored import decode_check
from lapwing.curator.purchase import PlannedCharge
from lapwing.curator.request import Request
from lapwing.curator.search import WORSE
from lapwing.errors import Misconfigured, Refused
from lapwing.ledger.reservation import LedgerView
from lapwing.numbers import round_down
from lapwing.plan.plan import Plan
from lapwing.plan.units_exceeding import Checked, CheckResult, UnitsExceeding
from lapwing.privacy.accounting import FINEST
from lapwing.privacy.budget import Budget
from lapwing.privacy.loss import Loss


@dataclass(frozen=True, slots=True)
class PlannedCheck:
    """What is checked for a request, at which price, and what the ledger has of it."""

    target: UnitsExceeding
    price: Loss
    plan: Plan = field(compare=False)
    result: CheckResult | None
    """The result that serves, if there is one."""
    own: bool = False
    """Whether this request paid for it, so that its price is part of this request's."""
    weaker: CheckResult | None = None
    """The best one that is stored, if none serves: told with a stored answer, for which nothing new is paid."""

    @property
    def missing(self) -> bool:
        return self.result is None

    @property
    def taken(self) -> Fraction:
        """What it takes of the request's price, in the budget's currency."""
        return self.price.amount if self.missing or self.own else Fraction(0)

    @property
    def told(self) -> CheckResult | None:
        """What can be told."""
        return self.weaker if self.result is None else self.result

    @property
    def checked(self) -> Checked | None:
        """What can be told of the target's limits."""
        return None if self.told is None else Checked(self.target, self.told)

    def charge(self, request: Request, budget: Budget, confidence: Fraction) -> PlannedCharge:
        """What buys it. With a key, a retry finds its own charge again, so it pays once."""
        target, price = self.target, self.price
        body = request.body(("check", target.identity.facts, target.labels, price.encode()))
        key = request.part_key(target.identity)
        return PlannedCharge(self.plan, budget.cost(price), confidence, str(target), body, key, questions=())


def check_plan(budget: Budget, price: Loss, share: Fraction, target: UnitsExceeding) -> Plan:
    """The check at this share of a price; refused if its noise cannot be drawn.

    Rounded down to the digits of a cost, so that check and answer never cost more than the price together.
    """
    amount = price.amount * share
    exactly = amount if amount.denominator <= 10**FINEST else round_down(amount, digits=FINEST)
    try:
        return target.plan(budget.accounting.rules.loss(exactly))
    except (Misconfigured, Refused):
        raise Misconfigured(
            "the price leaves a part for which limits cannot be checked: it is too small or too large. "
            "Pass check=0, or choose another price. Nothing was charged."
        ) from None


def find_check(view: LedgerView, request: Request, target: UnitsExceeding, plan: Plan) -> PlannedCheck:
    """The check of a request, with what is stored of it."""
    mine, price = request.part_key(target.identity), plan.loss
    stored = reversed(view.answers[target.identity.text])
    known = [(one.charge, result) for one in stored if (result := decode_check(one.payload)).covers(target)]
    own = [result for charge, result in known if mine and (charge.analyst, charge.key) == (request.analyst, mine)]
    enough = [result for _, result in known if WORSE * result.loss.amount >= price.amount]
    if own or enough:
        return PlannedCheck(target, price, plan, (own or enough)[0], own=bool(own))
    best = max((result for _, result in known), key=lambda result: result.loss.amount, default=None)
    return PlannedCheck(target, price, plan, None, weaker=best)
