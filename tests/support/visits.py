"""One small table of visits for tests of the whole path, with a spy on everything that reads rows."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lapwing.curator import Curator, open_data
from lapwing.expressions.table import Catalog, Field, Table
from lapwing.expressions.types import Interval, Type
from lapwing.privacy import Budget
from support.questions import bounds

CANARY = "ZZCANARY"
"""A string that stands only in the rows."""


def interval(low: float, high: float) -> Interval:
    return bounds(low, high)


def visits_table(**changes: Any) -> Table:
    """The declaration that the tests of reading and planning use."""
    facts: dict[str, Any] = {"rows_per_unit": 5, "groups_per_unit": 2, **changes}
    fields = (
        Field("pid", Type.INTEGER),
        Field("name", Type.TEXT),
        Field("sex", Type.TEXT, values=("F", "M")),
        Field("site", Type.INTEGER, values=(9, 10, 1000)),
        Field("cost", Type.REAL, interval(0, 100)),
        Field("age", Type.INTEGER, interval(0, 120)),
        Field("loose", Type.REAL),
        Field("sick", Type.BOOLEAN, values=(False, True)),
        Field("day", Type.DATE),
        Field("at", Type.TIMESTAMP, zone=facts.pop("zone", None)),
    )
    return Table("visits", fields, facts.pop("unit", "pid"), **facts)


def visits_catalog(**changes: Any) -> Catalog:
    return Catalog((visits_table(**changes),))


def frame(people: int = 40) -> pa.Table:
    rows = range(people * 2)
    return pa.table(
        {
            "pid": pa.array([i // 2 for i in rows], pa.int64()),
            "name": pa.array([f"{CANARY}{i // 2}" for i in rows]),
            "sex": pa.array(["FM"[i // 2 % 2] for i in rows]),
            "site": pa.array([9 + i % 2 for i in rows], pa.int8()),
            "cost": pa.array([i % 50 + 0.5 for i in rows], pa.float64()),
            "age": pa.array([20 + i % 60 for i in rows], pa.int64()),
        }
    )


@lru_cache
def crowd() -> pa.Table:
    """The same rows of so many people that a search finds their bounds at the prices of tests."""
    return frame(20_000)


FACTS: dict[str, Any] = {
    "unit": "pid",
    "rows_per_unit": 2,
    "bounds": {"cost": (0, 100), "age": (0, 120)},
    "values": {"sex": ["F", "M"], "site": [9, 10, 1000]},
}


def open_visits(data: Any = None, **changes: Any) -> Curator:
    """A curator on the visits: in memory, with a budget of its own, unless a path is given.

    The check of what limits cut is a charge of its own, so it is off unless a test is about it: check=None.
    """
    fresh = {} if isinstance(data, str | Path) else {"ledger": ":memory:"}
    facts = {"name": "visits", "budget": Budget(epsilon=1), "check": 0, **fresh, **FACTS, **changes}
    return open_data(frame() if data is None else data, **facts)


def write_visits(folder: Path, people: int = 40) -> Path:
    path = folder / "visits.parquet"
    pq.write_table(frame(people), path)
    return path


class Spy:
    """Counts the queries that reach the engine of a curator."""

    def __init__(self, curator: Curator, monkeypatch: pytest.MonkeyPatch) -> None:
        self.queries: list[str] = []
        engine, inner = curator._engine, curator._engine.fetch

        def cells(query: Any) -> pa.Table:
            self.queries.append(query)
            return inner(query)

        monkeypatch.setattr(engine, "fetch", cells)
