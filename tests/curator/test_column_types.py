"""Types are declared, or recorded when a ledger is first opened. Later data are cast to them and never change one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lapwing as lw
from lapwing.expressions.types import Type

BUDGET = lw.Budget(epsilon=1000)
CSV = "pid,age,cost,sex\n1,30,1.5,F\n2,x,2.5,M\n3,50,,F\n"


def opened(data: Any, place: Path | None = None, **facts: Any) -> lw.Curator:
    known: dict[str, Any] = {"name": "t", "unit": None, "budget": BUDGET, "ledger": place, **facts}
    return lw.open(data, **known)


def kinds(curator: lw.Curator) -> dict[str, str]:
    return {field.name: field.type.value for field in curator.catalog.tables[0].fields}


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pd.Series([1, 2]), "integer"),
        (pd.Series([1, 2], dtype="int32"), "integer"),
        (pd.Series([1, None], dtype="Int64"), "integer"),
        (pd.Series([1, None], dtype="int64[pyarrow]"), "integer"),
        (pd.Series([1.0, 2.0]), "real"),
        (pd.Series([1, None]), "real"),
        (pd.Series([True, False]), "boolean"),
        (pd.Series([True, None]), "text"),
        (pd.Series([1, 2], dtype=object), "text"),
        (pd.Series(["a", None]), "text"),
    ],
)
def test_a_frame_has_the_types_of_its_dtypes(column: Any, kind: str) -> None:
    """threat:A20 of the dtypes alone: one more value of the same dtype changes no type."""
    for rows in (column, column.iloc[:0], column.iloc[:1]):
        assert kinds(opened(pd.DataFrame({"v": rows}))) == {"v": kind}


def test_the_types_of_a_pandas_frame_are_told_once_as_a_line_to_paste(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame, place = pd.DataFrame({"pid": [1, 2], "x": [0.5, 1.0]}), tmp_path / "ledger.db"
    opened(frame, place).close()
    said = capsys.readouterr()
    line = 'types={"pid": "integer", "x": "real"}'
    assert said.err == f"`t`: types are those of the dtypes: {line}. Pass this line to declare them yourself.\n"
    assert said.out == ""
    opened(frame, place).close()
    opened(frame, types={"pid": "integer", "x": "real"})
    opened(pl.DataFrame({"pid": [1]}))
    opened(pa.table({"pid": [1]}))
    assert capsys.readouterr().err == ""


def test_a_later_frame_is_cast_and_never_changes_a_type(tmp_path: Path) -> None:
    """threat:A20 what does not cast is NULL; a missing value makes floats, and texts are read as numbers."""
    place = tmp_path / "ledger.db"
    opened(pd.DataFrame({"a": [1, 2], "b": [True, False]}), place).close()
    for number, column in enumerate(([1, None, np.nan], ["1", "x", None], [1.0, 2.0**70, np.inf]), 2):
        later = pd.DataFrame({"A": column, "b": ["true", "no", None], "new": [0.5] * 3})
        with opened(later, place, version=str(number), values={"a": [1, None]}) as curator:
            assert kinds(curator) == {"A": "integer", "b": "boolean", "new": "real"}
            found = curator.sql("SELECT a, COUNT(*) AS n FROM t GROUP BY a", epsilon=100)
            assert found["n"] == [1, 2]


def test_a_recorded_type_outlives_a_frame_without_its_column(tmp_path: Path) -> None:
    place = tmp_path / "ledger.db"
    opened(pd.DataFrame({"a": [1], "b": [1]}), place).close()
    opened(pd.DataFrame({"b": [1]}), place, version="2").close()
    with opened(pd.DataFrame({"a": [1.5], "b": ["x"]}), place, version="3") as curator:
        assert kinds(curator) == {"a": "integer", "b": "integer"}


def test_explicit_types_change_a_type_as_an_entry_of_the_ledger(tmp_path: Path) -> None:
    frame, place = pd.DataFrame({"a": [1, 2]}), tmp_path / "ledger.db"
    opened(frame, place).close()
    with opened(frame, place, types={"A": "real"}) as curator:
        assert kinds(curator) == {"a": "real"}
        declared = [entry.remark("limits") for entry in curator.ledger.entries() if entry.kind == "version"]
    assert [limits["columns"]["a"]["type"] for limits in declared] == ["integer", "real"]
    with opened(frame, place) as curator:
        assert kinds(curator) == {"a": "real"}
        assert curator.ledger.declared_facts("T", "type") == {"a": "real"}


def test_a_file_keeps_its_recorded_types_too(tmp_path: Path) -> None:
    """threat:A20 pandas writes integers with a missing value as DOUBLE into Parquet."""
    path = tmp_path / "t.parquet"
    pd.DataFrame({"a": [1, 2]}).to_parquet(path)
    lw.open(path, unit=None, budget=BUDGET).close()
    pd.DataFrame({"a": [1, None]}).to_parquet(path)
    with lw.open(path, unit=None, budget=BUDGET, version="2") as curator:
        assert kinds(curator) == {"a": "integer"}


def test_a_csv_file_without_types_says_what_to_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The names of its columns are not told: the first line of a file without a header is a row."""
    path = tmp_path / "visits.csv"
    path.write_text(CSV)
    with lw.open(path, unit="pid", budget=BUDGET) as curator:
        assert set(kinds(curator).values()) == {"text"}
    said = capsys.readouterr().err
    assert said.startswith("`visits`: the columns of a CSV file are text. Declare what is not: types={")
    assert said.count("\n") == 1
    assert "sex" not in said
    with lw.open(path, unit="pid", budget=BUDGET, types={"age": "integer"}) as curator:
        assert kinds(curator)["age"] == "integer"
    assert capsys.readouterr().err == ""


