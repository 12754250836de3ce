"""Several questions at one price: what they share is read and paid once, and the price is split for the worst of them.

Merging. Questions over the same rows and keys are one question with all their aggregates: one engine query, and what
two of them ask for is paid once. Each keeps its own columns, filters and order, which are post-processing.

Splitting. The error of a part falls like 1 / epsilon, and like 1 / sqrt(rho). Let e be the error of each part, in units
of the data, at one and the same price; a question with k public groups has about groups / k of all units in each group,
so its relative error goes with e k / groups. The largest of w e k / groups, with weights w of the questions, is least
if all are equal: epsilon in proportion to w e k / groups, rho in proportion to its square. Neither w nor e nor k
depends on the data.

Price. zCDP: the rhos add up to the price. Pure: the epsilons do. Basic accounting with a delta: the list is fixed
before the first answer, so it costs what `compose_fixed` says (privacy/analysis/composition.py). Every part is
dominated by the worst mechanism of its epsilon and delta; the parts are rounded to powers of two, so that few of
them differ, and scaled up by the largest factor for which the composition is still within the price. Composing takes
delta, so a list is composed only if that saves a larger share of the budget's epsilon than it takes of its delta; the
budget, the price and the questions decide that, not what was spent. Where some answers of a composed list are stored,
the rest keeps its parts and is composed if that saves a larger share, or if the parts add up to more than the price.
Checked by: tests/curator/test_batch.py
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial, reduce
from operator import add
from typing import Any

from lapwing.curator.pricing import Left, Terms, usable_delta
from lapwing.errors import Misconfigured
from lapwing.expressions.aggregate import Aggregate
from lapwing.expressions.refusal import inside, refuse
from lapwing.numbers import Number, below_one, exact
from lapwing.plan.key_selection import units_needed
from lapwing.plan.kind import Measure
from lapwing.plan.plan import Outline, Plan, Prices, equal_prices, make_outline, priced
from lapwing.plan.question import Question, with_places
from lapwing.privacy.analysis.composition import compose_fixed
from lapwing.privacy.analysis.loss_distribution import PrivacyLoss
from lapwing.privacy.analysis.profile import Amount
from lapwing.privacy.budget import Budget, Cost
from lapwing.privacy.loss import Loss, Pure

MOST_QUESTIONS = 1_000
UNKNOWN_GROUPS = 100
"""A question whose keys are not public counts as this many groups."""

_LOW = Fraction(1, 100)
_DIGITS = 1000  # parts of the price are whole multiples of a thousandth of the largest one
_ONE, _MOST = 64, 64 * 64  # the parts of a fixed list are scaled by a factor of 1 to 64, in steps of 1 / 64
_LARGE = 20  # an epsilon from which on composition gains next to nothing


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """What was asked in a batch: questions with names and weights."""

    names: tuple[str, ...]
    questions: tuple[Any, ...]
    weights: tuple[Fraction, ...]

    @property
    def written(self) -> tuple[Any, ...]:
        return ("batch", self.names, self.questions, self.weights)

    def title(self, which: Sequence[int]) -> str:
        """What these questions ask for, for the reader of the ledger."""
        return f"batch of {len(self.names)}: {'; '.join(str(self.questions[index]) for index in which)}"


def read_batch(questions: object, weights: object = None) -> BatchRequest:
    """Questions as a list or by name, and their weights alike; 1 if none are given."""
    if isinstance(questions, str | bytes) or not isinstance(questions, Sequence | Mapping) or not questions:
        raise Misconfigured("`questions` must be a list of questions, or questions by name. Nothing was charged.")
    if len(questions) > MOST_QUESTIONS:
        raise Misconfigured(f"a batch has at most {MOST_QUESTIONS:,} questions. Nothing was charged.")
    names = tuple(questions) if isinstance(questions, Mapping) else tuple(map(str, range(1, len(questions) + 1)))
    if not all(isinstance(name, str) for name in names):
        raise Misconfigured("the names of questions must be texts. Nothing was charged.")
    asked = tuple(questions.values() if isinstance(questions, Mapping) else questions)
    return BatchRequest(names, asked, _weights(weights, names))


def _weights(weights: object, names: tuple[str, ...]) -> tuple[Fraction, ...]:
    match weights:
        case None:
            return (Fraction(1),) * len(names)
        case Mapping() if set(weights) <= set(names):
            return tuple(_weight(weights.get(name, 1), name) for name in names)
        case Sequence() if not isinstance(weights, str | bytes) and len(weights) == len(names):
            return tuple(_weight(weight, name) for weight, name in zip(weights, names, strict=True))
        case _:
            raise Misconfigured("the weights must be one number for each question. Nothing was charged.")


def _weight(value: Any, name: str) -> Fraction:
    number = exact(value, f"the weight of question {name}")
    if number <= 0:
        raise Misconfigured(f"the weight of question {name} is {value}; it must be above 0. Nothing was charged.")
    return number


@dataclass(frozen=True, slots=True)
class MergedQuestion:
    """One question for several that were asked, and the largest of their weights."""

    outline: Outline
    confidence: Fraction
    """The confidence that its errors are stated at."""
    weight: Fraction


@dataclass(frozen=True, slots=True)
class BatchItem:
    """One question that was asked, as it is read off the merged one that answers it."""

    place: int
    """Which of the merged questions."""
    question: Question

    def plan(self, merged: Plan) -> Plan:
        """The plan of the merged question with this one's columns, filters and order."""
        return replace(merged, outline=replace(merged.outline, question=self.question))


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """A batch with its price split: the merged questions, their plans, and how each question is read off them."""

    budget: Budget
    merged: tuple[MergedQuestion, ...]
    plans: tuple[Plan, ...]
    items: tuple[BatchItem, ...]
    delta: Fraction
    """The delta that may be spent in all where the list is composed; 0 where prices add."""
    limit: Fraction
    """The epsilon that a composed list keeps within."""
    note: str
    """Whether delta is paid to compose the list, and why; empty where that is no choice."""

    def read_off(self) -> list[list[int]]:
        found: list[list[int]] = [[] for _ in self.plans]
        for index, item in enumerate(self.items):
            found[item.place].append(index)
        return found

    def costs(self, which: Sequence[int]) -> list[Cost]:
        """What these plans cost together as a fixed list, divided among them in proportion to what each loses."""
        plans = [self.plans[place] for place in which]
        if not plans:
            return []
        whole, alone = self.budget.cost(self._loss(plans)), [self.budget.cost(plan.loss) for plan in plans]
        amount = sum(cost.amount for cost in alone)
        return [Cost(whole.accounting, whole.amount * one.amount / amount, whole.delta / len(plans)) for one in alone]

    def _loss(self, plans: Sequence[Plan]) -> Loss:
        total = reduce(add, (plan.loss for plan in plans))
        if not self.delta:
            return total
        added, tight = total.to_approximate(), _composed([plan.prices for plan in plans], self.delta)
        if tight >= added.epsilon:
            return total
        saved, paid = added.epsilon - Fraction(tight), self.delta - added.delta
        if added.epsilon <= self.limit and not _is_worth(self.budget, saved, paid):
            return total
        return Pure(Fraction(tight)).with_delta(self.delta)


