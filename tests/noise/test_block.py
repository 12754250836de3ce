"""lapwing.noise.block.

The exact tests run the sampler on every bit tape, with words so short that ties, fallbacks and tails are common.
One *try* is a draw that ends as REJECTED instead of starting again: with H the mass of the hat, its law is
P[x] = w(x) / H and P[REJECTED] = 1 - W / H, W the sum of all w. Each needs only few bits, so little stays undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from flint import arb

from lapwing.noise import block
from lapwing.noise.bits import BitSource, Words
from lapwing.noise.block import sample_block
from lapwing.noise.noise_table import NoiseLaw, NoiseTable, WordSizes, build_table, table_of
from lapwing.numbers import Enclosure, ball, enclose
from support import chi
from support.chi import assert_fits, assert_misfits
from support.law import assert_law, exact_law
from support.tape import CountingBits, SeededBits, Tape

REJECTED = 10**9
TAIL = 10**8
CHUNK = block._CHUNK

LAWS = {
    "laplace": NoiseLaw(Fraction(2, 3), 1),
    "geometric": NoiseLaw(Fraction(1, 2), 1, two_sided=False),
    "gaussian": NoiseLaw(Fraction(1, 4), 2),
}
SIZES = [
    WordSizes(guide=2, threshold=5, accept=2, accept_more=6, tail=2, band=0.2, block_bits=0),
    WordSizes(guide=2, threshold=5, accept=2, accept_more=6, tail=2, band=0.2, block_bits=1),
    WordSizes(guide=2, threshold=4, accept=2, accept_more=6, tail=2, band=0.2, block_bits=2),
]
TINY = WordSizes(guide=1, threshold=3, accept=1, accept_more=2, tail=1, band=0.2, block_bits=1)

each_law = pytest.mark.parametrize("name", LAWS)
each_size = pytest.mark.parametrize("sizes", SIZES, ids=lambda sizes: f"block_bits={sizes.block_bits}")


# The mathematical laws, by balls


def weight(law: NoiseLaw, x: int) -> arb:
    return (-ball(law.rate * abs(x) ** law.power)).exp()


def total_weight(law: NoiseLaw) -> arb:
    """W: closed for power 1; for power 2 the sum up to 100, beyond which less than 2^-300 is left at these rates."""
    ratio = (-ball(law.rate)).exp()
    if law.power == 1:
        return (1 + ratio) / (1 - ratio) if law.two_sided else 1 / (1 - ratio)
    return 1 + 2 * sum((weight(law, x) for x in range(1, 100)), arb(0)) + arb(0, 2.0**-300)


def tail_hat(built: NoiseTable, start: int) -> arb:
    """The mass of the geometric hat over start, start + 1, ..."""
    falls = built.law.rate if built.law.power == 1 else 2 * built.law.rate * start
    return weight(built.law, start) / (1 - (-ball(falls)).exp())


def sides(built: NoiseTable) -> tuple[int, ...]:
    """Where each side of the law begins."""
    return (0, 1) if built.law.two_sided else (0,)


def hat(built: NoiseTable) -> arb:
    """H: each block as high as its end near zero, and the tails."""
    size = 1 << built.block_bits
    lefts = [first + q * size for first in sides(built) for q in range(built.blocks)]
    tails = [tail_hat(built, first + built.blocks * size) for first in sides(built)]
    return size * sum((weight(built.law, left) for left in lefts), arb(0)) + sum(tails, arb(0))


def draw_law(built: NoiseTable) -> Callable[[int], Enclosure]:
    """P[x] = w(x) / W."""
    return cache(lambda x: enclose(lambda: weight(built.law, x) / total_weight(built.law)))


def try_law(built: NoiseTable) -> Callable[[int], Enclosure]:
    """P[x] = w(x) / H; tails may be taken as a whole."""

    def mass(x: int) -> arb:
        if x == REJECTED:
            return hat(built) - total_weight(built.law)
        if abs(x) == TAIL:
            return tail_hat(built, (built.blocks << built.block_bits) + (x < 0))
        return weight(built.law, x)

    return cache(lambda x: enclose(lambda: mass(x) / hat(built)))


def block_try_law(built: NoiseTable) -> Callable[[int], Enclosure]:
    """As `try_law`, when tails are not entered: what they would reject is part of them."""
    edge = built.blocks << built.block_bits

    def rejected() -> arb:
        lost = hat(built) - sum((tail_hat(built, edge + first) for first in sides(built)), arb(0))
        return lost - sum((weight(built.law, x) for x in range(-edge * built.law.two_sided, edge)), arb(0))

    others = try_law(built)
    return cache(lambda x: enclose(lambda: rejected() / hat(built)) if x == REJECTED else others(x))


def pairs(law: Callable[[int], Enclosure]) -> Callable[[tuple[int, ...]], Enclosure]:
    """Two independent lanes."""

    def pmf(pair: tuple[int, ...]) -> Enclosure:
        (low0, high0), (low1, high1) = map(law, pair)
        return low0 * low1, high0 * high1

    return pmf


# The same by scale


def scaled(kind: str, scale: Fraction) -> tuple[NoiseLaw, chi.Discrete]:
    """A law by its scale (sigma for the Gaussian), and what chi-square compares it with."""
    if kind == "gaussian":
        return NoiseLaw(1 / (2 * scale**2), 2), chi.gaussian(scale**2)
    two_sided = kind == "laplace"
    return NoiseLaw(1 / scale, 1, two_sided), (chi.laplace if two_sided else chi.geometric)(scale)


each_kind = pytest.mark.parametrize("kind", ["laplace", "geometric", "gaussian"])
MORE = Fraction(11, 10)


# One try


class Again(Exception):
    """A lane was rejected."""


@pytest.fixture
def one_scalar_try(monkeypatch: pytest.MonkeyPatch) -> Callable[[NoiseTable, BitSource], int]:
    """Draws one value by the scalar path; a rejection ends it."""
    settle = block._settle

    def settle_once(*given: object) -> object:
        values, rejected = settle(*given)  # type: ignore[arg-type]
        if rejected.any():
            raise Again
        return values, rejected

    monkeypatch.setattr(block, "_settle", settle_once)

    def draw(built: NoiseTable, bits: BitSource) -> int:
        try:
            return int(sample_block(built, 1, bits)[0])
        except Again:
            return REJECTED

    return draw


@pytest.fixture
def one_vector_try(monkeypatch: pytest.MonkeyPatch) -> Callable[[NoiseTable, BitSource], tuple[int, ...]]:
    """Draws two values by the vector path; rejected ones are not drawn again."""
    monkeypatch.setattr(block, "sample_block", lambda _, count, __: np.full(count, REJECTED))
    return lambda built, bits: tuple(sample_block(built, 2, bits).tolist())


@pytest.fixture
def closed_tails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tail counts as one outcome."""
    monkeypatch.setattr(block, "_tail", lambda _, sign, __: sign * TAIL)


