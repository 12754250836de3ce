"""pandas: a frame of the answer. Dates are datetime64; integers are int64, or Int64 if one is missing.

What to know of the whole answer is in `frame.attrs["notes"]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lapwing.answers.formats.arrow import to_arrow
from lapwing.answers.formats.optional import load
from lapwing.answers.table import AnswerTable

if TYPE_CHECKING:
    import pandas as pd


def to_pandas(table: AnswerTable, *, intervals: bool = True) -> pd.DataFrame:
    pandas = load("pandas", what="Frames of pandas", install="pandas")
    import pyarrow as pa  # slow import

    typed = to_arrow(table, intervals=intervals)
    frame: pd.DataFrame = typed.to_pandas(date_as_object=False)
    for name, column in zip(typed.column_names, typed.columns, strict=True):
        if pa.types.is_integer(column.type) and column.null_count:
            frame[name] = pandas.array(column.to_pylist(), dtype="Int64")  # a float would round it
    frame.attrs["notes"] = list(table.notes)
    return frame
