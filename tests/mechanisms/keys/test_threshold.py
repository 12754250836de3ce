"""lapwing.mechanisms.keys.threshold."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from lapwing.errors import Misconfigured
from lapwing.lab.report import lower
from lapwing.mechanisms.keys.threshold import CountThreshold, GaussianThreshold, LaplaceThreshold
from lapwing.numbers import ball, enclose
from lapwing.privacy.loss import ZCDP, Approximate
from support.audit import assert_caught, assert_private
from support.chi import assert_fits, assert_misfits, finite

HIDDEN = -(10**6)
Pair = tuple[int, int]

SMALL = {
    "Laplace 1": LaplaceThreshold(epsilon=1, delta=1e-3),
    "Laplace 2": LaplaceThreshold(epsilon=1, delta=1e-3, keys_per_unit=2),
    "Laplace 2, wide delta": LaplaceThreshold(epsilon=2, delta=0.4, keys_per_unit=2),
    "Gaussian 1": GaussianThreshold(epsilon=1, delta=1e-3),
    "Gaussian 2": GaussianThreshold(epsilon=1, delta=1e-3, keys_per_unit=2),
    "Gaussian 2, large epsilon": GaussianThreshold(epsilon=5, delta=1e-2, keys_per_unit=2),
    "Gaussian 2, wide delta": GaussianThreshold(epsilon=1, delta=0.3, keys_per_unit=2),
}
EACH = pytest.mark.parametrize("mechanism", SMALL.values(), ids=SMALL)
RHO = {
    "rho, 1": GaussianThreshold(rho=0.1, delta=1e-3),
    "rho, 2": GaussianThreshold(rho=0.1, delta=1e-3, keys_per_unit=2),
}
ALL = SMALL | RHO
EVERY = pytest.mark.parametrize("mechanism", ALL.values(), ids=ALL)


def shifted(mechanism: Any, by: int) -> Any:
    """The same mechanism with another threshold: a planted fault."""
    return changed(mechanism, threshold=mechanism.threshold + by)


def changed(mechanism: Any, **fields: Any) -> Any:
    twin = copy.copy(mechanism)
    for name, value in fields.items():
        object.__setattr__(twin, name, value)
    return twin


def exponent(mechanism: CountThreshold, z: int) -> Fraction:
    match mechanism:
        case LaplaceThreshold():
            return abs(z) / mechanism.scale
        case GaussianThreshold():
            return Fraction(z * z) / (2 * mechanism.variance)
        case _:
            raise TypeError


def law_of(mechanism: CountThreshold, n: int) -> dict[int, arb]:
    """What a key of n units shows: HIDDEN or its noisy count. Noise beyond 30 scales, or 12 sigma, is left out."""
    if not n:
        return {HIDDEN: arb(1)}
    reach = math.ceil((30 if isinstance(mechanism, LaplaceThreshold) else 12) * mechanism.width) + 1
    weights = {z: (-ball(exponent(mechanism, z))).exp() for z in range(-reach, reach + 1)}
    total = sum(weights.values(), arb(0))
    shown = {n + z: w / total for z, w in weights.items() if n + z > mechanism.threshold}
    hidden = sum((w for z, w in weights.items() if n + z <= mechanism.threshold), arb(0)) / total
    if mechanism.edge:
        edge = weights.get(mechanism.threshold - n, arb(0)) / total * ball(mechanism.edge)
        shown, hidden = {mechanism.threshold: edge} | shown, hidden - edge
    return {HIDDEN: hidden} | shown


def brute_pairs(kappa: int) -> set[tuple[Pair, ...]]:
    """(count without, count with the unit) of the unit's keys, over all tables of up to two others with three keys."""
    holdings = [set(keys) for size in range(kappa + 1) for keys in itertools.combinations("abc", size)]
    found = set()
    for others in range(3):
        for table in itertools.combinations_with_replacement(holdings, others):
            for unit in holdings:
                counts = sorted(sum(key in held for held in table) for key in unit)
                found.add(tuple((n, n + 1) for n in counts))
    return found


