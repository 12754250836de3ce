"""The contract of every format: each table goes through each of them, says the same, and breaks on nothing.

A new format is tried as soon as it is registered; `READ` says how its output is read back.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction
from html.parser import HTMLParser
from inspect import signature
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from matplotlib.text import Text

from lapwing.answers.formats import (
    FORMATS,
    explain,
    show,
    to_arrow,
    to_csv,
    to_dict,
    to_html,
    to_json,
    to_pandas,
    to_text,
)
from lapwing.answers.picture import arrange
from lapwing.answers.table import CHOSEN, AnswerColumn, AnswerTable, fresh, read_table
from lapwing.arrays import objects
from lapwing.errors import Misconfigured
from lapwing.expressions.types import Type
from support.members import functions_in, lacking, plant
from support.visits import open_visits

NAN, INF, HUGE = float("nan"), float("inf"), 2**70
LAST = 2**63 - 1
Rows = list[dict[str, Any]]


def column(name: str, kind: Type, values: list[Any], *ends: list[float], **said: Any) -> AnswerColumn:
    cells = np.empty(len(values), object)
    cells[:] = values
    made = [cells, *(np.array(end, float) for end in ends)]
    for array in made:
        array.flags.writeable = False  # everybody who asks gets the same arrays
    return AnswerColumn(name, kind, *made, **said)


def table(*columns: AnswerColumn, **said: Any) -> AnswerTable:
    return AnswerTable(columns, Fraction(19, 20), "price epsilon = 1; ledger entry 7", **said)


def number(values: list[Any], kind: Type = Type.INTEGER, name: str = "n", error: float = 2.5) -> AnswerColumn:
    middle = [NAN if value is None else float(value) for value in values]
    return column(name, kind, values, [m - error for m in middle], [m + error for m in middle])


TABLES: dict[str, AnswerTable] = {
    "a number": table(number([5912])),
    "no rows": table(column("k", Type.TEXT, []), number([])),
    "NULL": table(column("k", Type.TEXT, ["a", None]), number([None, 3], Type.REAL)),
    "not finite": table(column("k", Type.TEXT, ["a", "b", "c"]), number([NAN, INF, 2.5], Type.REAL)),
    "unicode": table(column("schlüssel", Type.TEXT, ["日本", "a,\"b\"", "<b>&"]), number([1, 2, 3], name="größe")),
    "truth": table(column("sick", Type.BOOLEAN, [True, False, None]), number([1, 2, 3])),
    "dates": table(column("day", Type.DATE, [date(1999, 12, 31), None]), number([1, 2])),
    "times": table(column("at", Type.TIMESTAMP, [datetime(2020, 2, 29, 23, 59), None]), number([1, 2])),  # noqa: DTZ001
    "fractions": table(column("x", Type.REAL, [Fraction(1, 3), Fraction(2)]), number([1, 2])),
    "huge": table(column("k", Type.INTEGER, [1, 2]), number([HUGE, -HUGE])),
    "beyond floats": table(column("k", Type.INTEGER, [1, 2]), column("n", Type.REAL, [10**400, 5], reason="too wide")),
    "whole numbers as floats": table(AnswerColumn("n", Type.INTEGER, np.array([7.0, NAN]), reason="none follows")),
    "no interval": table(column("n", Type.INTEGER, [1], reason="none follows")),
    "some intervals": table(column("n", Type.REAL, [1.5, 2.5], [1, NAN], [2, NAN], reason="0 in a divisor")),
    "half an interval": table(column("n", Type.REAL, [1.5], [1], [INF], reason="open")),
    "bare": table(column("k", Type.TEXT, ["a"]), column("median", Type.REAL, [40.0], bare=True)),
    "chosen": table(column("n", Type.INTEGER, [9], [5], [13], chosen=True, remark="approximate")),
    "names": table(number([1]), number([2], name="n_low"), number([3], name="N"), number([4], name="n interval")),
    "bins": table(column("x", Type.REAL, [0.0, 2.0]), column("x_to", Type.REAL, [2.0, 4.0]), number([1, 2]),
                  column("share", Type.REAL, [0.3, 1.0], bare=True), title="COUNT(*) of t", binned=True),
    "facts": table(number([1]), notes=("Some rows are not counted.",), facts=lambda: {"ledger_entry": 7}),
}  # fmt: skip


class Cells(HTMLParser):
    """The texts of a table's cells, row by row."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.inside = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag == "tr":
            self.rows.append([])
        self.inside = tag in ("td", "th")
        if self.inside:
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.rows[-1][-1] += data


