"""A request in steps: it stops before each charge, before rows are read and after a search, and goes on when told to.

A request is a generator that returns its answer. A program runs it at once; a server goes on at times that tell nothing
of the rows, since whoever sees the budget sees when something is charged.

Guarantee:  before the first stop nothing is charged and no row is read. After `BeforeCharge` everything is charged in
            one transaction, and no row is read; after `BeforeRows` rows are read, nothing is charged, and nothing is
            looked up in the ledger: what comes of it does not tell what else had happened by then.
Checked by: tests/curator/test_stages.py
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeVar

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
class AfterSearch:
    """Bounds or a limit were found. What follows plans with them, looks at the ledger, and reads no rows."""

    plan: Plan
    """Of what is asked."""


Stop = BeforeCharge | BeforeRows | AfterSearch
RequestSteps = Generator[Stop, None, _T]


def run(steps: RequestSteps[_T]) -> _T:
    """The answer, without a pause."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            answer: _T = end.value
            return answer
