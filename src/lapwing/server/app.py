"""The ASGI application: `Door`, which every request passes, and the routes behind it.

The door checks the headers first: token, role, rate. Only then is the body read, up to a megabyte. Every failure is a
problem with constant text; unexpected ones are logged by their class. Nothing is raised to the web server, which would
print it.
"""

from __future__ import annotations

import hmac
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lapwing.errors import LapwingError
from lapwing.server.console.addresses import problem_response, wants_page
from lapwing.server.console.addresses import router as console
from lapwing.server.console.sessions import CSRF, ConsoleSession, read_cookie, same_origin
from lapwing.server.limits import Rates, read_body
from lapwing.server.log import LogLine, note_incident
from lapwing.server.openapi import complete, problem_page, start_page
from lapwing.server.problems import MEDIA_TYPE, ProblemDetails, ServerProblem, of_bug, of_error, of_server
from lapwing.server.routes import OPEN, Access, access_to, allow, open_paths, router
from lapwing.server.service import Service

_FIELD = re.compile(r"[A-Za-z0-9_-]{1,40}")
_ALWAYS = [
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
]


def create_app(service: Service) -> ASGIApp:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await service.drain()
        service.close()

    app = FastAPI(
        title="Lapwing",
        summary="Ask questions about private data in SQL. Get answers that protect everyone in it.",
        version=version("lapwing"),
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,  # it would send tokens to whatever the Host header names
        lifespan=lifespan,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.service = service
    app.router.routes.extend([*router.routes, *console.routes])  # each by itself, so that the door finds what it says
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(ServerProblem, _served)
    app.add_exception_handler(LapwingError, _failed)
    app.add_exception_handler(Exception, _unforeseen)
    described = cache(lambda: complete(app.openapi(), open_paths(app.routes)))

    @app.get("/v1/openapi.json", include_in_schema=False)
    @allow(OPEN)
    async def openapi() -> dict[str, Any]:
        return described()

    @app.get("/", include_in_schema=False)
    @allow(OPEN)
    async def page() -> Response:
        return Response(start_page(described()), media_type="text/html")

    @app.get("/problems/{code}", include_in_schema=False)
    @allow(OPEN)
    async def problem(code: str) -> Response:
        return Response(problem_page(code), media_type="text/html")

    return Door(app, service)


class Door:
    """Authenticates and limits every request before it is routed."""

    def __init__(self, app: FastAPI, service: Service) -> None:
        self.app, self._service = app, service
        self._rates = Rates(service.settings.rate, service.settings.burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        if scope["type"] != "http":
            return await send({"type": "websocket.close"})
        line, sent = LogLine(scope["method"]), _Sender(send)
        try:
            await self._pass(scope, receive, sent, line)
        except ServerProblem as problem:
            if problem.code == "signed-out" and scope["method"] == "GET":
                await sent.redirect("/console/sign-in")
            elif problem.code == "unauthorized" and wants_page(scope):  # no page of the console takes a bearer token
                await sent.problem(of_server(ServerProblem("not-found")), line, scope)
            else:
                await sent.problem(of_server(problem), line, scope)
        except Exception as error:  # noqa: BLE001 (its words may hold data, and the web server would print them)
            await sent.problem(of_bug(note_incident(error)), line, scope)
        finally:
            line.status, line.route = sent.status, str(getattr(scope.get("route"), "path", "unknown"))
            line.write()

    async def _pass(self, scope: Scope, receive: Receive, send: Send, line: LogLine) -> None:
        headers = {name.lower(): value for name, value in scope["headers"]}
        state: dict[str, Any] = {"line": line, "rates": self._rates}
        access, has_body = access_to(self.app.routes, scope)
        if access.by_session:
            session = await self._signed_in(scope, headers, access)
            line.token, state["session"] = session.principal.token, session
            self._rates.take(session.principal.name)
        elif not access.is_open:
            shown = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
            principal = await self._service.find_principal(_token(shown))
            if principal is None:
                raise ServerProblem("unauthorized")
            line.token = principal.token
            if principal.role not in access.roles:
                raise ServerProblem("forbidden")
            self._rates.take(principal.name)
            state["principal"] = principal
        body = await read_body(headers, receive) if has_body else b""
        state["arrived"] = time.monotonic()
        scope["state"] = state
        await self.app(scope, _replay(body, receive), send)

    async def _signed_in(self, scope: Scope, headers: dict[bytes, bytes], access: Access) -> ConsoleSession:
        """The session of a request to the console; one that changes something comes from a page of the console."""
        secure = self._service.settings.is_secure
        name = read_cookie(headers, secure=secure)
        session = await self._service.find_session(name) if name else None
        if session is None:
            raise ServerProblem("signed-out")
        shown = headers.get(CSRF, b"").decode("latin-1")
        is_read = scope["method"] in ("GET", "HEAD")
        is_same = hmac.compare_digest(shown.encode(), session.csrf.encode())
        is_ours = is_read or (is_same and same_origin(headers, secure=secure))
        if session.principal.role not in access.roles or not is_ours:
            raise ServerProblem("forbidden")
        return session


class _Sender:
    """Adds the headers of every response, and records the status."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            own = list(message.get("headers", ()))
            names = {name.lower() for name, _ in own}
            message = {**message, "headers": [*own, *(pair for pair in _ALWAYS if pair[0] not in names)]}
        await self._send(message)

    async def redirect(self, to: str) -> None:
        """Sends a browser to another page."""
        headers = [(b"location", to.encode()), (b"content-length", b"0")]
        await self({"type": "http.response.start", "status": 303, "headers": headers})
        await self({"type": "http.response.body", "body": b""})

    async def problem(self, problem: ProblemDetails, line: LogLine, scope: Scope) -> None:
        """Sends a problem, unless a response has begun."""
        line.code = problem.code
        if self.status:
            return
        if wants_page(scope):
            await problem_response(problem)(scope, _nothing, self)
            return
        content = problem.to_bytes()
        headers = [(b"content-type", MEDIA_TYPE.encode()), (b"content-length", str(len(content)).encode())]
        headers += [(b"www-authenticate", b"Bearer")] if problem.status == 401 else []
        if problem.retry_after is not None:
            headers.append((b"retry-after", str(problem.retry_after).encode()))
        await self({"type": "http.response.start", "status": problem.status, "headers": headers})
        await self({"type": "http.response.body", "body": content})


def _token(shown: list[bytes]) -> str:
    """The bearer token; none if there are two headers, since a proxy may have checked the other."""
    scheme, _, token = (shown[0] if len(shown) == 1 else b"").decode("latin-1").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _replay(body: bytes, receive: Receive) -> Receive:
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _nothing() -> Message:
    return {"type": "http.disconnect"}


def _response(request: Request, problem: ProblemDetails, headers: dict[str, str] | None = None) -> Response:
    request.state.line.code = problem.code
    if wants_page(request.scope):
        return problem_response(problem)
    return Response(problem.to_bytes(), problem.status, headers, media_type=MEDIA_TYPE)


async def _invalid(request: Request, error: Exception) -> Response:
    """Names the invalid field, never its value."""
    wrong = error.errors() if isinstance(error, RequestValidationError) else []
    first = wrong[0] if wrong else {"loc": (), "type": "invalid"}
    where = ".".join(str(part) for part in first["loc"] if _FIELD.fullmatch(str(part)))
    return _response(request, of_server(ServerProblem("invalid-request", part=f"{where}: {first['type']}")))


async def _http(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 503
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    code = {404: "not-found", 405: "method-not-allowed"}.get(status, "invalid-request")
    return _response(request, of_server(ServerProblem(code)), headers)


async def _served(request: Request, error: Exception) -> Response:
    problem = of_server(error if isinstance(error, ServerProblem) else ServerProblem("busy"))
    headers = {} if problem.retry_after is None else {"Retry-After": str(problem.retry_after)}
    return _response(request, problem, headers)


async def _failed(request: Request, error: Exception) -> Response:
    return _response(request, of_error(error) if isinstance(error, LapwingError) else of_bug(note_incident(error)))


async def _unforeseen(request: Request, error: Exception) -> Response:
    return _response(request, of_bug(note_incident(error)))
