"""What a refusal proposes is asked: it gives what DuckDB answers to the question, or says in what it differs."""

from __future__ import annotations

import pytest
from sqlglot import exp

from lapwing.curator import Curator
from lapwing.errors import Refused
from lapwing.sql.precedence import SPELLINGS
from lapwing.sql.refusals import CLAUSES, NAMES, NODES
from support.exact import asked, open_exact, truth
from support.refusals import attempt


@pytest.fixture(scope="module")
def curator() -> Curator:
    return open_exact()


N = "COUNT(*) AS n FROM visits"
CODE = f"{N} WHERE CAST(code AS INTEGER) < 3"
IN_SITES = f"{N} v WHERE v.site IN (SELECT code FROM sites)"
SAME = [
    ("joins", f"{N} v, sites p", f"{N} v JOIN sites p ON v.site = p.code", f"{N} v, sites p WHERE v.site = p.code"),
    (
        "natural",
        "COUNT(*) AS n FROM (SELECT pid, age FROM visits) NATURAL JOIN (SELECT pid, nights FROM stays)",
        "COUNT(*) AS n FROM (SELECT pid, age FROM visits) v JOIN (SELECT pid, nights FROM stays) s USING (pid)",
    ),
    ("exists", f"{N} v WHERE EXISTS (SELECT 1 FROM sites p WHERE p.code = v.site)", IN_SITES),
    (
        "in ON",
        f"{N} v LEFT JOIN stays s ON v.pid = s.pid AND s.site IN (SELECT code FROM sites)",
        f"{N} v LEFT JOIN (SELECT * FROM stays WHERE site IN (SELECT code FROM sites)) s ON v.pid = s.pid",
    ),
    (
        "public first",
        "COUNT(*) AS n FROM sites p LEFT JOIN visits v ON p.code = v.site WHERE v.pid IS NOT NULL",
        f"{N} v JOIN sites p ON p.code = v.site",
    ),
    (
        "mode",
        "MODE(sex) AS m FROM visits WHERE site = 1",
        "sex AS m FROM visits WHERE site = 1 AND sex IS NOT NULL GROUP BY sex ORDER BY COUNT(*) DESC LIMIT 1",
    ),
    ("any", f"{N} WHERE site = ANY ([1, 2])", f"{N} WHERE site IN (1, 2)"),
    ("all", f"{N} WHERE site <> ALL (SELECT 1)", f"{N} WHERE site NOT IN (1)"),
    ("full match", f"{N} WHERE REGEXP_FULL_MATCH(name, 'a.b')", f"{N} WHERE REGEXP_MATCHES(name, '^(a.b)$')"),
    ("similar", f"{N} WHERE name SIMILAR TO 'a.b|bob'", f"{N} WHERE REGEXP_MATCHES(name, '^(a.b|bob)$')"),
    ("glob", f"{N} WHERE name GLOB 'a*'", f"{N} WHERE name LIKE 'a%'"),
    ("escape", f"{N} WHERE name LIKE 'a$_%' ESCAPE '$'", f"{N} WHERE STARTS_WITH(name, 'a_')"),
    ("tuple", f"{N} WHERE (sex, site) = ('F', 1)", f"{N} WHERE sex = 'F' AND site = 1"),
    ("collate", f"{N} WHERE name COLLATE NOCASE = 'ANN'", f"{N} WHERE LOWER(name) = 'ann'"),
    ("slice", f"{N} WHERE name[1:1] = 'a'", f"{N} WHERE SUBSTRING(name, 1, 1) = 'a'"),
    ("subquery", f"{N} WHERE age > (SELECT MIN(age) FROM visits)", f"{N} WHERE age > 20"),
    (
        "columns",
        "COUNT(*) AS n FROM (SELECT age FROM visits) AS t(a) WHERE a > 30",
        "COUNT(*) AS n FROM (SELECT age AS a FROM visits) AS t WHERE a > 30",
    ),
    (
        "list",
        "LIST_SORT(LIST(site)) AS l FROM visits WHERE site = 1",
        "site, COUNT(*) AS n FROM visits WHERE site = 1 GROUP BY site HAVING COUNT(*) > 0",
        "site, COUNT(*) AS n FROM visits WHERE site = 1 GROUP BY site",
    ),
    ("text and number", f"{N} WHERE code < 3", CODE, CODE),
    ("text equals number", f"{N} WHERE code = 3", f"{N} WHERE CAST(code AS INTEGER) = 3"),
    ("text in numbers", f"{N} WHERE code IN (1, 2)", f"{N} WHERE CAST(code AS INTEGER) IN (1, 2)"),
    ("two columns", f"{N} WHERE site = code", f"{N} WHERE site = CAST(code AS INTEGER)"),
    ("truth", f"{N} WHERE sick = 'yes'", f"{N} WHERE sick"),
    ("no truth", f"{N} WHERE sick = 'no'", f"{N} WHERE NOT sick"),
    ("date and time", f'{N} WHERE day > "at"', f'{N} WHERE CAST(day AS TIMESTAMP) > "at"'),
    ("days later", f"{N} WHERE day + 3 > DATE '2020-03-01'", f"{N} WHERE day + INTERVAL 3 DAY > DATE '2020-03-01'"),
    ("days before", f"{N} WHERE day - 3 > DATE '2020-03-01'", f"{N} WHERE day - INTERVAL 3 DAY > DATE '2020-03-01'"),
    (
        "text of a number",
        f"{N} WHERE LOWER(age) = '30'",
        f"{N} WHERE LOWER(CAST(age AS TEXT)) = '30'",
        f"{N} WHERE LOWER(CAST(age AS TEXT)) = '30'",
    ),
    (
        "like",
        f"{N} WHERE age LIKE '3%'",
        f"{N} WHERE CAST(age AS TEXT) LIKE '3%'",
        f"{N} WHERE CAST(age AS TEXT) LIKE '3%'",
    ),
    ("no condition", f"{N} WHERE NOT age", f"{N} WHERE NOT age <> 0", f"{N} WHERE NOT CAST(age AS BOOLEAN)"),
    (
        "sum of text",
        "SUM(code + 1) AS s FROM visits",
        "SUM(CLIP(CAST(code AS INTEGER), 0, 9) + 1) AS s FROM visits",
        "SUM(CAST(code AS INTEGER) + 1) AS s FROM visits",
    ),
    ("logarithm", f"{N} WHERE LOG(3, age) > 3", f"{N} WHERE LN(age) / LN(3) > 3"),
    ("power", f"{N} WHERE POWER(age, 0.5) > 6", f"{N} WHERE EXP(0.5 * LN(age)) > 6"),
    ("clip", "SUM(loose) AS s FROM visits", "SUM(CLIP(loose, -20, 20)) AS s FROM visits"),
    (
        "distinct texts",
        "COUNT(DISTINCT (sex, name)) AS n FROM visits WHERE sex = 'F'",
        "COUNT(DISTINCT sex || ' ' || name) AS n FROM visits WHERE sex = 'F'",
        "COUNT(DISTINCT sex || ' ' || name) AS n FROM visits WHERE sex = 'F'",
    ),
    (
        "ambiguous",
        f"{N} v JOIN visits w USING (pid) WHERE age > 30",
        f"{N} v JOIN visits w USING (pid) WHERE v.age > 30",
        f"{N} v JOIN visits w USING (pid) WHERE v.age > 30",
    ),
    (
        "to_char",
        f"{N} WHERE TO_CHAR(day, 'YYYY-MM') = '2020-03'",
        f"{N} WHERE STRFTIME(day, '%Y-%m') = '2020-03'",
        f"{N} WHERE STRFTIME(day, '%Y-%m') = '2020-03'",
    ),
    (
        "last day",
        f"{N} WHERE LAST_DAY(day) = DATE '2020-03-31'",
        f"{N} WHERE DATE_TRUNC('month', day) + INTERVAL 1 MONTH - INTERVAL 1 DAY = DATE '2020-03-31'",
    ),
    ("position", f"{N} WHERE POSITION('b' IN name) > 0", f"{N} WHERE CONTAINS(name, 'b')"),
    ("instr", f"{N} WHERE INSTR(name, 'b') = 1", f"{N} WHERE STARTS_WITH(name, 'b')"),
    (
        "part of a text",
        f"{N} WHERE name ~ 'o'",
        f"{N} WHERE REGEXP_MATCHES(name, 'o')",
        f"{N} WHERE REGEXP_MATCHES(name, 'o')",
    ),
    (
        "letters of either case",
        f"{N} WHERE name ~* 'AN+'",
        f"{N} WHERE REGEXP_MATCHES(LOWER(name), 'an+')",
        f"{N} WHERE REGEXP_MATCHES(name, 'AN+', 'i')",
    ),
    (
        "intersect",
        "COUNT(*) AS n FROM (SELECT pid FROM visits WHERE age > 30 INTERSECT SELECT pid FROM stays) t",
        "COUNT(DISTINCT pid) AS n FROM visits WHERE age > 30 AND pid IN (SELECT pid FROM stays)",
    ),
    (
        "except",
        "COUNT(*) AS n FROM (SELECT pid FROM visits WHERE age > 30 EXCEPT SELECT pid FROM stays) t",
        "COUNT(DISTINCT pid) AS n FROM visits WHERE age > 30 AND pid NOT IN (SELECT pid FROM stays)",
    ),
    (
        "correlated",
        f"{N} AS t WHERE t.age > (SELECT AVG(v.age) FROM visits v WHERE v.pid = t.pid)",
        f"{N} AS t JOIN (SELECT pid, AVG(age) AS m FROM visits GROUP BY pid) AS u ON u.pid = t.pid WHERE t.age > u.m",
    ),
    (
        "lag",
        "COUNT(*) AS n FROM (SELECT LAG(day) OVER (PARTITION BY pid ORDER BY day) AS b FROM visits) t WHERE b > '2020'",
        f"{N} a JOIN visits b ON a.pid = b.pid AND a.day > b.day",
        f"{N} a JOIN visits b ON a.pid = b.pid AND a.day > b.day",
    ),
    (
        "ntile",
        "q, COUNT(*) AS n FROM (SELECT NTILE(2) OVER (ORDER BY age) AS q FROM visits) t GROUP BY q",
        f"{N} WHERE BUCKET(age, [20, 40, 60]) = '[20, 40)'",
        f"{N} WHERE age >= 20 AND age < 40",
    ),
    ("cast", f"{N} WHERE CAST(age AS DECIMAL(9, 2)) = 30", f"{N} WHERE CAST(age AS DOUBLE) = 30"),
    (
        "spread of a truth",
        "VAR_POP(sick) AS v FROM visits",
        "VAR_POP(CAST(sick AS INTEGER)) AS v FROM visits",
        "VAR_POP(CAST(sick AS INTEGER)) AS v FROM visits",
    ),
]
"""A name, a refused question, what its refusal says to write, and the question for DuckDB if it is another."""


