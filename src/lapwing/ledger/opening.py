"""The ledger at a path, for those who have no store."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from lapwing.errors import LedgerFailed, Misconfigured
from lapwing.ledger.chain import ChainFault
from lapwing.ledger.entry import Head
from lapwing.ledger.ledger import Ledger
from lapwing.ledger.memory import MemoryStore
from lapwing.ledger.sqlite import SqliteStore, opened_to_read
from lapwing.ledger.verify import Report, known_heads, verify
from lapwing.ledger.witness import Witness, missing_ledger
from lapwing.privacy.budget import Budget


def open_ledger(
    path: Path | str | None,
    budget: Budget,
    *,
    witness: Path | str | Sequence[Path | str] = (),
    timeout: float = 30.0,
) -> Ledger:
    """The ledger in this file, created if neither it nor a witness of it exists; in memory if the path is None.

    `witness` names files beside the data that remember how far the ledger had come. `timeout` is how many seconds to
    wait for other processes.
    """
    witnesses = [Witness(Path(file)) for file in ([witness] if isinstance(witness, Path | str) else witness)]
    if path is not None:
        return Ledger.open(SqliteStore(Path(path), timeout=timeout), budget, witnesses)
    if witnesses:
        raise Misconfigured("A ledger in memory has no witness. Leave `witness` out, or give the ledger a path.")
    return Ledger.open(MemoryStore(), budget)


def verify_ledger(path: Path | str, *, witness: Sequence[Path] = (), against: Head | None = None) -> Report:
    """Checks a ledger file, also one that can no longer be opened. Changes nothing."""
    place, witnesses = Path(path), [Witness(Path(file)) for file in witness]
    if not SqliteStore(place).exists():
        heads = known_heads(witnesses, against)
        seen = [missing_ledger(source, head, str(place)) for source, head in heads if isinstance(head, Head)]
        return Report(0, None, ChainFault((seen or [f"There is no ledger at {place}."])[0]))
    try:
        with opened_to_read(place) as book:
            return verify(lambda: nullcontext(book), witnesses, against=against)
    except LedgerFailed as error:
        return Report(0, None, ChainFault(str(error)))