def pairs_of(mechanism: CountThreshold) -> list[tuple[Pair, ...]]:
    """The brute-force pairs, and pairs around the threshold, where shared keys tell most."""
    near = [(n, n + 1) for n in (0, 1, mechanism.threshold, mechanism.threshold + 1, 3 * mechanism.threshold)]
    around = itertools.combinations_with_replacement(near, mechanism.keys_per_unit)
    return sorted(brute_pairs(mechanism.keys_per_unit) | set(around))


def divergence(mechanism: CountThreshold, pairs: Iterable[Pair], epsilon: Fraction, *, removed: bool) -> Fraction:
    """The hockey-stick divergence at epsilon, rounded up, with room for what law_of leaves out."""

    def formula() -> arb:
        laws = [tuple(law_of(mechanism, n) for n in (pair[::-1] if removed else pair)) for pair in pairs]
        factor, total = ball(epsilon).exp(), arb(0)
        for outcome in itertools.product(*(set(p) | set(q) for q, p in laws)):
            likely = _product(p.get(o, arb(0)) for o, (_, p) in zip(outcome, laws, strict=True))
            rare = _product(q.get(o, arb(0)) for o, (q, _) in zip(outcome, laws, strict=True))
            total += (likely - factor * rare).max(arb(0))
        return total

    left_out = Fraction(1, 10**12) if isinstance(mechanism, LaplaceThreshold) else Fraction(1, 10**30)
    return enclose(formula, bits=128)[1] + left_out


def _product(factors: Iterable[arb]) -> arb:
    return math.prod(factors, start=arb(1))


@EACH
def test_every_pair_of_neighbours_is_within_epsilon_and_delta(mechanism: CountThreshold) -> None:
    """threat:A15 the whole output law of both neighbours, new keys and shared ones, added and removed."""
    assert isinstance(mechanism.loss, Approximate)
    epsilon, delta = mechanism.loss.epsilon, mechanism.loss.delta
    found = [
        divergence(mechanism, pairs, epsilon, removed=way) for pairs in pairs_of(mechanism) for way in (False, True)
    ]
    assert max(found) <= delta


@EVERY
def test_a_threshold_one_lower_breaks_delta(mechanism: CountThreshold) -> None:
    """threat:A15 the threshold is the least there is, unless it is already 1: all keys new, any epsilon."""
    pairs = [(0, 1)] * mechanism.keys_per_unit
    if mechanism.threshold > 1:
        assert divergence(shifted(mechanism, -1), pairs, Fraction(5), removed=False) > mechanism.loss.delta
    assert divergence(mechanism, pairs, Fraction(0), removed=False) <= mechanism.loss.delta


@EVERY
def test_the_edge_uses_what_is_left_of_delta_and_no_more(mechanism: CountThreshold) -> None:
    """threat:A15 new keys only: nearly all of delta is used, and an edge a little larger breaks it."""
    pairs = [(0, 1)] * mechanism.keys_per_unit
    most = mechanism.loss.delta
    if mechanism.threshold == 1:
        assert mechanism.edge == 0
        return
    assert 0 <= mechanism.edge < 1
    assert most * Fraction(99, 100) <= divergence(mechanism, pairs, Fraction(5), removed=False) <= most
    wider = changed(mechanism, edge=min(mechanism.edge * Fraction(11, 10) + Fraction(1, 50), Fraction(1)))
    assert divergence(wider, pairs, Fraction(5), removed=False) > most


