"""Requests to a server: JSON over HTTP, tried again where that is safe. Only the standard library is used.

Guarantee:  one call is charged at most once, however often it is sent.
Proof:      every call that can be charged has a retry key of its own, 128 random bits, and every attempt sends the same
            key and the same bytes. The ledger charges a key of an analyst once (ledger/ledger.py), and the server
            answers a key that it knows with the answer that it stored.
The token is in one header and in no name, message, log or representation. It is sent unencrypted to this machine only,
and redirects are not followed.
Problems of questions (RFC 9457) become the errors that the curator raises, with the same fields and words. One of the
server itself, such as a token that is not valid, is a `NotServed` with the server's code.
Checked by: tests/client/test_transport.py, tests/client/test_problems.py
"""

from __future__ import annotations

import http.client
import json
import os
import re
import ssl
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, get_args
from urllib.parse import urlsplit

from lapwing.errors import (
    NOTHING,
    AnswerLost,
    BudgetExceeded,
    Bug,
    Code,
    DataChanged,
    Disconnected,
    EngineFailed,
    Halted,
    LapwingError,
    LedgerFailed,
    Misconfigured,
    NotServed,
    Refused,
    Unfinished,
)
from lapwing.noise import SYSTEM
from lapwing.privacy.budget import Cost, read_cost
from lapwing.sockets import is_loopback

TOKEN = "LAPWING_TOKEN"
"""The environment variable that holds the token."""
ATTEMPTS = 6
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0  # seconds
_BUSY = (409, 429, 503)
"""Statuses with a Retry-After that say: not now."""
_TOKEN_FORM = re.compile(r"[!-~]{1,512}")
_MESSAGES = (AnswerLost, DataChanged, Halted, LedgerFailed, Misconfigured)
_PLAIN: dict[str, type[LapwingError]] = {kind.code: kind for kind in _MESSAGES}
"""Errors that consist of a message."""
_INCIDENT = re.compile(r"\bincident ([0-9a-f]+)\b")


class Token:
    """A secret that is never shown."""

    __slots__ = ("__secret",)

    def __init__(self, secret: str) -> None:
        self.__secret = secret

    def header(self) -> str:
        return f"Bearer {self.__secret}"

    def __repr__(self) -> str:
        return "Token(hidden)"

    def __reduce__(self) -> NoReturn:
        raise Misconfigured("A token is not copied or stored. Connect again with the token from its environment.")


@dataclass(frozen=True, slots=True)
class ServerAddress:
    secure: bool
    host: str
    port: int | None
    path: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' if self.secure else ''}://{host}{'' if self.port is None else f':{self.port}'}{self.path}"


def read_address(url: str, *, insecure: bool = False) -> ServerAddress:
    """The address in a URL; refuses to send a token unencrypted over a network."""
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme, parts.hostname, parts.port
    except (ValueError, AttributeError):
        scheme, host, port, parts = "", None, None, None
    if parts is None or scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise Misconfigured("`url` is not the address of a server. Write for example https://lapwing.example.org.")
    if parts.username is not None or parts.password is not None:
        raise Misconfigured(f"`url` has a password in it. Leave it out, and put the token into {TOKEN}.")
    if scheme == "http" and not insecure and not is_loopback(host):
        raise Misconfigured(
            f"`url` starts with http://, so that everybody on the way to {host} could read the token and the answers. "
            "Use https://, or pass insecure=True if the network itself is encrypted."
        )
    return ServerAddress(scheme == "https", host, port, parts.path.rstrip("/"))


def read_token(token: str | None) -> Token:
    """The token that is given, or that of the environment."""
    secret = os.environ.get(TOKEN, "") if token is None else token
    if not secret.strip():
        raise Misconfigured(
            f"there is no token. Ask your steward for one (lapwing token add NAME), and set the variable {TOKEN}."
        )
    if not _TOKEN_FORM.fullmatch(secret.strip()):
        raise Misconfigured(f"the token has characters that no token has. Copy it again into {TOKEN}.")
    return Token(secret.strip())


def new_key() -> str:
    return f"{SYSTEM.integer(128):032x}"


