"""The dummy: made-up rows of the same schema, the same for all data, on which every accepted question runs."""

from __future__ import annotations

import io
import runpy
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lapwing as lw
from lapwing.curator import Curator
from lapwing.curator.dummy import ROWS, dummy_catalog, dummy_engine, dummy_rows
from lapwing.expressions.table import Catalog, Field, Table
from lapwing.expressions.types import Type
from lapwing.ledger import open_ledger
from support.analyst import births_curator, flights_curator, health_curator
from support.questions import bounds
from support.visits import CANARY, frame, open_visits, visits_catalog

DOCS = Path(__file__).parents[2] / "docs"
MAKER = runpy.run_path(str(DOCS / "make_sql.py"))
ASKED = runpy.run_path(str(Path(__file__).parents[1] / "e2e" / "test_analyst_questions.py"))


def stored(catalog: Catalog) -> bytes:
    """All dummy rows of a catalog as bytes."""
    sink = io.BytesIO()
    for table, rows in dummy_rows(catalog).items():
        sink.write(table.name.encode())
        with pa.ipc.new_stream(sink, rows.schema) as stream:
            stream.write_table(rows)
    return sink.getvalue()


def dummy_of(catalog: Catalog) -> Curator:
    """A dummy of a catalog that has no data; a unit counts in two groups if nothing is said of it."""
    tables = [t if t.by_row or t.groups_per_unit else replace(t, groups_per_unit=2) for t in catalog.tables]
    known = dummy_catalog(Catalog(tuple(tables)))
    return Curator(known, dummy_engine(known), open_ledger(None, lw.Budget(epsilon=10**6, delta=1e-6)))


def test_the_dummy_is_byte_identical_whatever_the_rows_are() -> None:
    """gate:G24"""
    everybody = frame(40)
    others = pa.table({name: everybody[name].filter(pa.array([p != 7 for p in everybody["pid"].to_pylist()]))
                       for name in everybody.column_names})  # fmt: skip
    different = pa.table({"pid": [1, 1, 1], "name": ["x"] * 3, "sex": ["?"] * 3, "site": pa.array([1] * 3, pa.int8()),
                          "cost": [9e9] * 3, "age": [-1] * 3})  # fmt: skip
    seen = set()
    for rows in (everybody, others, different, everybody.slice(0, 0)):
        with open_visits(rows) as curator, curator.dummy() as dummy:
            seen.add(stored(curator.catalog))
            assert stored(dummy.catalog) == stored(curator.catalog)
    assert len(seen) == 1
    assert CANARY.encode() not in seen.pop()


def test_the_dummy_never_asks_the_engine_or_the_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_visits() as curator:
        monkeypatch.setattr(curator._engine, "fetch", lambda *_: pytest.fail("rows were read"))
        with curator.dummy() as dummy:
            dummy.sql("SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex", epsilon=1)
            assert dummy.budget.spent.amount == 1
        assert curator.budget.spent.amount == 0
        assert "reserve" not in [entry.kind for entry in curator.ledger.entries()]


def test_the_rows_keep_to_what_is_declared() -> None:
    (table,) = visits_catalog().tables
    rows = dummy_rows(visits_catalog())[table]
    assert rows.num_rows == ROWS
    assert set(rows["sex"].to_pylist()) == {"F", "M"}
    assert set(rows["site"].to_pylist()) == {9, 10, 1000}
    assert all(0 <= cost <= 100 for cost in rows["cost"].to_pylist())
    assert len(set(rows["pid"].to_pylist())) == ROWS // 2
    assert rows.column_names == [field.name for field in table.fields]


def marked(answer: lw.Release) -> bool:
    """Whether an answer says that it is made up, wherever a person looks."""
    shown = (str(answer), answer._repr_html_(), answer.methods(), answer.to_json(), str(answer.to_pandas().attrs))
    return all("DUMMY" in text for text in shown) and answer.notes[0].startswith("DUMMY")


@pytest.mark.parametrize("place", range(len(MAKER["EVERYDAY"])))
def test_everyday_questions_of_the_page_run(place: int) -> None:
    _, text = MAKER["EVERYDAY"][place]
    with dummy_of(MAKER["RELATED"]) as dummy:
        assert marked(dummy.sql(text, epsilon=1))


def test_examples_of_the_page_run_if_they_are_accepted() -> None:
    with dummy_of(MAKER["CATALOG"]) as dummy:
        assert all(marked(dummy.sql(text, epsilon=1)) for text in MAKER["EXAMPLES"][:6])
        for text in MAKER["EXAMPLES"][6:]:
            with pytest.raises(lw.Refused):
                dummy.sql(text, epsilon=1)


@pytest.mark.parametrize("real", [flights_curator, health_curator, births_curator], ids=lambda real: real.__name__)
def test_what_analysts_ask_runs(real: Callable[[], Curator]) -> None:
    questions = [sql for sql, curator in ASKED["ALL"] if curator.__name__ == real.__name__]
    assert questions
    with real().dummy() as dummy:
        for question in questions:
            answer = dummy.sql(question, epsilon=1)
            assert marked(answer), question