@pytest.mark.parametrize("mechanism", RHO.values(), ids=RHO)
def test_zcdp_of_the_shared_keys_is_rho_and_new_keys_cost_delta(mechanism: GaussianThreshold) -> None:
    """Renyi divergences of what is left when the new keys stay hidden, and the chance that they do not."""
    shown = mechanism.probability(1)
    assert isinstance(mechanism.loss, ZCDP)
    for new in range(mechanism.keys_per_unit + 1):
        assert 1 - (1 - shown) ** new <= mechanism.loss.delta
        for n in (1, mechanism.threshold, 3 * mechanism.threshold):
            p, q = law_of(mechanism, n + 1), law_of(mechanism, n)
            for order in (2, 5, 20):
                ratio = math.fsum(float(p[o] ** order / q[o] ** (order - 1)) for o in set(p) & set(q))
                shared = mechanism.keys_per_unit - new
                assert shared * math.log(ratio) / (order - 1) <= order * mechanism.loss.rho * (1 + 1e-9)


@pytest.mark.parametrize("kappa", [3, 8, 40])
@pytest.mark.parametrize(("epsilon", "delta"), [(1, 1e-5), (0.1, 1e-6), (4, 1e-3)])
def test_delta_holds_however_many_keys_are_new(epsilon: float, delta: float, kappa: int) -> None:
    """The exact divergence of t new keys beside kappa - t shared ones, whose noise is taken as continuous.

    If a new key is shown, its absence is certain elsewhere; else the likely side has (1 - a)^t of its weight:
    1 - h + h D(epsilon - ln h), h = (1 - a)^t.
    """
    mechanism = GaussianThreshold(epsilon=epsilon, delta=delta, keys_per_unit=kappa)
    for new in range(kappa + 1):
        hidden = (1 - mechanism.probability(1)) ** new
        assert 1 - hidden + hidden * gaussian_delta(epsilon - math.log(hidden), kappa - new, mechanism) <= delta


def gaussian_delta(epsilon: float, squared: float, mechanism: GaussianThreshold) -> float:
    m = math.sqrt(squared) / mechanism.width
    return float(norm.cdf(m / 2 - epsilon / m) - math.exp(epsilon) * norm.cdf(-m / 2 - epsilon / m)) if m else 0.0


def test_a_laplace_threshold_with_gaussian_noise_breaks_delta() -> None:
    """threat:A15 the threshold must be that of the noise which is added."""
    laplace, gauss = LaplaceThreshold(epsilon=1, delta=1e-5), GaussianThreshold(epsilon=1, delta=1e-5)
    wrong = shifted(gauss, laplace.threshold - gauss.threshold)
    assert wrong.probability(1) > 50 * 1e-5


def test_a_threshold_that_forgets_the_other_keys_breaks_delta() -> None:
    """threat:A15 delta is for all keys of a unit together."""
    gauss = GaussianThreshold(epsilon=1, delta=1e-3, keys_per_unit=8)
    for_one = next(t for t in range(1, 100) if shifted(gauss, t - gauss.threshold).probability(1) <= 1e-3)
    assert 1 - (1 - shifted(gauss, for_one - gauss.threshold).probability(1)) ** 8 > 5e-3
    assert 1 - (1 - gauss.probability(1)) ** 8 <= 1e-3


@pytest.mark.parametrize(
    ("delta", "kappa", "laplace", "gauss"),
    [
        *[(1e-5, 1, 11.8, 18.2), (1e-5, 2, 24.0, 26.1), (1e-5, 4, 49.8, 37.5), (1e-5, 16, 218, 78)],
        *[(1e-8, 2, 37.8, 44.2), (1e-8, 16, 329, 130)],
    ],
)
def test_thresholds_are_near_the_formulas_and_never_split_delta(
    delta: float, kappa: int, laplace: float, gauss: float
) -> None:
    """The continuous formulas: Laplace 1 + (kappa/eps) ln(1/(2 d)); Gaussian with delta split into two parts."""

    def sigma_for(slip: float) -> float:
        def excess(s: float) -> float:
            return float(norm.cdf(0.5 / s - s) - math.e * norm.cdf(-0.5 / s - s)) - slip

        return math.sqrt(kappa) * float(brentq(excess, 0.5, 50))

    def split(f: float) -> float:
        return 1 + sigma_for((1 - f) * delta) * float(norm.isf(-math.expm1(math.log1p(-f * delta) / kappa)))

    real = 1 + kappa * math.log(-0.5 / math.expm1(math.log1p(-delta) / kappa))
    assert real == pytest.approx(laplace, rel=0.005)
    assert abs(LaplaceThreshold(epsilon=1, delta=delta, keys_per_unit=kappa).threshold - real) < 1
    best = min(map(split, np.linspace(0.05, 0.95, 19)))
    assert best == pytest.approx(gauss, rel=0.01)
    assert GaussianThreshold(epsilon=1, delta=delta, keys_per_unit=kappa).threshold < best


