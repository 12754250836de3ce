"""What a caller passes for a charge, checked, and what a charge gives to the one who pays it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from lapwing.errors import Misconfigured
from lapwing.ledger.entry import Entry, canonical
from lapwing.privacy.budget import Cost

_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class LedgerView:
    """What a ledger has for one request, all of one moment. A charge checks again what may have changed since."""

    offers: Mapping[str, tuple[Offer, ...]]
    """By match the newest stored answer to equal questions on each of the terms that were paid, the newest first."""
    answers: Mapping[str, tuple[StoredAnswer, ...]]
    """By match all stored answers, the newest first."""
    versions: Mapping[str, Entry | None]
    """By table what was declared last."""


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


def digest(value: bytes | str) -> str:
    """The hash of a request or an answer."""
    return sha256(value.encode() if isinstance(value, str) else bytes(value)).hexdigest()


def check_names(analyst: object, key: object) -> None:
    """Refuses what is no name."""
    for name, value in (("analyst", analyst), ("key", "none" if key is None else key)):
        if not (isinstance(value, str) and value.isprintable() and 0 < len(value) <= _LONGEST_NAME):
            raise Misconfigured(f"`{name}` must be a text of 1 to {_LONGEST_NAME} printable characters. Pass a name.")


def checked_note(note: Mapping[str, Any] | None) -> dict[str, Any]:
    """A note that can be written as canonical JSON."""
    note_text(note)
    return dict(note or {})


def note_text(note: Mapping[str, Any] | None) -> str:
    """A note as canonical JSON."""
    try:
        return canonical(dict(note or {}))
    except (TypeError, ValueError, RecursionError):
        raise Misconfigured("`note` must be texts, whole numbers and lists of them under names. Pass those.") from None
