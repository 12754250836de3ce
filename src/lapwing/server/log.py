"""One JSON line for every request: who, what, the outcome and its price. No data, tokens or exact times.

Question texts are logged only if the steward says so: an analyst may write a name into one.

Guarantee:  whatever a request holds, it makes one line, of ASCII characters and of less than 16 KB.
Proof:      JSON writes everything outside ASCII, quotes and control characters as escapes, so no text ends its line or
            its string. All that a request decides are its method and its question, and both are cut. Docker and
            journald break longer lines in two, of which the second would begin where the request says.
Checked by: tests/server/test_log.py
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from datetime import UTC, datetime

from lapwing.errors import LapwingError
from lapwing.noise import SYSTEM

LOGGER = logging.getLogger("lapwing.server")
_LONGEST = 12_000  # characters of a question as it is written, and 12 for each of those that are left
_METHOD = 20


@dataclass(slots=True)
class LogLine:
    """The log entry of a request so far."""

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
        method = self.method if len(self.method) <= _METHOD else "other"
        facts = {"at": at, "method": method, "route": self.route, "status": self.status, "token": self.token}
        facts |= {"code": self.code, "price": self.price, "left_after": self.left_after}
        LOGGER.info(json.dumps(facts if self.question is None else {**facts, "question": _cut(self.question)}))


class JsonLines(logging.Formatter):
    """Lines of the server as they are; those of the web server as JSON, without the words of an error."""

    def format(self, record: logging.LogRecord) -> str:
        if record.name == LOGGER.name:
            return record.getMessage()
        kind = None if record.exc_info is None or record.exc_info[0] is None else record.exc_info[0].__name__
        return json.dumps({"web_server": _cut(record.getMessage()), "level": record.levelname, "kind": kind})


def _cut(text: str) -> str:
    if len(json.dumps(text)) <= _LONGEST:
        return text
    return f"{text[: _LONGEST // 12]} ... ({len(text):,} characters)"


def note_incident(error: BaseException) -> str:
    """A number for an unexpected failure. The log gets its class only: its message may hold data."""
    incident = f"{SYSTEM.integer(48):012x}"
    LOGGER.error(json.dumps({"incident": incident, "kind": type(error).__name__}))
    return incident


def note_failed_start(error: LapwingError) -> None:
    """Logs why a worker could not start; this message is for the steward and holds no data."""
    LOGGER.error(json.dumps({"failed": "start", "code": error.code, "why": str(error)}))
