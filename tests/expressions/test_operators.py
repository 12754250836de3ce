"""Every operator on hostile rows: it never fails, and what it gives for a row depends on that row only."""

from __future__ import annotations

import contextlib
import inspect
import sys
from functools import cache
from itertools import product
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from lapwing.engines.duckdb_dialect import DUCKDB
from lapwing.errors import Refused
from lapwing.expressions.expression import Call, Column, Expression, Literal, Operator, walk
from lapwing.expressions.operators import numbers
from lapwing.expressions.operators.casts import CASTS
from lapwing.expressions.operators.dates import within_years
from lapwing.expressions.operators.logic import EQUAL, LOGIC
from lapwing.expressions.operators.numbers import ADD, DIVIDE, MULTIPLY, NUMERIC, SUBTRACT
from lapwing.expressions.operators.table import OPERATORS
from lapwing.expressions.operators.text import JOIN, LENGTH, MOST_TEXT
from lapwing.expressions.to_sqlglot import emit
from lapwing.expressions.types import Type
from support.hostile import LEAVES, apply, columns, engine, hostile_rows, leaf
from support.sweeps import sweep


@cache
def uses(operator: Operator, most: int = 24) -> tuple[Expression, ...]:
    """The operator on columns, on constants and on NULL, wherever types fit; a fixed sample if there are many."""
    kinds = (*Type, None)
    fitting = [types for arity in (1, 2, 3) for types in product(kinds, repeat=arity) if operator.result(types)]
    random, found = Random(5), set[Expression]()
    for types in random.choices(fitting, k=30 * most):
        arguments = [random.choice([leaf for leaf in LEAVES if leaf.type is kind]) for kind in types]
        with contextlib.suppress(Refused, TypeError):
            found.add(apply(operator, *arguments))
    with_columns = sorted((use for use in found if any(isinstance(p, Column) for p in walk(use))), key=repr)
    return tuple(random.sample(with_columns, min(most, len(with_columns))))


def shown(node: exp.Expression, kind: Type | None) -> exp.Expression:
    """A short form that Python can hold: it has no dates beyond its own."""
    text = exp.cast(within_years(node) if kind in (Type.DATE, Type.TIMESTAMP) else node, "TEXT")
    return exp.MD5(this=text) if kind is Type.TEXT else text


def values(rows: pa.Table, expressions: tuple[Expression, ...]) -> dict[int, tuple[Any, ...]]:
    chosen = [exp.column("i", table="lw_rows"), *(shown(emit(e, leaf), e.type) for e in expressions)]
    with engine().cursor() as cursor:
        cursor.register("lw_rows", rows)
        found = cursor.execute(DUCKDB.write(exp.Select(expressions=chosen).from_("lw_rows")).text).fetchall()
    return {row[0]: tuple(row[1:]) for row in found}


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.name)
def test_operators_never_fail_and_work_row_by_row(operator: Operator) -> None:
    """gate:G14 threat:A6 threat:A12 the value of a row is the same alone, among others and in any order."""
    rows, expressions = hostile_rows(), uses(operator)
    assert expressions
    together = values(rows, expressions)
    shuffled = Random(3).sample(range(rows.num_rows), rows.num_rows)
    assert values(rows.take(shuffled), expressions) == together
    for some in (rows.slice(0, 40), rows.slice(40, 1), rows.slice(41)):
        assert values(some, expressions).items() <= together.items()


ROWS = st.fixed_dictionaries(
    {
        f"{kind.value}_{side}": st.none() | strategy
        for kind, strategy in {
            Type.INTEGER: st.integers(-(2**63), 2**63 - 1),
            Type.REAL: st.floats(),
            Type.TEXT: st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30),
            Type.BOOLEAN: st.booleans(),
            Type.DATE: st.integers(-(2**31) + 1, 2**31 - 1),
            Type.TIMESTAMP: st.integers(-(2**63) + 2, 2**63 - 1),
        }.items()
        for side in "ab"
    }
)


@given(ROWS, st.sampled_from(OPERATORS))
@settings(max_examples=120, deadline=None)
def test_a_row_alone_and_among_others_gives_the_same(row: dict[str, Any], operator: Operator) -> None:
    """gate:G14 threat:A6"""
    kinds = hostile_rows().schema
    alone = pa.table({f.name: pa.array([row.get(f.name, -1)], f.type) for f in kinds}, schema=kinds)
    others = pa.concat_tables([hostile_rows().slice(7, 20), alone])
    assert values(alone, uses(operator))[-1] == values(others, uses(operator))[-1]


