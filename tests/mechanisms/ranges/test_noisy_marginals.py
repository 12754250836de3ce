"""lapwing.mechanisms.ranges.noisy_marginals and components."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from lapwing.errors import Misconfigured
from lapwing.mechanisms.additive.calibration import continuous_delta
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.ranges import noisy_marginals
from lapwing.mechanisms.ranges.components import MOST_COUNT, closure, contrasts, gains, maximal, subsets, sum_over
from lapwing.mechanisms.ranges.noisy_marginals import LaplaceMarginals, Marginals
from lapwing.privacy.loss import ZCDP, Pure
from support.audit import assert_caught, assert_private, audit_profile
from support.chi import assert_fits, assert_misfits, gaussian, laplace

Mechanism = Marginals | LaplaceMarginals
SIZES = (2, 3, 2)


def both(sizes: tuple[int, ...] = SIZES, **more: Any) -> list[Mechanism]:
    return [Marginals(sizes=sizes, rho=0.5, **more), LaplaceMarginals(sizes=sizes, epsilon=1, **more)]


def split(sizes: tuple[int, ...] = (4, 5, 6), **more: Any) -> LaplaceMarginals:
    """One that measures more than one table."""
    mechanism = LaplaceMarginals(sizes=sizes, epsilon=1, ways=1, **more)
    assert len(mechanism.measured) > 1
    return mechanism


def counted(mechanism: Mechanism, full: Any) -> dict[tuple[int, ...], Any]:
    """The tables that the mechanism reads, from the counts over all attributes."""
    every = tuple(range(len(mechanism.sizes)))
    return {one: sum_over(np.asarray(full), every, one) for one in mechanism.measured}


def silent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, int]]:
    """Noise is 0 from here on; returns the list in which every request is noted."""
    asked: list[tuple[Any, int]] = []

    def zeros(key: Any, count: int) -> Any:
        asked.append((key, count))
        return np.zeros(count, np.int64)

    monkeypatch.setattr(Laplace, "draw", zeros)
    monkeypatch.setattr(noisy_marginals, "sample_gaussian", zeros)
    return asked


def units(sizes: tuple[int, ...], most: int) -> Iterator[Any]:
    """Everything that a unit of at most so many records can add to the counts over all attributes."""
    size = math.prod(sizes)
    for n in range(most + 1):
        for places in itertools.combinations_with_replacement(range(size), n):
            yield np.bincount(np.array(places, np.int64), minlength=size).reshape(sizes)


def spent(mechanism: Marginals, added: Any) -> Fraction:
    """The exact rho of what a unit adds: the sum over all parts of |k T m|^2 / (2 v)."""
    every, total = tuple(range(added.ndim)), Fraction(0)
    for part, (k, v) in mechanism.noise.items():
        moved = contrasts(sum_over(added, every, part))
        total += Fraction(sum(int(entry) ** 2 for entry in np.ravel(moved)) * k * k, 2 * v)
    return total


@pytest.mark.parametrize("unit", [1, 2])
@pytest.mark.parametrize("ways", [1, 2, 3])
def test_no_unit_spends_more_than_rho(unit: int, ways: int) -> None:
    """Brute force over every unit, in fractions; one record spends all of it but a millionth."""
    mechanism = Marginals(sizes=SIZES, ways=ways, rho=0.3, cells_per_unit=unit)
    every = [spent(mechanism, added) for added in units(SIZES, unit)]
    assert max(every) <= Fraction(3, 10)
    assert max(every) > Fraction(3, 10) * (1 - Fraction(1, 10**6))


@pytest.mark.parametrize("unit", [1, 2])
def test_no_unit_moves_a_table_by_more_than_the_sensitivity(unit: int) -> None:
    for mechanism in (LaplaceMarginals(sizes=SIZES, epsilon=1, cells_per_unit=unit), split(cells_per_unit=unit)):
        for added in itertools.islice(units(mechanism.sizes, unit), 3000):
            for table in counted(mechanism, added).values():
                assert np.abs(table).sum() <= mechanism.noise.sensitivity == unit


def test_shares_of_rho_sum_to_at_most_one() -> None:
    """threat:A30 whole multiples of 2^-40, counted exactly, for tables of very different sizes too."""
    for sizes, ways in (((10,) * 5, 2), ((2,) * 12, 3), ((1000, 2, 1, 30), 2), ((1,), 1)):
        mechanism = Marginals(sizes=sizes, ways=ways, rho=0.1)
        shares = noisy_marginals._shares(mechanism.sizes, mechanism.sets)
        assert 1 - Fraction(1, 10**6) < sum(shares.values()) <= 1
        for part, (k, v) in mechanism.noise.items():
            paid = Fraction(k * k * math.prod(sizes[i] * (sizes[i] - 1) for i in part), 2 * v)
            assert paid <= mechanism.rho * shares[part]


def test_losses_are_those_stated() -> None:
    assert Marginals(sizes=SIZES, rho=0.1).loss == ZCDP(Fraction(1, 10))
    mechanism = split()
    assert mechanism.loss == mechanism.noise.loss * len(mechanism.measured)
    assert mechanism.loss == Pure(Fraction(1), Fraction(1, 2 * len(mechanism.measured)))


@pytest.mark.parametrize("sets", [None, [(0, 1)], [(0,), (1, 2)], [(2, 0), (2, 0), ()], [(0, 1, 2)]])
def test_without_noise_every_table_is_exact(sets: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    silent(monkeypatch)
    full = np.arange(12).reshape(SIZES) ** 2
    for mechanism in both(sets=sets):
        release = mechanism.release(counted(mechanism, full))
        for one in mechanism.sets:
            exactly = sum_over(full, (0, 1, 2), one)
            assert release.tables[one] == pytest.approx(exactly, abs=1e-9)
            assert release.tables[one].shape == exactly.shape


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("sizes", [(2, 3, 2), (4, 1, 3), (5, 4, 6, 2), (7,)])
def test_tables_agree_with_each_other(sizes: tuple[int, ...]) -> None:
    """Summing along an attribute gives the smaller table, whatever the noise was."""
    others = [split(sizes)] if len(sizes) == 4 else []
    for mechanism in [*both(sizes), *others]:
        release = mechanism.release(counted(mechanism, np.full(sizes, 9)))
        for one, other in itertools.product(mechanism.sets, repeat=2):
            common = tuple(i for i in one if i in other)
            sums = [sum_over(release.tables[each], each, common) for each in (one, other)]
            assert sums[0] == pytest.approx(sums[1], abs=1e-6)
            assert release.table(reversed(common)) == pytest.approx(sums[0], abs=1e-6)


def dense(sizes: tuple[int, ...], one: tuple[int, ...]) -> Any:
    """The matrix that sums the full table over all but these attributes."""
    made = np.ones((1, 1))
    for i, n in enumerate(sizes):
        made = np.kron(made, np.eye(n) if i in one else np.ones((1, n)))
    return made


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("sizes", [(4, 5, 6), (2, 8, 9), (3, 3, 3, 3)])
def test_laplace_tables_are_those_of_least_squares(sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Against textbook linear algebra over the full table, estimates and standard errors."""
    mechanism = split(sizes)
    measured = np.concatenate([dense(sizes, one) for one in mechanism.measured])
    estimator = np.linalg.pinv(measured)
    noise = Laplace(epsilon=1).draw(measured.shape[0])
    left = iter(np.split(noise, np.cumsum([math.prod(sizes[i] for i in one) for one in mechanism.measured])))
    monkeypatch.setattr(Laplace, "draw", lambda self, count: next(left).copy())
    full = np.arange(math.prod(sizes)).reshape(sizes) % 7
    release = mechanism.release(counted(mechanism, full))
    for one in mechanism.sets:
        answer = dense(sizes, one) @ estimator
        assert release.tables[one].ravel() == pytest.approx(answer @ (measured @ full.ravel() + noise), abs=1e-8)
        expected = np.sqrt((answer**2).sum(axis=1) * mechanism.noise.variance)
        assert np.full(expected.shape, mechanism.standard_error(one)) == pytest.approx(expected)


