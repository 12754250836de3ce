"""From a server's problem details (RFC 9457) to the errors that the curator raises, with the same fields and words.

A problem of the server itself, such as a token that is not valid, is a `NotServed` with the server's code.
Checked by: tests/client/test_problems.py
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, get_args

from lapwing.errors import (
    NOTHING,
    AnswerLost,
    BudgetExceeded,
    Bug,
    Code,
    DataChanged,
    EngineFailed,
    Halted,
    LapwingError,
    LedgerFailed,
    Misconfigured,
    NotServed,
    Refused,
    Unfinished,
)
from lapwing.privacy.budget import Cost, read_cost

_MESSAGES = (AnswerLost, DataChanged, Halted, LedgerFailed, Misconfigured)
_PLAIN: dict[str, type[LapwingError]] = {kind.code: kind for kind in _MESSAGES}
"""Errors that consist of a message."""
_INCIDENT = re.compile(r"\bincident ([0-9a-f]+)\b")


def error_of(status: int, body: Mapping[str, Any], key: str | None) -> LapwingError:
    """The error that a server tells of."""
    code, detail = body.get("code"), body.get("detail")
    if not isinstance(code, str) or not isinstance(detail, str):
        return NotServed(
            "not-a-server",
            f"What answers there (status {status}) is not a Lapwing server, or something stands before it. "
            f"Check the address.{'' if key is None else f' The retry key was {key}.'}",
        )
    error = _made(code, detail, body)
    error.charged = _cost(body.get("charged"))
    if key is not None and status in (409, 503) and isinstance(error, NotServed) and code != "answer-lost":
        error.more = f"Its retry key is {key!r}."
    return error


def _made(code: str, detail: str, body: Mapping[str, Any]) -> LapwingError:
    part, why, instead = (_text(body.get(name)) for name in ("part", "why", "instead"))
    incident = _INCIDENT.search(detail)
    if code == BudgetExceeded.code:
        return BudgetExceeded(why, instead, asked=_cost(body.get("asked")), remaining=_cost(body.get("remaining")))
    if code == EngineFailed.code and incident is not None:
        return EngineFailed(incident[1])
    if code == Unfinished.code:
        return Unfinished()
    if code == Bug.code:
        return Bug(detail.removesuffix(f" {NOTHING}"), free=detail.endswith(NOTHING))
    if code in _PLAIN:
        return _PLAIN[code](detail)
    if code in get_args(Code) and part and why:
        return Refused(code, part, why, instead)  # type: ignore[arg-type]
    served = NotServed(code, detail)
    served.part, served.why, served.instead = part or None, why or None, instead or None
    return served


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _cost(amounts: Any) -> Cost | None:
    return read_cost(amounts) if isinstance(amounts, Mapping) else None
