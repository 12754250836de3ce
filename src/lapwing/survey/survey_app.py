"""The server of a survey: it hands out the form, keeps randomized reports, and shows results.

Privacy:    no cookie is set, no address, time or header of a respondent is stored or logged. The network address of a
            request is used for the rate limit alone.
Messages:   have one length; any other body is refused before it is read whole.
Order:      a report is answered with 200 only after the store made it durable.
Checked by: tests/survey/test_survey_app.py, tests/survey/test_hostile.py, tests/survey/test_crash.py
"""

from __future__ import annotations

import asyncio
import hmac
import json
import math
import signal
import socket
import threading
import time
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from lapwing.errors import StoreFailed
from lapwing.survey.definition import Survey
from lapwing.survey.report_store import Kept, SurveyStore, hash_code, make_code
from lapwing.survey.results import SurveyResults, results
from lapwing.survey.site import TYPES, Site
from lapwing.survey.wire import Malformed, OtherSurvey, Reader

_Scope = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_SLOWEST = 20.0  # seconds in which a message must have arrived
_AGES = 0.5  # seconds for which results are not computed again
_MOST_ADDRESSES = 10_000
_MINUTE = 60.0

_SAID = {
    Kept.STORED: (200, "Your randomized report has arrived. Thank you."),
    Kept.ALREADY: (200, "This report had already arrived. It counts once."),
    Kept.NONCE_TAKEN: (409, "Another report with the same number has arrived before. The first one stands."),
    Kept.INVITATION_USED: (409, "This invitation has been used. The first answer stands."),
    Kept.INVITATION_UNKNOWN: (403, "This invitation is not known. Open the link exactly as you received it."),
}


