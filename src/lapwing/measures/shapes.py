"""What one unit may add to one group: every sensitivity follows from the question and from declared facts alone.

reach is the most that one unit changes the cells of one group by, in the l1 norm and so in the l2 norm too.

Total     one number, clipped to an interval; the cell is the sum over units. reach = its largest absolute value.
          With `best` the cells are not shown: they only decide which groups are (mechanisms/choice/top_k.py).
Soft      two or three whole numbers of at least 0 that sum to at most rows * M (mechanisms/moments/mean.py): how the
          unit's values spread between their bounds. reach = rows * M.
Pair      nine such numbers, for two columns (mechanisms/moments/pair.py). reach = rows * M.
Distinct  at most `rows` values, each of which is counted once over all units. reach = rows.
Grid      weights of at least 0 on a grid of cells that sum to at most rows * 2^20
          (mechanisms/quantiles/grid_quantile.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import assert_never

from lapwing.catalog.identity import Facts, interval_facts, number_facts
from lapwing.language.expression import Column, Expression
from lapwing.language.operators.table import is_exact_integer
from lapwing.language.types import Interval, Type, text_of
from lapwing.mechanisms.moments.values import GRID


@dataclass(frozen=True, slots=True)
class Best:
    """Only the groups with the largest cells are told, or with the smallest."""

    many: int
    largest: bool

    def __str__(self) -> str:
        return f"the {self.many:,} {'largest' if self.largest else 'smallest'}"


@dataclass(frozen=True, slots=True)
class Total:
    """One cell: a unit's number of rows or values, or the sum of its values, clipped to the interval."""

    argument: Expression | None
    """What is counted or summed; every row if there is none."""
    summed: bool
    interval: Interval
    best: Best | None = None

    @property
    def cells(self) -> int:
        return 1

    @property
    def whole(self) -> bool:
        """Whether the total is a whole number, so that steps of 1 lose nothing."""
        argument = self.argument
        if not self.summed or argument is None:
            return True
        return is_exact_integer(argument) or (isinstance(argument, Column) and argument.type is Type.INTEGER)

    def steps(self, step: Fraction) -> tuple[int, int]:
        """The interval in whole steps, rounded outward."""
        return math.floor(self.interval.low / step), math.ceil(self.interval.high / step)

    def reach(self, step: Fraction) -> int:
        """In steps."""
        return max(map(abs, self.steps(step)))

    def __str__(self) -> str:
        clipped = f"each unit's part of a group is clipped to {self.interval}"
        return clipped if self.best is None else f"{clipped} to find {self.best}"


@dataclass(frozen=True, slots=True)
class Soft:
    """Two cells for the mean, three for the variance too."""

    argument: Expression
    bounds: Interval
    rows: int
    """A unit with more values counts with this weight, at its own average."""
    squares: bool = False

    @property
    def cells(self) -> int:
        return 3 if self.squares else 2

    def reach(self, _step: Fraction) -> int:
        return self.rows * GRID

    def __str__(self) -> str:
        return f"values are clipped to {self.bounds} and each unit weighs at most {text_of(self.rows)} rows in a group"


@dataclass(frozen=True, slots=True)
class Pair:
    """Nine cells for two columns; a row takes part if it has both values."""

    x: Expression
    y: Expression
    x_bounds: Interval
    y_bounds: Interval
    rows: int

    @property
    def cells(self) -> int:
        return 9

    def reach(self, _step: Fraction) -> int:
        return self.rows * GRID

    def __str__(self) -> str:
        limits = f"{self.x_bounds} and {self.y_bounds}"
        return f"values are clipped to {limits} and each unit weighs at most {text_of(self.rows)} rows in a group"


@dataclass(frozen=True, slots=True)
class Distinct:
    """One cell: how many different values there are, with at most `rows` values of a unit."""

    argument: Expression
    rows: int

    @property
    def cells(self) -> int:
        return 1

    def reach(self, _step: Fraction) -> int:
        return self.rows

    def __str__(self) -> str:
        return f"of each unit at most {text_of(self.rows)} different values count in a group"


@dataclass(frozen=True, slots=True)
class Grid:
    """A histogram over a grid, for quantiles at these levels with intervals at this confidence, or without."""

    argument: Expression
    bounds: Interval
    rows: int
    at: tuple[Fraction, ...]
    bins: int
    points: bool
    """Whether the cells are the whole numbers between the bounds."""
    confidence: Fraction | None

    @property
    def cells(self) -> int:
        return 3 * len(self.at)

    def reach(self, _step: Fraction) -> int:
        return self.rows

    def __str__(self) -> str:
        return (
            f"values are clipped to {self.bounds}, put on a grid of {self.bins:,} cells, "
            f"and each unit weighs at most {text_of(self.rows)} rows in a group"
        )


Shape = Total | Soft | Pair | Distinct | Grid


def shape_facts(shape: Shape) -> Facts:
    """Everything that its cells are made and read by, exactly. What it reads of a row stands with the aggregates."""
    match shape:
        case Total(summed=summed, interval=interval, best=best):
            chosen = None if best is None else (best.many, best.largest)
            return ("total", summed, shape.whole, interval_facts(interval), chosen)
        case Soft(bounds=bounds, rows=rows, squares=squares):
            return ("soft", interval_facts(bounds), rows, squares)
        case Pair(x_bounds=x_bounds, y_bounds=y_bounds, rows=rows):
            return ("pair", interval_facts(x_bounds), interval_facts(y_bounds), rows)
        case Distinct(rows=rows):
            return ("distinct", rows)
        case Grid(bounds=bounds, rows=rows, bins=bins, points=points):
            levels = tuple(map(number_facts, shape.at))
            return ("grid", interval_facts(bounds), rows, levels, bins, points, number_facts(shape.confidence))
        case _:
            assert_never(shape)
