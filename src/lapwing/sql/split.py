"""Reads SQL that goes on above the release: windows, aggregates of aggregates, joins and unions of released tables.

What a SELECT reads is read first, and once: rows, one aggregation of rows (a part, which is released), or steps over
parts. That and its clauses tell on which side of the release it stands: below, it is read by reader.py; above, by
post_released.py over released tables, and by post_rows.py if it aggregates rows and goes on.
Everything is read node by node from allow lists, with the types and columns of declared facts; what cannot be computed
is refused here, before anything is charged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date

from sqlglot import exp

from lapwing.errors import Refused
from lapwing.expressions.expression import Column, Expression, Key, Literal, Slot
from lapwing.expressions.operators.casts import convert
from lapwing.expressions.refusal import refuse
from lapwing.expressions.table import Catalog
from lapwing.expressions.types import Type
from lapwing.plan.postprocessed import (
    MOST_PARTS,
    Attach,
    Compute,
    Fold,
    JoinTables,
    ReleasedPart,
    SliceRows,
    SortRows,
    SplitStatement,
    Stack,
    TableStep,
    steps_of,
)
from lapwing.plan.pruning import prune
from lapwing.plan.question import Output, Question, normalised, note_of
from lapwing.sql import reader
from lapwing.sql.date_parts import settle_today
from lapwing.sql.derive import unite
from lapwing.sql.from_clause import Names, only_select
from lapwing.sql.naming import names_of
from lapwing.sql.post_clauses import Above, Known, has_aggregate, offset_of
from lapwing.sql.post_released import OverReleased
from lapwing.sql.post_rows import OverRows
from lapwing.sql.post_select import Builder, to_columns
from lapwing.sql.refusals import check_modifiers, part_of, refuse_node
from lapwing.sql.relation import Aggregation, Relation, Rows, by_name, check_total, question_of, rows_only
from lapwing.sql.sqlglot_nodes import SqlNode, is_semi_join

MOST_STEPS = 200  # so that no later step exhausts the stack, and reading is fast
_ABOVE = (exp.Window, exp.Subquery, exp.Grouping)
NOT_ONE = (
    "the question",
    "it computes something from released numbers, and only a plain aggregation can be asked here.",
    "Ask its aggregations here, or ask all of it by itself: curator.sql(...).",
)
OWN_NOISE = "Each of the {} released tables has noise of its own, so their numbers need not add up."


def read_sql(text: str, catalog: Catalog, today: date | None = None) -> Question:
    """The one question that a SELECT asks; raises Refused. Free, and reads no data. CURRENT_DATE is `today`."""
    found = StatementReader(catalog).read(text, today)
    return found if isinstance(found, Question) else refuse("released-numbers", *NOT_ONE)


def read_statement(text: str, catalog: Catalog, today: date | None = None) -> SplitStatement:
    """The questions of a statement, and the steps above them; raises Refused. Free, and reads no data."""
    return StatementReader(catalog).read_statement(text, today)


def read_query(catalog: Catalog, text: str, today: date | None) -> Question | SplitStatement | None:
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
        self._parts: list[tuple[Aggregation, dict[str, int]]] = []
        self._made: dict[int, tuple[Aggregation, Above]] = {}
        self._names = 0
        self._notes: list[str] = []
        self._scalars: dict[tuple[SqlNode, int], tuple[Known, tuple[TableStep, str, Type]]] = {}
        self._queries: dict[int, tuple[exp.Expr, Relation | Above]] = {}
        """The queries that were read, by their nodes, which this keeps alive."""
        self._nulls: set[str] = set()
        """Columns that are NULL throughout, which go with any type."""

    def read(self, text: str, today: date | None = None) -> Question | SplitStatement:
        """One question, or several and the steps above them; raises Refused."""
        try:
            made, notes = self._top(text, today)
            if isinstance(made, Above):
                return self._statement(made, notes)
            question = normalised(question_of(made))
            return replace(question, notes=(*question.notes, *notes)) if notes else question
        except RecursionError:
            refuse("too-large", "the question", "it is nested too deeply.", "Use fewer levels of nesting.")

    def read_statement(self, text: str, today: date | None = None) -> SplitStatement:
        """The same, with an ordinary question as a statement of one part."""
        try:
            made, notes = self._top(text, today)
            if not isinstance(made, Above):
                question_of(made)  # it is a question by itself, or refused as one
            return self._statement(self.released(made), notes)
        except RecursionError:
            refuse("too-large", "the question", "it is nested too deeply.", "Use fewer levels of nesting.")

    def _top(self, text: str, today: date | None) -> tuple[Relation | Above, tuple[str, ...]]:
        """What the text stands for, and a note if it stands for something else on another day."""
        node = reader.parse(text)
        settled = node if today is None else settle_today(node, today)
        made = self.query(settled, Known(Names(self._catalog, {})), "the question", inside=False)
        return made, (note_of(today),) if today and settled is not node else ()

    def _statement(self, above: Above, more: tuple[str, ...]) -> SplitStatement:
        root, used = prune(above.step, tuple(name for _, name, _ in above.columns))
        if sum(1 for _ in steps_of(root)) > MOST_STEPS:
            refuse("too-large", "the question", f"it takes more than {MOST_STEPS} steps.", "Split it.")
        by_name(Output(shown, Column(name, kind)) for shown, name, kind in above.columns)
        kept = [place for place in range(len(self._parts)) if any(_is_part(step, place) for step in steps_of(root))]
        if len(kept) > MOST_PARTS:
            refuse(
                "too-large",
                "the question",
                f"it asks {len(kept)} questions at once; at most {MOST_PARTS} are answered together.",
                "Ask for fewer groupings or sub-queries.",
            )
        questions = tuple(self._question(place, used) for place in kept)
        root = _renumbered(root, {place: new for new, place in enumerate(kept)}, questions)
        notes = self._notes or ([OWN_NOISE.format(len(kept))] if len(kept) > 1 else [])
        return SplitStatement(questions, root, above.columns, (*dict.fromkeys(notes), *more))

    def fresh(self) -> str:
        self._names += 1
        return f"c{self._names}"

    # Queries.

    def query(self, node: exp.Expr, known: Known, what: str, *, inside: bool = True) -> Relation | Above:
        """A SELECT, or several with UNION between them; read once."""
        if id(node) not in self._queries:
            self._queries[id(node)] = node, self._query(node, known, what, inside=inside)
        return self._queries[id(node)][1]

    def _query(self, node: exp.Expr, known: Known, what: str, *, inside: bool) -> Relation | Above:
        if isinstance(node, exp.Subquery) and not node.args.get("alias") and node.args.get("with_") is None:
            check_modifiers(node)
            return self.query(node.this, known, what, inside=inside)
        if isinstance(node, exp.Union):
            self.goes_on |= not inside and node.find(exp.AggFunc) is not None  # no question is a union
            return self._union(node, known, what)
        return self._select(only_select(node, what), known, inside=inside)

    def _with(self, node: exp.Expr, known: Known) -> Known:
        """The names that WITH adds. Each sub-query is read once, and sees those before it."""
        ctes = node.args.get("with_")
        if ctes is None:
            return known
        check_modifiers(ctes)
        for cte in ctes.expressions:
            check_modifiers(cte)
            check_modifiers(cte.args["alias"])
            made, name = self.query(cte.this, known, f"`{cte.alias}`"), cte.alias.lower()
            others = {other: above for other, above in known.above.items() if other != name}
            if isinstance(made, Above):
                known = Known(known.names.hiding(name), {**others, name: made})
            else:
                known = Known(known.names.adding(name, made), others)
        return known

    def _union(self, node: exp.Union, known: Known, what: str) -> Relation | Above:
        known = self._with(node, known)
        allowed = {"this", "expression", "distinct", "order", "limit", "offset", "with_"}
        if any(value and part not in allowed for part, value in node.args.items()):
            check_modifiers(node)
        sides = [self.query(side, known, what) for side in _sides(node)]
        bare = not any(node.args.get(part) for part in ("order", "limit", "offset"))
        if all(isinstance(side, Rows) for side in sides) and bare and node.args.get("distinct") is False:
            return unite([rows_only(side, "UNION ALL") for side in sides if isinstance(side, Rows)])
        if any(isinstance(side, Rows) for side in sides):
            only_select(node, what)  # refuses
        self.goes_on = True
        tables = [self.released(side) for side in sides]
        if len({len(table.columns) for table in tables}) > 1:
            refuse(
                "unsupported-union", "UNION", "its sides have different numbers of columns.", "Select the same ones."
            )
        rows = zip(*(table.columns for table in tables), strict=True)
        types = [_common([kind for _, name, kind in row if name not in self._nulls]) for row in rows]
        stacked = tuple(self._aligned(table, types) for table in tables)
        named = zip(tables[0].columns, stacked[0].outputs, types, strict=True)
        columns = tuple((shown, output.name, kind) for (shown, _, _), output, kind in named)
        builder = Builder(Stack(stacked), {name: kind for _, name, kind in columns}, self.fresh)
        if node.args.get("distinct") is not False:
            builder.step = Fold(builder.step, tuple(name for _, name, _ in columns), ())
        listed = reader.known_outputs([(name, Column(inner, kind)) for name, inner, kind in columns])
        order = node.args.get("order")
        by = (
            [(_of_union(term.this, *listed), bool(term.args.get("desc"))) for term in reader.sorting(order)]
            if order
            else []
        )
        shown: list[tuple[str, Expression]] = [(name, Column(inner, kind)) for name, inner, kind in columns]
        return self.finished(builder, shown, by, reader.limit_of(node), offset_of(node))

    def _aligned(self, table: Above, types: list[Type]) -> Compute:
        """The columns of a table under new names, integers as reals where another side has them."""
        outputs = []
        for (_, name, kind), wanted in zip(table.columns, types, strict=True):
            made: Expression = Literal(None, wanted) if name in self._nulls else Column(name, kind)
            if made.type is not wanted:
                made = convert(made, wanted, part=lambda: "UNION")
            outputs.append(Output(self.fresh(), made))
        return Compute(table.step, tuple(outputs))

    def _select(self, select: exp.Select, known: Known, *, inside: bool) -> Relation | Above:
        """One SELECT: what it reads is read first, and tells on which side of the release it stands."""
        known = self._with(select, known)
        tables = _tables(select)
        sources = [self._source(node, known) for node in tables]
        released = [source for source in sources if isinstance(source, Above | Aggregation)]
        if released and not is_filtered(select, released[0]):
            self.goes_on = True
            return OverReleased(self, select, known, sources).made()
        if not tables:
            first = next((p for node in select.expressions for p in node.walk() if isinstance(p, exp.Subquery)), None)
            if first is not None:
                return self._of_scalars(select, first, known)
        elif not released and goes_on_above(select):
            over = OverRows(self, select, known)
            self.goes_on = True
            return over.made()
        return reader.read_select(select, known.names, self.body, inside=inside)

    def body(self, node: exp.Expr, names: Names) -> Relation:
        """A sub-query over rows, which is read once; refused if it is released."""
        made = self.query(node, Known(names), "the subquery")
        if isinstance(made, Above):
            refuse(
                "released-numbers",
                "the subquery",
                "released numbers cannot be used where rows are counted.",
                "Aggregate the rows first, and combine the results.",
            )
        return made

    def _of_scalars(self, select: exp.Select, first: SqlNode, known: Known) -> Above:
        """A SELECT without FROM: one row, computed from sub-queries with one number each."""
        self.goes_on = True
        step, _, _ = self.scalar(first, known)
        return OverReleased(self, select, known, [Above(Fold(step, (), ()), ())]).made()

    def _source(self, node: SqlNode, known: Known) -> Relation | Above | None:
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table | exp.Subquery):
            return None if node.this.args.get("joins") else self._source(node.this, known)
        if isinstance(node, exp.Subquery):
            check_modifiers(node)
            return self.query(node.this, known, "the subquery")
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
            return None
        name = node.name.lower()
        return known.above.get(name) or known.names.known.get(name)

    # Parts.

    def released(self, made: Relation | Above) -> Above:
        """The table of what was read; an aggregation becomes a part."""
        if isinstance(made, Above):
            return made
        if isinstance(made, Rows):
            refuse(
                "released-numbers",
                "FROM",
                "rows cannot be combined with released numbers.",
                "Aggregate the rows first, in a subquery with GROUP BY.",
            )
        check_total(made)
        if id(made) not in self._made:
            self._made[id(made)] = made, self._part_of(made)
        return self._made[id(made)][1]

    def _part_of(self, groups: Aggregation) -> Above:
        step, keys, slots = self.part(groups)
        types = {name: kind for name, _, kind in step.columns}
        builder = Builder(step, types, self.fresh)

        def there(expression: Expression) -> Expression:
            return to_columns(expression, keys, slots, {})

        builder.only(map(there, groups.having), "HAVING")
        by = [(there(order.expression), order.descending) for order in groups.order]
        outputs = [(output.name, there(output.expression)) for output in groups.columns.values()]
        return self.finished(builder, outputs, by, groups.limit, 0)

    def part(self, groups: Aggregation) -> tuple[ReleasedPart, list[str], list[str]]:
        """A new part: the step, and the names of its keys and numbers."""
        keys, slots = ([self.fresh() for _ in of] for of in (groups.keys, groups.aggregates))
        types = [key.type or Type.TEXT for key in groups.keys]
        plain = [Output(name, Key(i, kind)) for i, (name, kind) in enumerate(zip(keys, types, strict=True))]
        place = len(self._parts)
        numbered = {name: index for index, name in enumerate(slots)}
        columns = tuple((o.name, o.name, o.expression.type or Type.TEXT) for o in plain)
        types = reader.slot_types(groups.aggregates)
        numbers = tuple((name, name, types[index]) for name, index in numbered.items())
        named = by_name([*plain, *(Output(name, Slot(index, types[index])) for name, index in numbered.items())])
        self._parts.append((replace(groups, columns=named, having=(), order=(), limit=None), numbered))
        return ReleasedPart(place, (*columns, *numbers)), keys, slots

    def _question(self, place: int, used: frozenset[str]) -> Question:
        """The part with the numbers that are read; with the first, if none is."""
        groups, slots = self._parts[place]
        kept = [name for name in slots if name in used] or list(slots)[:1]
        shown = [o for o in groups.columns.values() if o.name not in slots or o.name in kept]
        return normalised(question_of(replace(groups, columns=by_name(shown))))

    # The end of a SELECT.

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
        names = builder.named([e for _, e in outputs] + [e for e, _ in by])
        shown, order = names[: len(outputs)], names[len(outputs) :]
        if distinct:
            if any(name not in shown for name in order):
                refuse(
                    "unsupported-clause",
                    "ORDER BY",
                    "it is not among the columns of SELECT DISTINCT.",
                    "Select it too.",
                )
            builder.step = Fold(builder.step, tuple(dict.fromkeys(shown)), ())
        if order:
            builder.step = SortRows(builder.step, tuple(zip(order, (descending for _, descending in by), strict=True)))
        if limit is not None or offset:
            builder.step = SliceRows(builder.step, limit, offset)
        columns = [
            (name, self.fresh(), e.type or Type.TEXT, inner) for (name, e), inner in zip(outputs, shown, strict=True)
        ]
        self._nulls |= {new for (_, new, _, _), (_, e) in zip(columns, outputs, strict=True) if e.type is None}
        step = Compute(builder.step, tuple(Output(new, Column(inner, kind)) for _, new, kind, inner in columns))
        return Above(step, tuple((name, new, kind) for name, new, kind, _ in columns))

    def scalar(self, node: SqlNode, known: Known) -> tuple[TableStep, str, Type]:
        """A sub-query in an expression: one column and at most one row. Written twice, it is one."""
        if (node, id(known)) not in self._scalars:
            self._scalars[node, id(known)] = known, self._scalar(node, known)
        return self._scalars[node, id(known)][1]

    def _scalar(self, node: SqlNode, known: Known) -> tuple[TableStep, str, Type]:
        made = self.query(node, known, part_of(node))
        if isinstance(made, Rows):
            refuse_node(node)
        above = self.released(made)
        if len(above.columns) != 1:
            refuse("unsupported-function", part_of(node), "a sub-query here has one column.", "Select one number.")
        if not self._is_single(above.step):
            refuse(
                "unsupported-function",
                part_of(node),
                "a sub-query here has one row.",
                "Leave GROUP BY out, or take the largest: SELECT MAX(n) FROM (...).",
            )
        _, name, kind = above.columns[0]
        return above.step, name, kind

    def _is_single(self, step: TableStep) -> bool:
        while not isinstance(step, ReleasedPart | JoinTables | Stack | Fold):
            if isinstance(step, SliceRows) and step.limit is not None and step.limit <= 1:
                return True
            step = step.source
        if isinstance(step, ReleasedPart):
            return not self._parts[step.place][0].keys
        return isinstance(step, Fold) and not step.keys

    def note(self, text: str) -> None:
        self._notes.append(text)


def _common(kinds: list[Type]) -> Type:
    """The type of a column of UNION; NULL has any."""
    distinct = set(kinds) or {Type.TEXT}
    if len(distinct) == 1:
        return distinct.pop()
    if distinct == {Type.INTEGER, Type.REAL}:
        return Type.REAL
    listed = " and ".join(sorted(kind.value for kind in distinct))
    refuse("wrong-type", "UNION", f"a column is {listed} on its sides.", "CAST one of them.")


def _of_union(node: SqlNode, outputs: Sequence[Expression], named: Mapping[str, Expression]) -> Expression:
    found = reader.output_of(node, outputs, named)
    if found is None:
        refuse("unknown-column", f"ORDER BY {part_of(node)}", "UNION has no such column.", "Use a column's name.")
    return found


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


def _tables(select: exp.Select) -> list[SqlNode]:
    source = select.args.get("from_")
    joins = select.args.get("joins") or []
    return [] if source is None else [source.this, *(join.this for join in joins)]


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
    written = [node for node in (*select.expressions, having, order) if node is not None and node.find(*_ABOVE)]
    return any(isinstance(part, _ABOVE) for node in written for part in node.walk(prune=is_semi_join))


def is_filtered(select: exp.Select, groups: Aggregation | Above) -> bool:
    """Whether a SELECT over one aggregation shows, filters and sorts its groups, and so is still one question."""
    if isinstance(groups, Above) or reader.aggregates(select) or goes_on_above(select) or select.args.get("joins"):
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


def _is_part(step: TableStep, place: int) -> bool:
    return isinstance(step, ReleasedPart) and step.place == place


def _renumbered(root: TableStep, places: Mapping[int, int], questions: tuple[Question, ...]) -> TableStep:
    """The tree with its parts at other places, and with the outputs that their questions have."""
    done: dict[int, TableStep] = {}

    def again(step: TableStep) -> TableStep:
        if id(step) not in done:
            if isinstance(step, ReleasedPart):
                known = {o.name for o in questions[places[step.place]].outputs}
                columns = tuple(column for column in step.columns if column[1] in known)
                done[id(step)] = replace(step, place=places[step.place], columns=columns)
            elif isinstance(step, JoinTables):
                done[id(step)] = replace(step, left=again(step.left), right=again(step.right))
            elif isinstance(step, Stack):
                rebuilt = map(again, step.sources)
                done[id(step)] = Stack(tuple(one for one in rebuilt if isinstance(one, Compute)))
            elif isinstance(step, Attach):
                done[id(step)] = replace(step, source=again(step.source), scalar=again(step.scalar))
            else:
                done[id(step)] = replace(step, source=again(step.source))
        return done[id(step)]

    return again(root)
