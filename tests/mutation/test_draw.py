"""Mutants are drawn as docs/mutants.md says: by seed and source alone, and tried by the nearest tests first."""

from __future__ import annotations

import ast
import itertools
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import draw
import equivalent
from changes import changes
from draw import ROOT, Drawn, Verdict, drawn, files, nearest, report
from results import MARK, PAGE
from syntax import Mistake

PLANTED = '''"""Doc."""

from lapwing import errors

__all__ = ["f"]
é = "é"


def f(x: int, y: int = 3, *, flat: bool = True) -> int:
    """Not 1 + 1."""
    if not x < y and flat:
        raise ValueError(1 + 1)
    return min(x, 2) + max(y, key=abs)
'''


def after(text: str) -> set[tuple[str, str]]:
    """For each change its kind, and the line as it stands then."""
    return {(c.kind, c.applied(text).splitlines()[c.line - 1].strip()) for c in changes(text)}


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("comparison", "if not (x <= y) and flat:"),
        ("comparison", "if not (x > y) and flat:"),
        ("and or", "if (not x < y or flat):"),
        ("dropped sign", "if (x < y) and flat:"),
        ("dropped", "if False:"),
        ("dropped", "pass"),
        ("arithmetic", "return (min(x, 2) - max(y, key=abs))"),
        ("operand", "return (min(x, 2))"),
        ("operand", "return (max(y, key=abs))"),
        ("twin", "return (max)(x, 2) + max(y, key=abs)"),
        ("keyword", "return min(x, 2) + (max(y))"),
        ("constant", "return min(x, 3) + max(y, key=abs)"),
        ("constant", "return min(x, (1)) + max(y, key=abs)"),
        ("constant", "def f(x: int, y: int = 4, *, flat: bool = True) -> int:"),
        ("constant", "def f(x: int, y: int = 3, *, flat: bool = False) -> int:"),
    ],
)
def test_each_kind_of_mistake_is_made(kind: str, line: str) -> None:
    assert (kind, line) in after(PLANTED)


def test_words_types_and_messages_stay() -> None:
    changed = {line for _, line in after(PLANTED)}
    assert not any("Doc" in line or "Not 1" in line or "ValueError" in line or "__all__" in line for line in changed)
    assert {c.line for c in changes(PLANTED)} == {9, 11, 12, 13}


def test_a_change_that_is_no_program_or_the_same_one_is_told() -> None:
    same, broken = (draw.Change("", 1, 0, 1, text) for text in ("(x)", "x x"))
    assert not same.makes_another_program("x + 1")
    assert not broken.makes_another_program("x + 1")
    assert draw.Change("", 1, 0, 1, "y").makes_another_program("x + 1")


def test_the_page_has_the_mark_that_the_table_follows() -> None:
    assert PAGE.read_text(encoding="utf-8").count(MARK) == 1


@pytest.fixture(scope="module")
def first() -> list[Drawn]:
    return list(itertools.islice(drawn(1), 100))


def test_the_draw_is_fixed_by_the_seed(first: list[Drawn]) -> None:
    assert list(itertools.islice(drawn(1), 100)) == first
    assert list(itertools.islice(drawn(2), 100)) != first
    assert len({(m.file, m.change.line) for m in first}) == 100


def test_a_change_elsewhere_leaves_the_other_draws(first: list[Drawn], monkeypatch: pytest.MonkeyPatch) -> None:
    """A line is ranked by its own text, so that what was judged equivalent stays judged."""
    inner = draw.source.__wrapped__
    file, stay = first[0].file, [(m.file, m.lines) for m in first[:50]]
    monkeypatch.setattr(draw, "source", lambda name: ("X = 1\n" if name == file else "") + inner(name))
    again = list(itertools.islice(drawn(1), 100))
    assert [(m.file, m.lines) for m in again if m.change.line > 1][:50] == stay


def test_every_room_of_privacy_and_answers_is_drawn_from(first: list[Drawn]) -> None:
    assert {file.split("/")[0] for file in files()} == {
        "numbers.py", "noise", "privacy", "mechanisms", "classroom", "ledger", "curator",
        "plan", "sql", "answers",
    }  # fmt: skip
    assert len({m.file.split("/")[0] for m in first}) >= 6


def test_the_nearest_tests_come_first_and_none_is_left_out() -> None:
    ordered = nearest("mechanisms/additive/laplace.py")
    assert ordered[0] == "tests/mechanisms/additive/test_laplace.py"
    assert nearest("plan/add_noise.py")[0] == "tests/plan/test_add_noise.py"
    every = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")}
    assert every - set(ordered) == {
        "tests/test_shape.py", *(f"tests/mutation/test_{name}.py" for name in ("mutants", "draw")),
    }  # fmt: skip


@pytest.mark.parametrize("mistake", equivalent.EQUIVALENT, ids=lambda mistake: mistake.where)
def test_every_known_equivalent_can_be_drawn_and_has_its_reason(mistake: Mistake) -> None:
    file, text = mistake.applied()
    assert file in files()
    lines = zip(draw.source(file).splitlines(), text.splitlines(), strict=False)
    first = next(number for number, (old, new) in enumerate(lines, 1) if old != new)
    near = [Drawn(file, change) for change in changes(draw.source(file)) if abs(change.line - first) <= 2]
    wanted = ast.dump(ast.parse(text))
    found = next((one for one in near if ast.dump(ast.parse(one.after)) == wanted), None)
    assert found is not None, "delete the entry"
    assert found.reason == equivalent.EQUIVALENT[mistake]


def test_the_report_counts_and_shows_what_survived(
    first: list[Drawn], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, same, hole = first[:3]
    monkeypatch.setattr(equivalent, "known", lambda: {(same.file, ast.dump(ast.parse(same.after))): "only speed"})
    told: dict[str, Any] = {}
    for name, verdicts in {
        "hole": [Verdict(seen, "tests/a.py"), Verdict(same, None), Verdict(hole, None)],
        "none": [Verdict(seen, "tests/a.py"), Verdict(same, None)],
    }.items():
        told[name] = report(verdicts), capsys.readouterr().out
    assert told["hole"][0] == 1
    assert told["hole"][1].splitlines()[-1] == "3 drawn, 1 noticed, 1 equivalent, 1 survived"
    assert f"SURVIVED {hole.place}" in told["hole"][1]
    assert f"    -{hole.before.splitlines()[hole.change.line - 1]}" in told["hole"][1]
    assert f"equivalent {same.place}: only speed" in told["hole"][1]
    assert told["none"][0] == 0
