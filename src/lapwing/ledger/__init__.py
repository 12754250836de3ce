"""What was spent, permanently: append-only and hash-chained."""

from __future__ import annotations

from lapwing.ledger.chain import ChainFault, Declaration
from lapwing.ledger.entry import Charge, Entry, EntryKind, Head, Offer, Reservation, StoredAnswer
from lapwing.ledger.ledger import Ledger
from lapwing.ledger.open import (
    FRESH,
    LedgerPlace,
    Population,
    accept_ledger,
    has_ledger,
    open_ledger,
    population_of,
    verify_ledger,
)
from lapwing.ledger.verify import Report, read_head

__all__ = [
    "FRESH",
    "ChainFault",
    "Charge",
    "Declaration",
    "Entry",
    "EntryKind",
    "Head",
    "Ledger",
    "LedgerPlace",
    "Offer",
    "Population",
    "Report",
    "Reservation",
    "StoredAnswer",
    "accept_ledger",
    "has_ledger",
    "open_ledger",
    "population_of",
    "read_head",
    "verify_ledger",
]
