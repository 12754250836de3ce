"""Prices a question: at the epsilon or the share of the budget that was named, or at the lowest price for `within=`.

The error of a measure never grows with its price, so the price is searched by bisection and rounded up to four digits;
what is returned was checked, not estimated.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_DOWN, ROUND_UP
from fractions import Fraction

from lapwing.answers.columns import half_width
from lapwing.curator.automatic import NOTHING, Automatic
from lapwing.curator.chosen_limits import DECLARED, ChosenLimits
from lapwing.errors import BudgetExceeded, Misconfigured, Refused
from lapwing.expressions.expression import Slot
from lapwing.expressions.refusal import refuse
from lapwing.ledger.phrases import NONE_FITS, allowance_words
from lapwing.numbers import Number, below_one, count, exact, flag, positive
from lapwing.plan.moments import MEAN
from lapwing.plan.plan import Outline, Plan, Prices, equal_prices, make_outline, priced, unknown_keys
from lapwing.plan.question import Question
from lapwing.privacy.budget import Budget, Cost
from lapwing.privacy.loss import Loss
from lapwing.privacy.phrases import at_least_text, decimal_text, left_text, round_text, share_text
from lapwing.terms import Within

CHECK = Fraction(1, 20)
"""The default share of the price for a check of limits."""

_DIGITS, _TENS = 3, 1000  # prices have four digits: 1.000 to 9.999 times a power of ten
_MOST = Fraction(10**4)  # the largest supported price
_LEAST = Fraction(1, 10**12)
_MOST_ROWS = 10**15
_LEAST_DELTA = Fraction(1, 10**100)
_FOUR_DIGITS = Fraction(999, 1000)  # the price of a precision has four digits, and is at most 1/1000 too high


@dataclass(frozen=True, slots=True)
class Terms:
    """What an analyst says about price and accuracy: a half-width, an epsilon, or a share of the whole budget."""

    within: Within | None = None
    epsilon: Number | None = None
    delta: Number | None = None
    confidence: Number | None = None
    assume_rows: int | None = None
    intervals: bool = True
    """Whether quantiles are released with intervals, which take half of their price. Other numbers have them anyway."""
    automatic: Automatic = NOTHING
    """Which bounds and limits may be found first, for a share of the price."""
    taken: Fraction = Fraction(0)
    """What searches and checks have taken of the price already, in the budget's currency."""
    check: Number | None = field(default=None, kw_only=True)
    """The share of the price that checks what limits cut; 0 for none, None for the default."""
    share: Number | None = field(default=None, kw_only=True)
    """The part of the whole budget that the question takes, in the budget's own currency."""
    chosen: ChosenLimits = field(default=DECLARED, kw_only=True)
    """Limits and bounds in place of the declared ones."""

    def __post_init__(self) -> None:
        if self.assume_rows is not None:
            count(self.assume_rows, "assume_rows")
        if self.check is not None:
            read_check(self.check)

    def price(self, budget: Budget, delta: Number = 0) -> Loss:
        """What the question may lose: at the epsilon that is named, or as a share of the whole budget."""
        if (self.epsilon is None) == (self.share is None):
            raise Misconfigured(
                "say what the answer may cost: epsilon=0.1, or a share of the whole budget, share=0.05. "
                "Name one of them. Nothing was charged."
            )
        if self.share is not None:
            return budget.share(self.share, delta=delta)
        return budget.price(epsilon=0 if self.epsilon is None else self.epsilon, delta=delta)

    def price_in_epsilon(self, budget: Budget) -> Fraction:
        """The epsilon at which one question has this price; of a share rounded down where it is a root."""
        if self.share is None:
            return positive(0 if self.epsilon is None else self.epsilon, "epsilon")
        return budget.affordable(budget.cost(budget.share(self.share))) or _LEAST


def price_words(terms: Terms, cost: Cost, budget: Budget) -> str:
    """A price as the caller named it, and its share of the budget."""
    part = f"{share_text(cost.amount / budget.capacity.amount)} of the budget"
    if terms.within is not None:
        within = terms.within if isinstance(terms.within, Mapping) else {"": terms.within}
        named = ", ".join(f"{name} {number_words(half)}".strip() for name, half in within.items())
        return f"within {named}, for {part}"
    return part if terms.epsilon is None else f"epsilon = {number_words(terms.epsilon)}, {part}"


