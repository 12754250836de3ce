"""Reads Ibis joins and unions: the same tables as from SQL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lapwing.expressions.expression import Expression, Literal
from lapwing.expressions.operators.base import call
from lapwing.expressions.operators.logic import COALESCE, NOT
from lapwing.expressions.refusal import refuse
from lapwing.expressions.types import Type
from lapwing.plan.question import Output
from lapwing.sql.combining import rows_only
from lapwing.sql.ibis_values import Values, kind_of, part_of, terms_of
from lapwing.sql.joins import BOTH_SIDES, filter_sides, join
from lapwing.sql.relation import Columns, Relation, Rows, by_name, filter_by, project
from lapwing.sql.semi_join_rows import is_member
from lapwing.sql.unions import unite

RelationReader = Callable[[Any], Relation]
"""Reads the relation below a node."""

HOW = {"inner", "left", "right", "semi", "anti"}
"""Supported joins."""

_EQUALS = "Join on left.x == right.y."


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
    pairs, only, both = [], [], []
    for term in terms:
        pair = _equal(term, sides, link.table, right.columns)
        side, condition = ("", None) if pair else _with_side(term, sides, link.table, right.columns)
        if pair:
            pairs.append(pair)
        elif side == "both":
            both.append(term)
        elif condition is not None:
            only.append((side or "right", condition))
    if not pairs:
        refuse("unsupported-join", "join", "only equality joins are supported.", _EQUALS)
    if link.how in ("semi", "anti"):
        if both or any(side == "left" for side, _ in only):
            why = "its other conditions may only use the right table."
            refuse("unsupported-join", f"{link.how}_join", why, "Count with that condition in `filter` separately.")
        return _semi_join(rows, filter_sides(rows, right, only, how="left", what="join")[1], pairs, link.how), sides
    if both and link.how != "inner":
        refuse("unsupported-join", part_of(both[0]), *BOTH_SIDES)
    rows, right, more = filter_sides(rows, right, only, how=link.how, what="join")
    made = join(rows, right, [*pairs, *more], how=link.how, what="join")
    moved = {side: made.left(columns) for side, columns in sides.items()} | {link.table: made.right(right.columns)}
    met = tuple(Values(lambda part: _field(part, moved)).read(term) for term in both)
    return Rows(made.table, {}, made.where + met), moved


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


def _equal(term: Any, sides: dict[Any, Columns], table: Any, columns: Columns) -> tuple[Expression, Expression] | None:
    """Both sides of an equality between a column of the left tables and one of the right one."""
    if kind_of(term) != "Equals":
        return None
    found = dict(_with_side(part, sides, table, columns) for part in (term.left, term.right))
    return (found["left"], found["right"]) if set(found) == {"left", "right"} else None


def _with_side(node: Any, sides: dict[Any, Columns], table: Any, columns: Columns) -> tuple[str, Expression]:
    """The expression, and the side whose columns it uses: both, or none if it is empty."""
    seen: set[str] = set()

    def leaf(part: Any) -> Expression:
        seen.add("right" if getattr(part, "rel", None) == table else "left")
        return _field(part, {**sides, table: columns})

    expression = Values(leaf).read(node)
    return ("both" if len(seen) == 2 else "".join(seen)), expression


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
