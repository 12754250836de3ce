"""Reads SQL that goes on above the release: windows, aggregates of aggregates, joins and unions of released tables.

A SELECT that is one ordinary question is left to reader.py. Of any other the SELECTs inside are read first: each is
rows, one aggregation of rows (a part, which is released), or steps over parts. Which it is follows from what it reads.
Everything is read node by node from allow lists, with the types and columns of declared facts; what cannot be computed
is refused here, before anything is charged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations

from sqlglot import exp

from lapwing.catalog.table import Catalog
from lapwing.errors import Refused
from lapwing.language.expression import Column, Expression, Literal, Slot, walk
from lapwing.language.operators.base import call
from lapwing.language.operators.casts import convert
from lapwing.language.operators.logic import AND, COALESCE, EQUAL
from lapwing.language.refusal import nearest, refuse
from lapwing.language.types import Type
from lapwing.planning.pruning import prune
from lapwing.planning.question import Output, Question, lifted, normalised
from lapwing.planning.statement import (
    MOST_PARTS,
    Compute,
    Fold,
    FoldCall,
    Join,
    Part,
    Slice,
    Sort,
    Stack,
    Statement,
    Step,
    steps_of,
)
from lapwing.reading.relations.combining import rows_only
from lapwing.reading.relations.relation import Aggregation, Relation, Rows, by_name, filter_by, question_of
from lapwing.reading.relations.unions import unite
from lapwing.reading.sql import reader
from lapwing.reading.sql.above import MARK, Builder, PendingWindow, put_windows, read_fold, read_window, to_columns
from lapwing.reading.sql.expressions import read
from lapwing.reading.sql.nodes import SqlNode, is_whole, terms_of
from lapwing.reading.sql.refused import NODES, check_modifiers, part_of, refuse_node
from lapwing.reading.sql.sources import Names, read_from

MOST_STEPS = 400
_MARKED = 1_000_000  # from here on the numbers of slots stand for windows and sub-queries
_SELECT = frozenset(
    {"expressions", "from_", "where", "group", "having", "order", "limit", "with_", "joins"}
    | {"qualify", "offset", "windows", "distinct", "kind"}
)
_JOINS = {
    ("", ""): "INNER",
    ("", "INNER"): "INNER",
    ("", "CROSS"): "CROSS",
    **{(side, kind): side for side in ("LEFT", "RIGHT", "FULL") for kind in ("", "OUTER")},
}
OWN_NOISE = "Each of the {} released tables has noise of its own, so their numbers need not add up."
TOTALS = "Totals and groups have noise of their own, so they need not add up."


def read_statement(text: str, catalog: Catalog) -> Statement:
    """The questions of a statement, and the steps above them; raises Refused. Free, and reads no data.

    One that is an ordinary question has a single part and no step of its own.
    """
    try:
        return StatementReader(catalog).statement(reader.parse(text))
    except RecursionError:
        refuse("too-large", "the question", "it is nested too deeply.", "Use fewer levels of nesting.")


@dataclass(frozen=True, slots=True)
class Above:
    """Steps over released tables, and the columns that the last one shows."""

    step: Step
    columns: tuple[tuple[str, str, Type], ...]
    """The name that is shown, the name in the tree, and the type."""


@dataclass(frozen=True, slots=True)
class Known:
    """What names in FROM mean: rows and single aggregations, as everywhere, and released tables."""

    names: Names
    above: Mapping[str, Above] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Source:
    """One released table in FROM."""

    names: frozenset[str]
    columns: dict[str, tuple[str, Column]]
    """By lower-case name: the name that is shown, and the column."""


class StatementReader:
    """Reads one statement."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._parts: list[tuple[Aggregation, dict[str, str]]] = []
        self._made: dict[int, tuple[Aggregation, Above]] = {}
        self._names = 0
        self._notes: list[str] = []

    def statement(self, node: exp.Expr) -> Statement:
        made = self.query(node, Known(Names(self._catalog, {})), "the question", inside=False)
        if isinstance(made, Rows):
            question_of(made)  # refuses
        above = self._released(made)
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
        return Statement(questions, root, above.columns, tuple(dict.fromkeys(notes)))

    def fresh(self) -> str:
        self._names += 1
        return f"c{self._names}"

    # Queries.

    def query(self, node: exp.Expr, known: Known, what: str, *, inside: bool = True) -> Relation | Above:
        """A SELECT, or several with UNION between them."""
        if isinstance(node, exp.Subquery) and not node.args.get("alias"):
            if node.args.get("with_") is None:
                check_modifiers(node)
                return self.query(node.this, known, what, inside=inside)
        if isinstance(node, exp.Union):
            return self._union(node, known, what)
        return self._select(reader.only_select(node, what), known, inside=inside)

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
            reader.only_select(node, what)  # refuses
        tables = [self._released(side) for side in sides]
        if len({len(table.columns) for table in tables}) > 1:
            refuse(
                "unsupported-union", "UNION", "its sides have different numbers of columns.", "Select the same ones."
            )
        types = [
            _common([column[2] for column in row], "UNION") for row in zip(*(t.columns for t in tables), strict=True)
        ]
        stacked = tuple(self._aligned(table, types) for table in tables)
        first, shown = stacked[0], tables[0].columns
        columns = tuple((name[0], o.name, kind) for name, o, kind in zip(shown, first.outputs, types, strict=True))
        builder = Builder(
            Stack(stacked) if len(stacked) > 1 else first, {name: kind for _, name, kind in columns}, self.fresh
        )
        if node.args.get("distinct") is not False:
            builder.step = Fold(builder.step, tuple(name for _, name, _ in columns), ())
        outputs = tuple(Output(name, Column(inner, kind)) for name, inner, kind in columns)
        order = node.args.get("order")
        terms = [] if order is None else reader.sorting(order)
        for term in terms:
            if reader.output_of(term.this, outputs) is None:
                refuse("unknown-column", f"ORDER BY {part_of(term.this)}", "UNION has no such column.", "Use its name.")
        by = [(reader.output_of(term.this, outputs) or NULL_LITERAL, bool(term.args.get("desc"))) for term in terms]
        return self._ended(builder, node, columns, by)

    def _aligned(self, table: Above, types: list[Type]) -> Compute:
        """The columns of a table under new names, integers as reals where another side has them."""
        outputs = []
        for (_, name, kind), wanted in zip(table.columns, types, strict=True):
            column: Expression = Column(name, kind)
            outputs.append(
                Output(self.fresh(), column if kind is wanted else convert(column, wanted, part=lambda: "UNION"))
            )
        return Compute(table.step, tuple(outputs))

    def _select(self, select: exp.Select, known: Known, *, inside: bool) -> Relation | Above:
        known = self._with(select, known)
        bare = select
        if select.args.get("with_") is not None:
            bare = select.copy()
            bare.set("with_", None)
        tables = _tables(bare)
        try:
            if any(isinstance(node, exp.Table) and node.name.lower() in known.above for node in tables):
                refuse("released-numbers", "FROM", "it is a released table.", "")
            return reader.read_relation(bare, known.names, inside=inside)
        except Refused as error:
            refused = error
        sources = [self._source(node, known) for node in tables]
        if any(isinstance(source, Above | Aggregation) for source in sources):
            return _OverReleased(self, bare, known, sources).made()
        if _goes_on_above(bare):
            return _OverRows(self, bare, known, refused).made()
        raise refused

    def _source(self, node: SqlNode, known: Known) -> Relation | Above | None:
        if isinstance(node, exp.Subquery):
            check_modifiers(node)
            return self.query(node.this, known, "the subquery")
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
            return None
        name = node.name.lower()
        return known.above.get(name) or known.names.known.get(name)

    # Parts.

    def _released(self, made: Relation | Above) -> Above:
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
        if id(made) not in self._made:
            self._made[id(made)] = made, self._part_of(made)
        return self._made[id(made)][1]

    def _part_of(self, groups: Aggregation) -> Above:
        step, keys, slots = self.part(groups)
        types = {name: kind for name, _, kind in step.columns}
        builder = Builder(step, types, self.fresh)
        there = lambda expression: to_columns(expression, keys, slots, {})  # noqa: E731
        builder.keep(map(there, groups.having), "HAVING")
        by = [(there(order.expression), order.descending) for order in groups.order]
        outputs = [(output.name, there(output.expression)) for output in groups.columns.values()]
        return self.finished(builder, outputs, by, groups.limit, 0)

    def part(self, groups: Aggregation) -> tuple[Part, list[str], list[str]]:
        """A new part: the step, and the names of its keys and numbers."""
        keys, slots = ([self.fresh() for _ in of] for of in (groups.keys, groups.aggregates))
        plain = [Output(name, lifted(key, groups.keys)) for name, key in zip(keys, groups.keys, strict=True)]
        place = len(self._parts)
        numbered = {name: index for index, name in enumerate(slots)}
        columns = tuple((o.name, o.name, o.expression.type or Type.TEXT) for o in plain)
        types = reader.slot_types(groups.aggregates)
        numbers = tuple((name, name, types[index]) for name, index in numbered.items())
        named = by_name([*plain, *(Output(name, Slot(index, types[index])) for name, index in numbered.items())])
        self._parts.append((replace(groups, columns=named, having=(), order=(), limit=None), numbered))
        return Part(place, (*columns, *numbers)), keys, slots

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
            builder.step = Sort(builder.step, tuple(zip(order, (descending for _, descending in by), strict=True)))
        if limit is not None or offset:
            builder.step = Slice(builder.step, limit, offset)
        columns = [
            (name, self.fresh(), e.type or Type.TEXT, inner) for (name, e), inner in zip(outputs, shown, strict=True)
        ]
        step = Compute(builder.step, tuple(Output(new, Column(inner, kind)) for _, new, kind, inner in columns))
        return Above(step, tuple((name, new, kind) for name, new, kind, _ in columns))

    def _ended(
        self,
        builder: Builder,
        node: SqlNode,
        columns: tuple[tuple[str, str, Type], ...],
        by: list[tuple[Expression, bool]],
    ) -> Above:
        outputs: list[tuple[str, Expression]] = [(name, Column(inner, kind)) for name, inner, kind in columns]
        return self.finished(builder, outputs, by, reader.limit_of(node), _offset(node))

    def scalar(self, node: SqlNode, known: Known) -> tuple[Step, str, Type]:
        """A sub-query in an expression: one column and at most one row."""
        made = self.query(node, known, part_of(node))
        if isinstance(made, Rows):
            refuse_node(node)
        above = self._released(made)
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

    def _is_single(self, step: Step) -> bool:
        while not isinstance(step, Part | Join | Stack | Fold):
            if isinstance(step, Slice) and step.limit is not None and step.limit <= 1:
                return True
            step = step.source
        if isinstance(step, Part):
            return not self._parts[step.place][0].keys
        return isinstance(step, Fold) and not step.keys

    def note(self, text: str) -> None:
        self._notes.append(text)


