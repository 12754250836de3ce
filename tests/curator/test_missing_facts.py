"""One refusal names all facts that a question needs, and what it says to write is enough."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import lapwing as lw
from lapwing.cli.main import app
from lapwing.curator.missing_facts import MissingFact, ask_steward
from lapwing.errors import Refused
from lapwing.expressions.table import Field
from lapwing.expressions.types import Type
from support.refusals import attempt

ROWS = "unit,amount,country,at\n" + "".join(
    f"u{i % 7},{i},{'DE' if i % 3 else 'FR'},2024-0{1 + i % 9}-03\n" for i in range(60)
)
TYPES = {"amount": "integer", "at": "date"}
QUESTIONS = {
    "SELECT COUNT(*) AS n FROM x": "rows_per_unit",
    "SELECT country, COUNT(*) AS n FROM x GROUP BY country": "rows_per_unit values",
    "SELECT SUM(amount) AS s FROM x": "rows_per_unit bounds",
    "SELECT country, AVG(amount) AS a FROM x GROUP BY country": "rows_per_unit bounds values",
    "SELECT MONTH(at) AS m, COUNT(*) AS n FROM x GROUP BY m": "rows_per_unit",
    "SELECT COUNT(DISTINCT unit) AS n FROM x": "",
    "SELECT MEDIAN(amount) AS m FROM x": "rows_per_unit bounds",
    "SELECT country, SUM(s) AS s FROM (SELECT unit, country, SUM(amount) AS s FROM x GROUP BY unit, country) AS u "
    "GROUP BY country": "rows_per_unit bounds values",
    "SELECT amount, COUNT(*) AS n FROM x GROUP BY amount": "rows_per_unit bounds",
}
"""Natural first questions, and the facts that each needs with a budget without delta."""
WITH_DELTA = {
    "SELECT country, AVG(amount) AS a FROM x GROUP BY country": "rows_per_unit groups_per_unit bounds",
    "SELECT DATE_TRUNC('month', at) AS m, COUNT(*) AS n FROM x GROUP BY m": "rows_per_unit groups_per_unit",
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "x.csv").write_text(ROWS)
    return tmp_path / "x.csv"


def opened(file: Path, delta: float = 0.0, **facts: Any) -> lw.Curator:
    return lw.open(file, unit="unit", types=TYPES, budget=lw.Budget(epsilon=3, delta=delta), **facts)


def passed(refused: Refused) -> dict[str, Any]:
    """The keyword arguments that a refusal says to pass to lw.open."""
    written = re.search(r"[Pp]ass (.*) to lw\.open", refused.instead)
    assert written, refused.instead
    return eval(f"dict({written[1]})")


@pytest.mark.parametrize(
    ("question", "needs", "delta"),
    [*((*case, 0.0) for case in QUESTIONS.items()), *((*case, 1e-6) for case in WITH_DELTA.items())],
)
def test_what_a_refusal_says_to_pass_is_all_that_is_missing(
    file: Path, question: str, needs: str, delta: float
) -> None:
    with opened(file, delta) as bare:
        refused = attempt(bare.preview, question, epsilon=1)
    if not needs:
        assert not isinstance(refused, Refused)
        return
    assert isinstance(refused, Refused)
    assert set(passed(refused)) == set(needs.split())
    assert "steward" not in str(refused)
    with opened(file, delta, **passed(refused)) as curator:
        assert curator.preview(question, epsilon=1)


def test_tables_by_name_are_told_by_name(file: Path) -> None:
    question = "SELECT country, SUM(amount) AS s FROM visits GROUP BY country"
    facts: dict[str, Any] = {"unit": "unit", "types": {"visits": TYPES}, "budget": lw.Budget(epsilon=3)}
    with lw.open({"visits": file}, **facts) as bare:
        refused = attempt(bare.sql, question, epsilon=1)
    assert isinstance(refused, Refused)
    with lw.open({"visits": file}, **facts, **passed(refused)) as curator:
        assert curator.preview(question, epsilon=1)


def pasted(text: str, refused: Refused) -> str:
    """A lapwing.toml with the lines of a refusal under their headers, in place of those of the same name."""
    header = ""
    lines = text.splitlines()
    for line in str(refused).split("replaces the old:\n")[1].splitlines():
        if line.startswith("["):
            header = line
        elif " = " in line:
            lines = [known for known in lines if known.split(" = ")[0] != line.split(" = ")[0]]
            lines.insert(lines.index(header) + 1, line)
    return "\n".join(lines)


@pytest.mark.parametrize("question", [question for question, needs in QUESTIONS.items() if needs])
def test_the_lines_of_a_refusal_are_pasted_into_what_init_wrote(
    file: Path, monkeypatch: pytest.MonkeyPatch, question: str
) -> None:
    monkeypatch.chdir(file.parent)
    app(["init", "x.csv", "--unit", "unit", "--epsilon", "1"], standalone_mode=False)
    with lw.load() as bare:
        refused = attempt(bare.preview, question, epsilon=1)
    assert isinstance(refused, Refused)
    assert str(refused).endswith("\nNothing was charged.") or "auto" in str(refused)
    text = pasted(Path("lapwing.toml").read_text(), refused)
    assert tomllib.loads(text)
    Path("lapwing.toml").write_text(text)
    with lw.load() as curator:
        assert curator.preview(question, epsilon=1)


def test_batches_statements_and_distributions_name_all_facts_too(file: Path) -> None:
    with opened(file) as bare:
        batch = attempt(bare.batch, ["SELECT SUM(amount) FROM x", "SELECT COUNT(*) FROM x GROUP BY country"], epsilon=1)
        above = attempt(
            bare.sql, "SELECT MAX(n) FROM (SELECT country, COUNT(*) AS n FROM x GROUP BY country)", epsilon=1
        )
        cells = attempt(bare.distribution, "amount", epsilon=1)
        tables = attempt(bare.marginals, ["amount", "country"], epsilon=1)
    refusals = [one for one in (batch, above, cells, tables) if isinstance(one, Refused)]
    assert [set(passed(one)) for one in refusals] == [
        {"rows_per_unit", "bounds", "values"},
        {"rows_per_unit", "values"},
        {"rows_per_unit", "groups_per_unit", "bounds"},
        {"rows_per_unit", "groups_per_unit", "bounds", "values"},
    ]


def test_what_is_searched_for_is_not_missing(file: Path) -> None:
    with opened(file, rows_per_unit=5) as bare:
        refused = attempt(bare.preview, "SELECT country, SUM(amount) FROM x GROUP BY country", epsilon=1, bounds="auto")
    assert isinstance(refused, Refused)
    assert set(passed(refused)) == {"values"}


def test_no_search_is_proposed_where_it_would_not_help(file: Path) -> None:
    with opened(file) as bare:
        refused = attempt(bare.preview, "SELECT country, COUNT(*) FROM x GROUP BY country", epsilon=1)
        typo = attempt(bare.preview, "SELECT country, SUM(amounts) FROM x GROUP BY country", epsilon=1)
    assert isinstance(refused, Refused)
    assert isinstance(typo, Refused)
    assert "auto" not in refused.instead
    assert "lw.open" not in typo.instead


def test_analysts_are_sent_to_the_steward(file: Path) -> None:
    with opened(file) as curator:
        curator.address(ask_steward)
        refused = attempt(curator.preview, "SELECT country, AVG(amount) FROM x GROUP BY country", epsilon=1)
        assert isinstance(refused, Refused)
        whole = "or have the steward declare rows_per_unit for `x`, bounds for `amount` and values for `country`."
        assert whole in refused.instead
        (table,) = curator.catalog.tables
    assert ask_steward([MissingFact("bounds", None, table, Field("a", Type.REAL))]).endswith("declare bounds for `a`.")
