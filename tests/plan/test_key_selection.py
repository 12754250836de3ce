"""lapwing.plan.key_selection."""

from __future__ import annotations

from fractions import Fraction

import pytest

from lapwing.mechanisms.keys.selection import TruncatedGeometric
from lapwing.mechanisms.keys.threshold import GaussianThreshold, LaplaceThreshold, WeightedGaussian
from lapwing.plan.key_selection import choose_selection, selection_words, units_needed
from lapwing.privacy.loss import ZCDP, Approximate

RHO, EPSILON = ZCDP(Fraction(1, 10), Fraction(1, 10**6)), Approximate(Fraction(1), Fraction(1, 10**5))


@pytest.mark.parametrize(
    ("loss", "groups", "counted", "kind", "needed"),
    [
        (RHO, 1, False, WeightedGaussian, (12, 16)),
        (RHO, 10, False, WeightedGaussian, (38, 50)),
        (RHO, 50, False, WeightedGaussian, (88, 114)),
        (RHO, 10, True, GaussianThreshold, (38, 50)),
        (EPSILON, 1, False, TruncatedGeometric, (12, 14)),
        (EPSILON, 1, True, LaplaceThreshold, (12, 15)),
        (EPSILON, 50, False, WeightedGaussian, (135, 179)),
    ],
)
def test_size_of_group_is_told_for_units_in_as_many_groups_as_they_may_be(
    loss: ZCDP | Approximate, groups: int, counted: bool, kind: type, needed: tuple[int, int]
) -> None:
    """The sizes that preview and methods state; for WeightedGaussian by its own `probability` at the least weight."""
    selection = choose_selection(loss, groups, counted=counted)
    assert type(selection) is kind
    assert units_needed(selection) == needed
    assert f"a group of {needed[0]} units is shown about every second time" in selection_words(selection)
    if isinstance(selection, WeightedGaussian):
        for units, chance in zip(needed, (0.5, 0.95), strict=True):
            least = selection.weight(groups)
            assert selection.probability(units * least) >= chance > selection.probability((units - 1) * least)
