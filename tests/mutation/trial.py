"""Runs tests in a copy of the tree in which one file was changed."""

from __future__ import annotations

import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "lapwing"


class OutOfTime(Exception):
    """The tests did not end in time."""


def first_failure(
    file: str, text: str, tests: Sequence[str], *, limit: float, each: int = 600, but: Sequence[str] = ()
) -> str | None:
    """What pytest says of the first test that fails when the file of the package holds this text, or nothing.

    Tests run in the order given, without those in `but`. `limit` is the time of all of them in seconds, `each` that of
    one.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "tree"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "__pycache__"))
        (copy / "src" / "lapwing" / file).write_text(text, encoding="utf-8")
        code, output = _ran(copy, [*tests, *(f"--deselect={one}" for one in but)], limit, each)
    if code == 0:
        return None
    lines = [line for line in output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return lines[0] if lines else f"ERROR pytest ended with {code}"


def failed_test(failure: str) -> str:
    """The test that pytest says has failed."""
    return failure.split(" - ")[0].split(" ", 1)[1]


@functools.cache
def passes_unchanged(test: str) -> bool:
    """Whether it is the mutant that the test noticed."""
    if not test.startswith("tests/"):
        return True
    text = (PACKAGE / "__init__.py").read_text(encoding="utf-8")
    return first_failure("__init__.py", text, [test.split("[")[0]], limit=600) is None


def _ran(folder: Path, tests: Sequence[str], limit: float, each: int) -> tuple[int, str]:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", "--tb=no"]
    command += ["-m", "not slow", f"--timeout={each}", *tests]
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    run = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        output, _ = run.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        raise OutOfTime from None
    finally:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
            run.communicate()
    return run.returncode, output
