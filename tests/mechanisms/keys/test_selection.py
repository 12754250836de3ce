"""lapwing.mechanisms.keys.selection."""

from __future__ import annotations

import itertools
import math
import pickle
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lapwing.errors import Bug, Misconfigured
from lapwing.lab.report import lower
from lapwing.mechanisms.keys.selection import TruncatedGeometric, _check, best_selection
from lapwing.mechanisms.keys.threshold import WeightedGaussian
from lapwing.numbers import ball, enclose
from lapwing.privacy.loss import Approximate
from support.audit import assert_caught, assert_private
from support.chi import assert_fits, assert_misfits, finite

MADE = {
    "1 key": TruncatedGeometric(epsilon=1, delta=1e-5),
    "2 keys": TruncatedGeometric(epsilon=1, delta=1e-3, keys_per_unit=2),
    "3 keys": TruncatedGeometric(epsilon=2, delta=0.1, keys_per_unit=3),
    "tiny delta": TruncatedGeometric(epsilon=0.5, delta=Fraction(1, 10**40)),
    "small epsilon": TruncatedGeometric(epsilon=0.01, delta=1e-6),
    "large epsilon": TruncatedGeometric(epsilon=300, delta=1e-6),
    "wide delta": TruncatedGeometric(epsilon=0.1, delta=0.6),
}
EACH = pytest.mark.parametrize("mechanism", MADE.values(), ids=MADE)
ROUNDING = Fraction(1, 1 << 30)
"""Of delta: the grid of the table is 2^32 times finer."""


def growth(epsilon: Fraction) -> Fraction:
    """A lower bound of e^epsilon, far closer than the grid of the table."""
    return enclose(lambda: ball(epsilon).exp(), bits=1600)[0]


def divergence(mechanism: TruncatedGeometric, likely: Sequence[int], rare: Sequence[int]) -> Fraction:
    """The hockey-stick divergence at epsilon between the sets of shown keys, as fractions, rounded up."""
    factor, total = growth(mechanism.epsilon), Fraction(0)
    for outcome in itertools.product((False, True), repeat=len(likely)):
        p, q = (
            math.prod((chance if shown else 1 - chance) for shown, chance in zip(outcome, chances, strict=True))
            for chances in (map(mechanism.probability, counts) for counts in (likely, rare))
        )
        total += max(Fraction(0), p - factor * q)
    return total


@EACH
def test_every_step_keeps_both_inequalities_in_both_directions(mechanism: TruncatedGeometric) -> None:
    """threat:A15 all four sets of outcomes of one key, every count until certainty, as fractions."""
    factor = growth(mechanism.epsilon / mechanism.keys_per_unit)
    slip = mechanism.delta / mechanism.keys_per_unit
    last = mechanism.error(Fraction((1 << 300) - 1, 1 << 300))
    assert mechanism.probability(last) == 1
    for n in range(last + 1):
        p, q = mechanism.probability(n), mechanism.probability(n + 1)
        assert p <= q <= factor * p + slip
        assert 1 - q <= 1 - p <= factor * (1 - q) + slip


@pytest.mark.parametrize("name", ["1 key", "2 keys", "3 keys", "wide delta"])
def test_every_pair_of_neighbours_is_within_epsilon_and_delta(name: str) -> None:
    """threat:A15 brute force over tables of up to three units and three keys, and counts around the middle."""
    mechanism = MADE[name]
    kappa = mechanism.keys_per_unit
    holdings = [keys for size in range(kappa + 1) for keys in itertools.combinations("abc", size)]
    pairs = set()
    for others in range(4 if kappa < 3 else 3):
        for table in itertools.combinations_with_replacement(holdings, others):
            before = [sum(key in held for held in table) for key in "abc"]
            pairs |= {tuple((n, n + (key in unit)) for n, key in zip(before, "abc", strict=True)) for unit in holdings}
    half = mechanism.half()
    pairs |= {((a, a + 1), (b, b + 1), (0, 1))[:kappa] for a in range(half + 4) for b in (0, half - 1, half)}
    for pair in {tuple(sorted(pair)) for pair in pairs}:
        without, within = zip(*pair, strict=True)
        assert divergence(mechanism, within, without) <= mechanism.delta
        assert divergence(mechanism, without, within) <= mechanism.delta


@EACH
def test_rule_is_optimal_up_to_the_rounding(mechanism: TruncatedGeometric) -> None:
    """Every step takes one of the three bounds, so any larger probability would break the guarantee."""
    factor = growth(mechanism.epsilon / mechanism.keys_per_unit)
    slip = mechanism.delta / mechanism.keys_per_unit
    for n in range(min(2000, mechanism.error(Fraction(999, 1000)))):
        p, q = mechanism.probability(n), mechanism.probability(n + 1)
        most = min(factor * p + slip, 1 - (1 - p - slip) / factor, Fraction(1))
        assert most - ROUNDING * slip <= q <= most


