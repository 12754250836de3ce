"""lapwing.collect.encodings."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.special import betaincinv

from lapwing.arrays import Flags
from lapwing.collect import Rappor
from lapwing.errors import Misconfigured
from lapwing.noise.bits import BitSource
from lapwing.numbers import ball, enclose
from lapwing.privacy.loss import Pure
from support.law import exact_law
from support.tape import SeededBits


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
