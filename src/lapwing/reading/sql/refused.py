"""What is refused in SQL, why, and what to write instead. The page docs/sql.md is made from these tables."""

from __future__ import annotations

from typing import NoReturn

from sqlglot import Dialect, exp

from lapwing.language.refusal import refuse

DIALECT = Dialect.get_or_raise("duckdb")
"""The SQL that analysts write, whatever engine holds the rows."""

_ROWS = "the answer would be one of the rows, and those are private."
_CHOICE = "which row is chosen depends on all rows, so its value would be somebody's."
_INSIDE = "a query inside an expression reads rows without a price."
_CHANCE = "it is not a function of the row."

CLAUSES: dict[str, tuple[str, str, str]] = {
    "joins": ("JOIN in parentheses", "joins are read from left to right.", "Write a JOIN b ON ... JOIN c ON ..."),
    "method": (
        "NATURAL, ASOF, POSITIONAL",
        "tables are joined by equal columns that are named.",
        "Write ON a.x = b.y.",
    ),
    "by_name": ("BY NAME", "it is not read.", "Select the same columns in the same order."),
    "laterals": ("LATERAL", "sub-queries that depend on the row are not read.", "Write the expression itself."),
    "distinct": ("SELECT DISTINCT", "the rows themselves are private.", "Count the units: COUNT(DISTINCT unit)."),
    "qualify": ("QUALIFY", "window functions mix rows of many units.", "Use GROUP BY and HAVING."),
    "windows": ("WINDOW", "window functions mix rows of many units.", "Use GROUP BY."),
    "sample": ("SAMPLE", "a sample of rows has no stated price.", "Leave it out; noise is added for you."),
    "over": ("OVER", "window functions mix rows of many units.", "Use GROUP BY."),
    "offset": ("OFFSET", "it is not read.", "Use ORDER BY and LIMIT, or cut the released answer."),
    "pivots": ("PIVOT", "it is not read.", "Use GROUP BY, or FILTER (WHERE ...) on each aggregate."),
    "recursive": ("WITH RECURSIVE", "the number of steps would depend on the rows.", "Write the steps out."),
    "into": ("INTO", "nothing is written.", "Leave it out."),
    "locks": ("FOR UPDATE", "nothing is written.", "Leave it out."),
    "all": ("GROUP BY ALL", "keys are named one by one.", "Write GROUP BY and each key."),
    "rollup": ("ROLLUP", "it asks several questions at once.", "Ask each of them, or add up the released numbers."),
    "cube": ("CUBE", "it asks several questions at once.", "Ask each of them, or add up the released numbers."),
    "grouping_sets": ("GROUPING SETS", "it asks several questions at once.", "Ask each of them."),
    "nulls_first": ("NULLS FIRST", "missing values come last.", "Leave it out."),
    "except_": ("EXCLUDE", "it is not read.", "Name the columns."),
    "except": ("EXCLUDE", "it is not read.", "Name the columns."),
    "replace": ("REPLACE", "it is not read.", "Name the columns."),
    "columns": ("names after the table", "they are not read.", "Name columns inside: SELECT x AS name."),
    "materialized": ("MATERIALIZED", "nothing is stored.", "Leave it out."),
    "db": ("a schema before the table", "tables are known by their name alone.", "Leave the schema out."),
    "query": ("IN (SELECT ...)", "a query inside an expression reads rows without a price.", "Write IN ('a', 'b')."),
    "limit_options": ("LIMIT", "it takes a whole number.", "Write for example LIMIT 10."),
    "order": ("ORDER BY", "an order of rows depends on all of them.", "Sort the groups of the answer."),
}
"""By the part of a node: what it is called, why it is refused, what to write instead."""

