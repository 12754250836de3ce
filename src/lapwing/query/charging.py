"""From a strategy to a paid answer, in the order of every question: look for a stored one, charge, read, store.

Nothing reads private rows before the charge is durable, and nothing is refunded after.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from lapwing.errors import Bug, LedgerFailed
from lapwing.privacy.budget import Budget, Cost
from lapwing.query.strategy import Answer, Counted, Strategy, decode_strategy, encode_strategy

UNANSWERED = (
    "A question with this key was charged before and has no stored answer. It stays charged and is not run again. "
    "Ask with another key to pay again."
)


class Books(Protocol):
    """What is needed of a ledger."""

    @property
    def budget(self) -> Budget: ...

    @property
    def remaining(self) -> Cost: ...

    def reserve(
        self, cost: Cost, *, analyst: str, body: str, key: str | None = None, note: Mapping[str, Any] | None = None
    ) -> Any: ...

    def settle(self, reservation: Any, payload: bytes, *, match: str | None = None) -> None: ...

    def find_answers(self, match: str) -> Sequence[Any]: ...


@dataclass(frozen=True, slots=True, eq=False)
class Bought:
    """A released answer, its price and its entry in the ledger."""

    strategy: Strategy
    released: Answer = field(repr=False)
    cost: Cost
    """What it cost now; 0 if it was stored."""
    entry: int


@dataclass(frozen=True, slots=True)
class Buyer:
    """Who asks, and how: `refresh` pays for a new answer, `key` makes a retry safe."""

    analyst: str | None
    key: str | None
    refresh: bool


def bought(strategy: Strategy, words: str, buyer: Buyer, books: Books, read: Callable[[Strategy], Answer]) -> Bought:
    """A stored answer that is at least as good, or a new one: charged, read and stored."""
    if buyer.analyst is None:
        raise Bug("nobody is charged")
    stored = None if buyer.refresh else stored_answer(strategy, buyer, books)
    if stored is not None:
        return stored
    counted, cost = strategy.counted, books.budget.cost(strategy.loss)
    note = {"question": words, "plan": counted.outline.question.canonical(), "version": counted.table.version}
    body = strategy.identity()
    reservation = books.reserve(cost, analyst=buyer.analyst, body=body, key=buyer.key, note=note)
    if reservation.answer is not None:
        return _again(counted, reservation.answer, cost, reservation.seq)
    if not reservation.fresh:
        raise LedgerFailed(UNANSWERED)
    released = read(strategy)
    books.settle(reservation, encode_strategy(strategy, released), match=counted.match())
    return Bought(strategy, released, cost, reservation.seq)


def stored_answer(strategy: Strategy, buyer: Buyer, books: Books) -> Bought | None:
    """The best answer paid before, if it is no worse than asked; of equal ones the first.

    A key that was used before for this question and price gives its own answer back.
    """
    best: Bought | None = None
    cost = books.budget.cost(strategy.loss)
    for answer in books.find_answers(strategy.counted.match()):
        found = _again(strategy.counted, answer.payload, cost, answer.charge.seq)
        same = (answer.charge.analyst, answer.charge.key) == (buyer.analyst, buyer.key)
        if buyer.key is not None and same and found.strategy == strategy:
            return found
        if found.strategy.price >= strategy.price and (best is None or found.strategy.price >= best.strategy.price):
            best = found
    return best


def _again(counted: Counted, payload: bytes, cost: Cost, entry: int) -> Bought:
    strategy, released = decode_strategy(counted, payload)
    return Bought(strategy, released, cost - cost, entry)
