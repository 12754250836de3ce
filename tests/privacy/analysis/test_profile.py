"""lapwing.privacy.analysis.profile."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lapwing.errors import Misconfigured
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.choice.exponential import Exponential
from lapwing.mechanisms.choice.response import RandomizedResponse
from lapwing.numbers import ball, enclose
from lapwing.privacy.analysis.profile import hockey_stick, inverse, log_ratio, tightest_delta, tightest_epsilon

always = settings(deadline=None, derandomize=True, max_examples=60)

YES, NO = Fraction(3, 4), Fraction(1, 4)
TINY = Fraction(1, 10**20)

weights = st.lists(st.integers(min_value=0, max_value=9), min_size=4, max_size=4).filter(any)
laws = weights.map(lambda w: [Fraction(n, sum(w)) for n in w])
epsilons = st.fractions(min_value=0, max_value=3, max_denominator=50)
deltas = st.fractions(min_value=0, max_value=Fraction(99, 100), max_denominator=100)


def by_sets(p: list[Fraction], q: list[Fraction], epsilon: Fraction) -> Fraction:
    """The definition: the largest P[S] - e^epsilon Q[S] over all sets S, with e^epsilon rounded down."""
    factor = enclose(lambda: ball(epsilon).exp())[0]
    places = range(len(p))
    sets = chain.from_iterable(combinations(places, size) for size in range(len(p) + 1))
    return max(sum((p[i] - factor * q[i] for i in chosen), Fraction(0)) for chosen in sets)


@always
@given(laws, laws, epsilons)
def test_delta_is_the_largest_excess_over_all_sets(p: list[Fraction], q: list[Fraction], epsilon: Fraction) -> None:
    """lecture:L3."""
    true = by_sets(p, q, epsilon)
    assert true <= tightest_delta(p, q, epsilon, one_way=True) <= true * (1 + TINY) + TINY
    both = max(true, by_sets(q, p, epsilon))
    assert both <= tightest_delta(p, q, epsilon) <= both * (1 + TINY) + TINY


@always
@given(laws, laws, deltas)
def test_epsilon_is_the_least_at_which_delta_suffices(p: list[Fraction], q: list[Fraction], delta: Fraction) -> None:
    """lecture:L3: it holds there, and at nothing smaller."""
    epsilon = tightest_epsilon(p, q, delta)
    if epsilon == math.inf:
        assert max(sum(a for a, b in zip(*way, strict=True) if not b) for way in ((p, q), (q, p))) > delta
        return
    assert by_sets(p, q, epsilon) <= delta + TINY
    assert by_sets(q, p, epsilon) <= delta + TINY
    if epsilon > Fraction(1, 1000):
        assert max(by_sets(p, q, epsilon - Fraction(1, 1000)), by_sets(q, p, epsilon - Fraction(1, 1000))) > delta


@always
@given(laws, laws, laws, epsilons)
def test_delta_is_a_distance_at_epsilon_zero(
    p: list[Fraction], q: list[Fraction], r: list[Fraction], e: Fraction
) -> None:
    """Total variation, exactly; and delta never grows with epsilon."""
    apart = tightest_delta(p, q, 0)
    assert apart == sum(abs(a - b) for a, b in zip(p, q, strict=True)) / 2
    assert apart <= tightest_delta(p, r, 0) + tightest_delta(r, q, 0)
    assert tightest_delta(p, q, e) <= apart


def test_two_coins_have_the_known_profile() -> None:
    """lecture:L10, lecture:L3: epsilon is ln 3 at delta 0, and delta is 1/2 at epsilon 0."""
    p, q = {"yes": YES, "no": NO}, {"yes": NO, "no": YES}
    low, high = enclose(lambda: ball(3).log(), bits=256)
    assert high <= tightest_epsilon(p, q) < low + TINY
    assert tightest_delta(p, q, 0) == Fraction(1, 2)
    assert float(tightest_delta(p, q, 1)) == pytest.approx(0.75 - 0.25 * math.e, rel=1e-15)
    assert tightest_delta(p, q, 2) == 0


def test_a_whole_record_at_random_is_private_only_with_delta() -> None:
    """lecture:L8, lecture:L3: of n = 10 records one is shown; epsilon 0 holds at delta 1/10 and no epsilon below it."""
    n = 10
    p = {f"record {i}": Fraction(1, n) for i in range(n)}
    q = {**p, "record 9": Fraction(0), "another record": Fraction(1, n)}
    assert tightest_delta(p, q, 0) == tightest_delta(p, q, 100) == Fraction(1, n)
    assert tightest_epsilon(p, q, Fraction(1, n)) == 0
    assert tightest_epsilon(p, q, Fraction(1, n) - TINY) == math.inf


def test_the_order_of_the_neighbours_matters_unless_both_are_asked() -> None:
    """lecture:L3: the definition is symmetric; one direction alone can hide an infinite loss."""
    p, q = {"a": Fraction(1)}, {"a": Fraction(1, 2), "b": Fraction(1, 2)}
    assert float(tightest_epsilon(p, q, one_way=True)) == pytest.approx(math.log(2))
    assert tightest_epsilon(q, p, one_way=True) == tightest_epsilon(p, q) == math.inf
    assert tightest_delta(p, q, 5, one_way=True) == 0
    assert tightest_delta(p, q, 5) == Fraction(1, 2)


def test_equal_laws_lose_nothing() -> None:
    law = [Fraction(1, 3), Fraction(2, 3)]
    assert tightest_epsilon(law, law) == tightest_delta(law, law, 0) == 0


@pytest.mark.parametrize("epsilon", [0.1, 1, 3])
def test_proven_bounds_of_a_mechanism_give_its_epsilon(epsilon: float) -> None:
    """lecture:L2: the laws that mechanisms state, from `law` as it is."""
    rows = RandomizedResponse(epsilon=epsilon, answers=["a", "b", "c"]).law()
    assert float(tightest_epsilon(rows[0], rows[1])) == pytest.approx(epsilon, rel=1e-15)
    choice = Exponential(epsilon=epsilon)
    found = tightest_epsilon(choice.law([0, 1, 1]), choice.law([1, 0, 0]))
    assert 0.5 * epsilon < found <= choice.epsilon


def test_a_truncated_law_counts_its_rest_as_lost() -> None:
    """What is left out of an endless law is an outcome of unknown probability: infinite loss, from above."""
    noise, reach = Laplace(epsilon=1), 40
    rest = (Fraction(0), Fraction(1, 10**15))
    p = {z: noise.law(z) for z in range(-reach, reach + 1)} | {"rest": rest}
    q = {z: noise.law(z - 1) for z in range(-reach, reach + 1)} | {"rest": rest}
    assert tightest_epsilon(p, q) == math.inf
    assert float(tightest_epsilon(p, q, 2e-15)) == pytest.approx(1, abs=1e-9)
    with pytest.raises(Misconfigured, match="`q` do not add up to 1"):
        tightest_epsilon(p, {z: noise.law(z - 1) for z in range(-reach, reach + 1)})


def test_wider_bounds_never_say_less() -> None:
    narrow = [(YES, YES), (NO, NO)], [(NO, NO), (YES, YES)]
    wide = [[(low - Fraction(1, 100), high + Fraction(1, 100)) for low, high in law] for law in narrow]
    assert tightest_epsilon(*wide) > tightest_epsilon(*narrow)
    assert tightest_delta(*wide, 1) > tightest_delta(*narrow, 1)


@pytest.mark.parametrize("kind", [list, tuple, np.array, lambda law: dict(enumerate(law))])
def test_every_kind_of_law_is_read(kind: object) -> None:
    """Floats are read as they are written: 0.1 and 0.9 are exact here."""
    p, q = kind([0.1, 0.9]), kind([0.9, 0.1])  # type: ignore[operator]
    assert tightest_delta(p, q, 0) == Fraction(4, 5)
    assert float(tightest_epsilon(p, q)) == pytest.approx(math.log(9), rel=1e-15)


def test_floats_need_not_add_up_beyond_their_precision() -> None:
    p = np.exp(-np.arange(7.0))
    p /= p.sum()
    q = np.roll(p, 1)
    expected = float(np.maximum(0, p - math.e * q).sum())
    assert float(tightest_delta(p, q, 1, one_way=True)) == pytest.approx(expected, rel=1e-12)
    exact = [Fraction(x) for x in p.tolist()]
    with pytest.raises(Misconfigured, match="do not add up"):
        tightest_delta(exact, q, 1)


@pytest.mark.parametrize(
    "bad",
    [
        [Fraction(1, 2)],
        [1, Fraction(1, 2)],
        [Fraction(3, 2), Fraction(-1, 2)],
        [(Fraction(1), Fraction(0)), 0],
        [(Fraction(1, 8), Fraction(1, 4)), (Fraction(1, 8), Fraction(1, 4))],
        [math.nan, 1],
        [math.inf, 0],
        [True, False],
        ["1", "0"],
        [None],
        [],
        {},
        "10",
        b"10",
        None,
        1,
        iter([1]),
        np.eye(2),
        [(1, 0, 0)],
        [0.999, 0],
    ],
    ids=lambda bad: type(bad).__name__,
)
def test_what_is_no_law_is_refused(bad: object) -> None:
    """threat:A26."""
    good = [Decimal("0.5"), Decimal("0.5")]
    for door in (lambda: tightest_delta(bad, good, 1), lambda: tightest_epsilon(good, bad)):  # type: ignore[arg-type]
        with pytest.raises(Misconfigured):
            door()


@pytest.mark.parametrize("bad", [-1, math.nan, math.inf, True, "1", None], ids=str)
def test_what_is_no_amount_is_refused(bad: object) -> None:
    """threat:A26."""
    law = [YES, NO]
    for door in (lambda: tightest_delta(law, law, bad), lambda: tightest_epsilon(law, law, bad)):  # type: ignore[arg-type]
        with pytest.raises(Misconfigured):
            door()


def test_a_refusal_never_shows_a_probability() -> None:
    """threat:A13: a law may have been computed from data."""
    with pytest.raises(Misconfigured) as caught:
        tightest_delta([Fraction(-12345, 6789), 1], [YES, NO], 1)
    assert "12345" not in str(caught.value)


def test_an_absurd_epsilon_is_answered_at_once() -> None:
    p, q = [YES, NO, 0], [NO, Fraction(1, 2), NO]
    assert tightest_delta(p, q, 10**30, one_way=True) == 0
    assert tightest_delta(p, q, 10**30) == NO


@always
@given(laws, laws)
def test_float_logarithm_of_a_ratio_is_close(p: list[Fraction], q: list[Fraction]) -> None:
    assume(p[0] and q[0])
    huge = Fraction(7, 3) ** 3000
    assert log_ratio(p[0], q[0]) == pytest.approx(math.log(p[0] / q[0]), abs=1e-14)
    assert log_ratio(p[0] / huge, q[0]) == pytest.approx(math.log(p[0] / q[0]) - 3000 * math.log(7 / 3), rel=1e-13)


def test_measures_that_are_no_probabilities_are_compared_too() -> None:
    """Bounds have masses above or below 1; a delta is never above 1."""
    assert hockey_stick([(Fraction(3), Fraction(1))], Fraction(0)) == (1, 1)
    assert hockey_stick([], Fraction(1)) == (0, 0)
    assert inverse([], Fraction(0)) == (0, 0)
