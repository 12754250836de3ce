"""What a charge buys: a plan whose rows are read once and stored, whether it answers, checks limits or finds bounds.

A request is a generator that returns its answer and stops at moments that others can see: a charge shows in the budget,
and a stored answer is free for everyone from then on. A program runs it without a pause. A server resumes it at times
that depend on the plan alone.

Guarantee:  before the first stop nothing is charged and no row is read. After `BeforeCharge` everything is charged in
            one transaction, and no row is read. After `BeforeRows` rows are read, nothing is charged, and the ledger is
            neither read nor written: the outcome does not depend on what else had happened by then. The next stop is
            `BeforeStore`, also if reading failed; after it the answers are stored, and a failure is raised. Nothing is
            refunded.
Lost:       if the process ends before the store, the answer is lost and the charge is not.
Checked by: tests/curator/test_stages.py, tests/server/test_moments.py
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from operator import add
from typing import TypeVar

from lapwing.answers.answer import Release
from lapwing.answers.computed import Stored
from lapwing.answers.stored import best_terms, decode, enough_terms, prices_in, terms_of
from lapwing.errors import AnswerLost, LapwingError, LedgerFailed, Misconfigured
from lapwing.ledger import Charge, Ledger, Reservation
from lapwing.ledger.entry import LedgerView, NewAnswer, Offer
from lapwing.plan.add_noise import Released
from lapwing.plan.plan import Outline, Plan, priced
from lapwing.plan.question import Question
from lapwing.privacy.budget import Cost

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class BeforeCharge:
    """Everything is prepared. What follows is charged, durably, and reads no rows."""

    price: Cost
    """Of all that the request will charge from here on."""
    plans: tuple[Plan, ...]
    """Of all that is asked."""
    more: int
    """How many more passes over the rows find and check what they need."""


@dataclass(frozen=True, slots=True)
class BeforeRows:
    """Everything up to here is charged. What follows reads rows, and charges nothing."""


@dataclass(frozen=True, slots=True)
class BeforeStore:
    """Rows were read, and their answers are encoded. What follows stores them, and reads no rows."""

    answers: tuple[NewAnswer, ...]
    """What is to be stored: known to this request alone until then."""
    search: Plan | None
    """The plan of what is asked, if this was a search and the request continues with its result."""


Stop = BeforeCharge | BeforeRows | BeforeStore
RequestSteps = Generator[Stop, None, _T]


def run(steps: RequestSteps[_T]) -> _T:
    """The answer, without a pause."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            answer: _T = end.value
            return answer


UNANSWERED = (
    "A question with this key was already charged and has no stored answer. It stays charged and is not run again. "
    "Use a new key to pay again."
)
OTHERWISE = "The data or their declaration changed since this key was used. Use a new key."
LOST = (
    "The answer could not be stored, so it is not shown. Its price stays charged (entry {entry}), "
    "and asking again costs again; use a new key if it had one. {why}"
)
UNSTORED = "All of it stays charged (entries {first} to {last})."
ALL = f"{UNSTORED} What was answered before this is stored."


@dataclass(frozen=True, slots=True)
class PlannedCharge:
    """One charge of a request: its plan, its cost, and what the ledger knows it by."""

    plan: Plan
    cost: Cost
    confidence: Fraction
    title: str
    """What was asked, for readers of the ledger."""
    body: str
    key: str | None
    questions: tuple[Question, ...] | None = None
    """What will be read off the answer; None for the question of the plan."""

    @property
    def charge(self) -> Charge:
        """As the ledger records it."""
        note, plan = {"question": self.title}, self.plan
        if self.questions != ():
            note |= {"plan": plan.question.canonical(), "version": plan.table.version}
        return Charge(self.cost, self.body, self.key, note)


@dataclass(frozen=True, slots=True)
class Purchase:
    """A charge whose rows are ready to be read."""

    charge: Charge
    plan: Plan
    confidence: Fraction
    read: Callable[[], tuple[Released, bytes]]


def find_stored(
    ledger: Ledger,
    view: LedgerView,
    plan: Plan,
    *,
    confidence: Fraction,
    lesser: Callable[[], Plan] | None = None,
    analyst: str = "",
    key: str | None = None,
) -> Release | None:
    """The best stored answer whose errors are no larger than the plan's, else than the lesser plan's; the newest of
    equal ones. A key that this request was paid with gives its own answer back."""
    outline, match = plan.outline, plan.outline.identity.text
    own = None if key is None else ledger.paid_with(match, analyst, key)
    if own is None:
        newest = {offer.terms: offer for offer in view.offers[match]}
        best = _best_of(newest, plan, confidence) if newest else None
        if best is None and newest and lesser is not None:
            best = _best_of(newest, lesser(), confidence)
        if best is None:
            return None
        own = newest[best].seq, ledger.read_offer(match, newest[best])
    seq, payload = own
    made, released = decode(outline, payload)
    return Release(made, released, ledger.total.zero, seq, confidence)


