"""lapwing.noise.noise_table."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from flint import arb

from lapwing.errors import Bug, Misconfigured
from lapwing.noise import bernoulli, noise_table, sample_gaussian, sample_geometric, sample_laplace
from lapwing.noise.block import sample_block
from lapwing.noise.noise_table import UNDECIDED, NoiseLaw, NoiseTable, WordSizes, build_table, table_of
from lapwing.numbers import ball, enclose
from support.tape import SeededBits

SMALL_WORDS = WordSizes(guide=3, threshold=7, accept=3, accept_more=8, tail=3, band=0.2)


def laplace(scale: Fraction | int) -> NoiseLaw:
    return NoiseLaw(1 / Fraction(scale), 1)


def geometric(scale: Fraction | int) -> NoiseLaw:
    return NoiseLaw(1 / Fraction(scale), 1, two_sided=False)


def gaussian(variance: Fraction | int) -> NoiseLaw:
    return NoiseLaw(1 / (2 * Fraction(variance)), 2)


LAWS = {
    "laplace 1/1000": laplace(Fraction(1, 1000)),
    "laplace 1/2": laplace(Fraction(1, 2)),
    "laplace 22/7": laplace(Fraction(22, 7)),
    "laplace 64": laplace(64),
    "laplace 129": laplace(129),
    "laplace 10^6": laplace(10**6),
    "laplace 2^50": laplace(2**50),
    "geometric 10": geometric(10),
    "geometric 1000": geometric(1000),
    "gaussian 1/500": gaussian(Fraction(1, 500**2)),
    "gaussian 355/113": gaussian(Fraction(355, 113)),
    "gaussian 160": gaussian(160**2),
    "gaussian 161": gaussian(161**2),
    "gaussian 1000": gaussian(1000**2),
    "gaussian 2^50": gaussian(2**100),
}
each_law = pytest.mark.parametrize("name", LAWS)


def weight(law: NoiseLaw, x: int) -> arb:
    """exp(-rate |x|^power) as a ball."""
    return (-ball(law.rate * abs(x) ** law.power)).exp()


def left_ends(built: NoiseTable) -> list[int]:
    """The value of each category that is closest to zero, tails included, in the order of the table."""
    right = [q << built.block_bits for q in range(built.blocks + 1)]
    return right + ([-1 - x for x in reversed(right)] if built.law.two_sided else [])


def hat(built: NoiseTable, category: int, left: int) -> arb:
    """The mass of a category: a block as high as its left end, or a geometric tail."""
    law = built.law
    if category not in built.tails:
        return (1 << built.block_bits) * weight(law, left)
    falls = law.rate if law.power == 1 else 2 * law.rate * abs(left)
    return weight(law, left) / (1 - (-ball(falls)).exp())


@cache
def shares(built: NoiseTable) -> list[tuple[Fraction, Fraction]]:
    """Enclosures of F_j for every category but the last: cumulated hat masses over their sum, by balls of 400 bits."""
    found: list[arb] = []

    def cumulated() -> arb:
        for category, left in enumerate(left_ends(built)):
            found.append(hat(built, category, left) + (found[-1] if found else 0))
        return arb(0)

    enclose(cumulated, bits=400)
    return [enclose(lambda total=total: total / found[-1], bits=400) for total in found[:-1]]  # type: ignore[misc]


def tight(sizes: WordSizes, block_bits: int) -> WordSizes:
    return replace(sizes, block_bits=block_bits)


SMALL_TABLES = [
    build_table(law, tight(SMALL_WORDS, bits))
    for law in (laplace(Fraction(3, 2)), laplace(5), geometric(4), gaussian(2), gaussian(9))
    for bits in (0, 1, 2)
]


@each_law
def test_thresholds_are_the_floors_of_the_shares(name: str) -> None:
    """Recomputed with python-flint's balls: both ends of each enclosure have the same floor."""
    built = table_of(LAWS[name])
    floors = [min(math.floor(low * 2**64), 2**64 - 1) for low, _ in shares(built)]
    assert floors == [min(math.floor(high * 2**64), 2**64 - 1) for _, high in shares(built)]
    assert built.thresholds.tolist() == floors