class Beside:
    """Of two lanes, the first reads the source and the second always the same word."""

    def __init__(self, source: BitSource, word: int) -> None:
        self._source, self._word = source, word

    def words(self, count: int, width: int) -> Words:
        if count != 2:
            return self._source.words(count, width)
        first = self._source.words(1, width)
        return np.append(first, first.dtype.type(self._word & ((1 << width) - 1)))

    def integer(self, width: int) -> int:
        return self._source.integer(width)


@each_size
@each_law
def test_scalar_try_has_exactly_its_law(
    name: str, sizes: WordSizes, one_scalar_try: Callable[[NoiseTable, BitSource], int], one_digit: None
) -> None:
    """Blocks, rejections and the values inside the tails."""
    built = build_table(LAWS[name], sizes)
    law = exact_law(lambda bits: one_scalar_try(built, bits), depth=14)
    assert_law(law, try_law(built), undecided=Fraction(1, 8), support=range(-2, 3) if name != "geometric" else ())


@each_size
@each_law
def test_vector_try_has_exactly_its_law(
    name: str,
    sizes: WordSizes,
    one_vector_try: Callable[[NoiseTable, BitSource], tuple[int, ...]],
    closed_tails: None,
    one_digit: None,
) -> None:
    """The first of two lanes, beside one that always accepts (word 0); the remainder holds little but ties."""
    built = build_table(LAWS[name], sizes)
    law = exact_law(lambda bits: one_vector_try(built, Beside(bits, 0))[0], depth=13)
    assert_law(law, block_try_law(built), undecided=Fraction(1, 8))


