"""[serve] of lapwing.toml, the first token, and where the server may listen."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lapwing.cli.main import app
from lapwing.curator.settings import read_settings
from lapwing.errors import Misconfigured
from lapwing.server.run import prepare
from lapwing.server.settings import ServeSettings, read_serve
from support.serving import write_settings


def test_the_defaults_are_safe() -> None:
    made = read_serve({}, Path())
    assert made == ServeSettings()
    assert (made.host, made.log_questions, made.proxy) == ("127.0.0.1", False, False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org", ""])
def test_without_tls_it_listens_on_loopback_only(host: str) -> None:
    with pytest.raises(Misconfigured, match="loopback"):
        read_serve({"host": host}, Path())
    assert read_serve({"host": host, "proxy": True}, Path()).host == host
    assert read_serve({"host": host, "tls_certificate": "c", "tls_key": "k"}, Path("f")).tls_key == Path("f/k")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "::1", "localhost"])
def test_loopback_needs_no_tls(host: str) -> None:
    assert read_serve({"host": host}, Path()).host == host


@pytest.mark.parametrize(
    "found",
    [
        {"prot": 1},
        {"port": "80"},
        {"port": 70_000},
        {"workers": 0},
        {"threads": True},
        {"rate": 0},
        {"proxy": "yes"},
        {"log_questions": 1},
        {"tls_certificate": "c"},
    ],
)
def test_odd_settings_are_refused(found: dict[str, Any]) -> None:
    with pytest.raises(Misconfigured, match="serve"):
        read_serve(found, Path())


def test_answer_times_are_declared_by_table(tmp_path: Path) -> None:
    write_settings(tmp_path, answer_time=3)
    assert read_settings(tmp_path / "lapwing.toml").answer_times == {"visits": 3.0}
    for odd in ("0", "-1", "true", '"x"', "1e9"):
        write_settings(tmp_path, answer_time=odd)  # type: ignore[arg-type]
        with pytest.raises(Misconfigured, match=r"tables\.visits\.answer_time"):
            read_settings(tmp_path / "lapwing.toml")


@pytest.mark.parametrize("command", [["serve", "--check"], ["doctor"]])
def test_an_answer_time_below_a_second_is_refused(tmp_path: Path, command: list[str]) -> None:
    """threat:A9: the work that one person's rows cause would be a large part of it."""
    write_settings(tmp_path, answer_time=0.25)
    done = subprocess.run(
        [sys.executable, "-m", "lapwing", *command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode
    assert "tables.visits.answer_time" in done.stdout + done.stderr
    assert "from 1 to 3600" in " ".join((done.stdout + done.stderr).split())


def test_the_first_token_goes_to_a_file_of_its_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_settings(tmp_path)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["serve", "--check"], catch_exceptions=False)
    place = Path(".lapwing/steward.token")
    assert str(place) in done.stdout
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    token = place.read_text().strip()
    assert token not in done.stdout
    again = CliRunner().invoke(app, ["serve", "--check"], catch_exceptions=False)
    assert (again.exit_code, again.stdout.count("\n"), "can be served" in again.stdout) == (0, 1, True)


def test_a_missing_certificate_is_said_before_a_worker_starts(tmp_path: Path) -> None:
    write_settings(tmp_path, more='tls_certificate = "c.pem"\ntls_key = "k.pem"')
    with pytest.raises(Misconfigured, match=r"c\.pem is not a file"):
        prepare(tmp_path / "lapwing.toml")