@pytest.mark.parametrize("advice", SAME, ids=[advice[0] for advice in SAME])
def test_the_rewrite_gives_what_the_question_meant(curator: Curator, advice: tuple[str, ...]) -> None:
    _, question, rewrite, *meant = advice
    refused = attempt(curator.preview, f"SELECT {question}", epsilon=1)
    assert isinstance(refused, Refused)
    assert asked(curator, f"SELECT {rewrite}") == truth(f"SELECT {meant[0] if meant else question}"), refused.instead


DIFFERS = {
    f"SELECT {N} v FULL JOIN stays s ON v.pid = s.pid": "leaves out unmatched rows",
    f"SELECT {N} v LEFT JOIN stays s ON v.pid = s.pid AND s.nights < v.age": "leaves unmatched rows out",
    "SELECT COUNT(*) FROM sites p LEFT JOIN visits v ON p.code = v.site": "without a match are then left out",
    f"SELECT {N} USING SAMPLE 10": "all rows are counted",
    f"SELECT {N} WHERE RANDOM() < 0.5": "all rows are counted",
    "SELECT FIRST(age) FROM visits": "which summarise all rows",
    "SELECT ANY_VALUE(age) FROM visits": "which summarise all rows",
    "SELECT MAX_BY(sex, cost) FROM visits": "which summarise all rows",
    "SELECT DISTINCT ON (sex) sex, age FROM visits": "which summarise all rows",
    "SELECT KURTOSIS(age) FROM visits": "other questions",
    "SELECT * FROM visits LIMIT 10": "COUNT(*) with GROUP BY can be sorted and limited. describe() lists the columns",
    "SELECT LAG(age) OVER (PARTITION BY pid ORDER BY day) FROM visits": "For all pairs of rows of one unit",
    "SELECT NTILE(4) OVER (ORDER BY age) FROM visits": "Ask for QUANTILE_CONT(x, 0.25)",
    "SELECT SUM(DISTINCT age) FROM visits": "as often as they occur",
    "SELECT COUNT(*) FROM (SELECT pid FROM visits UNION SELECT pid FROM stays) t": "keeps equal rows",
    f"SELECT {N} WHERE CAST(cost AS TEXT) = '1.25'": "which rounds",
    f"SELECT {N} WHERE at - TIMESTAMP '2020-01-01 00:00:00' > INTERVAL 3 DAY": "turns of the hour",
    f"SELECT {N} v ASOF JOIN stays s ON v.pid = s.pid": "pick rows by their order",
}
"""Questions that have no rewrite of the same meaning, and the words that say in what the proposed one differs."""


