"""Everything that the rest of the system needs to know of a kind of measure.

Sensitivity is the most that one unit changes the cells of one group by, in the l1 norm and so in the l2 norm too, in
whole steps. It follows from the question and from declared facts alone. As a rule a measure's cells are sums over
units, of a clipped function of the unit's totals, and each cell gets noise; what differs is overridden.

The mechanism of a measure is made for exactly what one unit may change (plan.py says why that is right). A share of the
price for which noise cannot be drawn is refused here, so that nothing can fail for it once rows are read.

A `Function` is an aggregate that an analyst may write: its SQL, its type, and the kind of measure that answers it. What
no declared fact bounds is refused, in words that say what to write instead.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from lapwing.errors import Bug, Misconfigured
from lapwing.expressions.aggregate import Aggregate
from lapwing.expressions.expression import Column, Expression, walk
from lapwing.expressions.identity import Facts, Identity
from lapwing.expressions.operators.table import bounds_of
from lapwing.expressions.phrases import units_text
from lapwing.expressions.refusal import refuse
from lapwing.expressions.table import Table
from lapwing.expressions.types import Interval, Type
from lapwing.mechanisms.cells import CellColumns, CellMechanism, Cells, Noise, NoisyCells, mechanisms_for, narrowed
from lapwing.plan.row_values import Read, RowColumn
from lapwing.privacy.loss import Loss

if TYPE_CHECKING:
    from lapwing.plan.add_noise import FetchedRows
    from lapwing.plan.query import UnitRows

MOST_SENSITIVITY = 10**24  # in steps: the parts of 10^13 units add up within the 38 digits of the engine
FINEST_STEP = Fraction(1, 2**900)  # so that a step and its inverse are ordinary float64 numbers

CellBand = tuple[Cells, Cells]
"""The lower and the upper ends of intervals, one of each a group."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How an aggregate is read off the noisy cells of a measure."""

    measure: int
    statistic: str
    place: int = 0
    """Which of several quantiles."""


class Drawable(Protocol):
    """What adds noise."""

    def check(self) -> None:
        """Draws nothing; raises Misconfigured if its noise cannot be drawn."""


