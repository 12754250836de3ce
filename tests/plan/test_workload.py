"""Counts by one workload: exact tables from the engine, limits of a unit, the charge, stored answers, refusals."""

from __future__ import annotations

import json
import math
from collections import Counter
from fractions import Fraction
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lapwing.answers.distribution import ask_distribution
from lapwing.answers.marginals import ask_marginals
from lapwing.answers.stored import decode, encode
from lapwing.curator import Curator
from lapwing.curator import private_data as private_data_module
from lapwing.curator.pricing import Terms
from lapwing.curator.request import MarginalsRequest, Request
from lapwing.engines.duckdb import DuckDBEngine
from lapwing.engines.source import Frame
from lapwing.errors import BudgetExceeded, EngineFailed, LedgerFailed, Misconfigured, Refused
from lapwing.expressions.table import Catalog, Field, Table
from lapwing.expressions.types import Interval, Type
from lapwing.mechanisms.cells import NoisyMarginals, NoisyRanges
from lapwing.mechanisms.ranges.components import sum_over
from lapwing.mechanisms.ranges.noisy_marginals import LaplaceMarginals, Marginals
from lapwing.mechanisms.ranges.ranges import PrefixSums, Ranges
from lapwing.plan.add_noise import release
from lapwing.plan.plan import Outline, Plan, equal_prices, priced
from lapwing.plan.workload import axes_of
from lapwing.privacy import Budget
from support.cells import exact_cells
from support.visits import CANARY, Spy, frame, open_visits, write_visits

PURE, ZCDP = Budget(epsilon=2), Budget(epsilon=2, delta=1e-6)
ASKED: list[dict[str, Any]] = [
    {"columns": ["sex", "site", "cost"], "ways": 2, "cells": 3},
    {"columns": ["sex", "site", "age", "sick"], "ways": 3, "cells": {"age": 4}},
    {"columns": [("site", "sex"), ("cost",)], "cells": 5, "where": "sick OR age > 3"},
]


def bounds(low: int, high: int) -> Interval:
    return Interval(Fraction(low), Fraction(high))


def small_table(**changes: Any) -> Table:
    facts: dict[str, Any] = {"unit": "pid", "rows_per_unit": 2, "groups_per_unit": 2, **changes}
    fields = (
        Field("pid", Type.INTEGER),
        Field("sex", Type.TEXT, values=("F", "M", None)),
        Field("site", Type.INTEGER, values=(9, 10)),
        Field("cost", Type.REAL, bounds(0, 3)),
        Field("age", Type.INTEGER, bounds(0, 7)),
        Field("sick", Type.BOOLEAN),
    )
    return Table("visits", fields, facts.pop("unit"), **facts)


def small_rows(random: Random, many: int) -> list[tuple[Any, ...]]:
    """Values within and beyond what was declared, NULL and NaN among them, and one unit with many rows."""
    return [
        (
            random.choice([1, 1, 2, 3, 4, None]),
            random.choice(["F", "M", "X", None]),
            random.choice([9, 10, 11, None]),
            random.choice([0.0, 0.5, 1.0, 2.9999, 3.0, -5.0, 9.0, math.nan, math.inf, None]),
            random.choice([-3, 0, 1, 2, 5, 7, 8, None]),
            random.choice([True, False, None]),
        )
        for _ in range(many)
    ]


def engine_on(table: Table, rows: list[tuple[Any, ...]]) -> DuckDBEngine:
    kinds = [pa.int64(), pa.string(), pa.int64(), pa.float64(), pa.int64(), pa.bool_()]
    columns = [[row[i] for row in rows] for i in range(6)]
    data = pa.table({f.name: pa.array(c, k) for f, c, k in zip(table.fields, columns, kinds, strict=True)})
    return DuckDBEngine([(table, Frame(data))], salt=2015)


def outline_of(table: Table, **asked: Any) -> Outline:
    catalog, facts = Catalog((table,)), {"table": None, "where": None, "cells": None, **asked}
    if "columns" in facts:
        return ask_marginals(catalog, facts.pop("columns"), ways=facts.pop("ways", 2), **facts)
    return ask_distribution(catalog, facts.pop("column"), **facts)


def planned(table: Table, price: Budget, **asked: Any) -> Plan:
    outline = outline_of(table, **asked)
    return priced(outline, equal_prices(outline, price.price(epsilon=1)))


