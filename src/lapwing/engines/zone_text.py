"""The offset of a time zone as constants in a query: a binary search over the times at which it changes."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from lapwing.engines.dialect import Write, Writer
from lapwing.expressions.zones import offsets_of

_VALUE = "\1"
_FIRST, _LAST = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)  # noqa: DTZ001 (in UTC)


def local_time(type_name: str, moved: str) -> Write:
    """How an engine writes `forms.LocalTime`: its name of a timestamp, and how it adds seconds."""

    def write(writer: Writer, form: Any) -> str:
        return _text(form.args["zone"], type_name, moved).replace(_VALUE, writer.sql(form.this))

    return write


@lru_cache(maxsize=64)
def _text(zone: str, type_name: str, moved: str) -> str:
    """NULL unless both times are in the years 1 to 9999."""
    changes, offsets = offsets_of(zone)

    def constant(time: datetime) -> str:
        return f"{type_name} '{time.isoformat(' ')}'"

    def search(least: int, most: int) -> str:
        if least == most:
            return str(offsets[least])
        middle = (least + most) // 2
        lower, upper = search(least, middle), search(middle + 1, most)
        return f"CASE WHEN {_VALUE}<{constant(changes[middle])} THEN {lower} ELSE {upper} END"

    first = _FIRST + timedelta(seconds=max(0, -offsets[0]))
    last = _LAST - timedelta(seconds=max(0, offsets[-1]))
    inside = f"{_VALUE}>={constant(first)} AND {_VALUE}<={constant(last)}"
    return f"(CASE WHEN {inside} THEN {moved.format(_VALUE, search(0, len(changes)))} END)"
