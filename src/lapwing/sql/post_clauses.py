"""Reads a SELECT that goes on above the release: what every one has, and the one that aggregates rows itself.

Windows, QUALIFY, OFFSET, grouping sets and totals are computed from the released numbers. SELECTs over released tables
are in post_released.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from itertools import combinations
from typing import NoReturn

from sqlglot import exp

from lapwing.expressions.expression import Column, Expression, Key, Literal, Slot
from lapwing.expressions.refusal import refuse
from lapwing.expressions.types import Type
from lapwing.plan.postprocessed import MOST_PARTS, Compute, Stack, TableStep
from lapwing.plan.question import Output
from lapwing.sql import reader
from lapwing.sql.from_clause import Body, Names
from lapwing.sql.nodes import SqlNode, is_whole
from lapwing.sql.parts import Above, Parts, slot_types
from lapwing.sql.post_select import Builder, PendingWindow, columns_for, put_windows, read_window
from lapwing.sql.refusals import MODIFIERS_ABOVE, check_modifiers, part_of, refuse_node
from lapwing.sql.relation import Aggregation, Meanings, Rows, substitute

TOTALS = "Totals and groups have noise of their own, so they need not add up."
_MARKED = 1_000_000  # from here on the numbers of slots stand for windows and sub-queries
Scalar = Callable[[SqlNode], tuple[TableStep, str, Type]]
"""Reads a sub-query in an expression."""
ReleaseSet = Callable[[list[Expression]], tuple[TableStep, Mapping[Expression, str], list[str]]]
"""The table of one grouping set, with the columns of its keys and of its numbers."""


class SelectReading(ABC):
    """One SELECT above the release being read: its windows and sub-queries, and its clauses."""

    def __init__(self, parts: Parts, select: exp.Select, scalar: Scalar) -> None:
        self.parts, self.select, self.scalar = parts, select, scalar
        check_modifiers(select, MODIFIERS_ABOVE[exp.Select])
        self.marks: dict[Column | Key | Slot, Expression] = {}
        """The column that each slot of a window, sub-query or GROUPING stands for."""
        self.windows: list[PendingWindow] = []
        self.scalars: list[tuple[TableStep, str, Type, str]] = []
        self.groupings: list[tuple[str, tuple[Expression, ...]]] = []
        self.named = {window.this.name.lower(): window for window in select.args.get("windows") or []}

    # Expressions.

    def above(self, node: SqlNode, *, windows: bool = True) -> Expression | None:
        """What stands for a window function, a sub-query or GROUPING."""
        name = self.parts.fresh()
        match node:
            case exp.Window():
                if not windows:
                    why = "a window function cannot be used in WHERE, a key, an aggregate or another window function."
                    refuse("unsupported-function", part_of(node), why, "Compute it in a subquery first.")
                window = read_window(node, self.named, partial(self.inner, windows=False), name)
                self.windows.append(window)
                kind = window.call.type
            case exp.Subquery():
                step, column, kind = self.scalar(node)
                self.scalars.append((step, column, kind, name))
            case exp.Grouping():
                self.groupings.append((name, tuple([self.key(inner) for inner in node.expressions])))
                kind = Type.INTEGER
            case _:
                return None
        slot = Slot(_MARKED + len(self.marks), kind)
        self.marks[slot] = Column(name, kind)
        return slot

    @abstractmethod
    def inner(self, node: SqlNode, *, windows: bool = True) -> Expression:
        """An expression above the aggregation."""

    @abstractmethod
    def key(self, node: SqlNode) -> Expression:
        """What a node of GROUP BY or GROUPING means."""

    def attach(self, builder: Builder, first: int) -> None:
        """The values of sub-queries, from this one on."""
        for step, column, kind, name in self.scalars[first:]:
            builder.attach(step, column, kind, name)

    # Clauses.

    def conditions(self, clause: str) -> list[Expression]:
        return reader.conditions_of(self.select, clause, partial(self.inner, windows=clause != "where"))

    def clauses(
        self, outputs: list[tuple[str, Expression]]
    ) -> tuple[list[Expression], list[Expression], list[tuple[Expression, bool]]]:
        """HAVING, QUALIFY and ORDER BY."""
        by = reader.sorting(self.select, outputs, self.inner)
        return self.conditions("having"), self.conditions("qualify"), by

    def stacked(
        self,
        sets: list[list[Expression]],
        keys: Mapping[Expression, str],
        slots: Mapping[str, Type],
        table: ReleaseSet,
    ) -> tuple[TableStep, dict[str, Type]]:
        """The tables of all grouping sets one below the other, and their columns. A key that is left out is NULL."""
        types = {name: key.type or Type.TEXT for key, name in keys.items()} | dict(slots)
        types |= {name: Type.INTEGER for name, _ in self.groupings}
        tables: list[Compute] = []
        for present in sets:
            step, own, numbers = table(present)
            columns: list[Expression] = [
                Column(own[key], types[name]) if key in own else Literal(None, types[name])
                for key, name in keys.items()
            ]
            columns += [Column(number, kind) for number, kind in zip(numbers, slots.values(), strict=True)]
            columns += [Literal(_grouping_bits(named, present), Type.INTEGER) for _, named in self.groupings]
            names = [self.parts.fresh() for _ in types] if tables else list(types)
            tables.append(Compute(step, tuple(map(Output, names, columns))))
        return Stack(tuple(tables)) if len(tables) > 1 else tables[0], types

    def finished(
        self,
        builder: Builder,
        columns: Meanings,
        outputs: list[tuple[str, Expression]],
        having: list[Expression],
        qualify: list[Expression],
        by: list[tuple[Expression, bool]],
    ) -> Above:
        """What follows GROUP BY. `columns` are those of the builder, by what they are in an expression."""
        there = partial(substitute, meanings={**columns, **self.marks})
        builder.only(map(there, having), "HAVING")
        put_windows(builder, self.windows, there)
        builder.only(map(there, qualify), "QUALIFY")
        shown, order = [(name, there(e)) for name, e in outputs], [(there(e), descending) for e, descending in by]
        limit, offset = reader.limit_of(self.select), offset_of(self.select)
        return self.parts.finished(builder, shown, order, limit, offset, distinct=_is_distinct(self.select))

    def sets(self) -> list[list[SqlNode]]:
        """The grouping sets of GROUP BY, as nodes; one set if it is plain."""
        group = self.select.args.get("group")
        if group is None:
            return [[]]
        check_modifiers(group, MODIFIERS_ABOVE[exp.Group])
        if group.args.get("all"):
            return [reader.all_keys(self.select)]
        plain = list(group.expressions)
        sets: list[list[SqlNode]] = [plain]
        for kind in ("rollup", "cube", "grouping_sets"):
            for clause in group.args.get(kind) or []:
                more = _expanded(clause, plain)
                if kind == "rollup" and not clause.expressions:
                    sets = [[]]  # WITH ROLLUP: of the plain keys
                sets = [[*first, *second] for first in sets for second in more]
                if len(sets) > MOST_PARTS:
                    refuse("too-large", "GROUP BY", f"it has more than {MOST_PARTS} grouping sets.", "Use fewer keys.")
        return sets

    def items(self) -> list[SqlNode]:
        """The columns of SELECT without their names."""
        return [node.this if isinstance(node, exp.Alias) else node for node in self.select.expressions]


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
        clauses = self.clauses(outputs)
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
        return self.finished(builder, columns, outputs, *clauses)

    def _refuse(self) -> NoReturn:
        """Refuses the SELECT as a question."""
        reader.read_select(self.select, self.names, self.body, inside=False)
        refuse("private-rows", "SELECT", "the rows themselves are private.", "Ask for COUNT(*) or AVG(column).")

    def inner(self, node: SqlNode, *, windows: bool = True) -> Expression:
        return self.groups.above(node, partial(self.above, windows=windows))

    def key(self, node: SqlNode) -> Expression:
        return self.groups.key(node)


def _expanded(node: SqlNode, plain: list[SqlNode]) -> list[list[SqlNode]]:
    """The sets that ROLLUP, CUBE or GROUPING SETS stands for."""
    listed = [_one_set(part) for part in node.expressions] or [[part] for part in plain]
    if isinstance(node, exp.Rollup):
        return [[key for part in listed[:many] for key in part] for many in range(len(listed), -1, -1)]
    if isinstance(node, exp.Cube):
        if len(listed) > 5:
            refuse("too-large", "CUBE", f"it makes more than {MOST_PARTS} grouping sets.", "Use fewer keys.")
        chosen = [c for many in range(len(listed), -1, -1) for c in combinations(listed, many)]
        return [[key for part in one for key in part] for one in chosen]
    sets: list[list[SqlNode]] = []
    for part in node.expressions:
        sets += (
            _expanded(part, plain) if isinstance(part, exp.Rollup | exp.Cube | exp.GroupingSets) else [_one_set(part)]
        )
    return sets


def _one_set(node: SqlNode) -> list[SqlNode]:
    if isinstance(node, exp.Tuple):
        return list(node.expressions)
    return [node.this] if isinstance(node, exp.Paren) else [node]


def _grouping_bits(named: tuple[Expression, ...], present: list[Expression]) -> int:
    """GROUPING: a binary digit for each key, 1 if it is left out of the set."""
    bits = 0
    for key in named:
        bits = 2 * bits + (key not in present)
    return bits


def _is_distinct(select: exp.Select) -> bool:
    distinct = select.args.get("distinct")
    if distinct is not None and distinct.args.get("on") is not None:
        refuse("unsupported-clause", "DISTINCT ON", "it is not supported.", "Use QUALIFY ROW_NUMBER() OVER (...) = 1.")
    return distinct is not None


def offset_of(node: SqlNode) -> int:
    offset = node.args.get("offset")
    if offset is None:
        return 0
    value = offset.args.get("expression")
    if value is None or not is_whole(value):
        refuse("wrong-argument", "OFFSET", "it takes an integer.", "For example: OFFSET 10.")
    return int(value.name)


def has_aggregate(node: SqlNode) -> bool:
    """Whether there is an aggregate outside of windows and sub-queries."""
    todo: list[exp.Expr] = [node]
    while todo:
        part = todo.pop()
        if isinstance(part, exp.Window):
            todo += list(part.this.iter_expressions())
            todo += [*(part.args.get("partition_by") or []), *([part.args["order"]] if part.args.get("order") else [])]
        elif isinstance(part, exp.Subquery | exp.Select):
            continue
        elif isinstance(part, exp.AggFunc | exp.WithinGroup):
            return True
        else:
            todo += list(part.iter_expressions())
    return False
