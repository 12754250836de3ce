"""An array where a number belongs is told in one sentence, in every numeric parameter of the public surface.

The surface is not listed here: it is what the public modules export. A new callable needs its other arguments in GOOD.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lapwing as lw
from lapwing.curator import Curator
from lapwing.noise import SYSTEM

NUMBER = re.compile(r"(Number|Within|int|float|bool)( \| (Number|str|int|None|Within))*")
P, Q = [0.5, 0.5], [0.4, 0.6]
GOOD: dict[str, Any] = {
    "accounting": "pure", "algorithm": lambda _: {0: 1}, "alphabet": "ab", "amount": 1, "answers": (0, 1), "at": [0.5],
    "bounds": (0, 100), "budget": lw.Budget(epsilon=2), "by": 1, "canaries": 10, "cap": 10, "cells": 4, "column": "x",
    "columns": ["x"], "data": pa.table({"x": [1, 2]}), "database": [0], "delta": 1e-6, "distance": 1,
    "edges": [0, 1, 2], "epsilon": 0.5, "first": 0, "forever": 1, "function": sum,
    "groups": 10, "horizon": 8, "k": 2, "keys_per_unit": 2,
    "last": 10, "losses": [lw.privacy.PrivacyLoss.laplace(scale=1)], "mechanism": lambda given: given, "mechanisms": [],
    "neighbours": (0, 1), "order": 2, "p": P, "prior": 0.5, "proposed": 1, "q": Q, "queries": 10,
    "question": "SELECT COUNT(*) AS n FROM t", "questions": ["SELECT COUNT(*) AS n FROM t"], "reports": 10, "rho": 1,
    "score": abs, "size": 4, "sizes": (2, 3), "step": 1, "stop": 0.5, "t": 1, "threshold": 10, "unit": None,
    "universe": [0, 1], "up_to": 1, "values": ["a", "b"], "x_bounds": (0, 1), "y_bounds": (0, 1), "runs": 2000,
}  # fmt: skip
EACH: dict[str, dict[str, Any]] = {
    "laplace_or_gaussian": {"values": 10},
    "Sparse": {"answers": 2},
    "GeometricSparse": {"answers": 2},
    "Quantile": {"at": 0.5},
    "watch": {"answers": 1},
    "audit": {"neighbours": (np.zeros(1), np.ones(1))},
    "audit_outputs": {"left": [0] * 100, "right": [1] * 100, "claim": lw.lab.Claim(((1.0, 0.0),), "epsilon = 1")},
    "replay": {"function": lambda data: lw.Laplace(epsilon=1)(data)},
    "GridQuantiles": {"epsilon": 1}, "NumericSparse": {"answers": 2, "epsilon": 1},
    "compose_fixed": {"step": 0.5},
    "sql": {"bounds": None}, "ask": {"bounds": None}, "preview": {"bounds": None},
    "open": {"bounds": {"x": (0, 1)}, "values": None, "edges": None, "ledger": ":memory:", "name": "t"},
    "SmoothMedian": {"delta": 0}, "SmoothSensitivity": {"delta": 0},
    "BestOf": {"mechanisms": [lw.Laplace(epsilon=1)]},
    "PanelDevices": {"panel": lw.collect.choose_panel(epochs=4, epsilon=1), "bits": SYSTEM},
}  # fmt: skip
INSTEAD = {"rho", "share", "within", "mu"}
"""What may be named instead of epsilon."""
LATER = {"width"}
"""Read when it is used: how many random bits decide, which tests alone choose."""


class Tensor:
    """As torch has them: it compares and adds by element, and has no truth."""

    def __eq__(self, other: object) -> Any:
        return self

    __lt__ = __le__ = __gt__ = __ge__ = __add__ = __mul__ = __eq__  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")

    def __float__(self) -> float:
        raise TypeError("only one element tensors can be converted to Python scalars")

    __int__ = __index__ = __float__  # type: ignore[assignment]


BAD = [
    np.array([1.0, 2.0]),
    np.array([1, 2]),
    np.array([1]),
    np.array([]),
    np.eye(2),
    np.array(1.5),
    [1, 2],
    (1,),
    Tensor(),
]


def curator() -> Curator:
    facts = {"bounds": {"x": (0, 3)}, "types": {"x": "integer"}, "values": {"y": ["a"]}}
    frame = pa.table({"x": [1, 2], "y": ["a", "b"]})
    return lw.open(frame, name="t", unit=None, budget=lw.Budget(epsilon=10**6), ledger=":memory:", **facts)


def surface() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Everything public that takes a number."""
    modules: list[ModuleType] = [lw.mechanisms, lw.privacy, lw.classroom, lw.collect, lw.lab]
    for module in modules:
        for name in module.__all__:
            made = getattr(module, name)
            if callable(made) and numeric(made) and not is_record(made) and not inspect.isabstract(made):
                yield name, made
    yield "open", lw.open
    asked = curator()
    for name, _ in inspect.getmembers(Curator, inspect.isfunction):
        if not name.startswith("_") and numeric(getattr(asked, name)):
            yield name, getattr(asked, name)