NULL_LITERAL = Literal(None, None)


class _Reading:
    """One SELECT being read: what stands in place of its windows and sub-queries, and its clauses."""

    def __init__(self, owner: StatementReader, select: exp.Select, known: Known) -> None:
        self.owner, self.select, self.known = owner, select, known
        for part, value in select.args.items():
            if value and part not in _SELECT:
                check_modifiers(select)
        self.marks: dict[int, Column] = {}
        self.windows: list[PendingWindow] = []
        self.scalars: list[tuple[Step, str, Type, str]] = []
        self.groupings: list[tuple[str, tuple[Expression, ...]]] = []
        self.named = {one.this.name.lower(): one for one in select.args.get("windows") or []}

    # What is taken out of expressions.

    def stripped(self, node: SqlNode, *, windows: bool = True) -> SqlNode:
        """The node with marks in place of window functions, sub-queries and GROUPING."""

        def mark(part: SqlNode) -> SqlNode:
            if isinstance(part, exp.Window):
                if not windows:
                    refuse("unsupported-function", part_of(part), *NODES[exp.Window])
                found = read_window(
                    part, self.named, lambda inner: self.inner(inner, windows=False), self.owner.fresh()
                )
                self.windows.append(found)
                return self._marked(Column(found.name, found.type))
            if isinstance(part, exp.Subquery) or (isinstance(part, exp.Select) and part is not node):
                step, column, kind = self.owner.scalar(part, self.known)
                name = self.owner.fresh()
                self.scalars.append((step, column, kind, name))
                return self._marked(Column(name, kind))
            if isinstance(part, exp.Grouping):
                name = self.owner.fresh()
                self.groupings.append((name, tuple(self.key(inner) for inner in part.expressions)))
                return self._marked(Column(name, Type.INTEGER))
            return part

        return node.copy().transform(mark, copy=False)

    def _marked(self, column: Column) -> SqlNode:
        number = _MARKED + len(self.marks)
        self.marks[number] = column
        return exp.column(f"{MARK}{number}", quoted=True)

    def mark(self, node: SqlNode) -> int | None:
        """The number behind a mark."""
        return int(node.name[1:]) if isinstance(node, exp.Column) and node.name.startswith(MARK) else None

    def inner(self, node: SqlNode, *, windows: bool = True) -> Expression:
        """An expression above the aggregation."""
        raise NotImplementedError

    def key(self, node: SqlNode) -> Expression:
        """What a node of GROUP BY or GROUPING means."""
        raise NotImplementedError

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
        listed = tuple(Output(name, e) for name, e in outputs)
        return [
            (reader.output_of(term.this, listed) or self.inner(term.this), bool(term.args.get("desc")))
            for term in terms
        ]

    def sets(self) -> list[list[SqlNode]]:
        """The grouping sets of GROUP BY, as nodes; one set if it is plain."""
        group = self.select.args.get("group")
        if group is None:
            return [[]]
        allowed = {"expressions", "rollup", "cube", "grouping_sets", "all"}
        if any(value and part not in allowed for part, value in group.args.items()):
            check_modifiers(group)
        if group.args.get("all"):
            return [[node for node in self.items() if not _aggregates(node)]]
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


