"""Reading SQL: one SELECT over one private table, node type by node type.

sqlglot only parses. What is not in the tables below is refused, and so is any modifier that a node carries and that is
not listed for it; the analyst's text never reaches an engine.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from lapwing.query import operators as op
from lapwing.query.aggregates import COUNT_ROWS, COUNT_UNITS, COUNT_VALUES, FUNCTIONS, SUM
from lapwing.query.catalog import Catalog, Table
from lapwing.query.expression import Column, Expression, Literal, Operator, Slot, walk
from lapwing.query.question import Aggregate, Order, Output, Question, normalised
from lapwing.query.types import Type
from lapwing.query.verdict import Refusal, Stop, nearest, refuse

MOST_CHARACTERS = 50_000
MOST_PARTS = 5_000

BINARY: dict[type[exp.Expression], Operator] = {
    exp.EQ: op.EQUAL,
    exp.NEQ: op.UNEQUAL,
    exp.LT: op.LESS,
    exp.LTE: op.AT_MOST,
    exp.GT: op.GREATER,
    exp.GTE: op.AT_LEAST,
    exp.And: op.AND,
    exp.Or: op.OR,
    exp.Add: op.ADD,
    exp.Sub: op.SUBTRACT,
    exp.Mul: op.MULTIPLY,
    exp.Div: op.DIVIDE,
}

MODIFIERS: dict[type[exp.Expression], frozenset[str]] = {
    exp.Select: frozenset({"expressions", "from_", "where", "group", "order", "limit"}),
    exp.Column: frozenset({"this", "table"}),
    exp.Count: frozenset({"this", "big_int"}),
    exp.Div: frozenset({"this", "expression", "typed", "safe"}),
    exp.Ordered: frozenset({"this", "desc"}),
    exp.Between: frozenset({"this", "low", "high"}),
    exp.In: frozenset({"this", "expressions"}),
    exp.Literal: frozenset({"this", "is_string"}),
    exp.Cast: frozenset({"this", "to"}),
    exp.Table: frozenset({"this", "alias"}),
    exp.Group: frozenset({"expressions"}),
    exp.Order: frozenset({"expressions"}),
    exp.Limit: frozenset({"expression"}),
    exp.TableAlias: frozenset({"this"}),
    exp.Distinct: frozenset({"expressions"}),
}
"""What a node may carry; other nodes may carry `this` and `expression`."""

INSTEAD = {
    "with_": ("WITH", "sub-queries are not read yet.", "Write one SELECT over one table."),
    "joins": ("JOIN", "joins are not read yet.", "Ask about one table."),
    "having": ("HAVING", "it is not read yet.", "Filter the released answer, which costs nothing."),
    "distinct": ("SELECT DISTINCT", "the rows themselves are private.", "Count with GROUP BY over a declared key."),
    "qualify": ("QUALIFY", "window functions mix rows of many units.", "Use GROUP BY."),
    "sample": ("SAMPLE", "a sample of rows has no stated price.", "Leave it out; noise is added for you."),
    "over": ("OVER", "window functions mix rows of many units.", "Use GROUP BY."),
    "offset": ("OFFSET", "it is not read.", "Use ORDER BY and LIMIT, or cut the released answer."),
}


def read_sql(text: str, catalog: Catalog) -> Question | Refusal:
    """The question that a SELECT asks, or why it is refused. Free, and without a look at the data."""
    try:
        return normalised(_Reading(_select(text), catalog).question())
    except Stop as stop:
        return stop.refusal
    except RecursionError:
        return Refusal("the question", "it is nested too deeply.", "Write it with fewer levels.")


def _select(text: str) -> exp.Select:
    if any("\ud800" <= character <= "\udfff" for character in text[:MOST_CHARACTERS]):
        refuse("the question", "it holds characters that are no text.", "Write it in plain Unicode.")
    if len(text) > MOST_CHARACTERS:
        refuse("the question", f"it is longer than {MOST_CHARACTERS:,} characters.", "Write a shorter one.")
    if "\0" in text:
        refuse("the question", "it holds a character that no engine reads.", "Leave the character 0 out.")
    try:
        statements = sqlglot.parse(text, read="duckdb")
    except RecursionError:
        raise
    except (SqlglotError, ValueError, TypeError, AttributeError, LookupError, RuntimeError) as error:
        where = getattr(error, "errors", None) or [{}]
        line, column = where[0].get("line"), where[0].get("col")
        at = f" near line {line}, column {column}" if line else ""
        refuse("the question", f"it is not readable as SQL{at}.", "Write one SELECT statement.")
    written = [part for part in statements if part is not None and not isinstance(part, exp.Semicolon)]
    if len(written) != 1:
        many = f"it holds {len(written)} statements." if written else "it is empty."
        refuse("the question", many, "Write exactly one SELECT statement.")
    statement = written[0]
    if not isinstance(statement, exp.Select):
        refuse(_part(statement), "only questions are answered.", "Write one SELECT statement.")
    if sum(1 for _ in statement.walk()) > MOST_PARTS:
        refuse("the question", f"it has more than {MOST_PARTS:,} parts.", "Write a shorter one.")
    return statement


class _Reading:
    """One SELECT being read. Aggregates are collected as they are met."""

    def __init__(self, select: exp.Select, catalog: Catalog) -> None:
        _check_modifiers(select)
        self.select = select
        self.table, self.alias = _table(select, catalog)
        self.aggregates: list[Aggregate] = []
        self.keys: tuple[Column, ...] = ()

    def question(self) -> Question:
        where = self.select.args.get("where")
        condition = None if where is None else self._condition(where.this)
        self.keys = self._group()
        outputs = self._outputs()
        order = self._order(outputs)
        if not self.aggregates:
            refuse("SELECT", "the rows themselves are private.", "Ask for COUNT(*) or SUM(column), by declared keys.")
        return Question(self.table, condition, self.keys, tuple(self.aggregates), outputs, order, _limit(self.select))

    def _condition(self, node: exp.Expression) -> Expression:
        condition = self._read(node, self._below)
        if condition.type not in (Type.BOOLEAN, None):
            refuse(f"WHERE {_part(node)}", "it is not a condition.", "Write a comparison, such as `age > 40`.")
        return condition

    def _group(self) -> tuple[Column, ...]:
        group = self.select.args.get("group")
        if group is None:
            return ()
        _check_modifiers(group)
        keys = []
        for node in group.expressions:
            key = self._read(node, self._below) if isinstance(node, exp.Column) else None
            if not isinstance(key, Column):
                refuse(f"GROUP BY {_part(node)}", "only columns with declared values are keys.", "Name such a column.")
            if self.table.unit is not None and key.name == self.table.unit:
                refuse(
                    f"GROUP BY {_part(node)}",
                    "it is the protected unit: every group would be one person.",
                    f"Ask for COUNT(DISTINCT {key.name}).",
                )
            keys.append(key)
        return tuple(dict.fromkeys(keys))

    def _outputs(self) -> tuple[Output, ...]:
        outputs: dict[str, Output] = {}
        for node in self.select.expressions:
            inner = node.this if isinstance(node, exp.Alias) else node
            if isinstance(inner, exp.Star):
                refuse("SELECT *", "the rows themselves are private.", "Ask for COUNT(*) or SUM(column).")
            name = node.alias if isinstance(node, exp.Alias) else _default_name(inner)
            if name.lower() in outputs:
                refuse(f"`{name}`", "two columns of the answer have this name.", "Give one of them another: AS name.")
            outputs[name.lower()] = Output(name, self._read(inner, self._above))
        return tuple(outputs.values())

    def _order(self, outputs: tuple[Output, ...]) -> tuple[Order, ...]:
        order = self.select.args.get("order")
        if order is None:
            return ()
        _check_modifiers(order)
        named = {output.name.lower(): output.expression for output in outputs}
        read = []
        for node in order.expressions:
            _check_modifiers(node)
            by = node.this
            if isinstance(by, exp.Column) and not by.table and by.name.lower() in named:
                expression = named[by.name.lower()]
            elif isinstance(by, exp.Literal) and _is_whole(by):
                expression = _nth(outputs, int(by.name))
            else:
                expression = self._read(by, self._above)
            read.append(Order(expression, bool(node.args.get("desc"))))
        return tuple(read)

    def _read(self, node: exp.Expression, leaf: Callable[[exp.Expression], Expression]) -> Expression:
        """One node and what stands below it; `leaf` says what columns and aggregates mean here."""
        _check_modifiers(node)
        call = partial(op.call, part=lambda: _part(node))
        match node:
            case exp.Paren():
                return self._read(node.this, leaf)
            case exp.Column() | exp.AggFunc():
                return leaf(node)
            case exp.Literal() | exp.Boolean() | exp.Null() | exp.Cast():
                return _literal(node)
            case exp.Neg(this=exp.Literal()):
                return _negative(_literal(node.this))
            case exp.Neg():
                return call(op.SUBTRACT, Literal(0, Type.INTEGER), self._read(node.this, leaf))
            case exp.Not():
                return call(op.NOT, self._read(node.this, leaf))
            case exp.Is(expression=exp.Null()):
                return call(op.IS_NULL, self._read(node.this, leaf))
            case exp.Between():
                value = self._read(node.this, leaf)
                low, high = (self._read(node.args[side], leaf) for side in ("low", "high"))
                above = call(op.AT_LEAST, value, low)
                return call(op.AND, above, call(op.AT_MOST, value, high))
            case exp.In():
                return call(op.IN, self._read(node.this, leaf), *_constants(self, node, leaf))
            case exp.Binary() if type(node) in BINARY:
                left, right = self._read(node.this, leaf), self._read(node.expression, leaf)
                return call(BINARY[type(node)], left, right)
            case _:
                refuse(_part(node), "this is not one of the allowed operations.", _ALLOWED)

    def _below(self, node: exp.Expression) -> Expression:
        """Below the aggregation a name is a column of the table, and there are no aggregates."""
        if not isinstance(node, exp.Column):
            refuse(
                _part(node), "an aggregate cannot stand inside WHERE, GROUP BY or another aggregate.", "Move it out."
            )
        if node.table and node.table.lower() not in (self.table.name.lower(), self.alias.lower()):
            refuse(_part(node), "the question does not read that table.", nearest(node.table, [self.alias]))
        known = self.table.field(node.name)
        return Column(known.name, known.type, known.bounds)

    def _above(self, node: exp.Expression) -> Expression:
        """Above it a name is a key, and an aggregate is a number that will be released."""
        if isinstance(node, exp.Column):
            column = self._below(node)
            if column not in self.keys:
                refuse(
                    f"`{node.name}`",
                    "outside an aggregate only the keys of GROUP BY can be shown.",
                    f"Add it to GROUP BY if its values are declared, or aggregate it: SUM({node.name}).",
                )
            return column
        aggregate = self._aggregate(node)
        if aggregate not in self.aggregates:
            self.aggregates.append(aggregate)
        return Slot(self.aggregates.index(aggregate), FUNCTIONS[aggregate.name].type)

    def _aggregate(self, node: exp.Expression) -> Aggregate:
        match node:
            case exp.Count(this=exp.Star() | exp.Literal()):
                return Aggregate(COUNT_ROWS.name)
            case exp.Count(this=exp.Distinct(expressions=[inner])) if isinstance(_bare(inner), exp.Column):
                _check_modifiers(node.this)
                column = _bare(inner)
                if self.table.unit is not None and self._below(column) == self._unit():
                    return Aggregate(COUNT_UNITS.name)
                refuse(_part(node), "distinct values are counted for the protected unit only.", self._count_units())
            case exp.Count(this=exp.Distinct()) | exp.Sum(this=exp.Distinct()):
                refuse(_part(node), "DISTINCT is read for one column, the protected unit.", self._count_units())
            case exp.Count():
                return Aggregate(COUNT_VALUES.name, self._read(node.this, self._below))
            case exp.Sum():
                argument = self._read(node.this, self._below)
                if argument.type is None or not argument.type.is_number:
                    refuse(_part(node), "only numbers are summed.", "Name a column of numbers.")
                return Aggregate(SUM.name, argument)
            case _:
                refuse(_part(node), "this aggregate is not offered yet.", "Use COUNT(*), COUNT(x) or SUM(x).")

    def _unit(self) -> Column:
        unit = self.table.field(self.table.unit or "")
        return Column(unit.name, unit.type)

    def _count_units(self) -> str:
        return "Use COUNT(*)." if self.table.unit is None else f"Use COUNT(DISTINCT {self.table.unit})."


_ALLOWED = "Allowed here: comparisons, AND, OR, NOT, BETWEEN, IN, IS NULL and arithmetic."


def _check_modifiers(node: exp.Expression) -> None:
    allowed = MODIFIERS.get(type(node), frozenset({"this", "expression", "expressions"}))
    for name, value in node.args.items():
        if value and name not in allowed:
            unknown = (_part(node), f"its part `{name.strip('_')}` is not read.", "Leave it out.")
            refuse(*INSTEAD.get(name, unknown))


def _table(select: exp.Select, catalog: Catalog) -> tuple[Table, str]:
    source = select.args.get("from_")
    if source is None:
        refuse("SELECT", "it names no table.", nearest("", (table.name for table in catalog.tables)))
    node = source.this
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        refuse(f"FROM {_part(node)}", "only a table of the catalog can be asked about.", "Write FROM and its name.")
    _check_modifiers(node)
    alias = node.args.get("alias")
    if alias is not None:
        _check_modifiers(alias)
        if not isinstance(alias.this, exp.Identifier):
            refuse(f"FROM {_part(node)}", "the name after the table is not readable.", "Write FROM and a name.")
    return catalog.table(node.name), node.alias or node.name


def _limit(select: exp.Select) -> int | None:
    limit = select.args.get("limit")
    if limit is None:
        return None
    value = limit.args.get("expression")
    if not isinstance(limit, exp.Limit) or not isinstance(value, exp.Literal) or not _is_whole(value):
        refuse("LIMIT", "it takes a whole number.", "Write for example LIMIT 10.")
    _check_modifiers(limit)
    return int(value.name)


def _is_whole(literal: exp.Literal) -> bool:
    """Whether it is written with at most 18 of the digits 0 to 9."""
    return not literal.is_string and _WHOLE.fullmatch(literal.name) is not None


_WHOLE = re.compile("[0-9]{1,18}")


def _bare(node: exp.Expression) -> exp.Expression:
    """The node without parentheses around it."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _nth(outputs: tuple[Output, ...], place: int) -> Expression:
    if not 1 <= place <= len(outputs):
        refuse(f"ORDER BY {place}", f"the answer has {len(outputs)} columns.", "Name the column.")
    return outputs[place - 1].expression


