"""What callers of a ledger pass, checked."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from lapwing.errors import Misconfigured
from lapwing.ledger.entry import canonical

_LONGEST_NAME = 200


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