def texts(rows: list[list[str]]) -> Rows:
    return [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]


def lines_of(text: str, answer: AnswerTable) -> Rows:
    lines = [re.split(r" {2,}", line.strip()) for line in text.splitlines()[: len(answer) + 1]]
    return texts(lines)


READ: dict[str, Callable[[Any, AnswerTable], Rows]] = {
    "arrow": lambda found, _: found.to_pylist(),
    "pandas": lambda found, _: pa.Table.from_pandas(found, preserve_index=False).to_pylist(),
    "polars": lambda found, _: found.to_dicts(),
    "csv": lambda found, _: list(csv.DictReader(io.StringIO(found))),
    "json": lambda found, _: json.loads(found)["rows"],
    "text": lines_of,
    "html": lambda found, _: texts(Cells(found).rows),
    "plot": lambda found, answer: [{c.name: "" for c in answer.columns}] * len(answer) if found.findobj(Text) else [],
}
ANSWERED = [
    "SELECT sex, COUNT(*) AS n, AVG(cost) AS mean FROM visits GROUP BY sex",
    "SELECT MEDIAN(age) AS m FROM visits WHERE age > 30",
    "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex HAVING COUNT(*) > 10 ORDER BY n DESC LIMIT 1",
    "WITH c AS (SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex) SELECT MAX(n) AS most FROM c",
]
PARTS = {"to_dict", "write_csv", "footer", "grid", "explain"}
"""Functions of a table that a format is made of, or that write one to a file."""
WRITTEN = {"csv", "json", "text", "html"}


def unread_formats() -> list[str]:
    """Formats, found by looking: functions of a table alone that are not a part of one, and those registered."""
    takes_a_table = (
        one for one in functions_in("lapwing.answers.formats") if next(iter(signature(one).parameters), "") == "table"
    )
    found = [one for one in takes_a_table if one.__name__ not in PARTS]
    return lacking(found, FORMATS.values()) + lacking(FORMATS, READ)