NODES: dict[type[exp.Expression], tuple[str, str]] = {
    exp.First: (_CHOICE, "Use AVG, SUM or COUNT."),
    exp.Last: (_CHOICE, "Use AVG, SUM or COUNT."),
    exp.AnyValue: (_CHOICE, "Use AVG, SUM or COUNT."),
    exp.ArgMax: (_CHOICE, "Use AVG, SUM or COUNT."),
    exp.ArgMin: (_CHOICE, "Use AVG, SUM or COUNT."),
    exp.Mode: (_CHOICE, "Use GROUP BY with ORDER BY COUNT(*) DESC LIMIT 1."),
    exp.ArrayAgg: (_ROWS, "Use GROUP BY and COUNT(*)."),
    exp.GroupConcat: (_ROWS, "Use GROUP BY and COUNT(*)."),
    exp.ApproxDistinct: ("distinct values are counted for the protected unit only.", "Use COUNT(DISTINCT unit)."),
    exp.Window: ("window functions mix rows of many units.", "Use GROUP BY."),
    exp.Subquery: (_INSIDE, "Ask it first, then write the released number as a constant."),
    exp.Select: (_INSIDE, "Ask it first, then write the released number as a constant."),
    exp.Exists: (_INSIDE, "Ask it first, then write the released number as a constant."),
    exp.Any: (_INSIDE, "Write IN ('a', 'b')."),
    exp.All: (_INSIDE, "Write NOT IN ('a', 'b')."),
    exp.Rand: (_CHANCE, "Leave it out; noise is added for you."),
    exp.CurrentDate: (_CHANCE, "Write the date: DATE '2020-12-31'."),
    exp.CurrentTimestamp: (_CHANCE, "Write the time: TIMESTAMP '2020-12-31 10:00:00'."),
    exp.RegexpLike: ("regular expressions are not read.", "Use LIKE, STARTS_WITH or CONTAINS."),
    exp.SimilarTo: ("regular expressions are not read.", "Use LIKE, STARTS_WITH or CONTAINS."),
    exp.Glob: ("patterns of this kind are not read.", "Use LIKE, STARTS_WITH or CONTAINS."),
    exp.Escape: ("ESCAPE is not read.", "Use STARTS_WITH, ENDS_WITH or CONTAINS, which take every letter as it is."),
    exp.Interval: ("an interval stands beside a date.", "Write d + INTERVAL 3 DAY."),
    exp.TimeToStr: ("formats differ from engine to engine.", "Use YEAR, MONTH, DATE_TRUNC and the like."),
    exp.Star: ("the rows themselves are private.", "Ask for COUNT(*) or AVG(column)."),
    exp.Placeholder: ("there are no parameters.", "Write the constant itself."),
    exp.Parameter: ("there are no parameters.", "Write the constant itself."),
    exp.Tuple: ("rows as values are not read.", "Compare column by column."),
    exp.Collate: ("texts are compared letter by letter.", "Compare LOWER(s)."),
    exp.AtTimeZone: ("times are read without a zone.", "Leave the zone out."),
}
"""By the kind of node: why it is refused, what to write instead."""

NAMES: dict[str, tuple[str, str]] = {
    **dict.fromkeys(
        ["any_value", "first", "last", "arbitrary", "max_by", "min_by"], (_CHOICE, "Use AVG, SUM or COUNT.")
    ),
    **dict.fromkeys(["list", "array_agg", "stats"], (_ROWS, "Use GROUP BY and COUNT(*).")),
    **dict.fromkeys(["now", "today", "get_current_timestamp"], (_CHANCE, "Write the date: DATE '2020-12-31'.")),
    **dict.fromkeys(["setseed", "uuid", "gen_random_uuid"], (_CHANCE, "Leave it out; noise is added for you.")),
    "histogram": ("its edges would come from the rows.", "Use GROUP BY BUCKET(x, [0, 18, 65]) and COUNT(*)."),
    "mean": ("it is known by another name here.", "Write AVG(x)."),
}
"""By the name of a function that the parser has no node for: why it is refused, what to write instead."""

ALLOWED = (
    "Allowed are comparisons, AND, OR, NOT, CASE, COALESCE, CAST, arithmetic, and functions of numbers, text and dates "
    "as docs/sql.md lists them."
)