class _OverRows(_Reading):
    """A SELECT that aggregates private rows, and goes on above."""

    def __init__(self, owner: StatementReader, select: exp.Select, known: Known, refused: Refused) -> None:
        super().__init__(owner, select, known)
        self.refused = refused

    def made(self) -> Above:
        select = self.select
        self.source = reader.Source(read_from(select, self.known.names, reader.read_inside))
        relation = self.source.relation
        where = select.args.get("where")
        if where is not None:
            check_modifiers(where)
            conditions = [read(term, self.source.column) for term in terms_of(where.this, exp.And)]
            relation = filter_by(relation, conditions, lambda: f"WHERE {part_of(where.this)}")
        if not isinstance(relation, Rows):
            raise self.refused
        self.source = reader.Source(self.source.scopes.refine(relation))
        self.groups = reader.AggregationReader(select, self.source, relation, inside=False)
        self.groups.stands_for = self._slot
        sets = [[self.groups.key(node) for node in nodes] for nodes in self.sets()]
        everything = list(dict.fromkeys(key for one in sets for key in one))
        for key in everything:
            self.groups.grouping.add_key(key, "GROUP BY")
        outputs = [(name, self.inner(node)) for name, node in self._shown()]
        self.groups.outputs = {name.lower(): e for name, e in outputs}
        having, qualify, by = self.conditions("having"), self.conditions("qualify"), self.sorting(outputs)
        if not self.groups.grouping.aggregates:
            raise self.refused
        return self._steps(relation, sets, everything, outputs, having, qualify, by)

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
            made += [Literal(_bits(named, one), Type.INTEGER) for _, named in self.groupings]
            names = list(types) if place == 0 else [self.owner.fresh() for _ in types]
            tables.append(Compute(step, tuple(map(Output, names, made))))
        if len(tables) > 1:
            self.owner.note(TOTALS)
        builder = Builder(Stack(tuple(tables)) if len(tables) > 1 else tables[0], types, self.owner.fresh)
        for step_, column, kind, name in self.scalars:
            builder.attach(step_, column, kind, name)

        def there_(expression: Expression) -> Expression:
            return to_columns(expression, keys, slots, self.marks)

        builder.keep(map(there_, having), "HAVING")
        put_windows(builder, [window.moved(there_) for window in self.windows])
        builder.keep(map(there_, qualify), "QUALIFY")
        shown = [(name, there_(e)) for name, e in outputs]
        sorting = [(there_(e), descending) for e, descending in by]
        limit, offset = reader.limit_of(self.select), _offset(self.select)
        return self.owner.finished(builder, shown, sorting, limit, offset, distinct=_distinct(self.select))

    def _shown(self) -> list[tuple[str, SqlNode]]:
        pairs = []
        for name, node in reader.select_columns(self.select, self.source):
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
        return None if number is None else Slot(number, self.marks[number].type)


