"""Values of parameters are constants of the question, typed as written ones are, at every door."""

from __future__ import annotations

import json
import re
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sqlglot import exp
from typer.testing import CliRunner

import lapwing as lw
from lapwing import magic
from lapwing.cli.main import app
from lapwing.cli.output import in_flags
from lapwing.errors import Refused
from lapwing.sql.parse import bind_parameters, parse
from lapwing.sql.split import read_sql
from support.visits import frame, open_visits, visits_catalog, write_visits

CATALOG = visits_catalog(zone="UTC")


class Name(str, Enum):  # noqa: UP042 (a StrEnum is its value)
    """Texts with names, of which str() gives the name."""

    ANN = "Ann"


COUNT = "SELECT COUNT(*) AS n FROM visits WHERE "
CASES: list[tuple[str, Any, str]] = [
    ("age > $age", {"age": 40}, "age > 40"),
    ("age > ?", [40], "age > 40"),
    ("age > ? AND age < ?", [40, 50], "age > 40 AND age < 50"),
    ("age + ? < 9 AND age BETWEEN ? AND ?", (1, 2, 3), "age + 1 < 9 AND age BETWEEN 2 AND 3"),
    ("age > $1 AND age < $1 + 9", [40], "age > 40 AND age < 40 + 9"),
    ("age > $age", {"age": "40"}, "age > '40'"),
    ("age > $age", {"age": "40"}, "age > 40"),
    ("age > $age", {"age": np.int64(40)}, "age > 40"),
    ("age > -$age", {"age": -4}, "age > -(-4)"),
    ("cost > $c", {"c": 0.1}, "cost > 0.1"),
    ("cost > $c", {"c": np.float64(0.1)}, "cost > 0.1"),
    ("cost > $c", {"c": Decimal("0.10")}, "cost > 0.10"),
    ("cost > $c", {"c": 1e-7}, "cost > 1e-7"),
    ("cost > $c", {"c": 40}, "cost > 40"),
    ("cost > $c", {"c": 40.0}, "cost > 40.0"),
    ("age > $big", {"big": 1 << 70}, f"age > {1 << 70}"),
    ("sick = $s", {"s": True}, "sick = TRUE"),
    ("sick = $s", {"s": "false"}, "sick = FALSE"),
    ("name = $s", {"s": "it's"}, "name = 'it''s'"),
    ("name = $s", {"s": Name.ANN}, "name = 'Ann'"),
    ("name ILIKE $s", {"s": "a%"}, "name ILIKE 'a%'"),
    ('name IN ($a, $"b c")', {"a": "x", "b c": "y"}, "name IN ('x', 'y')"),
    ("COALESCE(name, $x) = 'a'", {"x": None}, "COALESCE(name, NULL) = 'a'"),
    ("day > $d", {"d": date(2020, 1, 2)}, "day > DATE '2020-01-02'"),
    ("day > $d", {"d": "2020-01-02"}, "day > DATE '2020-01-02'"),
    ("day < $d + INTERVAL $n DAY", {"d": date(2020, 1, 2), "n": 3}, "day < DATE '2020-01-02' + INTERVAL 3 DAY"),
    ("at > $t", {"t": datetime(2020, 1, 2, 3, 4)}, "at > TIMESTAMP '2020-01-02 03:04:00'"),  # noqa: DTZ001
    ("age % $m = 1", {"m": 3}, "age % 3 = 1"),
]


@pytest.mark.parametrize(("condition", "params", "written"), CASES, ids=lambda case: str(case))
def test_a_question_with_parameters_is_the_one_with_its_constants_written_out(
    condition: str, params: Any, written: str
) -> None:
    (bound,) = bind_parameters([COUNT + condition], params)
    found, expected = read_sql(bound, CATALOG), read_sql(COUNT + written, CATALOG)
    assert found.facts == expected.facts
    assert found.where == expected.where


@pytest.mark.parametrize("value", [Decimal("sNaN"), Fraction(10**400), 10**5000, -(10**5000)], ids=lambda _: "")
def test_numbers_that_cannot_be_written_are_refused(value: Any) -> None:
    with pytest.raises(Refused, match="Pass a finite number"):
        bind_parameters([COUNT + "cost > $c"], {"c": value})


