"""Stored releases, each named by the hash of its content, and free checks of cited numbers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from hashlib import sha256
from typing import Any

from lapwing.ledger import Entry, EntryKind, Ledger
from lapwing.server.problems import ServerProblem
from lapwing.server.schemas import VerifyBody

_REMEMBERED = 4096
_LARGEST = 1000  # digits of a number that could have been released


@dataclass(frozen=True, slots=True)
class NewRelease:
    """A release that is about to be sent."""

    name: str
    content: bytes
    by: str
    kind: str
    price: str


def new_release(content: dict[str, Any], *, by: str, kind: str) -> NewRelease:
    """The release of an answer: its name, and the bytes that are sent."""
    name = f"r{sha256(json.dumps(_unpriced(content), default=str).encode()).hexdigest()[:32]}"
    whole = json.dumps({"release": name, **content}, default=str).encode()
    return NewRelease(name, whole, by, kind, json.dumps(content.get("price")))


class Releases:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._known: set[str] = set()

    def keep(self, release: NewRelease) -> None:
        if release.name in self._known:
            return
        note = {"by": release.by, "kind": release.kind, "price": release.price}
        self._ledger.record(EntryKind.KEEP, f"release:{release.name}", note, content=release.content)
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known.add(release.name)

    def read(self, name: str) -> bytes:
        entry, _ = self._ledger.recorded(f"release:{name}")
        if entry is None:
            raise ServerProblem("not-found")
        return self._ledger.kept(entry)

    def all(self, by: str | None = None) -> list[dict[str, Any]]:
        """All releases, the newest first, or those that a name was the first to ask for."""
        entries = reversed(self._ledger.records(EntryKind.KEEP))
        return [_listed(entry) for entry in entries if by is None or entry.remark("by") == by]

    def verify(self, claim: VerifyBody) -> bool:
        """Whether a number is what was released, to the precision of the claim. Reads released numbers only."""
        content = json.loads(self.read(claim.release), parse_float=Decimal)
        table = content if claim.answer is None else content.get("answers", {}).get(claim.answer)
        rows = table.get("rows") if isinstance(table, dict) else None
        if not isinstance(rows, list) or claim.row >= len(rows) or claim.column not in rows[claim.row]:
            raise ServerProblem("not-found", part="the cell")
        released = rows[claim.row][claim.column]
        if isinstance(released, bool | str) or released is None:
            return type(released) is type(claim.value) and released == claim.value
        value = _number(claim.value)
        if value is None:
            return False
        if claim.precision is None:
            return Decimal(released) == value
        return 2 * abs(Decimal(released) - value) <= claim.precision


def _unpriced(content: Any) -> Any:
    """The content without its price: a repeated answer is free, and is the same release."""
    if not isinstance(content, dict):
        return content
    return {name: _unpriced(value) for name, value in content.items() if name not in ("price", "paid")}


def _number(value: Any) -> Decimal | None:
    try:
        number = None if isinstance(value, bool) or value is None else Decimal(value)
    except InvalidOperation:
        return None
    return number if number is not None and number.is_finite() and number.adjusted() < _LARGEST else None


def _listed(entry: Entry) -> dict[str, Any]:
    name = str(entry.key).removeprefix("release:")
    price = json.loads(str(entry.remark("price")))
    return {"release": name, "at": entry.at, "by": entry.remark("by"), "kind": entry.remark("kind"), "price": price}
