"""The command line: exit codes, JSON, plain words. In process, and once as a program."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from lapwing.cli import main as program
from support.visits import CANARY, write_visits

BY_SEX = "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex"


class Result:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs `lapwing ...` in a folder that holds visits.parquet and a reviewed lapwing.toml."""
    monkeypatch.chdir(tmp_path)
    write_visits(tmp_path)

    def call(*arguments: str) -> Result:
        monkeypatch.setattr(sys, "argv", ["lapwing", *arguments])
        try:
            program.run()
            code: Any = 0
        except SystemExit as stop:
            code = stop.code or 0
        written = capsys.readouterr()
        return Result(int(code), written.out, written.err)

    assert call("init", "visits.parquet", "--unit", "pid", "--epsilon", "1").code == 0
    text = Path("lapwing.toml").read_text()
    text = text.replace("# rows_per_unit = 5", "rows_per_unit = 2")
    text = text.replace('"sex" = { type = "text" }', '"sex" = { type = "text", values = ["F", "M"] }')
    text = text.replace('"cost" = { type = "real" }', '"cost" = { type = "real", bounds = [0, 100] }')
    Path("lapwing.toml").write_text(text)
    return call


def test_ask_prints_a_table_with_intervals(run: Any) -> None:
    done = run("ask", BY_SEX, "--epsilon", "0.5")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[0].split() == ["sex", "n", "n", "interval"]
    assert "price epsilon = 0.5, 50% of the budget" in done.out


def test_ask_in_json_and_csv(run: Any) -> None:
    found = run("ask", BY_SEX, "-e", "0.1", "--json").json
    assert [row["sex"] for row in found["rows"]] == ["F", "M"]
    assert found["price"] == {"epsilon": 0.1, "delta": 0.0}
    lines = run("ask", BY_SEX, "-e", "0.1", "--csv").out.splitlines()
    assert lines[0] == '"sex","n","n_low","n_high"'
    assert len(lines) == 3


