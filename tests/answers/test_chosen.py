"""Rows that HAVING or LIMIT chose by noisy numbers: no format claims more of them than holds."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from fractions import Fraction
from math import floor, log
from random import Random
from typing import Any

import numpy as np
import pytest

from lapwing.answers import columns as present_module
from lapwing.answers.answer import Release
from lapwing.answers.columns import present
from lapwing.answers.picture import arrange
from lapwing.answers.table import CHOSEN
from lapwing.curator import Curator
from lapwing.errors import Refused
from lapwing.expressions.table import Catalog
from lapwing.mechanisms.keys.threshold import LaplaceThreshold
from lapwing.plan.add_noise import Released
from lapwing.plan.kind import Measure
from lapwing.plan.plan import Plan, make_plan
from lapwing.privacy import Approximate, Budget, Pure
from lapwing.sql import read_sql
from support.visits import open_visits, visits_table

LEVEL = Fraction(19, 20)
COUNTS = "SELECT site, COUNT(*) AS n, SUM(cost) AS s FROM visits GROUP BY site "
CHOOSING = [
    "HAVING COUNT(*) > -1e9",
    "HAVING 2 * COUNT(*) + 1 > -1e9 OR site = 9",
    "ORDER BY n DESC LIMIT 2",
    "ORDER BY site, COUNT(*) LIMIT 2",
    "HAVING site > 9 ORDER BY n LIMIT 1",
]
NOT_CHOOSING = ["", "ORDER BY n", "HAVING site > 9", "ORDER BY site LIMIT 2", "LIMIT 2", "ORDER BY n DESC LIMIT 3"]


def opened(**changes: Any) -> Curator:
    return open_visits(budget=changes.pop("budget", Budget(epsilon=100)), values={"site": [9, 10, 11]}, **changes)


def widths(release: Release, name: str, **options: Any) -> set[float]:
    rows = release.intervals(**options).to_pylist()
    return {round(row[f"{name}_high"] - row[f"{name}_low"], 6) for row in rows}


@pytest.mark.parametrize("clause", CHOOSING)
def test_a_number_that_chose_the_rows_has_intervals_for_all_groups_together(clause: str) -> None:
    curator = opened()
    plain, chosen = curator.sql(COUNTS, epsilon=1), curator.sql(COUNTS + clause, epsilon=1)
    assert widths(chosen, "n") == widths(chosen, "n", simultaneous=True) == widths(plain, "n", simultaneous=True)
    assert max(widths(plain, "n")) < max(widths(chosen, "n"))
    assert widths(chosen, "s") == widths(plain, "s")


@pytest.mark.parametrize("clause", NOT_CHOOSING)
def test_rows_that_no_noisy_number_chose_keep_intervals_per_number(clause: str) -> None:
    curator = opened()
    plain, answer = curator.sql(COUNTS, epsilon=1), curator.sql(COUNTS + clause, epsilon=1)
    assert widths(answer, "n") == widths(plain, "n") != widths(plain, "n", simultaneous=True)
    assert "together" not in f"{answer} {answer.explain()} {answer.methods()} {answer.to_json()}"
    assert "95% confidence, per number." in answer.methods()


@pytest.mark.parametrize("clause", CHOOSING)
def test_every_format_says_what_holds(clause: str) -> None:
    answer = opened().sql(COUNTS + clause, epsilon=1)
    promise = "with 95% confidence, per number; of `n`, by which rows or values were chosen, for all groups together."
    assert answer.column_notes == {"n": CHOSEN}
    assert f"n: {CHOSEN}" in answer.explain()
    assert f"n: {CHOSEN}" in answer.explain()._repr_html_()
    assert promise in answer.methods()
    read = json.loads(answer.to_json())
    assert (read["column_notes"], promise in read["methods"]) == ({"n": CHOSEN}, True)
    together = answer.intervals(simultaneous=True)["n_high"].to_pylist()
    assert [row["n_high"] for row in read["rows"]] == together
    assert [float(row["n_high"]) for row in csv.DictReader(io.StringIO(answer.to_csv()))] == together
    picture = arrange(answer.table())
    assert "rows or values were chosen by n, whose intervals hold for all groups together" in picture.subtitle


def test_a_single_number_that_chose_is_promised_for_all_groups_only() -> None:
    answer = opened().sql("SELECT COUNT(*) AS n FROM visits GROUP BY site ORDER BY n DESC LIMIT 1", epsilon=1)
    assert "per number" not in answer.methods()
    assert "95% confidence, of `n`, by which rows or values were chosen, for all groups together." in answer.methods()


def test_answers_of_a_batch_and_joined_answers_say_it_too() -> None:
    curator = opened()
    text = COUNTS + "ORDER BY n DESC LIMIT 1"
    batch = curator.batch({"best": text, "all": COUNTS}, epsilon=1)
    assert batch.to_dict()["answers"]["best"]["column_notes"] == {"n": CHOSEN}
    assert batch.to_dict()["answers"]["all"]["column_notes"] == {}
    curator.sql(text, epsilon=1, refresh=True)
    joined = curator.sql(text, epsilon=1, refresh=True, combine=True)
    assert joined.column_notes == {"n": CHOSEN}
    assert "by which rows or values were chosen, for all groups together, if the number of answers" in joined.methods()
    assert widths(joined, "n") == widths(joined, "n", simultaneous=True)


MEDIANS = "SELECT site, MEDIAN(cost) AS m FROM visits GROUP BY site"


def test_a_quantile_that_chose_the_rows_is_planned_for_all_groups_together() -> None:
    curator = opened()
    plain, chosen = curator.sql(MEDIANS, epsilon=5), curator.sql(MEDIANS + " ORDER BY m LIMIT 1", epsilon=5)
    levels = [answer.plan.outline.kinds[0].facts[-1] for answer in (plain, chosen)]
    assert levels == ["19/20", "59/60"]
    assert (plain.column_notes, chosen.column_notes) == ({}, {"m": CHOSEN})
    assert chosen.intervals()["m_low"].to_pylist() == chosen.intervals(simultaneous=True)["m_low"].to_pylist() != [None]
    assert chosen.cost, "its cells are others than those of the plain question"


def test_quantiles_that_choose_are_answered_alone_in_a_batch() -> None:
    asked = {"first": MEDIANS + " ORDER BY m LIMIT 1", "again": MEDIANS + " ORDER BY m LIMIT 1", "all": MEDIANS}
    batch = opened().batch(asked, epsilon=5)
    assert [release.plan.outline.kinds[0].facts[-1] for release in batch] == ["59/60", "59/60", "19/20"]
    assert batch["first"].entry == batch["again"].entry != batch["all"].entry


@pytest.mark.parametrize("intervals", [True, False])
def test_a_quantile_that_chose_among_selected_keys_has_no_interval_and_says_why(intervals: bool) -> None:
    budget = Budget(epsilon=1000, delta=1e-3)
    text = "SELECT name, MEDIAN(cost) AS m FROM visits GROUP BY name ORDER BY m LIMIT 1"
    answer = open_visits(budget=budget, groups_per_unit=1).sql(text, epsilon=200, intervals=intervals)
    assert "confidence" not in answer.methods()
    assert ("m_low" in answer.intervals().column_names) == intervals
    assert answer.column_notes == ({"m": present_module._UNBOUNDED} if intervals else {})


def test_no_promise_is_made_where_no_interval_is_shown() -> None:
    answer = opened().sql("SELECT POWER(COUNT(*), 2) AS n FROM visits", epsilon=1)
    assert answer.column_notes == {"n": "no interval follows for this expression"}
    assert "Intervals cover" not in answer.methods()


@pytest.mark.parametrize("column", ["COUNT(*) > 20", "CASE WHEN COUNT(*) > 20 THEN 'many' ELSE 'few' END"])
def test_a_condition_on_a_noisy_number_chooses_too(column: str) -> None:
    curator = opened()
    plain, answer = (
        curator.sql(COUNTS, epsilon=1),
        curator.sql(COUNTS.replace(" FROM", f", {column} AS c FROM"), epsilon=1),
    )
    assert answer.column_notes == {"n": CHOSEN, "c": "no interval follows for this expression"}
    assert widths(answer, "n") == widths(plain, "n", simultaneous=True)
    assert widths(answer, "s") == widths(plain, "s")


def test_conditions_on_keys_choose_nothing() -> None:
    curator = opened()
    plain = curator.sql(COUNTS, epsilon=1)
    answer = curator.sql(COUNTS.replace(" FROM", ", CASE WHEN site > 9 THEN COUNT(*) ELSE 0 END AS c FROM"), epsilon=1)
    assert widths(answer, "c") == {0.0, *widths(plain, "n")}
    assert answer.column_notes == {}


def test_within_is_refused_where_the_width_that_is_shown_cannot_be_known() -> None:
    curator = open_visits(budget=Budget(epsilon=100, delta=1e-3), groups_per_unit=1)
    text = "SELECT name, COUNT(*) AS n FROM visits GROUP BY name"
    assert curator.preview(text, within=50).cost
    with pytest.raises(Refused, match="how many there are is not known before keys are selected"):
        curator.preview(text + " ORDER BY n DESC LIMIT 1", within=50)


def test_what_is_promised_before_the_charge_holds_for_chosen_rows() -> None:
    curator = opened()
    text = COUNTS.replace(", SUM(cost) AS s", "") + "ORDER BY n DESC LIMIT 1"
    seen, answer = curator.preview(text, within=50), curator.sql(text, within=50)
    assert max(widths(answer, "n")) == 2 * seen.errors["COUNT(*)"] <= 100
    assert "in all 3 groups together" in str(seen)
    assert answer.cost.amount > curator.preview(text.split(" ORDER")[0], within=50, refresh=True).cost.amount


SITES = tuple(range(60))
TRUE = {"COUNT(*)": 1000.0, "SUM(cost)": 50_000.0, "AVG(cost)": 50.0}
"""60 groups that are all alike: the largest of them is outside of its own interval at 95 % most of the time."""


def _plan(text: str) -> Plan:
    table = visits_table(unit=None)
    fields = tuple(replace(field, values=SITES) if field.name == "site" else field for field in table.fields)
    return make_plan(read_sql(text, Catalog((replace(table, fields=fields),))), Pure(Fraction(1, 10)))


def _cells(plan: Plan, random: Random) -> Released:
    """1,000 rows in each group with a cost of 50, and noise."""

    def noisy(measure: Measure) -> Any:
        totals = 50_000 / measure.step if measure.kind.facts[1] is True else 1000
        true = totals if measure.kind.cells == 1 else 1000 * 2**30 / 2  # a mean: half of each row in either cell
        return np.array([int(true) + _noise(random, float(measure.noise.scale)) for _ in SITES], object)

    return Released((), tuple(tuple(noisy(m) for _ in range(m.kind.cells)) for m in plan.measures))


@pytest.mark.parametrize("number", TRUE)
@pytest.mark.parametrize("clause", ["ORDER BY n DESC LIMIT 1", "HAVING {} > {}"])
def test_intervals_of_chosen_rows_hold_as_often_as_stated(number: str, clause: str) -> None:
    true = TRUE[number]
    clause = clause.format(number, true * 1.025)
    plan = _plan(f"SELECT site, {number} AS n FROM visits GROUP BY site {clause}")
    random, held = Random(8), 0
    for _ in range(120):
        [_, column] = present(plan, _cells(plan, random), LEVEL)
        assert column.low is not None
        assert column.high is not None
        held += bool(((column.low <= true) & (column.high >= true)).all())
    assert held >= 108


def test_intervals_for_one_number_would_not_hold_for_the_best_of_sixty() -> None:
    plan = _plan("SELECT site, COUNT(*) AS n FROM visits GROUP BY site ORDER BY n DESC LIMIT 1")
    half, random, held = float(plan.measures[0].error(LEVEL)), Random(8), 0
    for _ in range(120):
        [_, column] = present(plan, _cells(plan, random), LEVEL)
        held += bool(abs(float(column.values[0]) - 1000) <= half)
    assert held < 48


CASES = [
    ("CASE WHEN COUNT(*) > 1025 THEN COUNT(*) END", None),
    ("CASE WHEN COUNT(*) > 990 THEN COUNT(*) ELSE 0 END", 1000.0),
    ("CASE WHEN COUNT(*) <= 1020 AND NOT COUNT(*) = 7 THEN SUM(cost) ELSE -SUM(cost) END", 50_000.0),
    ("GREATEST(COUNT(*), 1010) / NULLIF(COUNT(*) - 900, 0)", 1010 / 100),
]


@pytest.mark.parametrize(("column", "true"), CASES)
def test_intervals_of_chosen_values_hold_as_often_as_stated(column: str, true: float | None) -> None:
    """Of all cells that show an interval none is wrong; where it is not certain which branch is true, there is none."""
    plan = _plan(f"SELECT site, {column} AS n FROM visits GROUP BY site")
    random, held = Random(9), 0
    for _ in range(120):
        [_, shown] = present(plan, _cells(plan, random), LEVEL)
        low, high = shown.intervals()
        pairs = [(a, b) for a, b in zip(low, high, strict=True) if a is not None and b is not None]
        held += all(true is not None and a <= true <= b for a, b in pairs)
    assert held >= 108 if "CASE" in column else held


@pytest.mark.parametrize("counted", [True, False])
def test_the_largest_of_selected_groups_holds_as_often_as_stated(counted: bool) -> None:
    """20 groups of 60 units. Their number comes from the selection itself, or has noise of its own."""
    by = "n" if counted else "m"
    text = f"SELECT name, COUNT(DISTINCT pid) AS n, COUNT(*) AS m FROM visits GROUP BY name ORDER BY {by} DESC LIMIT 1"
    question = read_sql(text, Catalog((visits_table(rows_per_unit=1, groups_per_unit=1),)))
    plan = make_plan(question, Approximate(Fraction(1), Fraction(1, 100)))
    assert plan.outline.counted == 0
    assert isinstance(plan.selection, LaplaceThreshold)
    scales = [float(plan.selection.scale), float(plan.measures[1].noise.scale)]
    random, held = Random(10), 0
    for _ in range(120):
        counts = [60 + _noise(random, scales[0]) for _ in range(20)]
        shown = [count for count in counts if count > plan.selection.threshold]
        keys = np.array(range(len(shown)), object)
        noisy = [60 + _noise(random, scales[1]) for _ in shown]
        made = present(plan, Released((keys,), ((np.array(shown),), (np.array(noisy),))), LEVEL)[1 if counted else 2]
        assert made.low is not None
        assert made.high is not None
        held += bool(((made.low <= 60) & (made.high >= 60)).all())
    assert held >= 108


def _noise(random: Random, scale: float) -> int:
    """Discrete Laplace, from floats: good enough to see coverage."""
    first, second = (floor(-scale * log(1 - random.random())) for _ in range(2))
    return first - second
