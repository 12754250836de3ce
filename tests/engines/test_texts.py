"""The text that DuckDB runs stays what it is: every question of docs/sql.md in full, many random ones as a digest.

duckdb_texts.json holds them. A change of a text is a change of what runs on private rows, so it is meant or it is a
bug; `python tests/engines/test_texts.py` writes the file again, and the new one is read before it is committed.
"""

from __future__ import annotations

import hashlib
import json
import runpy
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlglot import exp

from lapwing.answers.distribution import ask_distribution
from lapwing.answers.marginals import ask_marginals
from lapwing.engines.duckdb_dialect import DUCKDB
from lapwing.engines.public import read_public
from lapwing.engines.source import Frame
from lapwing.errors import Refused
from lapwing.expressions.operators.table import OPERATORS
from lapwing.expressions.table import Catalog, Field, Limit, Table
from lapwing.expressions.types import Interval, Type
from lapwing.plan.aggregates import FUNCTIONS
from lapwing.plan.bounds_search import BoundsOf, LimitOf, powers_query
from lapwing.plan.plan import Plan, Prices, make_plan, priced
from lapwing.plan.query import queries
from lapwing.plan.question import Question
from lapwing.privacy.loss import ZCDP, Pure
from lapwing.sql import read_sql
from support import relations
from support.questions import make_question, make_table

GOLDEN = Path(__file__).with_name("duckdb_texts.json")
PAGE = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "make_sql.py"))
PRICES = (ZCDP(Fraction(1, 2)), ZCDP(Fraction(1, 2), Fraction(1, 10**6)))
SALT = 2015
RANDOM = 300
RELATED = 8  # of each shape

_SHORT = Interval(Fraction(0), Fraction(9))
LETTERS = Table(
    "letters",
    (
        Field("unit", Type.INTEGER),
        *(Field(name, Type.REAL, _SHORT) for name in "xy"),
        Field("n", Type.INTEGER, _SHORT),
        Field("s", Type.TEXT),
        Field("d", Type.DATE),
        Field("t", Type.TIMESTAMP, zone="UTC"),
        Field("c", Type.BOOLEAN, values=(False, True)),
    ),
    "unit",
    rows_per_unit=2,
    groups_per_unit=3,
)
"""What docs/sql.md calls numbers, texts, dates, times and conditions."""


def written(query: exp.Select) -> list[Any]:
    """The text, and the tables of public values beside it."""
    found = DUCKDB.write(query, salt=f"{SALT:x}")
    return [found.text, *(f"{name}: {table.num_rows}" for name, table in found.tables.items())]


def texts_of(plan: Plan) -> list[Any]:
    made = queries(plan)
    return [*([] if made.cells is None else written(made.cells)), *(written(query) for _, query in made.others)]


def asked(text: str, catalog: Catalog) -> list[Any]:
    for price in PRICES:
        with suppress(Refused):
            return texts_of(make_plan(read_sql(text, catalog), price))
    return ["refused"]


def limited(catalog: Catalog) -> Catalog:
    """The tables of the page, with the limit of groups that keys need which are not public."""
    return Catalog(tuple(t if t.public else replace(t, groups_per_unit=2) for t in catalog.tables))


def of_the_page() -> dict[str, Any]:
    """Every question of docs/sql.md, every operator and aggregate on it, and what else runs on rows."""
    related = [text for _, _, examples in PAGE["RELATIONS"] for text in examples]
    found = {text: asked(text, limited(PAGE["CATALOG"])) for text in PAGE["EXAMPLES"]}
    found |= {text: asked(text, limited(PAGE["RELATED"])) for text in related}
    catalog = Catalog((LETTERS,))
    for operator in OPERATORS:
        if operator.name.startswith("at_time_zone"):
            continue  # its text follows the tz database (test_zones.py)
        text = f"SELECT COUNT(*) FROM letters WHERE ({operator.sql}) IS NULL"
        found[f"{operator.name}: {operator.sql}"] = asked(text, catalog)
    for function in FUNCTIONS.values():
        for part in function.sql.replace("), ", ");").split(";"):
            found[part] = asked(f"SELECT c, {part} FROM letters GROUP BY c", catalog)
    return found | of_other_kinds()


