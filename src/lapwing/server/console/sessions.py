"""Sign-in to the console: a session stands for a token, in a cookie that holds a random name.

Guarantee:  a session is valid for 8 hours, and no longer than its token: it ends at the next request after its token is
            revoked or expires, on every server. A request that changes something needs the session's CSRF token and
            comes from a page of the same origin.
Proof:      the ledger has the SHA-256 of the name, the id of the token and the end; every request looks up both, as
            `TokenBook.find` does. The CSRF token is an HMAC under the name, which no page shows and no script can read.
Checked by: tests/server/test_sessions.py, tests/server/test_console.py
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256

from lapwing.ledger import EntryKind, Ledger
from lapwing.server.tokens import TIME, Principal, TokenBook, random_text

HOURS = 8
CSRF = b"x-lapwing-csrf"
"""The header that every changing request has."""
_INVITATION = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class ConsoleSession:
    """Who is signed in, and what their pages send along."""

    principal: Principal
    csrf: str


class ConsoleSessions:
    """The sessions of one ledger."""

    def __init__(self, ledger: Ledger, tokens: TokenBook) -> None:
        self._ledger, self._tokens = ledger, tokens

    def open(self, token: str) -> str | None:
        """The name of a new session for this token, if it is valid."""
        principal = self._tokens.find(token)
        return None if principal is None else self._record("session", principal.token, timedelta(hours=HOURS))

    def invite(self, token: str) -> str | None:
        """A code that opens one session for this token, once, within ten minutes."""
        principal = self._tokens.find(token)
        return None if principal is None else self._record("invitation", principal.token, _INVITATION)

    def accept(self, code: str) -> str | None:
        """The name of a new session for this code, which is used up."""
        principal = self._principal("invitation", code)
        if principal is None:
            return None
        _, is_first = self._ledger.record(EntryKind.REVOKE, f"revoke:invitation:{_hash(code)}", {"why": "used"})
        return self._record("session", principal.token, timedelta(hours=HOURS)) if is_first else None

    def find(self, name: str) -> ConsoleSession | None:
        """The session of this name, if it is valid now."""
        principal = self._principal("session", name)
        if principal is None:
            return None
        csrf = hmac.new(name.encode(), b"csrf", sha256).hexdigest()
        return ConsoleSession(principal, csrf)

    def close(self, name: str) -> None:
        """Signs out."""
        if self._principal("session", name) is not None:
            self._ledger.record(EntryKind.REVOKE, f"revoke:session:{_hash(name)}", {"why": "signed out"})

    def _record(self, kind: str, token: str, valid: timedelta) -> str:
        name = random_text()
        until = (self._tokens.now() + valid).strftime(TIME)
        self._ledger.record(EntryKind.SESSION, f"{kind}:{_hash(name)}", {"token": token, "expires": until})
        return name

    def _principal(self, kind: str, name: str) -> Principal | None:
        entry, ended, _ = self._ledger.recorded(f"{kind}:{_hash(name)}", f"revoke:{kind}:{_hash(name)}")
        if entry is None or ended is not None or self._tokens.now().strftime(TIME) >= str(entry.remark("expires")):
            return None
        return self._tokens.principal(str(entry.remark("token")))


def cookie_name(*, secure: bool) -> str:
    """The name of the cookie; over TLS one that no other host and no plain page can set."""
    return "__Host-lapwing" if secure else "lapwing"


def set_cookie(name: str, *, secure: bool) -> str:
    """The header that keeps a session in the browser; an empty name ends it."""
    age = HOURS * 3600 if name else 0
    kept = f"{cookie_name(secure=secure)}={name}; Path=/; HttpOnly; SameSite=Strict; Max-Age={age}"
    return f"{kept}; Secure" if secure else kept


def read_cookie(headers: dict[bytes, bytes], *, secure: bool) -> str:
    """The name of the session in the cookies of a request; empty if there is none."""
    pairs = (part.strip().partition("=") for part in headers.get(b"cookie", b"").decode("latin-1").split(";"))
    return next((value for name, _, value in pairs if name == cookie_name(secure=secure)), "")


def same_origin(headers: dict[bytes, bytes], *, secure: bool) -> bool:
    """Whether a request comes from a page of the host that it is sent to; over TLS from one that came over TLS."""
    scheme, _, host = headers.get(b"origin", b"").partition(b"://")
    return (
        host == headers.get(b"host") != b""
        and scheme in ((b"https",) if secure else (b"https", b"http"))
        and headers.get(b"sec-fetch-site", b"same-origin") == b"same-origin"
    )


def _hash(name: str) -> str:
    return sha256(name.encode()).hexdigest()
