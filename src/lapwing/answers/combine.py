"""Several paid answers to one question as one: their mean, weighted by how exact each is. Post-processing, and free.

Weights.    Functions of prices alone, and the error of the mean: mechanisms/additive/tails.py.
Honest if   the number of answers and their prices were not chosen by looking at the answers: who asks again until a
            number pleases has chosen its noise. Nothing here can see that, so every combined answer says it.
Private     as functions of released numbers are: the prices of all joined answers add up, and all were paid.
Checked by: tests/answers/test_combine.py
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from operator import add
from typing import Any

from lapwing.answers.answer import Release, describe
from lapwing.errors import Bug
from lapwing.expressions.refusal import refuse
from lapwing.mechanisms.additive.tails import WHOLE, Part, mean_error, variance_of, weigh_variances
from lapwing.mechanisms.cells import Cells, narrowed
from lapwing.plan.add_noise import Released
from lapwing.plan.kind import Measure
from lapwing.plan.plan import Outline, Plan, Prices
from lapwing.privacy.loss import Loss

Stored = tuple[int, Plan, Released]
"""One paid answer: its ledger entry, the plan that it was made by, and its noisy cells."""


@dataclass(frozen=True, slots=True)
class JoinedAnswers(Measure):
    """A measure of several answers. `mechanism` is that of the newest; `parts` say how all of them add up."""

    parts: tuple[Part, ...]

    def error(self, confidence: Fraction, *, simultaneous: int = 1) -> Fraction:
        """Half the interval of one cell, or of so many together, in the units of the answer."""
        return mean_error(self.parts, confidence, simultaneous) * self.step

    def mean(self, columns: Sequence[Cells]) -> Cells:
        """The weighted mean of one column of cells, each in steps of its own, rounded to steps; halves up."""
        pairs = zip(self.parts, columns, strict=True)
        total = reduce(add, (column.astype(object) * (part.weight * part.steps) for part, column in pairs))
        return narrowed((total + WHOLE // 2) // WHOLE)


@dataclass(frozen=True, slots=True, eq=False)
class Combined(Release):
    """A released answer that joins several. `entry` and `cost` are those of the newest."""

    joined: tuple[tuple[int, Plan], ...]
    """The ledger entry and the plan of each answer, the newest first."""

    @property
    def entries(self) -> tuple[int, ...]:
        """The ledger entries of the answers that were joined, in their order."""
        return tuple(sorted(entry for entry, _ in self.joined))

    def to_dict(self) -> dict[str, Any]:
        """As for every answer; `joined` says how each answer was made."""
        made = [{"ledger_entry": entry, "measures": describe(plan)} for entry, plan in self.joined]
        plain = Release.to_dict(self)
        del plain["measures"]  # each answer has its own
        return {**plain, "ledger_entries": list(self.entries), "joined": made}

    def methods(self) -> str:
        """A sentence to put into a paper."""
        noise = [self._noise_words(index) for index in range(len(self.plan.measures))]
        return self._methods(f"{self._joined_words()}. Together they", noise, f", {_IF}").strip()

    def _notes(self) -> tuple[str, ...]:
        return (*Release._notes(self), f"{self._joined_words()}. Intervals hold {_IF}.")

    def _warnings(self) -> tuple[str, ...]:
        return (*Release._warnings(self), f"Combined {len(self.joined)} answers; valid {_IF}.")

    def _joined_words(self) -> str:
        return f"Joined {len(self.joined)} answers by inverse variance: ledger entries {_listed(self.entries)}"

    def _noise_words(self, index: int) -> str:
        made = [describe(plan)[index] for _, plan in self.joined]
        scales = _listed([f"{one['scale']:.6g}" for one in made])
        first, asked = made[0], " and ".join(made[0]["aggregates"])
        kind = str(first["mechanism"]).capitalize()
        return f"For {asked} {first['bounding']}, and discrete {kind} noise of scale {scales} is added in each group"


_IF = "if the number of answers and their prices were not chosen by looking at them"


def check_combinable(outline: Outline) -> None:
    """Refuses a question whose answers cannot be combined. Called before the charge."""
    if not outline.question.outputs:
        why = "a distribution and marginals are many counts with one noise, which have no mean yet."
        refuse("not-combinable", "`combine`", why, "Leave `combine` out.")
    if outline.domain is None:
        refuse(
            "not-combinable",
            "`combine`",
            "every answer selects its keys again, so the mean of a group would depend on which answers show it.",
            "Leave `combine` out, or have the steward declare the values of the keys.",
        )
    pairs = zip(outline.question.aggregates, outline.readings, strict=True)
    for aggregate, reading in pairs:
        if outline.kinds[reading.measure].unit_interval is None:
            refuse(
                "not-combinable",
                f"`combine` with {aggregate.words()}",
                "only counts and sums are means of noisy numbers whose error is known beforehand.",
                "Leave `combine` out, or ask for COUNT and SUM alone; SUM(x) / COUNT(x) gives the mean.",
            )


def combined(newest: Release, answers: Sequence[Stored]) -> Combined:
    """All stored answers to the newest one's question, itself among them, as one."""
    ordered = sorted(answers, key=lambda answer: -answer[0])
    plans = [plan for _, plan, _ in ordered]
    measures = tuple(_joined([plan.measures[i] for plan in plans]) for i in range(len(newest.plan.measures)))
    cells = tuple(
        (measure.mean([released.cells[i][0] for _, _, released in ordered]),) for i, measure in enumerate(measures)
    )
    prices = Prices(tuple(_summed([plan.prices.measures[i] for plan in plans]) for i in range(len(measures))))
    plan = Plan(newest.plan.outline, prices, measures, None)
    joined = tuple((entry, made) for entry, made, _ in ordered)
    return Combined(plan, Released((), cells), newest.cost, newest.entry, newest.confidence, joined)


def _joined(measures: Sequence[Measure]) -> JoinedAnswers:
    """One measure of several that differ in price only."""
    noises = [measure.noise for measure in measures]
    step = min(measure.step for measure in measures)
    steps = [measure.step / step for measure in measures]
    if any(ratio.denominator != 1 for ratio in steps) or len({type(noise) for noise in noises}) > 1:
        raise Bug("answers of one question differ in more than their price")
    weights = weigh_variances([variance_of(noise) * ratio**2 for noise, ratio in zip(noises, steps, strict=True)])
    parts = tuple(Part(w, int(ratio), noise) for w, ratio, noise in zip(weights, steps, noises, strict=True))
    return JoinedAnswers(measures[0].kind, step, measures[0].mechanism, parts)


def _summed(shares: Sequence[Loss | None]) -> Loss:
    """What several answers cost together."""
    paid = [share for share in shares if share is not None]
    if len({share.kind for share in paid}) != 1:
        raise Bug("answers of one question have prices of several kinds")
    return reduce(add, paid)


def _listed(words: Sequence[object]) -> str:
    *most, last = map(str, words)
    return f"{', '.join(most)} and {last}" if most else last