class Transport:
    """Sends requests, over connections that stay open. Threads may share it."""

    def __init__(
        self, address: ServerAddress, token: Token, *, timeout: float, ca: str | os.PathLike[str] | None
    ) -> None:
        self.address = address
        self._token, self._timeout = token, timeout
        self._owner = os.getpid()
        self._idle: list[http.client.HTTPConnection] = []
        self._close = weakref.finalize(self, _close_all, self._idle)
        self._tls = _trusted(ca) if address.secure else None

    def get(self, path: str) -> dict[str, Any]:
        return self._send("GET", path, None, {})

    def post(self, path: str, body: Mapping[str, Any], *, key: str | None = None) -> dict[str, Any]:
        """The answer to a request; with a key it is charged once."""
        sent = json.dumps({name: value for name, value in body.items() if value is not None}, default=str).encode()
        return self._send("POST", path, sent, {} if key is None else {"Idempotency-Key": key})

    def close(self) -> None:
        """Closes what is open; another request opens it again."""
        _close_all(self._idle)

    def _send(self, method: str, path: str, body: bytes | None, more: Mapping[str, str]) -> dict[str, Any]:
        """Retries lost connections up to ATTEMPTS times, and busy servers until the timeout."""
        key, lost, busy = more.get("Idempotency-Key"), 0, 0
        end = time.monotonic() + self._timeout
        while lost < ATTEMPTS:
            try:
                status, headers, content = self._once(method, path, body, more)
            except ssl.SSLCertVerificationError as error:  # it does not get better
                raise Misconfigured(
                    f"The certificate of {self.address} is not trusted ({error.verify_message}). If your own authority "
                    'made it, pass ca="our-ca.pem", its certificate; else ask the steward.'
                ) from None
            except (OSError, http.client.HTTPException):
                lost += 1
                if lost < ATTEMPTS:
                    time.sleep(_pause(lost, None))
                continue
            pause = _pause(busy, headers.get("retry-after"))
            if status not in _BUSY or "retry-after" not in headers or time.monotonic() + pause > end:
                return _read(status, content, key)
            busy += 1
            time.sleep(pause)
        raise Disconnected(str(self.address), key)

    def _once(
        self, method: str, path: str, body: bytes | None, more: Mapping[str, str]
    ) -> tuple[int, dict[str, str], bytes]:
        """One attempt. A connection that failed is not used again."""
        connection = self._opened()
        headers = {"Accept": "application/json", "User-Agent": "lapwing", **more}
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            connection.request(
                method, f"{self.address.path}{path}", body, headers={**headers, "Authorization": self._token.header()}
            )
            response = connection.getresponse()
            content = response.read()  # whole, or an error
            found = {name.lower(): value for name, value in response.getheaders()}
        except BaseException:
            connection.close()
            raise
        if response.will_close:
            connection.close()
        else:
            self._idle.append(connection)
        return response.status, found, content

    def _opened(self) -> http.client.HTTPConnection:
        """A connection for this thread; after a fork a new one, since the others are the parent's."""
        if self._owner != os.getpid():
            self._idle.clear()
            self._owner = os.getpid()
        try:
            return self._idle.pop()
        except IndexError:
            host, port = self.address.host, self.address.port
        if self._tls is not None:
            return http.client.HTTPSConnection(host, port, timeout=self._timeout, context=self._tls)
        return http.client.HTTPConnection(host, port, timeout=self._timeout)


def _close_all(connections: list[http.client.HTTPConnection]) -> None:
    while connections:
        connections.pop().close()


def _trusted(ca: str | os.PathLike[str] | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError):
        raise Misconfigured(f"`ca` is {str(ca)!r}, which is no file of certificates. Name a PEM file.") from None


def _pause(attempt: int, wait: str | None) -> float:
    """Seconds before the next attempt: Retry-After or exponential backoff, with jitter."""
    doubled = _FIRST_PAUSE * 2 ** min(attempt, 10)
    seconds = float(wait) if wait is not None and re.fullmatch("[0-9]{1,6}", wait) else 0.0
    return float(min(max(seconds, doubled), _LONGEST_PAUSE) * (1 + SYSTEM.integer(8) / 1024))


def _read(status: int, content: bytes, key: str | None) -> dict[str, Any]:
    """The JSON of a success; raises the error of a problem."""
    try:
        body = json.loads(content)
    except ValueError:
        body = None
    if 200 <= status < 300 and isinstance(body, dict):
        return body
    raise error_of(status, body if isinstance(body, dict) else {}, key)


def error_of(status: int, body: Mapping[str, Any], key: str | None) -> LapwingError:
    code, detail = body.get("code"), body.get("detail")
    if not isinstance(code, str) or not isinstance(detail, str):
        return NotServed(
            "not-a-server",
            f"What answers there (status {status}) is not a Lapwing server, or something stands before it. "
            f"Check the address.{'' if key is None else f' The retry key was {key}.'}",
        )
    error = _error(code, detail, body)
    error.charged = _cost(body.get("charged"))
    if key is not None and status in (409, 503) and isinstance(error, NotServed) and code != "answer-lost":
        error.more = f"Its retry key is {key!r}."
    return error


def _error(code: str, detail: str, body: Mapping[str, Any]) -> LapwingError:
    part, why, instead = (_words(body.get(name)) for name in ("part", "why", "instead"))
    incident = _INCIDENT.search(detail)
    if code == BudgetExceeded.code:
        return BudgetExceeded(why, instead, asked=_cost(body.get("asked")), remaining=_cost(body.get("remaining")))
    if code == EngineFailed.code and incident is not None:
        return EngineFailed(incident[1])
    if code == Unfinished.code:
        return Unfinished()
    if code == Bug.code:
        return Bug(detail.removesuffix(f" {NOTHING}"), free=detail.endswith(NOTHING))
    if code in _PLAIN:
        return _PLAIN[code](detail)
    if code in get_args(Code) and part and why:
        return Refused(code, part, why, instead)  # type: ignore[arg-type]
    served = NotServed(code, detail)
    served.part, served.why, served.instead = part or None, why or None, instead or None
    return served


def _words(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _cost(amounts: Any) -> Cost | None:
    return read_cost(amounts) if isinstance(amounts, Mapping) else None
