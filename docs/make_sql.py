"""Writes docs/sql.md from the tables of operators, aggregates and refusals. Run it after a change; a test compares."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from sqlglot import exp

from lapwing.query.aggregates import FUNCTIONS
from lapwing.query.catalog import Catalog, Field, Table
from lapwing.query.expression import Operator
from lapwing.query.operators_base import MOST_SIZE
from lapwing.query.operators_casts import CASTS
from lapwing.query.operators_dates import TEMPORAL
from lapwing.query.operators_logic import LOGIC
from lapwing.query.operators_numbers import NUMERIC
from lapwing.query.operators_text import MOST_TEXT, TEXTUAL
from lapwing.query.relation import MOST_TOTAL
from lapwing.query.sql import MOST_CHARACTERS, MOST_PARTS, read_sql
from lapwing.query.sql_refused import CLAUSES, NAMES, NODES
from lapwing.query.types import Interval, Type
from lapwing.query.verdict import Refusal

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

HEAD = """\
# SQL

Which questions are answered, what they cost, what is refused and what to write instead. Written by `python
docs/make_sql.py` from the tables in the code, so it says what the code does. The same operations are read from
Ibis expressions, and give the same question at the same price.

SQL is read as DuckDB writes it. The text never reaches the engine: what is read becomes a plan, and the plan
becomes the engine's query. A refusal costs nothing and is decided without a look at the data.

## Clauses

| clause | what is read |
|---|---|
| `SELECT` | aggregates, keys of `GROUP BY`, and expressions over both; `AS` names a column |
| `FROM` | one table of the catalog, a sub-query, or a name of `WITH` |
| `WHERE` | any condition over the columns of one row |
| `GROUP BY` | columns, expressions, names or numbers of columns after `SELECT`; not the protected unit |
| `HAVING` | conditions over keys and aggregates. It chooses among released numbers |
| `ORDER BY`, `LIMIT` | of groups, by released numbers or keys; missing values come last |
| `FILTER (WHERE c)` | on any aggregate: only rows where the condition holds take part |
| `WITH`, sub-queries | rows, filtered and computed row by row; or groups, with arithmetic on released numbers |

## Aggregates

| write | what is released |
|---|---|
"""

PRICES = f"""
## Prices

A question is asked at a price (`epsilon=`) or at a precision (`within=`), whatever it says. What it says
decides how far that price goes.

- Every different aggregate takes a part of the price: those after `SELECT`, in `HAVING` and in `ORDER BY`. The
  same aggregate written twice is paid once, and so are `COUNT(x)` and `SUM(x)` beside `AVG(x)`.
- An aggregate that an outer `SELECT` leaves out is not paid.
- Everything computed from released numbers is free: arithmetic, `CASE`, `HAVING`, `ORDER BY`, `LIMIT`, and
  whatever is done with the answer later.
- `SUM` and `AVG` need bounds. They follow from the declared bounds of columns through every operator below:
  `MONTH(d)` lies in 1 to 12, `CASE WHEN c THEN 1 ELSE 0 END` in 0 to 1. `CLIP(x, 0, 100)` bounds anything; the
  tighter, the less noise.
- Asking the same question again costs nothing and gives the same answer.

## Missing values

Every operator gives a value or NULL on every row, whatever the row holds; none can fail. What is not a number,
a date that does not exist, a text that does not read as the wanted type: all are NULL. A row whose argument is
NULL takes no part in its aggregate. Numbers are computed in float64; whole numbers are exact up to 2^53. Texts
that are put together are cut at {MOST_TEXT:,} characters.

## Limits

A question has at most {MOST_CHARACTERS:,} characters and {MOST_PARTS:,} parts; an expression, with sub-queries
written out, {MOST_SIZE:,} parts, all expressions together {MOST_TOTAL:,}.

## Operators

