"""What the OpenAPI description says is what the server does: schemathesis tries it, following the links between calls.

A question that is well-formed JSON may still be refused, with a documented 422: that check is left out.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from lapwing.server.problems import MEDIA_TYPE
from support import needs
from support.service import running
from support.serving import COUNT, Asked


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


def test_a_client_that_is_written_by_a_program_has_one_class_for_all_problems(asked: Asked) -> None:
    """And for all answers: what is described in place would become a class for every status of every address."""
    described = asked.call("GET", "/v1/openapi.json").json()
    found = Counter(
        (content, name, str(about["schema"]))
        for operations in described["paths"].values()
        for operation in operations.values()
        for response in operation["responses"].values()
        for content, about in response.get("content", {}).items()
        for name in about["schema"]
    )
    named = described["components"]["schemas"]
    assert all(name in ("$ref", "type") or about == "{}" for _, name, about in found)
    assert {about for content, _, about in found if content == MEDIA_TYPE} == {
        "{'$ref': '#/components/schemas/Problem'}"
    }
    assert {"Answer", "Previewed", "Verified", "Releases", "Amounts"} <= set(named)


def test_problems_and_answers_are_as_they_are_described(asked: Asked) -> None:
    jsonschema = pytest.importorskip("jsonschema")  # schemathesis brings it
    described = asked.call("GET", "/v1/openapi.json").json()

    def fits(content: Any, name: str) -> bool:
        rule = {"$ref": f"#/components/schemas/{name}", "components": described["components"]}
        return bool(jsonschema.Draft202012Validator(rule).is_valid(content))

    refused = [
        asked.call("GET", "/v1/ledger"),
        asked.call("GET", "/v1/nothing"),
        asked.call("PUT", "/v1/ask"),
        asked.call("POST", "/v1/ask", content=b"x"),
        asked.ask({"sql": "SELECT * FROM visits", "epsilon": "0.1"}),
        asked.ask({"sql": "SELECT COUNT(*) AS n FROM visits", "epsilon": "1000"}),
        asked.ask({"question": "SELECT"}),
    ]
    assert [answer.status_code for answer in refused] == [403, 404, 405, 415, 422, 409, 422]
    for answer in refused:
        assert answer.headers["content-type"] == MEDIA_TYPE
        assert answer.json()["status"] == answer.status_code
        assert fits(answer.json(), "Problem")
        assert asked.call("GET", answer.json()["type"]).status_code == 200
    assert not fits({**refused[0].json(), "charged": 1}, "Problem")
    assert fits(asked.ask(COUNT).json(), "Answer")
    assert fits(asked.ask(COUNT, "/v1/preview").json(), "Previewed")
