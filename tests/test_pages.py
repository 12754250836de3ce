"""The pages under docs/: every block runs and prints what the page shows, every page is reachable."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path

import pytest

from lapwing.curator import settings
from lapwing.lab.course import LECTURES

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
ELSEWHERE = {  # pages whose code another test runs
    "asking-a-server.md": "tests/client/test_page.py",
    "deploying.md": "tests/server/test_deploying.py",
    "sql.md": "tests/test_docs_sql.py",
    "warehouse-spark.md": "tests/engines/test_spark.py",
    **{f"course/{page}": "tests/e2e/test_course.py" for page in LECTURES.values()},
}
BELOW = {  # pages without an entry in the navigation, and the page that links to them
    "local-sensitivity.md": "errata.md",
    "mutants.md": "architecture.md",
    "nist.md": "guarantees.md",
    "pictures.md": "lectures.md",
    "shared-ledger.md": "deploying.md",
    "types.md": "toml.md",
}
MAKER = runpy.run_path(str(DOCS / "make_outputs.py"))
FENCED = re.compile(r"^```[a-z]*\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", MAKER["pages"](), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_code_of_a_page_prints_what_the_page_shows(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run `python docs/make_outputs.py PAGE` if this fails, and read whether the words around it still hold."""
    monkeypatch.setenv("COLUMNS", str(MAKER["COLUMNS"]))
    text = page.read_text(encoding="utf-8")
    assert MAKER["filled"](text) == text


def test_a_page_that_lies_is_caught() -> None:
    true = "```python\nprint(1)\n```\n```text\n1\n```\n"
    assert MAKER["filled"](true) == true
    assert MAKER["filled"](true.replace("text\n1", "text\n2")) == true


def test_every_page_with_code_is_run() -> None:
    run = {page.relative_to(DOCS).as_posix() for page in MAKER["pages"]() if page.is_relative_to(DOCS)}
    there = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md") if "```python\n" in page.read_text()}
    assert {name for name in there - run - ELSEWHERE.keys() if not name.startswith("mechanisms/")} == set()


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))], ids=lambda page: page.stem)
def test_code_fits_88_columns(page: Path) -> None:
    """What the site shows at 1,280 pixels: docs/style.css."""
    blocks = FENCED.findall(page.read_text(encoding="utf-8"))
    assert [line for block in blocks for line in block.splitlines() if len(line) > MAKER["COLUMNS"]] == []


def test_every_page_is_in_the_navigation_or_linked_from_one_that_is() -> None:
    """Pages of single mechanisms from their index, a few others from the page on their topic."""
    listed = set(re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), flags=re.MULTILINE))
    there = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert listed <= there
    single = {name for name in there - listed if name.startswith("mechanisms/")}
    assert there - listed == single | BELOW.keys()
    index = (DOCS / "mechanisms" / "index.md").read_text()
    assert {f"mechanisms/{name}" for name in re.findall(r"\((\w+\.md)\)", index)} == single
    assert {name for name, above in BELOW.items() if f"({name})" not in (DOCS / above).read_text()} == set()
    assert set(BELOW.values()) <= listed


def test_the_page_of_settings_lists_every_setting() -> None:
    page = (DOCS / "toml.md").read_text()
    known = settings._TOP | settings._BUDGET | settings._TABLE | settings._PUBLIC | settings._COLUMN
    assert [name for name in sorted(known - {"budget", "tables", "public"}) if f"`{name}`" not in page] == ["columns"]
    example = tomllib.loads(re.findall(r"^```toml\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)[0])
    assert example.keys() <= settings._TOP
    assert example["tables"]["visits"].keys() <= settings._TABLE


def test_pages_of_other_tests_have_them() -> None:
    assert [name for name, test in ELSEWHERE.items() if not (DOCS / name).exists() or not (ROOT / test).exists()] == []
