"""Operators, literals and names are read as DuckDB reads them.

The differential test writes random expressions without regard to brackets and evaluates our tree of each beside
DuckDB's own reading of the text. Where they differ on purpose, the generator or the comparison leaves it out:
- x / 0, x % 0 and x // 0 are NULL, and so is whatever is no number or beyond float64 (DuckDB: inf, NaN, an error);
- x // y drops the decimals of reals too (DuckDB divides them);
- whole numbers and decimals are computed in float64 (DuckDB: 64 bits, 38 digits), so 1e-9 of a number may differ;
- what DuckDB reads by an implicit cast, such as 1 = TRUE or 'a' || 1, is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from datetime import date
from random import Random
from typing import Any, TypeVar

import duckdb
import pyarrow as pa
import pytest

from lapwing.engines.dialect import ARROW_TYPES
from lapwing.engines.public_values import calculate
from lapwing.errors import Refused
from lapwing.expressions.expression import Call, Expression, walk
from lapwing.expressions.operators.numbers import DIVIDE, REMAINDER
from lapwing.expressions.table import Catalog, Field, Table
from lapwing.expressions.types import Type
from lapwing.plan.question import Question
from lapwing.sql import read_sql
from lapwing.sql.precedence import SPELLINGS
from support.refusals import attempt
from support.sweeps import sweep

T = TypeVar("T")

KINDS = {
    "i": Type.INTEGER,
    "j": Type.INTEGER,
    "x": Type.REAL,
    "y": Type.REAL,
    "s": Type.TEXT,
    "p": Type.BOOLEAN,
    "q": Type.BOOLEAN,
    "d": Type.DATE,
}
ROWS: dict[str, list[Any]] = {
    "i": [20, -7, 0, None, 3, 13, -2, 1],
    "j": [6, 4, -3, 5, None, 0, -8, 2],
    "x": [2.5, -0.5, 7.0, 1.25, -3.0, None, 0.0, 1.5],
    "y": [-1.5, 4.0, None, 2.0, 0.25, 8.0, -6.5, 0.0],
    "s": ["ab", "a", "", None, "b1", "AB", "a%", "bab"],
    "p": [True, False, None, True, False, True, None, False],
    "q": [False, False, True, None, True, True, None, False],
    "d": [date(2020, 1, 31), date(2019, 2, 28), None, date(2000, 2, 29), *[date(2021, 12, 31)] * 4],
}
CATALOG = Catalog((Table("rows_of_t", tuple(Field(name, kind) for name, kind in KINDS.items()), None),))


def read(sql: str) -> Expression | Refused | None:
    """Our tree of an expression; None if it is a constant that COUNT does not look at."""
    question = attempt(read_sql, f"SELECT COUNT({sql}) FROM rows_of_t", CATALOG)
    if isinstance(question, Refused):
        return question
    assert isinstance(question, Question)
    return question.aggregates[0].arguments[0] if question.aggregates[0].arguments else None


def ours(expressions: list[Expression]) -> list[list[Any]]:
    found = calculate(expressions, ROWS, KINDS, 8) if expressions else []
    return [column.to_pylist() for column in found]


@pytest.fixture(scope="module")
def engine() -> Iterator[duckdb.DuckDBPyConnection]:
    connection = duckdb.connect()
    connection.register("rows_of_t", pa.table({n: pa.array(v, ARROW_TYPES[KINDS[n]]) for n, v in ROWS.items()}))
    yield connection
    connection.close()


def theirs(engine: duckdb.DuckDBPyConnection, sqls: list[str]) -> list[list[Any] | duckdb.Error]:
    """DuckDB's own reading of each text: its value in every row, or the error."""
    columns = ", ".join(f"({sql}) AS c{i}" for i, sql in enumerate(sqls))
    try:
        found = engine.execute(f"SELECT {columns} FROM rows_of_t").fetchall()
        return [list(values) for values in zip(*found, strict=True)]
    except duckdb.Error as error:
        if len(sqls) == 1:
            return [error]
        middle = len(sqls) // 2
        return theirs(engine, sqls[:middle]) + theirs(engine, sqls[middle:])