@pytest.mark.parametrize("word", [0b01, 0b10, 0b11])
def test_vector_try_is_not_moved_by_its_neighbour(
    word: int,
    one_vector_try: Callable[[NoiseTable, BitSource], tuple[int, ...]],
    closed_tails: None,
    one_digit: None,
) -> None:
    """The second lane goes through other cells: undecided, a tail, mirrored, rejected."""
    built = build_table(LAWS["gaussian"], SIZES[1])
    law = exact_law(lambda bits: one_vector_try(built, Beside(bits, word))[0], depth=13)
    assert_law(law, block_try_law(built), undecided=Fraction(1, 8))


@pytest.mark.parametrize(("name", "chunk"), [("laplace", 1), ("gaussian", 2)])
def test_two_lanes_are_exactly_independent(
    name: str,
    chunk: int,
    one_vector_try: Callable[[NoiseTable, BitSource], tuple[int, ...]],
    closed_tails: None,
    monkeypatch: pytest.MonkeyPatch,
    one_digit: None,
) -> None:
    """Jointly, in one chunk or in two: the probability of a pair is the product."""
    monkeypatch.setattr(block, "_CHUNK", chunk)
    built = build_table(LAWS[name], TINY)
    law = exact_law(lambda bits: one_vector_try(built, bits), depth=14)
    assert_law(law, pairs(block_try_law(built)), undecided=Fraction(1, 3))


@pytest.mark.slow
@each_size
@each_law
def test_tries_with_longer_words_have_exactly_their_law(
    name: str,
    sizes: WordSizes,
    one_vector_try: Callable[[NoiseTable, BitSource], tuple[int, ...]],
    one_digit: None,
) -> None:
    longer = WordSizes(guide=3, threshold=6, accept=3, accept_more=7, tail=4, band=0.2, block_bits=sizes.block_bits)
    built = build_table(LAWS[name], longer)
    law = exact_law(lambda bits: one_vector_try(built, Beside(bits, 0))[0], depth=17)
    assert_law(law, try_law(built), undecided=Fraction(1, 12))


# Draws that start again after a rejection


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("name", ["laplace", "geometric", "gaussian"])
def test_draws_have_exactly_their_law(name: str, count: int, one_digit: None) -> None:
    """Scalar and vector path from the first to the last bit; with blocks of one value only Gaussian tails reject."""
    built = build_table(LAWS[name], SIZES[0])
    law = exact_law(lambda bits: tuple(sample_block(built, count, bits).tolist()), depth=14)
    pmf = draw_law(built)
    assert_law(law, pairs(pmf) if count == 2 else lambda one: pmf(one[0]), undecided=Fraction(1, 4))


@pytest.mark.parametrize("name", ["laplace", "gaussian"])
def test_rejected_draws_start_again(name: str, closed_tails: None, one_digit: None) -> None:
    """Each outcome keeps its share of what a try accepts, however often the draw starts again."""
    built = build_table(LAWS[name], SIZES[1])
    law = exact_law(lambda bits: int(sample_block(built, 1, bits)[0]), depth=14)
    tried = block_try_law(built)
    again_low, again_high = tried(REJECTED)
    assert_law(law, lambda x: (tried(x)[0] / (1 - again_low), tried(x)[1] / (1 - again_high)), undecided=Fraction(1, 3))


# Tails


TAILS = {"laplace": LAWS["laplace"], "gaussian": NoiseLaw(Fraction(1, 2), 2)}
NEAR_TAIL = WordSizes(guide=2, threshold=5, accept=2, accept_more=6, tail=1, band=0.2, block_bits=0)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("name", TAILS)
def test_tail_has_exactly_its_law(name: str, sign: int, one_digit: None) -> None:
    """P[start + k] = w(start + k) over the mass of the tail's hat; a Gaussian tail rejects the rest."""
    built = build_table(TAILS[name], NEAR_TAIL)
    start = built.blocks + (sign < 0)
    law = exact_law(lambda bits: block._tail(built, sign, bits), depth=14)

    def accepted(x: int) -> Enclosure:
        assert x * sign >= start
        return enclose(lambda: weight(built.law, x) / tail_hat(built, start))

    rejected = 1 - sum(accepted(sign * x)[0] for x in range(start, start + 200))
    assert (None in law.mass) is (name == "gaussian")
    assert_law(law, lambda x: accepted(x) if x is not None else (rejected - Fraction(1, 10**30), rejected))