@each_law
@pytest.mark.parametrize("precision", [40, 96, 300])
def test_bounds_enclose_the_shares_narrowly(name: str, precision: int) -> None:
    built = table_of(LAWS[name])
    for category in range(0, built.thresholds.size, 7):
        low, high = built.bounds(category)(precision)
        least, most = shares(built)[category]
        assert low <= most * 2**precision
        assert high >= least * 2**precision
        assert 0 <= high - low <= 2
        assert high <= 1 << precision


@pytest.mark.parametrize("built", SMALL_TABLES, ids=repr)
def test_small_thresholds_are_the_floors_of_the_shares(built: NoiseTable) -> None:
    assert built.thresholds.tolist() == [math.floor(low * 2**7) for low, _ in shares(built)]


def end_categories(built: NoiseTable, cell: int) -> tuple[int, int]:
    """The categories of the smallest uniform in a guide cell and of those just below its upper end."""
    size, cuts = 1 << built.sizes.guide, [low for low, _ in shares(built)]
    return bisect_right(cuts, Fraction(cell, size)), bisect_left(cuts, Fraction(cell + 1, size))


def assert_cell_decides_rightly(built: NoiseTable, cell: int, decided: bool) -> None:
    first, last = end_categories(built, cell)
    whole = first == last and first not in built.tails
    assert decided is whole
    if decided:
        assert built.guide_base[cell] == built.base[first]


