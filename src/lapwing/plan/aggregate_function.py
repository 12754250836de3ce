"""An aggregate that an analyst may write: its SQL, its type, and the kind of measure that answers it.

The checks here refuse what no declared fact bounds, in words that say what to write instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from fractions import Fraction

from lapwing.expressions.aggregate import Aggregate
from lapwing.expressions.expression import Column, Expression, walk
from lapwing.expressions.operators.table import bounds_of
from lapwing.expressions.phrases import units_text
from lapwing.expressions.refusal import refuse
from lapwing.expressions.table import Table
from lapwing.expressions.types import Interval, Type
from lapwing.plan.kind import Kind

_LARGEST = Fraction(10) ** 100


class Surplus(Enum):
    """What becomes of a unit's rows in a group beyond rows_per_unit."""

    NONE = auto()
    """There is no such limit."""
    DROPPED = auto()
    DIFFERENT = auto()
    """Different values are dropped."""
    CLIPPED = auto()
    """The unit's total is clipped."""
    WEIGHED = auto()
    """All of its rows weigh less."""


@dataclass(frozen=True, slots=True)
class Function:
    """One aggregate that an analyst may write."""

    name: str
    sql: str
    type: Type
    words: str
    """How the preview and the methods sentence speak of it."""
    kind: Callable[[Table, Aggregate], Kind]
    """What one unit adds; refused if that is not bounded."""
    family: str = ""
    """Aggregates of one family and the same arguments are read off one measure."""
    surplus: Surplus = Surplus.WEIGHED
    clips: bool = True
    """Whether columns are clipped to their bounds where it reads their numbers."""


def row_limit(table: Table, aggregate: Aggregate) -> int:
    """How many rows of a unit count in a group; refused if there is no limit."""
    if table.row_limit is None:
        refuse(
            "unbounded-rows",
            aggregate.words(),
            "one unit may have any number of rows here, so one unit could change the answer by any amount.",
            f"Ask for {units_text(table.unit)}, or have the steward declare rows_per_unit for `{table.name}`.",
        )
    return table.row_limit


def bounds_for(aggregate: Aggregate, argument: Expression) -> Interval:
    """The bounds of an argument; refused if it has none."""
    bounds = bounds_of(argument)
    if bounds is None:
        columns = [part for part in walk(argument) if isinstance(part, Column)]
        names = ", ".join(sorted({f"`{part.name}`" for part in columns if part.bounds is None and part.type.is_number}))
        refuse(
            "unbounded-value",
            aggregate.words(),
            "one row could hold a number of any size.",
            f"Clip it: {aggregate.function}(CLIP(..., 0, 100)), or have the steward declare bounds"
            f"{f' for {names}' if names else ''}, for example bounds = [0, 100].",
        )
    return bounds


def wide_bounds(aggregate: Aggregate, argument: Expression) -> Interval:
    """The same where values are placed between their bounds: refused if these are one number, or too far apart."""
    bounds = bounds_for(aggregate, argument)
    if bounds.high - bounds.low <= bounds.magnitude / (1 << 20):
        refuse(
            "constant-answer",
            aggregate.words(),
            f"its bounds {bounds} are one number, or nearly so: the answer is known without asking.",
            "Leave it out, or have the steward declare wider bounds.",
        )
    if bounds.magnitude > _LARGEST:
        refuse(
            "bounds-too-wide",
            aggregate.words(),
            f"its bounds {bounds} are too wide to compute with.",
            "Clip it: CLIP(..., 0, 100).",
        )
    return bounds
