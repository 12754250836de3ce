"""Writes docs/sql.md from the tables of operators, aggregates and refusals. Run it after a change; a test compares."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

from sqlglot import exp

from lapwing.engines.postgres_dialect import postgres_dialect
from lapwing.engines.spark_dialect import SPARK
from lapwing.errors import Refused
from lapwing.expressions.derived import MOST_TABLES
from lapwing.expressions.expression import Operator
from lapwing.expressions.operators.base import MOST_SIZE, MOST_TEXT
from lapwing.expressions.operators.buckets import BUCKETS
from lapwing.expressions.operators.casts import CASTS, FORMATS
from lapwing.expressions.operators.dates import TEMPORAL
from lapwing.expressions.operators.logic import LOGIC
from lapwing.expressions.operators.numbers import NUMERIC
from lapwing.expressions.operators.text import TEXTUAL
from lapwing.expressions.table import Catalog, Field, Table
from lapwing.expressions.to_sqlglot import emit
from lapwing.expressions.types import Interval, Type
from lapwing.plan.aggregates import FUNCTIONS
from lapwing.plan.domain import MOST_RANGE, MOST_TRIED
from lapwing.plan.postprocessed import MOST_PARTS as MOST_RELEASES
from lapwing.plan.row_values import source
from lapwing.sql.joins import MOST_DEGREE
from lapwing.sql.parse import ALIASES, MOST_CHARACTERS, MOST_PARTS
from lapwing.sql.refusals import CLAUSES, NAMES, NODES
from lapwing.sql.relation import MOST_TOTAL
from lapwing.sql.split import read_sql, read_statement

PAGE = Path(__file__).with_name("sql.md")

CATALOG = Catalog(
    (
        Table(
            "visits",
            (
                Field("patient", Type.INTEGER),
                Field("sex", Type.TEXT, values=("F", "M")),
                Field("age", Type.INTEGER, Interval(Fraction(0), Fraction(120))),
                Field("cost", Type.REAL, Interval(Fraction(0), Fraction(5000))),
                Field("note", Type.TEXT),
                Field("day", Type.DATE),
            ),
            "patient",
            rows_per_unit=10,
        ),
    )
)

RELATED = Catalog(
    (
        Table(
            "visits",
            (*CATALOG.tables[0].fields, Field("region", Type.TEXT)),
            "patient",
            rows_per_unit=10,
        ),
        Table(
            "stays",
            (
                Field("patient", Type.INTEGER),
                Field("nights", Type.INTEGER, Interval(Fraction(0), Fraction(30))),
                Field("since", Type.DATE),
            ),
            "patient",
            rows_per_unit=3,
        ),
        Table(
            "regions",
            (
                Field("code", Type.TEXT, values=("N", "S")),
                Field("name", Type.TEXT, values=("north", "south")),
                Field("country", Type.TEXT, values=("NO",)),
            ),
            None,
            public=True,
            keys=(("code",), ("name",)),
        ),
    )
)

HEAD = """\
# SQL

What you can ask, what it costs, what is refused and what to write instead. Generated from the code by `python
docs/make_sql.py`. Ibis expressions support the same operations, at the same price.

The dialect is DuckDB's. The text never reaches the engine: it is parsed into a plan, and the plan becomes the
engine's query. A refusal is free and never depends on the data.
"""

EVERYDAY = (
    (
        "How many patients and visits are there?",
        "SELECT COUNT(DISTINCT patient) AS patients, COUNT(*) AS visits FROM visits",
    ),
    ("What does a visit cost on average, by sex?", "SELECT sex, AVG(cost) FROM visits GROUP BY sex"),
    ("What share of visits is expensive?", "SELECT AVG(cost > 1000) AS share FROM visits"),
    (
        "How many visits in each month?",
        "SELECT STRFTIME(day, '%Y-%m') AS month, COUNT(*) AS n FROM visits GROUP BY month",
    ),
    (
        "What percentage of visits does each sex have?",
        "SELECT sex, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () AS percent FROM visits GROUP BY sex",
    ),
    (
        "How old are the patients?",
        "SELECT BUCKET(age, [0, 18, 40, 65]) AS ages, COUNT(*) AS n FROM visits GROUP BY ages",
    ),
    (
        "Which regions have the most visits?",
        "SELECT r.name, COUNT(*) AS n FROM visits v, regions r WHERE region = code GROUP BY 1 ORDER BY n DESC LIMIT 5",
    ),
    (
        "What do visits of patients with a long stay cost?",
        "SELECT AVG(cost) FROM visits WHERE patient IN (SELECT patient FROM stays WHERE nights > 7)",
    ),
    (
        "How many visits does a patient have?",
        "SELECT AVG(n) FROM (SELECT patient, COUNT(*) AS n FROM visits GROUP BY patient)",
    ),
    ("How many in the last 90 days?", "SELECT COUNT(*) FROM visits WHERE day >= CURRENT_DATE - INTERVAL 90 DAY"),
)
"""What analysts ask first, in words and in SQL."""

COSTS = """
## What is free, and what has a price

