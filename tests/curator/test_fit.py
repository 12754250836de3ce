"""The counts of `lapwing check`, beside counts in plain Python; and what a look leaves behind."""

from __future__ import annotations

import json
import random
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from lapwing import curator
from lapwing.curator import load
from lapwing.curator.fit import Fact, facts_of
from lapwing.curator.settings import read_settings

TOML = """
[budget]
epsilon = 1
[tables.v]
source = "v.csv"
unit = "who"
rows_per_unit = 2
groups_per_unit = 1
[tables.v.columns]
who = { type = "text" }
sex = { type = "text", values = ["F", "M", "D"] }
age = { type = "integer", bounds = [0, 120] }
cost = { type = "real" }
[public.sexes]
source = "sexes.csv"
"""


def written(folder: Path, rows: list[tuple[str, ...]]) -> Path:
    lines = ["who,sex,age,cost", *(",".join(row) for row in rows)]
    (folder / "v.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "sexes.csv").write_text("sex,label\nF,female\nX,other\n", encoding="utf-8")
    (folder / "lapwing.toml").write_text(TOML, encoding="utf-8")
    return folder / "lapwing.toml"


def drawn(seed: int) -> list[tuple[str, ...]]:
    draw = random.Random(seed)
    choices = (
        ["", "a", "b", "c", "d"],
        ["", "F", "M", "X"],
        ["", "-1", "0", "120", "121", "x"],
        ["", "1.5", "abc", "7"],
    )
    return [tuple(draw.choice(options) for options in choices) for _ in range(draw.randint(1, 30))]


def expected(rows: list[tuple[str, ...]]) -> dict[tuple[str | None, str], int]:
    """The same counts by hand."""
    ages = [int(age) for _, _, age, _ in rows if age.lstrip("-").isdigit()]
    units: dict[str, list[str]] = {}
    for who, sex, _, _ in rows:
        if who:
            units.setdefault(who, []).append(sex)
    return {
        ("who", "have no unit and never count"): sum(not who for who, *_ in rows),
        ("sex", "are not among `values` and are left out as keys"): sum(sex == "X" for _, sex, _, _ in rows),
        ("sex", "are declared and occur in no row"): 3 - len({sex for _, sex, _, _ in rows} & {"F", "M", "D"}),
        ("sex", "have no partner in `sexes`"): sum(sex == "M" for _, sex, _, _ in rows),
        ("age", "lie below 0"): sum(age < 0 for age in ages),
        ("age", "lie above 120"): sum(age > 120 for age in ages),
        ("age", "are stored but cannot be read as integer"): sum(age == "x" for _, _, age, _ in rows),
        ("cost", "are stored but cannot be read as real"): sum(cost == "abc" for _, _, _, cost in rows),
        (None, "have more than rows_per_unit = 2 rows in all"): sum(len(own) > 2 for own in units.values()),
        ("sex", "have more than groups_per_unit = 1 values"): sum(len(set(own) - {""}) > 1 for own in units.values()),
    }


@pytest.mark.parametrize("seed", range(12))
def test_the_counts_are_exact(seed: int, tmp_path: Path) -> None:
    rows = drawn(seed)
    facts = facts_of(read_settings(written(tmp_path, rows)))
    counts = {(fact.column, fact.fact): fact.misfits for fact in facts}
    assert counts | expected(rows) == counts
    assert all(isinstance(fact, Fact) and 0 <= fact.misfits <= fact.of for fact in facts)


def test_lines_that_are_dropped_are_counted(tmp_path: Path) -> None:
    settings = read_settings(written(tmp_path, [("a", "F", "1", "1")]))
    with (tmp_path / "v.csv").open("ab") as file:
        file.write(b"M\xfcller,F,1,1\na,F,1,1,1,1\n")
    (fact,) = [fact for fact in facts_of(settings) if fact.counted == "lines"]
    assert (fact.misfits, fact.of) == (2, 3)
    assert str(fact).startswith("v: 2 of 3 lines (67 %) are dropped: they are not in utf-8, or have too many fields")


@pytest.mark.parametrize(("part", "shown"), [(1, "0.05"), (1990, "99"), (1999, "99"), (2000, "100")])
def test_the_share_is_100_only_for_all(part: int, shown: str) -> None:
    assert f"({shown} %)" in str(Fact("v", None, "are here", part, 2000, "rows"))


def lapwing(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lapwing", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def looks(folder: Path) -> list[tuple[str, str, str]]:
    """The looks in a ledger: who, the note and the price."""
    with sqlite3.connect(folder / ".lapwing" / "ledger.db") as ledger:
        return ledger.execute("SELECT analyst, note, amount FROM entry WHERE kind = 'look'").fetchall()


def test_a_look_is_recorded_and_what_was_seen_is_not(tmp_path: Path) -> None:
    written(tmp_path, drawn(1))
    load(tmp_path / "lapwing.toml").close()
    found = lapwing(tmp_path, "check", "--yes")
    assert found.returncode == 0, found.stderr
    assert "exact and private" in found.stdout
    assert [(note, amount) for _, note, amount in looks(tmp_path)] == [("{}", "0/1")]
    assert looks(tmp_path)[0][0]
    assert lapwing(tmp_path, "ledger", "verify").returncode == 0


def test_without_a_terminal_it_asks_for_yes(tmp_path: Path) -> None:
    written(tmp_path, drawn(2))
    refused = lapwing(tmp_path, "check")
    assert refused.returncode == 2
    assert "--yes" in refused.stderr


def test_a_written_look_is_for_its_owner_alone(tmp_path: Path) -> None:
    written(tmp_path, drawn(3))
    assert lapwing(tmp_path, "check", "--yes", "--out", "look.txt").returncode == 0
    assert (tmp_path / "look.txt").stat().st_mode & 0o777 == 0o600
    before = len(looks(tmp_path))
    for out in ("look.txt", "folder/that/is/missing/look.txt"):  # it overwrites nothing
        refused = lapwing(tmp_path, "check", "--yes", "--out", out)
        assert refused.returncode == 2
        assert "Name another file" in refused.stderr
    assert len(looks(tmp_path)) == before + 1  # no look was needed to see that the first one exists
    assert lapwing(tmp_path, "check", "--yes", "--json", "--out", "look.json").returncode == 0
    assert json.loads((tmp_path / "look.json").read_text())["private"] is True


def test_a_look_is_recorded_before_a_row_is_read(tmp_path: Path) -> None:
    """Also one that fails."""
    written(tmp_path, drawn(4))
    load(tmp_path / "lapwing.toml").close()
    (tmp_path / "v.csv").write_text("other\nx\n", encoding="utf-8")  # a column is missing, so nothing can be counted
    assert lapwing(tmp_path, "check", "--yes").returncode != 0
    assert len(looks(tmp_path)) == 1


def test_no_server_can_look() -> None:
    """What counts exactly is imported by the command alone."""
    files = [path for path in Path(curator.__file__).parents[1].rglob("*.py") if "fit" in path.read_text()]
    users = [path for path in files if re.search(r"curator\.fit|import fit|record_look|facts_of", path.read_text())]
    assert sorted(path.name for path in users) == ["check.py", "fit.py"]
