"""The page about serving, and the files in deploy/: commands run, settings are accepted, old ledgers are refused."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tomllib
import venv
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lapwing.cli import main as program
from lapwing.server.settings import read_serve
from support.service import running, write_settings

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "deploying.md").read_text()
DEPLOY = ROOT / "deploy"
Lapwing = Callable[..., tuple[int, str]]


def shown(kind: str) -> list[str]:
    """The blocks of this kind on the page."""
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)


@pytest.fixture
def lapwing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Lapwing:
    """The command line in a folder that has settings: its exit code, and what it says."""
    monkeypatch.chdir(write_settings(tmp_path))

    def call(*words: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["lapwing", *words])
        code: Any = 0
        try:
            program.run()
        except SystemExit as stop:
            code = stop.code or 0
        written = capsys.readouterr()
        return int(code), written.out + written.err

    return call


def test_the_commands_of_the_page_run(lapwing: Lapwing, tmp_path: Path) -> None:
    lines = [line for block in shown("sh") for line in block.strip().splitlines()]
    assert len(lines) >= 7
    for line in lines:
        code, said = lapwing(*line.removeprefix("lapwing ").split())
        assert code == 0, f"{line}\n{said}"
    for secret in (tmp_path / "ann.token", tmp_path / ".lapwing" / "steward.token"):
        assert secret.read_text().startswith("lw_")
        assert secret.stat().st_mode & 0o077 == 0


def test_the_settings_of_the_page_are_accepted(tmp_path: Path) -> None:
    (block,) = shown("toml")
    settings = read_serve(tomllib.loads(block)["serve"], tmp_path)
    assert (settings.port, settings.workers) == (8470, 2)


def test_a_ledger_from_a_backup_is_refused_once_charges_are_missing(lapwing: Lapwing, tmp_path: Path) -> None:
    """ledger:B12 gate:G37"""
    ledger, backup = tmp_path / ".lapwing" / "ledger.db", tmp_path / "backup.db"

    def restore() -> None:
        for file in ledger.parent.glob("ledger.db*"):
            file.unlink()
        shutil.copy(backup, ledger)

    assert lapwing("serve", "--check")[0] == 0
    with closing(sqlite3.connect(ledger)) as source, closing(sqlite3.connect(backup)) as copy:
        source.backup(copy)
    restore()
    assert lapwing("serve", "--check")[0] == 0  # nothing is missing
    assert lapwing("ask", "SELECT COUNT(*) AS n FROM visits", "--epsilon", "0.1")[0] == 0
    restore()
    code, said = lapwing("serve", "--check")
    assert code != 0
    assert "would be spent again" in said
    assert "Nothing is served" in said
    for file in ledger.parent.glob("ledger.db*"):
        file.unlink()
    assert lapwing("serve", "--check")[0] != 0  # the witness misses it


def test_health_is_told_by_an_exit_code(tmp_path: Path) -> None:
    check = [sys.executable, str(DEPLOY / "healthy.py"), str(tmp_path / "lapwing.toml")]
    with running(tmp_path):
        assert subprocess.run(check, check=False).returncode == 0
    assert subprocess.run(check, check=False).returncode == 1


def instructions() -> list[tuple[str, str]]:
    """The instructions of the container file, without comments."""
    text = re.sub(r"\\\n", " ", (DEPLOY / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in lines]


def test_the_container_file_names_files_that_exist_and_a_user_without_rights() -> None:
    found = instructions()
    known = {"FROM", "COPY", "RUN", "ENV", "USER", "WORKDIR", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"}
    assert {name for name, _ in found} <= known
    assert found[0][0] == "FROM"
    assert all("latest" not in said and ":" in said for name, said in found if name == "FROM")
    copied = [word for name, said in found if name == "COPY" and "--from" not in said for word in said.split()[:-1]]
    assert copied
    assert all((ROOT / word).exists() for word in copied if not word.startswith("--"))
    users = [said for name, said in found if name == "USER"]
    assert users == ["10001"]
    assert "server" in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert not any(re.search(r"lw_|password|secret", said, re.IGNORECASE) for _, said in found)


def test_the_unit_is_valid_and_closed() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(DEPLOY / "lapwing.service")
    service = unit["Service"]
    assert service["LimitCORE"] == "0"
    assert service["NoNewPrivileges"] == "yes"
    assert service["ProtectSystem"] == "strict"
    assert service["UMask"] == "0077"
    assert service["CapabilityBoundingSet"] == ""
    assert service["ExecStart"].split()[1:] == ["serve", "--file", "/srv/lapwing/lapwing.toml"]


def test_systemd_reads_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd is not here")
    program = tmp_path / "lapwing"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    text = (DEPLOY / "lapwing.service").read_text().replace("/opt/lapwing/bin/lapwing", str(program))
    (tmp_path / "lapwing.service").write_text(text)
    environment = {**os.environ, "SYSTEMD_LOG_LEVEL": "warning"}
    said = subprocess.run(
        [analyze, "verify", "--man=no", str(tmp_path / "lapwing.service")],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    about = [line for line in said.stderr.splitlines() if "lapwing.service" in line]
    assert about == []


@pytest.mark.slow
def test_what_the_container_does_works_in_an_empty_environment(tmp_path: Path) -> None:
    """The commands of the container file, with an environment in place of an image."""
    venv.create(tmp_path / "opt", with_pip=True)
    python = tmp_path / "opt" / "bin" / "python"
    install = next(said for name, said in instructions() if name == "RUN" and "pip install" in said)
    wanted = re.search(r'"/build(\[[\w,]+\])"', install)
    assert wanted is not None
    subprocess.run([python, "-m", "pip", "install", "-q", f"{ROOT}{wanted[1]}"], check=True)
    write_settings(tmp_path / "srv", answer_time=2)  # the real program takes no less than a second
    program = tmp_path / "opt" / "bin" / "lapwing"
    done = subprocess.run(
        [program, "serve", "--check", "--file", str(tmp_path / "srv" / "lapwing.toml")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "srv" / ".lapwing" / "steward.token").exists()
