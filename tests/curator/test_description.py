"""A curator describes itself from what was declared, and reads no data for it."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lapwing as lw
from lapwing.curator import Curator

EVIL = "<script>"
WHO = "protects all rows of one `patient`; at most 3 rows of a unit count in a group"


def opened(**facts: object) -> Curator:
    visits = pa.table({"patient": [1, 1, 2], "sex": ["F", "F", "M"], "cost": [1.0, 2.0, 4321.0]})
    known: dict[str, object] = {"unit": "patient", "rows_per_unit": 3, "bounds": {"cost": (0, 500)}, **facts}
    return lw.open(visits, name="visits", budget=lw.Budget(epsilon=2), values={"sex": ["F", "M"]}, **known)  # type: ignore[arg-type]


def test_a_curator_prints_what_was_declared() -> None:
    regions = pa.table({"code": ["a", "b"]})
    curator = opened(groups_per_unit="auto", public={"regions": regions})
    assert str(curator.describe()) == repr(curator)
    assert repr(curator).splitlines() == [
        f"visits: {WHO}; groups_per_unit is found privately when a question needs it",
        "  patient  integer  the unit",
        "  sex      text     values F, M",
        "  cost     real     bounds [0, 500]",
        "regions: public, to join with; key code",
        "  code  text  values a, b",
        "Budget: epsilon = 2",
        "Spent 0% of the budget; one more question may cost up to epsilon = 2.",
        "This budget is in memory and ends with the process. Pass ledger='ledger.db' to keep it.",
    ]
    explained = curator.budget.explain().splitlines()
    assert explained[:2] == [
        "Spent: epsilon = 0 of epsilon = 2. Left: epsilon = 2.",
        "One more question may cost at most epsilon = 2; about 20 fit at epsilon = 0.1 each.",
    ]
    assert str(curator.ledger.budget).startswith("epsilon = 2 (pure accounting: epsilon = 2)\n")
    facts = curator.describe().to_dict()
    assert facts["tables"]["visits"]["columns"]["cost"] == {"type": "real", "declared": "bounds [0, 500]"}
    assert facts["budget"]["epsilon"] == "2"


def test_a_description_holds_nothing_of_the_rows() -> None:
    """The same words whatever the rows are."""
    empty = pa.table({"patient": pa.array([], "int64"), "sex": pa.array([], "string"), "cost": pa.array([], "float64")})
    facts = {"unit": "patient", "budget": lw.Budget(epsilon=2), "name": "t"}
    full = empty.from_pylist([{"patient": 77, "sex": "F", "cost": 4321.0}], schema=empty.schema)
    assert repr(lw.open(empty, **facts)) == repr(lw.open(full, **facts))  # type: ignore[arg-type]


def test_a_description_in_html_is_escaped_and_shortens_lists() -> None:
    data = pa.table({EVIL: ["a"], "k": [1]})
    curator = lw.open(
        data, name="t", unit=None, values={EVIL: [EVIL], "k": list(range(99))}, budget=lw.Budget(epsilon=1)
    )
    shown = curator._repr_html_()
    assert EVIL not in shown
    assert "0, 1, 2, 3, 4, 5, 6, 7, ... (99)" in shown
    assert "protects every row by itself" in shown


def test_a_curator_is_closed_when_its_block_ends() -> None:
    with opened() as curator:
        assert curator.sql("SELECT COUNT(*) AS n FROM visits", epsilon=1)["n"]
    assert repr(curator).splitlines()[-1] == "Budget: This ledger is closed. Open it again."
    with pytest.raises(lw.Misconfigured, match="closed"):
        curator.sql("SELECT COUNT(*) AS n FROM visits", epsilon=0.5)
