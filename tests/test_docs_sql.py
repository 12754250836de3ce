"""The page of SQL is made from the tables in the code."""

from __future__ import annotations

import runpy
from datetime import date
from pathlib import Path

import pytest

from lapwing.errors import Refused
from lapwing.expressions.operators.table import OPERATORS
from lapwing.sql import read_sql
from lapwing.sql.refusals import CLAUSES, NAMES, NODES
from lapwing.sql.split import read_statement
from support.refusals import attempt

DOCS = Path(__file__).parents[1] / "docs"
MAKER = runpy.run_path(str(DOCS / "make_sql.py"))


def test_page_of_sql_is_what_the_tables_say() -> None:
    """Run `python docs/make_sql.py` if this fails."""
    assert (DOCS / "sql.md").read_text(encoding="utf-8") == MAKER["page"]()


def test_every_operator_is_on_the_page() -> None:
    listed = [operator for group in MAKER["GROUPS"].values() for operator in group]
    assert sorted(operator.name for operator in listed) == sorted(operator.name for operator in OPERATORS)


def test_every_reason_is_a_sentence_and_says_what_instead() -> None:
    reasons = [*((why, instead) for _, why, instead in CLAUSES.values()), *NODES.values(), *NAMES.values()]
    assert all(why.endswith(".") and instead.endswith(".") for why, instead in reasons)


@pytest.mark.parametrize("place", range(len(MAKER["EXAMPLES"])))
def test_half_of_the_examples_are_answered_and_half_refused(place: int) -> None:
    read = attempt(read_sql, MAKER["EXAMPLES"][place], MAKER["CATALOG"])
    assert isinstance(read, Refused) == (place >= 6)


def test_ten_everyday_questions_come_first_and_are_answered() -> None:
    assert len(MAKER["EVERYDAY"]) == 10
    for _, text in MAKER["EVERYDAY"]:
        assert not isinstance(attempt(read_statement, text, MAKER["RELATED"], date(2024, 2, 29)), Refused), text
    page = MAKER["page"]()
    assert page.index("everyday questions") < page.index("What is free") < page.index("## Clauses")