def mechanism_of(plan: Plan) -> Any:
    noisy = plan.measures[0].mechanism
    assert isinstance(noisy, NoisyRanges | NoisyMarginals)
    return noisy.mechanism


def read(plan: Plan, table: Table, rows: list[tuple[Any, ...]]) -> dict[Any, Any]:
    """The exact tables that the mechanism reads, by their axes."""
    (columns,), noisy = exact_cells(engine_on(table, rows), plan).cells, plan.measures[0].mechanism
    assert isinstance(noisy, NoisyRanges | NoisyMarginals)
    sizes = [axis.size for axis in axes_of(plan.measures[0].kind)]
    pairs = zip(noisy.measured, columns, strict=True)
    return {one: flat.reshape([sizes[i] for i in one]) for one, flat in pairs}


def place(axis: Any, value: Any) -> int | None:
    """The cell of a value, from the definition."""
    if axis.type is Type.REAL or (axis.type is Type.INTEGER and axis.name == "age"):
        if value is None or value != value:
            return None
        edges = axis.edges[1:-1] or [Fraction(2 * v + 1, 2) for v in axis.domain[:-1]]
        return sum(value >= edge for edge in edges)
    return axis.domain.index(value) if value in axis.domain else None


@pytest.mark.parametrize("price", [PURE, ZCDP], ids=["pure", "zcdp"])
@pytest.mark.parametrize("asked", ASKED, ids=["pairs", "triples", "listed"])
def test_exact_tables_are_those_of_the_definition(asked: dict[str, Any], price: Budget) -> None:
    """Every row is a unit here, so no limit bites."""
    table = small_table(unit=None, rows_per_unit=None, groups_per_unit=None)
    plan = planned(table, price, **asked)
    rows = small_rows(Random(5), 300)
    names, axes = [field.name for field in table.fields], axes_of(plan.measures[0].kind)
    kept = [row for row in rows if "where" not in asked or row[5] or (row[4] is not None and row[4] > 3)]
    found = [tuple(place(axis, row[names.index(axis.name)]) for axis in axes) for row in kept]
    full = np.zeros([axis.size for axis in axes], np.int64)
    for cell, many in Counter(cell for cell in found if None not in cell).items():
        full[cell] = many
    for one, exactly in read(plan, table, rows).items():
        assert exactly.tolist() == sum_over(full, tuple(range(len(axes))), one).tolist()
    assert full.sum() > 20


@pytest.mark.parametrize("price", [PURE, ZCDP], ids=["pure", "zcdp"])
def test_no_unit_moves_the_tables_by_more_than_the_mechanism_was_made_for(price: Budget) -> None:
    """gate:G14 each unit taken out in turn, over random tables and limits; every measured table in the l1 norm."""
    random = Random(7)
    for _ in range(7):
        table = small_table(rows_per_unit=random.choice([1, 2]), groups_per_unit=random.choice([1, 2, 50]))
        rows = small_rows(random, 60)
        asked = random.choice([*ASKED, {"column": "age"}, {"column": "cost", "cells": 7}])
        plan = planned(table, price, **asked)
        whole, most = read(plan, table, rows), mechanism_of(plan).cells_per_unit
        assert most == plan.groups_per_unit * (table.rows_per_unit or 0)
        for unit in (1, 2, 3):
            without = read(plan, table, [row for row in rows if row[0] != unit])
            assert all(np.abs(whole[one] - without[one]).sum() <= most for one in whole)
        assert [one.shape for one in read(plan, table, []).values()] == [one.shape for one in whole.values()]


def test_a_unit_is_limited_on_all_columns_together() -> None:
    """Ten cells of one unit, of which two count, with two rows each: four in every table, and no more anywhere."""
    table = small_table()
    rows = [(1, sex, site, 1.0, age, True) for sex, site, age in product("FM", (9, 10), range(3)) for _ in range(5)]
    plan = planned(table, PURE, columns=["sex", "site", "age"])
    assert {int(one.sum()) for one in read(plan, table, rows).values()} == {4}


def test_the_mechanism_follows_the_budget() -> None:
    table = small_table()
    made = [
        type(mechanism_of(planned(table, budget, **asked)))
        for asked in ({"column": "age"}, {"columns": ["sex", "age"]})
        for budget in (PURE, ZCDP, Budget(2, 1e-6, accounting="basic"))
    ]
    assert made == [Ranges, PrefixSums, Ranges, LaplaceMarginals, Marginals, LaplaceMarginals]