class Kind(ABC):
    """A measure before it has a price."""

    __slots__ = ()
    apart: ClassVar[bool] = False
    """Whether it has a query of its own; otherwise its cells are sums over units, in one query with the others."""
    releases_intervals: ClassVar[bool] = False
    """Whether its intervals are released with the values, for one group each."""
    step_unit: ClassVar[int] = 1
    """How many steps are 1 in the words on noise."""
    noise_target: ClassVar[str] = "in each group"
    group_word: ClassVar[str] = "group"
    """What a group of the question is called in words on limits."""

    # What it is.

    @property
    @abstractmethod
    def facts(self) -> Facts:
        """Everything that its cells are made and read by, exactly, but what it reads of a row."""

    @property
    def identity(self) -> Identity | None:
        """What its release is found by, if it is one of its own and not the cells of a question."""
        return None

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of its cells, where they are stored with them."""
        return ()

    @abstractmethod
    def __str__(self) -> str:
        """How a unit's part is limited, in words."""

    @property
    @abstractmethod
    def cells(self) -> int:
        """How many columns of cells it has."""

    @abstractmethod
    def sensitivity(self, step: Fraction) -> int:
        """In steps."""

    # What a question may do with it.

    def merge(self, others: Sequence[Kind]) -> Kind:
        """One measure that answers what all answer; the others are of the same family and arguments."""
        return self

    def fit(self, group_count: int | None, confidence: Fraction | None) -> Kind:
        """The kind with what depends on the whole question."""
        return self

    def best(self, many: int, *, largest: bool) -> Kind | None:
        """The kind that tells only the best groups, if there is one."""
        return None

    @property
    def chosen_groups(self) -> int:
        """How many groups it tells, if it does not show their cells; 0 if it does."""
        return 0

    def counts_units(self, *, by_row: bool) -> bool:
        """Whether its cell is the number of units in the group, which the selection of keys counts anyway."""
        return False

    @property
    def unit_interval(self) -> Interval | None:
        """The bounds of one unit's part, if a cell is the plain sum of those and is shown as it is."""
        return None

    @property
    def lacks_intervals(self) -> bool:
        """Whether it was asked for without intervals."""
        return False

    # Its price.

    def price(self, groups_per_unit: int, share: Loss | None) -> Measure:
        """The measure at this share of the price; without one the selection of keys releases it. Raises Refused."""
        if share is None:
            return Measure(self, Fraction(1), None)
        step = self.step(groups_per_unit, share)
        return Measure(self, step, self.make_mechanism(step, groups_per_unit, share))

    def step(self, groups_per_unit: int, share: Loss) -> Fraction:
        return Fraction(1)

    def make_mechanism(self, step: Fraction, groups_per_unit: int, share: Loss) -> CellMechanism:
        """What releases its cells for this share of the price."""
        sensitivity = self.exact_sensitivity(step)
        return _noisy_cells(share, sensitivity, groups_per_unit)

    def exact_sensitivity(self, step: Fraction) -> int:
        """The sensitivity, if sums of that size are exact; raises Refused."""
        sensitivity = self.sensitivity(step)
        if sensitivity > MOST_SENSITIVITY or not FINEST_STEP <= step <= 1 / FINEST_STEP:
            why = "one unit's part may be so large or so small that sums are no longer exact."
            refuse("bounds-too-wide", "SUM", why, "Have the steward declare bounds and rows_per_unit of ordinary size.")
        return sensitivity

    # What a unit adds, in the engine's query.

    @abstractmethod
    def columns(self, step: Fraction) -> list[RowColumn]:
        """What it reads of each row."""

    def unit_totals(self, step: Fraction, read: Read) -> list[exp.Expression]:
        """What the rows of one unit add up to within one group."""
        raise Bug("these cells are not sums over units")

    def row_parts(self, step: Fraction, read: Read) -> list[exp.Expression]:
        """The same totals where every row is a unit: of one row."""
        raise Bug("these cells are not sums over units")

    def unit_cells(self, step: Fraction, totals: list[exp.Expression]) -> list[exp.Expression]:
        raise Bug("these cells are not sums over units")

    def query(self, measure: Measure, rows: UnitRows) -> exp.Select:
        """The query of a kind with one of its own."""
        raise Bug("these cells are sums over units")

    # From the engine's rows to released cells, and to what is stored.

    def arrange(self, measure: Measure, fetched: FetchedRows) -> CellColumns:
        """The exact cells of a kind with a query of its own."""
        raise Bug("these cells are sums over units")

    def filter_groups(self, columns: CellColumns, keep: Cells) -> CellColumns:
        """The cells of the groups that are shown."""
        return tuple(column[keep] for column in columns)

    def empty(self, measure: Measure, groups: int) -> CellColumns:
        return tuple([np.zeros(groups, np.int64) for _ in range(self.cells)])

    def decode(self, column: list[str]) -> Cells:
        """A column of released cells, from the texts that were stored."""
        return narrowed(np.array([int(value) for value in column], object))

    # Reading. All of it is post-processing, and free.

    def values(self, measure: Measure, cells: CellColumns, reading: Reading) -> Cells:
        """The number that was asked for, in each group."""
        return _in_units(cells[0], measure.step)

    def intervals(
        self, measure: Measure, cells: CellColumns, reading: Reading, confidence: Fraction, *, simultaneous: int
    ) -> CellBand | None:
        """The interval of that number in each group, of all `simultaneous` groups together; None if there is none."""
        error = float(measure.error(confidence, simultaneous=simultaneous))
        values = _in_units(cells[0], measure.step)
        return values - error, values + error

    def half_width(self, measure: Measure, statistic: str, confidence: Fraction, rows: int | None) -> Fraction | None:
        """Half the width of the interval before asking, for at least `rows` in a group; None if unknown."""
        return measure.error(confidence)

    def range_width(self, statistic: str) -> Fraction | None:
        """How far apart two values of the statistic can be, if its bounds say so."""
        return None

    def is_known_beforehand(self, statistic: str) -> bool:
        """Whether the error of this statistic does not depend on the data."""
        return True

    def errors(self, measure: Measure, confidence: Fraction, group_count: int) -> list[Fraction]:
        """Its errors, which say whether one price is as good as another, in the units of the answer or in rows."""
        return [measure.error(confidence)]

    def named_errors(self, measure: Measure, confidence: Fraction) -> dict[str, float]:
        """Half-widths of some of its numbers by name, where one aggregate is many numbers."""
        return {}

    # Words.

    @property
    def left_out(self) -> str:
        """A sentence on rows that do not count, if there is anything to say."""
        return ""

    def describe(self, measure: Measure, share: Loss | None) -> dict[str, Any]:
        """Mechanism and scale, ready for JSON."""
        kind = {"mechanism": type(measure.noise).__name__.lower(), "scale": measure.scale, "step": float(measure.step)}
        return {**kind, "loss": str(measure.noise.loss)}

    def methods(self, measure: Measure) -> str:
        """How it was bounded and released, for the methods sentence."""
        noise = f"discrete {type(measure.noise).__name__} noise of scale {measure.scale:.6g}"
        return f"{self}, and {noise} is added {self.noise_target}"

    def promise(
        self, measure: Measure, reading: Reading, confidence: Fraction, *, group_count: int, each: str
    ) -> str | None:
        """What the preview says instead of a half-width, with {} for the confidence; `each` says in which groups."""
        return None


