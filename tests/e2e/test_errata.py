"""docs/errata.md: every slip of the notes is shown by code that prints what the page says."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "errata.md").read_text(encoding="utf-8")
wrapped = runpy.run_path(str(DOCS / "make_outputs.py"))["wrapped"]  # at 88 columns
SECTIONS = re.split(r"(?m)^## ", PAGE)[1:]
WITHOUT_CODE = ("17. Netflix",)


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.split("\n")[0])
def test_a_slip_is_shown_by_code(section: str, capsys: pytest.CaptureFixture[str]) -> None:
    """lecture:L4 lecture:L7 lecture:L10 lecture:L12 lecture:L13 lecture:L15
    lecture:L16 lecture:L18 lecture:L20 lecture:L21"""
    shown = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", section, flags=re.DOTALL)
    assert len(shown) == (0 if section.startswith(WITHOUT_CODE) else 1)
    for code, output in shown:
        exec(compile(code, "docs/errata.md", "exec"), {})
        assert wrapped(capsys.readouterr().out) == output


def test_slips_are_numbered_and_all_there() -> None:
    assert [int(section.split(".")[0]) for section in SECTIONS] == list(range(1, 20))
