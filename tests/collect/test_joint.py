"""lapwing.collect.protocol."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from lapwing.collect import DirectEncoding, LocalHashing, SubsetSelection, UnaryEncoding, estimate_joint
from lapwing.errors import Misconfigured
from support.law import exact_law
from support.tape import SeededBits


def test_the_estimate_is_unbiased_exactly() -> None:
    """Over all pairs of reports, weighed by their probabilities: 1 for the pair that is held, 0 for every other."""
    one, two = DirectEncoding(["a", "b"], epsilon=1, width=4), UnaryEncoding(["x", "y"], epsilon=1, width=4)
    for held in product(range(2), range(2)):
        laws = [
            exact_law(lambda bits, p=p, at=at: p.randomize(np.array([at]), bits).tobytes(), depth).mass
            for p, at, depth in ((one, held[0], 4), (two, held[1], 8))
        ]
        mean = np.zeros((2, 2))
        for (left, a), (right, b) in product(laws[0].items(), laws[1].items()):
            pair = estimate_joint((one, one.check([left])), (two, two.check([right])))
            mean += float(a * b) * pair.shares
        wanted = np.zeros((2, 2))
        wanted[held] = 1
        assert mean == pytest.approx(wanted, abs=1e-12)


PAIRS = [(DirectEncoding, DirectEncoding), (DirectEncoding, LocalHashing), (SubsetSelection, UnaryEncoding)]


@pytest.mark.parametrize("kinds", PAIRS, ids=lambda kinds: " and ".join(kind.kind for kind in kinds))
@pytest.mark.parametrize("n", [40, pytest.param(2000, marks=pytest.mark.slow)])
def test_intervals_hold(kinds: tuple[type, type], n: int) -> None:
    """gate:G44 1,000 surveys of two questions that hang together: coverage of every cell."""
    one, two = kinds[0](["no", "yes"], epsilon=2), kinds[1]([1, 2, 3], epsilon=2)
    bits, rng = SeededBits(n), np.random.default_rng(n)
    first = rng.random(n) < 0.3
    second = np.where(first, rng.integers(2, 4, n), rng.integers(1, 3, n))
    truth = np.array([[np.mean((first == a) & (second == b)) for b in (1, 2, 3)] for a in (False, True)]).ravel()
    hits = np.zeros(6)
    for _ in range(1000):
        left = one.randomize(first.astype(np.int64), bits)
        right = two.randomize(second - 1, bits)
        column = (
            estimate_joint((one, one.check(map(bytes, left))), (two, two.check(map(bytes, right)))).table().columns[2]
        )
        assert column.low is not None
        assert column.high is not None
        hits += (column.low <= truth) & (truth <= column.high)
    assert (hits / 1000 >= 0.95 - 4 * math.sqrt(0.05 * 0.95 / 1000)).all()


def test_hostile_pairs_move_a_share_by_no_more_than_the_bound() -> None:
    """gate:G43 the range of an entry of the inverse, attained."""
    one, two = DirectEncoding(["a", "b"], epsilon=1), DirectEncoding(["x", "y"], epsilon=1)
    left, right = one.respond(["a"] * 1000), two.respond(["x"] * 1000)
    reports = list(product([b"\x00", b"\x01"], repeat=2))
    moved = []
    for pair in reports:
        hostile = [one.check([pair[0]] * 10), two.check([pair[1]] * 10)]
        moved.append(estimate_joint((one, left[10:] + hostile[0]), (two, right[10:] + hostile[1])).share("a", "x"))
    bound = estimate_joint((one, left), (two, right)).moved_by(10)
    assert max(moved) - min(moved) == pytest.approx(bound)
    p, q = float(one.p), float(one.q)
    assert bound == pytest.approx(10 / 1000 * ((1 - q) ** 2 + q * (1 - q)) / (p - q) ** 2)


def test_margins_agree_with_single_questions() -> None:
    one, two = DirectEncoding(["a", "b"], epsilon=2), DirectEncoding([1, 2, 3], epsilon=2)
    left, right = one.respond(["a", "b"] * 300), two.respond([1, 2, 3] * 200)
    both = estimate_joint((one, left), (two, right))
    assert both.shares.sum(axis=1) == pytest.approx(one.estimate(left).shares)
    assert both.shares.sum(axis=0) == pytest.approx(two.estimate(right).shares)
    assert [column.name for column in both.table().columns] == ["first", "second", "share"]
    assert "can move a share by" in both.explain()
    assert "can move a share by" in both.to_json()
    with pytest.raises(Misconfigured, match="not among"):
        both.share("a", 9)
    assert sum(Fraction(p.epsilon) for p in both.protocols) == 4


def test_reports_of_different_people_are_refused() -> None:
    one = DirectEncoding(["a", "b"], epsilon=1)
    with pytest.raises(Misconfigured, match="3 reports to the first question and 2 to the second"):
        estimate_joint((one, one.respond(["a"] * 3)), (one, one.respond(["a"] * 2)))
