"""The entries as a file that anyone can check: JSON lines, the last one the head of the chain."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from lapwing.errors import LedgerFailed, Misconfigured
from lapwing.ledger.entry import Entry, Head, canonical
from lapwing.ledger.witness import sync_folder


def write_export(path: Path, ledger: str, entries: Iterable[Entry]) -> Head:
    """Writes the file, all of it or nothing, readable by its owner only."""
    if path.is_dir():
        raise Misconfigured(f"{path} is a folder. Name a file to write, for example {path / 'ledger.jsonl'}.")
    if path.exists() and not path.is_file():  # a device or a pipe would be replaced
        raise Misconfigured(f"{path} is not an ordinary file. Name another file to write.")
    fresh = path.with_name(path.name + ".new")
    try:
        head = _write(fresh, ledger, entries)
        os.replace(fresh, path)
        sync_folder(path.parent)
    except OSError as error:
        raise LedgerFailed(f"{path} could not be written ({error.strerror}). Name another file.") from None
    finally:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
    return head


def _write(path: Path, ledger: str, entries: Iterable[Entry]) -> Head:
    head = Head(ledger, 0, "")
    with os.fdopen(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
        for entry in entries:
            file.write(canonical(asdict(entry)) + "\n")
            head = Head(ledger, entry.seq, entry.hash)
        file.write(canonical({"head": asdict(head)}) + "\n")
        file.flush()
        os.fsync(file.fileno())
    return head
