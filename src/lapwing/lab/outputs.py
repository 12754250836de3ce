"""Features of outputs and of their structure, and the event that most clearly breaks the claim.

Every output becomes numbers, one for each feature: its value, each coordinate or key, the lowest bit of a float,
whether it is NaN or an error, its type, its length, which keys it has and in which order. A feature of one run depends
on that run and on the training runs only, never on other test runs, as the proofs in audit.py need: the training runs
decide whether outputs are numbers, and number the categories; what they have not shown is a category of its own.
Checked by: tests/lab/test_outputs.py
"""

from __future__ import annotations

import copy
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from lapwing.arrays import Array, Flags, Floats, Integers
from lapwing.errors import Misconfigured

BINS = 64
_MOST_CELLS = 4 * BINS
_MOST_COORDINATES = 200  # beyond, only joint features are looked at
_CLEAR = 3.0  # standard errors beyond which an event is taken for a violation
_CAUTION = 2.5
_LEAST = 1e-12

_NUMBERS = (int, float, np.integer, np.floating, np.bool_)

Outputs = Array | Sequence[Any]
"""One output for each run: an array (of numbers, or with one row of numbers for each run), or a list of anything."""
Training = tuple[int, int]
"""How many runs of either sample, from the first, an event may be chosen by."""


@dataclass(frozen=True, slots=True)
class Features:
    """For each feature its name, a column of numbers for each of the two samples, and its categories if it has any."""

    names: list[str]
    left: list[Floats]
    right: list[Floats]
    categories: list[tuple[str, ...]]


class _Form(NamedTuple):
    """The form of all training outputs: numbers of this type, or rows of them of a fixed length in this container."""

    container: type | None
    length: int | None
    number: type

    @property
    def real(self) -> bool:
        return issubclass(self.number, float | np.floating)


def features(left: Outputs, right: Outputs, training: Training) -> Features:
    forms = _forms(left, training[0]) | _forms(right, training[1])
    form = forms.pop() if len(forms) == 1 else None
    categories: dict[str, tuple[str, ...]] = {}
    if form is not None:
        samples = _numeric(_as_numbers(left, form), form), _numeric(_as_numbers(right, form), form)
    else:
        rows = [[describe(output) for output in sample] for sample in (left, right)]
        samples, categories = _tabulated(rows[0], rows[1], training)
    coordinates = [name for name in samples[0] if name.startswith("value[")]
    if len(coordinates) > 1:
        columns = [[sample[name] for name in coordinates] for sample in samples]
        samples[0]["likelihood"], samples[1]["likelihood"] = _likelihood(columns[0], columns[1], training)
    names = [name for name in samples[0] if len(coordinates) <= _MOST_COORDINATES or not name.startswith("value[")]
    left_columns, right_columns = ([sample[name] for name in names] for sample in samples)
    return Features(names, left_columns, right_columns, [categories.get(name, ()) for name in names])


def _forms(sample: Outputs, training: int) -> set[_Form | None]:
    """The forms of the training runs: that of an array, else that of each output; None if it is no number."""
    if isinstance(sample, np.ndarray) and sample.dtype.kind in "biuf" and sample.ndim <= 2 and sample.size:
        number = sample.dtype.type
        return {_Form(None, None, number) if sample.ndim == 1 else _Form(np.ndarray, sample.shape[1], number)}
    return {_form(output) for output in sample[:training]}


def _form(output: Any) -> _Form | None:
    kind: Any = type(output)
    if issubclass(kind, _NUMBERS):
        return _Form(None, None, kind)
    container = np.ndarray if isinstance(output, np.ndarray) else kind
    if isinstance(output, np.ndarray) and not output.ndim:  # a number in an array
        return _Form(container, None, output.dtype.type) if output.dtype.kind in "biuf" else None
    if isinstance(output, list | tuple) or (isinstance(output, np.ndarray) and output.ndim == 1):
        kinds: set[Any] = set(map(type, output))
        if len(kinds) == 1 and issubclass(number := kinds.pop(), _NUMBERS):
            return _Form(container, len(output), number)
    return None


def _as_numbers(sample: Outputs, form: _Form) -> Floats:
    """One row of floats for each output; NaN for an output of another form, which only a test run can have."""
    if isinstance(sample, np.ndarray) and _forms(sample, 0) == {form}:
        return sample.astype(np.float64)
    other: Any = float("nan") if form.length is None else [float("nan")] * form.length
    return np.array([_floats(output) if _form(output) == form else other for output in sample], np.float64)


def _floats(output: Any) -> Any:
    return [_float(part) for part in output] if _is_row(output) else _float(output)


def _is_row(output: Any) -> bool:
    return isinstance(output, list | tuple) or (isinstance(output, np.ndarray) and output.ndim > 0)