@pytest.mark.parametrize("ways", [1, 2, 3])
def test_standard_errors_are_those_of_the_covariance(ways: int) -> None:
    """Of the residual parts, from dense matrices: every cell of a table has the same."""
    mechanism = Marginals(sizes=SIZES, ways=ways, rho=0.5)
    for one in mechanism.sets:
        total = np.zeros(math.prod(SIZES[i] for i in one))
        for part in subsets(one):
            k, v = mechanism.noise[part]
            spread = np.ones((1, 1))
            for i in one:
                n = SIZES[i]
                spread = np.kron(spread, np.eye(n) - 1 / n if i in part else np.full((n, 1), 1 / n))
            total += (spread**2).sum(axis=1) * v / (k * math.prod(SIZES[i] for i in part)) ** 2
        assert np.full(total.shape, mechanism.standard_error(one)) == pytest.approx(np.sqrt(total))


def test_no_other_shares_of_rho_have_less_variance() -> None:
    mechanism = Marginals(sizes=(3, 4, 2), ways=2, rho=0.5)
    shares = {part: float(share) for part, share in noisy_marginals._shares(mechanism.sizes, mechanism.sets).items()}
    gain, part_centre = gains(mechanism.sizes, mechanism.sets), noisy_marginals.centred_norm

    def variance(weights: dict[Any, float]) -> float:
        total = sum(weights.values())
        return sum(gain[p] * part_centre(mechanism.sizes, p) * total / weight for p, weight in weights.items())

    best = variance(shares)
    assert best == pytest.approx(sum(mechanism.standard_error(one) ** 2 for one in mechanism.sets), rel=1e-6)
    for part in shares:
        for factor in (0.8, 0.99, 1.01, 1.25):
            assert variance({**shares, part: shares[part] * factor}) > best


