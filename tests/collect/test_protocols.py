"""The protocols for shares: their parts by enumeration, their reports on the wire, and what hostile reports can do."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import betaincinv
from scipy.stats import binom

from lapwing.arrays import Flags
from lapwing.collect import (
    DirectEncoding,
    FrequencyProtocol,
    LocalHashing,
    OneBitMean,
    Rappor,
    Reports,
    Respondent,
    SubsetSelection,
    UnaryEncoding,
    read_reports,
)
from lapwing.collect.encodings import sample_subsets
from lapwing.collect.hashing import Hashing
from lapwing.collect.probabilities import spread
from lapwing.errors import Misconfigured
from lapwing.noise.bits import SYSTEM, BitSource
from lapwing.numbers import ball, enclose
from lapwing.privacy.loss import Pure
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
    with pytest.raises(Misconfigured, match=r"has \d+ bytes?"):
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


def test_a_thousand_answers_are_one_report() -> None:
    """gate:G42 threat:A33 averaging gains nothing: every report is the first one, also after a restart or a change."""
    protocol, respondent = DirectEncoding(range(200), epsilon=1), Respondent()
    first = respondent.answer("age", protocol, 41)
    again = {respondent.answer("age", protocol, 41) for _ in range(500)}
    later = Respondent.from_json(respondent.to_json())
    again |= {later.answer("age", protocol, value) for value in range(200)}
    assert again == {first}
    assert respondent.loss == Pure(1)


def test_nothing_but_reports_is_kept() -> None:
    """Two respondents with different values and the same report keep the same."""
    protocol, kept = DirectEncoding(["no", "yes"], epsilon=1), set()
    for value in ("no", "yes") * 20:
        respondent = Respondent()
        respondent.answer("q", protocol, value)
        kept.add(respondent.to_json())
    assert len(kept) == 2


def test_questions_add_up() -> None:
    respondent = Respondent()
    assert respondent.loss is None
    respondent.answer("smokes", DirectEncoding(["no", "yes"], epsilon=0.5), "no")
    respondent.answer("age", OneBitMean((0, 120), epsilon=0.25), 33)
    assert respondent.loss == Pure(0.75)


def test_another_protocol_under_the_same_name_is_refused() -> None:
    respondent = Respondent()
    respondent.answer("q", DirectEncoding(["no", "yes"], epsilon=1), "no")
    with pytest.raises(Misconfigured, match="another protocol"):
        respondent.answer("q", DirectEncoding(["no", "yes"], epsilon=2), "no")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 2, "reports": {}}', '{"format": 1, "reports": {"a": 1}}'])
def test_text_that_holds_no_reports_is_refused(text: str) -> None:
    with pytest.raises(Misconfigured):
        Respondent.from_json(text)


def exp_of(epsilon: Fraction) -> Fraction:
    return enclose(lambda: ball(epsilon).exp())[1]


def test_permanent_bits_lose_no_more_than_forever_and_one_report_no_more_than_epsilon() -> None:
    """All tapes of both rounds for two values: every ratio as a fraction."""
    protocol = Rappor(["a", "b"], epsilon=2, forever=4, width=3)

    def permanent(place: int, bits: BitSource) -> bytes:
        return protocol.permanent_bits(np.array([place]), bits).tobytes()

    def once(place: int, bits: BitSource) -> bytes:
        return protocol.randomize(np.array([place]), bits).tobytes()

    for draw, depth, epsilon in ((permanent, 6, protocol.forever), (once, 12, protocol.epsilon)):
        laws = [exact_law(lambda bits, draw=draw, place=place: draw(place, bits), depth).mass for place in (0, 1)]
        worst = max(a[report] / b[report] for a, b in product(laws, laws) for report in a)
        assert 1 < worst <= exp_of(epsilon)


def test_reports_have_the_stated_law() -> None:
    protocol = Rappor(["a", "b"], epsilon=2, forever=4, width=3)
    law = exact_law(lambda bits: protocol.randomize(np.array([0]), bits).tobytes(), 12).mass
    chances = [sum((m for r, m in law.items() if r[0] >> place & 1), Fraction(0)) for place in (0, 1)]
    assert chances == [protocol.p, protocol.q]


@pytest.mark.parametrize("many", [2, 9])
def test_averaging_a_thousand_reports_shows_the_permanent_bits_and_no_more(many: int) -> None:
    """gate:G42 threat:A33 the reports of one client converge to its permanent bits, whatever the value is."""
    protocol = Rappor(range(many), epsilon=0.5, forever=1)
    bits, client = SeededBits(3), protocol.enroll(1, bits=SeededBits(2))
    rows = np.frombuffer(b"".join(client.report(1, bits=bits) for _ in range(3000)), np.uint8).reshape(3000, -1)
    means = protocol.supported(rows, range(many)).mean(axis=0)
    b = protocol.instant / 2**64
    assert all(min(abs(mean - b), abs(mean - (1 - b))) < 0.05 for mean in means)
    assert client.loss == Pure(1)


def test_a_second_value_is_refused_and_the_first_is_reported_on() -> None:
    """threat:A33 on the same tape a client whose value changed sends what one whose value did not change sends."""
    protocol = Rappor(["a", "b", "c"], epsilon=1, forever=2)
    changed, unchanged = (protocol.enroll("a", bits=SeededBits(1)) for _ in range(2))
    for client_bits in (SeededBits(5), SeededBits(6)):
        with pytest.raises(Misconfigured, match=r"one value for ever.*silence shows.*choose_panel") as refused:
            changed.report("b", bits=client_bits)
        assert "'b'" not in str(refused.value)
    here, there = SeededBits(7), SeededBits(7)
    assert [changed.report(bits=here) for _ in range(20)] == [unchanged.report("a", bits=there) for _ in range(20)]
    assert changed.loss == unchanged.loss == protocol.loss == Pure(2)


def test_a_client_that_reported_a_second_value_would_show_when_it_changed() -> None:
    """threat:A33 the attack that the refusal stops: an epsilon above 3 where two values at `forever` = 1 would be 2.

    600 clients who change in the middle of 200 reports and 600 who do not; whether a bit's two halves differ is told by
    a cut that no client who stays crosses.
    """
    protocol, runs, half = Rappor(["a", "b"], epsilon=0.9, forever=1), 600, 100
    bits = SeededBits(11)
    first, second = (protocol.permanent_bits(np.full(runs, place), bits) for place in (0, 1))

    def told_apart(later: Flags) -> int:
        means = [
            sum(protocol.report_bits(rows, bits).astype(int) for _ in range(half)) / half for rows in (first, later)
        ]
        return int((np.abs(means[0] - means[1]) > 0.35).any(axis=1).sum())

    stayed, changed = told_apart(first), told_apart(second)
    most, least = (betaincinv(stayed + 1, runs - stayed, 0.9995), betaincinv(changed, runs - changed + 1, 0.0005))
    assert np.log(least / most) > 3


def test_forever_must_exceed_one_report() -> None:
    with pytest.raises(Misconfigured, match="`forever` is 1; it must exceed"):
        Rappor(["a", "b"], epsilon=1, forever=1)


def test_shares_are_estimated() -> None:
    protocol = Rappor(["a", "b", "c"], epsilon=2, forever=4)
    reports = protocol.respond(["a"] * 6000 + ["b"] * 3000 + ["c"] * 1000, bits=SeededBits(1))
    found = protocol.estimate(reports, confidence=0.999)
    for value, share in (("a", 0.6), ("b", 0.3), ("c", 0.1)):
        low, high = found.interval(value)
        assert low <= share <= high
        assert high - low < 0.15
    assert protocol.loss == Pure(4)


def test_many_respondents_are_randomized_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lapwing.collect.encodings._CHUNK", 30)
    protocol = Rappor(range(10), epsilon=20, forever=30)
    values = [i % 10 for i in range(20)]
    shares = protocol.estimate(protocol.respond(values, bits=SeededBits(1))).shares
    assert abs(shares - 0.1).max() < 0.05
    assert len(protocol.respond([])) == 0
