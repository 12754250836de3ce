"""Losses as texts: exact, and the same when they come back."""

from __future__ import annotations

from fractions import Fraction

import pytest

from lapwing.errors import Bug
from lapwing.privacy.loss import ZCDP, Approximate, BoundedRange, Loss, Pure, decode_loss

THIRD = Fraction(1, 3)


@pytest.mark.parametrize(
    ("loss", "texts"),
    [
        (Pure(THIRD), ("pure", "1/3", "1/18")),
        (Pure(1, Fraction(1, 8)), ("pure", "1", "1/8")),
        (BoundedRange(2), ("bounded range", "2")),
        (ZCDP(THIRD), ("zcdp", "1/3", "0")),
        (ZCDP(1, Fraction(1, 10**30)), ("zcdp", "1", f"1/{10**30}")),
        (Approximate(1, THIRD), ("approximate", "1", "1/3")),
    ],
    ids=str,
)
def test_a_loss_comes_back_as_it_was(loss: Loss, texts: tuple[str, ...]) -> None:
    assert loss.encode() == texts
    assert decode_loss(list(texts)) == loss


def test_an_unknown_kind_is_a_bug() -> None:
    with pytest.raises(Bug, match="no loss is of kind renyi"):
        decode_loss(["renyi", "1"])
