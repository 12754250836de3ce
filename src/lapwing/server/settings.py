"""[serve] in lapwing.toml: where the server listens, and how much it takes from one client.

[serve]
host = "127.0.0.1"
port = 8470
workers = 1                    # processes
threads = 4                    # questions of which a worker reads rows at a time
at_once = 4                    # fresh answers under way on a worker, until they leave; `threads` without it
rate = 20                      # requests a second of one principal, on each worker
burst = 100                    # requests at once
tls_certificate = "cert.pem"   # and tls_key; without them it listens on loopback only
tls_key = "key.pem"
proxy = false                  # true if a proxy on the way here speaks TLS
log_questions = false          # true to log the text of questions
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from lapwing.errors import Misconfigured
from lapwing.expressions.refusal import nearest
from lapwing.sockets import is_loopback

ANSWER_TIME = 2.0
"""The `answer_time` of a table that declares none, in seconds."""


@dataclass(frozen=True, slots=True)
class ServeSettings:
    host: str = "127.0.0.1"
    port: int = 8470
    workers: int = 1
    threads: int = 4
    at_once: int | None = None
    rate: int = 20
    burst: int = 100
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    proxy: bool = False
    log_questions: bool = False

    def __post_init__(self) -> None:
        for name, least, most in (("port", 0, 65535), ("workers", 1, 64), ("threads", 1, 64)):
            _check_whole(name, getattr(self, name), least, most)
        _check_whole("at_once", self.turns, 1, 512)
        for name in ("rate", "burst"):
            _check_whole(name, getattr(self, name), 1, 1_000_000)
        for name in ("proxy", "log_questions"):
            if not isinstance(getattr(self, name), bool):
                raise Misconfigured(f"`serve.{name}` must be true or false.")
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise Misconfigured("`serve.tls_certificate` and `serve.tls_key` belong together. Write both.")
        if self.tls_certificate is None and not self.proxy and not is_loopback(self.host):
            raise Misconfigured(
                f"without TLS the server listens on loopback only, and `serve.host` is {self.host}: tokens and answers "
                'would cross the network in the clear. Write tls_certificate and tls_key, or host = "127.0.0.1"; or '
                "proxy = true if a proxy speaks TLS to clients and only it can reach this address."
            )

    @property
    def is_secure(self) -> bool:
        """Whether browsers reach it over TLS."""
        return self.tls_certificate is not None or self.proxy

    @property
    def turns(self) -> int:
        """How many fresh answers are under way on a worker at a time."""
        return self.threads if self.at_once is None else self.at_once


def read_serve(section: Mapping[str, Any], folder: Path) -> ServeSettings:
    """The settings of a section; paths start at the folder of its file."""
    keys = {field.name for field in fields(ServeSettings)}
    for name in section:
        if name not in keys:
            raise Misconfigured(f"`serve.{name}` is not a known key. {nearest(name, keys)}")
    files = {name: folder / str(section[name]) for name in ("tls_certificate", "tls_key") if name in section}
    return ServeSettings(**{**section, **files})


def _check_whole(name: str, value: object, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise Misconfigured(f"`serve.{name}` must be a whole number from {least} to {most:,}.")
