"""Every error that Lapwing raises on purpose.

LapwingError
├── Misconfigured    a parameter or a steward's file breaks a rule; the message names the rule and the next step
│   └── DataChanged  the data are not those that their version was declared for; nothing is answered
├── Refused          the question cannot be answered privately; says which part, why, what to write instead
│   └── PriceChanged the price is above what was agreed to; it was not charged
├── BudgetExceeded   the charge does not fit; it was not made; carries `asked` and `remaining`
├── Halted           a running mechanism has given all the answers that were paid for
├── EngineFailed     the engine failed after the charge; constant text and an incident number
├── Unfinished       what is computed from released numbers took too long; they are stored, and asking again is free
├── LedgerFailed     the ledger could not be read or written; no answer is given, and no charge is taken back
│   └── AnswerLost   a question was charged under this key before, and its answer was lost; it is never run again
├── NotServed        a server did not take the request: its token, its rate, its form; says why and what to do
├── Disconnected     a server did not answer; carries the retry key, with which asking again is not paid twice
├── StoreFailed      the reports of a survey could not be read or written; none is acknowledged
└── Bug              Lapwing broke its own rule; please report it

Each has a `code` for programs, which docs/errors.md lists, and `charged`, what stays charged for the failed request.
Two warnings: `WeakBudget`, a budget that promises almost nothing, and `TemporaryBudget`, one that no file keeps.
A message to an analyst never contains data.
"""

from __future__ import annotations

import textwrap
import traceback
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal

Code = Literal[
    "ambiguous",
    "answer-lost",
    "bounds-too-wide",
    "constant-answer",
    "constant-key",
    "data-changed",
    "delta-not-available",
    "delta-not-needed",
    "delta-too-small",
    "disconnected",
    "duplicate-name",
    "join-not-on-key",
    "join-not-on-unit",
    "keys-not-public",
    "misplaced-aggregate",
    "no-such-guarantee",
    "not-a-server",
    "not-a-question",
    "not-aggregated",
    "not-combinable",
    "not-one-select",
    "not-watchable",
    "price-changed",
    "price-out-of-range",
    "private-rows",
    "public-rows",
    "real-key",
    "released-numbers",
    "row-choice",
    "search-needs-epsilon",
    "syntax",
    "too-large",
    "too-many-groups",
    "unbounded-groups",
    "unbounded-rows",
    "unbounded-value",
    "unit-as-value",
    "unit-grouping",
    "unknown-column",
    "unknown-table",
    "unreadable-characters",
    "unsupported-clause",
    "unsupported-function",
    "unsupported-join",
    "unsupported-union",
    "useless-answer",
    "within-incomplete",
    "within-unattainable",
    "within-unsupported",
    "wrong-argument",
    "wrong-type",
    "bug",
    "budget-exceeded",
    "engine-failed",
    "halted",
    "ledger-failed",
    "misconfigured",
    "output-failed",
    "store-failed",
    "unfinished",
]
"""The kinds of error, for programs."""

_HERE = Path(__file__).parent
_WIDTH = 96  # of the box in a notebook

NOTHING = "Nothing was charged."
STAYS = "Search results are stored and remain charged; the answer was not charged."


class LapwingError(Exception):
    """The root of all errors raised by Lapwing."""

    code: Code = "bug"
    part: str | None = None
    """The part of the question that failed."""
    why: str | None = None
    instead: str | None = None
    """What to write instead."""
    charged: Any = None
    """The `Cost` that stays charged for the failed request; None if nothing was charged."""
    more: str | None = None
    """An extra sentence at the end of the message."""

    def __str__(self) -> str:
        return " ".join(filter(None, (self._message(), self.more)))

    def _message(self) -> str:
        return super().__str__()

    def _render_traceback_(self) -> list[str]:
        """The box that a notebook (IPython) shows: the line that called Lapwing and the message, without frames."""
        frames = traceback.extract_tb(self.__traceback__)
        outside = list(takewhile(lambda frame: _HERE not in Path(frame.filename).parents, frames))
        caller = [f"line {frame.lineno}: {frame.line}" for frame in outside[-1:]]
        title, texts = f"{type(self).__name__}: {self.code}", [*caller, *str(self).split("\n")]
        lines = [line for text in texts for line in textwrap.wrap(text, _WIDTH) or [""]]
        return [
            f"╭─ {title} {'─' * (_WIDTH - 1 - len(title))}╮",
            *(f"│ {line.ljust(_WIDTH)} │" for line in lines),
            f"╰{'─' * (_WIDTH + 2)}╯",
        ]

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        price = self.charged and {self.charged.unit: float(self.charged.amount), "delta": float(self.charged.delta)}
        reasons = {"part": self.part, "why": self.why, "instead": self.instead, "charged": price or None}
        return {"error": type(self).__name__, "code": self.code, "message": str(self), **reasons}


