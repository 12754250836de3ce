"""Requests that are sent again under one key: one charge and the same bytes, on any worker and after a restart.

A key belongs to its principal. Whoever comes first claims it in the ledger, with a hash of the request as written; what
is sent in the end is kept under the claim before it leaves.

Guarantee:  under one key of one principal at most one request is charged, once, and every answer to it has the same
            bytes, as long as the ledger keeps what it committed.
Proof:      a claim is an entry under a unique key, so one process makes it. A claim with a reply is answered by the
            bytes of that reply; another request under the same key is refused. A claim without one is running until
            its time is over; then its process is taken for dead, and the next one claims anew. It asks the curator
            under the same retry key: charges that were made are found again by it and never made twice, and one
            without an answer is told as lost and never run again (curator/charging.py).
Power:      a reply is committed and not synced on its own. If the power fails right after, the answer is still stored,
            and is told again at price 0.
Checked by: tests/server/test_retries.py
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from math import ceil

from lapwing.ledger import Entry, EntryKind, Ledger
from lapwing.server.problems import ServerProblem

_FREE = b""
_TIME = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, slots=True)
class KeyClaim:
    """A key that this process answers for."""

    analyst: str
    name: str

    @property
    def reply_key(self) -> str:
        return f"reply:{self.name}"


@dataclass(frozen=True, slots=True)
class KeptReply:
    """What was sent before: a status, and the bytes."""

    status: int
    content: bytes


class Retries:
    """The keys of one ledger. A claim without a reply counts as running for the seconds that its server gave it.

    They stand in the claim: another server may have tables that answer sooner."""

    def __init__(self, ledger: Ledger, *, patience: float) -> None:
        self._ledger, self._patience = ledger, patience

    def claim(self, analyst: str, key: str, written: str, now: datetime) -> KeyClaim | KeptReply:
        """The claim of a key, or what was sent under it before; refused if it is in use, or was for another request."""
        first, turn = sha256(key.encode()).hexdigest(), 0
        while True:
            name = f"{first}:{turn}"
            claimed, replied, _ = self._ledger.recorded(f"claim:{name}", f"reply:{name}", analyst=analyst)
            if claimed is None:
                claimed, new = self._ledger.record(
                    EntryKind.CLAIM,
                    f"claim:{name}",
                    {"written": written, "seconds": ceil(self._patience)},
                    analyst=analyst,
                )
                if new:
                    return KeyClaim(analyst, name)
            if claimed.remark("written") != written:
                raise ServerProblem("key-reused")
            content = None if replied is None else self._ledger.kept(replied)
            if replied is not None and content:
                return KeptReply(int(replied.remark("status")), content)
            if content is None and not self._is_over(claimed, now):
                raise ServerProblem("key-running", retry_after=1)
            turn += 1

    def keep(self, claim: KeyClaim, status: int, content: bytes) -> None:
        """Keeps what will be sent under a claim."""
        self._ledger.record(EntryKind.KEEP, claim.reply_key, {"status": status}, analyst=claim.analyst, content=content)

    def give_up(self, claim: KeyClaim) -> None:
        """Frees a claim under which nothing was charged: the next request with its key is answered anew."""
        self._ledger.record(EntryKind.KEEP, claim.reply_key, {"status": 0}, analyst=claim.analyst, content=_FREE)

    def _is_over(self, claimed: Entry, now: datetime) -> bool:
        return claimed.at < (now - timedelta(seconds=int(claimed.remark("seconds")))).strftime(_TIME)


def retry_key(key: str) -> str:
    """The retry key that the curator sees."""
    return f"http:{sha256(key.encode()).hexdigest()}"
