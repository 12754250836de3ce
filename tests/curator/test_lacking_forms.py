"""What an engine lacks is refused by a preview as it is by an answer: nobody plans with a price that cannot be paid."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

import lapwing as lw
from lapwing.engines.dialect import Dialect, Lacking
from lapwing.engines.duckdb import DuckDBEngine
from lapwing.engines.duckdb_dialect import DUCKDB
from lapwing.errors import Refused
from lapwing.expressions import forms

WHY = "This engine has no regular expressions."
PARTIAL = replace(DUCKDB, forms={**DUCKDB.forms, forms.HasMatch: Lacking(WHY, "Use LIKE.")})
ROWS = {"pid": [1, 2, 3], "town": ["oslo", "rome", "oslo"], "cost": [1.5, 2.5, 3.5]}


@pytest.fixture
def curator(monkeypatch: pytest.MonkeyPatch) -> lw.Curator:
    monkeypatch.setattr(DuckDBEngine, "dialect", property(lambda _: PARTIAL))
    return lw.open(
        pa.table(ROWS),
        unit="pid",
        budget=lw.Budget(epsilon=10),
        name="visits",
        rows_per_unit=1,
        bounds={"cost": (0, 10)},
        values={"town": ["oslo", "rome"]},
    )


@pytest.mark.parametrize(
    "question",
    [
        "SELECT COUNT(*) FROM visits WHERE REGEXP_MATCHES(town, 'o+')",
        "SELECT SUM(CASE WHEN REGEXP_MATCHES(town, 'o+') THEN 1 ELSE 0 END) FROM visits",
        "SELECT MEDIAN(cost) FROM visits WHERE NOT REGEXP_MATCHES(town, 'o+')",
    ],
)
def test_a_preview_refuses_what_the_engine_lacks(curator: lw.Curator, question: str) -> None:
    with pytest.raises(Refused, match="no regular expressions") as refused:
        curator.preview(question, epsilon=1)
    assert "Use LIKE" in str(refused.value)
    with pytest.raises(Refused, match="no regular expressions"):
        curator.preview_batch({"a": "SELECT COUNT(*) FROM visits", "b": question}, epsilon=1)
    assert curator.budget.remaining.amount == 10


@pytest.mark.parametrize(
    "question",
    [
        "SELECT town, COUNT(*) FROM visits GROUP BY town",
        "SELECT AVG(cost), MEDIAN(cost) FROM visits WHERE town LIKE 'o%'",
        "SELECT SUM(cost * cost * 7) FROM visits",
        "SELECT town FROM visits GROUP BY town",
    ],
)
def test_other_questions_have_their_price(curator: lw.Curator, question: str) -> None:
    assert curator.preview(question, epsilon=1).lines()


def test_a_dialect_knows_whether_it_lacks_a_form() -> None:
    assert DUCKDB.is_whole
    assert not PARTIAL.is_whole
    assert isinstance(PARTIAL, Dialect)
