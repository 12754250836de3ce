"""A released answer as bytes for the ledger, and back: price and step of each part, the shown keys, the noisy cells.

JSON that says its format and its kind. `FORMAT` changes as CONTRIBUTING.md says.
Checked by: tests/answers/test_payload.py, tests/answers/test_stored.py
"""

from __future__ import annotations

import json
from datetime import date, datetime
from fractions import Fraction
from typing import Any, assert_never

from lapwing.answers.prices import prices_in, prices_out
from lapwing.arrays import objects
from lapwing.errors import Bug, LedgerFailed
from lapwing.expressions.types import Type, Value
from lapwing.plan.noise import Released
from lapwing.plan.plan import Outline, Plan, priced
from lapwing.plan.units_exceeding import CheckResult, check_result
from lapwing.privacy.loss import decode_loss

FORMAT = 1


def write_payload(kind: str, **facts: Any) -> bytes:
    """The facts of an answer of this kind. Exact numbers are texts, so that no reader rounds them."""
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
    """The answer as JSON. Numbers are texts, so that no reader rounds them."""
    return write_payload(
        "cells",
        **prices_out(plan.prices),
        steps=[str(measure.step) for measure in plan.measures],
        **({"labels": labels} if any(labels := [kind.labels for kind in plan.outline.kinds]) else {}),
        keys=[[_value_out(value) for value in key] for key in released.keys],
        cells=[[[str(value) for value in column.tolist()] for column in cells] for cells in released.cells],
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
    if read["steps"] != [str(measure.step) for measure in plan.measures]:
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
