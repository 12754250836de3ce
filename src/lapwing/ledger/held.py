"""Answers that are not stored yet: their charge is durable, and they are stored when they may be seen.

Whoever can ask sees when an answer is stored: the same question is free from then on. If that moment told how long the
rows took, a server that sends answers on a grid of times would hide nothing. So a server holds them: inside `holding`
the ledger hands answers over instead of storing them, and `settle_held` stores them at the time that the grid says.
What is held is known to its own request, such as bounds that it found, and to nobody else. If the process ends before,
the answer is lost and the charge is not, as for every answer that was not stored.
Checked by: tests/ledger/test_held.py
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lapwing.ledger.reservation import Reservation

if TYPE_CHECKING:
    from lapwing.ledger.ledger import Ledger


@dataclass(frozen=True, slots=True)
class HeldAnswer:
    """The answer to a charge, and what it will be found by."""

    ledger: Ledger
    reservation: Reservation
    payload: bytes
    match: str | None
    terms: str


_HELD: ContextVar[list[HeldAnswer] | None] = ContextVar("held answers", default=None)


@contextmanager
def holding(held: list[HeldAnswer]) -> Iterator[None]:
    """Holds the answers that are settled inside, in this thread or task, with those that the request holds already."""
    token = _HELD.set(held)
    try:
        yield
    finally:
        _HELD.reset(token)


def hold(answer: HeldAnswer) -> bool:
    """Whether the answer is held; otherwise it is to be stored now."""
    held = _HELD.get()
    if held is not None:
        held.append(answer)
    return held is not None


def held_with(ledger: Ledger, match: str) -> list[HeldAnswer]:
    """What this request holds with a match, the newest first."""
    return [one for one in reversed(_HELD.get() or ()) if one.ledger is ledger and one.match == match]


def settle_held(held: Sequence[HeldAnswer]) -> None:
    """Stores what was held, in order."""
    for one in held:
        one.ledger.settle(one.reservation, one.payload, match=one.match, terms=one.terms)