x and y are numbers, n a whole number, s a text, d a date, t a time, c a condition.
"""

GROUPS = {
    "Comparisons, logic and choice": LOGIC,
    "Numbers": NUMERIC,
    "Text": TEXTUAL,
    "Dates and times": TEMPORAL,
    "Casts": CASTS,
}

EXAMPLES = (
    "SELECT sex, COUNT(DISTINCT patient) AS n, AVG(cost) AS mean FROM visits GROUP BY sex",
    "SELECT FLOOR(age / 10) * 10 AS decade, COUNT(*) AS n FROM visits GROUP BY decade ORDER BY decade",
    "SELECT COUNT(*) FILTER (WHERE cost > 1000) / COUNT(*) AS share FROM visits WHERE YEAR(day) = 2020",
    "SELECT DATE_TRUNC('month', day) AS month, SUM(CLIP(cost, 0, 500)) AS s FROM visits GROUP BY 1 HAVING s > 0",
    "WITH adults AS (SELECT * FROM visits WHERE age >= 18) SELECT sex, AVG(LN(cost + 1)) AS m FROM adults GROUP BY sex",
    "SELECT sex, n FROM (SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex) WHERE n > 100 ORDER BY n DESC",
    "SELECT note FROM visits",
    "SELECT MAX(cost) FROM visits",
    "SELECT patient, COUNT(*) FROM visits GROUP BY patient",
    "SELECT COUNT(*) FROM visits WHERE cost > (SELECT AVG(cost) FROM visits)",
    "SELECT AVG(cost) FROM (SELECT cost FROM visits ORDER BY cost LIMIT 10)",
    "SELECT COUNT(*) FROM visits WHERE note LIKE sex",
)


def page() -> str:
    """The whole page."""
    aggregates = "".join(f"| `{f.sql}` | {f.words} |\n" for f in FUNCTIONS.values())
    operators = "".join(f"\n### {title}\n\n{_table(group)}" for title, group in GROUPS.items())
    return HEAD + aggregates + PRICES + operators + _refused() + _examples()


def _table(group: tuple[Operator, ...]) -> str:
    rows = "".join(f"| {_code(operator.sql)} | {_cell(operator.meaning)} |\n" for operator in group)
    return f"| write | what it gives |\n|---|---|\n{rows}"


def _refused() -> str:
    functions = {(_name(node), *reason) for node, reason in NODES.items()}
    functions |= {(f"{name.upper()}()", *reason) for name, reason in NAMES.items()}
    rows = [*dict.fromkeys(CLAUSES.values()), *sorted(functions)]
    table = "".join(f"| {_code(what)} | {_cell(why)} | {_cell(instead)} |\n" for what, why, instead in rows)
    return (
        "\n## Refused\n\nWhatever is not listed above is refused. These are refused with a reason of their own.\n\n"
        f"| written | why it is refused | what to write instead |\n|---|---|---|\n{table}"
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
    exp.AtTimeZone: "AT TIME ZONE",
    exp.Interval: "INTERVAL by itself",
    exp.TimeToStr: "STRFTIME()",
    exp.RegexpLike: "REGEXP_MATCHES()",
    exp.GroupConcat: "STRING_AGG()",
    exp.ApproxDistinct: "APPROX_COUNT_DISTINCT()",
}


def _name(node: type[exp.Expression]) -> str:
    if node in WORDS:
        return WORDS[node]
    return f"{node.sql_names()[0]}()" if issubclass(node, exp.Func) else node.__name__.upper()


def _examples() -> str:
    parts = ["\n## Examples\n\nThe unit is `patient`; `cost` has bounds 0 to 5000, `age` 0 to 120.\n"]
    for text in EXAMPLES:
        read = read_sql(text, CATALOG)
        note = f"Refused. {read}\n" if isinstance(read, Refusal) else _paid(len(read.aggregates))
        parts.append(f"\n```sql\n{text}\n```\n{note}")
    return "".join(parts)


def _paid(count: int) -> str:
    return f"Answered; {count} aggregate{'s take their parts' if count > 1 else ' takes all'} of the price.\n"


def _code(text: str) -> str:
    return f"`{text.replace('|', chr(92) + '|')}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.name} written")