@dataclass(frozen=True, slots=True)
class Measure:
    """One kind at one share of the price, as it will be released: integer cells in steps, and their mechanism."""

    kind: Kind
    step: Fraction
    mechanism: CellMechanism | None
    """What releases the cells; None if the selection of the keys does it as well."""

    @property
    def sensitivity(self) -> int:
        """The most that one unit changes one group by, in steps and in either norm."""
        return self.kind.sensitivity(self.step)

    @property
    def noise(self) -> Noise:
        """The noise that is added to each cell."""
        if not isinstance(self.mechanism, NoisyCells):
            raise Bug("these cells have no additive noise")
        return self.mechanism.noise

    @property
    def scale(self) -> float:
        """Of additive noise, in the units of the answer; of moments in rows."""
        return float(self.noise.scale) * float(self.step) / self.kind.step_unit

    def error(self, confidence: Fraction, *, simultaneous: int = 1) -> Fraction:
        """Half the interval of one cell, or of several together, in the units of the answer."""
        return self.noise.error(confidence, simultaneous=simultaneous) * self.step

    def errors(self, confidence: Fraction, group_count: int | None) -> list[Fraction]:
        """What is compared between prices; nothing if the selection of the keys releases it."""
        return [] if self.mechanism is None else self.kind.errors(self, confidence, group_count or 1)

    def promise(self, reading: Reading, confidence: Fraction, group_count: int | None, *, each: str) -> str | None:
        """What the preview says instead of a half-width, if there is anything."""
        if self.mechanism is None:
            return None
        return self.kind.promise(self, reading, confidence, group_count=group_count or 1, each=each)


def require_noise(mechanism: Drawable, share: Loss) -> None:
    """Refuses a share of the price for which noise cannot be drawn."""
    try:
        mechanism.check()
    except Misconfigured:
        why = f"noise for {share} cannot be drawn: it is too large or too small."
        refuse("price-out-of-range", "`epsilon`", why, "Choose another one.")


@lru_cache(maxsize=256, typed=True)
def _noisy_cells(share: Loss, sensitivity: int, groups: int) -> NoisyCells:
    """Kept, since the same questions are asked at the same price."""
    noisy = NoisyCells(mechanisms_for(share).additive(sensitivity=sensitivity, groups=groups))
    require_noise(noisy, share)
    return noisy


def scatter(values: Cells, place: npt.NDArray[np.int64], groups: int) -> Cells:
    """The values at their groups, 0 elsewhere."""
    cells = np.zeros(groups, values.dtype)
    cells[place] = values
    return cells


def _in_units(cells: Cells, step: Fraction) -> Cells:
    """Cells in steps as numbers: integers stay integers, reals become float64."""
    if step == 1:
        return cells
    return np.array([float(value * step) for value in cells.tolist()]) if cells.dtype == object else cells * float(step)


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
        why = "one unit may have any number of rows here, so one unit could change the answer by any amount."
        instead = f"Ask for {units_text(table.unit)}, or ask with rows=10"
        refuse("unbounded-rows", aggregate.words(), why, instead, f"rows_per_unit for `{table.name}`")
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
            f"Clip it: {aggregate.function}(CLIP(..., 0, 100))",
            f"bounds for {names}" if names else "bounds",
        )
    return bounds


def wide_bounds(aggregate: Aggregate, argument: Expression) -> Interval:
    """The same where values are placed between their bounds: refused if these are one number, or too far apart."""
    bounds = bounds_for(aggregate, argument)
    if bounds.high - bounds.low <= bounds.magnitude / (1 << 20):
        why = f"its bounds {bounds} are one number, or nearly so: the answer is known without asking."
        refuse("constant-answer", aggregate.words(), why, "Leave it out, or have the steward declare wider bounds.")
    if bounds.magnitude > _LARGEST:
        why = f"its bounds {bounds} are too wide to compute with."
        refuse("bounds-too-wide", aggregate.words(), why, "Clip it: CLIP(..., 0, 100).")
    return bounds
