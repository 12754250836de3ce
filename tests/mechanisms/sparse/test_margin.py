"""lapwing.mechanisms.sparse.crossing."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lapwing.errors import Misconfigured
from lapwing.mechanisms.sparse import crossing as module
from lapwing.mechanisms.sparse.crossing import Crossing
from lapwing.mechanisms.sparse.vector import AboveThreshold, GeometricSparse, NumericSparse, Sparse
from support.sparse_exact import Model


def chance_of_right(crossing: Crossing, distance: int, order: tuple[bool, ...]) -> float:
    """The exact chance that all answers are right, for values at this distance in this order."""
    model = Model(
        math.exp(-1 / crossing.bar_scale),
        math.exp(-1 / crossing.query_scale),
        crossing.answers,
        crossing.two_sided,
        crossing.refreshed,
    )
    return float(model.chance([(distance if above else -distance) - crossing.shift for above in order], order))


def orders(belows: int, aboves: int) -> Iterator[tuple[bool, ...]]:
    """Every order of up to so many of each; nothing is asked after the last above that is paid for."""
    for b, a in itertools.product(range(belows + 1), range(aboves + 1)):
        for order in set(itertools.permutations([False] * b + [True] * a)):
            if a < aboves or (order and order[-1]):
                yield order


SMALL: dict[str, Any] = {
    "textbook": AboveThreshold(threshold=0, epsilon=3),
    "textbook, two answers": Sparse(threshold=0, epsilon=4, answers=2),
    "geometric": GeometricSparse(threshold=0, epsilon=2, queries=4),
    "geometric, two answers": GeometricSparse(threshold=0, epsilon=3, answers=2, queries=4),
    "geometric, monotone": GeometricSparse(threshold=0, epsilon=2, queries=4, monotone=True),
    "geometric, no shift": GeometricSparse(threshold=0, epsilon=2, queries=4, shift=0),
    "geometric, shift too far": GeometricSparse(threshold=0, epsilon=2, queries=4, shift=-6),
}


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_margin_is_the_least_that_serves_every_order(name: str, confidence: float) -> None:
    """lecture:L19 against the closed form, over all orders of up to four belows and all aboves."""
    mechanism = SMALL[name]
    least = mechanism.error(confidence, queries=4)

    def worst(distance: int) -> float:
        return min(chance_of_right(mechanism.crossing, distance, order) for order in orders(4, mechanism.answers))

    assert worst(least) >= confidence
    assert worst(least - 1) < confidence


def test_margin_serves_many_questions() -> None:
    """The sum in closed form loses its digits for many questions; here it still has enough."""
    mechanism = GeometricSparse(threshold=0, epsilon=1, queries=12)
    least = int(mechanism.error())
    order = (False,) * 12 + (True,)
    assert chance_of_right(mechanism.crossing, least, order) >= 0.95
    assert chance_of_right(mechanism.crossing, least - 1, order) < 0.95


@pytest.mark.parametrize(
    ("m", "textbook", "theorem", "geometric", "unshifted"),
    [(10, 19.2, 48, 12.4, 15.0), (100, 28.1, 66, 16.0, 23.0), (1000, 38.1, 85, 19.6, 30.0)],
)
def test_margins_of_simulation_are_reproduced(
    m: int, textbook: float, theorem: int, geometric: float, unshifted: float
) -> None:
    """lecture:L19 what simulations of m - 1 belows and one above had found, within their noise, by tails alone."""
    split: Any = {"threshold": 0, "epsilon": 1, "queries": m - 1, "reals": True, "ratio": 2 ** (2 / 3)}
    above = AboveThreshold(threshold=0, epsilon=1, reals=True)
    assert above.error(queries=m - 1) == pytest.approx(textbook, abs=0.5)
    assert round(above.textbook_error(queries=m - 1)) == theorem
    assert GeometricSparse(**split).error() == pytest.approx(geometric, abs=0.5)
    assert GeometricSparse(**split, shift=0).error() == pytest.approx(unshifted, abs=0.5)


@pytest.mark.parametrize("epsilon", [0.02, 0.3, 1, 5])
@pytest.mark.parametrize("answers", [1, 3, 20])
@pytest.mark.parametrize("queries", [0, 1, 100, 10**6])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999999])
def test_textbook_bounds_hold(epsilon: float, answers: int, queries: int, confidence: float) -> None:
    """lecture:L19 Theorems 3.24, 3.26 and 3.28: values strictly beyond, continuous noise; whole noise keeps them."""
    sparse = Sparse(threshold=0, epsilon=epsilon, answers=answers)
    assert sparse.error(confidence, queries=queries) <= sparse.textbook_error(confidence, queries=queries) + 1
    numeric = NumericSparse(threshold=0, epsilon=epsilon, answers=answers)
    bound = numeric.textbook_error(confidence, queries=queries)
    half = 1 - (1 - Fraction(str(confidence))) / 2
    assert numeric.error(half, queries=queries) <= bound + 1
    assert numeric.value_error(half) <= bound + 1


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 1000), st.fractions(Fraction(1, 10), 4, max_denominator=20), st.integers(1, 4), st.booleans())
def test_margin_grows_with_questions_confidence_and_privacy(
    queries: int, epsilon: Fraction, answers: int, geometric: bool
) -> None:
    """lecture:L34"""

    def error(confidence: float = 0.9, queries: int = queries, epsilon: Fraction = epsilon) -> float:
        if geometric:
            return GeometricSparse(
                threshold=0, epsilon=epsilon, answers=answers, queries=10, ratio=3, shift=1 / epsilon
            ).error(confidence, queries=queries)
        return Sparse(threshold=0, epsilon=epsilon, answers=answers).error(confidence, queries=queries)

    assert error() <= error(queries=2 * queries)
    assert error() <= error(confidence=0.99)
    assert error() <= error(epsilon=epsilon / 2) + 1


@pytest.mark.parametrize("reals", [False, True])
@pytest.mark.parametrize("kind", ["textbook", "geometric"])
def test_cells_raise_the_margin_by_less_than_a_hundredth_of_the_noise(
    monkeypatch: pytest.MonkeyPatch, kind: str, reals: bool
) -> None:
    mechanism: Any = (
        Sparse(threshold=0, epsilon=0.001, answers=2, reals=reals)
        if kind == "textbook"
        else GeometricSparse(threshold=0, epsilon=0.001, answers=2, queries=50, reals=reals)
    )
    coarse = mechanism.error(queries=50)
    monkeypatch.setattr(module, "_CELLS", 1 << 17)
    fine = mechanism.error(queries=50)
    crossing = mechanism.crossing
    scale = float(crossing.bar_scale * (crossing.ticks.step or 1))
    assert 0 <= coarse - fine <= 0.01 * scale


def test_whole_and_real_margins_agree_for_wide_noise() -> None:
    real = GeometricSparse(threshold=0, epsilon=0.01, queries=50, reals=True).error()
    whole = GeometricSparse(threshold=0, epsilon=0.01, queries=50).error()
    assert real == pytest.approx(whole, rel=2e-3)


def test_margin_of_absurdly_many_questions_is_refused() -> None:
    assert AboveThreshold(threshold=0, epsilon=1).error(queries=10**14) < 200
    with pytest.raises(Misconfigured, match=r"more than 10+ together; no margin is computed there"):
        AboveThreshold(threshold=0, epsilon=1).error(queries=10**400)


def test_margin_is_computed_close_to_certainty_and_refused_beyond() -> None:
    mechanism = AboveThreshold(threshold=0, epsilon=1)
    errors = [mechanism.error(1 - Fraction(1, 10**digits), queries=10) for digits in (3, 12, 100)]
    assert errors == sorted(errors)
    assert errors[2] < 4 * 100 * math.log(10) + 50
    with pytest.raises(Misconfigured, match=r"closer to 1 than 1e-200; no margin is computed there\. Pass less"):
        mechanism.error(1 - Fraction(1, 10**250), queries=10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"confidence": 1, "queries": 5}, "strictly between 0 and 1"),
        ({"queries": -1}, "whole number of at least 0"),
        ({"queries": 2.5}, "whole number of at least 0"),
    ],
)
def test_margin_refuses_bad_parameters(arguments: Any, message: str) -> None:
    with pytest.raises(Misconfigured, match=message):
        AboveThreshold(threshold=0, epsilon=1).error(**arguments)
    with pytest.raises(Misconfigured, match=message):
        AboveThreshold(threshold=0, epsilon=1).textbook_error(**arguments)
