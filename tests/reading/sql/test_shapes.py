"""A question that is read by its shape is the one that is read in full, and so is its refusal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from random import Random
from typing import Any

import pytest

from lapwing.catalog.likeness import likeness
from lapwing.catalog.table import Catalog
from lapwing.errors import Refused
from lapwing.language.expression import Literal
from lapwing.language.types import Type
from lapwing.planning.plan import make_outline
from lapwing.planning.question import Question
from lapwing.reading.sql import read_sql, shapes
from lapwing.reading.sql.shapes import ShapeReader, take_apart
from support.questions import make_question, make_table
from support.refusals import attempt
from support.relations import SHAPES, make_world
from support.relations import make_question as make_question_over

TODAY = date(2024, 2, 29)
WHOLE = ("0", "1", "2", "3", "40", "007", "9223372036854775807", "7310582946012077")
REAL = ("0.5", "1.50", "2.0", "1.25", "9223372036854775808.0", "0.000")
PLAIN = ("", "F", "M", "5", "true", "2020-01-01", "a%", "\N{SNOWMAN}", "lw7310582946012077", 'a"b', "1 day", "--", ";")
NUMBERS = ("5.", ".5", "1e5", "1_0", "0x1F", "0b1", "-1", "- 2", "(3)", "+4", "3::INTEGER", "9223372036854775808")
NUMBERS += ("9" * 40, "1" * 400)
TEXTS = ("it''s", "\\", "/*", "\ud800", "2020-13-01", "month", "a\nb", "$1", "\0i", "2.5")
CONSTANT = re.compile(r"'[^']*'|(?<![\w.'\"])[0-9]+(?:\.[0-9]+)?(?![\w.'\"])")


def varied(text: str, random: Random) -> str:
    """The same text with other constants, mostly of the same type."""

    def other(found: re.Match[str]) -> str:
        if random.random() < 0.05:
            return random.choice([*NUMBERS, *WHOLE, *REAL, *(f"'{text}'" for text in (*TEXTS, *PLAIN))])
        if found[0].startswith("'"):
            return f"'{random.choice(PLAIN)}'" if random.random() < 0.7 else found[0]
        return random.choice(REAL if "." in found[0] else WHOLE) if random.random() < 0.7 else found[0]

    return CONSTANT.sub(other, text)


def told(result: Question | Refused) -> Any:
    """All that a question is made of, and all that a refusal says."""
    if isinstance(result, Refused):
        return result.code, result.part, result.why, result.instead, str(result)
    outline = attempt(make_outline, result)
    identity = str(outline) if isinstance(outline, Refused) else outline.identity.text
    return likeness(result), repr(result), result.canonical(), result.facts, result.notes, identity


def assert_same(reader: ShapeReader, catalog: Catalog, text: str, today: date | None = TODAY) -> bool:
    """Whether it is a question."""
    full = attempt(read_sql, text, catalog, today)
    assert told(attempt(reader.read, text, today)) == told(full), text
    return isinstance(full, Question)


def texts(seed: int) -> Iterator[tuple[Catalog, str]]:
    random = Random(seed)
    if seed % 4 == 3:
        catalog = make_world(random).catalog
        for _ in range(3):
            yield catalog, make_question_over(random, random.choice(SHAPES))
    else:
        table = make_table(random, by_row=seed % 2 == 0)
        for _ in range(3):
            yield Catalog((table,)), make_question(random, table)


def compared(seeds: range, variants: int) -> tuple[int, int]:
    """How many questions were compared, and how many shapes with holes there were."""
    many, shaped = 0, 0
    for seed in seeds:
        random = Random(seed)
        for catalog, text in texts(seed):
            reader = ShapeReader(catalog)
            many += sum(assert_same(reader, catalog, varied(text, random)) for _ in range(variants))
            shaped += sum(question is not None for question in reader._questions.values())
    return many, shaped


def test_random_questions_are_those_read_in_full() -> None:
    """threat:A12 thousands of texts, of random shapes and with random constants."""
    many, shaped = compared(range(32), 12)
    assert many > 400
    assert shaped > 40


@pytest.mark.slow
def test_many_more_random_questions_are_those_read_in_full() -> None:
    many, shaped = compared(range(1000, 2000), 20)
    assert many > 10_000
    assert shaped > 2_000


ODD = (
    "SELECT sex, COUNT(*) AS n FROM visits WHERE cost < 1.5 GROUP BY 1 ORDER BY 2 LIMIT 3",
    "SELECT TOP 5 sex, COUNT(*) AS n FROM visits WHERE age > 5 GROUP BY sex",
    "SELECT COUNT(*) AS '5' FROM visits WHERE age > 5",
    'SELECT COUNT(*) AS "n 5" FROM visits WHERE "age" > 5',
    "SELECT COUNT(*) FROM visits WHERE age > 5 -- it's 5",
    "SELECT COUNT(*) FROM visits /* 5 */ WHERE age > 5",
    "SELECT COUNT(*) FROM visits WHERE town = 'a' 'b'",
    "SELECT COUNT(*) FROM visits WHERE town = e'a'",
    "SELECT COUNT(*) FROM visits WHERE town = x'0a' OR sex = 'F'",
    "SELECT COUNT(*) FROM visits WHERE day < DATE '2020-01-01' AND age > 5",
    "SELECT COUNT(*) FROM visits WHERE day < DATE'2020-01-01'",
    "SELECT COUNT(*) FROM visits WHERE day < '2020-01-01' AND cost < 3.5",
    "SELECT COUNT(*) FROM visits WHERE day + INTERVAL 3 DAY > DATE '2020-01-01' AND age > 5",
    "SELECT COUNT(*) FROM visits WHERE day > CURRENT_DATE - 30 AND age > 5",
    "SELECT COUNT(*) FROM visits WHERE day > CURRENT_DATE AND age > 5",
    "SELECT COUNT(*) FROM visits WHERE sick = 1 OR sick = 'true'",
    "SELECT COUNT(*) FROM visits WHERE age = '5' AND cost = '2.5'",
    "SELECT COUNT(*) FROM visits WHERE 5",
    "SELECT COUNT(*) FROM visits WHERE 5 < 6 AND 'a' = 'b'",
    "SELECT COUNT(*) FROM visits WHERE age BETWEEN 1 AND 5 AND sex IN ('F', 'M') AND site NOT IN (1, 2)",
    "SELECT COUNT(*) FROM visits WHERE town LIKE 'a%' AND LEFT(town, 2) = 'os' AND LOG(2, age) > 1",
    "SELECT COUNT(*) FROM visits WHERE (age > 5) = (cost > 2.5)",
    "SELECT COUNT(*) FROM visits WHERE age > 5 = TRUE",
    "SELECT COUNT(*) FROM visits WHERE age % 5 = 2 AND NOT (cost <> 2.5 OR age >= 3)",
    "SELECT COUNT(*) FROM visits WHERE nothing > 5",
    "SELECT COUNT(*) FROM visits WHERE age > 'x'",
    "SELECT COUNT(*) FROM visits WHERE pid IN (SELECT pid FROM visits WHERE age > 5) AND cost < 2.5",
    "SELECT COUNT(*) FROM visits WHERE EXISTS (SELECT 1 FROM visits AS v WHERE v.pid = visits.pid AND v.age > 5)",
    "SELECT COUNT(*) FROM (SELECT * FROM visits WHERE age > 5) AS v WHERE cost < 2.5",
    "WITH v AS (SELECT * FROM visits WHERE age > 5) SELECT COUNT(*) FROM v WHERE cost < 2.5",
    "SELECT COUNT(*) FROM visits AS a JOIN visits AS b ON a.pid = b.pid WHERE a.age > 5",
    "SELECT COUNT(*) FROM visits AS a, visits AS b WHERE a.pid = b.pid AND a.age > 5",
    "SELECT sex, SUM(CASE WHEN age > 5 THEN 1 ELSE 0 END) AS s FROM visits WHERE age > 5 GROUP BY sex HAVING s > 5",
    "SELECT age > 5 AS old, COUNT(*) FROM visits WHERE age > 5 GROUP BY age > 5",
    "SELECT 5 AS five, COUNT(*) + 2 AS n FROM visits WHERE age > 5",
    "SELECT COUNT(*), COUNT(*) FILTER (WHERE age > 5) FROM visits WHERE cost < 2.5",
    "SELECT COUNT(5) FROM visits WHERE cost < 2.5 UNION ALL SELECT COUNT(*) FROM visits WHERE age > 5",
    "SELECT COUNT(*) FROM visits WHERE age > 5;",
    "SELECT COUNT(*) FROM visits WHERE age > 5 OFFSET 2",
    "SELECT COUNT(*) FROM visits WHERE age > 5) OR (1 = 1",
    "SELECT COUNT(*) FROM visits WHERE age == 5 OR age > @5",
    "SELECT COUNT(*) FROM visits WHERE age IS NULL::BOOLEAN AND cost < 2.5",
    "SELECT COUNT(*) FROM visits WHERE ROUND(cost, 1) < 2.5 AND BUCKET(age, [0, 18]) = '< 0'",
)


@pytest.mark.parametrize("text", ODD)
def test_odd_questions_are_those_read_in_full(text: str) -> None:
    """Constants that are names, places, units, parts of dates, aliases, or in comments and sub-queries."""
    catalog = Catalog((make_table(Random(1), by_row=False),))
    reader, random = ShapeReader(catalog), Random(text)
    for number in range(40):
        assert_same(reader, catalog, text if number < 3 else varied(text, random))
        assert_same(reader, catalog, text, None if number % 2 else date(2024, 1, 1 + number % 7))


def read_thrice(text: str) -> tuple[ShapeReader, list[Question]]:
    reader = ShapeReader(Catalog((make_table(Random(1), by_row=False),)))
    return reader, [reader.read(text.format(x=number)) for number in (1.5, 2.5, 3.5)]


def test_a_shape_is_read_once_from_its_second_question_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first pays for nothing that one question alone does not need."""
    calls: list[str] = []
    monkeypatch.setattr(shapes, "read_sql", lambda text, *more: calls.append(text) or read_sql(text, *more))
    reader, questions = read_thrice("SELECT COUNT(*) AS n FROM visits WHERE cost < {x}")
    assert calls == ["SELECT COUNT(*) AS n FROM visits WHERE cost < 1.5"]
    assert len({question.canonical() for question in questions}) == 3
    assert len(reader._questions) == 1


