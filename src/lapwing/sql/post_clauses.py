"""What every SELECT above the release has: its clauses, and what stands in place of its windows and sub-queries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Protocol

from sqlglot import exp

from lapwing.expressions.expression import Column, Expression, Slot
from lapwing.expressions.refusal import refuse
from lapwing.expressions.types import Type
from lapwing.plan.postprocessed import MOST_PARTS, ReleasedPart, TableStep
from lapwing.sql import reader
from lapwing.sql.from_clause import Names
from lapwing.sql.post_select import MARK, Builder, PendingWindow, put_windows, read_window
from lapwing.sql.refusals import NODES, check_modifiers, part_of
from lapwing.sql.relation import Aggregation, Relation
from lapwing.sql.sqlglot_nodes import SqlNode, is_whole, terms_of

_MARKED = 1_000_000  # from here on the numbers of slots stand for windows and sub-queries
_SELECT = frozenset(
    {"expressions", "from_", "where", "group", "having", "order", "limit", "with_", "joins"}
    | {"qualify", "offset", "windows", "distinct"}
)
_TAKEN_OUT = (exp.Window, exp.Subquery, exp.Grouping, exp.ArgMax, exp.ArgMin, exp.AnyValue)


@dataclass(frozen=True, slots=True)
class Above:
    """Steps over released tables, and the columns that the last one shows."""

    step: TableStep
    columns: tuple[tuple[str, str, Type], ...]
    """The name that is shown, the name in the tree, and the type."""


@dataclass(frozen=True, slots=True)
class Known:
    """What names in FROM mean: rows and single aggregations, as everywhere, and released tables."""

    names: Names
    above: Mapping[str, Above] = field(default_factory=dict)


class Owner(Protocol):
    """The statement that a SELECT is part of."""

    def body(self, node: exp.Expr, names: Names) -> Relation:
        """A sub-query over rows; refused if it is released."""

    def fresh(self) -> str:
        """A name that no column of the tree has."""

    def note(self, text: str) -> None:
        """Says something below the answer."""

    def released(self, made: Relation | Above) -> Above:
        """The released table of what was read."""

    def part(self, groups: Aggregation) -> tuple[ReleasedPart, list[str], list[str]]:
        """A new part: the step, and the names of its keys and numbers."""

    def scalar(self, node: SqlNode, known: Known) -> tuple[TableStep, str, Type]:
        """A sub-query in an expression."""

    def finished(
        self,
        builder: Builder,
        outputs: list[tuple[str, Expression]],
        by: list[tuple[Expression, bool]],
        limit: int | None,
        offset: int,
        *,
        distinct: bool = False,
    ) -> Above:
        """Shows these columns, sorted and cut."""


class SelectReading(ABC):
    """One SELECT being read: what stands in place of its windows and sub-queries, and its clauses."""

    def __init__(self, owner: Owner, select: exp.Select, known: Known) -> None:
        self.owner, self.select, self.known = owner, select, known
        for part, value in select.args.items():
            if value and part not in _SELECT:
                check_modifiers(select)
        self.marks: dict[int, Expression] = {}
        self.windows: list[PendingWindow] = []
        self.scalars: list[tuple[TableStep, str, Type, str]] = []
        self.groupings: list[tuple[str, tuple[Expression, ...]]] = []
        self.named = {one.this.name.lower(): one for one in select.args.get("windows") or []}

    # What is taken out of expressions.

    def stripped(self, node: SqlNode, *, windows: bool = True) -> SqlNode:
        """The node with marks in place of window functions, sub-queries and GROUPING."""
        if not any(isinstance(part, _TAKEN_OUT) for part in node.walk()):
            return node

        def mark(part: SqlNode) -> SqlNode:
            if isinstance(part, exp.Window):
                if not windows:
                    refuse("unsupported-function", part_of(part), *NODES[exp.Window])
                found = read_window(
                    part, self.named, lambda inner: self.inner(inner, windows=False), self.owner.fresh()
                )
                self.windows.append(found)
                return self.marked(Column(found.name, found.type))
            if isinstance(part, exp.Subquery) or (isinstance(part, exp.Select) and part is not node):
                step, column, kind = self.owner.scalar(part, self.known)
                name = self.owner.fresh()
                self.scalars.append((step, column, kind, name))
                return self.marked(Column(name, kind))
            if isinstance(part, exp.Grouping):
                name = self.owner.fresh()
                self.groupings.append((name, tuple(self.key(inner) for inner in part.expressions)))
                return self.marked(Column(name, Type.INTEGER))
            return self.chosen(part) or part

        return node.copy().transform(mark, copy=False)

    def chosen(self, _: SqlNode) -> SqlNode | None:
        """What stands in place of an aggregate that returns a single value, where that is no row of anybody's."""
        return None

    def marked(self, meant: Expression) -> SqlNode:
        """A column that stands for this."""
        number = _MARKED + len(self.marks)
        self.marks[number] = meant
        return exp.column(f"{MARK}{number}", quoted=True)

    def mark(self, node: SqlNode) -> int | None:
        """The number behind a mark."""
        return int(node.name[1:]) if isinstance(node, exp.Column) and node.name.startswith(MARK) else None

    def mark_slot(self, number: int) -> Slot:
        """The mark in an expression."""
        return Slot(number, self.marks[number].type or Type.TEXT)

    @abstractmethod
    def inner(self, node: SqlNode, *, windows: bool = True) -> Expression:
        """An expression above the aggregation."""

    @abstractmethod
    def key(self, node: SqlNode) -> Expression:
        """What a node of GROUP BY or GROUPING means."""

    # Clauses.

    def conditions(self, clause: str) -> list[Expression]:
        node = self.select.args.get(clause)
        if node is None:
            return []
        check_modifiers(node)
        return [self.inner(term) for term in terms_of(node.this, exp.And)]

    def sorting(self, outputs: list[tuple[str, Expression]]) -> list[tuple[Expression, bool]]:
        order = self.select.args.get("order")
        terms = [] if order is None else reader.sorting(order)
        known = reader.known_outputs(outputs)
        return [
            (reader.output_of(term.this, *known) or self.inner(term.this), bool(term.args.get("desc")))
            for term in terms
        ]

    def finished(
        self,
        builder: Builder,
        there: Callable[[Expression], Expression],
        outputs: list[tuple[str, Expression]],
        having: list[Expression],
        qualify: list[Expression],
        by: list[tuple[Expression, bool]],
    ) -> Above:
        """What follows GROUP BY. `there` gives an expression over the columns that the builder has by now."""
        builder.only(map(there, having), "HAVING")
        put_windows(builder, [window.moved(there) for window in self.windows])
        builder.only(map(there, qualify), "QUALIFY")
        shown, order = [(name, there(e)) for name, e in outputs], [(there(e), descending) for e, descending in by]
        limit, offset = reader.limit_of(self.select), offset_of(self.select)
        return self.owner.finished(builder, shown, order, limit, offset, distinct=is_distinct(self.select))

    def sets(self) -> list[list[SqlNode]]:
        """The grouping sets of GROUP BY, as nodes; one set if it is plain."""
        group = self.select.args.get("group")
        if group is None:
            return [[]]
        allowed = {"expressions", "rollup", "cube", "grouping_sets", "all"}
        if any(value and part not in allowed for part, value in group.args.items()):
            check_modifiers(group)
        if group.args.get("all"):
            return [[node for node in self.items() if not has_aggregate(node) and node.find(exp.Column)]]
        plain = list(group.expressions)
        sets: list[list[SqlNode]] = [plain]
        for kind in ("rollup", "cube", "grouping_sets"):
            for one in group.args.get(kind) or []:
                more = _expanded(one, plain)
                if kind == "rollup" and not one.expressions:
                    sets = [[]]  # WITH ROLLUP: of the plain keys
                sets = [[*first, *second] for first in sets for second in more]
                if len(sets) > MOST_PARTS:
                    refuse("too-large", "GROUP BY", f"it has more than {MOST_PARTS} grouping sets.", "Use fewer keys.")
        return sets

    def items(self) -> list[SqlNode]:
        """The columns of SELECT without their names."""
        return [node.this if isinstance(node, exp.Alias) else node for node in self.select.expressions]


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


def grouping_bits(named: tuple[Expression, ...], present: list[Expression]) -> int:
    """GROUPING: a binary digit for each key, 1 if it is left out of the set."""
    bits = 0
    for key in named:
        bits = 2 * bits + (key not in present)
    return bits


def is_distinct(select: exp.Select) -> bool:
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
