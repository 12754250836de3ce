"""A statement without what nobody reads: columns that are dropped later are not computed, and aggregates not paid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lapwing.expressions.expression import Column, Expression, walk
from lapwing.plan.postprocessed import (
    Attach,
    Compute,
    Fold,
    JoinTables,
    KeepRows,
    Over,
    ReleasedPart,
    SliceRows,
    SortRows,
    Stack,
    TableStep,
    steps_of,
)


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
            made = replace(step, columns=tuple(column for column in columns if column[0] in used))
        case Compute(source=source, outputs=outputs):
            kept = tuple(output for output in outputs if output.name in used)
            made = replace(step, source=_rebuilt(source, used, done), outputs=kept)
        case Fold(source=source, calls=calls):
            folded = tuple(call for call in calls if call.name in used)
            made = replace(step, source=_rebuilt(source, used, done), calls=folded)
        case Over(source=source, calls=windows):
            called = tuple(call for call in windows if call.name in used)
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