@pytest.mark.parametrize("question", DIFFERS)
def test_a_rewrite_of_another_meaning_says_in_what_it_differs(curator: Curator, question: str) -> None:
    refused = attempt(curator.preview, question, epsilon=1)
    assert isinstance(refused, Refused)
    assert DIFFERS[question] in refused.instead


PLAIN = {
    "rollup cube grouping_sets": "each question separately is the same question",
    "laterals into locks materialized offset by_name recursive pivots windows qualify over": "the same, written out",
    "distinct nulls_first order limit_options catalog query except_ except replace": "the reason says what holds",
    "histogram": "an example with edges of its own",
    "now today get_current_timestamp": "a constant for the same date",
}
"""Advice that proposes no other question."""
_ASKED = {
    "joins", "method", "on", "sample", "columns",
    exp.First, exp.Last, exp.AnyValue, exp.ArgMax, exp.ArgMin, exp.Mode, exp.ArrayAgg, exp.GroupConcat,
    exp.Subquery, exp.Select, exp.Any, exp.All, exp.Rand, exp.RegexpFullMatch, exp.SimilarTo, exp.Glob, exp.Escape,
    exp.Bracket, exp.Tuple, exp.Collate, exp.ToChar, exp.LastDay, exp.StrPosition, exp.RegexpILike,
    exp.Lag, exp.Lead, exp.Ntile, exp.PercentRank, exp.CumeDist,
    "any_value", "first", "last", "arbitrary", "max_by", "min_by", "list", "array_agg", "stats",
    "setseed", "uuid", "gen_random_uuid",
}  # fmt: skip
_WRITTEN_OUT = {
    exp.Window, exp.Exists, exp.CurrentDate, exp.CurrentTimestamp, exp.Interval, exp.Star, exp.Array, exp.Placeholder,
    exp.Parameter, exp.IsNan, exp.IsInf,
}  # fmt: skip