def _constants(reading: _Reading, node: exp.In, leaf: Callable[[exp.Expression], Expression]) -> tuple[Expression, ...]:
    constants = tuple(reading._read(value, leaf) for value in node.expressions)
    if not constants or not all(isinstance(part, Literal) for value in constants for part in walk(value)):
        refuse(_part(node), "IN takes a list of constants.", "Write IN ('a', 'b').")
    return constants


def _literal(node: exp.Expression) -> Literal:
    match node:
        case exp.Null():
            return Literal(None, None)
        case exp.Boolean():
            return Literal(bool(node.this), Type.BOOLEAN)
        case exp.Literal(is_string=True):
            return Literal(node.name, Type.TEXT)
        case exp.Literal():
            return _number(node.name)
        case exp.Cast(this=exp.Literal(is_string=True)) if node.to.this in _DATES:
            return op.dated(Literal(node.this.name, Type.TEXT), _DATES[node.to.this], part=lambda: _part(node))
        case _:
            refuse(_part(node), "CAST is not read yet.", "Compare with a constant of the column's own type.")


_DATES = {
    exp.DataType.Type.DATE: Type.DATE,
    exp.DataType.Type.TIMESTAMP: Type.TIMESTAMP,
    exp.DataType.Type.TIMESTAMPNTZ: Type.TIMESTAMP,
}


def _number(text: str) -> Literal:
    if _WHOLE.fullmatch(text):
        return Literal(int(text), Type.INTEGER)
    try:
        value = float(text)
    except ValueError:
        value = math.inf
    if not math.isfinite(value):
        refuse(f"`{text[:20]}`", "it is not a number of ordinary size.", "Write a smaller one.")
    return Literal(Fraction(repr(value)), Type.REAL)


def _negative(literal: Literal) -> Literal:
    match literal.value:
        case bool() | str() | None:
            refuse("`-`", "it takes a number.", "Write for example -5.")
        case int() | Fraction() as value:
            return Literal(-value, literal.type)
        case _:
            refuse("`-`", "it takes a number.", "Write for example -5.")


def _default_name(node: exp.Expression) -> str:
    if isinstance(node, exp.Column):
        return node.name
    return node.key if isinstance(node, exp.AggFunc) else node.sql(dialect="duckdb").lower()[:60]


def _part(node: exp.Expr) -> str:
    """The analyst's own words, cut short."""
    text = node.sql(dialect="duckdb")
    return f"`{text if len(text) <= 60 else text[:57] + '...'}`"
