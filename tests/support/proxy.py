"""A TCP proxy that a test can make fail in the middle of a conversation."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

Rule = Callable[[bytes], str]
"""What happens to bytes of the client: `pass`, `cut` before they arrive, `half` of them arrive, `deliver` and cut the
answer, `mute` lets them arrive and keeps the connection without an answer, or `hang` lets nothing arrive."""


class Proxy:
    """Listens on `port` and forwards to another port of this machine."""

    def __init__(self, to: int) -> None:
        self._to = to
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.rule: Rule = lambda _: "pass"
        self.down = False
        """Whether new connections are refused."""
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def once(self, text: bytes, fate: str) -> None:
        """Lets this happen to the next bytes that hold the text."""

        def rule(data: bytes) -> str:
            if text not in data:
                return "pass"
            self.rule = lambda _: "pass"
            return fate

        self.rule = rule

    def cut(self) -> None:
        """Ends every connection."""
        ended, self._open = self._open, []
        for end in ended:
            _end(end)

    def close(self) -> None:
        _end(self._listener)
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.down:
                _end(client)
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                _end(client)
                continue
            self._open += [client, server]
            muted = threading.Event()
            threading.Thread(target=self._requests, args=(client, server, muted), daemon=True).start()
            threading.Thread(target=self._replies, args=(client, server, muted), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket, muted: threading.Event) -> None:
        with suppress(OSError):
            while data := client.recv(65536):
                fate = self.rule(data)
                if fate == "cut":
                    break
                if fate == "hang":
                    muted.set()
                    continue
                if fate in ("deliver", "mute"):
                    muted.set()
                server.sendall(data[: len(data) // 2] if fate == "half" else data)
                if fate == "half":
                    break
                if fate == "deliver":
                    server.recv(65536)  # the server has done it
                    break
        _end(client)
        _end(server)

    def _replies(self, client: socket.socket, server: socket.socket, muted: threading.Event) -> None:
        with suppress(OSError):
            while data := server.recv(65536, socket.MSG_PEEK):
                if muted.is_set():
                    return
                server.recv(len(data))
                client.sendall(data)
        if not muted.is_set():
            _end(client)


@contextmanager
def proxied(to: int) -> Iterator[Proxy]:
    """A proxy to a port, gone at the end."""
    proxy = Proxy(to)
    try:
        yield proxy
    finally:
        proxy.close()


def _end(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
