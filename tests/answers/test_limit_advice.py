"""What a preview says of limits: the errors are those of questions on these limits, and each line can be pasted."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

import lapwing as lw
from lapwing.curator import Curator
from lapwing.errors import Refused
from support.visits import open_visits

SUM = "SELECT month, SUM(amount) AS s FROM sales GROUP BY month"


def sales(**changes: Any) -> Curator:
    """20 rows x 4 groups x 300 of one person."""
    data = pa.table({"id": [1, 2, 3], "month": [1, 2, 3], "amount": [1.0, 2.0, 3.0]})
    facts = {"rows_per_unit": 20, "groups_per_unit": 4, "bounds": {"amount": (0, 300)}}
    facts |= {"values": {"month": list(range(1, 13))}, "budget": lw.Budget(epsilon=1), **changes}
    return lw.open(data, name="sales", unit="id", ledger=":memory:", check=0, **facts)


def test_the_errors_are_those_of_questions_on_these_limits() -> None:
    with sales() as curator:
        costs = curator.preview(SUM, epsilon=0.5).to_dict()["limits"]
        assert list(costs["errors_by_groups"]) == ["1", "2", "4", "5", "10"]
        for groups, error in costs["errors_by_groups"].items():
            assert curator.preview(SUM, epsilon=0.5, groups=int(groups)).errors["SUM(amount)"] == error
        assert (costs["number"], costs["limit"], costs["write"]) == ("SUM(amount)", "groups_per_unit = 4", "groups=1")
        assert costs["error"] == costs["errors_by_groups"]["1"]
        json.dumps(costs)


@pytest.mark.parametrize(
    ("facts", "write"),
    [
        ({}, "groups=1"),
        ({"groups_per_unit": 1}, "rows=5"),
        ({"groups_per_unit": None}, "groups=1"),
        ({"groups_per_unit": 1, "rows_per_unit": 1}, 'bounds={"amount": (0, 150)}'),
        (
            {"groups_per_unit": 1, "rows_per_unit": 1, "bounds": {"amount": (-300, 100)}},
            'bounds={"amount": (-150, 50)}',
        ),
    ],
)
def test_the_line_works_and_has_the_error_that_is_said(facts: dict[str, Any], write: str) -> None:
    with sales(**facts) as curator:
        costs = curator.preview(SUM, epsilon=0.5).to_dict()["limits"]
        assert costs["write"] == write
        again = curator.preview(SUM, epsilon=0.5, **eval(f"dict({write})"))
        assert again.errors["SUM(amount)"] == pytest.approx(costs["error"])
        assert f"{write}: within " in curator.preview(SUM, epsilon=0.5).explain()


def test_the_short_text_says_it_where_many_rows_of_a_unit_count() -> None:
    with sales() as many, sales(rows_per_unit=4) as few:
        text = str(many.preview(SUM, epsilon=0.5))
        assert "What adds most to the noise of SUM(amount) is groups_per_unit = 4. groups=1: within " in text
        assert len(text.splitlines()) <= 5
        assert "What adds most" not in str(few.preview(SUM, epsilon=0.5))
        assert "What adds most" in few.preview(SUM, epsilon=0.5).explain()


def test_ceilings_bound_the_table() -> None:
    with sales(most_groups=5) as curator:
        assert list(curator.preview(SUM, epsilon=0.5).to_dict()["limits"]["errors_by_groups"]) == ["1", "2", "4", "5"]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(DISTINCT id) AS n FROM sales",
        "SELECT month FROM sales GROUP BY month",
        "SELECT COUNT(*) AS n FROM (SELECT id FROM sales GROUP BY id)",
    ],
)
def test_nothing_is_said_where_no_limit_matters(text: str) -> None:
    with sales() as curator:
        costs = curator.preview(text, epsilon=0.5).to_dict()["limits"]
        assert (costs["errors_by_groups"], costs["write"]) == ({}, None)


def test_a_useless_answer_names_the_limit_too() -> None:
    text = "SELECT AVG(cost) AS m FROM visits"
    with open_visits(rows_per_unit=16, budget=lw.Budget(epsilon=9)) as curator:
        with pytest.raises(Refused, match=r"is rows_per_unit = 16. rows=4: within \d"):
            curator.sql(text, epsilon=0.05, assume_rows=1000)
        assert curator.preview(text, epsilon=0.05, assume_rows=1000, rows=4)


def test_workloads_and_selected_keys_have_previews() -> None:
    with sales(budget=lw.Budget(epsilon=1, delta=1e-6), values={}) as curator:
        costs = curator.preview(SUM, epsilon=0.5).to_dict()["limits"]
        assert costs["write"] == "rows=5"  # of four groups Gaussian noise grows twofold
    with sales() as curator:
        assert curator.preview_distribution("month", epsilon=0.5).to_dict()["limits"]["write"] is None
        assert curator.preview("SELECT month FROM sales GROUP BY month ORDER BY COUNT(*) DESC LIMIT 2", epsilon=0.5)
