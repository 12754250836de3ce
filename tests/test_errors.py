"""Errors say by fields what they say in words: a code, the part, why, what to write instead, and what was charged."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import get_args

import pytest

import lapwing as lw
from lapwing.errors import NOTHING, STAYS, BudgetExceeded, Bug, Code, LapwingError, Misconfigured, Refused
from lapwing.privacy.budget import Accounting, Cost
from support.visits import open_visits

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "src" / "lapwing").rglob("*.py"))
PRICE = Cost(Accounting.PURE, 0.25)


def test_every_code_is_documented_once_and_used() -> None:
    listed = re.findall(r"(?m)^\| `([a-z-]+)` \| .+\. \|$", (ROOT / "docs" / "errors.md").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(get_args(Code))
    elsewhere = "".join(path.read_text() for path in SOURCES if path.name != "errors.py")
    kinds = {kind.code for kind in LapwingError.__subclasses__()}
    assert [code for code in listed if f'"{code}"' not in elsewhere and code not in kinds] == []


def test_a_refusal_has_one_form() -> None:
    refused = Refused("unknown-column", "column `agee`", "there is no such column.", "Did you mean `age`?")
    assert str(refused) == f"column `agee`: there is no such column. Did you mean `age`? {NOTHING}"
    reasons = {"part": "column `agee`", "why": "there is no such column.", "instead": "Did you mean `age`?"}
    shown = {"error": "Refused", "code": "unknown-column", "message": str(refused), **reasons, "charged": None}
    assert refused.to_dict() == shown
    refused.charged = PRICE
    assert str(refused) == f"column `agee`: there is no such column. Did you mean `age`? {STAYS}"
    assert refused.to_dict()["charged"] == {"epsilon": 0.25, "delta": 0.0}


def test_every_error_is_shown_the_same_way() -> None:
    exceeded = BudgetExceeded("This costs 2.", "Ask for 1.", asked=PRICE, remaining=PRICE)
    assert str(exceeded) == f"This costs 2. {NOTHING} Ask for 1."
    for error in (exceeded, Misconfigured("x"), lw.EngineFailed("0"), lw.LedgerFailed("x"), lw.Bug("x")):
        shown = json.loads(json.dumps(error.to_dict()))
        assert list(shown) == ["error", "code", "message", "part", "why", "instead", "charged"]
        assert shown["code"] in get_args(Code)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SELECT COUNT( FROM visits", "syntax"),
        ("SELECT 1; SELECT 2", "not-one-select"),
        ("SELECT COUNT(*) FROM nobody", "unknown-table"),
        ("SELECT SUM(agee) FROM visits", "unknown-column"),
        ("SELECT * FROM visits", "private-rows"),
        ("SELECT pid, COUNT(*) FROM visits GROUP BY pid", "unit-grouping"),
        ("SELECT name, COUNT(*) FROM visits GROUP BY name", "keys-not-public"),
        ("SELECT cost, COUNT(*) FROM visits GROUP BY cost", "real-key"),
    ],
)
def test_a_program_can_tell_refusals_apart(text: str, code: str) -> None:
    with pytest.raises(Refused) as caught:
        open_visits(budget=lw.Budget(epsilon=1), groups_per_unit=2).sql(text, epsilon=0.1)
    assert (caught.value.code, caught.value.charged) == (code, None)


def decided_by_words(source: str) -> list[str]:
    """Places that look into the words of an error, or rewrite them."""
    errors = {"error", "refusal", "refused", "stop", "caught"}

    def is_error(node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in errors

    def is_words(node: ast.expr) -> bool:
        match node:
            case ast.Call(func=ast.Name(id="str"), args=[inner]):
                return is_error(inner)
            case ast.Attribute(value=inner, attr="args" | "part" | "why" | "instead"):
                return is_error(inner)
            case _:
                return False

    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Compare(left=left, comparators=others) if any(map(is_words, (left, *others))):
                found.append(ast.unparse(node))
            case ast.Call(func=ast.Attribute(value=inner)) if is_words(inner):
                found.append(ast.unparse(node))
            case ast.Assign(targets=[target]) if is_words(target):
                found.append(ast.unparse(node))
    return found


def test_nothing_is_decided_by_the_words_of_an_error() -> None:
    found = {path.relative_to(ROOT).as_posix(): decided_by_words(path.read_text(encoding="utf-8")) for path in SOURCES}
    assert len(found) > 300  # files of the whole package, not of one folder
    assert {f"src/lapwing/{name}.py" for name in ("curator/pricing", "server/problems", "cli/main")} <= found.keys()
    assert {path: places for path, places in found.items() if places} == {}


@pytest.mark.parametrize(
    "planted",
    [
        "if 'SELECT' in error.instead: pass",
        "if error.part == 'the question': pass",
        "x = str(error).startswith(path)",
        "error.args = ('other',)",
        "x = str(error).replace('a', 'b')",
    ],
)
def test_a_decision_by_words_is_found(planted: str) -> None:
    assert len(decided_by_words(planted)) == 1


def test_a_notebook_shows_a_refusal_in_one_box() -> None:
    """IPython prints what `_render_traceback_` returns instead of the frames."""
    curator = open_visits()
    with pytest.raises(Refused) as caught:
        curator.sql("SELECT * FROM visits", epsilon=1)
    first, place, *said, last = caught.value._render_traceback_()
    assert first.startswith("╭─ Refused: private-rows ─")
    assert 'curator.sql("SELECT * FROM visits", epsilon=1)' in place
    assert " ".join(line.strip("│ ") for line in said) == str(caught.value)
    assert len({len(line) for line in (first, place, *said, last)}) == 1


def test_a_bug_keeps_its_frames() -> None:
    assert Bug("it broke")._render_traceback_() == ["lapwing.errors.Bug: it broke\n"]
    with pytest.raises(Bug) as caught:
        raise Bug("it broke")
    assert caught.value._render_traceback_()[0].startswith("Traceback")
