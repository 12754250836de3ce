"""Public tables: types, values, bounds and keys are read from their rows."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from lapwing.engines.frames import frame_source
from lapwing.engines.public import MOST_VALUES, read_public
from lapwing.engines.source import Csv, Frame
from lapwing.errors import Misconfigured
from lapwing.expressions.table import Table
from lapwing.expressions.types import Type
from support.visits import interval


def read(**columns: Any) -> Table:
    return read_public("p", Frame(pa.table(columns)))


def test_values_and_bounds_are_those_of_the_rows() -> None:
    table = read(n=[3, 1, None], s=["b", None, "a"], b=[True, False, None], d=[date(2020, 1, 2), None, date(1, 1, 1)])
    assert [field.values for field in table.fields] == [
        (1, 3, None),
        ("a", "b", None),
        (False, True, None),
        (date(1, 1, 1), date(2020, 1, 2), None),
    ]
    assert table.field("n").bounds == interval(1, 3)
    assert table.field("s").bounds is None


def test_reals_have_finite_bounds_and_no_list() -> None:
    table = read(x=[float("inf"), float("nan"), -2.5, 0.5, None])
    assert table.field("x").values == ()
    assert table.field("x").bounds == interval(-2.5, 0.5)
    assert read(x=pa.array([None, None], pa.float64())).field("x").bounds is None


def test_long_lists_and_hostile_text_are_not_listed() -> None:
    table = read(n=range(MOST_VALUES + 1), s=["a\0b"] * (MOST_VALUES + 1))
    assert [field.values for field in table.fields] == [(), ()]


def test_an_empty_table_has_every_key() -> None:
    assert read(a=pa.array([], pa.int64()), b=pa.array([], pa.string())).keys == (("a",), ("b",))


@pytest.mark.parametrize(
    ("column", "unique"),
    [
        ([1, 2, 3], True),
        ([1, 2, 2], False),
        ([None, None, 1], True),
        ([0.0, -0.0], False),
        ([float("nan"), float("nan")], False),
        ([2**53, 2**53 + 1], True),
        ([2.0**53, 2.0**53 + 1], False),
        (["a", "A", "a "], True),
        ([True, False], True),
    ],
    ids=str,
)
def test_keys_are_columns_without_double_values(column: list[Any], unique: bool) -> None:
    """threat:A34 NULL meets nobody; each column is compared in its own type, as joins do."""
    assert read(x=column).keys == ((("x",),) if unique else ())


def test_the_version_is_what_the_table_holds() -> None:
    versions = [read(a=a, b=b).version for a, b in (([1, 2], [3, 4]), ([2, 1], [4, 3]), ([1, 2], [4, 3]))]
    assert versions[0] == versions[1] != versions[2]
    assert read(a=[1, 1]).version != read(a=[1]).version


def test_frames_and_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("code,name\n1,a\n2,b\n")
    assert read_public("p", Csv(path)).field("code").type is Type.TEXT
    assert read_public("p", frame_source(pd.DataFrame({"code": [1, 2]}))).field("code").type is Type.INTEGER


def test_what_cannot_be_opened_is_told() -> None:
    with pytest.raises(Misconfigured, match="cannot be opened"):
        read_public("p", Csv(Path("nowhere.csv")))
