"""Every operator on hostile rows: it never fails, and what it gives for a row depends on that row only."""

from __future__ import annotations

import contextlib
import inspect
import sys
from functools import cache
from itertools import product
from math import inf, nan
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from lapwing.query.catalog import Catalog, Field, Table
from lapwing.query.language import operators_numbers as numbers
from lapwing.query.language.emission import emit
from lapwing.query.language.expression import Call, Column, Expression, Literal, Operator, walk
from lapwing.query.language.operators import (
    ADD,
    DIVIDE,
    MULTIPLY,
    OPERATORS,
    SUBTRACT,
    bounds_of,
    call,
    is_exact_integer,
    loose,
)
from lapwing.query.language.operators_casts import CASTS
from lapwing.query.language.operators_dates import within_years
from lapwing.query.language.operators_logic import CASE, EQUAL, IS_NULL, LOGIC
from lapwing.query.language.operators_numbers import NUMERIC
from lapwing.query.language.operators_text import JOIN, LENGTH, LIKE, MOST_TEXT
from lapwing.query.question import Question
from lapwing.query.sql import read_sql
from lapwing.query.types import Type
from lapwing.query.verdict import Stop
from support.visits import interval, visits_catalog

HOSTILE: dict[Type, tuple[pa.DataType, list[Any]]] = {
    Type.INTEGER: (pa.int64(), [0, 1, -1, 7, 2**63 - 1, -(2**63), 2**53 + 1, None]),
    Type.REAL: (pa.float64(), [0.0, -0.0, 1.5, -2.5, 1e308, -1e308, 5e-324, nan, inf, -inf, None]),
    Type.TEXT: (
        pa.string(),
        ["", "F", "🦆é\n", "a'b%_", " 12 ", "-1e400", "NaN", "infinity", "2020-02-30", "2020-02-29 23:59:59", None],
    ),
    Type.BOOLEAN: (pa.bool_(), [True, False, None]),
    Type.DATE: (pa.date32(), [0, 18262, 2**31 - 1, -(2**31) + 1, 2**31 - 10, -(2**31) + 10, -719163, 2932897, None]),
    Type.TIMESTAMP: (
        pa.timestamp("us"),
        [0, 1577836799999999, 2**63 - 1, -(2**63) + 1, -(2**63) + 2, 2**62, -(2**62), 253402300800000000, None],
    ),
}  # fmt: skip
FACTS = {kind: values for kind, (_, values) in HOSTILE.items()}


def part() -> str:
    return "test"


def apply(operator: Operator, *arguments: Expression) -> Call:
    return call(operator, *arguments, part=part)


def columns(kind: Type) -> tuple[Column, Column]:
    return Column(f"{kind.value}_a", kind), Column(f"{kind.value}_b", kind)


@cache
def hostile_rows() -> pa.Table:
    """Every pair of hostile values of every type, side by side."""
    pairs = {kind: list(product(values, values)) for kind, values in FACTS.items()}
    pairs[Type.TEXT].append(("x" * 10**6, "é" * 10**6))
    longest = max(map(len, pairs.values()))
    table = {"i": pa.array(range(longest))}
    for kind, found in pairs.items():
        filled = found + [(None, None)] * (longest - len(found))
        for side, name in enumerate("ab"):
            table[f"{kind.value}_{name}"] = pa.array([pair[side] for pair in filled], HOSTILE[kind][0])
    return pa.table(table)


CONSTANTS = (
    *(Literal(value, Type.INTEGER) for value in (0, 1, 3, -2, 10**18 - 1)),
    *(Literal(text, Type.TEXT) for text in ("", "a'b; --", "%🦆_%", "(*[_")),
    Literal(True, Type.BOOLEAN),
    Literal(None, None),
)
LEAVES: tuple[Expression, ...] = (*(column for kind in Type for column in columns(kind)), *CONSTANTS)


