"""One number of an answer with its interval and notes, rows as objects, and one type of answer for programs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import namedtuple
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import lapwing as lw
from lapwing.answers.tabular import Estimate
from lapwing.errors import Misconfigured
from support.visits import crowd, open_visits

COUNT = "SELECT COUNT(*) AS n FROM visits"
SHARE = "SELECT 100.0 * (SELECT COUNT(*) FROM visits WHERE age > 40) / (SELECT COUNT(*) FROM visits) AS share"
SOURCE = Path(lw.__file__).parents[1]


def test_the_one_number_comes_with_its_interval_and_converts() -> None:
    with open_visits() as curator:
        answer = curator.sql(COUNT, epsilon=0.2)
        (row,) = answer
        number = answer.value
        assert (number.value, number.low, number.high) == (row["n"], row["n_low"], row["n_high"])
        assert number.confidence == Fraction(19, 20)
        assert (int(number), float(number)) == (row["n"], row["n"])
        assert number == answer.scalar("n")
        assert str(number) == f"{row['n']:,} ({row['n_low']:,.0f} to {row['n_high']:,.0f}, 95% confidence)"


@pytest.mark.parametrize(
    "text", [COUNT, SHARE, "SELECT AVG(cost) AS m FROM visits", "SELECT MEDIAN(age) AS m FROM visits"]
)
def test_every_kind_of_answer_has_one(text: str) -> None:
    with open_visits(groups_per_unit=2) as curator:
        answer = curator.sql(text, epsilon=0.2)
        (row,) = answer
        assert answer.value.value == next(iter(row.values()))
        batch = curator.batch([COUNT, "SELECT COUNT(*) AS k FROM visits WHERE age > 30"], epsilon=0.2)
        assert [float(one.value) for one in batch] == [batch[0]["n"][0], batch[1]["k"][0]]
        assert isinstance(answer, lw.Release)
        assert all(isinstance(one, lw.Release) for one in batch)
        assert isinstance(curator.distribution("age", epsilon=0.1), lw.Release)


def test_a_number_keeps_what_is_cut() -> None:
    """A patient has more rows than the limit: the check of limits says so of the number that is taken out."""
    rows = pa.table({"pid": [i // 4 for i in range(4000)], "age": [30] * 4000})
    with open_visits(rows, check=None, values=None, bounds={"age": (0, 120)}, budget=lw.Budget(epsilon=50)) as curator:
        answer = curator.sql(COUNT, epsilon=20)
        assert answer.value.notes == answer.notes
        assert answer.value.warnings == answer.table().warnings != ()
        assert answer.value.warnings[0] in str(answer.value)
        assert answer.value.to_dict()["notes"] == list(answer.notes)


def test_the_reason_of_a_missing_interval_is_a_note() -> None:
    with open_visits(crowd(), budget=lw.Budget(epsilon=10)) as curator:
        text = "SELECT MAX(n) AS most FROM (SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex) WHERE n > 10"
        answer = curator.sql(text, epsilon=1)
        assert set(answer.column_notes.values()) <= set(answer.value.notes)
        none = curator.sql("SELECT MEDIAN(age) AS m FROM visits", epsilon=1, intervals=False).value
        assert (none.low, none.high) == (None, None)
        assert "(no interval)" in str(none)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELECT COUNT(*) AS n, AVG(cost) AS m FROM visits", r"this answer has 2\. Write answer\.scalar\('n'\)\."),
        ("SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex", r"has 2 rows\. Write answer\['n'\]"),
        ("SELECT DISTINCT sex FROM visits", r"has 0\. Write answer\['sex'\]\."),
    ],
)
def test_other_answers_say_what_to_write(text: str, why: str) -> None:
    with open_visits(groups_per_unit=2) as curator:
        answer: Any = curator.sql(text, epsilon=0.1)
        with pytest.raises(Misconfigured, match=why) as error:
            answer.value  # noqa: B018
        pasted = str(error.value).split("Write ")[1].split(", or")[0].rstrip(".")
        assert eval(pasted, {"answer": answer})


def test_a_name_that_is_no_number_is_refused() -> None:
    with open_visits() as curator:
        answer = curator.sql("SELECT COUNT(*) AS n, AVG(cost) AS mean FROM visits", epsilon=0.1)
        assert answer.scalar("mean").value == answer["mean"][0]
        for name, hint in (("meen", "Did you mean `mean`"), ("n_low", "`n`")):
            with pytest.raises(Misconfigured, match=hint):
                answer.scalar(name)


def test_null_is_no_number() -> None:
    with pytest.raises(TypeError, match="NoneType"):
        float(Estimate(None, None, None, Fraction(1, 2)))


@dataclass
class Group:
    sex: str
    n: int
    n_low: float


class Pair(NamedTuple):
    sex: str
    n: int


def test_rows_are_objects_of_a_class() -> None:
    with open_visits(groups_per_unit=2) as curator:
        answer = curator.sql("SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex", epsilon=0.1)
        rows = list(answer)
        assert answer.to_objects(Group) == [Group(row["sex"], row["n"], row["n_low"]) for row in rows]
        assert answer.to_objects(Pair) == [(row["sex"], row["n"]) for row in rows]
        with pytest.raises(Misconfigured, match="Did you mean `n"):
            answer.to_objects(namedtuple("Wrong", "nn"))


SCRIPT = """
from dataclasses import dataclass

import lapwing as lw


@dataclass
class Group:
    sex: str
    n: int


def ask(curator: lw.Curator) -> lw.Release:
    text = "SELECT sex, COUNT(*) AS n FROM visits WHERE age > $age GROUP BY sex"
    return curator.sql(text, params={"age": 40}, epsilon=0.1)


with lw.open("visits.parquet", unit="pid", budget=lw.Budget(epsilon=1)) as curator:
    answer: lw.Release = ask(curator)
    groups: list[Group] = answer.to_objects(Group)
    for row in answer:
        print(row["sex"], row["n"])
    one: lw.Release = curator.sql("SELECT COUNT(*) AS n FROM visits", epsilon=0.1)
    number: float = float(one.value) + int(one.scalar("n"))
    print(number, one.value.low, one.cost, one.entry, one.methods(), one.notes, one["n"], one.to_pandas())
    several = curator.batch({"a": "SELECT COUNT(*) AS n FROM visits"}, epsilon=0.1)
    first: lw.Release = several["a"]

server = lw.connect("https://example.org", "token")
remote: lw.Release = server.sql("SELECT COUNT(*) AS n FROM visits", epsilon=0.1)
"""


@pytest.mark.slow
def test_a_script_passes_strict_type_checks(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    words = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", str(script)]
    env = {**os.environ, "MYPYPATH": str(SOURCE)}
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_budget_is_a_bar_in_a_notebook() -> None:
    with open_visits() as curator:
        curator.sql(COUNT, epsilon=0.25)
        page = curator.budget._repr_html_()
    assert "width:25.0%" in page
    assert "Spent 25% of the budget" in page
    assert "<script" not in page
    assert "#" not in page  # the colour of the text, on light pages and on dark ones
