"""lapwing.mechanisms.values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lapwing.errors import Misconfigured
from lapwing.mechanisms.additive.gaussian import Gaussian
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.values import saturating_sum

NOISY = [Laplace(epsilon=1, size=8), Gaussian(rho=0.5, size=8), Gaussian(epsilon=1, delta=1e-6, size=8)]


@pytest.mark.parametrize("noisy", NOISY, ids=str)
def test_values_come_back_as_what_they_were(noisy: Laplace | Gaussian) -> None:
    assert type(noisy(50)) is int
    assert type(noisy(np.int32(50))) is int
    assert type(noisy(2.5)) is float
    assert [type(v) for v in noisy([1, 2, 3])] == [int] * 3
    assert [type(v) for v in noisy([1.5, 2.0])] == [float] * 2
    assert noisy(np.zeros((2, 3), np.int16)).shape == (2, 3)
    assert noisy(np.zeros((2, 3), np.int16)).dtype == np.int64
    assert noisy(np.zeros(4, np.float32)).dtype == np.float64
    assert noisy(pa.array([1, 2, 3])).type == pa.int64()
    assert noisy(pa.chunked_array([[1.0], [2.0]])).type == pa.float64()
    assert noisy([]) == []


@pytest.mark.parametrize("bad", [True, "5", None, b"5", object(), {"a": 1}, ["x"], [True], np.array([None])])
def test_things_that_are_not_numbers_are_refused(bad: object) -> None:
    with pytest.raises(Misconfigured):
        Laplace(epsilon=1)(bad)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), [1.0, float("nan")]])
def test_values_that_are_not_finite_are_refused_without_being_shown(bad: object) -> None:
    with pytest.raises(Misconfigured, match=r"not finite") as caught:
        Laplace(epsilon=1, size=2)(bad)
    assert "nan" not in str(caught.value)


def test_arrow_nulls_are_refused() -> None:
    with pytest.raises(Misconfigured, match="nulls"):
        Laplace(epsilon=1)(pa.array([1, None]))


def test_more_reals_than_the_guarantee_covers_are_refused() -> None:
    with pytest.raises(Misconfigured, match=r"size=3"):
        Laplace(epsilon=1)([1.0, 2.0, 3.0])
    with pytest.raises(Misconfigured, match=r"size=3"):
        Gaussian(epsilon=1, delta=1e-6)([1, 2, 3])


def test_integers_of_any_size_and_sums_at_the_edge_do_not_wrap() -> None:
    """threat:A4 the sum is cut at the limits of int64, never wrapped."""
    limits = np.iinfo(np.int64)
    values = np.array([limits.max, limits.min, 0])
    assert saturating_sum(values, np.array([5, -5, 5])).tolist() == [limits.max, limits.min, 5]
    assert saturating_sum(values, np.array([-5, 5, 5])).tolist() == [limits.max - 5, limits.min + 5, 5]
    assert abs(Laplace(epsilon=1)(1 << 80) - (1 << 80)) < 1000
    assert Laplace(epsilon=1)(np.array([1 << 63], np.uint64))[0] > limits.max - 1000


def test_input_arrays_are_left_alone() -> None:
    counts = np.arange(1000)
    Laplace(epsilon=0.01)(counts)
    assert np.array_equal(counts, np.arange(1000))
