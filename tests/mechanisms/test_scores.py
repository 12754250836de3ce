"""lapwing.mechanisms.scores, and what all mechanisms that choose share."""

from __future__ import annotations

import math
import pickle
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lapwing.errors import Misconfigured
from lapwing.mechanisms.choice.exponential import Exponential, PermuteAndFlip
from lapwing.mechanisms.choice.noisy_max import NoisyMax
from lapwing.mechanisms.scores import at_least, gaps, read, shares, times, weights
from lapwing.numbers import ball, enclose
from lapwing.privacy.neighbours import Neighbours

Mechanism = type[Exponential] | type[PermuteAndFlip] | type[NoisyMax]
EACH = pytest.mark.parametrize("mechanism", [Exponential, PermuteAndFlip, NoisyMax])
BAD_NUMBERS = [math.nan, math.inf, -math.inf, -1, 0, True, "1", None, 1j]
SECRET = 987654321


def expected_gaps(values: Sequence[Any]) -> list[Fraction]:
    """The definition: shortest decimals, exact differences."""
    scores = [Fraction(repr(v)) if isinstance(v, float) else Fraction(v) for v in values]
    return [max(scores) - score for score in scores]


def found_gaps(values: object) -> list[Fraction]:
    exponents, unit = gaps(values)
    assert exponents.dtype in (np.int64, object)
    return [int(e) * unit for e in exponents]


numbers = st.one_of(
    st.integers(-(10**25), 10**25),
    st.floats(allow_nan=False, allow_infinity=False),
    st.fractions(max_denominator=10**6),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9),
)


@given(st.lists(numbers, min_size=1, max_size=8))
def test_gaps_are_exact_for_all_kinds_of_numbers(values: list[Any]) -> None:
    assert found_gaps(values) == expected_gaps(values)


@given(st.lists(st.decimals(min_value=-(10**7), max_value=10**7, places=7), min_size=1, max_size=100))
def test_gaps_of_short_decimals_take_the_fast_way_to_the_same_numbers(values: list[Decimal]) -> None:
    floats = np.array([float(value) for value in values])
    assert gaps(floats)[0].dtype == np.int64
    assert found_gaps(floats) == expected_gaps(values)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=100))
def test_gaps_of_any_floats_are_those_of_their_shortest_decimals(values: list[float]) -> None:
    assert found_gaps(np.array(values)) == expected_gaps(values)


def test_a_late_long_float_is_not_overlooked() -> None:
    values = [0.25] * 1000 + [0.1 + 0.2]
    assert found_gaps(np.array(values)) == expected_gaps(values)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=8))
def test_gaps_of_int64_do_not_overflow(values: list[int]) -> None:
    assert found_gaps(np.array(values, np.int64)) == expected_gaps(values)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
def test_gaps_span_the_whole_range_of_an_integer_type(dtype: type[np.integer[Any]]) -> None:
    ends = [int(np.iinfo(dtype).min), 1, int(np.iinfo(dtype).max)]
    assert found_gaps(np.array(ends, dtype)) == expected_gaps(ends)


def test_smaller_floats_are_read_as_they_print() -> None:
    assert found_gaps(np.array([0.1, 0.3], np.float32)) == [Fraction(1, 5), 0]


def test_arrow_arrays_are_read() -> None:
    assert found_gaps(pa.array([3, 1, 2])) == [0, 2, 1]
    assert found_gaps(pa.chunked_array([[0.1], [0.3]])) == [Fraction(1, 5), 0]
    assert found_gaps(pa.array([Decimal("1.10"), Decimal("4.20")])) == [Fraction(31, 10), 0]


