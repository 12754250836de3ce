"""Frames: every row is read, types follow from the columns' types, and what cannot be read is told in a sentence."""

from __future__ import annotations

import decimal
import io
import re
from datetime import date, time, timedelta
from enum import Enum
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import lapwing as lw
from lapwing.engines.duckdb import DuckDBEngine, stored_types
from lapwing.engines.frames import frame_source
from lapwing.errors import Misconfigured
from lapwing.expressions.table import Field, Table
from lapwing.expressions.types import Type

BUDGET = lw.Budget(epsilon=100_000)
FACTS: dict[str, Any] = {"name": "t", "unit": "pid", "rows_per_unit": 1, "budget": BUDGET}
ROWS: dict[str, Any] = {"name": "t", "unit": None, "budget": BUDGET}


class Derived(pd.DataFrame):
    """A kind of frame of somebody's own, as geopandas has one."""


def objects(*values: Any) -> pd.DataFrame:
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return pd.DataFrame({"v": pd.Series(column, dtype=object)})


def read(data: Any) -> list[Any]:
    """The column `v` as the engine holds it."""
    source = frame_source(data)
    table = Table("t", (Field("v", stored_types(source)["v"]),), None)
    engine = DuckDBEngine([(table, source)], salt=1)
    found = [row[0] for row in engine._connection.execute("SELECT v FROM t").fetchall()]
    engine.close()
    return found