def _bits(named: tuple[Expression, ...], present: list[Expression]) -> int:
    """GROUPING: a binary digit for each key, 1 if it is left out of the set."""
    bits = 0
    for key in named:
        bits = 2 * bits + (key not in present)
    return bits


class _OverReleased(_Reading):
    """A SELECT over released tables."""

    def __init__(
        self, owner: StatementReader, select: exp.Select, known: Known, sources: list[Relation | Above | None]
    ) -> None:
        super().__init__(owner, select, known)
        self.tables = sources
        self.sources: list[_Source] = []
        self.shared: set[str] = set()
        self.keys: list[Expression] = []
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
            or any(_aggregates(n) for _, n in shown if isinstance(n, exp.Expression))
        )
        sets: list[list[Expression]] = [[]]
        if self.folding:
            sets = [[self.key(node) for node in nodes] for nodes in self.sets()]
            self.keys = list(dict.fromkeys(key for one in sets for key in one))
        done = len(self.scalars)
        outputs = [
            (name, self.inner(node) if isinstance(node, exp.Expression) else self._lifted(node)) for name, node in shown
        ]
        self.outputs = {name.lower(): e for name, e in outputs}
        having, qualify, by = self.conditions("having"), self.conditions("qualify"), self.sorting(outputs)
        there = (
            self._folded(builder, sets)
            if self.folding
            else (lambda expression: to_columns(expression, (), (), self.marks))
        )
        for step, column, kind, name in self.scalars[done:]:
            builder.attach(step, column, kind, name)
        builder.keep(map(there, having), "HAVING")
        put_windows(builder, [window.moved(there) for window in self.windows])
        builder.keep(map(there, qualify), "QUALIFY")
        final = [(name, there(e)) for name, e in outputs]
        sorting = [(there(e), descending) for e, descending in by]
        limit, offset = reader.limit_of(select), _offset(select)
        return self.owner.finished(builder, final, sorting, limit, offset, distinct=_distinct(select))

    def _where(self, builder: Builder) -> None:
        """Conditions of WHERE, with the sub-queries in them attached first."""
        node = self.select.args.get("where")
        if node is None:
            return
        check_modifiers(node)
        conditions = [
            to_columns(self.inner(term, windows=False), (), (), self.marks) for term in terms_of(node.this, exp.And)
        ]
        for step, column, kind, name in self.scalars:
            builder.attach(step, column, kind, name)
        builder.keep(conditions, "WHERE")

    def _folded(self, builder: Builder, sets: list[list[Expression]]) -> Callable[[Expression], Expression]:
        """Groups the rows, once for each grouping set."""
        plain = [to_columns(key, (), (), self.marks) for key in self.keys]
        arguments = [[to_columns(e, (), (), self.marks) for e in values] for _, values in self.folds]
        names = builder.named([*plain, *(e for values in arguments for e in values)])
        at = dict(zip([*plain, *(e for values in arguments for e in values)], names, strict=True))
        keys = [self.owner.fresh() for _ in plain]
        kinds = [key.type or Type.TEXT for key in plain]
        calls = [
            replace(call_, arguments=tuple(at[e] for e in values))
            for (call_, _), values in zip(self.folds, arguments, strict=True)
        ]
        types = dict(zip(keys, kinds, strict=True)) | {call_.name: call_.type for call_ in calls}
        types |= {name: Type.INTEGER for name, _ in self.groupings}
        tables = []
        for place, one in enumerate(sets):
            own = {key: at[value] for key, value in zip(self.keys, plain, strict=True) if key in one}
            again = [replace(call_, name=call_.name if len(sets) == 1 else self.owner.fresh()) for call_ in calls]
            step = Fold(builder.step, tuple(own[key] for key in self.keys if key in own), tuple(again))
            made: list[Expression] = [
                Column(own[key], kind) if key in own else Literal(None, kind)
                for key, kind in zip(self.keys, kinds, strict=True)
            ]
            made += [Column(call_.name, call_.type) for call_ in again]
            made += [Literal(_bits(named, one), Type.INTEGER) for _, named in self.groupings]
            if place == 0:
                shown = [*keys, *(self.owner.fresh() for _ in calls), *(name for name, _ in self.groupings)]
                slots = shown[len(keys) : len(keys) + len(calls)]
                tables.append(Compute(step, tuple(map(Output, shown, made))))
                builder_types = dict(zip(shown, types.values(), strict=True))
            else:
                tables.append(Compute(step, tuple(Output(self.owner.fresh(), e) for e in made)))
        builder.step = Stack(tuple(tables)) if len(tables) > 1 else tables[0]
        builder.types = builder_types
        return lambda expression: to_columns(expression, keys, slots, self.marks)

    def inner(self, node: SqlNode, *, windows: bool = True) -> Expression:
        return self._lifted(read(self.stripped(node, windows=windows), self._leaf))

    def _lifted(self, expression: Expression) -> Expression:
        if not self.folding:
            return expression
        shown = lifted(expression, tuple(self.keys))
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
            return Slot(number, self.marks[number].type)
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

    def _below(self, node: SqlNode) -> Expression:
        """An argument of an aggregate: an expression over the columns of FROM."""

        def leaf(part: SqlNode) -> Expression:
            if (number := self.mark(part)) is not None:
                return Slot(number, self.marks[number].type)
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
        items = self.items()
        if is_whole(node):
            place = int(node.name)
            if not 1 <= place <= len(items):
                refuse(
                    "wrong-argument", f"GROUP BY {place}", f"SELECT has {len(items)} columns.", "Use the column's name."
                )
            node = items[place - 1]
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
        source = select.args["from_"].this
        joins = select.args.get("joins") or []
        builder: Builder | None = None
        for place, (table, node) in enumerate(zip(self.tables, [source, *(join.this for join in joins)], strict=True)):
            if table is None:
                refuse(
                    "released-numbers",
                    f"FROM {part_of(node)}",
                    "rows cannot be combined with released numbers.",
                    _FIRST,
                )
            made = self.owner._released(table)
            columns = {shown.lower(): (shown, Column(self.owner.fresh(), kind)) for shown, _, kind in made.columns}
            renamed = tuple(
                Output(columns[shown.lower()][1].name, Column(name, kind)) for shown, name, kind in made.columns
            )
            step, types = Compute(made.step, renamed), {column.name: column.type for _, column in columns.values()}
            alias = node.alias or (node.name if isinstance(node, exp.Table) else "")
            one = _Source(
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

    def _join(self, builder: Builder, step: Step, types: dict[str, Type], one: _Source, node: exp.Join) -> None:
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
        builder.step = Join(builder.step, step, how if condition is not None else "CROSS", condition)
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
        pairs: list[tuple[str, SqlNode | Expression]] = []
        for node in self.select.expressions:
            inner = node.this if isinstance(node, exp.Alias) else node
            star = inner.this if isinstance(inner, exp.Column) else inner
            if isinstance(star, exp.Star):
                check_modifiers(star)
                sources = [
                    s for s in self.sources if not isinstance(inner, exp.Column) or inner.table.lower() in s.names
                ]
                listed = dict.fromkeys(pair for source in sources for pair in source.columns.values())
                pairs += list(listed)
            else:
                pairs.append((node.alias if isinstance(node, exp.Alias) else reader.default_name(inner), inner))
        return pairs


_FIRST = "Aggregate the rows first, in a subquery with GROUP BY."


def _and(first: Expression | None, second: Expression, node: SqlNode) -> Expression:
    return second if first is None else call(AND, first, second, part=lambda: part_of(node))


def _walk_columns(expression: Expression) -> list[Column]:
    return [part for part in walk(expression) if isinstance(part, Column)]


def _common(kinds: list[Type], what: str) -> Type:
    distinct = set(kinds)
    if len(distinct) == 1:
        return kinds[0]
    if distinct == {Type.INTEGER, Type.REAL}:
        return Type.REAL
    listed = " and ".join(sorted(kind.value for kind in distinct))
    refuse("wrong-type", what, f"a column is {listed} on its sides.", "CAST one of them.")


def _distinct(select: exp.Select) -> bool:
    distinct = select.args.get("distinct")
    if distinct is not None and distinct.args.get("on") is not None:
        refuse("unsupported-clause", "DISTINCT ON", "it is not supported.", "Use QUALIFY ROW_NUMBER() OVER (...) = 1.")
    return distinct is not None


def _offset(node: SqlNode) -> int:
    offset = node.args.get("offset")
    if offset is None:
        return 0
    value = offset.args.get("expression")
    if value is None or not is_whole(value):
        refuse("wrong-argument", "OFFSET", "it takes an integer.", "For example: OFFSET 10.")
    return int(value.name)


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


def _aggregates(node: SqlNode) -> bool:
    """Whether there is an aggregate outside of windows and sub-queries."""
    todo = [node]
    while todo:
        part = todo.pop()
        if isinstance(part, exp.Window):
            todo += [inner for inner in part.this.iter_expressions()] if isinstance(part.this, exp.AggFunc) else []
            todo += [*(part.args.get("partition_by") or []), *([part.args["order"]] if part.args.get("order") else [])]
        elif isinstance(part, exp.Subquery | exp.Select):
            continue
        elif isinstance(part, exp.AggFunc | exp.WithinGroup):
            return True
        else:
            todo += list(part.iter_expressions())
    return False


def _goes_on_above(select: exp.Select) -> bool:
    """Whether a SELECT over rows has something that only released tables have."""
    group = select.args.get("group")
    if group is not None and any(group.args.get(part) for part in ("rollup", "cube", "grouping_sets", "all")):
        return True
    if any(select.args.get(part) for part in ("qualify", "offset", "windows", "distinct")):
        return True
    written = [*select.expressions, *(select.args[part] for part in ("having", "order") if select.args.get(part))]
    return any(isinstance(part, exp.Window | exp.Subquery | exp.Grouping) for node in written for part in node.walk())


def _is_part(step: Step, place: int) -> bool:
    return isinstance(step, Part) and step.place == place


def _renumbered(root: Step, places: Mapping[int, int], questions: tuple[Question, ...]) -> Step:
    """The tree with its parts at other places, and with the outputs that their questions have."""
    done: dict[int, Step] = {}

    def again(step: Step) -> Step:
        if id(step) not in done:
            if isinstance(step, Part):
                known = {o.name for o in questions[places[step.place]].outputs}
                columns = tuple(column for column in step.columns if column[1] in known)
                done[id(step)] = replace(step, place=places[step.place], columns=columns)
            elif isinstance(step, Join):
                done[id(step)] = replace(step, left=again(step.left), right=again(step.right))
            elif isinstance(step, Stack):
                rebuilt = map(again, step.sources)
                done[id(step)] = Stack(tuple(one for one in rebuilt if isinstance(one, Compute)))
            elif hasattr(step, "scalar"):
                done[id(step)] = replace(step, source=again(step.source), scalar=again(step.scalar))
            else:
                done[id(step)] = replace(step, source=again(step.source))
        return done[id(step)]

    return again(root)
