"""A first draft of lapwing.toml: everything a person must decide is marked REVIEW.

Column names and types come from the files' schemas (for CSV, types are guessed from the first rows). No value, count or
bound is read from the data: that would leak before the first question. A hint stands above the first column, or table,
that it is about, and nowhere else.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from lapwing.curator.settings import ROW, read_bounds
from lapwing.engines.backends import stored_types
from lapwing.engines.csv_rows import find_facts
from lapwing.engines.engine import StoredTypes
from lapwing.engines.source import Csv, FileSource, PostgresTable, declare_csv, read_source, title_of
from lapwing.errors import Misconfigured
from lapwing.expressions.operators.dates import DATES
from lapwing.expressions.table import unit_advice
from lapwing.expressions.types import Type


def draft_served(
    address: str, table: str | None, unit: str, epsilon: Decimal, delta: Decimal, days: tuple[str, str] | None = None
) -> str:
    """The text of a lapwing.toml for a table that stays in its PostgreSQL database. `days`: the bounds of all dates."""
    source = read_source(address, table, public=True)
    if not isinstance(source, PostgresTable):
        raise Misconfigured(
            "`--table` is for a PostgreSQL database: lapwing init postgresql://HOST/DATABASE --table ..."
        )
    where = f"source = {quote_toml(address)}\ntable = {quote_toml(table or source.table)}\n"
    types = stored_types(source)
    tables = _declared(source.table, where, _unit_of(unit, types, f"`{table}`", _LEFT_OUT), types, _Hints(days))
    return _text(tables, "", epsilon, delta)


def draft(
    data: list[Any],
    unit: str,
    epsilon: Decimal,
    delta: Decimal,
    file: Path,
    *,
    days: tuple[str, str] | None = None,
    public: Sequence[str] = (),
    **csv: Any,
) -> str:
    """The text of a lapwing.toml for these files, which are about the same units, and public ones. `days` are the
    bounds of all dates; `csv` has what the first lines of files do not show."""
    sources, hints = [source_of(path, **csv) for path in data], _Hints(days)
    if len({title_of(source).lower() for source in sources}) < len(data):
        raise Misconfigured("two files have the same name, which would be that of two tables. Rename one of them.")
    tables = "\n".join(_table(source, unit, file, hints, alone=len(data) == 1) for source in sources)
    tables += "".join(_public(source_of(path, **csv), file) for path in public)
    guessed = any(isinstance(source, Csv) for source in sources)
    return _text(tables, ", but types were guessed from the first rows" if guessed else "", epsilon, delta)


def source_of(data: str | Path, **csv: Any) -> FileSource:
    """A file, read as the first line of a CSV file suggests and as these facts say."""
    source = read_source(str(data))
    if isinstance(source, Csv):
        said = {name: fact for name, fact in csv.items() if fact is not None}
        return declare_csv(source, find_facts(source).facts | said)
    if not isinstance(source, FileSource):
        raise Misconfigured("pass one address with one --table; add other tables to the file by hand.")
    return source


class _Hints(set[str]):
    """Hints that were given, and the bounds of dates."""

    def __init__(self, days: tuple[str, str] | None) -> None:
        try:
            read_bounds(days, Type.DATE)
        except Misconfigured:
            raise Misconfigured(
                "`--since` and `--until` must be two dates, the earlier first: --since 2023-01-01 --until 2024-12-31."
            ) from None
        self.bounds = f", bounds = [{', '.join(map(quote_toml, days))}]" if days else ""

    def once(self, hint: str) -> str:
        """The hint with a line break, the first time; then nothing."""
        if hint in self:
            return ""
        self.add(hint)
        return f"{hint}\n"


def declared_source(source: FileSource, file: Path) -> str:
    """The lines that say where its rows are and how they are written."""
    facts = source.facts if isinstance(source, Csv) else {}
    said = ", ".join(f"{name} = {json.dumps(fact, ensure_ascii=False)}" for name, fact in facts.items())
    path = os.path.relpath(source.path.resolve(), file.resolve().parent)
    return f"source = {quote_toml(path)}\n" + (f"csv = {{ {said} }}  {_WRITTEN}\n" if said else "")


def _public(source: FileSource, file: Path) -> str:
    types = stored_types(source, guess=True)
    others = ", ".join(f"{quote_toml(n)} = {quote_toml(t.value)}" for n, t in types.items() if t is not Type.TEXT)
    guessed = f"{GUESSED}\ntypes = {{ {others} }}\n" if others and isinstance(source, Csv) else ""
    return f"\n[public.{quote_toml(title_of(source))}]\n{declared_source(source, file)}{guessed}"


def _text(tables: str, but: str, epsilon: Decimal, delta: Decimal) -> str:
    return _TEXT.format(epsilon=epsilon, delta=f"delta = {delta}\n" if delta else "", but=but, tables=tables)


def _table(source: FileSource, unit: str, file: Path, hints: _Hints, *, alone: bool) -> str:
    types = stored_types(source, guess=True)
    unit, guessed = _unit_of(unit, types, source.path.name), isinstance(source, Csv)
    if guessed and unit in types and not alone:
        types[unit] = Type.TEXT  # as it is stored: '7' and '7.0' must not become one unit in one of the files
    return _declared(title_of(source), declared_source(source, file), unit, types, hints, guessed=guessed)


def _unit_of(unit: str, types: Mapping[str, Type], where: str, more: str = "") -> str:
    unit = next((name for name in types if unit != ROW and name.lower() == unit.lower()), unit)
    if unit != ROW and unit not in types:
        raise Misconfigured(
            f'`--unit` is `{unit}`, but {where} has no such column. {unit_advice(unit, types)} Or write "row".{more}'
        )
    return unit


def _declared(title: str, where: str, unit: str, types: StoredTypes, hints: _Hints, *, guessed: bool = False) -> str:
    name = quote_toml(title)
    others = ((n, "list" if k[0] == "_" or k[-1] == "]" else k.lower()) for n, k in types.left_out.items())
    lines = [
        f"[tables.{name}]\n",
        where,
        hints.once(_UNIT) + f"unit = {quote_toml(unit)}\n",
        *([] if unit == ROW else [hints.once(_ROWS) + "# rows_per_unit = 5\n"]),
        *([] if unit == ROW else [hints.once(_GROUPS) + "# groups_per_unit = 3\n"]),
        hints.once(_PROMISED if "\ntable = " in where else _VERSION) + 'version = "1"\n',
        f"\n[tables.{name}.columns]\n",
        *([hints.once(GUESSED)] if guessed else []),
        *(_column(column, types, column == unit, hints, guessed=guessed) for column in types),
        *(f"# {quote_toml(column)}: {kind}; cast it in a view\n" for column, kind in others),
    ]
    return "".join(lines)


def _column(name: str, types: StoredTypes, is_unit: bool, hints: _Hints, *, guessed: bool) -> str:
    kind, zoned = types[name], name in types.zoned
    hint = "" if is_unit else "".join(map(hints.once, _hints(kind, zoned=zoned, guessed=guessed)))
    zone = ', zone = "UTC"' if zoned and not guessed else ""
    dated = kind in DATES and not is_unit
    hint += hints.once(_DAYS if hints.bounds else _DATES) if dated else ""
    hint += hints.once(_UNREAD) if name in types.unread_dates else ""
    values = ", values = [false, true]" if kind is Type.BOOLEAN and not is_unit else ""
    return f'{hint}{quote_toml(name)} = {{ type = "{kind.value}"{zone}{values}{hints.bounds if dated else ""} }}\n'


def _hints(kind: Type, *, zoned: bool, guessed: bool) -> Iterator[str]:
    if kind is Type.TIMESTAMP:
        yield _OFFSETS if zoned and guessed else _ZONED if zoned else _TIMES
    if kind.is_number:
        yield _NUMBERS
    if kind in (Type.TEXT, Type.BOOLEAN):
        yield _TEXTS


def quote_toml(text: str) -> str:
    """A name or a value as TOML writes it."""
    return json.dumps(text, ensure_ascii=False)


_LEFT_OUT = " Columns of other types, such as json or arrays, are left out: cast them in a view."
_UNIT = "# Who is protected: adding or removing all rows of one unit changes no answer by much."
_ROWS = "# REVIEW: how many rows of one unit count in one group; without it, COUNT(*) and SUM are refused."
_GROUPS = "# REVIEW: in how many groups one unit counts; without it, in all of them, which means more noise."
_VERSION = "# Change this when the data change; changed data under an old version are not served."
_PROMISED = "# REVIEW: change this whenever rows change; in a database nothing else notices it."
GUESSED = "# REVIEW: types were guessed from the first rows."
_NUMBERS = """\
# REVIEW numbers: bounds = [low, high] inside the braces allows SUM, from public knowledge;
# edges = [0, 18, 65] allows histograms: GROUP BY BUCKET(...)."""
_DATES = '# REVIEW dates: bounds = ["2023-01-01", "2024-12-31"] inside the braces allows GROUP BY month, day or year.'
_DAYS = "# REVIEW dates: --since and --until are the bounds of all of them; dates of birth need their own."
_UNREAD = """\
# REVIEW: dates such as 31.12.2024 are text here. Only dates written as 2024-12-31 are read: write the file that way."""
_WRITTEN = "# REVIEW: as the first line looks. Rows may need encoding, decimal, quote or null too."
_TIMES = """\
# REVIEW times: zone = "UTC", or "Europe/Oslo", inside the braces says in which zone they are; UTC allows
# AT TIME ZONE with any other."""
_ZONED = "# Stored with a time zone, read in UTC; t AT TIME ZONE 'Europe/Oslo' is local time."
_OFFSETS = "# REVIEW: offsets in these texts are ignored: 10:00+02:00 is 10:00. Write times in UTC if they differ."
_TEXTS = """\
# REVIEW texts: values = ["..."] inside the braces allows GROUP BY; list only what is public.
# null = true beside them makes rows without a value a group."""

_TEXT = """\
# What is protected and what may be asked. Review every line marked REVIEW: no values were read from the data{but}.

# Memory the engine may use before it writes to disk: memory = "4GB"

[budget]
# How much may ever leak about one unit, over all questions, forever.
epsilon = {epsilon}
{delta}
{tables}
# Public tables to join with; types and values are read from the file, so list only what anyone may see.
# [public.regions]
# source = "regions.csv"
"""
