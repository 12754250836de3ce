"""Offsets are those of zoneinfo, which nobody here wrote, on the same files."""

from __future__ import annotations

from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from random import Random
from zoneinfo import ZoneInfo

import pytest

from lapwing.expressions.zones import NONE, VERSION, offsets_of, zone_names

USUAL = (
    *("Europe/Oslo", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Africa/Casablanca"),
    *("Pacific/Apia", "Etc/GMT-2", "Africa/Monrovia", "Europe/Dublin", "Antarctica/Troll"),
)


def oracle(name: str) -> ZoneInfo:
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, name)


def instants(name: str, random: Random, many: int) -> list[datetime]:
    """Around every change, and anywhere from the year 2 to 2100."""
    changes, _ = offsets_of(name)
    steps = [timedelta(microseconds=step) for step in (-1_000_000, -1, 0, 1, 1_800_000_000)]
    near = [change + step for change in changes for step in steps]
    spread = timedelta(days=(datetime(2100, 1, 1) - datetime(2, 1, 1)).days)  # noqa: DTZ001
    anywhere = [datetime(2, 1, 1) + spread * random.random() for _ in range(many)]  # noqa: DTZ001
    recent = [datetime(1900, 1, 1) + timedelta(days=200 * 365) * random.random() for _ in range(many)]  # noqa: DTZ001
    return [*near, *anywhere, *recent]


def check(name: str, many: int) -> None:
    changes, offsets = offsets_of(name)
    assert list(changes) == sorted(changes)
    zone = oracle(name)
    for instant in instants(name, Random(7), many):
        local = instant.replace(tzinfo=UTC).astimezone(zone).replace(tzinfo=None)
        assert instant + timedelta(seconds=offsets[bisect_right(changes, instant)]) == local, (name, instant)


@pytest.mark.parametrize("name", USUAL)
def test_offsets_are_those_of_zoneinfo(name: str) -> None:
    check(name, 1000)


@pytest.mark.slow
def test_offsets_of_every_zone_are_those_of_zoneinfo() -> None:
    for name in zone_names().values():
        check(name, 500)
        offsets_of.cache_clear()


def test_utc_has_no_offset() -> None:
    assert offsets_of("UTC") == offsets_of("Etc/UTC") == NONE
    assert offsets_of("Europe/Oslo") != NONE
    assert VERSION[:4].isdigit()


def test_from_2100_on_the_last_offset_holds() -> None:
    changes, offsets = offsets_of("Europe/Oslo")
    assert changes[-1].year == 2099
    assert offsets[-1] == 3600