@pytest.mark.parametrize(
    "values",
    [
        [],
        np.array([]),
        np.array(SECRET),
        np.array([[SECRET, 1]]),
        SECRET,
        str(SECRET),
        {SECRET: 1},
        {SECRET},
        None,
        [SECRET, None],
        [SECRET, "2"],
        [str(SECRET), "2"],
        [SECRET, True],
        [True, False],
        [[SECRET], [1]],
        np.array([True, False]),
        np.array([SECRET, 1 + 0j]),
        np.array(["987654321"]),
        [float("nan"), SECRET],
        [float(SECRET), float("inf")],
        np.array([SECRET, np.nan]),
        np.array([-np.inf, SECRET]),
        np.array([np.nan, SECRET], np.float32),
        [Decimal("NaN"), Decimal(SECRET)],
        [Decimal("sNaN"), Decimal(SECRET)],
        np.array([SECRET, "x"], object),
        np.array([1, 2], "datetime64[D]"),
        pa.array([SECRET, None]),
        pa.array([True, False]),
    ],
)
def test_what_is_no_list_of_numbers_is_refused_without_showing_it(values: object) -> None:
    """threat:A26"""
    with pytest.raises(Misconfigured, match=r"`utilities` .*\. [A-Z]") as refusal:
        gaps(values)
    assert str(SECRET) not in str(refusal.value)
    assert refusal.value.__suppress_context__ or refusal.value.__context__ is None


def test_whole_is_a_matter_of_type_not_of_value() -> None:
    assert all(read(values, "s").whole for values in ([1, 2], np.array([1, 2]), [np.int8(1), 2], [10**30, 1]))
    assert not any(read(values, "s").whole for values in ([1.0, 2.0], np.array([1.0]), [Fraction(2)], [1, 2.0]))


@pytest.mark.parametrize("rate", [Fraction(1, 3), Fraction(7), Fraction(1, 10**6)])
def test_weights_hold_the_exponential(rate: Fraction) -> None:
    exponents = np.array([0, 1, 5, 100, 10_000])
    lows, highs, bits = weights(exponents, rate)
    for e, low, high in zip(exponents.tolist(), lows, highs, strict=True):
        inner, outer = enclose(lambda e=e: (-ball(rate * e)).exp(), bits=400)  # type: ignore[misc]
        assert Fraction(low, 1 << bits) <= outer
        assert inner <= Fraction(high, 1 << bits)
        assert rate * e > 2000 or Fraction(high - low, low) < Fraction(1, 1 << 120)


def test_shares_enclose_probabilities_that_sum_to_one() -> None:
    bounds = shares(np.array([0, 3, 4, 4, 9]), Fraction(1, 2))
    assert sum(low for low, _ in bounds) <= 1 <= sum(high for _, high in bounds)
    assert shares(np.array([0]), Fraction(5)) == ((Fraction(1), Fraction(1)),)
    assert shares(np.array([7, 7]), Fraction(1))[0][0] <= Fraction(1, 2)


def test_floats_at_the_edge_are_infinite_or_rounded_up() -> None:
    assert times(np.array([10**400, -(10**400), 0], object), Fraction(1)).tolist() == [math.inf, -math.inf, 0.0]
    assert times(np.array([2, 3]), Fraction(10**400)).tolist() == [math.inf, math.inf]
    assert times(np.array([10**18]), Fraction(1, 10**320)).tolist() == [1e-302]
    assert Fraction(at_least(Fraction(1, 3))) >= Fraction(1, 3)
    assert at_least(Fraction(1, 2)) == 0.5
    assert at_least(Fraction(10**400)) == math.inf


@EACH
@pytest.mark.parametrize("bad", BAD_NUMBERS)
def test_parameters_are_refused_with_their_rule(mechanism: Mechanism, bad: Any) -> None:
    """threat:A26"""
    for name in ("epsilon", "sensitivity"):
        with pytest.raises(Misconfigured, match=rf"`{name}` is .*; it must"):
            mechanism(**{"epsilon": 1, name: bad})


@EACH
@pytest.mark.parametrize("bad", [1, "yes", None])
def test_monotone_is_a_truth_value(mechanism: Mechanism, bad: Any) -> None:
    with pytest.raises(Misconfigured, match=r"`monotone` is .*; it must be True or False"):
        mechanism(epsilon=1, monotone=bad)


