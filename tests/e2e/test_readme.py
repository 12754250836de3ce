"""The README's code runs as it is printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def python_blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)


@pytest.mark.filterwarnings("error::lapwing.errors.TemporaryBudget")
def test_readme_code_runs(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # it keeps a ledger
    blocks = python_blocks("README.md")
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    for words in (
        "within 30",
        "\nEmma\n",
        "Nothing was charged and no data were read.",
        "\nepsilon = 0\n",
        "95% intervals",
    ):
        assert words in printed
