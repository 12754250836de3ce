"""The log: one JSON line for each request, whatever it holds. No line is forged or endless, and no token is in one."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from lapwing.server.log import JsonLines, LogLine
from support.serving import Asked, Running, running, serving

FORGED = '{"at": "2026-01-01T00:00:00Z", "method": "GET", "route": "/v1/forged", "status": 200}'
NASTY = [
    f"a\n{FORGED}\n",
    f"a\r\n{FORGED}\r\n",
    f'"}}\n{FORGED}',
    f"\u2028{FORGED}\u2029\x85{FORGED}\x0b\x0c\x1c",
    "\x1b[2J\x1b]0;owned\x07\x1b[31m",
    "\\u000a\\n%0a%s%n${jndi:ldap://x}",
    "\u202e\ufeff\U0001f986\x7f\x80",
    "\ud800",
    "x" * 900_000,
    "\U0001f986" * 60_000,
]
FIELDS = {"at", "method", "route", "status", "token", "code", "price", "left_after"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One that logs questions, since these are what a request can write into the log."""
    with running(tmp_path_factory.mktemp("logged"), more="log_questions = true") as found:
        yield found


class Logged:
    """What a server has logged since a moment ago."""

    def __init__(self, server: Running) -> None:
        self._path = server.folder / "log"
        self._from = self._path.stat().st_size

    def lines(self) -> list[bytes]:
        return self._path.read_bytes()[self._from :].splitlines()

    def requests(self) -> list[dict[str, Any]]:
        """The lines of requests; every line is JSON, short, and of printable ASCII characters."""
        lines = self.lines()
        assert all(32 <= byte < 127 for line in lines for byte in line)
        assert max(map(len, lines), default=0) < 16_000
        found = [json.loads(line) for line in lines]
        return [line for line in found if "web_server" not in line]


def send(server: Running, raw: bytes) -> bytes:
    """One request as these bytes, and all that comes back."""
    parts = []
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        try:
            connection.sendall(raw)
            while part := connection.recv(65536):
                parts.append(part)
        except ConnectionError:
            pass  # it was refused before all of it was sent
    return b"".join(parts)


def post(token: str, body: bytes, path: bytes = b"/v1/ask", more: bytes = b"") -> bytes:
    head = b"POST " + path + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
    about = f"Authorization: Bearer {token}\r\nContent-Length: {len(body)}\r\n".encode()
    return head + about + more + b"\r\n" + body


@pytest.mark.parametrize("nasty", NASTY, ids=range(len(NASTY)))
@pytest.mark.parametrize("field", ["sql", "epsilon", "unknown"])
def test_a_body_makes_one_line(server: Running, nasty: str, field: str) -> None:
    token, logged = server.token(), Logged(server)
    body = {"sql": "SELECT COUNT(*) AS n FROM visits", "epsilon": "0.1", field: nasty}
    assert send(server, post(token, json.dumps(body).encode())).startswith(b"HTTP/1.1 422")
    (line,) = logged.requests()
    assert (line["route"], line["status"], line["token"]) == ("/v1/ask", 422, token.split("_")[1])
    assert set(line) <= {*FIELDS, "question"}
    assert token.split("_", 2)[2].encode() not in b"".join(logged.lines())


@pytest.mark.parametrize("raw", [b"\xff\xfe", b"\xc3(", b"\xed\xa0\x80", b"\x00", b"\n"])
def test_bytes_that_are_no_text_make_one_line(server: Running, raw: bytes) -> None:
    token, logged = server.token(), Logged(server)
    body = b'{"sql": "SELECT COUNT(*) AS n FROM visits WHERE name = \'' + raw + b'\'", "epsilon": "0.1"}'
    assert send(server, post(token, body)).startswith(b"HTTP/1.1 422")
    assert [line["status"] for line in logged.requests()] == [422]


@pytest.mark.parametrize("nasty", [*NASTY[:7], "\x00", "x" * 30_000], ids=range(9))
@pytest.mark.parametrize("place", ["key", "agent", "token", "path", "query", "header", "encoding", "method", "length"])
def test_headers_and_addresses_write_nothing_of_their_own(server: Running, nasty: str, place: str) -> None:
    """Whatever the web server makes of them: a request, several, or none."""
    token, logged = server.token(), Logged(server)
    text, body = nasty.encode(), b'{"sql": "SELECT", "epsilon": "0.1"}'
    raw = post(token, body)
    hostile = {
        "key": post(token, body, more=b"Idempotency-Key: " + text + b"\r\n"),
        "agent": post(token, body, more=b"User-Agent: " + text + b"\r\n"),
        "token": raw.replace(token.encode(), text),
        "path": raw.replace(b"/v1/ask", b"/v1/" + text),
        "query": raw.replace(b"/v1/ask", b"/v1/ask?preview=" + text + b"&dummy=" + text),
        "header": raw.replace(b"Host: x", text + b": x"),
        "encoding": post(token, body, more=b"Content-Encoding: " + text + b"\r\n"),
        "method": raw.replace(b"POST", text),
        "length": raw.replace(str(len(body)).encode(), text),
    }[place]
    send(server, hostile)
    for line in logged.requests():
        assert set(line) <= {*FIELDS, "question"}
        assert line["route"] in ("unknown", "/v1/ask")
        assert line["status"] >= 400
        assert line["token"] in (None, token.split("_")[1])
    written = b"".join(logged.lines())
    assert token.split("_", 2)[2].encode() not in written
    assert b"forged" not in written


def test_an_encoded_address_is_not_in_the_log(asked: Asked) -> None:
    asked.call("GET", "/v1/%0a%7b%22forged%22%3a1%7d%1b[31m")
    asked.call("GET", "/v1/releases/%0a%7b%22forged%22%3a1%7d")
    assert [line["route"] for line in asked.lines] == ["unknown", "/v1/releases/{release}"]
    assert "forged" not in "".join(asked.logged)


def test_a_long_question_is_cut_and_a_short_one_is_whole() -> None:
    with serving(log_questions=True) as asked:
        for size in (100, 10_000, 15_000):
            asked.ask({"sql": f"SELECT COUNT(*) FROM visits -- {'x' * size}", "epsilon": "0.1"}, "/v1/preview")
        whole, still, cut = (line["question"] for line in asked.lines)
    assert (whole.count("x"), still.count("x")) == (100, 10_000)
    assert cut.count("x") < 1_000
    assert cut.endswith("characters)")


def test_an_endless_method_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "lapwing.server"):
        LogLine("X" * 60_000).write()
        LogLine("PROPFIND").write()
    assert [json.loads(record.getMessage())["method"] for record in caplog.records] == ["other", "PROPFIND"]


def test_what_the_web_server_says_is_json_without_the_words_of_an_error() -> None:
    try:
        raise ValueError("a secret\nof a row")
    except ValueError as error:
        facts = (type(error), error, error.__traceback__)
    record = logging.LogRecord("uvicorn.error", logging.ERROR, "x", 1, "It failed\n%s", ("here",), facts)
    assert json.loads(JsonLines().format(record)) == {
        "web_server": "It failed\nhere",
        "level": "ERROR",
        "kind": "ValueError",
    }
