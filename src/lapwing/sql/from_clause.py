"""Reads FROM: tables, subqueries, WITH names, joins and UNION ALL; and what a column name means there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NoReturn

from sqlglot import exp

from lapwing.expressions.expression import Expression, Literal
from lapwing.expressions.operators.base import call
from lapwing.expressions.operators.logic import COALESCE, NOT
from lapwing.expressions.refusal import nearest, refuse
from lapwing.expressions.table import Catalog, Table
from lapwing.expressions.types import Type
from lapwing.plan.question import Output
from lapwing.sql.joins import BOTH_SIDES, filter_sides, is_member, join
from lapwing.sql.nodes import SqlLeaf, SqlNode, is_semi_join, terms_of
from lapwing.sql.parts import Above
from lapwing.sql.read_expression import read
from lapwing.sql.refusals import check_modifiers, part_of, refuse_node
from lapwing.sql.relation import Columns, Relation, Rows, all_rows, by_name, filter_by, rows_only

KINDS = {("", ""): "inner", ("", "INNER"): "inner"} | {
    (side, kind): side.lower() for side in ("LEFT", "RIGHT") for kind in ("", "OUTER")
}
KINDS |= {(side, kind): kind.lower() for side in ("", "LEFT") for kind in ("SEMI", "ANTI")}
"""Supported joins, by the words before JOIN."""

COMMAS = {("", ""), ("", "CROSS")}
"""Joins without ON: a comma, or CROSS JOIN. Their equalities stand in WHERE."""

_OTHERS = {
    "FULL": "Write LEFT JOIN, which leaves out unmatched rows of the right table.",
}
"""What to write instead of other joins."""
_ALIASES = "Use aliases: FROM t AS a JOIN t AS b."
_EQUALS = "Write ON a.x = b.y AND ..."
_SUBQUERY = "Filter its table first: JOIN (SELECT * FROM b WHERE x IN (SELECT ...)) AS b ON ..."


@dataclass(frozen=True, slots=True)
class Names:
    """The meaning of a name in FROM: a subquery from WITH, else a table in the catalog."""

    catalog: Catalog
    known: Mapping[str, Relation] = field(default_factory=dict)
    above: Mapping[str, Above | None] = field(default_factory=dict)
    """Released tables, which stand for no rows; None where they cannot be used."""
    stored: dict[str, Relation] = field(default_factory=dict)
    """The rows of tables in the catalog that were named by now."""

    def relation(self, name: str, schema: str = "") -> tuple[Relation, Table | None]:
        """What a name stands for, and the table of the catalog if it is one; a schema belongs to tables alone."""
        if not schema and name.lower() in self.above:
            refuse_released(f"`{name}`")
        if not schema and name.lower() in self.known:
            return self.known[name.lower()], None
        table = self.catalog.table(name)
        if schema:
            table.check_schema(schema)
        if table.name not in self.stored:
            self.stored[table.name] = all_rows(table)
        return self.stored[table.name], table

    def adding(self, name: str, meaning: Relation | Above) -> Names:
        """The same names and one more."""
        key = name.lower()
        known = {other: relation for other, relation in self.known.items() if other != key}
        above = {other: table for other, table in self.above.items() if other != key}
        if isinstance(meaning, Above):
            above[key] = meaning
        else:
            known[key] = meaning
        return replace(self, known=known, above=above)

    def rows_only(self) -> Names:
        """The same names, where released tables cannot be used."""
        return replace(self, above=dict.fromkeys(self.above)) if self.above else self


def refuse_released(part: str) -> NoReturn:
    refuse(
        "released-numbers",
        part,
        "released numbers cannot be used where rows are counted.",
        "Aggregate the rows first, and combine the results.",
    )


@dataclass(frozen=True, slots=True)
class Scope:
    """One table in FROM: the names it goes by, and its columns."""

    names: frozenset[str]
    columns: Columns
    table: Table | None = None
    """The table of the catalog, if it is one: its schema may be written before its columns."""


@dataclass(frozen=True, slots=True)
class Scopes:
    """The tables in FROM."""

    parts: tuple[Scope, ...]
    shared: frozenset[str] = frozenset()
    """The columns of USING, which are the same on both sides."""

    def column(self, node: exp.Column) -> Expression:
        """The meaning of a column name."""
        name = node.name.lower()
        if node.table:
            scope = self.scope(node.table, part_of(node))
            _check_schema(node, scope)
            if name not in scope.columns:
                self._refuse_column(f"{node.table}.{node.name}")
            return scope.columns[name].expression
        meanings = [part.columns[name].expression for part in self.parts if name in part.columns]
        if not meanings:
            self._refuse_column(node.name)
        if name not in self.shared and len(set(meanings)) > 1:
            refuse(
                "ambiguous",
                f"`{node.name}`",
                "several tables have a column with this name.",
                f"Write table.{node.name}.",
            )
        return meanings[0]

    @property
    def owner(self) -> str:
        """What has the columns, for people."""
        return "the subquery"

    def _refuse_column(self, name: str) -> NoReturn:
        names = {output.name: None for part in self.parts for output in part.columns.values()}
        refuse("unknown-column", f"column `{name}`", f"{self.owner} has no such column.", nearest(name, names))

    def scope(self, table: str, what: str) -> Scope:
        """The table with this name."""
        found = [part for part in self.parts if table.lower() in part.names]
        if not found:
            names = (name for part in self.parts for name in part.names)
            refuse("unknown-table", what, "that table is not in FROM.", nearest(table, names))
        if len(found) > 1:
            refuse("duplicate-name", what, "several tables have this name.", _ALIASES)
        return found[0]

    def check_apart(self, others: Iterable[Scope], what: str) -> None:
        """Refuses tables that go by the same name."""
        if any(part.names & other.names for part in self.parts for other in others):
            refuse("duplicate-name", what, "two tables have the same name.", _ALIASES)

    def star(self, node: SqlNode) -> Iterator[Output]:
        """All columns, or all of one table; a column shared by both sides appears once."""
        parts = [self.scope(node.table, part_of(node))] if isinstance(node, exp.Column) else list(self.parts)
        outputs = [output for part in parts for output in part.columns.values()]
        seen: dict[str, Expression] = {}
        for output in outputs:
            name = output.name.lower()
            if name not in seen or (seen[name] != output.expression and name not in self.shared):
                yield output
            seen.setdefault(name, output.expression)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowScopes(Scopes):
    """What one SELECT over rows reads: a relation, and the tables it was joined from."""

    relation: Relation

    @property
    def owner(self) -> str:
        return f"table `{self.relation.table.name}`" if isinstance(self.relation, Rows) else "the subquery"


Body = Callable[[exp.Expr, Names], Relation]
"""Reads a nested query: a SELECT, or several with UNION ALL between them."""


def only_select(node: exp.Expr, what: str) -> exp.Select:
    """The node, if it is a single SELECT."""
    if isinstance(node, exp.SetOperation):
        among = {exp.Intersect: "IN", exp.Except: "NOT IN"}.get(type(node))
        refuse(
            "unsupported-union",
            what,
            "UNION, EXCEPT and INTERSECT compare rows of different units, and released numbers cannot be combined.",
            f"For units write WHERE unit {among} (SELECT unit FROM t WHERE ...)."
            if among
            else "Use UNION ALL of rows in FROM, which keeps equal rows, or ask each SELECT separately.",
        )
    if isinstance(node, exp.Values):
        refuse("unsupported-clause", what, "VALUES contains no private rows.", "Select FROM a table.")
    if not isinstance(node, exp.Select):
        refuse("not-one-select", part_of(node), "only SELECT is supported.", "Write one SELECT statement.")
    return node


def read_from(select: exp.Select, names: Names, body: Body) -> tuple[RowScopes, list[SqlNode]]:
    """What follows FROM, with its joins from left to right, and the conditions of WHERE that no join has taken."""
    source, where = select.args.get("from_"), select.args.get("where")
    if source is None:
        refuse(
            "unknown-table", "SELECT", "it names no table.", nearest("", (table.name for table in names.catalog.tables))
        )
    if where is not None:
        check_modifiers(where)
    conditions = [] if where is None else terms_of(where.this, exp.And)
    return _chain(source.this, select.args.get("joins") or [], conditions, names, body), conditions


def _chain(first: SqlNode, joins: list[exp.Join], conditions: list[SqlNode], names: Names, body: Body) -> RowScopes:
    """A table and its joins. An equality that a comma join takes from the conditions of WHERE leaves them."""
    scopes = _one(first, names, body, alone=not joins)
    for node in joins:
        scopes = _join(scopes, node, conditions, names, body)
    return scopes


def _one(node: SqlNode, names: Names, body: Body, *, alone: bool) -> RowScopes:
    """One table or subquery. A table with an alias goes by both names, unless it is joined with others."""
    if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table | exp.Subquery):
        return _in_parentheses(node, names, body, alone=alone)
    if isinstance(node, exp.Subquery):
        check_modifiers(node)
        inner = body(node.this, names)
        scope = Scope(frozenset({_alias(node).lower()} - {""}), inner.columns)
        return RowScopes((scope,), relation=inner)
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        refuse(
            "unknown-table",
            f"FROM {part_of(node)}",
            "only tables in the catalog can be queried.",
            "Write FROM and the table's name.",
        )
    check_modifiers(node)
    (relation, table), alias = names.relation(node.name, node.db), _alias(node)
    called = {alias or node.name, node.name} if alone else {alias or node.name}
    scope = Scope(frozenset([name.lower() for name in called]), relation.columns, None if alias else table)
    return RowScopes((scope,), relation=relation)


def _in_parentheses(node: exp.Subquery, names: Names, body: Body, *, alone: bool) -> RowScopes:
    """(a JOIN b ON ...), whose tables keep their names; or AS c, which then is the name of all their columns."""
    check_modifiers(node)
    inside = node.this.copy()
    joins = inside.args.get("joins") or []
    inside.set("joins", None)
    found = _chain(inside, joins, [], names, body) if joins else _one(inside, names, body, alone=alone)
    alias = _alias(node).lower()
    return replace(found, parts=(Scope(frozenset({alias}), by_name(found.star(exp.Star()))),)) if alias else found


def _check_schema(node: exp.Column, scope: Scope) -> None:
    """Refuses a schema before the table of a column unless it is the table's own."""
    if not node.db:
        return
    if scope.table is None:
        refuse("unknown-table", part_of(node), "an alias has no schema.", f"Write {node.table}.{node.name}.")
    scope.table.check_schema(node.db)


