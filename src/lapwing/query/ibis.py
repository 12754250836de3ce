"""Reading Ibis expressions over unbound tables: the same question as from SQL, so the same plan.

Ibis is imported only by whoever passes an expression; here its nodes are known by the name of their class.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from fractions import Fraction
from functools import partial
from typing import Any

from lapwing.errors import LapwingError
from lapwing.query import operators as op
from lapwing.query.aggregates import COUNT_ROWS, COUNT_UNITS, COUNT_VALUES, FUNCTIONS, SUM
from lapwing.query.catalog import Catalog, Table
from lapwing.query.expression import Column, Expression, Literal, Operator, Slot
from lapwing.query.question import Aggregate, Order, Output, Question, normalised
from lapwing.query.types import Type, Value, type_of
from lapwing.query.verdict import Refusal, Stop, refuse
from lapwing.rational import exact

BINARY: dict[str, Operator] = {
    "Equals": op.EQUAL,
    "NotEquals": op.UNEQUAL,
    "Less": op.LESS,
    "LessEqual": op.AT_MOST,
    "Greater": op.GREATER,
    "GreaterEqual": op.AT_LEAST,
    "And": op.AND,
    "Or": op.OR,
    "Add": op.ADD,
    "Subtract": op.SUBTRACT,
    "Multiply": op.MULTIPLY,
    "Divide": op.DIVIDE,
}

SCHEMA = {
    Type.INTEGER: "int64",
    Type.REAL: "float64",
    Type.TEXT: "string",
    Type.BOOLEAN: "boolean",
    Type.DATE: "date",
    Type.TIMESTAMP: "timestamp",
}

Leaf = Callable[[Any], Expression]


def unbound(table: Table) -> Any:
    """The table for writing questions: its schema only, it cannot execute."""
    import ibis

    return ibis.table({field.name: SCHEMA[field.type] for field in table.fields}, name=table.name)


def read_ibis(expression: Any, catalog: Catalog) -> Question | Refusal:
    """The question that an expression asks, or why it is refused. Free, and without a look at the data."""
    if not callable(getattr(expression, "op", None)):
        return Refusal("the question", "it is not an Ibis expression.", "Build one from curator.table(name).")
    try:
        return normalised(_Reading(catalog).question(expression.op()))
    except Stop as stop:
        return stop.refusal
    except RecursionError:
        return Refusal("the question", "it is nested too deeply.", "Write it with fewer levels.")


class _Reading:
    """One expression being read, from the outside in: limit, sort, columns, aggregation, filters, table."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.aggregates: list[Aggregate] = []
        self.keys: tuple[Column, ...] = ()

    def question(self, node: Any) -> Question:
        limit: int | None = None
        order: tuple[Any, ...] = ()
        if _kind(node) == "Limit":
            limit, node = _limit(node), node.parent
        if _kind(node) == "Sort":
            order, node = node.keys, node.parent
        layers = []
        while _kind(node) == "Project":
            layers.append(node)
            node = node.parent
        outputs, where = self._aggregation(node)
        for layer in reversed(layers):
            outputs = {name: self._read(value, partial(_named, outputs)) for name, value in layer.values.items()}
        sorts = tuple(Order(self._read(key.arg, partial(_named, outputs)), not key.ascending) for key in order)
        columns = tuple(Output(name, value) for name, value in outputs.items())
        return Question(self.table, where, self.keys, tuple(self.aggregates), columns, sorts, limit)

    def _aggregation(self, node: Any) -> tuple[dict[str, Expression], Expression | None]:
        if _kind(node) != "Aggregate":
            return self._scalar(node)
        where = self._relation(node.parent)
        outputs: dict[str, Expression] = {name: self._key(value) for name, value in node.groups.items()}
        self.keys = tuple(dict.fromkeys(key for key in outputs.values() if isinstance(key, Column)))
        return outputs | {name: self._read(value, self._above) for name, value in node.metrics.items()}, where

    def _scalar(self, node: Any) -> tuple[dict[str, Expression], Expression | None]:
        """One number, such as `table.count()`, with arithmetic above it."""
        relations = getattr(node, "relations", None) or ()
        if len(relations) != 1:
            refuse(f"`{_kind(node)}`", "the rows themselves are private.", "Aggregate: table.count(), column.sum().")
        where = self._relation(next(iter(relations)))
        return {_scalar_name(node): self._read(node, self._above)}, where

    def _relation(self, node: Any) -> Expression | None:
        """The filters on the way down to the table, joined by AND."""
        conditions: list[Any] = []
        while _kind(node) == "Filter":
            conditions = [*node.predicates, *conditions]
            node = node.parent
        if _kind(node) != "UnboundTable":
            refuse(f"`{_kind(node)}`", "below the aggregation only filters are read.", "Use filter, then aggregate.")
        self.table = self.catalog.table(node.name)
        read = [self._read(condition, self._below) for condition in conditions]
        where = None
        for condition in read:
            where = condition if where is None else op.call(op.AND, where, condition, part=lambda: "filter")
        return where

    def _key(self, node: Any) -> Column:
        key = self._read(node, self._below)
        if not isinstance(key, Column):
            refuse("group_by", "only columns with declared values are keys.", "Name such a column.")
        if key.name == self.table.unit:
            refuse("group_by", "it is the protected unit: every group would be one person.", "Use nunique().")
        return key

    def _read(self, node: Any, leaf: Leaf) -> Expression:
        call = partial(op.call, part=lambda: f"`{_kind(node)}`")
        read = partial(self._read, leaf=leaf)
        match _kind(node):
            case "Alias":
                return read(node.arg)
            case "Literal":
                return _literal(node.value)
            case "Negate":
                return call(op.SUBTRACT, Literal(0, Type.INTEGER), read(node.arg))
            case "Not":
                return call(op.NOT, read(node.arg))
            case "IsNull":
                return call(op.IS_NULL, read(node.arg))
            case "NotNull":
                return call(op.NOT, call(op.IS_NULL, read(node.arg)))
            case "Between":
                value = read(node.arg)
                above = call(op.AT_LEAST, value, read(node.lower_bound))
                return call(op.AND, above, call(op.AT_MOST, value, read(node.upper_bound)))
            case "InValues":
                options = tuple(read(option) for option in node.options)
                if not options or not all(isinstance(option, Literal) for option in options):
                    refuse("isin", "it takes a list of constants.", "Write column.isin(['a', 'b']).")
                return call(op.IN, read(node.value), *options)
            case kind if kind in BINARY:
                return call(BINARY[kind], read(node.left), read(node.right))
            case "Field" | "CountStar" | "Count" | "CountDistinct" | "Sum":
                return leaf(node)
            case kind:
                refuse(f"`{kind}`", "this is not one of the allowed operations.", _ALLOWED)

    def _below(self, node: Any) -> Expression:
        if _kind(node) != "Field":
            refuse(f"`{_kind(node)}`", "an aggregate cannot stand inside a filter or another one.", "Move it out.")
        known = self.table.field(node.name)
        return Column(known.name, known.type, known.bounds)

    def _above(self, node: Any) -> Expression:
        if _kind(node) == "Field":
            column = self._below(node)
            if column not in self.keys:
                refuse(f"`{node.name}`", "outside an aggregate only keys can be shown.", "Group by it or aggregate it.")
            return column
        if getattr(node, "where", None) is not None:
            refuse(f"`{_kind(node)}`", "a condition inside an aggregate is not read yet.", "Use filter before it.")
        aggregate = self._aggregate(node)
        if aggregate not in self.aggregates:
            self.aggregates.append(aggregate)
        return Slot(self.aggregates.index(aggregate), FUNCTIONS[aggregate.name].type)

    def _aggregate(self, node: Any) -> Aggregate:
        if _kind(node) == "CountStar":
            return Aggregate(COUNT_ROWS.name)
        argument = self._read(node.arg, self._below)
        match _kind(node):
            case "CountDistinct":
                if isinstance(argument, Column) and argument.name == self.table.unit:
                    return Aggregate(COUNT_UNITS.name)
                refuse("nunique", "distinct values are counted for the protected unit only.", "Use count().")
            case "Sum" if argument.type is not None and argument.type.is_number:
                return Aggregate(SUM.name, argument)
            case "Sum":
                refuse("sum", "only numbers are summed.", "Name a column of numbers.")
            case _:
                return Aggregate(COUNT_VALUES.name, argument)


