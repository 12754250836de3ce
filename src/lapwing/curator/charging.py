"""What charges buy: answers that are read once and stored, or those that they bought before.

Nothing reads private rows before the charge is durable, and nothing is refunded after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, Generic, TypeVar

from lapwing.curator.stages import BeforeRows, RequestSteps
from lapwing.errors import AnswerLost, LapwingError, LedgerFailed, Misconfigured
from lapwing.ledger import Charge, Ledger, Reservation
from lapwing.privacy.budget import Cost

_T = TypeVar("_T")

UNANSWERED = (
    "A question with this key was already charged and has no stored answer. It stays charged and is not run again. "
    "Use a new key to pay again."
)
OTHERWISE = "This key was used before the data or their declaration changed. Use a new key."
LOST = (
    "The answer could not be stored, so it is not shown. Its price stays charged (entry {entry}), "
    "and asking again charges again; use a new key if it had one. {why}"
)
ALL = "All of it stays charged (entries {first} to {last}). What was answered before this is stored."
UNJOINED = (
    "The new answer was charged and is stored (entry {entry}): "
    "asked again without `combine` and `refresh` it costs nothing. {why}"
)


@dataclass(frozen=True, slots=True)
class Purchase(Generic[_T]):
    """What one charge buys: what the ledger knows it by, how rows are read for it, and how its bytes are read again."""

    charge: Charge
    match: str
    read: Callable[[], tuple[_T, bytes]]
    decode: Callable[[bytes], _T]
    terms: str = ""


@dataclass(frozen=True, slots=True)
class PaidAnswer(Generic[_T]):
    """The answer to a charge, and what was charged for it now."""

    answer: _T
    cost: Cost
    entry: int


def buy(ledger: Ledger, purchases: Sequence[Purchase[Any]], analyst: str) -> RequestSteps[list[PaidAnswer[Any]]]:
    """Charges for all of them or none, in one transaction. Then each is read and stored, or was before."""
    made = ledger.reserve_all([one.charge for one in purchases], analyst=analyst) if purchases else ()
    yield BeforeRows()
    answers = []
    for one, reservation in zip(purchases, made, strict=True):
        with _of_several(made, reservation), after_charge(reservation.cost):
            answers.append(_paid_answer(ledger, reservation, one))
    return answers


def _paid_answer(ledger: Ledger, reservation: Reservation, one: Purchase[_T]) -> PaidAnswer[_T]:
    if reservation.unanswered:
        raise AnswerLost(UNANSWERED)
    if not reservation.fresh:
        payload = ledger.answer(reservation.seq, one.match)
        if payload is None:  # the request is the same, and what the steward declares is not
            raise Misconfigured(OTHERWISE)
        return PaidAnswer(one.decode(payload), reservation.cost - reservation.cost, reservation.seq)
    answer, payload = one.read()
    with saying(LOST, reservation.seq):
        ledger.settle(reservation, payload, match=one.match, terms=one.terms)
    return PaidAnswer(answer, reservation.cost, reservation.seq)


@contextmanager
def saying(words: str, entry: int) -> Iterator[None]:
    """If something fails inside, says first what was charged."""
    try:
        yield
    except LapwingError as error:
        raise LedgerFailed(words.format(entry=entry, why=error)) from error


@contextmanager
def _of_several(made: Sequence[Reservation], this: Reservation) -> Iterator[None]:
    """If one of several charges buys nothing, says that the others stay charged too."""
    with after_charge(reduce(add, (one.cost for one in made)) - this.cost):
        try:
            yield
        except LapwingError as error:
            if len(made) > 1:
                error.more = ALL.format(first=made[0].seq, last=made[-1].seq)
            raise


@contextmanager
def reading_terms() -> Iterator[None]:
    """If the terms of a stored answer cannot be read inside, says that the ledger is damaged."""
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError):
        raise LedgerFailed(
            "The ledger is damaged. The terms of a stored answer cannot be read. No answer is given. "
            "Run `lapwing ledger verify`."
        ) from None


@contextmanager
def after_charge(cost: Cost) -> Iterator[None]:
    """Adds to an error of ours what was charged for its request before."""
    try:
        yield
    except LapwingError as error:
        if cost:
            error.charged = cost if error.charged is None else cost + error.charged
        raise
