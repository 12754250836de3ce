"""lapwing.classroom.refutation."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lapwing as lw
from lapwing.classroom.database import Database, databases
from lapwing.classroom.refutation import Algorithm, deterministic, refute
from lapwing.errors import Misconfigured
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.choice.exponential import Exponential, PermuteAndFlip
from lapwing.mechanisms.choice.noisy_max import NoisyMax
from lapwing.privacy.neighbours import Neighbours

CHANGE = Neighbours.CHANGE_ONE


def most_frequent(records: list[int]) -> int:
    return max(range(3), key=records.count)


@pytest.mark.parametrize(
    "function",
    [len, sum, lambda records: max(records, default=None), most_frequent, lambda records: len(records) >= 2, tuple],
)
@pytest.mark.parametrize(("epsilon", "delta"), [(0, 0), (1, 0), (50, 0.99)])
def test_deterministic_algorithm_is_refuted(
    function: Callable[[list[Any]], Hashable], epsilon: float, delta: float
) -> None:
    """lecture:L6 two neighbours and an output that is certain on one and impossible on the other."""
    found = refute(deterministic(function), range(3), epsilon=epsilon, delta=delta, size=2)
    assert found is not None
    assert found.first.distance(found.second) == 1
    assert (found.likely, found.rare) == (1, 0)
    assert found.event == (function(list(found.first.records)),)


@given(st.data())
def test_every_deterministic_algorithm_is_constant_or_refuted(data: st.DataObject) -> None:
    """lecture:L6 over all databases of at most two records, any function whatever."""
    outputs = {x: data.draw(st.integers(0, 1)) for x in databases("ab", up_to=2)}
    found = refute(deterministic(lambda records: outputs[Database(records)]), "ab", epsilon=5, size=2)
    assert (found is None) == (len(set(outputs.values())) == 1)


def test_constant_algorithm_is_perfectly_private() -> None:
    """lecture:L6 lecture:L8 the trivial exception."""
    assert refute(deterministic(lambda _: "nothing"), range(3), epsilon=0, size=3) is None


@pytest.mark.parametrize("mechanism", [Exponential(epsilon=1, monotone=True), NoisyMax(epsilon=1, monotone=True)])
def test_mechanism_is_refuted_below_its_epsilon_only(mechanism: Exponential | NoisyMax) -> None:
    """lecture:L6 lecture:L2 the exact law of a randomized algorithm, enclosed by proven bounds."""

    def law(records: list[int]) -> dict[Hashable, tuple[Fraction, Fraction]]:
        return dict(enumerate(mechanism.law([records.count(value) for value in range(3)])))

    assert refute(law, range(3), epsilon=1, size=3) is None
    found = refute(law, range(3), epsilon=0.5, size=3)
    assert found is not None
    assert found.likely > Fraction(16487, 10_000) * found.rare  # e^0.5


def tail_laplace(epsilon: float) -> Algorithm:
    """Laplace noise on a count; outputs beyond 3 are one outcome each."""
    noise = Laplace(epsilon=epsilon)

    def law(records: list[int]) -> dict[Hashable, tuple[Fraction, Fraction]]:
        inside: dict[Hashable, tuple[Fraction, Fraction]] = {y: noise.law(y - len(records)) for y in range(4)}
        below = noise.law(len(records) + 1)
        share = 1 / (1 - noise.law(1)[0] / noise.law(0)[0])  # the geometric sum, up to a share 1e-30
        left = below[0] * share, below[1] * share
        rest = 1 - left[0] - sum(low for low, _ in inside.values())
        return inside | {"below": (left[0] * (1 - Fraction(1, 10**25)), left[1]), "above": (rest * 0, rest)}

    return law


def test_laplace_count_keeps_its_epsilon_under_add_or_remove_only() -> None:
    """lecture:L1 the relation matters: a changed record moves two counts, an added one moves one."""
    assert refute(tail_laplace(1), range(2), epsilon=1, size=3) is None
    assert refute(tail_laplace(1.5), range(2), epsilon=1, size=3) is not None


def noisy_pair(records: list[int]) -> dict[Hashable, Fraction]:
    """Each count goes through two coins of its own: up by one with probability 1/4."""
    counts = [records.count(value) for value in (0, 1)]
    up = {0: Fraction(3, 4), 1: Fraction(1, 4)}
    return {(counts[0] + a, counts[1] + b): up[a] * up[b] for a in up for b in up}


def test_delta_is_what_remains_above_epsilon() -> None:
    """lecture:L3 the event collects every output that is too likely, so the smallest delta is exact."""
    assert refute(noisy_pair, range(2), epsilon=3, delta=Fraction(3, 4), size=1) is None
    found = refute(noisy_pair, range(2), epsilon=3, delta=Fraction(74, 100), size=1)
    assert found is not None
    assert (found.likely, found.rare) == (Fraction(3, 4), 0)


def test_relation_and_sizes_are_respected() -> None:
    """lecture:L1 under change-one the number of records is no secret."""
    count = deterministic(len)
    assert refute(count, range(3), epsilon=1, size=4, neighbours=CHANGE) is None
    assert refute(count, range(3), epsilon=1, size=4) is not None
    assert refute(count, range(3), epsilon=1, size=4, least=4) is None


@pytest.mark.parametrize("law", [{0: 0.5}, {0: 2}, {0: -1, 1: 2}, {0: (0.6, 0.5), 1: 0.5}, {}])
def test_what_is_no_law_is_refused(law: dict[Hashable, Any]) -> None:
    with pytest.raises(Misconfigured, match="not probabilities"):
        refute(lambda _: law, range(2), epsilon=1, size=1)


def test_large_enumerations_and_bad_claims_are_refused() -> None:
    with pytest.raises(Misconfigured, match="pairs of databases"):
        refute(deterministic(len), range(200), epsilon=1, size=4)
    with pytest.raises(Misconfigured, match="`epsilon` is -1"):
        refute(deterministic(len), range(2), epsilon=-1, size=1)
    with pytest.raises(Misconfigured, match="`delta` is 1"):
        refute(deterministic(len), range(2), epsilon=1, delta=1, size=1)


def test_a_refutation_reads_as_words() -> None:
    """lecture:L6 "break my mechanism": a law goes in, the pair that refutes it comes out."""
    found = lw.refute(deterministic(len), ["smoker"], epsilon=10, delta=0.9, size=1)
    assert str(found) == (
        "epsilon = 10, delta = 0.9 is not true. These neighbours refute it:\n"
        "  first   []\n  second  ['smoker']\n"
        "The output is 0 with probability at least 1 on the first and at most 0 on the second.\n"
        "The claim allows 0.9 on the first."
    )


def test_a_refutation_never_rounds_in_its_own_favour() -> None:
    found = lw.refute(
        lambda rows: {"yes": Fraction(2 + len(rows), 7), "no": Fraction(5 - len(rows), 7)}, "a", epsilon=0, size=1
    )
    assert found is not None
    assert found.likely > found.allowed
    assert "at least 0.7142 on the first and at most 0.5715 on the second" in str(found)


def test_a_narrow_refutation_has_enough_digits_to_be_one() -> None:
    """With four digits it would say that 0.5 was seen and 0.5 is allowed."""
    half = Fraction(1, 2)
    found = lw.refute(
        lambda rows: {"yes": half + Fraction(len(rows), 70_000), "no": half - Fraction(len(rows), 70_000)},
        "a",
        epsilon=0,
        size=1,
    )
    assert "at least 0.5 on the first and at most 0.49998572 on the second" in str(found)
    assert str(found).endswith("The claim allows 0.49998572 on the first.")


def test_a_refutation_shows_some_of_many_outputs() -> None:
    uniform = lambda rows: {k: Fraction(1, 10) for k in range(10 * len(rows), 10 * len(rows) + 10)}  # noqa: E731
    assert "The output is one of 0, 1, 2, 3, 4, 5 and 4 others with" in str(lw.refute(uniform, "a", epsilon=1, size=1))


def coin(epsilon: float, *, shorter: bool = False) -> Algorithm:
    """Randomized response to one record, as a student writes it: floats, and the rest as 1 - p if `shorter`."""
    yes = math.exp(epsilon) / (1 + math.exp(epsilon))
    no = 1 - yes if shorter else 1 / (1 + math.exp(epsilon))
    return lambda records: {"yes": yes, "no": no} if records[0] else {"yes": no, "no": yes}


def one_record(law: Algorithm, epsilon: Any) -> Any:
    return refute(law, [0, 1], epsilon=epsilon, size=1, least=1, neighbours=CHANGE)


@pytest.mark.parametrize("shorter", [False, True])
def test_correct_laws_in_floats_are_neither_refuted_nor_refused(shorter: bool) -> None:
    """200 randomized responses at their own epsilon; one claimed 1 % too small is refuted."""
    for k in range(1, 201):
        epsilon = k / 10
        law = coin(epsilon, shorter=shorter)
        assert one_record(law, epsilon) is None
        assert one_record(law, 0.99 * epsilon) is not None
        assert one_record(coin(epsilon / 100), epsilon / 100) is None
        assert one_record(coin(epsilon / 100), 0.99 * epsilon / 100) is not None


@pytest.mark.parametrize("kind", [Exponential, NoisyMax, PermuteAndFlip])
@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1 / 3, 1, 2.7, 5])
def test_laws_of_mechanisms_in_floats_keep_their_epsilon(kind: Any, epsilon: float) -> None:
    mechanism = kind(epsilon=epsilon, monotone=True)
    law = lambda records: dict(enumerate(mechanism.probabilities([records.count(v) for v in range(3)])))  # noqa: E731
    assert refute(law, range(3), epsilon=epsilon, size=3) is None


@pytest.mark.parametrize("sides", range(2, 12))
def test_laws_of_many_answers_in_floats_keep_their_epsilon(sides: int) -> None:
    """lw.RandomizedResponse as it prints itself, and geometric noise on a count with its tails."""
    response = lw.RandomizedResponse(answers=list(range(sides)), epsilon=sides / 7)
    table = response.probabilities()
    law = lambda records: dict(enumerate(table[records[0]]))  # noqa: E731
    found = refute(law, range(sides), epsilon=response.loss.epsilon, size=1, least=1, neighbours=CHANGE)
    assert found is None
    ratio = math.exp(-sides / 7)

    def noisy_count(records: list[int]) -> dict[Hashable, float]:
        n = len(records)
        inside = {y: (1 - ratio) / (1 + ratio) * ratio ** abs(y - n) for y in range(1, 4)}
        return {**inside, 0: ratio**n / (1 + ratio), 4: ratio ** (4 - n) / (1 + ratio)}

    assert refute(noisy_count, [0], epsilon=sides / 7, size=4) is None
    assert refute(noisy_count, [0], epsilon=0.99 * sides / 7, size=4) is not None


def test_floats_of_32_bits_have_the_slack_of_their_digits() -> None:
    law = lambda records: {k: np.float32(p) for k, p in coin(1)(records).items()}  # noqa: E731
    assert one_record(law, 1) is None
    assert one_record(law, 0.99) is not None


def test_what_is_left_out_or_exact_has_no_slack() -> None:
    missing = lambda records: {"seen": 1e-12, "not": 1 - 1e-12} if records[0] else {"not": 1}  # noqa: E731
    assert one_record(missing, 20) is not None
    close = Fraction(1, 2) + Fraction(1, 10**12)
    assert one_record(lambda records: {"a": close, "b": 1 - close} if records[0] else {"a": 1 - close, "b": close}, 0)


@pytest.mark.parametrize("sampler", [lambda _: 3.7, lambda _: None, lambda _: ["yes", "no"], Laplace(epsilon=1), "law"])
def test_a_sampler_is_told_what_a_law_is(sampler: Any) -> None:
    with pytest.raises(Misconfigured, match="needs the law of the algorithm, not a draw from it") as caught:
        refute(sampler, range(2), epsilon=1, size=1)
    assert "`lapwing.lab.audit`" in str(caught.value)


def exact_coin(n: int) -> Algorithm:
    """Randomized response at epsilon = ln n, in fractions."""
    often, seldom = Fraction(n, n + 1), Fraction(1, n + 1)
    return lambda records: {0: often, 1: seldom} if records[0] else {0: seldom, 1: often}


@pytest.mark.parametrize("kind", [float, np.float64, np.float32])
def test_a_float_epsilon_never_refutes_a_correct_law_by_its_rounding(kind: Any) -> None:
    for n in range(2, 200):
        assert one_record(exact_coin(n), kind(math.log(n))) is None
        found = one_record(exact_coin(n), kind(0.995 * math.log(n)))
        assert found is not None
        assert found.likely > found.allowed


def test_a_float_delta_never_refutes_a_correct_law_by_its_rounding() -> None:
    law = lambda rows: {"n": 1 - Fraction(len(rows), 3), "y": Fraction(len(rows), 3)}  # noqa: E731
    assert refute(law, "a", epsilon=0, delta=1 / 3, size=1) is None
    assert refute(law, "a", epsilon=0, delta=0.995 / 3, size=1) is not None
    rare = lambda rows: {"n": 1 - Fraction(len(rows), 10**20), "y": Fraction(len(rows), 10**20)}  # noqa: E731
    assert refute(rare, "a", epsilon=1, delta=0.0, size=1) is not None


def test_an_exact_epsilon_has_no_slack() -> None:
    above, below = Fraction(6931471805599454, 10**16), Fraction(6931471805599453, 10**16)
    assert one_record(exact_coin(2), above) is None
    assert one_record(exact_coin(2), below) is not None


class Share(float):
    """A float with a name."""


def test_a_remainder_just_below_zero_is_zero() -> None:
    rest = {"a": 0.5, "b": 0.5, "c": -2e-17}
    assert refute(lambda _: rest, range(2), epsilon=0, size=1) is None
    with pytest.raises(Misconfigured, match="not probabilities"):
        refute(lambda _: rest | {"c": -1e-14}, range(2), epsilon=0, size=1)
    with pytest.raises(Misconfigured, match="not probabilities"):
        refute(lambda _: {"a": 1 + Fraction(1, 10**20), "b": -Fraction(1, 10**20)}, range(2), epsilon=0, size=1)


def test_a_kind_of_float_is_a_float() -> None:
    law = lambda records: {k: Share(p) for k, p in coin(1)(records).items()}  # noqa: E731
    assert one_record(law, Share(1)) is None
    assert one_record(law, Share(0.99)) is not None


@pytest.mark.parametrize("bounds", [(), (1,), (0, 1, 1)])
def test_bounds_are_a_pair(bounds: Any) -> None:
    with pytest.raises(Misconfigured, match="bounds are a pair"):
        refute(lambda _: {0: bounds}, range(2), epsilon=1, size=1)