_ALLOWED = "Allowed here: comparisons, &, |, ~, between, isin, isnull and arithmetic."


def _kind(node: Any) -> str:
    return type(node).__name__


def _scalar_name(node: Any) -> str:
    if _kind(node) == "Alias":
        return str(node.name)
    return {"CountStar": "count", "Count": "count", "CountDistinct": "count", "Sum": "sum"}.get(_kind(node), "value")


def _named(outputs: dict[str, Expression], node: Any) -> Expression:
    if _kind(node) != "Field":
        refuse(f"`{_kind(node)}`", "an aggregate of released numbers is not read.", "Compute it from the answer.")
    return outputs[node.name]


def _limit(node: Any) -> int:
    if not isinstance(node.n, int) or node.offset:
        refuse("limit", "it takes a whole number and no offset.", "Write for example limit(10).")
    return node.n


def _literal(value: Any) -> Literal:
    known: Value
    match value:
        case datetime() if value.tzinfo is not None:
            refuse("a constant", "times are read without a zone.", "Leave the zone out.")
        case None | bool() | str() | date() | datetime():
            known = value
        case int() if abs(value) < 10**18:
            known = value
        case _:
            known = _real(value)
    return Literal(known, type_of(known))


def _real(value: Any) -> Fraction:
    try:
        return exact(float(value) if isinstance(value, int) else value, "the constant")
    except (LapwingError, OverflowError):
        refuse("a constant", "it is not a number of ordinary size, a text, a truth value or a date.", "Pass one.")
