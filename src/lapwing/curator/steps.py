"""A request in steps: it stops before each charge and before rows are read, and goes on when it is told to.

A request is a generator that returns its answer. A program runs it at once; a server goes on at times that tell nothing
of the rows, since whoever sees the budget sees when something is charged.

Guarantee:  before the first stop nothing is charged and no row is read. After `BeforeCharge` everything is charged in
            one transaction, and no row is read; after `BeforeRows` rows are read, and nothing is charged.
Checked by: tests/curator/test_steps.py
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeVar

from lapwing.catalog.table import Table
from lapwing.privacy.budget import Cost

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class BeforeCharge:
    """Everything is prepared. What follows is charged, durably, and reads no rows."""

    price: Cost
    """Of all that the request will charge from here on."""
    search: Table | None = None
    """The table that is searched for bounds or a limit; another charge follows then, at a price that is known now."""


@dataclass(frozen=True, slots=True)
class BeforeRows:
    """Everything up to here is charged. What follows reads rows, and charges nothing."""


RequestSteps = Generator[BeforeCharge | BeforeRows, None, _T]


def run(steps: RequestSteps[_T]) -> _T:
    """The answer, without a pause."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            answer: _T = end.value
            return answer
