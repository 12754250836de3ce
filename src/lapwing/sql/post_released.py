"""Reads a SELECT over released tables: aggregates of groups, windows, joins. Everything in it is post-processing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NoReturn

from sqlglot import exp

from lapwing.expressions.expression import Column, Expression, Slot, walk
from lapwing.expressions.operators.base import call, join_terms
from lapwing.expressions.operators.logic import AND, COALESCE, EQUAL
from lapwing.expressions.refusal import refuse
from lapwing.expressions.types import Type
from lapwing.plan.postprocessed import Compute, Fold, FoldCall, JoinTables, TableStep
from lapwing.plan.question import Output, lifted
from lapwing.sql import reader
from lapwing.sql.from_clause import Scope, Scopes
from lapwing.sql.nodes import SqlNode, is_semi_join, is_whole, terms_of
from lapwing.sql.parts import Above, Parts, refuse_rows
from lapwing.sql.post_clauses import Scalar, SelectReading, has_aggregate
from lapwing.sql.post_select import Builder, columns_for, read_fold
from lapwing.sql.read_expression import ReadAbove, read
from lapwing.sql.refusals import check_modifiers, part_of
from lapwing.sql.relation import Meanings, Relation, substitute

_JOINS = {
    ("", ""): "INNER",
    ("", "INNER"): "INNER",
    ("", "CROSS"): "CROSS",
    **{(side, kind): side for side in ("LEFT", "RIGHT", "FULL") for kind in ("", "OUTER")},
}


class OverReleased(SelectReading):
    """A SELECT over released tables."""

    def __init__(
        self, parts: Parts, select: exp.Select, scalar: Scalar, sources: Sequence[Relation | Above | None]
    ) -> None:
        super().__init__(parts, select, scalar)
        self.sources = sources
        self.scopes = Scopes(())
        self.keys: dict[Expression, int] = {}
        self.folds: list[tuple[FoldCall, tuple[Expression, ...]]] = []
        self.folded: dict[SqlNode, Slot] = {}
        self.folding = False
        self.outputs: dict[str, Expression] = {}

    def read(self) -> Above:
        select = self.select
        builder = self._from()
        conditions = [self._plain(condition) for condition in self.conditions("where")]
        self.attach(builder, 0)
        builder.only(conditions, "WHERE")
        attached, shown = len(self.scalars), self._shown()
        self.folding = (
            select.args.get("group") is not None
            or select.args.get("having") is not None
            or any(has_aggregate(node) for _, node in shown if isinstance(node, exp.Expression))
        )
        sets: list[list[Expression]] = [[]]
        if self.folding:
            sets = [[self.key(node) for node in nodes] for nodes in self.sets()]
            for key in [key for present in sets for key in present]:
                self.keys.setdefault(key, len(self.keys))
        outputs: list[tuple[str, Expression]] = []
        for name, node in shown:
            outputs.append((name, self.inner(node) if isinstance(node, exp.Expression) else self._lifted(node)))
            self.outputs.setdefault(name.lower(), outputs[-1][1])  # a later column may use its name
        clauses = self.clauses(outputs)
        self.attach(builder, attached)
        columns: Meanings = {}
        if self.folding:
            columns = self._fold(builder, sets)
            self.attach(builder, attached)
        return self.finished(builder, columns, outputs, *clauses)

    def _plain(self, expression: Expression) -> Expression:
        """An expression over the columns of FROM, with the columns that windows and sub-queries are in."""
        return substitute(expression, self.marks) if self.marks else expression

    def _fold(self, builder: Builder, sets: list[list[Expression]]) -> Meanings:
        """Groups the rows, once for each grouping set, and gives the columns of keys and aggregates."""
        plain = [self._plain(key) for key in self.keys]
        arguments = [[self._plain(e) for e in values] for _, values in self.folds]
        needed = [*plain, *(e for values in arguments for e in values)]
        at = dict(zip(needed, builder.named(needed), strict=True))
        calls = [
            replace(fold, arguments=tuple([at[e] for e in values]))
            for (fold, _), values in zip(self.folds, arguments, strict=True)
        ]
        inside = {key: at[value] for key, value in zip(self.keys, plain, strict=True)}
        keys, slots = {key: self.parts.fresh() for key in self.keys}, {self.parts.fresh(): call.type for call in calls}
        source = builder.step

        def fold(present: list[Expression]) -> tuple[TableStep, dict[Expression, str], list[str]]:
            own = {key: name for key, name in inside.items() if key in present}
            named = [replace(call, name=self.parts.fresh()) for call in calls]
            return Fold(source, tuple(own.values()), tuple(named)), own, [call.name for call in named]

        builder.step, builder.types = self.stacked(sets, keys, slots, fold)
        return columns_for(list(keys.values()), list(slots), builder.types)

    # Expressions.

    def inner(self, node: SqlNode, *, windows: bool = True) -> Expression:
        return self._lifted(read(node, self._leaf, partial(self.above, windows=windows)))

    def above(self, node: SqlNode, *, windows: bool = True) -> Expression | None:
        inner = node.this if isinstance(node, exp.IgnoreNulls) else node
        if self.folding and isinstance(inner, exp.ArgMax | exp.ArgMin | exp.AnyValue):
            return self._leaf(inner)
        return super().above(node, windows=windows)

    def _lifted(self, expression: Expression) -> Expression:
        if not self.folding:
            return expression
        shown = lifted(expression, self.keys)
        loose = next((part for part in walk(shown) if isinstance(part, Column)), None)
        if loose is not None:
            columns = [output for part in self.scopes.parts for output in part.columns.values()]
            refuse(
                "not-aggregated",
                f"`{next((o.name for o in columns if o.expression == loose), loose.name)}`",
                "outside an aggregate, only GROUP BY keys can be selected.",
                "Add it to GROUP BY, or aggregate it: SUM(x).",
            )
        return shown

    def _leaf(self, node: SqlNode) -> Expression:
        if isinstance(node, exp.Column):
            alias = "" if node.table else node.name.lower()
            return self.outputs[alias] if alias in self.outputs and not self._is_column(alias) else self._column(node)
        if not self.folding or is_semi_join(node):
            _refuse_leaf(node, "WHERE or another aggregate")
        if node not in self.folded:
            fold = read_fold(node, self._below, self.parts.fresh())
            self.folded[node] = Slot(len(self.folds), fold[0].type)
            self.folds.append(fold)
        return self.folded[node]

    def _below(self, node: SqlNode) -> Expression:
        """An argument of an aggregate or a key: an expression over the columns of FROM."""
        return self._of_columns(node, self._scalar)

    def _scalar(self, node: SqlNode) -> Expression | None:
        if isinstance(node, exp.ArgMax | exp.ArgMin | exp.AnyValue):
            _refuse_leaf(node, "another aggregate")
        return super().above(node, windows=False)

    def _of_columns(self, node: SqlNode, above: ReadAbove | None = None) -> Expression:
        def leaf(part: SqlNode) -> Expression:
            return self._column(part) if isinstance(part, exp.Column) else _refuse_leaf(part, "another aggregate")

        return read(node, leaf, above)

    def _column(self, node: exp.Column) -> Expression:
        check_modifiers(node)
        return self.scopes.column(node)

    def _is_column(self, name: str) -> bool:
        return any(name in part.columns for part in self.scopes.parts)

    def key(self, node: SqlNode) -> Expression:
        if is_whole(node):
            node = reader.selected(self.select, node)
        elif isinstance(node, exp.Column) and not node.table and not self._is_column(node.name.lower()):
            aliases = [column for column in self.select.expressions if isinstance(column, exp.Alias)]
            node = {column.alias.lower(): column.this for column in aliases}.get(node.name.lower(), node)
        return self._below(node)

    def _shown(self) -> list[tuple[str, SqlNode | Expression]]:
        """The columns of SELECT; a star stands for all of them."""
        exact = {id(node) for node in self.select.expressions if isinstance(node, exp.Min | exp.Max)}
        return [
            (name.removeprefix("approx_") if id(node) in exact else name, node)  # of released numbers, so it is exact
            for name, node in reader.select_columns(self.select, self.scopes.star)
        ]

    # FROM.

    def _from(self) -> Builder:
        source, joins = self.select.args.get("from_"), self.select.args.get("joins") or []
        nodes = [exp.Subquery() if source is None else source.this, *(join.this for join in joins)]
        builder: Builder | None = None
        for place, (table, node) in enumerate(zip(self.sources, nodes, strict=True)):
            if table is None:
                refuse_rows(f"FROM {part_of(node)}")
            released, outputs, kept = self.parts.released(table), dict[str, Output](), list[Output]()
            types: dict[str, Type] = {}
            for shown, name, kind in released.columns:
                column = Column(self.parts.fresh(), kind)
                outputs[shown.lower()] = Output(shown, column)
                kept.append(Output(column.name, Column(name, kind)))
                types[column.name] = kind
            step = Compute(released.step, tuple(kept))
            names = {node.alias or (node.name if isinstance(node, exp.Table) else "")}
            if isinstance(node, exp.Table) and not joins:
                names.add(node.name)
            scope = Scope(frozenset([name.lower() for name in names if name]), outputs)
            if builder is None:
                builder = Builder(step, types, self.parts.fresh)
                self.scopes = Scopes((scope,))
            else:
                self._join(builder, step, types, scope, joins[place - 1])
        if builder is None:
            refuse("unknown-table", "SELECT", "it names no table.", "Write FROM and a table's name.")
        return builder

    def _join(self, builder: Builder, step: TableStep, types: dict[str, Type], right: Scope, node: exp.Join) -> None:
        words = (str(node.args.get("side") or ""), str(node.args.get("kind") or ""))
        on, using = node.args.get("on"), node.args.get("using") or []
        if words not in _JOINS or node.args.get("method"):
            refuse(
                "unsupported-join",
                part_of(node),
                "this join is not supported.",
                "Write JOIN or LEFT JOIN with ON a.x = b.y.",
            )
        self.scopes.check_apart([right], part_of(node))
        how = "CROSS" if words == ("", "") and not on and not using else _JOINS[words]
        columns = [exp.Column(this=name) for name in using]
        terms: list[Expression] = [
            call(EQUAL, self._column(column), Scopes((right,)).column(column), part=lambda: part_of(node))
            for column in columns
        ]
        self.scopes = replace(self.scopes, parts=(*self.scopes.parts, right))
        terms += [] if on is None else [self._of_columns(term) for term in terms_of(on, exp.And)]
        condition = join_terms(AND, terms, part=lambda: part_of(node)) if terms else None
        if condition is not None and condition.type is not Type.BOOLEAN:
            refuse("wrong-type", part_of(node), "it is not a condition.", "Write ON a.x = b.y.")
        builder.step = JoinTables(builder.step, step, how if condition is not None else "CROSS", condition)
        builder.types |= types
        for name in using:
            self._merge(builder, name.name, how)

    def _merge(self, builder: Builder, name: str, how: str) -> None:
        """The column of USING, which is that of either side."""
        key = name.lower()
        sides = [part.columns[key] for part in self.scopes.parts if key in part.columns]
        merged = sides[-1 if how == "RIGHT" else 0].expression
        if how == "FULL":
            both = call(COALESCE, sides[0].expression, sides[-1].expression, part=lambda: f"USING ({name})")
            merged = Column(builder.named([both])[0], both.type)
        parts = [
            replace(part, columns={**part.columns, key: Output(sides[0].name, merged)}) if key in part.columns else part
            for part in self.scopes.parts
        ]
        self.scopes = Scopes(tuple(parts), self.scopes.shared | {key})


def _refuse_leaf(node: SqlNode, place: str) -> NoReturn:
    if is_semi_join(node):
        refuse(
            "unsupported-function",
            part_of(node),
            "IN (SELECT ...) and EXISTS are not supported over released numbers.",
            "Join the tables, or write the values: IN ('a', 'b').",
        )
    refuse("misplaced-aggregate", part_of(node), f"an aggregate cannot be used in {place}.", "Move it out.")
