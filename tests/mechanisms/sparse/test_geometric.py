"""lapwing.mechanisms.sparse.vector."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lapwing.errors import Misconfigured
from lapwing.mechanisms.sparse.crossing import AboveAnswers
from lapwing.mechanisms.sparse.vector import GeometricSparse, Sparse
from lapwing.numbers import ball, enclose
from lapwing.privacy.convert import rho_of_epsilon
from lapwing.privacy.loss import Pure
from lapwing.privacy.neighbours import Neighbours
from support.audit import assert_caught, assert_private
from support.chi import assert_fits, assert_misfits, finite

# The worst neighbours: as if the bar rose by one, which belows hide; each above pays for two steps, or one if monotone.
WORST: dict[bool, tuple[list[int], list[int]]] = {
    False: ([-1, -1, -1, 0, 0], [0, 0, 0, -1, -1]),
    True: ([-1, -1, -1, 0, 0], [0, 0, 0, 0, 0]),
}


def mechanism(**changes: Any) -> GeometricSparse:
    return GeometricSparse(**({"threshold": 100, "epsilon": 1, "queries": 5} | changes))


def answers_of(sparse: GeometricSparse, values: list[int]) -> AboveAnswers:
    """One run over values that are given relative to the bar without noise, until it halts."""
    run, bar = sparse.start(), sparse.crossing.threshold + sparse.crossing.shift
    found: list[bool] = []
    for value in values:
        if run.halted:
            break
        found.append(run.above(bar + value))
    return tuple(found)


def worst_loss(sparse: GeometricSparse, here: list[int], there: list[int]) -> tuple[Fraction, Fraction]:
    """Bounds of the largest ratio of probabilities, both ways."""
    bar = sparse.crossing.threshold + sparse.crossing.shift
    law, other = sparse.law([bar + v for v in here]), sparse.law([bar + v for v in there])
    pairs = [(p, q) for o in law for p, q in ((law[o], other[o]), (other[o], law[o]))]
    return max(p[0] / q[1] for p, q in pairs), max(p[1] / q[0] for p, q in pairs)


def exp_of(epsilon: Fraction) -> tuple[Fraction, Fraction]:
    return enclose(lambda: ball(epsilon).exp())


@pytest.mark.parametrize("answers", [1, 2])
@pytest.mark.parametrize("monotone", [False, True])
def test_loss_is_epsilon_exactly(answers: int, monotone: bool) -> None:
    """lecture:L19 the mechanism's own law: e^epsilon is reached on the worst pair, to thirty digits, and not passed."""
    sparse = mechanism(epsilon=Fraction(13, 10), answers=answers, monotone=monotone)
    low, high = worst_loss(sparse, *WORST[monotone])
    exact_low, exact_high = exp_of(sparse.epsilon)
    assert low <= exact_high
    assert high >= exact_low
    assert high - low < Fraction(1, 10**30)


@pytest.mark.parametrize("monotone", [False, True])
def test_every_neighbour_pair_stays_within_epsilon(monotone: bool) -> None:
    """lecture:L19 on a small universe, ties with the bar and single questions included."""
    sparse = mechanism(epsilon=2, monotone=monotone, threshold=0, shift=1)
    most = exp_of(sparse.epsilon)[1] * (1 + Fraction(1, 10**30))
    for questions in (1, 2):
        universe = list(itertools.product(range(3), repeat=questions))
        laws = {values: sparse.law(values) for values in universe}
        for here, there in itertools.product(universe, repeat=2):
            moves = [b - a for a, b in zip(here, there, strict=True)]
            if max(map(abs, moves)) <= 1 and not (monotone and {-1, 1} <= set(moves)):
                assert all(low <= most * laws[there][o][1] for o, (low, _) in laws[here].items())


def test_monotone_noise_is_not_enough_for_values_that_move_both_ways() -> None:
    low, _ = worst_loss(mechanism(monotone=True), *WORST[False])
    assert low > exp_of(Fraction(13, 10))[1]


def test_monotone_is_refused_under_change_one() -> None:
    """A changed record lowers one count and raises another."""
    with pytest.raises(Misconfigured, match=r"may lower one score and raise another\. Leave monotone=False"):
        mechanism(monotone=True, neighbours=Neighbours.CHANGE_ONE)
    assert mechanism(neighbours=Neighbours.CHANGE_ONE).scales == mechanism().scales
    with pytest.raises(Misconfigured, match="`neighbours` is not a relation"):
        mechanism(neighbours="change one unit")


