"""What a steward declares about a private table, and the unit that a ledger protects.

Guarantee:  all charges of one ledger protect the same units. Tables by row and tables with a unit column never share a
            ledger; a table, the contents of a file and the place of a file keep the unit column that was first declared
            for them, under whatever name they are opened. No such file is ever opened as a public table.
Proof:      a curator declares all its private tables in one transaction before its first charge. The transaction fails
            if a declaration contradicts any earlier one, and entries are never removed: by induction all declarations
            of a ledger agree, and so do any two charges about the same table or data. `verify` checks it again.
Limits:     contents that were changed, moved and renamed at once are new data to the ledger; so are the same rows in
            another format, and a view of a database. The chain keeps marks under the secret salt, so that it tells
            nothing about the data.
Checked by: tests/ledger/test_declaration.py
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from lapwing.ledger.entry import canonical

_MARKS = ("table", "data", "place")


@dataclass(frozen=True, slots=True)
class Declaration:
    """One private table: whose rows they are, which data, and what limits them."""

    table: str
    version: str
    unit: str | None
    """The column that says whose row it is; None if every row is a unit of its own."""
    fingerprint: bytes
    """Of the contents."""
    place: str | None = None
    """The file; None if the data are in memory."""
    part: str = ""
    """Which table of the file, if it has several."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    """Everything else that is declared, for the reader of the ledger."""

    def note(self, salt: bytes) -> dict[str, Any]:
        """What the entry says. Data appear as marks only."""
        place = None if self.place is None else _mark(salt, "place", self.place, self.part)
        return {
            "table": self.table,
            "version": self.version,
            "unit": self.unit,
            "mark": version_mark(salt, self.table, self.fingerprint),
            "data": _mark(salt, "data", self.fingerprint.hex(), self.part),
            "place": place,
            "limits": dict(self.limits),
        }


class Units:
    """The unit of each table and of all data, as the declarations so far have it."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str | None] = {}

    def take(self, note: Mapping[str, Any]) -> str | None:
        """Adds a declaration and returns None, or says how it contradicts an earlier one. ValueError if it is none."""
        table, unit = note.get("table"), note.get("unit", 0)
        if not isinstance(table, str) or not (unit is None or isinstance(unit, str)):
            raise ValueError("it declares no table and unit")
        conflict = next(self._conflicts(table, unit, note), None)
        if conflict is None:
            self._known |= dict.fromkeys(_identities(note), unit)
        return conflict

    def holds(self, note: Mapping[str, Any]) -> bool:
        """Whether these contents, or what stands in their place, were declared as somebody's."""
        return any(known in self._known for known in _identities(note) if known[0] != "table")

    def _conflicts(self, table: str, unit: str | None, note: Mapping[str, Any]) -> Iterator[str]:
        kinds = {known is None for known in self._known.values()}
        if kinds and (unit is None) not in kinds:
            kind = "units named by a column" if unit is None else "single rows"
            yield f"Table `{table}` declares {_named(unit)}, but this ledger protects {kind}."
        for what, mark in _identities(note):
            known = self._known.get((what, mark), unit)
            if (known or "").lower() != (unit or "").lower():
                whose = f"Table `{table}`" if what == "table" else f"The data of table `{table}`"
                yield f"{whose} had {_named(known)} before, and {_named(unit)} is declared now."


def version_mark(salt: bytes, table: str, fingerprint: bytes) -> str:
    """Stands for the contents of one table."""
    return _mark(salt, "version", table, fingerprint.hex())


def _identities(note: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What keeps its unit; names of tables are not case-sensitive."""
    return [(what, note[what].lower()) for what in _MARKS if isinstance(note.get(what), str)]


def _named(unit: str | None) -> str:
    return "every row as a unit" if unit is None else f"the unit `{unit}`"


def _mark(salt: bytes, *parts: str) -> str:
    return hmac.new(salt, canonical(parts).encode(), sha256).hexdigest()
