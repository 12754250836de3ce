"""A survey that is served on this machine while a test runs, and respondents without a browser."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from lapwing.noise.bits import SYSTEM, BitSource
from lapwing.sockets import listen
from lapwing.survey import Survey, public_description, randomize
from lapwing.survey.report_store import SurveyStore
from lapwing.survey.sqlite_store import SqliteSurveyStore
from lapwing.survey.survey_app import make_app, settings
from lapwing.survey.wire import message_text


@dataclass
class ServedSurvey:
    """A running server."""

    survey: Survey
    store: SurveyStore
    url: str
    """The form, with a slash at the end."""
    key: str
    description: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.description = public_description(self.survey)

    @property
    def results_url(self) -> str:
        return f"{self.url}results?key={self.key}"

    @property
    def data_url(self) -> str:
        return f"{self.url}results.json?key={self.key}"


@contextmanager
def serving(survey: Survey, folder: Path, *, store: SurveyStore | None = None, port: int = 0) -> Iterator[ServedSurvey]:
    """The survey on a free port of this machine, its reports in this folder."""
    kept = store or SqliteSurveyStore(folder / "survey.db")
    app = make_app(survey, kept)
    at = listen("127.0.0.1", port)
    server = uvicorn.Server(settings(app))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [at]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.005)
    try:
        yield ServedSurvey(survey, kept, f"http://127.0.0.1:{at.getsockname()[1]}/", app.server.key)
    finally:
        server.should_exit = True
        thread.join(10)
        at.close()
        kept.close()


class Client:
    """Asks an application without a network."""

    def __init__(self, app: Any, address: str = "127.0.0.1") -> None:
        self._transport = httpx.ASGITransport(app=app, client=(address, 4711))

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        async def ask() -> httpx.Response:
            async with httpx.AsyncClient(transport=self._transport, base_url="http://survey.test") as client:
                return await client.request(method, path, **more)

        return asyncio.run(ask())

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.request("GET", path, **more)

    def post(self, path: str, **more: Any) -> httpx.Response:
        return self.request("POST", path, **more)


def message(
    survey: Survey, answers: Mapping[str, int | None] | None = None, *, code: str = "", bits: BitSource = SYSTEM
) -> str:
    """What the browser of a respondent with these answers posts."""
    description = public_description(survey)
    words = [int(word) for word in bits.words(description["words"], 64)]
    nonce = bytes(int(byte) for byte in bits.words(16, 8))
    return message_text(description, nonce, randomize(description, answers or {}, words), code)


def read_message(text: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(text)
    return found
