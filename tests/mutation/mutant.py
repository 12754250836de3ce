"""One mistake in the code that privacy rests on, and the tests that should notice it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from syntax import Mistake, normal


@dataclass(frozen=True, slots=True)
class Mutant:
    """One mistake, found by its syntax."""

    name: str
    where: str
    before: str
    after: str
    why: str
    tests: tuple[str, ...]

    @property
    def mistake(self) -> Mistake:
        return Mistake(self.where, self.before, self.after)

    @property
    def mark(self) -> str:
        """Tells whether it is still the mistake that was tried: a hash of the code taken out and put in."""
        return hashlib.sha256(f"{normal(self.before)}\0{normal(self.after)}".encode()).hexdigest()[:12]
