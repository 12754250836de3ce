"""One JSON line for every request: who, what, the outcome and its price. No data, no token, no time but the grid's.

Question texts are logged only if the steward says so: an analyst may write a name into one.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from datetime import UTC, datetime

from lapwing.noise import SYSTEM

LOGGER = logging.getLogger("lapwing.server")


@dataclass(slots=True)
class LogLine:
    """What is known of a request so far."""

    method: str
    route: str = "unknown"
    token: str | None = None
    status: int = 0
    code: str | None = None
    price: str | None = None
    left_after: float | None = None
    """The place on the grid at which the answer left, in seconds; None if it left at once."""
    question: str | None = None

    def write(self) -> None:
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        facts = {"at": at, "method": self.method, "route": self.route, "status": self.status, "token": self.token}
        facts |= {"code": self.code, "price": self.price, "left_after": self.left_after}
        LOGGER.info(json.dumps(facts if self.question is None else {**facts, "question": self.question}))


def note_incident(error: BaseException) -> str:
    """A number for a failure that nobody foresaw. The log gets its kind: its words may hold data."""
    incident = f"{SYSTEM.integer(48):012x}"
    LOGGER.error(json.dumps({"incident": incident, "kind": type(error).__name__}))
    return incident
