"""Reads SQL that goes on above the release: windows, aggregates of aggregates, joins and unions of released tables.

What a SELECT reads is read first, and once: rows, one aggregation of rows (a part, which is released), or steps over
parts. That and its clauses tell on which side of the release it stands: below, it is read by reader.py; above, by
post_released.py over released tables, and by post_clauses.py if it aggregates rows and goes on.
Everything is read node by node from allow lists, with the types and columns of declared facts; what cannot be computed
is refused here, before anything is charged.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from functools import partial
from typing import NoReturn

from sqlglot import exp

from lapwing.errors import Refused
from lapwing.expressions.expression import Column, Expression, Literal
from lapwing.expressions.operators.casts import convert
from lapwing.expressions.refusal import refuse
from lapwing.expressions.table import Catalog
from lapwing.expressions.types import Type
from lapwing.plan.postprocessed import Compute, Fold, SplitStatement, Stack, TableStep
from lapwing.plan.question import Output, Question, normalised, note_of
from lapwing.sql import reader
from lapwing.sql.date_parts import settle_today
from lapwing.sql.derive import unite
from lapwing.sql.from_clause import Names, only_select, refuse_released
from lapwing.sql.nodes import SqlNode, is_semi_join, names_of
from lapwing.sql.parse import Sql, parse
from lapwing.sql.parts import Above, Parts
from lapwing.sql.post_clauses import OverRows, has_aggregate, offset_of
from lapwing.sql.post_released import OverReleased
from lapwing.sql.post_select import Builder
from lapwing.sql.refusals import MODIFIERS_ABOVE, check_modifiers, part_of, refuse_node
from lapwing.sql.relation import Aggregation, Relation, Rows, question_of

_TAKEN = (exp.Window, exp.Subquery, exp.Grouping)
NOT_ONE = (
    "the question",
    "it computes something from released numbers, and only a plain aggregation can be asked here.",
    "Ask its aggregations here, or ask all of it by itself: curator.sql(...).",
)


def read_sql(text: Sql, catalog: Catalog, today: date | None = None) -> Question:
    """The one question that a SELECT asks; raises Refused. Free, and reads no data. CURRENT_DATE is `today`."""
    found = StatementReader(catalog).read(text, today)
    return found if isinstance(found, Question) else refuse("released-numbers", *NOT_ONE)


def read_statement(text: Sql, catalog: Catalog, today: date | None = None) -> SplitStatement:
    """The questions of a statement, and the steps above them; raises Refused. Free, and reads no data."""
    return StatementReader(catalog).read_statement(text, today)


def read_query(catalog: Catalog, text: Sql, today: date | None) -> Question | SplitStatement | None:
    """One question, or a statement of several. None if it is refused below the release, where the planner of questions
    knows what could be found; raises Refused above it."""
    statement = StatementReader(catalog)
    try:
        return statement.read(text, today)
    except Refused:
        if statement.goes_on:
            raise
    return None


class StatementReader:
    """Reads one statement."""

    def __init__(self, catalog: Catalog) -> None:
        self.goes_on = False
        """Whether something in it goes on above a release. What is refused before is refused for a question as well."""
        self._catalog = catalog
        self._parts = Parts()
        self._scalars: dict[tuple[SqlNode, int], tuple[Names, tuple[TableStep, str, Type]]] = {}
        self._queries: dict[int, tuple[exp.Expr, Relation | Above]] = {}
        """The queries that were read, by their nodes, which this keeps alive."""

    def read(self, text: Sql, today: date | None = None) -> Question | SplitStatement:
        """One question, or several and the steps above them; raises Refused."""
        try:
            relation, notes = self._top(text, today)
            if isinstance(relation, Above):
                return self._parts.statement(relation, notes)
            question = normalised(question_of(relation))
            return replace(question, notes=(*question.notes, *notes)) if notes else question
        except RecursionError:
            refuse("too-large", "the question", "it is nested too deeply.", "Use fewer levels of nesting.")

    def read_statement(self, text: Sql, today: date | None = None) -> SplitStatement:
        """The same, with an ordinary question as a statement of one part."""
        try:
            relation, notes = self._top(text, today)
            if not isinstance(relation, Above):
                question_of(relation)  # it is a question by itself, or refused as one
            return self._parts.statement(self._parts.released(relation), notes)
        except RecursionError:
            refuse("too-large", "the question", "it is nested too deeply.", "Use fewer levels of nesting.")

    def _top(self, text: Sql, today: date | None) -> tuple[Relation | Above, tuple[str, ...]]:
        """What the text stands for, and a note if it stands for something else on another day."""
        node = parse(text)
        settled = node if today is None else settle_today(node, today)
        relation = self.query(settled, Names(self._catalog), "the question", inside=False)
        return relation, (note_of(today),) if today and settled is not node else ()

    # Queries.

    def query(self, node: exp.Expr, names: Names, what: str, *, inside: bool = True) -> Relation | Above:
        """A SELECT, or several with UNION between them; read once."""
        if id(node) not in self._queries:
            self._queries[id(node)] = node, self._query(node, names, what, inside=inside)
        return self._queries[id(node)][1]

    def _query(self, node: exp.Expr, names: Names, what: str, *, inside: bool) -> Relation | Above:
        if isinstance(node, exp.Subquery) and not node.args.get("alias") and node.args.get("with_") is None:
            check_modifiers(node)
            return self.query(node.this, names, what, inside=inside)
        if isinstance(node, exp.Union):
            self.goes_on |= not inside and node.find(exp.AggFunc) is not None  # no question is a union
            return self._union(node, names, what)
        return self._select(only_select(node, what), names, inside=inside)

    def _with(self, node: exp.Expr, names: Names) -> Names:
        """The names that WITH adds. Each sub-query is read once, and sees those before it."""
        ctes = node.args.get("with_")
        if ctes is None:
            return names
        check_modifiers(ctes)
        for cte in ctes.expressions:
            check_modifiers(cte)
            check_modifiers(cte.args["alias"])
            names = names.adding(cte.alias, self.query(cte.this, names, f"`{cte.alias}`"))
        return names

    def _union(self, node: exp.Union, names: Names, what: str) -> Relation | Above:
        names = self._with(node, names)
        check_modifiers(node, MODIFIERS_ABOVE[exp.Union])
        sides = [self.query(side, names, what) for side in _sides(node)]
        rows = [side for side in sides if isinstance(side, Rows)]
        bare = not any(node.args.get(part) for part in ("order", "limit", "offset"))
        if len(rows) == len(sides) and bare and node.args.get("distinct") is False:
            return unite(rows)
        if rows:
            only_select(node, what)  # refuses
        self.goes_on = True
        parts, tables = self._parts, [self._parts.released(side) for side in sides]
        if len({len(table.columns) for table in tables}) > 1:
            refuse(
                "unsupported-union", "UNION", "its sides have different numbers of columns.", "Select the same ones."
            )
        listed = zip(*(table.columns for table in tables), strict=True)
        types = [_common([kind for _, name, kind in row if name not in parts.nulls]) for row in listed]
        stacked = tuple([self._aligned(table, types) for table in tables])
        columns: list[tuple[str, Expression]] = [
            (shown, Column(output.name, kind))
            for (shown, _, _), output, kind in zip(tables[0].columns, stacked[0].outputs, types, strict=True)
        ]
        inner = {output.name: kind for output, kind in zip(stacked[0].outputs, types, strict=True)}
        builder = Builder(Stack(stacked), inner, parts.fresh)
        if node.args.get("distinct") is not False:
            builder.step = Fold(builder.step, tuple(inner), ())
        by = reader.sorting(node, columns, _no_column)
        return parts.finished(builder, columns, by, reader.limit_of(node), offset_of(node))

    def _aligned(self, table: Above, types: list[Type]) -> Compute:
        """The columns of a table under new names, integers as reals where another side has them."""
        outputs = []
        for (_, name, kind), wanted in zip(table.columns, types, strict=True):
            value: Expression = Literal(None, wanted) if name in self._parts.nulls else Column(name, kind)
            if value.type is not wanted:
                value = convert(value, wanted, part=lambda: "UNION")
            outputs.append(Output(self._parts.fresh(), value))
        return Compute(table.step, tuple(outputs))

    def _select(self, select: exp.Select, names: Names, *, inside: bool) -> Relation | Above:
        """One SELECT: what it reads is read first, and tells on which side of the release it stands."""
        names = self._with(select, names)
        source, joins = select.args.get("from_"), select.args.get("joins") or []
        tables = [] if source is None else [source.this, *(join.this for join in joins)]
        sources = [self._source(node, names) for node in tables]
        scalar, body = partial(self.scalar, names=names), self.body
        released = [source for source in sources if isinstance(source, Above | Aggregation)]
        above = goes_on_above(select)
        if released and (above or not is_filtered(select, released[0])):
            self.goes_on = True
            return OverReleased(self._parts, select, scalar, sources).read()
        if not tables:
            first = next((p for node in select.expressions for p in node.walk() if isinstance(p, exp.Subquery)), None)
            if first is not None:  # one row, computed from sub-queries with one number each
                self.goes_on = True
                row = Above(Fold(scalar(first)[0], (), ()), ())
                return OverReleased(self._parts, select, scalar, [row]).read()
        elif above and not released:
            over = OverRows(self._parts, select, scalar, names, body)
            self.goes_on = True
            return over.read()
        return reader.read_select(select, names, body, inside=inside)

    def body(self, node: exp.Expr, names: Names) -> Relation:
        """A sub-query over rows, which is read once; refused if it is released."""
        relation = self.query(node, names.rows_only(), "the subquery")
        return refuse_released("the subquery") if isinstance(relation, Above) else relation

    def _source(self, node: SqlNode, names: Names) -> Relation | Above | None:
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table | exp.Subquery):
            return None if node.this.args.get("joins") else self._source(node.this, names)
        if isinstance(node, exp.Subquery):
            check_modifiers(node)
            return self.query(node.this, names, "the subquery")
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
            return None
        name = node.name.lower()
        return names.above.get(name) or names.known.get(name)

    def scalar(self, node: SqlNode, names: Names) -> tuple[TableStep, str, Type]:
        """A sub-query in an expression: one column and at most one row. Written twice, it is one."""
        if (node, id(names)) not in self._scalars:
            self._scalars[node, id(names)] = names, self._scalar(node, names)
        return self._scalars[node, id(names)][1]

    def _scalar(self, node: SqlNode, names: Names) -> tuple[TableStep, str, Type]:
        relation = self.query(node, names, part_of(node))
        if isinstance(relation, Rows):
            refuse_node(node)
        above = self._parts.released(relation)
        if len(above.columns) != 1:
            refuse("unsupported-function", part_of(node), "a sub-query here has one column.", "Select one number.")
        if not self._parts.is_single(above.step):
            refuse(
                "unsupported-function",
                part_of(node),
                "a sub-query here has one row.",
                "Leave GROUP BY out, or take the largest: SELECT MAX(n) FROM (...).",
            )
        _, name, kind = above.columns[0]
        return above.step, name, kind


def _common(kinds: list[Type]) -> Type:
    """The type of a column of UNION; NULL has any."""
    distinct = set(kinds) or {Type.TEXT}
    if len(distinct) == 1:
        return distinct.pop()
    if distinct == {Type.INTEGER, Type.REAL}:
        return Type.REAL
    listed = " and ".join(sorted(kind.value for kind in distinct))
    refuse("wrong-type", "UNION", f"a column is {listed} on its sides.", "CAST one of them.")


def _no_column(node: SqlNode) -> NoReturn:
    refuse("unknown-column", f"ORDER BY {part_of(node)}", "UNION has no such column.", "Use a column's name.")


def _sides(node: exp.Union) -> list[exp.Expr]:
    """The inputs of a chain of the same kind of UNION, without recursion."""
    sides: list[exp.Expr] = []
    todo: list[exp.Expr] = [node.expression, node.this]
    while todo:
        current = todo.pop()
        plain = isinstance(current, exp.Union) and not any(
            current.args.get(part) for part in ("order", "limit", "offset", "with_")
        )
        if plain and current.args.get("distinct") == node.args.get("distinct"):
            todo += [current.expression, current.this]
        else:
            sides.append(current)
    return sides


def goes_on_above(select: exp.Select) -> bool:
    """Whether a SELECT over rows has something that only released tables have."""
    group, distinct = select.args.get("group"), select.args.get("distinct")
    sets = {} if group is None else group.args
    if sets.get("rollup") or sets.get("cube") or sets.get("grouping_sets"):
        return True
    if select.args.get("qualify") or select.args.get("offset") or select.args.get("windows"):
        return True
    if distinct and (group is not None or any(map(has_aggregate, select.expressions))):
        return True
    having, order = select.args.get("having"), select.args.get("order")
    written = [node for node in (*select.expressions, having, order) if node is not None and node.find(*_TAKEN)]
    return any(isinstance(part, _TAKEN) for node in written for part in node.walk(prune=is_semi_join))


def is_filtered(select: exp.Select, groups: Aggregation | Above) -> bool:
    """Whether a SELECT over one aggregation shows, filters and sorts its groups, and so is still one question."""
    if isinstance(groups, Above) or reader.aggregates(select) or select.args.get("joins"):
        return False
    if groups.limit is not None and (select.args.get("where") or select.args.get("order")):
        return False
    shown = {name.lower() for name in names_of(select.expressions)}
    clauses = [(node, set(groups.columns)) for node in (*select.expressions, select.args.get("where")) if node]
    clauses += [(select.args["order"], {*groups.columns, *shown})] if select.args.get("order") else []
    parts = [(part, known) for node, known in clauses for part in node.walk()]
    return not any(isinstance(part, exp.Query) for part, _ in parts) and all(
        isinstance(part.this, exp.Star) or part.name.lower() in known
        for part, known in parts
        if isinstance(part, exp.Column)
    )