@pytest.mark.parametrize(
    "unguarded",
    [
        *(["LN(real_a)"] if duckdb.__version__.startswith("1.") else []),  # DuckDB 2 gives NaN
        "ABS(integer_a)",
        "integer_a + 1",
        "CAST(real_a AS BIGINT)",
        "CAST(text_a AS DOUBLE)",
        "DATE_TRUNC('month', date_a)",
        "date_a + INTERVAL 1 MONTH",
        "timestamp_a + INTERVAL 9999 MONTH",
        "CAST(date_a AS TIMESTAMP)",
    ],
)
def test_the_rows_are_hostile_enough(unguarded: str) -> None:
    """The engine's own functions fail on these rows, so the tests above have power."""
    with engine().cursor() as cursor, pytest.raises(duckdb.Error):  # noqa: PT012
        cursor.register("lw_rows", hostile_rows())
        cursor.execute(f"SELECT {unguarded} FROM lw_rows").fetchall()


def test_operators_nest_without_failing() -> None:
    """gate:G14 results that are infinite or not a number go through the next operator too."""
    real, other = columns(Type.REAL)
    whole, _ = columns(Type.INTEGER)
    expressions: list[Expression] = [real, other, whole]
    for operator in (MULTIPLY, ADD, SUBTRACT, DIVIDE, MULTIPLY, DIVIDE):
        expressions = [apply(operator, a, b) for a, b in product(expressions[-3:], repeat=2)]
    assert len(values(hostile_rows(), tuple(expressions))) == hostile_rows().num_rows


def deepest(operators: list[Operator], random: Random) -> Expression:
    """Operators inside each other, as many as are allowed."""
    nested: Expression = random.choice(columns(Type.REAL) + columns(Type.INTEGER))
    while True:
        choices = [*random.sample(operators, len(operators)), ADD]
        tried = filter(None, (around(nested, operator, random) for operator in choices * 3))
        wider = next(tried, None)
        if wider is None:
            return nested
        nested = wider


def around(nested: Expression, operator: Operator, random: Random) -> Expression | None:
    """The operator around an expression, if there is a way."""
    for arity in (1, 2, 3):
        arguments = [random.choice(LEAVES) for _ in range(arity)]
        arguments[random.randrange(arity)] = nested
        with contextlib.suppress(Refused, TypeError):
            return apply(operator, *arguments)
    return None


@pytest.mark.parametrize("seed", sweep(range(12), 4))
def test_the_deepest_expressions_can_be_printed_and_computed(seed: int) -> None:
    """gate:G53 gate:G14 what reading lets through cannot run out of stack after the charge, nor grow with its depth."""
    random = Random(seed)
    nested = deepest(random.choice([list(OPERATORS), list(NUMERIC), list(LOGIC), list(NUMERIC + CASTS)]), random)
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 700)
    try:
        text = DUCKDB.write(emit(nested, leaf)).text
    finally:
        sys.setrecursionlimit(before)
    assert isinstance(nested, Call)
    assert len(text) < 1_000 * nested.size
    assert len(values(hostile_rows(), (nested,))) == hostile_rows().num_rows


def test_joined_text_does_not_grow_without_end() -> None:
    text: Expression = columns(Type.TEXT)[0]
    for _ in range(19):
        text = apply(JOIN, text, columns(Type.TEXT)[0])
    found = values(hostile_rows(), (apply(LENGTH, text),))
    assert max(int(row[0]) for row in found.values() if row[0] is not None) == MOST_TEXT


def test_operators_have_names_of_their_own() -> None:
    """Two questions with the same text are the same question, so no two operators share a name."""
    assert len({operator.name for operator in OPERATORS}) == len(OPERATORS)
    assert all(operator.sql and operator.meaning.endswith(".") and operator.takes for operator in OPERATORS)


@pytest.mark.parametrize(
    ("operator", "arguments"),
    [
        (numbers.ROUND, (columns(Type.REAL)[0], columns(Type.INTEGER)[0])),
        (numbers.POWER, (columns(Type.REAL)[0], Literal(17, Type.INTEGER))),
        (numbers.CLIP, (columns(Type.REAL)[0], Literal(3, Type.INTEGER), Literal(2, Type.INTEGER))),
        (EQUAL, (columns(Type.DATE)[0], columns(Type.TIMESTAMP)[0])),
        (EQUAL, (columns(Type.TEXT)[0], columns(Type.REAL)[0])),
    ],
)
def test_arguments_that_would_not_be_total_are_refused(operator: Operator, arguments: tuple[Expression, ...]) -> None:
    with pytest.raises(Refused):
        apply(operator, *arguments)
