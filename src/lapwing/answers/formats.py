"""How an answer is shown or handed on: each format is a function of the answer table.

Checked by: tests/answers/test_formats.py, tests/answers/test_frame.py, tests/answers/test_plot.py
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from html import escape
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lapwing.answers.table import AnswerTable, fresh
from lapwing.errors import Misconfigured
from lapwing.expressions.types import Type, text_of
from lapwing.privacy.budget import Cost
from lapwing.privacy.phrases import percent

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg")

_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""How a text begins that a spreadsheet runs; the last four are the wide forms of the first four."""


def to_text(table: AnswerTable) -> str:
    """For a terminal: a line for each row, then confidence, price and notes."""
    header, rows = grid(table)
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = ["  ".join(map(str.rjust, row, widths)) for row in [header, *rows]]
    return "\n".join([*lines, *footer(table)])


def grid(table: AnswerTable) -> tuple[list[str], list[list[str]]]:
    """The names of the columns, and each row as texts; an interval stands beside its number."""
    cells: dict[str, list[str]] = {}
    names = {column.name for column in table.columns}
    for column in table.columns:
        values = column.plain()
        if column.low is None:
            cells[column.name] = list(map(_key_text if column.is_key else show, values))
            continue
        ends = column.intervals()
        whole = column.type is Type.INTEGER or all(v is None or v.is_integer() for v in (*values, *ends[0], *ends[1]))
        places = [0] * len(values) if whole else list(map(_places, *ends))
        cells[column.name] = list(map(show, values, places))
        name = fresh(f"{column.name} interval", names)
        names.add(name)
        cells[name] = list(map(_interval, *ends, places))
    return list(cells), [list(row) for row in zip(*cells.values(), strict=True)]


def footer(table: AnswerTable) -> list[str]:
    """The lines below the rows: the price, and what is really cut."""
    kind = f"{percent(table.confidence)} intervals" if table.has_intervals else "no intervals"
    return ["; ".join(filter(None, [kind, table.price or table.paid])), *table.warnings]


class Explanation(str):
    """Text that prints as it is, in a terminal and in a notebook."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return small(self.split("\n"))


def explain(table: AnswerTable) -> Explanation:
    """Everything beside the rows: the exact price, notes of columns, what limits leave out, and the method."""
    columns = [f"{name}: {note}" for name, note in table.column_notes.items()]
    methods = table.facts().get("methods", "")
    notes = [note for note in table.notes if note not in methods]
    kind = f"{percent(table.confidence)} intervals; " if table.has_intervals else ""
    return Explanation("\n".join([f"{kind}{table.paid}", *columns, *notes, *filter(None, [methods])]))


def _places(low: float | None, high: float | None) -> int | None:
    """Decimals to print: two digits more than the noise supports; None if that is not known."""
    if low is None or high is None or high <= low:
        return None
    return min(max(0, 2 - math.floor(math.log10((high - low) / 2))), 12)


def show(value: Any, places: int | None = None) -> str:
    """A number or a key as it is printed, a real with so many decimals."""
    match value:
        case None:
            return "NULL"
        case bool() | str():
            return str(value)
        case int():
            return f"{value:,}"
        case float() if not math.isfinite(value):
            return "NULL"
        case float() if places is not None:
            return f"{round(value, places) + 0.0:,.{places}f}"
        case float():
            return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.4g}"
        case _:
            return str(value)


def _key_text(value: Any) -> str:
    """A key as it is printed. It is a name, not an amount: the year 1985 is not 1,985."""
    return str(value) if isinstance(value, int) else show(value)


def label(value: Any) -> str:
    """A key in one line of printable characters, for pictures and descriptions."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case str():
            text = " ".join("".join(c if c.isprintable() else " " for c in value).split())
            return text or "(empty)"
        case _:
            return text_of(value)


def _interval(low: float | None, high: float | None, places: int | None = None) -> str:
    return "none" if low is None and high is None else f"{show(low, places)} to {show(high, places)}"


def to_html(table: AnswerTable) -> str:
    """For a notebook: the same texts as in a terminal, all of them escaped."""
    header, rows = grid(table)
    body = "".join(row(cells, "td") for cells in rows)
    return f"<table><thead>{row(header, 'th')}</thead><tbody>{body}</tbody></table>{small(footer(table))}"


def small(lines: Iterable[str]) -> str:
    return f"<p><small>{'<br>'.join(map(escape, lines))}</small></p>"


