"""The steward's guide is code that runs, and prints what the page says it prints."""

from __future__ import annotations

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
MAKER = runpy.run_path(str(DOCS / "make_guide.py"))


def test_guide_prints_what_it_says() -> None:
    """Run `python docs/make_guide.py` if this fails, and read whether the words around the figures still hold."""
    page = (DOCS / "stewards-guide.md").read_text(encoding="utf-8")
    assert page.count("```text") >= 8
    assert MAKER["filled"](page) == page


def test_guide_that_lies_is_caught() -> None:
    true = "```python\nprint(1)\n```\n```text\n1\n```\n"
    assert MAKER["filled"](true) == true
    assert MAKER["filled"](true.replace("text\n1", "text\n2")) == true


def test_figures_in_the_words_of_the_guide_are_those_it_prints() -> None:
    page = (DOCS / "stewards-guide.md").read_text(encoding="utf-8")
    assert "2000: AVG(spending) within 18.8" in page
    assert "within 19 dollars" in page
    assert "40000: AVG(spending) within 376" in page
    assert "within 376 dollars" in page