def test_types_are_guessed_at_the_first_open_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "visits.csv"
    path.write_text("pid,cost,sex\n1,1.5,F\n2,2.5,M\n")
    line = 'types={"pid": "integer", "cost": "real", "sex": "text"}'
    with lw.open(path, unit="pid", budget=BUDGET, types="guess") as curator:
        assert kinds(curator) == {"pid": "integer", "cost": "real", "sex": "text"}
    said = capsys.readouterr().err
    assert said == f"`visits`: {line} was guessed from the rows. Review it, and write it instead of types='guess'.\n"
    with pytest.raises(lw.Misconfigured, match="only the first open of a ledger may") as caught:
        lw.open(path, unit="pid", budget=BUDGET, types="guess")
    assert 'what was recorded: types={"cost": "real", "pid": "integer", "sex": "text"}.' in str(caught.value)
    with lw.open(path, unit="pid", budget=BUDGET) as curator:  # what was recorded stays
        assert kinds(curator)["cost"] == "real"
    assert capsys.readouterr().err == ""


def test_only_a_csv_file_is_guessed(tmp_path: Path) -> None:
    with pytest.raises(lw.Misconfigured, match="is for CSV files"):
        opened(pa.table({"a": [1]}), types="guess")
    with pytest.raises(lw.Misconfigured, match="types by column"):
        opened(pa.table({"a": [1]}), types="integer")


def test_a_guess_that_fails_leaves_no_ledger_behind(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    path.write_text(CSV)
    with pytest.raises(lw.Misconfigured, match="no such column"):
        lw.open(path, unit="pid", budget=BUDGET, types="guess", bounds={"weight": (0, 1)})
    assert not (tmp_path / ".lapwing").exists()
    lw.open(path, unit="pid", budget=lw.Budget(epsilon=1), types="guess").close()


def test_public_csv_files_declare_types(tmp_path: Path) -> None:
    path = tmp_path / "regions.csv"
    path.write_text("code,people\n1,100\n2,x\n")
    facts: dict[str, Any] = {"public": {"regions": path}}
    data = pa.table({"pid": [1, 2], "code": [1, 2]})
    curator = opened(data, public_types={"regions": {"Code": "integer", "people": "integer"}}, **facts)
    regions = curator.catalog.table("regions")
    assert [(field.name, field.type) for field in regions.fields] == [("code", Type.INTEGER), ("people", Type.INTEGER)]
    assert regions.field("people").values == (100, None)
    joined = "SELECT r.people, COUNT(*) AS n FROM t JOIN regions AS r ON t.code = r.code GROUP BY r.people"
    assert curator.sql(joined, epsilon=100)["n"] == [1, 1]
    for wrong, words in (({"region": {}}, "not a public table"), ({"regions": {"kode": "text"}}, "no such column")):
        with pytest.raises(lw.Misconfigured, match=words):
            opened(data, public_types=wrong, **facts)


def test_lapwing_toml_declares_types_of_public_csv_files(tmp_path: Path) -> None:
    pd.DataFrame({"pid": [1, 2], "code": [1, 2]}).to_parquet(tmp_path / "t.parquet")
    (tmp_path / "regions.csv").write_text("code\n1\n2\n")
    text = """
        budget = { epsilon = 1 }
        tables.t = { source = "t.parquet", unit = "row", columns = { code = { type = "integer" } } }
        public.regions = { source = "regions.csv", types = { code = "integer" } }
    """
    (tmp_path / "lapwing.toml").write_text(text)
    with lw.load(tmp_path / "lapwing.toml") as curator:
        assert curator.catalog.table("regions").field("code").type is Type.INTEGER
    (tmp_path / "lapwing.toml").write_text(text.replace('"integer" } }\n    ', '"whole" } }\n    '))
    with pytest.raises(lw.Misconfigured, match=r"public\.regions.*`type` is 'whole'"):
        lw.load(tmp_path / "lapwing.toml")
