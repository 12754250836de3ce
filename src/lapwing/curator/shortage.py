"""Rewords a refusal for want of budget in the terms of the caller: a precision, a share of the budget or an epsilon."""

from __future__ import annotations

from decimal import ROUND_DOWN, ROUND_UP
from fractions import Fraction

from lapwing.answers.columns import half_width
from lapwing.curator.pricing import Terms, price_words
from lapwing.errors import BudgetExceeded, Misconfigured, Refused
from lapwing.ledger.phrases import NONE_FITS, allowance_words
from lapwing.numbers import exact
from lapwing.plan.plan import Plan, equal_prices, priced
from lapwing.privacy.budget import Budget, Cost
from lapwing.privacy.phrases import at_least_text, left_text, round_text

_FOUR_DIGITS = Fraction(999, 1000)  # the price of a precision has four digits, and is at most 1/1000 too high


def reworded(error: BudgetExceeded, plan: Plan, terms: Terms, budget: Budget, *, check: Fraction) -> BudgetExceeded:
    """The refusal in the words of the caller. `check` is the share of the price that a check of limits takes."""
    asked, left = error.asked, error.remaining
    if not isinstance(asked, Cost) or not isinstance(left, Cost) or asked.amount <= left.amount:
        return error  # it lacks delta, and the ledger says so
    part, price = left.amount / budget.capacity.amount, price_words(terms, asked, budget)
    whose, more = allowance_words(error.owner)
    if terms.share is not None:
        most = round_text(part, 3, rounding=ROUND_DOWN)
        why = f"This costs {price}, and a share of {most} is left{whose}."
        advice = f"Ask for share={most} or less." if part else NONE_FITS
    elif terms.within is not None:
        half = _best(plan, left.amount * _FOUR_DIGITS / (1 + check), terms, budget)
        why = f"This costs more than is left{whose} ({price})."
        what = "budget" if error.owner is None else "allowance"
        advice = f"The best this {what} still buys is within {half}." if half else "Ask for a larger half-width."
    elif asked.unit == "rho":
        epsilon = budget.affordable(left)
        why = f"This costs {price}, and {left_text(part)} is left{whose}."
        advice = f"Ask for epsilon = {at_least_text(epsilon)} or less." if epsilon else NONE_FITS
    else:
        return error
    return BudgetExceeded(why, f"{advice}{more}", asked=asked, remaining=left, owner=error.owner)


def _best(plan: Plan, amount: Fraction, terms: Terms, budget: Budget) -> str:
    """The largest error of the numbers at this price, rounded up; empty if it is not known."""
    try:
        made = priced(plan.outline, equal_prices(plan.outline, budget.accounting.rules.loss(amount)))
    except (Refused, Misconfigured):
        return ""
    outline, named = plan.outline, terms.confidence
    confidence = outline.table.confidence if named is None else exact(named, "confidence")
    halves = [
        half_width(made.measures[r.measure], r.statistic, outline.confidence_of(r.measure, confidence), rows=None)
        for r in outline.readings
    ]
    known = [half for half in halves if half is not None]
    return _up(max(known)) if known and len(known) == len(halves) else ""


def _up(half: Fraction) -> str:
    return f"{-(-half.numerator // half.denominator):,}" if half > 10 else round_text(half, 3, rounding=ROUND_UP)
