"""Docs are made of code that runs: the page of mechanisms, its figures, and the gallery."""

from __future__ import annotations

import re
import runpy
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

import lapwing

DOCS = Path(__file__).parents[1] / "docs"
MAKER = runpy.run_path(str(DOCS / "make_mechanisms.py"))
GALLERY = sorted((DOCS / "gallery").glob("*.py"))
PAGES = sorted([*DOCS.parent.glob("*.md"), *DOCS.rglob("*.md")])


def test_pages_of_mechanisms_are_what_the_docstrings_say() -> None:
    """Run `python docs/make_mechanisms.py` if this fails."""
    there = {path.name: path.read_text(encoding="utf-8") for path in (DOCS / "mechanisms").glob("*.md")}
    assert there == MAKER["pages"]()


def test_the_readme_counts_the_mechanisms() -> None:
    assert f"{len(MAKER['described']())} mechanisms with guarantee" in (DOCS.parent / "README.md").read_text()


@pytest.mark.parametrize("mechanism", MAKER["described"](), ids=lambda cls: cls.__name__)
def test_every_mechanism_says_when_to_use_it_and_states_a_true_figure(mechanism: Any) -> None:
    parts = MAKER["sections"](mechanism.__doc__)
    assert {"Use", "Law", "Guarantee", "Error", "Proof", "Figure", "Checked by"} <= parts.keys()
    named = re.findall(r"tests/[\w/]+\.py", parts["Checked by"])
    texts = [(DOCS.parent / path).read_text(encoding="utf-8") for path in named]
    assert any(re.search(rf"\b{mechanism.__name__}\b", text) for text in texts), "no test that it names is about it"
    figures = MAKER["figures"](mechanism)
    assert figures
    for _, stated, value in figures:
        assert value == stated


def test_names_of_the_package_exist_where_a_page_says() -> None:
    named = {name for page in PAGES for name in re.findall(r"\blw((?:\.\w+)+)", page.read_text(encoding="utf-8"))}
    assert {".Laplace", ".mechanisms.TopK", ".privacy.PrivacyLoss", ".classroom.refute"} <= named
    for name in named:
        assert reduce(getattr, name.split(".")[1:], lapwing) is not None


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
