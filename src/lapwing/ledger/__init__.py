"""What was spent, for ever: append-only and hash-chained."""

from __future__ import annotations

from lapwing.ledger.chain import Break
from lapwing.ledger.declaration import Declaration
from lapwing.ledger.entry import Entry, Head, Kind
from lapwing.ledger.reservation import Answer, Charge, Offer, Reservation
from lapwing.ledger.sqlite import SqliteLedger
from lapwing.ledger.verify import Report, read_head, verify_ledger

__all__ = [
    "Answer",
    "Break",
    "Charge",
    "Declaration",
    "Entry",
    "Head",
    "Kind",
    "Offer",
    "Report",
    "Reservation",
    "SqliteLedger",
    "read_head",
    "verify_ledger",
]