@pytest.mark.parametrize(("sql", "code"), [(sql, code) for sql, code, _ in ASKED["REFUSED"]])
def test_what_is_refused_is_refused_in_the_same_words(sql: str, code: str) -> None:
    with flights_curator().dummy() as dummy:
        said = []
        for curator in (flights_curator(), dummy):
            with pytest.raises(lw.Refused) as refused:
                curator.sql(sql, epsilon=1)
            said.append(str(refused.value))
    assert said[0] == said[1]
    assert refused.value.code == code


def test_prices_and_previews_are_those_of_the_real_tables() -> None:
    asked = "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex"
    with open_visits() as curator, curator.dummy() as dummy:
        real, tried = curator.preview(asked, within=20), dummy.preview(asked, within=20)
        assert tried.cost == real.cost
        assert tried.errors == real.errors
        both = dummy.preview_batch([asked, "SELECT COUNT(*) AS n FROM visits"], epsilon=0.1)
        for shown in (str(tried), tried.explain(), tried.to_dict()["in_words"], str(both)):
            assert shown.count("DUMMY") == 1
        assert "DUMMY" not in str(real)
        assert "made up" in str(dummy.describe())
        assert "made up" not in str(curator.describe())


def test_batches_distributions_and_marginals_are_marked() -> None:
    with open_visits(budget=lw.Budget(epsilon=20), groups_per_unit=1) as curator, curator.dummy() as dummy:
        batch = dummy.batch(
            {"a": "SELECT COUNT(*) AS n FROM visits", "b": "SELECT AVG(age) AS m FROM visits"}, epsilon=1
        )
        assert all(map(marked, batch))
        assert marked(dummy.distribution("age", epsilon=1))
        assert "DUMMY" in repr(dummy.marginals(["sex", "site"], epsilon=1))
        assert "DUMMY" in dummy.marginals(["sex", "site"], epsilon=1).methods()


KINDS = st.sampled_from(list(Type))
EDGES: dict[Type, Any] = {
    Type.INTEGER: (1, 5),
    Type.REAL: (Fraction(1, 3), Fraction(7)),
    Type.DATE: (date(2020, 1, 1), date(2020, 1, 3)),
}


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """Any declared table: units of any type, bounds, values and edges where they may stand."""
    fields = []
    for place, kind in enumerate(draw(st.lists(KINDS, min_size=1, max_size=4))):
        low = draw(st.integers(-1000, 1000))
        within = bounds(low, low + draw(st.integers(0, 50))) if kind.is_number and draw(st.booleans()) else None
        edges = EDGES.get(kind, ())
        fields.append(Field(f"c{place}", kind, within, edges=edges if draw(st.booleans()) else ()))
    unit = draw(st.sampled_from([None, *(field.name for field in fields)]))
    return Table("t", tuple(fields), unit, rows_per_unit=draw(st.sampled_from([None, 1, 2, 9])))


@settings(max_examples=30)
@given(table=tables())
def test_any_declared_table_has_a_dummy_within_its_bounds(table: Table) -> None:
    rows = dummy_rows(Catalog((table,)))[table]
    assert rows.num_rows == ROWS
    for field in table.fields:
        if field.bounds is not None and field.name != table.unit:
            assert all(
                field.bounds.low <= Fraction(value) <= field.bounds.high for value in rows[field.name].to_pylist()
            )
    counted = "COUNT(*)" if table.by_row else f"COUNT(DISTINCT {table.unit})"
    with dummy_of(Catalog((table,))) as dummy:
        assert "DUMMY" in str(dummy.sql(f"SELECT {counted} AS n FROM t", epsilon=1))


@settings(max_examples=30)
@given(
    kinds=st.lists(KINDS, min_size=1, max_size=3),
    listed=st.booleans(),
    composite=st.booleans(),
)
def test_the_keys_of_a_public_table_stay_keys(kinds: list[Type], listed: bool, composite: bool) -> None:
    values = {Type.BOOLEAN: (False, True), Type.INTEGER: (4, 7, None), Type.TEXT: ("a", "b", "c")}
    fields = tuple(Field(f"c{i}", kind, values=values.get(kind, ()) if listed else ()) for i, kind in enumerate(kinds))
    keys = (tuple(field.name for field in fields),) if composite else tuple((field.name,) for field in fields)
    public = Table("p", fields, None, public=True, keys=keys)
    catalog = Catalog((Table("t", fields, None), public))
    rows = dummy_rows(catalog)[public]
    for key in keys:
        seen = rows.select(list(key)).to_pylist()
        assert len({tuple(row.values()) for row in seen}) == len(seen)
        assert seen
    dummy_of(catalog).close()