@cache
def uses(operator: Operator, most: int = 24) -> tuple[Expression, ...]:
    """The operator on columns, on constants and on NULL, wherever types fit; a fixed sample if there are many."""
    kinds = (*Type, None)
    fitting = [types for arity in (1, 2, 3) for types in product(kinds, repeat=arity) if operator.result(types)]
    random, found = Random(5), set[Expression]()
    for types in random.choices(fitting, k=30 * most):
        arguments = [random.choice([leaf for leaf in LEAVES if leaf.type is kind]) for kind in types]
        with contextlib.suppress(Stop, TypeError):
            found.add(apply(operator, *arguments))
    with_columns = sorted((use for use in found if any(isinstance(p, Column) for p in walk(use))), key=repr)
    return tuple(random.sample(with_columns, min(most, len(with_columns))))


def leaf(expression: Any) -> exp.Expression:
    node = exp.column(expression.name, table="lw_rows", quoted=True)
    return loose(node) if expression.type is Type.REAL else node


def shown(node: exp.Expression, kind: Type | None) -> exp.Expression:
    """A short form that Python can hold: it has no dates beyond its own."""
    text = exp.cast(within_years(node) if kind in (Type.DATE, Type.TIMESTAMP) else node, "TEXT")
    return exp.MD5(this=text) if kind is Type.TEXT else text


def values(rows: pa.Table, expressions: tuple[Expression, ...]) -> dict[int, tuple[Any, ...]]:
    chosen = [exp.column("i", table="lw_rows"), *(shown(emit(e, leaf), e.type) for e in expressions)]
    with engine().cursor() as cursor:
        cursor.register("lw_rows", rows)
        found = cursor.execute(exp.Select(expressions=chosen).from_("lw_rows").sql(dialect="duckdb")).fetchall()
    return {row[0]: tuple(row[1:]) for row in found}


@cache
def engine() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": "1"})


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
        "LN(real_a)",
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
        with contextlib.suppress(Stop, TypeError):
            return apply(operator, *arguments)
    return None


@pytest.mark.parametrize("seed", range(12))
def test_the_deepest_expressions_can_be_printed_and_computed(seed: int) -> None:
    """gate:G53 gate:G14 what reading lets through cannot run out of stack after the charge, nor grow with its depth."""
    random = Random(seed)
    nested = deepest(random.choice([list(OPERATORS), list(NUMERIC), list(LOGIC), list(NUMERIC + CASTS)]), random)
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 700)
    try:
        text = emit(nested, leaf).sql(dialect="duckdb")
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


def one(sql: str, **row: Any) -> Any:
    """The value of one SQL expression on one row."""
    kinds = {
        "x": Type.REAL,
        "y": Type.REAL,
        "n": Type.INTEGER,
        "s": Type.TEXT,
        "c": Type.BOOLEAN,
        "d": Type.DATE,
        "t": Type.TIMESTAMP,
    }
    table = Table("lw_rows", tuple(Field(name, kind) for name, kind in kinds.items()), None)
    question = read_sql(f"SELECT COUNT({sql}) FROM lw_rows", Catalog((table,)))
    assert isinstance(question, Question), f"{sql}: {question}"
    [argument] = question.aggregates[0].arguments
    data = pa.table({name: pa.array([row.get(name)], HOSTILE[kind][0]) for name, kind in kinds.items()})
    with engine().cursor() as cursor:
        cursor.register("lw_rows", data)
        query = exp.Select(expressions=[emit(argument, leaf)]).from_("lw_rows").sql(dialect="duckdb")
        return cursor.execute(query).fetchall()[0][0]


