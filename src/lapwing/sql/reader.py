"""Reads SQL: SELECTs over private tables, node type by node type.

What is not in the tables of read_expression.py is refused, and so is any modifier of a node
that is not listed for it (refusals.py); the analyst's text never reaches an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import starmap

from sqlglot import exp

from lapwing.expressions.aggregate import Aggregate
from lapwing.expressions.expression import Expression, Literal
from lapwing.expressions.refusal import nearest, refuse
from lapwing.expressions.types import Type
from lapwing.plan.moments import (
    CORRELATION,
    COVARIANCE,
    INTERCEPT,
    MEAN,
    SAMPLE_COVARIANCE,
    SAMPLE_STDDEV,
    SAMPLE_VARIANCE,
    SLOPE,
    STDDEV,
    VARIANCE,
)
from lapwing.plan.question import Order, Output
from lapwing.plan.total import COUNT_VALUES, SUM
from lapwing.sql import grouping
from lapwing.sql.derive import is_per_unit, per_unit
from lapwing.sql.from_clause import Body, Names, RowScopes, read_from
from lapwing.sql.grouping import Grouping
from lapwing.sql.nodes import SqlNode, SqlReader, is_semi_join, is_whole, names_of, terms_of
from lapwing.sql.read_expression import ReadAbove, read
from lapwing.sql.refusals import CLAUSES, check_modifiers, part_of, refuse_node
from lapwing.sql.relation import (
    Aggregation,
    Relation,
    Rows,
    filter_by,
    limit_to,
    project,
    sorted_by,
)
from lapwing.sql.semi_joins import Members, read_semi_joins

AGGREGATES: dict[type[SqlNode], str] = {
    exp.Count: COUNT_VALUES.name,
    exp.Sum: SUM.name,
    exp.Avg: MEAN.name,
    exp.VariancePop: VARIANCE.name,
    exp.Variance: SAMPLE_VARIANCE.name,
    exp.StddevPop: STDDEV.name,
    exp.Stddev: SAMPLE_STDDEV.name,
    exp.StddevSamp: SAMPLE_STDDEV.name,
}
"""Aggregates with one argument, by the name of their entry in aggregates.py."""

PAIRS: dict[type[SqlNode], str] = {
    exp.CovarPop: COVARIANCE.name,
    exp.CovarSamp: SAMPLE_COVARIANCE.name,
    exp.Corr: CORRELATION.name,
    exp.RegrSlope: SLOPE.name,
    exp.RegrIntercept: INTERCEPT.name,
}
"""Aggregates with two arguments."""

LEVELS: dict[type[SqlNode], Fraction] = {exp.Min: Fraction(0), exp.Median: Fraction(1, 2), exp.Max: Fraction(1)}
"""Quantiles with their own name."""

StarColumns = Callable[[SqlNode], Iterable[Output]]
"""The columns that a star stands for."""


@dataclass(frozen=True, slots=True)
class SelectSource:
    """What one SELECT reads."""

    scopes: RowScopes
    members: Members
    """The conditions of its semi-joins."""

    @property
    def relation(self) -> Relation:
        return self.scopes.relation

    def column(self, node: SqlNode) -> Expression:
        """The meaning of a column name below the aggregation; aggregates are refused here."""
        if id(node) in self.members:
            return self.members[id(node)]
        if not isinstance(node, exp.Column):
            known = type(node) in {*AGGREGATES, *PAIRS, *LEVELS} or isinstance(node, exp.Filter | exp.CountIf)
            if not known:
                check_modifiers(node)
                refuse_node(node)
            refuse(
                "misplaced-aggregate",
                part_of(node),
                "an aggregate cannot be used in WHERE, GROUP BY or another aggregate.",
                "Move it out.",
            )
        return self.scopes.column(node)


def read_select(select: exp.Select, names: Names, body: Body, *, inside: bool) -> Relation:
    """The result of a SELECT: rows, or groups. In a subquery, groups by the protected unit are rows."""
    check_modifiers(select)
    inner = read_source(select, names, body)
    relation = inner.relation
    if not aggregates(select):
        return _order(select, inner, _plain(select, inner))
    if isinstance(relation, Aggregation):
        refuse(
            "released-numbers",
            "an aggregate over released numbers",
            "the numbers inside have already been released.",
            "Compute it from the answer, which is free.",
        )
    aggregation = AggregationReader(select, inner, relation, inside=inside)
    aggregation.read_keys()
    groups = aggregation.groups()
    return per_unit(groups) if inside and is_per_unit(groups) else groups


def read_source(select: exp.Select, names: Names, body: Body) -> SelectSource:
    """What a SELECT reads: FROM, filtered by WHERE."""
    scopes, terms = read_from(select, names, body)
    source = SelectSource(*read_semi_joins(select, scopes, names, body))
    where = select.args.get("where")
    relation = source.relation
    if where is not None:
        conditions = [read(term, source.column) for term in terms]
        relation = filter_by(relation, conditions, lambda: f"WHERE {part_of(where.this)}")
    return replace(source, scopes=replace(source.scopes, relation=relation))


def aggregates(select: exp.Select) -> bool:
    """Whether it has groups; SELECT DISTINCT k is GROUP BY k."""
    if any(select.args.get(name) is not None for name in ("group", "having", "distinct")):
        return True
    return _has_aggregates(select)


def _has_aggregates(select: exp.Select) -> bool:
    return any(isinstance(part, exp.AggFunc) for column in select.expressions for part in column.walk())


def select_columns(select: exp.Select, star: StarColumns) -> Iterator[tuple[str, SqlNode | Expression]]:
    """Names and nodes in the SELECT list; a star stands for all columns, but for those it excludes."""
    for name, node in zip(names_of(select.expressions), select.expressions, strict=True):
        inner = node.this if isinstance(node, exp.Alias) else node
        written = inner.this if isinstance(inner, exp.Column) else inner
        if isinstance(written, exp.Star):
            yield from _not_excluded(written, [(output.name, output.expression) for output in star(inner)])
        else:
            yield name, inner


def _not_excluded(star: exp.Star, columns: list[tuple[str, Expression]]) -> list[tuple[str, Expression]]:
    excluded = star.args.get("except_") or star.args.get("except") or []  # as newer and older parsers have it
    check_modifiers(exp.Star(**{part: value for part, value in star.args.items() if part.rstrip("_") != "except"}))
    known = {name.lower() for name, _ in columns}
    for node in excluded:
        if not isinstance(node, exp.Column | exp.Identifier) or (isinstance(node, exp.Column) and node.table):
            refuse_node(node)
        if node.name.lower() not in known:
            close = nearest(node.name, (name for name, _ in columns))
            refuse("unknown-column", f"EXCLUDE `{node.name}`", "there is no such column.", close)
    names = {node.name.lower() for node in excluded}
    return [(name, expression) for name, expression in columns if name.lower() not in names]


def _plain(select: exp.Select, source: SelectSource) -> Relation:
    """A SELECT without aggregates, row by row or group by group."""
    outputs = (
        Output(name, read(node, source.column) if isinstance(node, exp.Expression) else node)
        for name, node in select_columns(select, source.scopes.star)
    )
    return project(source.relation, outputs)


def _order(select: exp.Select, source: SelectSource, relation: Relation) -> Relation:
    """The relation, sorted and limited by ORDER BY and LIMIT."""
    if select.args.get("order") is not None:
        if isinstance(relation, Rows):
            return sorted_by(relation, ())  # refuses
        outputs = [(output.name, output.expression) for output in relation.columns.values()]
        by = sorting(select, outputs, lambda node: read(node, source.column))
        relation = sorted_by(relation, tuple([Order(*term) for term in by]))
    limit = limit_of(select)
    return relation if limit is None else limit_to(relation, limit)


def sorting(
    query: exp.Expr, outputs: Sequence[tuple[str, Expression]], other: SqlReader
) -> list[tuple[Expression, bool]]:
    """What ORDER BY sorts by, and whether descending. A name or number is an output column; `other` reads the rest."""
    order = query.args.get("order")
    if order is None:
        return []
    check_modifiers(order)
    named = {name.lower(): expression for name, expression in reversed(outputs)}
    terms = []
    for term in order.expressions:
        check_modifiers(term)
        node, output = term.this, None
        if is_whole(node):
            if not 1 <= int(node.name) <= len(outputs):
                why = f"the answer has {len(outputs)} columns."
                refuse("wrong-argument", f"ORDER BY {int(node.name)}", why, "Use the column's name.")
            output = outputs[int(node.name) - 1][1]
        elif isinstance(node, exp.Column) and not node.table:
            output = named.get(node.name.lower())
        terms.append((other(node) if output is None else output, bool(term.args.get("desc"))))
    return terms


def conditions_of(select: exp.Select, clause: str, inner: SqlReader) -> list[Expression]:
    """The conditions of WHERE, HAVING or QUALIFY, all of which must hold."""
    node = select.args.get(clause)
    if node is None:
        return []
    check_modifiers(node)
    return [inner(term) for term in terms_of(node.this, exp.And)]


class AggregationReader:
    """One SELECT with aggregates being read."""

    def __init__(self, select: exp.Select, source: SelectSource, rows: Rows, *, inside: bool) -> None:
        self.select, self.source, self.rows = select, source, rows
        self.grouping = Grouping(rows, inside=inside)
        self.outputs: dict[str, Expression] = {}
        self._written: dict[str, SqlNode | Expression] | None = None

    def groups(self) -> Aggregation:
        outputs = [(name, self.above(node)) for name, node in self.shown()]
        self.outputs = {name.lower(): expression for name, expression in outputs}
        having = conditions_of(self.select, "having", self.above)
        by = sorting(self.select, outputs, self.above)
        groups = filter_by(self.grouping.groups(starmap(Output, outputs)), having, lambda: "HAVING")
        groups = sorted_by(groups, tuple([Order(*term) for term in by]))
        limit = limit_of(self.select)
        return groups if limit is None else limit_to(groups, limit)

    def shown(self) -> Iterator[tuple[str, SqlNode | Expression]]:
        for name, node in select_columns(self.select, self.source.scopes.star):
            if not isinstance(node, exp.Expression) and self.select.args.get("distinct") is None:
                refuse_node(exp.Star())
            yield name, node

    def read_keys(self) -> None:
        group, distinct = self.select.args.get("group"), self.select.args.get("distinct")
        if distinct is not None:
            check_modifiers(distinct)
            if group is not None or _has_aggregates(self.select):
                refuse("unsupported-clause", *CLAUSES["distinct"])
            for name, node in self.shown():
                self.grouping.add_key(self._below(node), partial("SELECT DISTINCT `{}`".format, name))
        if group is None:
            return
        everything = group.args.get("all") is True and not group.expressions
        if not everything:
            check_modifiers(group)
        for node in all_keys(self.select) if everything else group.expressions:
            self.grouping.add_key(self.key(node), partial(self._grouping_by, node))

    def key(self, node: SqlNode) -> Expression:
        return self._below(selected(self.select, node) if is_whole(node) else self._meant(node))

    def _grouping_by(self, node: SqlNode) -> str:
        return f"GROUP BY {part_of(selected(self.select, node) if is_whole(node) else node)}"

    def _meant(self, node: SqlNode) -> SqlNode | Expression:
        """A name in GROUP BY that is not an input column refers to the SELECT list."""
        if isinstance(node, exp.Column) and not node.table and node.name.lower() not in self.rows.columns:
            if self._written is None:
                self._written = {name.lower(): column for name, column in self.shown()}
            return self._written.get(node.name.lower(), node)
        return node

    def above(self, node: SqlNode | Expression, above: ReadAbove | None = None) -> Expression:
        return self.grouping.above(read(node, self._leaf, above) if isinstance(node, exp.Expression) else node)

    def _below(self, node: SqlNode | Expression) -> Expression:
        return read(node, self.source.column) if isinstance(node, exp.Expression) else node

    def _is_key(self, node: exp.Column) -> bool:
        """True if a column is a key, which its name then means before a selected column of the same name."""
        return self.source.column(node) in self.grouping.keys

    def _leaf(self, node: SqlNode) -> Expression:
        if is_semi_join(node):
            return self.source.column(node)
        if isinstance(node, exp.Column):
            name = "" if node.table else node.name.lower()
            if name in self.outputs and (name not in self.rows.columns or not self._is_key(node)):
                return self.outputs[name]
            return self.source.column(node)
        condition = None
        if isinstance(node, exp.Filter):
            check_modifiers(node.expression)
            condition = read(node.expression.this, self.source.column)
            node = node.this
            check_modifiers(node)
        return self.grouping.slot(self._aggregate(node, condition))

    def _aggregate(self, node: SqlNode, condition: Expression | None) -> Aggregate:
        def part() -> str:
            return part_of(node)

        match node:
            case exp.Count(this=exp.Star() | exp.Literal() | None):
                if node.this is not None:
                    check_modifiers(node.this)
                return grouping.count_rows(condition, part)
            case exp.Count(this=exp.Distinct(expressions=[inner])):
                check_modifiers(node.this)
                return grouping.count_distinct(self.rows.table, read(inner, self.source.column), condition, part)
            case exp.Count(this=exp.Distinct()) | exp.Sum(this=exp.Distinct()) | exp.Avg(this=exp.Distinct()):
                refuse(
                    "unsupported-function",
                    part_of(node),
                    "DISTINCT is only supported inside COUNT, with one column.",
                    "Make one text of several columns, COUNT(DISTINCT a || ' ' || b); leave it out of SUM and AVG, "
                    "which then take equal values as often as they occur.",
                )
            case exp.CountIf():
                met = read(node.this, self.source.column)
                return grouping.count_rows(met if condition is None else grouping.where(met, condition, part), part)
            case exp.AggFunc() if type(node) in AGGREGATES:
                return grouping.of_values(AGGREGATES[type(node)], read(node.this, self.source.column), condition, part)
            case exp.AggFunc() if type(node) in PAIRS:
                y, x = (read(side, self.source.column) for side in (node.this, node.expression))
                return grouping.of_pair(PAIRS[type(node)], y, x, condition, part)
            case exp.AggFunc() if type(node) in LEVELS:
                level = Literal(LEVELS[type(node)], Type.REAL)
                value = read(node.this, self.source.column)
                return grouping.quantile(value, level, condition, part, exact=self.grouping.per_unit)
            case exp.PercentileCont() if node.args.get("expression") is not None:
                value, share = (read(side, self.source.column) for side in (node.this, node.expression))
                return grouping.quantile(value, share, condition, part)
            case exp.WithinGroup(this=exp.PercentileCont() as inner, expression=exp.Order(expressions=[by])):
                check_modifiers(inner)
                check_modifiers(by)
                value, share = (read(side, self.source.column) for side in (by.this, inner.this))
                return grouping.quantile(value, share, condition, part)
            case _:
                refuse_node(node)


def all_keys(select: exp.Select) -> list[SqlNode]:
    """The keys of GROUP BY ALL: every selected column that has no aggregate and is no constant."""
    items = [node.this if isinstance(node, exp.Alias) else node for node in select.expressions]
    return [node for node in items if _is_key(list(node.walk(prune=is_semi_join)))]


def _is_key(parts: list[SqlNode]) -> bool:
    varies = any(isinstance(part, exp.Column) or is_semi_join(part) for part in parts)
    return varies and not any(isinstance(part, exp.AggFunc | exp.Window | exp.Subquery) for part in parts)


def selected(select: exp.Select, node: SqlNode) -> SqlNode:
    """The column of SELECT that a number in GROUP BY refers to."""
    place, columns = int(node.name), select.expressions
    if not 1 <= place <= len(columns):
        refuse("wrong-argument", f"GROUP BY {place}", f"SELECT has {len(columns)} columns.", "Use the column's name.")
    column: SqlNode = columns[place - 1]
    return column.this if isinstance(column, exp.Alias) else column


def limit_of(select: exp.Expr) -> int | None:
    limit = select.args.get("limit")
    if limit is None:
        return None
    value = limit.args.get("expression")
    if not isinstance(limit, exp.Limit) or value is None or not is_whole(value):
        refuse("wrong-argument", "LIMIT", "it takes an integer.", "For example: LIMIT 10.")
    check_modifiers(limit)
    return int(value.name)
