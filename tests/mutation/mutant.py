"""One mistake: a changed line in the code that privacy rests on, and the tests that should notice it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed line."""

    name: str
    file: str
    before: str
    after: str
    why: str
    tests: tuple[str, ...]

    def applied(self, text: str) -> str:
        """The text with the mistake in it."""
        if text.count(self.before) != 1:
            raise ValueError(f"{self.name}: the line is in {self.file} {text.count(self.before)} times, not once")
        return text.replace(self.before, self.after)
