"""Reads Ibis expressions over unbound tables: the same question as from SQL, hence the same plan.

Ibis is imported only by callers who pass an expression; here its nodes are identified by class name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from functools import partial
from typing import Any

from lapwing.expressions.aggregate import Aggregate
from lapwing.expressions.expression import Expression, Literal
from lapwing.expressions.refusal import refuse
from lapwing.expressions.table import Catalog, Table
from lapwing.expressions.types import Type
from lapwing.plan.question import Order, Output, Question, normalised, note_of
from lapwing.sql import grouping
from lapwing.sql.combining import rows_only
from lapwing.sql.grouping import Grouping
from lapwing.sql.ibis_sources import read_join, read_union
from lapwing.sql.ibis_values import (
    AGGREGATES,
    PAIRS,
    QUANTILES,
    SPREADS,
    Values,
    kind_of,
    part_of,
    refuse_node,
    terms_of,
)
from lapwing.sql.per_unit import is_per_unit, per_unit
from lapwing.sql.relation import (
    Aggregation,
    Relation,
    Rows,
    all_rows,
    column_of,
    filter_by,
    limit_to,
    project,
    question_of,
    sorted_by,
)
from lapwing.sql.semi_join_rows import is_member

SCHEMA = {
    Type.INTEGER: "int64",
    Type.REAL: "float64",
    Type.TEXT: "string",
    Type.BOOLEAN: "boolean",
    Type.DATE: "date",
    Type.TIMESTAMP: "timestamp",
}

_SAMPLE = "choosing rows depends on all of them, or has no known price."
INSTEAD: dict[str, tuple[str, str]] = {
    "Sample": (_SAMPLE, "Leave it out; noise is added for you."),
    "Intersection": ("it compares rows of different units.", "Ask about one table."),
    "Difference": ("it compares rows of different units.", "Ask about one table."),
    "DropNull": ("it is not supported.", "Use filter(table.column.notnull())."),
    "FillNull": ("it is not supported.", "Use mutate(column=table.column.fill_null(0))."),
    "InMemoryTable": ("it is not a table in the catalog.", "Start from curator.table(name)."),
    "DatabaseTable": ("it is not a table in the catalog.", "Start from curator.table(name)."),
}
"""Refused relations, by class name: why, and what to write instead."""

_BUILD = "Pass one SELECT as text, or build an expression from curator.table(name)."


def unbound_table(table: Table) -> Any:
    """The table for writing questions: a schema that cannot be executed."""
    import ibis

    return ibis.table({field.name: SCHEMA[field.type] for field in table.fields}, name=table.name)


def read_ibis(expression: Any, catalog: Catalog, today: date | None = None) -> Question:
    """The question an expression asks; raises Refused. Free, and reads no data. ibis.today() is `today`, if given."""
    if not callable(getattr(expression, "op", None)):
        refuse("not-a-question", "the question", "it is neither SQL text nor an Ibis expression.", _BUILD)
    try:
        asked, dated = _settle_today(expression.op(), today)
        question = normalised(question_of(_Reading(catalog).top(asked)))
        return replace(question, notes=(*question.notes, note_of(today))) if today and dated else question
    except RecursionError:
        refuse("too-large", "the question", "it is nested too deeply.", "Use fewer levels of nesting.")


def _settle_today(node: Any, today: date | None) -> tuple[Any, bool]:
    """The node with the date for every ibis.today(), and whether there is one."""
    found = [] if today is None else node.find(lambda part: kind_of(part) == "DateNow")
    if not found:
        return node, False
    import ibis

    return node.replace(dict.fromkeys(found, ibis.literal(today).op())), True


class _Reading:
    """One expression being read, from the table upwards."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.outermost: Any = None

    def top(self, node: Any) -> Relation:
        """A relation, or one number such as `table.count()`, possibly with arithmetic on it."""
        self.outermost = node
        if kind_of(node) == "Aggregate":
            return self._aggregate(node.parent, node.groups, node.metrics)
        if kind_of(node) in RELATIONS or kind_of(node) in INSTEAD:
            return self.relation(node)
        relations = getattr(node, "relations", None) or ()
        if len(relations) != 1:
            refuse(
                "private-rows",
                part_of(node),
                "the rows themselves are private.",
                "Aggregate them: table.count(), column.mean().",
            )
        return self._aggregate(next(iter(relations)), {}, {_scalar_name(node): node})

    def relation(self, node: Any) -> Relation:
        kind = kind_of(node)
        if kind not in RELATIONS:
            unknown = ("this operation is not supported.", "Use filter, select, group_by and aggregate.")
            refuse("unsupported-clause", part_of(node), *INSTEAD.get(kind, unknown))
        return RELATIONS[kind](self, node)

    def table(self, node: Any) -> Relation:
        if any(_place_of(node.namespace)):
            refuse(
                "unknown-table",
                f"table `{node.name}`",
                "tables are identified by name alone.",
                "Leave out the catalog and the database.",
            )
        return all_rows(self.catalog.table(node.name))

    def filter(self, node: Any) -> Relation:
        """Only these rows. Each `isin(table.column)` is one more column of the rows before they are filtered."""
        inner = self.relation(node.parent)
        field = _fields(inner, node.parent)

        def leaf(part: Any) -> Expression:
            nonlocal inner
            if kind_of(part) != "InSubquery":
                return field(part)
            rows = rows_only(inner, part_of(part))
            inner, met = is_member(rows, read(part.needle), self.relation(part.rel), part_of(part))
            return met

        read = Values(leaf).read
        terms = [term for predicate in node.predicates for term in terms_of(predicate, "And")]
        conditions = [read(term) for term in terms]
        return filter_by(inner, conditions, lambda: "filter")

    def project(self, node: Any) -> Relation:
        inner = self.relation(node.parent)
        read = Values(_fields(inner, node.parent)).read
        return project(inner, (Output(name, read(value)) for name, value in node.values.items()))

    def drop(self, node: Any) -> Relation:
        inner = self.relation(node.parent)
        return project(inner, (o for o in inner.columns.values() if o.name not in node.columns_to_drop))

    def aggregate(self, node: Any) -> Relation:
        """A nested aggregation: groups by the protected unit become rows."""
        groups = self._aggregate(node.parent, node.groups, node.metrics, inside=True)
        return per_unit(groups) if is_per_unit(groups) else groups

    def join(self, node: Any) -> Relation:
        return read_join(node, self.relation)

    def union(self, node: Any) -> Relation:
        return read_union(node, self.relation)

    def sort(self, node: Any) -> Relation:
        inner = self.relation(node.parent)
        read = Values(_fields(inner, node.parent)).read
        if isinstance(inner, Rows):
            return sorted_by(inner, ())  # refuses
        if any(key.nulls_first for key in node.keys):
            refuse("unsupported-clause", "order_by", "NULLs always come last.", "Leave out nulls_first.")
        return sorted_by(inner, tuple(Order(read(key.arg), not key.ascending) for key in node.keys))

    def limit(self, node: Any) -> Relation:
        if not isinstance(node.n, int) or node.offset:
            refuse("wrong-argument", "limit", "it takes an integer and no offset.", "For example: limit(10).")
        return limit_to(self.relation(node.parent), node.n)

    def distinct(self, node: Any) -> Relation:
        """The different values of all columns: keys without a number."""
        rows = rows_only(self.relation(node.parent), "distinct")
        collected = Grouping(rows, inside=node is not self.outermost)
        for output in rows.columns.values():
            collected.add_key(output.expression, partial("distinct `{}`".format, output.name))
        groups = collected.groups(Output(o.name, collected.above(o.expression)) for o in rows.columns.values())
        return per_unit(groups) if collected.inside and is_per_unit(groups) else groups

    def itself(self, node: Any) -> Relation:
        return self.relation(node.parent)

    def _aggregate(self, parent: Any, groups: Any, metrics: Any, *, inside: bool = False) -> Aggregation:
        rows = self.relation(parent)
        if not isinstance(rows, Rows):
            refuse(
                "released-numbers",
                "an aggregate over released numbers",
                "the numbers inside have already been released.",
                "Compute it from the answer, which is free.",
            )
        below = Values(_fields(rows, parent)).read
        keys = {name: below(value) for name, value in groups.items()}
        collected = Grouping(rows, inside=inside)
        for name, key in keys.items():
            collected.add_key(key, partial("group_by `{}`".format, name))
        above = Values(_Above(collected, parent, below).leaf).read
        outputs = [Output(name, collected.above(key)) for name, key in keys.items()]
        outputs += [Output(name, collected.above(above(value))) for name, value in metrics.items()]
        return collected.groups(outputs)


