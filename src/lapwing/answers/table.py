"""The one table that every answer is, whatever it was asked by. Formats (formats.py) are functions of it.

One rule for a value, in every format:
    missing     NULL; so is a number that is not finite, and the end of an interval that is not
    reals       float64
    integers    exact where numbers are text; in typed formats 64 bits, and larger ones end at the last one
    interval    two reals, or none; a column says why
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from fractions import Fraction
from typing import Any

import numpy as np

from lapwing.arrays import Array, Floats, objects
from lapwing.expressions.types import Type
from lapwing.numbers import exact

Box = tuple[Array, Array]
"""The ends of an interval in each row."""
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1

CHOSEN = "rows or values were chosen by this noisy number; its intervals hold for all groups together, shown or not"


@dataclass(frozen=True, slots=True, eq=False)
class AnswerColumn:
    """One column of the answer, with its interval where there is one."""

    name: str
    type: Type
    values: Array
    low: Array | None = None
    high: Array | None = None
    reason: str | None = None
    """Why the interval is missing, in all rows or in some."""
    bare: bool = False
    """Whether it was asked for without an interval."""
    chosen: bool = False
    """Whether the rows were chosen by it, so that its intervals are those of all groups together."""
    remark: str | None = None
    """What else to know of its numbers."""

    @property
    def is_key(self) -> bool:
        return self.low is None and self.reason is None and not self.bare

    @property
    def note(self) -> str:
        """What to know before its numbers are used; empty if there is nothing."""
        chosen = CHOSEN if self.chosen and self.low is not None else None
        return "; ".join(known for known in (self.remark, chosen, self.reason) if known is not None)

    def plain(self) -> list[Any]:
        """Its values as Python has them: None, bool, int, float, str, date or datetime."""
        match self.type:
            case Type.REAL:
                return reals(self.values)
            case Type.INTEGER if self.values.dtype.kind != "i":
                return [_integer(value) for value in self.values.tolist()]
            case _:
                return self.values.tolist()  # type: ignore[no-any-return]

    def typed(self) -> list[Any]:
        """The same, with integers of 64 bits."""
        values = self.plain()
        if self.type is Type.INTEGER and self.values.dtype.kind != "i":
            return [None if value is None else max(_LEAST, min(_MOST, value)) for value in values]
        return values

    def intervals(self) -> tuple[list[float | None], list[float | None]]:
        """Both ends of each interval."""
        missing = np.full(len(self.values), np.nan)
        return reals(missing if self.low is None else self.low), reals(missing if self.high is None else self.high)

    def take(self, rows: Array) -> AnswerColumn:
        """The same column with these rows only."""
        low, high = None if self.low is None else self.low[rows], None if self.high is None else self.high[rows]
        return replace(self, values=self.values[rows], low=low, high=high)


@dataclass(frozen=True, slots=True, eq=False)
class AnswerTable:
    """Columns with their intervals, and what is said beside them."""

    columns: tuple[AnswerColumn, ...]
    confidence: Fraction
    paid: str = ""
    """The exact price and the ledger entry."""
    notes: tuple[str, ...] = ()
    """What to know of the whole answer, such as what its limits leave out: in JSON, Arrow and `explain`."""
    title: str = ""
    condition: str = ""
    """Which rows count; empty if all do."""
    binned: bool = False
    """Whether a key may be followed by the ends of its bins, and a number without intervals follows from the others."""
    facts: Callable[[], dict[str, Any]] = dict
    """How the answer was made, ready for JSON; written only if it is asked for."""
    gaps: bool = False
    """Whether groups may be missing between those shown: keys were selected, or rows were chosen."""
    null_because: str = ""
    """Why all numbers are NULL, if they are: then it stands in a column of this name too."""
    price: str = ""
    """The price in the caller's words, shown below the rows."""
    warnings: tuple[str, ...] = ()
    """The notes shown below the rows: what is really cut, or why the answer is useless."""

    def __len__(self) -> int:
        return len(self.columns[0].values)

    @property
    def has_intervals(self) -> bool:
        return any(column.low is not None for column in self.columns)

    @property
    def column_notes(self) -> dict[str, str]:
        """Why an interval is missing, or what else to know, by column."""
        return {column.name: column.note for column in self.columns if column.note}

    def by_name(self, *, intervals: bool = True) -> dict[str, tuple[Type, list[Any]]]:
        """Type and values of each column; beside a number `name_low` and `name_high`, unless it was asked for bare."""
        named: dict[str, tuple[Type, list[Any]]] = {}
        names = {column.name for column in self.columns}
        for column in self.columns:
            named[column.name] = column.type, column.typed()
            if intervals and not column.is_key and not column.bare:
                for end, values in zip(("low", "high"), column.intervals(), strict=True):
                    name = fresh(f"{column.name}_{end}", names)
                    names.add(name)
                    named[name] = Type.REAL, values
        if self.null_because:
            named[fresh("null_because", names)] = Type.TEXT, [self.null_because] * len(self)
        return named

    def rows(self) -> list[dict[str, Any]]:
        """Each row by the names of its columns, with the ends of its intervals."""
        named = self.by_name()
        rows = zip(*(values for _, values in named.values()), strict=True)
        return [dict(zip(named, row, strict=True)) for row in rows]


