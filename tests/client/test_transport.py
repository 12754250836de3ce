"""Requests are sent again with the same key and the same bytes; the token is seen nowhere but in its header."""

from __future__ import annotations

import copy
import io
import logging
import pickle
import traceback
from pathlib import Path

import pytest

import lapwing as lw
from lapwing.client import transport
from lapwing.client.transport import ATTEMPTS, TOKEN, Transport, read_address, read_token
from lapwing.errors import AnswerLost, Disconnected, LapwingError, Misconfigured, NotServed
from support.scripted import Dropped, Reply, scripted

SECRET = "lw_0123456789abcdef_SECRETSECRETSECRET"
DONE = Reply({"done": True})


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """No test waits; what would have been waited for is noted."""
    pauses: list[float] = []
    monkeypatch.setattr(transport.time, "sleep", pauses.append)
    return pauses


def sender(url: str, timeout: float = 5.0) -> Transport:
    return Transport(read_address(url), read_token(SECRET), timeout=timeout, ca=None)


@pytest.mark.parametrize(
    "lost", [Dropped(), Dropped(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"), Dropped(b"HTTP/1.1 2")]
)
def test_a_lost_answer_is_asked_for_again_with_the_same_key_and_bytes(lost: Dropped) -> None:
    """ledger:B5"""
    with scripted([lost, lost, DONE]) as server:
        assert sender(server.url).post("/v1/ask", {"sql": "SELECT 1", "none": None}, key="k" * 32) == {"done": True}
    assert server.keys == ["k" * 32] * 3
    assert {body for *_, body in server.requests} == {b'{"sql": "SELECT 1"}'}


def test_a_server_that_is_busy_is_asked_again_when_it_says(impatient: list[float]) -> None:
    busy = [Reply({}, status, {"Retry-After": "2"}) for status in (409, 429, 503)]
    with scripted([*busy, DONE]) as server:
        assert sender(server.url).post("/v1/ask", {}, key="k") == {"done": True}
    assert server.keys == ["k"] * 4
    assert len([pause for pause in impatient if 2 <= pause <= 2.5]) == 3  # other threads sleep too, for less


def test_a_server_that_stays_busy_is_told_when_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"code": "key-running", "detail": "A request with this key is being answered."}
    clock = iter(range(0, 1000, 3))
    monkeypatch.setattr(transport.time, "monotonic", lambda: float(next(clock)))
    with scripted([Reply(told, 409, {"Retry-After": "1"})] * 9) as server, pytest.raises(NotServed) as problem:
        sender(server.url, timeout=20).post("/v1/ask", {}, key="abc")
    assert problem.value.code == "key-running"
    assert "'abc'" in str(problem.value)
    assert 5 <= len(server.requests) < 9


def test_a_problem_that_does_not_pass_is_told_at_once() -> None:
    told = {"code": "answer-lost", "detail": "It stays charged.", "charged": {"epsilon": 0.1, "delta": 0}}
    with scripted([Reply(told, 409)]) as server, pytest.raises(AnswerLost) as problem:
        sender(server.url).post("/v1/ask", {}, key="k")
    assert problem.value.code == "answer-lost"
    assert problem.value.charged.amount * 10 == 1
    assert len(server.requests) == 1


def test_a_server_that_never_answers_is_told_with_the_key() -> None:
    with scripted([Dropped()] * ATTEMPTS) as server, pytest.raises(Disconnected) as lost:
        sender(server.url).post("/v1/ask", {}, key="abc")
    assert server.keys == ["abc"] * ATTEMPTS
    assert lost.value.key == "abc"
    assert "key='abc'" in str(lost.value)


def test_nobody_listens() -> None:
    with pytest.raises(Disconnected):
        sender("http://127.0.0.1:9").get("/v1/health")


@pytest.mark.parametrize("body", [b"<html>Bad gateway</html>", b"[1]", b""])
@pytest.mark.parametrize("status", [200, 302, 502])
def test_what_is_no_lapwing_server_is_said_so(body: bytes, status: int) -> None:
    with (
        scripted([Reply(body, status, {"Location": "http://127.0.0.1:9/"})]) as server,
        pytest.raises(NotServed) as told,
    ):
        sender(server.url).get("/v1/budget")
    assert told.value.code == "not-a-server"
    assert len(server.requests) == 1  # a redirect is not followed: it would carry the token


def test_connections_stay_open_and_one_that_was_closed_is_replaced() -> None:
    with scripted([DONE, DONE, Reply({"done": True}, headers={"Connection": "close"}), DONE]) as server:
        one = sender(server.url)
        for _ in range(4):
            assert one.get("/v1/health") == {"done": True}
        one.close()


def test_a_fork_opens_connections_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted([DONE, DONE]) as server:
        one = sender(server.url)
        one.get("/v1/health")
        (before,) = one._idle
        monkeypatch.setattr(transport.os, "getpid", lambda: -1)
        one.get("/v1/health")
        assert one._idle != [before]
        before.close()
        one.close()


def test_every_call_has_a_key_of_its_own() -> None:
    keys = {transport.new_key() for _ in range(100)}
    assert len(keys) == 100
    assert all(len(key) == 32 for key in keys)


@pytest.mark.parametrize("url", ["http://example.org", "http://10.0.0.1:8080", "http://localhost.example.org"])
def test_a_token_is_not_sent_unencrypted_over_a_network(url: str) -> None:
    with pytest.raises(Misconfigured, match="https"):
        read_address(url)
    assert str(read_address(url, insecure=True)) == url


@pytest.mark.parametrize("url", ["http://localhost:1", "http://127.0.0.1", "http://[::1]:80/x", "https://example.org"])
def test_addresses_are_read(url: str) -> None:
    assert str(read_address(url)) == url


@pytest.mark.parametrize(
    "url", ["", "example.org", "ftp://x", "https://", "https://x:y", "https://x?y=1", "https://[", 7]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(Misconfigured, match="address"):
        read_address(url)


def test_a_password_in_the_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(Misconfigured) as refused:
        read_address("https://me:hunter2@example.org")
    assert "hunter2" not in str(refused.value)


def test_the_token_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN, f" {SECRET}\n")
    with scripted([DONE]) as server:
        Transport(read_address(server.url), read_token(None), timeout=5, ca=None).get("/")
    assert server.requests[0][2]["authorization"] == f"Bearer {SECRET}"
    monkeypatch.delenv(TOKEN)
    with pytest.raises(Misconfigured, match=TOKEN):
        read_token(None)


@pytest.mark.parametrize("token", ["SECRET\nX: y", "SEC RET", "SÉCRET", "SECRET\0"])
def test_a_token_with_odd_characters_is_refused_without_repeating_it(token: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        read_token(token)
    assert "SEC" not in str(refused.value).replace("LAPWING_TOKEN", "")


def test_the_token_is_never_shown(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    caplog.set_level(logging.DEBUG)
    shown = io.StringIO()
    steps = [Reply({"code": "unauthorized", "detail": "There is no valid token."}, 401), *[Dropped()] * ATTEMPTS]
    with scripted(steps) as server:
        connection = lw.connect(server.url, SECRET)
        shown.write(repr(connection) + str(vars(connection)) + str(vars(connection._transport)))
        for _ in range(2):
            try:
                connection.sql("SELECT COUNT(*) FROM visits", epsilon=1)
            except LapwingError as error:
                traceback.print_exception(error, file=shown)
                shown.write(str(error) + repr(error) + str(error.to_dict()) + "".join(error._render_traceback_()))
    assert "no valid token" in shown.getvalue()
    assert "does not answer" in shown.getvalue()
    assert SECRET not in shown.getvalue() + caplog.text
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(Misconfigured):
            copied(connection._transport._token)


def test_a_certificate_file_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="certificates"):
        lw.connect("https://example.org", SECRET, ca=tmp_path / "missing.pem")
