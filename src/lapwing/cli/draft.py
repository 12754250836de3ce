"""A first draft of lapwing.toml: everything a person must decide is marked REVIEW.

Column names and types come from the file's schema (for CSV, types are guessed from the first rows). No value, count or
bound is read from the data: that would leak before the first question.
"""

from __future__ import annotations

import json
import os
from decimal import Decimal
from pathlib import Path

from lapwing.engines.duckdb import stored_types
from lapwing.engines.source import Csv, file_source
from lapwing.errors import Misconfigured
from lapwing.language.refusal import nearest
from lapwing.language.types import Type
from lapwing.privacy.budget import Budget
from lapwing.settings import ROW


def draft(data: Path, unit: str, epsilon: Decimal, delta: Decimal, file: Path) -> str:
    """The text of a lapwing.toml for this file."""
    Budget(epsilon, delta)
    source = file_source(data)
    types = stored_types(source, guess=True)
    unit = next((name for name in types if unit != ROW and name.lower() == unit.lower()), unit)
    if unit != ROW and unit not in types:
        raise Misconfigured(
            f'`--unit` is `{unit}`, but {data.name} has no such column. {nearest(unit, types)} Or write "row".'
        )
    guessed = " # REVIEW: guessed from the first rows" if isinstance(source, Csv) else ""
    columns = "\n".join(_column(name, kind, name == unit, guessed) for name, kind in types.items())
    where = os.path.relpath(data.resolve(), file.resolve().parent)
    return _TEXT.format(
        epsilon=epsilon,
        delta=f"delta = {delta}\n" if delta else "",
        name=_quote(data.stem),
        source=_quote(where),
        unit=_quote(unit),
        but=", but types were guessed from the first rows" if guessed else "",
        limits="" if unit == ROW else _LIMITS,
        columns=columns,
    )


def _column(name: str, kind: Type, is_unit: bool, guessed: str) -> str:
    line = f'{_quote(name)} = {{ type = "{kind.value}" }}{guessed}'
    if is_unit:
        return line
    if kind.is_number:
        bounds = "# REVIEW: to allow SUM, add bounds = [low, high] inside the braces, from public knowledge"
        return f"{line}\n{bounds};\n#         edges = [0, 18, 65] allows histograms: GROUP BY BUCKET(...)"
    if kind in (Type.TEXT, Type.BOOLEAN):
        return f'{line}\n# REVIEW: to allow GROUP BY, add values = ["..."] inside the braces; list only what is public'
    return line


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


_LIMITS = """\
# REVIEW: how many rows of one unit count in one group; without it, COUNT(*) and SUM are refused.
# rows_per_unit = 5
# REVIEW: in how many groups one unit counts; without it, in all of them, which means more noise.
# groups_per_unit = 3
"""

_TEXT = """\
# What is protected and what may be asked. Review every line marked REVIEW: no values were read from the data{but}.

# Memory the engine may use before it writes to disk: memory = "4GB"

[budget]
# How much may ever leak about one unit, over all questions, forever.
epsilon = {epsilon}
{delta}
[tables.{name}]
source = {source}
# Who is protected: adding or removing all rows of one unit changes no answer by much.
unit = {unit}
{limits}# Change this when the data change; changed data under an old version are not served.
version = "1"

[tables.{name}.columns]
{columns}

# Public tables to join with; types and values are read from the file, so list only what anyone may see.
# [public.regions]
# source = "regions.csv"
"""
