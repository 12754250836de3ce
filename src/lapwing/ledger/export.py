"""The entries as a file that anyone can check: JSON lines, the last one the head of the chain."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from lapwing.errors import LedgerFailed
from lapwing.ledger.entry import Entry, Head, canonical
from lapwing.ledger.witness import sync_folder


def write_export(path: Path, ledger: str, entries: Iterable[Entry]) -> Head:
    """Writes the file, all of it or nothing, readable by its owner only."""
    head, fresh = Head(ledger, 0, ""), path.with_name(path.name + ".new")
    try:
        handle = os.open(fresh, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w") as file:
            for entry in entries:
                file.write(canonical(asdict(entry)) + "\n")
                head = Head(ledger, entry.seq, entry.hash)
            file.write(canonical({"head": asdict(head)}) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)
        sync_folder(path.parent)
    except OSError as error:
        raise LedgerFailed(f"{path} could not be written ({error.strerror}). Name another file.") from None
    return head
