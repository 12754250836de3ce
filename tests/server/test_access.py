"""Who may do what: every address with every role, without a token, with a bad one, and with one that was revoked."""

from __future__ import annotations

from typing import Any

import anyio
import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from lapwing.server.app import Door
from lapwing.server.console.addresses import STEWARDING
from lapwing.server.routes import ASKING, EVERYONE, NOBODY, OPEN, READING, Access, access_of, signed_in
from lapwing.server.tokens import Role
from support.serving import BY_SEX, COUNT, Asked

BODIES: dict[str, Any] = {
    "/v1/preview": COUNT,
    "/v1/ask": COUNT,
    "/v1/batch": {"questions": [COUNT["sql"]], "epsilon": 0.1},
    "/v1/distribution": {"column": "site", "epsilon": 0.1},
    "/v1/marginals": {"columns": ["sex"], "epsilon": 0.1},
    "/v1/verify": {"release": "r" + "0" * 32, "column": "n", "value": 1},
}
RIGHTS: dict[tuple[str, str], Access] = {
    ("GET", "/"): OPEN,
    ("GET", "/v1/health"): OPEN,
    ("GET", "/v1/openapi.json"): OPEN,
    ("GET", "/problems/{code}"): OPEN,
    ("GET", "/v1/tables"): EVERYONE,
    ("GET", "/v1/budget"): EVERYONE,
    ("POST", "/v1/preview"): ASKING,
    ("POST", "/v1/ask"): ASKING,
    ("POST", "/v1/batch"): ASKING,
    ("POST", "/v1/distribution"): ASKING,
    ("POST", "/v1/marginals"): ASKING,
    ("GET", "/v1/dummy"): ASKING,
    ("GET", "/v1/releases"): EVERYONE,
    ("GET", "/v1/releases/{release}"): EVERYONE,
    ("POST", "/v1/verify"): EVERYONE,
    ("GET", "/v1/ledger"): READING,
    ("GET", "/v1/watch"): EVERYONE,
    ("POST", "/v1/watch"): EVERYONE,
}
"""Every address for programs, and who may use it."""
CONSOLE: dict[tuple[str, str], Access] = {
    ("GET", "/console/static/{name}"): OPEN,
    ("GET", "/console/sign-in"): OPEN,
    ("POST", "/console/sign-in"): OPEN,
    **{
        ("POST", f"/console/{path}"): signed_in(access)
        for path, access in (("sign-out", EVERYONE), ("preview", ASKING), ("ask", ASKING), ("people", STEWARDING))
    },
    **{
        ("GET", f"/console{path}{ending}"): signed_in(access)
        for path, access in (
            ("", EVERYONE),
            ("/answers", EVERYONE),
            ("/budget", EVERYONE),
            ("/ledger", READING),
            ("/people", STEWARDING),
        )
        for ending in ("", ".json")
    },
    ("GET", "/console/ledger.jsonl"): signed_in(READING),
    ("GET", "/console/answers/{release}"): signed_in(EVERYONE),
    ("GET", "/console/answers/{release}.{ending}"): signed_in(EVERYONE),
}
"""Pages, for who is signed in: test_sessions.py asks them."""
EVERY = RIGHTS | CONSOLE
CLOSED = [place for place, access in RIGHTS.items() if not access.is_open]
PLACES = [*CLOSED, ("POST", "/v1/nothing"), ("GET", "/v1/releases/r" + "0" * 32), ("GET", "/v1/admin")]


def call(asked: Asked, method: str, path: str, **more: Any) -> Any:
    body = {"json": BODIES.get(path, COUNT)} if method == "POST" else {}
    return asked.call(method, path.replace("{release}", "r" + "0" * 32), **body, **more)


def routes_of(asked: Asked) -> dict[tuple[str, str], Access]:
    """Every address of the application itself, and what it says; a mounted one has no method."""
    assert isinstance(asked.app, Door)
    return {
        (method, str(getattr(route, "path", route))): access_of(route)
        for route in asked.app.app.routes
        for method in getattr(route, "methods", None) or [""]
    }


def unsaid(asked: Asked) -> set[tuple[str, str]]:
    """The addresses that do not say who may use them, or that the table of rights does not have."""
    return {place for place, access in routes_of(asked).items() if place not in EVERY or access is NOBODY}


def test_every_address_of_the_application_says_who_may_use_it(asked: Asked) -> None:
    """gate:G52"""
    assert unsaid(asked) == set()
    assert routes_of(asked) == EVERY


@pytest.mark.parametrize("kind", ["address", "several", "mounted"])
def test_an_address_that_does_not_say_it_is_refused_to_every_role(asked: Asked, kind: str) -> None:
    """gate:G52: whoever adds one and forgets it opens nothing."""
    assert isinstance(asked.app, Door)
    reached: list[str] = []

    async def planted(request: Request) -> Response:
        reached.append(request.method)
        return Response(b"all rows")

    route = Route("/v1/rows", planted) if kind == "address" else Route("/v1/{anything}", planted, methods=["POST"])
    asked.app.app.router.routes.insert(
        0, Mount("/v1/rows", routes=[Route("/", planted)]) if kind == "mounted" else route
    )
    method = "POST" if kind == "several" else "GET"
    path = "/v1/rows/" if kind == "mounted" else "/v1/rows"
    assert access_of(route) is NOBODY
    unsaid = {place for place, access in routes_of(asked).items() if place not in EVERY or access is NOBODY}
    assert (
        unsaid
        == {
            "address": {("GET", "/v1/rows"), ("HEAD", "/v1/rows")},
            "several": {("POST", "/v1/{anything}")},
            "mounted": {("", "/v1/rows")},
        }[kind]
    )
    assert asked.call(method, path, headers={"Authorization": ""}).status_code == 401
    for role in Role:
        answer = asked.call(method, path, name=f"a {role.value}".replace(" ", ""), role=role)
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert not reached


