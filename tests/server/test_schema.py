"""What the OpenAPI description says is what the server does: schemathesis tries it, following the links between calls.

A question that is well-formed JSON may still be refused, with a documented 422: that check is left out.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from support import needs
from support.service import running


def tried(folder: Path, examples: int) -> tuple[int, str, str]:
    """Exit code and report of schemathesis, and the server's log."""
    if find_spec("schemathesis") is None:
        needs.missing("schemathesis", "python3-schemathesis")
    with running(folder, answer_time=0.01) as service:
        token = service.new_token("tester", "steward")
        command = [
            *(sys.executable, "-m", "schemathesis.cli", "run", f"{service.url}/v1/openapi.json"),
            *("--header", f"Authorization: Bearer {token}", "--max-examples", str(examples), "--seed", "1"),
            *("--checks", "all", "--exclude-checks", "positive_data_acceptance", "--no-color"),
            *("--phases", "examples,coverage,fuzzing,stateful", "--request-timeout", "60"),
        ]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr, service.log


def check(folder: Path, examples: int) -> None:
    code, said, log = tried(folder, examples)
    assert code == 0, said[-8000:]
    assert "Tested: 13" in said
    assert "✅ Stateful" in said
    assert '"code": "bug"' not in log
    assert "Traceback" not in log


def test_the_server_does_what_its_description_says(tmp_path: Path) -> None:
    check(tmp_path, examples=2)


@pytest.mark.slow
def test_the_server_does_what_its_description_says_for_many_requests(tmp_path: Path) -> None:
    check(tmp_path, examples=100)
