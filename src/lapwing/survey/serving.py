"""Runs the server of a survey."""

from __future__ import annotations

import asyncio
import signal
import socket
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING

from lapwing.survey.survey_app import SurveyApp

if TYPE_CHECKING:
    import uvicorn

SLOWEST = 20.0  # seconds in which a request must have begun


@dataclass(frozen=True, slots=True)
class Listening:
    """Where the server is, and how others reach it."""

    host: str
    port: int

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def link(self) -> str:
        """The link to the form, as other devices on the same network open it."""
        host = own_address() if self.host in ("0.0.0.0", "::") else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"


def own_address() -> str:
    """The address of this machine on its network. No packet is sent: a datagram socket is only pointed outwards."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def settings(app: SurveyApp) -> uvicorn.Config:
    """How it is served. Nothing is logged of a request."""
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

    class Impatient(H11Protocol):
        """Closes connections that began no request, or only half of one, since it last looked: phones that left."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._look(())

        def _look(self, before: object) -> None:
            if self.transport.is_closing():
                return
            now: RequestResponseCycle | None = self.cycle
            waits = now is None or now.response_complete
            if waits and before is now:
                self.transport.abort()
            else:
                self.loop.call_later(SLOWEST, self._look, now if waits else ())

    return uvicorn.Config(
        app,
        http=Impatient,
        access_log=False,
        log_level="error",
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        ws="none",
        timeout_keep_alive=5,
        limit_concurrency=1000,
        timeout_graceful_shutdown=3,
    )


def serve(app: SurveyApp, at: socket.socket) -> None:
    """Serves until it is interrupted or asked to stop."""
    import uvicorn

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)  # of a service manager; without it the store would not be closed
    with suppress(KeyboardInterrupt):  # uvicorn ends in order, and then raises it again
        uvicorn.Server(settings(app)).run(sockets=[at])
