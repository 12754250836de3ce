"""lapwing.mechanisms.sparse.crossing: the lemma by exact enumeration, and the law against its closed form."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lapwing.errors import Misconfigured
from lapwing.mechanisms.sparse.crossing import Crossing, Ticks
from lapwing.numbers import ball, enclose
from support.sparse_exact import AboveAnswers, Model, outcomes, worst_of_all, worst_ratio

SMALL = range(-2, 3)
BOTH_WAYS, UP = (-1, 0, 1), (0, 1)
BAR, QUERY = Fraction(1, 2), Fraction(2, 3)  # e^-x and e^-y of the lemma
WHOLE = Ticks(None, Fraction(1))


def crossing(**changes: Any) -> Crossing:
    given = {
        "ticks": WHOLE,
        "threshold": 0,
        "shift": 0,
        "bar_scale": Fraction(2),
        "query_scale": Fraction(4),
        "answers": 1,
        "two_sided": True,
        "refreshed": True,
    }
    return Crossing(**(given | changes))


def by_definition(model: Model, values: list[int], outcome: AboveAnswers, extent: int) -> float:
    """Every bar within extent, every question by itself. One bar only."""
    r, s = float(model.bar), float(model.query)
    first = -extent if model.two_sided else 0
    weights = {t: r ** abs(t) for t in range(first, extent + 1)}
    noise = {n: s ** abs(n) for n in range(first, extent + 1)}
    total = sum(noise.values())
    chance = 0.0
    for t, weight in weights.items():
        for value, above in zip(values, outcome, strict=False):
            weight *= sum(mass for n, mass in noise.items() if (value + n >= t) == above) / total
        chance += weight
    return chance / sum(weights.values())


@pytest.mark.parametrize("two_sided", [False, True])
def test_closed_form_is_the_definition(two_sided: bool) -> None:
    """The yardstick itself: the sum of geometric series against a sum over noise, cut far out."""
    model = Model(Fraction(1, 3), Fraction(2, 5), answers=2, two_sided=two_sided)
    for values in ([0], [3, -2], [1, -4, 2], [5, 5, -5]):
        law = model.law(values)
        assert sum(law.values()) == 1
        for outcome, chance in law.items():
            assert float(chance) == pytest.approx(by_definition(model, values, outcome, 60), abs=1e-12)


@pytest.mark.parametrize("answers", [1, 2])
@pytest.mark.parametrize("moves", [BOTH_WAYS, UP])
def test_geometric_loss_is_what_the_lemma_says_and_no_less(answers: int, moves: tuple[int, ...]) -> None:
    """lecture:L19 all inputs of three questions, all neighbours, both ways, exactly: the worst ratio is the claim."""
    k = 2 if moves == BOTH_WAYS else 1
    worst = worst_of_all(Model(BAR, QUERY, answers), SMALL, moves, questions=3)
    assert worst == 1 / (BAR * QUERY ** (k * answers))


def test_geometric_loss_is_tight_for_sensitivity_two() -> None:
    worst = worst_of_all(Model(BAR, QUERY, 1), range(-2, 3), (-2, -1, 0, 1, 2), questions=2)
    assert worst == 1 / (BAR**2 * QUERY**4)


@pytest.mark.parametrize(("answers", "refreshed"), [(1, True), (2, True), (2, False)])
def test_laplace_loss_is_within_the_lemma(answers: int, refreshed: bool) -> None:
    """lecture:L19 Laplace 2/eps and 4/eps a bar, ties included: never above, by exact enumeration."""
    model = Model(QUERY**2, QUERY, answers, two_sided=True, refreshed=refreshed)
    claim = QUERY ** (-4 * answers) if refreshed else QUERY ** -(2 + 2 * answers)
    inputs = SMALL if answers == 1 else range(-1, 2)
    assert QUERY ** (-Fraction(5, 2)) < worst_of_all(model, inputs, BOTH_WAYS, questions=3) <= claim


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-6, 6), st.integers(-1, 1)), min_size=1, max_size=6),
    st.fractions(Fraction(1, 10), Fraction(9, 10), max_denominator=12),
    st.fractions(Fraction(1, 10), Fraction(9, 10), max_denominator=12),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
)
def test_lemma_holds_for_longer_runs(
    pairs: list[tuple[int, int]], r: Fraction, s: Fraction, answers: int, two_sided: bool, monotone: bool
) -> None:
    """lecture:L19 any values, any noise, one bar: x d + 2 c y d, or x d + c y d if all move the same way."""
    here = [value for value, _ in pairs]
    there = [value + (abs(move) if monotone else move) for value, move in pairs]
    model = Model(r, s, answers, two_sided=two_sided)
    assert worst_ratio(model, here, there) <= 1 / (r * s ** ((1 if monotone else 2) * answers))


@pytest.mark.parametrize("belows", [1, 10, 40])
@pytest.mark.parametrize("two_sided", [False, True])
def test_belows_are_free(belows: int, two_sided: bool) -> None:
    """lecture:L19 whatever the number of "below" answers."""
    model = Model(QUERY**2, QUERY, 1, two_sided=two_sided)
    here, there = [-1] * belows + [0], [0] * belows + [-1]
    assert worst_ratio(model, here, there) <= QUERY**-4


@pytest.mark.parametrize(
    "fault",
    [
        Model(QUERY**2, QUERY**2, 1, two_sided=True),  # half the noise on questions
        Model(QUERY**2, QUERY, 3, two_sided=True),  # three aboves for the price of one
        Model(QUERY**3, QUERY, 1),  # too little noise on the threshold
        Model(QUERY**2, QUERY**2, 1),  # the factor two of values that move both ways is missing
        Model(QUERY**2, QUERY, 2),  # one above too many
    ],
)
def test_enumeration_catches_planted_faults(fault: Model) -> None:
    """Each is held to the claim of Laplace 2/eps and 4/eps with one answer."""
    ratios = []
    for belows, aboves in itertools.product((1, 12), (1, 2, 3)):
        answers = (False,) * belows + (True,) * min(aboves, fault.answers)
        here, there = [-1] * belows + [0] * aboves, [0] * belows + [-1] * aboves
        ratios.append(fault.chance(here, answers) / fault.chance(there, answers))
    assert max(ratios) > QUERY**-4


def test_enumeration_catches_questions_without_noise() -> None:
    """SVT-5 of Lyu, Su and Li: with one bar and no other noise, some answers are possible on one side only."""
    with pytest.raises(AssertionError, match="only one neighbour can give"):
        worst_ratio(Model(BAR, Fraction(0), 2), [0, 1], [1, 0])


@pytest.mark.parametrize(
    "changes",
    [
        {"answers": 1},
        {"answers": 2},
        {"answers": 2, "refreshed": False, "threshold": 7},
        {"two_sided": False, "refreshed": False, "shift": 3},
        {"two_sided": False, "refreshed": False, "answers": 2, "bar_scale": Fraction(5, 3)},
    ],
)
def test_law_agrees_with_the_closed_form(changes: dict[str, Any]) -> None:
    """The proven bounds hold the exact value, and are narrow."""
    test = crossing(**changes)
    values = [test.threshold + test.shift + offset for offset in (1, -2, 0)]
    law = test.law(values)
    assert sorted(law) == list(outcomes(3, test.answers))
    for outcome, (low, high) in law.items():

        def closed(outcome: AboveAnswers = outcome) -> Any:
            bar, query = (-ball(1 / test.bar_scale)).exp(), (-ball(1 / test.query_scale)).exp()
            return Model(bar, query, test.answers, test.two_sided, test.refreshed).chance([1, -2, 0], outcome)

        exact_low, exact_high = enclose(closed, bits=256)
        assert low <= exact_low <= exact_high <= high
        assert high - low < Fraction(1, 10**37)


def test_law_of_no_question_is_certain() -> None:
    ((outcome, (low, high)),) = crossing().law([]).items()
    assert outcome == ()
    assert low <= 1 <= high


def test_law_refuses_sums_that_are_too_long() -> None:
    with pytest.raises(
        Misconfigured, match=r"sum of \d+ terms; at most 500000 are supported\. Ask for fewer questions"
    ):
        crossing(bar_scale=Fraction(10**6)).law([0])


@pytest.mark.parametrize("value", [987654321.0, True, None, "987654321", Fraction(2), np.float64(1), [1], np.bool_(1)])
def test_whole_values_must_be_written_as_integers(value: object) -> None:
    with pytest.raises(Misconfigured, match="make the mechanism with reals=True") as refusal:
        WHOLE.read(value)
    assert "987654321" not in str(refusal.value)


@pytest.mark.parametrize("value", [7, np.int64(7), np.uint8(7)])
def test_every_kind_of_integer_is_read(value: object) -> None:
    assert WHOLE.read(value) == 7
    assert type(WHOLE.read(value)) is int


@pytest.mark.parametrize("value", [math.nan, math.inf, "987654321", None, True, [987654321.5]])
def test_unreadable_reals_are_refused_without_showing_them(value: object) -> None:
    ticks = Ticks.of(Fraction(1), Fraction(2), reals=True)
    with pytest.raises(Misconfigured, match="not a finite number") as refusal:
        ticks.read(value)
    assert "987654321" not in str(refusal.value)


def test_reals_round_to_the_nearest_step_halves_up() -> None:
    ticks = Ticks.of(Fraction(1), Fraction(2), reals=True)
    step = ticks.step or Fraction(0)
    for value in (Fraction(7, 3), 5 * step, step / 2, -step / 2, Fraction(-1, 7), 0.1, 4, Decimal("2.5"), 10**40):
        assert -step / 2 < ticks.read(value) * step - Fraction(str(value)) <= step / 2
    assert ticks.number(ticks.read(3)) == 3.0
    assert ticks.number(ticks.read(Fraction(10) ** 400)) == math.inf


def test_a_threshold_between_whole_numbers_is_the_next_one() -> None:
    """A whole value reaches 99.5 exactly if it reaches 100."""
    assert [WHOLE.round(Fraction(t)) for t in ("99.5", "100", "-0.5")] == [100, 100, 0]


@given(st.fractions(-50, 50), st.fractions(Fraction(-1, 3), Fraction(1, 3)))
def test_rounded_reals_move_by_no_more_than_their_noise_is_made_for(value: Fraction, move: Fraction) -> None:
    """And never the other way: rounding keeps the order, so monotone values stay monotone."""
    ticks = Ticks.of(Fraction(1, 3), Fraction(2), reals=True)
    moved = ticks.read(value + move) - ticks.read(value)
    assert abs(moved) <= ticks.sensitivity
    assert moved * move >= 0


def test_grid_noise_is_hardly_larger() -> None:
    ticks = Ticks.of(Fraction("4.2"), Fraction("8.4"), reals=True)
    assert ticks.step is not None
    assert 1 <= ticks.sensitivity * ticks.step / Fraction("4.2") <= 1 + Fraction(1, 1 << 18)


def test_outcomes_are_all_lists_of_answers_cut_at_the_last_one_paid_for() -> None:
    found = list(crossing(answers=2).law([0, 0, 0, 0]))
    assert sorted(found) == sorted({_cut(full, 2) for full in itertools.product((False, True), repeat=4)})


def _cut(answers: AboveAnswers, most: int) -> AboveAnswers:
    for length in range(len(answers) + 1):
        if sum(answers[:length]) == most:
            return answers[:length]
    return answers
