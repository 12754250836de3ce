"""From a plan to its answer: one that is stored and good enough, or a new one, charged, read and stored."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from hashlib import sha256

from lapwing.answers.answer import Release
from lapwing.answers.combine import combined
from lapwing.answers.prices import best_terms, enough_terms, prices_in, terms_of
from lapwing.answers.stored import decode
from lapwing.asking.batch import BatchRequest, Shared
from lapwing.asking.request import Request
from lapwing.cells.release import Released
from lapwing.curator.charging import UNJOINED, after_charge, of_batch, paid_answer, reading_terms, saying
from lapwing.curator.private_data import Paid, PrivateData
from lapwing.ledger import Charge, Ledger, Reservation
from lapwing.planning.plan import Outline, Plan, priced
from lapwing.privacy.budget import Cost


class PaidAnswers:
    """Finds paid answers, and charges for new ones."""

    def __init__(self, ledger: Ledger, private_data: PrivateData) -> None:
        self._ledger, self._private_data = ledger, private_data

    def find_stored(
        self, plan: Plan, confidence: Fraction, *, analyst: str = "", key: str | None = None
    ) -> Release | None:
        """The best answer paid before, if none of its errors is larger than asked; of equal ones the newest.

        A key that this request was paid with gives its own answer back.
        """
        outline, match = plan.outline, plan.outline.identity.text
        own = None if key is None else self._ledger.paid_with(match, analyst, key)
        if own is not None:
            return self._again(outline, *own, confidence)
        newest = {offer.terms: offer for offer in self._ledger.offers(match)}
        with reading_terms():
            first = best_terms(newest)
        best = _best(plan, confidence, first) or _best(plan, confidence, enough_terms(newest, terms_of(plan.prices)))
        if best is None:
            return None
        return self._again(outline, newest[best].seq, self._ledger.read_offer(match, newest[best]), confidence)

    def charge_new(
        self, plan: Plan, confidence: Fraction, text: str, request: Request, read: Paid[Released]
    ) -> Release:
        """A new answer that was prepared, charged; or the one that this request was charged for before."""
        cost, terms = self._ledger.budget.cost(plan.loss), terms_of(plan.prices)
        reservation = self._ledger.reserve(
            cost, analyst=request.analyst, body=request.body(), key=request.key, note=_note(plan, text)
        )
        return self._paid_answer(plan, confidence, reservation, read, terms)

    def check_keys(self, shared: Shared, request: Request) -> None:
        """Refuses a key that this analyst has used for another batch."""
        for place in range(len(shared.plans)):
            if (key := key_of(request.key, place)) is not None:
                self._ledger.check_key(request.analyst, key, request.body(place))

    def find_all_stored(self, shared: Shared, request: Request) -> list[Release | None]:
        """For each plan of a batch the stored answer that will do."""
        pairs, analyst = enumerate(zip(shared.plans, shared.merged, strict=True)), request.analyst
        return [
            self.find_stored(plan, one.level, analyst=analyst, key=key_of(request.key, i)) for i, (plan, one) in pairs
        ]

    def prepare_all(self, shared: Shared, which: Sequence[int]) -> list[Paid[Released]]:
        """For new answers to these plans of a batch."""
        members = [[shared.members[index].question for index in numbers] for numbers in shared.read_off()]
        prepare = self._private_data.prepare_release
        return [prepare(shared.plans[i], shared.merged[i].level, members[i]) for i in which]

    def charge_all_new(
        self,
        shared: Shared,
        which: Sequence[int],
        asked: BatchRequest,
        request: Request,
        ready: Sequence[Paid[Released]],
    ) -> list[Release]:
        """New answers to these plans of a batch, which were prepared, charged together or not at all."""
        read_off = shared.read_off()
        charges = [
            Charge(cost, request.body(i), key_of(request.key, i), _note(shared.plans[i], asked.title(read_off[i])))
            for i, cost in zip(which, shared.costs(which), strict=True)
        ]
        terms = [terms_of(shared.plans[i].prices) for i in which]
        made = self._ledger.reserve_all(charges, analyst=request.analyst) if charges else ()
        answers: list[Release] = []
        for i, one, read, on in zip(which, made, ready, terms, strict=True):
            with of_batch(made, one):
                answers.append(self._paid_answer(shared.plans[i], shared.merged[i].level, one, read, on))
        return answers

    def combine_stored(self, newest: Release) -> Release:
        """The answer joined with all that are stored for the same question, itself among them."""
        outline = newest.plan.outline
        with after_charge(newest.cost), saying(UNJOINED, newest.entry):
            found = self._ledger.find_answers(outline.identity.text)
            known = [(answer.charge.seq, *decode(outline, answer.payload)) for answer in found]
            return combined(newest, known)

    def _again(self, outline: Outline, seq: int, payload: bytes, confidence: Fraction) -> Release:
        """A stored answer, for nothing."""
        made, released = decode(outline, payload)
        return Release(made, released, nothing(self._ledger.budget.cost(made.loss)), seq, confidence)

    def _paid_answer(
        self, plan: Plan, confidence: Fraction, reservation: Reservation, read: Paid[Released], terms: str
    ) -> Release:
        (made, released), cost = paid_answer(
            self._ledger,
            reservation,
            match=plan.outline.identity.text,
            terms=terms,
            read=lambda: _with(plan, *read()),
            decode=lambda payload: decode(plan.outline, payload),
        )
        return Release(made, released, cost, reservation.seq, confidence)


def _with(plan: Plan, released: Released, payload: bytes) -> tuple[tuple[Plan, Released], bytes]:
    return (plan, released), payload


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


def key_of(key: str | None, place: int) -> str | None:
    """The key of one question of a batch with this key."""
    return None if key is None else f"batch:{sha256(repr((key, place)).encode()).hexdigest()}"


def _note(plan: Plan, text: str) -> dict[str, str]:
    """What the reader of the ledger sees."""
    return {"question": text, "plan": plan.question.canonical(), "version": plan.table.version}
