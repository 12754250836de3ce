"""Clients that do not speak as browsers do, on a real socket: none leaves anything, and the server goes on."""

from __future__ import annotations

import gzip
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from lapwing.survey import Survey
from support.survey_server import ServedSurvey, message, serving
from support.surveys import survey

HEAD = b"POST /reports HTTP/1.1\r\nHost: survey\r\nContent-Type: text/plain\r\n"
WAIT = 3.0  # seconds after which a server is taken to wait for the rest


@pytest.fixture(scope="module")
def asked() -> Survey:
    return survey("overtime", "mood", per_minute=1_000_000)


@pytest.fixture(scope="module")
def served(asked: Survey, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedSurvey]:
    folder: Path = tmp_path_factory.mktemp("survey")
    with serving(asked, folder) as made:
        yield made


def said(served: ServedSurvey, *parts: bytes) -> bytes:
    """The first line that the server answers to these bytes, or nothing if it hangs up or waits for more."""
    port = int(served.url.rsplit(":", 1)[1].strip("/"))
    with socket.create_connection(("127.0.0.1", port), timeout=10) as line:
        try:
            for part in parts:
                line.sendall(part)
            line.settimeout(WAIT)
            return line.makefile("rb").readline().strip()
        except (ConnectionError, TimeoutError):
            return b""


def chunked(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def test_bytes_that_are_no_reports_are_refused_on_the_wire(served: ServedSurvey, asked: Survey) -> None:
    body = message(asked).encode()
    long = b"x" * 200_000
    attempts: dict[str, tuple[bytes, ...]] = {
        "no HTTP": (bytes(range(256)) * 8,),
        "a length that is no number": (HEAD, b"Content-Length: many\r\n\r\n", body),
        "a negative length": (HEAD, b"Content-Length: -5\r\n\r\n", body),
        "two lengths": (HEAD, b"Content-Length: 5\r\nContent-Length: 500\r\n\r\n", body),
        "a length of very many digits": (HEAD, b"Content-Length: " + b"9" * 40 + b"\r\n\r\n", body),
        "more than was announced": (HEAD, b"Content-Length: 10\r\n\r\n", body),
        "less than was announced": (HEAD, b"Content-Length: %d\r\n\r\n" % len(body), body[:-10]),
        "pieces without an end": (HEAD, b"Transfer-Encoding: chunked\r\n\r\n", b"5\r\nabc"),
        "pieces that are too many": (HEAD, b"Transfer-Encoding: chunked\r\n\r\n", chunked(*[long] * 20)),
        "a header of megabytes": (HEAD, b"X: " + b"y" * 2_000_000 + b"\r\n\r\n", body),
        "compressed on the way": (
            HEAD,
            b"Transfer-Encoding: gzip, chunked\r\n\r\n",
            chunked(gzip.compress(body)),
        ),
    }
    for name, parts in attempts.items():
        line = said(served, *parts)
        assert line == b"" or line.startswith(b"HTTP/1.1 4"), (name, line)
        assert served.store.count() == 0, name
    assert httpx.get(served.url).status_code == 200


def test_a_report_in_pieces_is_a_report(asked: Survey, tmp_path: Path) -> None:
    with serving(asked, tmp_path) as served:
        body = message(asked).encode()
        line = said(served, HEAD, b"Transfer-Encoding: chunked\r\n\r\n", chunked(body[:7], body[7:]))
        assert line == b"HTTP/1.1 200 OK"
        assert served.store.count() == 1


def test_a_client_that_only_connects_stops_nobody(served: ServedSurvey, asked: Survey) -> None:
    port = int(served.url.rsplit(":", 1)[1].strip("/"))
    lines = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(50)]
    for line in lines[:25]:
        line.sendall(HEAD + b"Content-Length: 100\r\n\r\nx")
    assert httpx.get(f"{served.url}survey.json").status_code == 200
    for line in lines:
        line.close()
    assert served.store.count() == 0


@pytest.mark.parametrize("sent", [b"", HEAD, b"GET /survey.json HTTP/1.1\r\nHost: survey\r\n\r\n" + HEAD])
def test_a_connection_without_a_whole_request_is_closed(
    asked: Survey, tmp_path: Path, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Phones that left the network, and clients that send half a request, take no place for long."""
    monkeypatch.setattr("lapwing.survey.survey_app.SLOWEST", 0.2)
    with serving(asked, tmp_path) as served:
        port = int(served.url.rsplit(":", 1)[1].strip("/"))
        with socket.create_connection(("127.0.0.1", port), timeout=10) as line:
            line.sendall(sent)
            ended = b""
            try:
                while part := line.recv(65536):
                    ended += part
            except ConnectionResetError:
                pass
        assert ended.startswith(b"HTTP/1.1 200") is sent.startswith(b"GET")
        assert said(served, HEAD, b"Content-Length: 3\r\n\r\nabc") == b"HTTP/1.1 400 Bad Request"
