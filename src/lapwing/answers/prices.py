"""The prices of an answer as text, and which of several stored answers can be the best."""

from __future__ import annotations

import json
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from operator import ge
from typing import Any

from lapwing.errors import Bug
from lapwing.planning.plan import Prices
from lapwing.privacy.encoding import decode_loss, encode_loss
from lapwing.privacy.loss import ZCDP, Approximate, Loss, Pure

_Parts = tuple[tuple[str, ...], tuple[Fraction, ...]]
"""The kinds of all numbers of a price, and the numbers."""

_REMEMBERED = 10_000  # terms in memory: questions are compared with all that were paid for them


def prices_out(prices: Prices) -> dict[str, Any]:
    """Prices as JSON. Numbers are texts, so that no reader rounds them."""
    return {
        "measures": [None if share is None else encode_loss(share) for share in prices.measures],
        "selection": None if prices.selection is None else encode_loss(prices.selection),
    }


def prices_in(read: dict[str, Any]) -> Prices:
    """The prices that `prices_out` wrote."""
    measures = tuple(None if share is None else _share(decode_loss(share)) for share in read["measures"])
    return Prices(measures, None if read["selection"] is None else _selection(decode_loss(read["selection"])))


def terms_of(prices: Prices) -> str:
    """The terms under which an answer is stored."""
    return json.dumps(prices_out(prices))


def best_terms(offers: Iterable[str]) -> list[str]:
    """Of the terms of stored answers those that no other one exceeds in every part, in their order.

    More of every part of a price makes no error larger, with one exception (`enough_terms`), so the best answer is
    among them. There are as many as ways to split a price, however many prices were paid.
    """
    kept: list[tuple[str, _Parts]] = []
    for terms in offers:
        parts = _parts(terms)
        if not any(_covers(other, parts) for _, other in kept):
            kept = [(text, other) for text, other in kept if not _covers(parts, other)] + [(terms, parts)]
    return [text for text, _ in kept]


def enough_terms(offers: Iterable[str], asked: str) -> list[str]:
    """Of the terms of stored answers those with at least as much as is asked in every part, in their order.

    Where keys are selected by the better of two mechanisms, more of a price may change to one that shows half of the
    groups sooner and the rest later: then an answer that cost more is not as good, and one of these still may be.
    """
    wanted = _parts(asked)
    return [terms for terms in offers if _covers(_parts(terms), wanted)]


def _covers(one: _Parts, other: _Parts) -> bool:
    return one[0] == other[0] and all(map(ge, one[1], other[1]))


@lru_cache(maxsize=_REMEMBERED)
def _parts(terms: str) -> _Parts:
    read = json.loads(terms)
    losses = [loss for loss in (*read["measures"], read["selection"]) if loss is not None]
    parts = [(kind, Fraction(number)) for kind, *numbers in losses for number in numbers]
    return tuple(kind for kind, _ in parts), tuple(number for _, number in parts)


def _share(loss: Loss) -> Pure | ZCDP:
    if not isinstance(loss, Pure | ZCDP):
        raise Bug("a share of a price is pure or zCDP")
    return loss


def _selection(loss: Loss) -> ZCDP | Approximate:
    if not isinstance(loss, ZCDP | Approximate):
        raise Bug("keys are selected for a delta")
    return loss