@given(
    st.fractions(Fraction(1, 50), 20, max_denominator=50),
    st.integers(1, 40),
    st.integers(1, 10**6),
    st.booleans(),
    st.fractions(Fraction(1, 10), 30, max_denominator=10),
)
def test_noise_scales_cost_epsilon_together(
    epsilon: Fraction, answers: int, queries: int, monotone: bool, sensitivity: Fraction
) -> None:
    """d / s1 + k c d / s2 = epsilon exactly, whatever the rounding of the ratio; reals pay for a step more."""
    k = 1 if monotone else 2
    for reals in (False, True):
        sparse = GeometricSparse(
            threshold=0,
            epsilon=epsilon,
            answers=answers,
            queries=queries,
            sensitivity=sensitivity,
            monotone=monotone,
            reals=reals,
        )
        crossing = sparse.crossing
        moved = crossing.ticks.sensitivity
        assert moved / crossing.bar_scale + k * answers * moved / crossing.query_scale == epsilon
        assert moved * (crossing.ticks.step or 1) >= sensitivity
        assert not crossing.two_sided
        assert not crossing.refreshed
        assert sparse.loss == Pure(epsilon)


def test_ratio_of_lyu_su_and_li_can_be_had() -> None:
    """1 : (k c)^(2/3); for one monotone answer it is one half each."""
    assert mechanism(ratio=1, monotone=True).split == (Fraction(1, 2), Fraction(1, 2))
    first, second = mechanism(answers=4, ratio=4).split
    assert (second / first, first + second) == (4, 1)


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("answers", [1, 3, 10])
@pytest.mark.parametrize("queries", [10, 1000])
def test_default_shift_and_ratio_are_close_to_the_best(monotone: bool, answers: int, queries: int) -> None:
    """lecture:L19 no shift or ratio nearby has a margin smaller by more than 1 %, the split of Lyu et al. neither."""
    common: Any = {
        "threshold": 0,
        "epsilon": Fraction(1, 20),
        "answers": answers,
        "queries": queries,
        "monotone": monotone,
    }
    default = GeometricSparse(**common)
    margin = default.error()
    step = default.scales[0] / 4
    factors = (Fraction(2, 3), Fraction(5, 6), 1, Fraction(6, 5), Fraction(3, 2))
    for factor, move in itertools.product(factors, range(-4, 5)):
        ratio = default.ratio * factor
        centre = GeometricSparse(**common, ratio=ratio).shift
        assert margin <= 1.01 * GeometricSparse(**common, ratio=ratio, shift=centre + move * step).error()
    lyu = GeometricSparse(**common, ratio=((1 if monotone else 2) * answers) ** (2 / 3)).error()
    assert margin <= 1.002 * lyu


def test_shift_depends_on_parameters_alone() -> None:
    """It is public: known before any value is seen, and the same for every run."""
    assert mechanism(queries=99).shift == mechanism(queries=99).shift == 6
    assert mechanism(queries=10**5).shift > mechanism(queries=99).shift
    assert mechanism(queries=99, shift=Fraction(5, 2)).crossing.shift == 2
    assert mechanism(queries=99).crossing.threshold == 100


@pytest.mark.parametrize(("answers", "less"), [(1, 0.44), (3, 0.55), (10, 0.63)])
def test_margin_is_about_half_of_the_textbook(answers: int, less: float) -> None:
    """lecture:L19 at the same epsilon, for 97 belows."""
    textbook = Sparse(threshold=0, epsilon=1, answers=answers).error(queries=97)
    assert mechanism(answers=answers, queries=97).error() <= (1 - less) * textbook


