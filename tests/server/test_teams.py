"""People in teams, over HTTP and two workers: whose token ends is refused at once, and nobody overspends together."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import count
from typing import Any

import httpx
import pytest

from lapwing.ledger import EntryKind, Ledger
from lapwing.server.tokens import TokenBook, allow_share
from support.serving import Running, running

TENTH = Fraction(1, 10)
_numbers = count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A budget of 100 over two workers."""
    with running(tmp_path_factory.mktemp("teams"), epsilon=100, workers=2, answer_time=0.1) as found:
        yield found


def member(server: Running, name: str, team: str | None) -> str:
    with server.ledger() as ledger:
        return TokenBook(ledger).add(name, "analyst", team=team)[0]


def short_lived(ledger: Ledger, token: str, seconds: int) -> str:
    """Another token with the name and secret of this one, which expires in so many seconds."""
    _, number, secret = token.split("_", 2)
    (entry,) = [entry for entry in ledger.records(EntryKind.TOKEN) if entry.key == f"token:{number}"]
    until = (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    note = {name: entry.remark(name) for name in ("name", "role", "hash")} | {"expires": until}
    other = f"{int(number, 16) ^ 1:016x}"
    ledger.record(EntryKind.TOKEN, f"token:{other}", note)
    return f"lw_{other}_{secret}"


def ask(server: Running, token: str, epsilon: str = "0.1") -> httpx.Response:
    """A question that nobody asked before, over a connection of its own, so that both workers get some."""
    number = next(_numbers)
    body = {"sql": f"SELECT COUNT(*) AS n FROM visits WHERE cost < {number + 1} AND age > {number}", "epsilon": epsilon}
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.post(f"{server.url}/v1/ask", json=body, headers=headers, timeout=60)


def statuses(server: Running, token: str) -> set[int]:
    return {ask(server, token).status_code for _ in range(8)}


def spent(server: Running) -> Counter[str]:
    """What every name was charged, in exact tenths; and that the sum is what the ledger says was spent."""
    found: Counter[str] = Counter()
    with server.ledger() as ledger:
        for entry in ledger.entries():
            if entry.kind == "reserve":
                found[str(entry.analyst)] += Fraction(entry.amount) / TENTH  # type: ignore[assignment]
        assert ledger.spent.amount == sum(found.values()) * TENTH
    return found


def allow(server: Running, name: str, share: float) -> Any:
    with server.ledger() as ledger:
        return allow_share(ledger, name, share)


def test_a_member_whose_token_expires_is_refused_on_all_workers_and_the_team_goes_on(server: Running) -> None:
    """gate:G52: the allowance is that of the team and of the name; neither comes back with another token."""
    ann, bob = member(server, "ann", "heart"), member(server, "bob", "heart")
    allow(server, "@heart", 0.006)
    allow(server, "ann@heart", 0.002)
    with server.ledger() as ledger:
        short = short_lived(ledger, ann, 6)
    assert ask(server, short).status_code == 200
    end = time.monotonic() + 60
    while ask(server, short, epsilon="1").status_code != 401:  # more than is allowed, so it is never charged
        assert time.monotonic() < end
        time.sleep(0.05)
    before = spent(server)
    assert statuses(server, short) == {401}
    assert spent(server) == before
    assert ask(server, ann).status_code == 200  # the second of two; the expired token used the first
    assert ask(server, ann).json()["code"] == "budget-exceeded"
    assert Counter(ask(server, bob).status_code for _ in range(6)) == {200: 4, 409: 2}
    after = spent(server)
    assert (after["ann@heart"], after["bob@heart"]) == (2, 4)


def test_a_member_whose_token_is_revoked_is_refused_on_all_workers_and_the_allowance_stays(server: Running) -> None:
    eve, dan = member(server, "eve", "lung"), member(server, "dan", "lung")
    allow(server, "@lung", 0.003)
    assert ask(server, eve).status_code == 200
    with server.ledger() as ledger:
        TokenBook(ledger).revoke("eve@lung")
    before = spent(server)
    assert statuses(server, eve) == {401}
    assert spent(server) == before
    again = member(server, "eve", "lung")
    assert [ask(server, token).status_code for token in (again, dan, again, dan)] == [200, 200, 409, 409]
    assert spent(server)["eve@lung"] == 2


def test_what_was_asked_before_a_revocation_is_answered_and_charged_once(server: Running) -> None:
    token = member(server, "gus", "lung2")
    with ThreadPoolExecutor(1) as pool:
        running_on = pool.submit(ask, server, token)
        while spent(server)["gus@lung2"] == 0:
            assert not running_on.done()
            time.sleep(0.005)
        with server.ledger() as ledger:
            TokenBook(ledger).revoke("gus@lung2")
        assert running_on.result().status_code == 200
    assert statuses(server, token) == {401}
    assert spent(server)["gus@lung2"] == 1


def test_people_and_their_team_race_and_neither_overspends(server: Running) -> None:
    """ledger:B2 gate:G32: eight threads; ann may spend 5, bob 7, their team 10, and eve is in no team."""
    names = ("ann@brain", "bob@brain", "eve")
    tokens = {name: member(server, *name.split("@")) if "@" in name else member(server, name, None) for name in names}
    for name, share in (("@brain", 0.01), ("ann@brain", 0.005), ("bob@brain", 0.007), ("eve", 0.003)):
        allow(server, name, share)

    def one(number: int) -> tuple[str, int, str | None]:
        name = names[number % 3]
        answer = ask(server, tokens[name])
        return name, answer.status_code, answer.json().get("code")

    before = spent(server)
    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(one, range(48)))
    after = spent(server)
    granted = Counter(name for name, status, _ in told if status == 200)
    charged = {name: after[name] - before[name] for name in names}
    assert charged == {name: granted[name] for name in names}
    assert granted["ann@brain"] + granted["bob@brain"] == 10
    assert granted["ann@brain"] <= 5
    assert granted["bob@brain"] <= 7
    assert granted["eve"] == 3
    assert {code for _, status, code in told if status != 200} == {"budget-exceeded"}
    with server.client(tokens["ann@brain"]) as client:
        budget = client.get("/v1/budget").json()
    assert budget["own"]["spent"] == f"epsilon = {granted['ann@brain'] / 10:g}"
    assert budget["team"] == {"name": "@brain", "spent": "epsilon = 1", "allowance": "epsilon = 1"}