def split_price(
    merged: Sequence[MergedQuestion], items: Sequence[BatchItem], budget: Budget, terms: Terms, *, left: Left
) -> BatchPlan:
    """The batch at this price; raises Refused if there is none."""
    whole, epsilon, rules = terms.price(budget), terms.price_in_epsilon(budget), budget.accounting.rules
    delta = _batch_delta(merged, budget, terms.delta, left)
    usual = _batch_delta(merged, budget, terms.delta, lambda: budget.capacity.delta)
    limit = epsilon - terms.taken if rules.composes_lists else epsilon
    split = partial(_split, merged, budget, (whole.minus(rules.loss(terms.taken)), limit), usual=usual)
    composed, note = rules.composes_lists and min(usual, budget.capacity.delta) > 0 and epsilon <= _LARGE, ""
    if composed:
        composed, note = _weigh(budget, split(usual, composed=True), usual)
    prices = split(delta, composed=composed)
    if composed and delta:
        prices = _scaled(prices, limit, delta)
    plans = [priced(one.outline, shares) for one, shares in zip(merged, prices, strict=True)]
    spent = delta if composed else Fraction(0)
    return BatchPlan(budget, tuple(merged), tuple(plans), tuple(items), spent, limit, note)


def merge(
    questions: Sequence[Question], named: BatchRequest, confidences: Sequence[Fraction]
) -> tuple[list[MergedQuestion], list[BatchItem]]:
    """The questions to be answered, and how each that was asked is read off them."""
    alike: dict[object, list[int]] = {}
    for index, question in enumerate(questions):
        with inside(f"question {named.names[index]}"):
            outline = make_outline(question, confidence=confidences[index])
            _check_numbers(question)
        rows = (question.table.canonical, question.table.version, question.where, question.keys, confidences[index])
        alike.setdefault((outline.identity.text, question) if _is_apart(outline) else rows, []).append(index)
    merged: list[MergedQuestion] = []
    items: dict[int, BatchItem] = {}
    for place, (first, *others) in enumerate(alike.values()):
        together = _together([questions[index] for index in (first, *others)])
        outline = make_outline(together, confidence=confidences[first])
        merged.append(
            MergedQuestion(outline, confidences[first], max(named.weights[index] for index in (first, *others)))
        )
        places = {aggregate: slot for slot, aggregate in enumerate(together.aggregates)}
        items |= {index: BatchItem(place, _on(questions[index], together, places)) for index in (first, *others)}
    return merged, [items[index] for index in range(len(questions))]


