"""Drawn mutants that change nothing a test should notice, with the reason.

Each is found by its syntax, as planned mutants are. A test checks that it is still a change of the source that can be
drawn, so that the list keeps up with the code.
"""

from __future__ import annotations

import ast
import functools

from syntax import Mistake

EQUIVALENT: dict[Mistake, str] = {
    Mistake(
        "CountThreshold.probability",
        "self._shown_probability(np.array([n]))[0]",
        "self._shown_probability(np.array([n]))[-1]",
    ): "the array has one entry, so its last is its first",
    Mistake(
        "UnitRows.select",
        'select(*columns).from_(_kept(self.plan).subquery("r", copy=False), copy=False)',
        'select(*columns).from_(_kept(self.plan).subquery("r", copy=False))',
    ): "sqlglot then copies the subquery before it uses it; the query is the same",
    Mistake("decide", "bits *= 2", "bits *= 3"): (
        "how fast the precision grows until the bounds decide; what is decided stays the same"
    ),
    Mistake("PAGE", "500", "499"): "how many entries are read at a time",
    Mistake(
        "_discrete_guess", "4 * start + 1", "3 * start + 1"
    ): "the upper end of a search that narrows down to the same place",
    Mistake("Pipeline._answer", "not planned.found and checked is None", "False"): (
        "nothing was found and nothing charged for it, so the answer is replaced by an equal one"
    ),
}


@functools.cache
def known() -> dict[tuple[str, str], str]:
    """The reasons, by the file and the syntax of its text with the mistake in it."""
    found = ((mistake.applied(), reason) for mistake, reason in EQUIVALENT.items())
    return {(file, ast.dump(ast.parse(text))): reason for (file, text), reason in found}