@pytest.mark.parametrize("price", [PURE, ZCDP], ids=["pure", "zcdp"])
@pytest.mark.parametrize("asked", [{"column": "cost"}, ASKED[0]], ids=["distribution", "marginals"])
def test_stored_answers_come_back_as_they_were(asked: dict[str, Any], price: Budget) -> None:
    plan = planned(small_table(), price, **asked)
    released = release(plan, exact_cells(engine_on(small_table(), small_rows(Random(3), 50)), plan))
    again, numbers = decode(plan.outline, encode(plan, released))
    assert again == plan
    assert [column.tolist() for column in numbers.cells[0]] == [column.tolist() for column in released.cells[0]]
    assert encode(again, numbers) == encode(plan, released)


def ask(curator: Curator, **changes: Any) -> Any:
    return curator.marginals(["sex", "site"], **{"epsilon": 0.25, **changes})


def opened(**changes: Any) -> Curator:
    return open_visits(**{"groups_per_unit": 2, **changes})


def test_the_charge_is_durable_before_any_row_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """gate:G16"""
    path = write_visits(tmp_path)
    curator, order = opened(data=path), []
    inner, settle = curator._engine.fetch, curator.ledger.settle_all

    def cells(query: Any) -> pa.Table:
        order.append(("read", curator.budget.spent.amount))
        return inner(query)

    def settled(*args: Any, **kwargs: Any) -> None:
        order.append(("settle", curator.budget.spent.amount))
        settle(*args, **kwargs)

    monkeypatch.setattr(curator._engine, "fetch", cells)
    monkeypatch.setattr(curator.ledger, "settle_all", settled)
    answer = curator.distribution("age", epsilon=0.5, analyst="ann")
    assert order == [("read", Fraction(1, 2)), ("settle", Fraction(1, 2))]
    entry = next(e for e in curator.ledger.entries() if e.seq == answer.entry)
    assert (entry.analyst, answer.cost.amount) == ("ann", Fraction(1, 2))
    assert CANARY.encode() not in Path(str(curator.ledger.path)).read_bytes()


def test_the_second_time_is_free_and_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    curator = opened()
    first = ask(curator)
    spy = Spy(curator, monkeypatch)
    for again in (ask(curator), ask(curator, epsilon=0.1), ask(curator, analyst="bob"), ask(curator, confidence=0.5)):
        assert again.entry == first.entry
        assert again["sex"].to_arrow(intervals=False) == first["sex"].to_arrow(intervals=False)
        assert not again.cost
    assert curator.marginals(["site", "SEX"], epsilon=0.25).entry == first.entry
    assert (spy.queries, curator.budget.spent.amount) == ([], Fraction(1, 4))


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 0.3},
        {"where": "age > 30"},
        {"columns": ["sex"]},
        {"columns": ["sex", "age"]},
        {"ways": 1},
        {"refresh": True},
    ],
    ids=lambda change: "-".join(change),
)
def test_another_question_or_a_better_one_is_paid(change: dict[str, Any]) -> None:
    curator = opened(budget=Budget(epsilon=5))
    first = ask(curator)
    second = curator.marginals(**{"columns": ["sex", "site"], "epsilon": 0.25, **change})
    assert second.entry != first.entry
    assert curator.budget.spent.amount == Fraction(1, 4) + second.cost.amount > Fraction(1, 4)


def test_cells_of_other_edges_are_another_question() -> None:
    curator = opened(budget=Budget(epsilon=5))
    entries = {curator.distribution("cost", cells=cells, epsilon=0.5).entry for cells in (10, 11, 12)}
    assert len(entries) == 3


def test_the_best_stored_answer_is_given() -> None:
    curator = opened(budget=Budget(epsilon=5))
    _, best = ask(curator, epsilon=0.5), ask(curator, epsilon=1)
    ask(curator, epsilon=0.7, refresh=True)
    assert ask(curator, epsilon=0.1).entry == best.entry


