"""Errors as problem details (RFC 9457). None contains data: errors of the curator are made of the question and of
declarations (errors.py), and these are constant sentences."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, get_args

from lapwing.errors import (
    NOTHING,
    AnswerLost,
    BudgetExceeded,
    Code,
    DataChanged,
    EngineFailed,
    LapwingError,
    Misconfigured,
    Refused,
)
from lapwing.privacy.budget import Cost

MEDIA_TYPE = "application/problem+json"


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """One kind of problem: its status, what it means, and what to do."""

    status: int
    why: str
    instead: str


KINDS = {
    "unauthorized": ProblemKind(
        401, "There is no valid token.", "Send the header `Authorization: Bearer lw_...`; ask the steward for a token."
    ),
    "signed-out": ProblemKind(401, "You are not signed in, or your session has ended.", "Sign in at /console/sign-in."),
    "forbidden": ProblemKind(
        403, "This token has no right to do that.", "Ask the steward for a token of another role."
    ),
    "not-found": ProblemKind(404, "There is no such thing here.", "See /v1/openapi.json for what there is."),
    "not-served": ProblemKind(
        404,
        "A session that watches for a threshold lives in one process and dies with it, so it is not served.",
        "Ask for the counts themselves, or have the steward run `curator.watch` beside the data.",
    ),
    "method-not-allowed": ProblemKind(405, "This address takes another method.", "See /v1/openapi.json."),
    "key-running": ProblemKind(
        409, "A request with this key is being answered.", "Send it again after the seconds that Retry-After names."
    ),
    "answer-lost": ProblemKind(
        409,
        "This request was charged before, and its answer was lost. It stays charged and is not run again.",
        "Use a new Idempotency-Key to pay for a new answer.",
    ),
    "preview-changed": ProblemKind(
        409, "The preview has expired, or what it showed has changed since.", "Preview it again."
    ),
    "too-slow": ProblemKind(408, "The request took too long to arrive.", "Send it in one piece."),
    "too-many-bytes": ProblemKind(413, "The request is larger than 1 MB.", "Send a shorter question."),
    "unsupported-body": ProblemKind(
        415,
        "A body must be JSON and must not be compressed.",
        "Send `Content-Type: application/json`, no Content-Encoding.",
    ),
    "invalid-request": ProblemKind(
        422, "The request is not of the form that this address takes.", "See /v1/openapi.json."
    ),
    "key-reused": ProblemKind(422, "This Idempotency-Key was used for another request.", "Use a new key."),
    "preview-invalid": ProblemKind(
        422, "This preview is not one that this server gave you for this request.", "Preview it again."
    ),
    "rate-limited": ProblemKind(429, "You ask too often.", "Wait for the seconds that Retry-After names."),
    "busy": ProblemKind(
        503, "The server has too much to do.", "Send it again after the seconds that Retry-After names."
    ),
    "data-changed": ProblemKind(
        503,
        "The data are not those of the version that was declared last, so nothing is answered.",
        "The steward declares a new `version`; or starts this server again, if another one declared it.",
    ),
    "still-running": ProblemKind(
        503,
        "The answer takes longer than a request may. It goes on, and is stored when it is done; if it was charged, it "
        "stays charged.",
        "Send it again later, with the same Idempotency-Key if it had one.",
    ),
}
"""The problems of the server itself. Those of questions have the codes of docs/errors.md."""

_STATUS: tuple[tuple[type[LapwingError], int], ...] = ((Refused, 422), (BudgetExceeded, 409), (Misconfigured, 422))
STATUSES = (401, 403, 404, 408, 409, 413, 415, 422, 429, 503)
"""Every status of a problem that a documented operation can have."""
CODES = (*KINDS, *get_args(Code))


class ServerProblem(Exception):
    """A problem of the server itself. Nothing was charged for the request, unless `charged` says how much at most.

    `again` if a request with the same key may have been charged before, and by how much is not known here."""

    def __init__(
        self,
        code: str,
        *,
        part: str | None = None,
        retry_after: int | None = None,
        charged: Cost | None = None,
        again: bool = False,
    ) -> None:
        super().__init__(code)
        self.code, self.part, self.retry_after = code, part, retry_after
        self.charged, self.again = charged, again


@dataclass(frozen=True, slots=True)
class ProblemDetails:
    """One problem, ready to be sent."""

    code: str
    status: int
    detail: str
    part: str | None = None
    why: str | None = None
    instead: str | None = None
    charged: Cost | None = None
    retry_after: int | None = None
    asked: Cost | None = None
    """The price that did not fit the budget."""

    def to_bytes(self, remaining: Cost | None = None) -> bytes:
        """As JSON, with what is left of the budget if that is known."""
        fields: dict[str, Any] = {
            "type": f"/problems/{self.code}",
            "title": self.code.replace("-", " "),
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
            "part": self.part,
            "why": self.why,
            "instead": self.instead,
            "charged": amounts(self.charged),
            "remaining": amounts(remaining),
        }
        fields |= {} if self.asked is None else {"asked": amounts(self.asked)}
        return json.dumps(fields).encode()


def of_server(problem: ServerProblem) -> ProblemDetails:
    kind = KINDS[problem.code]
    where = "" if problem.part is None else f" It is about {problem.part}."
    detail = f"{kind.why}{where} {kind.instead}"
    if problem.charged is not None:
        detail += f" It is charged at most {problem.charged}, once."
    elif problem.again:
        detail += " What it was charged before stays charged: see /v1/budget."
    elif problem.code not in ("answer-lost", "still-running"):
        detail += f" {NOTHING}"
    facts = (problem.code, kind.status, detail, problem.part, kind.why, kind.instead)
    return ProblemDetails(*facts, problem.charged, problem.retry_after)


def of_error(error: LapwingError) -> ProblemDetails:
    if isinstance(error, DataChanged):
        return of_server(ServerProblem("data-changed"))
    if isinstance(error, AnswerLost):
        return replace(of_server(ServerProblem("answer-lost")), charged=error.charged)
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 503)
    asked = getattr(error, "asked", None)
    facts = (error.code, status, str(error), error.part, error.why, error.instead, error.charged)
    return ProblemDetails(*facts, asked=asked if isinstance(asked, Cost) else None)


def of_bug(incident: str) -> ProblemDetails:
    """The details of an unexpected failure. Its cause may hold data: only the log has its class."""
    detail = (
        f"Something failed that should not (incident {incident}). What was charged stays charged: see /v1/budget. "
        "This is a fault of Lapwing; please report it."
    )
    return ProblemDetails("bug", 503, detail)


def is_final(error: Exception) -> bool:
    """Whether a retry under the same key gets the same problem again: rows were read, and nothing is stored."""
    return isinstance(error, EngineFailed)


def amounts(cost: Cost | None) -> dict[str, float] | None:
    return None if cost is None else {cost.unit: float(cost.amount), "delta": float(cost.delta)}
