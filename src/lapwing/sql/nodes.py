"""The parser's nodes: chains and parentheses, and the names of columns that an analyst did not name.

Such a name, `avg_cost` for AVG(cost) or `count` for COUNT(*), is a function of the column as it is written, so that
another column beside it does not change it; only a second column of the same name gets a number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from sqlglot import exp

from lapwing.expressions.expression import Expression, Literal
from lapwing.expressions.types import Type
from lapwing.sql.refusals import check_modifiers, text_of

SqlNode = exp.Expression
SqlLeaf = Callable[[SqlNode], Expression]
"""The meaning of columns and aggregates in the expression's context."""
SqlReader = Callable[[SqlNode], Expression]
"""Reads what is below a node."""
Apply = Callable[..., Expression]
"""Calls an operator; a refusal names the node."""
ReadForm = Callable[[SqlNode, SqlReader, Apply], Expression]
"""Reads a node of one kind."""

NULL, ZERO = Literal(None, None), Literal(0, Type.INTEGER)
WHOLE = re.compile("[0-9]{1,19}")
"""The text of an integer literal."""


_LONGEST = 60
_FUNCTIONS = {exp.Min: "approx_min", exp.Max: "approx_max", exp.PercentileCont: "quantile"}


def terms_of(node: SqlNode, kind: type[SqlNode]) -> list[SqlNode]:
    """The terms of a chain of AND or OR, without recursion: chains can be long."""
    terms, todo = [], [node]
    while todo:
        current = bare(todo.pop())
        if type(current) is kind:
            check_modifiers(current)
            todo += [current.args["expression"], current.this]
        else:
            terms.append(current)
    return terms


def bare(node: SqlNode) -> SqlNode:
    """The node without enclosing parentheses."""
    while isinstance(node, exp.Paren):
        check_modifiers(node)
        node = node.this
    return node


def is_whole(node: SqlNode) -> bool:
    """True if it consists of at most 19 ASCII digits."""
    return isinstance(node, exp.Literal) and not node.is_string and WHOLE.fullmatch(node.name) is not None


def is_semi_join(node: SqlNode) -> bool:
    """True for x IN (SELECT ...) and EXISTS (SELECT ...)."""
    return isinstance(node, exp.Exists) or (isinstance(node, exp.In) and node.args.get("query") is not None)


def names_of(columns: Sequence[SqlNode]) -> list[str]:
    """The name of each column of a SELECT list. Those that are written come first, whatever their place."""
    taken = {name.lower() for column in columns if (name := _written(column))}
    last: dict[str, int] = {}
    return [_written(column) or _fresh(_default(column), taken, last) for column in columns]


def _written(column: SqlNode) -> str:
    """The alias, or the name of a plain column; empty if there is neither."""
    return str(column.alias if isinstance(column, exp.Alias) else column.name if isinstance(column, exp.Column) else "")


def _default(node: SqlNode) -> str:
    if isinstance(node, exp.Filter | exp.WithinGroup):
        return _default(node.this)
    if not isinstance(node, exp.AggFunc):
        return text_of(node).lower()[:_LONGEST]
    function = _FUNCTIONS.get(type(node)) or node.sql_name().lower()
    inner = node.this
    if isinstance(inner, exp.Distinct):
        function, inner = f"{function}_distinct", inner.expressions[0] if len(inner.expressions) == 1 else None
    return f"{function}_{inner.name}" if isinstance(inner, exp.Column) and inner.name else function


def _fresh(name: str, taken: set[str], last: dict[str, int]) -> str:
    """The name, with the first free number after the last one that it got, if it is taken; marks it as taken."""
    number, found = last.get(name, 1), name
    while found.lower() in taken:
        number += 1
        found = f"{name}_{number}"
    last[name] = number
    taken.add(found.lower())
    return found
