"""Bodies that are too large, compressed, deep, slow or no JSON; clients that ask too often; SQL that is a trick."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from lapwing.server import limits
from lapwing.server.limits import MOST_BYTES, Rates, Turns, depth
from lapwing.server.problems import ServerProblem
from support.serving import BY_SEX, COUNT, Asked, serving
from support.visits import open_visits

JSON = {"Content-Type": "application/json"}


def post(asked: Asked, content: Any, path: str = "/v1/ask", **headers: str) -> Any:
    return asked.call("POST", path, content=content, headers={**JSON, **headers})


@pytest.mark.parametrize("how", [gzip.compress, zlib.compress])
def test_compressed_bodies_are_refused(asked: Asked, how: Any) -> None:
    """gate:G53: nothing is inflated."""
    bomb = how(json.dumps({**COUNT, "sql": "x" * 10_000_000}).encode())
    for name in ("gzip", "deflate", "br", "zstd", "x"):
        refused = post(asked, bomb, **{"Content-Encoding": name})
        assert (refused.status_code, refused.json()["code"]) == (415, "unsupported-body")
    assert post(asked, json.dumps(COUNT), **{"Content-Encoding": "identity"}).status_code == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "", "multipart/form-data"])
def test_other_media_types_are_refused(asked: Asked, kind: str) -> None:
    """A form on another site can send these without asking; it cannot send JSON."""
    refused = asked.call("POST", "/v1/ask", content=json.dumps(COUNT), headers={"Content-Type": kind})
    assert (refused.status_code, refused.json()["code"]) == (415, "unsupported-body")
    assert not asked.spent


def test_large_bodies_are_refused_with_and_without_a_length(asked: Asked) -> None:
    """gate:G53"""
    large = json.dumps({**COUNT, "sql": "x" * MOST_BYTES}).encode()

    async def parts() -> AsyncIterator[bytes]:
        for place in range(0, len(large), 65_536):
            yield large[place : place + 65_536]

    for content in (large, parts()):
        refused = post(asked, content)
        assert (refused.status_code, refused.json()["code"]) == (413, "too-many-bytes")
    assert post(asked, b"{}", **{"Content-Length": "9" * 30}).status_code == 413
    assert not asked.spent


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"null",
        b"[]",
        b'"x"',
        b"1",
        b"{}",
        b"[" * 100_000,
        b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
        b'{"sql": 1, "epsilon": 0.1}',
        b'{"sql": "SELECT 1", "epsilon": true}',
        b'{"sql": "SELECT 1", "epsilon": NaN}',
        b'{"sql": "SELECT 1", "epsilon": Infinity}',
        b'{"sql": "SELECT 1", "epsilon": 1e999}',
        b'{"sql": "SELECT 1", "epsilon": "1e999999999"}',
        b'{"sql": "SELECT 1", "epsilon": ' + b"9" * 6_000 + b"}",
        b'{"sql": "SELECT 1", "epsilon": "' + b"9" * 6_000 + b'"}',
        b'{"sql": "SELECT 1", "epsilon": 0.1, "analyst": "steward"}',
        b'{"sql": "SELECT 1", "epsilon": 0.1, "key": "x"}',
        b'{"sql": "SELECT 1", "epsilon": 0.1, "refresh": 1}',
        b'{"sql": "", "epsilon": 0.1}',
        b'{"sql": "\\ud800", "epsilon": 0.1}',
        b'{"sql": "SELECT COUNT(*) FROM visits", "epsilon": 0}',
        b'{"sql": "SELECT COUNT(*) FROM visits", "epsilon": -1}',
        b'{"sql": "SELECT COUNT(*) FROM visits", "epsilon": 0.1, "share": 0.1}',
        b'{"sql": "SELECT COUNT(*) FROM visits", "epsilon": "1e-320"}',
        b'{"sql": "SELECT COUNT(*) FROM visits", "epsilon": 0.1, "confidence": 1}',
        b'{"sql": "SELECT COUNT(*) FROM visits", "within": {}}',
        b'{"sql": "SELECT COUNT(*) FROM visits"}',
    ],
    ids=lambda content: repr(content[:40]),
)
def test_malformed_bodies_are_422_and_free(asked: Asked, content: bytes) -> None:
    """threat:A26 gate:G53"""
    for path in ("/v1/ask", "/v1/preview"):
        refused = post(asked, content, path)
        assert refused.status_code == 422
        assert refused.headers["content-type"] == "application/problem+json"
        assert refused.json()["charged"] is None
    assert not asked.spent


@pytest.mark.parametrize(
    "sql",
    [
        "(" * 10_000 + "SELECT 1" + ")" * 10_000,
        "SELECT COUNT(*) FROM visits WHERE age IN (" + ",".join("1" for _ in range(40_000)) + ")",
        "SELECT COUNT(*) FROM visits WHERE " + " OR ".join(["age = 1"] * 8_000),
        "SELECT " + "-" * 50_000 + "1",
        "SELECT COUNT(*) FROM visits; DROP TABLE visits",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT COUNT(*) FROM visits -- \x00",
        "ATTACH 'x' AS y",
        "COPY visits TO '/tmp/x'",
        "SELECT name FROM visits LIMIT 1",
        "SELECT query('SELECT 1')",
        "SELECT COUNT(*) FROM information_schema.tables",
        "SELECT ＣＯＵＮＴ(*) FROM visits",  # noqa: RUF001
        'SELECT "visits"."name" FROM "visits"',
        "/*! SELECT */ SELECT name FROM visits",
        "SELECT pid, COUNT(*) FROM visits GROUP BY pid",
    ],
    ids=lambda sql: sql[:30],
)
def test_tricks_in_sql_are_refused_free(asked: Asked, sql: str) -> None:
    """gate:G19 gate:G21 gate:G53"""
    refused = asked.ask({"sql": sql, "epsilon": 0.1})
    assert refused.status_code == 422
    assert refused.json()["charged"] is None
    assert not asked.spent


def test_a_slow_body_is_ended(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SECONDS", 0.05)

    async def drip() -> AsyncIterator[bytes]:
        yield b"{"
        await anyio.sleep(5)
        yield b"}"

    refused = post(asked, drip())
    assert (refused.status_code, refused.json()["code"]) == (408, "too-slow")


@pytest.mark.parametrize(
    ("body", "deep"),
    [
        (b"[" * 30 + b"]" * 30, 30),
        (b'{"a": "' + b"[" * 50 + b'"}', 1),
        (b'["\\"' + b"[" * 50 + b'"]', 1),
        (b"[]" * 50, 1),
    ],
)
def test_depth_is_that_of_lists_and_objects(body: bytes, deep: int) -> None:
    assert depth(body) == deep


def test_a_principal_who_asks_too_often_waits() -> None:
    with serving(open_visits(), rate=1, burst=3) as asked:
        answers = [asked.call("GET", "/v1/budget") for _ in range(5)]
        assert [one.status_code for one in answers][:3] == [200] * 3
        late = answers[-1]
        assert (late.status_code, late.json()["code"]) == (429, "rate-limited")
        assert int(late.headers["retry-after"]) >= 1
        assert asked.call("GET", "/v1/budget", name="bob").status_code == 200


def test_a_rate_comes_back_with_time() -> None:
    now = [0.0]
    rates = Rates(2, 3, clock=lambda: now[0])
    for _ in range(3):
        rates.take("ann")
    with pytest.raises(ServerProblem) as refused:
        rates.take("ann")
    assert refused.value.retry_after == 1
    now[0] = 0.5
    rates.take("ann")
    with pytest.raises(ServerProblem):
        rates.take("ann")
    now[0] = 100.0
    for _ in range(3):
        rates.take("ann")
    with pytest.raises(ServerProblem):
        rates.take("ann")


def test_nobody_takes_all_threads() -> None:
    async def run() -> list[str]:
        turns, told = Turns(at_once=9, each=1, waiting=1, total=3), []
        await turns.enter("ann")
        async with anyio.create_task_group() as group:
            group.start_soon(turns.enter, "ann")
            await anyio.sleep(0.01)
            for name in ("ann", "bob", "cyd"):
                try:
                    await turns.enter(name)
                    told.append("in")
                except ServerProblem as problem:
                    told.append(problem.code)
            turns.leave("ann")
        turns.leave("ann")
        turns.leave("bob")
        assert not turns._queues
        return told

    assert anyio.run(run) == ["rate-limited", "in", "busy"]


def test_who_waits_for_a_turn_is_told_so() -> None:
    async def run() -> list[bool]:
        turns = Turns(at_once=2, each=2, waiting=9, total=9)
        waited = [await turns.enter("ann"), await turns.enter("bob")]
        async with anyio.create_task_group() as group:

            async def last() -> None:
                waited.append(await turns.enter("cyd"))

            group.start_soon(last)
            await anyio.sleep(0.01)
            assert len(waited) == 2
            turns.leave("ann")
        for name in ("bob", "cyd"):
            turns.leave(name)
        assert (turns._count, turns._queues, turns._all.locked()) == (0, {}, False)
        return waited

    assert anyio.run(run) == [False, False, True]


def test_who_gives_up_waiting_leaves_nothing_behind() -> None:
    async def run() -> None:
        turns = Turns(at_once=1, each=1, waiting=9, total=9)
        await turns.enter("ann")
        for name in ("ann", "bob"):  # one waits for its own turn, one for a turn of all
            with anyio.move_on_after(0.01):
                await turns.enter(name)
        assert turns._count == 1
        turns.leave("ann")
        assert not await turns.enter("bob")
        turns.leave("bob")
        assert (turns._count, turns._queues) == (0, {})

    anyio.run(run)


def test_a_question_of_another_principal_is_not_held_up(asked: Asked) -> None:
    assert [one.status_code for one in asked.calls([("POST", "/v1/ask", {"json": BY_SEX})] * 5)] == [200] * 5
