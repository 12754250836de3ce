"""Requests to a server: JSON over HTTP, tried again where that is safe. Only the standard library is used.

Guarantee:  one call is charged at most once, however often it is sent.
Proof:      every call that can be charged has a retry key of its own, 128 random bits, and every attempt sends the same
            key and the same bytes. The ledger charges a key of an analyst once (ledger/ledger.py), and the server
            answers a key that it knows with the answer that it stored.
The token goes into one header and nowhere else: it is not in any name, message, log or representation. It is sent
unencrypted to this machine only, and redirects are not followed.
Checked by: tests/client/test_transport.py
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
from ipaddress import ip_address
from typing import Any, NoReturn
from urllib.parse import urlencode, urlsplit

from lapwing.client.problems import error_of
from lapwing.errors import Disconnected, Misconfigured
from lapwing.noise import SYSTEM

TOKEN = "LAPWING_TOKEN"
"""The environment variable that holds the token."""
ATTEMPTS = 6
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0  # seconds
_BUSY = (409, 429, 503)
"""Statuses with a Retry-After that say: not now."""
_TOKEN_FORM = re.compile(r"[!-~]{1,512}")


class Token:
    """A secret that is never shown."""

    __slots__ = ("__secret",)

    def __init__(self, secret: str) -> None:
        self.__secret = secret

    def header(self) -> str:
        """What the server asks for."""
        return f"Bearer {self.__secret}"

    def __repr__(self) -> str:
        return "Token(hidden)"

    def __reduce__(self) -> NoReturn:
        raise Misconfigured("A token is not copied or stored. Connect again with the token from its environment.")


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where a server is."""

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
    if scheme == "http" and not insecure and not _is_here(host):
        raise Misconfigured(
            f"`url` starts with http://, so that everybody on the way to {host} could read the token and the answers. "
            "Use https://, or pass insecure=True if the network itself is encrypted."
        )
    return ServerAddress(scheme == "https", host, port, parts.path.rstrip("/"))


def _is_here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


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
    """A new random retry key."""
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

    def get(self, path: str, **asked: Any) -> dict[str, Any]:
        """What is at a path."""
        given = {name: _plain(value) for name, value in asked.items() if value is not None}
        return self._send("GET", f"{path}?{urlencode(given)}" if given else path, None, {})

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
            return self._connection()

    def _connection(self) -> http.client.HTTPConnection:
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
    """The JSON of a good answer; raises what a bad one says."""
    try:
        body = json.loads(content)
    except ValueError:
        body = None
    if 200 <= status < 300 and isinstance(body, dict):
        return body
    raise error_of(status, body if isinstance(body, dict) else {}, key)


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
