"""A small world whose answers have no noise, so that they are what the questions mean, beside DuckDB's own answers."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from lapwing.curator import Curator
from lapwing.engines.duckdb import DuckDBEngine
from lapwing.engines.public import read_public
from lapwing.engines.source import Frame
from lapwing.errors import WeakBudget
from lapwing.expressions.table import Catalog, Field, Table
from lapwing.expressions.types import Type
from lapwing.ledger import open_ledger
from lapwing.mechanisms.cells import NoisyCells
from lapwing.privacy import Budget
from support.questions import bounds

EPSILON = 1000
_PLACES = range(48)
_FIRST = dt.datetime.fromisoformat("2020-01-01T10:00")

VISITS = pa.table(
    {
        "pid": pa.array([i % 20 for i in _PLACES], pa.int64()),
        "name": pa.array([None if i % 9 == 8 else ["Ann", "bob", "a_b", "a*b"][i % 4] for i in _PLACES]),
        "sex": pa.array([None if i % 11 == 10 else "FM"[i % 2] for i in _PLACES]),
        "site": pa.array([None if i % 7 == 6 else i % 4 + 1 for i in _PLACES], pa.int64()),
        "cost": pa.array([None if i % 13 == 12 else i * 7 % 31 + 0.25 for i in _PLACES], pa.float64()),
        "age": pa.array([20 + i % 40 for i in _PLACES], pa.int64()),
        "loose": pa.array([i % 17 - 4.0 for i in _PLACES], pa.float64()),
        "code": pa.array([str(i % 5) for i in _PLACES]),
        "sick": pa.array([None if i % 10 == 9 else i % 3 == 0 for i in _PLACES]),
        "day": pa.array([(_FIRST + dt.timedelta(days=9 * i)).date() for i in _PLACES]),
        "at": pa.array([_FIRST + dt.timedelta(hours=31 * i) for i in _PLACES], pa.timestamp("us")),
    }
)
STAYS = pa.table(
    {
        "pid": pa.array([i * 3 % 26 for i in range(30)], pa.int64()),
        "site": pa.array([None if i % 6 == 5 else i % 3 + 1 for i in range(30)], pa.int64()),
        "nights": pa.array([None if i % 8 == 7 else i % 5 for i in range(30)], pa.int64()),
        "status": pa.array([None if i % 5 == 4 else ["open", "returned"][i % 2] for i in range(30)]),
    }
)
SITES = pa.table({"code": [1, 2, 3], "label": ["north", "south", "east"], "size": [5, 7, 9]})

_VISITS = Table(
    "visits",
    (
        Field("pid", Type.INTEGER),
        Field("name", Type.TEXT, values=("Ann", "bob", "a_b", "a*b", None)),
        Field("sex", Type.TEXT, values=("F", "M", None)),
        Field("site", Type.INTEGER, bounds(0, 9), values=(1, 2, 3, 4, None)),
        Field("cost", Type.REAL, bounds(0, 64)),
        Field("age", Type.INTEGER, bounds(0, 127)),
        Field("loose", Type.REAL),
        Field("code", Type.TEXT, values=tuple("01234")),
        Field("sick", Type.BOOLEAN, values=(False, True, None)),
        Field("day", Type.DATE),
        Field("at", Type.TIMESTAMP),
    ),
    "pid",
    8,
)
_STAYS = Table(
    "stays",
    (
        Field("pid", Type.INTEGER),
        Field("site", Type.INTEGER, bounds(0, 9), values=(1, 2, 3, None)),
        Field("nights", Type.INTEGER, bounds(0, 8)),
        Field("status", Type.TEXT, values=("open", "returned", None)),
    ),
    "pid",
    8,
)


def open_exact() -> Curator:
    """A curator over the tables, with a budget for thousands of exact answers."""
    catalog = Catalog((_VISITS, _STAYS, read_public("sites", Frame(SITES))))
    frames = [Frame(VISITS), Frame(STAYS), Frame(SITES)]
    engine = DuckDBEngine(list(zip(catalog.tables, frames, strict=True)), salt=2015)
    with pytest.warns(WeakBudget):
        budget = Budget(epsilon=10**4 * EPSILON)
    return Curator(catalog, engine, open_ledger(None, budget), check=Fraction(0))


def asked(curator: Curator, question: Any, **terms: Any) -> list[tuple[Any, ...]]:
    """The rows of an answer without noise. Quantiles are drawn, not noisy; at this epsilon they are near."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NoisyCells, "release", lambda _, columns, __: columns)
        found = curator.sql(question, epsilon=EPSILON, **terms).to_arrow()
    names = [name for name in found.column_names if not name.endswith(("_low", "_high"))]
    return _rows(found.select(names))


def truth(text: str) -> list[tuple[Any, ...]]:
    """DuckDB's answer to the same text over the same rows, which it does not protect."""
    with duckdb.connect() as database:
        for name, rows in (("visits", VISITS), ("stays", STAYS), ("sites", SITES)):
            database.register(name, rows)
        found = database.sql(text).to_arrow_table()
    return _rows(found)


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """Rows in one order, with numbers as they are whatever their type, to two digits."""
    rows = [tuple(map(_plain, row.values())) for row in table.to_pylist()]
    return sorted(rows, key=lambda row: [(value is None, str(type(value)), str(value)) for value in row])


def _plain(value: Any) -> Any:
    if isinstance(value, str | bool | dt.date) or value is None:
        return value
    return round(float(value), 2) + 0.0
