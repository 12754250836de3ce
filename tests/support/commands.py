"""Commands of `lapwing` in this process: to start one in a process of its own takes a second."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass

import pytest

from lapwing.cli import main as program


@dataclass(frozen=True)
class Done:
    """How a command ended, by the names that subprocess.run has for it."""

    returncode: int
    stdout: str
    stderr: str


def lapwing(*words: str) -> Done:
    """Runs `lapwing ...` in the working folder."""
    out, told = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(told):
        patch.setattr(sys, "argv", ["lapwing", *words])
        try:
            program.run()
            code = 0
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    return Done(code, out.getvalue(), told.getvalue())