def noisy_or_hidden(mechanism: CountThreshold, counts: list[int], runs: int) -> np.ndarray[Any, Any]:
    """One row a run: what is seen of each key."""
    shown = mechanism.release(np.tile(counts, runs))
    seen = np.full(runs * len(counts), HIDDEN)
    seen[shown.keep] = shown.counts
    return seen.reshape(runs, len(counts))


@pytest.mark.usefixtures("seeded")
@EVERY
def test_release_follows_its_law(mechanism: CountThreshold) -> None:
    for n in (1, mechanism.threshold, mechanism.threshold + 3):
        law = law_of(mechanism, n)
        outcomes = sorted(law)
        chances = [float(law[o].mid()) for o in outcomes]
        draws = np.searchsorted(outcomes, noisy_or_hidden(mechanism, [n], 50_000)[:, 0])
        assert_fits(draws, finite(chances))
        if n > 1:
            assert_misfits(draws, finite(0.9 * np.array(chances) + 0.1 * np.roll(chances, 1)))


@pytest.mark.usefixtures("seeded")
@EVERY
def test_singleton_key_is_shown_with_at_most_its_share_of_delta(mechanism: CountThreshold) -> None:
    """threat:A15 Clopper-Pearson, N = 1e5; a threshold of 0 is caught."""
    n, share = 100_000, 1 - (1 - float(mechanism.loss.delta)) ** (1 / mechanism.keys_per_unit)
    assert lower(int(mechanism.keep(np.ones(n, np.int64)).sum()), n, 1e-6) <= share
    naive = shifted(mechanism, -mechanism.threshold)
    assert lower(int(naive.keep(np.ones(n, np.int64)).sum()), n, 1e-6) > share


def audit_pairs(mechanism: CountThreshold) -> list[tuple[Pair, ...]]:
    t, kappa = mechanism.threshold, mechanism.keys_per_unit
    return [
        ((0, 1),) * kappa,
        ((0, 1), (t, t + 1))[-kappa:],
        ((t, t + 1),) * kappa,
        ((1, 2), (3 * t, 3 * t + 1))[:kappa],
    ]


def assert_audited(mechanism: CountThreshold, runs: int) -> None:
    assert isinstance(mechanism.loss, Approximate)
    for pairs in audit_pairs(mechanism):
        without, within = (noisy_or_hidden(mechanism, list(counts), runs) for counts in zip(*pairs, strict=True))
        assert_private(without, within, float(mechanism.loss.epsilon), float(mechanism.loss.delta))


@pytest.mark.usefixtures("seeded")
@EACH
def test_auditor_accepts_it(mechanism: CountThreshold) -> None:
    """threat:A15"""
    assert_audited(mechanism, 10_000)


@pytest.mark.slow
@pytest.mark.usefixtures("seeded")
@EACH
def test_auditor_accepts_it_on_many_runs(mechanism: CountThreshold) -> None:
    """threat:A15"""
    assert_audited(mechanism, 100_000)