| free | priced |
|---|---|
| a refusal, a preview | every distinct aggregate over rows, once |
| the same question again: the stored answer | keys that are not public: they are selected privately |
| everything computed from released numbers: arithmetic, windows, `HAVING`, `ORDER BY`, `LIMIT` \
| what `bounds="auto"` and `limits="auto"` find, once |
| lists of public keys: `SELECT DISTINCT sex` | |
| sub-queries, `WHERE`, joins and everything else below an aggregate | |

[Prices](#prices) has the rules.
"""

PARAMETERS = """
## Parameters

Values can be passed beside the question: `$name` with a mapping, or `?` with a list, in their order.

```python
older = "SELECT COUNT(*) AS n FROM visits WHERE age > $age AND sex = $sex"
curator.sql(older, params={"age": 40, "sex": "F"}, share=0.05)
curator.sql("SELECT COUNT(*) AS n FROM visits WHERE age > ?", params=[40], share=0.05)
```
A value is a constant of the question, never a part of its text: whatever a text contains, it stays one text. It may be
a number, a text, a truth, a date, a timestamp or `None`, and is typed as a constant that is written out. So is the
question: its stored answers serve both. A parameter cannot stand for a table or a column. A batch takes one mapping for
all of its questions.

On the command line (`--param age=40`, once for each) and in notebooks (`%%lapwing --param age=40`) every value is text,
and over HTTP (`"params": {"age": 40}`) dates are: beside a number, a date or a truth a text is read as one.
The ledger shows the question with its values.
"""

CLAUSES_PAGE = """
## Clauses

| clause | what is supported |
|---|---|
| `SELECT` | aggregates, keys of `GROUP BY`, and expressions over both; without `AS` AVG(cost) is named `avg_cost` |
| `SELECT DISTINCT` | of keys: the same as `GROUP BY` without aggregates |
| `FROM` | a table of the catalog, a sub-query or a name from `WITH`, alone or joined |
| `FROM schema.t` | with the schema that is declared for the table, `main` or `public` |
| `JOIN`, `LEFT JOIN`, `RIGHT JOIN` | on equal columns, with `ON a.x = b.y AND ...` or `USING (x)`; parentheses |
| `FROM a, b WHERE a.x = b.y` | the same as `JOIN` |
| `UNION ALL` | of rows, in a sub-query or in `WITH` |
| `WHERE` | any condition over the columns of one row; `IN (SELECT ...)` and `EXISTS`, see below |
| `GROUP BY` | columns, expressions, names or positions of selected columns; not the protected unit |
| `HAVING` | conditions over keys and aggregates; they filter released numbers |
| `ORDER BY`, `LIMIT`, `OFFSET` | of groups, by released numbers or keys; missing values come last |
| `GROUP BY ALL` | all selected columns that are not aggregates |
| `ROLLUP`, `CUBE`, `GROUPING SETS` | each set is a separate question; `GROUPING(k)` is 1 where k is left out |
| `OVER`, `WINDOW`, `QUALIFY` | over released groups: see below |
| `SELECT TOP 10` | `LIMIT 10` |
| `FILTER (WHERE c)` | on any aggregate: only rows where the condition holds count |
| `WITH`, sub-queries | rows, computed row by row; one row per unit; or released groups, see below |

## Aggregates

| write | what is released |
|---|---|
"""

RELATIONS = (
    (
        "Joins",
        f"""\
Join a private table with a public one on a key of the public table: columns whose values are unique. So a private row
has at most one match, and rows never multiply. Single-column keys are found when the public table is loaded; declare
keys of several columns. Values and bounds of public columns are read from the table, so you can group by them
and sum them without declaring anything.

Both sides of `=` are compared as one type: whole numbers as 64-bit integers, or as float64 against a real; text byte by
byte. Public whole numbers above 2^53 are not compared with reals, since several of them share one float64.

Join private tables on the protected unit, and on more columns if you like, so rows of a person match only rows of
the same person. Units are compared as stored. The row limit is the product of both limits; the group limit is the
smaller one, ignoring tables with one row per unit. All limits hold for the joined rows, however many a person has. A
question can join at most {MOST_DEGREE} private tables with several rows per unit, and read {MOST_TABLES} tables.

After an equality, `ON` takes other conditions: any in a `JOIN`, and conditions over one of the two tables in a
`LEFT JOIN` or `RIGHT JOIN`. A row that fails them has no match.
""",
        (
            "SELECT r.name, AVG(v.cost) AS mean FROM visits v JOIN regions r ON v.region = r.code GROUP BY r.name",
            "SELECT COUNT(*) AS n FROM visits v LEFT JOIN regions r ON v.region = r.code WHERE r.code IS NULL",
            "SELECT COUNT(*) AS n FROM visits v LEFT JOIN stays s ON v.patient = s.patient AND s.nights > 7",
            "SELECT SUM(s.nights) AS n FROM visits v JOIN stays s USING (patient) WHERE v.day < s.since",
            "SELECT COUNT(*) AS n FROM visits v JOIN stays s ON v.day = s.since",
            "SELECT COUNT(*) AS n FROM visits v JOIN regions r ON v.region = r.country",
            "SELECT COUNT(*) AS n FROM visits, regions",
        ),
    ),
    (
        "Rows in another table",
        """\
`unit IN (SELECT unit FROM t ...)` and `EXISTS (SELECT 1 FROM t WHERE t.unit = ...)` ask whether a person has rows in
another private table; `x IN (SELECT y FROM p ...)` whether a value is in a column of a public table. `NOT` is the
opposite. They filter the outer rows: they add no rows, and the limits of the outer table apply. NULLs in the sub-query
are dropped first. The sub-query can refer to the outer row only by the unit, and not if each row of a table is a unit.
""",
        (
            "SELECT AVG(cost) AS mean FROM visits WHERE patient IN (SELECT patient FROM stays WHERE nights > 7)",
            "SELECT COUNT(*) AS n FROM visits v WHERE NOT EXISTS (SELECT 1 FROM stays s WHERE s.patient = v.patient)",
            "SELECT COUNT(*) AS n FROM visits WHERE region IN (SELECT code FROM regions WHERE country = 'NO')",
            "SELECT COUNT(*) AS n FROM visits v WHERE EXISTS (SELECT 1 FROM stays s WHERE s.since = v.day)",
        ),
    ),
    (
        "Unions",
        """\
The sides are private rows with the same column names in the same order. A person's rows on all sides count together:
limits add up, and bounds and values cover those of every side.
""",
        (
            "SELECT AVG(x) AS m FROM (SELECT age AS x FROM visits UNION ALL SELECT nights AS x FROM stays)",
            "SELECT COUNT(*) AS n FROM (SELECT patient FROM visits UNION SELECT patient FROM stays)",
        ),
    ),
    (
        "One row per unit",
        """\
A sub-query that groups by the protected unit returns one row per unit, or per unit and key. It releases nothing, so it
has no noise and no price. It supports `COUNT`, `SUM`, `AVG`, `MIN` and `MAX`; sums and averages need bounds.
Outside, a count lies between 0 and `rows_per_unit`, and a sum within `rows_per_unit` times the bounds; where that limit
is not declared, use `CLIP`. `MIN` and `MAX` of whole numbers and dates stay whole numbers and dates: group by them for
cohorts, such as the first month of each unit.
""",
        (
            "SELECT AVG(total) AS m FROM (SELECT patient, SUM(cost) AS total FROM visits GROUP BY patient)",
            "SELECT n, COUNT(*) AS k FROM (SELECT patient, COUNT(*) AS n FROM visits GROUP BY patient) GROUP BY n",
            "SELECT y, COUNT(*) AS n FROM (SELECT patient, MIN(age) AS y FROM visits GROUP BY patient) GROUP BY y",
            "SELECT patient, total FROM (SELECT patient, SUM(cost) AS total FROM visits GROUP BY patient)",
        ),
    ),
)
"""Title, text and examples."""

ABOVE = f"""
## Above the release

Once numbers are released, everything computed from them is free. A statement is split where rows become numbers: each
aggregation of rows is a separate question, and the rest is computed from the answers, in an engine without private
data. At most {MOST_RELEASES} questions fit in a statement.

- **Windows** over groups: `SUM`, `AVG`, `COUNT`, `MIN`, `MAX`, `ROW_NUMBER`, `RANK`, `DENSE_RANK`, `PERCENT_RANK`,
  `CUME_DIST`, `NTILE`, `LAG`, `LEAD`, `FIRST_VALUE`, `LAST_VALUE` and `NTH_VALUE`, with `PARTITION BY`, `ORDER BY` and
  frames of `ROWS`.
- **Aggregates of groups**: `COUNT`, `SUM`, `AVG`, `MIN`, `MAX`, `MEDIAN`, `QUANTILE_CONT`, `STDDEV`, `VARIANCE`,
  `COUNT(DISTINCT x)`, `ARG_MAX`, `ARG_MIN` and `ANY_VALUE`, with `FILTER`, `GROUP BY` and `HAVING`.
- **Joins** of released tables on any condition, `UNION ALL` and `UNION`, `SELECT DISTINCT`.
- **Sub-queries with one number** in `SELECT`, `HAVING` and `WHERE` above a release. Below one, as in
  `WHERE cost > (SELECT AVG(cost) ...)`, they are refused: ask first, then write the number.

A statement with several questions is one batch: the price pays for all that are not stored yet. Each has separate
noise, so totals and groups need not add up. `within=` is for released numbers: use it to ask for the parts first.

Intervals follow by interval arithmetic from intervals that hold for all released numbers together; row-by-row
arithmetic and `LAG` keep those of each number. Ranks and counts of chosen rows have intervals too. A column without
intervals says why.
"""

PRICES = f"""
## Prices

Say how precise the answer must be (`within=`), or which part of the budget to pay (`share=0.05`: twenty such questions
fill it). `epsilon=` states the price itself; in a budget with a delta it buys less than the same share without one.

- Every distinct aggregate in `SELECT`, `HAVING` and `ORDER BY` takes part of the price. An aggregate that occurs twice
  is paid once; `COUNT(x)` and `SUM(x)` are paid with `AVG(x)`.
- An aggregate that an outer `SELECT` drops costs nothing.
- `SELECT town ... GROUP BY town ORDER BY COUNT(*) DESC LIMIT 5` shows no number, so you pay only for the five names:
  they are chosen privately, however many groups a unit is in. If a unit is in fewer groups than you ask for, noisy
  counts choose, because they err less in that case.
- Everything computed from released numbers is free: arithmetic, `CASE`, `HAVING`, `ORDER BY`, `LIMIT`, windows, joins
  of released tables, and anything you do with the answer later.
- `SUM` and `AVG` need bounds. They follow from the declared bounds of columns through every operator below:
  `MONTH(d)` is between 1 and 12, `CASE WHEN c THEN 1 ELSE 0 END` between 0 and 1. `CLIP(x, 0, 100)` bounds anything;
  tighter bounds mean less noise.
- `bounds="auto"` (or `"auto"` in the declaration) spends a share of the price on finding the bounds of columns that
  have none, in the stored table. `limits="auto"` finds how many rows of a unit count in a group, and in how many
  groups. The answer shows what was found; later questions reuse it free. The share is `find_share`, 0.35 by default.
  `within=` works once everything is found. If a search finds nothing reliable, the answer is NULL, only the search is
  charged, and the column `null_because` gives the reason and the price of another search.
- A question whose answer would carry no information is refused before it is charged: a sum, mean or other moment of an
  unbounded `DATE_DIFF`, whose noise is thousands of years wide (write
  `AVG(CLIP(DATE_DIFF('year', born, CURRENT_DATE), 0, 120))`), and, with `assume_rows`, a mean or spread whose interval
  in groups of that size is as wide as its bounds allow. `anyway=True` (`--anyway`, or the field `anyway` over HTTP)
  asks it at the same price.
- Where a limit can leave out rows, groups or values, every answer says so, and 5% of the price (`within=`: 5% more)
  reports how many units exceed it. `check=0` skips this report; a larger share makes it more precise. A report covers
  all rows of the groups, before WHERE, so for a filter it is an upper bound, and later questions over the same keys
  reuse it if it cost at least a quarter of what they would pay. COUNT(DISTINCT unit) is checked for groups only, and
  tables with one row per unit for bounds only. A limit can move a mean, or a sum of positive and negative numbers, in
  either direction, so the report states none.
- `rows=`, `groups=` and `bounds=` choose other limits for one question: [Limits by question](#limits-by-question).
- Half of the price of a quantile pays for its interval. With `intervals=False` all of it goes to the estimate.
- `curator.batch([...], share=...)` asks several questions at one price. Questions over the same rows and keys are
  answered together, and shared parts are paid once. Under basic accounting a batch may also pay delta to compose its
  questions, but only if this saves a larger part of the budget's epsilon than it takes of its delta; the preview says
  so. If some answers of a composed batch are stored, the rest may also pay delta to stay within the price.
- `curator.watch(threshold=100, share=0.1)` opens a session: `session.above("SELECT COUNT(*) FROM ...")` says whether a
  count or sum is above the threshold. You pay once, at the start, for a number of answers "above"; answers "below" are
  free.
- The same question again is free and returns the same answer.

## Limits by question

Noise grows with what one unit may add: `rows_per_unit` rows in each of `groups_per_unit` groups, times the largest
value. The steward declares what a question gets that names none; you may choose other limits for each question, because
the engine enforces whichever the noise is made for:

| term | command line | in place of |
|---|---|---|
| `rows=5` | `--rows 5` | `rows_per_unit` |
| `groups=1` | `--groups 1` | `groups_per_unit` |
| `bounds={{"cost": (0, 500)}}` | `--bounds cost=0:500` | `bounds` of a column; also where none are declared |

- Smaller limits mean less noise, and more of a unit is left out: which of its groups count is decided by a keyed hash
  of unit and group, more rows are cut as in any answer, and values beyond bounds are clipped. Larger limits leave out
  less, with more noise. The price is the same. Declared `unit_bounds` of a total stay as they are.
- `preview.explain()` shows the errors with several limits on groups, which limit adds most to the noise, and the
  argument that helps most. It plans the question again, reads no data and is free. A short preview says the second
  where 20 or more rows of a unit count, and so does the refusal of an answer that would carry no information.
- In a join, and over subqueries, `rows=` and `groups=` replace the limits of each table, and joined rows are held to
  them too. A column that several tables have is named with its table: `bounds={{"visits.cost": (0, 500)}}`.
- A question on other limits is another question: it has its own stored answer, and a retry key stands for its limits.
  So is the check of what they cut. Limits that come to the same, such as `groups=5` where there are two groups, share
  both.
- A choice above a ceiling of the steward (`most_rows`, `most_groups`, `widest`) is refused with both numbers.
- Distributions, marginals and batches take the same terms; in a batch they hold for every question. `groups=` of
  marginals is a number of cells of all columns together.

## Keys

Which groups an answer has follows from the question and from declared facts, never from the rows.

- A column with declared `values` has one group for each; NULL is among them only if it is declared. Rows with other
  values are left out. If the steward declares `other`, every other text is read as `'OTHER'`, which is one more group.
- Whole numbers between declared `bounds` have one group each, up to {MOST_RANGE:,}, and NULL. Conditions have false,
  true and NULL. NULL is a group wherever a key can be NULL, and counts towards `groups_per_unit` like any other.
- Dates and timestamps with declared `bounds`, or compared with constants in `WHERE`, as in `at >= DATE '2024-01-01' AND
  at < DATE '2025-01-01'`, `BETWEEN` or `YEAR(at) = 2024`, have the groups of these days: a date, `CAST(at AS DATE)`,
  `DATE_TRUNC`, `EXTRACT` and `STRFTIME`, up to {MOST_RANGE:,} groups.
- A key computed from such columns has the groups that can occur: `(year // 5) * 5` over 1985 to 2016 has 7, and NULL.
  It is computed for all combinations of values, up to {MOST_TRIED:,}; beyond that it has the whole numbers of its
  interval.
- Parts with known values work too, whatever they are computed from: `h - h % 6` with `HOUR(t)` for h has 4 groups, and
  NULL. So do histograms.
- Columns of public tables have the combinations that occur in their rows, up to 10,000: the codes and names of 16
  airlines make 16 groups. So does a private column joined to one of them. A `LEFT JOIN` adds rows without a match:
  each declared value that the table lacks, and NULL.
- Several keys have all combinations of their groups, even if some cannot occur together.
- Keys without aggregates, `SELECT DISTINCT town`, are listed as declared, free, if they are public. Otherwise the
  whole price selects them.
- Groups of any other key are selected privately, which needs a budget with a delta. If no group is large enough, the
  answer says how large a group must be.

## Missing values

Every operator returns a value or NULL on every row, whatever the row holds; none can fail. NaN, a date that does not
exist, and text that cannot be converted are all NULL. A row whose argument is NULL does not count in its aggregate.
Numbers are computed in float64; whole numbers are exact up to 2^53.

Functions and casts read the first {MOST_TEXT:,} characters of a text, and return at most as many.
Comparisons, `IN`, `CASE`, `COALESCE`, `NULLIF`, `LEAST`, `GREATEST`, keys and `COUNT(DISTINCT s)` use the whole text.

## Limits

A question has at most {MOST_CHARACTERS:,} characters and {MOST_PARTS:,} parts. With sub-queries expanded, an
expression has at most {MOST_SIZE:,} parts, and all expressions together {MOST_TOTAL:,}.

## Operators

x and y are numbers, n is a whole number, s text, d a date, t a timestamp, c a condition.

Besides these: `DAYNAME(d)` and `MONTHNAME(d)` in English; `STRFTIME(d, '%Y-%m')` with a constant format out of
{" ".join(f"`%{letter}`" for letter in FORMATS)}; `PI()`, `DEGREES(x)`, `RADIANS(x)`;
and `CURRENT_DATE`, the date in UTC when the request is built. The answer shows it; the next day is a new question.

A timestamp column with a time zone is in UTC: `HOUR(t)` is the hour in UTC, and so are days and constants beside it.
`t AT TIME ZONE 'Europe/Oslo'` is the local time. Other columns are as they are written, in the zone that
`curator.describe()` shows, if the steward declared one.

A constant takes the type of what it is compared with: `n = '8'`, `c = 1` and `c = 'true'` compare with 8 and with true.
"""

GROUPS = {
    "Comparisons, logic and choice": LOGIC,
    "Numbers": NUMERIC,
    "Histograms": BUCKETS,
    "Text": TEXTUAL,
    "Dates and times": TEMPORAL,
    "Casts": CASTS,
}

EXAMPLES = (
    "SELECT sex, COUNT(DISTINCT patient) AS n, AVG(cost) AS mean FROM visits GROUP BY sex",
    "SELECT BUCKET(age, [0, 18, 65]) AS ages, COUNT(*) AS n FROM visits GROUP BY ages",
    "SELECT COUNT(*) FILTER (WHERE cost > 1000) / COUNT(*) AS share FROM visits WHERE YEAR(day) = 2020",
    "SELECT DATE_TRUNC('month', day) AS month, SUM(CLIP(cost, 0, 500)) AS s FROM visits GROUP BY 1 HAVING s > 0",
    "WITH adults AS (SELECT * FROM visits WHERE age >= 18) SELECT sex, AVG(LN(cost + 1)) AS m FROM adults GROUP BY sex",
    "SELECT sex, n FROM (SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex) WHERE n > 100 ORDER BY n DESC",
    "SELECT note FROM visits",
    "SELECT MODE(cost) FROM visits",
    "SELECT patient, COUNT(*) FROM visits GROUP BY patient",
    "SELECT COUNT(*) FROM visits WHERE cost > (SELECT AVG(cost) FROM visits)",
    "SELECT AVG(cost) FROM (SELECT cost FROM visits ORDER BY cost LIMIT 10)",
    "SELECT COUNT(*) FROM visits WHERE note LIKE sex",
)


def _other_names() -> str:
    """The aliases of aggregates."""
    usual = {"avg": "AVG", "sum": "SUM", "variance": "VARIANCE", "variance_pop": "VAR_POP", "stddev": "STDDEV"}
    named: dict[str, list[str]] = {}
    for alias, node in ALIASES.items():
        name = node.sql_name().lower()
        named.setdefault(usual.get(name, name.upper()), []).append(alias.upper())
    same = "; ".join(f"{', '.join(f'`{alias}`' for alias in aliases)}: `{name}`" for name, aliases in named.items())
    return (
        f"\nOther names for them: {same}; `APPROX_COUNT_DISTINCT`: `COUNT(DISTINCT x)`.\n"
        "A quantile is approximate under every name: `QUANTILE`, `QUANTILE_DISC` and `APPROX_QUANTILE` are\n"
        "`QUANTILE_CONT`. `AVG(c)` of a condition is the share of rows where it holds, `SUM(c)` their number.\n"
    )


def page() -> str:
    """The whole page."""
    aggregates = "".join(f"| `{f.sql}` | {f.words} |\n" for f in FUNCTIONS.values())
    operators = "".join(f"\n### {title}\n\n{_table(group)}" for title, group in GROUPS.items())
    return (
        HEAD
        + _everyday()
        + COSTS
        + PARAMETERS
        + CLAUSES_PAGE
        + aggregates
        + _other_names()
        + _above()
        + _relations()
        + PRICES
        + operators
        + _refused()
        + _examples()
    )


def _table(group: tuple[Operator, ...]) -> str:
    rows = "".join(f"| {_code(one.sql)} | {_cell(one.meaning + _lacking(one))} |\n" for one in group)
    return f"| write | result |\n|---|---|\n{rows}"


_LETTERS = Table(
    "letters",
    (
        *(Field(name, Type.REAL) for name in "xy"),
        Field("n", Type.INTEGER),
        Field("s", Type.TEXT),
        Field("d", Type.DATE),
        Field("t", Type.TIMESTAMP, zone="UTC"),
        Field("c", Type.BOOLEAN),
    ),
    None,
)
"""What this page calls numbers, texts, dates, times and conditions."""


def _lacking(operator: Operator) -> str:
    """A sentence for each engine that does not have the operator, or may not have it."""
    question = read_sql(f"SELECT COUNT(*) FROM letters WHERE ({operator.sql}) IS NULL", Catalog((_LETTERS,)))
    found = ""
    for where, dialect in (("Not on Spark", SPARK), ("Not on every PostgreSQL server", postgres_dialect(None))):
        try:
            dialect.write(emit(question.where, source), copy=False)
        except Refused as refused:
            found += f" {where}: {refused.why} {refused.instead}"
    return found


def _refused() -> str:
    functions = {(_name(node), *reason) for node, reason in NODES.items() if node is not exp.CurrentDate}
    functions |= {(f"{name.upper()}()", *reason) for name, reason in NAMES.items()}
    clauses = [reason for name, reason in CLAUSES.items() if name not in SEVERAL]
    rows = [*dict.fromkeys(clauses), *sorted(functions)]
    table = "".join(f"| {_code(what)} | {_cell(why)} | {_cell(instead)} |\n" for what, why, instead in rows)
    return (
        "\n## Refused\n\nAnything not listed above is refused. These have a reason of their own.\n\n"
        f"| you write | why it is refused | write instead |\n|---|---|---|\n{table}"
    )


WORDS = {
    exp.Subquery: "(SELECT ...)",
    exp.Select: "SELECT inside an expression",
    exp.Window: "OVER ()",
    exp.Rand: "RANDOM()",
    exp.SimilarTo: "SIMILAR TO",
    exp.Star: "SELECT *",
    exp.Placeholder: "?",
    exp.Parameter: "$1",
    exp.Tuple: "(x, y)",
    exp.Array: "[x]",
    exp.Bracket: "s[1]",
    exp.Interval: "INTERVAL by itself",
    exp.RegexpFullMatch: "REGEXP_FULL_MATCH()",
    exp.GroupConcat: "STRING_AGG()",
    exp.ApproxDistinct: "APPROX_COUNT_DISTINCT()",
}


def _name(node: type[exp.Expression]) -> str:
    if node in WORDS:
        return WORDS[node]
    return f"{node.sql_names()[0]}()" if issubclass(node, exp.Func) else node.__name__.upper()


def _everyday() -> str:
    asked = "".join(f"\n{words}\n```sql\n{_wrapped(text)}\n```\n" for words, text in EVERYDAY)
    words = "Each runs as written. The unit is `patient`. The months are not declared: selecting them needs a delta."
    return f"\n## Ten everyday questions\n\n{words}\n{asked}"


def _examples() -> str:
    parts = ["\n## Examples\n\nThe unit is `patient`; `cost` has bounds 0 to 5000, `age` 0 to 120.\n"]
    return "".join([*parts, *(_example(text, CATALOG) for text in EXAMPLES)])


STATEMENTS = (
    "SELECT sex, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () AS share FROM visits GROUP BY sex",
    "SELECT sex, COUNT(*) * 100.0 / (SELECT COUNT(*) FROM visits) AS share FROM visits GROUP BY sex",
    "SELECT sex, age, COUNT(*) AS n FROM visits GROUP BY ROLLUP (sex, age)",
    "SELECT sex, age, COUNT(*) n FROM visits GROUP BY ALL QUALIFY RANK() OVER (PARTITION BY sex ORDER BY n DESC) = 1",
    "SELECT AVG(n) AS mean, MAX(n) AS most FROM (SELECT age, COUNT(*) AS n FROM visits GROUP BY age) WHERE n > 100",
)
SEVERAL = ("rollup", "cube", "grouping_sets", "offset", "qualify", "windows")
"""Clauses that are refused in a batch and in a session only, where a question is one question."""


def _above() -> str:
    return "".join([ABOVE, *(_statement(text) for text in STATEMENTS)])


def _statement(text: str) -> str:
    many = len(read_statement(text, CATALOG).parts)
    parts = "1 question, and the rest is free" if many == 1 else f"{many} questions at one price, and the rest is free"
    return f"\n```sql\n{_wrapped(text)}\n```\nAnswered: {parts}.\n"


def _relations() -> str:
    return "".join(
        f"\n## {title}\n\n{words}{''.join(_example(text, RELATED) for text in examples)}"
        for title, words, examples in RELATIONS
    )


def _wrapped(text: str) -> str:
    """On lines of at most 88 columns, each broken before a clause."""
    head = re.match(r"(.{1,88}) (?=(?:FROM|WHERE|GROUP|HAVING|ORDER|QUALIFY|LEFT|JOIN|SELECT|UNION|AND) )", text)
    return text if len(text) <= 88 or head is None else f"{head[1]}\n{_wrapped(text[head.end() :])}"


def _example(text: str, catalog: Catalog) -> str:
    try:
        note = _paid(len(read_sql(text, catalog).aggregates))
    except Refused as refused:
        note = f"Refused. {refused}\n"
    return f"\n```sql\n{_wrapped(text)}\n```\n{note}"


def _paid(count: int) -> str:
    return f"Answered; {count} aggregate{'s take their parts' if count > 1 else ' takes all'} of the price.\n"


def _code(text: str) -> str:
    return f"`{text.replace('|', chr(92) + '|')}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.name} written")