@each_law
def test_guide_cells_decide_only_what_every_continuation_decides(name: str) -> None:
    """A cell is decided exactly if the categories at both of its ends agree and are no tail."""
    built = table_of(LAWS[name])
    decided = built.guide_accept > 0 if built.block_bits else built.guide_base != UNDECIDED
    borders = np.flatnonzero(np.diff(built.guide_base))
    cells = {*range(0, 1 << 16, 997), *borders.tolist(), *(borders + 1).tolist(), (1 << 16) - 1}
    for cell in sorted(cells)[:: 1 + len(cells) // 2000]:
        assert_cell_decides_rightly(built, cell, bool(decided[cell]))


@pytest.mark.parametrize("built", [t for t in SMALL_TABLES if not t.block_bits], ids=repr)
def test_small_guide_cells_decide_only_what_every_continuation_decides(built: NoiseTable) -> None:
    for cell, base in enumerate(built.guide_base):
        assert_cell_decides_rightly(built, cell, bool(base != UNDECIDED))


@pytest.mark.parametrize("built", SMALL_TABLES, ids=repr)
def test_blocks_and_tails_hold_each_integer_once(built: NoiseTable) -> None:
    size, edge = 1 << built.block_bits, built.blocks << built.block_bits
    inner = [c for c in range(built.base.size) if c not in built.tails]
    values = sorted(int(built.base[c]) + offset for c in inner for offset in range(size))
    assert values == list(range(-edge if built.law.two_sided else 0, edge))
    assert built.base.size == built.thresholds.size + 1


@each_law
def test_mirrored_blocks_end_at_their_left_end(name: str) -> None:
    """The value of a mirrored block that is closest to zero has the largest offset."""
    built = table_of(LAWS[name])
    for category, left in enumerate(left_ends(built)):
        if category not in built.tails:
            assert built.base[category] == (left if left >= 0 else left - (1 << built.block_bits) + 1)


def least_acceptance(built: NoiseTable, left: int) -> tuple[Fraction, Fraction]:
    """w(far end) / w(left end): what every value of the block is accepted with at least."""
    law, far = built.law, abs(left) + (1 << built.block_bits) - 1
    grown = law.rate * (far**law.power - abs(left) ** law.power)
    return enclose(lambda: (-ball(grown)).exp())


@pytest.mark.parametrize("name", [name for name, law in LAWS.items() if table_of(law).block_bits])
def test_guide_accepts_below_the_least_acceptance_of_the_block(name: str) -> None:
    """Never above it, and at most two units of 2^-16 below."""
    built = table_of(LAWS[name])
    accepts = {int(b): int(a) for b, a in zip(built.guide_base, built.guide_accept, strict=True) if a}
    for category, left in enumerate(left_ends(built)):
        if category in built.tails or int(built.base[category]) not in accepts:
            continue
        low, high = least_acceptance(built, left)
        accepted = accepts[int(built.base[category])]
        assert accepted <= low * 2**16
        assert accepted >= high * 2**16 - 2
    assert len(accepts) > 100


@pytest.mark.parametrize("built", [t for t in SMALL_TABLES if t.block_bits], ids=repr)
def test_small_guide_accepts_below_the_least_acceptance_of_the_block(built: NoiseTable) -> None:
    bases = built.base.tolist()
    for base, accepted in zip(built.guide_base.tolist(), built.guide_accept.tolist(), strict=True):
        if accepted:
            inner = [c for c in range(len(bases)) if bases[c] == base and c not in built.tails]
            assert accepted <= least_acceptance(built, left_ends(built)[inner[0]])[0] * 2**built.sizes.accept


@pytest.mark.parametrize("name", [name for name, law in LAWS.items() if table_of(law).block_bits])
@pytest.mark.parametrize("factor", [0.0, 0.5, 2.0, math.nan])
def test_table_and_draws_are_the_same_whatever_numpy_says_exp_is(
    name: str, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exp that fails its self-test decides nothing: not in the table, and not in the draws made with it."""
    built = table_of(LAWS[name])
    drawn = sample_block(built, 500, SeededBits(3)).tolist()
    true_exp = np.exp
    monkeypatch.setattr(np, "exp", lambda x: true_exp(x) * factor)
    monkeypatch.setattr(bernoulli, "exp_is_sound", bernoulli.exp_is_sound.__wrapped__)
    assert not bernoulli.exp_is_sound()
    broken = build_table(LAWS[name], WordSizes())
    assert np.array_equal(broken.guide_accept, built.guide_accept)
    assert sample_block(broken, 500, SeededBits(3)).tolist() == drawn


def test_block_without_offset_is_always_accepted() -> None:
    assert least_acceptance(table_of(laplace(10)), 5) == (1, 1)


@pytest.mark.parametrize(
    ("law", "block_bits"),
    [
        (laplace(64), 0),
        (laplace(65), 0),
        (laplace(129), 1),
        (laplace(2**50), 44),
        (gaussian(160**2), 0),
        (gaussian(161**2), 1),
        (gaussian(256**2), 2),
        (gaussian(2**100), 44),
    ],
)
def test_blocks_grow_with_the_scale(law: NoiseLaw, block_bits: int) -> None:
    assert table_of(law).block_bits == block_bits


@pytest.mark.parametrize("start", [1, 7, 1000])
@pytest.mark.parametrize("law", [laplace(Fraction(5, 3)), gaussian(Fraction(7, 2))])
def test_tail_hat_lies_above_the_law(law: NoiseLaw, start: int) -> None:
    """In exact exponents: rate (start + k)^power >= rate start^power + k a."""
    falls = Fraction(*law.tail_rate(start))
    for k in range(50):
        assert Fraction(*law.exponent(start + k)) >= Fraction(*law.exponent(start)) + k * falls


def test_table_is_built_once_per_law() -> None:
    assert table_of(laplace(Fraction(20, 2))) is table_of(laplace(10))
    assert table_of(geometric(10)) is not table_of(laplace(10))


FAR = [
    Fraction(1, 1025),
    Fraction(2**50) + Fraction(1, 10**9),
    Fraction(1, 10**400),
    Fraction(10**400),
    Fraction(10**320),
    Fraction(-1),
    Fraction(-(10**9)),
]


@pytest.mark.parametrize("scale", FAR)
def test_scales_outside_the_limits_are_refused(scale: Fraction) -> None:
    """Also where float64 ends. threat:A26"""
    for draw in (sample_laplace, sample_geometric):
        with pytest.raises(Misconfigured, match="noise scale"):
            draw(scale, 1)
    with pytest.raises(Misconfigured, match="noise scale"):
        sample_gaussian(scale * abs(scale), 1)


@pytest.mark.parametrize(("scale", "wrong"), [(FAR[0], "below 2\\^-10"), (FAR[1], "above 2\\^50")])
def test_refusal_says_which_limit_was_passed(scale: Fraction, wrong: str) -> None:
    with pytest.raises(Misconfigured, match=f"the noise scale is {wrong}; it must lie between"):
        table_of(laplace(scale))


@pytest.mark.parametrize("scale", [Fraction(1, 1024), Fraction(2**50)])
def test_scales_at_the_limits_are_served(scale: Fraction) -> None:
    for law in (laplace(scale), geometric(scale), gaussian(scale**2)):
        assert table_of(law).blocks >= 2


def test_thresholds_that_do_not_settle_are_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise_table, "_cumulative", lambda *_: ([1, 2, 3], [3, 4, 5]))
    with pytest.raises(Bug):
        build_table(laplace(7), SMALL_WORDS)
