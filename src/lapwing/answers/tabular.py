"""Every output format of a released table, at any confidence, and of the answers of a batch; free."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from html import escape
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from lapwing.answers import formats
from lapwing.answers.formats import FORMATS, Explanation, dump, price, show, small
from lapwing.answers.table import AnswerColumn, AnswerTable
from lapwing.errors import Misconfigured
from lapwing.expressions.refusal import nearest
from lapwing.numbers import Number, inside_unit
from lapwing.privacy.budget import Cost
from lapwing.privacy.phrases import percent

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa


@dataclass(frozen=True, slots=True, repr=False)
class Estimate:
    """A noisy number, or a cell chosen by noisy numbers, with its interval."""

    value: Any
    low: Any
    high: Any
    confidence: Fraction
    notes: tuple[str, ...] = ()
    """What to know of the answer it was taken from, such as what its limits leave out."""
    warnings: tuple[str, ...] = ()
    """The notes that are shown: what is really cut."""

    def to_dict(self) -> dict[str, Any]:
        own = {"value": self.value, "low": self.low, "high": self.high}
        return {**own, "confidence": float(self.confidence), "notes": list(self.notes)}

    def to_json(self) -> str:
        return dump(self.to_dict())

    def __float__(self) -> float:
        return float(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __str__(self) -> str:
        ends = f"{show(self.low)} to {show(self.high)}, {percent(self.confidence)} confidence"
        return "\n".join([f"{show(self.value)} ({'no interval' if self.low is None else ends})", *self.warnings])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        number, *notes = str(self).split("\n")
        return f"<p>{escape(number)}</p>{small(notes)}"


class Tabular(ABC):
    """A released table. Whatever is done with it costs nothing more."""

    __slots__ = ()

    confidence: Fraction

    @abstractmethod
    def table(self, confidence: Number | None = None, *, simultaneous: bool = False) -> AnswerTable:
        """The answer with intervals at this confidence, per number or for all rows of a column together."""

    @property
    def columns(self) -> tuple[AnswerColumn, ...]:
        return self.table().columns

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know of the whole answer, such as what its limits leave out."""
        return self.table().notes

    @property
    def column_notes(self) -> dict[str, str]:
        """Why an interval is missing, or what else to know, by column."""
        return self.table().column_notes

    def explain(self) -> Explanation:
        """The exact price, what limits leave out, notes of columns and the method."""
        return formats.explain(self.table())

    def to(self, name: str) -> Any:
        """The answer in the format of this name."""
        if name not in FORMATS:
            raise Misconfigured(f"There is no format {name!r}. {nearest(str(name), list(FORMATS))}")
        return FORMATS[name](self.table())

    @property
    def value(self) -> Estimate:
        """The number of an answer with one row and one number, with its interval and notes; `float()` reads it."""
        names = [column.name for column in self.columns if not column.is_key]
        if len(names) != 1:
            instead = f"answer.scalar({names[0]!r})" if names else f"answer[{self.columns[0].name!r}]"
            raise Misconfigured(f"`.value` is for one number, and this answer has {len(names)}. Write {instead}.")
        return self.scalar(names[0])

    def scalar(self, name: str) -> Estimate:
        """The number of this name in an answer with one row, with its interval and notes; `float()` reads it."""
        table = self.table()
        named = {column.name: column for column in table.columns if not column.is_key}
        if name not in named:
            raise Misconfigured(f"The answer has no number {name!r}. {nearest(str(name), list(named))}")
        if len(table) != 1:
            why = f"`{name}` is not one number: this answer has {len(table):,} rows."
            raise Misconfigured(f"{why} Write answer[{name!r}], or go through its rows: for row in answer.")
        column = named[name]
        (value,), ((low,), (high,)) = column.plain(), column.intervals()
        notes = tuple(filter(None, (*table.notes, column.note)))
        return Estimate(value, low, high, table.confidence, notes, table.warnings)

    def to_objects(self, kind: Callable[..., T]) -> list[T]:
        """Each row as an object, such as a dataclass, of the columns that its parameters name: `n` and `n_low`."""
        names = list(signature(kind).parameters)
        return [kind(**dict(zip(names, row, strict=True))) for row in zip(*map(self.__getitem__, names), strict=True)]

    def to_arrow(self, *, intervals: bool = True) -> pa.Table:
        """With `name_low` and `name_high` beside each number; `intervals=False` leaves them out."""
        return formats.to_arrow(self.table(), intervals=intervals)

    def intervals(self, confidence: Number | None = None, *, simultaneous: bool = False) -> pa.Table:
        """With `name_low` and `name_high` beside each number, unless it was asked for without an interval."""
        return formats.to_arrow(self.table(confidence, simultaneous=simultaneous))

    def to_pandas(self, *, intervals: bool = True) -> pd.DataFrame:
        return formats.to_pandas(self.table(), intervals=intervals)

    def to_polars(self, *, intervals: bool = True) -> pl.DataFrame:
        return formats.to_polars(self.table(), intervals=intervals)

    @overload
    def to_csv(self, *, sheet: bool = False) -> str: ...
    @overload
    def to_csv(self, path: str | Path, *, sheet: bool = False) -> None: ...
    def to_csv(self, path: str | Path | None = None, *, sheet: bool = False) -> str | None:
        """The answer with intervals as CSV: text, or a file if a path is given.

        With `sheet=True` texts that a spreadsheet would run, which begin with = + - @, get a leading apostrophe.
        """
        if path is None:
            return formats.to_csv(self.table(), sheet=sheet)
        formats.write_csv(self.table(), Path(path), sheet=sheet)
        return None

    def to_dict(self) -> dict[str, Any]:
        """Rows with intervals, and how they were made, ready for JSON."""
        return formats.to_dict(self.table())

    def to_json(self) -> str:
        return dump(self.to_dict())

    def plot(self, path: str | Path | None = None) -> Any:
        """A picture with intervals: bars, or lines over dates and numbers. Saved if a path is given (.png, .svg)."""
        return formats.plot(self.table(), path)

    def __getitem__(self, name: str) -> list[Any]:
        """The values of a column, such as `n` or `n_low`, a value for each row; what limits cut is in `notes`."""
        named = self.table().by_name()
        if name not in named:
            raise Misconfigured(f"The answer has no column {name!r}. {nearest(str(name), list(named))}")
        return named[name][1]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.table().rows())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The answer with intervals for whatever reads Arrow: polars, DuckDB, pandas.DataFrame.from_arrow."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return len(self.table())

    def __str__(self) -> str:
        return formats.to_text(self.table())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return formats.to_html(self.table())

    def _level(self, confidence: Number | None) -> Fraction:
        return self.confidence if confidence is None else inside_unit(confidence, "confidence")


