"""Small tables that analysts ask about: flights with repairs, airlines and airports; health and births as bundled."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from functools import cache

import pyarrow as pa

import lapwing as lw
from lapwing import data
from lapwing.curator import Curator, curator_of
from lapwing.engines.frames import frame_source
from lapwing.engines.public import read_public
from lapwing.expressions.table import Field, Table
from lapwing.expressions.types import Type
from lapwing.ledger import open_ledger
from support.questions import bounds

_CARRIERS, _ORIGINS, _DESTS = ("AA", "DL", "UA", "WN"), ("EWR", "JFK", "LGA"), ("ATL", "BOS", "DEN", "LAX", "ORD")
_START = datetime.fromisoformat("2024-01-01 06:00")
_REMARKS = ("on time", "late: weather", "late: crew", "gate change", None)


def _flights(many: int = 600) -> pa.Table:
    rows = range(many)
    departs = [_START + timedelta(hours=29 * i) for i in rows]
    return pa.table(
        {
            "tail": pa.array([f"N{i % 75:03}" for i in rows]),
            "carrier": pa.array([_CARRIERS[i % 75 % 4] for i in rows]),
            "origin": pa.array([_ORIGINS[i % 3] for i in rows]),
            "dest": pa.array([_DESTS[i * i % 5] for i in rows]),
            "flight": pa.array([100 + i % 9 for i in rows], pa.int64()),
            "day": pa.array([when.date() for when in departs], pa.date32()),
            "departs": pa.array(departs, pa.timestamp("us")),
            "dep_delay": pa.array([None if i % 41 == 0 else i * 7 % 90 - 20 for i in rows], pa.int64()),
            "arr_delay": pa.array([None if i % 41 == 0 else i * 11 % 120 - 30 for i in rows], pa.int64()),
            "distance": pa.array([200 + i * 37 % 2400 for i in rows], pa.int64()),
            "air_time": pa.array([40.0 + i * 13 % 300 for i in rows], pa.float64()),
            "cancelled": pa.array([i % 41 == 0 for i in rows]),
            "remark": pa.array([_REMARKS[i % 5] for i in rows]),
        }
    )


def _repairs() -> pa.Table:
    rows = range(90)
    return pa.table(
        {
            "tail": pa.array([f"N{i * 2 % 75:03}" for i in rows]),
            "day": pa.array([date(2024, 1 + i % 12, 1 + i % 28) for i in rows], pa.date32()),
            "kind": pa.array([("engine", "cabin", "wheels")[i % 3] for i in rows]),
            "cost": pa.array([50.0 * (i % 40) for i in rows]),
        }
    )


def _planes() -> pa.Table:
    rows = range(75)
    return pa.table(
        {
            "tail": pa.array([f"N{i:03}" for i in rows]),
            "built": pa.array([1990 + i % 30 for i in rows], pa.int64()),
            "maker": pa.array([("Airbus", "Boeing", "Embraer")[i % 3] for i in rows]),
            "seats": pa.array([80 + i % 5 * 40 for i in rows], pa.int64()),
        }
    )


AIRLINES = pa.table({"carrier": ["AA", "DL", "UA", "WN"], "name": ["American", "Delta", "United", "Southwest"]})
AIRPORTS = pa.table(
    {
        "code": ["EWR", "JFK", "LGA", "ATL", "BOS", "DEN", "LAX", "ORD"],
        "city": ["Newark", "New York", "New York", "Atlanta", "Boston", "Denver", "Los Angeles", "Chicago"],
        "state": ["NJ", "NY", "NY", "GA", "MA", "CO", "CA", "IL"],
    }
)


@cache
def flights_curator() -> Curator:
    text = Type.TEXT
    flights = Table(
        "flights",
        (
            Field("tail", text),
            Field("carrier", text, values=_CARRIERS),
            Field("origin", text, values=_ORIGINS),
            Field("dest", text),
            Field("flight", Type.INTEGER),
            Field("day", Type.DATE),
            Field("departs", Type.TIMESTAMP),
            Field("dep_delay", Type.INTEGER, bounds(-30, 300)),
            Field("arr_delay", Type.INTEGER, bounds(-60, 300)),
            Field("distance", Type.INTEGER, bounds(0, 3000)),
            Field("air_time", Type.REAL, bounds(0, 600)),
            Field("cancelled", Type.BOOLEAN, values=(False, True)),
            Field("remark", text),
        ),
        "tail",
        rows_per_unit=8,
        groups_per_unit=4,
    )
    repairs = Table(
        "repairs",
        (
            Field("tail", text),
            Field("day", Type.DATE),
            Field("kind", text, values=("engine", "cabin", "wheels")),
            Field("cost", Type.REAL, bounds(0, 2000)),
        ),
        "tail",
        rows_per_unit=3,
        groups_per_unit=2,
    )
    planes = Table(
        "planes",
        (
            Field("tail", text),
            Field("built", Type.INTEGER, bounds(1960, 2024)),
            Field("maker", text, values=("Airbus", "Boeing", "Embraer")),
            Field("seats", Type.INTEGER, bounds(0, 400)),
        ),
        "tail",
        rows_per_unit=1,
        groups_per_unit=1,
    )
    stored = [(flights, _flights()), (repairs, _repairs()), (planes, _planes())]
    tables = [(table, frame_source(rows)) for table, rows in stored]
    for name, rows in (("airlines", AIRLINES), ("airports", AIRPORTS)):
        source = frame_source(rows)
        tables.append((read_public(name, source, ()), source))
    return curator_of(tables, open_ledger(None, lw.Budget(epsilon=500, delta=1e-6)))


@cache
def health_curator() -> Curator:
    """The RAND experiment as bundled, with the declarations of the demo."""
    return lw.open(
        data.health(),
        name="health",
        unit="person",
        rows_per_unit=5,
        groups_per_unit=5,
        ledger=":memory:",
        values={
            "sex": ["F", "M"],
            "plan": ["free", "25%", "50%", "95%", "deductible"],
            "year": range(1, 6),
            "site": range(1, 7),
            "general_health": ["excellent", "good", "fair", "poor"],
            "deductible": [False, True],
        },
        bounds={"age": (0, 80), "income": (0, 30_000), "visits": (0, 50), "admissions": (0, 5), "spending": (0, 5_000)},
        budget=lw.Budget(epsilon=500, delta=1e-6),
    )


@cache
def births_curator() -> Curator:
    return lw.open(
        data.births(),
        name="births",
        unit=None,
        values={"sex": ["F", "M"]},
        bounds={"births": (0, 25_000)},
        ledger=":memory:",
        budget=lw.Budget(epsilon=500, delta=1e-6),
    )