@pytest.mark.parametrize("role", list(Role))
def test_a_role_may_do_what_the_table_says_and_nothing_else(asked: Asked, role: Role) -> None:
    """gate:G52"""
    for method, path in CLOSED:
        answer = call(asked, method, path, name="x", role=role)
        assert (answer.status_code == 403) == (role not in RIGHTS[method, path].roles)
        assert answer.status_code not in (401, 500)
    if role is Role.AUDITOR:
        assert not asked.spent


@pytest.mark.parametrize("place", PLACES, ids=lambda place: " ".join(place))
def test_without_a_valid_token_everything_is_401_and_free(asked: Asked, place: tuple[str, str]) -> None:
    """gate:G52: the same bytes for what exists and what does not."""
    token = asked.token("gone", "steward")
    asked.service.tokens.revoke("gone")
    bad = ["", "Bearer", "Bearer x", f"Basic {asked.token()}", f"Bearer {token}", "Bearer lw_0_0", "Bearer \xe9"]
    answers = [call(asked, *place, headers={"Authorization": text.encode("latin-1")}) for text in bad]
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.content for answer in answers}) == 1
    assert {answer.headers["www-authenticate"] for answer in answers} == {"Bearer"}
    assert {answer.json()["remaining"] for answer in answers} == {None}
    assert not asked.spent


def test_what_is_open_says_nothing_of_anybody(asked: Asked) -> None:
    paths = [path.replace("{code}", "unauthorized") for (_, path), access in RIGHTS.items() if access.is_open]
    before = [asked.call("GET", path, headers={"Authorization": ""}).content for path in paths]
    asked.ask(COUNT)
    assert [asked.call("GET", path, headers={"Authorization": ""}).content for path in paths] == before


def test_a_token_is_never_echoed(asked: Asked) -> None:
    """threat:A13: not in bodies, headers or the log, whether it is valid or not."""
    token = asked.token()
    secret = token.split("_", 2)[2]
    answers = [call(asked, *place) for place in PLACES]
    answers += [asked.call("GET", f"/v1/releases?token={token}"), asked.call("GET", f"/{token}")]
    for answer in answers:
        assert secret not in answer.text
        assert secret not in str(answer.headers)
    assert asked.logged
    assert not [line for line in asked.logged if secret in line]


def test_analysts_see_their_own_releases_and_others_see_all(asked: Asked) -> None:
    first, second = asked.ask(COUNT), asked.ask(BY_SEX, name="bob")
    mine = asked.call("GET", "/v1/releases").json()["releases"]
    assert [one["release"] for one in mine] == [first.json()["release"]]
    everything = asked.call("GET", "/v1/releases", name="eve", role="auditor").json()["releases"]
    assert [one["release"] for one in everything] == [second.json()["release"], first.json()["release"]]


def test_the_ledger_is_shown_to_auditors_without_answers(asked: Asked) -> None:
    asked.ask(COUNT)
    shown = asked.call("GET", "/v1/ledger", name="eve", role="auditor").json()
    assert [one["kind"] for one in shown["entries"]].count("reserve") == 1
    later = asked.call("GET", "/v1/ledger?after=2", name="eve", role="auditor").json()
    assert later["entries"][0]["seq"] == 3


def test_an_allowance_is_kept(asked: Asked) -> None:
    from lapwing.server.tokens import allow_share

    allow_share(asked.service.ledger, "ann", 0.1)
    assert asked.ask(COUNT).status_code == 200
    refused = asked.ask(BY_SEX)
    assert (refused.status_code, refused.json()["code"], refused.json()["charged"]) == (409, "budget-exceeded", None)
    assert asked.ask(BY_SEX, name="bob").status_code == 200
    own = asked.call("GET", "/v1/budget").json()["own"]
    assert own == {"name": "ann", "spent": "epsilon = 0.1", "allowance": "epsilon = 0.1"}


@pytest.mark.parametrize("path", ["/v1/ask/", "/v1/ledger/", "/problems/busy/"])
def test_no_address_sends_anybody_elsewhere(asked: Asked, path: str) -> None:
    """A redirect would name the host that the client named, and a client would send its token there."""
    told = asked.call("GET", path, headers={"Host": "elsewhere.example"})
    assert (told.status_code, told.headers.get("location")) == (404, None)


def test_two_tokens_are_none(asked: Asked) -> None:
    sent = [("Authorization", f"Bearer {asked.token(name)}") for name in ("ann", "bob")]

    async def run() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=asked.app), base_url="http://t") as client:
            return await client.get("/v1/budget", headers=sent)

    assert anyio.run(run).status_code == 401
