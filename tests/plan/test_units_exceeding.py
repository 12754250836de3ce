"""Checks of what limits cut: exact counts, one unit moves each by at most one, and filters never cut more units."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import lru_cache
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from lapwing.answers.stored import decode, decode_check, encode
from lapwing.curator.query_cache import rehearse
from lapwing.engines.duckdb_dialect import DUCKDB
from lapwing.expressions.table import UNIT_ID, Catalog, Field, Table
from lapwing.expressions.types import Type
from lapwing.plan.add_noise import fetched, release
from lapwing.plan.plan import make_outline
from lapwing.plan.query import queries
from lapwing.plan.units_exceeding import Checked, CheckResult, UnitsExceeding, check_query, check_result, check_target
from lapwing.privacy.loss import ZCDP, Loss, Pure
from lapwing.sql import read_sql
from support.questions import bounds
from support.tape import SeededBits

Row = tuple[Any, ...]
CONNECTION = duckdb.connect()
COUNT = "SELECT k, COUNT(*) AS n FROM t GROUP BY k"
TOWNS = "SELECT town, COUNT(*) AS n FROM t GROUP BY town"
SUM = "SELECT k, SUM(y) AS s FROM t GROUP BY k"
TOTAL = "SELECT k, SUM(x) AS s FROM t GROUP BY k"
MEAN = "SELECT AVG(y + x) AS m FROM t"
NESTED = "SELECT AVG(s) AS m FROM (SELECT pid, SUM(y) AS s FROM t GROUP BY pid)"
JOINED = "SELECT t.k, COUNT(*) AS n FROM t JOIN t AS o ON t.pid = o.pid AND t.k = o.k GROUP BY t.k"
QUESTIONS = (COUNT, TOWNS, SUM, TOTAL, MEAN, NESTED, JOINED)


def table(unit: str | None = "pid", rows: int = 2, groups: int = 1) -> Table:
    fields = (
        Field("pid", Type.INTEGER),
        Field("k", Type.TEXT, values=("a", "b")),
        Field("town", Type.TEXT),
        Field("x", Type.REAL, bounds(-4, 4), bounds(-1, 5)),
        Field("y", Type.INTEGER, bounds(0, 3)),
    )
    return Table("t", fields, unit, rows, groups)


@lru_cache
def target(sql: str, unit: str | None = "pid") -> UnitsExceeding:
    found = check_target(make_outline(read_sql(sql, Catalog((table(unit),)))))
    assert found is not None
    return found


@lru_cache
def text(sql: str, unit: str | None = "pid") -> str:
    return DUCKDB.write(check_query(target(sql, unit))).text


def counts(sql: str, rows: Iterable[Row], unit: str | None = "pid") -> list[int]:
    """The exact counts, before noise: all units, then those that exceed each limit."""
    kinds = [pa.int64(), pa.string(), pa.string(), pa.float64(), pa.int64(), pa.int64()]
    listed = [(*row, row[0]) for row in rows]
    columns = [pa.array([row[i] for row in listed], kind) for i, kind in enumerate(kinds)]
    CONNECTION.register("t", pa.table(columns, names=["pid", "k", "town", "x", "y", UNIT_ID]))
    (found,) = CONNECTION.sql(text(sql, unit)).fetchall()
    return [int(many) for many in found]


def tables(seed: int, many: int) -> Iterable[list[Row]]:
    random = Random(seed)
    for _ in range(many):
        yield [
            (
                random.choice([1, 2, 3, None]),
                random.choice(["a", "a", "b", "c", None]),
                random.choice(["u", "v", None]),
                random.choice([-9.0, -1.5, 0.5, 2.5, 4.0, float("nan"), float("inf"), None]),
                random.choice([-1, 0, 1, 3, 4, None]),
            )
            for _ in range(random.choice([0, 1, 4, 9, 14]))
        ]


def units_of(rows: Iterable[Row], keys: Callable[[Row], Any]) -> dict[Any, list[tuple[Any, Row]]]:
    """The rows of each unit, with their keys, that lie under the list of keys."""
    found: dict[Any, list[tuple[Any, Row]]] = {}
    for row in rows:
        if row[0] is not None and keys(row) is not False:
            found.setdefault(row[0], []).append((keys(row), row))
    return found


def in_k(row: Row) -> Any:
    return row[1] if row[1] in ("a", "b") else False


def expected(sql: str, rows: list[Row]) -> list[int]:
    """The same counts without an engine."""
    if sql == NESTED:
        units = units_of(rows, lambda _: 0)
        beyond = sum(sum(min(3, max(0, r[4])) for _, r in own if r[4] is not None) > 6 for own in units.values())
        return [len(units), beyond, sum(any(_out(r[4], 0, 3) for _, r in own) for own in units.values())]
    units = units_of(rows, {TOWNS: lambda row: (row[2],), MEAN: lambda _: 0}.get(sql, in_k))
    most = [max(Counter(key for key, _ in own).values()) for own in units.values()]
    groups = [len({key for key, _ in own}) for own in units.values()]
    if sql == JOINED:
        most = [many**2 for many in most]
    limits = [sum(many > (4 if sql == JOINED else 2) for many in most), sum(many > 1 for many in groups)]
    y = sum(any(_out(r[4], 0, 3) for _, r in own) for own in units.values())
    x = sum(any(_out(r[3], -4, 4) for _, r in own) for own in units.values())
    match sql:
        case c if c == SUM:
            return [len(units), *limits, y]
        case c if c == MEAN:
            return [len(units), limits[0], y, x]
        case c if c == TOTAL:
            return [len(units), limits[1], x, sum(_total_out(own) for own in units.values())]
        case _:
            return [len(units), *limits]


def _out(value: Any, low: int, high: int) -> bool:
    return value is not None and value == value and not low <= value <= high


def _total_out(own: list[tuple[Any, Row]]) -> bool:
    """Whether some rows of a unit in a group have a total beyond [-1, 5]: tried for all of them."""
    for group in {key for key, _ in own}:
        values = [min(4.0, max(-4.0, r[3])) for key, r in own if key == group and r[3] is not None and r[3] == r[3]]
        sums = {sum(v for i, v in enumerate(values) if mask >> i & 1) for mask in range(1, 1 << len(values))}
        if any(not -1 <= total <= 5 for total in sums):
            return True
    return False


@pytest.mark.parametrize("sql", QUESTIONS)
def test_units_beyond_each_limit_are_counted_and_one_unit_adds_at_most_one_to_each(sql: str) -> None:
    """gate:G08 a table and the table without one unit: every count falls by 0 or 1, and only if the unit was there."""
    for rows in tables(15, 12):
        whole = counts(sql, rows)
        assert whole == expected(sql, rows)
        assert len(whole) == target(sql).many
        for gone in (1, 2, 3, None):
            moved = [a - b for a, b in zip(whole, counts(sql, [r for r in rows if r[0] != gone]), strict=True)]
            assert set(moved) <= ({0} if gone is None else {0, 1})


def test_rows_as_units_are_counted_one_by_one() -> None:
    for rows in tables(16, 12):
        found = counts("SELECT k, SUM(x) AS s FROM t GROUP BY k", rows, None)
        listed = [row for row in rows if row[1] in ("a", "b")]
        assert found == [len(listed), sum(_out(row[3], -4, 4) for row in listed)]


@pytest.mark.parametrize("sql", [COUNT, SUM, TOTAL, MEAN])
def test_a_filter_never_cuts_units_that_the_check_did_not_count(sql: str) -> None:
    """Every subset of rows is what some WHERE leaves: no limit is exceeded by more units than before."""
    random = Random(17)
    for rows in tables(18, 8):
        before = counts(sql, rows)
        for _ in range(6):
            kept = [row for row in rows if random.random() < 0.6]
            assert all(a <= b for a, b in zip(counts(sql, kept), before, strict=True))


def released(sql: str, price: Loss, counts: Iterable[int]) -> tuple[CheckResult, bytes]:
    """What is released of these counts, and its bytes."""
    plan = target(sql).plan(price)
    rows = pa.table({f"c{i}": [count] for i, count in enumerate(counts)})
    noisy = release(plan, fetched(plan, queries(plan), lambda _: rows))
    return check_result(plan.loss, target(sql).labels, noisy.cells[0][0]), encode(plan, noisy)


def test_noise_is_made_for_a_unit_in_every_count() -> None:
    """l1 sensitivity m and l2 sensitivity sqrt(m): discrete Laplace of scale m / epsilon, Gaussian of m / (2 rho)."""
    assert (target(COUNT).many, target(SUM).many) == (3, 4)
    assert target(COUNT).plan(Pure(Fraction(1, 2))).measures[0].noise.scale == 6
    assert target(SUM).plan(ZCDP(Fraction(1, 8))).measures[0].noise.scale == 4
    for sql, price in ((COUNT, Pure(Fraction(1, 2))), (SUM, ZCDP(Fraction(1, 8)))):
        plan = target(sql).plan(price)
        assert plan.loss == plan.measures[0].noise.loss == price


def test_a_result_is_stored_and_read_back_and_serves_fewer_limits() -> None:
    result, payload = released(SUM, Pure(1000), range(10, 14))
    assert (result.units, Checked(target(SUM), result).counts) == (10, [11, 12, 13])
    assert decode_check(payload) == result
    plan, again = decode(target(SUM).plan(Pure(1)).outline, payload)
    assert (plan.loss, again.cells[0][0].tolist()) == (Pure(1000), [10, 11, 12, 13])
    assert result.covers(target(COUNT))
    assert Checked(target(COUNT), result).counts == [11, 12]
    few = CheckResult(Pure(1), 10, result.over[:1])
    assert not few.covers(target(COUNT))


@pytest.mark.parametrize("sql", QUESTIONS)
def test_a_check_of_no_rows_is_rehearsed(sql: str) -> None:
    plan = target(sql).plan(Pure(1))
    rehearse(plan, Fraction(19, 20), ())
    (columns,) = (kind.empty(plan.measures[0], 1) for kind in plan.outline.kinds)
    assert [column.tolist() for column in columns] == [counts(sql, [])]


def test_a_check_is_known_by_its_relation_and_keys_and_its_limits_by_their_values() -> None:
    filtered = target("SELECT k, COUNT(*) AS n FROM t WHERE y > 1 GROUP BY k")
    assert filtered.identity == target(COUNT).identity == target(SUM).identity
    assert len({target(sql).identity.text for sql in (COUNT, TOWNS, MEAN, NESTED, JOINED)}) == 5
    changed = check_target(make_outline(read_sql(COUNT, Catalog((table(rows=3),)))))
    assert changed is not None
    assert changed.identity == target(COUNT).identity
    assert set(changed.labels) != set(target(COUNT).labels)
    joined = target(COUNT).joined(target(SUM))
    assert set(joined.labels) == set(target(SUM).labels)


@pytest.mark.parametrize("price", [Pure(Fraction(1, 5)), ZCDP(Fraction(1, 50))], ids=["laplace", "gauss"])
def test_all_counts_are_within_the_error_that_is_told(price: Pure | ZCDP, seeded: SeededBits) -> None:
    """Coverage by simulation: 95 % less three standard errors of 2,000 checks; with half the error it fails."""
    counts, tries = [120, 40, 7, 0], 2000
    results = [released(SUM, price, counts)[0] for _ in range(tries)]
    noises = [
        [noisy - count for noisy, count in zip((r.units, *(n for _, n in r.over)), counts, strict=True)]
        for r in results
    ]
    worst = [max(map(abs, noise)) for noise in noises]
    error = results[0].error(Fraction(19, 20))
    covered = [sum(off <= bound for off in worst) / tries for bound in (error, error / 2)]
    assert covered[0] >= 0.95 - 3 * (0.05 * 0.95 / tries) ** 0.5
    assert covered[1] < 0.95 - 3 * (0.05 * 0.95 / tries) ** 0.5
    assert sum(len(set(noise)) == 1 for noise in noises) / tries < 0.01  # each count has noise of its own
    assert seeded is not None