MEANINGS: list[tuple[str, dict[str, Any], Any]] = [
    ("x / y", {"x": 1, "y": 0}, None),
    ("x % y", {"x": 1, "y": 0}, None),
    ("x % 3", {"x": -7}, -1),
    ("x // 2", {"x": -7}, -3),
    ("WIDTH_BUCKET(x, [0, 18])", {"x": 18}, 2),
    ("WIDTH_BUCKET(x, 0, 100, 10)", {"x": -0.5}, 0),
    ("WIDTH_BUCKET(x - x, [0, 18])", {"x": inf}, None),
    ("BUCKET(x, [0, 18])", {"x": 17.9}, "[0, 18)"),
    ("TRUNC(x)", {"x": -7.9}, -7),
    ("x > 1", {"x": nan}, None),
    ("x - x > 1", {"x": inf}, None),
    ("x = x", {"x": nan}, None),
    ("x IS NULL", {"x": nan}, True),
    ("x - x IS NULL", {"x": inf}, True),
    ("COALESCE(x, 5)", {"x": nan}, 5),
    ("COALESCE(x * 0, 5)", {"x": inf}, 5),
    ("GREATEST(x, 3)", {"x": nan}, 3),
    ("LEAST(x, 3, y)", {"y": 2}, 2),
    ("CLIP(x, 0, 10)", {"x": -4}, 0),
    ("CLIP(x, 0, 10)", {"x": inf}, 10),
    ("CLIP(x, 0, 10)", {"x": nan}, None),
    ("CLIP(x, NULL, 10)", {"x": -4}, -4),
    ("CLIP(x, 0, 10)", {}, None),
    ("LN(x)", {"x": 0}, None),
    ("LOG2(x)", {"x": 8}, 3),
    ("LOG(x)", {"x": 100}, 2),
    ("SQRT(x)", {"x": -1}, None),
    ("POWER(x, 3)", {"x": -2}, -8),
    ("x ^ 2", {"x": -3}, 9),
    ("ROUND(x)", {"x": 2.5}, 3),
    ("ROUND(x, -1)", {"x": 26}, 30),
    ("SIGN(x)", {"x": -0.5}, -1),
    ("SIGN(x)", {"x": nan}, None),
    ("ABS(n)", {"n": -(2**63)}, 2.0**63),
    ("CASE WHEN x > 1 THEN 'a' WHEN x > 0 THEN 'b' END", {"x": 0.5}, "b"),
    ("CASE n WHEN 1 THEN 'one' ELSE 'more' END", {"n": 2}, "more"),
    ("IF(c, 1, 2)", {}, 2),
    ("NULLIF(n, 3)", {"n": 3}, None),
    ("c IS TRUE", {}, False),
    ("c IS NOT FALSE", {}, True),
    ("x IS DISTINCT FROM y", {"x": nan}, False),
    ("n NOT IN (1, 2)", {"n": 3}, True),
    ("n BETWEEN 1 AND 3", {"n": 3}, True),
    ("CAST(x AS INTEGER)", {"x": 1e300}, None),
    ("CAST(x AS INTEGER)", {"x": 2.7}, 3),
    ("s::INTEGER", {"s": "12 apples"}, None),
    ("TRY_CAST(s AS DOUBLE)", {"s": "1.5"}, 1.5),
    ("CAST(s AS DOUBLE) IS NULL", {"s": "nan"}, True),
    ("CAST(n + 1 AS TEXT)", {"n": 2}, "3"),
    ("CAST(c AS TEXT)", {"c": True}, "true"),
    ("CAST(d AS TEXT)", {"d": 0}, "1970-01-01"),
    ("CAST(s AS DATE) = '2020-02-29'", {"s": "2020-02-29"}, True),
    ("CAST(s AS DATE)", {"s": "290000-01-01"}, None),
    ("CAST(c AS DOUBLE)", {"c": True}, 1),
    ("CAST(x AS BOOLEAN)", {"x": 0}, False),
    ("s LIKE 'A%'", {"s": "Anna"}, True),
    ("s LIKE 'A_'", {"s": "A"}, False),
    ("s LIKE 'A\\_b'", {"s": "A\\xb"}, True),
    ("s LIKE '_.\n_'", {"s": "x.\n🦆"}, True),
    ("s NOT ILIKE 'a%'", {"s": "Anna"}, False),
    ("s ILIKE 'É_'", {"s": "éa"}, True),
    ("LENGTH(s)", {"s": "🦆é"}, 2),
    ("LENGTH(s)", {"s": "x" * 20_000}, MOST_TEXT),
    ("LEFT(s, 2)", {"s": "🦆éa"}, "🦆é"),
    ("SUBSTRING(s, 2)", {"s": "abc"}, "bc"),
    ("SUBSTR(s, 2, 1)", {"s": "abc"}, "b"),
    ("RIGHT(s, 2)", {"s": "abc"}, "bc"),
    ("TRIM(s) || LTRIM(s) || RTRIM(s)", {"s": " a "}, "aa  a"),
    ("CONCAT(s, 'b', NULL)", {}, "b"),
    ("s || 'b'", {}, None),
    ("STARTS_WITH(s, '%')", {"s": "a"}, False),
    ("CONTAINS(s, 'b')", {"s": "abc"}, True),
    ("ENDS_WITH(s, 'c')", {"s": "abc"}, True),
    ("YEAR(d)", {"d": 18262}, 2020),
    ("YEAR(d)", {"d": 2**31 - 1}, None),
    ("EXTRACT(dow FROM d)", {"d": 18262}, 3),
    ("ISODOW(d)", {"d": 18264 + 2}, 7),
    ("DATE_PART('quarter', d)", {"d": 18262}, 1),
    ("SECOND(t)", {"t": 59_999_999}, 59),
    ("CAST(DATE_TRUNC('month', d) AS TEXT)", {"d": 18300}, "2020-02-01"),
    ("DATE_TRUNC('hour', t) = TIMESTAMP '1970-01-01 01:00:00'", {"t": 3_600_000_001}, True),
    ("DATE_DIFF('month', d, '2020-03-01')", {"d": 18262}, 2),
    ("d - DATE '2019-12-31'", {"d": 18262}, 1),
    ("DATE_DIFF('second', t, t)", {"t": 2**62}, None),
    ("d + INTERVAL 1 MONTH = '2020-02-01'", {"d": 18262}, True),
    ("d - INTERVAL '1 year' = '2019-01-01'", {"d": 18262}, True),
    ("INTERVAL 1 WEEK + d = '2020-01-08'", {"d": 18262}, True),
    ("t + INTERVAL 1 HOUR = '1970-01-01 01:00:00'", {"t": 0}, True),
    ("d + INTERVAL 5000 YEAR", {"d": 2_500_000}, None),
    ("CAST(t AS DATE) = d", {"t": 0, "d": 0}, True),
    ("d = CAST('1970-01-01' AS DATE)", {"d": 0}, True),
    ("CAST(d AS TIMESTAMP) = t", {"t": 0, "d": 0}, True),
]


