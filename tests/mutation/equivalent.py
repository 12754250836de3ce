"""Drawn mutants that change nothing a test should notice, with the reason.

The key is the file, the lines taken out and the lines put in, each joined by a space. A test checks that each of them
is still a change of the source, so that the list keeps up with the code.
"""

from __future__ import annotations

EQUIVALENT: dict[tuple[str, str, str], str] = {
    (
        "mechanisms/keys/threshold.py",
        "return float(self._shown_probability(np.array([n]))[0]) if n else 0.0",
        "return float(self._shown_probability(np.array([n]))[(-1)]) if n else 0.0",
    ): "the array has one entry, so its last is its first",
    (
        "plan/query.py",
        'return select(*columns).from_(_kept(self.plan).subquery("r", copy=False), copy=False)',
        "return (select(*columns).from_(_kept(self.plan).subquery('r', copy=False)))",
    ): "sqlglot then copies the subquery before it uses it; the query is the same",
    (
        "numbers.py",
        "bits *= 2",
        "bits *= 3",
    ): "how fast the precision grows until the bounds decide; what is decided stays the same",
    (
        "ledger/store.py",
        "PAGE = 500",
        "PAGE = (499)",
    ): "how many entries are read at a time",
    (
        "mechanisms/additive/calibration.py",
        "low, high = start / 2, 4 * start + 1",
        "low, high = start / 2, (3) * start + 1",
    ): "the upper end of a search that narrows down to the same place",
    (
        "curator/pipeline.py",
        "if not planned.found and check is None:",
        "if False:",
    ): "nothing was found and nothing charged for it, so the answer is replaced by an equal one",
}