def _check_numbers(question: Question) -> None:
    """Refuses keys without a number: there is nothing to share a price with."""
    if not question.aggregates:
        why = "it asks for keys alone, which have no number to share the price with."
        refuse("unsupported-clause", "SELECT", why, "Ask it by itself, or add COUNT(*).")


def _is_apart(outline: Outline) -> bool:
    """Whether its cells follow from what it chooses: the best groups alone, or quantiles for all groups together."""
    return any(kind.chosen_groups for kind in outline.kinds) or any(map(outline.is_quantile, outline.choosing))


def _together(questions: Sequence[Question]) -> Question:
    """One question with all aggregates, in alphabetical order; a single one as it is."""
    first, *others = questions
    if all(other == first for other in others):
        return first
    aggregates = {aggregate for question in questions for aggregate in question.aggregates}
    ordered = tuple(sorted(aggregates, key=lambda aggregate: aggregate.canonical()))
    return replace(first, aggregates=ordered, outputs=(), having=None, order=(), limit=None)


def _on(question: Question, together: Question, places: Mapping[Aggregate, int]) -> Question:
    """The question over the aggregates of the merged one, which are at these places."""
    keys = {index: index for index in range(len(question.keys))}
    slots = {old: places[aggregate] for old, aggregate in enumerate(question.aggregates)}
    return replace(with_places(question, keys, slots), aggregates=together.aggregates)


def _split(
    merged: Sequence[MergedQuestion],
    budget: Budget,
    price: tuple[Loss, Fraction],
    delta: Fraction,
    *,
    usual: Fraction,
    composed: bool,
) -> list[Prices]:
    """The parts of one price for all.

    The shares are those of the usual delta, at which nothing is spent yet: as delta runs out no part gets more than it
    got before, where prices add up, and a batch that was paid is not charged again for a better part.
    """
    unknown = sum(one.outline.domain is None for one in merged)
    parts = 2 * unknown if composed else unknown  # the other half is for the composition
    whole, epsilon = price
    even = [_even(one, budget, epsilon, usual / max(1, parts)) for one in merged]
    needs = [_needs(one, plan) for one, plan in zip(merged, even, strict=True)]
    return [_with_delta(one, delta / max(1, parts)) for one in _shares(even, needs, whole, powers=composed)]


def _weigh(budget: Budget, prices: Sequence[Prices], delta: Fraction) -> tuple[bool, str]:
    """Whether composing these parts is worth this delta in all, and a sentence that says so."""
    parts = _parts(prices)
    if len(parts) < 2:
        return False, ""
    added, needed = (sum(amounts, Fraction(0)) for amounts in zip(*parts, strict=True))
    saved, paid = added - Fraction(min(_composed(prices, delta), added)), delta - needed
    whole = budget.capacity
    shares = f"{_words(paid / whole.delta)} of the budget's delta for {_words(saved / whole.amount)} of its epsilon"
    if _is_worth(budget, saved, paid):
        return True, f"Delta is paid to compose the list: at most {shares}."
    return False, f"No delta is paid to compose the list: it would be {shares}."


def _words(share: Fraction) -> str:
    return f"{float(share):.2%}" if share >= Fraction(1, 10**4) else "less than 0.01%"


def _is_worth(budget: Budget, saved: Fraction, paid: Fraction) -> bool:
    return saved * budget.capacity.delta > paid * budget.capacity.amount


def _batch_delta(merged: Sequence[MergedQuestion], budget: Budget, delta: Number | None, left: Left) -> Fraction:
    """The delta that a batch may spend in all: for keys that are not public, and for the composition."""
    basic, unknown = budget.accounting.rules.composes_lists, sum(one.outline.domain is None for one in merged)
    if delta is None:
        if not budget.capacity.delta or not (basic or unknown):
            return Fraction(0)
        many = 1 if basic else unknown
        each = budget.question_delta(left(), many=many)
        return many * (usable_delta(each) if unknown else each)
    if not basic and not unknown:
        why = "every key of these questions is public, so no delta is needed."
        refuse("delta-not-needed", "`delta`", why, "Leave `delta` out.")
    return below_one(delta, "delta")


