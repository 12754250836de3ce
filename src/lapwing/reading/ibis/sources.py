"""Reads Ibis joins and unions: the same tables as from SQL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lapwing.language.expression import Expression, Literal
from lapwing.language.operators.base import call
from lapwing.language.operators.logic import COALESCE, NOT
from lapwing.language.refusal import refuse
from lapwing.language.types import Type
from lapwing.planning.question import Output
from lapwing.reading.ibis.values import Values, kind_of, part_of, terms_of
from lapwing.reading.relations.combining import rows_only
from lapwing.reading.relations.joins import join
from lapwing.reading.relations.relation import Columns, Relation, Rows, by_name, filter_by, project
from lapwing.reading.relations.semi_joins import is_member
from lapwing.reading.relations.unions import unite

RelationReader = Callable[[Any], Relation]
"""Reads the relation below a node."""

HOW = {"inner", "left", "right", "semi", "anti"}
"""Supported joins."""

_EQUALS = "Join on left.x == right.y; put other conditions in filter."


def read_join(node: Any, read: RelationReader) -> Rows:
    """A chain of joins from left to right, and its output columns."""
    rows = rows_only(read(node.first.parent), "join")
    sides: dict[Any, Columns] = {node.first: rows.columns}
    for link in node.rest:
        rows, sides = _join(rows, sides, link, read)

    def leaf(part: Any) -> Expression:
        return _field(part, sides)

    shown = Values(leaf).read
    return replace(rows, columns=by_name(Output(name, shown(value)) for name, value in node.values.items()))


def _join(rows: Rows, sides: dict[Any, Columns], link: Any, read: RelationReader) -> tuple[Rows, dict[Any, Columns]]:
    if link.how not in HOW:
        refuse("unsupported-join", f"join `{link.how}`", "only equality joins are supported.", "Use join or left_join.")
    right = rows_only(read(link.table.parent), "join")
    terms = [term for predicate in link.predicates for term in terms_of(predicate, "And")]
    pairs = [_equal(term, sides, link.table, right.columns) for term in terms]
    if not pairs:
        refuse("unsupported-join", "join", "only equality joins are supported.", _EQUALS)
    if link.how in ("semi", "anti"):
        return _semi_join(rows, right, pairs, link.how), sides
    made = join(rows, right, pairs, how=link.how, what="join")
    move = {side: made.left(columns) for side, columns in sides.items()}
    return Rows(made.table, {}, made.where), {**move, link.table: made.right(right.columns)}


def _semi_join(rows: Rows, right: Rows, pairs: list[tuple[Expression, Expression]], how: str) -> Rows:
    """The rows with a partner, or those without one."""
    if len(pairs) > 1:
        refuse("unsupported-join", f"{how}_join", "it compares one column.", "Compare the protected unit of both.")
    ((value, other),) = pairs
    column = project(right, [Output("member", other)])
    made, met = is_member(rows, value, column, f"{how}_join")
    found = call(COALESCE, met, Literal(False, Type.BOOLEAN), part=lambda: f"{how}_join")
    kept = found if how == "semi" else call(NOT, found, part=lambda: f"{how}_join")
    return rows_only(filter_by(made, [kept], lambda: f"{how}_join"), "join")


def _equal(term: Any, sides: dict[Any, Columns], table: Any, columns: Columns) -> tuple[Expression, Expression]:
    if kind_of(term) != "Equals":
        refuse("unsupported-join", part_of(term), "only equality joins are supported.", _EQUALS)
    found = dict(_with_side(part, sides, table, columns) for part in (term.left, term.right))
    if set(found) != {"left", "right"}:
        refuse("unsupported-join", "join", "each side of == must use columns of one of the two tables.", _EQUALS)
    return found["left"], found["right"]


def _with_side(node: Any, sides: dict[Any, Columns], table: Any, columns: Columns) -> tuple[str, Expression]:
    """The expression, and the side whose columns it uses; None if it uses both or neither."""
    seen: set[str] = set()

    def leaf(part: Any) -> Expression:
        seen.add("right" if getattr(part, "rel", None) == table else "left")
        return _field(part, {**sides, table: columns})

    expression = Values(leaf).read(node)
    return (seen.pop() if len(seen) == 1 else ""), expression


def _field(node: Any, sides: dict[Any, Columns]) -> Expression:
    if kind_of(node) != "Field" or node.rel not in sides:
        refuse(
            "unknown-column",
            part_of(node),
            "the joined tables have no such column.",
            "Use columns of the joined tables.",
        )
    return sides[node.rel][node.name.lower()].expression


def read_union(node: Any, read: RelationReader) -> Rows:
    """All inputs of a chain of unions, with columns in the order of the first."""
    sides, todo = [], [node]
    while todo:
        current = todo.pop()
        if kind_of(current) != "Union":
            sides.append(rows_only(read(current), "union"))
        elif current.distinct:
            refuse("unsupported-union", "union", "distinct compares rows of different units.", "Leave out `distinct`.")
        else:
            todo += [current.right, current.left]
    return unite([_order(side, sides[0]) for side in sides])


def _order(side: Rows, first: Rows) -> Rows:
    if set(side.columns) != set(first.columns):
        return side  # refused by `unite`
    made = project(side, [side.columns[name] for name in first.columns])
    return rows_only(made, "union")
