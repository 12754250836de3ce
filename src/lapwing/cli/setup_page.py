"""`lapwing init --browser`: the same facts on a page, on the steward's own machine.

The server listens on loopback, its only address has a random part that is shown once in the terminal, and it ends when
the file is written. A change is JSON from its own page. Only names and types of columns are read (setup.py).
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Awaitable, Callable, Mapping
from fractions import Fraction
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from lapwing.cli.plan import error_of, made_up
from lapwing.cli.setup import SetupFacts, facts_from
from lapwing.curator.settings import Settings, settings_of
from lapwing.curator.summary import first_questions
from lapwing.errors import LapwingError
from lapwing.expressions.types import Type
from lapwing.server.console.addresses import PAGES, POLICY, TYPES, templates
from lapwing.server.console.sessions import same_origin
from lapwing.server.tokens import random_text
from lapwing.sockets import listen

_SHARE = Fraction(1, 20)
_NO_FORM = (AttributeError, KeyError, TypeError, ValueError)


def serve_setup(facts: SetupFacts, types: Mapping[str, Type], file: Path, *, say: Callable[[str], None]) -> None:
    """Serves the page until its file is written."""
    place = f"/setup/{random_text()}"
    server = uvicorn.Server(
        uvicorn.Config(setup_app(facts, types, file, place, lambda: _stop(server)), log_level="error")
    )
    with listen("127.0.0.1", 0) as at:
        say(f"Open http://127.0.0.1:{at.getsockname()[1]}{place} in a browser on this machine. Ctrl-C stops.")
        asyncio.run(server.serve(sockets=[at]))
    if file.exists():
        say(f"Wrote {file}.")


def setup_app(
    facts: SetupFacts, types: Mapping[str, Type], file: Path, place: str, saved: Callable[[], None]
) -> Starlette:
    """The page, a draft of the file with what it means for noise, and the one save."""

    async def page(_: Request) -> Response:
        nonce = random_text()
        shown = {"facts": facts, "types": types, "place": place, "nonce": nonce, "page": "setup", "session": None}
        content = templates().get_template("setup.html").render(shown)
        headers = {"content-security-policy": POLICY.format(nonce=nonce), "cache-control": "no-store"}
        return Response(content, headers={**headers, "referrer-policy": "no-referrer"}, media_type="text/html")

    async def draft(request: Request) -> Response:
        try:
            text = facts_from(facts.data, await request.json()).toml(file)
            settings = settings_of(text, file)
        except (LapwingError, *_NO_FORM) as error:
            return JSONResponse({"problem": str(error)})
        old = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        diff = "\n".join(list(difflib.unified_diff(old, text.splitlines(), lineterm="", n=100))[3:])
        return JSONResponse({"toml": text, "diff": diff, "noise": await asyncio.to_thread(_noise, settings)})

    async def save(request: Request) -> Response:
        try:
            text = facts_from(facts.data, await request.json()).toml(file)
            settings_of(text, file)
            with open(file, "x", encoding="utf-8") as written:
                written.write(text)
        except FileExistsError:
            return JSONResponse({"problem": f"{file} exists already. Move it first; nothing was written."})
        except (LapwingError, OSError, *_NO_FORM) as error:
            return JSONResponse({"problem": str(error)})
        asyncio.get_running_loop().call_later(0.5, saved)
        return JSONResponse({"saved": str(file)})

    async def static(request: Request) -> Response:
        path = next((p for p in PAGES.iterdir() if p.name == request.path_params["name"] and p.suffix in TYPES), None)
        return Response(status_code=404) if path is None else Response(path.read_bytes(), media_type=TYPES[path.suffix])

    return Starlette(
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])],
        routes=[
            Route(place, page),
            Route(f"{place}/draft", _ours(draft), methods=["POST"]),
            Route(f"{place}/save", _ours(save), methods=["POST"]),
            Route("/console/static/{name}", static),
        ],
    )


def _ours(change: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """Takes JSON from this page alone: no form of another page sends that."""

    async def checked(request: Request) -> Response:
        headers = dict(request.scope["headers"])
        is_ours = same_origin({b"origin": b"http://" + headers.get(b"host", b""), **headers}, secure=False)
        is_json = headers.get(b"content-type", b"").split(b";")[0] == b"application/json"
        return await change(request) if is_ours and is_json else Response(status_code=403)

    return checked


def _noise(settings: Settings) -> list[str]:
    """What the declared facts mean for the first questions, at a twentieth of the budget."""
    ((table, _),) = settings.tables
    with made_up(settings, settings.budget) as curator:
        return [f"{question}: {error_of(curator, question, _SHARE, None)}" for question in first_questions(table)]


def _stop(server: uvicorn.Server) -> None:
    server.should_exit = True
