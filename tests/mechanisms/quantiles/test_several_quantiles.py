"""lapwing.mechanisms.quantiles.several_quantiles."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lapwing.errors import Misconfigured
from lapwing.mechanisms.quantiles import several_quantiles as module
from lapwing.mechanisms.quantiles.several_quantiles import Quantiles
from lapwing.mechanisms.scores import shares
from lapwing.numbers import Enclosure, ball, enclose
from lapwing.privacy.loss import ZCDP, BoundedRange, Pure
from support.audit import assert_caught, assert_private
from support.chi import assert_fits, assert_misfits, finite

Places = tuple[int, ...]

QUARTILES = [Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)]


def exp_above(epsilon: Fraction) -> Fraction:
    """A number just above e^epsilon."""
    return enclose(lambda: ball(epsilon).exp())[1] * (1 + Fraction(1, 10**30))


def places_of(rows: Sequence[int], bits: int) -> list[int]:
    """Each row by itself: the i-th of a value at the digits of i backwards."""
    seen: Counter[int] = Counter()
    found = []
    for row in rows:
        digits = f"{seen[row] % (1 << bits):0{bits}b}"[::-1] if bits else ""
        found.append((row << bits) + int(digits or "0", 2))
        seen[row] += 1
    return found


def reference(mechanism: Quantiles, rows: Sequence[int], bits: int) -> dict[Places, Enclosure]:
    """Bounds of the probability of every tuple of places, row by row and place by place, by the definition alone."""
    epsilon = mechanism.epsilon / (len(mechanism.at).bit_length() * mechanism.rows_per_unit)

    def part(sat: list[int], start: int, stop: int, at: list[Fraction]) -> dict[Places, Enclosure]:
        if not at:
            return {(): (Fraction(1), Fraction(1))}
        if start == stop:
            return {(start - 1,) * len(at): (Fraction(1), Fraction(1))}
        middle = (len(at) - 1) // 2
        q, n, found = at[middle], len(sat), {}
        losses = [
            max(sum(x < v for x in sat) - q * n, q * n - sum(x <= v for x in sat), 0) * q.denominator
            for v in range(start, stop)
        ]
        rate = epsilon / (2 * max(q, 1 - q) * q.denominator)
        for v, here in zip(range(start, stop), shares(np.array(losses, np.int64), rate), strict=True):
            below = part([x for x in sat if x <= v], start, v + 1, [p / q for p in at[:middle]])
            above = part([x for x in sat if x > v], v + 1, stop, [(p - q) / (1 - q) for p in at[middle + 1 :]])
            for (left, a), (right, b) in itertools.product(below.items(), above.items()):
                found[(*left, v, *right)] = (here[0] * a[0] * b[0], here[1] * a[1] * b[1])
        return found

    return part(sorted(places_of(rows, bits)), 0, mechanism.axis.size << bits, list(mechanism.at))


def by_value(law: dict[Places, Enclosure], bits: int) -> dict[Places, float]:
    found: Counter[Places] = Counter()
    for places, (low, _) in law.items():
        found[tuple(place >> bits for place in places)] += float(low)  # type: ignore[assignment]
    return dict(found)


def worst(p: dict[Places, Enclosure], q: dict[Places, Enclosure]) -> Fraction:
    return max(max(p[key][0] / q[key][1], q[key][0] / p[key][1]) for key in p)


@pytest.mark.parametrize(
    ("points", "bits", "at", "most_rows"),
    [(3, 1, QUARTILES, 3), (4, 0, QUARTILES, 3), (2, 2, [Fraction(1, 10), Fraction(1, 2)], 4)],
)
def test_every_neighbour_pair_stays_within_epsilon(points: int, bits: int, at: list[Fraction], most_rows: int) -> None:
    """Two levels, every place of every cut: add any row to any small data set, ties and none included."""
    mechanism = Quantiles(epsilon=1, at=at, bounds=(0, points - 1))
    assert mechanism.levels == 2
    most = exp_above(Fraction(1))
    data = [rows for n in range(most_rows + 2) for rows in itertools.combinations_with_replacement(range(points), n)]
    laws = {rows: reference(mechanism, rows, bits) for rows in data}
    pairs = [(rows, tuple(sorted((*rows, one)))) for rows in data if len(rows) <= most_rows for one in range(points)]
    assert max(worst(laws[a], laws[b]) for a, b in pairs) <= most


def test_a_level_that_is_not_paid_is_found() -> None:
    """The planted fault: both levels with the whole epsilon."""
    mechanism = Quantiles(epsilon=2, at=QUARTILES, bounds=(0, 2))
    laws = [reference(mechanism, rows, 1) for rows in ([1] * 8, [1] * 8 + [2])]
    assert worst(*laws) > exp_above(Fraction(1))


def test_divergence_keeps_to_rho() -> None:
    """threat:A32 order a at most a eps^2 / (8 levels)."""
    mechanism = Quantiles(epsilon=1, at=QUARTILES, bounds=(0, 2))
    rho = mechanism.loss.to_zcdp().rho
    assert rho == Fraction(1, 16)
    for rows, one in itertools.product([[], [1], [1, 1, 1], [0, 2]], range(3)):
        p, q = reference(mechanism, rows, 1), reference(mechanism, [*rows, one], 1)
        for order in (2, 8, 64):
            total = sum(float(p[key][0]) ** order * float(q[key][0]) ** (1 - order) for key in p)
            assert math.log(total) / (order - 1) <= order * rho * (1 + 1e-9)


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize(
    ("bits", "at", "rows"),
    [
        (1, QUARTILES, [0, 1, 1, 1, 2]),
        (2, [Fraction(1, 3), Fraction(2, 3)], [2, 2, 2, 2, 2, 2, 0]),
        (0, [Fraction(9, 10)], [1, 1, 0]),
    ],
)
def test_draws_follow_the_law(bits: int, at: list[Fraction], rows: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BITS", bits)
    mechanism = Quantiles(epsilon=6, at=at, bounds=(0, 2))
    law = by_value(reference(mechanism, rows, bits), bits)
    number = {values: i for i, values in enumerate(law)}
    draws = [number[tuple(mechanism(rows))] for _ in range(500)]
    assert_fits(draws, finite(list(law.values())))
    other = by_value(reference(Quantiles(epsilon=10, at=at, bounds=(0, 2)), rows, bits), bits)
    assert_misfits(draws, finite([other[values] for values in law]))


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("epsilon", [0.01, 0.5, 20])
def test_draws_among_a_million_places_follow_the_ranks(epsilon: float) -> None:
    """One quantile of 3,000 equal rows and some others: the chance of each value, summed over its places."""
    rows = [0] * 500 + [1] * 3000 + [3] * 500
    mechanism = Quantiles(epsilon=epsilon, at=[0.1], bounds=(0, 3))
    rate, size = float(mechanism.rate(Fraction(1, 10))), 1 << 12  # 2^12 > 3000: as good as more
    at = np.sort(np.array(places_of(rows, 12)))
    ranks = np.searchsorted(at, np.arange((4 << 12) + 1))
    lost = np.maximum(np.maximum(ranks[:-1], 400) - 400, 400 - np.minimum(ranks[1:], 400))
    weights = np.exp(-rate * lost).reshape(4, size).sum(axis=1)
    draws = [mechanism(rows)[0] for _ in range(200)]
    assert_fits(draws, finite((weights / weights.sum()).tolist()))


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(-2, 12), max_size=30),
    st.lists(st.integers(1, 19), min_size=1, max_size=6, unique=True),
    st.sampled_from([0.01, 1, 1000]),
)
def test_answers_ascend_inside_the_bounds(rows: list[int], twentieths: list[int], epsilon: float) -> None:
    mechanism = Quantiles(epsilon=epsilon, at=[Fraction(k, 20) for k in sorted(twentieths)], bounds=(0, 9))
    answers = mechanism(rows)
    assert len(answers) == len(twentieths)
    assert answers == sorted(answers)
    assert all(0 <= answer <= 9 for answer in answers)


@pytest.mark.usefixtures("seeded")
def test_constant_data_return_the_constant() -> None:
    """threat:A18 also where every cut passes through the same value."""
    mechanism = Quantiles(epsilon=2, at=[0.1, 0.25, 0.5, 0.75, 0.9], bounds=(0, 10**9))
    for _ in range(5):
        assert mechanism([7] * 2000) == [7] * 5
        assert mechanism([7], [10**9]) == [7] * 5
        assert mechanism([7], [2**42]) == [7] * 5


@pytest.mark.usefixtures("seeded")
def test_a_spike_does_not_bend_the_other_quantiles() -> None:
    """Six of ten rows are zero: the quantiles above are those of all rows, not of what a cut left over."""
    rows = np.concatenate([np.zeros(60_000, np.int64), np.arange(1, 40_001)])
    mechanism = Quantiles(epsilon=1, at=[k / 10 for k in range(1, 10)], bounds=(0, 10**6))
    found = mechanism(rows)
    assert found[:5] == [0] * 5
    assert found[6:] == pytest.approx([10_000, 20_000, 30_000], abs=mechanism.error(0.999, rows=10**5))


@pytest.mark.usefixtures("seeded")
def test_reals_are_answered_on_their_steps() -> None:
    mechanism = Quantiles(epsilon=50, at=[0.25, 0.75], bounds=(-1, 1), step=0.25)
    assert mechanism([-0.5] * 100 + [0.51] * 100) == [-0.5, 0.5]
    assert all(isinstance(answer, float) for answer in mechanism([]))


@pytest.mark.usefixtures("seeded")
def test_ranks_are_within_the_error() -> None:
    rows = np.repeat(np.arange(2000), 5)
    mechanism = Quantiles(epsilon=1, at=[k / 20 for k in range(1, 20)], bounds=(-(10**6), 10**6))
    bound = mechanism.error(0.99, rows=rows.size)
    for _ in range(5):
        for at, answer in zip(mechanism.at, mechanism(rows), strict=True):
            below, up_to = np.searchsorted(rows, [answer, answer + 1])
            assert max(below - at * rows.size, at * rows.size - up_to) <= bound


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**400), 1e-300, 1e300, Fraction(10**400)])
def test_far_epsilons_are_answered(epsilon: Any) -> None:
    answers = Quantiles(epsilon=epsilon, at=[0.3, 0.6], bounds=(0, 9))([4] * 9)
    assert answers == [4, 4] if epsilon > 1 else all(0 <= answer <= 9 for answer in answers)


def test_error_adds_up_over_the_levels() -> None:
    one = Quantiles(epsilon=1, at=[0.5], bounds=(0, 120))
    assert one.error(0.95, rows=1000) == pytest.approx(math.log(121 * 1024 * 20) + 2)
    three = Quantiles(epsilon=2, at=QUARTILES, bounds=(0, 120))
    level = math.log(3 * 121 * 1024 * 20) + 2
    assert three.error(0.95, rows=1000) == pytest.approx((level + 1) / 2 + level)
    assert one.error(0.95, rows=2**40) == pytest.approx(math.log(121 * 2**20 * 20) + 2 * 2**20)
    with pytest.raises(Misconfigured, match="`rows` is 0"):
        one.error(rows=0)


@pytest.mark.parametrize(("many", "levels"), [(1, 1), (2, 2), (3, 2), (4, 3), (7, 3), (8, 4), (99, 7)])
def test_questions_halve_their_parts(many: int, levels: int) -> None:
    """Every quantile once, each between two that were asked before, and no row takes part in more than the levels."""
    mechanism = Quantiles(epsilon=1, at=[Fraction(k, many + 1) for k in range(1, many + 1)], bounds=(0, 9))
    depth = {-1: 0, many: 0}
    for question in mechanism.questions():
        assert question.low < question.index < question.high
        ends = [Fraction(i + 1, many + 1) for i in (question.low, question.high)]
        assert ends[0] + question.at * (ends[1] - ends[0]) == mechanism.at[question.index]
        depth[question.index] = max(depth[question.low], depth[question.high]) + 1
    assert len(depth) == many + 2
    assert max(depth.values()) == levels == mechanism.levels


def test_loss_is_that_of_the_levels() -> None:
    assert Quantiles(epsilon=1, at=QUARTILES, bounds=(0, 9)).loss == Pure(1, Fraction(1, 16))
    assert Quantiles(epsilon=1, at=QUARTILES, bounds=(0, 9), rows_per_unit=10).loss == Pure(1, Fraction(1, 16))
    assert Quantiles(epsilon=1, at=[0.5], bounds=(0, 9)).loss == BoundedRange(1).to_pure()
    assert Quantiles(epsilon=1, at=[0.2, 0.4, 0.6, 0.8], bounds=(0, 9)).loss.to_zcdp() == ZCDP(Fraction(1, 24))


def test_rate_is_a_share_of_epsilon() -> None:
    mechanism = Quantiles(epsilon=1, at=QUARTILES, bounds=(0, 9), rows_per_unit=4)
    assert mechanism.rate(Fraction(1, 2)) == Fraction(1, 8)
    assert mechanism.rate(Fraction(1, 10)) == Fraction(1, 8) / Fraction(9, 5)


@pytest.mark.usefixtures("seeded")
def test_auditor_accepts_it_and_catches_more_rows() -> None:
    mechanism = Quantiles(epsilon=1, at=QUARTILES, bounds=(0, 4))
    samples = [np.array([mechanism(rows) for _ in range(300)]) for rows in ([], [2], [2] * 60)]
    assert_private(samples[0], samples[1], 1.0)
    assert_caught(samples[0], samples[2], 1.0)


@pytest.mark.slow
@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize(("rows", "one"), [([], 4), ([2] * 6, 2)])
def test_auditor_accepts_it_at_length(rows: list[int], one: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BITS", 3)  # fewer places, for speed
    mechanism = Quantiles(epsilon=1, at=[0.25, 0.75], bounds=(0, 4))
    samples = [np.array([mechanism(data) for _ in range(100_000)]) for data in (rows, [*rows, one])]
    assert_private(*samples, 1.0)


@pytest.mark.parametrize(
    ("at", "rule"),
    [
        ([], "must be a list of quantiles"),
        (0.5, "must be a list of quantiles"),
        ("0.5", "must be a list of quantiles"),
        ([0.5, 0.5], "not ascending"),
        ([0.75, 0.25], "not ascending"),
        ([0, 0.5], "`at` is 0"),
        ([0.5, 1], "`at` is 1"),
        ([0.123457, Fraction(1, 3)], "no common denominator"),
    ],
)
def test_bad_quantiles_are_refused(at: Any, rule: str) -> None:
    with pytest.raises(Misconfigured, match=rule):
        Quantiles(epsilon=1, at=at, bounds=(0, 9))


def test_bad_parameters_and_rows_are_refused() -> None:
    with pytest.raises(Misconfigured, match=r"more than 2\^42 points"):
        Quantiles(epsilon=1, at=[0.5], bounds=(0, 2**43))
    with pytest.raises(Misconfigured, match="`epsilon` is 0"):
        Quantiles(epsilon=0, at=[0.5], bounds=(0, 9))
    for rows in ([math.nan], [1, None], "12", [987654321.5]):
        with pytest.raises(Misconfigured) as refusal:
            Quantiles(epsilon=1, at=[0.5], bounds=(0, 9))(rows)
        assert "98765" not in str(refusal.value)