@pytest.mark.parametrize(("sql", "row", "expected"), MEANINGS, ids=[f"{i}" for i in range(len(MEANINGS))])
def test_operators_mean_what_the_page_says(sql: str, row: dict[str, Any], expected: Any) -> None:
    assert one(sql, **row) == expected, sql


@pytest.mark.parametrize("pattern", ["%a%a%a%a%b", "%" * 99 + "b", "_" * 199, "a" * 99 + "_" * 99])
def test_a_pattern_takes_one_pass(pattern: str) -> None:
    """threat:A9 the engine's own LIKE would need years here, so its time would tell what a row holds."""
    assert one(f"s LIKE '{pattern}'", s="a" * 100_000) is False
    assert one(f"s ILIKE '{pattern}'", s="A" * 100_000) is False


def test_every_character_of_a_pattern_means_itself() -> None:
    """None of them is taken for a part of a regular expression."""
    characters = [chr(i) for i in (*range(1, 128), 0xE9, 0x2028, 0x1F986) if chr(i) not in "%_'"]
    text = Column("s", Type.TEXT)
    fits = [apply(LIKE, text, Literal(f"{c}_", Type.TEXT)) for c in characters]
    for character, fit in zip(characters, fits, strict=True):
        with engine().cursor() as cursor:
            cursor.register("lw_rows", pa.table({"s": [f"{character}x", "", "xx"]}))
            query = exp.Select(expressions=[emit(fit, leaf)]).from_("lw_rows").sql(dialect="duckdb")
            assert [row[0] for row in cursor.execute(query).fetchall()] == [True, False, character == "x"], character