def batch(data: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(data)


def reader(data: dict[str, Any]) -> pa.RecordBatchReader:
    return pa.table(data).to_reader()


def scanned(data: dict[str, Any]) -> pl.LazyFrame:
    """As pl.scan_parquet gives it."""
    file = io.BytesIO()
    pl.DataFrame(data).write_parquet(file)
    file.seek(0)
    return pl.scan_parquet(file)


def related(data: dict[str, Any]) -> Any:
    return duckdb.from_arrow(pa.table(data))


def dataset(data: dict[str, Any]) -> Any:
    return pyarrow.dataset.dataset(pa.table(data))


KINDS = [pd.DataFrame, Derived, pl.DataFrame, pl.LazyFrame, scanned, pa.table, batch, reader, dataset, related]


@pytest.mark.parametrize("make", KINDS)
def test_every_row_of_a_frame_is_counted(make: Any) -> None:
    """A frame that is read as empty gives noise around 0, which nobody would notice."""
    data = make({"pid": [1, 2, 3, 4], "sex": ["F", "M", None, "F"], "x": [1.5, 2.5, 3.0, 4.0]})
    curator = lw.open(data, values={"sex": ["F", "M", None]}, bounds={"x": (0, 10)}, **FACTS)
    found = curator.sql("SELECT sex, COUNT(*) AS n, SUM(x) AS s FROM t GROUP BY sex", epsilon=3000).to_arrow()
    assert found["n"].to_pylist() == [2, 1, 1]
    assert found["s"].to_pylist() == pytest.approx([5.5, 2.5, 3.0], abs=0.4)


def test_pandas_objects_are_texts_and_the_index_is_no_column() -> None:
    data = pd.DataFrame({"pid": [1, 2], "sex": ["F", None], "none": [None, None]}, index=[7, 9]).astype(object)
    assert stored_types(frame_source(data)) == {"pid": Type.TEXT, "sex": Type.TEXT, "none": Type.TEXT}
    curator = lw.open(data, values={"sex": ["F", None], "none": ["a", None]}, **FACTS)
    for column, counts in (("sex", [1, 1]), ("none", [0, 2])):
        question = f"SELECT {column}, COUNT(*) AS n FROM t GROUP BY {column}"
        assert curator.sql(question, epsilon=1000).to_arrow()["n"].to_pylist() == counts


class Word(str, Enum):  # noqa: UP042
    """A text whose own form is another text."""

    YES = "yes"


class Silent:
    """An object that has no text."""

    def __str__(self) -> str:
        raise ValueError("ZZCANARY")


ANY = ["a", Word.YES, True, False, 7, 1.5, b"x", None, np.nan, pd.NaT, pd.NA, decimal.Decimal("NaN"),
       decimal.Decimal("sNaN"), "\ud800", Silent(), date(2020, 1, 1), {"k": 1}]  # fmt: skip


@pytest.mark.parametrize("others", [[], ["a"], [True], [7, "a"]], ids=["alone", "texts", "truths", "mixed"])
def test_an_object_is_read_the_same_among_any_others(others: list[Any]) -> None:
    """Columns of one kind are converted at once, and no value may change how another one is read."""
    texts = ["a", "yes", "True", "False", "7", "1.5", "b'x'", *[None] * 8, "2020-01-01", "{'k': 1}"]
    for value, text in zip(ANY, texts, strict=True):
        assert read(objects(value, *others))[0] == text


def test_truth_values_of_pandas_are_texts_if_one_is_missing_unless_values_are_declared() -> None:
    whole, missing = pd.DataFrame({"v": [True, False]}), pd.DataFrame({"v": [True, None]})
    assert (read(whole), read(missing)) == ([True, False], ["True", None])
    curator = lw.open(missing, unit=None, name="t", values={"v": [True, None]}, budget=BUDGET)
    assert curator.sql("SELECT v, COUNT(*) AS n FROM t GROUP BY v", epsilon=1000).to_arrow()["n"].to_pylist() == [1, 1]


@pytest.mark.parametrize("dtype", [None, "category"])
def test_numbers_of_pandas_have_the_type_of_their_dtype(dtype: Any) -> None:
    """threat:A20 a missing value makes floats of the integers, and of the categories made of them."""
    for values, kind in (([1, 2], Type.INTEGER), ([1.0, 2.0], Type.REAL), ([1, 2, None], Type.REAL)):
        data = pd.Series(values) if dtype is None else pd.Series(values).astype(dtype)
        curator = lw.open(pd.DataFrame({"v": data}), ledger=":memory:", **ROWS)
        assert curator.catalog.tables[0].field("v").type is kind
        curator = lw.open(pd.DataFrame({"v": data}), values={"v": [1, 2]}, ledger=":memory:", **ROWS)
        assert curator.catalog.tables[0].field("v").type is Type.INTEGER


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        (pd.Categorical(["x", None, "y"]), Type.TEXT, ["x", None, "y"]),
        (pd.Categorical([1, None, 3]), Type.INTEGER, [1, None, 3]),
        (pd.Categorical([1, "1", None]), Type.TEXT, ["1", "1", None]),
        (pd.Categorical([True, None]), Type.BOOLEAN, [True, None]),
        (pd.array([1, None], dtype="Int64"), Type.INTEGER, [1, None]),
        (pd.array([True, None], dtype="boolean"), Type.BOOLEAN, [True, None]),
        (pd.array(["x", None], dtype="string"), Type.TEXT, ["x", None]),
        (np.array([1.5, np.nan], "f2"), Type.REAL, [1.5, None]),
        (pl.Series(["x", None], dtype=pl.Categorical), Type.TEXT, ["x", None]),
        (pl.Series([None, None]), Type.TEXT, [None, None]),
        (pa.array([1, 1, None]).dictionary_encode(), Type.INTEGER, [1, 1, None]),
        (pa.array(["x"], pa.string_view()), Type.TEXT, ["x"]),
    ],
)
def test_columns_of_every_kind_keep_type_and_values(values: Any, kind: Type, expected: list[Any]) -> None:
    make = pl.DataFrame if isinstance(values, pl.Series) else pa.table if isinstance(values, pa.Array) else pd.DataFrame
    assert stored_types(frame_source(make({"v": values})))["v"] is kind
    assert read(make({"v": values})) == expected


