"""An answer from no rows, made before the charge: what can fail without data fails here, and costs nothing.

Everything that follows the engine's query runs once on cells of zero in a few groups: the samplers with their tables,
the selection of keys, the encoding for the ledger, and what stands above the aggregation. It is a function of the plan,
so nothing about the data follows from it; what it draws is thrown away.
Checked by: tests/answers/test_rehearsal.py
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction

import numpy as np

from lapwing.answers.columns import present
from lapwing.answers.stored import encode
from lapwing.arrays import objects
from lapwing.expressions.types import Type, Value
from lapwing.plan.add_noise import Arranged, release
from lapwing.plan.plan import Plan
from lapwing.plan.question import Question

_PRESENT = 1 << 20  # units of the one group among keys that are not public: enough to be shown as a rule
_VALUES: dict[Type, Value] = {
    Type.INTEGER: 0,
    Type.TEXT: "",
    Type.BOOLEAN: False,
    Type.DATE: date(2000, 1, 1),
    Type.TIMESTAMP: datetime(2000, 1, 1),  # noqa: DTZ001 (times here have no zone)
}


def rehearse(plan: Plan, confidence: Fraction, questions: Sequence[Question]) -> None:
    """Answers the questions without rows; raises whatever would go wrong after the charge."""
    short = _shortened(plan)
    released = release(short, _zeros(short))
    encode(short, released)
    for question in questions:
        present(replace(short, outline=replace(short.outline, question=question)), released, confidence)


def _shortened(plan: Plan) -> Plan:
    """The plan with as few of its public groups as it can be answered for: one, or as many as it chooses."""
    if plan.outline.domain is None:
        return plan
    least = max(1, *(kind.chosen_groups for kind in plan.outline.kinds))
    if plan.outline.groups is not None:
        return replace(plan, outline=replace(plan.outline, groups=plan.outline.groups[:least]))
    return replace(plan, outline=replace(plan.outline, domain=_leading(plan.domain, least)))


def _leading(domain: Sequence[tuple[Value, ...]], least: int) -> tuple[tuple[Value, ...], ...]:
    """The first values of each key, so few that they just make `least` groups."""
    kept = []
    for values in domain:
        many = min(len(values), least)
        kept.append(values[:many])
        least = -(-least // max(1, many))
    return tuple(kept)


def _zeros(plan: Plan) -> Arranged:
    size = plan.group_count or 1
    cells = tuple(measure.kind.empty(measure, size) for measure in plan.measures)
    if plan.outline.domain is not None:
        return Arranged((), None, cells)
    keys = tuple(objects([_VALUES[key.type or Type.TEXT]] * size) for key in plan.question.keys)
    return Arranged(keys, np.full(size, _PRESENT, np.int64), cells)
