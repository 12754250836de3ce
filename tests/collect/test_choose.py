"""lapwing.collect.choose, and what estimates say."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from lapwing.collect import DirectEncoding, LocalHashing, SubsetSelection, UnaryEncoding, choose, compare, histogram
from lapwing.collect.protocol import to_distribution
from lapwing.errors import Misconfigured
from support.tape import SeededBits

# n Var for rare values, by k and epsilon: direct, unary and hashing alike, subset selection
TABLE = [(4, 1, 1.60, 3.68, 1.60), (16, 1, 5.66, 3.68, 3.11), (1024, 1, 347, 3.68, 3.67), (64, 3, 0.225, 0.221, 0.183)]


@pytest.mark.parametrize(("many", "epsilon", "direct", "unary", "subset"), TABLE)
def test_variances_are_those_of_the_formulas(
    many: int, epsilon: float, direct: float, unary: float, subset: float
) -> None:
    """[WBLJ17, table 1] and [YB18]."""
    found = [kind(range(many), epsilon=epsilon).variance() for kind in (DirectEncoding, UnaryEncoding, SubsetSelection)]
    assert found == pytest.approx([direct, unary, subset], rel=0.005)
    assert LocalHashing(range(many), epsilon=epsilon).variance() == pytest.approx(unary, rel=0.03)


def test_the_best_protocol_depends_on_values_epsilon_and_bytes() -> None:
    assert isinstance(choose(range(4), epsilon=1), DirectEncoding)  # subset selection with sets of one is the same
    assert isinstance(choose(range(64), epsilon=1), SubsetSelection)
    assert isinstance(choose(range(4096), epsilon=1), LocalHashing)  # as good in 9 bytes instead of 512
    assert isinstance(choose(range(64), epsilon=1, most_bytes=7), DirectEncoding)
    assert choose(range(64), epsilon=1) in compare(range(64), epsilon=1).protocols


def test_the_choice_says_why() -> None:
    why = choose(range(64), epsilon=1).why
    assert why.startswith("Subset selection has the least error, in 8 bytes a report. Direct encoding errs 2.49 times")
    assert "Unary encoding errs 1.02 times as much, in 8 bytes." in why
    assert "fits 7 bytes" in choose(range(64), epsilon=1, most_bytes=7).why


def test_a_report_that_cannot_be_so_short_is_refused() -> None:
    with pytest.raises(Misconfigured, match="no report fits"):
        choose(range(1000), epsilon=1, most_bytes=1)


def test_the_comparison_is_a_table() -> None:
    text = str(compare(range(16), epsilon=1))
    assert "direct encoding" in text
    assert "standard error of the share of a rare value" in text


def test_an_estimate_comes_out_in_every_format() -> None:
    protocol = DirectEncoding(["no", "yes"], epsilon=1)
    found = protocol.estimate(protocol.respond(["no"] * 700 + ["yes"] * 300, bits=SeededBits(1)))
    frame = found.to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert frame["value"].tolist() == ["no", "yes"]
    assert json.loads(found.to_json())["rows"][1]["value"] == "yes"
    assert "1,000 reports by direct encoding, epsilon = 1 each" in str(found)
    assert "can move a share by 0.0022; 100 by 0.22." in found.explain()
    assert "can move a share by 0.0022; 100 by 0.22." in found.to_json()
    assert found.share("yes") == pytest.approx(0.3, abs=0.15)
    with pytest.raises(Misconfigured, match="not among"):
        found.share("maybe")
    with pytest.raises(Misconfigured, match="`of`"):
        protocol.estimate(protocol.respond(["no"]), of="all")  # type: ignore[arg-type]


def test_simultaneous_intervals_are_wider() -> None:
    protocol = UnaryEncoding(range(20), epsilon=1)
    found = protocol.estimate(protocol.respond(np.arange(1000) % 20, bits=SeededBits(1)))
    one, all_ = found.interval(3), found.interval(3, simultaneous=True)
    assert all_[0] <= one[0]
    assert one[1] < all_[1]


def test_shares_become_a_distribution() -> None:
    """The nearest distribution: none of a grid is nearer."""
    shares = np.array([0.7, 0.4, -0.2, 0.05])
    found = to_distribution(shares)
    assert found.sum() == pytest.approx(1)
    assert found.min() >= 0
    grid = [
        np.array([a, b, c, 20 - a - b - c]) / 20 for a in range(21) for b in range(21 - a) for c in range(21 - a - b)
    ]
    assert min(np.linalg.norm(shares - other) for other in grid) >= np.linalg.norm(shares - found) - 1e-12
    protocol = DirectEncoding(range(3), epsilon=1)
    estimate = protocol.estimate(protocol.respond([0, 0, 1]))
    assert sum(estimate.distribution().values()) == pytest.approx(1)
    assert sum(estimate.normalized().values()) == pytest.approx(1)


def test_numbers_fall_into_their_bins() -> None:
    """Edges belong to the bin above, the last one to the last bin; what lies outside counts at the ends."""
    ages = histogram([0, 18, 65, 120], epsilon=32)
    values = [-5, 0, 17.9, 18, 64, 65, 120, 500]
    found = ages.estimate(ages.respond(values))
    assert found.protocol.values == ("0 to 18", "18 to 65", "65 to 120")
    assert found.shares == pytest.approx([3 / 8, 2 / 8, 3 / 8], abs=1e-9)


def test_shares_of_bins_are_covered() -> None:
    ages = histogram(range(0, 101, 10), epsilon=1)
    values = np.repeat(np.arange(5, 100, 10), np.arange(1, 11) * 200)
    found = ages.estimate(ages.respond(values, bits=SeededBits(8)), confidence=0.999)
    low, high = found.table().columns[1].low, found.table().columns[1].high
    truth = np.arange(1, 11) / 55
    assert low is not None
    assert high is not None
    assert ((low <= truth) & (truth <= high)).all()


def test_reports_of_other_bins_are_refused() -> None:
    with pytest.raises(Misconfigured, match="another protocol"):
        histogram([0, 1, 2], epsilon=1).estimate(histogram([0, 1, 3], epsilon=1).respond([0.5]))


@pytest.mark.parametrize("edges", [[], [1, 2], [1, 1, 2], [3, 2, 1], "abc", None, 5, [0, 1, float("nan")]])
def test_edges_that_are_none_are_refused(edges: Any) -> None:
    with pytest.raises(Misconfigured, match="`edges`"):
        histogram(edges, epsilon=1)


def test_edges_with_many_digits_have_names_of_their_own() -> None:
    values = histogram([1_000_000, 1_000_001, 1_700_086_400], epsilon=1).protocol.values
    assert values == ("1000000 to 1000001", "1000001 to 1700086400")
