"""Reads a SELECT that aggregates private rows and goes on above: windows, QUALIFY, OFFSET, grouping sets, totals."""

from __future__ import annotations

from typing import NoReturn

from sqlglot import exp

from lapwing.expressions.expression import Column, Expression, Literal
from lapwing.expressions.refusal import refuse
from lapwing.expressions.types import Type
from lapwing.plan.postprocessed import Compute, Stack
from lapwing.plan.question import Output
from lapwing.sql import reader
from lapwing.sql.post_clauses import (
    Above,
    SelectReading,
    grouping_bits,
    has_aggregate,
)
from lapwing.sql.post_select import Builder, to_columns
from lapwing.sql.refusals import refuse_node
from lapwing.sql.relation import Aggregation, Rows
from lapwing.sql.sqlglot_nodes import SqlNode

TOTALS = "Totals and groups have noise of their own, so they need not add up."


class OverRows(SelectReading):
    """A SELECT that aggregates private rows, and goes on above."""

    def made(self) -> Above:
        select = self.select
        self.source = reader.read_source(select, self.known.names, self.owner.body)
        relation = self.source.relation
        if not isinstance(relation, Rows):
            self._refuse()
        if not any(map(has_aggregate, self.items())) and select.args.get("group") is None:
            window = next((part for node in self.items() for part in node.walk() if isinstance(part, exp.Window)), None)
            if window is not None:
                refuse_node(window)
            self._refuse()
        self.groups = reader.AggregationReader(select, self.source, relation, inside=False)
        self.groups.stands_for = self._slot
        sets = [[self.groups.key(node) for node in nodes] for nodes in self.sets()]
        everything = list(dict.fromkeys(key for one in sets for key in one))
        for key in everything:
            self.groups.grouping.add_key(key, lambda: "GROUP BY")
        outputs = []
        for name, node in self._shown():
            outputs.append((name, self.inner(node)))
            self.groups.outputs.setdefault(name.lower(), outputs[-1][1])  # a later column may use its name
        having, qualify, by = self.conditions("having"), self.conditions("qualify"), self.sorting(outputs)
        if not self.groups.grouping.aggregates:
            self._refuse()
        return self._steps(relation, sets, everything, outputs, having, qualify, by)

    def _refuse(self) -> NoReturn:
        """Refuses the SELECT as a question."""
        reader.read_select(self.select, self.known.names, self.owner.body, inside=False)
        refuse("private-rows", "SELECT", "the rows themselves are private.", "Ask for COUNT(*) or AVG(column).")

    def _steps(
        self,
        rows: Rows,
        sets: list[list[Expression]],
        everything: list[Expression],
        outputs: list[tuple[str, Expression]],
        having: list[Expression],
        qualify: list[Expression],
        by: list[tuple[Expression, bool]],
    ) -> Above:
        aggregates = tuple(self.groups.grouping.aggregates)
        keys = [self.owner.fresh() for _ in everything]
        slots = [self.owner.fresh() for _ in aggregates]
        types = dict(zip(keys, (key.type or Type.TEXT for key in everything), strict=True))
        types |= dict(zip(slots, reader.slot_types(aggregates), strict=True))
        types |= {name: Type.INTEGER for name, _ in self.groupings}
        tables = []
        for place, one in enumerate(sets):
            step, own, numbers = self.owner.part(Aggregation(rows, tuple(dict.fromkeys(one)), aggregates, {}))
            there = dict(zip(dict.fromkeys(one), own, strict=True))
            made: list[Expression] = [
                Column(there[key], types[name]) if key in there else Literal(None, types[name])
                for key, name in zip(everything, keys, strict=True)
            ]
            made += [Column(name, types[slot]) for name, slot in zip(numbers, slots, strict=True)]
            made += [Literal(grouping_bits(named, one), Type.INTEGER) for _, named in self.groupings]
            names = list(types) if place == 0 else [self.owner.fresh() for _ in types]
            tables.append(Compute(step, tuple(map(Output, names, made))))
        if len(tables) > 1:
            self.owner.note(TOTALS)
        builder = Builder(Stack(tuple(tables)) if len(tables) > 1 else tables[0], types, self.owner.fresh)
        for step_, column, kind, name in self.scalars:
            builder.attach(step_, column, kind, name)

        def there_(expression: Expression) -> Expression:
            return to_columns(expression, keys, slots, self.marks)

        return self.finished(builder, there_, outputs, having, qualify, by)

    def _shown(self) -> list[tuple[str, SqlNode]]:
        pairs = []
        for name, node in reader.select_columns(self.select, self.source.star):
            if not isinstance(node, exp.Expression):
                refuse_node(exp.Star())
            pairs.append((name, node))
        return pairs

    def inner(self, node: SqlNode, *, windows: bool = True) -> Expression:
        return self.groups.above(self.stripped(node, windows=windows))

    def key(self, node: SqlNode) -> Expression:
        return self.groups.key(node)

    def _slot(self, node: SqlNode) -> Expression | None:
        number = self.mark(node)
        return None if number is None else self.mark_slot(number)