def _alias(node: SqlNode) -> str:
    alias = node.args.get("alias")
    if alias is None:
        return ""
    check_modifiers(alias)
    if not isinstance(alias.this, exp.Identifier):
        refuse("unsupported-clause", f"FROM {part_of(node)}", "the alias is not valid.", "Write FROM table AS name.")
    return node.alias


def _join(left: RowScopes, node: exp.Join, conditions: list[SqlNode], names: Names, body: Body) -> RowScopes:
    check_modifiers(node)
    what = part_of(node)
    words = (str(node.args.get("side") or ""), str(node.args.get("kind") or ""))
    on, using = node.args.get("on"), node.args.get("using") or []
    right = _one(node.this, names, body, alone=False)
    taken = [] if on or using or words not in COMMAS else [term for term in conditions if _links(term, left, right)]
    if not (taken or (words in KINDS and (on or using))):
        instead = "Write JOIN ... ON a.x = b.y, or put a.x = b.y in WHERE."
        if words not in COMMAS:
            instead = _OTHERS.get(words[0] or words[1], "Write JOIN or LEFT JOIN with ON a.x = b.y, or USING (x).")
        refuse("unsupported-join", what, "only equality joins are supported.", instead)
    left.check_apart(right.parts, what)
    how = KINDS.get(words, "inner")
    first, second = rows_only(left.relation, what), rows_only(right.relation, what)
    pairs, only, both = list[tuple[Expression, Expression]](), list[tuple[str, Expression]](), list[SqlNode]()
    for term in terms_of(on, exp.And) if on is not None else taken:
        ends = _ends(term, left, right)
        if "both" in ends:
            both.append(term)
        elif len(ends) == 2:
            pairs.append((ends["left"], ends["right"]))
        else:
            only += ends.items()
    if both and how != "inner":
        refuse("unsupported-join", f"ON {part_of(both[0])}", *BOTH_SIDES)
    if not pairs and not using:
        refuse("unsupported-join", what, "only equality joins are supported.", _EQUALS)
    for name in using:
        column = exp.Column(this=name.copy())
        pairs.append((left.column(column), right.column(column)))
    if how in ("semi", "anti"):
        return replace(left, relation=_semi_join(first, second, pairs, only, how=how, what=what))
    first, second, more = filter_sides(first, second, only, how=how, what=f"ON {part_of(on)}" if on else what)
    conditions[:] = [term for term in conditions if all(term is not one for one in taken)]
    made = join(first, second, [*pairs, *more], how=how, what=what)
    parts = [replace(part, columns=made.left(part.columns)) for part in left.parts]
    parts += [replace(part, columns=made.right(part.columns)) for part in right.parts]
    shown = {name: output for part in reversed(parts) for name, output in part.columns.items()}
    shared = left.shared | right.shared | {name.name.lower() for name in using}
    if how == "right" and using:
        refuse("unsupported-join", what, "USING is only supported in JOIN and LEFT JOIN.", "Write ON a.x = b.x.")
    scopes = RowScopes(tuple(parts), shared, relation=Rows(made.table, shown, made.where))
    met = [read(term, _leaf(scopes.column)) for term in both]
    return replace(scopes, relation=filter_by(scopes.relation, met, lambda: f"ON {part_of(both[0])}"))