@pytest.mark.parametrize(
    ("sizes", "ways", "expected"),
    [((10,) * 5, 2, 1.35), ((10,) * 10, 2, 1.42), ((5,) * 20, 2, 2.13), ((2,) * 15, 3, 17)],
)
def test_one_release_is_better_than_table_by_table(sizes: tuple[int, ...], ways: int, expected: float) -> None:
    """The gain in mean variance over an equal split of rho among the tables."""
    mechanism = Marginals(sizes=sizes, ways=ways, rho=0.5)
    mean = np.mean([mechanism.standard_error(one) ** 2 for one in mechanism.sets])
    assert len(mechanism.sets) / mean == pytest.approx(expected, rel=0.01)


def test_pure_strategy_lies_between_the_full_table_and_the_asked_ones() -> None:
    """Whichever is better is taken, and blocks of attributes where neither is."""
    assert LaplaceMarginals(sizes=(2, 3, 4), epsilon=1).measured == ((0, 1, 2),)
    pairs = LaplaceMarginals(sizes=(10,) * 5, epsilon=1)
    assert pairs.measured == tuple(itertools.combinations(range(5), 2))
    blocks = LaplaceMarginals(sizes=(2,) * 15, ways=3, epsilon=1)
    assert (len(blocks.measured), {len(one) for one in blocks.measured}) == (10, {9})
    sizes, sets = blocks.sizes, blocks.sets
    ours = noisy_marginals._mean_variance(sizes, sets, blocks.measured)
    assert ours < noisy_marginals._mean_variance(sizes, sets, (tuple(range(15)),))
    assert ours < noisy_marginals._mean_variance(sizes, sets, maximal(sets)) / 9
    assert LaplaceMarginals(sizes=(1000, 1000, 1000), epsilon=1).measured == ((0, 1), (0, 2), (1, 2))


def test_price_and_data_do_not_change_what_is_measured() -> None:
    """threat:A35"""
    found = {LaplaceMarginals(sizes=(2,) * 8, epsilon=epsilon).measured for epsilon in (0.001, 1, 1000)}
    assert len(found) == 1


