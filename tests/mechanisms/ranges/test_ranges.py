"""lapwing.mechanisms.ranges.ranges and lapwing.mechanisms.ranges.ranges."""

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
from lapwing.mechanisms.additive.calibration import continuous_delta
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.ranges import ranges
from lapwing.mechanisms.ranges.ranges import (
    PrefixSums,
    RangeRelease,
    Ranges,
    coefficients,
    decoder,
    encode,
    squared_norm,
)
from lapwing.privacy.loss import ZCDP, Pure
from support.audit import assert_caught, assert_private, audit_profile
from support.chi import assert_fits, assert_misfits, gaussian, laplace

Mechanism = PrefixSums | Ranges


def both(size: int, **more: Any) -> list[Mechanism]:
    return [PrefixSums(size=size, rho=0.5, **more), Ranges(size=size, epsilon=1, **more)]


def silent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, int]]:
    """Noise is 0 from here on; returns the list in which every request is noted."""
    asked: list[tuple[Any, int]] = []

    def zeros(key: Any, count: int) -> Any:
        asked.append((key, count))
        return np.zeros(count, np.int64)

    monkeypatch.setattr(Laplace, "draw", zeros)
    monkeypatch.setattr(ranges, "sample_gaussian", zeros)
    return asked


def triangle(size: int) -> Any:
    """A of the docstring, as exact integers."""
    c = coefficients(size).tolist()
    return [[c[i - j] if i >= j else 0 for j in range(size)] for i in range(size)]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_sensitivity_is_the_longest_column_exactly(size: int) -> None:
    """Every unit in every cell, in whole numbers: the squared length of what it adds to A x."""
    moved = [sum(entry * entry for entry in encode(np.eye(size, dtype=np.int64)[j])) for j in range(size)]
    assert max(moved) == moved[0] == squared_norm(size)
    assert PrefixSums(size=size, rho=0.5).variance == squared_norm(size)
    assert PrefixSums(size=size, rho=0.5, cells_per_unit=3).variance == 9 * squared_norm(size)


@pytest.mark.parametrize("kappa", [1, 2])
def test_several_cells_of_a_unit_stay_within_the_sensitivity(kappa: int) -> None:
    """Brute force over all ways to put up to kappa of a unit into 4 cells, the same cell twice included."""
    prefix, tree = (
        PrefixSums(size=4, rho=0.5, cells_per_unit=kappa),
        Ranges(size=4, epsilon=1, cells_per_unit=kappa, fanout=2),
    )
    for n in range(kappa + 1):
        for places in itertools.combinations_with_replacement(range(4), n):
            added = np.bincount(np.array(places, np.int64), minlength=4)
            assert sum(entry**2 for entry in encode(added)) <= 2 * prefix.rho * prefix.variance
            for block in tree.blocks:
                level = np.add.reduceat(added, range(0, 4, block))
                assert np.abs(level).sum() <= tree.noise.sensitivity


def test_encoding_is_exact_beyond_64_bits() -> None:
    """threat:A4 whole numbers of any length: no overflow, no rounding."""
    cells = np.array([2**61, -(2**61), 2**61 - 1, 1])
    expected = [sum(a * x for a, x in zip(row, cells.tolist(), strict=True)) for row in triangle(4)]
    assert encode(cells) == expected
    assert max(map(abs, expected)) > 2**80


