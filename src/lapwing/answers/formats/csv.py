"""CSV with intervals: texts in quotes, NULL as nothing.

Texts are written as they are. A spreadsheet takes one that begins with = + - @ for a formula and runs it; with `sheet`
such a text gets a leading apostrophe, which a spreadsheet hides and a program does not.
"""

from __future__ import annotations

from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from lapwing.answers.formats.arrow import to_arrow
from lapwing.answers.table import AnswerTable
from lapwing.errors import Misconfigured

if TYPE_CHECKING:
    import pyarrow as pa

_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""How a text begins that a spreadsheet runs; the last four are the wide forms of the first four."""


def to_csv(table: AnswerTable, *, sheet: bool = False) -> str:
    return _csv(table, sheet).decode()


def write_csv(table: AnswerTable, path: Path, *, sheet: bool = False) -> None:
    try:
        path.write_bytes(_csv(table, sheet))
    except OSError:
        raise Misconfigured(f"The file {str(path)!r} cannot be written. Name another folder.") from None


def guarded(text: str) -> str:
    """The text, so that no spreadsheet takes it for a formula; a number by itself is none."""
    with suppress(ValueError):
        float(text)
        return text
    return f"'{text}" if text.startswith(_FORMULAS) else text


def _csv(table: AnswerTable, sheet: bool) -> bytes:
    from pyarrow import csv

    buffer, made = BytesIO(), to_arrow(table)
    csv.write_csv(_guarded(made) if sheet else made, buffer)
    return buffer.getvalue()


def _guarded(table: pa.Table) -> pa.Table:
    """Names and texts, guarded; numbers stay numbers."""
    import pyarrow as pa

    texts = [[None if v is None else guarded(v) for v in c.to_pylist()] if c.type == pa.string() else c for c in table]
    return pa.table(texts, names=[guarded(name) for name in table.column_names])