def _float(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:  # an int beyond all doubles
        return float("inf") if number > 0 else float("-inf")


def lowest_bit(values: Array) -> Floats:
    """The exponent of the lowest set bit of each double; 0 for zero, NaN and infinities."""
    doubles = np.asarray(values, dtype=np.float64)
    plain = np.isfinite(doubles) & (doubles != 0)
    mantissa, exponent = np.frexp(np.where(plain, np.abs(doubles), 1.0))
    digits = (mantissa * 2.0**53).astype(np.int64)
    lowest = np.frexp((digits & -digits).astype(np.float64))[1] - 1
    return np.where(plain, exponent - 53 + lowest, 0).astype(np.float64)


def edges_of(training: Floats) -> Floats:
    """Upper ends of cells: all values if they are few, else quantiles."""
    numbers = np.sort(training[~np.isnan(training)])
    distinct = np.unique(numbers)
    if len(distinct) <= _MOST_CELLS:
        return distinct
    return np.unique(numbers[np.linspace(0, len(numbers) - 1, BINS + 1).astype(np.int64)])


def cell_of(values: Floats, edges: Floats) -> Integers:
    """Cell i is (edges[i-1], edges[i]]; above the last edge comes one more cell, and after it NaN."""
    return np.where(np.isnan(values), len(edges) + 1, np.searchsorted(edges, values, side="left"))


def counts_of(values: Floats, edges: Floats) -> Integers:
    return np.bincount(cell_of(values, edges), minlength=len(edges) + 2)


def describe(output: Any) -> dict[str, float | Hashable]:
    """The features of one output: numbers, and categories as text or tuples."""
    if isinstance(output, BaseException):
        return {"outcome": f"raised {type(output).__qualname__}", "message": str(output)}
    features: dict[str, float | Hashable] = {"type": type(output).__name__}
    if isinstance(output, Mapping):
        features |= {"keys in order": tuple(map(str, output)), "keys": tuple(sorted(map(str, output)))}
        parts: Iterable[tuple[Any, Any]] = output.items()
    elif _is_row(output):
        features["length"] = float(len(output))
        parts = enumerate(output)
    else:
        return features | _of_scalar("value", output[()] if isinstance(output, np.ndarray) else output)
    for key, part in parts:
        features |= _of_scalar(f"value[{key}]", part)
    return features


def _numeric(sample: Floats, form: _Form) -> dict[str, Floats]:
    """Every column; of rows also what shows joint events. NaN and infinities are values."""
    if form.length is None:
        return _of_column("value", sample, form.real)
    features: dict[str, Floats] = {}
    for i, column in enumerate(sample.T):
        features |= _of_column(f"value[{i}]", column, form.real)
    joint = {"sum": sample.sum(axis=1), "least": sample.min(axis=1), "greatest": sample.max(axis=1)}
    return features | joint | {"first minus last": sample[:, 0] - sample[:, -1]}


def _of_column(name: str, column: Floats, real: bool) -> dict[str, Floats]:
    features = {name: column}
    if real:
        features[f"lowest bit of {name}"] = lowest_bit(column)
        features[f"kind of {name}"] = np.isnan(column) * 1.0 + np.isposinf(column) * 2.0 + np.isneginf(column) * 3.0
    return features


def _of_scalar(name: str, part: Any) -> dict[str, float | Hashable]:
    if isinstance(part, int | np.integer) and not isinstance(part, bool):
        return {name: _float(part)}
    if isinstance(part, float | np.floating):
        kind = "NaN" if part != part else "infinite" if abs(part) == float("inf") else "finite"
        bit = float(lowest_bit(np.array([part]))[0])
        return {name: float(part), f"lowest bit of {name}": bit, f"kind of {name}": kind}
    return {f"{name} as it is": repr(part)}


def _tabulated(
    left: list[dict[str, float | Hashable]], right: list[dict[str, float | Hashable]], training: Training
) -> tuple[tuple[dict[str, Floats], dict[str, Floats]], dict[str, tuple[str, ...]]]:
    """One column for each feature that the training runs show. A run without the feature has NaN there."""
    seen = [*left[: training[0]], *right[: training[1]]]
    tables: tuple[dict[str, Floats], dict[str, Floats]] = ({}, {})
    categories: dict[str, tuple[str, ...]] = {}
    for name in dict.fromkeys(name for row in seen for name in row):
        codes: dict[Hashable, float] = {}
        for row in seen:
            if name in row and not isinstance(row[name], float):
                codes.setdefault(row[name], float(len(codes)))
        for rows, columns in zip((left, right), tables, strict=True):
            columns[name] = np.array([_code(row.get(name), codes) for row in rows], np.float64)
        categories[name] = tuple(map(str, codes))
    return tables, categories


def _code(value: float | Hashable, codes: dict[Hashable, float]) -> float:
    """A number as it is; the number of a category; NaN for a missing feature; beyond all numbers for a new category."""
    if isinstance(value, float):
        return value
    return float("nan") if value is None else codes.get(value, float(len(codes)))


def _likelihood(left: list[Floats], right: list[Floats], training: Training) -> tuple[Floats, Floats]:
    """The log likelihood ratio of a row as if its coordinates were independent: the best event if they are.

    Fitted on half of the training runs, so that the other half can tell how good it is.
    """
    half_left, half_right = training[0] // 2, training[1] // 2
    score_left, score_right = np.zeros(len(left[0])), np.zeros(len(right[0]))
    for a, b in zip(left, right, strict=True):
        edges = edges_of(np.concatenate([a[:half_left], b[:half_right]]))
        ratio = np.log((counts_of(a[:half_left], edges) + 0.5) / (counts_of(b[:half_right], edges) + 0.5))
        score_left += ratio[cell_of(a, edges)]
        score_right += ratio[cell_of(b, edges)]
    return score_left, score_right


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """A union of cells of one feature."""

    feature: int
    edges: Floats
    cells: Flags
    merit: float

    def holds(self, column: Floats) -> Flags:
        return np.asarray(self.cells[cell_of(column, self.edges)])

    def describe(self, name: str, categories: tuple[str, ...] = ()) -> str:
        if categories and len(categories) <= len(self.edges):
            codes = [int(edge) for edge, held in zip(self.edges, self.cells[:-2], strict=True) if held]
            listed = [categories[code] for code in codes if code < len(categories)]
            words = listed[:4] + ["..."] * (len(listed) > 4) + ["anything else"] * bool(self.cells[-2])
            return f"{name} is {' or '.join(words + ['missing'] * bool(self.cells[-1]))}"
        ends = np.concatenate([[-np.inf], self.edges, [np.inf]])
        cuts = np.flatnonzero(np.diff(self.cells[:-1].astype(np.int8), prepend=0, append=0))
        pieces = [f"({ends[a]:.6g}, {ends[b]:.6g}]" for a, b in zip(cuts[::2], cuts[1::2], strict=True)]
        shown = pieces[:4] + ["..."] * (len(pieces) > 4) + ["NaN or missing"] * bool(self.cells[-1])
        return f"{name} in {' or '.join(shown)}"


def choose_event(
    likely: list[Floats], rare: list[Floats], training: tuple[int, int], point: tuple[float, float]
) -> Event:
    """The most promising event over all features: one that clearly breaks the claim, else the one that shows most."""
    columns = enumerate(zip(likely, rare, strict=True))
    best = [_best_events(i, a[: training[0]], b[: training[1]], *point) for i, (a, b) in columns]
    clear = max((clear for clear, _ in best), key=attrgetter("merit"))
    high = max((high for _, high in best), key=attrgetter("merit"))
    return clear if clear.merit > _CLEAR else high


def _best_events(feature: int, likely: Floats, rare: Floats, epsilon: float, delta: float) -> tuple[Event, Event]:
    """Of the cells by likelihood ratio, two prefixes.

    The first most clearly breaks P_likely <= e^epsilon P_rare + delta, in standard errors; it finds violations. The
    second promises the highest bound on epsilon, foreseen a few standard errors off; it is for claims that hold.
    """
    edges = edges_of(np.concatenate([likely, rare]))
    often, seldom = counts_of(likely, edges), counts_of(rare, edges)
    m0, m1 = max(len(likely), 1), max(len(rare), 1)
    order = np.argsort(-(often + 0.5) / (seldom + 0.5), kind="stable")
    p0, p1 = np.cumsum(often[order]) / m0, np.cumsum(seldom[order]) / m1
    off0, off1 = np.sqrt(p0 * (1 - p0) / m0), np.sqrt(np.maximum(p1 * (1 - p1), 1 / m1) / m1)
    factor = math.exp(epsilon)
    clear = (p0 - delta - factor * p1) / np.sqrt(off0**2 + factor**2 * off1**2)
    low = np.maximum(p0 - _CAUTION * np.maximum(off0, 1 / m0) - delta, _LEAST)
    high = np.log(low / np.minimum(p1 + _CAUTION * off1, 1)) - epsilon

    def prefix(merit: Floats) -> Event:
        last = int(np.argmax(merit))
        cells = np.zeros(len(edges) + 2, dtype=np.bool_)
        cells[order[: last + 1]] = True
        return Event(feature, edges, cells, float(merit[last]))

    return prefix(clear), prefix(high)


def read_pair(neighbours: Any) -> tuple[Any, Any]:
    try:
        left, right = neighbours
    except (TypeError, ValueError):
        raise Misconfigured("`neighbours` must be a pair: the data with one unit and without it.") from None
    return left, right


def same(left: Any, right: Any) -> bool:
    """Equal in type and value; 1, 1.0 and True are three values, and so are two orders of keys."""
    if type(left) is not type(right):
        return False
    if isinstance(left, BaseException):
        return str(left) == str(right)
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and left.shape == right.shape and same(left.tolist(), right.tolist())
    if isinstance(left, float | np.floating):
        return repr(left) == repr(right)
    if hasattr(left, "equals"):
        return bool(left.equals(right))
    equal = left == right
    return equal if isinstance(equal, bool) else repr(left) == repr(right)


def keep(result: Any) -> Any:
    """A copy, so that a function that fills and returns one buffer cannot change what it returned before."""
    failed = isinstance(result, BaseException)
    try:
        copied = copy.deepcopy(result)
    except Exception:  # noqa: BLE001 (any class may refuse to be copied)
        if failed:
            return result
        raise Misconfigured(
            f"the function returned a {type(result).__name__}, which cannot be copied. "
            "Return numbers, text, arrays, or lists and dicts of them."
        ) from None
    return result if failed and not same(copied, result) else copied