@EACH
def test_monotone_is_refused_where_units_change(mechanism: Mechanism) -> None:
    """lecture:L15 a change takes one unit away and adds another, so that scores move both ways."""
    with pytest.raises(Misconfigured, match=r"CHANGE_ONE.*Leave monotone=False"):
        mechanism(epsilon=1, monotone=True, neighbours=Neighbours.CHANGE_ONE)
    assert mechanism(epsilon=1, neighbours=Neighbours.CHANGE_ONE).rate == Fraction(1, 2)
    with pytest.raises(Misconfigured, match="`neighbours`"):
        mechanism(epsilon=1, neighbours="change one")  # type: ignore[arg-type]


@EACH
def test_monotone_halves_the_noise(mechanism: Mechanism) -> None:
    assert mechanism(epsilon=1, sensitivity=4.2).rate == Fraction(10, 84)
    assert mechanism(epsilon=1, sensitivity=4.2, monotone=True).rate == Fraction(10, 42)


@EACH
def test_mechanisms_are_values(mechanism: Mechanism) -> None:
    made = mechanism(epsilon=0.1)
    assert made == mechanism(epsilon=Fraction(1, 10))
    assert made != mechanism(epsilon=0.2)
    assert pickle.loads(pickle.dumps(made)) == made
    assert len({made, mechanism(epsilon=0.1)}) == 1
    with pytest.raises(AttributeError):
        made.epsilon = Fraction(2)  # type: ignore[misc]


@EACH
def test_candidates_come_in_any_ordered_container(mechanism: Mechanism) -> None:
    certain = mechanism(epsilon=500)
    scores = [0, 10, 0]
    assert certain.choose(["a", "b", "c"], scores) == "b"
    assert certain.choose(("a", "b", "c"), pa.array(scores)) == "b"
    assert certain.choose(range(3), np.array(scores)) == 1
    assert certain.choose(np.array([0.1, 0.2, 0.3]), scores) == 0.2
    assert certain.choose(np.arange(6).reshape(3, 2), scores).tolist() == [2, 3]
    assert certain.choose(pa.array(["a", "b", "c"]), scores) == "b"
    assert certain.choose(pa.chunked_array([["a"], ["b", "c"]]), scores) == "b"


class Column:
    """A data frame's column: it has labels, and square brackets take a label."""

    def __init__(self, values: list[Any]) -> None:
        self._values = values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self._values, dtype)

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, label: object) -> object:
        raise KeyError(label)


@EACH
def test_columns_of_a_frame_are_taken_by_place(mechanism: Mechanism) -> None:
    assert mechanism(epsilon=500).choose(Column(["a", "b", "c"]), Column([0, 10, 0])) == "b"


@EACH
def test_candidates_must_match_their_scores(mechanism: Mechanism) -> None:
    made = mechanism(epsilon=1)
    for candidates in (["a"], np.array(["a", "b", "c"]), [], pa.array(["a"])):
        with pytest.raises(Misconfigured, match="different lengths"):
            made.choose(candidates, [SECRET, 2])
    for unordered in ({"a", "b"}, {"a": 1, "b": 2}, iter("ab"), 5, None, np.array(3)):
        with pytest.raises(Misconfigured, match="order must be known"):
            made.choose(unordered, [SECRET, 2])


@EACH
def test_scores_that_are_no_numbers_are_refused_at_every_door(mechanism: Mechanism) -> None:
    made = mechanism(epsilon=1)
    for door in (lambda s: made.choose("ab", s), made.law, made.probabilities):
        for bad in ([SECRET, math.nan], [SECRET, True], [SECRET, "2"], []):
            with pytest.raises(Misconfigured) as refusal:
                door(bad)
            assert str(SECRET) not in str(refusal.value)


@EACH
@pytest.mark.parametrize("bad", [0, -1, 1.5, True, "3", math.nan])
def test_error_refuses_impossible_questions(mechanism: Mechanism, bad: Any) -> None:
    made = mechanism(epsilon=1)
    with pytest.raises(Misconfigured, match="`candidates` is"):
        made.error(candidates=bad)
    with pytest.raises(Misconfigured, match="`confidence` is"):
        made.error(bad if bad != 0.5 else 1, candidates=3)