def number_words(number: Number) -> str:
    return decimal_text(exact(number, "number"))


def read_check(check: Number) -> Fraction:
    """The share of the price that a check of limits takes; 0 for none."""
    return below_one(check, "check", zero="no check")


Left = Callable[[], Fraction]
"""What is left of the delta."""


def plan_on_terms(question: Question, budget: Budget, terms: Terms, confidence: Fraction, left: Left) -> Plan:
    return price_on_terms(outline_on_terms(question, terms, confidence), budget, terms, confidence, left)


def outline_on_terms(question: Question, terms: Terms, confidence: Fraction) -> Outline:
    """What a question reads on these terms; raises Refused."""
    intervals = flag(terms.intervals, "intervals")
    return make_outline(question, counted=terms.within is None, confidence=confidence, intervals=intervals)


def price_on_terms(
    outline: Outline, budget: Budget, terms: Terms, confidence: Fraction, left: Left, taken: Fraction | None = None
) -> Plan:
    """The plan at the price that the terms name or ask for, less what is taken of it; raises Refused."""
    if outline.is_declared:
        return priced(outline, Prices(()))
    require_one_price(terms)
    delta = _delta(outline, budget, terms, left)
    if terms.within is not None:
        rows = None if terms.assume_rows is None else min(count(terms.assume_rows, "assume_rows"), _MOST_ROWS)
        return priced(outline, prices_within(outline, budget, terms.within, confidence, delta=delta, assume_rows=rows))
    price, taken = terms.price(budget, delta), terms.taken if taken is None else taken
    return priced(outline, equal_prices(outline, price.minus(budget.accounting.rules.loss(taken)) if taken else price))


def require_one_price(terms: Terms) -> None:
    """Refuses terms that name no price and no precision, or several."""
    if (terms.within is None) + (terms.epsilon is None) + (terms.share is None) != 2:
        raise Misconfigured(
            "say one of three: how exact the answer must be, within=50; what it may cost, epsilon=0.1; or a share of "
            "the whole budget, share=0.05. Nothing was charged."
        )


def _delta(outline: Outline, budget: Budget, terms: Terms, left: Left) -> Fraction:
    """What the selection of keys may take of the delta: a hundredth of what is left, unless it is said."""
    if terms.delta is not None:
        delta = below_one(terms.delta, "delta")
        if 0 < delta < _LEAST_DELTA:
            why = "it is too small to select any key."
            refuse("delta-too-small", "`delta`", why, "Leave it out, or pass for example delta=1e-9.")
        return delta
    if outline.domain is not None:
        return Fraction(0)
    if not budget.capacity.delta:
        refuse(*unknown_keys(outline.question))
    return usable_delta(budget.question_delta(left()))


def usable_delta(delta: Fraction) -> Fraction:
    """The delta, if keys can be selected for it; raises Refused if nothing to speak of is left."""
    if delta < _LEAST_DELTA:
        why = "its values are not public, and nothing is left of the delta that selects them."
        instead = "Have the steward declare the values of the keys; questions with public keys need no delta."
        refuse("delta-not-available", "GROUP BY", why, instead)
    return delta


def prices_within(
    outline: Outline,
    budget: Budget,
    within: Within,
    confidence: Fraction,
    *,
    delta: Fraction,
    assume_rows: int | None = None,
) -> Prices:
    """The lowest prices for these half-widths; raises Refused if there are none."""
    wanted = _wanted(outline, within)
    if not wanted:
        why = "the question asks for keys alone, and no number has a half-width."
        refuse("within-unsupported", "`within`", why, "Ask with epsilon=.")
    shares = tuple(
        _cheapest(outline, index, wanted[index], budget, confidence, assume_rows) for index in range(len(outline.kinds))
    )
    if outline.domain is not None:
        return Prices(shares)
    dearest = max(shares, key=lambda share: share.amount)
    return Prices(shares, dearest.with_delta(delta))


