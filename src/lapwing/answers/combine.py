"""Several paid answers to one question as one: their mean, weighted by how exact each is. Post-processing, and free.

Weights.    A cell's noise in answer i has variance v_i, known from its price, and answers are independent, so the mean
            with weights w_i in proportion to 1 / v_i has the least variance, 1 / sum 1 / v_i. They are whole numbers of
            2^-40 that sum to 1 exactly, functions of prices alone: the mean stays unbiased.
Interval.   The mean is off by sum w_i Z_i, whose tail is bounded in mechanisms/additive/tails.py: of Laplace noise for
            a weight and a scale each; of Gaussian noise for one variance v, the least v_i, with weights
            w_i sqrt(v_i / v), which is the same normal law, and what is allowed for discreteness only grows. Narrow
            Gaussian noise, where that allowance is felt, is summed up instead: each w_i Z_i is moved to the
            nearest multiple of g, a small part of the whole's spread, so n of them move the sum by n g / 2 at most,
            and the moved laws are convolved. The mean is rounded to the finest step, of which the truth is a
            multiple: within x becomes within floor(x + 1/2) steps.
Honest if   the number of answers and their prices were not chosen by looking at the answers: who asks again until a
            number pleases has chosen its noise. Nothing here can see that, so every combined answer says it.
Private     as functions of released numbers are: the prices of all joined answers add up, and all were paid.
Checked by: tests/answers/test_combine.py
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, reduce
from operator import add
from typing import Any

import numpy as np

from lapwing.answers.answer import Release, describe
from lapwing.arrays import Floats
from lapwing.cells.release import Cells, Released, narrowed
from lapwing.errors import Bug
from lapwing.language.refusal import refuse
from lapwing.measures.measure import Measure
from lapwing.measures.shapes import Total
from lapwing.mechanisms.additive.gaussian import Gaussian
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.additive.tails import gaussian_tail_bound, laplace_tail_bound
from lapwing.mechanisms.fitting import Noise
from lapwing.planning.plan import Outline, Plan, Prices
from lapwing.privacy.loss import Loss

Stored = tuple[int, Plan, Released]
"""One paid answer: its ledger entry, the plan that it was made by, and its noisy cells."""

_BITS = 40
_WHOLE = 1 << _BITS
_SAFE = 1 + 1e-9  # rounding of float64
_WIDE = 4096**2  # a variance beyond which noise is as good as normal
_FINE = 64  # multiples of g in one standard deviation, for each part
_SPREAD = 13  # standard deviations that are summed over: e^-84 lies beyond
_LEAST, _BLUR = 1e-9, 1e-12  # what sums in float64 can tell from 0, and how far they may be off


@dataclass(frozen=True, slots=True)
class Part:
    """What one answer brings to a cell: whole 2^-40ths of weight, steps of the joined cell to one of its own, noise."""

    weight: int
    steps: int
    noise: Noise


@dataclass(frozen=True, slots=True)
class Joined(Measure):
    """A measure of several answers. `noise` is that of the newest; `parts` say how all of them add up."""

    parts: tuple[Part, ...]

    def error(self, confidence: Fraction, *, simultaneous: int = 1) -> Fraction:
        """Half the interval of one cell, or of so many together, in the units of the answer."""
        return _strays(self.parts, confidence, simultaneous) * self.step

    def mean(self, columns: Sequence[Cells]) -> Cells:
        """The weighted mean of one column of cells, each in steps of its own, rounded to steps; halves up."""
        pairs = zip(self.parts, columns, strict=True)
        total = reduce(add, (column.astype(object) * (part.weight * part.steps) for part, column in pairs))
        return narrowed((total + _WHOLE // 2) // _WHOLE)


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
        table = self.plan.table
        unit = "one row" if table.unit is None else f"all rows of one `{table.unit}`"
        noise = "; ".join(self._noise_words(index) for index in range(len(self.plan.measures)))
        limits = "" if table.by_row else f" Each unit counts in at most {self.plan.groups} groups."
        return (
            f"{self._joined_words()}. Together they are differentially private for adding or removing {unit} of "
            f"`{table.name}` (version {table.version}) at a price of {self.plan.loss}.{limits} {noise}. "
            f"{self._covered(f', {_IF}')}{self._found()}"
        ).strip()

    def _footer(self) -> str:
        return f"{Release._footer(self)}\n{self._joined_words()}. Intervals hold {_IF}."

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
    if outline.domain is None:
        refuse(
            "not-combinable",
            "`combine`",
            "the keys are selected anew in every answer, so a group's mean would depend on where it was shown.",
            "Leave `combine` out, or have the steward declare the values of the keys.",
        )
    pairs = zip(outline.question.aggregates, outline.readings, strict=True)
    for aggregate, reading in pairs:
        shape = outline.shapes[reading.measure]
        if not isinstance(shape, Total) or shape.best is not None:
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


def _joined(measures: Sequence[Measure]) -> Joined:
    """One measure of several that differ in price only."""
    noises = [_additive(measure) for measure in measures]
    step = min(measure.step for measure in measures)
    steps = [measure.step / step for measure in measures]
    if any(ratio.denominator != 1 for ratio in steps) or len({type(noise) for noise in noises}) > 1:
        raise Bug("answers of one question differ in more than their price")
    weights = _weights([_variance(noise) * ratio**2 for noise, ratio in zip(noises, steps, strict=True)])
    parts = tuple(Part(w, int(ratio), noise) for w, ratio, noise in zip(weights, steps, noises, strict=True))
    return Joined(measures[0].shape, step, noises[0], parts)


def _additive(measure: Measure) -> Noise:
    if not isinstance(measure.noise, Laplace | Gaussian):
        raise Bug("these cells have no additive noise")
    return measure.noise


def _weights(variances: Sequence[Fraction]) -> list[int]:
    """In proportion to 1 / variance, in whole 2^-40ths that sum to 1; the first of the largest takes what is left."""
    least = min(variances)
    exact = [least / variance for variance in variances]
    weights = [math.floor(part * _WHOLE / sum(exact)) for part in exact]
    weights[weights.index(max(weights))] += _WHOLE - sum(weights)
    return weights


def _summed(shares: Sequence[Loss | None]) -> Loss:
    """What several answers cost together."""
    paid = [share for share in shares if share is not None]
    if len({share.kind for share in paid}) != 1:
        raise Bug("answers of one question have prices of several kinds")
    return reduce(add, paid)


@lru_cache(maxsize=1024)
def _strays(parts: tuple[Part, ...], confidence: Fraction, simultaneous: int) -> int:
    """How many steps one mean, or any of so many, is off at most with this probability."""
    if len(parts) == 1:
        return parts[0].noise.error(confidence, simultaneous=simultaneous)
    outside = float((1 - confidence) / simultaneous)
    weights = np.array([part.weight / _WHOLE * part.steps for part in parts])
    if isinstance(parts[0].noise, Gaussian):
        variances = [_variance(part.noise) for part in parts]
        wider = np.array([math.sqrt(variance / min(variances)) for variance in variances])
        found = gaussian_tail_bound(weights * wider, min(variances), outside)
        if max(variances) <= _WIDE and outside >= _LEAST:
            found = min(found, _summed_up(weights, [float(variance) for variance in variances], outside))
    else:
        found = laplace_tail_bound(weights, np.array([_scale(part.noise) for part in parts]), outside)
    return math.floor(found * _SAFE + 0.5)


def _summed_up(weights: Floats, variances: Sequence[float], outside: float) -> float:
    """An x with P[|sum w_i Z_i| > x] <= outside for discrete Gaussian Z_i, by convolution on multiples of g."""
    kinds = Counter((weight, v) for weight, v in zip(weights.tolist(), variances, strict=True) if weight)
    std, parts = math.sqrt(sum(k * w * w * v for (w, v), k in kinds.items())), kinds.total()
    fine = _FINE * min(parts, _FINE)
    g, size = std / fine, 1 << (2 * _SPREAD * fine).bit_length()
    waves = np.ones(size // 2 + 1, np.complex128)
    for (weight, v), times in kinds.items():
        z = np.arange(-(top := math.ceil(_SPREAD * math.sqrt(v)) + 1), top + 1)
        mass = np.exp(-(z * z) / (2 * v))
        law = np.bincount(np.rint(z * (weight / g)).astype(np.int64) % size, mass / mass.sum(), minlength=size)
        waves *= np.fft.rfft(law) ** times
    law = np.maximum(np.fft.irfft(waves, size), 0.0)[: size // 2]
    above = 2 * np.cumsum(law[::-1])[::-1]  # P[|sum| >= i g] for i >= 1; the law is symmetric
    first = int(np.argmax(above[1:] <= outside - _BLUR))
    return (first + parts / 2) * g


def _variance(noise: Noise) -> Fraction:
    return noise.variance if isinstance(noise, Gaussian) else Fraction(0.5 / math.sinh(0.5 / _scale(noise)) ** 2)


def _scale(noise: Noise) -> float:
    """Of Laplace noise; below 1/600 it is 0 for all that floats can tell, and wider noise strays no less."""
    return max(float(noise.scale), 1 / 600)


def _listed(words: Sequence[object]) -> str:
    *most, last = map(str, words)
    return f"{', '.join(most)} and {last}" if most else last
