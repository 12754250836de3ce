"""Docs are made of code that runs: the page of mechanisms, its figures, and the gallery."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[1] / "docs"
MAKER = runpy.run_path(str(DOCS / "make_mechanisms.py"))
GALLERY = sorted((DOCS / "gallery").glob("*.py"))


def test_page_of_mechanisms_is_what_the_docstrings_say() -> None:
    """Run `python docs/make_mechanisms.py` if this fails."""
    assert (DOCS / "mechanisms.md").read_text(encoding="utf-8") == MAKER["page"]()


@pytest.mark.parametrize("mechanism", MAKER["described"](), ids=lambda cls: cls.__name__)
def test_every_mechanism_says_when_to_use_it_and_states_a_true_figure(mechanism: Any) -> None:
    parts = MAKER["sections"](mechanism.__doc__)
    assert {"Use", "Law", "Guarantee", "Error", "Proof", "Figure", "Checked by"} <= parts.keys()
    figures = MAKER["figures"](mechanism)
    assert figures
    for _, stated, value in figures:
        assert value == stated


@pytest.mark.slow
@pytest.mark.parametrize("script", GALLERY, ids=lambda path: path.stem)
def test_gallery_pictures_can_be_drawn_again(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in (DOCS / "pictures").glob("*.png")}
    try:
        picture = runpy.run_path(str(script))["main"]()
        assert Path(picture).stat().st_size > 10_000
        assert capsys.readouterr().out.strip()
    finally:
        for path, content in before.items():
            path.write_bytes(content)
