"""Access to a server: opaque bearer tokens, stored in the ledger.

A token is `lw_<id>_<secret>`. The ledger has its id and the SHA-256 of its secret of 256 random bits, so readers of the
ledger cannot use it. Every request looks its token up, so a revocation takes effect at once on every server.

Guarantee:  a token that was revoked, or that was once seen expired, is never valid again, whatever the clock says.
Proof:      entries are never changed, and a revocation is one under the token's id, so it holds for ever. Time is the
            latest of the clock, of what this process has seen, and of the last entry of the ledger, whose times never
            go back (ledger/entry.py). A token that is expired when shown is revoked at once, so a clock that is set
            back later does not revive it.
Checked by: tests/server/test_tokens.py
"""

from __future__ import annotations

import base64
import hmac
import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from fractions import Fraction
from hashlib import sha256
from pathlib import Path

from lapwing.errors import LedgerFailed, Misconfigured
from lapwing.ledger import Entry, EntryKind, Ledger
from lapwing.noise import SYSTEM
from lapwing.numbers import Number, count, exact
from lapwing.privacy.budget import Cost

DAYS = 90
"""How long a token is valid unless its steward says otherwise."""
_MOST_DAYS = 3650
_FORM = re.compile(r"lw_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
TIME = "%Y-%m-%dT%H:%M:%SZ"
_NO_HASH = "0" * 64


class Role(StrEnum):
    STEWARD = "steward"
    ANALYST = "analyst"
    AUDITOR = "auditor"


@dataclass(frozen=True, slots=True)
class Principal:
    """The owner of a token: the name that the ledger charges, and the role."""

    name: str
    role: Role
    token: str
    """The id of the token; its secret is known to its owner only."""


@dataclass(frozen=True, slots=True)
class TokenFacts:
    """What is known of a token, for its steward."""

    id: str
    name: str
    role: Role
    expires: str
    revoked: str | None
    """When it was revoked; None if it was not."""


class TokenBook:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._seen = ""

    def add(self, name: str, role: Role | str, *, team: str | None = None, days: int = DAYS) -> tuple[str, TokenFacts]:
        """A new token, shown only once, and its facts."""
        who = read_name(name, team)
        if role not in list(Role):
            raise Misconfigured(f"`role` is {role!r}; it must be one of {', '.join(Role)}.")
        if count(days, "days") > _MOST_DAYS:
            raise Misconfigured(f"`days` is {days}; it must be at most {_MOST_DAYS:,}. Make a new token when it ends.")
        until = self.now() + timedelta(days=days)
        number = f"{SYSTEM.integer(64):016x}"
        secret = random_text()
        note = {"name": who, "role": str(role), "expires": until.strftime(TIME), "hash": _hash(secret)}
        entry, _ = self._ledger.record(EntryKind.TOKEN, f"token:{number}", note)
        return f"lw_{number}_{secret}", _facts(entry, None)

    def find(self, token: str) -> Principal | None:
        """The principal of this token, if it is valid now."""
        match = _FORM.fullmatch(token)
        number, secret = match.groups() if match else ("", "")
        entry, revoked, last = self._ledger.recorded(f"token:{number}", f"revoke:{number}")
        stored = str(entry.remark("hash")) if entry is not None else _NO_HASH
        same = hmac.compare_digest(_hash(secret), stored)
        return None if not same else self._valid(number, entry, revoked, last)

    def principal(self, number: str) -> Principal | None:
        """The principal of the token with this id, if it is valid now."""
        return self._valid(number, *self._ledger.recorded(f"token:{number}", f"revoke:{number}"))

    def _valid(self, number: str, entry: Entry | None, revoked: Entry | None, last: Entry | None) -> Principal | None:
        if entry is None or revoked is not None:
            return None
        if self._time(last).strftime(TIME) >= str(entry.remark("expires")):
            self._ledger.record(EntryKind.REVOKE, f"revoke:{number}", {"why": "expired"})
            return None
        return Principal(str(entry.remark("name")), Role(str(entry.remark("role"))), number)

    def all(self) -> list[TokenFacts]:
        """All tokens, also those that are not valid any more."""
        revoked = {entry.key: entry.at for entry in self._ledger.records(EntryKind.REVOKE)}
        tokens = self._ledger.records(EntryKind.TOKEN)
        return [_facts(entry, revoked.get(f"revoke:{_number(entry)}")) for entry in tokens]

    def revoke(self, which: str) -> list[TokenFacts]:
        """Revokes the token with this id, or all tokens of this name, permanently."""
        wanted = [token for token in self.all() if which in (token.id, token.name)]
        if not wanted:
            raise Misconfigured(f"There is no token {which!r}. `lapwing token list` shows ids and names.")
        for token in wanted:
            self._ledger.record(EntryKind.REVOKE, f"revoke:{token.id}", {"why": "revoked"})
        ids = {token.id for token in wanted}
        return [token for token in self.all() if token.id in ids]

    def now(self) -> datetime:
        """The latest time that was ever seen here."""
        return self._time(self._ledger.recorded()[-1])

    def _time(self, last: Entry | None) -> datetime:
        clock = datetime.now(UTC).strftime(TIME)
        self._seen = max(self._seen, clock, "" if last is None else last.at)
        return datetime.strptime(self._seen, TIME).replace(tzinfo=UTC)


def random_text() -> str:
    """256 random bits as 43 letters, digits, hyphens and underlines."""
    return base64.urlsafe_b64encode(SYSTEM.integer(256).to_bytes(32, "big")).rstrip(b"=").decode()


def allow_share(ledger: Ledger, name: str, share: Number) -> Cost:
    """Sets the most that a name or a team, `@cardiology`, may ever spend: the same share of capacity and delta."""
    part = read_share(share)
    total = ledger.total
    limit = Cost(total.accounting, part * total.amount, part * total.delta)
    member, at, team = name.partition("@")
    ledger.allow(name if name.startswith("@") else read_name(member, team if at else None), limit)
    return limit


def read_share(share: Number) -> Fraction:
    part = exact(share, "share")
    if not 0 <= part <= 1:
        raise Misconfigured("`share` must lie between 0 and 1. Pass for example 0.1 for a tenth of the budget.")
    return part


def read_name(name: str, team: str | None = None) -> str:
    """The name that the ledger charges: `ann`, or `ann@cardiology` in a team."""
    for what, text in (("name", name), ("team", "none" if team is None else team)):
        if not _NAME.fullmatch(text):
            raise Misconfigured(
                f"a {what} has 1 to 64 letters, digits, dots, hyphens and underlines, and begins with a letter or a "
                f"digit. Choose another {what}."
            )
    return name if team is None else f"{name}@{team}"


def write_secret(path: Path, token: str) -> None:
    """Writes a token to a new file that only its owner may read."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            file.write(f"{token}\n")
    except FileExistsError:
        raise Misconfigured(f"{path} exists. Name another file for the token.") from None
    except OSError as error:
        raise LedgerFailed(f"{path} cannot be written ({error.strerror}). Name another file.") from None


def _hash(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()


def _number(entry: Entry) -> str:
    return str(entry.key).removeprefix("token:")


def _facts(entry: Entry, revoked: str | None) -> TokenFacts:
    role, expires = Role(str(entry.remark("role"))), str(entry.remark("expires"))
    return TokenFacts(_number(entry), str(entry.remark("name")), role, expires, revoked)