def test_csv_on_a_terminal_holds_no_formulas(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a pipe texts are as they are; answers, batches and workloads alike."""
    asked = ("ask", 'SELECT COUNT(*) AS "=1+1" FROM visits', "-e", "0.1", "--csv")
    assert run(*asked).out.startswith('"=1+1"')
    monkeypatch.setattr("lapwing.cli.output.sys.stdout.isatty", lambda: True, raising=False)
    assert run(*asked).out.startswith('"\'=1+1"')


def test_quantiles_without_intervals(run: Any) -> None:
    median = "SELECT MEDIAN(cost) AS m FROM visits"
    assert run("ask", median, "-e", "0.1", "--csv", "--no-intervals").out.splitlines()[0] == '"m"'
    assert run("ask", median, "-e", "0.1", "--csv").out.splitlines()[0] == '"m","m_low","m_high"'
    assert run("preview", median, "-e", "0.1", "--no-intervals", "--json").json["stored"] is True


def test_bounds_that_nobody_declared_are_found(run: Any) -> None:
    write_visits(Path(), 20_000)
    terms = ("SELECT SUM(age) AS s FROM visits", "-e", "0.5", "--bounds", "auto", "--find-share", "0.2", "--json")
    assert run("preview", *terms).json["finds_first"] == ["the bounds of `age` in `visits`"]
    found = run("ask", *terms).json
    assert found["found"][0]["epsilon"] == 0.1
    assert found["price"] == {"epsilon": 0.5, "delta": 0.0}
    assert run("ask", *terms).json["price"]["epsilon"] == 0
    assert run("ask", *terms[:3], "--bounds", "0").code == 2


def test_several_questions_at_one_price(run: Any) -> None:
    total = "SELECT COUNT(*) AS n FROM visits"
    seen = run("batch", total, BY_SEX, "--epsilon", "0.4", "--weight", "1", "--weight", "2", "--preview")
    assert (seen.code, seen.out.splitlines()[0]) == (0, "Price: epsilon = 0.4, 40% of the budget.")
    seen = run("batch", total, BY_SEX, "--epsilon", "0.4", "--weight", "1", "--weight", "2", "--preview", "--explain")
    assert (seen.code, "Nothing was charged" in seen.out) == (0, True)
    done = run("batch", total, BY_SEX, "--epsilon", "0.4", "--json")
    assert done.json["price"]["epsilon"] == pytest.approx(0.4)
    assert [len(answer["rows"]) for answer in done.json["answers"].values()] == [1, 2]
    again = run("batch", total, BY_SEX, "--epsilon", "0.4", "--explain").out
    assert "stored answers, no price" in again
    assert again.count("are differentially private for adding or removing") == 2
    assert run("batch", total, "SELECT MODE(cost) FROM visits", "--epsilon", "0.1").code == 3


def test_a_key_pays_once(run: Any) -> None:
    one = run("ask", BY_SEX, "-e", "0.1", "--key", "k", "--json").json
    two = run("ask", BY_SEX, "-e", "0.1", "--key", "k", "--json").json
    assert one["rows"] == two["rows"]
    assert (two["price"]["epsilon"], two["ledger_entry"]) == (0, one["ledger_entry"])


def test_ten_questions_and_the_eleventh_exits_with_4(run: Any) -> None:
    """lecture:L35 lecture:L30 through the command line."""
    codes = [run("ask", BY_SEX, "-e", "0.1", "--refresh").code for _ in range(11)]
    assert codes == [0] * 10 + [4]
    assert run("ask", BY_SEX, "-e", "0.1", "--json").json["price"]["epsilon"] == 0
    last = run("ask", BY_SEX, "-e", "0.1", "--refresh", "--json")
    assert (last.code, last.json["error"]) == (4, "BudgetExceeded")
    assert run("budget", "--json").json["remaining"]["epsilon"] == 0
    assert run("budget").out == "Spent 100% of the budget; no question fits any more.\n"
    assert "No question fits any more." in run("budget", "--explain").out
    assert "No question fits any more." in run("budget", "--json").json["explained"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["ask", "SELECT name FROM visits", "-e", "0.1"], 3, "Nothing was charged"),
        (["ask", "SELECT COUNT(*) FROM vists", "-e", "0.1"], 3, "Did you mean `visits`?"),
        (["ask", "SELECT SUM(costs) FROM visits", "-e", "0.1"], 3, "Did you mean `cost`?"),
        (["ask", BY_SEX], 2, "--epsilon 0.1"),
        (["preview", BY_SEX], 2, "--epsilon 0.1"),
        (["ask", BY_SEX, "-e", "much"], 2, "`--epsilon` is 'much'; it must be a number"),
        (["ask", BY_SEX, "-e", "-1"], 2, "must be above 0"),
        (["ask", BY_SEX, "-e", "nan"], 2, "must be finite"),
        (["ask", BY_SEX, "-e", "0.1", "--confidence", "95"], 2, "between 0 and 1"),
        (["ask", BY_SEX, "-e", "2"], 4, "Nothing was charged"),
        (["ask", BY_SEX, "-e", "0.1", "--file", "nowhere.toml"], 2, "lapwing init"),
        (["ask"], 2, "question"),
        (["aks", BY_SEX], 2, "Did you mean 'ask'?"),
        (["ask", BY_SEX, "--epsilonn", "1"], 2, "--epsilon"),
        (["ledger", "shw"], 2, "Did you mean 'show'?"),
        (["init", "visits.parquet", "--unit", "pid", "--epsilon", "1"], 2, "already exists"),
        (["init", "visits.parquet", "--unit", "pidd", "--epsilon", "1", "-f", "b.toml"], 2, "Did you mean `pid`?"),
        (["init", "visits.parquet", "--unit", "pid", "--epsilon", "0", "-f", "b.toml"], 2, "above 0"),
        (["init", "gone.parquet", "--unit", "pid", "--epsilon", "1", "-f", "b.toml"], 2, "cannot be opened"),
    ],
)
def test_failures_have_codes_and_next_steps(run: Any, arguments: list[str], code: int, words: str) -> None:
    done = run(*arguments)
    assert (done.code, done.out) == (code, "")
    assert words.lower() in done.err.lower()
    assert "Traceback" not in done.err
    in_json = run(*arguments, "--json")
    assert in_json.code == code
    assert words.lower() in in_json.json["message"].lower()
    assert run("budget", "--json").json["spent"]["epsilon"] == 0


@pytest.mark.parametrize("command", ["ask", "preview"])
def test_a_refusal_in_json_has_its_parts(run: Any, command: str) -> None:
    done = run(command, "SELECT SUM(costs) FROM visits", "-e", "0.1", "--json")
    shown = done.json
    assert done.code == 3
    assert (shown["error"], shown["code"], shown["charged"]) == ("Refused", "unknown-column", None)
    assert (shown["part"], shown["instead"]) == ("column `costs`", "Did you mean `cost`?")
    assert shown["message"] == f"{shown['part']}: {shown['why']} {shown['instead']} Nothing was charged."
    dear = run("ask", BY_SEX, "-e", "2", "--json")
    assert (dear.code, dear.json["code"], dear.json["charged"]) == (4, "budget-exceeded", None)


def test_preview_is_free_and_speaks_sql(run: Any) -> None:
    done = run("preview", BY_SEX, "-e", "0.1")
    assert "COUNT(*): within" in done.out
    assert run("preview", BY_SEX, "-e", "0.1", "--json").json["fits"] is True
    assert run("budget", "--json").json["spent"]["epsilon"] == 0


def test_budget_is_in_plain_words_with_odds(run: Any) -> None:
    run("ask", BY_SEX, "-e", "0.25")
    assert run("budget").out == "Spent 25% of the budget; one more question may cost up to epsilon = 0.75.\n"
    words = run("budget", "--explain").out
    for part in ("Spent: epsilon = 0.25 of epsilon = 1.", "Left: epsilon = 0.75", "the odds", "50%", "73.11%"):
        assert part in words
    found = run("budget", "--json").json
    assert (found["spent"]["epsilon"], found["total"]["epsilon"], found["share_spent"]) == (0.25, 1.0, 0.25)


def test_a_weak_budget_is_told_by_init_doctor_and_budget_and_by_nothing_else(run: Any) -> None:
    told = "A delta of 0.5 allows each person's record to be published with that probability."
    Path("lapwing.toml").unlink()
    made = run("init", "visits.parquet", "--unit", "row", "--epsilon", "1", "--delta", "0.5")
    assert (made.code, made.err, made.out.count(told)) == (0, "", 1)
    for command in ("doctor", "budget"):
        done = run(command)
        assert (done.code, done.err, done.out.count(told)) == (0, "", 1)
    assert run("budget", "--json").json["warning"].startswith(told)
    asked = run("preview", "SELECT COUNT(*) AS n FROM visits", "-e", "0.1")
    assert (asked.code, asked.err, told in asked.out) == (0, "", False)


def test_a_budget_that_promises_something_has_no_warning(run: Any) -> None:
    assert run("budget", "--json").json["warning"] is None
    assert len(run("budget").out.splitlines()) == 1
    assert len(run("budget", "--explain").out.splitlines()) == 4


def test_the_ledger_is_shown_verified_and_exported(run: Any, tmp_path: Path) -> None:
    run("ask", BY_SEX, "-e", "0.1", "--as", "ann", "--check", "0")
    shown = run("ledger", "show").out
    assert "ann" in shown
    assert BY_SEX in shown
    assert "0.1" in shown
    assert "1/10" not in shown
    assert "visits version 1, unit pid" in run("ledger", "show", "--all").out
    kinds = [entry["kind"] for entry in run("ledger", "show", "--json").json]
    assert kinds == ["open", "version", "reserve", "settle"]
    assert run("ledger", "verify").code == 0
    assert run("ledger", "verify", "--json").json["ok"] is True
    assert run("ledger", "export", "out.jsonl").code == 0
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    assert "head" in json.loads(lines[-1])
    assert run("ledger", "export", "again.jsonl", "--json").json == {"written": "again.jsonl"}


def test_the_ledger_is_verified_against_an_export(run: Any, tmp_path: Path) -> None:
    """A later state fits; another ledger, a cut export, other files and folders are told in one sentence."""
    run("ask", BY_SEX, "-e", "0.1")
    run("ledger", "export", "out.jsonl")
    run("ask", BY_SEX, "-e", "0.1", "--refresh")
    assert run("ledger", "verify", "--against", "out.jsonl").code == 0
    lines = (tmp_path / "out.jsonl").read_text().splitlines(keepends=True)
    other = json.loads(lines[-1])
    other["head"]["ledger"] = "0" * 32
    ahead = json.loads(lines[-1])
    ahead["head"]["seq"] = 99
    for text, code, words in (
        ("".join(lines[:-1]), 2, "is incomplete"),
        ("a,b\n", 2, "is not a ledger export"),
        (json.dumps(other), 1, "but the exported head has seen ledger 00000000000000000000000000000000"),
        (json.dumps(ahead), 1, "but the exported head has seen entry 99: an older copy was put back"),
    ):
        (tmp_path / "cut.jsonl").write_text(text)
        done = run("ledger", "verify", "--against", "cut.jsonl")
        assert done.code == code
        assert words in done.out + done.err
    for path in (".", "nothing.jsonl"):
        assert run("ledger", "verify", "--against", path).code == 2
    assert "is a folder" in run("ledger", "export", ".").err


def test_a_damaged_ledger_is_found(run: Any, tmp_path: Path) -> None:
    """gate:G38 exit code 1, and no more answers."""
    import sqlite3

    run("ask", BY_SEX, "-e", "0.1")
    with sqlite3.connect(tmp_path / ".lapwing" / "ledger.db") as connection:
        connection.execute("DROP TRIGGER entry_no_update")
        connection.execute("UPDATE entry SET amount = '1/100', spent_amount = '1/100' WHERE kind = 'reserve'")
    connection.close()
    assert run("ledger", "verify").code == 1
    assert run("doctor").code == 1


def test_a_picture_that_cannot_be_written_is_told_before_the_charge(run: Any) -> None:
    for path in ("nowhere/x.png", "x.jpeg", "/proc/x.png"):
        done = run("ask", BY_SEX, "-e", "0.1", "--plot", path)
        assert done.code == 2
        assert "The picture" in done.err
    assert run("budget", "--json").json["spent"]["epsilon"] == 0
    done = run("ask", BY_SEX, "-e", "0.1", "--plot", "x.png")
    assert "price epsilon = 0.1" in done.out
    assert Path("x.png").stat().st_size > 1000


def test_doctor_checks_everything(run: Any) -> None:
    done = run("doctor")
    assert done.code == 0
    assert [line.split()[0] for line in done.out.splitlines()] == ["ok"] * 8
    assert all(check["ok"] for check in run("doctor", "--json").json)
    assert run("budget").code == 0
    text = Path("lapwing.toml").read_text()
    Path("lapwing.toml").write_text(text.replace("epsilon = 1", "epsilon = 2"))
    kept = [Path(".lapwing/ledger.db"), Path("visits.parquet.lapwing")]
    before = [path.read_bytes() for path in kept]
    assert (
        "but lapwing.toml now declares epsilon = 2 (pure accounting). Restore the original budget." in run("doctor").out
    )
    assert [path.read_bytes() for path in kept] == before
    Path("lapwing.toml").write_text(text)
    assert run("doctor").code == 0
    Path("visits.parquet").unlink()
    assert run("doctor").code == 1


def test_the_program_tells_its_version(run: Any) -> None:
    done = run("--version")
    assert (done.code, done.out) == (0, f"lapwing {version('lapwing')}\n")
    other = subprocess.run([sys.executable, "-m", "lapwing", "--version"], capture_output=True, text=True, check=True)
    assert other.stdout == done.out


def test_no_output_holds_rows(run: Any) -> None:
    """threat:A13"""
    commands = [["ask", BY_SEX, "-e", "0.1"], ["ask", "SELECT name FROM visits", "-e", "0.1"], ["doctor"], ["budget"],
                ["ledger", "show"], ["ask", "SELECT name, SUM(cost) FROM visits GROUP BY name", "-e", "1"]]  # fmt: skip
    for command in commands:
        done = run(*command)
        assert CANARY not in done.out + done.err
    assert CANARY not in Path("lapwing.toml").read_text()


@pytest.mark.parametrize("arguments", [["--help"], ["ask", BY_SEX, "-e", "0.1"]], ids=["help", "ask"])
def test_no_heavy_import_without_need(run: Any, arguments: list[str]) -> None:
    """Ibis, frames and pictures are loaded only by commands that need them; pyarrow likes to load pandas."""
    code = (
        f"import sys; sys.argv = ['lapwing', *{arguments}]\n"
        "from lapwing.cli.main import run\n"
        "try: run()\nexcept SystemExit: pass\n"
        "heavy = {'ibis', 'pandas', 'polars', 'pyarrow.compute', 'scipy', 'matplotlib'} & set(sys.modules)\n"
        "sys.exit(f'imported {sorted(heavy)}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert ("ask" if arguments == ["--help"] else "price epsilon = 0.1") in done.stdout


def test_the_program_answers_from_a_shell(run: Any) -> None:
    command = [sys.executable, "-c", "from lapwing.cli.main import run; run()", "ask", BY_SEX, "-e", "0.1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["rows"]) == 2
    command[6] = "0.95"
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (refused.returncode, refused.stderr) == (4, "")


@pytest.mark.parametrize("question", [BY_SEX, "SELECT nothing FROM visits"], ids=["answered", "refused"])
def test_a_command_closes_the_ledger(run: Any, question: str) -> None:
    """So a copy of the one file has every charge, though Python frees nothing at exit."""
    command = [sys.executable, "-c", "from lapwing.cli.main import run; run()", "ask", question, "-e", "0.1"]
    subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert [path.name for path in Path(".lapwing").iterdir()] == ["ledger.db"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\xfe", "byte 1 is not UTF-8"),
        (b"a = " + b"[" * 5000 + b"]" * 5000, "nested too deeply"),
        (b'a = "\0"', "not valid TOML"),
        (
            b'ledger = "a\\u0000"\n[budget]\nepsilon = 1\n[tables.t]\nunit = "row"\nsource = "t.csv"\ncolumns = {}',
            "`ledger` contains a null character",
        ),
        (
            b'[budget]\nepsilon = 1\n[tables.t]\nunit = "row"\nsource = "a\\u0000.csv"\n[tables.t.columns]\n',
            "null character",
        ),
    ],
    ids=["not UTF-8", "deep", "null byte", "null in the ledger", "null in a source"],
)
def test_a_file_that_cannot_be_read_is_told_in_a_sentence(run: Any, content: bytes, said: str) -> None:
    Path("bad.toml").write_bytes(content)
    commands = (["budget"], ["ledger", "show"], ["ledger", "verify"], ["ask", BY_SEX, "--epsilon", "1"])
    for command in commands:
        done = run(*command, "--file", "bad.toml")
        assert (done.code, done.out) == (2, "")
        assert said in done.err
    assert run("doctor", "--file", "bad.toml").code == 1


def test_bad_paths_are_told_in_a_sentence(run: Any) -> None:
    Path("folder.png").mkdir()
    terms = ("--unit", "pid", "--epsilon", "1")
    for code, *command in (
        (2, "init", "visits.parquet", *terms, "--file", "no/x.toml"),
        (2, "init", "visits.parquet", *terms, "--file", "visits.parquet/x.toml"),
        (2, "init", "nobody.csv", *terms, "--file", "new.toml"),
        (2, "budget", "--file", "."),
        (2, "ledger", "show", "--file", "nobody/x.toml"),
        (2, "ledger", "export", "."),
        (1, "ledger", "export", "nobody/x.jsonl"),
        (2, "ask", BY_SEX, "--epsilon", "0.1", "--plot", "folder.png"),
    ):
        done = run(*command)
        assert (done.code, done.out, done.err.count("\n")) == (code, "", 1), command
    assert json.loads(run("budget", "--json").out)["spent"]["epsilon"] == 0


def test_an_export_never_replaces_what_is_no_ordinary_file(run: Any) -> None:
    """Written beside it and renamed, it would take the place of a device."""
    os.mkfifo("pipe")
    done = run("ledger", "export", "pipe")
    assert (done.code, Path("pipe").is_fifo()) == (2, True)
    assert "is not an ordinary file" in done.err
    done = run("ledger", "verify", "--against", "pipe")
    assert (done.code, done.err) == (2, "pipe is not a ledger export. Pass a file that `export` wrote.\n")


def _full() -> int:
    if not Path("/dev/full").is_char_device():
        pytest.skip("this system has no /dev/full")
    return os.open("/dev/full", os.O_WRONLY)


def _broken() -> int:
    """A pipe that nobody reads any more."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


NOWHERE: dict[str, tuple[Callable[[], int], list[str], str]] = {
    "full": (_full, [], "No space left on device"),
    "broken pipe": (_broken, [], "Broken pipe"),
    "closed": (lambda: os.open(os.devnull, os.O_WRONLY), ["sh", "-c", 'exec "$@" >&-', "sh"], "it is closed"),
}


@pytest.mark.parametrize("where", NOWHERE)
def test_an_answer_that_cannot_be_printed_is_told_with_its_charge(run: Any, where: str, tmp_path: Path) -> None:
    """Exit code 1, and on standard error what was charged; asked again, the stored answer is free."""
    opened, before, why = NOWHERE[where]
    out = opened()
    command = [*before, sys.executable, "-m", "lapwing", "ask", BY_SEX, "--epsilon", "0.25"]
    done = subprocess.run(command, cwd=tmp_path, stdout=out, stderr=subprocess.PIPE, text=True, check=False)
    os.close(out)
    charged = "The answer was charged (epsilon = 0.25) and is stored: ask again without --refresh to get it for free."
    assert (done.returncode, done.stderr) == (1, f"The output could not be written ({why}). {charged}\n")
    assert run("ask", BY_SEX, "--epsilon", "0.25", "--json").json["price"]["epsilon"] == 0
    assert run("budget", "--json").json["spent"]["epsilon"] == 0.25


def test_a_picture_that_cannot_be_written_is_told_with_the_charge(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lapwing.answers.answer.Release.plot", full)
    done = run("ask", BY_SEX, "--epsilon", "0.25", "--plot", "x.png")
    assert done.code == 1
    assert "The picture could not be written (No space left on device). The answer was charged" in done.err


def spend_all(run: Any) -> None:
    assert run("ask", BY_SEX, "--epsilon", "0.9", "--refresh").code == 0


def damage(path: str) -> Callable[[Any], None]:
    return lambda _: Path(path).write_bytes(b"x" * 4096)


def put_a_pipe(path: str) -> Callable[[Any], None]:
    """Nobody ever writes to it: whoever opens it waits without end."""

    def replace(_: Any) -> None:
        Path(path).unlink()
        os.mkfifo(path)

    return replace


def put_back_an_older_copy(run: Any) -> None:
    old = {path: path.read_bytes() for path in Path(".lapwing").iterdir()}
    assert run("ask", BY_SEX, "--epsilon", "0.5", "--refresh").code == 0
    for path in Path(".lapwing").iterdir():
        path.unlink()
    for path, content in old.items():
        path.write_bytes(content)


def declare(old: str, new: str) -> Callable[[Any], None]:
    return lambda _: Path("lapwing.toml").write_text(Path("lapwing.toml").read_text().replace(old, new)) and None


AILMENTS: dict[str, Callable[[Any], Any]] = {
    "changed data": lambda _: write_visits(Path(), people=41),
    "lost data": lambda _: Path("visits.parquet").unlink(),
    "a lost column": declare('"age" =', '"nobody" ='),
    "another budget": declare("epsilon = 1", "epsilon = 2"),
    "the budget is spent": spend_all,
    "a lost ledger": lambda _: [path.unlink() for path in Path(".lapwing").iterdir()],
    "an older ledger": put_back_an_older_copy,
    "a damaged ledger": damage(".lapwing/ledger.db"),
    "a damaged witness": damage("visits.parquet.lapwing"),
    "a lost public table": declare("[tables.", '[public.regions]\nsource = "nobody.csv"\n[tables.'),
    "a file that is no TOML": damage("lapwing.toml"),
    "a pipe for settings": put_a_pipe("lapwing.toml"),
    "a pipe for a witness": put_a_pipe("visits.parquet.lapwing"),
    "a pipe for a ledger": put_a_pipe(".lapwing/ledger.db"),
}


def contents() -> dict[str, bytes]:
    """What the files hold, without SQLite's shared memory, once the ledgers of earlier commands are closed."""
    gc.collect()
    files = [path for path in Path().rglob("*") if path.is_file() and not path.name.endswith("-shm")]
    return {str(path): path.read_bytes() for path in files if path.stat().st_size}


@pytest.mark.parametrize("ailment", AILMENTS)
def test_the_doctor_notices_what_ask_refuses_and_changes_nothing(run: Any, ailment: str) -> None:
    assert run("ask", BY_SEX, "--epsilon", "0.1").code == 0
    assert run("doctor").code == 0
    gc.collect()  # closes the ledgers of the commands above, which would write to their files later
    AILMENTS[ailment](run)
    before = contents()
    done = run("doctor")
    assert done.code == 1
    after = contents()
    assert [name for name in before | after if before.get(name) != after.get(name)] == []
    assert "FAIL" in done.out
    assert "lapwing-doctor" not in done.out  # it says where the files are, not their copies
    assert run("ask", BY_SEX, "--epsilon", "0.1", "--refresh").code != 0


def test_the_doctor_makes_no_ledger(run: Any) -> None:
    before = contents()
    done = run("doctor")
    assert (done.code, contents()) == (0, before)
    assert "ok    serving" in done.out


def test_the_doctor_says_that_lines_of_a_csv_file_are_left_out(run: Any) -> None:
    Path("t.csv").write_bytes("p,name\n1,Ann\n2,Jörg\n".encode("latin-1"))
    assert run("init", "t.csv", "--unit", "p", "--epsilon", "1", "--file", "t.toml").code == 0
    assert (
        "Some lines of `t.csv` are dropped: they are not UTF-8, or have too many"
        in run("doctor", "--file", "t.toml").out
    )
    Path("t.csv").write_text("p,name\n1,Ann\n2,Jörg\n", encoding="utf-8")
    assert "left out" not in run("doctor", "--file", "t.toml").out


def test_the_draft_marks_dates_for_review(run: Any) -> None:
    Path("t.csv").write_text("p,born,day\n1,31.12.1970,2024-05-13\n2,30.11.1971,2024-05-14\n")
    days = ("--since", "2024-01-01", "--until", "2024-12-31")
    assert run("init", "t.csv", "--unit", "p", "--epsilon", "1", "--file", "a.toml", *days).code == 0
    drafted = Path("a.toml").read_text()
    assert "only dates written as 2024-12-31 are read" in drafted.lower()
    assert '"born" = { type = "text" }' in drafted
    Path("t.csv").write_text("p,born\n1,1970-12-31\n")
    assert run("init", "t.csv", "--unit", "p", "--epsilon", "1", "--file", "b.toml", *days).code == 0
    assert "# REVIEW dates: --since and --until" in Path("b.toml").read_text()


@pytest.mark.parametrize("days", [("2024-12-31", "2024-01-01"), ("01.01.2024", "31.12.2024")])
def test_the_draft_names_the_options_of_wrong_days(run: Any, days: tuple[str, str]) -> None:
    Path("t.csv").write_text("p,day\n1,2024-05-13\n")
    refused = run(
        "init", "t.csv", "--unit", "p", "--epsilon", "1", "--file", "a.toml", "--since", days[0], "--until", days[1]
    )
    assert refused.code == 2
    assert "`--since` and `--until` must be two dates" in refused.err
    assert not Path("a.toml").exists()


def test_the_draft_says_where_types_come_from(run: Any) -> None:
    Path("t.csv").write_text("p\n1\n")
    for data, guessed in (("t.csv", True), ("visits.parquet", False)):
        assert run("init", data, "--unit", "row", "--epsilon", "1", "--file", f"{data}.toml").code == 0
        first = Path(f"{data}.toml").read_text().splitlines()[0]
        assert ("no values were read from the data, but types were guessed from the first rows." in first) is guessed