def fresh(name: str, names: Collection[str]) -> str:
    """The name, or one like it that no column of the table has; small and capital letters are the same."""
    taken = {other.lower() for other in names}
    while name.lower() in taken:
        name += "_"
    return name


def shown_box(box: Box) -> Box:
    """The ends of intervals as they are shown: what is certainly NULL, from infinity to minus infinity, has none."""
    empty = box[0].astype(float) > box[1].astype(float)
    return np.where(empty, np.nan, box[0]), np.where(empty, np.nan, box[1])


def reals(values: Array) -> list[float | None]:
    """Numbers as float64; None for what is missing or not finite."""
    return [_real(value) for value in values.tolist()]


def _real(value: Any) -> float | None:
    try:
        number = math.nan if value is None else float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _integer(value: Any) -> int | None:
    return None if value is None or (isinstance(value, float) and not math.isfinite(value)) else int(value)


def read_table(answer: Mapping[str, Any]) -> AnswerTable:
    """The table whose JSON this is. Its facts are what else is in the JSON; integers beyond 64 bits end at the last."""
    layout = answer["layout"]
    return AnswerTable(
        tuple(_columns(answer["columns"], layout["columns"], answer["rows"], exactly=not layout["binned"])),
        exact(answer["confidence"], "confidence"),
        layout["paid"],
        tuple(answer["notes"]),
        layout["title"],
        layout["condition"],
        binned=layout["binned"],
        facts=lambda: dict(answer),
        gaps=layout["gaps"],
        null_because=answer.get("null_because", ""),
        price=layout.get("price", ""),
        warnings=tuple(layout.get("warnings", ())),
    )


def _columns(
    names: Sequence[str], layouts: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]], *, exactly: bool
) -> Iterator[AnswerColumn]:
    """Each column with the ends of its intervals, named as in `by_name`. Real keys are exact, except ends of bins."""
    taken = set(names)
    for name, layout in zip(names, layouts, strict=True):
        reason, remark, bare, chosen = (layout[key] for key in ("reason", "remark", "bare", "chosen"))
        is_key = not (bare or layout["interval"] or reason is not None)
        ends = [] if is_key or bare else [fresh(f"{name}_{end}", taken) for end in ("low", "high")]
        taken.update(ends)
        kind = Type(layout["type"])
        values = _values(kind, [row[name] for row in rows], exactly=is_key and exactly)
        low, high = (numbers([row[end] for row in rows]) for end in ends) if layout["interval"] else (None, None)
        yield AnswerColumn(name, kind, values, low, high, reason, bare, chosen, remark)


def numbers(values: Iterable[Any]) -> Floats:
    """Numbers or truths as float64, NULL as NaN."""
    return np.array([math.nan if value is None else float(value) for value in values], np.float64)


def _values(kind: Type, values: Sequence[Any], *, exactly: bool) -> Array:
    """The values as Python has them; dates and times are text in JSON."""
    match kind:
        case Type.DATE:
            return objects([date.fromisoformat(v) if isinstance(v, str) else v for v in values])
        case Type.TIMESTAMP:
            return objects([datetime.fromisoformat(v) if isinstance(v, str) else v for v in values])
        case Type.REAL if exactly:
            return objects([None if v is None else exact(v, "a key") for v in values])
        case _:
            return objects(list(values))
