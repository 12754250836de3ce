"""lapwing.mechanisms.choice.exponential."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from lapwing.errors import Misconfigured
from lapwing.mechanisms.choice.exponential import Exponential, PermuteAndFlip, TopK
from lapwing.numbers import ball, enclose
from lapwing.privacy.loss import ZCDP, BoundedRange, Pure
from lapwing.privacy.neighbours import Neighbours
from support.audit import assert_caught, assert_private
from support.chi import assert_fits, assert_misfits, finite

Law = dict[tuple[int, ...], tuple[Fraction, Fraction]]

VECTORS = list(itertools.product(range(3), repeat=3))
BOTH = pytest.mark.parametrize("peeling", [False, True], ids=["one-shot", "peeling"])


def exp_above(epsilon: Fraction) -> Fraction:
    """A number just above e^epsilon."""
    return enclose(lambda: ball(epsilon).exp())[1] * (1 + Fraction(1, 10**30))


def worst_ratio(p: Law, q: Law) -> Fraction:
    return max(p[key][0] / q[key][1] for key in p)


def renyi(p: Law, q: Law, order: int) -> float:
    """The Renyi divergence of this order, from the middles of the enclosures."""
    pairs = [(float(sum(p[key]) / 2), float(sum(q[key]) / 2)) for key in p]
    return math.log(sum(a**order * b ** (1 - order) for a, b in pairs)) / (order - 1)


def neighbours(monotone: bool) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    moves = range(2) if monotone else range(-1, 2)
    return [
        (u, v)
        for u, v in itertools.product(VECTORS, repeat=2)
        if all(b - a in moves for a, b in zip(u, v, strict=True))
    ]


def numbered(mechanism: TopK, utilities: Sequence[float], runs: int) -> list[int]:
    """Draws, as the number of the list in lexicographic order."""
    places = range(len(utilities))
    number = {key: i for i, key in enumerate(itertools.permutations(places, mechanism.k))}
    return [number[tuple(mechanism.choose(places, utilities))] for _ in range(runs)]


def middles(law: Law) -> list[float]:
    return [float(sum(law[key]) / 2) for key in sorted(law)]


@pytest.mark.parametrize("utilities", [[0, 0, 0], [1, 2, 3], [5, 0, 0, 1], [0.5, 2.25, 0.0, 2.25]])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_one_shot_law_is_that_of_successive_choices(utilities: list[float], k: int) -> None:
    """lecture:L17 each next candidate with probability proportional to exp(rate u) among those that are left."""
    mechanism = TopK(k=k, epsilon=3, sensitivity=2)
    weights = [math.exp(3 / k / 4 * u) for u in utilities]
    law = mechanism.law(utilities)
    assert set(law) == set(itertools.permutations(range(len(utilities)), k))
    for key, (low, high) in law.items():
        left, chance = sum(weights), 1.0
        for i in key:
            chance *= weights[i] / left
            left -= weights[i]
        assert float(low) == pytest.approx(chance, rel=1e-12)
        assert low <= high <= low * (1 + Fraction(1, 10**30))


@BOTH
def test_law_sums_to_one(peeling: bool) -> None:
    """lecture:L2"""
    law = TopK(k=3, epsilon=1, peeling=peeling).law([0, 1, 5, 2, 2])
    assert len(law) == 60
    assert sum(low for low, _ in law.values()) <= 1 <= sum(high for _, high in law.values())


@BOTH
def test_one_choice_is_the_single_mechanism(peeling: bool) -> None:
    single = (PermuteAndFlip if peeling else Exponential)(epsilon=2, sensitivity=3, monotone=True)
    mechanism = TopK(k=1, epsilon=2, sensitivity=3, monotone=True, peeling=peeling)
    assert mechanism.once == single
    assert [mechanism.law([1, 4, 2])[i,] for i in range(3)] == list(single.law([1, 4, 2]))
    assert mechanism.error(candidates=9) == single.error(candidates=9)
    assert mechanism.loss == single.loss


@BOTH
def test_first_of_the_list_is_the_single_mechanism_at_its_share(peeling: bool) -> None:
    single = (PermuteAndFlip if peeling else Exponential)(epsilon=Fraction(1, 2))
    law, utilities = TopK(k=2, epsilon=1, peeling=peeling).law([3, 0, 5]), [3, 0, 5]
    for i, (low, high) in enumerate(single.law(utilities)):
        first = [bounds for key, bounds in law.items() if key[0] == i]
        assert sum(b[0] for b in first) <= high
        assert low <= sum(b[1] for b in first)


@BOTH
@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("k", [2, 3])
def test_every_neighbour_pair_stays_within_epsilon(peeling: bool, monotone: bool, k: int) -> None:
    """lecture:L17 the whole ordered list, over a whole small universe, ties included."""
    mechanism = TopK(k=k, epsilon=1, monotone=monotone, peeling=peeling)
    most = exp_above(mechanism.epsilon)
    laws = {u: mechanism.law(u) for u in VECTORS}
    for u, v in neighbours(monotone):
        assert max(worst_ratio(laws[u], laws[v]), worst_ratio(laws[v], laws[u])) <= most


@pytest.mark.parametrize("monotone", [False, True])
def test_a_list_paid_once_instead_of_k_times_is_not_private(monotone: bool) -> None:
    """The planted fault: each choice with the whole epsilon."""
    mechanism = TopK(k=2, epsilon=2, monotone=monotone)
    laws = {u: mechanism.law(u) for u in VECTORS}
    assert max(worst_ratio(laws[u], laws[v]) for u, v in neighbours(monotone)) > exp_above(Fraction(1))


@BOTH
@pytest.mark.parametrize("monotone", [False, True])
def test_renyi_divergence_keeps_to_rho(peeling: bool, monotone: bool) -> None:
    """threat:A32 order a at most a rho, rho = eps^2/(8k) one-shot and eps^2/(2k) with peeling."""
    mechanism = TopK(k=2, epsilon=1, monotone=monotone, peeling=peeling)
    rho = float(mechanism.loss.to_zcdp().rho)
    assert rho == (1 / 4 if peeling else 1 / 16)
    laws = {u: mechanism.law(u) for u in VECTORS}
    for (u, v), order in itertools.product(neighbours(monotone), [2, 8, 64]):
        assert renyi(laws[u], laws[v], order) <= order * rho * (1 + 1e-9)


def test_peeling_is_not_of_bounded_range() -> None:
    """threat:A32 on this pair eps^2/(8k) would be a lie for permute-and-flip."""
    mechanism = TopK(k=2, epsilon=1, monotone=True, peeling=True)
    assert renyi(mechanism.law([0, 1, 1]), mechanism.law([0, 0, 0]), 2) > 2 / 16 * 1.2


def test_loss_is_that_of_k_choices() -> None:
    assert TopK(k=5, epsilon=1).loss == Pure(1, Fraction(1, 40))
    assert TopK(k=5, epsilon=1).loss.to_zcdp() == ZCDP(Fraction(1, 40))
    assert TopK(k=5, epsilon=1, peeling=True).loss == Pure(1, Fraction(1, 10))
    assert TopK(k=1, epsilon=1).loss == BoundedRange(1)


def test_rate_is_that_of_one_choice() -> None:
    assert TopK(k=4, epsilon=1, sensitivity=3).rate == Fraction(1, 24)
    assert TopK(k=4, epsilon=1, sensitivity=3, monotone=True, peeling=True).rate == Fraction(1, 12)


@BOTH
@pytest.mark.parametrize("confidence", [0.5, 0.95])
@pytest.mark.parametrize("k", [1, 2])
def test_error_bound_holds_for_the_exact_law(peeling: bool, confidence: float, k: int) -> None:
    """Every place of the list at once, for gaps below, at and above the bound."""
    mechanism = TopK(k=k, epsilon=2, peeling=peeling)
    bound = mechanism.error(confidence, candidates=6)
    for gap in {1, math.floor(bound), math.ceil(bound), math.ceil(bound) + 3}:
        utilities = [2 * gap, gap, gap, 0, 0, 0]
        best = sorted(utilities, reverse=True)
        missed = sum(
            high
            for key, (_, high) in mechanism.law(utilities).items()
            if any(utilities[r] < best[i] - bound for i, r in enumerate(key))
        )
        assert missed <= 1 - Fraction(str(confidence))


def test_peeling_errs_less_than_one_shot() -> None:
    peeled, raced = (TopK(k=10, epsilon=1, peeling=flag).error(candidates=100) for flag in (True, False))
    assert raced - peeled == pytest.approx(20 * math.log(200 / 99))


@pytest.mark.usefixtures("seeded")
@BOTH
def test_draws_follow_the_law(peeling: bool) -> None:
    utilities = [0, 4, 1.5, 3]
    mechanism = TopK(k=2, epsilon=2, peeling=peeling)
    draws = numbered(mechanism, utilities, 3000)
    assert_fits(draws, finite(middles(mechanism.law(utilities))))
    assert_misfits(draws, finite(middles(TopK(k=2, epsilon=2.5, peeling=peeling).law(utilities))))
    assert_misfits(draws, finite(middles(TopK(k=2, epsilon=2, peeling=not peeling).law(utilities))))


def audited(mechanism: TopK, inputs: Iterable[Sequence[int]], runs: int) -> list[np.ndarray]:
    return [np.array(numbered(mechanism, utilities, runs)) for utilities in inputs]


@pytest.mark.usefixtures("seeded")
@BOTH
def test_auditor_accepts_it_and_catches_missing_factors(peeling: bool) -> None:
    """Neither shared among the choices nor halved for scores that move both ways."""
    pair = [3] * 5 + [2] * 2, [2] * 5 + [3] * 2
    assert_private(*audited(TopK(k=2, epsilon=1, peeling=peeling), pair, 1500), 1.0)
    assert_caught(*audited(TopK(k=2, epsilon=2, monotone=True, peeling=peeling), pair, 1500), 1.0)


@pytest.mark.slow
@pytest.mark.usefixtures("seeded")
@BOTH
@pytest.mark.parametrize(
    ("monotone", "pair"),
    [
        (False, ([3, 3, 3, 2, 2], [2, 2, 2, 3, 3])),
        (True, ([0, 0, 0, 0], [1, 0, 0, 0])),  # the first person of all
    ],
)
def test_auditor_accepts_it_at_length(peeling: bool, monotone: bool, pair: tuple[list[int], list[int]]) -> None:
    assert_private(*audited(TopK(k=2, epsilon=1, monotone=monotone, peeling=peeling), pair, 100_000), 1.0)


@BOTH
def test_clear_winners_come_in_order(peeling: bool) -> None:
    mechanism = TopK(k=3, epsilon=1000, peeling=peeling)
    assert mechanism.choose(["a", "b", "c", "d"], [10, 400, 2, 100]) == ["b", "d", "a"]
    assert mechanism.choose(pa.array(["a", "b", "c", "d"]), np.array([10.5, 400, 2, 100])) == ["b", "d", "a"]
    assert mechanism.choose(np.array([5, 6, 7]), [3 * 10**30, 10**30, 2 * 10**30]) == [5, 7, 6]


@BOTH
def test_all_candidates_may_be_ordered(peeling: bool) -> None:
    assert sorted(TopK(k=4, epsilon=1, peeling=peeling).choose("abcd", [1, 2, 3, 4])) == list("abcd")


@pytest.mark.usefixtures("seeded")
def test_a_million_candidates_are_fine() -> None:
    utilities = np.zeros(1_000_000, np.int64)
    utilities[[5, 77]] = 500, 1000
    assert TopK(k=2, epsilon=1).choose(np.arange(1_000_000), utilities) == [77, 5]


@BOTH
def test_more_than_there_are_is_refused(peeling: bool) -> None:
    mechanism = TopK(k=3, epsilon=1, peeling=peeling)
    for ask in (lambda: mechanism.choose("ab", [1, 2]), lambda: mechanism.law([1, 2])):
        with pytest.raises(Misconfigured, match="`k` is 3; there are only 2 candidates"):
            ask()
    with pytest.raises(Misconfigured, match="`k` is 3; there are only 2 candidates"):
        mechanism.error(candidates=2)


def test_long_laws_are_refused() -> None:
    with pytest.raises(Misconfigured, match="more than 20000 ordered lists of 5 candidates"):
        TopK(k=5, epsilon=1).law(range(10))


@pytest.mark.parametrize("k", [0, -1, 1.5, "2", None, True])
def test_bad_k_is_refused(k: object) -> None:
    with pytest.raises(Misconfigured, match="`k`"):
        TopK(k=k, epsilon=1)  # type: ignore[arg-type]


def test_bad_parameters_and_utilities_are_refused() -> None:
    with pytest.raises(Misconfigured, match="`peeling` is 1"):
        TopK(k=1, epsilon=1, peeling=1)  # type: ignore[arg-type]
    with pytest.raises(Misconfigured, match="`epsilon` is 0"):
        TopK(k=1, epsilon=0)
    with pytest.raises(Misconfigured, match="`monotone` is True under"):
        TopK(k=1, epsilon=1, monotone=True, neighbours=Neighbours.CHANGE_ONE)
    for utilities in ([1, math.nan], [1, None], "12", [1]):
        with pytest.raises(Misconfigured):
            TopK(k=1, epsilon=1).choose("ab", utilities)
