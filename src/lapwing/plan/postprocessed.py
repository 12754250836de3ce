"""Statements: several questions, and one tree of steps above the release, over their answers.

A statement is split where rows become released numbers. Each aggregation over private rows is a part: an ordinary
question, whose outputs are its keys and aggregates, with the plan, price and identity that it has when asked alone.
Everything above is a tree of the steps below over the tables of the parts. It is post-processing: it sees released
numbers and public facts only, costs nothing, and is no part of any identity.

Columns that are dropped later are not computed, and their aggregates not paid (`prune`).

Every column of a tree has a name of its own, whatever the analyst calls it, so that steps never confuse two of them.
Expressions are those of the language, over `Column`, and total: no step fails on any value (answers/evaluate_steps.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lapwing.expressions.expression import Column, Expression, walk
from lapwing.expressions.types import Type
from lapwing.plan.question import Output, Question

MOST_PARTS = 16
"""The most questions that one statement may be made of."""


@dataclass(frozen=True, slots=True)
class ReleasedPart:
    """The answer to one of the questions: its keys and its released numbers."""

    place: int
    columns: tuple[tuple[str, str, Type], ...]
    """The name of each column here, the name of the question's output, and its type."""


@dataclass(frozen=True, slots=True)
class Compute:
    """The same rows with these columns, computed row by row."""

    source: TableStep
    outputs: tuple[Output, ...]


@dataclass(frozen=True, slots=True)
class KeepRows:
    """The rows in which a column is true."""

    source: TableStep
    condition: str


@dataclass(frozen=True, slots=True)
class SortRows:
    """The rows in the order of these columns; descending where the flag says so. NULL comes last; ties stay."""

    source: TableStep
    by: tuple[tuple[str, bool], ...]


@dataclass(frozen=True, slots=True)
class SliceRows:
    """Rows by their place."""

    source: TableStep
    limit: int | None
    offset: int


@dataclass(frozen=True, slots=True)
class FoldCall:
    """One aggregate over the rows of each group: a function over columns."""

    name: str
    function: str
    arguments: tuple[str, ...]
    type: Type
    parameter: float | None = None
    """The level of a quantile."""


@dataclass(frozen=True, slots=True)
class Fold:
    """One row for each group of rows with the same keys; one row in all if there are no keys."""

    source: TableStep
    keys: tuple[str, ...]
    calls: tuple[FoldCall, ...]


@dataclass(frozen=True, slots=True)
class WindowFrame:
    """Which rows around a row a window function sees: from and to, in rows; None is unbounded."""

    low: int | None
    high: int | None


@dataclass(frozen=True, slots=True)
class WindowCall:
    """One window function over columns."""

    name: str
    function: str
    arguments: tuple[str, ...]
    type: Type
    partition: tuple[str, ...] = ()
    order: tuple[tuple[str, bool], ...] = ()
    frame: WindowFrame | None = None
    """None for SQL's own: all rows, or with an order all up to the current one and its equals."""
    number: int | None = None
    """The constant of LAG, LEAD, NTILE and NTH_VALUE."""


@dataclass(frozen=True, slots=True)
class Over:
    """The same rows with one more column for each window function."""

    source: TableStep
    calls: tuple[WindowCall, ...]


@dataclass(frozen=True, slots=True)
class JoinTables:
    """Pairs of rows for which the condition holds; `left`, `right` and `full` keep rows without a partner."""

    left: TableStep
    right: TableStep
    how: str
    condition: Expression | None


@dataclass(frozen=True, slots=True)
class Stack:
    """The rows of several tables one below the other, column by column; named as in the first."""

    sources: tuple[Compute, ...]


@dataclass(frozen=True, slots=True)
class Attach:
    """The same rows with the one value of another table, NULL if that has no row, in every row."""

    source: TableStep
    scalar: TableStep
    column: str
    """The name of the value in the other table."""
    name: str
    """And here."""


TableStep = ReleasedPart | Compute | KeepRows | SortRows | SliceRows | Fold | Over | JoinTables | Stack | Attach


@dataclass(frozen=True, slots=True)
class SplitStatement:
    """Questions, and what is computed from their answers."""

    parts: tuple[Question, ...]
    root: TableStep
    columns: tuple[tuple[str, str, Type], ...]
    """The answer's columns: the name that is shown, the name in the tree, and the type."""
    notes: tuple[str, ...] = ()
    """What to know of the answer."""


def sources_of(step: TableStep) -> tuple[TableStep, ...]:
    """The steps that a step reads."""
    match step:
        case ReleasedPart():
            return ()
        case JoinTables(left=left, right=right):
            return left, right
        case Stack(sources=sources):
            return sources
        case Attach(source=source, scalar=scalar):
            return source, scalar
        case _:
            return (step.source,)


