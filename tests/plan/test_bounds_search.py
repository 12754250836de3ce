"""What is found privately: exact powers, one unit changes one count a side, and what powers stand for."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from lapwing.answers.stored import decode, encode
from lapwing.curator.automatic import Automatic, Needs, needs_of, survey
from lapwing.engines.duckdb_dialect import DUCKDB
from lapwing.errors import Bug, Refused
from lapwing.expressions.table import UNIT_ID, Catalog, Field, Limit, Table
from lapwing.expressions.types import Interval, Type
from lapwing.mechanisms.cells import NoisyCells
from lapwing.mechanisms.quantiles.auto_bounds import AutoBounds
from lapwing.plan.add_noise import fetched, release
from lapwing.plan.bounds_search import BoundsOf, LimitOf, SearchResult, Target, powers_query, search_result
from lapwing.plan.query import queries
from lapwing.plan.question import Question
from lapwing.privacy.loss import ZCDP, Pure
from lapwing.sql import read_sql
from support.refusals import attempt

Row = tuple[Any, ...]
CONNECTION = duckdb.connect()

WHOLE = [0, 1, -1, 2, 3, -4, 7, 8, -8, 9, 1 << 31, (1 << 53) - 1, 1 << 53, (1 << 53) + 1, -(1 << 53) - 1]
WHOLE += [(1 << 61) - 1, 1 << 61, 1 << 62, (1 << 63) - 1, -(1 << 62), 1 - (1 << 62), -(1 << 63), None]
REALS = [0.0, -0.0, 1.0, math.nextafter(1, 0), -1.0, math.nextafter(-1, 0), 0.5, 3.999, -4.0, 1e-300, 5e-324, None]
REALS += [2.0**-20, math.nextafter(2.0**-20, 0), -(2.0**-20), 2.0**61, math.nextafter(2.0**61, 0), 2.0**70, -1e308]
REALS += [math.inf, -math.inf, math.nan, 2.0**53, 2.0**53 - 1]


def table_of(kind: Type, unit: str | None = "pid") -> Table:
    fields = (Field("pid", Type.INTEGER), Field("x", kind), Field("k", Type.TEXT, values=("a", "b")))
    return Table("t", (*fields, Field("town", Type.TEXT)), unit)


def counted(target: Target, rows: list[Row]) -> dict[tuple[Any, ...], int]:
    """The engine's counts: of units by (low, high), or by (high,)."""
    kind = pa.int64() if all(row[1] is None or isinstance(row[1], int) for row in rows) else pa.float64()
    kinds = [pa.int64(), kind, pa.string(), pa.string(), pa.int64()]
    columns = [pa.array([(*row, row[0])[i] for row in rows], kind) for i, kind in enumerate(kinds)]
    CONNECTION.register("t", pa.table(columns, names=["pid", "x", "k", "town", UNIT_ID]))
    found = CONNECTION.sql(_text(target)).to_arrow_table().to_pylist()
    return {tuple(row[name] for name in ("low", "high") if name in row): int(row["lw_many"]) for row in found}


@lru_cache
def _text(target: Target) -> str:
    return DUCKDB.write(powers_query(target)).text


def power(value: Any, first: int, last: int) -> int | None:
    """floor(log2) by exact comparison; infinite values and all beyond have the last power."""
    reached = [k for k in range(first, last) if value >= Fraction(2) ** k] if value != math.inf else [last - 1]
    return max(reached, default=None)


def expected(target: BoundsOf, rows: list[Row]) -> dict[tuple[Any, ...], int]:
    """The same counts without an engine."""
    units: dict[Any, list[Any]] = {}
    for place, (pid, x, *_) in enumerate(rows):
        if pid is not None or target.table.by_row:
            units.setdefault(place if target.table.by_row else pid, []).append(x)
    counts: dict[tuple[Any, ...], int] = {}
    for values in units.values():
        known = [x for x in values if x is not None and x == x]
        low = power(-min(known), *target.powers) if known else None
        high = power(max(known), *target.powers) if known else None
        counts[low, high] = counts.get((low, high), 0) + 1
    return counts


def column(kind: Type, unit: str | None = "pid") -> BoundsOf:
    table = table_of(kind, unit)
    return BoundsOf(table, table.field("x"))


