"""What a workload reads and how it is bounded: an ordinary outline, whose keys are the axes. Reads no rows.

What is counted is a question, SELECT COUNT(*) ... GROUP BY all axes, with the limits of every question.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

from sqlglot import exp

from lapwing.errors import Misconfigured, Refused
from lapwing.expressions.refusal import refuse
from lapwing.expressions.table import Catalog, Table
from lapwing.mechanisms.ranges.components import Set
from lapwing.plan.plan import Outline, make_outline
from lapwing.plan.question import Question
from lapwing.plan.workload import Axis, DistributionKind, MarginalsKind
from lapwing.sql import read_sql
from lapwing.sql.refusals import DIALECT


def make_workload(
    catalog: Catalog, table: Table, where: str | None, axes: Sequence[Axis], sets: tuple[Set, ...] | None = None
) -> Outline:
    """The tables over these sets of axes, or the distribution along the one axis; raises Refused."""
    question = _question(catalog, table, where)
    outline = make_outline(question)
    (counts,), all_axes = outline.kinds, tuple(axes)
    groups, limit = _groups(table, math.prod(axis.size for axis in axes))
    return replace(
        outline,
        question=replace(question, keys=tuple(axis.key for axis in axes), outputs=()),
        kinds=(DistributionKind(counts, all_axes) if sets is None else MarginalsKind(counts, all_axes, sets),),
        groups_per_unit=groups,
        limit_groups=limit,
        domain=tuple(axis.domain for axis in axes),
    )


def find_table(catalog: Catalog, name: str | None) -> Table:
    """The table of this name, or the only private one; raises Refused if there is none."""
    if not isinstance(name, str | None):
        raise Misconfigured('`table` must be the name of a table, for example table="visits". Nothing was charged.')
    if name is not None:
        return catalog.table(name)
    private = [table for table in catalog.tables if not table.public]
    if len(private) != 1:
        refuse("ambiguous", "`table`", f"there are {len(private)} private tables.", 'Say which one: table="...".')
    return private[0]


def _question(catalog: Catalog, table: Table, where: str | None) -> Question:
    """COUNT(*) of the rows where the condition holds."""
    if not isinstance(where, str | None):
        raise Misconfigured('`where` must be a condition in SQL, for example where="age >= 18". Nothing was charged.')
    if where is not None and not str(where).strip():
        _refuse_where("it is empty.")
    name = exp.to_identifier(table.name, quoted=True).sql(dialect=DIALECT)
    condition = "" if where is None else f" WHERE ({where}\n)"
    try:
        found = read_sql(f"SELECT COUNT(*) AS n FROM {name}{condition}", catalog)
    except Refused as error:
        if error.code in ("syntax", "not-one-select", "unsupported-union"):
            _refuse_where()  # the analyst wrote no SELECT
        raise
    plain = Question(table, found.where, (), found.aggregates, found.outputs)
    if found != plain or len(found.outputs) != 1 or len(found.aggregates) != 1:
        _refuse_where()
    return found


def _refuse_where(why: str = "it must be one condition on the rows of the table.") -> NoReturn:
    refuse("wrong-argument", "`where`", why, 'Write the condition alone: where="year = 1".')


def _groups(table: Table, cells: int) -> tuple[int, bool]:
    """In how many cells one unit may count, and whether that must be enforced."""
    if table.by_row:
        return 1, False
    if table.groups_per_unit is None:
        why, undeclared = "one unit could count in every cell.", f"groups_per_unit for `{table.name}`"
        refuse("unbounded-groups", f"`{table.name}`", why, "Ask with groups=1", undeclared)
    return min(cells, table.groups_per_unit), table.groups_per_unit < cells