@pytest.mark.parametrize("sign", [1, -1])
@each_kind
def test_tail_fits_on_a_long_stream(kind: str, sign: int) -> None:
    """What a tail accepts has the law given that it lies behind the blocks, also far out."""
    law, whole = scaled(kind, Fraction(13, 2))
    built, bits = build_table(law, NEAR_TAIL), SeededBits(8)
    start = built.blocks + (sign < 0)
    draws = [block._tail(built, sign, bits) for _ in range(6000)]
    weights = whole.pmf(np.arange(start, start + 200))
    found = np.array([abs(x) - start for x in draws if x is not None])
    assert_fits(found, chi.finite(weights / weights.sum()))
    assert (len(found) < len(draws)) is (kind == "gaussian")


@pytest.mark.parametrize("count", [1, 50])
@each_law
def test_far_tails_saturate(name: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block, "run_exp", lambda *_: 1 << 80)
    monkeypatch.setattr(block, "flip_exp", lambda *_: True)
    built, bits = build_table(LAWS[name], SIZES[0]), SeededBits(1)
    draws = np.concatenate([sample_block(built, count, bits) for _ in range(500 // count)])
    assert draws.max() == 1 << 62
    assert draws.min() == (-(1 << 62) if name != "geometric" else 0)


# A fixed stream: words of the usual sizes and of middling ones


@pytest.mark.parametrize("block_bits", [0, 1, 2, 3])
@each_kind
def test_middling_words_fit_on_a_long_stream(kind: str, block_bits: int) -> None:
    """Ties, fallbacks and tails in a tenth of the lanes."""
    sizes = WordSizes(guide=4, threshold=9, accept=4, accept_more=12, tail=4, band=0.2, block_bits=block_bits)
    law, expected = scaled(kind, Fraction(13, 2))
    draws = sample_block(build_table(law, sizes), 30_000, SeededBits(1))
    assert_fits(draws, expected)
    assert_misfits(draws, scaled(kind, Fraction(13, 2) * MORE)[1])


@pytest.mark.parametrize("scale", [Fraction(10), Fraction(1000), Fraction(2**50)])
@each_kind
def test_scalar_draws_fit_on_a_long_stream(kind: str, scale: Fraction) -> None:
    law, expected = scaled(kind, scale)
    built, bits = table_of(law), SeededBits(2)
    draws = np.array([sample_block(built, 1, bits)[0] for _ in range(12_000)])
    assert_fits(draws, expected)
    assert_misfits(draws, scaled(kind, scale * Fraction(5, 4))[1])


def cells(draws: np.ndarray, law: chi.Discrete, n: int) -> tuple[np.ndarray, list[float]]:
    """Each draw's cell among about n of equal probability, and the probabilities of the cells."""
    edges = np.unique([chi._first(law, (i + 1) / n) for i in range(n - 1)])
    return np.searchsorted(edges, draws, "left"), np.diff(law.cdf(edges), prepend=0.0, append=1.0).tolist()


@pytest.mark.parametrize("lag", [1, 64])
@pytest.mark.parametrize("scale", [Fraction(10), Fraction(1000)])
@each_kind
def test_neighbouring_lanes_are_independent(kind: str, scale: Fraction, lag: int) -> None:
    law, expected = scaled(kind, scale)
    cell, p = cells(sample_block(table_of(law), 128_000, SeededBits(3)), expected, 8)
    lead, follow = cell.reshape(-1, 2 * lag)[:, :lag].ravel(), cell.reshape(-1, 2 * lag)[:, lag:].ravel()
    joint = np.outer(p, p).ravel()
    assert_fits(lead * len(p) + follow, chi.finite(joint))
    often = np.outer(p, p) + 0.2 * np.diag(p) * np.array(p)
    assert_misfits(lead * len(p) + follow, chi.finite((often / often.sum()).ravel()))


@pytest.mark.parametrize(("scale", "shift"), [(10**6, 0), (2**50, 0), (2**50, 20), (2**50, 40)])
@each_kind
def test_low_digits_are_uniform_at_large_scales(kind: str, scale: int, shift: int) -> None:
    draws = sample_block(table_of(scaled(kind, Fraction(scale))[0]), 50_000, SeededBits(4))
    assert_fits(draws >> shift & 7, chi.finite([1 / 8] * 8))


@pytest.mark.parametrize("scale", [Fraction(10), Fraction(1000)])
@pytest.mark.parametrize("count", [0, 1, 2, 3, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 1])
def test_block_gives_as_many_as_asked(count: int, scale: Fraction) -> None:
    draws = sample_block(table_of(NoiseLaw(1 / scale, 1)), count, SeededBits(5))
    assert (draws.dtype, draws.shape) == (np.int64, (count,))
    assert (np.abs(draws) < 50 * scale).all()
    if count >= CHUNK - 1:
        assert_fits(draws, chi.laplace(scale))


@pytest.mark.parametrize(("kind", "scale"), [("laplace", Fraction(64)), ("gaussian", Fraction(1000))])
def test_open_lanes_of_a_chunk_return_to_their_places(
    kind: str, scale: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lane by lane, the draws of many short chunks follow the law."""
    monkeypatch.setattr(block, "_CHUNK", 4)
    law, expected = scaled(kind, scale)
    draws = sample_block(table_of(law), 4 * 10_000, SeededBits(6)).reshape(-1, 4)
    for lane in range(4):
        assert_fits(draws[:, lane], expected)


@pytest.mark.parametrize(("scale", "most"), [(Fraction(10), 0.01), (Fraction(64), 0.02), (Fraction(1000), 0.04)])
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_few_lanes_take_the_slow_path(kind: str, scale: Fraction, most: float) -> None:
    counted = CountingBits(SeededBits(7))
    sample_block(table_of(scaled(kind, scale)[0]), CHUNK, counted)
    slow = max((count for count, width in counted.requests if count < CHUNK and width == 48), default=0)
    assert slow / CHUNK <= most


# Single decisions, followed on a tape


def digits(*words: tuple[int, int]) -> Iterator[int]:
    """The bits of (value, width) words."""
    for value, width in words:
        yield from (value >> shift & 1 for shift in reversed(range(width)))


def test_scalar_draw_reads_a_decided_cell_with_sixteen_bits() -> None:
    tape = Tape(digits((0, 16)))
    assert sample_block(table_of(NoiseLaw(Fraction(1, 10), 1)), 1, tape).tolist() == [0]
    assert tape.left == 0


@pytest.mark.parametrize(("digit", "value"), [(0, 0), (1, 1)])
def test_word_at_a_threshold_is_decided_by_further_digits(digit: int, value: int) -> None:
    """The word equals floor(F_0 2^64); all digits 0 lie below F_0, all digits 1 above."""
    built = table_of(NoiseLaw(Fraction(1, 10), 1))
    word = int(built.thresholds[0])
    for count in (1, 2):
        guides, rests = ((word >> 48, 16),) * count, ((word & (2**48 - 1), 48),) * count
        tape = Tape(digits(*guides, *rests, *((0xFFFF * digit, 16),) * count))
        assert sample_block(built, count, tape).tolist() == [value] * count
        assert tape.left == 0


@pytest.mark.parametrize("shift", [-1, 1])
def test_word_beside_a_threshold_is_decided_at_once(shift: int) -> None:
    built = table_of(NoiseLaw(Fraction(1, 10), 1))
    word = int(built.thresholds[0]) + shift
    tape = Tape(digits((word >> 48, 16), (word & (2**48 - 1), 48)))
    assert sample_block(built, 1, tape).tolist() == [0 if shift < 0 else 1]


def test_ties_of_equal_thresholds_walk_on_to_the_right_category(one_digit: None) -> None:
    """With 3-bit words several thresholds coincide; the digits that follow choose among their categories."""
    sizes = WordSizes(guide=1, threshold=3, accept=1, accept_more=2, tail=4, block_bits=0)
    built = build_table(LAWS["laplace"], sizes)
    assert np.unique(built.thresholds).size < built.thresholds.size - 1
    law = exact_law(lambda bits: int(block._category(built, bits.words(1, 1), bits)[0]), depth=13)
    shares = [
        Fraction(0),
        *(Fraction(built.bounds(j)(200)[0], 2**200) for j in range(built.thresholds.size)),
        Fraction(1),
    ]
    margin = Fraction(1, 2**190)
    assert_law(
        law,
        lambda j: (shares[j + 1] - shares[j] - margin, shares[j + 1] - shares[j] + margin),
        undecided=Fraction(1, 200),
        support=range(built.base.size),
    )
