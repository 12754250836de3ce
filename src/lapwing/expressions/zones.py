"""Time zones, by one database: that of the package tzdata, read by Python's zoneinfo, whatever the system has.

Engines have databases of their own, in other versions. So offsets go into a query as constants, and the version into
the question: an answer that was stored under another version is not found.
From 2100 on the offset of the end of 2099 holds.
Checked by: tests/expressions/test_zones.py
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from importlib.resources import files
from io import BytesIO
from zoneinfo import ZoneInfo

from tzdata import IANA_VERSION

VERSION: str = IANA_VERSION
"""The version of the database."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_END = int((datetime(2100, 1, 1, tzinfo=UTC) - _EPOCH).total_seconds())
_STEP = 10 * 86400  # no rule for the years to come has two changes within ten days

Offsets = tuple[tuple[datetime, ...], tuple[int, ...]]
NONE: Offsets = (), (0,)
"""Those of UTC: no change, and no offset."""


@cache
def zone_names() -> dict[str, str]:
    """Every zone, by its name in small letters."""
    return {name.lower(): name for name in files("tzdata").joinpath("zones").read_text("utf-8").split()}


@lru_cache(maxsize=64)
def offsets_of(name: str) -> Offsets:
    """The times in UTC at which the offset changes, ascending; its seconds before the first and from each on."""
    data = files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()
    zone = ZoneInfo.from_file(BytesIO(data), name)
    listed = [second for second in _listed(data) if second < _END]
    times = [*listed, *_by_rule(zone, listed[-1] if listed else 0)]
    offsets, changes = [_offset(zone, times[0] - 1 if times else 0)], []
    for second in times:
        offset = _offset(zone, second)
        if offset != offsets[-1]:
            offsets.append(offset)
            changes.append((_EPOCH + timedelta(seconds=second)).replace(tzinfo=None))
    return tuple(changes), tuple(offsets)


def _listed(data: bytes) -> tuple[int, ...]:
    """The seconds since 1970 at which a TZif file (RFC 9636) lists a change: its second part has 64 bits."""
    ut, std, leaps, count, kinds, letters = struct.unpack_from(">6l", data, 20)
    start = 44 + 5 * count + 6 * kinds + letters + 8 * leaps + std + ut
    return struct.unpack_from(f">{struct.unpack_from('>l', data, start + 32)[0]}q", data, start + 44)


def _by_rule(zone: ZoneInfo, start: int) -> Iterator[int]:
    """The changes after the last one that is listed, up to 2100."""
    for first in range(start, _END, _STEP):
        low, high = first, min(first + _STEP, _END - 1)
        before = _offset(zone, low)
        if _offset(zone, high) == before:
            continue
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if _offset(zone, middle) == before else (low, middle)
        yield high


def _offset(zone: ZoneInfo, second: int) -> int:
    offset = (_EPOCH + timedelta(seconds=second)).astimezone(zone).utcoffset() or timedelta()
    return int(offset.total_seconds())
