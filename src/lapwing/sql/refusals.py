"""What is refused in SQL, why, and what to write instead. docs/sql.md is generated from these tables."""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import cache
from typing import NoReturn

from sqlglot import Dialect, ErrorLevel, exp

from lapwing.expressions.operators.table import OPERATORS
from lapwing.expressions.refusal import refuse
from lapwing.plan.aggregates import FUNCTIONS

LANGUAGE = "duckdb"
DIALECT = Dialect.get_or_raise(LANGUAGE)
"""The SQL dialect analysts write, whatever engine runs it."""

_ROWS = "the answer would be one of the rows, which are private."
_CHOICE = "it returns the value of a single row, which is private."
_INSIDE = "a query inside an expression would read rows without being charged."
_CHANCE = "it is not a function of the row."
_SUMMARY = "Use AVG, SUM or COUNT, which summarise all rows of a group."
_LEAVE = "Leave it out: all rows are counted, and noise is added for you."
_ABOVE = "Aggregate first, with GROUP BY: over released groups they are free."
_MIXED = "window functions mix rows of different units."
_STEPS = "For all pairs of rows of one unit write FROM t a JOIN t b ON a.unit = b.unit AND a.day > b.day."
_RANKS = "Ask for QUANTILE_CONT(x, 0.25) and others, then GROUP BY BUCKET(x, [...]) with what they gave as edges."
_BY_UNIT = "For each unit write JOIN (SELECT unit, AVG(x) AS m FROM t GROUP BY unit) AS u ON u.unit = t.unit."

CLAUSES: dict[str, tuple[str, str, str]] = {
    "joins": (
        "JOIN in parentheses",
        "joins must be written from left to right.",
        "Write a JOIN b ON ... JOIN c ON ...",
    ),
    "method": (
        "NATURAL, ASOF, POSITIONAL",
        "only equality joins on named columns are supported.",
        "For NATURAL write USING with the shared columns; the others pick rows by their order.",
    ),
    "by_name": ("BY NAME", "it is not supported.", "Select the same columns in the same order."),
    "laterals": ("LATERAL", "correlated subqueries are not supported.", "Write the expression itself."),
    "distinct": ("SELECT DISTINCT", "it is only supported for keys, without aggregates.", "Leave DISTINCT out."),
    "on": ("DISTINCT ON", "it returns one of the rows, which are private.", _SUMMARY),
    "qualify": ("QUALIFY", _MIXED, _ABOVE),
    "windows": ("WINDOW", _MIXED, _ABOVE),
    "sample": ("SAMPLE", "a sample of rows has no known price.", _LEAVE),
    "over": ("OVER", _MIXED, _ABOVE),
    "offset": ("OFFSET", "it is not supported.", "Use ORDER BY and LIMIT, or slice the released answer."),
    "pivots": ("PIVOT", "it is not supported.", "Use GROUP BY, or FILTER (WHERE ...) on each aggregate."),
    "recursive": ("WITH RECURSIVE", "the number of steps would depend on the rows.", "Write out the steps."),
    "into": ("INTO", "questions cannot write data.", "Leave it out."),
    "locks": ("FOR UPDATE", "questions cannot write data.", "Leave it out."),
    "rollup": ("ROLLUP", "it asks several questions at once.", "Ask each one separately."),
    "cube": ("CUBE", "it asks several questions at once.", "Ask each one separately."),
    "grouping_sets": ("GROUPING SETS", "it asks several questions at once.", "Ask each one separately."),
    "nulls_first": ("NULLS FIRST", "NULLs always come last.", "Leave it out."),
    **dict.fromkeys(["except_", "except"], ("EXCLUDE", "it is only supported in SELECT.", "Leave it out.")),
    "replace": ("REPLACE", "it is not supported.", "List the columns."),
    "columns": (
        "column names after the table",
        "they are not supported.",
        "Name the columns in the subquery: SELECT x AS name.",
    ),
    "materialized": ("MATERIALIZED", "nothing is stored.", "Leave it out."),
    "catalog": ("a database before the schema", "it is not supported.", "Write schema.table, or the table alone."),
    "query": (
        "IN (SELECT ...)",
        "here it would read rows without being charged.",
        "Use it in WHERE, or write IN ('a', 'b').",
    ),
    "limit_options": ("LIMIT", "it takes an integer.", "For example: LIMIT 10."),
    "order": ("ORDER BY", "sorting rows depends on all of them.", "Sort the groups of the answer."),
}
"""By the part of a node: its name, why it is refused, and what to write instead."""

