"""A released answer as bytes for the ledger, and back: price and step of each part, the shown keys, the noisy cells.

Its prices as text are the terms under which it is stored; they say which of several stored answers can be the best.
`FORMAT` changes as CONTRIBUTING.md says.
Checked by: tests/answers/test_payload.py, tests/answers/test_stored.py, tests/answers/test_prices.py
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import date, datetime
from fractions import Fraction
from functools import lru_cache
from operator import attrgetter, ge
from typing import Any, assert_never

from lapwing.arrays import objects
from lapwing.errors import Bug, LedgerFailed
from lapwing.expressions.types import Type, Value
from lapwing.plan.add_noise import Released
from lapwing.plan.plan import Outline, Plan, Prices, priced
from lapwing.plan.units_exceeding import CheckResult, check_result
from lapwing.privacy.loss import decode_loss

_Parts = tuple[tuple[str, ...], tuple[Fraction, ...]]
"""The kinds of all numbers of a price, and the numbers."""

_CACHED = 10_000  # terms in memory: questions are compared with all that were paid for them

FORMAT = 1
_STEP, _LABELS = attrgetter("step"), attrgetter("labels")


def write_payload(kind: str, **facts: Any) -> bytes:
    """The facts of an answer of this kind as JSON. Exact numbers are texts, so that no reader rounds them."""
    return json.dumps({"format": FORMAT, "kind": kind, **facts}).encode()


def read_payload(kind: str, payload: bytes) -> dict[str, Any]:
    """The facts that `write_payload` wrote; refused if they are in another format or of another kind."""
    facts: dict[str, Any] = json.loads(payload)
    written = facts.get("format"), facts.get("kind")
    if written != (FORMAT, kind):
        raise LedgerFailed(
            f"A stored answer is in format {written[0]}, and this version of Lapwing reads format {FORMAT}. "
            "Open the ledger with the version that stored the answer, or pay for a new one with refresh=True."
        )
    return facts


def encode(plan: Plan, released: Released) -> bytes:
    """The answer as a payload."""
    return write_payload(
        "cells",
        **prices_out(plan.prices),
        steps=list(map(str, map(_STEP, plan.measures))),
        **({"labels": labels} if any(labels := list(map(_LABELS, plan.outline.kinds))) else {}),
        keys=[list(map(_value_out, key)) for key in released.keys],
        cells=[[list(map(str, column.tolist())) for column in cells] for cells in released.cells],
    )


def decode(outline: Outline, payload: bytes) -> tuple[Plan, Released]:
    """The answer, and the plan that it was made by; the cells are read in the steps in which they were stored."""
    read = read_payload("cells", payload)
    kinds = [key.type for key in outline.question.keys]
    pairs = zip(read["keys"], kinds, strict=True) if outline.domain is None else ()
    keys = tuple(objects([_value_in(v, kind) for v in key]) for key, kind in pairs)
    stored = zip(outline.kinds, read["cells"], strict=True)
    cells = tuple(tuple(map(kind.decode, columns)) for kind, columns in stored)
    plan = priced(outline, prices_in(read))
    if read["steps"] != list(map(str, map(_STEP, plan.measures))):
        raise Bug("a stored answer has other steps than its question has now; ask again with refresh=True")
    return plan, Released(keys, cells)


def decode_check(payload: bytes) -> CheckResult:
    """The result of a check, whatever its limits were: they are stored with it."""
    read = read_payload("cells", payload)
    ((counts,),), (labels,), (price,) = read["cells"], read["labels"], read["measures"]
    return check_result(decode_loss(price), labels, counts)


def _value_out(value: Value) -> Any:
    match value:
        case None | bool() | str():
            return value
        case int() | Fraction():
            return str(value)
        case date():
            return value.isoformat()
        case _:
            assert_never(value)


def _value_in(value: Any, kind: Type | None) -> Value:
    if value is None:
        return None
    match kind:
        case Type.INTEGER:
            return int(value)
        case Type.DATE:
            return date.fromisoformat(value)
        case Type.TIMESTAMP:
            return datetime.fromisoformat(value)
        case _:
            return value  # type: ignore[no-any-return]


def prices_out(prices: Prices) -> dict[str, Any]:
    """Prices, ready for JSON."""
    return {
        "measures": [None if share is None else share.encode() for share in prices.measures],
        "selection": None if prices.selection is None else prices.selection.encode(),
    }


def prices_in(read: dict[str, Any]) -> Prices:
    *measures, selection = [share and decode_loss(share) for share in (*read["measures"], read["selection"])]
    if any(share is not None and share.delta for share in measures) or (selection is not None and not selection.delta):
        raise Bug("a delta is the price of keys, and of nothing else")
    return Prices(tuple(measures), selection)


def terms_of(prices: Prices) -> str:
    """The terms under which an answer is stored."""
    return json.dumps(prices_out(prices))


def best_terms(offers: Iterable[str]) -> list[str]:
    """Of the terms of stored answers those that no other one exceeds in every part, in their order.

    More of every part of a price makes no error larger, except in `enough_terms`, so the best answer is among them.
    """
    best: list[str] = []
    for terms in offers:
        parts = _parts(terms)
        if not any(_covers(_parts(other), parts) for other in best):
            best = [other for other in best if not _covers(parts, _parts(other))] + [terms]
    return best


def enough_terms(offers: Iterable[str], asked: str) -> list[str]:
    """Of the terms of stored answers those with at least as much as is asked in every part, in their order.

    Where keys are selected by the better of two mechanisms, more of a price may change to one that shows half of the
    groups sooner and the rest later: then an answer that cost more is not as good, and one of these still may be.
    """
    wanted = _parts(asked)
    return [terms for terms in offers if _covers(_parts(terms), wanted)]


def _covers(offered: _Parts, asked: _Parts) -> bool:
    return offered[0] == asked[0] and all(map(ge, offered[1], asked[1]))


@lru_cache(maxsize=_CACHED)
def _parts(terms: str) -> _Parts:
    read = json.loads(terms)
    losses = [loss for loss in (*read["measures"], read["selection"]) if loss is not None]
    parts = [(kind, Fraction(number)) for kind, *numbers in losses for number in numbers]
    return tuple(kind for kind, _ in parts), tuple(number for _, number in parts)
