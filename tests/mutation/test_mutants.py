"""The list of deliberate mistakes keeps up with the code."""

from __future__ import annotations

import ast
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import results
import run
from mutants import MUTANTS, Mutant
from results import PAGE, Result, page
from syntax import Mistake, NoMistake, Sources

ROOT = Path(__file__).parents[2]


def fault(mutant: Mutant) -> str | None:
    """Why it cannot be tried."""
    try:
        mutant.mistake.applied()
    except (NoMistake, SyntaxError) as error:
        return f"{mutant.name}: {error}"
    missing = [path for path in mutant.tests if not (ROOT / path).exists()]
    return f"{mutant.name}: there is no {', '.join(missing)}" if missing or not mutant.tests else None


def test_each_mutant_changes_code_that_is_there_once() -> None:
    """gate:G56 run.py tries them; here only that they can be tried."""
    assert [found for mutant in MUTANTS if (found := fault(mutant))] == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"where": "PureFamily.nothing"}, "`PureFamily.nothing` is not defined"),
        ({"before": "groups / sensitivity"}, "`PureFamily.additive` lacks this code"),
        ({"where": "PureFamily", "before": "self.loss.epsilon"}, "has this code"),
        ({"after": "(groups  *  sensitivity)"}, "is the same program"),
        ({"after": "return 1 +"}, "invalid syntax"),
        ({"tests": ("tests/nowhere.py",)}, "there is no tests/nowhere.py"),
    ],
)
def test_a_mutant_that_cannot_be_tried_is_named(change: dict[str, str], said: str) -> None:
    (good,) = [mutant for mutant in MUTANTS if mutant.name == "halve the scale of Laplace"]
    assert fault(good) is None
    found = fault(replace(good, **change))  # type: ignore[arg-type]
    assert found is not None
    assert found.startswith("halve the scale of Laplace: ")
    assert said in found


def test_names_are_different() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


TEXT = '''
class Price:
    """Half of (a + b)."""

    def cost(self, a, b):
        # the sum
        if a > b:
            self.check(
                a,
            )
            return a
        return f"{a + b:>3} of {b}" "; SELECT 1"


TABLE = {"one": "LIMIT 1"}
'''


@pytest.mark.parametrize(
    ("where", "before", "after", "line"),
    [
        ("Price.cost", "a>b", "a >= b", "        if (a >= b):"),
        ("Price.cost", "self.check(a)", "pass", "            pass"),
        ("Price.cost", "self.check(a)\nreturn a", "return b\n", "            return b"),
        ("Price.cost", "'SELECT 1'", "'SELECT 2'", "        return (f'{a + b:>3} of {b}; SELECT 2')"),
        ("Price.cost", "f'of {b}'", "'of'", "        return (f'{a + b:>3} of; SELECT 1')"),
        ("Price.cost", "a + b", "a - b", "        return (f'{a - b:>3} of {b}; SELECT 1')"),
        ("TABLE", "'LIMIT'", "'OFFSET'", "TABLE = {\"one\": ('OFFSET 1')}"),
    ],
)
def test_code_is_found_by_its_syntax_in_whichever_file_it_is(where: str, before: str, after: str, line: str) -> None:
    mistake = Mistake(where, before, after)
    file, text = mistake.applied(Sources({"a.py": TEXT, "b.py": "x = 1\n"}))
    assert file == "a.py"
    assert line in text.splitlines()
    moved = Sources({"a.py": "x = 1\n", "c/b.py": f"import os\n{ast.unparse(ast.parse(TEXT))}\n"})
    file, again = mistake.applied(moved)
    assert file == "c/b.py"
    assert ast.dump(ast.parse(again)) == ast.dump(ast.parse(f"import os\n{text}"))


def test_code_that_is_there_twice_is_refused_with_its_places() -> None:
    twice = Sources({"a.py": TEXT, "b.py": TEXT})
    with pytest.raises(NoMistake, match=r"2 times \(a\.py:7, b\.py:7\): a > b"):
        Mistake("Price.cost", "a > b", "a < b").applied(twice)


def test_the_page_is_what_the_results_say() -> None:
    """Run `python tests/mutation/run.py` on the new ones, or `... --list`, if this fails."""
    text, kept = PAGE.read_text(encoding="utf-8"), results.read()
    assert text == page(text, kept)
    assert kept.keys() <= {mutant.name for mutant in MUTANTS}
    assert f"The list has {len(MUTANTS)} mutants." in text
    assert all(mutant.name in text for mutant in MUTANTS)


def test_a_partial_run_changes_its_own_rows_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, path in {"PAGE": PAGE, "KEPT": results.KEPT}.items():
        (tmp_path / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
        monkeypatch.setattr(results, name, tmp_path / path.name)
    before = results.PAGE.read_text(encoding="utf-8").splitlines()
    first = MUTANTS[0]
    results.keep({first.name: Result(first.mark, "2030-01-01", None)})
    after = results.PAGE.read_text(encoding="utf-8").splitlines()
    (row,) = [line for line in after if line.startswith(f"| {first.name} |")]
    assert row.endswith(" | **survived** | 2030-01-01 |")
    others = [line for line in before if line.startswith("| ") and first.name not in line]
    assert [line for line in after if line.startswith("| ") and first.name not in line] == others


def test_a_mutant_that_has_changed_counts_as_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    first = MUTANTS[0]
    kept = {first.name: Result(first.mark, "2030-01-01", "tests/a.py::test_a")}
    assert "1 have been tried as they are; 1 were noticed." in page("", kept)
    assert f"Changed since they were tried (1): {first.name}." in page(
        "", {first.name: replace(kept[first.name], mistake="x")}
    )
    monkeypatch.setattr(results, "read", lambda: kept)
    assert run.chosen_by(["--changed"]) == list(MUTANTS[1:])
    assert run.chosen_by(["--list"]) == []
    assert replace(first, before=f"( {first.before}\n)").mark == first.mark
