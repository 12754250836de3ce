"""From a plan to its answer: one that is stored and good enough, or a new one, charged, read and stored."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256

from lapwing.answers.answer import Release
from lapwing.answers.combine import Stored, combined
from lapwing.answers.stored import best_terms, decode, enough_terms, prices_in, terms_of
from lapwing.curator.batch import BatchPlan, BatchRequest
from lapwing.curator.charging import UNJOINED, PaidAnswer, Purchase, after_charge, reading_terms, saying
from lapwing.curator.private_data import PrivateData
from lapwing.curator.request import Request
from lapwing.ledger import Charge, Ledger
from lapwing.ledger.reservation import Offer
from lapwing.plan.noise import Released
from lapwing.plan.plan import Outline, Plan, priced
from lapwing.plan.question import Question
from lapwing.privacy.budget import Cost


@dataclass(frozen=True, slots=True)
class PlannedCharge:
    """One charge of a request: its plan, and what the ledger knows it by."""

    plan: Plan
    confidence: Fraction
    title: str
    """What was asked, for the reader of the ledger."""
    body: str
    key: str | None
    questions: tuple[Question, ...] | None = None
    """What will be read off the answer; None for the question of the plan."""

    @property
    def note(self) -> dict[str, str]:
        """What the reader of the ledger sees."""
        plan = self.plan
        return {"question": self.title, "plan": plan.question.canonical(), "version": plan.table.version}


class PaidAnswers:
    """Finds paid answers, and prepares new ones."""

    def __init__(self, ledger: Ledger, private_data: PrivateData) -> None:
        self._ledger, self._private_data = ledger, private_data

    def find_stored(
        self,
        plan: Plan,
        confidence: Fraction,
        *,
        lesser: Callable[[], Plan] | None = None,
        analyst: str = "",
        key: str | None = None,
    ) -> Release | None:
        """The best answer paid before, if none of its errors is larger than asked; of equal ones the newest.

        A key that this request was paid with gives its own answer back. Where no answer is as good as the plan, one
        that is as good as the lesser plan will do.
        """
        outline, match = plan.outline, plan.outline.identity.text
        own = None if key is None else self._ledger.paid_with(match, analyst, key)
        if own is not None:
            return self._again(outline, *own, confidence)
        newest = {offer.terms: offer for offer in self._ledger.offers(match)}
        if not newest:
            return None
        best = _best_of(newest, plan, confidence)
        if best is None and lesser is not None:
            best = _best_of(newest, lesser(), confidence)
        if best is None:
            return None
        return self._again(outline, newest[best].seq, self._ledger.read_offer(match, newest[best]), confidence)

    def prepare(self, charges: Sequence[PlannedCharge], costs: Sequence[Cost]) -> list[Purchase[tuple[Plan, Released]]]:
        """New answers at these costs, with whatever they need that needs no rows."""
        return [self._purchase(one, cost) for one, cost in zip(charges, costs, strict=True)]

    def find_all(self, outline: Outline) -> list[Stored]:
        """All answers that are stored for a question."""
        found = self._ledger.find_answers(outline.identity.text)
        return [(answer.charge.seq, *decode(outline, answer.payload)) for answer in found]

    def _again(self, outline: Outline, seq: int, payload: bytes, confidence: Fraction) -> Release:
        """A stored answer, for nothing."""
        made, released = decode(outline, payload)
        return Release(made, released, nothing(self._ledger.budget.cost(made.loss)), seq, confidence)

    def _purchase(self, one: PlannedCharge, cost: Cost) -> Purchase[tuple[Plan, Released]]:
        plan = one.plan
        read = self._private_data.prepare_release(plan, one.confidence, one.questions)
        return Purchase(
            Charge(cost, one.body, one.key, one.note),
            plan.outline.identity.text,
            read=lambda: _with(plan, *read()),
            decode=lambda payload: decode(plan.outline, payload),
            terms=terms_of(plan.prices),
        )


def release_of(charge: PlannedCharge, paid: PaidAnswer[tuple[Plan, Released]]) -> Release:
    """What a paid answer is to the one who asked."""
    made, released = paid.answer
    return Release(made, released, paid.cost, paid.entry, charge.confidence)


def combine(newest: Release, known: Sequence[Stored]) -> Release:
    """A new answer joined with those that were stored before it."""
    others = [one for one in known if one[0] != newest.entry]
    with after_charge(newest.cost), saying(UNJOINED, newest.entry):
        return combined(newest, [(newest.entry, newest.plan, newest.released), *others])


def charges_of(batch: BatchPlan, asked: BatchRequest, request: Request) -> list[PlannedCharge]:
    """The charges that a batch is made of: one for each plan, and the questions that are read off it."""
    found = []
    for place, (plan, merged, numbers) in enumerate(zip(batch.plans, batch.merged, batch.read_off(), strict=True)):
        key, questions = _key_of(request.key, place), tuple(batch.items[index].question for index in numbers)
        found.append(PlannedCharge(plan, merged.confidence, asked.title(numbers), request.body(place), key, questions))
    return found


def _with(plan: Plan, released: Released, payload: bytes) -> tuple[tuple[Plan, Released], bytes]:
    return (plan, released), payload


def _best_of(offered: Mapping[str, Offer], plan: Plan, confidence: Fraction) -> str | None:
    """The terms of the best answer that is offered, if it is as good as the plan."""
    with reading_terms():
        first = best_terms(offered)
    return _best(plan, confidence, first) or _best(plan, confidence, enough_terms(offered, terms_of(plan.prices)))


def _best(plan: Plan, confidence: Fraction, offers: Sequence[str]) -> str | None:
    """Of these terms the best, if an answer on them is as good as the plan; of equal ones the first."""
    best: tuple[str, Plan] | None = None
    for terms in offers:
        made = priced(plan.outline, prices_in(json.loads(terms)))
        if made.is_as_good_as(plan, confidence) and (best is None or not best[1].is_as_good_as(made, confidence)):
            best = terms, made
    return None if best is None else best[0]


def nothing(cost: Cost) -> Cost:
    """No cost, in the same currency."""
    return cost - cost


def _key_of(key: str | None, place: int) -> str | None:
    """The key of one question of a batch with this key."""
    return None if key is None else f"batch:{sha256(repr((key, place)).encode()).hexdigest()}"
