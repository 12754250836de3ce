"""Two private tables, one public one, and random questions over joins, unions and sub-queries per unit."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pyarrow as pa

from lapwing.engines.duckdb import DuckDBEngine
from lapwing.engines.public import read_public
from lapwing.engines.source import Frame
from lapwing.expressions.table import Catalog, Field, Table
from lapwing.expressions.types import Type
from support.questions import Row, arrow_table, bounds, make_rows, make_table

STAYS = {"pid": pa.int64(), "site": pa.int64(), "nights": pa.int64(), "price": pa.float64(), "ward": pa.string()}
SITES = pa.table(
    {
        "code": pa.array([1, 2, 3, None, None], pa.int64()),
        "name": pa.array(["north", "south", "east", "lost", "gone"]),
        "size": pa.array([5, 7, 7, 1, 2], pa.int64()),
    }
)


def stays_table(random: Random) -> Table:
    fields = (
        Field("pid", Type.INTEGER),
        Field("site", Type.INTEGER, values=(1, 2, 3)),
        Field("nights", Type.INTEGER, bounds(0, 4)),
        Field("price", Type.REAL, bounds(-2, 3)),
        Field("ward", Type.TEXT, values=("a", "b")),
    )
    limits = {"rows_per_unit": random.choice([1, 2, 3]), "groups_per_unit": random.choice([None, 1, 2])}
    return Table("stays", fields, "pid", **limits)


def make_stays(random: Random) -> list[Row]:
    return [
        (
            random.choice([1, 1, 2, 3, None]),
            random.choice([1, 2, 3, 8, None]),
            random.choice([0, 3, 99, -(2**63), 2**62, None]),
            random.choice([0.0, -0.0, 0.1, 2.5, 1e308, math.nan, -math.inf, None]),
            random.choice(["a", "b", "?", None]),
        )
        for _ in range(random.choice([0, 1, 3, 8]))
    ]


def stays_frame(rows: list[Row]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ((),) * len(STAYS)
    return pa.table(
        {
            name: pa.array(list(column), kind, from_pandas=False)
            for (name, kind), column in zip(STAYS.items(), columns, strict=True)
        }
    )


@dataclass(frozen=True)
class World:
    """The declared tables, and their rows."""

    visits: Table
    stays: Table
    sites: Table
    visit_rows: list[Row]
    stay_rows: list[Row]

    @property
    def catalog(self) -> Catalog:
        return Catalog((self.visits, self.stays, self.sites))

    def engine(self) -> DuckDBEngine:
        frames = [
            (self.visits, Frame(arrow_table(self.visit_rows))),
            (self.stays, Frame(stays_frame(self.stay_rows))),
            (self.sites, Frame(SITES)),
        ]
        return DuckDBEngine(frames, salt=2015)

    def without(self, unit: Any) -> World:
        """The neighbour: all rows of one unit removed from every table."""
        kept = [[row for row in rows if row[0] != unit] for rows in (self.visit_rows, self.stay_rows)]
        return replace(self, visit_rows=kept[0], stay_rows=kept[1])

    def without_row(self, place: int) -> World:
        """The neighbour at row level: one visit less."""
        return replace(self, visit_rows=self.visit_rows[:place] + self.visit_rows[place + 1 :])


def make_world(random: Random, *, by_row: bool = False) -> World:
    visits = make_table(random, by_row=by_row)
    return World(visits, stays_table(random), read_public("sites", Frame(SITES)), make_rows(random), make_stays(random))


@dataclass(frozen=True)
class Shape:
    """What can stand in FROM, and what can be asked about it."""

    source: str
    keys: tuple[str, ...]
    values: tuple[str, ...]
    conditions: tuple[str, ...]
    unit: str = "pid"
    hidden: str = "CAST(FLOOR({0}) AS TEXT)"
    """A key whose values are not public, of one of the values."""
    private: bool = True
    """Whether it needs tables with a unit."""


_PUBLIC = Shape(
    "visits AS v JOIN sites AS p ON v.site = p.code",
    ("p.name", "v.sex", "p.size > 5", "UPPER(name)", "WIDTH_BUCKET(cost / size, [0, 1])"),
    ("cost", "p.size", "v.age * p.size", "CLIP(cost / size, -1, 1)"),
    ("p.size > 5", "p.name <> v.sex", "v.cost IS NOT NULL", "name LIKE 'n%'"),
    unit="v.pid",
    hidden="town",
    private=False,
)
_PAIR = Shape(
    "visits AS v JOIN stays AS s ON v.pid = s.pid",
    ("v.sex", "s.ward", "s.site", "v.site = s.site"),
    ("cost", "nights", "nights * cost", "price"),
    ("v.site = s.site", "nights > 0", "s.pid > 1", "ward IS NULL OR sick"),
    unit="v.pid",
    hidden="COALESCE(town, s.ward)",
)
SHAPES = (
    _PUBLIC,
    replace(_PUBLIC, source="visits AS v LEFT JOIN sites AS p ON v.site = p.code"),
    replace(_PUBLIC, source="sites AS p JOIN visits AS v ON p.code = v.site"),
    replace(_PUBLIC, source="visits AS v LEFT JOIN (SELECT * FROM sites WHERE size > 5) AS p ON p.code = ABS(v.site)"),
    replace(_PUBLIC, source="(SELECT * FROM visits WHERE age > 0) AS v JOIN sites AS p ON CLIP(v.age, 1, 3) = p.code"),
    _PAIR,
    replace(_PAIR, source="visits AS v LEFT JOIN stays AS s ON s.pid = v.pid"),
    replace(_PAIR, source="visits AS v RIGHT JOIN stays AS s ON s.pid = v.pid AND v.site = s.site"),
    replace(_PAIR, source="visits AS v LEFT JOIN (SELECT * FROM stays WHERE nights > 0) AS s ON s.pid = v.pid"),
    replace(
        _PAIR,
        source="visits AS v JOIN stays AS s ON s.pid = v.pid JOIN sites AS p ON p.code = s.site "
        "JOIN stays AS w ON w.pid = s.pid",
        keys=("p.name", "w.ward"),
        values=("cost", "p.size", "w.nights"),
        conditions=("p.size > 5", "w.nights > s.nights"),
    ),
    Shape(
        "(SELECT pid, site, cost AS x, sex AS k FROM visits "
        "UNION ALL SELECT pid, site, nights AS x, ward AS k FROM stays) AS u",
        ("site", "k", "x > 1"),
        ("x", "CLIP(site, 0, 2)"),
        ("x > 0", "k = 'a' OR k = 'F'", "pid = 1"),
    ),
    Shape(
        "(SELECT pid, SUM(cost) AS total, COUNT(*) AS n, AVG(age) AS mean, COUNT(cost) AS held "
        "FROM visits GROUP BY pid) AS u",
        ("n", "total > 1", "held"),
        ("total", "n", "mean", "CLIP(total / n, 0, 9)"),
        ("n > 1", "mean < 40", "pid = 1"),
    ),
    Shape(
        "(SELECT pid, site, SUM(cost * 2) AS total, COUNT(*) AS n FROM visits WHERE sick "
        "GROUP BY pid, site HAVING n > 0) AS u",
        ("n", "site", "total > 1"),
        ("total", "n"),
        ("n > 1", "site = 2"),
    ),
    Shape(
        "(SELECT pid, MIN(cost) AS low, MAX(age) AS high, COUNT(DISTINCT site) AS k, SUM(age) FILTER (WHERE sick) AS s "
        "FROM visits GROUP BY pid) AS u",
        ("k", "low > 0", "high IS NULL"),
        ("low", "high", "k", "s"),
        ("k > 1", "low < high", "s IS NULL"),
    ),
    Shape(
        "visits AS v JOIN (SELECT pid, SUM(price) AS total, COUNT(*) AS n FROM stays GROUP BY pid) AS u "
        "ON u.pid = v.pid",
        ("v.sex", "u.n", "total > 1"),
        ("cost", "total", "cost * n"),
        ("n > 1", "cost < total"),
        "u.pid",
        "town",
    ),
    Shape(
        "(SELECT a.pid, SUM(a.cost) AS total, COUNT(*) AS n FROM visits a JOIN visits b "
        "ON a.pid = b.pid GROUP BY a.pid) u",
        ("n > 3",),
        ("total", "CLIP(n, 0, 7)"),
        ("n > 1", "total <> 0"),
    ),
    Shape(
        "visits AS v",
        ("v.sex", "v.site", "pid IN (SELECT pid FROM stays WHERE ward = 'a')"),
        ("cost", "age"),
        (
            "v.pid IN (SELECT pid FROM stays WHERE nights > 0)",
            "pid NOT IN (SELECT DISTINCT pid FROM stays)",
            "EXISTS (SELECT 1 FROM stays s WHERE s.pid = v.pid AND s.site = 2)",
            "NOT EXISTS (SELECT * FROM visits w WHERE w.pid = v.pid AND w.sick) OR sick",
            "pid IN (SELECT pid FROM stays GROUP BY pid HAVING SUM(price) > 1)",
        ),
        hidden="town",
    ),
    Shape(
        "(SELECT * FROM visits WHERE pid IN (SELECT pid FROM stays)) AS v JOIN stays AS s ON v.pid = s.pid",
        ("v.sex", "s.ward", "s.site IN (SELECT code FROM sites)"),
        ("cost", "nights"),
        ("s.pid NOT IN (SELECT pid FROM visits WHERE sick)", "s.site NOT IN (SELECT code FROM sites WHERE size > 5)"),
        unit="v.pid",
        hidden="town",
    ),
    Shape(
        "(SELECT * FROM visits WHERE site IN (SELECT code FROM sites WHERE name <> 'south')) AS v",
        ("v.sex", "v.site NOT IN (SELECT size FROM sites)"),
        ("cost", "age"),
        ("site IN (SELECT code FROM sites WHERE size > 5)", "sex NOT IN (SELECT name FROM sites)"),
        unit="v.pid",
        hidden="town",
        private=False,
    ),
    Shape(
        "(SELECT pid, MIN(site) AS first, MAX(age) AS last, MIN(day) AS start, MAX(day) FILTER (WHERE sick) AS until "
        "FROM visits GROUP BY pid) AS u",
        ("first", "last > 1", "MONTH(start)", "start < until", "until IS NULL"),
        ("last", "CLIP(first, 1, 3)", "CLIP(DATE_DIFF('day', start, until), 0, 99)"),
        ("first = 1", "start < DATE '2020-03-01'", "last <> 40"),
    ),
    replace(_PAIR, source="visits AS v LEFT JOIN stays AS s ON s.pid = v.pid AND nights > 0 AND NOT sick"),
    replace(_PAIR, source="visits AS v RIGHT JOIN stays AS s ON s.pid = v.pid AND s.ward = 'a' AND v.sick"),
    replace(_PAIR, source="visits AS v JOIN stays AS s ON s.pid = v.pid AND nights < age AND ward IN ('a', 'b')"),
    replace(_PUBLIC, source="visits AS v LEFT JOIN sites AS p ON v.site = p.code AND p.size > 5 AND v.age > 0"),
)


_OF_ONE = ("VARIANCE", "VAR_POP", "STDDEV", "STDDEV_POP", "MEDIAN", "MIN", "MAX", "COUNT")
_OF_TWO = ("COVAR_POP", "COVAR_SAMP", "CORR", "REGR_SLOPE", "REGR_INTERCEPT")


def make_aggregate(random: Random, shape: Shape) -> str:
    """Every kind of aggregate; half of the time one of the plain ones."""
    value, other = random.choice(shape.values), random.choice(shape.values)
    kinds = ["COUNT(*)", f"SUM({value})", f"AVG({value})"]
    if random.random() < 0.5:
        kinds = [f"{name}({value})" for name in _OF_ONE] + [f"{name}({value}, {other})" for name in _OF_TWO]
        kinds += [f"QUANTILE_CONT({value}, 0.9)", f"COUNT(DISTINCT {random.choice([value, *shape.keys])})"]
        kinds += [f"COUNT(DISTINCT {shape.unit})"] if shape.private else []
        kinds += [f"AVG({random.choice(shape.conditions)})", f"SUM({random.choice(shape.conditions)})"]
    condition = f" FILTER (WHERE {random.choice(shape.conditions)})" if random.random() < 0.2 else ""
    return random.choice(kinds) + condition


def make_question(random: Random, shape: Shape, *, hidden: bool = False) -> str:
    """A question over this shape. Its keys are public, but for one if it is `hidden`."""
    chosen = dict.fromkeys(make_aggregate(random, shape) for _ in range(random.choice([1, 2])))
    keys = random.sample(shape.keys, min(len(shape.keys), random.choice([0, 1, 1, 2])))
    if hidden:
        keys = [*keys[:1], shape.hidden.format(random.choice(shape.values))]
    columns = ", ".join(
        [*(f"{key} AS g{i}" for i, key in enumerate(keys)), *(f"{one} AS a{i}" for i, one in enumerate(chosen))]
    )
    where = f" WHERE {random.choice(shape.conditions)}" if random.random() < 0.5 else ""
    group = f" GROUP BY {', '.join(keys)}" if keys else ""
    return f"SELECT {columns} FROM {shape.source}{where}{group}"