class Misconfigured(LapwingError, ValueError):
    """A parameter breaks a rule. The message says what was given, the rule and the next step."""

    code: Code = "misconfigured"

    def __init__(self, message: str, *, located: bool = False) -> None:
        super().__init__(message)
        self.located = located
        """Whether the message already names the file and the key."""


class DataChanged(Misconfigured):
    """The data are not those that their version was declared for."""

    code: Code = "data-changed"


class Refused(LapwingError):
    """The question cannot be answered privately. It depends on the question and on declared facts, never on rows."""

    part: str
    why: str
    instead: str

    def __init__(self, code: Code, part: str, why: str, instead: str, undeclared: str = "") -> None:
        super().__init__(code, part, why, instead, undeclared)
        self.code, self.part, self.why, self.instead = code, part, why, instead
        self.rewrite, self.undeclared = instead, undeclared
        """What to write without these facts, which the steward could declare."""
        if undeclared:
            self.instead = f"{instead}, or have the steward declare {undeclared}."

    def _message(self) -> str:
        return f"{self.part}: {self.why} {self.instead} {STAYS if self.charged else NOTHING}".replace("\n ", "\n")


class PriceChanged(Refused):
    """The price is above what was agreed to; carries `asked`, what it is now. It was not charged."""

    def __init__(self, code: Code, part: str, why: str, instead: str, *, asked: Any) -> None:
        super().__init__(code, part, why, instead)
        self.asked = asked


class BudgetExceeded(LapwingError):
    """The charge does not fit the remaining budget. It was not made."""

    code: Code = "budget-exceeded"
    why: str
    instead: str

    def __init__(self, why: str, instead: str, *, asked: object, remaining: object, owner: str | None = None) -> None:
        super().__init__(why, instead)
        self.why, self.instead, self.asked, self.remaining, self.owner = why, instead, asked, remaining, owner
        """The analyst whose allowance is too small; None for the whole budget."""

    def _message(self) -> str:
        return f"{self.why} {STAYS if self.charged else NOTHING} {self.instead}"


class Halted(LapwingError):
    """A running mechanism was used after it gave its last answer."""

    code: Code = "halted"


class EngineFailed(LapwingError):
    """The engine failed after the charge was made. The cause is in the operator's log only."""

    code: Code = "engine-failed"

    def __init__(self, incident: str) -> None:
        super().__init__(f"The engine could not finish this question (incident {incident}). The price stays charged.")
        self.incident = incident


class Unfinished(LapwingError):
    """The steps above the release took too long, or too much memory. The released numbers are stored."""

    code: Code = "unfinished"

    def __init__(self) -> None:
        super().__init__(
            "What is computed from the released numbers takes too long or too much memory. The released parts are "
            "stored: asking again for them is free. Write a simpler statement, or compute it from their answers."
        )


class LedgerFailed(LapwingError):
    """The ledger could not be read or written. The message says why and what to do; no answer is given."""

    code: Code = "ledger-failed"


class NotServed(LapwingError):
    """A server did not take the request. The code is the server's; what was charged is in `charged`."""

    code: Code = "not-a-server"

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code  # type: ignore[assignment]  # servers have codes of their own


class Disconnected(LapwingError):
    """A server did not answer, however often it was asked. Whether it was charged is not known; `key` finds out."""

    code: Code = "disconnected"

    def __init__(self, address: str, key: str | None) -> None:
        again = "" if key is None else f" If it was charged, asking again with key={key!r} brings its answer, unpaid."
        rule = "Check the address, https:// or http://, and that it runs."
        super().__init__(f"The server at {address} does not answer. {rule}{again}")
        self.key = key


class StoreFailed(LapwingError):
    """The reports of a survey could not be read or written. What was not acknowledged may be sent again."""

    code: Code = "store-failed"


class AnswerLost(LedgerFailed):
    """What was charged under a key has no stored answer. It stays charged, and is not run again."""

    code: Code = "answer-lost"


class WeakBudget(UserWarning):
    """The epsilon or delta of a budget is so large that it promises almost nothing."""


class TemporaryBudget(UserWarning):
    """The budget of a frame is in memory, and ends with the process."""


class Bug(LapwingError):
    """Lapwing broke a rule of its own; `free` if it did so before the charge."""

    def __init__(self, message: str, *, free: bool = False) -> None:
        super().__init__(message)
        self.free = free

    def _message(self) -> str:
        return f"{super()._message()} {STAYS if self.charged else NOTHING}" if self.free else super()._message()

    def _render_traceback_(self) -> list[str]:
        """All frames, for the bug report."""
        return traceback.format_exception(self)
