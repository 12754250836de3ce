"""What the command line takes beside one question: standard input, several formats, workloads, several files."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer.main
from typer.testing import CliRunner

from lapwing.cli import main as program
from support.visits import write_visits

COUNT = "SELECT COUNT(*) AS n FROM visits"
BY_SEX = "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex"
SETTINGS = """
budget = { epsilon = 1 }
[tables.visits]
source = "visits.parquet"
unit = "pid"
rows_per_unit = 2
groups_per_unit = 1
[tables.visits.columns]
pid = { type = "integer" }
sex = { type = "text", values = ["F", "M"] }
age = { type = "integer", bounds = [0, 99] }
cost = { type = "real", bounds = [0, 100] }
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs `lapwing ...` in a folder that holds visits.parquet and lapwing.toml; returns code, output and errors."""
    monkeypatch.chdir(tmp_path)
    write_visits(tmp_path)
    Path("lapwing.toml").write_text(SETTINGS)

    def call(*arguments: str, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["lapwing", *arguments])
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        with pytest.raises(SystemExit) as stop:
            program.run()
        written = capsys.readouterr()
        return int(stop.value.code or 0), written.out, written.err

    return call


def test_a_question_may_come_from_standard_input(run: Any) -> None:
    code, out, err = run("ask", "-", "-e", "0.5", "--csv", stdin=f"{BY_SEX}\n")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == '"sex","n","n_low","n_high"'
    code, out, _ = run("preview", "-", "--share", "0.5", stdin=COUNT)
    assert (code, "Price: 50% of the budget; 1 such question fits in what is left." in out) == (0, True)
    assert run("ask", "-", "-e", "0.5", stdin="")[0] == 3


def test_a_share_is_charged(run: Any) -> None:
    for _ in range(2):
        assert run("ask", COUNT, "--share", "0.25", "--refresh")[0] == 0
    assert run("batch", COUNT, BY_SEX, "--share", "0.5", "--refresh")[0] == 0
    assert json.loads(run("budget", "--json")[1])["share_spent"] == 1
    assert run("ask", COUNT, "-s", "0.01", "--refresh")[0] == 4
    for wrong in (["-e", "1", "-s", "0.5"], ["-w", "5", "-s", "0.5"], []):
        code, _, err = run("ask", COUNT, *wrong)
        assert (code, "--share 0.05" in err) == (2, True)


def test_two_formats_at_once_are_refused_before_the_charge(run: Any) -> None:
    for command in (["ask", COUNT], ["batch", COUNT], ["distribution", "age"], ["marginals", "sex"]):
        code, out, _ = run(*command, "-e", "0.1", "--json", "--csv")
        assert (code, json.loads(out)["code"]) == (2, "misconfigured")
    assert json.loads(run("budget", "--json")[1])["share_spent"] == 0


def test_a_batch_is_written_as_csv_with_a_line_between_tables(run: Any) -> None:
    code, out, _ = run("batch", COUNT, BY_SEX, "-e", "0.5", "--csv")
    first, second = out.split("\n\n")
    assert code == 0
    assert [len(list(csv.DictReader(io.StringIO(text)))) for text in (first, second)] == [1, 2]


def test_a_distribution_is_asked_from_the_shell(run: Any) -> None:
    code, out, _ = run("distribution", "age", "-e", "0.25", "--where", "sex = 'F'")
    assert (code, out.splitlines()[0].split()) == (0, ["age", "n", "n", "interval", "share_up_to"])
    again = run("distribution", "age", "-e", "0.25", "--where", "sex = 'F'", "--csv")
    assert again[1].splitlines()[0] == '"age","n","n_low","n_high","share_up_to"'
    seen = json.loads(run("distribution", "cost", "--cells", "4", "--share", "0.5", "--preview", "--json")[1])
    assert seen["price"]["epsilon"] == 0.5
    assert json.loads(run("budget", "--json")[1])["share_spent"] == 0.25
    assert run("distribution", "age")[0] == 2
    assert run("distribution", "name", "-e", "0.1")[0] == 3


def test_marginals_are_asked_from_the_shell(run: Any) -> None:
    code, out, _ = run("marginals", "sex", "age", "--cells", "age=5", "-e", "0.5", "--json")
    assert (code, [one["over"] for one in json.loads(out)["tables"]]) == (0, [["sex"], ["age"], ["sex", "age"]])
    table = run("marginals", "sex", "age", "--cells", "age=5", "-e", "0.5", "--csv")[1].split("\n\n")
    assert [len(text.splitlines()) for text in table] == [3, 6, 11]
    assert run("marginals", "sex", "age", "--cells", "5", "-e", "0.5", "--preview")[0] == 0
    for cells in ("age", "x=y", "5.5"):
        assert run("marginals", "sex", "age", "--cells", cells, "--cells", "a=1", "-e", "0.5")[0] in (2, 3)


def test_init_says_what_a_unit_and_an_epsilon_are(run: Any) -> None:
    code, _, err = run("init", "visits.parquet", "-f", "new.toml")
    assert (code, "`--unit` names the column that identifies a person" in err) == (2, True)
    code, _, err = run("init", "visits.parquet", "--unit", "pid", "-f", "new.toml")
    assert (code, "--epsilon 1" in err) == (2, True)
    assert not Path("new.toml").exists()


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_init_drafts_several_tables_with_every_hint_once(run: Any, ending: str) -> None:
    for name, extra in (("a", "x"), ("b", "y")):
        if ending == "parquet":
            pq.write_table(pa.table({"pid": [1], "n": [2], extra: ["t"]}), f"{name}.parquet")
        else:
            Path(f"{name}.csv").write_text(f"pid,n,{extra}\n1,2,t\n")
    files = [f"a.{ending}", f"b.{ending}"]
    assert run("init", *files, "--unit", "pid", "--epsilon", "1", "-f", "two.toml")[0] == 0
    text = Path("two.toml").read_text()
    hints = [line for line in text.splitlines() if line.startswith("# ") and "_per_unit = " not in line]
    assert len(set(hints)) == len(hints)
    assert text.index("REVIEW texts") < text.index('"x" = ')
    code, out, _ = run(
        "ask", "SELECT COUNT(DISTINCT a.pid) AS n FROM a JOIN b ON a.pid = b.pid", "-e", "0.5", "-f", "two.toml"
    )
    assert (code, out.splitlines()[0].split()) == (0, ["n", "n", "interval"])
    code, _, err = run("init", files[0], files[0], "--unit", "pid", "--epsilon", "1", "-f", "same.toml")
    assert (code, "the same name" in err) == (2, True)


def test_the_ledger_shows_one_line_for_each_question(run: Any) -> None:
    assert run("ledger", "show")[1] == "No question was charged yet. `lapwing ledger show --all` lists every entry.\n"
    run("ask", COUNT, "-e", "0.25", "--check", "0")
    run("ask", BY_SEX, "-e", "0.25", "--as", "ann", "--check", "0")
    head, *lines = run("ledger", "show")[1].splitlines()
    assert head.split("  ")[0] == "entry"
    assert [line.endswith(question) for line, question in zip(lines, (COUNT, BY_SEX), strict=True)] == [True, True]
    assert len(run("ledger", "show", "--all")[1].splitlines()) == 1 + 6


def test_the_list_of_commands_has_the_exit_codes(run: Any) -> None:
    assert "--commands" in run("--help")[1]
    said = " ".join(run("--commands")[1].split())
    assert "Exit codes: 0 answered; 1 failed" in said
    assert "3 refused; 4 over budget; 130 interrupted." in said


def test_the_doctor_tells_one_error_once(run: Any) -> None:
    Path("lapwing.toml").write_text(SETTINGS.replace("unit =", "units ="))
    code, out, _ = run("doctor")
    assert (code, out.count("is not a known key"), out.count("the same as settings")) == (1, 1, 3)


def test_warnings_of_other_libraries_stay_off_standard_error(run: Any) -> None:
    """As a program: Python shows warnings unless told otherwise."""
    code = (
        "import sys, warnings; sys.argv = ['lapwing', 'budget']\n"
        "import lapwing.cli.main as main\n"
        "main.ledger_at, real = (lambda file: warnings.warn('noise', FutureWarning) or real(file)), main.ledger_at\n"
        "main.run()"
    )
    asked = {**os.environ, "PYTHONWARNINGS": ""}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=asked, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def commands(group: Any, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    """Every command, with the words that call it."""
    found = [(path, group)]
    for name, one in getattr(group, "commands", {}).items():
        found += commands(one, (*path, name))
    return found


ALL = commands(typer.main.get_command(program.app))


@pytest.mark.parametrize(("path", "command"), ALL, ids=[" ".join(path) or "lapwing" for path, _ in ALL])
def test_the_help_of_a_command_shows_every_word_that_is_written(path: tuple[str, ...], command: Any) -> None:
    """Square brackets are markup to what prints it: `[serve]` was lost. `\\[` is a bracket there."""
    shown = CliRunner().invoke(program.app, [*path, "--help"], env={"COLUMNS": "300", "TERM": "dumb"}).output
    seen = "".join(re.findall(r"[^\s│]", shown))
    texts = [command.help, command.epilog, *(getattr(one, "help", "") for one in command.params)]
    written = [text.replace("\\[", "[") for text in texts if text]
    assert [text for text in written if "".join(text.split()) not in seen] == []
    assert not path or written


MAKER = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "make_commands.py"))
WITHOUT_JSON = {"serve": "it runs until it is stopped, and prints nothing that a program reads"}


def incomplete() -> list[str]:
    """Commands, found in the program itself, that lack --json or their section of docs/commands.md."""
    page = MAKER["PAGE"].read_text(encoding="utf-8")
    found = list(MAKER["commands"]())
    options = {words: {option for one in command.params for option in one.opts} for words, command in found}
    mute = [f"{words}: no --json" for words, _ in found if words not in WITHOUT_JSON and "--json" not in options[words]]
    return mute + [f"{words}: no section" for words, _ in found if f"\n## lapwing {words}\n" not in page]


def test_the_page_of_commands_is_what_they_say() -> None:
    """Run `python docs/make_commands.py` if this fails."""
    assert MAKER["PAGE"].read_text(encoding="utf-8") == MAKER["page"]()


def test_every_command_prints_json_and_has_its_section(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that does not is named: two are planted, one of them in a group."""
    assert incomplete() == []
    every = [" ".join(path) for path, one in ALL if not hasattr(one, "commands")]
    assert sorted(every) == sorted(words for words, _ in MAKER["commands"]())
    for group, name in ((program.app, "wipe"), (program.ledger_app, "tear")):
        monkeypatch.setattr(group, "registered_commands", list(group.registered_commands))
        group.command(name)(lambda: None)
    assert sorted(incomplete()) == [
        "ledger tear: no --json", "ledger tear: no section", "wipe: no --json", "wipe: no section",
    ]  # fmt: skip
