"""A spinner and the seconds: only on a terminal, only after a while, and nothing that depends on the data."""

from __future__ import annotations

import io
import re
import sys
import time

import pytest

from lapwing.cli import progress
from lapwing.cli.progress import waiting


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def make_screen(monkeypatch: pytest.MonkeyPatch, patience: float = 0.0) -> Screen:
    """In place of the terminal, from within the test: between set-up and test pytest puts its own there."""
    made = Screen()
    monkeypatch.setattr(progress, "PATIENCE", patience)
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setenv("TERM", "xterm")
    return made


def test_a_long_question_shows_words_and_time_and_no_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """How far the engine is depends on how much it found."""
    screen, end = make_screen(monkeypatch), time.monotonic() + 60
    with waiting("reading the rows"):
        while "reading the rows" not in screen.getvalue() and time.monotonic() < end:
            time.sleep(0.01)
    shown = screen.getvalue()
    assert re.search(r"reading the rows\S* .*0:00:0", shown)
    assert "%" not in shown


def test_a_short_question_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = make_screen(monkeypatch, patience=60)
    with waiting("reading the rows"):
        pass
    assert screen.getvalue() == ""


def test_nothing_is_shown_where_there_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    with waiting("reading the rows"):
        time.sleep(0.05)
    assert capsys.readouterr().err == ""


def test_an_error_goes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = make_screen(monkeypatch)
    with pytest.raises(KeyboardInterrupt), waiting("reading the rows"):
        raise KeyboardInterrupt
    assert "Traceback" not in screen.getvalue()