@pytest.mark.parametrize(
    ("operator", "a", "b", "expected"),
    [
        (ADD, (0, 1), (-5, 10), (-5, 11)),
        (SUBTRACT, (0, 1), (-5, 10), (-10, 6)),
        (MULTIPLY, (-2, 3), (-5, 10), (-20, 30)),
        (DIVIDE, (-2, 3), (2, 4), (-1, 1.5)),
        (DIVIDE, (-2, 3), (0, 4), None),
        (DIVIDE, (-2, 3), (-1, 4), None),
        (DIVIDE, (1, 1), (-4, -2), (-0.5, -0.25)),
        (numbers.REMAINDER, (-2, 30), (-4, 7), (-2, 7)),
    ],
)
def test_bounds_follow_the_arithmetic(operator: Operator, a: Any, b: Any, expected: Any) -> None:
    left, right = Column("a", Type.REAL, interval(*a)), Column("b", Type.REAL, interval(*b))
    found = bounds_of(apply(operator, left, right))
    assert found == (None if expected is None else interval(*expected))


BOUNDED = {
    "CLIP(loose, 0, 100)": (0, 100),
    "GREATEST(0, LEAST(loose, 100))": (0, 100),
    "LEAST(GREATEST(loose, 0), 100)": (0, 100),
    "GREATEST(LEAST(loose, 100), -loose)": None,
    "COALESCE(LEAST(GREATEST(loose, 0), 100), 7)": (0, 100),
    "GREATEST(LEAST(COALESCE(loose, 5), 100), 0)": (0, 100),
    "CASE WHEN loose > 5 THEN 1 ELSE 0 END": (0, 1),
    "CASE WHEN sick THEN age END": (0, 120),
    "COALESCE(age, -1)": (-1, 120),
    "NULLIF(age, 5)": (0, 120),
    "ABS(age - 100)": (0, 100),
    "SIGN(loose)": (-1, 1),
    "loose % 7": (-7, 7),
    "MONTH(day)": (1, 12),
    "LENGTH(name)": (0, MOST_TEXT),
    "CAST(sick AS INTEGER)": (0, 1),
    "POWER(age - 20, 2)": (0, 10_000),
    "POWER(age - 20, 3)": (-8000, 1_000_000),
    "SQRT(CLIP(loose, 0, 16))": (0, 4),
    "ROUND(cost / 3, 1)": (0, 33.4),
    "FLOOR(cost / 3)": (0, 33),
    "SQRT(loose)": None,
    "EXP(loose)": None,
    "1 / EXP(CLIP(loose, 0, 0))": (1, 1),
    "age + loose": None,
    "0 * loose": (0, 0),
    "loose": None,
    "CAST(name AS INTEGER)": None,
    "DATE_DIFF('day', day, DATE '2020-01-01')": (-3_652_059, 3_652_059),
    "NULL + 1": (0, 0),
}


@pytest.mark.parametrize("sql", BOUNDED)
def test_bounds_are_found_through_expressions(sql: str) -> None:
    """threat:A7 gate:G16 what cannot be bounded is None, whatever stands around it."""
    expected = BOUNDED[sql]
    question = read_sql(f"SELECT SUM({sql}) FROM visits", visits_catalog())
    assert isinstance(question, Question), question
    found = bounds_of(question.aggregates[0].arguments[0])
    if expected is None:
        assert found is None
    else:
        assert found is not None
        assert [round(float(end), 9) for end in (found.low, found.high)] == list(expected)


