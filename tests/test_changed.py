"""`make quick` runs the tests of the rooms that changed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from support.changed import ALWAYS, LONG, PAGES, ROOT, arguments, changed, chosen


@pytest.mark.parametrize(
    ("path", "tests"),
    [
        ("src/lapwing/ledger/rules.py", {"tests/ledger"}),
        ("src/lapwing/privacy/analysis/profile.py", {"tests/privacy"}),
        ("src/lapwing/data/__init__.py", {"tests/test_data.py"}),
        ("src/lapwing/numbers.py", {"tests/test_numbers.py"}),
        ("src/lapwing/arrays.py", set()),
        ("tests/ledger/test_verify.py", {"tests/ledger"}),
        ("tests/mechanisms/keys/test_threshold.py", {"tests/mechanisms"}),
        ("tests/ledger/conftest.py", {"tests/ledger"}),
        ("tests/test_kept.py", {"tests/test_kept.py"}),
        ("tests/support/changed.py", {"tests/test_changed.py", "tests/test_support.py"}),
        ("docs/ledger.md", {*PAGES}),
        ("docs/course/one.md", {*PAGES}),
        ("README.md", {*PAGES}),
        ("Makefile", set()),
    ],
)
def test_a_file_stands_for_the_tests_of_its_room(path: str, tests: set[str]) -> None:
    assert set(chosen([path])) == tests | set(ALWAYS)


def test_every_room_has_tests() -> None:
    rooms = {path.parent.name for path in (ROOT / "src" / "lapwing").glob("*/__init__.py")}
    assert len(rooms) > 15
    assert [room for room in sorted(rooms) if len(chosen([f"src/lapwing/{room}/new.py"])) == len(ALWAYS)] == []


def test_every_test_is_named_once() -> None:
    paths = ["src/lapwing/ledger/a.py", "tests/ledger/test_verify.py", "tests/test_shape.py", "src/lapwing/plan/b.py"]
    assert chosen(paths) == sorted({"tests/ledger", "tests/plan", *ALWAYS})
    users = chosen(["tests/support/postgres.py"])
    assert "tests/engines/test_postgres_tls.py" in users
    both = chosen(["tests/support/postgres.py", "src/lapwing/engines/sql.py"])
    assert "tests/engines" in both
    assert not [test for test in both if test.startswith("tests/engines/")]


def test_files_that_take_long_are_run_after_a_change_of_their_own() -> None:
    assert [file for file in LONG if not (ROOT / file).exists()] == []
    assert arguments(["src/lapwing/server/app.py"]) == [
        *chosen(["src/lapwing/server/app.py"]),
        *(f"--ignore={file}" for file in LONG),
    ]
    assert f"--ignore={LONG[0]}" not in arguments([LONG[0]])
    assert f"--ignore={LONG[1]}" in arguments([LONG[0]])


def test_a_room_that_is_gone_is_left_out(tmp_path: Path) -> None:
    assert chosen(["src/lapwing/gone/a.py", "tests/gone/test_a.py"], tmp_path) == sorted(ALWAYS)


def test_changed_is_what_differs_from_main_and_what_git_does_not_know(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        own = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *own, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-b", "main")
    for name in ("same", "edited", "committed", "ignored"):
        (tmp_path / name).write_text("1")
    (tmp_path / ".gitignore").write_text("ignored\n")
    git("add", "same", "edited", "committed", ".gitignore")
    git("commit", "-m", "first")
    assert changed(tmp_path) == []
    (tmp_path / "edited").write_text("2")
    assert changed(tmp_path) == ["edited"]
    git("switch", "-c", "branch")
    (tmp_path / "committed").write_text("2")
    git("commit", "-m", "second", "committed")
    (tmp_path / "new").write_text("1")
    assert changed(tmp_path) == ["committed", "edited", "new"]
    git("branch", "-D", "main")
    assert changed(tmp_path) == ["edited", "new"]
