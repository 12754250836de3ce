"""Which groups of a question are public: every combination of its keys' values, or those that public tables allow.

Columns of one public table vary together: of 16 airlines the code and the name make 16 groups, not 256. So do columns
of public tables that are joined to each other, and the private column that a join compares with a public one.

Guarantee:  the groups are a function of the question, of declared facts and of public rows.
Proof:      only joins, declared values (domain.py) and the rows of public tables are read, which the catalog holds. A
            private row whose keys are none of these groups is dropped (plan/group_order.py), so it adds nothing.
Complete:   a joined row has the values of one public row, equal to its own in the compared columns; an outer join
            also keeps it with NULL in all of them. By induction over the joins, no group that can occur is missing,
            except where a private column has a value that is not declared.
Checked by: tests/plan/test_public_groups.py
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from lapwing.engines.public_values import Emit, calculate
from lapwing.expressions.derived import Joined, PerUnit
from lapwing.expressions.expression import Call, Column, Expression, walk
from lapwing.expressions.table import Table
from lapwing.expressions.to_sqlglot import emit, whole
from lapwing.expressions.types import Value
from lapwing.plan.domain import domain_of

MOST_JOINT = 10_000
"""The most combinations of values that are listed for keys that vary together."""

_MOST_WORK = 3_000_000  # combinations times the parts of the keys

_Row = tuple[Value, ...]
_Held = dict[str, Value]
"""Values of columns, by their names."""


@dataclass(frozen=True, slots=True)
class PublicGroups:
    """What is public about the groups of a question."""

    values: tuple[_Row | None, ...]
    """The values of each key in their order; None where they are not public."""
    count: int | None
    """How many groups there are; None if a key is not public."""
    parts: tuple[tuple[tuple[int, ...], tuple[_Row, ...]], ...] = ()
    """Keys that vary together, by their places, and the combinations of their values; none if each varies alone."""

    def codes(self) -> tuple[int, ...] | None:
        """The places of the values as the digits of one number for each group, ascending; None for all of them."""
        if self.count is None or not self.parts:
            return None
        sizes = [len(values or ()) for values in self.values]
        weights = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
        digits = [{value: weights[at] * i for i, value in enumerate(own or ())} for at, own in enumerate(self.values)]
        parts = [
            [sum(digits[i][value] for i, value in zip(keys, row, strict=True)) for row in rows]
            for keys, rows in self.parts
        ]
        return tuple(sorted(map(sum, product(*parts))))


def public_groups(keys: Sequence[Expression], table: Table) -> PublicGroups:
    """The public groups of these keys over a table."""
    values: list[_Row | None] = [domain_of(key, table) for key in keys]
    parts = []
    for places in () if table.source is None else _related(keys, table):
        rows = _combinations([keys[i] for i in places], table)
        if rows is not None:
            for i, column in zip(places, zip(*rows, strict=True), strict=True):
                values[i] = _ordered(set(column), values[i])
        known = values[places[0]]
        parts.append((places, rows if rows is not None else tuple((value,) for value in known or ())))
    sizes = [len(own) for own in values if own is not None]
    every = math.prod(sizes) if len(sizes) == len(values) else None
    count = every if every is None or not parts else math.prod(len(rows) for _, rows in parts)
    return PublicGroups(tuple(values), count, () if count == every else tuple(parts))


def _related(keys: Sequence[Expression], table: Table) -> list[tuple[int, ...]]:
    """The places of the keys, together where their columns vary together."""
    found: list[tuple[int, ...]] = []
    for i in range(len(keys)):
        for at, places in enumerate(found):
            if _combinations([keys[j] for j in (*places, i)], table) is not None:
                found[at] = (*places, i)
                break
        else:
            found.append((i,))
    return found


def _columns(keys: Iterable[Expression]) -> list[str]:
    return list(dict.fromkeys(part.name for key in keys for part in walk(key) if isinstance(part, Column)))


def _ordered(values: set[Value], order: _Row | None) -> _Row:
    """In this order, then ascending, NULL last."""
    first = tuple(value for value in order or () if value in values)
    rest = values.difference(first, (None,))
    return (*first, *sorted(rest), *({None} & values.difference(first)))  # type: ignore[type-var]


def _combinations(keys: Sequence[Expression], table: Table) -> tuple[_Row, ...] | None:
    """What keys can be together; None if it is not public, or too much to list."""
    rows = _joint(_columns(keys), table)
    if rows is None or len(rows) * sum(key.size for key in keys if isinstance(key, Call)) > _MOST_WORK:
        return None
    found = tuple(dict.fromkeys(_computed(keys, rows, table, whole)))
    return found if 0 < len(found) <= MOST_JOINT else None


def _computed(expressions: Sequence[Expression], rows: Sequence[_Held], table: Table, form: Emit) -> list[_Row]:
    """The values of expressions, row by row."""
    names = _columns(expressions)
    held = {name: [row[name] for row in rows] for name in names}
    found = calculate(expressions, held, {name: table.field(name).type for name in names}, len(rows), form)
    return list(zip(*(column.to_pylist() for column in found), strict=True))


def _joint(names: Sequence[str], table: Table) -> list[_Held] | None:
    """What these columns can hold together; None unless public rows decide it."""
    match table.source:
        case Joined(left=left, right=right) as source if names:
            theirs = table.fields[len(left.fields) : len(left.fields) + len(right.fields)]
            outside = {ours.name: field.name for ours, field in zip(theirs, right.fields, strict=True)}
            mine = [name for name in names if any(field.name == name for field in left.fields)]
            yours = {name: outside[name] for name in names if name in outside}
            if len(mine) + len(yours) < len(names) or (source.by_unit and mine and yours):
                return None
            if not source.by_unit:
                return _matched(mine, yours, source)
            rows = _renamed(None if mine else _joint(list(yours.values()), right), yours)
            return _joint(mine, left) if mine else _with_null(rows, names) if source.outer else rows
        case PerUnit(table=inner, keys=keys) if names:
            own = zip(table.fields[1 : len(keys) + 1], keys, strict=True)
            below = {field.name: key.name for field, key in own if isinstance(key, Column) and field.name in names}
            return _renamed(_joint(list(below.values()), inner), below) if len(below) == len(names) else None
        case _:
            return None


def _renamed(rows: list[_Held] | None, names: Mapping[str, str]) -> list[_Held] | None:
    return None if rows is None else [{new: row[old] for new, old in names.items()} for row in rows]


def _with_null(rows: list[_Held] | None, names: Sequence[str]) -> list[_Held] | None:
    return None if rows is None else [*rows, dict.fromkeys(names)]


def _matched(mine: list[str], yours: Mapping[str, str], source: Joined) -> list[_Held] | None:
    """What columns of the left table and of a public one can hold together, over a join of the two."""
    left, stored = source.left, source.right.rows or {}
    equal = {
        a.name: b.name for a, b in source.on if isinstance(a, Column) and isinstance(b, Column) and a.type is b.type
    }
    equal = {a: b for a, b in equal.items() if b in stored}
    inside = equal.keys() >= set(mine)
    if not yours and (source.outer or not inside):
        return _joint(mine, left)
    if not stored.keys() >= set(yours.values()):
        return None
    partners, certain = _partners(source, equal.values())
    certain = certain and len(equal) == len(source.on)
    nothing: _Held = dict.fromkeys(yours)
    if inside:
        known = {name: domain_of(Column(name, left.field(name).type), left) for name in mine}
        met = [{**{a: row[equal[a]] for a in mine}, **{a: row[b] for a, b in yours.items()}} for row in partners]
        met = [row for row in met if all(own is None or row[name] in own for name, own in known.items())]
        if not source.outer:
            return met
        lefts = _joint(mine, left) or _independent(known)
        seen = [tuple(row[name] for name in mine) for row in met] if certain and len(mine) == len(equal) else []
        never = set(seen)
        return (
            None
            if lefts is None
            else met + [{**row, **nothing} for row in lefts if tuple(row[name] for name in mine) not in never]
        )
    lefts = _joint(list(dict.fromkeys((*mine, *equal))), left) if certain else None
    if lefts is None:
        return None
    index = {tuple(row[b] for b in equal.values()): {a: row[b] for a, b in yours.items()} for row in partners}
    pairs = [(row, index.get(tuple(row[a] for a in equal))) for row in lefts]
    held = [({name: row[name] for name in mine}, found) for row, found in pairs]
    return [{**row, **(found or nothing)} for row, found in held if found is not None or source.outer]


def _partners(source: Joined, compared: Iterable[str]) -> tuple[list[_Held], bool]:
    """The public rows that private rows can match, and whether just these can be."""
    stored = source.right.rows or {}
    columns = list(compared)
    rows = [dict(zip(stored, row, strict=True)) for row in zip(*stored.values(), strict=True)]
    rows = [row for row in rows if all(row[name] is not None for name in columns)]
    if source.right_where is None:
        return rows, True
    if not stored.keys() >= set(_columns([source.right_where])):
        return rows, False
    met = _computed([source.right_where], rows, source.right, emit)
    return [row for row, (holds,) in zip(rows, met, strict=True) if holds], True


def _independent(known: Mapping[str, _Row | None]) -> list[_Held] | None:
    """Every combination of the values of these columns; None if they are not public, or too many."""
    values = [own for own in known.values() if own is not None]
    if len(values) < len(known) or math.prod(map(len, values)) > MOST_JOINT:
        return None
    return [dict(zip(known, row, strict=True)) for row in product(*values)]