def _even(one: MergedQuestion, budget: Budget, epsilon: Fraction, delta: Fraction) -> Plan:
    """The question by itself in equal parts, to see how its errors compare: at a low price, where rounding is none."""
    part = delta if one.outline.domain is None else Fraction(0)
    low = min(epsilon, _LOW)
    return priced(one.outline, equal_prices(one.outline, budget.price(epsilon=low, delta=part)))


def _needs(one: MergedQuestion, plan: Plan) -> list[Fraction]:
    """How much of the price each part needs for the same relative error: w e k / groups, the keys last."""
    groups = plan.group_count if plan.group_count is not None else UNKNOWN_GROUPS * plan.groups_per_unit
    factor = one.weight * Fraction(groups, plan.groups_per_unit)
    errors = [_units_off(measure, plan, one.confidence) for measure in plan.measures if measure.mechanism is not None]
    if plan.selection is not None:
        errors.append(Fraction(units_needed(plan.selection)[0]))
    return [factor * error for error in errors]


def _units_off(measure: Measure, plan: Plan, confidence: Fraction) -> Fraction:
    """The error of a measure in units: how many of them, at their largest, it amounts to."""
    return max(measure.errors(confidence, plan.group_count)) / (measure.sensitivity * measure.step)


def _shares(even: Sequence[Plan], needs: Sequence[Sequence[Fraction]], whole: Loss, *, powers: bool) -> list[Prices]:
    """The whole price in proportion to what each part needs: epsilon to the need, rho to its square.

    In equal parts of n, an error is n times, or sqrt(n) times, that of the whole price.
    """
    level = [[need**whole.power / plan.outline.parts for need in own] for plan, own in zip(even, needs, strict=True)]
    most = max(need for own in level for need in own)
    rounded = [[_whole(need / most, powers=powers) for need in own] for own in level]
    parts = iter(whole.split([part for own in rounded for part in own]))
    return [_prices(plan, parts) for plan in even]


def _whole(share: Fraction, *, powers: bool) -> int:
    """A share of the largest part, in thousandths or as the power of two below that."""
    digits = max(1, round(_DIGITS * share))
    return 1 << (digits.bit_length() - 1) if powers else digits


def _prices(plan: Plan, parts: Iterator[Loss]) -> Prices:
    """The next parts as prices of the plan, the keys last and with their delta."""
    shares = tuple(None if measure.mechanism is None else next(parts) for measure in plan.measures)
    keys = plan.prices.selection
    return Prices(shares, None if keys is None else next(parts).with_delta(keys.delta))


def _with_delta(prices: Prices, delta: Fraction) -> Prices:
    return prices if prices.selection is None else replace(prices, selection=prices.selection.with_delta(delta))


def _scaled(prices: Sequence[Prices], epsilon: Fraction, delta: Fraction) -> list[Prices]:
    """All parts larger by the largest factor at which they are together within (epsilon, delta)."""

    def is_within(factor: int) -> bool:
        return _composed([_times(one, Fraction(factor, _ONE)) for one in prices], delta) <= epsilon

    low, high = _ONE, 2 * _ONE
    while high <= _MOST and is_within(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_within(middle) else (low, middle)
    return [_times(one, Fraction(low, _ONE)) for one in prices]


def _times(prices: Prices, factor: Fraction) -> Prices:
    measures = tuple(None if share is None else share.scaled(factor) for share in prices.measures)
    keys = prices.selection
    return Prices(measures, None if keys is None else keys.with_delta(0).scaled(factor).with_delta(keys.delta))


def _composed(prices: Sequence[Prices], delta: Fraction) -> Amount:
    """The epsilon of all parts together at this delta: each counts as the worst mechanism of its price."""
    parts = _parts(prices)
    worst = {part: PrivacyLoss.worst(epsilon=part[0], delta=part[1]) for part in set(parts)}
    return compose_fixed(worst[part] for part in parts).epsilon(delta)


def _parts(prices: Sequence[Prices]) -> list[tuple[Fraction, Fraction]]:
    losses = [part for one in prices for part in (*one.measures, one.selection) if part is not None]
    return [(known.epsilon, known.delta) for known in (loss.to_approximate() for loss in losses)]
