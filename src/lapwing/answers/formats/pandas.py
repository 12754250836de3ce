"""pandas: a frame of the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lapwing.answers.formats.arrow import to_arrow
from lapwing.answers.formats.optional import load
from lapwing.answers.table import AnswerTable

if TYPE_CHECKING:
    import pandas as pd


def to_pandas(table: AnswerTable) -> pd.DataFrame:
    load("pandas", what="Frames of pandas", install="pandas")
    return to_arrow(table).to_pandas()
