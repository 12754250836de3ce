"""Every error that Lapwing raises on purpose.

LapwingError
├── Misconfigured    a parameter or a steward's file breaks a rule; the message names the rule and the next step
├── Refused          the question cannot be answered privately; says which part, why, what to write instead
├── BudgetExceeded   the charge does not fit; nothing was charged; carries `asked` and `remaining`
├── Halted           a running mechanism has given all the answers it paid for
├── EngineFailed     the engine failed after the charge; constant text and an incident number
├── LedgerFailed     the ledger could not be read or written; no answer is given, and no charge is taken back
└── Bug              Lapwing broke its own rule; please report it

`WeakBudget` is the only warning: a budget that promises next to nothing.
A message to an analyst never contains data.
"""

from __future__ import annotations


class LapwingError(Exception):
    """The root of all errors raised by Lapwing."""


class Misconfigured(LapwingError, ValueError):
    """A parameter breaks a rule. The message says what was given, the rule and the next step."""


class Refused(LapwingError):
    """The question cannot be answered privately. Nothing was charged."""


class BudgetExceeded(LapwingError):
    """The charge does not fit into what remains. Nothing was charged."""

    def __init__(self, message: str, *, asked: object, remaining: object) -> None:
        super().__init__(message)
        self.asked = asked
        self.remaining = remaining


class Halted(LapwingError):
    """A running mechanism was used after it gave its last answer."""


class EngineFailed(LapwingError):
    """The engine failed after the charge was made. The cause is in the operator's log only."""

    def __init__(self, incident: str) -> None:
        super().__init__(f"The engine could not finish this question (incident {incident}). The price stays charged.")
        self.incident = incident


class LedgerFailed(LapwingError):
    """The ledger could not be read or written. The message says why and what to do; no answer is given."""


class WeakBudget(UserWarning):
    """A budget was made whose epsilon or delta is so large that it promises next to nothing."""


class Bug(LapwingError):
    """Lapwing broke a rule of its own."""
