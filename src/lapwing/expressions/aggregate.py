"""Aggregates as a question names them, before anything is decided about how they are measured."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction

from lapwing.expressions.expression import Call, Column, Expression, Key, Literal, Slot
from lapwing.expressions.phrases import expression_text, shorten
from lapwing.expressions.types import text_of

_QUANTILES = {Fraction(0): "MIN", Fraction(1, 2): "MEDIAN", Fraction(1): "MAX"}


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate over the rows: the name of its entry in aggregates.py, its arguments and its constant parameters. A
    row whose argument is NULL is skipped, so a FILTER becomes an argument that is NULL elsewhere."""

    name: str
    arguments: tuple[Expression, ...] = ()
    parameters: tuple[Fraction, ...] = ()

    def canonical(self) -> str:
        return f"{self.name}({','.join([*map(canonical_text, self.arguments), *map(str, self.parameters)])})"

    @property
    def function(self) -> str:
        match self.name:
            case "count_rows" | "count_units" | "count_distinct":
                return "COUNT"
            case "mean":
                return "AVG"
            case "quantile":
                return _QUANTILES.get(self.parameters[0], "QUANTILE_CONT")
            case name:
                return name.upper()

    def words(self) -> str:
        arguments = [shorten(expression_text(argument)) for argument in self.arguments]
        inner = ", ".join([*arguments, *map(text_of, self.parameters)])
        match self.name, self.arguments:
            case "count_rows", _:
                return "COUNT(*)"
            case "count_units", ():
                return "COUNT(DISTINCT unit)"
            case "count_units", _:
                return f"COUNT(DISTINCT unit) where {inner}"
            case "count_distinct", _:
                return f"COUNT(DISTINCT {inner})"
            case "quantile", _ if self.parameters[0] in _QUANTILES:
                return f"{self.function}({', '.join(arguments)})"
            case _:
                return f"{self.function}({inner})"


def canonical_text(expression: Expression) -> str:
    """An unambiguous text for an expression."""
    match expression:
        case Column(name=name):
            return json.dumps(name)  # escapes every quote inside
        case Literal(value=value, type=kind):
            return f"{'null' if kind is None else kind.value}:{value!r}"
        case Key(index=index):
            return f"@{index}"
        case Slot(index=index):
            return f"#{index}"
        case Call(operator=operator, arguments=arguments):
            return f"{operator.name}({','.join(map(canonical_text, arguments))})"
