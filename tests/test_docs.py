"""Docs are made of code that runs: the page of mechanisms, its figures, and the gallery."""

from __future__ import annotations

import math
import re
import runpy
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from matplotlib import image

import lapwing

DOCS = Path(__file__).parents[1] / "docs"
MAKER = runpy.run_path(str(DOCS / "make_mechanisms.py"))
SITE = runpy.run_path(str(DOCS / "check_site.py"))
GALLERY = sorted((DOCS / "gallery").glob("*.py"))
PICTURES = sorted(
    p for folder in (DOCS, DOCS.parent / "src") for kind in ("png", "svg") for p in folder.rglob(f"*.{kind}")
)
PAGES = sorted([*DOCS.parent.glob("*.md"), *DOCS.rglob("*.md")])


def test_pages_of_mechanisms_are_what_the_docstrings_say() -> None:
    """Run `python docs/make_mechanisms.py` if this fails."""
    there = {path.name: path.read_text(encoding="utf-8") for path in (DOCS / "mechanisms").glob("*.md")}
    assert there == MAKER["pages"]()


def test_the_readme_counts_the_mechanisms() -> None:
    assert f"[{len(MAKER['described']())} mechanisms]" in (DOCS.parent / "README.md").read_text()


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
def test_gallery_pictures_can_be_drawn_again(script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In another folder: those of the pages are never written by a test."""
    names = runpy.run_path(str(script))
    drawn = names["main"].__globals__
    drawn |= {"PICTURES": tmp_path} if "PICTURES" in names else {"PICTURE": tmp_path / names["PICTURE"].name}
    picture = Path(names["main"]())
    assert picture.parent == tmp_path
    assert capsys.readouterr().out.strip()
    for path in tmp_path.iterdir():
        assert path.stat().st_size > 10_000
        assert SITE["damage"](path) is None
        assert (DOCS / "pictures" / path.name).exists()


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.name)
def test_every_picture_of_the_repository_is_whole(picture: Path) -> None:
    """To the last pixel: a damaged one is a grey bar, or nothing at all."""
    assert SITE["damage"](picture) is None
    assert picture.suffix == ".svg" or image.imread(picture).size > 0


@pytest.mark.parametrize("way", ["cut", "flipped", "empty", "pixels"])
def test_a_damaged_picture_is_found(way: str, tmp_path: Path) -> None:
    content = (DOCS / "pictures" / "odds.png").read_bytes()
    middle = len(content) // 2
    broken = {
        "cut": content[:middle],
        "flipped": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
        "empty": b"",
        "pixels": content[:20] + bytes([0, 0, 255, 255]) + content[24:],
    }
    (tmp_path / "odds.png").write_bytes(broken[way])
    assert SITE["damage"](tmp_path / "odds.png")


def test_the_site_check_reads_every_asset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, content in {"a.svg": "<svg>", "b.json": "{", "c.js": "", "d.txt": "whole", "e.svg": "<svg/>"}.items():
        (tmp_path / name).write_text(content)
    monkeypatch.setitem(SITE["main"].__globals__, "SITE", tmp_path)
    assert SITE["main"]() == 1
    printed = capsys.readouterr().out.splitlines()
    assert [line.split(" is damaged")[0] for line in printed[:-1]] == ["a.svg", "b.json", "c.js"]
    assert printed[-1] == "0 pages, 5 files, 3 faults"


def test_the_benchmark_of_collecting_calls_lacking_only_what_a_peer_lacks() -> None:
    """multi-freq-ldpy has local hashing (LH) and subset selection (SS); pure-ldp has no subset selection."""
    bench = runpy.run_path(str(DOCS.parent / "benchmarks" / "collect.py"))
    head, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in bench["RESULTS"].read_text(encoding="utf-8").split("\n\n")[2].splitlines()
        if not line.startswith("|---")
    ]
    lacking = {(head[i], row[0]) for row in rows for i, cell in enumerate(row) if cell == "not offered"}
    assert lacking == bench["LACKING"] == {("pure-ldp", "subset selection")}
    assert [row[0] for row in rows] == [kind.kind for kind in bench["KINDS"]]
    assert bench["cell"]({}, False) == "not measured"


def test_the_page_on_epsilon_promises_what_the_promise_says() -> None:
    """e^epsilon for being in the data, e^(2 epsilon) for what the record says; its table is computed."""
    first, promise = (
        " ".join((DOCS / page).read_text(encoding="utf-8").split()) for page in ("which-epsilon.md", "promise.md")
    )
    for page in (first, promise):
        assert "odds that the person is in the data change by at most a factor of e^epsilon" in page
        assert re.search(
            r"odds of what the record says, given that the person is in( the data)?,.{0,10} by at most e\^\(2", page
        )
    assert "odds of anything" not in first
    rows = re.findall(r"\| ([\d.]+)(?: and more)? \| ([\d.,]+)(?: and more)? \|", first)
    assert len(rows) == 5
    for epsilon, factor in rows:
        digits = len(factor.partition(".")[2])
        assert f"{math.exp(float(epsilon)):,.{digits}f}" == factor
