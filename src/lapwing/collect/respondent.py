"""What a respondent keeps between visits: the reports that were sent, never the answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from lapwing.collect.local import LocalProtocol
from lapwing.errors import Misconfigured
from lapwing.privacy.loss import Pure


class Respondent:
    """One respondent of a survey. The first answer to a question stands: asked again, the same report is sent.

    Guarantee:  all that is ever sent is one report a question, so it loses the sum of the questions' epsilons, however
                often a question is asked and whatever is answered the second time (threat:A33 averaging). A changed
                answer is never sent; a device that asks under a new name, or stops, after a change shows the change.
    Proof:      `answer` randomizes only if it holds no report to the question, and keeps the one it made before it is
                returned.
    Checked by: tests/collect/test_respondent.py
    """

    def __init__(self, kept: Mapping[str, tuple[str, str, str]] | None = None) -> None:
        self._kept: dict[str, tuple[str, str, str]] = dict(kept or {})

    def answer(self, question: str, protocol: LocalProtocol, value: Any) -> bytes:
        """The report to a question: the one that was sent before, or a new one of this value."""
        if question not in self._kept:
            report: bytes = protocol.respond(value)
            self._kept[question] = (protocol.name.hex(), str(protocol.epsilon), report.hex())
        name, _, report_hex = self._kept[question]
        if name != protocol.name.hex():
            raise Misconfigured(f"{question!r} was asked before by another protocol. Give a new question a new name.")
        return bytes.fromhex(report_hex)

    @property
    def loss(self) -> Pure | None:
        """What all reports together lose; None before the first."""
        spent = [Fraction(epsilon) for _, epsilon, _ in self._kept.values()]
        return Pure(sum(spent, Fraction(0))) if spent else None

    def to_json(self) -> str:
        """What is kept, as text. It holds reports only."""
        return json.dumps({"format": 1, "reports": self._kept}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Respondent:
        """A respondent that resumes from a saved state."""
        try:
            state = json.loads(text)
            kept = {str(name): (str(a), str(b), str(c)) for name, (a, b, c) in state["reports"].items()}
            version = state["format"]
        except (ValueError, TypeError, KeyError, AttributeError):
            raise Misconfigured("This text holds no reports of a respondent. Pass what to_json() gave.") from None
        if version != 1:
            raise Misconfigured("These reports were kept in a format that this version does not know.")
        return cls(kept)