NODES: dict[type[exp.Expression], tuple[str, str]] = {
    exp.First: (_CHOICE, _SUMMARY),
    exp.Last: (_CHOICE, _SUMMARY),
    exp.AnyValue: (_CHOICE, _SUMMARY),
    exp.ArgMax: (_CHOICE, _SUMMARY),
    exp.ArgMin: (_CHOICE, _SUMMARY),
    exp.Mode: (_CHOICE, "Write WHERE x IS NOT NULL GROUP BY x ORDER BY COUNT(*) DESC LIMIT 1."),
    exp.ArrayAgg: (_ROWS, "Use GROUP BY and COUNT(*)."),
    exp.GroupConcat: (_ROWS, "Use GROUP BY and COUNT(*)."),
    exp.Window: (_MIXED, _ABOVE),
    **dict.fromkeys([exp.Lag, exp.Lead], (_MIXED, _STEPS)),
    **dict.fromkeys([exp.Ntile, exp.PercentRank, exp.CumeDist], (_MIXED, _RANKS)),
    exp.Subquery: (_INSIDE, f"Ask it first, then use the released number as a constant. {_BY_UNIT}"),
    exp.Select: (_INSIDE, "Ask it first, then use the released number as a constant."),
    exp.Exists: (_INSIDE, "Use it in WHERE."),
    exp.Any: (_INSIDE, "For x = ANY write x IN ('a', 'b')."),
    exp.All: (_INSIDE, "For x <> ALL write x NOT IN ('a', 'b')."),
    exp.Rand: (_CHANCE, _LEAVE),
    exp.CurrentDate: (_CHANCE, "Write the date: DATE '2020-12-31'."),
    exp.CurrentTimestamp: (_CHANCE, "Write the time: TIMESTAMP '2020-12-31 10:00:00'."),
    exp.RegexpFullMatch: ("it matches the whole text.", "Write REGEXP_MATCHES(s, '^(...)$')."),
    exp.RegexpILike: (
        "`~*` and the option 'i' are not supported.",
        "Write REGEXP_MATCHES(LOWER(s), 'a') with the pattern in lower case.",
    ),
    exp.StrPosition: ("it is not supported.", "For > 0 write CONTAINS(s, 'a'), for = 1 STARTS_WITH(s, 'a')."),
    exp.ToChar: ("TO_CHAR is not supported.", "Write STRFTIME(d, '%Y-%m') for 'YYYY-MM'."),
    exp.LastDay: ("it is not supported.", "Write DATE_TRUNC('month', d) + INTERVAL 1 MONTH - INTERVAL 1 DAY."),
    exp.SimilarTo: ("its patterns differ between engines.", "Write REGEXP_MATCHES(s, '^(...)$'), or use LIKE."),
    exp.Glob: ("glob patterns are not supported.", "Use LIKE, STARTS_WITH or CONTAINS."),
    exp.Escape: ("ESCAPE is not supported.", "Use STARTS_WITH, ENDS_WITH or CONTAINS, which take text literally."),
    **dict.fromkeys([exp.IsNan, exp.IsInf], ("NaN is NULL here.", "Write x IS NULL.")),
    exp.Interval: ("an interval must be added to or subtracted from a date.", "Write d + INTERVAL 3 DAY."),
    exp.Star: ("the rows themselves are private.", "Ask for COUNT(*) or AVG(column)."),
    exp.Array: ("brackets make a list.", 'Write names in double quotes: "my column".'),
    exp.Bracket: ("lists have no columns here.", "Use SUBSTRING(s, 1, 3) for a part of a text."),
    exp.Placeholder: ("it has no value.", 'Write the constant itself, or pass its value: params={"age": 40}.'),
    exp.Parameter: ("it has no value.", 'Write the constant itself, or pass its value: params={"age": 40}.'),
    exp.Tuple: ("row values are not supported.", "Compare column by column."),
    exp.Collate: (
        "collations are not supported; characters are compared.",
        "Compare LOWER(s) with text in lower case.",
    ),
}
"""By node class: why it is refused, and what to write instead."""

NAMES: dict[str, tuple[str, str]] = {
    **dict.fromkeys(["any_value", "first", "last", "arbitrary", "max_by", "min_by"], (_CHOICE, _SUMMARY)),
    **dict.fromkeys(["list", "array_agg", "stats"], (_ROWS, "Use GROUP BY and COUNT(*).")),
    **dict.fromkeys(["now", "today", "get_current_timestamp"], (_CHANCE, "Write the date: DATE '2020-12-31'.")),
    **dict.fromkeys(["setseed", "uuid", "gen_random_uuid"], (_CHANCE, _LEAVE)),
    "histogram": ("its edges would come from the rows.", "Use GROUP BY BUCKET(x, [0, 18, 65]) and COUNT(*)."),
}
"""By function name, if the parser has no node class for it: why it is refused, and what to write instead."""

SPELLED = frozenset(
    {"COUNT_IF", "IF", "IFNULL", "LEFT", "CONCAT", "TRY_CAST", "DATE_PART", "DATE_ADD", "STRFTIME"}
    | {"DAYNAME", "MAKE_DATE", "MAKE_TIMESTAMP", "MONTHNAME", "CURRENT_DATE", "PI", "DEGREES", "RADIANS"}
    | {"SUBSTR", "LEN", "CEILING", "QUANTILE_CONT", "TRUNC"}
)
"""Functions that have no operator of their own."""