def _semi_join(
    left: Rows,
    right: Rows,
    pairs: list[tuple[Expression, Expression]],
    only: list[tuple[str, Expression]],
    *,
    how: str,
    what: str,
) -> Relation:
    """The rows with a partner, or those without one."""
    if any(side == "left" for side, _ in only):
        why = "its other conditions may only use the right table."
        refuse("unsupported-join", what, why, "Count with that condition in WHERE separately.")
    if len(pairs) > 1:
        refuse("unsupported-join", what, "it compares one column.", "Compare the protected unit of both.")
    _, members, _ = filter_sides(left, right, only, how="left", what=what)
    ((value, other),) = pairs
    made, met = is_member(left, value, replace(members, columns=by_name([Output("member", other)])), what)
    found = call(COALESCE, met, Literal(False, Type.BOOLEAN), part=lambda: what)
    kept = found if how == "semi" else call(NOT, found, part=lambda: what)
    return filter_by(made, [kept], lambda: what)


def _links(term: SqlNode, left: RowScopes, right: RowScopes) -> bool:
    """True for an equality between columns of the left tables and columns of the right one."""
    if not isinstance(term, exp.EQ) or term.find(exp.Query):
        return False
    ends = [
        {_sides_of(column, left, right) for column in side.find_all(exp.Column)}
        for side in (term.this, term.expression)
    ]
    return ends in ([{"left"}, {"right"}], [{"right"}, {"left"}])


