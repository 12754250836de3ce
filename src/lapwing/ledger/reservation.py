"""What a charge gives to the one who pays it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lapwing.ledger.entry import Entry
from lapwing.privacy.budget import Cost


@dataclass(frozen=True, slots=True)
class Charge:
    """What one question costs, and which one it is."""

    cost: Cost
    body: bytes | str
    """The canonical request."""
    key: str | None = None
    """Names the request for retries: the same key and body are charged once and give the stored answer back."""
    note: Mapping[str, Any] | None = None
    """Says to the reader of the ledger what was asked."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """A charge that is durable. Exactly one reservation of each charge is fresh, and only that one buys an answer."""

    seq: int
    hash: str
    cost: Cost
    fresh: bool
    """Whether this call made the charge. If not, the question was asked before with this key and must not run again."""
    answer: bytes | None
    """The stored answer, if the question was asked before and was answered."""

    @property
    def unanswered(self) -> bool:
        """Asked before, and no answer is stored: it is still being computed, or was lost. It stays charged."""
        return not self.fresh and self.answer is None


@dataclass(frozen=True, slots=True)
class NewAnswer:
    """The answer to a charge, and what it will be found by."""

    reservation: Reservation
    payload: bytes
    match: str | None = None
    """An equal question finds it by this; without it, none does."""
    terms: str = ""
    """How good it is: of several answers on the same terms only the newest is offered."""


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """A stored answer, and the charge that paid for it."""

    charge: Entry
    payload: bytes


@dataclass(frozen=True, slots=True)
class Offer:
    """The newest of the stored answers to equal questions on the same terms."""

    seq: int
    """Of its charge."""
    terms: str