class AnyRelease(Tabular):
    """The paid answer to a question, computed or not, of a curator or a server: the public `lapwing.Release`."""

    __slots__ = ()

    cost: Cost
    """What this answer cost now; 0 if it was stored."""
    entry: int
    """The number of its entry in the ledger, the newest if it has several; 0 if it has none."""

    @abstractmethod
    def methods(self) -> str:
        """A sentence to put into a paper."""


def paid(cost: Cost, *entries: int) -> str:
    """The exact price and ledger entries; public keys alone have no entry."""
    if not any(entries):
        return "as declared, no price"
    where = f"ledger {'entry' if len(entries) == 1 else 'entries'} {', '.join(map(str, entries))}"
    return f"{f'price {cost}' if cost else 'stored answer, no price'}; {where}"


def price_line(cost: Cost, bought: str, *, declared: bool) -> str:
    """The price below the rows, in the caller's words."""
    if declared or not cost:
        return "as declared, no price" if declared else "stored answer, no price"
    return bought if bought.startswith("within") else f"price {bought or cost}"


T = TypeVar("T")
Item = TypeVar("Item", bound=Tabular)


class Together(Generic[Item]):
    """Answers in the order of their questions."""

    __slots__ = ()

    names: tuple[str, ...]
    releases: tuple[Item, ...]
    cost: Cost
    """What all of them cost together; 0 if all were stored."""
    bought: str

    def __len__(self) -> int:
        return len(self.releases)

    def __iter__(self) -> Iterator[Item]:
        return iter(self.releases)

    def __getitem__(self, key: int | str) -> Item:
        if isinstance(key, str):
            if key not in self.names:
                raise Misconfigured(f"`{key}` is not a question of this batch. {nearest(key, self.names)}")
            return self.releases[self.names.index(key)]
        if not -len(self) <= key < len(self):
            raise Misconfigured(f"This batch has {len(self)} answers. Count from 0 to {len(self) - 1}.")
        return self.releases[key]

    def to_dict(self) -> dict[str, Any]:
        """Every answer by its name, ready for JSON."""
        answers = {name: release.to_dict() for name, release in self._items()}
        return {"price": price(self.cost), "in_words": self._footer(), "answers": answers}

    def to_json(self) -> str:
        return dump(self.to_dict())

    def explain(self) -> Explanation:
        """The exact price, what limits leave out and the method, of each answer."""
        return Explanation("\n\n".join(f"{name}\n{release.explain()}" for name, release in self._items()))

    def __str__(self) -> str:
        return "\n\n".join([*(f"{name}\n{release}" for name, release in self._items()), self._footer()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        shown = [f"<h4>{escape(name)}</h4>{release._repr_html_()}" for name, release in self._items()]
        return "".join([*shown, small([self._footer()])])

    def _items(self) -> Iterator[tuple[str, Item]]:
        return zip(self.names, self.releases, strict=True)

    def _footer(self) -> str:
        price = f"price {self.bought or self.cost}" if self.cost else "stored answers, no price"
        return f"{len(self)} answer{'' if len(self) == 1 else 's'}; {price}"