def test_delta_is_attained_by_a_single_unit() -> None:
    mechanism = MADE["1 key"]
    assert mechanism.delta * (1 - ROUNDING) < mechanism.probability(1) <= mechanism.delta
    assert divergence(mechanism, [1], [0]) == mechanism.probability(1)


def test_a_step_that_is_too_long_is_a_bug() -> None:
    """The check that every table passes when it is built: a step too high by one grid unit does not."""
    one, more = 1 << 64, 128
    grown, slip = int(growth(Fraction(1)) * (1 << more)), int(Fraction(1, 1000) * one)
    step = (grown * slip >> more) + slip
    _check(slip, step, grown, slip << more, one, more)
    for p, q in ((slip, step + 1), (slip, slip), (one - 4 * slip, one), (step, slip)):
        with pytest.raises(Bug, match="breaks its guarantee"):
            _check(p, q, grown, slip << more, one, more)


@pytest.mark.parametrize(
    ("delta", "kappa", "half"),
    [(1e-5, 1, 12), (1e-5, 2, 23), (1e-5, 4, 44), (1e-5, 16, 174), (1e-8, 2, 36), (1e-8, 16, 285)],
)
def test_units_for_an_even_chance_are_as_published(delta: float, kappa: int, half: int) -> None:
    mechanism = TruncatedGeometric(epsilon=1, delta=delta, keys_per_unit=kappa)
    assert mechanism.half() == half
    assert mechanism.probability(half) >= Fraction(1, 2) > mechanism.probability(half - 1)


@EACH
def test_probability_rises_from_nothing_to_certainty(mechanism: TruncatedGeometric) -> None:
    assert mechanism.probability(0) == 0
    assert mechanism.probability(10**9) == 1
    chances = [mechanism.probability(n) for n in range(mechanism.error(0.95) + 1)]
    assert all(a < b for a, b in itertools.pairwise(chances))
    for confidence in (0.01, 0.5, 0.95):
        n = mechanism.error(confidence)
        assert mechanism.probability(n) >= Fraction(str(confidence)) > mechanism.probability(n - 1)


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("name", ["1 key", "2 keys", "3 keys", "tiny delta", "wide delta"])
def test_keys_are_shown_as_often_as_stated(name: str) -> None:
    """Counts are mixed, so that the order of the coins and the order of the keys differ."""
    mechanism = MADE[name]
    half = mechanism.half()
    kinds = np.array([half, 0, half + 1, 10**9, max(1, half - 1)])
    counts = np.tile(kinds, 30_000)
    keep = mechanism.keep(counts)
    assert not keep[counts == 0].any()
    assert keep[counts == 10**9].all()
    for n in {half, half + 1, max(1, half - 1)}:
        p = float(mechanism.probability(n))
        draws = keep[counts == n].astype(np.int64)
        assert_fits(draws, finite([1 - p, p]))
        if 0.1 < p < 0.9:
            assert_misfits(draws, finite([1 - 0.9 * p, 0.9 * p]))


@pytest.mark.usefixtures("seeded")
def test_keys_of_one_count_are_decided_independently() -> None:
    mechanism = MADE["2 keys"]
    shown = mechanism.keep(np.full(100_000, mechanism.half())).reshape(-1, 2)
    p = float(mechanism.probability(mechanism.half()))
    assert_fits(shown @ [2, 1], finite([(1 - p) ** 2, (1 - p) * p, (1 - p) * p, p * p]))


@pytest.mark.usefixtures("seeded")
def test_long_tables_are_looked_up_alike() -> None:
    """More than 65,536 steps: counts no longer fit two bytes."""
    mechanism = TruncatedGeometric(epsilon=0.0001, delta=1e-7)
    certain = mechanism.error(Fraction((1 << 300) - 1, 1 << 300))
    assert certain > 1 << 16
    assert mechanism.keep([certain, 0, certain + 1, 0]).tolist() == [True, False, True, False]


@pytest.mark.usefixtures("seeded")
def test_singleton_key_is_shown_with_at_most_its_share_of_delta() -> None:
    """threat:A15 Clopper-Pearson, N = 1e5, delta = 1e-3; a delta ten times as large is caught."""
    n, ones = 100_000, np.ones(100_000, np.int64)
    for kappa in (1, 2):
        mechanism = TruncatedGeometric(epsilon=1, delta=1e-3, keys_per_unit=kappa)
        assert lower(int(mechanism.keep(ones).sum()), n, 1e-6) <= 1e-3 / kappa
    assert lower(int(TruncatedGeometric(epsilon=1, delta=1e-2).keep(ones).sum()), n, 1e-6) > 1e-3


