"""lapwing.lab.outputs: what an audit sees of an output, and that no test run changes how another is read."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from lapwing.lab.outputs import features, lowest_bit


def test_lowest_bit_matches_exact_arithmetic() -> None:
    """threat:A3"""
    values = np.concatenate([np.random.default_rng(1).laplace(size=500), [1.0, -0.75, 2.0**60, 5e-324, 1e-310]])
    for value, found in zip(values.tolist(), lowest_bit(values), strict=True):
        scaled = Fraction(value) / Fraction(2) ** int(found)
        assert scaled.denominator == 1
        assert scaled.numerator % 2 == 1


def test_lowest_bit_of_special_values_is_zero() -> None:
    assert not lowest_bit(np.array([0.0, -0.0, np.nan, np.inf, -np.inf])).any()


@pytest.mark.parametrize(
    ("outputs", "names"),
    [
        ([1, 2, 3], {"value"}),
        ([1.0, 2.0, float("nan")], {"value", "lowest bit of value", "kind of value"}),
        ([(1, 2), (3, 4), (5, 6)], {"value[0]", "value[1]", "sum", "least", "greatest", "likelihood"}),
        ([1, 2.0, "x"], {"type", "value", "value as it is"}),
        ([{"a": 1}, {"a": 1, "b": 2}, {}], {"type", "keys", "keys in order", "value[a]", "value[b]"}),
        ([[1], [1, 2], []], {"type", "length", "value[0]", "value[1]"}),
        ([ValueError("x"), 1, 1], {"outcome", "message", "type", "value"}),
        ([None, True, b"x"], {"type", "value as it is"}),
    ],
)
def test_features_hold_values_and_structure(outputs: list[Any], names: set[str]) -> None:
    assert names <= set(features(outputs, outputs, (3, 3)).names)


@pytest.mark.parametrize("strange", [2.5, "x", ValueError("x"), (1, 2), None, 10**400, {"new": 1}])
@pytest.mark.parametrize(
    "usual", [[1, 2, 3, 4], [0.5, 1.5, 2.5, 3.5], ["a", "b", "a", "c"], [(1, 2)] * 4, [{"a": 1}] * 4]
)
def test_a_test_run_is_read_alike_whatever_the_others_are(usual: list[Any], strange: Any) -> None:
    """The proof of an audit: given the training runs, the features of a run depend on that run alone."""
    plain, other = [*usual, usual[0], usual[1]], [*usual, usual[0], strange]
    first, second = features(plain, plain, (4, 4)), features(other, plain, (4, 4))
    assert first.names == second.names
    for a, b in zip(first.left, second.left, strict=True):
        assert np.array_equal(a[:5], b[:5], equal_nan=True)


def test_an_array_and_a_list_of_its_numbers_are_read_alike() -> None:
    values = np.array([3, -1, 2], np.int64)
    for sample in (values, list(values), values.tolist()):
        assert features(sample, sample, (2, 2)).left[0].tolist() == [3.0, -1.0, 2.0]


@pytest.mark.parametrize("kind", ["u1", "i2", "i8", "f4", "f8", "?"])
def test_arrays_of_any_number_are_read_as_numbers(kind: str) -> None:
    values = np.array([1, 0, 1], kind)
    for sample in (values, list(values)):
        assert features(sample, sample, (2, 2)).left[0].tolist() == [1.0, 0.0, 1.0]


def test_empty_and_nested_outputs_have_features() -> None:
    for outputs in (np.zeros((4, 0)), np.zeros((4, 2, 2)), [[], [], [], []], [[[1]], [[2]], [[1]], [[2]]]):
        assert features(outputs, outputs, (2, 2)).names


def test_a_category_that_training_runs_did_not_show_is_one_of_its_own() -> None:
    seen = features(["a", "b", "new", "newer"], ["a", "a", "a", "a"], (2, 2))
    column = seen.left[seen.names.index("value as it is")]
    assert column.tolist() == [0.0, 1.0, 2.0, 2.0]
