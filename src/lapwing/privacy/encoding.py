"""A loss as texts and back, exactly. What is stored with an answer or told apart by its price is written so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import assert_never

from lapwing.errors import Bug
from lapwing.privacy.loss import ZCDP, Approximate, BoundedRange, Loss, Pure

Texts = tuple[str, ...]
"""The kind of a loss, then its numbers as fractions."""

_MAKERS: dict[str, Callable[..., Loss]] = {
    "pure": Pure,
    "bounded range": BoundedRange,
    "zcdp": ZCDP,
    "approximate": Approximate,
}


def encode_loss(loss: Loss) -> Texts:
    """The loss as texts."""
    match loss:
        case Pure(epsilon=epsilon, rho=rho):
            return "pure", str(epsilon), str(rho)
        case BoundedRange(epsilon=epsilon):
            return "bounded range", str(epsilon)
        case ZCDP(rho=rho, delta=delta):
            return "zcdp", str(rho), str(delta)
        case Approximate(epsilon=epsilon, delta=delta):
            return "approximate", str(epsilon), str(delta)
        case _:
            assert_never(loss)


def decode_loss(texts: Sequence[str]) -> Loss:
    """The loss that `encode_loss` wrote."""
    kind, *numbers = texts
    if kind not in _MAKERS:
        raise Bug(f"no loss is of kind {kind}")
    return _MAKERS[kind](*map(Fraction, numbers))