def test_parameters_stand_wherever_constants_do() -> None:
    text = "SELECT BUCKET(age, [$a, $b]) AS b, QUANTILE_CONT(cost, $q) AS q, SUM(CLIP(cost, $a, $b)) AS s FROM visits "
    text += "GROUP BY 1 HAVING COUNT(*) > $a ORDER BY 1 LIMIT $k"
    values = {"a": 10, "b": 65, "q": 0.5, "k": 3}
    written = text
    for name, value in values.items():
        written = written.replace(f"${name}", str(value))
    (bound,) = bind_parameters([text], values)
    assert read_sql(bound, CATALOG).facts == read_sql(written, CATALOG).facts


HOSTILE = [
    "x' OR 1=1 --",
    "x'' OR 1=1 --",
    "'; SELECT * FROM visits; --",
    "/*",
    '"',
    "$age",
    "?",
    "\\' OR TRUE --",
    "name",
    "NULL",
]


@pytest.mark.parametrize("value", HOSTILE)
def test_a_value_stays_one_text_whatever_it_contains(value: str) -> None:
    (bound,) = bind_parameters([COUNT + "name = $x AND age > $age"], {"x": value, "age": 3})
    texts = [node.this for node in parse(bound).find_all(exp.Literal) if node.is_string]
    assert texts == [value]
    rows = pa.table({"pid": [1, 2, 3], "name": [value, "x", "y"], "age": [4, 5, 6]})
    facts: dict[str, Any] = {"values": None, "bounds": {"age": (0, 120)}}
    with open_visits(rows, budget=lw.Budget(epsilon=10**6), **facts) as curator:
        answer = curator.sql(COUNT + "name = $x AND age > $age", params={"x": value, "age": 3}, epsilon=1000)
        assert int(answer.value) == 1


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) AS $x FROM visits",
        "SELECT COUNT(*) AS n FROM visits $x",
        "SELECT COUNT(*) AS n FROM $x",
        "SELECT SUM(visits.$x) AS n FROM visits",
        "WITH $x AS (SELECT * FROM visits) SELECT COUNT(*) AS n FROM n",
        "$x",
    ],
)
def test_a_value_is_no_name_and_no_keyword(text: str) -> None:
    with open_visits() as curator:
        for value in ("visits", "n", "SELECT COUNT(*) FROM visits"):
            with pytest.raises(Refused):
                curator.sql(text, params={"x": value}, epsilon=0.1)
        assert not curator.budget.spent


WRONG: list[tuple[str, Any, str]] = [
    ("age > $age", None, r"`\$age`: it has no value"),
    ("age > $age", {}, r"the question has `\$age`; values are given for no parameter"),
    ("age > $age", {"agee": 1}, r"has `\$age`; values are given for `\$agee`"),
    ("age > $age", {"age": 1, "sex": 2}, r"has `\$age`; values are given for `\$age`, `\$sex`"),
    ("age > ?", [1, 2], r"has `\$1`; values are given for `\$1`, `\$2`"),
    ("age > ? AND age < ?", [1], r"has `\$1`, `\$2`; values are given for `\$1`"),
    ("age > 4", {"age": 1}, r"has no parameter; values are given for `\$age`\. Leave `params` out"),
    ("age > $age", 40, r"it gives each \$name of the question its value"),
    ("age > $age", "age=40", r"it gives each \$name of the question its value"),
    ("age > $age", {"age": b"40"}, "of type bytes"),
    ("age > $age", {"age": [40]}, "of type list"),
    ("age > $age", {"age": float("nan")}, "of type float"),
    ("age > $age", {"age": Decimal("Infinity")}, "of type Decimal"),
    ("age > $age", {"age": "a\0"}, "null character"),
    ("age > $age", {"age": "\ud800"}, "invalid characters"),
    ("age > $age", {"age": "a" * 60_000}, "longer than 50,000 characters"),
    ("age > $age", {"age": "many"}, "is an integer and 'many' is text"),
    ("name > $name", {"name": 4}, "is text and 4 is an integer"),
]


@pytest.mark.parametrize(("condition", "params", "why"), WRONG, ids=[str(case)[:60] for case in WRONG])
def test_wrong_values_are_refused_and_charge_nothing(condition: str, params: Any, why: str) -> None:
    with open_visits(types={"name": "text"}) as curator:
        for ask in (curator.sql, curator.preview):
            with pytest.raises(Refused, match=why) as refused:
                ask(COUNT + condition, params=params, epsilon=0.1)
            assert str(refused.value).endswith("Nothing was charged.")
        assert not curator.budget.spent