def random_number(random: Random, depth: int) -> Expression:
    """A random expression of numbers, over columns of which some are bounded."""
    real, other = columns(Type.REAL)
    whole, _ = columns(Type.INTEGER)
    if depth == 0:
        return random.choice(
            [
                Column(real.name, Type.REAL, interval(-2, 5)),
                Column(other.name, Type.REAL, interval(0.5, 3)),
                Column(whole.name, Type.INTEGER, interval(-3, 7)),
                other,
                Literal(2, Type.INTEGER),
                Literal(-1, Type.INTEGER),
            ]
        )
    while True:
        operator = random.choice([o for o in OPERATORS if o.interval is not None])
        arity = random.choice([1, 2, 3])
        arguments = [random_number(random, depth - 1) for _ in range(arity)]
        if operator is CASE:
            arguments[0] = apply(IS_NULL, arguments[0])
        if operator in (numbers.ROUND, numbers.POWER) and arity == 2:
            arguments[1] = Literal(random.choice([0, 1, 2, 3]), Type.INTEGER)
        if operator is numbers.CLIP and arity == 3:
            arguments[1:] = [Literal(-1, Type.INTEGER), Literal(random.choice([0, 4]), Type.INTEGER)]
        with contextlib.suppress(Stop, TypeError):
            return apply(operator, *arguments)


@pytest.mark.parametrize("seed", range(6))
def test_values_lie_in_the_derived_bounds(seed: int) -> None:
    """gate:G15 computed by the engine from clipped columns, up to the rounding of float64."""
    random = Random(seed)
    expressions = [random_number(random, random.choice([1, 2, 3])) for _ in range(60)]
    bounded = [(e, found) for e in expressions if (found := bounds_of(e)) is not None]
    assert len(bounded) > 15
    with engine().cursor() as cursor:
        cursor.register("lw_rows", hostile_rows())
        chosen = [exp.cast(emit(e, leaf, clipped=True), "DOUBLE") for e, _ in bounded]
        rows = cursor.execute(exp.Select(expressions=chosen).from_("lw_rows").sql(dialect="duckdb")).fetchall()
    for row in rows:
        for (expression, bounds), value in zip(bounded, row, strict=True):
            if value is not None and value == value:
                slack = 1e-9 * (1 + float(bounds.reach))
                assert float(bounds.low) - slack <= value <= float(bounds.high) + slack, expression


def test_missing_bounds_stay_missing() -> None:
    """threat:A7 gate:G16 an unbounded column makes the whole expression unbounded."""
    bounded, free = Column("a", Type.INTEGER, interval(0, 3)), Column("b", Type.INTEGER)
    assert bounds_of(apply(ADD, bounded, free)) is None
    assert bounds_of(apply(MULTIPLY, Literal(1, Type.INTEGER), free)) is None


def test_bounds_of_high_powers_stay_short() -> None:
    """gate:G53 the fractions behind the bounds do not grow with the nesting."""
    nested: Expression = Column("a", Type.REAL, interval(-1 / 3, 7))
    for _ in range(50):
        nested = apply(numbers.POWER, nested, Literal(16, Type.INTEGER))
    assert bounds_of(nested) is None
    small: Expression = Column("a", Type.REAL, interval(0.1, 0.3))
    for _ in range(50):
        small = apply(numbers.POWER, small, Literal(15, Type.INTEGER))
    found = bounds_of(small)
    assert found is not None
    assert found.high.denominator.bit_length() < 2000


def test_whole_numbers_are_exact_up_to_53_bits() -> None:
    small = Column("a", Type.INTEGER, interval(0, 2**26))
    assert is_exact_integer(apply(MULTIPLY, small, small))
    assert not is_exact_integer(apply(MULTIPLY, apply(MULTIPLY, small, small), small))
    assert not is_exact_integer(apply(DIVIDE, small, Literal(2, Type.INTEGER)))


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
    with pytest.raises(Stop):
        apply(operator, *arguments)
