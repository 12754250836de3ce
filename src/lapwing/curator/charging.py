"""What a charge buys: an answer that is read once and stored, or the one that it bought before.

Nothing reads private rows before the charge is durable, and nothing is refunded after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import add
from typing import TypeVar

from lapwing.errors import AnswerLost, LapwingError, LedgerFailed, Misconfigured
from lapwing.ledger import Ledger, Reservation
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
BATCH = "All of the batch stays charged (entries {first} to {last}). The answers before this one are stored."
UNJOINED = (
    "The new answer was charged and is stored (entry {entry}): "
    "asked again without `combine` and `refresh` it costs nothing. {why}"
)


def paid_answer(
    ledger: Ledger,
    reservation: Reservation,
    *,
    match: str,
    terms: str = "",
    read: Callable[[], tuple[_T, bytes]],
    decode: Callable[[bytes], _T],
) -> tuple[_T, Cost]:
    """The answer to a charge, stored under `match` and `terms`, and what was charged for it now."""
    with after_charge(reservation.cost):
        if reservation.unanswered:
            raise AnswerLost(UNANSWERED)
        if not reservation.fresh:
            payload = ledger.answer(reservation.seq, match)
            if payload is None:  # the request is the same, and what the steward declares is not
                raise Misconfigured(OTHERWISE)
            return decode(payload), reservation.cost - reservation.cost
        answer, payload = read()
        with saying(LOST, reservation.seq):
            ledger.settle(reservation, payload, match=match, terms=terms)
        return answer, reservation.cost


@contextmanager
def saying(words: str, entry: int) -> Iterator[None]:
    """If something fails inside, says first what was charged."""
    try:
        yield
    except LapwingError as error:
        raise LedgerFailed(words.format(entry=entry, why=error)) from error


@contextmanager
def of_batch(made: Sequence[Reservation], this: Reservation) -> Iterator[None]:
    """If one question of a batch fails inside, says that the others are charged too."""
    with after_charge(reduce(add, (one.cost for one in made)) - this.cost):
        try:
            yield
        except LapwingError as error:
            if len(made) > 1:
                error.more = BATCH.format(first=made[0].seq, last=made[-1].seq)
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