def _ends(node: SqlNode, left: RowScopes, right: RowScopes) -> dict[str, Expression]:
    """Both ends of an equality in ON, or the condition by its side: one without columns belongs to the right."""
    if isinstance(node, exp.EQ):
        check_modifiers(node)
        ends = dict(_with_side(part, left, right) for part in (node.this, node.expression))
        if set(ends) == {"left", "right"}:
            return ends
    side, condition = _with_side(node, left, right)
    return {side or "right": condition}


def _with_side(node: SqlNode, left: RowScopes, right: RowScopes) -> tuple[str, Expression]:
    """The expression, and the side whose columns it uses: both, or none if it is empty."""
    seen: set[str] = set()

    def column(part: exp.Column) -> Expression:
        side = _side_of(part, left, right)
        seen.add(side)
        return (left if side == "left" else right).column(part)

    expression = read(node, _leaf(column))
    return ("both" if len(seen) == 2 else "".join(seen)), expression


def _leaf(column: Callable[[exp.Column], Expression]) -> SqlLeaf:
    """Reads the columns of ON, and refuses what else stands there."""

    def leaf(part: SqlNode) -> Expression:
        if is_semi_join(part):
            refuse("unsupported-join", f"ON {part_of(part)}", "subqueries are not supported in ON.", _SUBQUERY)
        return column(part) if isinstance(part, exp.Column) else refuse_node(part)

    return leaf


def _side_of(node: exp.Column, left: RowScopes, right: RowScopes) -> str:
    sides = _sides_of(node, left, right)
    if sides == "both" and not node.table:
        refuse("ambiguous", f"`{node.name}`", "both tables have a column with this name.", f"Write table.{node.name}.")
    return "right" if sides in ("right", "both") else "left"


def _sides_of(node: exp.Column, left: RowScopes, right: RowScopes) -> str:
    """The side that has such a table, or such a column if none is named: left, right, both, or none if it is empty."""
    table, name = node.table.lower(), node.name.lower()
    first, second = (
        any(table in part.names if table else name in part.columns for part in scopes.parts) for scopes in (left, right)
    )
    return "both" if first and second else "left" if first else "right" if second else ""
