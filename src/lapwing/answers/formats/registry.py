"""Every format by its name. A new one is a file here and a line below; tests/answers/test_formats.py tries it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lapwing.answers.formats.arrow import to_arrow
from lapwing.answers.formats.csv import to_csv
from lapwing.answers.formats.html import to_html
from lapwing.answers.formats.json import to_json
from lapwing.answers.formats.pandas import to_pandas
from lapwing.answers.formats.plot import plot
from lapwing.answers.formats.polars import to_polars
from lapwing.answers.formats.text import to_text
from lapwing.answers.table import AnswerTable

FORMATS: dict[str, Callable[[AnswerTable], Any]] = {
    "arrow": to_arrow,
    "pandas": to_pandas,
    "polars": to_polars,
    "csv": to_csv,
    "json": to_json,
    "text": to_text,
    "html": to_html,
    "plot": plot,
}
