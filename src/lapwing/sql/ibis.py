"""Reads Ibis expressions: each is written as SQL and read by reader.py, so that both languages mean the same.

Ibis is imported only if an expression comes in, or a table to write one with is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from functools import lru_cache
from typing import Any

from sqlglot import exp, parse_one

from lapwing.errors import Misconfigured
from lapwing.expressions.refusal import refuse
from lapwing.expressions.table import Catalog, Table
from lapwing.expressions.types import Type
from lapwing.plan.question import Question
from lapwing.sql.parse import MOST_PARTS, Sql
from lapwing.sql.refusals import DIALECT, text_of
from lapwing.sql.split import read_sql

SCHEMA = {
    Type.INTEGER: "int64",
    Type.REAL: "float64",
    Type.TEXT: "string",
    Type.BOOLEAN: "boolean",
    Type.DATE: "date",
    Type.TIMESTAMP: "timestamp",
}
NAMES = {"CountStar": "count", "CountDistinct": "count", "Count": "count", "Mean": "avg", "Sum": "sum"}
"""What a number is called that has no name, by its operation."""
_PLAIN = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_BUILD = "Pass one SELECT as text, or build an expression from curator.table(name)."
_ALLOWED = "Use filter, select, group_by, aggregate and join."


def unbound_table(table: Table) -> Any:
    """The table for writing questions: a schema that cannot be executed."""
    try:
        import ibis
    except ModuleNotFoundError:
        raise Misconfigured('Ibis expressions need Ibis. Run: pip install "lapwing[ibis]"') from None
    return ibis.table({field.name: SCHEMA[field.type] for field in table.fields}, name=table.name)


def read_ibis(expression: Any, catalog: Catalog, today: date | None = None) -> Question:
    """The question an expression asks; raises Refused. Free, and reads no data. ibis.today() is `today`, if given."""
    return read_sql(as_sql(expression), catalog, today)


def as_sql(question: Any) -> Sql:
    """The text of a question in SQL or as an Ibis expression; raises Refused if it is neither."""
    if isinstance(question, Sql):
        return question
    if type(question).__module__.partition(".")[0] != "ibis" or not callable(getattr(question, "as_table", None)):
        refuse("not-a-question", "the question", "it is neither SQL text nor an Ibis expression.", _BUILD)
    return _written(question.op())


@lru_cache(maxsize=64)
def _written(node: Any) -> str:
    from ibis.common.exceptions import IbisError

    from lapwing.sql.ibis_compiler import LapwingCompiler

    try:
        _check_size(node)
        tree = parse_one(text_of(LapwingCompiler().to_sqlglot(_named(node))), dialect=DIALECT)
        _name_tables(tree)
        return text_of(tree)
    except RecursionError:
        refuse("too-large", "the question", "it is nested too deeply.", "Use fewer levels of nesting.")
    except (IbisError, NotImplementedError):
        refuse("unsupported-clause", "the expression", "Ibis cannot write it as SQL.", _ALLOWED)


def _named(node: Any) -> Any:
    """The expression; a number without a name gets one."""
    from ibis.expr import operations as ops

    plain = isinstance(node, ops.Value) and not isinstance(node, ops.Alias | ops.Field)
    return node.to_expr().name(NAMES.get(type(node).__name__, "value")) if plain else node.to_expr()


def _check_size(node: Any) -> None:
    """Refuses what is too long when written out in full: a part that stands in many places is written in each."""
    from ibis.common.graph import Graph
    from ibis.expr import operations as ops

    sizes: dict[Any, int] = {}
    graph, _ = Graph.from_bfs(node).toposort()
    for part, children in graph.items():
        if isinstance(part, ops.PhysicalTable) and not isinstance(part, ops.UnboundTable):
            refuse("unknown-table", "the table", "it is not a table in the catalog.", "Start from curator.table(name).")
        sizes[part] = 1 if isinstance(part, ops.Field) else 1 + sum(sizes[child] for child in children)
    if sizes[node] > MOST_PARTS:
        refuse("too-large", "the question", f"it has more than {MOST_PARTS:,} parts.", "Shorten it.")


def _name_tables(tree: exp.Expr) -> None:
    """Gives tables their own names again, where Ibis numbers them: t0, t1.

    Of tables that one SELECT sees, a second one of the same name gets a number behind it.
    """
    ctes = {cte.alias: cte for cte in tree.find_all(exp.CTE)}
    stored = {table.name for table in tree.find_all(exp.Table)} - set(ctes)
    names = {alias: _fresh(_stored(cte, ctes), stored) for alias, cte in ctes.items()}
    reads: dict[str, exp.Expr] = {}
    beside: dict[str, set[str]] = {}
    for select in tree.find_all(exp.Select):
        reads |= {source.alias: source for source in _sources(select) if source.alias}
        seen = _seen(select)
        for alias in seen:
            beside.setdefault(alias, set()).update(seen)
    for alias, source in reads.items():
        names[alias] = _fresh(_stored(source, ctes), {names.get(other, other) for other in beside[alias] - {alias}})
    for node in list(tree.find_all(exp.Identifier)):
        if node.arg_key == "table" or isinstance(node.parent, exp.TableAlias | exp.Subquery) or node.name in ctes:
            node.set("this", names.get(node.name, node.name))
        if _PLAIN.fullmatch(node.name) and node.name.upper() not in DIALECT.tokenizer_class.KEYWORDS:
            node.set("quoted", False)
    for table in list(tree.find_all(exp.Table)):
        if table.alias == table.name:
            table.set("alias", None)


def _sources(select: exp.Expr) -> list[exp.Expr]:
    source = select.args.get("from_")
    return [] if source is None else [source.this, *(join.this for join in select.args.get("joins") or [])]


def _seen(select: exp.Expr) -> set[str]:
    """The tables that a SELECT sees: its own, and those around it if it stands in an expression."""
    own = {source.alias_or_name for source in _sources(select)}
    node = select.parent
    while node is not None and not isinstance(node, exp.From | exp.Join | exp.CTE):
        if isinstance(node, exp.Select):
            return own | _seen(node)
        node = node.parent
    return own


def _stored(node: exp.Expr, ctes: Mapping[str, exp.Expr]) -> str:
    """The name of the first stored table that a source reads."""
    table = node if isinstance(node, exp.Table) else node.find(exp.Table)
    if table is None:
        return "t"
    return _stored(ctes[table.name].this, ctes) if table.name in ctes else table.name


def _fresh(name: str, taken: set[str]) -> str:
    """The name, with a number behind it if it is taken; marks it as taken."""
    found = next(n for n in (name, *(f"{name}_{i}" for i in range(2, len(taken) + 3))) if n not in taken)
    taken.add(found)
    return found
