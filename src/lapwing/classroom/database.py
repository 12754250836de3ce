"""Databases as histograms: the objects in the definition of differential privacy.

A database is a multiset of records: how often each element of a universe occurs, and in no order. Two databases have a
distance, and neighbours are at distance one. To protect a person with many rows, make the person the record: `units`
collects all rows of an owner into one record, so that a step adds or removes all of them at once.

Everything here is small and exact, for definitions, proofs by enumeration and tests; not for real tables.
Checked by: tests/classroom/test_database.py
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations_with_replacement
from math import comb
from typing import assert_never

from lapwing.errors import Misconfigured
from lapwing.numbers import count
from lapwing.privacy.neighbours import Neighbours

Record = Hashable


@dataclass(frozen=True, slots=True, init=False)
class Database:
    """A multiset of records. Two databases are equal if they hold every record equally often."""

    histogram: frozenset[tuple[Record, int]]
    """Each record that occurs, and how often."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        _set_histogram(self, _count_records(records))

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
        moved = object.__new__(Database)
        _set_histogram(moved, +counts)
        return moved

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


def _count_records(records: Iterable[Record]) -> Counter[Record]:
    counts = Counter(records)
    if None in counts:
        raise Misconfigured("a record is None, which stands for no record. Leave it out.")
    return counts


def _set_histogram(database: Database, counts: Counter[Record]) -> None:
    object.__setattr__(database, "histogram", frozenset(counts.items()))