def _wanted(outline: Outline, within: Within) -> dict[int, list[tuple[int, Fraction]]]:
    """For each measure the aggregates that are read off it and how exact each must be."""
    names = [output.name for output in outline.question.outputs]
    for name in within if isinstance(within, Mapping) else ():
        if name not in names:
            numbers = [output.name for output in outline.question.outputs if isinstance(output.expression, Slot)]
            why = f"the answer has no column {name!r}."
            refuse("within-incomplete", "`within`", why, f"Name its numbers: {', '.join(map(repr, numbers))}.")
    wanted: dict[int, list[tuple[int, Fraction]]] = {index: [] for index in range(len(outline.kinds))}
    for output in outline.question.outputs:
        half = within.get(output.name) if isinstance(within, Mapping) else within
        if half is None or not isinstance(output.expression, Slot):
            continue
        reading = outline.readings[output.expression.index]
        wanted[reading.measure].append((output.expression.index, positive(half, f"within[{output.name}]")))
    for index, halves in wanted.items():
        if not halves:
            pairs = zip(outline.question.aggregates, outline.readings, strict=True)
            named = next(aggregate.words() for aggregate, reading in pairs if reading.measure == index)
            why = f"it says nothing about {named}, which is computed with or not shown."
            instead = f"Select {named} by itself and give its half-width, or ask with epsilon=."
            refuse("within-incomplete", "`within`", why, instead)
    return wanted


def _cheapest(
    outline: Outline,
    index: int,
    wanted: list[tuple[int, Fraction]],
    budget: Budget,
    confidence: Fraction,
    rows: int | None,
) -> Loss:
    """The lowest price at which all of these are as exact as they must be."""
    priced_at = budget.accounting.rules.loss
    kind, shown = outline.kinds[index], outline.confidence_of(index, confidence)
    statistics = [(outline.readings[slot].statistic, half) for slot, half in wanted]
    if outline.group_count is None and index in outline.choosing:
        refuse(
            "within-unsupported",
            "`within`",
            "rows are chosen by this number, so its intervals hold for all groups together, "
            "and how many there are is not known before keys are selected.",
            "Ask with epsilon=, or have the steward declare the values of the keys.",
        )
    for name, _ in statistics:
        if not kind.is_known_beforehand(name) and name != MEAN.name:
            why = "it is promised for counts, sums and means only."
            refuse("within-unsupported", "`within`", why, "Ask with epsilon=.")
        if name == MEAN.name and rows is None:
            why = "how exact a mean is depends on how many rows there are, which is private."
            instead = "Say assume_rows=1000 if you expect at least that many in each group, or ask with epsilon=."
            refuse("within-incomplete", "`within`", why, instead)

    def is_enough(amount: Fraction) -> bool:
        try:
            measure = kind.price(outline.groups_per_unit, priced_at(amount))
        except Refused:  # there is no such noise: it would be too large at a low price, and hardly any at a high one
            return amount > 1
        errors = [(half_width(measure, name, shown, rows=rows), half) for name, half in statistics]
        return all(error is not None and error <= half for error, half in errors)

    amount = _least(is_enough)
    if amount is None:
        refuse("within-unattainable", "`within`", "no price buys answers that exact.", "Ask for a larger half-width.")
    return priced_at(amount)


def _least(is_enough: Callable[[Fraction], bool]) -> Fraction | None:
    """The least amount of four digits that is enough, if one below the highest price is."""
    low, high = _index_of(_LEAST), _index_of(_MOST)
    if not is_enough(_amount(high)):
        return None
    return _amount(low + bisect_left(range(low, high), True, key=lambda index: is_enough(_amount(index))))


def _amount(index: int) -> Fraction:
    """All numbers of four digits in ascending order, by their place."""
    power, digits = divmod(index, 9 * _TENS)
    return Fraction(10) ** power * (_TENS + digits)


def _index_of(power_of_ten: Fraction) -> int:
    return (round(math.log10(power_of_ten)) - _DIGITS) * 9 * _TENS


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
    if not known or len(known) < len(halves):
        return ""
    half = max(known)
    return f"{math.ceil(half):,}" if half > 10 else round_text(half, 3, rounding=ROUND_UP)
