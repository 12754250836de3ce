"""Answers joined: weights from prices alone, intervals that hold, nothing charged or stored beyond the new answer."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from lapwing.answers.computed import Combined, JoinedAnswers, _join
from lapwing.answers.stored import decode
from lapwing.curator import Curator
from lapwing.errors import Bug, Misconfigured, Refused
from lapwing.mechanisms.additive.gaussian import Gaussian
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.additive.tails import weigh_variances
from lapwing.mechanisms.cells import Noise, NoisyCells
from lapwing.noise import sample_gaussian, sample_laplace
from lapwing.plan.kind import Measure
from lapwing.plan.total import TotalKind
from lapwing.privacy import Budget
from support.tape import SeededBits
from support.visits import Spy, interval, open_visits, write_visits

BY_SEX = "SELECT sex, COUNT(*) AS n, SUM(cost) AS c FROM visits GROUP BY sex"
ROWS = "SELECT COUNT(*) AS n FROM visits"
ZCDP = Budget(epsilon=20, delta=Fraction(1, 10**6))
COUNT = TotalKind(None, False, interval(0, 1))
LEVEL = Fraction(19, 20)
DRAWS = 40_000


def rich(budget: Budget | None = None, **changes: Any) -> Curator:
    return open_visits(budget=budget or Budget(epsilon=20), **changes)


def again(curator: Curator, sql: str, epsilon: float, **more: Any) -> Combined:
    answer = curator.sql(sql, epsilon=epsilon, refresh=True, combine=True, **more)
    assert isinstance(answer, Combined)
    return answer


def measures(kind: str, prices: list[float], steps: list[int]) -> list[Measure]:
    """One count at several prices, in whole steps of different sizes."""
    made = []
    for price, step in zip(prices, steps, strict=True):
        noise: Noise = Laplace(epsilon=price) if kind == "laplace" else Gaussian(rho=price)
        made.append(Measure(COUNT, Fraction(step, 8), NoisyCells(noise)))
    return made


def drawn(measure: Measure, bits: SeededBits) -> Any:
    noise = measure.noise
    if isinstance(noise, Laplace):
        return sample_laplace(noise.scale, DRAWS, bits=bits)
    assert isinstance(noise, Gaussian)
    return sample_gaussian(noise.variance, DRAWS, bits=bits)


def test_a_combined_answer_says_what_it_joined_and_pays_for_the_new_one_only() -> None:
    curator = rich()
    first = curator.sql(BY_SEX, epsilon=1)
    second = again(curator, BY_SEX, 2)
    third = again(curator, BY_SEX, 3)
    assert (second.entries, third.entries) == ((first.entry, second.entry), (first.entry, second.entry, third.entry))
    assert (third.cost.amount, curator.budget.spent.amount) == (3, 6)
    assert third.plan.loss.to_pure().epsilon == 6
    words = f"ledger entries {first.entry}, {second.entry} and {third.entry}"
    shown = third.to_dict()
    for text in (third.explain(), third.methods(), *shown["notes"][-1:]):
        assert f"Joined 3 answers by inverse variance: {words}" in text
    assert "\nCombined 3 answers; valid if " in str(third)
    assert (shown["ledger_entries"], len(shown["joined"])) == (list(third.entries), 3)
    assert [made["measures"][0]["loss"] for made in shown["joined"]] == [f"epsilon = {e}" for e in (1.5, 1, 0.5)]


def test_combining_stores_and_charges_nothing_more() -> None:
    """lecture:L32 one charge and one answer, as without it; the next stored answer is a single one."""
    curator = rich()
    curator.sql(ROWS, epsilon=1)
    before = len(list(curator.ledger.entries()))
    joined = again(curator, ROWS, 2)
    assert len(list(curator.ledger.entries())) - before == 2
    stored = curator.sql(ROWS, epsilon=2)
    assert (type(stored).__name__, stored.entry, stored.cost.amount) == ("Release", joined.entry, 0)


@pytest.mark.parametrize("budget", [Budget(epsilon=20), ZCDP], ids=["laplace", "gaussian"])
def test_the_numbers_are_means_weighted_by_inverse_variance(budget: Budget) -> None:
    curator = rich(budget)
    for epsilon in (0.5, 1.0):
        curator.sql(BY_SEX, epsilon=epsilon, refresh=True)
    joined = again(curator, BY_SEX, 2)
    found = [
        decode(joined.plan.outline, a.payload) for a in curator.ledger.find_answers(joined.plan.outline.identity.text)
    ]
    table = joined.to_arrow()
    for index, name in enumerate(("n", "c")):
        parts = [(plan.measures[index], released.cells[index][0]) for plan, released in found]
        weights = np.array([1 / (float(m.noise.variance) * float(m.step) ** 2) for m, _ in parts])
        values = np.array([cells.astype(float) * float(measure.step) for measure, cells in parts])
        mean = (weights[:, None] * values).sum(axis=0) / weights.sum()
        assert table.column(name).to_pylist() == pytest.approx(mean.tolist(), abs=0.5 if name == "n" else 1e-3)
    assert all(isinstance(value, int) for value in table.column("n").to_pylist())


@pytest.mark.parametrize("budget", [Budget(epsilon=20), ZCDP], ids=["laplace", "gaussian"])
def test_one_answer_alone_is_itself(budget: Budget) -> None:
    curator = rich(budget)
    joined = again(curator, BY_SEX, 1)
    stored = curator.sql(BY_SEX, epsilon=1)
    assert joined.entries == (stored.entry,)
    for simultaneous in (False, True):
        assert joined.intervals(simultaneous=simultaneous) == stored.intervals(simultaneous=simultaneous)


@pytest.mark.parametrize("budget", [Budget(epsilon=20), ZCDP], ids=["laplace", "gaussian"])
def test_joined_answers_are_more_exact_than_the_best_of_them(budget: Budget) -> None:
    """Four equal answers: about half the width of one."""
    curator = rich(budget)
    widths = []
    for _ in range(4):
        rows = again(curator, "SELECT SUM(cost) AS c FROM visits", 0.5).intervals().to_pylist()
        widths.append(rows[0]["c_high"] - rows[0]["c_low"])
    assert widths == sorted(widths, reverse=True)
    assert 0.4 < widths[3] / widths[0] < 0.55


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize(
    ("prices", "steps"),
    [([0.1, 0.1], [8, 8]), ([0.02, 0.1, 0.5], [8, 8, 8]), ([0.3] * 10, [8] * 10), ([0.01, 0.2], [16, 1])],
    ids=["two", "unequal", "ten", "steps"],
)
def test_intervals_cover_as_stated_and_not_much_more(kind: str, prices: list[float], steps: list[int]) -> None:
    """By simulation on a fixed stream: at least 95 % less three standard errors, and at most 99.5 %.

    Where whole steps are coarse against the noise more may be covered, if one step less is not enough.
    """
    bits = SeededBits(20)
    made = measures(kind, prices, steps)
    joined = _join(made)
    off = joined.mean([drawn(measure, bits) for measure in made]).astype(float) * float(joined.step)
    error = float(joined.error(LEVEL))
    covered, narrower = (float((np.abs(off) <= error - less).mean()) for less in (0, float(joined.step)))
    assert covered >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / DRAWS)
    assert covered <= 0.995 or narrower < 0.95


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_simultaneous_intervals_cover_all_groups_together(kind: str) -> None:
    bits = SeededBits(21)
    made = measures(kind, [0.05, 0.2, 0.2], [8, 8, 8])
    joined = _join(made)
    off = joined.mean([drawn(measure, bits) for measure in made]).astype(float) * float(joined.step)
    worst = np.abs(off).reshape(-1, 10).max(axis=1)
    covered = float((worst <= float(joined.error(LEVEL, simultaneous=10))).mean())
    assert 0.95 - 3 * math.sqrt(0.95 * 0.05 / worst.size) <= covered <= 0.995


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("prices", list(product([0.4, 1, 3, 2000], repeat=2)), ids=str)
@pytest.mark.parametrize("level", [Fraction(1, 2), LEVEL, Fraction(999, 1000)], ids=str)
def test_the_interval_of_two_holds_exactly(kind: str, prices: tuple[float, float], level: Fraction) -> None:
    """Every pair of noises summed up, also where noise is hardly wider than a step or nearly always 0."""
    laplace = kind == "laplace"
    joined = _join(measures(kind, list(prices), [8, 8]))
    span = np.arange(-60, 61)
    laws = []
    for price in prices:
        weights = np.exp(-np.abs(span) * price if laplace else -(span**2) * price)
        laws.append(weights / weights.sum())
    first, second = (grid.ravel() for grid in np.meshgrid(span, span, indexing="ij"))
    inside = np.abs(joined.mean([first, second]).astype(float)) <= float(joined.error(level))
    assert float((np.outer(*laws).ravel() * inside).sum()) >= level - Fraction(1, 10**9)


def test_weights_depend_on_prices_only_and_sum_to_one() -> None:
    curator = rich()
    answers = [again(curator, ROWS, epsilon) for epsilon in (0.5, 1, 0.5)]
    joined = answers[-1].plan.measures[0]
    assert isinstance(joined, JoinedAnswers)
    weights = [part.weight for part in joined.parts]
    assert sum(weights) == 1 << 40
    assert (weights[0], weights[1] / weights[0]) == (weights[2], pytest.approx(4, rel=0.05))
    assert sum(weigh_variances([Fraction(1, 3), Fraction(10) ** 30, Fraction(7)])) == 1 << 40


REFUSED = {
    "mean": "SELECT AVG(cost) AS m FROM visits",
    "mixed": "SELECT COUNT(*) AS n, MEDIAN(age) AS m FROM visits",
    "spread": "SELECT STDDEV(cost) AS s FROM visits",
    "distinct": "SELECT COUNT(DISTINCT age) AS n FROM visits",
    "keys": "SELECT name, COUNT(*) AS n FROM visits GROUP BY name",
}


@pytest.mark.parametrize("sql", REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_joined_is_refused_before_the_charge(sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    curator = rich(ZCDP, groups_per_unit=2)
    spy = Spy(curator, monkeypatch)
    with pytest.raises(Refused, match=r"`combine`.*Nothing was charged"):
        again(curator, sql, 1)
    assert (spy.queries, curator.budget.spent.amount) == ([], 0)


def test_combine_without_refresh_is_told_what_to_write() -> None:
    curator = rich()
    with pytest.raises(Misconfigured, match="Pass refresh=True"):
        curator.sql(ROWS, epsilon=1, combine=True)
    assert curator.budget.spent.amount == 0


def test_a_mean_of_joined_sums_and_counts_carries_an_interval() -> None:
    """What is computed above the aggregation works on joined numbers too, here from an expression."""
    curator = rich()
    visits = curator.table("visits")
    question = visits.aggregate(m=visits.cost.sum() / visits.count())
    curator.ask(question, epsilon=5)
    joined = curator.ask(question, epsilon=5, refresh=True, combine=True)
    (row,) = joined.intervals().to_pylist()
    assert row["m_low"] < row["m"] < row["m_high"]


def test_a_retry_with_the_same_key_pays_once_and_joins_again() -> None:
    """ledger:B5"""
    curator = rich()
    curator.sql(ROWS, epsilon=1)
    one, two = (again(curator, ROWS, 2, key="k") for _ in range(2))
    assert (one.entries, one.to_arrow(), two.cost.amount) == (two.entries, two.to_arrow(), 0)
    assert curator.budget.spent.amount == 3


def test_answers_of_another_version_or_question_are_not_join(tmp_path: Any) -> None:
    path = write_visits(tmp_path)
    old = rich(data=path)
    old.sql(ROWS, epsilon=1)
    old.close()
    write_visits(tmp_path, people=41)
    curator = rich(data=path, version="2")
    curator.sql("SELECT COUNT(*) AS n FROM visits WHERE sex = 'F'", epsilon=1)
    joined = again(curator, ROWS, 1)
    assert joined.entries == (joined.entry,)


@pytest.mark.parametrize(
    "made",
    [
        [*measures("laplace", [1], [8]), *measures("gaussian", [1], [8])],
        measures("laplace", [1, 1], [8, 12]),
    ],
    ids=["noise", "steps"],
)
def test_answers_that_differ_in_more_than_their_price_are_never_join(made: list[Measure]) -> None:
    """Another kind of noise, or steps that do not divide each other: what is joined then would be wrong."""
    with pytest.raises(Bug, match="differ in more than their price"):
        _join(made)


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("price", [Fraction(1, 100), Fraction(1), Fraction(3)])
def test_half_widths_of_joined_answers_grow_towards_confidence_one(kind: str, price: Fraction) -> None:
    """Twice the same noise, halved: at every confidence the half-width covers, summed over the law of both."""
    noise: Any = Laplace(epsilon=price, sensitivity=1) if kind == "laplace" else Gaussian(rho=price, sensitivity=1)
    joined = _join([Measure(COUNT, Fraction(1), NoisyCells(noise))] * 2)
    most = int(noise.error(1 - Fraction(1, 10**14))) + 1
    z = np.arange(-most, most + 1)
    law = np.exp(-np.abs(z) / float(noise.scale)) if kind == "laplace" else np.exp(-z * z / 2 / float(noise.variance))
    both = np.convolve(law, law) / law.sum() ** 2
    off = np.abs(np.arange(-2 * most, 2 * most + 1)) / 2
    halves = [joined.error(1 - Fraction(1, 10**power)) for power in (1, 2, 4, 6, 8, 9, 10, 12, 30, 100, 300)]
    assert halves == sorted(halves)
    for power, half in zip((1, 2, 4, 6, 8, 9, 10, 12), halves, strict=False):
        assert float(both[off >= float(half) + 0.5].sum()) <= 10.0**-power * (1 + 1e-6) + 1e-15
    assert 0 < halves[6] < halves[8] < halves[9] < halves[10]
