"""Reads `x IN (SELECT ...)` and `EXISTS (SELECT ...)`: one more column of the rows, a condition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NoReturn

from sqlglot import exp

from lapwing.expressions.expression import Expression
from lapwing.expressions.refusal import refuse
from lapwing.sql.from_clause import Body, Names, RowScopes, only_select, read_from
from lapwing.sql.joins import has_rows, is_member, is_unit, members_only
from lapwing.sql.nodes import SqlLeaf, SqlNode, bare, is_semi_join, is_whole, terms_of
from lapwing.sql.read_expression import read
from lapwing.sql.refusals import check_modifiers, part_of, refuse_node, text_of
from lapwing.sql.relation import Relation, Rows, rows_only

Members = Mapping[int, Expression]
"""The condition of each semi-join, by the identity of its node."""


def read_semi_joins(select: exp.Select, scopes: RowScopes, names: Names, body: Body) -> tuple[RowScopes, Members]:
    """The rows with a column for each semi-join below the aggregation, and what each stands for."""
    known: dict[SqlNode, Expression] = {}
    nodes = list(_semi_joins(select))
    for node in nodes:
        if node in known:
            continue  # written twice, as in SELECT and GROUP BY
        rows = rows_only(scopes.relation, part_of(node))
        made, known[node] = (_exists if isinstance(node, exp.Exists) else _is_in)(node, rows, scopes, names, body)
        scopes = replace(scopes, relation=made)
    return scopes, {id(node): known[node] for node in nodes}


def _semi_joins(select: exp.Select) -> Iterator[SqlNode]:
    """Those of this SELECT, not of a SELECT inside. In HAVING and ORDER BY there are none."""
    parts = [select.args.get("where"), *select.expressions, select.args.get("group")]
    todo: list[exp.Expr] = [part for part in reversed(parts) if part is not None]
    while todo:
        node = todo.pop()
        if isinstance(node, exp.In | exp.Exists) and is_semi_join(node):
            yield node
        elif not isinstance(node, exp.Query):
            todo += node.iter_expressions(reverse=True)


def _is_in(node: SqlNode, rows: Rows, scopes: RowScopes, names: Names, body: Body) -> tuple[Rows, Expression]:
    extra = [name for name, value in node.args.items() if value and name not in ("this", "query")]
    if extra:
        refuse_node(node)
    value = read(node.this, _columns_only(scopes))
    return is_member(rows, value, body(_inner(node.args["query"]), names), part_of(node))


def _exists(node: SqlNode, rows: Rows, scopes: RowScopes, names: Names, body: Body) -> tuple[Rows, Expression]:
    check_modifiers(node)
    what = part_of(node)
    inner = only_select(_inner(node.this), "the subquery").copy()
    if inner.args.get("group") is None and any(part.find(exp.AggFunc) for part in inner.expressions):
        refuse(
            "wrong-argument", what, "an aggregate has one row whatever is in the table.", "Write EXISTS (SELECT 1 ...)."
        )
    limit = inner.args.get("limit")
    if isinstance(limit, exp.Limit) and is_whole(limit.expression) and int(limit.expression.name) > 0:
        inner.set("limit", None)
    mine, other, rest = _correlation(inner, rows, scopes, names, body, what)
    inner.set("expressions", [other.copy()])
    inner.set("where", exp.Where(this=exp.and_(*rest, copy=False)) if rest else None)
    members = members_only(body(inner, names), what)
    (output,) = members.columns.values()
    if members.table.public:
        instead = f"Write {text_of(mine)} IN (SELECT {text_of(other)} FROM ...)."
        refuse("unsupported-join", what, "EXISTS takes a private table.", instead)
    if not is_unit(output.expression, members):
        _refuse_correlation(rows, members, what)
    return has_rows(rows, members, what)


def _correlation(
    inner: exp.Select, rows: Rows, scopes: RowScopes, names: Names, body: Body, what: str
) -> tuple[SqlNode, SqlNode, list[SqlNode]]:
    """The outer and the inner side of the equality that refers to the outer row, and the other conditions inside."""
    where = inner.args.get("where")
    own, _ = read_from(inner, names, body)
    aliases = {_name_of(table.this) for table in (inner.args["from_"], *(inner.args.get("joins") or []))}
    rest, pairs = list[SqlNode](), list[tuple[SqlNode, SqlNode]]()
    for term in [] if where is None else terms_of(where.this, exp.And):
        outer = [part for part in _columns(term) if _is_outer(part, own, aliases, scopes)]
        if not outer:
            rest.append(term)
        elif isinstance(term, exp.EQ) and len(outer) == 1 and any(outer[0] is side for side in _sides(term)):
            check_modifiers(term)
            first, second = _sides(term)
            pairs.append((first, second) if outer[0] is first else (second, first))
        else:
            _refuse_correlation(rows, own.relation, what)
    if len(pairs) != 1 or not is_unit(_columns_only(scopes)(pairs[0][0]), rows):
        _refuse_correlation(rows, own.relation, what)
    return *pairs[0], rest


def _inner(node: exp.Expr) -> exp.Expr:
    """The sub-query without parentheses; DISTINCT changes nothing in it."""
    while isinstance(node, exp.Subquery):
        check_modifiers(node)
        node = node.this
    distinct = node.args.get("distinct")
    if isinstance(node, exp.Select) and distinct is not None and not distinct.args.get("on"):
        node = node.copy()
        node.set("distinct", None)
    return node


def _sides(term: SqlNode) -> tuple[SqlNode, SqlNode]:
    return bare(term.this), bare(term.expression)


def _columns(term: SqlNode) -> list[exp.Column]:
    """Those of the condition itself. What a SELECT inside it names is found there or refused."""
    nodes = term.walk(prune=lambda node: isinstance(node, exp.Query))
    return [node for node in nodes if isinstance(node, exp.Column)]


def _name_of(table: SqlNode) -> str:
    return str(table.alias_or_name).lower()


def _is_outer(node: exp.Column, own: RowScopes, aliases: set[str], scopes: RowScopes) -> bool:
    """True if a column in the sub-query belongs to the SELECT around it: the inner meaning comes first, as in SQL."""
    table, name = node.table.lower(), node.name.lower()
    if table:
        return table not in aliases and any(table in part.names for part in scopes.parts)
    inside, outside = ([name in part.columns for part in parts.parts] for parts in (own, scopes))
    return any(outside) and not any(inside)


def _columns_only(scopes: RowScopes) -> SqlLeaf:
    def leaf(node: SqlNode) -> Expression:
        if not isinstance(node, exp.Column):
            refuse_node(node)
        return scopes.column(node)

    return leaf


def _refuse_correlation(rows: Rows, other: Relation, what: str) -> NoReturn:
    unit, theirs = rows.table.unit, other.table.unit if isinstance(other, Rows) else None
    if isinstance(other, Rows) and other.table.public:
        instead = "Write a.x IN (SELECT x FROM b WHERE ...), with an equality of both."
        refuse("unsupported-join", what, "EXISTS takes a private table.", instead)
    if unit is None or (isinstance(other, Rows) and other.table.by_row and not other.table.public):
        refuse(
            "join-not-on-unit",
            what,
            "rows of this table are units of their own, so they belong to no unit in another table.",
            "Have the steward declare `unit` for both, or use a public table.",
        )
    refuse(
        "join-not-on-unit",
        what,
        "a sub-query may refer to the row around it only by the protected unit.",
        f"Compare the unit of both, and nothing else of the outer row: WHERE b.{theirs or unit} = a.{unit} AND ...",
    )
