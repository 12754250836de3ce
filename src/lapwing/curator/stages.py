"""A request in steps: it stops before each charge, before rows are read and before answers are stored.

A request is a generator that returns its answer. A program runs it at once. A server resumes it at times that depend on
the plan alone: a charge shows in the budget, and a stored answer is free for everyone from then on, so both moments can
be seen.

Guarantee:  before the first stop nothing is charged and no row is read. After `BeforeCharge` everything is charged in
            one transaction, and no row is read. After `BeforeRows` rows are read, nothing is charged, and the ledger is
            neither read nor written: the outcome does not depend on what else had happened by then. The next stop is
            `BeforeStore`, also if reading failed; after it the answers are stored, and a failure is raised.
Lost:       if the process ends before the store, the answer is lost and the charge is not.
Checked by: tests/curator/test_stages.py, tests/server/test_moments.py
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeVar

from lapwing.ledger.reservation import NewAnswer
from lapwing.plan.plan import Plan
from lapwing.privacy.budget import Cost

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class BeforeCharge:
    """Everything is prepared. What follows is charged, durably, and reads no rows."""

    price: Cost
    """Of all that the request will charge from here on."""
    plans: tuple[Plan, ...]
    """Of all that is asked."""
    more: int
    """How many more passes over the rows find and check what they need."""


@dataclass(frozen=True, slots=True)
class BeforeRows:
    """Everything up to here is charged. What follows reads rows, and charges nothing."""


@dataclass(frozen=True, slots=True)
class BeforeStore:
    """Rows were read, and their answers are encoded. What follows stores them, and reads no rows."""

    answers: tuple[NewAnswer, ...]
    """What is to be stored: known to this request alone until then."""
    search: Plan | None
    """The plan of what is asked, if this was a search and the request goes on with what it found."""


Stop = BeforeCharge | BeforeRows | BeforeStore
RequestSteps = Generator[Stop, None, _T]


def run(steps: RequestSteps[_T]) -> _T:
    """The answer, without a pause."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            answer: _T = end.value
            return answer
