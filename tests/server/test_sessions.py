"""ConsoleSessions of the console: who is signed in, until when, and which requests may change something."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import anyio
import httpx
import pytest

from lapwing.server.console import sessions as module
from lapwing.server.console.addresses import router
from lapwing.server.console.sessions import set_cookie
from support.serving import BY_SEX, Asked

ORIGIN = "http://lapwing"
POSTS = sorted(route.path for route in router.routes if "POST" in route.methods)  # type: ignore[attr-defined]
PAGES = sorted(
    route.path  # type: ignore[attr-defined]
    for route in router.routes
    if "GET" in route.methods and "{" not in route.path and "sign-in" not in route.path  # type: ignore[attr-defined]
)


def talk(asked: Asked, work: Callable[[httpx.AsyncClient], Any]) -> Any:
    """What a browser without a token of its own gets."""

    async def run() -> Any:
        transport = httpx.ASGITransport(app=asked.app)
        async with httpx.AsyncClient(transport=transport, base_url=ORIGIN, timeout=60) as client:
            return await work(client)

    return anyio.run(run)


async def sign_in(client: httpx.AsyncClient, token: str) -> dict[str, str]:
    """The headers of a page of the console."""
    entered = await client.post("/console/sign-in", json={"token": token}, headers={"origin": ORIGIN})
    assert entered.status_code == 200, entered.text
    page = await client.get("/console/budget")
    found = re.search(r'data-csrf="([0-9a-f]{64})"', page.text)
    assert found is not None
    return {"origin": ORIGIN, "x-lapwing-csrf": found[1]}


@pytest.mark.parametrize("path", PAGES)
def test_every_page_wants_a_session(asked: Asked, path: str) -> None:
    response = talk(asked, lambda client: client.get(path))
    assert (response.status_code, response.headers.get("location")) == (303, "/console/sign-in")
    bearer = {"authorization": f"Bearer {asked.token(role='steward')}"}
    assert talk(asked, lambda client: client.get(path, headers=bearer)).status_code == 303  # a token is no session


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize("wrong", ["no csrf", "another csrf", "no origin", "another origin", "cross-site"])
def test_a_change_from_elsewhere_is_refused(asked: Asked, path: str, wrong: str) -> None:
    """Cross-site requests carry the cookie at most, and that is not enough."""

    async def work(client: httpx.AsyncClient) -> httpx.Response:
        headers = await sign_in(client, asked.token(role="steward"))
        if wrong == "no csrf":
            del headers["x-lapwing-csrf"]
        elif wrong == "another csrf":
            headers["x-lapwing-csrf"] = "0" * 64
        elif wrong == "no origin":
            del headers["origin"]
        elif wrong == "another origin":
            headers["origin"] = "http://evil.test"
        else:
            headers["sec-fetch-site"] = "cross-site"
        body = {**BY_SEX} if path in ("/console/ask", "/console/preview") else {}
        return await client.post(path, json=body, headers=headers)

    before = asked.service.ledger.spent
    response = talk(asked, work)
    opens = path == "/console/sign-in" and "csrf" in wrong  # it needs none: there is no session yet
    assert response.status_code == (401 if opens else 403)
    assert asked.service.ledger.spent == before


def test_a_session_ends_with_its_token(asked: Asked) -> None:
    async def work(client: httpx.AsyncClient) -> list[int]:
        await sign_in(client, asked.token())
        before = await client.get("/console")
        asked.service.tokens.revoke("ann")
        after = await client.get("/console")
        return [before.status_code, after.status_code]

    assert talk(asked, work) == [200, 303]


def test_a_session_ends_after_its_hours(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HOURS", 0)

    async def work(client: httpx.AsyncClient) -> int:
        await client.post("/console/sign-in", json={"token": asked.token()}, headers={"origin": ORIGIN})
        return (await client.get("/console")).status_code

    assert talk(asked, work) == 303


def test_signing_out_ends_the_session_on_the_server(asked: Asked) -> None:
    async def work(client: httpx.AsyncClient) -> int:
        headers = await sign_in(client, asked.token())
        kept = dict(client.cookies)
        await client.post("/console/sign-out", json={}, headers=headers)
        client.cookies.clear()
        client.cookies.update(kept)  # a stolen copy of the cookie
        return (await client.get("/console")).status_code

    assert talk(asked, work) == 303


def test_a_code_opens_one_session(asked: Asked) -> None:
    code = asked.service.sessions.invite(asked.token())

    async def work(client: httpx.AsyncClient) -> list[int]:
        body, headers = {"code": code}, {"origin": ORIGIN}
        return [(await client.post("/console/sign-in", json=body, headers=headers)).status_code for _ in range(2)]

    assert talk(asked, work) == [200, 401]


def test_an_answer_is_the_one_of_http_and_is_charged_once(asked: Asked) -> None:
    async def work(client: httpx.AsyncClient) -> list[Any]:
        headers = {**await sign_in(client, asked.token()), "idempotency-key": "k"}
        told = [(await client.post("/console/ask", json=BY_SEX, headers=headers)).json() for _ in range(2)]
        page = await client.get(f"/console/answers/{told[0]['release']}")
        return [told, page.text]

    told, page = talk(asked, work)
    assert told[0] == told[1]
    assert sum(entry.kind == "reserve" for entry in asked.service.ledger.entries()) <= 2  # the answer, and its check
    answer = asked.call("GET", f"/v1/releases/{told[0]['release']}").json()
    assert all(f"{row['n']:,}" in page for row in answer["rows"])


def test_roles_hold_in_the_console(asked: Asked) -> None:
    async def work(client: httpx.AsyncClient, role: str) -> dict[str, int]:
        headers = await sign_in(client, asked.token(f"{role}1", role))
        tried = {path: (await client.get(path)).status_code for path in PAGES}
        tried["ask"] = (await client.post("/console/ask", json=BY_SEX, headers=headers)).status_code
        return tried

    analyst, auditor, steward = (talk(asked, lambda c, r=r: work(c, r)) for r in ("analyst", "auditor", "steward"))
    assert (analyst["/console/ledger"], analyst["/console/people"], analyst["ask"]) == (403, 403, 200)
    assert (auditor["/console/ledger"], auditor["/console/people"], auditor["ask"]) == (200, 403, 403)
    assert set(steward.values()) == {200}


def test_a_steward_confirms_a_change_with_their_own_token(asked: Asked) -> None:
    mine, other = asked.token("boss", "steward"), asked.token("ann", "analyst")
    change = {"action": "add", "name": "bea", "role": "analyst"}

    async def work(client: httpx.AsyncClient) -> list[httpx.Response]:
        headers = await sign_in(client, mine)
        return [
            await client.post("/console/people", json={**change, "confirm": token}, headers=headers)
            for token in ("", other, asked.token("another", "steward"), mine)
        ]

    found = talk(asked, work)
    assert [response.status_code for response in found] == [401, 401, 401, 200]
    assert asked.service.tokens.find(found[-1].json()["token"]) is not None


def test_over_tls_the_cookie_is_bound_to_its_host() -> None:
    assert set_cookie("x", secure=True).startswith("__Host-lapwing=x; Path=/; HttpOnly; SameSite=Strict")
    assert set_cookie("x", secure=True).endswith("; Secure")
    assert "Secure" not in set_cookie("x", secure=False)
