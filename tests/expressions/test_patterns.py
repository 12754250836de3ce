"""Regular expressions of the subset: they compile, mean what RE2 says, and take a pass over the text."""

from __future__ import annotations

import re

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from lapwing.engines.duckdb_dialect import DUCKDB
from lapwing.errors import Refused
from lapwing.expressions.expression import Column, Literal
from lapwing.expressions.operators.base import MOST_TEXT
from lapwing.expressions.operators.text import MOST_PATTERN, REGEXP_MATCHES, REPLACE, SPLIT_PART, is_linear
from lapwing.expressions.to_sqlglot import emit
from lapwing.expressions.types import Type
from support.hostile import apply, engine, leaf
from support.refusals import attempt

SUBSET = [
    "", "abc", "^late: (weather|crew)$", "a.c", "[a-z]+", "[^0-9]", r"\d{3}", r"^\w+@\w+\.com$", "a{2,5}", "a{2,}",
    "x*y?",    "(?:ab|cd)+", "[\\d\\-x]", "|a", "a|", "é+", "()", "(a{9}){9}",
]  # fmt: skip
OUTSIDE = [
    "(", ")", "[", "[]", "a**", "a*?", "*a", "+", "?", "a{", "a{x}", "a{0}", "a{5,2}", "a{999}", "(a{50}){50}", r"\b",
    r"\1", r"(?=a)", r"(?i)a", r"\p{L}", r"(?P<n>a)", "[z-a]", "[[:alpha:]]", "\\", "^*", "$+", "[a-]",
    "a" * (MOST_PATTERN + 1),    r"\x41", r"[\w-z]", "((((a{9}){9}){9}){9})",
]  # fmt: skip


@pytest.mark.parametrize("pattern", SUBSET)
def test_pattern_of_the_subset_is_admitted(pattern: str) -> None:
    assert is_linear(pattern)


@pytest.mark.parametrize("pattern", OUTSIDE)
def test_any_other_pattern_is_refused_before_anything_is_read(pattern: str) -> None:
    assert not is_linear(pattern)
    refused = attempt(apply, REGEXP_MATCHES, Column("s", Type.TEXT), Literal(pattern, Type.TEXT))
    assert isinstance(refused, Refused)
    assert refused.code == "wrong-argument"


def test_pattern_is_a_constant() -> None:
    text = Column("s", Type.TEXT)
    assert isinstance(attempt(apply, REGEXP_MATCHES, text, text), Refused)


@given(st.text(r"ab1.^$|?*+()[]{}\d-,2é", max_size=12), st.text("ab1é-", max_size=8))
@settings(max_examples=300, deadline=None)
def test_admitted_patterns_compile_and_agree_with_another_matcher(pattern: str, text: str) -> None:
    """On texts without line breaks and with ASCII digits, Python's matcher gives the same."""
    if not is_linear(pattern):
        return
    with engine().cursor() as cursor:
        ((found,),) = cursor.execute("SELECT REGEXP_MATCHES(?, ?)", [text, f"({pattern})"]).fetchall()
    assert found == bool(re.search(pattern, text, re.ASCII))


@pytest.mark.parametrize("pattern", ["a.b.*c.d", "abc", "^ab", "a.*b.c"])
def test_pattern_is_not_run_as_like(pattern: str) -> None:
    """threat:A9 DuckDB runs some patterns as LIKE, where % and _ together take time that depends on the text."""
    with engine().cursor() as cursor:
        cursor.execute("CREATE OR REPLACE TEMP TABLE texts (s TEXT)")
        ((_, plan),) = cursor.execute(f"EXPLAIN SELECT REGEXP_MATCHES(s, '({pattern})') FROM texts").fetchall()
    assert "regexp_matches" in plan


@pytest.mark.parametrize(
    "pattern",
    ["(a|a)*b", "(a*)*b", "(a|aa)+$b", "a{99}b", "(.*a){9}b", "[ab]*a[ab]{90}c", "(a?){30}a{30}b"],
)
def test_a_regular_expression_takes_one_pass(pattern: str) -> None:
    """threat:A9 matchers that backtrack need years for these; a hundred thousand characters take a moment."""
    assert is_linear(pattern)
    with engine().cursor() as cursor:
        ((found,),) = cursor.execute(f"SELECT REGEXP_MATCHES(REPEAT('a', 100000), '({pattern})')").fetchall()
    assert found is False


def test_pattern_sees_the_first_characters_only() -> None:
    """threat:A9 so that the work that one text can cause is bounded."""
    text, pattern = Column("text_a", Type.TEXT), Literal("b", Type.TEXT)
    with engine().cursor() as cursor:
        cursor.register("lw_rows", pa.table({"text_a": ["a" * MOST_TEXT + "b", "a" * (MOST_TEXT - 1) + "b"]}))
        met = emit(apply(REGEXP_MATCHES, text, pattern), leaf)
        found = cursor.execute(DUCKDB.write(exp.Select(expressions=[met]).from_("lw_rows")).text).fetchall()
    assert found == [(False,), (True,)]


def test_nested_replace_never_makes_a_text_longer() -> None:
    """threat:A9 twenty nested ones take twenty passes: nothing grows, whatever the text is."""
    text = "REPEAT('ab', 50000)"
    for i in range(20):
        text = f"REPLACE({text}, '{'ab' if i % 2 == 0 else 'ba'}', '{'ba' if i % 2 == 0 else 'ab'}')"
    with engine().cursor() as cursor:
        assert cursor.execute(f"SELECT LENGTH({text})").fetchall() == [(100_000,)]


@pytest.mark.parametrize(
    ("found", "new"), [("a", "aa"), ("", "a"), ("", ""), ("a", "é"), ("ab", "abc"), ("a" * 201, "")]
)
def test_replace_that_could_grow_is_refused(found: str, new: str) -> None:
    constants = (Literal(found, Type.TEXT), Literal(new, Type.TEXT))
    refused = attempt(apply, REPLACE, Column("s", Type.TEXT), *constants)
    assert isinstance(refused, Refused)
    assert refused.code == "wrong-argument"


@pytest.mark.parametrize("operator", [REPLACE, SPLIT_PART], ids=lambda operator: operator.name)
def test_text_functions_take_constants_only(operator: object) -> None:
    text, one = Column("s", Type.TEXT), Literal(1, Type.INTEGER)
    last = Literal("", Type.TEXT) if operator is REPLACE else one
    refused = attempt(apply, operator, text, text, last)  # type: ignore[arg-type]
    assert isinstance(refused, Refused)


def test_a_replacement_that_grows_would_take_years_with_nesting() -> None:
    """The test above has power: in the engine itself every level doubles the text."""
    text = "s"
    for _ in range(5):
        text = f"REPLACE({text}, 'a', 'aa')"
    with duckdb.connect() as plain:
        assert plain.execute(f"SELECT LENGTH({text}) FROM (SELECT REPEAT('a', 100) AS s)").fetchall() == [(3200,)]


def test_split_part_takes_one_pass() -> None:
    """threat:A9 a text that is all separators, and one that has none."""
    with engine().cursor() as cursor:
        for text in ("REPEAT('--', 50000)", "REPEAT('-x', 50000)", "REPEAT('a', 100000)"):
            nested = f"SPLIT_PART(SPLIT_PART({text}, '---', 1), '--', 10000)"
            assert cursor.execute(f"SELECT LENGTH({nested})").fetchall()[0][0] <= 100_000