COMPARED = ["#n {c} #n", "#n {c} #n", "#t {c} #t", "#b {c} #b", "d {c} DATE '2020-02-29'", "d + INTERVAL 3 DAY {c} d"]
TRUTHS = [form.format(c=c) for form in COMPARED for c in ("=", "<>", "<", "<=", ">", ">=", "!=")]
TRUTHS += ["#b AND #b", "#b OR #b", "NOT #b", "(#b)"] * 9
TRUTHS += [form.format(no=no) for no in ("", "", "NOT ") for form in (
    "#n {no}BETWEEN #n AND #n", "#n {no}IN (1, 2, -3)", "#n IS {no}NULL", "#b IS {no}TRUE", "#b IS {no}NULL",
    "#n IS {no}DISTINCT FROM #n", "#t {no}LIKE 'a%'", "#t {no}ILIKE 'a%'", "#t ISNULL", "#n NOTNULL",
)]  # fmt: skip
SHARED = ["#n + #n", "#n - #n", "#n * #n", "#n % #n", "#n % #n", "-#n", "- #n", "+#n", "(#n)", "(#n)", "MOD(#n, #n)"]
SHARED += ["ABS(#n)", "COALESCE(#n, #n)", "CASE WHEN #b THEN #n ELSE #n END"]
FORMS = {
    "whole": [*SHARED, *SHARED, "#n // #n", "#n // #n", "#n::INTEGER"],
    "real": [*SHARED, *SHARED, "#n / #n", "#n / #n", "#n::DOUBLE", "#n ^ 2", "#n ** 2", "POWER(#n, 2)"],
    "b": TRUTHS,
    "t": ["#t || #t", "#t || #t", "(#t)", "UPPER(#t)", "COALESCE(#t, #t)"],
}
LEAVES = {
    "whole": ["i", "j", "1", "2", "7", '"i"', "J", "NULL"],
    "real": ["i", "x", "y", "2", "0.5", "3e0", ".25", "1_0", "5.", "X"],
    "b": ["p", "q", "P", "TRUE", "false"],
    "t": ["s", "'a'", "'it''s'", "''", "'%'"],
}


def written(random: Random, kind: str, number: str, depth: int) -> str:
    """A random text of one type; operands are written as they come, mostly without brackets."""
    form = random.choice(LEAVES[kind] if depth <= 0 or random.random() < 0.15 else FORMS[kind])
    kinds = {"n": number, "b": "b", "t": "t"}

    def filled(place: re.Match[str]) -> str:
        return written(random, kinds[place[1]], number, depth - random.choice([1, 2]))

    return re.sub("#([nbt])", filled, form).replace("--", "- -")


def same(mine: Any, yours: Any) -> bool:
    if yours is None or isinstance(yours, str | date | bool):
        return bool(mine == yours)
    if mine is None:
        return not math.isfinite(yours)
    if not math.isfinite(float(yours)):
        return True
    return math.isclose(float(mine), float(yours), rel_tol=1e-9, abs_tol=1e-9)


def texts(count: int, seed: int) -> list[str]:
    random = Random(seed)
    numbers = [random.choice(["whole", "real"]) for _ in range(count)]
    return [written(random, random.choice([number, "b", "b", "t"]), number, 4) for number in numbers]


@pytest.mark.parametrize("seed", sweep(range(8), 1))
def test_random_expressions_mean_what_duckdb_computes(seed: int, engine: duckdb.DuckDBPyConnection) -> None:
    """At least 5,000 in all, with those of `make test-all`."""
    trees = [(text, read(text)) for text in texts(800, seed)]
    readable = [(text, tree) for text, tree in trees if tree is not None and not isinstance(tree, Refused)]
    unreadable, wrong, compared = [], [], 0
    for part in batched(readable, 25):
        values = theirs(engine, [text for text, _ in part])
        for (text, tree), mine, yours in zip(part, ours([tree for _, tree in part]), values, strict=True):
            if isinstance(yours, duckdb.Error):
                unreadable += [text] if isinstance(yours, duckdb.ParserException) else []
            else:
                compared += 1
                differ = {row for row in range(8) if not same(mine[row], yours[row])}
                wrong += [text] if differ and differ - divided_by_zero(tree) else []
    assert unreadable == []
    assert wrong == []
    assert compared >= 5_000 / 8


def divided_by_zero(tree: Expression) -> set[int]:
    """The rows in which some divisor is 0."""
    calls = (part for part in walk(tree) if isinstance(part, Call) and part.operator in (DIVIDE, REMAINDER))
    divisors = ours([part.arguments[1] for part in calls])
    return {row for values in divisors for row, value in enumerate(values) if value == 0}


def batched(values: list[T], size: int) -> list[list[T]]:
    return [values[i : i + size] for i in range(0, len(values), size)]


