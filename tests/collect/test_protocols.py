"""The protocols for shares: their parts by enumeration, their reports on the wire, and what hostile reports can do."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

from lapwing.collect import (
    DirectEncoding,
    FrequencyProtocol,
    LocalHashing,
    Rappor,
    Reports,
    SubsetSelection,
    UnaryEncoding,
    read_reports,
)
from lapwing.collect.encodings import sample_subsets
from lapwing.collect.hashing import Hashing
from lapwing.collect.probabilities import spread
from lapwing.errors import Misconfigured
from lapwing.noise.bits import SYSTEM
from lapwing.numbers import ball, enclose
from support.law import exact_law
from support.members import concrete
from support.tape import SeededBits

WIDTH = 4


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(3)], ids=str)
@pytest.mark.parametrize("many", [2, 3, 7, 64, 1000])
def test_sets_are_told_apart_by_no_more_than_epsilon(epsilon: Fraction, many: int) -> None:
    """Among sets of any size: one that holds v and not v' has the ratio p (k - w) / ((1 - p) w) under v and v'."""
    protocol = SubsetSelection(range(many), epsilon=epsilon)
    p, w = protocol.p, protocol.chosen
    ratio = p * (many - w) / ((1 - p) * w)
    low, high = enclose(lambda: ball(epsilon).exp(), bits=256)
    assert high * (1 - Fraction(1, 10**12)) < ratio <= low


def test_subsets_are_uniform() -> None:
    law = exact_law(lambda bits: sample_subsets(4, 2, 1, bits, width=4).tobytes(), 12)
    assert len(law.mass) == 6
    assert all(mass <= Fraction(1, 6) <= mass + law.remainder for mass in law.mass.values())
    assert law.remainder < Fraction(1, 50)


@pytest.mark.parametrize("columns", [1, 2])
def test_two_keys_are_hashed_independently(columns: int) -> None:
    """[T15] with 2-bit keys and hashes: over all functions every pair of buckets is equally likely."""
    hashing = Hashing(4, spread(Fraction(1), 4, width=WIDTH), columns=columns, bits=2)
    functions = np.array(list(product(range(16), repeat=columns + 1)), np.uint32) << np.uint32(28)
    keys = np.array(list(product(range(4), repeat=columns)), np.uint16)
    buckets = hashing._buckets(functions[:, np.newaxis, :], keys[np.newaxis, :, :])
    for first, second in product(range(len(keys)), repeat=2):
        if first != second:
            pairs = np.bincount(buckets[:, first] * 4 + buckets[:, second], minlength=16)
            assert pairs.tolist() == [len(functions) // 16] * 16


@pytest.mark.parametrize("buckets", [2, 3, 4])
def test_hashed_reports_have_their_stated_law(buckets: int) -> None:
    """All functions of 2-bit numbers and all coins: ratio of any report, and p and q exactly."""
    epsilon = Fraction(1)
    hashing = Hashing(buckets, spread(epsilon, buckets, width=WIDTH), bits=2)
    keys = np.arange(4, dtype=np.uint16).reshape(-1, 1)
    laws = [
        exact_law(lambda bits, key=key: hashing.randomize(keys[key : key + 1], bits).tobytes(), 12).mass
        for key in range(4)
    ]
    most = enclose(lambda: ball(epsilon).exp())[1]
    assert max(a[report] / b[report] for a, b in product(laws, laws) for report in a) <= most
    for held, law in enumerate(laws):
        rows = np.frombuffer(b"".join(law), np.uint8).reshape(len(law), hashing.size)
        flags = hashing.supported(rows, keys)
        assert np.array_equal(
            hashing.count(np.repeat(rows, 2, axis=0), keys), 2 * np.count_nonzero(flags, axis=0)
        )  # the loop over keys and the whole table agree
        for value in range(4):
            chance = sum((mass for mass, hit in zip(law.values(), flags[:, value], strict=True) if hit), Fraction(0))
            assert chance == (hashing.p if value == held else hashing.q)


KINDS = concrete(FrequencyProtocol, "lapwing.collect")


def made(kind: type[FrequencyProtocol], many: int, epsilon: float = 1.0) -> FrequencyProtocol:
    if kind is Rappor:
        return Rappor(range(many), epsilon=epsilon, forever=2 * epsilon)
    return kind(range(many), epsilon=epsilon)


@pytest.fixture(params=[(kind, many) for kind in KINDS for many in (2, 9, 300)], ids=lambda p: f"{p[0].kind} {p[1]}")
def protocol(request: pytest.FixtureRequest) -> FrequencyProtocol:
    return made(*request.param)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 4.0, 12.0])
@pytest.mark.parametrize("many", [2, 5, 64, 1000])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_support_tells_two_values_apart_by_no_more_than_epsilon(
    kind: type[FrequencyProtocol], many: int, epsilon: float
) -> None:
    """With words of 64 bits: both answers to "is v supported?" for who holds v and who does not."""
    protocol = made(kind, many, epsilon)
    p, q, most = protocol.p, protocol.q, enclose(lambda: ball(protocol.epsilon).exp(), bits=256)[1]
    assert 0 < q < p < 1
    assert max(p / q, (1 - q) / (1 - p)) <= most


def test_every_place_is_randomized_the_last_one_too(protocol: FrequencyProtocol) -> None:
    """threat:A33 P[support] at every place, held and not held; the tails at 1e-9 a place."""
    many, n = len(protocol.values), 4000
    for held in {0, many // 2, many - 1}:
        reports = protocol.respond(np.full(n, held), bits=SeededBits(held + 1))
        counts = protocol.count(reports.rows)
        chances = np.where(np.arange(many) == held, float(protocol.p), float(protocol.q))
        low, high = binom.cdf(counts, n, chances), binom.sf(counts - 1, n, chances)
        assert min(low.min(), high.min()) > 1e-9


def test_a_report_has_the_same_size_whatever_it_says(protocol: FrequencyProtocol) -> None:
    """threat:A33"""
    sizes = {len(protocol.respond(value)) for value in (0, 1, len(protocol.values) - 1) for _ in range(50)}
    assert sizes == {protocol.size}


def test_what_the_randomizer_sends_is_valid_and_travels(protocol: FrequencyProtocol) -> None:
    reports = protocol.respond(np.arange(200) % len(protocol.values))
    assert protocol.valid(reports).all()
    again = protocol.read(reports.to_bytes())
    assert np.array_equal(again.rows, reports.rows)
    assert protocol.estimate(reports.each()).shares.tolist() == protocol.estimate(reports).shares.tolist()


def test_chunks_and_single_flags_agree(protocol: FrequencyProtocol) -> None:
    reports = protocol.respond(np.arange(500) % len(protocol.values))
    places = [len(protocol.values) - 1, 0]
    flags = protocol.supported(reports.rows, places)
    assert np.count_nonzero(flags, axis=0).tolist() == protocol.count(reports.rows)[places].tolist()


def test_hostile_reports_move_a_share_by_no_more_than_the_bound(protocol: FrequencyProtocol) -> None:
    """gate:G43 100 of 10,000 respondents send, for each value, whatever moves its share most."""
    n, hostile, target = 10_000, 100, 1
    reports = protocol.respond(np.arange(n) % len(protocol.values), bits=SeededBits(5))
    before = protocol.estimate(reports)
    supports = protocol.supported(reports.rows, [target])[:, 0]
    yes, no = reports[supports], reports[~supports]
    after = protocol.estimate(yes + yes[np.zeros(hostile, np.int64)] + no[hostile:])
    moved = after.shares[target] - before.shares[target]
    assert moved == pytest.approx(before.moved_by(hostile))
    assert moved == pytest.approx(hostile / (n * float(protocol.p - protocol.q)))


def test_reports_of_another_protocol_are_refused(protocol: FrequencyProtocol) -> None:
    """gate:G43"""
    many = len(protocol.values)
    others = [made(type(protocol), many, 2.0), made(type(protocol), many + 1)]
    for other in others:
        with pytest.raises(Misconfigured, match="another protocol"):
            protocol.estimate(other.respond([0, 1]))
    texts, numbers = (DirectEncoding(values, epsilon=1) for values in (["1.5", "2.5"], [1.5, 2.5]))
    assert texts.name != numbers.name
    with pytest.raises(Misconfigured, match="no reports"):
        protocol.estimate([])
    with pytest.raises(Misconfigured, match=r"is \d+ bytes?"):
        protocol.estimate([bytes(protocol.size + 1)])


MALFORMED = [
    (DirectEncoding(range(9), epsilon=1), bytes([9])),
    (UnaryEncoding(range(9), epsilon=1), bytes([0, 2])),
    (SubsetSelection(range(9), epsilon=1), bytes([0, 0])),
    (SubsetSelection(range(9), epsilon=1), bytes([255, 1])),
    (LocalHashing(range(9), epsilon=1), bytes([0] * 8 + [200])),
    (Rappor(range(9), epsilon=1, forever=2), bytes([0, 128])),
]


@pytest.mark.parametrize(("protocol", "report"), MALFORMED, ids=lambda value: getattr(value, "kind", None))
def test_malformed_reports_are_refused_and_can_be_dropped(protocol: FrequencyProtocol, report: bytes) -> None:
    """gate:G43"""
    good = protocol.respond([0, 1, 2])
    mixed = good + Reports(protocol.name, np.frombuffer(report, np.uint8).reshape(1, -1))
    with pytest.raises(Misconfigured, match=r"1 of 4 reports are malformed"):
        protocol.estimate(mixed)
    assert len(protocol.estimate(mixed[protocol.valid(mixed)]).shares) == 9


@pytest.mark.parametrize("data", [b"", b"LWR1", b"nothing at all to be read here", bytes(40)])
def test_bytes_that_are_no_reports_are_refused(data: bytes) -> None:
    with pytest.raises(Misconfigured):
        read_reports(data)
    whole = DirectEncoding(["a", "b"], epsilon=1).respond(["a", "b"]).to_bytes()
    with pytest.raises(Misconfigured, match="cut off"):
        read_reports(whole[:-1])


@pytest.mark.parametrize(
    "values", [[], ["a"], ["a", "a"], "ab", 5, None, [float("nan"), 1.0], [["a"], ["b"]], range(65537)], ids=str
)
def test_a_domain_that_is_none_is_refused(values: Any) -> None:
    with pytest.raises(Misconfigured, match="`values`"):
        DirectEncoding(values, epsilon=1)


@pytest.mark.parametrize("value", ["c", None, 1, 2.5])
def test_a_value_that_was_not_declared_is_refused(value: Any) -> None:
    protocol = DirectEncoding(["a", "b"], epsilon=1)
    with pytest.raises(Misconfigured, match="not among the declared"):
        protocol.respond(value)
    with pytest.raises(Misconfigured, match="not among the declared"):
        UnaryEncoding(range(3), epsilon=1).respond(np.array([0, 3]))


def test_values_come_in_lists_and_arrays() -> None:
    protocol = DirectEncoding(["a", "b"], epsilon=32)
    for values in (["a", "b", "b"], np.array(["a", "b", "b"]), pa.array(["a", "b", "b"])):
        assert protocol.respond(values).rows.ravel().tolist() == [0, 1, 1]
    assert protocol.respond("b", bits=SYSTEM) == b"\x01"
