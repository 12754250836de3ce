"""The page about asking a server: its Python runs against a real one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from lapwing.client.transport import TOKEN
from support.service import running

PAGE = Path(__file__).parents[2] / "docs" / "asking-a-server.md"


def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert len(blocks) == 3
    with running(tmp_path) as service:
        monkeypatch.setenv(TOKEN, service.token)
        for text in blocks:
            exec(compile(text.replace("https://lapwing.example.org", service.url), PAGE.name, "exec"), names)
        assert names["answer"].cost == names["price"].cost
        assert list(names["frame"]["sex"]) == ["F", "M"]
        names["hospital"].close()