RELATIONS: dict[str, Callable[[_Reading, Any], Relation]] = {
    "UnboundTable": _Reading.table,
    "SelfReference": _Reading.itself,
    "Filter": _Reading.filter,
    "Project": _Reading.project,
    "DropColumns": _Reading.drop,
    "Aggregate": _Reading.aggregate,
    "Distinct": _Reading.distinct,
    "Sort": _Reading.sort,
    "Limit": _Reading.limit,
    "JoinChain": _Reading.join,
    "Union": _Reading.union,
}
"""Supported relations, by class name."""


class _Above:
    """The meaning of fields and aggregates above the aggregation."""

    def __init__(self, collected: Grouping, parent: Any, below: Callable[[Any], Expression]) -> None:
        self.collected, self.parent, self.below = collected, parent, below

    def leaf(self, node: Any) -> Expression:
        if kind_of(node) in ("Field", "InSubquery"):
            return self.below(node)
        if kind_of(node) == "CountStar" and node.arg != self.parent:
            refuse_node(node)
        condition = None if node.where is None else self.below(node.where)
        return self.collected.slot(self._aggregate(node, condition))

    def _aggregate(self, node: Any, condition: Expression | None) -> Aggregate:
        def part() -> str:
            return part_of(node)

        match kind_of(node):
            case "CountStar":
                return grouping.count_rows(condition, part)
            case "CountDistinct":
                return grouping.count_distinct(self.collected.rows.table, self.below(node.arg), condition, part)
            case "Quantile":
                return grouping.quantile(self.below(node.arg), self.below(node.quantile), condition, part)
            case "Variance" | "StandardDev" as kind:
                return grouping.of_values(SPREADS[kind, node.how], self.below(node.arg), condition, part)
            case "Covariance" | "Correlation" as kind:
                name = PAIRS.get((kind, node.how), "corr")
                return grouping.of_pair(name, self.below(node.left), self.below(node.right), condition, part)
            case kind if kind in QUANTILES:
                level = Literal(QUANTILES[kind], Type.REAL)
                exact = self.collected.per_unit
                return grouping.quantile(self.below(node.arg), level, condition, part, exact=exact)
            case kind:
                return grouping.of_values(AGGREGATES[kind], self.below(node.arg), condition, part)


def _fields(relation: Relation, parent: Any) -> Callable[[Any], Expression]:
    """Below an aggregation, a field is a column of the relation, and there are no aggregates."""

    def leaf(node: Any) -> Expression:
        if kind_of(node) == "InSubquery":
            refuse_node(node)
        if kind_of(node) != "Field":
            refuse(
                "misplaced-aggregate",
                part_of(node),
                "an aggregate cannot be used inside a filter, a key or another aggregate.",
                "Move it out.",
            )
        if node.rel != parent:
            refuse("unknown-column", f"`{node.name}`", "it belongs to another table.", "Use columns of the same table.")
        return column_of(relation, node.name)

    return leaf


def _place_of(namespace: Any) -> tuple[Any, ...]:
    """The catalog and the database of a table, if given."""
    return tuple(getattr(namespace, "args", ()))


def _scalar_name(node: Any) -> str:
    if kind_of(node) == "Alias":
        return str(node.name)
    names = {"CountStar": "count", "CountDistinct": "count", "Mean": "avg"}
    return names.get(kind_of(node)) or AGGREGATES.get(kind_of(node), "value")