class RateLimit:
    """How often one network address may ask: a bucket each, which holds a minute's worth and fills up evenly.

    Addresses are held in memory for a minute or two, and nowhere else. Of an IPv6 address the first 64 bits count: one
    host owns every address that shares them.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = float(per_minute)
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: dict[str, tuple[float, float]] = {}

    def wait(self, host: str) -> float:
        """Seconds until this address may ask; 0 if it may now, and then one request is counted."""
        address = network_of(host)
        with self._lock:
            now = self._clock()
            left, then = self._buckets.pop(address, (self._most, now))
            left = min(self._most, left + (now - then) * self._most / _MINUTE)
            allowed = left >= 1
            self._forget(now)
            self._buckets[address] = (left - allowed, now)
            return 0.0 if allowed else (1 - left) * _MINUTE / self._most

    def __len__(self) -> int:
        return len(self._buckets)

    def _forget(self, now: float) -> None:
        """Drops addresses that did not ask for a minute, oldest first; beyond a limit the oldest whatever they did."""
        while self._buckets:
            address, (_, then) = next(iter(self._buckets.items()))
            if now - then < _MINUTE and len(self._buckets) < _MOST_ADDRESSES:
                return
            del self._buckets[address]


def network_of(host: str) -> str:
    """An IPv4 address, or the network of an IPv6 address."""
    try:
        read = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if not isinstance(read, IPv6Address):
        return host
    return str(read.ipv4_mapped or IPv6Address(int(read) >> 64 << 64))


class SurveyServer:
    """The survey, its store and what is kept in memory while it is served."""

    def __init__(self, survey: Survey, store: SurveyStore) -> None:
        self.survey, self.store = survey, store
        self.site = Site(survey)
        self.reader = Reader(survey)
        self._form = self.site.form()
        self.key = store.prepare(self.reader.id, make_code())
        self.rate = RateLimit(survey.per_minute)
        self._computed: tuple[float, int, SurveyResults] | None = None
        self._computing = asyncio.Lock()

    async def form(self, _: Request) -> Response:
        return Response(self._form, media_type="text/html")

    async def description(self, _: Request) -> Response:
        return Response(self.site.description_bytes, media_type="application/json")

    async def file(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name == "reports":
            raise HTTPException(405, headers={"Allow": "POST"})
        if name not in self.site.files:
            raise HTTPException(404)
        return Response(self.site.files[name], media_type=TYPES[name[name.rindex(".") :]])

    async def results_page(self, request: Request) -> Response:
        self._allow(request)
        return Response(self.site.results(request.query_params.get("key")), media_type="text/html")

    async def results_data(self, request: Request) -> Response:
        return JSONResponse((await self._results(request)).to_dict())

    async def report(self, request: Request) -> Response:
        """One message."""
        response = await self._refuse_early(request) or await self._keep(request)
        origin = request.headers.get("origin")
        if origin in self.survey.origins:
            response.headers["Access-Control-Allow-Origin"] = origin
        response.headers["Vary"] = "Origin"
        return response

    async def _refuse_early(self, request: Request) -> Response | None:
        """A refusal that needs no body.

        A page elsewhere could let its visitors' browsers send reports without their knowledge, each from its own
        address. Browsers announce that over https and on this machine, not over plain http.
        """
        from_here = request.headers.get("sec-fetch-site", "same-origin") in ("same-origin", "none")
        if not from_here and request.headers.get("origin") not in self.survey.origins:
            return say(
                403, "elsewhere", "Another site sent this. Open the form by its own link, and send it from there."
            )
        wait = self.rate.wait(request.client.host if request.client else "")
        if wait > 0:
            refused = say(429, "too-many", "Too many messages came from this network. Try again in a minute.")
            refused.headers["Retry-After"] = str(math.ceil(wait))
            return refused
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "text/plain" or request.headers.get("content-encoding", "identity") != "identity":
            return say(415, "malformed", "A report is plain text, not compressed. Send it from the form.")
        length = request.headers.get("content-length", str(self.reader.length))
        if length != str(self.reader.length):
            return say(413 if len(length) > 9 or int("0" + length) > self.reader.length else 400, "malformed", _LENGTH)
        return None

    async def _keep(self, request: Request) -> Response:
        body = b""
        try:
            async with asyncio.timeout(_SLOWEST):
                async for part in request.stream():
                    body += part
                    if len(body) > self.reader.length:
                        return say(413, "malformed", _LENGTH)
        except (TimeoutError, ClientDisconnect):
            return say(408, "malformed", "The report did not arrive whole. Send it again.")
        try:
            message = self.reader.read(body)
        except OtherSurvey as error:
            return say(409, "other-survey", str(error))
        except Malformed as error:
            return say(400, "malformed", str(error))
        code = hash_code(message.invitation) if self.survey.invitations else None
        try:
            kept = await run_in_threadpool(self.store.add, message.nonce, message.report, code)
        except StoreFailed:
            return say(503, "store-failed", "The server could not keep the report. Nothing was kept: send it again.")
        status, text = _SAID[kept]
        return say(status, kept.value, text)

    async def _results(self, request: Request) -> SurveyResults:
        """The results, computed at most once for all requests, and only after new reports."""
        self._allow(request)
        async with self._computing:
            now = asyncio.get_running_loop().time()
            if self._computed and now - self._computed[0] < _AGES:
                return self._computed[2]
            n = await run_in_threadpool(self.store.count)
            if not self._computed or self._computed[1] != n:
                newest = await run_in_threadpool(lambda: results(self.survey, self.store.reports()))
                self._computed = (now, newest.n, newest)
            self._computed = (now, *self._computed[1:])
            return self._computed[2]

    def _allow(self, request: Request) -> None:
        """Without the key the page does not exist."""
        given = request.query_params.get("key", "").encode()
        if self.survey.results != "public" and not hmac.compare_digest(given, self.key.encode()):
            raise HTTPException(404)

    async def failed(self, request: Request, error: Exception) -> Response:
        """Errors as a page for people and as JSON for the form."""
        status = error.status_code if isinstance(error, HTTPException) else 503
        title, text = _NOTICES.get(status, _NOTICES[503])
        headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
        if "text/html" in request.headers.get("accept", ""):
            return Response(self.site.notice(title, text), status, headers, "text/html")
        refused = say(status, "failed", text)
        refused.headers.update(headers)
        return refused


_LENGTH = "A report to this survey has another length. Load the form again and send it from there."
_NOTICES = {
    404: ("Not found", "There is no such page here. Open the link as you received it."),
    405: ("Not allowed", "This address cannot be used like that. Open the form instead."),
    503: ("Not available", "The reports cannot be read at the moment. Those who run the survey can see why."),
}


def say(status: int, what: str, text: str) -> Response:
    """An answer to the form."""
    return Response(json.dumps({"status": what, "message": text}), status, media_type="application/json")


class SurveyApp:
    """Starlette's application, with the same headers on everything it sends."""

    def __init__(self, server: SurveyServer) -> None:
        self.server = server
        headers = {
            "Content-Security-Policy": f"{server.site.policy}; frame-ancestors 'none'",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
        }
        self._headers = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        self._app = Starlette(
            routes=[
                Route("/", server.form),
                Route("/survey.json", server.description),
                Route("/results", server.results_page),
                Route("/results.json", server.results_data),
                Route("/reports", server.report, methods=["POST"]),
                Route("/{name}", server.file),
            ],
            exception_handlers={HTTPException: server.failed, StoreFailed: server.failed},
        )

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        async def with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *self._headers]
            await send(message)

        await self._app(scope, receive, with_headers if scope["type"] == "http" else send)


def make_app(survey: Survey, store: SurveyStore) -> SurveyApp:
    """The server of a survey, as an ASGI application. `app.server.key` opens its results."""
    return SurveyApp(SurveyServer(survey, store))


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
