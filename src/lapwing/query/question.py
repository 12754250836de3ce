"""A question after reading, from SQL or from Ibis alike: what to count, where, by which keys, and what to do above.

Everything below the aggregation is row-wise on one private table. Everything above works on released numbers only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from lapwing.query.catalog import Table
from lapwing.query.expression import Call, Column, Expression, Literal, Slot
from lapwing.query.types import shown


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate over the rows: the name of an entry in aggregates.py, and its argument if it takes one."""

    name: str
    argument: Expression | None = None

    def canonical(self) -> str:
        return f"{self.name}({'' if self.argument is None else _text(self.argument)})"

    def words(self) -> str:
        """As an analyst writes it."""
        form = {"count_rows": "COUNT(*)", "count_units": "COUNT(DISTINCT unit)", "count": "COUNT({})"}.get(self.name)
        return (form or f"{self.name.upper()}({{}})").format("" if self.argument is None else _words(self.argument))


@dataclass(frozen=True, slots=True)
class Output:
    """One column of the answer: an expression over keys (`Column`) and aggregates (`Slot`)."""

    name: str
    expression: Expression


@dataclass(frozen=True, slots=True)
class Order:
    """Sort by this output expression."""

    expression: Expression
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """What an analyst asked, in one form whatever the language was."""

    table: Table
    where: Expression | None
    keys: tuple[Column, ...]
    aggregates: tuple[Aggregate, ...]
    outputs: tuple[Output, ...]
    order: tuple[Order, ...] = ()
    limit: int | None = None

    def canonical(self) -> str:
        """The part that is paid for, as text: two questions that read the same cells have the same text.

        Output names, their order, sorting and arithmetic above are post-processing and do not count.
        """
        where = "" if self.where is None else _text(self.where)
        keys = ",".join(sorted(_text(key) for key in self.keys))
        aggregates = ",".join(sorted(aggregate.canonical() for aggregate in self.aggregates))
        return f"{self.table.name}|{where}|{keys}|{aggregates}"


def normalised(question: Question) -> Question:
    """The same question with its keys and aggregates in alphabetical order."""
    order = sorted(range(len(question.aggregates)), key=lambda i: question.aggregates[i].canonical())
    place = {old: new for new, old in enumerate(order)}
    return replace(
        question,
        keys=tuple(sorted(question.keys, key=lambda key: key.name)),
        aggregates=tuple(question.aggregates[i] for i in order),
        outputs=tuple(Output(o.name, _moved(o.expression, place)) for o in question.outputs),
        order=tuple(Order(_moved(o.expression, place), o.descending) for o in question.order),
    )


def _moved(expression: Expression, place: dict[int, int]) -> Expression:
    match expression:
        case Slot(index=index, type=kind):
            return Slot(place[index], kind)
        case Call(arguments=arguments):
            return replace(expression, arguments=tuple(_moved(argument, place) for argument in arguments))
        case _:
            return expression


def _text(expression: Expression) -> str:
    """An unambiguous text of an expression."""
    match expression:
        case Column(name=name):
            return f'"{name}"'
        case Literal(value=value, type=kind):
            return f"{'null' if kind is None else kind.value}:{value!r}"
        case Slot(index=index):
            return f"#{index}"
        case Call(operator=operator, arguments=arguments):
            return f"{operator.name}({','.join(map(_text, arguments))})"


def _words(expression: Expression) -> str:
    """The expression as an analyst would write it, cut short."""
    match expression:
        case Column(name=name):
            return name
        case Literal(value=value):
            return f"'{value}'" if isinstance(value, str) else "NULL" if value is None else shown(value)
        case Slot(index=index):
            return f"#{index}"
        case Call(operator=operator, arguments=(left, right)):
            text = f"{_words(left)} {operator.name} {_words(right)}"
        case Call(operator=operator, arguments=arguments):
            text = f"{operator.name}({', '.join(map(_words, arguments))})"
        case _:
            assert_never(expression)
    return text if len(text) <= 60 else text[:57] + "..."
