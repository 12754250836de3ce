"""How far one step can move a function: exactly, by trying every database over a small universe.

The *local* sensitivity of f at x is the largest ||f(x) - f(y)|| over the neighbours y of x; the *global* sensitivity is
the largest local one; the local sensitivity *at distance k* is the largest over all databases within k steps of x.
Noise may be scaled to the global sensitivity. Scaled to the local one, it reveals where x lies:
see mechanisms/local/smooth.py.

A function takes the list of records, in a fixed order, and gives a number or a sequence of numbers. Numbers are read
exactly, a float as its shortest decimal; compute with integers or Fractions to be exact throughout.
What would take too long is refused, and the message says how many pairs would be compared.
Checked by: tests/classroom/test_sensitivity.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from math import isqrt
from typing import Any, assert_never

from lapwing.classroom.database import Database, Record, databases, distinct, number_of_databases
from lapwing.errors import Misconfigured
from lapwing.numbers import count, exact
from lapwing.privacy.neighbours import Neighbours
from lapwing.privacy.phrases import at_most_text

Statistic = Callable[[list[Any]], Any]
Vector = tuple[Fraction, ...]

MOST_PAIRS = 1_000_000
"""The most pairs of databases that are compared."""

_ROOT_DIGITS = 18


class Norm(Enum):
    """How the difference of two answers is measured."""

    L1 = "sum of absolute differences"
    L2 = "root of the sum of squared differences"

    def squared(self, difference: Iterable[Fraction]) -> Fraction:
        """The norm, squared: a fraction in both cases."""
        match self:
            case Norm.L1:
                return sum(map(abs, difference), Fraction(0)) ** 2
            case Norm.L2:
                return sum((part**2 for part in difference), Fraction(0))
            case _:
                assert_never(self)


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """A sensitivity and two neighbours that reach it; no pair if there are no neighbours at all."""

    squared: Fraction
    pair: tuple[Database, Database] | None

    @property
    def value(self) -> Fraction:
        """The sensitivity: exact if it is a fraction, as under l1; otherwise rounded up in the 18th decimal."""
        top, bottom = isqrt(self.squared.numerator), isqrt(self.squared.denominator)
        if top**2 == self.squared.numerator and bottom**2 == self.squared.denominator:
            return Fraction(top, bottom)
        unit = 10**_ROOT_DIGITS
        return Fraction(isqrt(self.squared.numerator * unit**2 // self.squared.denominator) + 1, unit)

    def __str__(self) -> str:
        if self.pair is None:
            return "Sensitivity 0: no two of these databases are neighbours."
        first, second = (list(database.records) for database in self.pair)
        return f"Sensitivity {at_most_text(self.value)}: from {first} to {second}"


def global_sensitivity(
    function: Statistic,
    universe: Iterable[Record],
    *,
    size: int,
    least: int = 0,
    norm: Norm = Norm.L1,
    neighbours: Neighbours = Neighbours.ADD_OR_REMOVE,
) -> Sensitivity:
    """The largest difference between two neighbours that both hold at least `least` and at most `size` records."""
    values, most, fewest = distinct(universe), count(size, "size", least=0), count(least, "least", least=0)
    require_feasible(number_of_databases(len(values), up_to=most, least=fewest), len(values))
    answers = {x: _read(function, x) for x in databases(values, up_to=most, least=fewest)}
    return _largest(
        ((x, y) for x in answers for y in x.neighbours(neighbours, values) if y in answers), answers.__getitem__, norm
    )


def local_sensitivity(
    function: Statistic,
    database: Database | Iterable[Record],
    universe: Iterable[Record],
    *,
    norm: Norm = Norm.L1,
    neighbours: Neighbours = Neighbours.ADD_OR_REMOVE,
) -> Sensitivity:
    """The largest difference between this database and a neighbour of it."""
    return local_sensitivity_at_distance(function, database, universe, 0, norm=norm, neighbours=neighbours)


def local_sensitivity_at_distance(
    function: Statistic,
    database: Database | Iterable[Record],
    universe: Iterable[Record],
    distance: int,
    *,
    norm: Norm = Norm.L1,
    neighbours: Neighbours = Neighbours.ADD_OR_REMOVE,
) -> Sensitivity:
    """The largest local sensitivity among all databases within this many steps."""
    values, steps = distinct(universe), count(distance, "distance", least=0)
    start = database if isinstance(database, Database) else Database(database)
    known: dict[Database, Vector] = {}

    def answer(x: Database) -> Vector:
        if x not in known:
            known[x] = _read(function, x)
        return known[x]

    near = within(start, values, steps, neighbours)
    return _largest(((x, y) for x in near for y in x.neighbours(neighbours, values)), answer, norm)


def within(start: Database, universe: Sequence[Record], steps: int, neighbours: Neighbours) -> set[Database]:
    """Every database within `steps` steps, itself included."""
    found, border = {start}, {start}
    for _ in range(steps):
        border = {y for x in border for y in x.neighbours(neighbours, universe)} - found
        found |= border
        require_feasible(len(found), len(universe))
    return found


def _largest(
    pairs: Iterator[tuple[Database, Database]], answer: Callable[[Database], Vector], norm: Norm
) -> Sensitivity:
    best = Sensitivity(Fraction(0), None)
    for x, y in pairs:
        here, there = answer(x), answer(y)
        if len(here) != len(there):
            raise Misconfigured(
                "the function returns answers of different lengths, which cannot be compared. Return one length."
            )
        moved = norm.squared(a - b for a, b in zip(here, there, strict=True))
        if best.pair is None or moved > best.squared:
            best = Sensitivity(moved, (x, y))
    return best


def _read(function: Statistic, database: Database) -> Vector:
    """The answer as a tuple of exact numbers."""
    given = function(list(database.records))
    parts = given if isinstance(given, Iterable) else (given,)
    return tuple(exact(part, "answer") for part in parts)


def require_feasible(number: int, values: int) -> None:
    """Refuses to compare too many databases with their neighbours, about one for each value."""
    if number * values > MOST_PAIRS:
        raise Misconfigured(
            f"Enumeration would compare about {number * values} pairs of databases; at most {MOST_PAIRS} are "
            "supported. Use a smaller universe, fewer records or a smaller distance."
        )
