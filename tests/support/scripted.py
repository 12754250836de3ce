"""A server over HTTP that does what a test says, one request after the other, and remembers what it was sent."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass(frozen=True)
class Reply:
    """What is sent back."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Dropped:
    """The connection breaks off, before anything is sent or in the middle of it."""

    sent: bytes = b""


@dataclass
class ScriptedServer:
    """What a test sees of the server."""

    url: str
    requests: list[tuple[str, str, dict[str, str], bytes]]
    """Method, path, headers by their name in small letters, and body."""

    @property
    def keys(self) -> list[str | None]:
        return [headers.get("idempotency-key") for _, _, headers, _ in self.requests]


@contextmanager
def scripted(script: Sequence[Reply | Dropped]) -> Iterator[ScriptedServer]:
    """A server on this machine that goes through the script."""
    seen: list[tuple[str, str, dict[str, str], bytes]] = []
    steps = iter(script)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            length = int(self.headers.get("content-length", 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            seen.append((self.command, self.path, headers, self.rfile.read(length)))
            step = next(steps)
            if isinstance(step, Dropped):
                self.connection.sendall(step.sent)
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
            content = step.body if isinstance(step.body, bytes) else json.dumps(step.body).encode()
            self.send_response(step.status)
            for name, value in {"Content-Length": str(len(content)), **step.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = _serve  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield ScriptedServer(f"http://127.0.0.1:{server.server_port}", seen)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