def assert_audited(runs: int) -> None:
    for name in ("1 key", "2 keys", "3 keys", "wide delta"):
        mechanism = MADE[name]
        kappa, half = mechanism.keys_per_unit, mechanism.half()
        for before in ([0] * kappa, [1] * kappa, [half] * kappa, [0, half, half - 1][:kappa], [3 * half] * kappa):
            without, within = (
                mechanism.keep(np.tile(counts, runs)).reshape(runs, kappa).astype(np.int64)
                for counts in (before, [n + 1 for n in before])
            )
            assert_private(without, within, float(mechanism.epsilon), float(mechanism.delta))


@pytest.mark.usefixtures("seeded")
def test_auditor_accepts_it_and_catches_a_unit_with_too_many_keys() -> None:
    """threat:A15 five keys of a unit that may hold one: the promise of the caller matters."""
    assert_audited(3_000)
    broken, runs = TruncatedGeometric(epsilon=1, delta=1e-3), 10_000
    half = broken.half()
    rows = (broken.keep(np.full(5 * runs, n)).reshape(runs, 5).sum(axis=1) for n in (half, half - 1))
    assert_caught(*rows, 1.0, 1e-3)


@pytest.mark.slow
@pytest.mark.usefixtures("seeded")
def test_auditor_accepts_it_on_many_runs() -> None:
    """threat:A15"""
    assert_audited(100_000)


def test_no_keys_are_no_keys() -> None:
    """A table that a WHERE has emptied."""
    assert MADE["1 key"].keep([]).tolist() == []
    assert MADE["1 key"].keep(np.zeros(3, np.int64)).tolist() == [False] * 3


@settings(max_examples=30)
@given(st.floats(0.05, 5), st.sampled_from([1e-9, 1e-5, 0.01]), st.integers(1, 8))
def test_more_privacy_or_more_keys_need_more_units(epsilon: float, delta: float, kappa: int) -> None:
    base = TruncatedGeometric(epsilon=epsilon, delta=delta, keys_per_unit=kappa).half()
    assert TruncatedGeometric(epsilon=epsilon, delta=delta, keys_per_unit=kappa + 1).half() >= base
    assert TruncatedGeometric(epsilon=epsilon, delta=delta / 10, keys_per_unit=kappa).half() >= base
    assert TruncatedGeometric(epsilon=epsilon / 2, delta=delta, keys_per_unit=kappa).half() >= base


@EACH
def test_it_is_a_value(mechanism: TruncatedGeometric) -> None:
    again = pickle.loads(pickle.dumps(mechanism))
    assert again == mechanism
    assert hash(again) == hash(mechanism)
    assert mechanism.loss == Approximate(mechanism.epsilon, mechanism.delta)


@pytest.mark.parametrize(
    ("name", "bad"),
    [("epsilon", 0), ("epsilon", math.inf), ("epsilon", 701), ("delta", 0), ("delta", 1), ("keys_per_unit", 0)],
)
def test_parameters_are_refused_with_their_rule(name: str, bad: Any) -> None:
    with pytest.raises(Misconfigured, match=rf"`{name}` is"):
        TruncatedGeometric(**{"epsilon": 1, "delta": 1e-5, name: bad})


def test_a_table_without_end_is_refused() -> None:
    with pytest.raises(Misconfigured, match=r"over 200,000 units .* Use WeightedGaussian"):
        TruncatedGeometric(epsilon=1e-6, delta=1e-9)


@pytest.mark.parametrize("kappa", [1, 2, 3, 4, 16, 50])
def test_best_selection_needs_the_fewest_units(kappa: int) -> None:
    choice = best_selection(epsilon=1, delta=1e-5, keys_per_unit=kappa)
    halves = choice.geometric_half or math.inf, choice.weighted_half
    assert isinstance(choice.best, TruncatedGeometric if kappa <= 2 else WeightedGaussian)
    assert isinstance(choice.best, TruncatedGeometric) == (halves[0] < halves[1])
    assert choice.best.loss == Approximate(1, Fraction(1, 10**5))
    assert choice.best.keys_per_unit == kappa
    assert str(choice).startswith(f"{type(choice.best).__name__} is better here.")
    assert f"needs {choice.geometric_half} units" in str(choice)


def test_best_selection_does_without_a_table_that_is_too_long() -> None:
    choice = best_selection(epsilon=1e-5, delta=1e-9, keys_per_unit=4)
    assert isinstance(choice.best, WeightedGaussian)
    assert choice.geometric_half is None
    assert "too long" in str(choice)


def test_best_selection_refuses_bad_parameters() -> None:
    with pytest.raises(Misconfigured, match="`delta` is 0"):
        best_selection(epsilon=1, delta=0)
