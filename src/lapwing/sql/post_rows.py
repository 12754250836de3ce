"""Reads a SELECT that aggregates private rows and goes on above: windows, QUALIFY, OFFSET, grouping sets, totals."""

from __future__ import annotations

from functools import partial
from typing import NoReturn

from sqlglot import exp

from lapwing.expressions.expression import Expression
from lapwing.expressions.refusal import refuse
from lapwing.plan.postprocessed import TableStep
from lapwing.sql import reader
from lapwing.sql.from_clause import Body, Names
from lapwing.sql.parts import Above, Parts, slot_types
from lapwing.sql.post_clauses import Scalar, SelectReading, has_aggregate
from lapwing.sql.post_select import Builder, columns_for
from lapwing.sql.refusals import refuse_node
from lapwing.sql.relation import Aggregation, Rows
from lapwing.sql.sqlglot_nodes import SqlNode

TOTALS = "Totals and groups have noise of their own, so they need not add up."


class OverRows(SelectReading):
    """A SELECT that aggregates private rows, and goes on above."""

    def __init__(self, parts: Parts, select: exp.Select, scalar: Scalar, names: Names, body: Body) -> None:
        super().__init__(parts, select, scalar)
        self.names, self.body = names, body

    def read(self) -> Above:
        select, parts = self.select, self.parts
        source = reader.read_source(select, self.names, self.body)
        rows = source.relation
        if not isinstance(rows, Rows):
            self._refuse()
        if not any(map(has_aggregate, self.items())) and select.args.get("group") is None:
            window = next((part for node in self.items() for part in node.walk() if isinstance(part, exp.Window)), None)
            if window is not None:
                refuse_node(window)
            self._refuse()
        self.groups = reader.AggregationReader(select, source, rows, inside=False)
        sets = [[self.groups.key(node) for node in nodes] for nodes in self.sets()]
        for key in [key for present in sets for key in present]:
            self.groups.grouping.add_key(key, lambda: "GROUP BY")
        outputs = []
        for name, node in self.groups.shown():
            outputs.append((name, self.groups.above(node, self.above)))
            self.groups.outputs.setdefault(name.lower(), outputs[-1][1])  # a later column may use its name
        having, qualify, by = self.conditions("having"), self.conditions("qualify"), self.sorting(outputs)
        aggregates = tuple(self.groups.grouping.aggregates)
        if not aggregates:
            self._refuse()
        keys = {key: parts.fresh() for key in self.groups.grouping.keys}
        slots = [parts.fresh() for _ in aggregates]
        kinds = slot_types(Aggregation(rows, (), aggregates, {}))

        def part(present: list[Expression]) -> tuple[TableStep, dict[Expression, str], list[str]]:
            step, own, numbers = parts.part(Aggregation(rows, tuple(dict.fromkeys(present)), aggregates, {}))
            return step, dict(zip(dict.fromkeys(present), own, strict=True)), numbers

        step, types = self.stacked(sets, keys, dict(zip(slots, kinds, strict=True)), part)
        if len(sets) > 1:
            parts.note(TOTALS)
        builder = Builder(step, types, parts.fresh)
        self.attach(builder, 0)
        columns = columns_for(list(keys.values()), slots, types)
        return self.finished(builder, columns, outputs, having, qualify, by)

    def _refuse(self) -> NoReturn:
        """Refuses the SELECT as a question."""
        reader.read_select(self.select, self.names, self.body, inside=False)
        refuse("private-rows", "SELECT", "the rows themselves are private.", "Ask for COUNT(*) or AVG(column).")

    def inner(self, node: SqlNode, *, windows: bool = True) -> Expression:
        return self.groups.above(node, partial(self.above, windows=windows))

    def key(self, node: SqlNode) -> Expression:
        return self.groups.key(node)