@pytest.mark.parametrize("condition", ["age > $age AND age < $most", "age > ? AND age < ?"])
def test_the_advice_of_a_refusal_works_when_it_is_pasted(condition: str) -> None:
    with open_visits() as curator:
        with pytest.raises(Refused) as refused:
            curator.sql(COUNT + condition, params={}, epsilon=0.1)
        found = re.search(r"params=(\{.*\}|\[.*\])", refused.value.instead or "")
        assert found is not None
        assert curator.preview(COUNT + condition, params=json.loads(found[1]), epsilon=0.1).cost


def test_stored_answers_serve_either_way() -> None:
    with open_visits() as curator:
        first = curator.sql(COUNT + "age > $age", params={"age": 40}, epsilon=0.1)
        for text, params in (("age > 40", None), ("age > ?", [40]), ("age > $x", {"x": "40"})):
            again = curator.sql(COUNT + text, params=params, epsilon=0.1)
            assert (again.cost.amount, again.entry, list(again)) == (0, first.entry, list(first))
        assert curator.preview(COUNT + "age > $age", params={"age": 40}, epsilon=0.1).stored
        assert not curator.preview(COUNT + "age > $age", params={"age": 41}, epsilon=0.1).stored
        assert curator.sql(COUNT + "age > $age", params={"age": 41}, epsilon=0.1).cost


def test_values_of_one_number_and_several_types_are_several_questions() -> None:
    with open_visits() as curator:
        bound = [bind_parameters([COUNT + "age > $age"], {"age": value})[0] for value in (1, True, 1.0, "1")]
        assert len(set(bound)) == 4
        assert curator.sql(COUNT + "cost = $c", params={"c": 1}, epsilon=0.1).cost


def test_they_are_part_of_what_a_key_stands_for() -> None:
    with open_visits() as curator:
        first = curator.sql(COUNT + "age > $age", params={"age": 40}, epsilon=0.1, key="k", refresh=True)
        again = curator.sql(COUNT + "age > $age", params={"age": 40}, epsilon=0.1, key="k", refresh=True)
        assert (again.entry, again.cost.amount) == (first.entry, 0)
        with pytest.raises(lw.LapwingError, match="key"):
            curator.sql(COUNT + "age > $age", params={"age": 41}, epsilon=0.1, key="k", refresh=True)


def test_statements_that_compute_from_released_numbers_take_them() -> None:
    text = "SELECT sex, 100.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM visits WHERE age > $a GROUP BY sex"
    several = "SELECT (SELECT COUNT(*) FROM visits WHERE age > $a) / (SELECT COUNT(*) FROM visits WHERE age > $b) AS r"
    with open_visits(groups_per_unit=2) as curator:
        one = curator.sql(text, params={"a": 30}, epsilon=0.1)
        assert list(curator.sql(text.replace("$a", "30"), epsilon=0.1)) == list(one)
        two = curator.sql(several, params={"a": 40, "b": 30}, epsilon=0.1)
        assert curator.sql(several.replace("$a", "40").replace("$b", "30"), epsilon=0.1).cost.amount == 0
        assert curator.preview(several, params={"a": 40, "b": 31}, epsilon=0.1).cost
        assert two.cost


def test_a_batch_takes_one_mapping_for_all_of_its_questions() -> None:
    asked = {"old": COUNT + "age > $age", "women": COUNT + "sex = $sex AND age > $age"}
    with open_visits() as curator:
        seen = curator.preview_batch(asked, params={"age": 40, "sex": "F"}, epsilon=0.2)
        found = curator.batch(asked, params={"age": 40, "sex": "F"}, epsilon=0.2)
        assert seen.cost == found.cost
        written = {"old": COUNT + "age > 40", "women": COUNT + "sex = 'F' AND age > 40"}
        assert curator.batch(written, epsilon=0.2).cost.amount == 0
        with pytest.raises(Refused, match=r"has `\$age`, `\$sex`; values are given for `\$age`"):
            curator.batch(asked, params={"age": 40}, epsilon=0.2)
        with pytest.raises(Refused, match=r"gives each \$name"):
            curator.batch([COUNT + "age > ?", COUNT + "age < ?"], params=[40], epsilon=0.2)