@pytest.mark.usefixtures("seeded")
def test_auditor_catches_a_key_shown_from_a_noisy_count_of_one() -> None:
    """threat:A15 delta about a half, where next to none is claimed."""
    naive = shifted(LaplaceThreshold(epsilon=1, delta=1e-3), -7)
    assert naive.threshold == 0
    assert_caught(noisy_or_hidden(naive, [0], 1000), noisy_or_hidden(naive, [1], 1000), 1.0, 1e-3)


@EVERY
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_interval_covers_the_count_of_a_shown_key(mechanism: CountThreshold, confidence: float) -> None:
    """Exact coverage given that the key is shown, for every count from 1 to far beyond the threshold."""
    for n in [*range(1, mechanism.threshold + 30, 3), mechanism.threshold + 1, mechanism.threshold + 2, 10**6]:
        law = law_of(mechanism, n)
        shown = np.array([o for o in law if o != HIDDEN])
        chances = np.array([float(law[o].mid()) for o in shown.tolist()])
        low, high = mechanism.interval(shown, confidence)
        covered = (low <= n) & (n <= high)
        assert chances @ covered >= confidence * chances.sum() * (1 - 1e-9)


@EVERY
@pytest.mark.parametrize("digits", [9, 12, 15])
def test_interval_misses_as_rarely_as_it_says_next_to_certainty(mechanism: CountThreshold, digits: int) -> None:
    for n in [1, 2, mechanism.threshold, mechanism.threshold + 1, mechanism.threshold + 2, mechanism.threshold + 40]:
        law = law_of(mechanism, n)
        shown = np.array([o for o in law if o != HIDDEN])
        chances = np.array([float(law[o].mid()) for o in shown.tolist()])
        low, high = mechanism.interval(shown, 1 - Fraction(1, 10**digits))
        missed = (n < low) | (high < n)
        assert chances @ missed <= chances.sum() / 10**digits


def test_plain_interval_never_covers_a_key_of_one_unit() -> None:
    """What the corrected interval is for: a shown singleton is off by the threshold at least."""
    mechanism = LaplaceThreshold(epsilon=1, delta=1e-5)
    plain = 3  # P[|Z| <= 3] > 0.95
    assert mechanism.threshold + 1 - plain > 1
    low, high = mechanism.interval([mechanism.threshold + 1, 1000])
    assert low.tolist() == [1, 997]
    assert [side.tolist() for side in mechanism.interval([mechanism.threshold])] == [[1], [mechanism.threshold + 2]]
    assert high.tolist() == [mechanism.threshold + 4, 1003]


def test_interval_is_no_wider_than_it_must_be_far_above_the_threshold() -> None:
    mechanism = GaussianThreshold(epsilon=1, delta=1e-5, keys_per_unit=16)
    low, high = mechanism.interval([10_000])
    assert high[0] - low[0] == pytest.approx(2 * 1.96 * mechanism.width, abs=2)
    assert low[0] + high[0] == 20_000


def test_interval_refuses_what_was_not_released() -> None:
    mechanism = LaplaceThreshold(epsilon=1, delta=1e-5)
    with pytest.raises(Misconfigured, match="`noisy` holds a count that is too small"):
        mechanism.interval([50, mechanism.threshold - 1])
    with pytest.raises(Misconfigured, match="`noisy` holds a count that is too small"):
        changed(mechanism, edge=Fraction(0)).interval([50, mechanism.threshold])
    assert [side.tolist() for side in mechanism.interval([])] == [[], []]


@EVERY
def test_probability_error_and_half_agree_with_the_law(mechanism: CountThreshold) -> None:
    half = mechanism.half()
    assert mechanism.probability(0) == 0
    assert mechanism.probability(half) >= 0.5 > mechanism.probability(half - 1)
    for confidence in (0.2, 0.5, 0.95, 0.9999):
        n = mechanism.error(confidence)
        assert mechanism.probability(n) >= confidence
        assert n == 1 or mechanism.probability(n - 1) < confidence + 1e-4
    for n in (1, half, half + 3):
        assert mechanism.probability(n) == pytest.approx(1 - float(law_of(mechanism, n)[HIDDEN].mid()), rel=1e-9)


