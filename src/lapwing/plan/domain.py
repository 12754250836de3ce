"""Which values a key may take, and which groups a question has, where that is public.

A column may hold its declared values; the truth values and NULL; the whole numbers between its bounds and NULL; or
the dates of a public range (date_ranges.py); one that only WHERE gives counts if the key is not public without it.
A key of such columns is computed for all their values, up to 100,000 combinations, by the operators that the engine
runs: no listed value is impossible, and no possible one is missing. Parts over other columns may be known by
themselves: a condition is true, false or NULL, MONTH(d) is 1 to 12 or NULL. Beyond that a key has the whole numbers of
its interval, the branches of its CASE, or values that are not public.

NULL is listed if the key can be NULL. Declared values hold NULL only if it is declared: what a missing value gives is
listed, as 'none' in COALESCE(sex, 'none'), but NULL itself is not.

The groups are every combination of the keys' values, or those that public tables allow: columns of one public table
vary together, so that 16 airlines have 16 groups by code and name, not 256. So do columns of public tables that are
joined to each other, and the private column that a join compares with a public one.

Guarantee:  values and groups are functions of the question, of declared facts and of public rows.
Proof:      a list of values is computed from the key, the types, bounds and values of the catalog and constants, by a
            calculator that has no rows (engines/public_values.py); groups also from joins and the rows of public
            tables, which the catalog holds. A private row whose keys are none of these values or groups is dropped
            (query.py, add_noise.py), so it adds nothing, to the list either.
Complete:   a joined row has the values of one public row, equal to its own in the compared columns; an outer join
            also keeps it with NULL in all of them. By induction over the joins, no group that can occur is missing,
            except where a private column has a value that is not declared.
Checked by: tests/plan/test_domain.py, tests/plan/test_public_groups.py
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import product

from lapwing.engines.public_values import Emit, calculate
from lapwing.expressions.derived import Joined, PerUnit
from lapwing.expressions.expression import Call, Column, Expression, Literal, walk
from lapwing.expressions.operators.base import MOST_TEXT
from lapwing.expressions.operators.buckets import WIDTH_BUCKET
from lapwing.expressions.operators.table import bounds_of
from lapwing.expressions.table import Table
from lapwing.expressions.to_sqlglot import emit, whole
from lapwing.expressions.types import Type, Value
from lapwing.plan.date_ranges import is_date, range_of, tried_dates

MOST_RANGE = 1_000
"""The most whole numbers between bounds, and the most values computed from them, that are listed as keys."""
MOST_TRIED = 100_000
"""The most combinations of values that a key is computed for."""

BRANCHES: dict[str, Callable[[tuple[Expression, ...]], tuple[Expression, ...]]] = {
    "case": lambda arguments: (*arguments[1:-1:2], arguments[-1]),
    "coalesce": lambda arguments: arguments,
}
"""Operators whose result is one of these arguments. CASE has condition, value, condition, value, ..., and else."""

_NEVER_NULL = ("is null", "is distinct from")
_NULL_IF_ANY = ("=", "<>", "<", "<=", ">", ">=", "in", "not", "and", "or", "truth", "truth_text")
_NULL_IF_ALL = ("coalesce", "least", "greatest")
_MOST_WORK = 30_000_000  # combinations times the parts and characters of the key, so that no plan takes long
_MOST_BRANCHES = 100  # that are computed one by one
_SHORT = 30  # characters of a number or a date as text
_EXACT = 1 << 53  # whole numbers up to here are exact in float64


@dataclass(frozen=True, slots=True)
class _Values:
    """What a part of a key may be, without NULL."""

    known: Sequence[Value]
    null: bool
    """Whether it may be NULL."""
    missing: bool
    """Whether it is NULL where a column lacks its value, though the steward did not declare NULL."""
    listed: bool = False
    """Whether they are written somewhere, so that each is meant: declared values, truth values, buckets."""

    @property
    def many(self) -> int:
        return len(self.known) + (self.null or self.missing)

    @property
    def tried(self) -> tuple[Value, ...]:
        return (*self.known, None) if self.null or self.missing else tuple(self.known)


_Parts = Mapping[Expression, _Values]
"""The parts that a key is computed from."""


def domain_of(key: Expression, table: Table, where: Expression | None = None) -> tuple[Value, ...] | None:
    """The values of a key in a fixed order, NULL last, or None if they are not public."""
    tried = tried_dates(key, table, where, MOST_TRIED)
    ranges = {part: _Values(dates, null, null) for part, (dates, null) in tried.items()}
    declared = {part: values for part, values in ranges.items() if range_of(part, table, None) is not None}
    values = _listed(key, table, where, declared)
    return values if values is not None or len(declared) == len(ranges) else _listed(key, table, where, ranges)


def _listed(key: Expression, table: Table, where: Expression | None, ranges: _Parts) -> tuple[Value, ...] | None:
    """The values, given those of its dates."""
    match key:
        case Literal(value=value):
            return (value,)
        case Column(name=name) if values := table.field(name).values:
            return values
    parts = _parts(key, table, ranges)
    if parts is not None and key not in parts:
        return _sort(key, _computed(key, parts), parts)
    if isinstance(key, Call) and key.operator.name in BRANCHES and (found := _branches(key, table, where)):
        return found
    own = None if parts is None else parts[key]
    if own is None or (len(own.known) > MOST_RANGE and not own.listed):
        return None
    return (*own.known, None) if own.null else tuple(own.known)


def _parts(expression: Expression, table: Table, ranges: _Parts) -> _Parts | None:
    """What an expression is computed from: its columns, or coarser parts where these take too many values."""
    if is_date(expression) and expression in ranges:
        return {expression: ranges[expression]}
    match expression:
        case Literal():
            return {}
        case Column():
            own = _column(expression, table)
            return None if own is None else {expression: own}
        case Call(arguments=arguments):
            fine = [_parts(argument, table, ranges) for argument in arguments]
            rough = [_alone(argument, table) or parts for argument, parts in zip(arguments, fine, strict=True)]
            for parts in (_joined(fine), _joined(rough)):
                if parts is not None and _fits(expression, parts):
                    return parts
            return _alone(expression, table)
        case _:
            return None


def _joined(many: Sequence[_Parts | None]) -> _Parts | None:
    known = [parts for parts in many if parts is not None]
    return {part: values for parts in known for part, values in parts.items()} if len(known) == len(many) else None


def _alone(expression: Expression, table: Table) -> _Parts | None:
    """The expression as a part by itself, if it may be one."""
    own = _own(expression, table)
    return None if own is None else {expression: own}


def _fits(key: Call, parts: _Parts) -> bool:
    """Whether the key can be computed for every combination."""
    many = math.prod(values.many for values in parts.values())
    return 0 < many <= MOST_TRIED and many * (key.size + _length(key, parts)) <= _MOST_WORK


def _length(expression: Expression, parts: _Parts) -> int:
    match expression:
        case Literal(value=str() as text):
            return len(text)
        case Column() if expression.type is Type.TEXT:
            return max((len(str(value)) for value in parts[expression].known), default=0)
        case Call(arguments=arguments) if expression.type is Type.TEXT:
            return min(MOST_TEXT, _SHORT + sum(_length(argument, parts) for argument in arguments))
        case _:
            return 0


def _column(column: Column, table: Table) -> _Values | None:
    """The values of a column, where they are public."""
    declared = table.field(column.name).values
    if declared:
        null = None in declared
        return _Values([value for value in declared if value is not None], null, not null, listed=True)
    return _own(column, table)


def _own(expression: Expression, table: Table) -> _Values | None:
    """What is known of an expression by itself: a condition, a bucket, or whole numbers in an interval."""
    if isinstance(expression, Literal) or (isinstance(expression, Column) and table.field(expression.name).values):
        return None
    null = _declared_null(expression, table)
    missing = _may_be_null(expression, lambda _: True)
    if expression.type is Type.BOOLEAN:
        return _Values((False, True), null, missing, listed=True)
    if isinstance(expression, Call) and expression.operator == WIDTH_BUCKET:
        return _Values(range(len(expression.arguments)), null, missing, listed=True)
    bounds = bounds_of(expression) if expression.type is Type.INTEGER else None
    if bounds is None:
        return None
    low, high = math.ceil(bounds.low), math.floor(bounds.high)
    exact = isinstance(expression, Column) or max(-low, high) <= _EXACT
    return _Values(range(low, high + 1), null, missing) if exact and high - low < MOST_TRIED else None


def _declared_null(expression: Expression, table: Table) -> bool:
    """Whether an expression can be NULL where columns hold declared values only."""
    return _may_be_null(expression, lambda column: None in (table.field(column.name).values or (None,)))


def _may_be_null(expression: Expression, column: Callable[[Column], bool]) -> bool:
    """Whether an expression can be NULL. Operators that nothing is known of can."""
    match expression:
        case Literal(value=value):
            return value is None
        case Column():
            return column(expression)
        case Call(operator=operator, arguments=arguments):
            if operator.name in _NEVER_NULL:
                return False
            if operator.name == "case":
                return any(_may_be_null(branch, column) for branch in BRANCHES["case"](arguments))
            if operator.name in _NULL_IF_ALL:
                return all(_may_be_null(argument, column) for argument in arguments)
            simple = operator.name in _NULL_IF_ANY and all(a.type is not Type.REAL for a in arguments)
            return not simple or any(_may_be_null(argument, column) for argument in arguments)
        case _:
            return True


def _computed(key: Expression, parts: _Parts) -> tuple[Value, ...]:
    """Every value of the key over the combinations of its parts, in their order; NULL if declared values give it."""
    places = {part: Column(f"v{i}", part.type or Type.TEXT) for i, part in enumerate(parts)}
    held = tuple((values.tried, values.missing and not values.null) for values in parts.values())
    return _image(_replaced(key, places), tuple(places.values()), held)


@lru_cache(maxsize=64)
def _image(
    key: Expression, columns: tuple[Column, ...], held: tuple[tuple[tuple[Value, ...], bool], ...]
) -> tuple[Value, ...]:
    """Every value of the key. `held` has for each column the values that are tried, and whether the last is NULL
    though it was not declared."""
    rows = list(product(*(tried for tried, _ in held)))
    tried = zip(*rows, strict=True)
    stored = {column.name: list(map(_stored, values)) for column, values in zip(columns, tried, strict=True)}
    (found,) = calculate([key], stored, {column.name: column.type for column in columns}, len(rows), whole)
    undeclared = [i for i, (_, missing) in enumerate(held) if missing]
    values = found.to_pylist()
    null = any(
        value is None and all(row[i] is not None for i in undeclared) for value, row in zip(values, rows, strict=True)
    )
    kept = tuple(dict.fromkeys(value for value in values if value is not None))
    return (*kept, None) if null else kept


def _replaced(expression: Expression, places: Mapping[Expression, Column]) -> Expression:
    """The expression over columns that stand for its parts."""
    if expression in places:
        return places[expression]
    if isinstance(expression, Call):
        return replace(expression, arguments=tuple(_replaced(argument, places) for argument in expression.arguments))
    return expression


def _stored(value: Value) -> Value | float:
    return float(value) if isinstance(value, Fraction) else value


def _sort(key: Expression, values: tuple[Value, ...], parts: _Parts) -> tuple[Value, ...] | None:
    """As the branches of a CASE are written, else as values were declared, else ascending; None if they are many."""
    if len(values) - (None in values) > MOST_RANGE and not all(part.listed for part in parts.values()):
        return None
    if isinstance(key, Call) and key.operator.name in BRANCHES:
        written = [b.value for b in BRANCHES[key.operator.name](key.arguments) if isinstance(b, Literal)]
        first = [value for value in dict.fromkeys(written) if value is not None and value in values]
        return tuple(dict.fromkeys((*first, *values))) if key.operator.name == "case" else values
    if any(part.listed for part in parts.values()) and key.type is not Type.BOOLEAN:
        return values
    known = sorted(value for value in values if value is not None)
    return (*known, None) if None in values else tuple(known)


def _branches(key: Call, table: Table, where: Expression | None) -> tuple[Value, ...] | None:
    """All that the branches may be; NULL last."""
    branches = BRANCHES[key.operator.name](key.arguments)
    if sum(not isinstance(branch, Literal) for branch in branches) > _MOST_BRANCHES:
        return None
    found: dict[Value, None] = {}
    for branch in branches:
        values = domain_of(branch, table, where)
        if values is None:
            return None
        found |= dict.fromkeys(value for value in values if value is not None)
    null = _declared_null(key, table)
    return (*found, None) if null else tuple(found)


MOST_JOINT = 10_000
"""The most combinations of values that are listed for keys that vary together."""

_MOST_GROUP_WORK = 3_000_000  # combinations times the parts of the keys

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


def public_groups(keys: Sequence[Expression], table: Table, where: Expression | None = None) -> PublicGroups:
    """The public groups of these keys over the rows of a table for which a condition holds."""
    values: list[_Row | None] = [domain_of(key, table, where) for key in keys]
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
    if rows is None or len(rows) * sum(key.size for key in keys if isinstance(key, Call)) > _MOST_GROUP_WORK:
        return None
    found = tuple(dict.fromkeys(_compute_rows(keys, rows, table, whole)))
    return found if 0 < len(found) <= MOST_JOINT else None


def _compute_rows(expressions: Sequence[Expression], rows: Sequence[_Held], table: Table, form: Emit) -> list[_Row]:
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
    met = _compute_rows([source.right_where], rows, source.right, emit)
    return [row for row, (holds,) in zip(rows, met, strict=True) if holds], True


def _independent(known: Mapping[str, _Row | None]) -> list[_Held] | None:
    """Every combination of the values of these columns; None if they are not public, or too many."""
    values = [own for own in known.values() if own is not None]
    if len(values) < len(known) or math.prod(map(len, values)) > MOST_JOINT:
        return None
    return [dict(zip(known, row, strict=True)) for row in product(*values)]