def test_constants_that_are_not_compared_belong_to_the_shape() -> None:
    reader, _ = read_thrice("SELECT SUM(CLIP(cost, 0, {x})) AS s FROM visits WHERE cost < {x}")
    assert {fixed for _, fixed, _ in reader._questions} == {("0", "2.5"), ("0", "3.5")}


def test_a_constant_whose_value_is_needed_is_read_in_full() -> None:
    reader, questions = read_thrice("SELECT COUNT(*) AS n FROM visits WHERE cost < '{x}'")
    assert list(reader._questions.values()) == [None]
    assert questions[0].where != questions[1].where


def test_the_shape_of_a_text() -> None:
    found = take_apart("SELECT 1 FROM t2 WHERE a<2.50 AND b='x''y' OR c1=-3")
    assert found is None  # two quotes in a row
    found = take_apart("SELECT 1 FROM t2 WHERE a<2.50 AND b = 'x y' OR c1=-3")
    assert found is not None
    shape, constants = found
    assert shape == "SELECT \0i FROM t2 WHERE a<\0r AND b = \0s OR c1=-\0i"
    assert [constant.written for constant in constants] == ["1", "2.50", "'x y'", "3"]
    assert constants[2].literal == Literal("x y", Type.TEXT)


def test_no_more_shapes_are_remembered_than_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "REMEMBERED", 3)
    reader = ShapeReader(Catalog((make_table(Random(1), by_row=False),)))
    for number in range(30):
        reader.read(f"SELECT COUNT(*) AS n{number // 3} FROM visits WHERE cost < {number}")
        assert max(len(reader._seen), len(reader._questions)) <= 3
