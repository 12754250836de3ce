"""Functions of a text see its first characters, the same ones on every engine: a long text takes no longer."""

from __future__ import annotations

import re

import pyarrow as pa
from sqlglot import exp

from lapwing.expressions.operators.base import MOST_TEXT
from lapwing.expressions.operators.table import OPERATORS, sees_start
from lapwing.expressions.table import Catalog, Field, Table
from lapwing.expressions.to_sqlglot import emit
from lapwing.expressions.types import Type
from lapwing.sql import read_sql
from support.hosts import Host

TABLE = Table("t", (Field("pid", Type.INTEGER), Field("s", Type.TEXT), Field("c", Type.TEXT)), "pid", rows_per_unit=1)
TEXTS = [
    start + fill * (MOST_TEXT - len(start)) + end
    for start in ("", "A-", "é", "12", "2020-12-31", "true")
    for fill in ("a", " ", "é", "1", "-")
    for end in ("a", "B-7", " x", "1")
]
ROWS = pa.table({"pid": range(len(TEXTS)), "s": TEXTS, "c": [text[:MOST_TEXT] for text in TEXTS]})
OF_A_TEXT = [operator.sql for operator in OPERATORS if sees_start(operator) and re.search(r"\bs\b", operator.sql)]
MORE = ["CONCAT(s, s)", "UPPER(COALESCE(s, 'x'))", "LENGTH(CASE WHEN pid > 0 THEN s ELSE s END)", "s || s || s"]
NESTED = "((((s || s) || (s || s)) || ((s || s) || (s || s))) || s)"


def test_functions_see_the_first_characters(suite_host: Host) -> None:
    """threat:A9: what a function gives for a text is what it gives for the start of it."""
    asked = [text for text in (*OF_A_TEXT, *MORE, NESTED) if suite_host.name != "spark" or "REGEXP" not in text]
    starts = [re.sub(r"\bs\b", "c", written) for written in asked]
    pairs = zip(asked, starts, strict=True)
    found = counts(suite_host, [f"({written}) IS DISTINCT FROM ({start})" for written, start in pairs])
    assert len(found) >= 24
    assert dict(zip(asked, found, strict=True)) == dict.fromkeys(asked, 0)


def test_comparisons_take_texts_whole_and_no_made_text_is_longer(suite_host: Host) -> None:
    whole = "s > c AND NULLIF(s, c) = s AND GREATEST(s, c) = s AND COALESCE(s, 'x') <> c AND s NOT IN ('x')"
    made = [f"LENGTH({written}) = {MOST_TEXT}" for written in ("s", NESTED)]
    assert counts(suite_host, [whole, *made]) == [len(TEXTS)] * 3


def counts(host: Host, conditions: list[str]) -> list[int]:
    """For how many rows each condition holds."""
    asked = [read_sql(f"SELECT COUNT(*) AS n FROM t WHERE {one}", Catalog((TABLE,))).where for one in conditions]
    nodes = [emit(one, lambda column: exp.column(column.name, quoted=True)) for one in asked if one is not None]  # type: ignore[union-attr]
    cases = [exp.Count(this=exp.Case(ifs=[exp.If(this=node, true=exp.Literal.number(1))])) for node in nodes]
    query = exp.select(*(exp.alias_(case, f"n{i}") for i, case in enumerate(cases))).from_("t")
    engine = host.engine([(TABLE, ROWS)])
    (row,) = engine.fetch(engine.prepare(query)).to_pylist()
    engine.close()
    return [int(value) for value in row.values()]
