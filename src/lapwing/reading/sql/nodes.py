"""Small questions about nodes of the parser."""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from lapwing.language.expression import Expression, Literal
from lapwing.language.types import Type
from lapwing.reading.sql.refused import check_modifiers

SqlNode = exp.Expression
SqlLeaf = Callable[[SqlNode], Expression]
"""What columns and aggregates mean where the expression stands."""
SqlReader = Callable[[SqlNode], Expression]
"""Reads what stands below a node."""

NULL, ZERO = Literal(None, None), Literal(0, Type.INTEGER)
WHOLE = re.compile("[0-9]{1,19}")
"""How a whole number is written."""


def terms_of(node: SqlNode, kind: type[SqlNode]) -> list[SqlNode]:
    """The terms of a chain of AND or OR, without recursion: chains may be long."""
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
    """The node without parentheses around it."""
    while isinstance(node, exp.Paren):
        check_modifiers(node)
        node = node.this
    return node


def is_whole(node: SqlNode) -> bool:
    """Whether it is written with at most 19 of the digits 0 to 9."""
    return isinstance(node, exp.Literal) and not node.is_string and WHOLE.fullmatch(node.name) is not None