@pytest.mark.parametrize("size", [1, 2, 5, 100, 4096])
def test_decoder_undoes_the_root(size: int) -> None:
    exactly = np.ones(size)
    found = np.convolve(coefficients(size).astype(np.float64), decoder(size))[:size]
    assert found == pytest.approx(exactly, abs=1e-9)
    assert coefficients(size)[0] == 1 << 20
    assert decoder(size) == pytest.approx(coefficients(size) / 2.0**40, rel=1e-3)


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=70))
def test_without_noise_every_range_is_exact(counts: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        silent(patch)
        for mechanism in both(len(counts)):
            release = mechanism.release(counts)
            assert release.prefix() == pytest.approx(np.cumsum(counts), abs=1e-4)
            assert release.counts() == pytest.approx(counts, abs=1e-4)
            assert release.cdf()[-1] == 1
            middle = len(counts) // 2
            assert release.range(middle, len(counts)) == pytest.approx(sum(counts[middle:]), abs=1e-4)
            assert release.range(middle, middle) == 0


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("size", [1, 7, 50, 300])
def test_answers_agree_with_each_other(size: int) -> None:
    for mechanism in both(size):
        release = mechanism.release(np.arange(size))
        ends = [0, size // 3, size // 2, size]
        parts = [release.range(a, b) for a, b in itertools.pairwise(ends)]
        assert sum(parts) == pytest.approx(release.range(0, size))
        assert release.prefix()[-1] == pytest.approx(release.range(0, size))
        cdf = release.cdf()
        assert np.all(np.diff(cdf) >= 0)
        assert (cdf[0] >= 0, cdf[-1], cdf.size) == (True, 1, size)


def test_cdf_of_nothing_is_a_straight_line() -> None:
    release = RangeRelease(np.array([0.0, -3.0, -1.0, -2.0, -5.0]), both(4)[0])
    assert release.cdf().tolist() == [0.25, 0.5, 0.75, 1.0]


def least_squares(size: int, blocks: tuple[int, ...]) -> tuple[Any, Any]:
    """The tree as a matrix over padded cells, and its estimator by textbook linear algebra."""
    padded = -(-size // blocks[-1]) * blocks[-1]
    rows = [np.kron(np.eye(padded // block), np.ones(block)) for block in blocks]
    tree = np.concatenate(rows)
    return tree, np.linalg.pinv(tree)


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize(("size", "fanout"), [(5, None), (8, 2), (30, 4), (48, None), (70, 8), (20, 100)])
def test_tree_estimates_are_those_of_least_squares(
    size: int, fanout: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    mechanism = Ranges(size=size, epsilon=1, fanout=fanout)
    tree, estimator = least_squares(size, mechanism.blocks)
    noise = Laplace(epsilon=1).draw(tree.shape[0])
    monkeypatch.setattr(Laplace, "draw", lambda self, count: noise.copy())
    counts = np.arange(size) % 7
    padded = np.concatenate([counts, np.zeros(tree.shape[1] - size, np.int64)])
    expected = (estimator @ (tree @ padded + noise))[:size]
    assert mechanism.release(counts).counts() == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("size", [1, 2, 9, 64, 200])
def test_errors_over_all_queries_are_those_of_the_covariance(size: int) -> None:
    """The closed forms against the dense covariance of the prefix sums."""
    summing = np.tril(np.ones((size, size)))
    for mechanism in both(size):
        if isinstance(mechanism, Ranges):
            _, estimator = least_squares(size, mechanism.blocks)
            answers = summing @ estimator[:size] * math.sqrt(mechanism.noise.variance)
        else:
            answers = summing @ np.linalg.inv(np.array(triangle(size), np.float64)) * math.sqrt(mechanism.variance)
        sums = np.concatenate([np.zeros((1, answers.shape[1])), answers])
        gaps = [((sums[j] - sums[i]) ** 2).sum() for i, j in itertools.combinations(range(size + 1), 2)]
        assert mechanism.prefix_rmse == pytest.approx(math.sqrt((answers**2).sum() / size), rel=1e-6)
        assert mechanism.range_rmse == pytest.approx(math.sqrt(np.mean(gaps)), rel=1e-6)
        for low, high in {(0, size), (size // 3, size // 2), (size - 1, size)}:
            exactly = math.sqrt(((sums[high] - sums[low]) ** 2).sum())
            assert mechanism.standard_error(low, high) == pytest.approx(exactly, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(("size", "prefix", "every"), [(64, 2.23, 2.63), (256, 2.67, 3.26), (1024, 3.11, 3.90)])
def test_prefix_sums_have_the_published_error(size: int, prefix: float, every: float) -> None:
    """RMSE a query at unit sigma. Noisy cells alone have 5.70, 11.3, 22.6 on prefixes."""
    mechanism = PrefixSums(size=size, rho=0.5)
    assert mechanism.prefix_rmse == pytest.approx(prefix, abs=0.005)
    assert mechanism.range_rmse == pytest.approx(every, abs=0.005)
    assert mechanism.standard_error(0, size) == pytest.approx(math.log(size) / math.pi + 1.07, abs=0.01)


def unit_rmse(size: int, blocks: tuple[int, ...]) -> tuple[float, float]:
    """RMSE a query of a tree of these blocks at Laplace scale 1 in total."""
    return tuple(math.sqrt(2) * len(blocks) * error for error in ranges._tree_rmse(size, blocks))  # type: ignore[return-value]


def test_trees_have_the_published_errors_and_ours_is_better() -> None:
    """Prefixes and ranges: plain cells, the binary tree and the 16-ary tree cut from the top, each with a root."""
    assert unit_rmse(1024, (1,)) == pytest.approx((32.0, 26.2), abs=0.05)
    assert unit_rmse(1024, tuple(2**j for j in range(11))) == pytest.approx((17.3, 21.8), abs=0.05)
    assert unit_rmse(1024, (1, 4, 64, 1024)) == pytest.approx((13.0, 15.5), abs=0.05)
    assert unit_rmse(64, (1,)) == pytest.approx((8.06, 6.63), abs=0.005)
    assert unit_rmse(64, (1, 4, 64)) == pytest.approx((7.29, 7.70), abs=0.005)
    found = {size: Ranges(size=size, epsilon=0.001) for size in (64, 256, 1024)}
    assert {size: tree.blocks for size, tree in found.items()} == {64: (1, 8), 256: (1, 16), 1024: (1, 11, 121)}
    ours = {size: (tree.prefix_rmse / 1000, tree.range_rmse / 1000) for size, tree in found.items()}
    assert ours[64] == pytest.approx((6.18, 6.09), abs=0.005)
    assert ours[256] == pytest.approx((8.97, 8.90), abs=0.005)
    assert ours[1024] == pytest.approx((11.26, 12.56), abs=0.005)


@pytest.mark.parametrize("size", [1, 2, 3, 10, 47, 48, 100, 1000, 5000])
def test_default_tree_is_no_worse_than_any_fanout(size: int) -> None:
    best = Ranges(size=size, epsilon=0.01).range_rmse
    others = [Ranges(size=size, epsilon=0.01, fanout=fanout).range_rmse for fanout in (2, 3, 4, 8, 16, 32, 10_000)]
    assert best <= 1.03 * min(others)
    assert Ranges(size=size, epsilon=1, fanout=10_000).blocks == (1,)


def test_levels_share_epsilon_exactly() -> None:
    """threat:A30"""
    mechanism = Ranges(size=1024, epsilon=0.3, fanout=16)
    assert mechanism.blocks == (1, 16, 256)
    assert mechanism.noise.loss == Pure(Fraction(1, 10))
    assert mechanism.loss == mechanism.noise.loss * 3 == Pure(Fraction(3, 10), Fraction(3, 200))
    assert PrefixSums(size=9, rho=0.1).loss == ZCDP(Fraction(1, 10))


@pytest.mark.parametrize("size", [1, 5, 60])
def test_data_decide_neither_the_draws_nor_the_shape(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """threat:A35 the same requests for noise whatever the counts are, huge and negative ones included."""
    asked = silent(monkeypatch)
    for mechanism in both(size):
        asked.clear()
        for counts in ([0] * size, [1] + [0] * (size - 1), [2**62] * size, [-(2**63)] * size):
            assert mechanism.release(np.array(counts, np.int64)).prefix().shape == (size,)
        assert len(set(asked)) == 1


def test_counts_that_could_overflow_are_cut() -> None:
    """threat:A4 cutting every cell makes it no more sensitive."""
    huge = np.array([2**63, 2**64 - 1, 5], np.uint64)
    for mechanism in both(3):
        release = mechanism.release(huge)
        assert release.range(0, 1) == pytest.approx(2**62 // 6, rel=1e-9)
        assert release.range(2, 3) < 2**40


@pytest.mark.usefixtures("seeded")
def test_noise_follows_its_law() -> None:
    size = 40
    tree, prefix = Ranges(size=size, epsilon=0.5), PrefixSums(size=size, rho=0.5)
    draws = np.array([tree.release([0] * size).counts() for _ in range(500)])
    assert tree.blocks == (1,)
    assert_fits(np.rint(draws).astype(np.int64).ravel(), laplace(2.0))
    assert_misfits(np.rint(draws).astype(np.int64).ravel(), laplace(2.2))
    draws = np.array([prefix.release([0] * size).counts() for _ in range(500)]) @ np.array(triangle(size), np.float64).T
    assert_fits(np.rint(draws).astype(np.int64).ravel(), gaussian(prefix.variance))
    assert_misfits(np.rint(draws).astype(np.int64).ravel(), gaussian(prefix.variance * Fraction(121, 100)))


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("size", [4, 60])
def test_errors_stated_beforehand_hold_and_are_not_idle(size: int) -> None:
    counts = np.arange(size) * 3
    for mechanism in both(size):
        for low, high in ((0, size), (1, 3), (size // 2, size // 2 + 1)):
            truth, error = int(counts[low:high].sum()), mechanism.error(low, high, 0.9)
            answers = np.array([mechanism.release(counts).range(low, high) for _ in range(500)])
            held = np.mean(np.abs(answers - truth) <= error)
            assert 0.9 - 3 * math.sqrt(0.09 / 500) <= held <= 0.98
            assert np.std(answers) == pytest.approx(mechanism.standard_error(low, high), rel=0.15)
            release = RangeRelease(np.concatenate([[0.0], np.cumsum(counts)]), mechanism)
            assert release.interval(low, high, 0.9) == pytest.approx((max(0, truth - error), truth + error))


def test_many_answers_at_once_need_more_room() -> None:
    for mechanism in both(100):
        one, many = mechanism.error(3, 40), mechanism.error(3, 40, simultaneous=100)
        assert one < many < 2.5 * one
        assert mechanism.error(5, 5) == 0


def test_more_cells_of_a_unit_mean_more_noise() -> None:
    """lecture:L34"""
    for one, three in zip(both(30), both(30, cells_per_unit=3), strict=True):
        assert three.standard_error(2, 20) == pytest.approx(3 * one.standard_error(2, 20), rel=0.05)


@pytest.mark.parametrize("bad", [[1, 2], [1, 2, 3, 4], [[1, 2, 3]], [1.0, 2.0, 3.0], [True, False, True], "123", None])
def test_counts_of_another_shape_are_refused(bad: Any) -> None:
    for mechanism in both(3):
        with pytest.raises(Misconfigured, match="`counts`"):
            mechanism.release(bad)


@pytest.mark.parametrize("bad", [0, -1, 1.5, math.nan, True, "3", None, 2**20 + 1])
def test_bad_parameters_are_refused(bad: Any) -> None:
    """threat:A26"""
    with pytest.raises(Misconfigured, match="`size` is"):
        PrefixSums(size=bad, rho=1)
    with pytest.raises(Misconfigured, match="`size` is"):
        Ranges(size=bad, epsilon=1)
    if bad != 2**20 + 1:
        with pytest.raises(Misconfigured, match="`cells_per_unit` is"):
            Ranges(size=3, epsilon=1, cells_per_unit=bad)
    for price in (0, -1, math.nan, True):
        with pytest.raises(Misconfigured):
            Ranges(size=3, epsilon=price)
        with pytest.raises(Misconfigured):
            PrefixSums(size=3, rho=price)


@pytest.mark.parametrize(("low", "high"), [(2, 1), (0, 4), (-1, 2), (0.5, 2)])
def test_ranges_outside_the_domain_are_refused(low: Any, high: Any) -> None:
    for mechanism in both(3):
        with pytest.raises(Misconfigured):
            mechanism.error(low, high)


def test_a_release_does_not_change() -> None:
    release = both(3)[0].release([1, 2, 3])
    with pytest.raises(ValueError, match="read-only"):
        release.sums[0] = 5
    release.prefix()[0] = 10**6
    assert release.range(0, 1) < 10**5


PAIRS = [([0, 0, 0, 0], [1, 0, 0, 0]), ([5, 5, 5, 5], [5, 5, 5, 6]), ([0, 3, 0, 0], [0, 4, 0, 0])]


def released(mechanism: Mechanism, counts: list[int], runs: int) -> Any:
    return np.array([mechanism.release(counts).counts() for _ in range(runs)])


@pytest.mark.usefixtures("seeded")
def test_auditor_accepts_one_unit_and_catches_two() -> None:
    mechanism = Ranges(size=4, epsilon=1, fanout=2)
    nobody = released(mechanism, [0, 0, 0, 0], 4000)
    assert_private(nobody, released(mechanism, [1, 0, 0, 0], 4000), 1.0)
    assert_caught(nobody, released(mechanism, [3, 0, 0, 0], 4000), 1.0)


@pytest.mark.slow
@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("pair", PAIRS)
def test_auditor_accepts_trees(pair: tuple[list[int], list[int]]) -> None:
    mechanism = Ranges(size=4, epsilon=1, fanout=2)
    assert_private(*(released(mechanism, counts, 100_000) for counts in pair), 1.0)


@pytest.mark.slow
@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("pair", PAIRS)
def test_auditor_accepts_prefix_sums_along_their_profile(pair: tuple[list[int], list[int]]) -> None:
    """The curve of a Gaussian vector whose mean moves by sqrt(2 rho) standard deviations."""
    mechanism = PrefixSums(size=4, rho=0.5)
    profile = [(e, float(continuous_delta(Fraction(1), Fraction(e), Fraction(1))) + 1e-6) for e in (0.2, 0.5, 1.0, 2.0)]
    found = audit_profile(*(released(mechanism, counts, 100_000) for counts in pair), profile)
    assert not found.rejected
