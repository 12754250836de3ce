"""CSV with intervals: texts in quotes, NULL as nothing."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

from lapwing.answers.formats.arrow import to_arrow
from lapwing.answers.table import AnswerTable
from lapwing.errors import Misconfigured


def to_csv(table: AnswerTable) -> str:
    return _csv(table).decode()


def write_csv(table: AnswerTable, path: Path) -> None:
    try:
        path.write_bytes(_csv(table))
    except OSError:
        raise Misconfigured(f"The file {str(path)!r} cannot be written. Name another folder.") from None


def _csv(table: AnswerTable) -> bytes:
    from pyarrow import csv

    buffer = BytesIO()
    csv.write_csv(to_arrow(table), buffer)
    return buffer.getvalue()
