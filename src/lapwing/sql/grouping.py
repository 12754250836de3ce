"""An aggregation being read, from SQL or Ibis: keys, aggregates, and expressions above them."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from lapwing.expressions.aggregate import Aggregate
from lapwing.expressions.derived import EXTREMES
from lapwing.expressions.expression import Call, Column, Expression, Literal, Slot, walk
from lapwing.expressions.operators.base import PartText, call
from lapwing.expressions.operators.casts import TRUTH_TO_INTEGER
from lapwing.expressions.operators.logic import CASE
from lapwing.expressions.phrases import name_text, types_of, units_text
from lapwing.expressions.refusal import refuse
from lapwing.expressions.table import Table
from lapwing.expressions.types import Type
from lapwing.plan.aggregates import FUNCTIONS
from lapwing.plan.moments import MEAN
from lapwing.plan.quantiles import QUANTILE
from lapwing.plan.question import Output, lifted
from lapwing.plan.total import COUNT_DISTINCT, COUNT_ROWS, COUNT_UNITS, COUNT_VALUES, SUM
from lapwing.sql.relation import Aggregation, Rows, by_name, check_size, size_of

NULL = Literal(None, None)
ONE = Literal(1, Type.INTEGER)


class Grouping:
    """Collects the aggregates of one SELECT in order; equal ones are paid once."""

    def __init__(self, rows: Rows, *, inside: bool = False) -> None:
        self.rows = rows
        self.inside = inside
        """True inside a subquery, where the unit may be a key (derive.py)."""
        self.keys: dict[Expression, int] = {}
        """Keys and aggregates, each with its place."""
        self.aggregates: dict[Aggregate, int] = {}
        self.per_unit = False
        """True if the unit is one of the keys, so that the aggregates are exact and are not released."""
        self._size = 0

    def add_key(self, key: Expression, what: PartText) -> None:
        """Adds a GROUP BY key."""
        self._grow(key)
        if self.inside and isinstance(key, Column) and key.name == self.rows.table.unit:
            self.per_unit = True
        else:
            check_key(key, self.rows.table, what)
        self.keys.setdefault(key, len(self.keys))

    def slot(self, aggregate: Aggregate) -> Slot:
        """The released number of an aggregate."""
        self._grow(*aggregate.arguments)
        place = self.aggregates.setdefault(aggregate, len(self.aggregates))
        return Slot(place, slot_type(aggregate, per_unit=self.per_unit))

    def above(self, expression: Expression) -> Expression:
        """An expression above the aggregation: its columns occur only inside keys."""
        self._grow(expression)
        shown = lifted(expression, self.keys)
        for part in walk(shown):
            if isinstance(part, Column):
                refuse(
                    "not-aggregated",
                    f"`{part.name}`",
                    "outside an aggregate, only GROUP BY keys can be selected.",
                    f"Add it to GROUP BY, or aggregate it: {_aggregated(part)}.",
                )
        return shown

    def _grow(self, *expressions: Expression) -> None:
        """Limits the total size, so that every later step is fast."""
        self._size += size_of(expressions)
        check_size(self._size)

    def groups(self, outputs: Iterable[Output]) -> Aggregation:
        return Aggregation(self.rows, tuple(self.keys), tuple(self.aggregates), by_name(outputs))


def slot_type(aggregate: Aggregate, *, per_unit: bool) -> Type:
    """The type of an aggregate: the least and the largest value of one unit are values of their argument."""
    if per_unit and aggregate.name == QUANTILE.name and aggregate.parameters in EXTREMES:
        return aggregate.arguments[0].type or Type.REAL
    return FUNCTIONS[aggregate.name].type


def _aggregated(column: Column) -> str:
    """An aggregate that takes the column."""
    fits = column.type.is_number or column.type is Type.BOOLEAN
    return f"AVG({name_text(column.name)})" if fits else f"COUNT(DISTINCT {name_text(column.name)})"


def _of_numbers(argument: Expression) -> str:
    """What to write for an aggregate of something that is no number."""
    if argument.type is Type.BOOLEAN:
        return "Write CAST(... AS INTEGER), which is 1 if true and 0 if false."
    if argument.type in (Type.DATE, Type.TIMESTAMP):
        return "Use a number of it, such as YEAR(d)."
    return "Use a numeric column, or COUNT(DISTINCT ...) for how many there are."


def check_key(key: Expression, table: Table, what: PartText) -> None:
    """Refuses keys that identify units, and constants."""
    parts = list(walk(key))
    if table.unit is not None and any(isinstance(part, Column) and part.name == table.unit for part in parts):
        refuse(
            "unit-grouping",
            what(),
            f"it uses the protected unit `{table.unit}`, so every group would be one person.",
            f"Use {units_text(table.unit)}.",
        )
    if not any(isinstance(part, Column) for part in parts):
        refuse(
            "constant-key",
            what(),
            "cannot group by a constant.",
            "Use a column or an expression over columns, or leave out GROUP BY.",
        )


def count_rows(condition: Expression | None, part: PartText) -> Aggregate:
    """COUNT(*), of the rows that meet the condition, if any."""
    if condition is None:
        return Aggregate(COUNT_ROWS.name)
    return Aggregate(COUNT_VALUES.name, (where(ONE, condition, part),))


def count_distinct(table: Table, counted: Expression, condition: Expression | None, part: PartText) -> Aggregate:
    """COUNT(DISTINCT x), over the rows that meet the condition, if any; the unit has its own aggregate."""
    match counted:
        case Column(name=name) if name == table.unit:
            arguments = () if condition is None else (where(ONE, condition, part),)
            return Aggregate(COUNT_UNITS.name, arguments)
        case Call(operator=operator, arguments=(inside, Column(name=name), Literal(value=None))) if (
            operator == CASE and name == table.unit and condition is None
        ):
            return Aggregate(COUNT_UNITS.name, (where(ONE, inside, part),))
    if any(isinstance(inner, Column) and inner.name == table.unit for inner in walk(counted)):
        refuse("unit-as-value", part(), "it counts a function of the protected unit.", f"Use {units_text(table.unit)}.")
    return of_values(COUNT_DISTINCT.name, counted, condition, part)


def of_values(name: str, argument: Expression, condition: Expression | None, part: PartText) -> Aggregate:
    """An aggregate of values, over the rows that meet the condition, if any. A condition is 1 if true, 0 if false."""
    counts = name in (COUNT_VALUES.name, COUNT_DISTINCT.name)
    if name in (MEAN.name, SUM.name) and argument.type is Type.BOOLEAN:
        argument = call(TRUTH_TO_INTEGER, argument, part=part)
    if not counts and (argument.type is None or not argument.type.is_number):
        refuse("wrong-type", part(), f"{types_of([argument])[:-1]}, and it only takes numbers.", _of_numbers(argument))
    return Aggregate(name, (argument if condition is None else where(argument, condition, part),))


def of_pair(name: str, y: Expression, x: Expression, condition: Expression | None, part: PartText) -> Aggregate:
    """An aggregate of two numeric columns; y first, as in SQL."""
    (first,), (second,) = (of_values(name, value, None, part).arguments for value in (y, x))
    return Aggregate(name, (first if condition is None else where(first, condition, part), second))


def quantile(
    argument: Expression, level: Expression, condition: Expression | None, part: PartText, *, exact: bool = False
) -> Aggregate:
    """The value below which this fraction of the rows lies. Where it is `exact`, of one unit, dates have one too."""
    dates = argument.type in (Type.DATE, Type.TIMESTAMP)
    if dates and not exact:
        refuse(
            "wrong-type",
            part(),
            "it only takes numbers between bounds, and a date is none.",
            "Use a number of days: MIN(CLIP(DATE_DIFF('day', DATE '2020-01-01', d), 0, 365)).",
        )
    if dates:
        value = argument if condition is None else where(argument, condition, part)
    else:
        (value,) = of_values(QUANTILE.name, argument, condition, part).arguments
    match level:
        case Literal(value=int() | Fraction() as share) if not isinstance(share, bool) and 0 <= share <= 1:
            return Aggregate(QUANTILE.name, (value,), (Fraction(share),))
        case _:
            refuse(
                "wrong-argument",
                part(),
                "its level must be a constant from 0 to 1.",
                "For example: QUANTILE_CONT(x, 0.9).",
            )


def where(value: Expression, condition: Expression, part: PartText) -> Expression:
    """The value where the condition holds, else NULL."""
    if condition.type not in (Type.BOOLEAN, None):
        refuse("wrong-type", part(), "its filter is not a condition.", "Use a comparison, such as `age > 40`.")
    return call(CASE, condition, value, NULL, part=part)