_THIS = frozenset({"this"})
_BOTH = frozenset({"this", "expression"})
_LIST = frozenset({"expressions"})
MODIFIERS: dict[type[exp.Expression], frozenset[str]] = {
    exp.Select: frozenset({"expressions", "from_", "where", "group", "having", "order", "limit", "with_", "joins"}),
    exp.Join: frozenset({"this", "side", "kind", "on", "using"}),
    exp.Union: frozenset({"this", "expression", "distinct"}),
    exp.Subquery: frozenset({"this", "alias"}),
    exp.With: _LIST,
    exp.CTE: frozenset({"this", "alias"}),
    exp.Alias: frozenset({"this", "alias"}),
    exp.Column: frozenset({"this", "table"}),
    exp.Star: frozenset(),
    exp.Count: frozenset({"this", "big_int"}),
    exp.CountIf: frozenset({"this", "big_int"}),
    exp.Div: frozenset({"this", "expression", "typed", "safe"}),
    exp.DPipe: frozenset({"this", "expression", "safe"}),
    exp.Concat: frozenset({"expressions", "safe", "coalesce"}),
    exp.Least: frozenset({"this", "expressions", "ignore_nulls"}),
    exp.Greatest: frozenset({"this", "expressions", "ignore_nulls"}),
    exp.Ordered: frozenset({"this", "desc"}),
    exp.Between: frozenset({"this", "low", "high"}),
    exp.In: frozenset({"this", "expressions"}),
    exp.Case: frozenset({"this", "ifs", "default"}),
    exp.If: frozenset({"this", "true", "false"}),
    exp.Like: frozenset({"this", "expression", "negate"}),
    exp.ILike: frozenset({"this", "expression", "negate"}),
    exp.Literal: frozenset({"this", "is_string"}),
    exp.Cast: frozenset({"this", "to"}),
    exp.TryCast: frozenset({"this", "to", "safe"}),
    exp.Round: frozenset({"this", "decimals"}),
    exp.Trim: frozenset({"this", "position"}),
    exp.Substring: frozenset({"this", "start", "length"}),
    exp.Interval: frozenset({"this", "unit"}),
    exp.WidthBucket: frozenset({"this", "min_value", "max_value", "num_buckets"}),
    exp.DateDiff: frozenset({"this", "expression", "unit"}),
    exp.DateTrunc: frozenset({"this", "unit"}),
    exp.TimestampTrunc: frozenset({"this", "unit"}),
    exp.DateAdd: _BOTH,
    exp.DateSub: _BOTH,
    exp.Filter: _BOTH,
    exp.Where: _THIS,
    exp.Having: _THIS,
    exp.Table: frozenset({"this", "alias"}),
    exp.Group: _LIST,
    exp.Order: _LIST,
    exp.Limit: frozenset({"expression"}),
    exp.TableAlias: _THIS,
    exp.Distinct: _LIST,
}
"""What a node may carry; other nodes may carry `this`, `expression` and `expressions`."""

_USUAL = frozenset({"this", "expression", "expressions"})


def check_modifiers(node: exp.Expression) -> None:
    """Refuses a node that carries more than is read of it."""
    allowed = MODIFIERS.get(type(node), _USUAL)
    for name, value in node.args.items():
        if value and name not in allowed:
            unknown = (part_of(node), f"its part `{name.strip('_')}` is not read.", "Leave it out.")
            refuse("unsupported-clause", *CLAUSES.get(name, unknown))


def refuse_node(node: exp.Expression) -> NoReturn:
    """Ends the reading at a node that is not read here."""
    why, instead = NODES.get(type(node), ("this is not one of the allowed operations.", ALLOWED))
    if isinstance(node, exp.AggFunc) and type(node) not in NODES:
        why, instead = "this aggregate is not offered.", "Use COUNT, SUM or AVG."
    if isinstance(node, exp.Anonymous):
        why, instead = NAMES.get(str(node.this).lower(), (why, instead))
    refuse("unsupported-function", part_of(node), why, instead)


def part_of(node: exp.Expr) -> str:
    """The analyst's own words, cut short."""
    text = node.sql(dialect=DIALECT)
    return f"`{text if len(text) <= 60 else text[:57] + '...'}`"
