"""Requests that are sent again under one key: one charge and the same bytes, on any worker and after a restart.

A key belongs to its principal. The first request claims it in the ledger, with a hash of the request as written; the
reply is kept under the claim before it leaves.

Guarantee:  under one key of one principal at most one request is charged, once, and every answer to it has the same
            bytes, as long as the ledger keeps what it committed.
Proof:      a claim is an entry under a unique key, so one process makes it, before anything is charged. A claim with a
            reply is answered by the bytes of that reply; another request under the same key is refused. A claim without
            one is running until its time is over; then its process is taken for dead, and the next one claims anew. It
            asks the curator under the same retry key: charges that were made are found by it and never made twice, and
            one without an answer is reported as lost and never run again (curator/purchase.py).
Free:       what costs nothing needs no claim. Its reply is kept in one entry, unless the key was claimed meanwhile, and
            a claim is not made where a reply is kept: one transaction decides. A refusal writes nothing.
Power:      a reply is committed and not synced on its own. If the power fails right after, the answer is still stored
            and is sent again at price 0.
Checked by: tests/server/test_retries.py
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from math import ceil

from lapwing.ledger import Entry, EntryKind, Ledger
from lapwing.privacy.budget import Cost, read_cost
from lapwing.server.problems import ServerProblem, amounts

_FREE = b""
_REMEMBERED = 4096  # keys of which is known how often they were given up
_TIME = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, slots=True)
class KeyClaim:
    """A key that a process answers for, from when the claim is made."""

    analyst: str
    name: str
    written: str
    """A hash of the request."""

    @property
    def key(self) -> str:
        return f"claim:{self.name}"

    @property
    def reply_key(self) -> str:
        return f"reply:{self.name}"

    @property
    def is_first(self) -> bool:
        """Whether the key was not claimed before, so that nothing was charged under it."""
        return self.name.endswith(":0")


@dataclass(frozen=True, slots=True)
class KeptReply:
    """What was sent before: a status, and the bytes."""

    status: int
    content: bytes


class Retries:
    """The keys of one ledger. A claim without a reply counts as running for the seconds that it records: another server
    may have tables that answer sooner."""

    def __init__(self, ledger: Ledger, *, patience: float) -> None:
        self._ledger, self._patience = ledger, patience
        self._given_up: dict[tuple[str, str], int] = {}
        """For a key up to which claim all but the first were given up, which no later entry changes."""

    def find(self, analyst: str, key: str, written: str, now: datetime) -> KeyClaim | KeptReply:
        """What was sent under a key before, or else the claim to make; refused if the key is in use, or was used for
        another request. Writes nothing."""
        first, turn = sha256(key.encode()).hexdigest(), 0
        known = self._given_up.get((analyst, first), 0)
        while True:
            claim = KeyClaim(analyst, f"{first}:{turn}", written)
            claimed, replied, _ = self._ledger.recorded(claim.key, claim.reply_key, analyst=analyst)
            if claimed is None and replied is None:
                return claim
            if found := self._reply(claimed, replied, written, now):
                return found
            if turn == known + 1 and replied is not None:
                if len(self._given_up) >= _REMEMBERED:
                    self._given_up.clear()
                known = self._given_up[analyst, first] = turn
            turn = 1 + (known if turn == 0 else turn)

    def make(
        self, claim: KeyClaim, now: datetime, price: Cost | None = None, *, seconds: float = 0
    ) -> KeptReply | None:
        """Makes a claim for a charge of this price that takes at most `seconds`, or finds what was sent meanwhile;
        refused as by `find`."""
        entry, new = self._ledger.record(
            EntryKind.CLAIM,
            claim.key,
            {"written": claim.written, "seconds": ceil(max(seconds, self._patience)), "price": amounts(price)},
            analyst=claim.analyst,
            unless=claim.reply_key,
        )
        return None if new else self._meanwhile(claim, entry, now)

    def keep_free(self, claim: KeyClaim, status: int, content: bytes, now: datetime) -> KeptReply:
        """Keeps a free reply under a claim that was not made; returns the reply that is kept."""
        note = {"status": status, "written": claim.written}
        entry, new = self._ledger.record(
            EntryKind.KEEP, claim.reply_key, note, analyst=claim.analyst, content=content, unless=claim.key
        )
        return KeptReply(status, content) if new else self._meanwhile(claim, entry, now)

    def keep(self, claim: KeyClaim, status: int, content: bytes) -> None:
        """Keeps what will be sent under a claim that was made."""
        self._ledger.record(EntryKind.KEEP, claim.reply_key, {"status": status}, analyst=claim.analyst, content=content)

    def give_up(self, claim: KeyClaim) -> None:
        """Frees a claim under which nothing was charged: the next request with its key is answered anew."""
        self._ledger.record(EntryKind.KEEP, claim.reply_key, {"status": 0}, analyst=claim.analyst, content=_FREE)

    def _meanwhile(self, claim: KeyClaim, entry: Entry, now: datetime) -> KeptReply:
        """What was sent under a claim since it was looked for."""
        is_reply = entry.kind == EntryKind.KEEP
        reply = self._reply(None if is_reply else entry, entry if is_reply else None, claim.written, now)
        if reply is None:  # it was given up just now
            raise _running(entry)
        return reply

    def _reply(self, claimed: Entry | None, replied: Entry | None, written: str, now: datetime) -> KeptReply | None:
        """What was sent, if anything was and its claim was not given up; refused if it is running."""
        first = replied if claimed is None else claimed
        if first is None or first.remark("written") != written:
            raise ServerProblem("key-reused")
        content = None if replied is None else self._ledger.kept(replied)
        if replied is not None and content:
            return KeptReply(int(replied.remark("status")), content)
        if content is None and claimed is not None and not self._is_over(claimed, now):
            raise _running(claimed)
        return None

    def _is_over(self, claimed: Entry, now: datetime) -> bool:
        return claimed.at < (now - timedelta(seconds=int(claimed.remark("seconds")))).strftime(_TIME)


def _running(claimed: Entry) -> ServerProblem:
    """A key that is being answered, and what it is charged."""
    price = claimed.remark("price")
    cost = read_cost(price) if price else None
    return ServerProblem("key-running", retry_after=1, charged=cost, again=True)


def retry_key(key: str) -> str:
    return f"http:{sha256(key.encode()).hexdigest()}"
