"""Who may do what: every address with every role, without a token, with a bad one, and with one that was revoked."""

from __future__ import annotations

from typing import Any

import anyio
import httpx
import pytest

from lapwing.server.access import OPEN, RIGHTS
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
PLACES = [*RIGHTS, ("POST", "/v1/nothing"), ("GET", "/v1/releases/r" + "0" * 32), ("GET", "/v1/admin")]


def call(asked: Asked, method: str, path: str, **more: Any) -> Any:
    body = {"json": BODIES.get(path, COUNT)} if method == "POST" else {}
    return asked.call(method, path.replace("{release}", "r" + "0" * 32), **body, **more)


def test_every_address_is_in_the_table(asked: Asked) -> None:
    described = asked.call("GET", "/v1/openapi.json").json()
    listed = {(method.upper(), path) for path, found in described["paths"].items() for method in found}
    assert listed - {("GET", "/v1/health")} == set(RIGHTS)


@pytest.mark.parametrize("role", list(Role))
def test_a_role_may_do_what_the_table_says_and_nothing_else(asked: Asked, role: Role) -> None:
    """gate:G52"""
    for (method, path), roles in RIGHTS.items():
        answer = call(asked, method, path, name="x", role=role)
        assert (answer.status_code == 403) == (role not in roles)
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
    paths = [path.replace("{code}", "unauthorized") for path in OPEN]
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
