"""The questions that a statement asks, and the steps above them: names, parts, and the end of a SELECT.

A part is one aggregation of rows, which is released. Everything above it is computed from its answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NoReturn

from lapwing.expressions.expression import Column, Expression, Key, Slot
from lapwing.expressions.refusal import refuse
from lapwing.expressions.types import Type
from lapwing.plan.aggregates import FUNCTIONS
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
    prune,
    steps_of,
)
from lapwing.plan.question import Output, Question, normalised
from lapwing.sql.post_select import Builder, columns_for
from lapwing.sql.relation import Aggregation, Relation, Rows, by_name, check_total, question_of, substitute

MOST_STEPS = 200  # so that no later step exhausts the stack, and reading is fast
OWN_NOISE = "Each of the {} released tables has noise of its own, so their numbers need not add up."


@dataclass(frozen=True, slots=True)
class Above:
    """Steps over released tables, and the columns that the last one shows."""

    step: TableStep
    columns: tuple[tuple[str, str, Type], ...]
    """The name that is shown, the name in the tree, and the type."""


class Parts:
    """The parts of one statement."""

    def __init__(self) -> None:
        self._parts: list[tuple[Aggregation, dict[str, int]]] = []
        self._released: dict[int, tuple[Aggregation, Above]] = {}
        self._names = 0
        self._notes: list[str] = []
        self.nulls: set[str] = set()
        """Columns that are NULL throughout, which go with any type."""

    def fresh(self) -> str:
        """A name that no column of the tree has."""
        self._names += 1
        return f"c{self._names}"

    def note(self, text: str) -> None:
        """Says something below the answer."""
        self._notes.append(text)

    def released(self, relation: Relation | Above) -> Above:
        """The released table of what was read; an aggregation becomes a part."""
        if isinstance(relation, Above):
            return relation
        if isinstance(relation, Rows):
            refuse_rows("FROM")
        check_total(relation)
        if id(relation) not in self._released:
            self._released[id(relation)] = relation, self._release(relation)
        return self._released[id(relation)][1]

    def _release(self, groups: Aggregation) -> Above:
        step, keys, slots = self.part(groups)
        types = {name: kind for name, _, kind in step.columns}
        builder, columns = Builder(step, types, self.fresh), columns_for(keys, slots, types)
        builder.only([substitute(condition, columns) for condition in groups.having], "HAVING")
        by = [(substitute(order.expression, columns), order.descending) for order in groups.order]
        outputs = [(output.name, substitute(output.expression, columns)) for output in groups.columns.values()]
        return self.finished(builder, outputs, by, groups.limit, 0)

    def part(self, groups: Aggregation) -> tuple[ReleasedPart, list[str], list[str]]:
        """A new part: the step, and the names of its keys and numbers."""
        keys, slots = ([self.fresh() for _ in of] for of in (groups.keys, groups.aggregates))
        shown: list[tuple[str, Key | Slot]] = [
            (name, Key(i, key.type or Type.TEXT)) for i, (name, key) in enumerate(zip(keys, groups.keys, strict=True))
        ]
        types = slot_types(groups)
        shown += [(name, Slot(i, kind)) for i, (name, kind) in enumerate(zip(slots, types, strict=True))]
        step = ReleasedPart(len(self._parts), tuple([(name, name, of.type) for name, of in shown]))
        plain = replace(groups, columns={name: Output(name, of) for name, of in shown}, having=(), order=(), limit=None)
        self._parts.append((plain, {name: index for index, name in enumerate(slots)}))
        return step, keys, slots

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
            builder.step = SortRows(builder.step, tuple(zip(order, [descending for _, descending in by], strict=True)))
        if limit is not None or offset:
            builder.step = SliceRows(builder.step, limit, offset)
        columns, kept = [], []
        for (name, expression), inner in zip(outputs, shown, strict=True):
            new, kind = self.fresh(), expression.type or Type.TEXT
            columns.append((name, new, kind))
            kept.append(Output(new, Column(inner, kind)))
            if expression.type is None:
                self.nulls.add(new)
        return Above(Compute(builder.step, tuple(kept)), tuple(columns))

    def is_single(self, step: TableStep) -> bool:
        """Whether a table has one row at most."""
        while not isinstance(step, ReleasedPart | JoinTables | Stack | Fold):
            if isinstance(step, SliceRows) and step.limit is not None and step.limit <= 1:
                return True
            step = step.source
        if isinstance(step, ReleasedPart):
            return not self._parts[step.place][0].keys
        return isinstance(step, Fold) and not step.keys

    def statement(self, above: Above, more: tuple[str, ...]) -> SplitStatement:
        """The whole statement, without what nothing reads."""
        root, used = prune(above.step, tuple([name for _, name, _ in above.columns]))
        steps = steps_of(root)
        if len(steps) > MOST_STEPS:
            refuse("too-large", "the question", f"it takes more than {MOST_STEPS} steps.", "Split it.")
        by_name([Output(shown, Column(name, kind)) for shown, name, kind in above.columns])
        places = sorted({step.place for step in steps if isinstance(step, ReleasedPart)})
        if len(places) > MOST_PARTS:
            refuse(
                "too-large",
                "the question",
                f"it asks {len(places)} questions at once; at most {MOST_PARTS} are answered together.",
                "Ask for fewer groupings or sub-queries.",
            )
        questions = tuple([self._question(place, used) for place in places])
        if places != list(range(len(places))):
            root = _renumbered(root, {place: new for new, place in enumerate(places)})
        notes = self._notes or ([OWN_NOISE.format(len(places))] if len(places) > 1 else [])
        return SplitStatement(questions, root, above.columns, (*dict.fromkeys(notes), *more))

    def _question(self, place: int, used: frozenset[str]) -> Question:
        """The part with the numbers that are read; with the first, if none is."""
        groups, slots = self._parts[place]
        kept = [name for name in slots if name in used] or list(slots)[:1]
        shown = {name: o for name, o in groups.columns.items() if name not in slots or name in kept}
        return normalised(question_of(replace(groups, columns=shown)))


def refuse_rows(part: str) -> NoReturn:
    refuse(
        "released-numbers",
        part,
        "rows cannot be combined with released numbers.",
        "Aggregate the rows first, in a subquery with GROUP BY.",
    )


def slot_types(groups: Aggregation) -> list[Type]:
    """The type of each released number."""
    return [FUNCTIONS[aggregate.name].type for aggregate in groups.aggregates]


def _renumbered(root: TableStep, places: Mapping[int, int]) -> TableStep:
    """The tree with its parts at other places."""
    done: dict[int, TableStep] = {}

    def again(step: TableStep) -> TableStep:
        if id(step) not in done:
            done[id(step)] = rebuilt(step)
        return done[id(step)]

    def rebuilt(step: TableStep) -> TableStep:
        match step:
            case ReleasedPart(place=place):
                return replace(step, place=places[place])
            case JoinTables():
                return replace(step, left=again(step.left), right=again(step.right))
            case Stack():
                return Stack(tuple([side for side in map(again, step.sources) if isinstance(side, Compute)]))
            case Attach():
                return replace(step, source=again(step.source), scalar=again(step.scalar))
            case _:
                return replace(step, source=again(step.source))

    return again(root)
