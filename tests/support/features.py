"""What the auditor looks at: the output itself, and the structure that floats, errors and types give away."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

BINS = 64

Floats = NDArray[np.float64]


def lowbit_exp(values: NDArray[Any]) -> Floats:
    """The exponent of the lowest set bit of each double; 0 for zero, NaN and infinities. [threat:A3]"""
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
    if len(distinct) <= 4 * BINS:
        return distinct
    return np.unique(numbers[np.linspace(0, len(numbers) - 1, BINS + 1).astype(np.int64)])


def cell_of(values: Floats, edges: Floats) -> NDArray[np.int64]:
    """Cell i is (edges[i-1], edges[i]]; above the last edge comes one more cell, and after it NaN."""
    cells = np.searchsorted(edges, values, side="left")
    return np.where(np.isnan(values), len(edges) + 1, cells)


def counts_of(values: Floats, edges: Floats) -> NDArray[np.int64]:
    """How many values each cell holds."""
    return np.bincount(cell_of(values, edges), minlength=len(edges) + 2)


def features(
    sample0: NDArray[Any] | Sequence[Hashable], sample1: NDArray[Any] | Sequence[Hashable], training: tuple[int, int]
) -> tuple[list[str], list[Floats], list[Floats]]:
    """Names, and for each sample one array of numbers per name.

    Each number is a function of its own run, given the first `training` runs of either sample.
    """
    if not (isinstance(sample0, np.ndarray) and isinstance(sample1, np.ndarray) and sample0.dtype.kind in "biuf"):
        return _categorical(list(sample0), list(sample1))
    if sample0.dtype != sample1.dtype or sample0.shape[1:] != sample1.shape[1:]:
        raise ValueError("the samples differ in type or shape; that alone tells the neighbours apart.")
    found0, found1 = _numeric(sample0), _numeric(sample1)
    coordinates = [name for name in found0 if name.startswith("value[")]
    if coordinates:
        found0["likelihood"], found1["likelihood"] = _likelihood(
            [found0[name] for name in coordinates], [found1[name] for name in coordinates], training
        )
    return list(found0), list(found0.values()), list(found1.values())


def _numeric(sample: NDArray[Any]) -> dict[str, Floats]:
    """Every column; of rows also what shows joint events. NaN and infinities are values."""
    if sample.ndim == 1:
        return _of_column("value", sample)
    found: dict[str, Floats] = {}
    for i, column in enumerate(sample.T):
        found |= _of_column(f"value[{i}]", column)
    whole = sample.astype(np.float64)
    return found | {
        "sum": whole.sum(axis=1),
        "least": whole.min(axis=1),
        "greatest": whole.max(axis=1),
        "first minus last": whole[:, 0] - whole[:, -1],
    }


def _likelihood(columns0: list[Floats], columns1: list[Floats], training: tuple[int, int]) -> tuple[Floats, Floats]:
    """The log likelihood ratio of a row as if its coordinates were independent: the best event if they are.

    Fitted on half of the training runs, so that the other half can tell how good it is.
    """
    half0, half1 = training[0] // 2, training[1] // 2
    score0, score1 = np.zeros(len(columns0[0])), np.zeros(len(columns1[0]))
    for a, b in zip(columns0, columns1, strict=True):
        edges = edges_of(np.concatenate([a[:half0], b[:half1]]))
        ratio = np.log((counts_of(a[:half0], edges) + 0.5) / (counts_of(b[:half1], edges) + 0.5))
        score0 += ratio[cell_of(a, edges)]
        score1 += ratio[cell_of(b, edges)]
    return score0, score1


def _of_column(name: str, column: NDArray[Any]) -> dict[str, Floats]:
    found = {name: column.astype(np.float64)}
    if column.dtype.kind == "f":
        found[f"lowbit_exp({name})"] = lowbit_exp(column)
        found[f"kind({name})"] = np.isnan(column) * 1.0 + np.isposinf(column) * 2.0 + np.isneginf(column) * 3.0
    return found


def _categorical(
    sample0: Sequence[Hashable], sample1: Sequence[Hashable]
) -> tuple[list[str], list[Floats], list[Floats]]:
    """The outcome, its type, and its value where it is a number; outcomes and types are numbered as they come."""
    outcomes: dict[Hashable, int] = {}
    types: dict[type, int] = {}

    def columns(sample: Sequence[Hashable]) -> list[Floats]:
        named = [_named(outcome) for outcome in sample]
        numbers = np.array([_number(outcome) for outcome in sample], dtype=np.float64)
        return [
            np.array([outcomes.setdefault(name, len(outcomes)) for name in named], dtype=np.float64),
            np.array([types.setdefault(type(outcome), len(types)) for outcome in sample], dtype=np.float64),
            numbers,
            lowbit_exp(numbers),
        ]

    return ["outcome", "type", "value", "lowbit_exp(value)"], columns(sample0), columns(sample1)


def _named(outcome: Hashable) -> Hashable:
    """An exception as its class, NaN as one outcome, and 1, 1.0 and True as three."""
    if isinstance(outcome, BaseException):
        return type(outcome).__qualname__, "raised"
    return (type(outcome), outcome) if outcome == outcome else "NaN"


def _number(outcome: Hashable) -> float:
    return float(outcome) if isinstance(outcome, int | float | np.number) else float("nan")