def test_every_entry_of_the_tables_of_refusals_is_asked_or_says_that_it_proposes_no_other_question() -> None:
    plain = {word for words in PLAIN for word in words.split()}
    assert {*CLAUSES, *NODES, *NAMES} == _ASKED | _WRITTEN_OUT | plain


MEANT = {
    "!": ("! sick", "NOT sick"),
    "==": ("age == 30", "age = 30"),
    "@": ("@ loose > 3", "ABS(loose) > 3"),
    "^@": ("name ^@ 'a'", "STARTS_WITH(name, 'a')"),
    "~": ("name ~ 'a.*'", "REGEXP_MATCHES(name, '^(a.*)$')"),
    "!~": ("name !~ 'a.*'", "NOT REGEXP_MATCHES(name, '^(a.*)$')"),
    "~~": ("name ~~ 'a%'", "name LIKE 'a%'"),
    "!~~": ("name !~~ 'a%'", "name NOT LIKE 'a%'"),
    "~~*": ("name ~~* 'A%'", "name ILIKE 'A%'"),
    "!~~*": ("name !~~* 'A%'", "name NOT ILIKE 'A%'"),
    "??": ("sick ?? TRUE", "COALESCE(sick, TRUE)"),
    "<=>": ("site <=> 1", "site IS NOT DISTINCT FROM 1"),
}
_NOT_DUCKDB = {"!", "??", "<=>"}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_the_proposed_spelling_of_an_operator_means_the_same(curator: Curator, spelling: str) -> None:
    written, proposed = MEANT[spelling]
    assert isinstance(attempt(curator.preview, f"SELECT {N} WHERE {written}", epsilon=1), Refused)
    meant = proposed if spelling in _NOT_DUCKDB else written
    assert asked(curator, f"SELECT {N} WHERE {proposed}") == truth(f"SELECT {N} WHERE {meant}")
