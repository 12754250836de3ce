"""Joins, unions and sub-queries per unit: units are traced through all of them, and limits hold for what comes out."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from sqlglot import exp

from lapwing.curator import Curator, open_data
from lapwing.engines.duckdb import DuckDBEngine
from lapwing.engines.public import read_public
from lapwing.engines.source import Frame
from lapwing.errors import Misconfigured, Refused
from lapwing.expressions.table import Catalog, Field, Table
from lapwing.expressions.types import Type
from lapwing.plan.add_noise import arrange
from lapwing.plan.plan import Plan, make_plan
from lapwing.plan.query import cells_query
from lapwing.plan.question import Question
from lapwing.plan.row_values import from_node
from lapwing.privacy import Budget, Pure
from lapwing.sql import read_sql
from lapwing.sql.ibis import read_ibis, unbound_table
from support.cells import run
from support.questions import TYPES
from support.reference import reference_cells
from support.refusals import attempt
from support.relations import SITES, STAYS, World, make_world
from support.sweeps import sweep
from support.visits import frame, interval, open_visits


def planned(text: str, catalog: Catalog) -> Plan:
    question = read_sql(text, catalog)
    assert isinstance(question, Question), f"{text}: {question}"
    plan = make_plan(question, Pure(1))
    assert isinstance(plan, Plan), f"{text}: {plan}"
    return plan


def arranged(engine: DuckDBEngine, plan: Plan) -> Any:
    return arrange(plan, run(engine, cells_query(plan)))


def cells(engine: DuckDBEngine, plan: Plan) -> list[list[int]]:
    return [column.tolist() for columns in arranged(engine, plan).cells for column in columns]


Rows = list[dict[str, Any]]


def joined(left: Rows, right: Rows, met: Callable[[Any, Any], bool], names: dict[str, str], *, outer: bool) -> Rows:
    """A join by hand: every pair, and what the columns of the right row are called."""
    found: Rows = []
    for one in left:
        partners = [other for other in right if met(one, other)]
        nobody = [dict.fromkeys(right[0] if right else names)] if outer else []
        found += [{**one, **{names.get(n, n): value for n, value in other.items()}} for other in partners or nobody]
    return found


def numbers(rows: Rows, column: str) -> list[float]:
    return [row[column] for row in rows if row[column] is not None and not math.isnan(row[column])]


def exact_total(rows: Rows, column: str, low: float, high: float) -> float | None:
    held = numbers(rows, column)
    return math.fsum(max(low, min(high, value)) for value in held) if held else None


def totals_by_unit(rows: Rows, column: str) -> Rows:
    units = dict.fromkeys(row["pid"] for row in rows if row["pid"] is not None)
    mine = {unit: [row for row in rows if row["pid"] == unit] for unit in units}
    return [
        {
            "pid": unit,
            f"SUM({column})": exact_total(held, column, -5, 10),
            "COUNT(*)": len(held),
            "COUNT(age)": sum(row["age"] is not None for row in held),
            f"MIN({column})": min(numbers(held, column), default=None),
            f"MAX({column})": max(numbers(held, column), default=None),
            "COUNT(DISTINCT town)": len({row["town"] for row in held} - {None}),
        }
        for unit, held in mine.items()
    ]


def by_hand(world: World) -> dict[str, tuple[str, Rows]]:
    """Questions, and the rows of the derived table that they read."""
    visits: Rows = [dict(zip(TYPES, row, strict=True)) for row in world.visit_rows]
    stays: Rows = [dict(zip(STAYS, row, strict=True)) for row in world.stay_rows]
    sites: Rows = SITES.to_pylist()

    def at_site(visit: Any, site: Any) -> bool:
        return visit["site"] is not None and visit["site"] == site["code"]

    def same(visit: Any, stay: Any) -> bool:
        return visit["pid"] is not None and visit["pid"] == stay["pid"]

    names = {name: f"{name}_2" for name in ("pid", "site")}
    none = dict.fromkeys(("pid_2", "site_2", "nights", "price", "ward"))
    outer = [{**none, **row} for row in joined(visits, stays, same, names, outer=True)]
    return {
        "public": (
            (
                "SELECT p.name, COUNT(*) AS n, SUM(size) AS s, SUM(cost) AS c FROM visits v JOIN sites p "
                "ON v.site = p.code GROUP BY p.name"
            ),
            joined(visits, sites, at_site, {}, outer=False),
        ),
        "public, outer": (
            "SELECT name, COUNT(*) AS n, COUNT(size) AS s FROM visits LEFT JOIN sites ON code = site GROUP BY name",
            joined(visits, sites, at_site, {}, outer=True),
        ),
        "private": (
            "SELECT ward, COUNT(*) AS n, SUM(nights) AS s FROM visits v JOIN stays s ON v.pid = s.pid GROUP BY ward",
            joined(visits, stays, same, names, outer=False),
        ),
        "private, outer": (
            (
                "SELECT sex, COUNT(*) AS n, COUNT(nights) AS s FROM visits v LEFT JOIN stays s ON v.pid = s.pid "
                "WHERE s.site IS NULL GROUP BY sex"
            ),
            outer,
        ),
        "union": (
            (
                "SELECT site, COUNT(*) AS n, SUM(x) AS s FROM (SELECT pid, site, cost AS x FROM visits "
                "UNION ALL SELECT pid, site, price AS x FROM stays) GROUP BY site"
            ),
            [{"pid": r["pid"], "site": r["site"], "x": r["cost"]} for r in visits]
            + [{"pid": r["pid"], "site": r["site"], "x": r["price"]} for r in stays],
        ),
        "per unit": (
            (
                "SELECT COUNT(*) AS n, SUM(t) AS s, SUM(k) AS k, SUM(a) AS a, SUM(low) AS l, SUM(high) AS h, "
                "SUM(d) AS d FROM (SELECT pid, SUM(cost) AS t, COUNT(*) AS k, COUNT(age) AS a, MIN(cost) AS low, "
                "MAX(cost) AS high, COUNT(DISTINCT town) AS d FROM visits GROUP BY pid)"
            ),
            totals_by_unit(visits, "cost"),
        ),
    }


@pytest.mark.parametrize("seed", sweep(range(12), 4))
def test_cells_equal_a_join_by_hand(seed: int) -> None:
    """threat:A34 every pair of rows in plain Python, with limits that leave no choice of groups."""
    random = Random(500 + seed)
    world = make_world(random)
    changed = {"groups_per_unit": None}
    world = World(
        _with(world.visits, **changed), _with(world.stays, **changed), world.sites, world.visit_rows, world.stay_rows
    )
    engine = world.engine()
    for name, (text, rows) in by_hand(world).items():
        plan = planned(text, world.catalog)
        assert cells(engine, plan) == reference_cells(plan, rows), name


def _with(table: Table, **changes: Any) -> Table:
    facts = {"rows_per_unit": table.rows_per_unit, "groups_per_unit": table.groups_per_unit, **changes}
    return Table(table.name, table.fields, table.unit, **facts)


def test_the_order_of_rows_changes_no_sum_of_a_unit() -> None:
    """gate:G10 threat:A14 sums of float64 depend on their order; sums for each unit do not."""
    random = Random(11)
    rows = [(unit, random.choice([0.1, 1e-9, 3.3, 1e2, 7.7])) for unit in range(5) for _ in range(4000)]
    fields = (Field("pid", Type.INTEGER), Field("x", Type.REAL, interval(0, 100)))
    table = Table("t", fields, "pid", 5000)
    plan = planned("SELECT SUM(s) AS a FROM (SELECT pid, SUM(x) AS s FROM t GROUP BY pid)", Catalog((table,)))
    inside = exp.select("*").from_(from_node(plan.table, "u")).order_by("pid")
    found = set()
    for _ in range(4):
        random.shuffle(rows)
        data = pa.table({"pid": [row[0] for row in rows], "x": [row[1] for row in rows]})
        found.add(str(run(DuckDBEngine([(table, Frame(data))], salt=1), inside.copy()).to_pylist()))
    assert len(found) == 1


def two_tables(first: pa.Array, second: pa.Array, kind: Type = Type.INTEGER) -> tuple[DuckDBEngine, Catalog]:
    fields = (Field("pid", kind),)
    tables = [Table(name, fields, "pid", 1) for name in "ab"]
    frames = [Frame(pa.table({"pid": column})) for column in (first, second)]
    return DuckDBEngine(list(zip(tables, frames, strict=True)), salt=1), Catalog(tuple(tables))


UNITS = "SELECT COUNT(DISTINCT pid) AS n FROM (SELECT * FROM a UNION ALL SELECT * FROM b)"
PAIRS = "SELECT COUNT(*) AS n FROM a JOIN b ON a.pid = b.pid"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pa.array([1, 2], pa.int64()), pa.array([1, 2], pa.int32())),
        (pa.array([1, 2], pa.uint8()), pa.array([1, 2], pa.int16())),
        (pa.array([1.0, 2.0]), pa.array([1.0, 2.0, None])),
    ],
    ids=["widths", "signs", "floats"],
)
def test_a_unit_is_the_same_in_every_table(first: pa.Array, second: pa.Array) -> None:
    """threat:A34 otherwise one person would count as two, each with limits of its own."""
    engine, catalog = two_tables(first, second)
    assert cells(engine, planned(UNITS, catalog)) == [[2]]
    assert cells(engine, planned(PAIRS, catalog)) == [[2]]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pa.array([9 * 10**15], pa.int64()), pa.array([9e15, None], pa.float64())),
        (pa.array([7], pa.int64()), pa.array(["7.0"])),
        (pa.array(["7"]), pa.array(["7.0"])),
        (pa.array([1.0]), pa.array(["1"])),
        (pa.array([1], pa.uint64()), pa.array([1], pa.int8())),
        (pa.array([1]).cast(pa.decimal128(21, 2)), pa.array([1], pa.int8())),
        (pa.array([True]), pa.array([1], pa.int8())),
    ],
    ids=["a missing value makes floats", "text", "two texts", "floats and text", "unsigned", "decimals", "truth"],
)
def test_units_in_different_forms_are_refused(first: pa.Array, second: pa.Array) -> None:
    """threat:A34 one person in two forms would be two units, and move a count over both tables by two."""
    with pytest.raises(Misconfigured, match="different types"):
        two_tables(first, second)


def test_units_that_a_cast_would_make_one_do_not_meet() -> None:
    """threat:A34 01 and 1 are two people though both read as the integer 1."""
    engine, catalog = two_tables(pa.array(["01", "1", "001"]), pa.array(["1"]), Type.TEXT)
    assert cells(engine, planned(PAIRS, catalog)) == [[1]]


def test_rows_of_no_unit_meet_nobody() -> None:
    engine, catalog = two_tables(pa.array([None, None, 1]), pa.array([None, 1, 1]))
    assert cells(engine, planned(PAIRS, catalog)) == [[1]]
    inside = "SELECT COUNT(*) AS n FROM (SELECT pid, COUNT(*) AS k FROM a GROUP BY pid)"
    assert cells(engine, planned(inside, catalog)) == [[1]]


VISITS = {"pid": [1, 1, 2, 3], "code": [1, 2, 2, 9], "cost": [1.0, 2.0, 3.0, 4.0]}
FACTS: dict[str, Any] = {"name": "visits", "rows_per_unit": 2, "bounds": {"cost": (0, 10)}, "budget": Budget(epsilon=9)}
FACTS["ledger"] = ":memory:"


def opened(public: Any, **changes: Any) -> Curator:
    return open_data(pa.table(VISITS), **{"unit": "pid", **FACTS, **changes}, public=public)


JOIN = "SELECT COUNT(*) AS n FROM visits v JOIN places p ON v.code = p.code"


def test_public_tables_with_double_keys_are_not_joined() -> None:
    """threat:A34 a row with two partners would count twice."""
    curator = opened({"places": pa.table({"code": [1, 2, 2], "name": ["a", "b", "c"]})}, unit=None)
    with pytest.raises(Refused, match="several matches"):
        curator.sql(JOIN, epsilon=1)
    assert curator.budget.spent.amount == 0
    with pytest.raises(Misconfigured, match="two rows of `places`"):
        opened({"places": pa.table({"code": [1, 1]})}, public_keys={"places": ["code"]})


def exact(curator: Curator, text: str) -> list[list[int]]:
    return cells(curator._engine, curator.preview(text, epsilon=1).plan)


LARGE = {"places": pa.table({"code": pa.array([2**53, 2**53 + 1], pa.int64()), "name": ["a", "b"]})}


def test_integers_that_are_one_float_are_a_key_among_integers_only() -> None:
    """threat:A34 a whole number meets its equal; a real would meet both."""
    curator = opened(LARGE, unit=None)
    assert exact(curator, JOIN.replace("v.code", "v.code + 9007199254740990")) == [[2]]
    with pytest.raises(Refused, match=r"above 2\^53 several integers equal one real.*CAST"):
        curator.sql(JOIN.replace("v.code", "v.cost"), epsilon=1)
    assert curator.budget.spent.amount == 0


def test_integers_within_float64_are_compared_with_reals() -> None:
    places = {"places": pa.table({"code": pa.array([1, 3, 2**53], pa.int64())})}
    assert exact(opened(places, unit=None), JOIN.replace("v.code", "v.cost")) == [[2]]


def test_several_columns_can_be_a_key_together() -> None:
    places = pa.table({"code": [1, 1, 2], "year": [1, 2, 1], "name": ["a", "b", "b"]})
    curator = opened({"places": places}, public_keys={"places": ["code", "year"]})
    text = f"{JOIN} AND v.code = p.year"
    assert len(curator.sql(text, epsilon=1)) == 1
    with pytest.raises(Refused, match=r"Join on \(code, year\)"):
        curator.sql(JOIN, epsilon=1)


def test_keys_are_checked_again_on_the_rows_that_are_kept() -> None:
    """threat:A34 a file that changes between two readings is not trusted."""
    table = Table("p", (Field("code", Type.INTEGER),), None, public=True, keys=(("code",),))
    with pytest.raises(Misconfigured, match="two rows of `p`"):
        DuckDBEngine([(table, Frame(pa.table({"code": [1, 1]})))], salt=1)


def test_values_of_public_columns_are_public_keys() -> None:
    places = pa.table({"code": [1, 2, 5], "name": ["a", "b", "never"]})
    curator = opened({"places": places})
    release = curator.sql(f"{JOIN.replace('COUNT(*)', 'name, COUNT(*)')} GROUP BY name", epsilon=1)
    assert release.to_arrow()["name"].to_pylist() == ["a", "b", "never"]


def test_joins_and_copies_share_one_budget() -> None:
    """gate:G51 whatever the table is called in a question, the same people pay."""
    places = pa.table({"code": [1, 2], "name": ["a", "b"]})
    curator = opened({"places": places}, budget=Budget(epsilon=1))
    texts = [
        "SELECT COUNT(*) AS n FROM visits",
        JOIN,
        "SELECT COUNT(*) AS n FROM visits a JOIN visits b ON a.pid = b.pid",
        "SELECT COUNT(*) AS n FROM (SELECT * FROM visits UNION ALL SELECT * FROM visits)",
        "SELECT COUNT(*) AS n FROM (SELECT pid, COUNT(*) AS k FROM visits GROUP BY pid)",
    ]
    for number, text in enumerate(texts):
        curator.sql(text, epsilon=0.1, analyst=f"analyst {number}")
        assert curator.budget.spent.amount * 10 == number + 1
    for text in texts:
        assert curator.sql(text, epsilon=0.1).cost.amount == 0


def test_a_changed_public_table_is_another_question() -> None:
    one, two = (read_public("p", Frame(pa.table({"code": [1, 2], "size": sizes}))) for sizes in ([1, 2], [1, 3]))
    private = Table("visits", (Field("pid", Type.INTEGER), Field("code", Type.INTEGER)), "pid", 1)
    text = "SELECT COUNT(*) AS n FROM visits JOIN p USING (code)"
    assert len({planned(text, Catalog((private, public))).outline.identity.text for public in (one, two)}) == 2


CATALOG = make_world(Random(2)).catalog
REFUSED = {
    "SELECT COUNT(*) FROM visits, stays": "only equality joins",
    "SELECT COUNT(*) FROM visits CROSS JOIN sites": "only equality joins",
    "SELECT COUNT(*) FROM visits NATURAL JOIN sites": "only equality joins",
    "SELECT COUNT(*) FROM visits v FULL JOIN stays s ON v.pid = s.pid": "only equality joins",
    "SELECT COUNT(*) FROM visits v SEMI JOIN stays s ON v.site = s.site": "its values belong to other units",
    "SELECT COUNT(*) FROM visits v JOIN stays s ON v.site = s.site": "ON a.pid = b.pid",
    "SELECT COUNT(*) FROM visits v JOIN stays s ON v.pid = s.site": "ON a.pid = b.pid",
    "SELECT COUNT(*) FROM visits v JOIN stays s ON v.pid + 0 = s.pid": "ON a.pid = b.pid",
    "SELECT COUNT(*) FROM visits v JOIN stays s ON v.pid = s.pid OR v.site = s.site": "only equality joins",
    "SELECT COUNT(*) FROM visits v JOIN stays s ON v.age > 3": "only equality joins",
    "SELECT COUNT(*) FROM visits v JOIN stays s ON v.age > 3 AND v.site = s.site": "ON a.pid = b.pid",
    "SELECT COUNT(*) FROM visits v JOIN stays s ON v.pid = s.pid AND v.age": "not a condition",
    "SELECT COUNT(*) FROM visits v LEFT JOIN stays s ON v.pid = s.pid AND s.nights + v.age": "unmatched rows out",
    "SELECT COUNT(*) FROM visits v LEFT JOIN stays s ON v.pid = s.pid AND s.nights < v.age": "unmatched rows out",
    "SELECT COUNT(*) FROM visits v RIGHT JOIN stays s ON v.pid = s.pid AND s.nights < v.age": (
        "leaves unmatched rows out"
    ),
    "SELECT COUNT(*) FROM visits v LEFT JOIN stays s ON v.pid = s.pid AND s.site IN (SELECT code FROM sites)": (
        "subqueries are not supported in ON"
    ),
    "SELECT COUNT(*) FROM visits v JOIN stays s ON v.pid = s.pid AND SUM(s.nights) > 3": "aggregate",
    "SELECT COUNT(*) FROM visits v JOIN sites p ON v.site = p.size": "several matches",
    "SELECT COUNT(*) FROM visits v JOIN sites p ON v.site = p.code + 1": "several matches",
    "SELECT COUNT(*) FROM sites p LEFT JOIN visits v ON v.site = p.code": "private table",
    "SELECT COUNT(*) FROM sites p JOIN sites q ON p.code = q.code": "private table",
    "SELECT COUNT(*) FROM sites": "it is public",
    "SELECT name FROM sites": "it is public",
    "SELECT COUNT(*) FROM visits v JOIN visits v ON v.pid = v.pid": "same name",
    "SELECT COUNT(*) FROM visits a JOIN visits b ON pid = b.pid": "both tables",
    "SELECT COUNT(*) FROM visits a JOIN visits b ON a.pid = b.pid WHERE age > 1": "several tables",
    "SELECT COUNT(*) FROM visits a JOIN visits b ON a.pid = b.pid WHERE visits.age > 1": "that table is not in FROM",
    "SELECT COUNT(*) FROM (SELECT * FROM visits a JOIN visits b ON a.pid = b.pid) t": "two columns",
    "SELECT COUNT(*) FROM visits v JOIN (SELECT COUNT(*) AS n FROM stays) s ON s.n = v.age": "cannot be combined",
    "SELECT COUNT(*) FROM (SELECT pid FROM visits UNION SELECT pid FROM stays) t": "UNION ALL",
    "SELECT COUNT(*) FROM (SELECT pid FROM visits UNION ALL SELECT site FROM stays) t": "different columns",
    "SELECT COUNT(*) FROM (SELECT sex AS x FROM visits UNION ALL SELECT nights AS x FROM stays) t": "types",
    "SELECT COUNT(*) FROM (SELECT name FROM sites UNION ALL SELECT sex AS name FROM visits) t": "public",
    "SELECT COUNT(*) FROM visits UNION ALL SELECT COUNT(*) FROM stays": "Ask its aggregations here",
    "SELECT pid, SUM(cost) FROM visits GROUP BY pid": "protected unit",
    "SELECT * FROM (SELECT pid, SUM(cost) AS s FROM visits GROUP BY pid) t": "private",
    "SELECT AVG(s) FROM (SELECT pid, SUM(cost) AS s FROM visits GROUP BY pid ORDER BY s LIMIT 3) t": (
        "sorting or limiting units"
    ),
    "SELECT AVG(s) FROM (SELECT pid, SUM(CAST(town AS INTEGER)) AS s FROM visits GROUP BY pid) t": "unbounded",
    "SELECT s, COUNT(*) FROM (SELECT pid, cost, COUNT(*) AS s FROM visits GROUP BY pid, cost) t GROUP BY s": (
        "cannot group by a real number"
    ),
    "SELECT COUNT(*) FROM visits a JOIN visits b ON a.pid = b.pid JOIN visits c ON c.pid = a.pid "
    "JOIN visits d ON d.pid = a.pid": "more than 3",
}


@pytest.mark.parametrize("text", REFUSED)
def test_refuses_what_could_mix_units(text: str) -> None:
    """threat:A34 refused before any row is read, with what to write instead."""
    found = attempt(read_sql, text, CATALOG)
    assert isinstance(found, Refused), text
    assert REFUSED[text] in str(found), str(found)
    assert found.instead.endswith((".", "?"))


def test_tables_of_single_rows_are_joined_with_public_ones_only() -> None:
    catalog = make_world(Random(2), by_row=True).catalog
    for text in (
        "SELECT COUNT(*) FROM visits v JOIN stays s ON v.pid = s.pid",
        "SELECT COUNT(*) FROM (SELECT pid FROM visits UNION ALL SELECT pid FROM stays) t",
    ):
        assert ("every row is its own unit" if "UNION" in text else "whose rows are units") in str(
            attempt(read_sql, text, catalog)
        )
    assert isinstance(read_sql("SELECT COUNT(*) FROM visits JOIN sites ON site = code", catalog), Question)


def test_doubling_joins_end() -> None:
    parts = ["t0 AS (SELECT pid FROM visits)"]
    parts += [f"t{i} AS (SELECT a.pid FROM t{i - 1} a JOIN t{i - 1} b ON a.pid = b.pid)" for i in range(1, 40)]
    assert isinstance(attempt(read_sql, f"WITH {', '.join(parts)} SELECT COUNT(*) FROM t39", CATALOG), Refused)
    parts = ["t0 AS (SELECT pid FROM visits)"]
    parts += [f"t{i} AS (SELECT * FROM t{i - 1} UNION ALL SELECT * FROM t{i - 1})" for i in range(1, 40)]
    assert "16 tables" in str(attempt(read_sql, f"WITH {', '.join(parts)} SELECT COUNT(*) FROM t39", CATALOG))
    parts = ["t0 AS (SELECT pid FROM visits)"]
    parts += [f"t{i} AS (SELECT pid, COUNT(*) AS n FROM t{i - 1} GROUP BY pid)" for i in range(1, 40)]
    assert "more than 16 levels" in str(attempt(read_sql, f"WITH {', '.join(parts)} SELECT COUNT(*) FROM t39", CATALOG))


def limits(text: str) -> tuple[int | None, int | None]:
    tables = [Table(n, (Field("pid", Type.INTEGER), Field("k", Type.INTEGER, values=(1, 2))), "pid", r, g)
              for n, r, g in (("a", 5, 3), ("b", 2, 2), ("one", 1, 1), ("open", None, None))]  # fmt: skip
    read = read_sql(text, Catalog(tuple(tables)))
    assert isinstance(read, Question), read
    return read.table.rows_per_unit, read.table.groups_per_unit


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a JOIN b ON a.pid = b.pid", (10, 2)),
        ("a JOIN one ON a.pid = one.pid", (5, 3)),
        ("one LEFT JOIN a ON a.pid = one.pid", (5, 3)),
        ("a JOIN open ON a.pid = open.pid", (None, 3)),
        ("(SELECT pid FROM a UNION ALL SELECT pid FROM b UNION ALL SELECT pid FROM one)", (8, 6)),
        ("(SELECT pid FROM a UNION ALL SELECT pid FROM open)", (None, None)),
        ("(SELECT pid, COUNT(*) AS n FROM open GROUP BY pid)", (1, 1)),
        ("(SELECT pid, k, COUNT(*) AS n FROM open GROUP BY pid, k)", (2, None)),
        ("(SELECT pid, k, COUNT(*) AS n FROM one GROUP BY pid, k)", (1, 1)),
    ],
)
def test_limits_follow_from_the_tables_inside(source: str, expected: tuple[int | None, int | None]) -> None:
    assert limits(f"SELECT COUNT(DISTINCT pid) AS n FROM {source}".replace("DISTINCT pid", _unit(source))) == expected


def _unit(source: str) -> str:
    return "DISTINCT pid" if source.startswith("(") else f"DISTINCT {source.split()[0]}.pid"


def test_a_join_of_ibis_tables_is_answered() -> None:
    curator = opened({"places": pa.table({"code": [1, 2], "name": ["a", "b"]})})
    visits, places = curator.table("visits"), curator.table("places")
    asked = visits.join(places, "code").group_by("name").agg(n=lambda t: t.count())
    assert curator.ask(asked, epsilon=1).to_arrow()["name"].to_pylist() == ["a", "b"]
    same = "SELECT name, COUNT(*) AS n FROM visits v JOIN places p USING (code) GROUP BY name"
    assert curator.sql(same, epsilon=1).cost.amount == 0


V, S, P = (unbound_table(CATALOG.table(name)) for name in ("visits", "stays", "sites"))
PER_UNIT = V.group_by("pid").agg(total=V.cost.sum(), n=V.count())
SAME: dict[str, tuple[str, Callable[[], Any]]] = {
    "public": (
        "SELECT p.name, COUNT(*) AS n FROM visits v JOIN sites p ON v.site = p.code GROUP BY p.name",
        lambda: V.join(P, V.site == P.code).group_by("name").agg(n=lambda t: t.count()),
    ),
    "outer": (
        "SELECT SUM(p.size) AS s FROM visits v LEFT JOIN sites p ON v.site = p.code WHERE v.age > 1",
        lambda: V.left_join(P, V.site == P.code).filter(lambda t: t.age > 1).aggregate(s=lambda t: t["size"].sum()),
    ),
    "private": (
        "SELECT SUM(nights) AS s FROM visits v JOIN stays s ON v.pid = s.pid AND v.site = s.site",
        lambda: V.join(S, ["pid", "site"]).aggregate(s=lambda t: t.nights.sum()),
    ),
    "self": (
        "SELECT COUNT(*) AS n FROM visits a JOIN visits b ON a.pid = b.pid WHERE a.age > b.age",
        lambda: V.join(V.view(), "pid").filter(lambda t: t.age > t.age_right).aggregate(n=lambda t: t.count()),
    ),
    "three": (
        "SELECT COUNT(*) AS n FROM visits v JOIN stays s ON v.pid = s.pid JOIN sites p ON s.site = p.code",
        lambda: V.join(S, "pid").join(P, S.site == P.code).aggregate(n=lambda t: t.count()),
    ),
    "union": (
        "SELECT SUM(x) AS s FROM (SELECT pid, cost AS x FROM visits UNION ALL SELECT pid, price AS x FROM stays)",
        lambda: V.select("pid", x="cost").union(S.select("pid", x="price")).aggregate(s=lambda t: t.x.sum()),
    ),
    "per unit": (
        "SELECT AVG(t) AS m FROM (SELECT pid, SUM(cost) AS t, COUNT(*) AS n FROM visits GROUP BY pid) WHERE n > 1",
        lambda: PER_UNIT.filter(PER_UNIT.n > 1).aggregate(m=lambda t: t.total.mean()),
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_ibis_and_sql_ask_the_same(name: str) -> None:
    text, expression = SAME[name]
    one, two = read_sql(text, CATALOG), read_ibis(expression(), CATALOG)
    assert isinstance(one, Question), one
    assert isinstance(two, Question), two
    assert one.canonical() == two.canonical()
    assert one.table == two.table
    assert [output.expression for output in one.outputs] == [output.expression for output in two.outputs]


@pytest.mark.parametrize(
    "expression",
    [
        lambda: V.join(S, V.site == S.site).count(),
        lambda: V.join(S, V.age < S.nights).count(),
        lambda: V.cross_join(S).count(),
        lambda: V.outer_join(S, "pid").count(),
        lambda: V.semi_join(S, "site").count(),
        lambda: V.join(P, V.site == P["size"]).count(),
        lambda: V.select("pid").union(S.select("pid"), distinct=True).count(),
        lambda: P.count(),
        lambda: PER_UNIT,
        lambda: PER_UNIT.order_by("n").limit(3).total.mean(),
        lambda: V.join(S.aggregate(age=S.nights.sum().cast("int64")), "age").count(),
    ],
    ids=["no unit", "less", "cross", "full", "semi", "no key", "distinct", "public", "rows", "choice", "released"],
)
def test_ibis_refuses_what_could_mix_units(expression: Callable[[], Any]) -> None:
    """threat:A34"""
    assert isinstance(attempt(read_ibis, expression(), CATALOG), Refused)


@pytest.mark.usefixtures("seeded")
def test_released_numbers_keep_their_meaning_when_others_are_left_out() -> None:
    """An aggregate that nothing shows is not paid, and the places of those after it move: in all that is above."""
    inner = "SELECT sex, COUNT(DISTINCT pid) AS people, SUM(cost) AS s, COUNT(*) AS n FROM visits GROUP BY sex"
    outer = f"SELECT sex, s / n AS mean, n + 1 AS more FROM ({inner}) WHERE n * 2 > 10 ORDER BY s - n DESC"
    curator = open_visits(frame(40), budget=Budget(epsilon=10**4), groups_per_unit=1)
    plan = curator.preview(outer, epsilon=1000).plan
    assert {aggregate.words() for aggregate in plan.question.aggregates} == {"SUM(cost)", "COUNT(*)"}
    costs = {sex: [i % 50 + 0.5 for i in range(80) if "FM"[i // 2 % 2] == sex] for sex in "FM"}
    expected = sorted(costs.items(), key=lambda item: -sum(item[1]))
    found = curator.sql(outer, epsilon=1000).to_arrow().to_pylist()
    assert [(row["sex"], row["more"]) for row in found] == [(sex, len(values) + 1) for sex, values in expected]
    assert [row["mean"] for row in found] == pytest.approx([sum(v) / len(v) for _, v in expected], abs=0.1)