def test_a_key_pays_once_and_gives_its_own_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    curator = opened(budget=Budget(epsilon=5))
    first = ask(curator, key="a", refresh=True)
    ask(curator, epsilon=1)
    again = ask(curator, key="a", refresh=True)
    assert (again.entry, bool(again.cost)) == (first.entry, False)
    assert ask(curator, key="a").entry == first.entry
    monkeypatch.setattr(curator.ledger, "settle_all", lambda *_, **__: None)
    ask(curator, key="b", refresh=True)
    with pytest.raises(LedgerFailed, match="stays charged"):
        ask(curator, key="b", refresh=True)


def test_a_failing_engine_says_one_sentence_and_stays_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    """gate:G24"""
    curator = opened()

    def broken(_: Any) -> pa.Table:
        raise ValueError(CANARY)

    monkeypatch.setattr(curator._engine, "fetch", broken)
    with pytest.raises(EngineFailed) as error:
        ask(curator)
    assert CANARY not in str(error.value)
    assert error.value.__context__ is None
    assert curator.budget.spent.amount == Fraction(1, 4)


def test_a_group_that_was_not_asked_for_fails_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    curator = opened()
    inner = curator._engine.fetch

    def foreign(query: Any) -> pa.Table:
        rows = inner(query)
        return rows.set_column(1, "k0", pa.array(["?"] * rows.num_rows))

    monkeypatch.setattr(curator._engine, "fetch", foreign)
    with pytest.raises(EngineFailed):
        ask(curator)


def test_all_noise_is_added_in_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    curator, seen = opened(budget=Budget(epsilon=5)), []
    inner = private_data_module.release
    monkeypatch.setattr(private_data_module, "release", lambda *args: seen.append(args[0]) or inner(*args))
    ask(curator)
    curator.distribution("age", epsilon=0.5)
    assert [type(mechanism_of(plan)) for plan in seen] == [LaplaceMarginals, Ranges]


def test_changed_data_are_not_read(tmp_path: Path) -> None:
    curator = opened(data=write_visits(tmp_path))
    write_visits(tmp_path, people=30)
    with pytest.raises(Misconfigured, match="changed without a new version"):
        ask(curator)
    assert not curator.budget.spent


def test_what_does_not_fit_is_refused_and_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    curator = opened()
    spy = Spy(curator, monkeypatch)
    with pytest.raises(BudgetExceeded):
        ask(curator, epsilon=1.01)
    assert (spy.queries, bool(curator.budget.spent)) == ([], False)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"column": "pid"}, "protected unit"),
    ({"column": "name"}, "values are not public"),
    ({"column": "nme"}, "Did you mean `name`"),
    ({"column": "age", "table": "nowhere"}, "no such table"),
    ({"column": "age", "where": "nope = 1"}, "no such column"),
    ({"column": "age", "where": "COUNT(*) > 1"}, "cannot be used in WHERE"),
    ({"column": "age", "where": "1 = 1) GROUP BY (sex"}, "one condition"),
    ({"column": "age", "where": "1 = 1) LIMIT (1"}, "Nothing was charged"),
    ({"column": "age", "where": "1 = 1) HAVING (COUNT(*) > 3"}, "one condition"),
    ({"column": "age", "where": "1 = 1; DROP TABLE visits"}, "one condition"),
    ({"column": "age", "where": "WHERE age = 1"}, 'Write the condition alone: where="year = 1"'),
    ({"column": "age", "where": "age ="}, "Write the condition alone"),
    ({"column": "age", "where": ""}, "`where`: it is empty. Write the condition alone"),
    ({"columns": ["sex"], "where": " \n"}, "`where`: it is empty. Write the condition alone"),
    ({"column": "age", "where": "read_csv('x')"}, "Nothing was charged"),
    ({"column": "cost", "cells": 1_001}, "at most 1,000"),
    ({"columns": ["sex", "name"]}, "values are not public"),
    ({"columns": ["sex", "pid"]}, "protected unit"),
    ({"columns": [("sex", "nothing")]}, "no such column"),
]