def released_number(step: TableStep, name: str) -> str | None:
    """The output of the only part that a column shows as it is; None if it is computed."""
    match step:
        case ReleasedPart(columns=columns):
            return next((output for own, output, _ in columns if own == name), None)
        case Compute(source=source, outputs=outputs):
            shown = next((output.expression for output in outputs if output.name == name), None)
            return released_number(source, shown.name) if isinstance(shown, Column) else None
        case Fold(source=source, keys=keys):
            return released_number(source, name) if name in keys else None
        case JoinTables(left=left, right=right):
            return released_number(left, name) or released_number(right, name)
        case Stack():
            return None
        case Attach(scalar=scalar, column=column) if step.name == name:
            return released_number(scalar, column)
        case _:
            return released_number(step.source, name)


def steps_of(step: TableStep) -> list[TableStep]:
    """The step and all below it, each once."""
    todo, found, seen = [step], [], set()
    while todo:
        current = todo.pop()
        if id(current) not in seen:
            seen.add(id(current))
            found.append(current)
            todo += sources_of(current)
    return found


def prune(root: TableStep, shown: tuple[str, ...]) -> tuple[TableStep, frozenset[str]]:
    """The tree with the columns that these are computed from, and the names of all that are left.

    Names are unique in a tree, so one set says what is read anywhere.
    """
    used, size, steps = set(shown), -1, steps_of(root)
    computed = {id(o): columns_in(o.expression) for step in steps if isinstance(step, Compute) for o in step.outputs}
    while len(used) > size:
        size = len(used)
        for step in steps:
            used |= _reads(step, used, computed)
    return _rebuilt(root, used, {}), frozenset(used)


def _reads(step: TableStep, used: set[str], computed: Mapping[int, set[str]]) -> set[str]:
    """What a step needs of the ones below it, if these of its own columns are needed."""
    match step:
        case Compute(outputs=outputs):
            return set().union(*[computed[id(o)] for o in outputs if o.name in used])
        case KeepRows(condition=condition):
            return {condition}
        case SortRows(by=by):
            return {name for name, _ in by}
        case Fold(keys=keys, calls=calls):
            return {*keys, *(name for call in calls if call.name in used for name in call.arguments)}
        case Over(calls=windows):
            called = [call for call in windows if call.name in used]
            ordered = {name for call in called for name, _ in call.order}
            return ordered | {name for call in called for name in (*call.arguments, *call.partition)}
        case JoinTables(condition=on):
            return set() if on is None else columns_in(on)
        case Stack(sources=sources):
            listed = [source.outputs for source in sources]
            return {o.name for row in zip(*listed, strict=True) if row[0].name in used for o in row}
        case Attach(name=name, column=column):
            return {column} if name in used else set()
        case ReleasedPart() | SliceRows():
            return set()


def columns_in(expression: Expression) -> set[str]:
    """The columns that an expression reads."""
    return {part.name for part in walk(expression) if isinstance(part, Column)}


def _rebuilt(step: TableStep, used: set[str], done: dict[int, TableStep]) -> TableStep:
    if id(step) in done:
        return done[id(step)]
    made: TableStep
    match step:
        case ReleasedPart(columns=columns):
            made = replace(step, columns=tuple([column for column in columns if column[0] in used]))
        case Compute(source=source, outputs=outputs):
            kept = tuple([output for output in outputs if output.name in used])
            made = replace(step, source=_rebuilt(source, used, done), outputs=kept)
        case Fold(source=source, calls=calls):
            folded = tuple([call for call in calls if call.name in used])
            made = replace(step, source=_rebuilt(source, used, done), calls=folded)
        case Over(source=source, calls=windows):
            called = tuple([call for call in windows if call.name in used])
            made = replace(step, source=_rebuilt(source, used, done), calls=called)
        case JoinTables(left=left, right=right):
            made = replace(step, left=_rebuilt(left, used, done), right=_rebuilt(right, used, done))
        case Stack(sources=sources):
            rebuilt = [_rebuilt(source, used, done) for source in sources]
            made = Stack(tuple(source for source in rebuilt if isinstance(source, Compute)))
        case Attach(source=source, scalar=scalar, name=name):
            below = _rebuilt(source, used, done)
            made = replace(step, source=below, scalar=_rebuilt(scalar, used, done)) if name in used else below
        case KeepRows(source=source) | SortRows(source=source) | SliceRows(source=source):
            made = replace(step, source=_rebuilt(source, used, done))
    done[id(step)] = made
    return made