SAME = r"have the same name in SQL, which ignores case\. Rename one of them\."
NOT_READ = r"has the unsupported type .*\. Convert the column or drop it\."
REFUSED: dict[str, tuple[Any, str]] = {
    "twice": (pd.DataFrame([[1, 2]], columns=["a", "a"]), SAME),
    "case": (pd.DataFrame([[1, 2]], columns=["A", "a"]), SAME),
    "number and text": (pd.DataFrame([[1, 2]], columns=[1, "1"]), SAME),
    "polars case": (pl.DataFrame({"A": [1], "a": [1]}), SAME),
    "arrow case": (pa.table([[1], [2]], names=["A", "a"]), SAME),
    "arrow twice": (pa.table([[1], [2]], names=["a", "a"]), SAME),
    "sparse": (pd.DataFrame({"a": pd.arrays.SparseArray([0, 1])}), r"`a` is sparse\. Convert it with"),
    "sparse truths": (pd.DataFrame({"a": pd.arrays.SparseArray([True])}), r"`a` is sparse\. Convert it with"),
    "series": (pd.Series([1]), r"Pass a frame: data\.to_frame\(\)"),
    "index": (pd.Index([1]), r"Pass a frame: data\.to_frame\(\)"),
    "polars series": (pl.Series([1]), r"Pass a frame: data\.to_frame\(\)"),
    "levels": (pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", "b")])), "Rename the columns"),
    "pair": (pd.DataFrame([[1]], columns=pd.Index([("a", "b")], tupleize_cols=False)), "Rename the columns"),
    "no name": (pd.DataFrame([[1]], columns=[None]), "Rename the columns"),
    "empty name": (pd.DataFrame([[1]], columns=[""]), "is empty or not text. Rename the column"),
    "null byte": (pd.DataFrame([[1]], columns=["a\0b"]), "is empty or not text. Rename the column"),
    "no text": (
        pd.DataFrame([[1]], columns=pd.Index(["\ud800"], dtype=object)),
        "is empty or not text. Rename the column",
    ),
    "complex": (pd.DataFrame({"a": [1j]}), NOT_READ),
    "period": (pd.DataFrame({"a": pd.period_range("2020", "2021", freq="Y")}), NOT_READ),
    "interval": (pd.DataFrame({"a": pd.interval_range(0, 2)}), NOT_READ),
    "cut": (pd.DataFrame({"a": pd.cut([1, 2, 3], 2)}), NOT_READ),
    "wide": (pl.DataFrame({"a": [1]}, schema={"a": pl.Int128}), "Convert each column"),
    "decimal": (pa.table({"a": pa.array([decimal.Decimal(1)], pa.decimal256(50, 2))}), "Convert it or drop it"),
    "durations": (pl.DataFrame({"a": [timedelta(1)], "b": [time(1)]}), "no column of a supported type"),
    "lists": (pa.table({"a": [[1]]}), "no column of a supported type"),
    "python objects": (pl.DataFrame({"a": [object()]}, schema={"a": pl.Object}), "no column of a supported type"),
    "nothing": (pd.DataFrame(), "no columns"),
    "polars nothing": (pl.DataFrame(), "no columns"),
    "grouped": (pl.LazyFrame({"a": [1]}).group_by("a"), "unknown type"),
    "one array": (pa.array([1]), "unknown type"),
    "chunks": (pa.chunked_array([[1]]), "Convert each column"),
    "numpy": (np.ones((2, 2)), "unknown type"),
    "none": (None, "unknown type"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_plain_frame_is_refused_in_one_sentence(name: str) -> None:
    data, message = REFUSED[name]
    with pytest.raises(lw.Misconfigured, match=message) as caught:
        lw.open(data, unit=None, name="t", budget=BUDGET)
    assert "\n" not in str(caught.value)
    public = {"p": data}
    with pytest.raises(lw.Misconfigured, match=message):
        lw.open(pa.table({"v": [1]}), unit=None, name="t", budget=BUDGET, public=public)


def test_whole_numbers_name_columns() -> None:
    assert stored_types(frame_source(pd.DataFrame(np.ones((2, 2))))) == {"0": Type.REAL, "1": Type.REAL}


def test_the_mark_of_a_frame_is_its_content_and_not_its_chunks() -> None:
    whole = pa.table({"v": list(range(100)), "w": ["x"] * 100})
    parts = pa.concat_tables([whole.slice(0, 33), whole.slice(33, 1), whole.slice(34)])
    other = whole.set_column(0, "v", pa.array([*range(99), 0]))
    marks = [frame_source(table).mark for table in (whole, parts, other, whole.slice(0, 99))]
    assert marks[0] == marks[1]
    assert len({*marks}) == 3


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_declared_names_are_found_as_sql_finds_them(make: Any) -> None:
    data = make({"PID": [1, 2], "Cost": [1.0, 2.0], "sex": ["F", "M"]})
    curator = lw.open(
        data, name="t", unit="pid", rows_per_unit=1, bounds={"COST": (0, 10)}, types={"cosT": "real"},
        values={"Sex": ["F"]}, budget=BUDGET,
    )  # fmt: skip
    (table,) = curator.catalog.tables
    assert (table.unit, table.field("cost").name, table.field("SEX").values) == ("PID", "Cost", ("F",))
    (total,) = curator.sql('SELECT SUM("cost") AS s FROM t', epsilon=3000).to_arrow()["s"].to_pylist()
    assert total == pytest.approx(3, abs=0.5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bounds": {"x": (0, 1), "X": (0, 2)}}, "names a column twice; SQL ignores case"),
        ({"bounds": {0: (0, 1)}}, "a column name is not text. Put the name in quotes"),
        ({"unit": 0}, "`unit` has the type int; it must name a column. Put its name in quotes"),
        ({"unit": np.array(["x"])}, "`unit` has the type ndarray; it must name a column."),
        ({"unit": pl.col("x")}, "`unit` has the type Expr; it must name a column."),
        ({"unit": ["x"]}, "Did you mean `x`"),
        ({"unit": "y"}, "`t` has no such column"),
    ],
)
def test_declared_names_that_name_no_one_column_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(lw.Misconfigured, match=message):
        lw.open(pa.table({"x": [1]}), **{"name": "t", "unit": None, "budget": BUDGET, **changes})


def test_a_lazy_frame_that_fails_is_told_without_its_values() -> None:
    broken = pl.LazyFrame({"x": ["SECRET"]}).select(pl.col("x").str.to_integer())
    with pytest.raises(lw.Misconfigured, match=r"the data cannot be read.*shows why") as caught:
        lw.open(broken, **ROWS)
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize("unit", [["pid", "the site"], ("pid", "the site"), "pid, the site", "pid,the site"])
def test_what_is_said_of_a_unit_of_two_columns_works(make: Any, unit: Any) -> None:
    data = make({"pid": [1, 1, 2, 2, 2], "the site": ["a", "b", "a", "a", None]})
    with pytest.raises(lw.Misconfigured, match="A unit is one column") as caught:
        lw.open(data, **FACTS | {"unit": unit})
    (question, name) = re.findall(r"(SELECT .* AS (\w+) FROM data), and name that one", str(caught.value))[0]
    curator = lw.open(duckdb.sql(question), **FACTS | {"unit": name})
    (units,) = curator.sql(f"SELECT COUNT(DISTINCT {name}) AS n FROM t", epsilon=100).to_arrow()["n"].to_pylist()
    assert units == 4


def test_what_is_said_of_an_index_works() -> None:
    data = pd.DataFrame({"pid": [1, 2], "x": [1, 2]}).set_index("pid")
    with pytest.raises(lw.Misconfigured, match=r"data.reset_index\(\) makes it one"):
        lw.open(data, **FACTS)
    lw.open(data.reset_index(), **FACTS).close()


@pytest.mark.parametrize("unit", ["s", "ms"])
@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), 10**17])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_a_time_that_no_microsecond_holds_is_null(unit: str, value: int, zone: str | None) -> None:
    """The frame could not be opened, since the engine converts times with a zone as it reads them."""
    rows = pa.table({"pid": [1, 2, 3], "at": pa.array([0, value, 5], pa.timestamp(unit, tz=zone))})
    curator = lw.open(rows, **{**FACTS, "name": f"{unit} {value} {zone}"}, check=0)
    found = curator.sql(f'SELECT COUNT(*) AS n FROM "{unit} {value} {zone}" WHERE YEAR(at) = 1970', epsilon=1000)
    assert round(found["n"][0]) == 2


@pytest.mark.parametrize("value", [-(2**63), 10**17])
def test_a_file_with_such_a_time_is_told_by_its_values_and_not_by_its_path(value: int, tmp_path: Path) -> None:
    rows = pa.table({"pid": [1, 2], "at": pa.array([0, value], pa.timestamp("ms"))})
    pq.write_table(rows, tmp_path / "t.parquet")
    with pytest.raises(Misconfigured, match="A stored value is too large for its type") as caught:
        lw.open(tmp_path / "t.parquet", **FACTS)
    assert "path" not in str(caught.value)
    assert str(value) not in str(caught.value)
