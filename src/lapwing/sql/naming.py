"""Names of columns that an analyst did not name: `avg_cost` for AVG(cost), `count` for COUNT(*).

A name is a function of the column as it is written, so that another column beside it does not change it; only a second
column of the same name gets a number.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from lapwing.sql.refusals import text_of
from lapwing.sql.sqlglot_nodes import SqlNode

_LONGEST = 60
_FUNCTIONS = {exp.Min: "approx_min", exp.Max: "approx_max", exp.PercentileCont: "quantile"}


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
