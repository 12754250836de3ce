"""A release is a frame: pandas, polars, DuckDB and plain Python take it as it is, with its intervals."""

from __future__ import annotations

import csv
from datetime import date
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lapwing.answers.answer import Release
from lapwing.answers.formats import to_html, to_pandas, to_text
from lapwing.answers.table import AnswerColumn, AnswerTable
from lapwing.errors import Misconfigured
from lapwing.expressions.types import Type
from support.visits import open_visits

NAMES = ["sex", "n", "n_low", "n_high"]


def answer() -> Release:
    return open_visits().sql("SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex", epsilon=1)


def test_every_frame_carries_the_intervals_unless_they_are_left_out() -> None:
    release = answer()
    for make in (release.to_pandas, release.to_polars, release.to_arrow):
        for intervals, names in ((True, NAMES), (False, NAMES[:2])):
            found = make(intervals=intervals)
            assert list(found.column_names if isinstance(found, pa.Table) else found.columns) == names
    assert release.to_arrow().equals(release.intervals())


def test_whatever_reads_frames_reads_a_release() -> None:
    release = answer()
    expected = release.to_arrow().to_pylist()
    assert pd.DataFrame(release).to_dict("records") == expected
    assert pl.DataFrame(release).to_dicts() == expected
    assert pa.table(release).to_pylist() == expected
    assert duckdb.sql("SELECT * FROM release ORDER BY sex").to_arrow_table().to_pylist() == expected


def test_columns_and_rows_are_plain_values() -> None:
    release = answer()
    assert release["sex"] == ["F", "M"]
    assert all(type(value) is int for value in release["n"])
    assert [row["n_high"] for row in release] == release["n_high"]
    assert len(list(release)) == len(release) == 2
    with pytest.raises(Misconfigured, match=r"no column 'm'\. Known: "):
        release["m"]


def test_a_csv_file_holds_the_same_text(tmp_path: Path) -> None:
    release = answer()
    assert release.to_csv(tmp_path / "answer.csv") is None
    with (tmp_path / "answer.csv").open(newline="") as file:
        assert next(csv.reader(file)) == NAMES
    assert (tmp_path / "answer.csv").read_text() == release.to_csv()
    with pytest.raises(Misconfigured, match="cannot be written"):
        release.to_csv(tmp_path / "none" / "answer.csv")


def column(name: str, kind: Type, values: list[object], *, key: bool = True) -> AnswerColumn:
    cells = np.empty(len(values), object)
    cells[:] = values
    return AnswerColumn(name, kind, cells, reason=None if key else "none")


def test_a_key_is_a_name_and_not_an_amount() -> None:
    """A rule from the question: whole numbers that rows are grouped by are not grouped by thousands."""
    table = AnswerTable(
        (column("year", Type.INTEGER, [1985, None]), column("n", Type.INTEGER, [1985, 2], key=False)), Fraction(19, 20)
    )
    assert to_text(table).splitlines()[1].split() == ["1985", "1,985"]
    assert to_text(table).splitlines()[2].split() == ["NULL", "2"]
    assert "<td>1985</td><td>1,985</td>" in to_html(table)


def test_pandas_has_dates_and_exact_integers() -> None:
    days, many = [date(9999, 12, 31), None], [2**53 + 1, None]
    found = to_pandas(
        AnswerTable((column("day", Type.DATE, days), column("n", Type.INTEGER, many, key=False)), Fraction(19, 20))
    )
    assert found["day"].dt.year.tolist()[0] == 9999
    assert str(found["n"].dtype) == "Int64"
    assert found["n"].tolist()[0] == 2**53 + 1