@pytest.mark.usefixtures("seeded")
@EVERY
def test_absent_keys_are_never_shown_and_large_ones_always(mechanism: CountThreshold) -> None:
    """Also a table that a WHERE has emptied."""
    shown = mechanism.release([0, 10**9] * 500)
    assert shown.keep.tolist() == [False, True] * 500
    assert abs(shown.counts - 10**9).max() < 10**4
    empty = mechanism.release([])
    assert (empty.keep.tolist(), empty.counts.tolist()) == ([], [])
    assert not mechanism.keep(np.zeros(1000, np.int64)).any()


@settings(max_examples=12)
@given(st.floats(0.05, 5), st.sampled_from([1e-9, 1e-5, 0.01]), st.integers(1, 20))
def test_more_privacy_or_more_keys_need_more_units(epsilon: float, delta: float, kappa: int) -> None:
    for kind in (LaplaceThreshold, GaussianThreshold):
        base = kind(epsilon=epsilon, delta=delta, keys_per_unit=kappa).half()
        assert kind(epsilon=epsilon, delta=delta, keys_per_unit=kappa + 1).half() >= base
        assert kind(epsilon=epsilon, delta=delta / 10, keys_per_unit=kappa).half() >= base
        assert kind(epsilon=epsilon / 2, delta=delta, keys_per_unit=kappa).half() >= base


@EVERY
def test_it_is_a_value(mechanism: CountThreshold) -> None:
    again = pickle.loads(pickle.dumps(mechanism))
    assert again == mechanism
    assert hash(again) == hash(mechanism)
    assert again != shifted(mechanism, 1)


def test_losses_are_as_asked() -> None:
    assert LaplaceThreshold(epsilon=0.1, delta=1e-6).loss == Approximate(Fraction(1, 10), Fraction(1, 10**6))
    assert GaussianThreshold(epsilon=0.1, delta=1e-6).loss == Approximate(Fraction(1, 10), Fraction(1, 10**6))
    assert GaussianThreshold(rho=0.1, delta=1e-6).loss == ZCDP(Fraction(1, 10), Fraction(1, 10**6))
    assert GaussianThreshold(rho=0.1, delta=1e-6, keys_per_unit=4).variance == 20


@pytest.mark.parametrize("kind", [LaplaceThreshold, GaussianThreshold])
@pytest.mark.parametrize(
    ("name", "bad"),
    [
        *[("epsilon", 0), ("epsilon", math.nan), ("epsilon", 701), ("delta", 0), ("delta", 1), ("delta", -1)],
        *[("keys_per_unit", 0), ("keys_per_unit", 1.5), ("keys_per_unit", True)],
    ],
)
def test_parameters_are_refused_with_their_rule(kind: Any, name: str, bad: object) -> None:
    with pytest.raises(Misconfigured, match=rf"`{name}` is"):
        kind(**{"epsilon": 1, "delta": 1e-5, name: bad})


@pytest.mark.parametrize("given_", [{}, {"epsilon": 1, "rho": 1}])
def test_a_gaussian_threshold_takes_epsilon_or_rho(given_: dict[str, int]) -> None:
    with pytest.raises(Misconfigured, match="either `epsilon` or `rho`"):
        GaussianThreshold(delta=1e-5, **given_)


@pytest.mark.parametrize("bad", [0, 1, 1 - Fraction(1, 10**16), "a"])
def test_confidence_is_refused_where_nothing_is_proved(bad: Any) -> None:
    mechanism = LaplaceThreshold(epsilon=1, delta=1e-5)
    for ask in (mechanism.error, lambda level: mechanism.interval([100], level)):
        with pytest.raises(Misconfigured, match="`confidence` is"):
            ask(bad)