def is_record(made: Any) -> bool:
    """What is given back, and made by nobody else: a class whose fields are its only parameters."""
    return is_dataclass(made) and made.__init__.__code__.co_filename == "<string>"


def numeric(made: Callable[..., Any]) -> list[str]:
    try:
        parameters = inspect.signature(made).parameters
    except ValueError:
        return []
    return [name for name, one in parameters.items() if NUMBER.fullmatch(str(one.annotation))]


def arguments(name: str, made: Callable[..., Any], bad: str) -> dict[str, Any]:
    """The other arguments: those that are required, and a price."""
    parameters, known = inspect.signature(made).parameters, EACH.get(name, {})
    required = {one for one, parameter in parameters.items() if parameter.default is inspect.Parameter.empty}
    price = {"epsilon"} & {*parameters} if bad not in INSTEAD and "rho" not in required else set()
    return {one: known.get(one, GOOD.get(one)) for one in required | price | {*known} if one != bad}


SURFACE = dict(surface())


@pytest.mark.parametrize("name", SURFACE)
def test_an_array_for_a_number_is_refused_in_one_sentence(name: str) -> None:
    made = SURFACE[name]
    for parameter in set(numeric(made)) - LATER:
        good = arguments(name, made, parameter)
        for bad in BAD:
            with pytest.raises(lw.LapwingError) as told:
                made(**good, **{parameter: bad})
            assert not isinstance(told.value, lw.Bug)
            assert "\n" not in str(told.value)
            assert len(str(told.value)) < 400


def test_the_surface_is_that_of_the_package() -> None:
    assert len(SURFACE) > 60
    assert {"Laplace", "Budget", "open", "sql", "watch", "refute", "audit", "choose"} <= SURFACE.keys()


@pytest.mark.parametrize(
    "facts",
    [
        {"values": {"x": np.array(1)}}, {"edges": {"x": np.array(1)}}, {"version": np.array([1, 2])},
        {"ledger": np.array([1, 2])}, {"public": np.array([1, 2])}, {"bounds": {"x": np.array([1, 2])}},
        {"values": {"x": 1}}, {"rows_per_unit": {"t": np.array([1, 2])}},
    ],
)  # fmt: skip
def test_an_array_for_another_fact_is_refused_in_one_sentence(facts: dict[str, Any]) -> None:
    with pytest.raises(lw.Misconfigured):
        lw.open(pa.table({"x": [1]}), **{"unit": None, "budget": lw.Budget(epsilon=1), "name": "t"} | facts)


@pytest.mark.parametrize("word", ["bounds", "limits"])
def test_an_array_for_a_word_is_refused_in_one_sentence(word: str) -> None:
    with pytest.raises(lw.Misconfigured, match='must be "auto" here'):
        curator().sql("SELECT COUNT(*) AS n FROM t", epsilon=1, **{word: np.array([1, 2])})


def test_an_array_for_a_table_is_refused_in_one_sentence() -> None:
    with pytest.raises(lw.Refused, match="there is no such table"):
        curator().table(np.array([1, 2]))  # type: ignore[arg-type]
