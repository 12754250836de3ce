"""The terms of a question, once: names, types, defaults and meanings.

Methods of a curator and of a connection, HTTP bodies, options of the command line and of notebooks are made from this
list. A new term is a line here, and its meaning in curator/pricing.py or curator/request.py.
Checked by: tests/test_terms.py
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from fractions import Fraction
from typing import Any, Literal, TypedDict, TypeVar, get_type_hints

from lapwing.errors import Misconfigured

_F = TypeVar("_F", bound=Callable[..., Any])

Number = int | float | Fraction | Decimal
"""What a caller may write as a number; a float is read as its shortest decimal."""

STEWARD = "steward"
"""The analyst if none is named."""
SEARCH_SHARE = 0.35
"""The share of the price for all searches together, unless it is named."""

Params = Mapping[str, Any] | Sequence[Any]
"""The values of $name by name, or of each ? in order."""
ColumnBounds = Mapping[str, Sequence[Number]]
"""The lower and the upper bound of columns, by name."""
Within = Number | Mapping[str, Number]
"""A half-width for every number of the answer, or one for each by its name."""


@dataclass(frozen=True, slots=True)
class TermInfo:
    """What a term means, and how it is written on the command line."""

    help: str
    default: Any = None
    flags: tuple[str, ...] = ()
    """Its options, if they are not `--` and its name."""
    turned_off: str = ""
    """What the option says that turns it off, if it is on by default."""

    @property
    def option_help(self) -> str:
        return self.turned_off or self.help


TERMS: Mapping[str, TermInfo] = {
    "within": TermInfo("The largest error of counts and sums: 50, or n=50,total=1000.", None, ("--within", "-w")),
    "share": TermInfo("The part of the whole budget to pay, such as 0.05.", None, ("--share", "-s")),
    "epsilon": TermInfo("The price to pay, such as 0.1.", None, ("--epsilon", "-e")),
    "params": TermInfo("Values of $name in the question, such as age=40.", None, ("--param",)),
    "delta": TermInfo("How much delta private key selection may spend."),
    "weights": TermInfo("The weight of each question, in order."),
    "ways": TermInfo("The most columns that are counted together.", 2),
    "table": TermInfo("The table, if there are several."),
    "where": TermInfo("Which rows count: a condition in SQL, without the word WHERE."),
    "cells": TermInfo("Into how many cells to cut the bounds of a column."),
    "confidence": TermInfo("The confidence of intervals, such as 0.95."),
    "assume_rows": TermInfo("The least rows per group, to estimate errors of means."),
    "intervals": TermInfo(
        "Whether quantiles have intervals, which take half of their price.",
        True,
        ("--no-intervals",),
        "Return quantiles without intervals, with less error at the same price.",
    ),
    "rows": TermInfo("At most how many rows of a unit count in a group, in place of rows_per_unit."),
    "groups": TermInfo("In at most how many groups a unit counts, in place of groups_per_unit."),
    "bounds": TermInfo('Bounds of columns, such as cost=0:500; "auto" finds missing ones privately.'),
    "limits": TermInfo('"auto" finds limits per unit privately.'),
    "find_share": TermInfo("The share of the price spent on finding bounds and limits.", SEARCH_SHARE),
    "check": TermInfo("Share of the price that reports how many units exceed limits; 0 skips it."),
    "refresh": TermInfo("Pay for a new answer even if one is stored.", False),
    "combine": TermInfo("Combine the new answer of `refresh` with the stored ones.", False),
    "anyway": TermInfo("Ask even if the answer carries no information.", False),
    "analyst": TermInfo("Name of the analyst.", STEWARD, ("--as",)),
    "key": TermInfo("Make a retry safe: the same key never pays twice."),
}
"""In the order in which signatures and help show them."""


class _Priced(TypedDict, total=False):
    rows: int | None
    groups: int | None
    epsilon: Number | None
    share: Number | None
    confidence: Number | None
    check: Number | None


class _Again(TypedDict, total=False):
    refresh: bool


class _Sql(TypedDict, total=False):
    params: Params | None
    delta: Number | None
    anyway: bool


class _Keyed(TypedDict, total=False):
    key: str | None


class _Paid(_Keyed, total=False):
    analyst: str


class PreviewTerms(_Priced, _Again, _Sql, total=False):
    """Of the preview of a question."""

    within: Within | None
    assume_rows: int | None
    intervals: bool
    bounds: Literal["auto"] | ColumnBounds | None
    limits: Literal["auto"] | None
    find_share: Number


class QuestionTerms(PreviewTerms, total=False):
    """Of a question, in Python and over HTTP."""

    combine: bool


class AskTerms(QuestionTerms, _Paid, total=False):
    """Of a question to a curator."""


class RemoteAskTerms(QuestionTerms, _Keyed, total=False):
    """Of a question to a server."""


class BatchTerms(_Priced, _Again, _Sql, total=False):
    """Of several questions, and of their preview."""

    weights: Sequence[Number] | Mapping[str, Number] | None
    bounds: ColumnBounds | None


class AskBatchTerms(BatchTerms, _Paid, total=False):
    """Of a batch to a curator."""


class RemoteBatchTerms(BatchTerms, _Keyed, total=False):
    """Of a batch to a server."""


class _Cells(_Priced, total=False):
    table: str | None
    where: str | None
    bounds: ColumnBounds | None


class PreviewDistributionTerms(_Cells, total=False):
    """Of the preview of a distribution."""

    cells: int | None


class DistributionTerms(PreviewDistributionTerms, _Again, total=False):
    """Of a distribution, in Python and over HTTP."""


class AskDistributionTerms(DistributionTerms, _Paid, total=False):
    """Of a distribution that a curator answers."""


class RemoteDistributionTerms(DistributionTerms, _Keyed, total=False):
    """Of a distribution that a server answers."""


class PreviewMarginalsTerms(_Cells, total=False):
    """Of the preview of marginals."""

    ways: int
    cells: int | Mapping[str, int] | None


class MarginalsTerms(PreviewMarginalsTerms, _Again, total=False):
    """Of marginals, in Python and over HTTP."""


class AskMarginalsTerms(MarginalsTerms, _Paid, total=False):
    """Of marginals that a curator answers."""


class RemoteMarginalsTerms(MarginalsTerms, _Keyed, total=False):
    """Of marginals that a server answers."""


def names_of(kind: Any) -> list[str]:
    """The terms of a kind, in their order."""
    known = kind.__annotations__
    return [name for name in TERMS if name in known]


def types_of(kind: Any) -> dict[str, Any]:
    """The terms of a kind with their types, in their order."""
    types = get_type_hints(kind)
    return {name: types[name] for name in names_of(kind)}


def takes(kind: Any) -> Callable[[_F], _F]:
    """Shows the terms of a function that takes them as keywords: in its signature, in help() and in completion."""

    def shown(function: _F) -> _F:
        signature = inspect.signature(function)
        own = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
        terms = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=TERMS[name].default, annotation=words)
            for name in names_of(kind)
            for words in [getattr(kind.__annotations__[name], "__forward_arg__", kind.__annotations__[name])]
        ]
        function.__signature__ = signature.replace(parameters=[*own, *terms])  # type: ignore[attr-defined]
        return function

    return shown


def check_names(kind: Any, given: Mapping[str, Any]) -> None:
    """Raises TypeError for a keyword that is no term of a kind, as Python does."""
    for name in given:
        if name not in kind.__annotations__:
            near = get_close_matches(name, names_of(kind), 1)
            hint = f" Did you mean `{near[0]}`?" if near else f" Terms are: {', '.join(names_of(kind))}."
            raise TypeError(f"unexpected keyword argument {name!r}.{hint} Nothing was charged.")


def read_decimal(text: str) -> Decimal:
    """A number as it was written; raises ValueError."""
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError(f"{text!r} is not a number") from None


def takes_bounds(kind: Any) -> bool:
    """Whether a term of this type takes bounds by column."""
    return kind in (ColumnBounds | None, Literal["auto"] | ColumnBounds | None)


def read_term(kind: Any, text: str | Sequence[str]) -> Any:
    """The value of a term of this type that was written as text; raises ValueError."""
    if not isinstance(text, str):
        pairs = [part.partition("=") for part in text]
        if any(not (name and equals) for name, equals, _ in pairs):
            raise Misconfigured("`--param` must be a name and a value, --param age=40. Nothing was charged.")
        return {name: value for name, _, value in pairs}
    if takes_bounds(kind) and text != "auto":
        pairs = [part.rpartition("=") for part in text.split(",")]
        return {name.strip(): tuple(map(read_decimal, ends.split(":"))) for name, _, ends in pairs}
    if kind == Within | None and "=" in text:
        pairs = [part.partition("=") for part in text.split(",")]
        return {name.strip(): read_decimal(value.strip()) for name, _, value in pairs}
    if kind in (Within | None, Number | None, Number):
        return read_decimal(text)
    return text
