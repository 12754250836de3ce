"""What a batch of questions gives back: an answer to each, or what each would be worth, and one price."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import Any

from lapwing.answers.answer import Release
from lapwing.answers.preview import PricePreview
from lapwing.answers.tabular import Together
from lapwing.curator.batch import BatchPlan
from lapwing.curator.preview import Preview
from lapwing.curator.pricing import Terms, price_words
from lapwing.plan.plan import Plan
from lapwing.plan.units_exceeding import Checked, CheckResult, check_target
from lapwing.privacy.budget import Cost


def batch_of(
    names: tuple[str, ...],
    batch: BatchPlan,
    answers: Sequence[Release],
    results: Sequence[CheckResult | None],
    checks: Cost,
    terms: Terms,
) -> Batch:
    """The answer to each question, read off those of the merged ones. Members of one share its price equally.

    `results` are those of the checks of each merged one; the new answers share what was charged for checks now.
    """
    sizes = Counter(item.place for item in batch.items)
    new = sum(bool(answers[item.place].cost) for item in batch.items)
    releases = []
    for item in batch.items:
        answer = answers[item.place]
        plan, cost = item.plan(answer.plan), _part(answer.cost, sizes[item.place])
        cost = cost + _part(checks, new) if cost else cost
        bought = price_words(Terms(), cost, batch.budget)
        releases.append(replace(answer, plan=plan, cost=cost, check=_checked(plan, results[item.place]), bought=bought))
    total = reduce(add, (answer.cost for answer in answers), checks)
    return Batch(names, tuple(releases), total, price_words(terms, total, batch.budget))


def _checked(plan: Plan, result: CheckResult | None) -> Checked | None:
    target = check_target(plan.outline)
    return None if result is None or target is None else Checked(target, result)


def preview_of(
    names: tuple[str, ...],
    batch: BatchPlan,
    stored: Sequence[Release | None],
    remaining: Cost,
    check: Cost,
    results: Sequence[CheckResult | None],
    terms: Terms,
) -> BatchPreview:
    """What asking would give and cost now, with this price of checks; with the results of earlier checks."""
    missing = [place for place, answer in enumerate(stored) if answer is None]
    costs = dict(zip(missing, batch.costs(missing), strict=True))
    plans = [plan if answer is None else answer.plan for plan, answer in zip(batch.plans, stored, strict=True)]
    nothing = remaining.zero
    previews = tuple(
        Preview(
            item.plan(plans[item.place]),
            batch.budget,
            costs.get(item.place, nothing),
            remaining,
            batch.merged[item.place].confidence,
            checked=_checked(item.plan(plans[item.place]), results[item.place]),
        )
        for item in batch.items
    )
    return BatchPreview(
        names, previews, sum(costs.values(), start=check), remaining, check, batch.note if missing else "", terms
    )


def _part(cost: Cost, parts: int) -> Cost:
    return Cost(cost.accounting, cost.amount / parts, cost.delta / parts)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Batch(Together[Release]):
    """The answers to a batch, in the order of the questions, by number or by name."""

    names: tuple[str, ...]
    releases: tuple[Release, ...]
    cost: Cost
    """What all of them cost together; 0 if all were stored."""
    bought: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class BatchPreview(PricePreview):
    """Price and error of each question of a batch, before anything is spent."""

    names: tuple[str, ...]
    previews: tuple[Preview, ...]
    cost: Cost
    remaining: Cost
    check: Cost
    """What of the price checks how much limits cut."""
    note: str = ""
    """Whether delta is paid to compose the list, and why."""
    terms: Terms = field(default_factory=Terms)

    def __len__(self) -> int:
        return len(self.previews)

    def __iter__(self) -> Iterator[Preview]:
        return iter(self.previews)

    @property
    def errors(self) -> dict[str, float]:
        """Half the width of each released number's interval at the confidence, by question and number."""
        pairs = zip(self.names, self.previews, strict=True)
        return {f"{name}: {words}": error for name, one in pairs for words, error in one.errors.items()}

    def facts(self) -> dict[str, Any]:
        return {"questions": {name: one.to_dict() for name, one in zip(self.names, self.previews, strict=True)}}

    def lines(self) -> list[str]:
        words = price_words(self.terms, self.cost, self.previews[0].budget)
        price = f"Price: {words}{'' if self.fits else '; more than is left'}."
        pairs = zip(self.names, self.previews, strict=True)
        errors = [f"{name}: {line}" for name, one in pairs for line in one.brief()]
        made_up = dict.fromkeys(line for one in self.previews for line in one.made_up)
        return [*made_up, price if self.cost else "Price: nothing, all are stored.", *errors]

    def details(self) -> list[str]:
        share = float(self.cost.amount / self.previews[0].budget.capacity.amount)
        price = f"Price of all {len(self)} together: {self.cost}, {share:.2%} of the budget."
        lines = [price if self.cost else "Price: nothing, all are stored.", *([self.note] if self.note else [])]
        for name, preview in zip(self.names, self.previews, strict=True):
            lines += [f"{name}:", *(f"  {line}" for line in (*preview.accuracy(), *preview.notes()))]
        clipping = f"{self.check} of the price reports clipping; check=0 skips it."
        return [*lines, clipping] if self.check else lines