@pytest.mark.parametrize("sizes", [(2, 3, 2), (1, 4)])
def test_data_decide_neither_the_draws_nor_the_shape(sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """threat:A35 the same requests for noise whatever the counts are, huge and negative ones included."""
    asked = silent(monkeypatch)
    for mechanism in both(sizes):
        runs = []
        for value in (0, 1, 2**62, -(2**62)):
            asked.clear()
            counts = {one: np.full([sizes[i] for i in one], value, np.int64) for one in mechanism.measured}
            release = mechanism.release(counts)
            assert {one: table.shape for one, table in release.tables.items()} == {
                one: tuple(sizes[i] for i in one) for one in mechanism.sets
            }
            runs.append(list(asked))
        assert runs[0] == runs[1] == runs[2] == runs[3]


def test_counts_that_could_overflow_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """threat:A4 in 64 bits and in longer whole numbers alike."""
    silent(monkeypatch)
    for sizes in ((2, 2), (600, 700)):
        for mechanism in both(sizes):
            counts = {one: np.full([sizes[i] for i in one], 2**63, np.uint64) for one in mechanism.measured}
            table = mechanism.release(counts).tables[(0, 1)]
            assert abs(table).max() <= MOST_COUNT * (1 + 1e-9)
            assert abs(table - table.ravel()[0]).max() <= 1e-9 * abs(table).max()  # all alike, as they were
            assert table.sum() >= MOST_COUNT * (1 - 1e-9)  # and no smaller than they must be


@pytest.mark.usefixtures("seeded")
def test_noise_follows_its_law() -> None:
    """The total is y / k of the empty part; the full table is measured cell by cell."""
    mechanism = Marginals(sizes=(1,), ways=1, rho=0.5)
    ((k, v),) = mechanism.noise.values()
    draws = np.array([mechanism.release({(0,): np.array([0])}).tables[(0,)][0] for _ in range(9_000)])
    coarse = np.rint(draws * 4).astype(np.int64)
    assert_fits(coarse, gaussian(Fraction(v, k * k) * 16))
    assert_misfits(coarse, gaussian(Fraction(v, k * k) * 16 * Fraction(121, 100)))
    pure = LaplaceMarginals(sizes=(5, 4), epsilon=0.5)
    cells = np.concatenate([pure.release({(0, 1): np.zeros((5, 4), int)}).tables[(0, 1)] for _ in range(1000)])
    assert_fits(cells.astype(np.int64).ravel(), laplace(2.0))
    assert_misfits(cells.astype(np.int64).ravel(), laplace(2.2))


@pytest.mark.usefixtures("seeded")
def test_errors_stated_beforehand_hold_and_are_not_idle() -> None:
    for mechanism in [*both(), split(), Marginals(sizes=(3, 4), rho=200)]:
        full = np.arange(math.prod(mechanism.sizes)).reshape(mechanism.sizes)
        counts, every = counted(mechanism, full), tuple(range(full.ndim))
        releases = [mechanism.release(counts) for _ in range(400)]
        for one in [*mechanism.sets, ()]:
            off = np.array([(each.table(one) - sum_over(full, every, one)).ravel()[0] for each in releases])
            held = np.mean(np.abs(off) <= mechanism.error(one, 0.9))
            assert 0.9 - 3 * math.sqrt(0.09 / 400) <= held <= 0.97
            assert np.std(off) == pytest.approx(mechanism.standard_error(one), rel=0.15)


def test_errors_far_out_and_many_at_once_need_more_room() -> None:
    for mechanism in both():
        one, many = mechanism.error((0, 1)), mechanism.error((0, 1), simultaneous=100)
        assert one < many < 3 * one
        assert mechanism.error((0, 1), 1 - Fraction(1, 10**15)) < 12 * one


def test_more_records_of_a_unit_mean_more_noise() -> None:
    """lecture:L34"""
    for one, three in zip(both(), both(cells_per_unit=3), strict=True):
        assert three.standard_error((0, 1)) == pytest.approx(3 * one.standard_error((0, 1)), rel=0.05)


def test_closures_and_largest_sets() -> None:
    assert closure(((0, 1), (2,))) == ((), (0,), (1,), (2,), (0, 1))
    assert maximal(((0,), (0, 1), (2,), ())) == ((2,), (0, 1))


@pytest.mark.parametrize("bad", [[], [0], [1.5], [True], ["3"], 5, "23", [2] * 61, None])
def test_bad_sizes_are_refused(bad: Any) -> None:
    """threat:A26"""
    with pytest.raises(Misconfigured, match="`sizes`"):
        Marginals(sizes=bad, rho=1)
    with pytest.raises(Misconfigured, match="`sizes`"):
        LaplaceMarginals(sizes=bad, epsilon=1)


@pytest.mark.parametrize("bad", [[], [(0, 3)], [(-1,)], [(0.5,)]])
def test_bad_sets_are_refused(bad: Any) -> None:
    with pytest.raises(Misconfigured, match="`sets`"):
        Marginals(sizes=SIZES, sets=bad, rho=1)


@pytest.mark.parametrize("bad", [0, -1, math.nan, True])
def test_bad_prices_and_limits_are_refused(bad: Any) -> None:
    for wrong in ({"rho": bad}, {"rho": 1, "cells_per_unit": bad}, {"rho": 1, "ways": bad}):
        with pytest.raises(Misconfigured):
            Marginals(sizes=SIZES, **wrong)
    with pytest.raises(Misconfigured):
        LaplaceMarginals(sizes=SIZES, epsilon=bad)


def test_too_many_cells_or_tables_are_refused() -> None:
    with pytest.raises(Misconfigured, match="cells"):
        Marginals(sizes=(2000, 2000), rho=1)
    with pytest.raises(Misconfigured, match="tables"):
        Marginals(sizes=(2,) * 60, ways=5, rho=1)
    with pytest.raises(Misconfigured, match="sums"):
        closure((tuple(range(20)), tuple(range(20, 40))))
    with pytest.raises(Misconfigured, match="noise scale"):
        LaplaceMarginals(sizes=SIZES, epsilon=Fraction(1, 10**20)).check()
    with pytest.raises(Misconfigured, match="noise scale"):
        Marginals(sizes=SIZES, rho=Fraction(1, 10**40)).check()


@pytest.mark.parametrize("bad", [None, [[1.0] * 3] * 2, [[1, 2], [3, 4]], [[True] * 3] * 2])
def test_counts_of_another_shape_are_refused(bad: Any) -> None:
    for mechanism in both((2, 3)):
        with pytest.raises(Misconfigured, match="`counts`"):
            mechanism.release({(0, 1): bad})


def test_a_release_does_not_change_and_knows_its_sets() -> None:
    for mechanism in both(sets=[(0, 1), (2,)]):
        release = mechanism.release(counted(mechanism, np.ones(SIZES, int)))
        with pytest.raises(ValueError, match="read-only"):
            release.tables[(0, 1)][0, 0] = 5
        with pytest.raises(Misconfigured, match="no table"):
            release.table((0, 2))
        with pytest.raises(Misconfigured, match="no table"):
            mechanism.error((0, 2))


@pytest.mark.usefixtures("seeded")
def test_auditor_accepts_one_unit_and_catches_three() -> None:
    mechanism = split((3, 8))

    def released(unit: int) -> Any:
        full = np.zeros((3, 8), int)
        full[0, 0] = unit
        counts = counted(mechanism, full)
        rows = [mechanism.release(counts) for _ in range(2000)]
        return np.array([np.concatenate([row.tables[(0,)][:2], row.tables[(1,)][:2]]) for row in rows])

    nobody = released(0)
    assert_private(nobody, released(1), 1.0)
    assert_caught(nobody, released(4), 1.0)


@pytest.mark.slow
@pytest.mark.usefixtures("seeded")
def test_auditor_accepts_marginals_along_their_profile() -> None:
    """The curve of a Gaussian vector whose mean moves by sqrt(2 rho) standard deviations."""
    mechanism = Marginals(sizes=(2, 3), rho=0.5)
    profile = [(e, float(continuous_delta(Fraction(1), Fraction(e), Fraction(1))) + 1e-6) for e in (0.2, 0.5, 1.0, 2.0)]

    def released(unit: int) -> Any:
        full = np.full((2, 3), 5)
        full[0, 0] += unit
        counts = counted(mechanism, full)
        return np.array([mechanism.release(counts).tables[(0, 1)].ravel() for _ in range(12_000)])

    nobody = released(0)
    assert not audit_profile(nobody, released(1), profile).rejected
    assert audit_profile(nobody, released(3), profile).rejected