@pytest.mark.parametrize(("asked", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_cannot_be_counted_is_refused_and_free(
    asked: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """threat:A1 a condition cannot become another question."""
    curator = opened()
    spy = Spy(curator, monkeypatch)
    with pytest.raises(Refused, match=message) as error:
        (curator.marginals if "columns" in asked else curator.distribution)(epsilon=0.5, **asked)
    assert "Nothing was charged" in str(error.value)
    assert error.value.__context__ is None
    assert (spy.queries, bool(curator.budget.spent)) == ([], False)


@pytest.mark.parametrize("changes", [{"groups_per_unit": None}, {"rows_per_unit": None}], ids=["groups", "rows"])
def test_limits_that_are_missing_are_named(changes: dict[str, Any]) -> None:
    """threat:A12 without them one unit could change the counts by any amount."""
    (missing,) = changes
    with pytest.raises(Refused, match=missing):
        ask(opened(**changes))


@pytest.mark.parametrize("bad", [0, -1, math.nan, True, "1", None])
def test_odd_prices_and_numbers_are_refused(bad: Any) -> None:
    curator = opened()
    for wrong in ({"epsilon": bad}, {"confidence": bad}, {"cells": bad}, {"ways": bad}):
        if wrong in ({"confidence": None}, {"cells": None}):
            continue
        with pytest.raises(Misconfigured):
            curator.marginals(**{"columns": ["sex", "cost"], "epsilon": 0.5, **wrong})
    assert not curator.budget.spent


def test_noise_that_cannot_be_drawn_is_refused_before_the_charge() -> None:
    curator = opened(budget=Budget(epsilon=1))
    with pytest.raises(Refused, match="cannot be drawn"):
        curator.distribution("age", epsilon=Fraction(1, 10**30))
    assert not curator.budget.spent


def test_workloads_are_not_combined_and_say_so_before_the_charge() -> None:
    curator = opened()
    request = Request(MarginalsRequest(["sex", "site"]), Terms(epsilon=0.25), refresh=True, combine=True)
    with pytest.raises(Refused, match=r"many counts with one noise.*Nothing was charged"):
        curator.answer(request)
    assert not curator.budget.spent


def test_the_ledger_says_what_was_asked() -> None:
    curator = opened()
    ask(curator, where="age > 30")
    notes = [entry.note for entry in curator.ledger.entries() if entry.note and "question" in entry.note]
    assert json.loads(notes[-1])["question"] == "3 marginals of sex, site in visits where age > 30"


def test_a_table_must_be_named_if_there_are_several() -> None:
    table = small_table()
    other = Table("others", table.fields, "pid", rows_per_unit=1, groups_per_unit=1)
    with pytest.raises(Exception, match="2 private tables"):
        ask_distribution(Catalog((table, other)), "age", table=None, where=None, cells=None)
    found = ask_distribution(Catalog((table, other)), "age", table="others", where=None, cells=None)
    assert found.table == other


def test_rows_are_units_where_no_unit_is_declared() -> None:
    curator = opened(unit=None, rows_per_unit=None, groups_per_unit=None, budget=Budget(epsilon=1000))
    answer = curator.marginals(["sex", "site"], epsilon=1000)
    assert mechanism_of(answer.release.plan).cells_per_unit == 1
    assert round(float(answer.total.counts)) == frame().num_rows


def test_a_preview_reads_nothing_costs_nothing_and_knows_what_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    curator = opened()
    spy = Spy(curator, monkeypatch)
    before = curator.preview_marginals(["sex", "site"], epsilon=0.25)
    assert (before.cost.amount, before.stored, before.fits) == (Fraction(1, 4), False, True)
    assert "sex, site: within" in str(before)
    assert (spy.queries, bool(curator.budget.spent)) == ([], False)
    answer = ask(curator)
    table = answer["sex", "site"].intervals().to_pylist()[0]
    assert table["n_high"] - table["n"] == pytest.approx(before.errors["sex, site"])
    after = curator.preview_marginals(["sex", "site"], epsilon=0.2)
    assert (after.stored, after.errors, bool(after.cost)) == (True, before.errors, False)
    far = curator.preview_distribution("age", epsilon=5)
    assert (far.fits, list(far.errors)) == (False, ["one cell", "the lower half", "all"])
    assert "more than is left" in str(far)
    assert "does not fit" in far.explain()
    assert "does not fit" in json.loads(far.to_json())["explained"]
    with pytest.raises(Refused, match="protected unit"):
        curator.preview_distribution("pid", epsilon=1)


def test_the_request_of_a_workload_holds_every_digit_of_the_price() -> None:
    """A retry key that was used is compared with it."""
    prices = (Fraction(1), 1 + Fraction(1, 10**15))
    requests = [Request(MarginalsRequest(["sex", "site"]), Terms(epsilon=price)) for price in prices]
    assert len({request.body() for request in requests}) == 2
