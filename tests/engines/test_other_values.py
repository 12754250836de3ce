"""Texts that are not declared are one key, OTHER: every row is in exactly one group, on every engine."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lapwing as lw
from lapwing.curator.fit import facts_of
from lapwing.curator.private_data import declaration
from lapwing.curator.settings import read_settings
from lapwing.engines.dialect import MANY
from lapwing.engines.engine import Origin
from lapwing.errors import Misconfigured
from lapwing.expressions.table import Catalog, Field, Table
from lapwing.expressions.types import Type
from lapwing.plan.plan import Plan, make_plan
from lapwing.plan.question import Question
from lapwing.privacy import Pure
from lapwing.sql import read_sql
from support.cells import exact_cells
from support.hosts import Host

TEXTS = ["a", "A", "a ", "", " ", "é", "e\u0301", "'", '"', "\\", "OTHER", "other", "NULL", "x" * 400, None]
DECLARED = ("a", "", "é", "'", "\\", "NULL")


def make_table(values: tuple[Any, ...] = DECLARED, *, null: bool = True, unit: str | None = "u") -> Table:
    known = (*values, "OTHER", *([None] if null else []))
    fields = (Field("u", Type.INTEGER), Field("s", Type.TEXT, values=known, other=True), Field("x", Type.INTEGER))
    return Table("t", fields, unit, None if unit is None else 3, None if unit is None else 2)


def make_rows(random: Random, size: int) -> list[tuple[int, str | None, int]]:
    return [(random.randrange(size // 4), random.choice(TEXTS), random.randrange(5)) for _ in range(size)]


def arrow(rows: list[tuple[int, str | None, int]]) -> pa.Table:
    u, s, x = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table({"u": pa.array(u, pa.int64()), "s": pa.array(s, pa.string()), "x": pa.array(x, pa.int64())})


def read_as(text: str | None, table: Table) -> str | None:
    return text if text is None or text in table.field("s").values else "OTHER"


def planned(text: str, *tables: Table) -> Plan:
    question = read_sql(text, Catalog(tables))
    assert isinstance(question, Question)
    plan = make_plan(question, Pure(1))
    assert isinstance(plan, Plan), plan
    return plan


@pytest.mark.parametrize("listed", ["few", "many"])
def test_every_row_is_in_one_group(host: Host, listed: str) -> None:
    """Compared with a count in Python, rows as units; few values are written out, and many are a table."""
    values = DECLARED if listed == "few" else (*DECLARED, *(f"v{i}" for i in range(MANY + 1)))
    table, rows = make_table(values, unit=None), make_rows(Random(1), 300)
    engine = host.engine([(table, arrow(rows))])
    plan = planned("SELECT s, COUNT(*) AS n FROM t GROUP BY s", table)
    ((counts,),) = exact_cells(engine, plan).cells
    (domain,) = plan.domain
    expected = Counter(read_as(text, table) for _, text, _ in rows)
    assert dict(zip(domain, counts.tolist(), strict=True)) == {value: expected[value] for value in domain}
    assert sum(counts.tolist()) == len(rows)
    assert domain[-2:] == ("OTHER", None)


@pytest.mark.parametrize(
    ("condition", "meaning"),
    [
        ("s = 'OTHER'", lambda text: text == "OTHER"),
        ("s IN ('a', 'OTHER')", lambda text: text in ("a", "OTHER")),
        ("s <> 'a'", lambda text: text not in ("a", None)),
        ("s IS NULL", lambda text: text is None),
        ("LOWER(s) = 'other'", lambda text: text == "OTHER"),
        ("s = 'A'", lambda _: False),
    ],
)
def test_the_column_reads_so_in_every_part_of_a_question(host: Host, condition: str, meaning: Any) -> None:
    table, rows = make_table(unit=None), make_rows(Random(2), 200)
    engine = host.engine([(table, arrow(rows))])
    ((count,),) = exact_cells(engine, planned(f"SELECT COUNT(*) AS n FROM t WHERE {condition}", table)).cells
    assert count.tolist() == [sum(meaning(read_as(text, table)) for _, text, _ in rows)]


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("s = 'A'", True),
        ("'A' <> s", True),
        ("s IN ('a', 'A')", True),
        ("NOT (x > 1 AND s = 'A')", True),
        ("s = 'a'", False),
        ("s IN ('a', 'OTHER')", False),
        ("s IS NULL", False),
        ("x = 7", False),
    ],
)
def test_a_comparison_that_never_holds_is_noted(where: str, said: bool) -> None:
    note = "`s` is compared with a text that is not declared. Such texts are read as 'OTHER', so no row has it."
    filtered = f"SELECT COUNT(*) FILTER (WHERE {where}) AS n FROM t"
    for question in (f"SELECT COUNT(*) AS n FROM t WHERE {where}", filtered):
        assert (note in planned(question, make_table()).outline.notes) is said


def test_the_note_is_shown_below_the_answer() -> None:
    frame = pd.DataFrame({"u": range(50), "s": ["a", "b"] * 25})
    budget = lw.Budget(epsilon=1)
    curator = lw.open(
        frame, name="t", unit="u", rows_per_unit=1, values={"s": ["a", lw.OTHER]}, budget=budget, ledger=":memory:"
    )
    shown = str(curator.sql("SELECT COUNT(*) AS n FROM t WHERE s = 'b'", epsilon=0.5))
    assert "compared with a text that is not declared" in shown


QUESTIONS = [
    "SELECT s, COUNT(*) AS n FROM t GROUP BY s",
    "SELECT s, SUM(x) AS n FROM t GROUP BY s",
    "SELECT COUNT(*) AS n FROM t WHERE s = 'OTHER'",
    "SELECT COALESCE(s, 'none') AS k, COUNT(*) AS n FROM t GROUP BY k",
    "SELECT COUNT(DISTINCT s) AS n FROM t",
    "SELECT k, COUNT(*) AS n FROM (SELECT u, s AS k FROM t GROUP BY u, s) GROUP BY k",
    "SELECT a.s, COUNT(*) AS n FROM t AS a JOIN t AS b ON a.u = b.u AND a.s = b.s GROUP BY a.s",
]


@pytest.mark.parametrize("text", QUESTIONS)
def test_neighbours_differ_by_no_more_than_the_sensitivity(host: Host, text: str) -> None:
    random, table = Random(3), make_table()
    table = Table("t", (*table.fields[:2], Field("x", Type.INTEGER, lw_bounds())), "u", 3, 2)
    rows = make_rows(random, 60)
    plan = planned(text, table)
    whole = exact_cells(host.engine([(table, arrow(rows))]), plan)
    for unit in sorted({u for u, _, _ in rows})[:3]:
        less = exact_cells(host.engine([(table, arrow([row for row in rows if row[0] != unit]))]), plan)
        for measure, left, right in zip(plan.measures, whole.cells, less.cells, strict=True):
            pairs = zip(left, right, strict=True)
            moved = sum(int(np.abs(a.astype(object) - b.astype(object)).sum()) for a, b in pairs)
            assert moved <= measure.noise.sensitivity


def lw_bounds() -> Any:
    from support.questions import bounds

    return bounds(0, 4)


def opened(values: Any, rows: pa.Table | None = None, **more: Any) -> lw.Curator:
    data = arrow(make_rows(Random(4), 400)) if rows is None else rows
    facts = {"name": "t", "unit": None, "values": {"s": values}, "budget": lw.Budget(epsilon=10**6), **more}
    return lw.open(data, ledger=":memory:", check=0, **facts)


def test_released_groups_add_up_to_all_rows() -> None:
    for values in ([*DECLARED, lw.OTHER, None], (None, lw.OTHER, "a"), np.array(["a", lw.OTHER, None], object)):
        with opened(values) as curator:
            answer = curator.sql("SELECT s, COUNT(*) AS n FROM t GROUP BY s", epsilon=1000)
            assert sum(answer["n"]) == 400
            assert {"OTHER", None} < set(answer["s"])
            assert not any("not counted" in note for note in (answer.methods(), *answer.notes))
    with opened(pd.Series(["a", lw.OTHER])) as curator:
        answer = curator.sql("SELECT s, COUNT(*) AS n FROM t GROUP BY s", epsilon=1000)
        assert "Rows whose `s` is NULL are not counted." in answer.methods()
        assert str(curator.describe()).count("OTHER") == 1
        dummy = curator.dummy().sql("SELECT s, COUNT(*) AS n FROM t GROUP BY s", epsilon=1)
        assert dummy["s"] == ["a", "OTHER"]


def test_distributions_and_marginals_count_it() -> None:
    with opened([*DECLARED, lw.OTHER], groups_per_unit=1) as curator:
        shown = curator.distribution("s", epsilon=1000)
        rows = [text for _, text, _ in make_rows(Random(4), 400)]
        assert sum(round(n) for n in shown["n"]) == sum(text is not None for text in rows)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"s": [lw.OTHER]}, "`s` cannot have OTHER"),
        ({"s": [None, lw.OTHER]}, "`s` cannot have OTHER"),
        ({"x": [1, 2, lw.OTHER]}, "`x` cannot have OTHER: only text"),
        ({"s": ["OTHER", "a", lw.OTHER]}, "contains a value twice"),
    ],
)
def test_other_declarations_are_refused(values: dict[str, Any], why: str) -> None:
    with pytest.raises(Misconfigured, match=why):
        lw.open(arrow([]), unit=None, values=values, budget=lw.Budget(epsilon=1), ledger=":memory:")


def test_it_is_part_of_what_an_answer_is_stored_under() -> None:
    def facts(table: Table) -> str:
        return planned("SELECT COUNT(*) AS n FROM t WHERE s = 'OTHER'", table).outline.identity.text

    with_other, plain = make_table(), make_table()
    plain = Table(
        "t", (plain.fields[0], Field("s", Type.TEXT, values=plain.fields[1].values), plain.fields[2]), "u", 3, 2
    )
    assert len({facts(with_other), facts(plain), facts(make_table(DECLARED[:3]))}) == 3
    noted, unnoted = (declaration(table, Origin(b"", None)).limits["columns"]["s"] for table in (with_other, plain))
    assert noted["other"] is True
    assert "other" not in unnoted


def test_a_settings_file_declares_it(tmp_path: Path) -> None:
    pq.write_table(arrow(make_rows(Random(4), 400)), tmp_path / "t.parquet")
    head = 'budget = {epsilon = 1}\n[tables.t]\nsource = "t.parquet"\nunit = "row"\n[tables.t.columns]\n'
    file = tmp_path / "lapwing.toml"
    file.write_text(head + 's = { type = "text", values = ["a"], other = true, null = true }\n')
    settings = read_settings(file)
    ((table, _),) = settings.tables
    assert table.field("s") == Field("s", Type.TEXT, values=("a", "OTHER", None), other=True)
    outside = [fact for fact in facts_of(settings) if "not among" in fact.fact]
    assert [fact.misfits for fact in outside] == [0]
    for wrong, why in (("other = true", "other"), ('values = ["a"], other = 1.5', "other")):
        file.write_text(head + f's = {{ type = "text", {wrong} }}\n')
        with pytest.raises(Misconfigured, match=rf"columns\.s\.{why}"):
            read_settings(file)
    file.write_text(head + 'x = { type = "integer", values = [1, 2], other = true }\n')
    with pytest.raises(Misconfigured, match="only text"):
        read_settings(file)
