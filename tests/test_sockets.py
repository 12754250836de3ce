"""Sockets that wait for clients: no answer waits for an acknowledgement, and an address that is taken is told."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from lapwing.errors import Misconfigured
from lapwing.sockets import listen
from support.accepted import is_immediate
from support.survey_server import serving
from support.surveys import survey


def test_a_served_survey_sends_at_once_what_it_writes(tmp_path: Path) -> None:
    with serving(survey("overtime"), tmp_path) as served:
        port = int(served.url.rstrip("/").rsplit(":", 1)[1])
        with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.recv(1000).startswith(b"HTTP/1.1 200")
            assert is_immediate(os.getpid(), client) is True


def test_a_port_that_is_taken_is_told_before_anything_is_served() -> None:
    with listen("127.0.0.1", 0) as taken, pytest.raises(Misconfigured, match=r"in use.*Take another port"):
        listen("127.0.0.1", taken.getsockname()[1], "Take another port.")


@pytest.mark.parametrize(("host", "port"), [("192.0.2.1", 0), ("127.0.0.1", 70000), ("no such host", 0)])
def test_an_address_that_is_not_here_is_told(host: str, port: int) -> None:
    with pytest.raises(Misconfigured, match="cannot be listened on"):
        listen(host, port)