def limit_of(sql: str, limit: Limit) -> LimitOf:
    catalog = Catalog((table_of(Type.INTEGER),))
    needs = needs_of(lambda known: read_sql(sql, known), catalog, Automatic(limits=True))
    assert isinstance(needs, Needs), needs
    missing = survey(lambda known: read_sql(sql, known), catalog, needs, lambda _: None).missing
    (found,) = (target for target in missing if isinstance(target, LimitOf) and target.limit is limit)
    return found


@pytest.mark.parametrize("unit", ["pid", None])
@pytest.mark.parametrize("kind", [Type.INTEGER, Type.REAL], ids=str)
def test_every_value_has_its_exact_power(kind: Type, unit: str | None) -> None:
    """Powers of two and their neighbours, 2^53, the ends of 64 bits, infinite, missing and no numbers."""
    target = column(kind, unit)
    rows = [(place, value, "a", "") for place, value in enumerate(WHOLE if kind is Type.INTEGER else REALS)]
    assert counted(target, rows) == expected(target, rows)


@pytest.mark.parametrize("unit", ["pid", None])
@pytest.mark.parametrize("kind", [Type.INTEGER, Type.REAL], ids=str)
def test_units_are_counted_by_their_extremes_and_one_unit_changes_one_count(kind: Type, unit: str | None) -> None:
    """gate:G08 threat:A20 a table and the table without one unit: one count a side differs, by one; of a row, one."""
    random, target = Random(62), column(kind, unit)
    values = WHOLE if kind is Type.INTEGER else REALS
    for _ in range(10):
        size = random.choice([0, 1, 3, 9])
        rows = [(random.choice([1, 2, 3, None]), random.choice(values), "a", "") for _ in range(size)]
        whole = counted(target, rows)
        assert whole == expected(target, rows)
        for gone in range(size) if unit is None else (1, 2, 3, None):
            rest = [row for i, row in enumerate(rows) if (i != gone if unit is None else row[0] != gone)]
            fewer = counted(target, rest)
            moved = [sum(side_moves(whole, fewer, side)) for side in (0, 1)]
            assert max(moved) <= (0 if unit is not None and gone is None else 1)
            assert sum(moved) <= target.values_per_unit
            assert 0 <= sum(whole.values()) - sum(fewer.values()) <= 1


def side_moves(one: dict[tuple[Any, ...], int], other: dict[tuple[Any, ...], int], side: int) -> list[int]:
    """By how much the count of each power of a side differs; values without a power are not counted."""
    totals: dict[int, int] = {}
    for counts, sign in ((one, 1), (other, -1)):
        for powers, many in counts.items():
            if powers[side] is not None:
                totals[powers[side]] = totals.get(powers[side], 0) + sign * many
    return [abs(total) for total in totals.values()]


LIMITED = (
    "SELECT COUNT(*) AS n FROM t",
    "SELECT k, COUNT(*) AS n FROM t WHERE x > 1 GROUP BY k",
    "SELECT town, COUNT(*) AS n FROM t GROUP BY town",
    "SELECT a.k, COUNT(*) AS n FROM t a JOIN t b USING (pid) GROUP BY a.k",
    "SELECT k, SUM(y) AS n FROM (SELECT k, CLIP(x, 0, 9) AS y FROM t UNION ALL SELECT k, 1 AS y FROM t) GROUP BY k",
)


CASES = [(sql, limit) for sql in LIMITED for limit in Limit if "GROUP" in sql or limit is Limit.ROWS]


@pytest.mark.parametrize("place", range(len(CASES)))
def test_one_unit_has_one_number_of_rows_and_of_groups(place: int) -> None:
    """gate:G08 over filters, public and private keys, joins and unions."""
    random, target = Random(16), limit_of(*CASES[place])
    for _ in range(8):
        rows = [
            (random.choice([1, 2, None]), random.choice([0, 2, 5]), random.choice("abc"), random.choice("xy"))
            for _ in range(random.choice([0, 1, 4, 20]))
        ]
        whole = counted(target, rows)
        assert sum(whole.values()) <= 2
        for gone in (1, 2, None):
            moved = side_moves(whole, counted(target, [row for row in rows if row[0] != gone]), 0)
            assert sum(moved) <= (0 if gone is None else 1)


