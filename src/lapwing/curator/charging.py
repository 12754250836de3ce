"""What a charge buys: an answer that is read once and stored, or the one that it bought before.

Nothing reads private rows before the charge is durable, and nothing is refunded after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from lapwing.errors import BudgetExceeded, LapwingError, LedgerFailed, Misconfigured
from lapwing.ledger import Reservation, SqliteLedger
from lapwing.ledger.wording import shortage
from lapwing.privacy.budget import Cost

_T = TypeVar("_T")

UNANSWERED = (
    "A question with this key was charged before and has no stored answer. It stays charged and is not run again. "
    "Ask with another key to pay again."
)
OTHERWISE = (
    "This key was used for another question: the data, or what is declared about them, have changed since. "
    "Choose a new key."
)
LOST = (
    "The answer could not be stored, so it is not given. Its price stays charged (entry {entry}), "
    "and asking again pays again. {why}"
)
UNJOINED = (
    "The new answer was charged and is stored (entry {entry}): "
    "asked again without `combine` and `refresh` it costs nothing. {why}"
)


def bought(
    ledger: SqliteLedger,
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
            raise LedgerFailed(UNANSWERED)
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
    """If the ledger fails inside, says first what was charged."""
    try:
        yield
    except LedgerFailed as error:
        raise LedgerFailed(words.format(entry=entry, why=error)) from error


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


def check_room(ledger: SqliteLedger, cost: Cost, analyst: str) -> None:
    """Refuses what does not fit into the budget or into the analyst's allowance, before several charges are made."""
    rooms: list[tuple[str | None, Cost]] = [(None, ledger.remaining)]
    allowance, used = ledger.allowance(analyst), ledger.spent_by(analyst)
    if allowance is not None:
        amount, delta = (max(all_ - part, all_ - all_) for all_, part in zip(allowance, used, strict=True))
        rooms.append((analyst, Cost(allowance.accounting, amount, delta)))
    for whose, room in rooms:
        if not cost.fits(room):
            raise BudgetExceeded(*shortage(ledger.budget, cost, room, whose), asked=cost, remaining=room)