@pytest.mark.parametrize(
    ("text", "brackets"),
    [
        ("i - i % 6", "i - (i % 6)"),
        ("i * j % 4", "(i * j) % 4"),
        ("i % j * 2", "(i % j) * 2"),
        ("i + j % 4 - 2 * i % 5", "(i + (j % 4)) - ((2 * i) % 5)"),
        ("2 * MOD(i, j)", "2 * (i % j)"),
        ("i % MOD(i, j)", "i % (i % j)"),
        ("i // j % 3", "(i // j) % 3"),
        ("-i % 4", "(-i) % 4"),
        ("-POWER(x, 2)", "-(x ^ 2)"),
        ("-x ^ 2", "(-x) ^ 2"),
        ("i + 1 || s", None),
        ("i % 2 = 0 AND p", "((i % 2) = 0) AND p"),
        ("NOT i = j", "NOT (i = j)"),
        ("NOT p IS NULL", "NOT (p IS NULL)"),
        ("p = NOT q", "p = (NOT q)"),
        ("i IS NOT NULL = p", "(i IS NOT NULL) = p"),
        ("i NOT IN (1) = p", "(i NOT IN (1)) = p"),
        ("p = i BETWEEN 1 AND 2 + 3", "p = (i BETWEEN 1 AND (2 + 3))"),
    ],
)
def test_operators_bind_as_the_brackets_say(text: str, brackets: str | None) -> None:
    assert isinstance(read(text), Refused) if brackets is None else read(text) == read(brackets)


@pytest.mark.parametrize(
    "text",
    [
        "i = j = p",
        "i < j < x",
        "p = i < j",
        "i = j IS NULL",
        "p = i IS NOT NULL",
        "i < j IS TRUE",
        "i IS DISTINCT FROM j = p",
        "s LIKE 'a' LIKE 'b'",
        "i BETWEEN 1 AND 2 BETWEEN FALSE AND TRUE",
    ],
)
def test_a_chain_that_needs_brackets_is_refused(text: str) -> None:
    refusal = read(text)
    assert isinstance(refusal, Refused)
    if refusal.code == "syntax":  # to older parsers such a chain is no SQL at all
        assert text in ("s LIKE 'a' LIKE 'b'", "i BETWEEN 1 AND 2 BETWEEN FALSE AND TRUE")
    else:
        assert (refusal.why, refusal.instead) == (
            "without parentheses the order of operators is ambiguous.",
            "Add parentheses.",
        )


@pytest.mark.parametrize(
    "text", ["p = q IS NULL::BOOLEAN", "i < j IS NOT NULL::INTEGER::BOOLEAN", "p = i NOT NULL :: BOOLEAN"]
)
def test_a_cast_behind_is_null_needs_brackets(text: str) -> None:
    refusal = read(text)
    assert isinstance(refusal, Refused)
    assert refusal.why == "without parentheses it is ambiguous what is cast."


@pytest.mark.parametrize(
    "text", ["p = (q IS NULL)::BOOLEAN", "CAST(q IS NULL AS INTEGER) = i", "COALESCE(i, NULL::INTEGER)"]
)
def test_casts_that_say_what_they_take_are_read(text: str) -> None:
    assert isinstance(read(text), Call)


@pytest.mark.parametrize(
    "text", ["!p", "i ?? j", "i <=> j", "i == j", "s ^@ 'a'", "s ~~ 'a'", "s !~~ 'a'", "s ~~* 'a'", "@ i"]
)
def test_operators_that_duckdb_reads_otherwise_are_refused_with_what_to_write(text: str) -> None:
    refusal = read(text)
    assert isinstance(refusal, Refused)
    assert refusal.why == "this operator is not supported."
    assert refusal.instead in {f"Write {instead}." for instead in SPELLINGS.values()}


@pytest.mark.parametrize(
    "text",
    ["1e5", ".5", "5.", "1_000", "1_0.5", "1e-2", "'it''s'", "'\\n'", "''", "TRUE", "DATE '2020-02-29'", '"I"', "P"],
)
def test_literals_and_names_mean_what_duckdb_reads(text: str, engine: duckdb.DuckDBPyConnection) -> None:
    tree = read(f"CASE WHEN TRUE THEN {text} END")
    assert isinstance(tree, Call)
    [mine], [yours] = ours([tree]), theirs(engine, [text])
    assert isinstance(yours, list)
    assert all(map(same, mine, yours))


@pytest.mark.parametrize("text", ["0x10", "0b11", "E'a\\nb'", "$$a$$", "x'41'", "U&'a'", "1e400"])
def test_literals_of_other_kinds_are_refused(text: str) -> None:
    assert isinstance(read(f"CASE WHEN TRUE THEN {text} END"), Refused)
