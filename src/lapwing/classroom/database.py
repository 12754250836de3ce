"""Databases as histograms, and how far one step can move a function: by trying every database over a small universe.

A database is a multiset of records: how often each element of a universe occurs, and in no order. Two databases have a
distance, and neighbours are at distance one. To protect a person with many rows, make the person the record: `units`
collects all rows of an owner into one record, so that a step adds or removes all of them at once.

The *local* sensitivity of f at x is the largest ||f(x) - f(y)|| over the neighbours y of x; the *global* sensitivity is
the largest local one; the local sensitivity *at distance k* is the largest over all databases within k steps of x.
Noise may be scaled to the global sensitivity. Scaled to the local one, it reveals where x lies:
see mechanisms/local/smooth.py.

A function takes the list of records, in a fixed order, and gives a number or a sequence of numbers. Numbers are read
exactly, a float as its shortest decimal; compute with integers or Fractions to be exact throughout.
What would take too long is refused, and the message says how many pairs would be compared.
Checked by: tests/classroom/test_database.py
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import cache
from itertools import chain, combinations_with_replacement
from math import comb, isqrt
from typing import Any, assert_never

from lapwing.errors import Misconfigured
from lapwing.numbers import count, exact
from lapwing.privacy.loss import set_fields
from lapwing.privacy.neighbours import Neighbours
from lapwing.privacy.phrases import at_most_text

Record = Hashable


@dataclass(frozen=True, slots=True, init=False)
class Database:
    """A multiset of records. Two databases are equal if they hold every record equally often."""

    histogram: frozenset[tuple[Record, int]]
    """Each record that occurs, and how often."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        counts = Counter(records)
        if None in counts:
            raise Misconfigured("a record is None, which stands for no record. Leave it out.")
        set_fields(self, histogram=frozenset(counts.items()))

    @property
    def records(self) -> tuple[Record, ...]:
        """All records in one fixed order, equal ones side by side: a database has no order of its own."""
        return tuple(chain.from_iterable([record] * times for record, times in self._sorted_records()))

    def __len__(self) -> int:
        return sum(times for _, times in self.histogram)

    def count(self, record: Record) -> int:
        """How often the record occurs."""
        return dict(self.histogram).get(record, 0)

    def distance(self, other: Database) -> int:
        """The l1 norm of the difference of the histograms: how many records to add or remove."""
        mine, theirs = Counter(dict(self.histogram)), Counter(dict(other.histogram))
        return (mine - theirs).total() + (theirs - mine).total()

    def changes(self, other: Database) -> int | None:
        """How many records to change, or None if that is impossible: a change keeps the size."""
        return self.distance(other) // 2 if len(self) == len(other) else None

    def neighbours(self, relation: Neighbours, universe: Iterable[Record]) -> Iterator[Database]:
        """Every database that one step leads to, each once."""
        values = distinct(universe)
        match relation:
            case Neighbours.ADD_OR_REMOVE:
                yield from (self._change_one(None, added) for added in values)
                yield from (self._change_one(removed, None) for removed, _ in self._sorted_records())
            case Neighbours.CHANGE_ONE:
                steps = ((old, new) for old, _ in self._sorted_records() for new in values if new != old)
                yield from (self._change_one(old, new) for old, new in steps)
            case _:
                assert_never(relation)

    def _sorted_records(self) -> list[tuple[Record, int]]:
        return sorted(self.histogram, key=lambda entry: (type(entry[0]).__name__, repr(entry[0])))

    def _change_one(self, removed: Record | None, added: Record | None) -> Database:
        """This database without the one and with the other; None means no record, and no universe holds it."""
        counts = Counter(dict(self.histogram))
        if removed is not None:
            counts[removed] -= 1
        if added is not None:
            counts[added] += 1
        neighbour = object.__new__(Database)
        set_fields(neighbour, histogram=frozenset((+counts).items()))
        return neighbour

    def __str__(self) -> str:
        return f"Database({list(self.records)})"


def databases(universe: Iterable[Record], *, up_to: int, least: int = 0) -> Iterator[Database]:
    """All databases over the universe with at least `least` and at most `up_to` records, the smallest first."""
    values = distinct(universe)
    most, fewest = count(up_to, "up_to", least=0), count(least, "least", least=0)
    sizes = (combinations_with_replacement(values, size) for size in range(fewest, most + 1))
    return (Database(records) for records in chain.from_iterable(sizes))


def number_of_databases(values: int, *, up_to: int, least: int = 0) -> int:
    """How many databases a universe of this many values has, without making them."""
    return sum(comb(values + size - 1, size) if values else int(size == 0) for size in range(least, up_to + 1))


def units(rows: Iterable[Record], *, owner: Callable[[Record], Hashable]) -> Database:
    """The rows as a database of units: one record, the tuple of all their rows, for each owner.

    Its neighbours add or remove a whole owner, however many rows that is.
    """
    owned: dict[Hashable, list[Record]] = {}
    for row in rows:
        owned.setdefault(owner(row), []).append(row)
    return Database(tuple(sorted(own, key=repr)) for own in owned.values())


def distinct(universe: Iterable[Record]) -> Sequence[Record]:
    """The values of a universe: at least one, none twice, and not None, which stands for no record."""
    values = list(universe)
    if not values or None in values or len(set(values)) != len(values):
        raise Misconfigured("`universe` must hold at least one value, none of them twice and none of them None.")
    return values


Statistic = Callable[[list[Any]], Any]

MOST_PAIRS = 1_000_000
"""The most pairs of databases that are compared."""

_ROOT_DIGITS = 18


class Norm(Enum):
    """How the difference of two answers is measured."""

    L1 = "sum of absolute differences"
    L2 = "root of the sum of squared differences"

    def squared(self, difference: Iterable[Fraction]) -> Fraction:
        """The norm, squared: a fraction in both cases."""
        if self is Norm.L1:
            return sum(map(abs, difference), Fraction(0)) ** 2
        return sum((part**2 for part in difference), Fraction(0))


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
    every = dict.fromkeys(databases(values, up_to=most, least=fewest))
    pairs = ((x, y) for x in every for y in x.neighbours(neighbours, values) if y in every)
    return _largest(pairs, function, norm)


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
    near = within(start, values, steps, neighbours)
    return _largest(((x, y) for x in near for y in x.neighbours(neighbours, values)), function, norm)


def within(start: Database, universe: Sequence[Record], steps: int, neighbours: Neighbours) -> set[Database]:
    """Every database within `steps` steps, itself included."""
    reached, border = {start}, {start}
    for _ in range(steps):
        border = {y for x in border for y in x.neighbours(neighbours, universe)} - reached
        reached |= border
        require_feasible(len(reached), len(universe))
    return reached


def _largest(pairs: Iterator[tuple[Database, Database]], function: Statistic, norm: Norm) -> Sensitivity:
    @cache
    def answer(database: Database) -> tuple[Fraction, ...]:
        result = function(list(database.records))
        return tuple(exact(part, "answer") for part in (result if isinstance(result, Iterable) else (result,)))

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


def require_feasible(number: int, values: int) -> None:
    """Refuses to compare too many databases with their neighbours, about one for each value."""
    if number * values > MOST_PAIRS:
        raise Misconfigured(
            f"Enumeration would compare about {number * values} pairs of databases; at most {MOST_PAIRS} are "
            "supported. Use a smaller universe, fewer records or a smaller distance."
        )
