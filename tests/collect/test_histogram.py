"""lapwing.collect.choose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lapwing.collect import histogram
from lapwing.errors import Misconfigured
from support.tape import SeededBits


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