def row(cells: Iterable[str], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"


def to_dict(table: AnswerTable) -> dict[str, Any]:
    """Ready for JSON. `columns` are those asked for; rows also hold the ends of their intervals."""
    own = {
        "columns": [column.name for column in table.columns],
        "rows": table.rows(),
        "confidence": float(table.confidence),
        "notes": list(table.notes),
        "column_notes": table.column_notes,
        "layout": _layout(table),
        **({"null_because": table.null_because} if table.null_because else {}),
    }
    return {**own, **table.facts(), **own}  # facts of the answer do not replace those of this table


def to_json(table: AnswerTable) -> str:
    """Rows with intervals, notes, how the answer was made, and all that it takes to show it again (table.py)."""
    return dump(to_dict(table))


def dump(value: Any) -> str:
    """As JSON; dates and times as text."""
    return json.dumps(value, default=str)


def price(cost: Cost) -> dict[str, float]:
    return {cost.unit: float(cost.amount), "delta": float(cost.delta)}


def _layout(table: AnswerTable) -> dict[str, Any]:
    """What rows and notes do not say of the table: types, which numbers have intervals, and the words beside it."""
    columns = [
        {"type": c.type.value, "reason": c.reason, "remark": c.remark}
        | {"interval": c.low is not None, "bare": c.bare, "chosen": c.chosen}
        for c in table.columns
    ]
    names = ("paid", "title", "condition", "binned", "gaps", "price")
    return {"columns": columns, **{name: getattr(table, name) for name in names}, "warnings": list(table.warnings)}


def to_arrow(table: AnswerTable, *, intervals: bool = True) -> pa.Table:
    """Columns whose types follow from the plan. The schema's metadata keeps `notes`, a list as JSON, for Parquet."""
    import pyarrow as pa  # slow import

    from lapwing.engines.dialect import ARROW_TYPES

    named = table.by_name(intervals=intervals)
    columns = {name: pa.array(values, ARROW_TYPES[kind]) for name, (kind, values) in named.items()}
    return pa.table(columns, metadata={"notes": json.dumps(table.notes)})


def to_pandas(table: AnswerTable, *, intervals: bool = True) -> pd.DataFrame:
    """Dates are datetime64; integers are int64, or Int64 if one is missing. `frame.attrs` holds the notes."""
    pandas = load("pandas", what="Frames of pandas", install="pandas")
    import pyarrow as pa  # slow import

    typed = to_arrow(table, intervals=intervals)
    frame: pd.DataFrame = typed.to_pandas(date_as_object=False)
    for name, column in zip(typed.column_names, typed.columns, strict=True):
        if pa.types.is_integer(column.type) and column.null_count:
            frame[name] = pandas.array(column.to_pylist(), dtype="Int64")  # a float would round it
    frame.attrs["notes"] = list(table.notes)
    return frame


def to_polars(table: AnswerTable, *, intervals: bool = True) -> pl.DataFrame:
    polars = load("polars", what="Frames of Polars", install="polars")
    return polars.DataFrame(to_arrow(table, intervals=intervals))  # type: ignore[no-any-return]


def to_csv(table: AnswerTable, *, sheet: bool = False) -> str:
    """With intervals: texts in quotes, NULL as nothing.

    A spreadsheet runs a text that begins with = + - @; with `sheet` it gets a leading apostrophe, which is not shown.
    """
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

    buffer, cells = BytesIO(), to_arrow(table)
    csv.write_csv(_guarded(cells) if sheet else cells, buffer)
    return buffer.getvalue()


def _guarded(table: pa.Table) -> pa.Table:
    import pyarrow as pa

    texts = [[None if v is None else guarded(v) for v in c.to_pylist()] if c.type == pa.string() else c for c in table]
    return pa.table(texts, names=list(map(guarded, table.column_names)))


def plot(table: AnswerTable, path: str | Path | None = None) -> Figure:
    """Draws an answer with its intervals, into a PNG or SVG file if `path` says so. The figure shows in a notebook."""
    from lapwing.answers.picture import arrange

    target = None if path is None else picture_path(Path(path))
    picture = arrange(table)
    load("matplotlib", what="Pictures", install="'lapwing[plot]'")
    from lapwing.answers.chart import draw, save

    figure = draw(picture)
    if target is not None:
        save(figure, target)
    return figure


def picture_path(path: Path) -> Path:
    if path.suffix.lower() not in SUFFIXES:
        raise Misconfigured(f"The picture {str(path)!r} must end in .png or .svg. Write for example answer.png.")
    if not path.parent.is_dir():
        raise Misconfigured(f"The picture {str(path)!r} is in no folder that exists. Create the folder first.")
    is_new = not path.exists()
    try:
        path.open("ab").close()
    except OSError:
        raise Misconfigured(f"The picture {str(path)!r} cannot be written there. Name another folder.") from None
    if is_new:
        path.unlink()
    return path


def load(package: str, *, what: str, install: str) -> Any:
    """A package that only one format needs; says how to install it if it is missing."""
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
    raise Misconfigured(f"{what} need {package}, which is not installed. Run: pip install {install}")


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