ALLOWED = (
    "Use comparisons, AND, OR, NOT, CASE, COALESCE, CAST, arithmetic, and functions of numbers, text and dates, "
    "as listed in docs/sql.md."
)

_THIS = frozenset({"this"})
_BOTH = frozenset({"this", "expression"})
_LIST = frozenset({"expressions"})
MODIFIERS: dict[type[exp.Expression], frozenset[str]] = {
    exp.Select: frozenset(
        {"expressions", "from_", "where", "group", "having", "order", "limit", "with_", "joins", "distinct"}
    ),
    exp.Join: frozenset({"this", "side", "kind", "on", "using"}),
    exp.Union: frozenset({"this", "expression", "distinct"}),
    exp.Subquery: frozenset({"this", "alias"}),
    exp.With: _LIST,
    exp.CTE: frozenset({"this", "alias"}),
    exp.Alias: frozenset({"this", "alias"}),
    exp.Column: frozenset({"this", "table", "db"}),
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
    exp.TimeToStr: frozenset({"this", "format"}),
    exp.Replace: frozenset({"this", "expression", "replacement"}),
    exp.SplitPart: frozenset({"this", "delimiter", "part_index"}),
    exp.AtTimeZone: frozenset({"this", "zone"}),
    exp.DateFromParts: frozenset({"year", "month", "day"}),
    exp.TimestampFromParts: frozenset({"year", "month", "day", "hour", "min", "sec"}),
    exp.Date: _THIS,
    exp.DateDiff: frozenset({"this", "expression", "unit", "date_part_boundary"}),
    exp.DateTrunc: frozenset({"this", "unit"}),
    exp.TimestampTrunc: frozenset({"this", "unit"}),
    exp.DateAdd: _BOTH,
    exp.DateSub: _BOTH,
    exp.Filter: _BOTH,
    exp.Where: _THIS,
    exp.Having: _THIS,
    exp.Table: frozenset({"this", "alias", "db"}),
    exp.Group: _LIST,
    exp.Order: _LIST,
    exp.Limit: frozenset({"expression"}),
    exp.TableAlias: _THIS,
    exp.Distinct: _LIST,
}
"""The parts a node may have; by default `this`, `expression` and `expressions`."""

MODIFIERS_ABOVE: dict[type[exp.Expression], frozenset[str]] = {
    exp.Select: MODIFIERS[exp.Select] | {"qualify", "offset", "windows"},
    exp.Union: MODIFIERS[exp.Union] | {"order", "limit", "offset", "with_"},
    exp.Group: _LIST | {"rollup", "cube", "grouping_sets", "all"},
}
"""The parts that a node may have over released numbers."""

_USUAL = frozenset({"this", "expression", "expressions"})


def check_modifiers(node: exp.Expression, allowed: frozenset[str] | None = None) -> None:
    """Refuses a node with parts that are not supported: by default those that rows may have."""
    if allowed is None:
        allowed = MODIFIERS.get(type(node), _USUAL)
    for name, value in node.args.items():
        if value and name not in allowed:
            unknown = (part_of(node), f"its part `{name.strip('_')}` is not supported.", "Leave it out.")
            refuse("unsupported-clause", *CLAUSES.get(name, unknown))


def refuse_node(node: exp.Expression) -> NoReturn:
    """Refuses a node that is not supported here."""
    kind = type(node.this if isinstance(node, exp.IgnoreNulls) else node)
    if kind is exp.Window and NODES.get(type(node.this), ("",))[0] is _MIXED:
        kind = type(node.this)
    why, instead = NODES.get(kind, ("this operation is not supported.", ALLOWED))
    if isinstance(node, exp.AggFunc) and type(node) not in NODES:
        why, instead = (
            "this aggregate is not supported.",
            "COUNT, SUM, AVG and others answer other questions.",
        )
    if isinstance(node, exp.Anonymous):
        why, instead = NAMES.get(str(node.this).lower(), ("there is no such function.", _nearest(str(node.this))))
    refuse("unsupported-function", part_of(node), why, instead)


@cache
def functions() -> frozenset[str]:
    """The names of all functions, as they are written."""
    examples = [operator.sql for operator in OPERATORS] + [function.sql for function in FUNCTIONS.values()]
    return frozenset(name for text in examples for name in re.findall(r"\b([A-Z][A-Z0-9_]+)\(", text)) | SPELLED


def _nearest(name: str) -> str:
    """The function whose name is the closest, or what there is."""
    close = get_close_matches(name.upper(), functions(), n=1, cutoff=0.7)
    return f"Did you mean {close[0]}?" if close else ALLOWED


def text_of(node: exp.Expr) -> str:
    """A node as SQL, for people."""
    return node.sql(dialect=DIALECT, unsupported_level=ErrorLevel.IGNORE)


def part_of(node: exp.Expr) -> str:
    """The analyst's own words, shortened."""
    text = text_of(node)
    return f"`{text if len(text) <= 60 else text[:57] + '...'}`"