def test_limits_count_what_the_question_reads() -> None:
    rows = [(1, x, k, "x") for x, k in [(5, "a")] * 5 + [(5, "b")] * 2 + [(0, "a")] * 9 + [(5, "z")] * 30]
    sql = "SELECT k, COUNT(*) AS n FROM t WHERE x > 1 GROUP BY k"
    assert counted(limit_of(sql, Limit.ROWS), rows) == {(2,): 1}  # five rows: 2^2 <= 5
    assert counted(limit_of(sql, Limit.GROUPS), rows) == {(1,): 1}  # a and b; z is no public key


@pytest.mark.parametrize(
    ("kind", "powers", "bounds"),
    [
        (Type.INTEGER, (0, 0), (0, 1)),
        (Type.INTEGER, (0, 4), (0, 15)),
        (Type.INTEGER, (3, 0), (-7, 0)),
        (Type.INTEGER, (62, 62), (1 - (1 << 62), (1 << 62) - 1)),
        (Type.REAL, (-20, -20), (0, Fraction(1, 1 << 20))),
        (Type.REAL, (-20, 4), (0, 16)),
        (Type.REAL, (-19, -20), (-Fraction(1, 1 << 19), 0)),
        (Type.REAL, (62, 62), (-(1 << 62), 1 << 62)),
    ],
    ids=str,
)
def test_powers_stand_for_bounds(kind: Type, powers: tuple[int, int], bounds: tuple[Fraction, Fraction]) -> None:
    target = column(kind)
    assert target.interval(*powers) == Interval(Fraction(bounds[0]), Fraction(bounds[1]))
    assert target.widest == target.interval(62, 62)


def test_a_limit_is_at_least_one() -> None:
    target = limit_of(LIMITED[0], Limit.ROWS)
    assert [target.most(power) for power in (0, 1, 2, 16)] == [1, 1, 3, 65535]


def test_findings_are_made_for_what_one_unit_adds() -> None:
    """A unit has values of both signs, a row has one; a limit is one number a unit. The loss is all of epsilon."""
    targets: list[tuple[Target, int]] = [(column(Type.REAL), 2), (column(Type.INTEGER, None), 1)]
    targets += [(limit_of(LIMITED[1], limit), 1) for limit in Limit]
    for target, most in targets:
        plan = target.plan(Pure(Fraction(1, 3)))
        mechanism: Any = plan.measures[0].mechanism
        scan, count = mechanism.scan, mechanism.count
        assert plan.loss == Pure(Fraction(1, 3))
        assert scan.loss.epsilon + count.noise.loss.epsilon == Fraction(1, 3)
        assert (scan.values_per_unit, scan.first, scan.last) == (most, *target.powers)
        assert count.noise.scale == 30
        with pytest.raises(Bug, match="pure epsilon"):
            target.plan(ZCDP(Fraction(1, 3)))


def test_the_mechanism_sees_each_side_of_the_engines_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(AutoBounds, "signed", lambda _, *sides: (seen.append(sides), (3, 4))[1])
    rows = pa.table({"low": [1, None, 2], "high": [5, 5, None], "lw_many": [10, 20, 30]})
    target = column(Type.INTEGER)
    monkeypatch.setattr(NoisyCells, "release", lambda _, columns, __: tuple(column + 17 for column in columns))
    plan = target.plan(Pure(1))
    released = release(plan, fetched(plan, queries(plan), lambda _: rows))
    found = search_result(target, plan.loss, released.cells[0])
    assert seen == [(([1, 2], [10, 30]), ([5, 5], [10, 20]))]
    assert found == SearchResult(target, Fraction(1), (3, 4), 77)
    again, cells = decode(plan.outline, encode(plan, released))
    assert search_result(target, again.loss, cells.cells[0]) == found
    assert found.beyond == 74
    assert "[-7, 15], where values are clipped (units beyond: at most 74 of about 77 on a side, 95% sure)" in str(found)
    assert SearchResult(target, Fraction(1), (3, 62)).beyond is None