def test_every_format_is_registered_and_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is not is named: two are planted."""
    assert unread_formats() == []
    assert set(READ) == set(FORMATS)

    def to_yaml(table: AnswerTable) -> str:
        return str(table)

    plant(monkeypatch, to_yaml, module="lapwing.answers.formats")
    monkeypatch.setitem(FORMATS, "xml", to_text)
    assert unread_formats() == ["to_yaml", "xml"]


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("form", FORMATS)
def test_every_table_goes_through_every_format(form: str, name: str) -> None:
    """Every row and every column of the answer is there."""
    answer = TABLES[name]
    rows = READ[form](FORMATS[form](answer), answer)
    assert len(rows) == len(answer)
    assert all({column.name for column in answer.columns} <= set(row) for row in rows)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("form", sorted(WRITTEN))
def test_a_written_format_says_the_same_twice_and_never_nan(form: str, name: str) -> None:
    said = FORMATS[form](TABLES[name])
    assert said == FORMATS[form](TABLES[name])
    assert not re.search(r"\b(nan|inf|infinity)\b", said, re.IGNORECASE)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_read_from_its_json_says_the_same_in_every_format(name: str) -> None:
    answer = TABLES[name]
    again = read_table(json.loads(to_json(answer)))
    forms = ["arrow", "csv", "json", *(["text", "html"] if name != "huge" else [])]  # 64 bits in the rows of JSON
    for form in forms:
        assert FORMATS[form](again) == FORMATS[form](answer)
    assert to_pandas(again).equals(to_pandas(answer))
    assert to_pandas(again).attrs == to_pandas(answer).attrs
    if name not in ("no rows", "huge"):
        assert repr(arrange(again)) == repr(arrange(answer))


@pytest.mark.parametrize("asked", ANSWERED)
def test_a_real_answer_read_from_its_json_says_the_same(asked: str) -> None:
    with open_visits() as curator:
        answer = curator.sql(asked, epsilon=1)
        again = read_table(json.loads(answer.to_json()))
    for form in ("arrow", "csv", "json", "text", "html"):
        assert FORMATS[form](again) == answer.to(form)


def plain(value: Any) -> Any:
    """As Arrow gives it back, whatever a format writes instead."""
    return None if value in ("", "NULL") or value != value else value


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("form", ["pandas", "polars", "csv", "json", "text", "html"])
def test_every_format_holds_the_same_numbers(form: str, name: str) -> None:
    """NULL where Arrow has it; numbers are equal, or rounded where they are read by people."""
    answer = TABLES[name]
    exact = to_arrow(answer, intervals=form not in ("text", "html")).to_pylist()
    for row, expected in zip(READ[form](FORMATS[form](answer), answer), exact, strict=True):
        for key, value in expected.items():
            found = plain(row[key])
            assert (found is None) == (value is None)
            if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LAST:
                number = float(found.replace(",", "")) if isinstance(found, str) else found
                assert number == pytest.approx(value, rel=1e-3 if form in ("text", "html") else 0, abs=0)
            elif isinstance(value, str):
                assert found == value


def test_integers_are_exact_in_text_and_end_at_the_last_one_where_they_have_a_type() -> None:
    assert to_arrow(TABLES["huge"])["n"].to_pylist() == [LAST, -LAST - 1]
    assert f"{HUGE:,}" in to_text(TABLES["huge"])
    assert to_arrow(TABLES["whole numbers as floats"])["n"].to_pylist() == [7, None]


def test_types_follow_from_the_columns_and_not_from_the_rows() -> None:
    kinds = {"a": Type.INTEGER, "b": Type.REAL, "c": Type.TEXT, "d": Type.BOOLEAN, "e": Type.DATE, "f": Type.TIMESTAMP}
    empty, missing = (
        table(*(column(n, kind, rows, reason="none") for n, kind in kinds.items())) for rows in ([], [None])
    )
    expected = [pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.date32(), pa.timestamp("us")]
    assert to_arrow(empty, intervals=False).schema.types == expected
    assert to_arrow(empty).schema == to_arrow(missing).schema


def test_intervals_stand_beside_their_number() -> None:
    assert to_arrow(TABLES["no interval"]).to_pylist() == [{"n": 1, "n_low": None, "n_high": None}]
    assert to_arrow(TABLES["bare"]).column_names == ["k", "median"]
    assert to_arrow(TABLES["some intervals"])["n_low"].to_pylist() == [1.0, None]
    assert [row["n interval"] for row in lines_of(to_text(TABLES["some intervals"]), TABLES["some intervals"])] == [
        "1.000 to 2.000",
        "none",
    ]
    assert "1 to NULL" in to_text(TABLES["half an interval"])


def test_names_of_intervals_never_hide_a_column() -> None:
    answer = TABLES["names"]
    for names in (to_arrow(answer).column_names, list(lines_of(to_text(answer), answer)[0])):
        assert len({name.lower() for name in names}) == len(names) - 1  # n and N are columns of the answer
        assert {"n", "n_low", "N", "n interval"} <= set(names)
    assert fresh("a_low", ["A_LOW"]) == "a_low_"


def test_notes_and_remarks_stand_below_the_rows() -> None:
    assert TABLES["chosen"].column_notes == {"n": f"approximate; {CHOSEN}"}
    assert to_text(TABLES["no interval"]).splitlines()[-1] == "no intervals; price epsilon = 1; ledger entry 7"
    assert explain(TABLES["no interval"]) == "price epsilon = 1; ledger entry 7\nn: none follows"
    facts = replace(TABLES["facts"], warnings=("Some rows are cut.",))
    assert to_text(facts).splitlines()[-2:] == [
        "95% intervals; price epsilon = 1; ledger entry 7",
        "Some rows are cut.",
    ]
    assert "Some rows are not counted." in explain(facts)
    assert to_html(facts).endswith("ledger entry 7<br>Some rows are cut.</small></p>")
    assert to_dict(TABLES["facts"])["ledger_entry"] == 7


def test_everything_in_html_is_escaped() -> None:
    evil = "<script>alert('&')</script>"
    said = to_html(table(column(evil, Type.TEXT, [evil]), number([1], name=evil + "n"), warnings=(evil,)))
    assert "<script>" not in said
    assert said.count("&lt;script&gt;") == 5


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"), (NAN, "NULL"), (-INF, "NULL"), (True, "True"), (1234567, "1,234,567"),
        (0.000123456, "0.0001235"), (1234.5, "1,234"), (date(2020, 1, 2), "2020-01-02"), ("x", "x"), (0, "0"),
    ],
)  # fmt: skip
def test_values_are_shown_by_one_rule(value: Any, text: str) -> None:
    assert show(value) == text


@pytest.mark.parametrize(("form", "package"), [("pandas", "pandas"), ("polars", "polars"), ("plot", "matplotlib")])
def test_a_missing_package_is_named(form: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(Misconfigured, match=f"need {package}, which is not installed. Run: pip install"):
        FORMATS[form](TABLES["a number"])


def test_every_kind_of_answer_goes_through_every_format() -> None:
    curator = open_visits(groups_per_unit=1)
    counts = curator.marginals(["sex", "site"], epsilon=0.1)
    for answer in (
        curator.sql("SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex", epsilon=0.1),
        curator.distribution("age", epsilon=0.1),
        counts["sex"],
        counts.total,
    ):
        for form in FORMATS:
            answer_table = answer.table()
            assert len(READ[form](answer.to(form), answer_table)) == len(answer) == len(answer_table)
        assert json.loads(answer.to("json")) == json.loads(answer.to_json())
        with pytest.raises(Misconfigured, match="no format 'parquet'"):
            answer.to("parquet")


def test_json_of_a_joined_answer_says_how_each_was_made() -> None:
    curator = open_visits()
    for _ in range(2):
        answer = curator.sql("SELECT COUNT(*) AS n FROM visits", epsilon=0.1, refresh=True, combine=True)
    read = json.loads(answer.to("json"))
    assert read == json.loads(answer.to_json())
    assert ("measures" in read, len(read["joined"])) == (False, 2)
    assert "Combined 2 answers; valid if " in to_text(answer.table())
    assert "Joined 2 answers" in answer.explain()


def test_json_has_the_intervals_of_its_own_table() -> None:
    answer = open_visits().sql("SELECT COUNT(*) AS n FROM visits", epsilon=0.1)
    said = to_dict(answer.table(0.5))
    assert (said["confidence"], said["rows"]) == (0.5, answer.intervals(0.5).to_pylist())
    assert said["rows"] != answer.to_dict()["rows"]
    assert list(said) == list(answer.to_dict())


FORMULAS = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\uff1d1+1"]


def formulas() -> AnswerTable:
    """Texts and names that a spreadsheet would run, beside harmless ones."""
    texts = [*FORMULAS, "-5", "a=b", "", None]
    columns = (
        AnswerColumn("=key", Type.TEXT, objects(texts)),
        AnswerColumn("n", Type.INTEGER, objects(list(range(-3, 8))), bare=True),
    )
    return AnswerTable(columns, Fraction(19, 20))


def test_plain_csv_writes_texts_as_they_are() -> None:
    read = list(csv.reader(io.StringIO(to_csv(formulas()), newline="")))
    assert read[0] == ["=key", "n"]
    assert [row[0] for row in read[1:]] == [*FORMULAS, "-5", "a=b", "", ""]


def test_csv_for_a_sheet_guards_formulas_and_nothing_else() -> None:
    read = list(csv.reader(io.StringIO(to_csv(formulas(), sheet=True), newline="")))
    assert read[0] == ["'=key", "n"]
    assert [row[0] for row in read[1:]] == [*(f"'{text}" for text in FORMULAS), "-5", "a=b", "", ""]
    assert [row[1] for row in read[1:]] == list(map(str, range(-3, 8)))
