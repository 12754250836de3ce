"""Helpers for the parser's nodes."""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from lapwing.expressions.expression import Expression, Literal
from lapwing.expressions.types import Type
from lapwing.sql.refusals import check_modifiers

SqlNode = exp.Expression
SqlLeaf = Callable[[SqlNode], Expression]
"""The meaning of columns and aggregates in the expression's context."""
SqlReader = Callable[[SqlNode], Expression]
"""Reads what is below a node."""
Apply = Callable[..., Expression]
"""Calls an operator; a refusal names the node."""
Form = Callable[[SqlNode, SqlReader, Apply], Expression]
"""Reads a node of one kind."""

NULL, ZERO = Literal(None, None), Literal(0, Type.INTEGER)
WHOLE = re.compile("[0-9]{1,19}")
"""The text of an integer literal."""


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
