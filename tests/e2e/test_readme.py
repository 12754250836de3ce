"""The README can be read in a minute, and its code runs as it is printed (tests/test_pages.py compares the output)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.filterwarnings("error::lapwing.errors.TemporaryBudget")
def test_readme_code_runs(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the noise of the system, not of a fixed stream."""
    monkeypatch.chdir(tmp_path)  # it keeps a ledger
    for block in BLOCKS:
        exec(compile(block, "README.md", "exec"), {})
    assert "people interval" in capsys.readouterr().out


def test_readme_takes_a_minute() -> None:
    prose = re.sub(r"```.*?```", "", README, flags=re.DOTALL)
    assert len(re.sub(r"\]\([^)]*\)", "]", prose).split()) < 260
    assert [len(block.splitlines()) for block in BLOCKS] == [5]
    assert README.count("![") == 1
    assert re.findall(r"^make (\w+)", README, flags=re.MULTILINE) == ["demo", "test"]