def of_other_kinds() -> dict[str, Any]:
    visits = PAGE["RELATED"].table("visits")
    strict = Table("visits", visits.fields, visits.unit, rows_per_unit=3, groups_per_unit=2)
    catalog = Catalog((strict,))
    question = read_sql("SELECT sex, region, COUNT(*) FROM visits WHERE age > 18 GROUP BY sex, region", catalog)
    assert isinstance(question, Question)
    counted = {
        "distribution": ask_distribution(catalog, "cost", table=None, where="sex = 'F'", cells=7),
        "distribution of whole numbers": ask_distribution(catalog, "age", table=None, where=None, cells=None),
        "marginals": ask_marginals(catalog, ["sex", "age", "cost"], table=None, where=None, ways=2, cells=4),
    }
    found = {name: texts_of(priced(one, Prices((Pure(1),))))[0] for name, one in counted.items()}
    many = Table("visits", (Field("k", Type.INTEGER, values=tuple(range(0, 800, 2))),), None)
    found["many keys"] = asked("SELECT k, COUNT(*) FROM visits GROUP BY k", Catalog((many,)))
    for name in ("age", "cost"):
        found[f"bounds of {name}"] = written(powers_query(BoundsOf(strict, strict.field(name))))
    for limit in Limit:
        found[f"limit of {limit.value}"] = written(powers_query(LimitOf(question, None, limit)))
    return found


def at_random(part: int = 1) -> Iterator[tuple[str, str]]:
    """Random questions of support/questions.py and of every shape of support/relations.py, by a digest of the text.

    Of both a part, for example every fourth."""
    for seed in range(0, RANDOM, part):
        random = Random(seed)
        table = make_table(random, by_row=seed % 3 == 0)
        yield f"question {seed}", digest(asked(make_question(random, table), Catalog((table,))))
    for place, shape in enumerate(relations.SHAPES):
        for seed in range(0, RELATED, part):
            random = Random(seed)
            tables = make_table(random, by_row=False), relations.stays_table(random), sites()
            text = relations.make_question(random, shape, hidden=seed % 4 == 0)
            yield f"relation {place}.{seed}", digest(asked(text, Catalog(tables)))


@cache
def sites() -> Table:
    return read_public("sites", Frame(relations.SITES))


def digest(texts: list[Any]) -> str:
    return "refused" if texts == ["refused"] else hashlib.sha256(repr(texts).encode()).hexdigest()[:16]


def golden() -> Any:
    return json.loads(GOLDEN.read_text(encoding="utf-8"))


@cache
def made() -> Any:
    return of_the_page()


@pytest.mark.parametrize("name", golden()["page"] if GOLDEN.exists() else [])
def test_a_question_of_the_page_has_the_same_text(name: str) -> None:
    assert made()[name] == golden()["page"][name]


def test_every_question_of_the_page_has_a_text() -> None:
    assert list(made()) == list(golden()["page"])


def test_random_questions_have_the_same_texts() -> None:
    found, known = dict(at_random(4)), golden()["random"]
    assert len(found) > len(known) / 5
    assert found == {name: known[name] for name in found}


@pytest.mark.slow
def test_all_random_questions_have_the_same_texts() -> None:
    assert dict(at_random()) == golden()["random"]


def test_most_random_questions_have_a_text() -> None:
    digests = list(golden()["random"].values())
    assert digests.count("refused") < len(digests) / 10


if __name__ == "__main__":
    GOLDEN.write_text(
        json.dumps({"page": of_the_page(), "random": dict(at_random())}, indent=1) + "\n", encoding="utf-8"
    )
