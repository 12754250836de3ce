"""The figures in the words of the steward's guide are those its code prints (tests/test_pages.py runs it)."""

from __future__ import annotations

from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_figures_in_the_words_of_the_guide_are_those_it_prints() -> None:
    page = (DOCS / "stewards-guide.md").read_text(encoding="utf-8")
    assert "2000: AVG(spending) within 18.8" in page
    assert "within 19 dollars" in page
    assert "40000: AVG(spending) within 376" in page
    assert "within 376 dollars" in page
