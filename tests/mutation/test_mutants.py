"""The list of deliberate mistakes keeps up with the code."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from mutants import MUTANTS, Mutant
from run import PAGE, rows_of, updated

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_each_mutant_changes_one_line_that_is_there(mutant: Mutant) -> None:
    """gate:G56 run.py tries them; here only that they can be tried."""
    text = (ROOT / "src" / "lapwing" / mutant.file).read_text(encoding="utf-8")
    assert mutant.applied(text) != text
    assert all((ROOT / path).exists() for path in mutant.tests)


def test_names_are_different() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_the_page_counts_the_mutants_of_the_list() -> None:
    """Run `python tests/mutation/run.py` on the new ones, or `... --list`, if this fails."""
    page = PAGE.read_text(encoding="utf-8")
    assert page == updated(page, [])
    tried = rows_of(page).keys() & {mutant.name for mutant in MUTANTS}
    assert f"Of {len(MUTANTS)} mutants {len(tried)} have been tried" in page
    assert all(mutant.name in page for mutant in MUTANTS)
