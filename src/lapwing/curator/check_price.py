"""What a check of limits costs: a share of the price, in it and not on top of it.

A question that names its price pays the check out of it; one that names a precision pays so much more. What is already
stored costs nothing, and its part goes to the answer.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from lapwing.errors import Misconfigured
from lapwing.mechanisms.cells import unit_counts
from lapwing.numbers import Number, below_one, round_down
from lapwing.privacy.accounting import FINEST
from lapwing.privacy.budget import Budget
from lapwing.privacy.loss import Loss

CHECK = Fraction(1, 20)
"""The default share of the price for a check."""


def read_check(check: Number) -> Fraction:
    """The share of the price that a check takes; 0 for none."""
    return below_one(check, "check", zero="no check")


@lru_cache(maxsize=1024, typed=True)
def check_price(budget: Budget, price: Loss, share: Fraction, *, counts: int) -> Loss:
    """What a check of so many counts costs, at this share of a price; refused if its noise cannot be drawn.

    Rounded down to the digits of a cost, so that check and answer never cost more than the price together.
    """
    amount = price.amount * share
    exactly = amount if amount.denominator <= 10**FINEST else round_down(amount, digits=FINEST)
    try:
        loss = budget.accounting.rules.loss(exactly)
        unit_counts(loss, counts).check()
    except Misconfigured:
        raise Misconfigured(
            "the price leaves a part for which limits cannot be checked: it is too small or too large. "
            "Pass check=0, or choose another price. Nothing was charged."
        ) from None
    return loss
