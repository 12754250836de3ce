"""Reads a SELECT over released tables: aggregates of groups, windows, joins. Everything in it is post-processing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from lapwing.expressions.expression import Column, Expression, Literal, Slot, walk
from lapwing.expressions.operators.base import call
from lapwing.expressions.operators.logic import AND, COALESCE, EQUAL
from lapwing.expressions.refusal import nearest, refuse
from lapwing.expressions.types import Type
from lapwing.plan.postprocessed import Compute, Fold, FoldCall, JoinTables, Stack, TableStep
from lapwing.plan.question import Output, lifted
from lapwing.sql import reader
from lapwing.sql.post_clauses import (
    Above,
    Known,
    Owner,
    SelectReading,
    grouping_bits,
    has_aggregate,
)
from lapwing.sql.post_select import Builder, read_fold, to_columns
from lapwing.sql.read_expression import read
from lapwing.sql.refusals import check_modifiers, part_of
from lapwing.sql.relation import Relation
from lapwing.sql.sqlglot_nodes import SqlNode, is_whole, terms_of

_JOINS = {
    ("", ""): "INNER",
    ("", "INNER"): "INNER",
    ("", "CROSS"): "CROSS",
    **{(side, kind): side for side in ("LEFT", "RIGHT", "FULL") for kind in ("", "OUTER")},
}
_FIRST = "Aggregate the rows first, in a subquery with GROUP BY."


@dataclass(frozen=True, slots=True)
class ReleasedSource:
    """One released table in FROM."""

    names: frozenset[str]
    columns: dict[str, tuple[str, Column]]
    """By lower-case name: the name that is shown, and the column."""


class OverReleased(SelectReading):
    """A SELECT over released tables."""

    def __init__(self, owner: Owner, select: exp.Select, known: Known, sources: list[Relation | Above | None]) -> None:
        super().__init__(owner, select, known)
        self.tables = sources
        self.sources: list[ReleasedSource] = []
        self.shared: set[str] = set()
        self.keys: dict[Expression, int] = {}
        self.folds: list[tuple[FoldCall, tuple[Expression, ...]]] = []
        self.nodes: list[SqlNode] = []
        self.folding = False
        self.outputs: dict[str, Expression] = {}

    def made(self) -> Above:
        select = self.select
        builder = self._from()
        self._where(builder)
        shown = list(self._shown())
        group = select.args.get("group")
        self.folding = (
            group is not None
            or select.args.get("having") is not None
            or any(has_aggregate(n) for _, n in shown if isinstance(n, exp.Expression))
        )
        sets: list[list[Expression]] = [[]]
        if self.folding:
            sets = [[self.key(node) for node in nodes] for nodes in self.sets()]
            self.keys = {key: place for place, key in enumerate(dict.fromkeys(key for one in sets for key in one))}
        done = len(self.scalars)
        outputs: list[tuple[str, Expression]] = []
        for name, node in shown:
            outputs.append((name, self.inner(node) if isinstance(node, exp.Expression) else self._lifted(node)))
            self.outputs.setdefault(name.lower(), outputs[-1][1])  # a later column may use its name
        having, qualify, by = self.conditions("having"), self.conditions("qualify"), self.sorting(outputs)
        self._attach(builder, done)
        there = self._folded(builder, sets) if self.folding else self._plain
        if self.folding:
            self._attach(builder, done)
        return self.finished(builder, there, outputs, having, qualify, by)

    def _plain(self, expression: Expression) -> Expression:
        return to_columns(expression, (), (), self.marks)

    def _attach(self, builder: Builder, first: int) -> None:
        """The values of sub-queries, from this one on."""
        for step, column, kind, name in self.scalars[first:]:
            builder.attach(step, column, kind, name)

    def _where(self, builder: Builder) -> None:
        """Conditions of WHERE, with the sub-queries in them attached first."""
        node = self.select.args.get("where")
        if node is None:
            return
        check_modifiers(node)
        conditions = [self._plain(self.inner(term, windows=False)) for term in terms_of(node.this, exp.And)]
        self._attach(builder, 0)
        builder.only(conditions, "WHERE")

    def _folded(self, builder: Builder, sets: list[list[Expression]]) -> Callable[[Expression], Expression]:
        """Groups the rows, once for each grouping set."""
        plain = [to_columns(key, (), (), self.marks) for key in self.keys]
        arguments = [[to_columns(e, (), (), self.marks) for e in values] for _, values in self.folds]
        needed = [*plain, *(e for values in arguments for e in values)]
        at = dict(zip(needed, builder.named(needed), strict=True))
        calls = [
            replace(made, arguments=tuple(at[e] for e in values))
            for (made, _), values in zip(self.folds, arguments, strict=True)
        ]
        keys, slots = [self.owner.fresh() for _ in plain], [self.owner.fresh() for _ in calls]
        types = dict(zip(keys, (key.type or Type.TEXT for key in plain), strict=True))
        types |= {name: made.type for name, made in zip(slots, calls, strict=True)}
        types |= {name: Type.INTEGER for name, _ in self.groupings}
        tables = []
        for place, one in enumerate(sets):
            own = {key: at[value] for key, value in zip(self.keys, plain, strict=True) if key in one}
            again = [replace(made, name=self.owner.fresh()) for made in calls]
            outputs: list[Expression] = [
                Column(own[key], types[name]) if key in own else Literal(None, types[name])
                for key, name in zip(self.keys, keys, strict=True)
            ]
            outputs += [Column(made.name, made.type) for made in again]
            outputs += [Literal(grouping_bits(named, one), Type.INTEGER) for _, named in self.groupings]
            names = list(types) if place == 0 else [self.owner.fresh() for _ in types]
            step = Fold(builder.step, tuple(own.values()), tuple(again))
            tables.append(Compute(step, tuple(map(Output, names, outputs))))
        builder.step, builder.types = Stack(tuple(tables)) if len(tables) > 1 else tables[0], types
        return lambda expression: to_columns(expression, keys, slots, self.marks)

    def inner(self, node: SqlNode, *, windows: bool = True) -> Expression:
        return self._lifted(read(self.stripped(node, windows=windows), self._leaf))

    def _lifted(self, expression: Expression) -> Expression:
        if not self.folding:
            return expression
        shown = lifted(expression, self.keys)
        loose = next((part for part in _walk_columns(shown)), None)
        if loose is not None:
            refuse(
                "not-aggregated",
                f"`{self._name(loose)}`",
                "outside an aggregate, only GROUP BY keys can be selected.",
                "Add it to GROUP BY, or aggregate it: SUM(x).",
            )
        return shown

    def _name(self, column: Column) -> str:
        return next((n for s in self.sources for n, c in s.columns.values() if c == column), column.name)

    def _leaf(self, node: SqlNode) -> Expression:
        if (number := self.mark(node)) is not None:
            return self.mark_slot(number)
        if isinstance(node, exp.Column):
            alias = "" if node.table else node.name.lower()
            known = any(alias in source.columns for source in self.sources)
            return self.outputs[alias] if alias in self.outputs and not known else self._column(node)
        if not self.folding:
            refuse(
                "misplaced-aggregate",
                part_of(node),
                "an aggregate cannot be used in WHERE or another aggregate.",
                "Move it out.",
            )
        if node in self.nodes:
            place = self.nodes.index(node)
            return Slot(place, self.folds[place][0].type)
        made, values = read_fold(node, self._below, self.owner.fresh())
        self.folds.append((made, values))
        self.nodes.append(node)
        return Slot(len(self.folds) - 1, made.type)

    def chosen(self, node: SqlNode) -> SqlNode | None:
        inner = node.this if isinstance(node, exp.IgnoreNulls) else node
        single = isinstance(inner, exp.ArgMax | exp.ArgMin | exp.AnyValue) and self.folding
        return self.marked(self._leaf(inner)) if single else None

    def _below(self, node: SqlNode) -> Expression:
        """An argument of an aggregate: an expression over the columns of FROM."""

        def leaf(part: SqlNode) -> Expression:
            if (number := self.mark(part)) is not None:
                return self.mark_slot(number)
            if not isinstance(part, exp.Column):
                refuse(
                    "misplaced-aggregate",
                    part_of(part),
                    "an aggregate cannot be used in another aggregate.",
                    "Move it out.",
                )
            return self._column(part)

        return read(node, leaf)

    def key(self, node: SqlNode) -> Expression:
        if is_whole(node):
            node = reader.selected(self.select, node)
        elif (
            isinstance(node, exp.Column)
            and not node.table
            and not any(node.name.lower() in s.columns for s in self.sources)
        ):
            written = {one.alias.lower(): one.this for one in self.select.expressions if isinstance(one, exp.Alias)}
            node = written.get(node.name.lower(), node)
        return self._below(self.stripped(node, windows=False))

    # FROM.

    def _from(self) -> Builder:
        select = self.select
        source = select.args.get("from_")
        joins = select.args.get("joins") or []
        nodes = [exp.Subquery() if source is None else source.this, *(join.this for join in joins)]
        builder: Builder | None = None
        for place, (table, node) in enumerate(zip(self.tables, nodes, strict=True)):
            if table is None:
                refuse(
                    "released-numbers",
                    f"FROM {part_of(node)}",
                    "rows cannot be combined with released numbers.",
                    _FIRST,
                )
            made = self.owner.released(table)
            columns = {shown.lower(): (shown, Column(self.owner.fresh(), kind)) for shown, _, kind in made.columns}
            renamed = tuple(
                Output(columns[shown.lower()][1].name, Column(name, kind)) for shown, name, kind in made.columns
            )
            step, types = Compute(made.step, renamed), {column.name: column.type for _, column in columns.values()}
            alias = node.alias or (node.name if isinstance(node, exp.Table) else "")
            one = ReleasedSource(
                frozenset(
                    {alias.lower(), *({node.name.lower()} if isinstance(node, exp.Table) and not joins else ())} - {""}
                ),
                columns,
            )
            if builder is None:
                builder = Builder(step, types, self.owner.fresh)
                self.sources.append(one)
            else:
                self._join(builder, step, types, one, joins[place - 1])
        if builder is None:
            refuse("unknown-table", "SELECT", "it names no table.", "Write FROM and a table's name.")
        return builder

    def _join(
        self, builder: Builder, step: TableStep, types: dict[str, Type], one: ReleasedSource, node: exp.Join
    ) -> None:
        words = (str(node.args.get("side") or ""), str(node.args.get("kind") or ""))
        on, using = node.args.get("on"), node.args.get("using") or []
        if words not in _JOINS or node.args.get("method"):
            refuse(
                "unsupported-join",
                part_of(node),
                "this join is not supported.",
                "Write JOIN or LEFT JOIN with ON a.x = b.y.",
            )
        if any(one.names & other.names for other in self.sources):
            refuse(
                "duplicate-name",
                part_of(node),
                "two tables have the same name.",
                "Use aliases: FROM t AS a JOIN t AS b.",
            )
        how = "CROSS" if words == ("", "") and not on and not using else _JOINS[words]
        condition: Expression | None = None
        for name in using:
            left = self._column(exp.Column(this=name.copy()))
            right = one.columns.get(name.name.lower())
            if right is None:
                refuse(
                    "unknown-column", f"USING ({name.name})", "the table has no such column.", "Use a column of both."
                )
            condition = _and(condition, call(EQUAL, left, right[1], part=lambda: part_of(node)), node)
        self.sources.append(one)
        if on is not None:
            for term in terms_of(on, exp.And):
                condition = _and(condition, self._below(term), node)
        if condition is not None and condition.type is not Type.BOOLEAN:
            refuse("wrong-type", part_of(node), "it is not a condition.", "Write ON a.x = b.y.")
        builder.step = JoinTables(builder.step, step, how if condition is not None else "CROSS", condition)
        builder.types |= types
        for name in using:
            self._merge(builder, name.name, how)

    def _merge(self, builder: Builder, name: str, how: str) -> None:
        """The column of USING, which is that of either side."""
        sides = [source.columns[name.lower()] for source in self.sources if name.lower() in source.columns]
        shown, merged = sides[0][0], sides[-1][1] if how == "RIGHT" else sides[0][1]
        if how == "FULL":
            both = call(COALESCE, sides[0][1], sides[-1][1], part=lambda: f"USING ({name})")
            merged = Column(builder.named([both])[0], both.type)
        for source in self.sources:
            if name.lower() in source.columns:
                source.columns[name.lower()] = shown, merged
        self.shared.add(name.lower())

    def _column(self, node: exp.Column) -> Expression:
        check_modifiers(node)
        name = node.name.lower()
        if node.table:
            found = [source for source in self.sources if node.table.lower() in source.names]
            if not found:
                known = (name for source in self.sources for name in source.names)
                refuse("unknown-table", part_of(node), "that table is not in FROM.", nearest(node.table, known))
        else:
            found = self.sources
        columns = {source.columns[name][1] for source in found if name in source.columns}
        if not columns:
            known = (shown for source in found for shown, _ in source.columns.values())
            refuse(
                "unknown-column", f"column `{node.name}`", "the subquery has no such column.", nearest(node.name, known)
            )
        if len(columns) > 1:
            refuse(
                "ambiguous",
                f"`{node.name}`",
                "several tables have a column with this name.",
                f"Write table.{node.name}.",
            )
        return columns.pop()

    def _shown(self) -> list[tuple[str, SqlNode | Expression]]:
        """The columns of SELECT; a star stands for all of them."""
        exact = {id(node) for node in self.select.expressions if isinstance(node, exp.Min | exp.Max)}
        return [
            (name.removeprefix("approx_") if id(node) in exact else name, node)  # of released numbers, so it is exact
            for name, node in reader.select_columns(self.select, self._star)
        ]

    def _star(self, node: SqlNode) -> dict[tuple[str, Column], None]:
        sources = [s for s in self.sources if not isinstance(node, exp.Column) or node.table.lower() in s.names]
        return dict.fromkeys(pair for source in sources for pair in source.columns.values())


def _and(first: Expression | None, second: Expression, node: SqlNode) -> Expression:
    return second if first is None else call(AND, first, second, part=lambda: part_of(node))


def _walk_columns(expression: Expression) -> list[Column]:
    return [part for part in walk(expression) if isinstance(part, Column)]