def find_all(ledger: Ledger, outline: Outline) -> list[Stored]:
    """All stored answers to a question, the newest first."""
    answers = ledger.find_answers(outline.identity.text)
    return [(answer.charge.seq, *decode(outline, answer.payload)) for answer in answers]


def buy(
    ledger: Ledger, purchases: Sequence[Purchase], analyst: str, search: Plan | None = None
) -> RequestSteps[list[Release]]:
    """Charges for all of them or none, in one transaction. Then rows are read for each, and all are stored together.

    `search` is the plan of what is asked, if this only finds what it needs. What was read before a failure is stored
    if possible; the failure is raised after that, so that it does not show earlier than an answer would.
    """
    made = ledger.reserve_all([one.charge for one in purchases], analyst=analyst)
    with _charged(made, ALL):
        pairs = zip(purchases, made, strict=True)
        bought = [None if charge.fresh else _paid_before(ledger, one, charge) for one, charge in pairs]
    yield BeforeRows()
    answers: list[Release] = []
    new: list[NewAnswer] = []
    failure: BaseException | None = None
    try:
        with _charged(made, ALL):
            for one, reservation, again in zip(purchases, made, bought, strict=True):
                if again is not None:
                    answers.append(again())
                    continue
                released, payload = one.read()
                new.append(NewAnswer(reservation, payload, one.plan.outline.identity.text, terms_of(one.plan.prices)))
                answers.append(Release(one.plan, released, reservation.cost, reservation.seq, one.confidence))
    except BaseException as error:  # noqa: BLE001 (raised below)
        failure = error
    yield BeforeStore(tuple(new), search if failure is None else None)
    if new:
        with _charged(made, UNSTORED), saying(LOST, new[-1].reservation.seq):
            ledger.settle_all(new)
    if failure is None:
        return answers
    try:
        raise failure
    finally:
        failure = None  # its traceback holds this frame


def _paid_before(ledger: Ledger, purchase: Purchase, reservation: Reservation) -> Callable[[], Release]:
    """Reads what this charge bought before. The ledger is asked now, and what it lacks is refused later."""
    outline = purchase.plan.outline
    payload = None if reservation.unanswered else ledger.answer(reservation.seq, outline.identity.text)

    def read() -> Release:
        if reservation.unanswered:
            raise AnswerLost(UNANSWERED)
        if payload is None:  # the request is the same, and what the steward declares is not
            raise Misconfigured(OTHERWISE)
        plan, released = decode(outline, payload)
        return Release(plan, released, reservation.cost.zero, reservation.seq, purchase.confidence)

    return read


def _best_of(offered: Mapping[str, Offer], plan: Plan, confidence: Fraction) -> str | None:
    """The terms of the best answer that is offered, if it is as good as the plan."""
    try:
        first = best_terms(offered)
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError):
        raise LedgerFailed(
            "The ledger is damaged. The terms of a stored answer cannot be read. No answer is given. "
            "Run `lapwing ledger verify`."
        ) from None
    return _best(plan, confidence, first) or _best(plan, confidence, enough_terms(offered, terms_of(plan.prices)))


def _best(plan: Plan, confidence: Fraction, offers: Sequence[str]) -> str | None:
    """Of these terms the best, if an answer on them is as good as the plan; of equal ones the first."""
    best: tuple[str, Plan] | None = None
    for terms in offers:
        made = priced(plan.outline, prices_in(json.loads(terms)))
        if made.is_as_good_as(plan, confidence) and (best is None or not best[1].is_as_good_as(made, confidence)):
            best = terms, made
    return None if best is None else best[0]


@contextmanager
def after_charge(cost: Cost) -> Iterator[None]:
    """Adds to an error of ours what was charged for its request before."""
    try:
        yield
    except LapwingError as error:
        _add_charged(error, cost)
        raise


@contextmanager
def saying(words: str, entry: int) -> Iterator[None]:
    """If something fails inside, says first what was charged."""
    try:
        yield
    except LapwingError as error:
        raise LedgerFailed(words.format(entry=entry, why=error)) from error


@contextmanager
def _charged(made: Sequence[Reservation], words: str) -> Iterator[None]:
    """Adds to an error of ours what these charges cost, and that all of them stay, if there are several."""
    try:
        yield
    except LapwingError as error:
        if len(made) > 1:
            error.more = words.format(first=made[0].seq, last=made[-1].seq)
        _add_charged(error, reduce(add, [one.cost for one in made]))
        raise


def _add_charged(error: LapwingError, cost: Cost) -> None:
    if cost:
        error.charged = cost if error.charged is None else cost + error.charged