@pytest.mark.parametrize(("answers", "one_run_is_better"), [(50, True), (200, False)])
def test_many_runs_are_better_from_some_hundred_answers_on(answers: int, one_run_is_better: bool) -> None:
    """At (1, 1e-6), 1,000 belows: c runs of epsilon each cost c epsilon^2 / 2 of zCDP, and share beta."""
    rho = rho_of_epsilon(Fraction(1), Fraction(1, 10**6))
    each = Fraction(math.floor(10**6 * math.sqrt(2 * rho / answers)), 10**6)
    one = mechanism(answers=answers, queries=1000).error()
    many = mechanism(epsilon=each, queries=1000 // answers).error(1 - Fraction(1, 20 * answers))
    assert (one < many) == one_run_is_better


def test_first_order_error_of_the_docstring_is_near() -> None:
    sparse = GeometricSparse(threshold=0, epsilon=0.01, queries=200)
    s1, s2 = map(float, sparse.scales)
    assert sparse.error() == pytest.approx((s1 * math.log(1 / 0.05) + s2 * math.log(200 / 0.05)) / 2, rel=0.02)


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("answers", [1, 2])
def test_runs_follow_the_law(answers: int) -> None:
    """And the test sees 25 % less noise, and a threshold noise that is drawn again after every above."""
    sparse = mechanism(epsilon=3, answers=answers)
    values = [1, -2, 3]
    bar = 100 + sparse.crossing.shift
    law = sparse.law([bar + value for value in values])
    names = {outcome: place for place, outcome in enumerate(law)}
    draws = [names[answers_of(sparse, values)] for _ in range(15_000)]
    assert_fits(draws, finite([float(low) for low, _ in law.values()]))
    off = mechanism(epsilon=3.75, answers=answers, shift=sparse.shift, ratio=sparse.ratio)
    assert_misfits(draws, finite([float(low) for low, _ in off.law([bar + value for value in values]).values()]))


@pytest.mark.usefixtures("seeded")
def test_real_runs_follow_the_exponential_law() -> None:
    """P[N >= z + R] = e^(-z / s2) s2 / (s1 + s2) for exponential noise."""
    sparse = GeometricSparse(threshold=0.25, epsilon=1, queries=5, reals=True, shift=0.5)
    s1, s2 = map(float, sparse.scales)
    draws = np.array([sparse.start().above(-0.75) for _ in range(5_000)], np.int64)
    chance = math.exp(-1.5 / s2) * s2 / (s1 + s2)
    assert_fits(draws, finite([1 - chance, chance]))
    assert_misfits(draws, finite([1 - 1.15 * chance, 1.15 * chance]))


@pytest.mark.usefixtures("seeded")
def test_auditor_accepts_it_and_catches_monotone_noise_misused() -> None:
    sound, misused = mechanism(), mechanism(monotone=True)
    assert_private(*([answers_of(sound, values) for _ in range(5_000)] for values in WORST[False]), 1.0)
    assert_caught(*([answers_of(misused, values) for _ in range(15_000)] for values in WORST[False]), 1.0)


@pytest.mark.slow
@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("answers", [1, 2])
@pytest.mark.parametrize("monotone", [False, True])
def test_auditor_accepts_many_runs(answers: int, monotone: bool) -> None:
    """lecture:L19 N = 100,000 on the worst pair, where the loss is epsilon exactly."""
    sparse = mechanism(answers=answers, monotone=monotone)
    samples = [[answers_of(sparse, values) for _ in range(100_000)] for values in WORST[monotone]]
    assert_private(*samples, 1.0)


@pytest.mark.slow
@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("pair", [([0], [1]), ([-1, 0], [0, -1]), ([-60, 5], [-59, 4])])
def test_auditor_accepts_ties_and_bounds(pair: tuple[list[int], list[int]]) -> None:
    sparse = mechanism()
    samples = [[answers_of(sparse, values) for _ in range(100_000)] for values in pair]
    assert_private(*samples, 1.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": -1}, "`epsilon` is -1; it must be above 0"),
        ({"answers": 0}, "`answers` is 0"),
        ({"queries": 0}, "`queries` is 0; it must be a whole number of at least 1"),
        ({"ratio": 0}, "`ratio` is 0; it must be above 0"),
        ({"shift": math.nan}, "`shift` is nan; it must be finite"),
        ({"monotone": 1}, "`monotone` is 1; it must be True or False"),
        ({"reals": None}, "`reals` is None; it must be True or False"),
    ],
)
def test_bad_parameters_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(Misconfigured, match=message):
        mechanism(**arguments)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**350), 10**350])
def test_absurd_parameters_make_a_mechanism_that_cannot_start(epsilon: Fraction) -> None:
    """Noise beyond what is drawn exactly is refused by the sampler, before any value is seen."""
    with pytest.raises(Misconfigured):
        mechanism(epsilon=epsilon, queries=10**350).start()