def test_bounds_belong_to_table_version_unit_type_and_nothing_else() -> None:
    target = column(Type.INTEGER)
    other = Table("t", target.table.fields, "pid", rows_per_unit=3, version="2")
    assert BoundsOf(other, other.field("x")).identity != target.identity
    assert column(Type.REAL).identity != target.identity
    assert column(Type.INTEGER, None).identity != target.identity
    same = Table("t", target.table.fields, "pid", rows_per_unit=3)
    assert BoundsOf(same, same.field("x")).identity == target.identity


def test_a_limit_belongs_to_rows_and_keys_and_not_to_aggregates() -> None:
    first = limit_of("SELECT k, COUNT(*) AS n FROM t WHERE x > 1 GROUP BY k", Limit.ROWS)
    assert limit_of("SELECT COUNT(x) AS m, k FROM t WHERE x > 1 GROUP BY k", Limit.ROWS).identity == first.identity
    others = ["t WHERE x > 2 GROUP BY k", "t GROUP BY k", "t WHERE x > 1 GROUP BY town", "t WHERE x > 1"]
    assert first.identity not in {limit_of(f"SELECT COUNT(*) AS n FROM {text}", Limit.ROWS).identity for text in others}


def needed(sql: str, automatic: Automatic, **changes: Any) -> tuple[list[str], list[Limit]] | Refused:
    table = Table("t", table_of(Type.REAL).fields, "pid", **changes)
    needs = attempt(needs_of, lambda known: read_sql(sql, known), Catalog((table,)), automatic)
    return needs if isinstance(needs, Refused) else ([c.field.name for c in needs.columns], list(needs.limits))


@pytest.mark.parametrize(
    ("sql", "columns", "limits"),
    [
        ("SELECT COUNT(DISTINCT pid) AS n FROM t WHERE x > 3", [], []),
        ("SELECT SUM(x) AS n FROM t", ["x"], [Limit.ROWS]),
        ("SELECT COUNT(x) AS n FROM t", [], [Limit.ROWS]),
        ("SELECT SUM(CLIP(x, 0, 9)) AS n FROM t", [], [Limit.ROWS]),
        ("SELECT k, COUNT(DISTINCT pid) AS n FROM t GROUP BY k", [], [Limit.GROUPS]),
        ("SELECT k, AVG(x) AS n FROM t GROUP BY k", ["x"], [Limit.ROWS, Limit.GROUPS]),
        ("SELECT AVG(CLIP(s, 0, 9)) AS n FROM (SELECT pid, SUM(x) AS s FROM t GROUP BY pid)", ["x"], []),
        ("SELECT SUM(a.x) AS n FROM t a JOIN t b USING (pid)", ["x"], [Limit.ROWS]),
    ],
)
def test_only_what_a_question_needs_is_found(sql: str, columns: list[str], limits: list[Limit]) -> None:
    assert needed(sql, Automatic(bounds=True, limits=True)) == (columns, limits)
    assert needed(sql, Automatic(bounds=True), rows_per_unit=2, groups_per_unit=2) == (columns, [])


def test_what_no_bounds_help_is_refused_whatever_is_found() -> None:
    assert isinstance(needed("SELECT SUM(1 / x) AS n FROM t", Automatic(bounds=True, limits=True)), Refused)
    assert isinstance(needed("SELECT SUM(x) AS n FROM t", Automatic(limits=True)), Refused)
    assert isinstance(needed("SELECT SUM(x) AS n FROM nowhere", Automatic(bounds=True, limits=True)), Refused)


def test_a_question_with_what_was_found_reads_like_a_declared_one() -> None:
    sql, catalog = "SELECT SUM(x) AS n FROM t", Catalog((table_of(Type.REAL),))
    needs = needs_of(lambda known: read_sql(sql, known), catalog, Automatic(bounds=True, limits=True))
    assert isinstance(needs, Needs)
    seen = survey(
        lambda known: read_sql(sql, known),
        catalog,
        needs,
        lambda target: SearchResult(target, Fraction(1), (-20, 5) if isinstance(target, BoundsOf) else (2,)),
    )
    assert not seen.missing
    assert isinstance(seen.question, Question)
    fields = (Field("pid", Type.INTEGER), Field("x", Type.REAL, Interval(Fraction(0), Fraction(32))))
    declared = read_sql(sql, Catalog((Table("t", (*fields, *table_of(Type.REAL).fields[2:]), "pid", 3),)))
    assert seen.question == declared
