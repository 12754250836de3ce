"""CSV with intervals: texts in quotes, NULL as nothing."""

from __future__ import annotations

from io import BytesIO

from lapwing.answers.formats.arrow import with_intervals
from lapwing.answers.table import AnswerTable


def to_csv(table: AnswerTable) -> str:
    from pyarrow import csv

    buffer = BytesIO()
    csv.write_csv(with_intervals(table), buffer)
    return buffer.getvalue().decode()
