"""The pages under docs/: every Python block runs, every command of a tutorial runs, every page is reachable."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lapwing.curator import settings
from lapwing.lab.course import LECTURES

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
ELSEWHERE = {  # pages whose code another test runs
    "asking-a-server.md": "tests/client/test_page.py",
    "deploying.md": "tests/server/test_deploying.py",
    "collect.md": "tests/e2e/test_two_coins.py",
    "stewards-guide.md": "tests/e2e/test_stewards_guide.py",
    "sql.md": "tests/test_docs_sql.py",
    "warehouse-spark.md": "tests/engines/test_spark.py",
    **{f"course/{page}": "tests/e2e/test_course.py" for page in LECTURES.values()},
}
PAGES = sorted(page for page in DOCS.rglob("*.md") if page.relative_to(DOCS).as_posix() not in ELSEWHERE)
WITH_CODE = [page for page in PAGES if re.search(r"^```(python|sh)\n", page.read_text(), flags=re.MULTILINE)]


def blocks(page: str) -> Iterator[tuple[str, str]]:
    """The kind and the text of each block that runs, in order."""
    for found in re.finditer(r"^```(python|sh)\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE):
        yield found.group(1), found.group(2)


def run_commands(text: str, folder: Path) -> str:
    """What the lines of a shell block print; each must succeed."""
    printed = []
    for line in text.strip().splitlines():
        command = line.replace("lapwing ", f"{sys.executable} -m lapwing ", 1)
        done = subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        printed.append(done.stdout)
    return "".join(printed)


@pytest.mark.filterwarnings("error::lapwing.errors.TemporaryBudget")  # every page says where a budget is kept
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": page.stem}
    for kind, text in blocks(page.read_text()):
        if kind == "sh":
            assert run_commands(text, tmp_path)
        else:
            exec(compile(text, page.name, "exec"), names)
    assert names.keys() > {"__name__"}


def test_every_page_is_in_the_navigation() -> None:
    """But the pages of single mechanisms, which their index lists."""
    listed = set(re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), flags=re.MULTILINE))
    there = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert listed <= there
    single = {name for name in there - listed if name.startswith("mechanisms/")}
    assert there - listed == single
    index = (DOCS / "mechanisms" / "index.md").read_text()
    assert {f"mechanisms/{name}" for name in re.findall(r"\((\w+\.md)\)", index)} == single


def test_the_page_of_settings_lists_every_setting() -> None:
    page = (DOCS / "toml.md").read_text()
    known = settings._TOP | settings._BUDGET | settings._TABLE | settings._PUBLIC | settings._COLUMN
    assert [name for name in sorted(known - {"budget", "tables", "public"}) if f"`{name}`" not in page] == ["columns"]
    example = tomllib.loads(re.findall(r"^```toml\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)[0])
    assert example.keys() <= settings._TOP
    assert example["tables"]["visits"].keys() <= settings._TABLE


def test_pages_of_other_tests_have_them() -> None:
    assert [name for name, test in ELSEWHERE.items() if not (DOCS / name).exists() or not (ROOT / test).exists()] == []
