"""`lapwing audit` and `lapwing attack`: exit codes, JSON, and what can be named."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from lapwing.cli import main as program

MODULE = """
import lapwing as lw

NEIGHBOURS = (10, 13)
count = lw.Laplace(epsilon=1, sensitivity=3)
sloppy = lw.Laplace(epsilon=1)
number = 3
empty = lambda data: None
constant = lambda data: 42
"""

PROGRAM = """#!{python}
import sys
value, runs = int(sys.argv[1]), int(sys.argv[2])
for i in range(runs):
    print(value)
    if value and i == 20:
        sys.exit(3)
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], seeded: Any) -> Any:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "audited.py").write_text(MODULE)
    script = tmp_path / "program.py"
    script.write_text(PROGRAM.format(python=sys.executable))
    script.chmod(0o755)

    def call(*arguments: str) -> tuple[int, str, str]:
        sys.modules.pop("audited", None)
        monkeypatch.setattr(sys, "argv", ["lapwing", *arguments])
        try:
            program.run()
            code: Any = 0
        except SystemExit as stop:
            code = stop.code or 0
        written = capsys.readouterr()
        return int(code), written.out, written.err

    return call


def test_audit_of_a_function_exits_with_1_only_if_the_claim_is_rejected(run: Any) -> None:
    code, out, _ = run("audit", "audited:count", "--epsilon", "1", "--runs", "2000")
    assert (code, out.split(" found at ")[0]) == (0, "No violation of epsilon = 1")
    code, out, _ = run("audit", "audited:sloppy", "--epsilon", "1", "--runs", "2000", "--json", "--plot", "seen.png")
    found = json.loads(out)
    assert (code, found["rejected"], found["runs"], found["alpha"]) == (1, True, 2000, 0.001)
    assert Path("seen.png").stat().st_size > 10_000


def test_audit_takes_neighbours_and_curves_from_the_command_line(run: Any) -> None:
    code, out, _ = run("audit", "audited:sloppy", "--rho", "0.5", "--left", "0", "--right", "1", "--runs", "2000")
    assert (code, out.split(" found at ")[0]) == (0, "No violation of rho = 0.5")
    code, out, _ = run("audit", "audited:sloppy", "--mu", "0.1", "--left", "0", "--right", "1", "--early")
    assert (code, out.split(" after ")[0]) == (1, "Rejected")


def test_audit_of_a_program_sees_that_it_stops(run: Any) -> None:
    """It prints the truth, and stops after some lines on one side only."""
    code, out, _ = run("audit", "./program.py", "--epsilon", "1", "--left", "0", "--right", "1", "--runs", "200")
    assert (code, out.split(":")[0]) == (1, "Rejected")


def test_audit_of_a_question_runs_on_bundled_neighbours(run: Any) -> None:
    question = "SELECT sex, SUM(visits) AS visits FROM health WHERE year = 1 GROUP BY sex"
    code, out, _ = run("audit", question, "--epsilon", "1", "--runs", "40", "--json")
    found = json.loads(out)
    assert (code, found["rejected"], found["runs"]) == (0, False, 40)


def test_audit_over_groups_asks_one_question(run: Any) -> None:
    code, out, _ = run("audit", "SUM(value)", "--groups", "1000", "--epsilon", "1", "--json")
    assert (code, json.loads(out)["canaries"]) == (0, 1000)


@pytest.mark.slow
def test_audit_of_the_zoo_lists_every_specimen(run: Any) -> None:
    code, out, _ = run("audit", "--zoo")
    assert (code, out.splitlines()[-1]) == (0, "29 of 29 broken mechanisms rejected; wrong verdicts: none.")
    code, out, _ = run("audit", "--zoo", "--json")
    assert {entry["rejected"] != entry["sound"] for entry in json.loads(out)} == {True}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "name what to audit"),
        (("audited:count",), 2, "make one claim"),
        (("audited:gone", "-e", "1"), 2, "nothing named 'gone'"),
        (("audited:number", "-e", "1"), 2, "cannot be called"),
        (("nowhere:gone", "-e", "1"), 2, "cannot be imported"),
        (("something", "-e", "1"), 2, "no question, no program"),
        (("./program.py", "-e", "1"), 2, "two neighbours"),
        (("SELECT COUNT(*) FROM health", "--rho", "1"), 2, "asked at a price"),
        (("SELECT person FROM health", "-e", "1"), 3, "the rows themselves are private"),
        (("audited:count", "-e", "lots"), 2, "must be a number"),
    ],
)
def test_what_cannot_be_audited_is_refused(run: Any, arguments: tuple[str, ...], code: int, message: str) -> None:
    found, _, err = run("audit", *arguments)
    assert found == code
    assert message in err


def test_audit_by_replay_compares_two_runs(run: Any) -> None:
    code, out, _ = run("audit", "--replay", "audited:count", "--epsilon", "1")
    assert (code, out.split(":")[0]) == (0, "No violation found in this pair")
    code, out, _ = run("audit", "--replay", "audited:sloppy", "--epsilon", "0.5", "--json")
    assert code == 1
    assert json.loads(out)["problems"] == [
        "call 1, Laplace: the value moves by 3 in l1, and the sensitivity is 1",
        "the mechanisms lose epsilon = 1, and epsilon = 0.5 is claimed",
    ]
    assert run("audit", "--replay", "./program.py")[0] == 2


@pytest.mark.parametrize("way", [(), ("--early",), ("--replay",), ("--json",)])
def test_an_empty_submission_fails(run: Any, way: tuple[str, ...]) -> None:
    code, out, err = run("audit", "audited:empty", "--epsilon", "1", "--runs", "300", *way)
    assert code == 2
    assert "returned None" in out + err
    code, out, _ = run("audit", "audited:constant", "--epsilon", "1", "--runs", "300", *way)
    assert code == 2
    assert "Nothing to" in out
    assert "No violation" not in out


def test_attack_lists_what_there_is_and_runs_one(run: Any) -> None:
    code, out, _ = run("attack")
    assert (code, len(out.splitlines())) == (0, 10)
    code, out, _ = run("attack", "advertiser", "--json", "--plot", "seen.png")
    assert (code, json.loads(out)["attack"]) == (0, "advertiser")
    assert Path("seen.png").stat().st_size > 10_000
    code, _, err = run("attack", "magic")
    assert (code, "Choose one of averaging" in err) == (2, True)


@pytest.mark.parametrize("words", [("audit", "audited:count", "--epsilon", "1"), ("attack", "advertiser")])
def test_a_picture_that_cannot_be_written_is_told_before_the_runs(run: Any, words: tuple[str, ...]) -> None:
    code, out, err = run(*words, "--plot", "none/seen.png")
    assert (code, out, "Create the folder first." in err) == (2, "", True)


def test_audit_refuses_neighbours_that_are_the_same(run: Any) -> None:
    code, _, err = run("audit", "audited:count", "--epsilon", "1", "--left", "5", "--right", "5")
    assert (code, "are the same data" in err) == (2, True)


@pytest.mark.slow
def test_attack_all_makes_one_page(run: Any) -> None:
    code, out, _ = run("attack", "--all", "--page", "page.html")
    assert (code, out.splitlines()[-1]) == (0, "Wrote page.html.")
    assert Path("page.html").read_text().count("<h2") == 10
