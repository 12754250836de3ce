"""Polars: a frame of the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lapwing.answers.formats.arrow import to_arrow
from lapwing.answers.formats.optional import load
from lapwing.answers.table import AnswerTable

if TYPE_CHECKING:
    import polars as pl


def to_polars(table: AnswerTable, *, intervals: bool = True) -> pl.DataFrame:
    polars = load("polars", what="Frames of Polars", install="polars")
    frame: pl.DataFrame = polars.DataFrame(to_arrow(table, intervals=intervals))
    return frame