def test_the_ledger_shows_the_question_with_its_values() -> None:
    with open_visits() as curator:
        curator.sql(COUNT + "name = $x AND age > $age", params={"age": 40, "x": "it's"}, epsilon=0.1)
        curator.batch([COUNT + "age > $age", "SELECT AVG(cost) AS m FROM visits"], params={"age": 40}, epsilon=0.2)
        notes = "\n".join(entry.note for entry in curator.ledger.entries() if entry.note)
    assert f"{COUNT}name = $x AND age > $age [$age = 40, $x = 'it''s']" in notes
    assert f"{COUNT}age > $age [$age = 40]" in notes


def test_an_ibis_expression_has_none() -> None:
    with open_visits() as curator, pytest.raises(Refused, match="Ibis"):
        curator.sql(curator.table("visits").count(), params={"age": 4}, epsilon=0.1)


def test_the_command_line_takes_them_as_text(tmp_path: Path) -> None:
    path = write_visits(tmp_path)
    file = tmp_path / "lapwing.toml"
    columns = 'pid = {type="integer"}\nage = {type="integer", bounds=[0, 120]}\nname = {type="text"}\n'
    head = f'budget = {{epsilon = 1}}\n[tables.visits]\nsource = "{path.name}"\nunit = "pid"\nrows_per_unit = 2\n'
    file.write_text(f"{head}[tables.visits.columns]\n{columns}")

    def run(*words: str) -> Any:
        return CliRunner().invoke(app, [*words, "--file", str(file)])

    text = COUNT + "age > $age AND name <> $name"
    values = ["--param", "age=40", "--param", "name=x=' OR 1=1 --"]
    first = json.loads(run("ask", text, *values, "--epsilon", "0.1", "--json").output)
    assert first["price"]["epsilon"] == 0.1
    written = COUNT + "age > 40 AND name <> 'x='' OR 1=1 --'"
    again = json.loads(run("ask", written, "--epsilon", "0.1", "--json").output)
    assert (again["price"]["epsilon"], again["rows"]) == (0, first["rows"])
    assert "nothing" in run("preview", text, *values, "--epsilon", "0.1").output
    assert run("batch", COUNT + "age > $age", COUNT + "age < 9", "--param", "age=40", "--epsilon", "0.2").exit_code == 0
    assert "--param age=40" in str(run("ask", text, "--param", "age", "--epsilon", "0.1").exception)
    refused = str(run("ask", text, "--param", "age=4", "--epsilon", "0.1").exception)
    assert "Pass --param age=40 --param name=40 with your values." in in_flags(refused)


def test_a_notebook_cell_takes_them_as_text() -> None:
    with open_visits() as curator:
        names = {"visits": curator}
        first = magic.run(
            "--epsilon 0.1 --param age=40 --param 'name=a b'", COUNT + "age > $age AND name <> $name", names
        )
        assert curator.sql(COUNT + "age > 40 AND name <> 'a b'", epsilon=0.1).entry == first.entry
        with pytest.raises(lw.Misconfigured, match="--param age=40"):
            magic.run("--epsilon 0.1 --param age", COUNT + "age > $age", names)


def test_the_body_of_a_request_keeps_the_types_of_values() -> None:
    from pydantic import ValidationError

    from lapwing.server.schemas import AskBody, BatchBody

    sent = '{"sql": "SELECT 1", "epsilon": 1, "params": {"a": 1, "b": 1.0, "c": "1", "d": true, "e": null, "f": ""}}'
    read = AskBody.model_validate_json(sent).params  # type: ignore[attr-defined]
    assert [(type(value), value) for value in read.values()] == [
        (int, 1), (float, 1.0), (str, "1"), (bool, True), (type(None), None), (str, ""),
    ]  # fmt: skip
    assert AskBody.model_validate_json('{"sql": "x", "params": [1, "2"]}').params == [1, "2"]  # type: ignore[attr-defined]
    assert BatchBody.model_validate_json('{"questions": ["x"], "params": {"a": 1}}').params == {"a": 1}  # type: ignore[attr-defined]
    for wrong in ('{"a": [1]}', '{"a": {}}', '"a"', "4"):
        with pytest.raises(ValidationError):
            AskBody.model_validate_json(f'{{"sql": "x", "params": {wrong}}}')


def test_frames_with_rows_of_one_unit_are_as_before() -> None:
    """A question without parameters and with an empty mapping is the same question."""
    with open_visits(frame(10)) as curator:
        first = curator.sql(COUNT + "age > 3", epsilon=0.1)
        assert curator.sql(COUNT + "age > 3", params={}, epsilon=0.1).entry == first.entry
        assert curator.sql(COUNT + "age > 3", params=[], epsilon=0.1).entry == first.entry
