"""Stored answers as bytes: JSON that says its format and its kind. `FORMAT` changes as CONTRIBUTING.md says.

Checked by: tests/plan/test_payload.py
"""

from __future__ import annotations

import json
from typing import Any

from lapwing.errors import LedgerFailed

FORMAT = 1


def write_payload(kind: str, **facts: Any) -> bytes:
    """The facts of an answer of this kind. Exact numbers are texts, so that no reader rounds them."""
    return json.dumps({"format": FORMAT, "kind": kind, **facts}).encode()


def read_payload(kind: str, payload: bytes) -> dict[str, Any]:
    """The facts that `write_payload` wrote; refused if they are in another format or of another kind."""
    facts: dict[str, Any] = json.loads(payload)
    written = facts.get("format"), facts.get("kind")
    if written != (FORMAT, kind):
        raise LedgerFailed(
            f"A stored answer is in format {written[0]}, and this version of Lapwing reads format {FORMAT}. "
            "Open the ledger with the version that stored the answer, or pay for a new one with refresh=True."
        )
    return facts
