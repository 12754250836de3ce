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

from lapwing.answers.answer import Release
from lapwing.answers.picture import arrange
from lapwing.answers.present import present
from lapwing.answers.table import CHOSEN
from lapwing.catalog.table import Catalog
from lapwing.cells.release import Released
from lapwing.curator import Curator
from lapwing.planning.plan import Plan, make_plan
from lapwing.planning.question import Question
from lapwing.privacy import Budget, Pure
from lapwing.reading.sql import read_sql
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
    assert "together" not in f"{answer} {answer.methods()} {answer.to_json()}"
    assert "95% confidence, per number." in answer.methods()


@pytest.mark.parametrize("clause", CHOOSING)
def test_every_format_says_what_holds(clause: str) -> None:
    answer = opened().sql(COUNTS + clause, epsilon=1)
    promise = "with 95% confidence, per number; of `n`, by which rows were chosen, for all groups together."
    assert answer.column_notes == {"n": CHOSEN}
    assert f"n: {CHOSEN}" in str(answer)
    assert f"n: {CHOSEN}" in answer._repr_html_()
    assert promise in answer.methods()
    read = json.loads(answer.to_json())
    assert (read["column_notes"], promise in read["methods"]) == ({"n": CHOSEN}, True)
    together = answer.intervals(simultaneous=True)["n_high"].to_pylist()
    assert [row["n_high"] for row in read["rows"]] == together
    assert [float(row["n_high"]) for row in csv.DictReader(io.StringIO(answer.to_csv()))] == together
    picture = arrange(answer.table())
    assert "rows were chosen by n, whose intervals hold for all groups together" in picture.subtitle


def test_a_single_number_that_chose_is_promised_for_all_groups_only() -> None:
    answer = opened().sql("SELECT COUNT(*) AS n FROM visits GROUP BY site ORDER BY n DESC LIMIT 1", epsilon=1)
    assert "per number" not in answer.methods()
    assert "95% confidence, of `n`, by which rows were chosen, for all groups together." in answer.methods()


def test_answers_of_a_batch_and_joined_answers_say_it_too() -> None:
    curator = opened()
    text = COUNTS + "ORDER BY n DESC LIMIT 1"
    batch = curator.batch({"best": text, "all": COUNTS}, epsilon=1)
    assert batch.to_dict()["answers"]["best"]["column_notes"] == {"n": CHOSEN}
    assert batch.to_dict()["answers"]["all"]["column_notes"] == {}
    curator.sql(text, epsilon=1, refresh=True)
    joined = curator.sql(text, epsilon=1, refresh=True, combine=True)
    assert joined.column_notes == {"n": CHOSEN}
    assert "by which rows were chosen, for all groups together, if the number of answers" in joined.methods()
    assert widths(joined, "n") == widths(joined, "n", simultaneous=True)


def test_a_quantile_that_chose_the_rows_has_no_interval_and_says_why() -> None:
    answer = opened().sql("SELECT site, MEDIAN(cost) AS m FROM visits GROUP BY site ORDER BY m LIMIT 1", epsilon=5)
    assert answer.column_notes == {
        "m": "the interval of a quantile was released for one group, and does not hold for all together"
    }
    assert answer.intervals()["m_low"].to_pylist() == [None]
    assert "confidence" not in answer.methods()
    assert "no intervals" in str(answer)


def test_no_promise_is_made_where_no_interval_is_shown() -> None:
    answer = opened().sql("SELECT CASE WHEN COUNT(*) > 5 THEN COUNT(*) END AS n FROM visits", epsilon=1)
    assert answer.column_notes == {"n": "no interval follows for this expression"}
    assert "Intervals cover" not in answer.methods()


def test_what_is_promised_before_the_charge_holds_for_chosen_rows() -> None:
    curator = opened()
    text = COUNTS.replace(", SUM(cost) AS s", "") + "ORDER BY n DESC LIMIT 1"
    seen, answer = curator.preview(text, within=50), curator.sql(text, within=50)
    assert max(widths(answer, "n")) == 2 * seen.errors["COUNT(*)"] <= 100
    assert "in all 3 groups together" in str(seen)
    assert answer.cost.amount > curator.preview(text.split(" ORDER")[0], within=50, refresh=True).cost.amount


@pytest.mark.parametrize("clause", ["ORDER BY n DESC LIMIT 1", "HAVING COUNT(*) > 1025"])
def test_intervals_of_chosen_rows_hold_as_often_as_stated(clause: str) -> None:
    """60 groups of 1,000: the largest of them is outside of its own interval at 95 % most of the time."""
    sites = tuple(range(60))
    table = visits_table(unit=None)
    fields = tuple(replace(field, values=sites) if field.name == "site" else field for field in table.fields)
    catalog = Catalog((replace(table, fields=fields),))
    read = read_sql(f"SELECT site, COUNT(*) AS n FROM visits GROUP BY site {clause}", catalog)
    assert isinstance(read, Question)
    plan = make_plan(read, Pure(Fraction(1, 10)))
    assert isinstance(plan, Plan)
    random, held, alone = Random(8), 0, 0
    for _ in range(400):
        noisy = np.array([1000 + _noise(random, 10) for _ in sites])
        [_, column] = present(plan, Released((), ((noisy,),)), LEVEL)
        assert column.low is not None
        assert column.high is not None
        held += bool(((column.low <= 1000) & (column.high >= 1000)).all())
        half = float(plan.measures[0].error(LEVEL))
        alone += bool((np.abs(column.values - 1000) <= half).all())
    assert held >= 380
    assert alone < 200


def _noise(random: Random, scale: float) -> int:
    """Discrete Laplace, from floats: good enough to see coverage."""
    first, second = (floor(-scale * log(1 - random.random())) for _ in range(2))
    return first - second
